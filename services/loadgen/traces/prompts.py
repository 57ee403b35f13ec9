"""Prompts as they are: JSON lines with `prompt` or `messages`, and if known `max_tokens` and `at` (s)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from baton.services.loadgen.traces.lines import Seconds, broken, decode_line, numbered_lines
from baton.services.loadgen.traces.records import TraceRecord


class _Line(msgspec.Struct, frozen=True):
    prompt: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    at: Seconds | None = None


class _Message(msgspec.Struct, frozen=True):
    """What every message has; the rest is the server's business."""

    role: str


def read_prompts(path: Path) -> Iterator[TraceRecord]:
    """Raises BadTrace. Messages are kept as they were written."""
    decoder = msgspec.json.Decoder(_Line)
    messages_decoder = msgspec.json.Decoder(Annotated[list[_Message], msgspec.Meta(min_length=1)])
    has_times: bool | None = None
    for number, line in numbered_lines(path):
        request = decode_line(decoder, path, number, line)
        messages = "" if request.messages is msgspec.UNSET else bytes(request.messages).decode()
        if (request.prompt is None) == (not messages):
            raise broken(path, number, "prompt, messages: one of the two is needed, and not both")
        if messages:
            try:
                messages_decoder.decode(messages)
            except msgspec.DecodeError as error:
                raise broken(path, number, f"messages: {error}") from None
        if has_times is None:
            has_times = request.at is not None
        elif has_times != (request.at is not None):
            raise broken(path, number, "at: either every line has it or none")
        yield TraceRecord(
            at_s=request.at, max_tokens=request.max_tokens or 0, text=request.prompt or "", messages_json=messages
        )
