"""What routers are to be told: rows of plain tokens before records, and each token of a choice once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import Reason
from baton.core.executor.outbox import Outbox
from baton.core.ids import AttemptId, Life
from baton.core.wire import messages as m
from baton.core.wire.tokens import SampledToken, TokenLogprobs
from tests.support.expect import messages
from tests.support.machines import records_in, sampled, tokens_told

R, OTHER = Life("router", 1), Life("router2", 1)
A, B = AttemptId(1, 0), AttemptId(2, 0)


def record(work_id: AttemptId, offset: int, *tokens: int, choice: int = 0, finish: str = "") -> m.Record:
    return m.Record(work_id, choice, offset, sampled(*tokens, choice=choice), finish)


def say(
    outbox: Outbox, router: Life, work_id: AttemptId, choice: int, offset: int, token: int,
    *, finish: str = "", is_scored: bool = False,
) -> None:  # fmt: skip
    scores = TokenLogprobs(-0.5, (), ()) if is_scored else None
    outbox.add_token(router, work_id, choice, offset, SampledToken(choice, token, scores), finish)


def test_plain_tokens_are_rows_and_go_before_records():
    outbox = Outbox()
    say(outbox, R, A, 0, 4, 70)
    say(outbox, R, A, 0, 5, 71, finish="length")
    say(outbox, R, B, 1, 9, 80)
    (message,) = messages(outbox.flush(R), m.Records)
    assert list(message.tokens) == [(1, 0, 0, 4, 70), (2, 0, 1, 9, 80)]
    assert message.records == (record(A, 5, 71, finish="length"),)
    assert outbox.flush(R) == [] == outbox.waiting()


def test_a_token_after_a_record_that_is_unsent_goes_with_it():
    outbox = Outbox()
    outbox.begin(R, record(A, 0, 70))
    say(outbox, R, A, 0, 1, 71)
    say(outbox, R, A, 1, 1, 72)  # another choice
    (message,) = messages(outbox.flush(R), m.Records)
    assert [(r.offset, len(r.tokens)) for r in message.records] == [(0, 2)]
    assert list(message.tokens) == [(1, 0, 1, 1, 72)]


def test_rows_may_be_added_to_as_long_as_nothing_else_is_unsent():
    outbox = Outbox()
    rows = outbox.rows(R)
    assert rows == []
    rows += (1, 0, 0, 4, 70)
    say(outbox, R, A, 0, 5, 71, finish="length")
    assert outbox.rows(R) is None
    (message,) = messages(outbox.flush(R), m.Records)
    assert list(message.tokens) == [(1, 0, 0, 4, 70)]
    assert message.records == (record(A, 5, 71, finish="length"),)
    assert outbox.rows(R) == []


def test_what_is_said_again_takes_the_place_of_the_rows_of_its_choice():
    outbox = Outbox()
    for choice in (0, 1):
        say(outbox, R, A, choice, 4, 70 + choice)
    outbox.begin(R, record(A, 2, 68, 69, 70))
    out = outbox.flush(R)
    assert tokens_told(out, 1, 0) == [68, 69, 70]
    assert tokens_told(out, 1, 1) == [71]


def test_an_attempt_that_nobody_wants_leaves_nothing():
    outbox = Outbox()
    say(outbox, R, A, 0, 4, 70)
    say(outbox, R, A, 1, 4, 71)
    outbox.fail(R, A, Reason.PREEMPTED, "")
    outbox.drop(R, A)
    assert outbox.waiting() == []
    say(outbox, R, A, 0, 4, 70)
    say(outbox, R, B, 0, 4, 72)
    outbox.drop(R, A)
    assert {r.id for r in records_in(outbox.flush(R))} == {B}


@given(st.lists(st.tuples(st.sampled_from("psf"), st.integers(1, 2), st.integers(0, 1), st.sampled_from([R, OTHER]))))
def test_each_choice_is_told_its_tokens_once_and_in_order_however_they_come(steps):
    outbox, known, told = Outbox(), {}, {}

    def flush() -> None:
        for router in outbox.waiting():
            for each in records_in(outbox.flush(router)):
                answer = told.setdefault((router, each.id.request_id, each.choice), [])
                assert each.offset == len(answer)
                answer += [token.token for token in each.tokens]

    for number, (how, request, choice, router) in enumerate(steps):
        answer = known.setdefault((router, request, choice), [])
        work_id = AttemptId(request, 0)
        if how == "f":
            flush()
            continue
        if answer:
            say(outbox, router, work_id, choice, len(answer), number, is_scored=how == "s")
        else:
            outbox.begin(router, record(work_id, 0, number, choice=choice))
        answer.append(number)
    flush()
    assert told == {key: answer for key, answer in known.items() if answer}
