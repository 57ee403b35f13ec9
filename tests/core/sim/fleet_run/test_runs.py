"""What a performance run must keep: the machines' own decisions, caches, ends, and the same bytes for the same seed."""

import pytest

from baton.core.errors import Reason
from baton.core.metrics.facts import Failure
from baton.core.metrics.report import encode_facts
from baton.core.sim.fleet_run.request import GROUPS, SimRequest, Span, token_of
from baton.core.sim.fleet_run.spec import BadTopology, parse_topology
from baton.core.sim.step_time.features import StepKind
from baton.core.sim.step_time.model import StepModel
from tests.support.fleets import BLOCK_SIZE, INSTANT, asks, at_times, closed_loop, fleet, kind, run

STEPS = StepModel(prefill=kind(one=0.02, tokens=1e-4), decode=kind(one=0.01, decodes=1e-4, context=1e-7))


@pytest.mark.parametrize("topology", ["2P1D", "2U", "1P1D+1U"])
def test_the_same_seed_gives_the_same_bytes_and_every_request_its_whole_answer(topology: str) -> None:
    requests = asks(60, 300, 20)
    spec = fleet(topology, STEPS, placement="predicted")
    runs = [run(spec, requests, closed_loop(requests, 12), 3) for _ in range(2)]
    assert encode_facts(runs[0].facts) == encode_facts(runs[1].facts)
    assert runs[0].recorder.steps == runs[1].recorder.steps
    assert all(row.num_output_tokens == 20 and row.finish_reason == "length" for row in runs[0].facts)


@pytest.mark.parametrize(("topology", "hits_answer"), [("1U", True), ("1P1D", False)])
def test_a_next_turn_finds_the_turn_before_in_the_cache(topology: str, hits_answer: bool) -> None:
    """Whoever decodes has the answer's blocks, too; a prefill executor has the prompt's."""
    first = SimRequest(index=0, num_input_tokens=100, num_output_tokens=65)
    then = SimRequest(index=1, num_input_tokens=40, num_output_tokens=4, repeats=0)
    done = run(fleet(topology, STEPS), [first, then], at_times([first, then], [0.0, 30.0]))
    before, after = sorted(done.facts, key=lambda row: row.index)
    known = 100 + 64 if hits_answer else 100  # of its last token no KV was computed
    assert before.num_cached_tokens == 0
    assert after.num_cached_tokens == known // BLOCK_SIZE * BLOCK_SIZE
    assert after.num_input_tokens == 100 + 65 + 40


def test_requests_of_a_group_share_its_prefix_and_nothing_else() -> None:
    spans = (Span(token_of(GROUPS, 7), 1, 160),)
    requests = [SimRequest(index=i, num_input_tokens=320, num_output_tokens=1, spans=spans) for i in range(2)]
    done = run(fleet("1U", STEPS), requests, at_times(requests, [0.0, 10.0]))
    assert [row.num_cached_tokens for row in done.facts] == [0, 160]


def test_blocks_of_a_trace_are_the_same_tokens_wherever_they_stand() -> None:
    one = SimRequest(index=0, num_input_tokens=40, num_output_tokens=1, spans=(Span(5, 2, 16),)).prompt()
    two = SimRequest(index=1, num_input_tokens=40, num_output_tokens=1, spans=(Span(5, 2, 16),)).prompt()
    assert len(one) == 160
    assert one[:128] == two[:128]
    assert one[128:] != two[128:]


def test_a_request_that_nobody_can_serve_is_refused_and_one_out_of_time_fails() -> None:
    huge = SimRequest(index=0, num_input_tokens=90_000, num_output_tokens=1)
    done = run(fleet("1U", STEPS), [huge], at_times([huge], [0.0]))
    assert done.facts[0].failure is Failure.HTTP_ERROR
    assert Reason.NEVER_FITS.name in done.facts[0].detail


def test_a_client_that_leaves_is_cancelled_and_holds_nothing() -> None:
    request = SimRequest(index=0, num_input_tokens=100, num_output_tokens=500, cancel_after_s=0.5)
    done = run(fleet("1P1D", STEPS), [request], at_times([request], [0.0]))
    facts = done.facts[0]
    assert facts.is_cancelled
    assert 10 < facts.num_output_tokens < 50
    assert facts.failure is None


def test_steps_are_recorded_with_their_kinds() -> None:
    requests = asks(30, 300, 20)
    apart = run(fleet("1P1D", STEPS), requests, closed_loop(requests, 8)).recorder.steps
    assert {(step.executor, step.kind) for step in apart} == {
        ("prefill-0", StepKind.PREFILL), ("decode-0", StepKind.DECODE),
    }  # fmt: skip
    assert sum(step.features.tokens for step in apart) == 30 * 300
    assert sum(step.features.decodes for step in apart) == 30 * 19
    assert sum(step.features.rows for step in apart) == 30 * 20
    together = run(fleet("1U", STEPS), requests, closed_loop(requests, 8)).recorder.steps
    assert StepKind.MIXED in {step.kind for step in together}


def test_answers_stay_the_same_however_long_the_loop_takes() -> None:
    requests = asks(20, 300, 10)
    slow = type(INSTANT)(latency_s=1e-3, turn_s=2e-3, notice_s=1e-3)
    quick = run(fleet("1P1D", STEPS), requests, closed_loop(requests, 4))
    late = run(fleet("1P1D", STEPS, wires=slow), requests, closed_loop(requests, 4))
    assert late.length_s > quick.length_s
    assert {row.index: row.num_output_tokens for row in late.facts} == {index: 10 for index in range(20)}
    assert any(use.occupied_share > 0 for use in late.uses)


@pytest.mark.parametrize("text", ["", "2X", "P", "0U", "1P", "2D", "1U1U", "2000U", "1P1D,"])
def test_what_is_no_topology_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadTopology, match="topology"):
        parse_topology(text)
