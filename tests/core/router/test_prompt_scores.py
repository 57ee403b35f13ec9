"""Scores of a prompt's tokens reach the client once, with the first token of its first answer, whatever fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import the
from tests.support.machines import D, P, scores_of
from tests.support.routing import RouterRig

WHOLE = scores_of(1, 9)


def test_they_come_with_the_first_token_whoever_says_it_first():
    for first, second in ((P, D), (D, P)):
        rig = RouterRig()
        work_id = rig.start(1, num_prompt_logprobs=1)
        rig.say(first, work_id, 0, 5, scores=WHOLE)
        assert rig.scores == {1: WHOLE}
        rig.say(second, work_id, 0, 5, 6, scores=WHOLE)  # the rig fails for a second time
        rig.say(D, work_id, 2, 7, finish="stop")
        assert rig.answers[1, 0] == [5, 6, 7]
        assert rig.ends[1].error is None


def test_a_later_token_that_comes_first_waits_for_them():
    rig = RouterRig()
    work_id = rig.start(1, num_prompt_logprobs=1)
    rig.say(D, work_id, 1, 6)
    assert rig.scores == {}
    rig.say(P, work_id, 0, 5, scores=WHOLE)
    assert rig.answers[1, 0] == [5, 6]
    assert rig.scores == {1: WHOLE}


def test_an_attempt_that_failed_before_its_first_token_asks_for_them_again_and_no_later_one():
    rig = RouterRig()
    old = rig.start(1, num_prompt_logprobs=1)
    new = the(rig.fail(old, Reason.TRANSFER_FAILED), m.Submit)
    assert new.work.wants_prompt_scores
    rig.say(P, old, 0, 5, scores=WHOLE)  # of an attempt that is over
    assert rig.scores == {}
    rig.say(P, rig.placed(), 0, 5, scores=WHOLE)
    assert rig.scores == {1: WHOLE}
    assert not the(rig.fail(new.id, Reason.PREEMPTED), m.Submit).work.wants_prompt_scores


def test_of_the_parts_of_an_attempt_only_the_first_choice_asks_for_them():
    for num_known in (0, 1):
        rig = RouterRig()
        whole = rig.start(1, num_choices=3, num_prompt_logprobs=1)
        for choice in [1, 0][: 1 + num_known]:
            rig.say(P, whole, 0, 5, choice=choice, scores=None if choice else WHOLE)
        rig.submits.clear()
        rig.fail(whole, Reason.PREEMPTED)
        wanting = [submit.work.first_choice for submit in rig.submits if submit.work.wants_prompt_scores]
        assert wanting == ([] if num_known else [0])
        assert len(rig.submits) == 3


def test_scores_of_another_choice_or_of_a_later_token_are_not_passed_on():
    rig = RouterRig()
    work_id = rig.start(1, num_choices=2, num_prompt_logprobs=1)
    rig.say(P, work_id, 0, 5, choice=1, scores=WHOLE)
    assert rig.scores == {}
    rig.say(P, work_id, 0, 5, scores=WHOLE)
    rig.say(D, work_id, 0, 5, 6, scores=WHOLE)
    assert rig.scores == {1: WHOLE}


@given(st.data())
def test_whatever_fails_they_come_exactly_once(data):
    """Executors say them with every record from offset 0 of an attempt that wants them, as the protocol has it."""
    rig = RouterRig(max_attempts=1000)
    answer = list(range(500, 506))
    rig.arrive(1, max_tokens=6, timeout_s=1e6, num_prompt_logprobs=1)
    work_id, wants = rig.placed(), True
    old: list[tuple[AttemptId, bool]] = []

    def say(peer, attempt: AttemptId, asks: bool, offset: int, end: int) -> None:
        scores = WHOLE if asks and offset == 0 else None
        rig.say(peer, attempt, offset, *answer[offset:end], finish="length" if end == 6 else "", scores=scores)

    for _ in range(data.draw(st.integers(0, 15))):
        known = len(rig.answers.get((1, 0), []))
        match data.draw(st.sampled_from(["tokens", "early", "late", "fail", "cut"])):
            case "tokens":
                offset = 0 if wants else known
                say(data.draw(st.sampled_from([P, D])), work_id, wants, offset, data.draw(st.integers(known, 5)) + 1)
            case "early":
                offset = data.draw(st.integers(1, 5))
                say(D, work_id, wants, offset, data.draw(st.integers(offset, 5)) + 1)
            case "late" if old:
                say(P, *data.draw(st.sampled_from(old)), 0, 3)
            case "fail" | "cut" as what:
                old.append((work_id, wants))
                if what == "fail":
                    rig.fail(work_id, Reason.TRANSFER_FAILED)
                else:
                    rig.down(D)
                    rig.up(D)
                rig.wake(1.5)
                wants = rig.submits[-1].work.wants_prompt_scores
                assert wants == (not rig.answers.get((1, 0)))
                work_id = rig.placed()
        if 1 in rig.ends:
            break
    if 1 not in rig.ends:
        say(D, work_id, wants, 0 if wants else len(rig.answers[1, 0]), 6)
    assert rig.answers[1, 0] == answer
    assert rig.scores == {1: WHOLE}
