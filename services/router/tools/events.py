"""What a parser of model output tells: text, and the calls in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TypeAlias

import msgspec


class TextDelta(msgspec.Struct, frozen=True):
    """Text for the client, verbatim."""

    text: str


class CallBegun(msgspec.Struct, frozen=True):
    """Call `index` (0, 1, …, in order) of the function `name`, whether the request offers it or not."""

    index: int
    name: str


class ArgumentsDelta(msgspec.Struct, frozen=True):
    """The next piece of the arguments' JSON. All pieces of a complete call make one JSON object."""

    index: int
    json_text: str


class CallEnded(msgspec.Struct, frozen=True):
    """Nothing more comes for this call. Not complete: it broke off, what came is the beginning of an object."""

    index: int
    is_complete: bool


ToolEvent: TypeAlias = TextDelta | CallBegun | ArgumentsDelta | CallEnded


def _kind(event: ToolEvent) -> tuple[type[ToolEvent], int]:
    return type(event), -1 if isinstance(event, TextDelta) else event.index


def merged(events: Iterable[ToolEvent]) -> list[ToolEvent]:
    """The same events with neighbouring pieces of one text, or of one call's arguments, joined."""
    result: list[ToolEvent] = []
    for (kind, index), group in groupby(events, _kind):
        if kind is TextDelta:
            result.append(TextDelta("".join(event.text for event in group if isinstance(event, TextDelta))))
        elif kind is ArgumentsDelta:
            pieces = (event.json_text for event in group if isinstance(event, ArgumentsDelta))
            result.append(ArgumentsDelta(index, "".join(pieces)))
        else:
            result.extend(group)
    return result
