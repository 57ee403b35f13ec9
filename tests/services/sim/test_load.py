"""What a scenario's load says before it is run."""

from __future__ import annotations

import pytest

from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.services.sim.load import idle_time, load_of


def scenario(topology: str, times: list[float]) -> tuple[str, int]:
    asks = [{"at_s": at, "input_tokens": 64, "output_tokens": 4} for at in times]
    told = make_scenario({"name": "t", "topology": topology, "profile": "a100-opt13b-tp1", "asks": asks})
    return idle_time(load_of(told).plan, told.fleet()), told.fleet().num_sessions


def test_sessions_are_those_of_the_scheduler_of_each_router_and_of_each_pair() -> None:
    assert [scenario(topology, [0.0])[1] for topology in ("1U", "1P1D", "2P3D", "1P1D+2U")] == [3, 6, 17, 10]


def test_time_without_anything_due_is_told_where_its_heartbeats_are_many() -> None:
    line, _ = scenario("1P1D", [0.0, 1000.0, 400_000.0, 400_059.0])
    assert "for 400,000 s of the load nothing is due (once for 399,000 s)" in line
    assert "some 480,000 heartbeats" in line
    assert scenario("1P1D", [0.0, 40_000.0])[0] == ""
    assert scenario("1P1D", [59.0 * number for number in range(8000)])[0] == ""


@pytest.mark.parametrize("times", [[], [5.0]])
def test_a_load_of_one_moment_has_no_gap(times: list[float]) -> None:
    assert scenario("1P1D", times or [0.0])[0] == ""
