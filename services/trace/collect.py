"""Finds the processes of a deployment, asks each what it recorded, and how its clock differs from this one's.

The clock of another host is asked several times; of the exchange that took least, the answer is taken to lie in its
middle, so it is wrong by half of that time at most. Processes of one host have one clock.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from baton.core.errors import ServingError
from baton.core.trace.chrome import ProcessTrace
from baton.services.loadgen.run_preflight import cause_of_http
from baton.services.runtime.process import RunRecord
from baton.services.runtime.tracing import Clock, Snapshot, boot_id
from baton.services.up.supervisor import RUN_PREFIX

NUM_EXCHANGES = 16
TIMEOUT_S = 30.0


class NothingToTrace(ServingError):
    """There is no process to ask, or none that answers."""


class Offset(NamedTuple):
    """What another clock lacks to this one, and by how much at most that is wrong."""

    offset_s: float
    error_s: float


class Exchange(NamedTuple):
    """One question after the time, on this clock, and the answer, on the other."""

    asked_at: float
    heard_at: float
    answer: float

    @property
    def offset(self) -> Offset:
        middle = (self.asked_at + self.heard_at) / 2
        return Offset(middle - self.answer, (self.heard_at - self.asked_at) / 2)


def best_offset(exchanges: Iterable[Exchange]) -> Offset:
    """Of the exchange that took least."""
    return min((exchange.offset for exchange in exchanges), key=lambda offset: offset.error_s)


def offset_of(exchanges: Iterable[Exchange], has_same_clock: bool) -> Offset:
    """None at all where both say that they have one clock, and what was measured does not contradict them."""
    measured = best_offset(exchanges)
    if has_same_clock and abs(measured.offset_s) <= measured.error_s:
        return Offset(0.0, 0.0)
    return measured


def urls_in(folder: Path) -> list[str]:
    """Admin endpoints of all processes that have said where they are in this run folder."""
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(msgspec.json.decode(path.read_bytes(), type=RunRecord))
        except (OSError, msgspec.DecodeError):
            continue  # gone meanwhile, or none of ours
    urls = [f"http://127.0.0.1:{record.admin_port}" for record in records if record.admin_port]
    if not urls:
        raise NothingToTrace(f"no process has said in {folder} where it is")
    return urls


def newest_run_folder(parent: Path | None = None) -> Path:
    """Of the deployments that `baton up` runs here for this user. Raises NothingToTrace."""
    parent = parent or Path(tempfile.gettempdir())
    folders = [f for f in parent.glob(f"{RUN_PREFIX}[0-9]*-*") if f.is_dir() and f.stat().st_uid == os.getuid()]
    if not folders:
        raise NothingToTrace("`baton up` does not run here; name the processes with --run-folder or --url")
    return max(folders, key=lambda folder: folder.stat().st_mtime)


async def collect(urls: Iterable[str], seconds: float, warn: Callable[[str], None]) -> list[ProcessTrace]:
    """What all that answer recorded in the last `seconds`. Raises NothingToTrace when none does."""
    async with ClientSession(timeout=ClientTimeout(total=TIMEOUT_S)) as session:
        asked = [_ask(session, url.rstrip("/"), seconds) for url in urls]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    found = []
    for url, answer in zip(urls, answers, strict=True):
        if isinstance(answer, ProcessTrace):
            found.append(answer)
        elif isinstance(answer, TimeoutError):
            warn(f"{url}: no answer within {TIMEOUT_S:g} s")
        elif isinstance(answer, ClientError):
            warn(f"{url}: {cause_of_http(answer)}")
        elif isinstance(answer, NothingToTrace | msgspec.DecodeError | ValueError):
            warn(f"{url}: {answer or type(answer).__name__}")
        else:
            raise answer
    if not found:
        raise NothingToTrace("no process answers")
    return found


async def _ask(session: ClientSession, url: str, seconds: float) -> ProcessTrace:
    snapshot = msgspec.json.decode(await _get(session, f"{url}/trace?seconds={seconds}"), type=Snapshot)
    exchanges, own_boot_id, clock = [], boot_id(), Clock(0.0, "")
    for _ in range(NUM_EXCHANGES):
        asked_at = time.monotonic()
        answer = await _get(session, f"{url}/clock")
        heard_at = time.monotonic()
        clock = msgspec.json.decode(answer, type=Clock)
        exchanges.append(Exchange(asked_at, heard_at, clock.now))
    offset = offset_of(exchanges, bool(own_boot_id) and clock.boot_id == own_boot_id)
    return ProcessTrace(
        snapshot.name,
        snapshot.role,
        snapshot.now,
        snapshot.records,
        snapshot.unfinished,
        offset.offset_s,
        offset.error_s,
        snapshot.num_forgotten,
    )


async def _get(session: ClientSession, url: str) -> Any:
    async with session.get(url) as answer:
        body = await answer.read()
        if answer.status != 200:
            raise NothingToTrace(f"{answer.status} {body.decode(errors='replace').strip():.200}")
        return body
