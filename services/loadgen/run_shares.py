"""How a plan is shared among worker processes."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.errors import ServingError
from baton.core.metrics.facts import Phase
from baton.services.loadgen.plan import Plan, PlannedRequest

STREAMS_PER_WORKER = 256
REQUESTS_PER_SECOND = 250  #: per worker; at 64 chunks each it is below a third of a core
PHASE_ORDER = {Phase.WARM_UP: 0, Phase.MEASURED: 1}


class PlanInvalid(ServingError):
    """A plan whose requests wait for what cannot come before them."""


def num_workers_for(plan: Plan, num_cores: int) -> int:
    """As few as the load allows: one alone keeps a bound of concurrency exactly, several keep a share of it each."""
    by_streams = -(-plan.concurrency // STREAMS_PER_WORKER)
    by_rate = -(-peak_rate(plan.requests) // REQUESTS_PER_SECOND)
    wanted = max(1, by_streams, by_rate)
    return min(wanted, max(1, num_cores), max(1, len(plan.requests)))


def peak_rate(requests: Sequence[PlannedRequest]) -> int:
    """The most requests that are due within one second of a phase."""
    seconds: dict[tuple[Phase, int], int] = {}
    for request in requests:
        if request.at_s is not None:
            second = (request.phase, int(request.at_s))
            seconds[second] = seconds.get(second, 0) + 1
    return max(seconds.values(), default=0)


def share(requests: Sequence[PlannedRequest], num_workers: int) -> list[list[PlannedRequest]]:
    """In turns, with whole sessions and whatever waits for one another in one worker. Raises PlanInvalid."""
    shares: list[list[PlannedRequest]] = [[] for _ in range(num_workers)]
    by_index: dict[int, tuple[PlannedRequest, int]] = {}
    by_session: dict[str, int] = {}
    num_groups = 0
    for request in requests:
        worker = by_session.get(request.session) if request.session else None
        if request.after is not None:
            worker = check_after(request, by_index, worker)
        if worker is None:
            worker = num_groups % num_workers
            num_groups += 1
        if request.session:
            by_session[request.session] = worker
        by_index[request.index] = (request, worker)
        shares[worker].append(request)
    return shares


def check_after(
    request: PlannedRequest, by_index: dict[int, tuple[PlannedRequest, int]], session_worker: int | None
) -> int:
    """The worker of the request that this one comes after. Raises PlanInvalid."""
    assert request.after is not None
    if request.after not in by_index:
        raise PlanInvalid(f"request {request.index} comes after {request.after}, which is not before it in the plan")
    before, worker = by_index[request.after]
    if PHASE_ORDER[before.phase] > PHASE_ORDER[request.phase]:
        raise PlanInvalid(f"request {request.index} comes after {before.index}, which is of a later phase")
    if session_worker not in (None, worker):
        raise PlanInvalid(f"request {request.index} comes after {before.index}, which is of another session")
    return worker
