"""How a plan is shared among workers."""

from __future__ import annotations

from typing import Any

import pytest

from baton.core.metrics.facts import Phase
from baton.services.loadgen.plan import Plan, PlannedRequest
from baton.services.loadgen.run_shares import PlanInvalid, num_workers_for, share


def request(index: int, **fields: Any) -> PlannedRequest:
    return PlannedRequest(index=index, max_tokens=1, **fields)


def shared(requests: list[PlannedRequest], num_workers: int) -> list[list[int]]:
    return [[one.index for one in part] for part in share(requests, num_workers)]


def test_single_requests_go_to_the_workers_in_turns() -> None:
    assert shared([request(index) for index in range(7)], 3) == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_session_and_what_waits_for_one_another_stay_in_one_worker() -> None:
    requests = [request(0, session="a"), request(1, session="b"), request(2), request(3, session="a", after=0)]
    requests += [request(4, after=2), request(5, session="b", turn=1)]
    assert shared(requests, 2) == [[0, 2, 3, 4], [1, 5]]


def test_every_request_is_in_one_share() -> None:
    requests = [request(index, session=f"s{index % 5}" if index % 2 else "") for index in range(50)]
    assert sorted(index for part in shared(requests, 4) for index in part) == list(range(50))


@pytest.mark.parametrize(
    ("requests", "cause"),
    [
        ([request(0, after=0)], "not before it in the plan"),
        ([request(0, after=1), request(1)], "not before it in the plan"),
        ([request(0), request(1, phase=Phase.WARM_UP, after=0)], "of a later phase"),
        ([request(0, session="a"), request(1, session="b"), request(2, session="b", after=0)], "of another session"),
    ],
)
def test_a_request_that_waits_for_what_cannot_be_before_it_is_refused(
    requests: list[PlannedRequest], cause: str
) -> None:
    with pytest.raises(PlanInvalid, match=cause):
        share(requests, 2)


def test_the_number_of_workers_follows_the_load_and_ends_at_the_cores() -> None:
    def plan(count: int, concurrency: int = 0, per_second: int = 0) -> Plan:
        at = [index / per_second if per_second else None for index in range(count)]
        return Plan(
            requests=tuple(request(index, at_s=at_s) for index, at_s in enumerate(at)), seed=0, concurrency=concurrency
        )

    assert num_workers_for(plan(5000), 8) == 1
    assert num_workers_for(plan(5000, concurrency=256), 8) == 1
    assert num_workers_for(plan(5000, concurrency=1000), 8) == 4
    assert num_workers_for(plan(5000, concurrency=1000), 2) == 2
    assert num_workers_for(plan(5000, per_second=600), 8) == 3
    assert num_workers_for(plan(2, concurrency=1000), 8) == 2
    assert num_workers_for(plan(0), 8) == 1
