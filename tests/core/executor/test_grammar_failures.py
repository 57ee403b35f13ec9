"""A grammar that cannot go on ends its request at once and says so; what was sampled in its place is told to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from baton.core.errors import Reason
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import (
    ROUTER,
    D,
    ExecutorRig,
    P,
    decoder,
    prefiller,
    prompt,
    sampled,
    send_to,
    tokens_told,
    unified,
    work,
)

FAILED = says("router", m.AttemptFailed, id=AttemptId(1, 0), reason=Reason.GRAMMAR_FAILED)
ENDED = says("scheduler", m.Ended, id=AttemptId(1, 0))


def sequences(rig: ExecutorRig, number: int = 1) -> list[int]:
    return [sequence.seq_id for sequence in rig.state.groups[AttemptId(number, 0)].sequences]


def decoding(num_choices: int = 1, max_tokens: int = 8) -> tuple[ExecutorRig, list[Any]]:
    """A decode executor whose request 1 has its first tokens, and its words so far."""
    rig = decoder()
    out = rig.decode(1, work(prompt(10), max_tokens, num_choices=num_choices), P)
    rig.hear(P, m.ChunkLanded(1, 0))
    first = tuple(token for choice in range(num_choices) for token in sampled(5, choice=choice))
    return rig, out + rig.hear(P, m.Sealed(1, 1, first))


@pytest.mark.parametrize("num_before", [0, 1, 3])
def test_a_unified_executor_tells_the_tokens_before_and_then_the_failure(num_before: int) -> None:
    rig = unified()
    before = rig.books()
    out = rig.run(1, work(prompt(10)))
    for _ in range(num_before):
        out += rig.step_done()
    last = rig.step_done(failing=sequences(rig))
    assert only(last, m.Records, m.AttemptFailed, m.Ended) == [ENDED, FAILED]
    assert len(tokens_told(out + last, 1)) == num_before
    assert messages(rig.finish_steps(), m.Records) == []
    assert rig.books() == before
    assert rig.core.gauges()["failed_grammar_failed_total"] == 1


def test_what_was_launched_behind_the_failure_may_fail_again_and_is_told_to_nobody() -> None:
    rig = unified(num_queued_steps=2)
    before = rig.books()
    rig.run(1, work(prompt(10)))
    failing = sequences(rig)
    assert len(rig.steps) == 2
    assert FAILED in rig.step_done(failing=failing)
    assert only(rig.step_done(failing=failing), m.Records, m.AttemptFailed, m.Ended) == []
    assert rig.books() == before


def test_a_decode_executor_says_it_and_the_other_requests_of_the_step_go_on() -> None:
    rig, _ = decoding()
    rig.decode(2, work(prompt(10, 2)), P)
    rig.hear(P, m.ChunkLanded(2, 0))
    out = rig.hear(P, m.Sealed(2, 1, sampled(7)))
    out += rig.step_done()
    last = rig.step_done(failing=sequences(rig))
    assert only(last, m.AttemptFailed, m.Ended) == [ENDED, FAILED]
    assert tokens_told(last, 1) == []
    assert len(tokens_told(out + last + rig.finish_steps(), 2)) == 8
    assert rig.core.quiescent()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_one_of_several_choices_that_fails_ends_all_of_them(failing: int) -> None:
    rig, out = decoding(num_choices=3)
    before = decoder().books()
    out += rig.step_done()
    last = rig.step_done(failing=[sequences(rig)[failing]])
    assert only(last, m.AttemptFailed, m.Ended) == [ENDED, FAILED]
    out += last + rig.finish_steps()
    told = [len(tokens_told(out, 1, choice)) for choice in range(3)]
    assert told == [2, 2, 2]  # nobody has more of the step
    assert len(messages(out, m.AttemptFailed)) == 1
    assert rig.books() == before


def test_a_choice_that_is_over_cannot_fail_any_more() -> None:
    rig, out = decoding(num_choices=2, max_tokens=4)
    stopped = sequences(rig)[:1]
    out += rig.hear(ROUTER, m.Stop(AttemptId(1, 0), 0, 1))
    out += rig.step_done(failing=stopped) + rig.finish_steps()  # launched before the stop was heard
    assert messages(out, m.AttemptFailed) == []
    assert [len(tokens_told(out, 1, choice)) for choice in range(2)] == [1, 4]
    assert rig.core.quiescent()


@pytest.mark.parametrize("num_choices", [1, 3])
def test_a_prefill_executor_fails_with_the_first_tokens_and_tells_the_receiver_the_same(num_choices: int) -> None:
    rig = prefiller(token_budget=8)
    before = rig.books()
    send_to(rig, 1, work(prompt(16), num_choices=num_choices))
    rig.step_done()
    out = rig.step_done(failing=sequences(rig))
    assert only(out, m.Records, m.AttemptFailed, m.Ended, m.Sealed) == [ENDED, FAILED]
    out += rig.land_pieces()
    assert the(out, m.TransferClosed) == m.TransferClosed(1, Reason.GRAMMAR_FAILED)
    assert rig.books() == before


def test_a_receiver_that_hears_it_first_tells_the_router_the_same() -> None:
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(10)), P)
    out = rig.hear(P, m.TransferClosed(1, Reason.GRAMMAR_FAILED))
    assert only(out, m.AttemptFailed, m.Ended) == [ENDED, FAILED]
    assert rig.books() == before


def test_a_prefill_that_fails_before_anybody_asked_for_its_kv_answers_who_asks_later() -> None:
    rig = prefiller()
    before = rig.books()
    rig.prefill(1, work(prompt(10)))
    assert only(rig.step_done(failing=sequences(rig)), m.AttemptFailed, m.Ended) == [ENDED, FAILED]
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 0, bytes(12), 1 << 40))
    assert says("decode", m.TransferClosed, transfer_id=1) in rig.hear(D, m.CloseTransfer(1))
    assert rig.books() == before


def test_the_prompts_blocks_stay_in_the_prefix_index() -> None:
    """Their KV is as good as any other's: only what was sampled after them is worth nothing."""
    rig = unified()
    rig.run(1, work(prompt(12)))
    rig.step_done(failing=sequences(rig))
    rig.finish_steps()
    rig.run(2, work(prompt(12)))
    assert rig.state.groups[AttemptId(2, 0)].num_cached == 8
