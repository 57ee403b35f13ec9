"""Requests that come before those that are measured: as long as they are, and saying nothing that they say.

A warm-up warms the server, not its cache: it has neither the blocks nor the groups of the load.
"""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.metrics.facts import Phase
from baton.services.loadgen.arrivals import ArrivalKind, Arrivals, due_times
from baton.services.loadgen.draws import Purpose, generator
from baton.services.loadgen.lengths import sampled
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import LoadSettings, kind_of, open_arrivals
from baton.services.loadgen.plan import PlannedRequest

CHARS_PER_TOKEN = 4  #: roughly, where the plan gives a text


def warm_up_requests(settings: LoadSettings, measured: Sequence[PlannedRequest]) -> list[PlannedRequest]:
    """Indices from 0; due as the load is, and as many as were asked for. Raises BadLoad."""
    if not settings.warm_up_requests and not settings.warm_up_s:
        return []
    times = _times(settings, measured)
    rng = generator(settings.seed, Purpose.WARM_UP_LENGTHS)
    lengths = sampled(((_num_input_tokens(request), request.max_tokens) for request in measured), rng, len(times))
    return [
        PlannedRequest(
            index=index,
            phase=Phase.WARM_UP,
            at_s=at_s,
            num_input_tokens=num_input_tokens,
            max_tokens=max_tokens,
        )
        for index, (at_s, num_input_tokens, max_tokens) in enumerate(
            zip(times, lengths.num_input_tokens.tolist(), lengths.num_output_tokens.tolist(), strict=True)
        )
    ]


def _times(settings: LoadSettings, measured: Sequence[PlannedRequest]) -> list[float | None]:
    due = [request.at_s for request in measured if request.at_s is not None]
    kind = kind_of(settings, has_times=bool(due))
    if kind == ArrivalKind.CLOSED:
        if settings.warm_up_s:
            raise BadLoad("warm_up_s: of a load with a rate; a closed loop is told its number")
        return [None] * settings.warm_up_requests
    arrivals = open_arrivals(settings, kind)
    if kind == ArrivalKind.TRACE:  # the trace's mean rate
        arrivals = Arrivals(kind=ArrivalKind.POISSON, rate=len(due) / (max(due) or 1.0))
    rng = generator(settings.seed, Purpose.WARM_UP_ARRIVALS)
    return list(due_times(arrivals, rng, count=settings.warm_up_requests, duration_s=settings.warm_up_s).tolist())


def _num_input_tokens(request: PlannedRequest) -> int:
    if request.num_input_tokens:
        return request.num_input_tokens
    return max(1, len(request.text or request.messages_json) // CHARS_PER_TOKEN)
