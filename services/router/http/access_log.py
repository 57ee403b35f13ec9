"""One log line for each HTTP request, with the client's own id beside ours."""

from __future__ import annotations

import contextvars
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

LOG = logging.getLogger("baton.router.access")
PROBES = ("/health", "/ready", "/metrics")  #: asked every few seconds: told only at the debug level
PLACEMENT_HEADER = "X-Baton-Placement"
TRACE_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Entry(msgspec.Struct):
    """What the line says; filled while the request runs."""

    trace_id: str  #: the client's X-Request-Id, for tracing only: nothing is looked up by it
    method: str
    path: str
    began_at: float
    reply_id: str = ""
    request: int = 0  #: as all other lines call it
    status: int = 0
    code: str = ""  #: why it failed
    tenant: str = ""  #: whose API key it came with
    user: str = ""
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    num_cached_tokens: int = 0
    num_attempts: int = 0
    placement: str = ""  #: why the prompt was computed where it was

    def headers(self) -> dict[str, str]:
        """Headers of every answer: the client's id as it came, or ours. There is one even if nothing was generated, by
        which a client can ask. And why the prompt was computed where it was, once that is known."""
        self.reply_id = self.reply_id or f"req_{secrets.token_hex(12)}"
        placement = {PLACEMENT_HEADER: self.placement} if self.placement else {}
        return {"X-Request-Id": self.trace_id or self.reply_id, **placement}


#: of the request that the current task handles
CURRENT: contextvars.ContextVar[Entry] = contextvars.ContextVar("entry")


def new_entry(method: str, path: str, headers: Mapping[str, str]) -> Entry:
    """Of a request that came now."""
    trace_id = headers.get("X-Request-Id", "")
    return Entry(trace_id if TRACE_ID.fullmatch(trace_id) else "", method, path, time.monotonic())


def path_of(request: web.BaseRequest) -> str:
    """The whole of what was asked for where that has no path, as with CONNECT."""
    return request.path or request.raw_path


def begin_entry(request: web.BaseRequest) -> Entry:
    """Of the request that the current task handles from here on."""
    entry = new_entry(request.method, path_of(request), request.headers)
    CURRENT.set(entry)
    return entry


class _AsJson:
    """Written down only where somebody reads the message."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return msgspec.json.encode(self._fields).decode()


def write_entry(entry: Entry) -> None:
    """Fields go both into the message (as JSON) and into the record's `fields`."""
    level = logging.DEBUG if entry.path in PROBES else logging.INFO
    if not LOG.isEnabledFor(level):
        return
    fields = msgspec.structs.asdict(entry)
    fields["duration_s"] = round(time.monotonic() - fields.pop("began_at"), 6)
    # made here and not by `LOG.log`, which would look through the stack for a line of code that says nothing
    record = LOG.makeRecord(LOG.name, level, __file__, 0, "http_request %s", (_AsJson(fields),), None)
    record.fields = fields
    LOG.handle(record)
