"""Other tools' definitions on the fixed schedule and on failures that they do not notice."""

from __future__ import annotations

import pytest

from baton.core.metrics.compat import SOURCES, Tool, compat
from baton.core.metrics.definitions import figures
from baton.core.metrics.facts import Failure, Phase
from baton.core.metrics.goodput import Slo
from baton.core.metrics.percentiles import Distribution
from tests.core.metrics.stub import answer, failed, fixed_schedule, renumbered


def test_vllm_takes_the_role_for_the_first_token_and_whole_chunks_for_latencies():
    found = compat(Tool.VLLM, [fixed_schedule()])
    assert found.distributions["ttft_s"].mean == pytest.approx(0.01)
    assert found.distributions["itl_s"].count == 6
    assert found.distributions["itl_s"].max == pytest.approx(0.09)
    assert found.distributions["itl_s"].p50 == pytest.approx(0.04)
    assert found.distributions["e2el_s"].mean == pytest.approx(0.3)
    assert found.distributions["tpot_s"].mean == pytest.approx(0.29 / 20)
    assert found.rates["output_throughput"] == pytest.approx(21 / 0.3)
    assert found.rates["total_token_throughput"] == pytest.approx(37 / 0.3)


def test_vllm_without_a_role_event_has_our_first_token():
    found = compat(Tool.VLLM, [fixed_schedule(first_event_s=0.1)])
    assert found.distributions["ttft_s"].mean == pytest.approx(0.1)
    assert found.distributions["tpot_s"].mean == pytest.approx(0.01)


def test_vllm_counts_a_request_of_one_token_as_good_and_leaves_its_tpot_out():
    found = compat(Tool.VLLM, renumbered([answer([(0.1, 1)]), fixed_schedule()]), Slo(ttft_s=0.05, tpot_s=0.01))
    assert found.distributions["tpot_s"].count == 1
    assert found.rates["request_goodput"] == pytest.approx(1 / 0.3)
    assert compat(Tool.VLLM, [fixed_schedule()]).rates["request_goodput"] is None


def test_aiperf_has_one_token_latency_for_each_request():
    found = compat(Tool.AIPERF, renumbered([fixed_schedule(), fixed_schedule(first=4, done_s=0.9)]))
    itl = found.distributions["inter_token_latency_s"]
    assert (itl.count, itl.max, itl.min) == (2, pytest.approx(0.01), pytest.approx(0.2 / 23))
    assert found.distributions["time_to_first_token_s"].mean == pytest.approx(0.1)
    assert found.distributions["time_to_second_token_s"].mean == pytest.approx(0.04)
    assert found.distributions["inter_chunk_latency_s"].count == 10
    assert found.distributions["request_latency_s"].max == pytest.approx(0.3), "it ends with the last text"
    assert found.distributions["output_token_throughput_per_user"].min == pytest.approx(100.0)
    assert found.rates["request_throughput"] == pytest.approx(2 / 0.3)
    assert found.rates["output_token_throughput"] == pytest.approx(45 / 0.3)


def test_aiperf_judges_from_sending_and_needs_a_token_latency_to_keep_its_bound():
    rows = renumbered([fixed_schedule(scheduled_s=-9.0), answer([(0.1, 1)])])
    assert compat(Tool.AIPERF, rows, Slo(ttft_s=0.2)).rates["goodput"] == pytest.approx(2 / 0.3)
    assert compat(Tool.AIPERF, rows, Slo(ttft_s=0.2, tpot_s=0.02)).rates["goodput"] == pytest.approx(1 / 0.3)


def test_guidellm_weighs_requests_by_their_tokens_and_takes_values_that_occur():
    short, long = answer([(0.1, 1), (1.1, 1)]), fixed_schedule()
    found = compat(Tool.GUIDELLM, renumbered([short, long]))
    itl, tpot = found.distributions["inter_token_latency_s"], found.distributions["time_per_output_token_s"]
    assert itl.mean == pytest.approx((1.0 + 0.01 * 20) / 21)
    assert (itl.p50, itl.p95, itl.p99) == (pytest.approx(0.01), pytest.approx(0.01), pytest.approx(1.0))
    assert tpot.mean == pytest.approx((1.1 + 0.3) / 23), "the first token's time is in it"
    assert found.distributions["request_latency_s"].p50 == pytest.approx(0.3), "no value between the two"
    assert found.rates["output_tokens_per_second"] == pytest.approx(23 / 1.1)


@pytest.mark.parametrize(
    ("failure", "changes", "who"),
    [
        (Failure.NO_FINISH, {}, {Tool.VLLM, Tool.AIPERF, Tool.GUIDELLM}),
        (Failure.NO_END, {}, {Tool.VLLM, Tool.AIPERF, Tool.GUIDELLM}),
        (Failure.ERROR_EVENT, {}, {Tool.VLLM}),
        (Failure.EMPTY, {"chunks": ()}, {Tool.VLLM}),
        (Failure.EMPTY, {"chunks": (), "first_event_s": None}, set()),
        (Failure.LOST, {}, set()),
        (Failure.REFUSED, {"chunks": (), "first_event_s": None}, set()),
    ],
)
def test_ldg_01_what_the_tools_take_for_a_success(failure, changes, who):
    rows = [fixed_schedule(failure=failure, **changes)]
    assert {tool for tool in Tool if compat(tool, rows).completed} == who
    assert all(compat(tool, rows).failed == (tool not in who) for tool in Tool)


@pytest.mark.parametrize("tool", Tool)
def test_all_tools_count_the_measured_phase_without_what_was_cancelled(tool):
    rows = renumbered(
        [fixed_schedule(), fixed_schedule(phase=Phase.WARM_UP), fixed_schedule(is_cancelled=True), failed(Failure.LOST)]
    )
    found = compat(tool, rows)
    assert (found.completed, found.failed, found.source) == (1, 1, SOURCES[tool])
    empty = compat(tool, [])
    assert set(empty.distributions.values()) == {Distribution(count=0)}
    assert set(empty.rates.values()) == {None}


@pytest.mark.parametrize("tool", Tool)
def test_all_tools_begin_before_the_connection_is_made(tool):
    name = "ttft_s" if tool is Tool.VLLM else "time_to_first_token_s"
    rows = [fixed_schedule(at=2.0, dispatched_s=1.5, scheduled_s=1.0, first_event_s=2.1)]
    assert compat(tool, rows).distributions[name].mean == pytest.approx(0.6)
    assert figures(rows[0]).ttft_s == pytest.approx(0.1)


def test_where_definitions_are_alike_they_agree_with_ours():
    """One token a chunk, no role event, no wait in the client, the end with the last text."""
    row = answer([(0.1 + 0.02 * i, 1) for i in range(8)], first_event_s=0.1)
    ours = figures(row)
    vllm, aiperf, guidellm = (compat(tool, [row]).distributions for tool in Tool)
    for first_token in (vllm["ttft_s"], aiperf["time_to_first_token_s"], guidellm["time_to_first_token_s"]):
        assert first_token.mean == pytest.approx(ours.ttft_s)
    for between in (vllm["tpot_s"], aiperf["inter_token_latency_s"], guidellm["inter_token_latency_s"], vllm["itl_s"]):
        assert between.mean == pytest.approx(ours.tpot_s)
    for whole in (vllm["e2el_s"], aiperf["request_latency_s"], guidellm["request_latency_s"]):
        assert whole.mean == pytest.approx(ours.e2e_s)
