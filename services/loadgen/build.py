"""From the settings of a load to its plan. The same settings give the same plan, byte for byte."""

from __future__ import annotations

import msgspec

from baton.core.metrics.report import fingerprint
from baton.services.loadgen.arrivals import ArrivalKind, due_times
from baton.services.loadgen.cancel import cancel_times
from baton.services.loadgen.draws import Purpose, generator
from baton.services.loadgen.groups import group_prefixes
from baton.services.loadgen.lengths import Lengths, drawn, sampled
from baton.services.loadgen.load_errors import MAX_REQUESTS, BadLoad, NoTimes, TooMany
from baton.services.loadgen.load_settings import (
    DEFAULT_INPUT_TOKENS,
    DEFAULT_OUTPUT_TOKENS,
    LoadSettings,
    check_settings,
    kind_of,
    open_arrivals,
)
from baton.services.loadgen.plan import NEVER, Plan, PlannedRequest, Prefix
from baton.services.loadgen.replay import replayed
from baton.services.loadgen.sessions import chat_requests, num_turns
from baton.services.loadgen.traces.reading import path_of, read_trace
from baton.services.loadgen.traces.records import Limits, TraceFormat
from baton.services.loadgen.warm_up import warm_up_requests


def build_plan(settings: LoadSettings) -> Plan:
    """Raises BadLoad."""
    check_settings(settings)
    num_left_out = 0
    if settings.trace:
        measured, num_left_out = replayed(settings, lambda count: _starts(settings, count))
    else:
        measured = _chats(settings) if settings.turns else _singles(settings)
    cancels = [NEVER] * len(measured)
    if settings.cancel_share:
        cancels = cancel_times(len(measured), settings.cancel_share, settings.cancel_after_s, settings.seed)
    warm_up = warm_up_requests(settings, measured)
    shift = len(warm_up)
    moved = [
        msgspec.structs.replace(
            request,
            index=shift + request.index,
            after=None if request.after is None else shift + request.after,
            cancel_after_s=cancel_after_s,
        )
        for request, cancel_after_s in zip(measured, cancels, strict=True)
    ]
    return Plan(
        requests=(*warm_up, *moved),
        seed=settings.seed,
        concurrency=settings.concurrency,
        ramp_s=settings.ramp_s,
        num_left_out=num_left_out,
    )


def plan_fingerprint(plan: Plan) -> str:
    """Equal for equal plans."""
    return fingerprint(msgspec.msgpack.encode(plan))


def _starts(settings: LoadSettings, count: int) -> list[float | None]:
    """Due times of at most `count` requests or sessions; 0: of as many as the duration holds."""
    kind = kind_of(settings, has_times=False)
    if kind == ArrivalKind.CLOSED:
        # Known only now: whether a trace has times of its own.
        if not settings.concurrency:
            raise NoTimes(settings.trace)
        if settings.duration_s:
            raise BadLoad("duration_s: of a load with a rate; a closed loop is told its number")
        return [None] * count
    arrivals = open_arrivals(settings, kind)
    rng = generator(settings.seed, Purpose.ARRIVALS)
    times = due_times(arrivals, rng, count=count, duration_s=settings.duration_s)
    if not len(times):
        raise BadLoad(f"duration_s: nothing is due within {settings.duration_s:g} s")
    return list(times.tolist())


def _singles(settings: LoadSettings) -> list[PlannedRequest]:
    starts = _starts(settings, settings.num_requests)
    lengths = _lengths(settings, len(starts))
    groups = _groups(settings, len(starts))
    return [
        PlannedRequest(
            index=index,
            at_s=at_s,
            prefixes=prefixes,
            num_input_tokens=num_own + settings.prefix_tokens,
            max_tokens=num_answer,
        )
        for index, (at_s, prefixes, num_own, num_answer) in enumerate(
            zip(starts, groups, lengths.num_input_tokens.tolist(), lengths.num_output_tokens.tolist(), strict=True)
        )
    ]


def _chats(settings: LoadSettings) -> list[PlannedRequest]:
    starts = _starts(settings, settings.num_sessions)
    turns = num_turns(settings, len(starts))
    if sum(turns) > MAX_REQUESTS:
        raise TooMany("num_sessions, turns")
    lengths = _lengths(settings, sum(turns))
    return list(chat_requests(settings, starts, turns, lengths, _groups(settings, len(starts))))


def _groups(settings: LoadSettings, count: int) -> list[tuple[Prefix, ...]]:
    rng = generator(settings.seed, Purpose.GROUPS)
    return group_prefixes(rng, count, settings.num_groups, settings.prefix_tokens)


def _lengths(settings: LoadSettings, count: int) -> Lengths:
    if not settings.lengths_from:
        input_spec = settings.input_tokens or DEFAULT_INPUT_TOKENS
        return drawn(input_spec, settings.output_tokens or DEFAULT_OUTPUT_TOKENS, settings.seed, count)
    limits = Limits(max_context_tokens=settings.max_context_tokens)
    records = read_trace(path_of(settings.lengths_from), TraceFormat.AUTO, limits)
    pairs = [(record.num_input_tokens, record.max_tokens) for record in records]
    if not all(num_input_tokens and num_output_tokens for num_input_tokens, num_output_tokens in pairs):
        raise BadLoad(f"lengths_from: {settings.lengths_from} does not say lengths in tokens")
    return sampled(pairs, generator(settings.seed, Purpose.INPUT_LENGTHS), count)
