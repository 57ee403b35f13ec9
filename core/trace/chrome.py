"""The records of several processes as one trace in the JSON trace event format: Perfetto and Chrome show it.

Times are microseconds since the first of the trace, on the collector's clock. Every process has a row for its slow
turns and one for its device; waits and pieces of KV are asynchronous slices below it. The row `requests` has one lane
for each request of a router, and one for each attempt on each executor and at the scheduler, under the request's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from baton.core.trace.lanes import Lane, closing_lane
from baton.core.trace.steps import StepRecord, steps

REQUESTS_PID = 1
LOOP, DEVICE = 1, 2  #: rows of a process
ORDER = {role: place for place, role in enumerate(("router", "scheduler", "prefill", "decode", "unified"))}

Event = dict[str, Any]


class ProcessTrace(NamedTuple):
    """What one process recorded."""

    name: str
    role: str
    now: float  #: its clock when it was asked
    records: Sequence[Sequence[Any]]
    unfinished: Sequence[Sequence[Any]] = ()  #: closing lines of what was under way then, as records
    offset_s: float = 0.0  #: what its clock lacks to the collector's
    error_s: float = 0.0  #: by how much at most that is wrong
    num_forgotten: int = 0  #: records that were older than its memory when it was asked


def chrome_trace(processes: Sequence[ProcessTrace]) -> dict[str, Any]:
    """The whole trace, ready to be written as JSON. Processes are shown in the order of a request's way."""
    processes = sorted(processes, key=lambda process: (ORDER.get(process.role, len(ORDER)), process.name))
    events = [event for number, process in enumerate(processes) for event in _events(process, number + 2)]
    events.sort(key=lambda event: event["ts"])  # stable: what happens at once keeps the order that lanes need
    base = events[0]["ts"] if events else 0.0
    for event in events:
        event["ts"] -= base
    clocks = {p.name: {"offset_us": p.offset_s * 1e6, "error_us": p.error_s * 1e6} for p in processes}
    forgotten = {p.name: p.num_forgotten for p in processes if p.num_forgotten}
    told = {"clock_base_s": base / 1e6, "clocks": clocks, "forgotten_records": forgotten}
    return {"traceEvents": [*_names(processes), *events], "displayTimeUnit": "ms", "otherData": told}


def _names(processes: Sequence[ProcessTrace]) -> Iterator[Event]:
    yield _meta(REQUESTS_PID, "process_name", name="requests")
    yield _meta(REQUESTS_PID, "process_sort_index", sort_index=0)
    for pid, process in enumerate(processes, 2):
        yield _meta(pid, "process_name", name=process.name)
        yield _meta(pid, "process_sort_index", sort_index=pid)
        error = f"clock {process.offset_s * 1e6:+.0f} µs, known to {process.error_s * 1e6:.0f} µs"
        yield _meta(pid, "process_labels", labels=f"{process.role}, {error}")
        yield _meta(pid, "thread_name", LOOP, name="loop: slow turns")
        for lane in sorted({step.lane for step in steps(process.records)}):
            yield _meta(pid, "thread_name", DEVICE + lane, name=f"device: steps{f', lane {lane}' if lane else ''}")


def _events(process: ProcessTrace, pid: int) -> Iterator[Event]:
    maker = _Maker(process, pid)
    for record in process.records:
        make = maker.by_kind.get(record[0])
        if make is not None:
            yield from make(record)
    for record in process.unfinished:
        make_last = maker.span if record[0] == "span" else maker.note
        yield from make_last(record, is_over=False)
    yield from maker.device()
    yield from maker.pieces_in_flight()


class _Maker:
    """Makes the events of one process. Keeps what is needed to match the ends of pieces with their posts."""

    def __init__(self, process: ProcessTrace, pid: int) -> None:
        self.by_kind = {
            "turn": self._turn,
            "post": self._post,
            "landed": self._landed,
            "failed": self._failed,
            "note": self.note,
            "span": self.span,
        }
        self._process = process
        self._pid = pid
        self._posts: dict[int, tuple[str, int, float]] = {}  #: by piece: peer, bytes, when it was handed over
        self._num_spans = 0

    def note(self, record: Sequence[Any], is_over: bool = True) -> Iterator[Event]:
        """A lane for a closing line, a point in time for any other note."""
        lane = closing_lane(record, self._process.name, is_over)
        if lane is not None:
            yield from self._lane(lane)
            return
        _, at, what, request_id, attempt, reason, peer, numbers, why = record
        args = _told(request=_id(request_id), attempt=attempt, reason=reason, peer=peer, why=why) | numbers
        yield self._event("i", at, what, "note", s="p", tid=LOOP, args=args)

    def span(self, record: Sequence[Any], is_over: bool = True) -> Iterator[Event]:
        """A slice among the process's waits."""
        _, _, what, since, ended_at, reason, until, ended_by, request_id, attempt = record
        self._num_spans += 1
        args = _told(reason=reason, ended_by=ended_by, request=_id(request_id), attempt=attempt)
        if until:
            args["until_us"] = (until - since) * 1e6  # from its beginning: as far as it would have gone by itself
        if not is_over:
            args["unfinished"] = True
        yield from self._async(what, "wait", f"wait {self._num_spans}", since, max(since, ended_at), args)

    def device(self) -> Iterator[Event]:
        """Steps of a lane one after the other, as long as the device says and as early as they can have run: not before
        their launch nor before the end of the last one. Those that run end with the trace."""
        ends: dict[int, float] = {}
        for step in steps(self._process.records):
            heard_at = self._process.now if step.done_at is None else step.done_at
            begin = heard_at - step.duration_s if step.launched_at is None else step.launched_at
            begin = min(max(begin, ends.get(step.lane, 0.0)), heard_at)
            end = min(heard_at, begin + step.duration_s) if step.duration_s else heard_at
            name = "broken step" if step.broken else step.kind or "step"
            duration_us, args = (end - begin) * 1e6, _step_args(step, begin, end)
            yield self._event("X", begin, name, "step", tid=DEVICE + step.lane, dur=duration_us, args=args)
            ends[step.lane] = end

    def pieces_in_flight(self) -> Iterator[Event]:
        """Posted and not heard of when the process was asked."""
        for piece_id in sorted(self._posts):
            peer, num_bytes, at = self._posts[piece_id]
            args = {"bytes": num_bytes, "unfinished": True}
            yield from self._async(f"KV to {peer}", "kv", str(piece_id), at, self._process.now, args)

    def _turn(self, record: Sequence[Any]) -> Iterator[Event]:
        _, at, duration_s, event, num_commands = record
        args = {"commands": num_commands}
        yield self._event("X", at, event, "turn", tid=LOOP, dur=duration_s * 1e6, args=args)

    def _post(self, record: Sequence[Any]) -> Iterator[Event]:
        _, at, peer, pieces = record
        for piece_id, num_bytes in pieces:
            self._posts[piece_id] = (peer, num_bytes, at)
        args = {"peer": peer, "pieces": len(pieces), "bytes": sum([num_bytes for _, num_bytes in pieces])}
        yield self._event("i", at, "post", "kv", s="t", tid=LOOP, args=args)

    def _landed(self, record: Sequence[Any]) -> Iterator[Event]:
        _, at, piece_id, posted_at, post_s = record
        peer, num_bytes, handed_at = self._posts.pop(piece_id, ("?", 0, posted_at))
        begin = min(posted_at or handed_at, at)
        waited_ms = max(0.0, begin - handed_at) * 1e3
        args = {"bytes": num_bytes, "post_ms": post_s * 1e3, "waited_ms": waited_ms}
        yield from self._async(f"KV to {peer}", "kv", str(piece_id), begin, at, args)

    def _failed(self, record: Sequence[Any]) -> Iterator[Event]:
        _, at, piece_id = record
        peer, num_bytes, handed_at = self._posts.pop(piece_id, ("?", 0, at))
        args = {"bytes": num_bytes, "failed": True}
        yield from self._async(f"KV to {peer}", "kv", str(piece_id), handed_at, at, args)

    def _lane(self, lane: Lane) -> Iterator[Event]:
        cat, lane_id = f"request.{self._process.name}", f"{_id(lane.request_id)}.{lane.attempt}"
        place = {"id": lane_id, "pid": REQUESTS_PID, "tid": LOOP}
        name = f"{_id(lane.request_id)} {lane.name}"
        yield self._event("b", lane.begin, name, cat, **place, args=lane.args)
        for stage, begin, end in lane.stages:
            yield self._event("b", begin, stage, cat, **place, args={})
            yield self._event("e", end, stage, cat, **place, args={})
        for mark, at in lane.marks:
            yield self._event("n", at, mark, cat, **place, args={})
        yield self._event("e", lane.end, name, cat, **place, args={})

    def _async(self, name: str, cat: str, own_id: str, begin: float, end: float, args: Event) -> Iterator[Event]:
        place = {"id": f"{self._process.name} {own_id}", "tid": LOOP}
        yield self._event("b", begin, name, cat, **place, args=args)
        yield self._event("e", end, name, cat, **place, args={})

    def _event(self, phase: str, at: float, name: str, cat: str, **fields: Any) -> Event:
        ts = (at + self._process.offset_s) * 1e6
        return {"ph": phase, "ts": ts, "name": name, "cat": cat, "pid": self._pid, **fields}


def _meta(pid: int, what: str, tid: int = 0, **args: Any) -> Event:
    return {"ph": "M", "ts": 0, "name": what, "pid": pid, "tid": tid, "args": args}


def _step_args(step: StepRecord, begin: float, end: float) -> Event:
    args: Event = {
        "step": step.step_id,
        "decodes": step.num_decodes,
        "prompt_tokens": step.num_prompt_tokens,
        "items": step.num_items,
        "padded_batch": step.padded_batch,
        "device_ms": step.duration_s * 1e3,
    }
    if step.launched_at is not None:
        args["queued_ms"] = max(0.0, begin - step.launched_at) * 1e3
    if step.done_at is None:
        args["unfinished"] = True
    else:
        args["heard_ms"] = max(0.0, step.done_at - end) * 1e3  # after its end: what the loop was busy with
    return args | _told(broken=step.broken)


def _told(**args: Any) -> Event:
    return {name: value for name, value in args.items() if value not in ("", 0)}


def _id(request_id: int) -> str:
    """As logs have it, and as text: it has more digits than a viewer's numbers. Empty for none."""
    return str(request_id) if request_id else ""
