"""What is kept of a run, checked against runs of real machines and against arithmetic."""

from __future__ import annotations

import pytest

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import Estimate
from baton.core.sim.fleet_run.run import run_fleet
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.core.sim.study.measured import (
    COST,
    DUE,
    EXECUTOR_S,
    GOOD,
    SHARE,
    Measured,
    due_per_s,
    measure,
    price_per_hour,
)
from baton.core.sim.study.texts import number, percent, time_text, with_interval
from baton.services.sim.load import load_of


def measured(topology: str, slo: Slo, **changed: object) -> Measured:
    load = {"rate": 2, "num_requests": 40, "input_tokens": "400", "output_tokens": "30"}
    table = {"name": "mine", "topology": topology, "profile": "a100-opt13b-tp1", "load": load, **changed}
    scenario = make_scenario(table)
    planned = load_of(scenario)
    return measure(run_fleet(scenario.fleet(), planned.requests, planned.phases, 0), scenario.fleet(), slo)


def test_a_run_of_prefill_and_decode_apart() -> None:
    found = measured("1P1D", Slo(ttft_s=1.0))
    assert found.figures[SHARE] == 1.0
    assert found.figures[GOOD] == found.figures[DUE] == pytest.approx(2.0, rel=0.3)
    assert len(found.share_by_part) == 10
    assert set(found.uses) == {"prefill", "decode"}
    prefill, decode = found.uses["prefill"], found.uses["decode"]
    assert 0.05 < prefill.busy < 0.3 < decode.busy
    assert prefill.decodes == 0.0
    assert decode.decodes > 1
    assert decode.decode_step_s == pytest.approx(0.0203, rel=0.02)  # of the profile: 20 ms and a little for each
    assert 0.0 < decode.kv_use < 0.1
    assert found.waits.handed_over_p50_s > 0.02
    assert found.waits.computed_p90_s == pytest.approx(0.0612, rel=0.3)  # 18.1 ms + 400 · 0.102 ms + attention
    assert found.attainment == {"ttft_s": 1.0}


def test_replicas_share_steps_and_hand_nothing_over() -> None:
    found = measured("1U", Slo(ttft_s=1.0, itl_s=0.03))
    unified = found.uses["unified"]
    assert unified.mixed_step_s > 2 * unified.decode_step_s
    assert 0.0 < unified.mixed_share < 0.5
    assert found.waits.handed_over_p50_s == 0.0
    assert 0.0 < found.figures[SHARE] < 1.0


def test_what_a_good_token_takes() -> None:
    found = measured("2U", Slo(ttft_s=10.0))
    tokens_per_s = found.figures["output_tokens_per_s"]
    assert found.figures[EXECUTOR_S] == pytest.approx(2 / tokens_per_s * 1000)
    assert COST not in found.figures  # the profile says no price
    none = measured("2U", Slo(ttft_s=1e-6))
    assert none.figures[GOOD] == 0.0
    assert EXECUTOR_S not in none.figures
    assert price_per_hour(make_scenario({"name": "a", "topology": "1U", "profile": "a100-opt13b-tp1"}).fleet()) is None


def test_requests_are_due_at_a_rate_without_the_time_after_the_last_one() -> None:
    rows = [RequestFacts(index=index, scheduled_s=index / 4, done_s=100.0) for index in range(9)]
    assert due_per_s(rows) == 4.0
    assert due_per_s(rows[:1]) == due_per_s([]) == 0.0


def test_figures_as_they_are_written() -> None:
    assert [percent(share) for share in (0.0, 0.001, 0.5, 0.994, 0.999, 1.0)] == [
        "0 %", "< 1 %", "50 %", "99 %", "> 99 %", "100 %",
    ]  # fmt: skip
    assert [time_text(seconds) for seconds in (0.0123, 0.9999, 12.34)] == ["12.3 ms", "1 s", "12.3 s"]
    assert [number(value) for value in (0.0, 9.876, 1234.5)] == ["0", "9.88", "1,234"]
    assert with_interval(Estimate(value=3.917, low=3.8, high=4.034)) == "3.92 ± 0.12"
    assert with_interval(Estimate(value=3.917)) == "3.92"
    assert with_interval(None) == "–"
