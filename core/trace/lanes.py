"""From the closing line of a request or an attempt to its lane: stages one after the other, and all of its marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """How the numbers of one kind of closing line are read: stages follow each other, each ends with its mark."""

    name: str
    begins: str  #: the number that is a time on the clock; marks are milliseconds after it
    stages: tuple[tuple[str, str], ...]  #: stage and the mark that ends it


SHAPES = {
    "request ended": Shape(
        "request",
        "arrived_s",
        (("queued", "placed"), ("prefill", "first_token"), ("transfer", "handed_over"), ("decode", "ended")),
    ),
    "placed": Shape("placement", "queued_s", (("queued", "placed"), ("hand-off", "handed_over"))),
    "waits": Shape("placement", "queued_s", ()),
    "prefill ended": Shape(
        "prefill", "admitted_s", (("queued", "launched"), ("prefill", "computed"), ("transfer", "landed"))
    ),
    "decode ended": Shape(
        "decode",
        "admitted_s",
        (
            ("reserved", "first_chunk"),
            ("transfer", "landed"),
            ("activation", "activated"),
            ("scheduling", "launched"),
            ("decode", "last_token"),
        ),
    ),
    "run ended": Shape(
        "run", "admitted_s", (("queued", "launched"), ("prefill", "computed"), ("decode", "last_token"))
    ),
}


DURATIONS = frozenset({"post"})  #: milliseconds that something took, and no mark


class Lane(NamedTuple):
    """Times are on the clock of the process that said it."""

    name: str
    request_id: int
    attempt: int
    begin: float
    end: float
    stages: tuple[tuple[str, float, float], ...]  #: in order, inside of the lane, none overlaps another
    marks: tuple[tuple[str, float], ...]  #: in the order of time
    args: dict[str, Any]


def closing_lane(note: Sequence[Any], process: str, is_over: bool = True) -> Lane | None:
    """The lane of a note's record; None if it closes nothing."""
    _, at, what, request_id, attempt, reason, peer, numbers, why = note
    shape = SHAPES.get(what)
    if shape is None or shape.begins not in numbers:
        return None
    begin = numbers[shape.begins]
    marks = {mark: begin + numbers[f"{mark}_ms"] / 1e3 for mark in _marks_of(numbers)}
    end = max([at, begin, *marks.values()])
    stages, before = [], begin
    for stage, mark in shape.stages:
        if mark in marks:
            until = max(before, marks[mark])
            stages.append((stage, before, until))
            before = until
    others = {name: value for name, value in numbers.items() if name.removesuffix("_ms") not in {*marks, shape.begins}}
    args: dict[str, Any] = {"request": str(request_id), "attempt": attempt, "process": process, **others}
    args |= {name: value for name, value in (("reason", reason), ("peer", peer), ("why", why)) if value}
    if not is_over:
        args["unfinished"] = True
    in_order = tuple(sorted(marks.items(), key=lambda mark: mark[1]))
    name = f"{shape.name} on {process}"
    return Lane(name, request_id, attempt, begin, end, tuple(stages), in_order, args)


def _marks_of(numbers: dict[str, float]) -> list[str]:
    names = [name.removesuffix("_ms") for name in numbers if name.endswith("_ms")]
    return [name for name in names if name not in DURATIONS]
