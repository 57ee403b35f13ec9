"""What every trace must be: valid events of the format, lanes that open and close, times that are times."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

Event = dict[str, Any]

FIELDS = {"M": {"args"}, "X": {"dur", "tid"}, "i": {"s", "tid"}, "b": {"id"}, "e": {"id"}, "n": {"id"}}


def check_trace(trace: dict[str, Any]) -> None:
    """Fails where a viewer would show nonsense."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    before = 0.0
    for event in trace["traceEvents"]:
        kind = event["ph"]
        assert FIELDS[kind] <= set(event), event
        assert isinstance(event["name"], str), event
        assert event["name"], event
        assert isinstance(event["pid"], int), event
        assert math.isfinite(event["ts"]), event
        assert event["ts"] >= before, event
        before = event["ts"]
        if kind == "X":
            assert event["dur"] >= 0, event
    check_lanes(trace["traceEvents"])
    check_rows(trace["traceEvents"])


def check_lanes(events: list[Event]) -> None:
    """Asynchronous slices of one lane are nested: what began last ends first."""
    open_slices: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for event in events:
        lane = event["pid"], event.get("cat", ""), event.get("id", "")
        if event["ph"] == "b":
            open_slices[lane].append(event["name"])
        elif event["ph"] == "e":
            assert open_slices[lane].pop() == event["name"], event
        elif event["ph"] == "n":
            assert open_slices[lane], event
    assert not any(open_slices.values())


def check_rows(events: list[Event]) -> None:
    """Slices of one row do not overlap."""
    ends: dict[tuple[int, int], float] = defaultdict(float)
    for event in events:
        if event["ph"] == "X":
            row = event["pid"], event["tid"]
            assert event["ts"] >= ends[row] - 0.01, event  # microseconds, of times with rounded last digits
            ends[row] = event["ts"] + event["dur"]


def lanes(trace: dict[str, Any]) -> dict[tuple[str, str], dict[str, float]]:
    """By process and request: when each mark was reached; `begin` and `end` are the lane's own. Of attempts 0 alone."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for event in trace["traceEvents"]:
        if not event.get("cat", "").startswith("request."):
            continue
        process, (request, _, attempt) = event["cat"].removeprefix("request."), event["id"].partition(".")
        if attempt != "0":
            continue
        lane = found[process, request]
        if event["ph"] == "n":
            lane[event["name"]] = event["ts"]
        elif event["ph"] == "b" and event["name"].startswith(request):
            lane["begin"] = event["ts"]
        elif event["ph"] == "e" and event["name"].startswith(request):
            lane["end"] = event["ts"]
    return dict(found)
