"""What is kept of a run, checked against runs of real machines and against arithmetic."""

from __future__ import annotations

import pytest

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.intervals import Estimate
from baton.core.sim.fleet_run.records import StepRecord
from baton.core.sim.fleet_run.run import run_fleet
from baton.core.sim.fleet_run.scenario_file import make_scenario
from baton.core.sim.step_time.features import Features
from baton.core.sim.study.measured import (
    COST,
    DUE,
    EXECUTOR_S,
    GOOD,
    SHARE,
    Measured,
    due_per_s,
    is_burst,
    measure,
    price_per_hour,
)
from baton.core.sim.study.texts import number, percent, time_text, with_interval
from baton.core.sim.study.uses import TokenTimes, token_times
from baton.services.sim.load import load_of


def measured(topology: str, slo: Slo, **changed: object) -> Measured:
    load = {"rate": 2, "num_requests": 40, "input_tokens": "400", "output_tokens": "30"}
    table = {"name": "mine", "topology": topology, "profile": "a100-opt13b-tp1", "load": load} | changed
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
    assert 0.7 < found.arriving < 1.0
    assert not is_burst([found])
    assert found.tokens.decode_s == pytest.approx(0.0203, rel=0.02)
    assert (found.tokens.late_alone, found.tokens.late_with_prompts) == (0.0, 0.0)  # ITL has no bound


def test_replicas_share_steps_and_hand_nothing_over() -> None:
    found = measured("1U", Slo(ttft_s=1.0, itl_s=0.03))
    unified = found.uses["unified"]
    assert unified.mixed_step_s > 2 * unified.decode_step_s
    assert 0.0 < unified.mixed_share < 0.5
    assert found.waits.handed_over_p50_s == 0.0
    assert 0.0 < found.figures[SHARE] < 1.0
    assert found.tokens.late_alone == 0.0
    assert 0.0 < found.tokens.late_with_prompts <= unified.mixed_share  # a step with a prompt is longer than 30 ms
    assert found.tokens.prompts_s > 0.0


def test_a_load_that_is_over_before_its_first_answers_is_a_burst() -> None:
    load = {"rate": 500, "num_requests": 10, "input_tokens": "400", "output_tokens": "30"}
    found = measured("2U", Slo(ttft_s=1.0), load=load)
    assert found.arriving < 0.05
    assert is_burst([found])


STEPS = [
    # executor, beginning, duration, prompts, decodes
    ("a", 0.0, 0.02, 0, 2), ("a", 0.02, 0.02, 0, 2), ("a", 0.04, 0.2, 1, 0), ("a", 0.24, 0.02, 0, 3),
    ("b", 0.0, 0.3, 1, 0), ("b", 0.3, 0.02, 0, 1), ("a", 0.26, 0.15, 1, 3), ("a", 0.41, 0.06, 0, 4),
]  # fmt: skip


def test_what_an_executor_computes_for_a_token_since_the_one_before() -> None:
    """Of 15 tokens two waited for a step of prompts of 200 ms, and the third one of that step was of the prompt itself;
    the first decode of b waited for nobody."""
    steps = [StepRecord(name, at, took, Features(prompts=n, decodes=m, rows=n + m)) for name, at, took, n, m in STEPS]
    found = token_times(steps, 0.05)
    assert found.decode_s == pytest.approx((2 * 0.02 + 2 * 0.02 + 0.02 + 0.02 + 4 * 0.06) / 10)
    whole = (10 * found.decode_s + 2 * 0.22 + 3 * 0.15) / 15
    assert found.prompts_s == pytest.approx(whole - found.decode_s)
    assert found.late_with_prompts == pytest.approx(5 / 15)
    assert found.late_alone == pytest.approx(4 / 15)
    assert token_times(steps, None).late_alone == 0.0
    assert token_times([], 0.05) == TokenTimes(decode_s=0.0, prompts_s=0.0, late_alone=0.0, late_with_prompts=0.0)


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
    assert with_interval(Estimate(value=0.55, low=0.0, high=1.0), 100.0, "±") == "55 (0 to 100)"
    assert with_interval(Estimate(value=2_345_678.0, low=1_145_678.0, high=3_545_678.0)) == "2,345,678 ± 1,200,000"
    assert with_interval(None) == "–"
