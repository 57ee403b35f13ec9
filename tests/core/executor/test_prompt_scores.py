"""Scores of a prompt's tokens: all of them, with the first choice's first token, from whoever says it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.executor.events import EXIT_STEP_FAILED, Exit, StepDone
from baton.core.executor.steps import StepResult
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from baton.core.wire.tokens import PromptScores, SampledToken
from tests.support.duo import Duo
from tests.support.expect import messages, the
from tests.support.machines import (
    ROUTER,
    P,
    decoder,
    prefiller,
    prompt,
    sampled,
    scores_of,
    scores_told,
    send_to,
    unified,
    work,
)


def scored(num_tokens: int, seed: int = 0, **fields) -> m.Work:
    return work(prompt(num_tokens, seed), num_prompt_logprobs=1, **fields)


def heard(duo: Duo) -> list[tuple[str, int, int, PromptScores]]:
    """(who, choice, offset, scores) as the router heard them."""
    records = [(e.peer.name, r) for e in duo.told if isinstance(e.message, m.Records) for r in e.message.records]
    return [(who, r.choice, r.offset, r.prompt_scores) for who, r in records if r.prompt_scores is not None]


@given(num_tokens=st.integers(1, 70), budget=st.integers(16, 64), chunk=st.integers(1, 64))
def test_however_the_prompt_is_cut_its_scores_are_whole_and_come_once(num_tokens, budget, chunk):
    rig = unified(token_budget=budget, long_prefill_tokens=chunk)
    out = rig.run(1, scored(num_tokens, max_tokens=3)) + rig.finish_steps()
    assert scores_told(out) == [(AttemptId(1, 0), 0, 0, scores_of(1, num_tokens - 1))]


def test_nobody_gets_scores_that_did_not_ask():
    rig = unified()
    rig.run(1, scored(10))
    rig.run(2, work(prompt(10, 2)))
    assert [item.num_scores for plan in rig.steps for item in rig.rows(plan)] == [9, 0]
    assert [told[0].request_id for told in scores_told(rig.finish_steps())] == [1]


@pytest.mark.parametrize("num_tokens", [8, 10])
def test_a_scored_prompt_takes_over_no_cached_blocks_and_says_so(num_tokens):
    rig = unified()
    before = rig.books()["blocks_free"]
    rig.run(1, scored(num_tokens, max_tokens=2))
    rig.finish_steps()
    rig.run(2, scored(num_tokens, max_tokens=2))
    assert rig.rows(rig.steps[0])[-1].start == 0
    out = rig.finish_steps()
    assert scores_told(out) == [(AttemptId(2, 0), 0, 0, scores_of(1, num_tokens - 1))]
    assert next(r.num_cached_tokens for message in messages(out, m.Records) for r in message.records) == 0
    rig.run(3, work(prompt(num_tokens), max_tokens=2))
    assert rig.rows(rig.steps[0])[-1].start > 0  # what it computed is found by others
    rig.finish_steps()
    assert rig.books()["blocks_free"] == before


@pytest.mark.parametrize("place", ["run", "prefill"])
def test_a_scored_prompt_holds_no_block_that_others_hold(place):
    rig = unified() if place == "run" else prefiller()
    for number, asked in ((1, work(prompt(12))), (2, scored(12))):
        getattr(rig, place)(number, asked)
        rig.step_done()
    blocks = [set(rig.sequence_of(number).block_ids) for number in (1, 2)]
    assert not blocks[0] & blocks[1]


@pytest.mark.parametrize("fields", [{"prior": 2}, {"first_choice": 1}])
def test_an_attempt_that_carries_on_takes_over_cached_blocks_and_has_no_scores(fields):
    rig = unified()
    rig.run(1, work(prompt(13), max_tokens=5))
    rig.finish_steps()
    rig.run(2, scored(13, max_tokens=5, **fields))
    assert rig.rows(rig.steps[0])[-1].start == 12
    assert scores_told(rig.finish_steps()) == []


def test_only_the_first_choice_says_them():
    rig = unified()
    out = rig.run(1, scored(10, num_choices=3, max_tokens=3)) + rig.finish_steps()
    assert scores_told(out) == [(AttemptId(1, 0), 0, 0, scores_of(1, 9))]


@pytest.mark.parametrize("num_choices", [1, 3])
def test_both_ends_of_a_hand_off_say_them_with_the_first_token(num_choices):
    """Either record may reach the router first, or alone."""
    duo = Duo(token_budget=16, long_prefill_tokens=3)
    duo.place(1, scored(10, num_choices=num_choices, max_tokens=4))
    duo.settle()
    whole = scores_of(1, 9)
    assert sorted(heard(duo), key=lambda told: told[0]) == [("decode", 0, 0, whole), ("prefill", 0, 0, whole)]


def test_a_prompt_that_ends_with_its_first_token_is_told_by_the_writer_alone():
    duo = Duo()
    duo.place(1, scored(10, max_tokens=1))
    duo.settle()
    assert heard(duo) == [("prefill", 0, 0, scores_of(1, 9))]


def test_a_decode_executor_still_finds_its_own_prefix():
    duo = Duo()
    for number in (1, 2):
        duo.place(number, scored(10, max_tokens=4))
        duo.settle()
    whole = scores_of(1, 9)
    assert [told[3] for told in heard(duo)] == [whole] * 4
    rig = decoder()
    rig.decode(1, scored(10, max_tokens=2), P)
    rig.hear(P, m.ChunkLanded(1, 0))
    rig.hear(P, m.Sealed(1, 1, sampled(5), whole))
    rig.finish_steps()
    assert the(rig.decode(2, scored(10, max_tokens=2), P), m.Receive).first_block == 2


@pytest.mark.parametrize("scores", [None, PromptScores(1), scores_of(2, 8), scores_of(1, 8)])
def test_a_seal_without_the_whole_scores_fails_the_attempt(scores):
    rig = decoder()
    before = rig.books()
    rig.decode(1, scored(10), P)
    out = rig.hear(P, m.Sealed(1, 1, sampled(5), scores))
    assert the(out, m.AttemptFailed).reason is Reason.INTERNAL
    rig.hear(P, m.TransferClosed(1, Reason.ABORTED))
    assert rig.books() == before


def test_a_seal_with_scores_that_nobody_asked_for_fails_the_attempt():
    rig = decoder()
    rig.decode(1, work(prompt(10)), P)
    out = rig.hear(P, m.Sealed(1, 1, sampled(5), scores_of(1, 9)))
    assert the(out, m.AttemptFailed).reason is Reason.INTERNAL


@pytest.mark.parametrize("writes", [True, False])
def test_what_a_session_lost_is_said_again_with_the_scores(writes):
    rig = prefiller() if writes else unified()
    send_to(rig, 1, scored(10)) if writes else rig.run(1, scored(10))
    assert len(scores_told(rig.step_done())) == 1
    rig.down(ROUTER)
    rig.up(ROUTER)
    again = rig.hear(ROUTER, m.RouterInventory(((AttemptId(1, 0), ((0, 0),)),)))
    assert scores_told(again) == [(AttemptId(1, 0), 0, 0, scores_of(1, 9))]
    rig.down(ROUTER)
    rig.up(ROUTER)
    assert scores_told(rig.hear(ROUTER, m.RouterInventory(((AttemptId(1, 0), ((0, 1),)),)))) == []


def test_scores_wait_for_a_router_that_is_away():
    rig = unified()
    rig.run(1, scored(10, max_tokens=4))
    rig.down(ROUTER)
    assert scores_told(rig.finish_steps()) == []
    assert scores_told(rig.up(ROUTER)) == [(AttemptId(1, 0), 0, 0, scores_of(1, 9))]


def test_records_with_scores_go_alone_since_several_might_be_too_much_for_a_frame():
    rig = unified()
    for number in (1, 2, 3):
        rig.run(number, scored(10, number) if number < 3 else work(prompt(10, 3)))
    rig.down(ROUTER)
    rig.finish_steps()
    told = messages(rig.up(ROUTER), m.Records)
    assert [[record.id.request_id for record in message.records] for message in told] == [[1], [2], [3]]


@pytest.mark.parametrize("wrong", [None, PromptScores(1), scores_of(1, 8), scores_of(2, 9)])
def test_a_result_with_other_scores_than_the_plan_asked_for_is_a_broken_step(wrong):
    rig = unified()
    rig.run(1, scored(10))
    right = rig.answer(rig.steps.popleft())
    items = (replace(right.items[0], scores=wrong),)
    out = rig.do(StepDone(StepResult(right.step_id, items, 0.01)))
    assert the(out, Exit).code == EXIT_STEP_FAILED
    assert the(out, m.AttemptFailed).reason is Reason.STEP_FAILED


def test_an_abort_between_chunks_leaves_nothing():
    rig = unified(token_budget=16, num_queued_steps=1)
    before = rig.books()
    rig.run(1, scored(40))
    rig.step_done()
    rig.abort(1)
    assert scores_told(rig.finish_steps()) == []
    assert rig.books() == before


def test_first_tokens_of_other_choices_do_not_carry_scores_from_a_decode_executor():
    rig = decoder()
    rig.decode(1, scored(10, num_choices=2, max_tokens=3), P)
    rig.hear(P, m.ChunkLanded(1, 0))
    first = (SampledToken(0, 5), SampledToken(1, 6))
    out = rig.hear(P, m.Sealed(1, 1, first, scores_of(1, 9))) + rig.finish_steps()
    assert scores_told(out) == [(AttemptId(1, 0), 0, 0, scores_of(1, 9))]
