"""The oracle: it must fail for everything that a client must never see."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.ids import Life
from baton.core.router.events import Deliver, End
from baton.core.sim.draw import draw_scenario
from baton.core.sim.env import Env, Violation
from baton.core.sim.oracle import Oracle, Stream
from baton.core.sim.scenario import Client
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import SampledToken

ROUTER = Life("router0", 1)


def accepted(
    max_tokens: int = 3,
    num_choices: int = 1,
    must_complete: bool = False,
    num_prompt_logprobs: int = -1,
    grammar: str = "",
) -> tuple[Oracle, Stream]:
    oracle = Oracle(Env(1), draw_scenario(1))
    sampling = SamplingParams(max_tokens, seed=4, num_prompt_logprobs=num_prompt_logprobs, grammar=grammar)
    client = Client(0.0, 0, (1, 2, 3), sampling, num_choices)
    return oracle, oracle.accept(ROUTER, 1, client, must_complete)


def deliver(stream: Stream, first: int, end: int, choice: int = 0, finish: str = "") -> Deliver:
    tokens = tuple(SampledToken(choice, token) for token in stream.answers[choice].tokens[first:end])
    return Deliver(1, choice, first, tokens, finish)


def test_the_whole_answer_with_its_finish_and_one_end_is_right() -> None:
    oracle, stream = accepted(num_choices=2)
    for choice in (0, 1):
        oracle.deliver(ROUTER, deliver(stream, 0, 2, choice))
        oracle.deliver(ROUTER, deliver(stream, 2, 3, choice, "length"))
    oracle.end(ROUTER, End(1, None))
    assert oracle.num_live == 0


def test_a_wrong_token_a_gap_and_a_repetition_are_violations() -> None:
    oracle, stream = accepted()
    wrong = Deliver(1, 0, 0, (SampledToken(0, (stream.answers[0].tokens[0] + 1) % 256),))
    with pytest.raises(Violation, match="right tokens"):
        oracle.deliver(ROUTER, wrong)
    with pytest.raises(Violation, match="contiguous"):
        oracle.deliver(ROUTER, deliver(stream, 1, 2))
    oracle.deliver(ROUTER, deliver(stream, 0, 2))
    with pytest.raises(Violation, match="contiguous"):
        oracle.deliver(ROUTER, deliver(stream, 0, 1))


def test_a_finish_too_early_or_not_at_the_end_is_a_violation() -> None:
    oracle, stream = accepted()
    with pytest.raises(Violation, match="right finish"):
        oracle.deliver(ROUTER, deliver(stream, 0, 2, finish="length"))
    oracle, stream = accepted()
    with pytest.raises(Violation, match="right finish"):
        oracle.deliver(ROUTER, deliver(stream, 0, 3))


def test_an_end_without_an_error_needs_every_finish() -> None:
    oracle, stream = accepted()
    oracle.deliver(ROUTER, deliver(stream, 0, 2))
    with pytest.raises(Violation, match="complete without error"):
        oracle.end(ROUTER, End(1, None))


def test_two_ends_and_tokens_after_the_end_are_violations() -> None:
    oracle, stream = accepted()
    stream.gone = Reason.ABORTED
    oracle.end(ROUTER, End(1, Reason.ABORTED))
    with pytest.raises(Violation, match="one end"):
        oracle.end(ROUTER, End(1, Reason.ABORTED))
    with pytest.raises(Violation, match="nothing after the end"):
        oracle.deliver(ROUTER, deliver(stream, 0, 1))


@pytest.mark.parametrize("reason", ["ABORTED", "DEADLINE", "PEER_LOST", "INTERNAL", "DRAINING", "GRAMMAR_FAILED"])
def test_an_error_without_a_cause_is_a_violation(reason: str) -> None:
    oracle, _ = accepted()
    with pytest.raises(Violation, match="lawful cause"):
        oracle.end(ROUTER, End(1, Reason[reason]))


def test_a_fault_explains_a_lost_peer_but_never_a_bug_or_a_canary() -> None:
    oracle, _ = accepted()
    oracle.fault_kinds.add("cut")
    oracle.end(ROUTER, End(1, Reason.PEER_LOST))
    oracle, _ = accepted()
    oracle.fault_kinds.add("cut")
    with pytest.raises(Violation, match="lawful cause"):
        oracle.end(ROUTER, End(1, Reason.INTERNAL))
    oracle, _ = accepted(must_complete=True)
    oracle.fault_kinds.add("cut")
    with pytest.raises(Violation, match="lawful cause"):
        oracle.end(ROUTER, End(1, Reason.PEER_LOST))


def test_a_grammar_that_cannot_go_on_is_the_only_end_that_its_request_may_have() -> None:
    oracle, stream = accepted(max_tokens=40, num_choices=2, grammar="50")
    (failing,) = [choice for choice, answer in enumerate(stream.answers) if not answer.finish]
    last = len(stream.answers[failing].tokens)
    oracle.deliver(ROUTER, deliver(stream, 0, last, failing))
    for more in (Deliver(1, failing, last, (SampledToken(failing, 1),)), Deliver(1, failing, last, (), "stop")):
        with pytest.raises(Violation, match=r"right (tokens|finish)"):
            oracle.deliver(ROUTER, more)
    oracle.end(ROUTER, End(1, Reason.GRAMMAR_FAILED))


def test_an_end_without_an_error_where_a_grammar_cannot_go_on_is_a_violation() -> None:
    oracle, stream = accepted(max_tokens=40, grammar="1")
    assert (stream.answers[0].tokens, stream.answers[0].finish) == ([], "")
    with pytest.raises(Violation, match="complete without error"):
        oracle.end(ROUTER, End(1, None))


def test_after_a_stop_that_the_router_knows_no_token_may_come() -> None:
    oracle, stream = accepted()
    oracle.deliver(ROUTER, deliver(stream, 0, 1))
    oracle.stop(stream, 0, 1)
    stream.heard_stops.append(0)
    with pytest.raises(Violation, match="nothing after a stop"):
        oracle.deliver(ROUTER, deliver(stream, 1, 2))
    oracle.end(ROUTER, End(1, None))


def test_scores_of_the_prompt_come_once_with_the_first_token_of_the_first_choice() -> None:
    oracle, stream = accepted(num_choices=2, num_prompt_logprobs=2)
    scores = stream.prompt_scores
    assert scores is not None
    assert scores.is_complete(3)
    oracle.deliver(ROUTER, deliver(stream, 0, 3, 1, "length"))
    oracle.deliver(ROUTER, replace(deliver(stream, 0, 1), prompt_scores=scores))
    with pytest.raises(Violation, match="right scores"):
        oracle.deliver(ROUTER, replace(deliver(stream, 1, 2), prompt_scores=scores))
    oracle.deliver(ROUTER, deliver(stream, 1, 3, 0, "length"))
    oracle.end(ROUTER, End(1, None))


def test_missing_incomplete_wrong_and_unasked_scores_are_violations() -> None:
    oracle, stream = accepted(num_prompt_logprobs=0)
    right = stream.prompt_scores
    assert right is not None
    cut, wrong = replace(right, logprobs=right.logprobs[:4]), replace(right, logprobs=bytes(8))
    for scores in (None, cut, wrong):
        with pytest.raises(Violation, match="right scores"):
            oracle.deliver(ROUTER, replace(deliver(stream, 0, 1), prompt_scores=scores))
    oracle, stream = accepted()
    with pytest.raises(Violation, match="right scores"):
        oracle.deliver(ROUTER, replace(deliver(stream, 0, 1), prompt_scores=right))
