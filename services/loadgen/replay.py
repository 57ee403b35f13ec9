"""A trace as the requests of a plan: at its own times at any speed, or at others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from baton.services.loadgen.arrivals import ArrivalKind
from baton.services.loadgen.content import ContentKind
from baton.services.loadgen.draws import Purpose, generator
from baton.services.loadgen.lengths import draw_tokens
from baton.services.loadgen.load_errors import MAX_REQUESTS, BadLoad, NoTimes, TooMany
from baton.services.loadgen.load_settings import DEFAULT_OUTPUT_TOKENS, LoadSettings, kind_of
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.traces.reading import path_of, read_trace
from baton.services.loadgen.traces.records import Limits, TraceRecord

#: due times of so many requests or sessions: fewer where a duration ends them, None where they have none
Starts = Callable[[int], list[float | None]]


def replayed(settings: LoadSettings, starts: Starts) -> tuple[list[PlannedRequest], int]:
    """And the number of those that are left out. Raises BadLoad."""
    limits = Limits(
        num_requests=settings.num_requests,
        num_sessions=settings.num_sessions,
        start_s=settings.window_start_s,
        end_s=settings.window_end_s,
        max_context_tokens=settings.max_context_tokens,
    )
    wanted = read_trace(path_of(settings.trace), settings.trace_format, limits)
    records = list(islice(wanted, MAX_REQUESTS + 1))
    if len(records) > MAX_REQUESTS:
        raise TooMany("trace")
    if not records:
        raise BadLoad(f"{settings.trace}: nothing of it is left within the limits")
    if settings.content == ContentKind.TOKENS and any(record.text or record.messages_json for record in records):
        raise BadLoad(f"{settings.trace}: it has texts, and token ids are asked for")
    if settings.output_tokens and all(record.max_tokens for record in records):
        raise BadLoad("output_tokens, trace: it says itself what the lengths of answers are")
    if settings.output_scale != 1 and not all(record.max_tokens for record in records):
        raise BadLoad(f"output_scale: {settings.trace} does not say all lengths of answers")
    if kind_of(settings, has_times=records[0].at_s is not None) == ArrivalKind.TRACE:
        timed: Sequence[tuple[TraceRecord, float | None]] = _at_own_times(settings, records)
    else:
        timed = _at_times(records, starts)
    spec = settings.output_tokens or DEFAULT_OUTPUT_TOKENS
    answers = draw_tokens(spec, "output_tokens", generator(settings.seed, Purpose.OUTPUT_LENGTHS), len(timed))
    requests = [
        PlannedRequest(
            index=index,
            session=record.session,
            turn=record.turn,
            at_s=at_s,
            after=record.after,
            think_s=record.think_s / settings.speed,
            text=record.text,
            messages_json=record.messages_json,
            blocks=record.blocks,
            block_size=record.block_size,
            num_input_tokens=record.num_input_tokens,
            max_tokens=max(1, round(record.max_tokens * settings.output_scale)) if record.max_tokens else num_answer,
        )
        for index, ((record, at_s), num_answer) in enumerate(zip(timed, answers.tolist(), strict=True))
    ]
    return requests, wanted.num_left_out


def _at_own_times(settings: LoadSettings, records: list[TraceRecord]) -> list[tuple[TraceRecord, float]]:
    """In the order of their times. A trace may begin before its first line."""
    times = [record.at_s for record in records if record.at_s is not None]
    if len(times) < len(records):
        raise NoTimes(settings.trace)
    first_s = min(0.0, *times)
    due = ((record, (at_s - first_s) / settings.speed) for record, at_s in zip(records, times, strict=True))
    kept = [(record, at_s) for record, at_s in due if not settings.duration_s or at_s < settings.duration_s]
    if not kept:
        raise BadLoad(f"{settings.trace}: nothing of it is due within {settings.duration_s:g} s")
    return sorted(kept, key=lambda each: each[1])


def _at_times(records: list[TraceRecord], starts: Starts) -> list[tuple[TraceRecord, float | None]]:
    """Sessions begin at the given times, their later turns follow by themselves. Records of no session are each one."""
    numbers = [record.session_number if record.session else place for place, record in enumerate(records)]
    times = starts(numbers[-1] + 1)
    return [
        (record, None if record.after is not None else times[number])
        for record, number in zip(records, numbers, strict=True)
        if number < len(times)
    ]
