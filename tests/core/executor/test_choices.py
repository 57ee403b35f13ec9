"""Several choices of one request: one prefill, full blocks shared, the partial one copied, an end for each."""

from __future__ import annotations

import pytest

from baton.core.executor.events import Launch, Post
from baton.core.executor.steps import CopyBlock
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from baton.core.wire.tokens import SampledToken
from tests.support.expect import messages, only, says, the
from tests.support.machines import (
    ROUTER,
    D,
    P,
    decoder,
    prefiller,
    prompt,
    records_in,
    send_to,
    tokens_told,
    unified,
    work,
)


def first_tokens(*tokens: int) -> tuple[SampledToken, ...]:
    return tuple(SampledToken(choice, token) for choice, token in enumerate(tokens))


def hand_over(rig, number: int, tokens: tuple[SampledToken, ...]):
    rig.hear(P, m.ChunkPosted(number, 0, 1))
    rig.hear(P, m.ChunkLanded(number, 0))
    return rig.hear(P, m.Sealed(number, 1, tokens))


def test_g7_three_choices_are_one_prefill_and_three_first_tokens():
    rig = prefiller()
    out = send_to(rig, 1, work(prompt(10), num_choices=3))
    assert [(item.num_tokens, item.num_samples) for item in rig.rows(only(out, Launch)[0].plan)] == [(10, 3)]
    out = rig.step_done()
    assert [token.choice for token in the(out, m.Sealed).first_tokens] == [0, 1, 2]
    assert len(only(out, Post)) == 1
    assert [record.choice for record in the(out, m.Records).records] == [0, 1, 2]


def test_g7_the_full_blocks_are_shared_and_the_partial_one_is_copied():
    rig = decoder()
    rig.decode(1, work(prompt(10), num_choices=3, max_tokens=4), P)
    assert rig.books()["blocks_free"] == 64 - (2 + 3 * 2)
    assert rig.books()["slots_used"] == 3
    out = hand_over(rig, 1, first_tokens(5, 6, 7))
    plan = only(out, Launch)[0].plan
    tables = [memoryview(item.new_block_ids).cast("i").tolist() for item in rig.rows(plan)]
    assert [table[:2] for table in tables] == [tables[0][:2]] * 3
    assert plan.copies == (CopyBlock(tables[0][2], tables[1][2], 2), CopyBlock(tables[0][2], tables[2][2], 2))
    assert [rig.state.memory.pool.ref_count(block) for block in tables[0]] == [3, 3, 1, 1]
    assert [item.start for item in rig.rows(plan)] == [10, 10, 10]


def test_g7_a_prompt_that_ends_with_a_block_needs_no_copy():
    rig = decoder()
    rig.decode(1, work(prompt(8), num_choices=3, max_tokens=4), P)
    assert only(hand_over(rig, 1, first_tokens(5, 6, 7)), Launch)[0].plan.copies == ()


def test_str_04_each_choice_has_exactly_one_finish_and_its_own_index():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(10), num_choices=3, max_tokens=5, stop=(99,)), P)
    out = hand_over(rig, 1, first_tokens(5, 6, 7))

    def token(item, choice: int) -> int:
        return 99 if item.start == 10 + choice else 1

    out += rig.finish_steps(token)
    finishes = [
        (record.choice, record.finish)
        for message in messages(out, m.Records)
        for record in message.records
        if record.finish
    ]
    assert sorted(finishes) == [(0, "stop"), (1, "stop"), (2, "stop")]
    assert [len(tokens_told(out, 1, choice)) for choice in range(3)] == [2, 3, 4]
    assert len(only(out, m.Ended)) == 1
    assert rig.books() == before


def test_str_04_a_choice_that_was_stopped_before_activation_does_not_hold_the_others_back():
    for stopped in range(3):
        rig = decoder()
        before = rig.books()
        rig.decode(1, work(prompt(10), num_choices=3, max_tokens=4), P)
        rig.hear(ROUTER, m.Stop(AttemptId(1, 0), stopped, 1))
        out = hand_over(rig, 1, first_tokens(5, 6, 7)) + rig.finish_steps()
        told = [len(tokens_told(out, 1, choice)) for choice in range(3)]
        assert told == [0 if choice == stopped else 4 for choice in range(3)]
        assert rig.books() == before


def test_str_04_a_choice_that_ends_with_its_first_token_leaves_the_others_decoding():
    rig = decoder()
    before = rig.books()
    rig.decode(1, work(prompt(10), num_choices=2, max_tokens=3, stop=(99,)), P)
    out = hand_over(rig, 1, first_tokens(99, 5)) + rig.finish_steps()
    assert tokens_told(out, 1, 0) == [99]
    assert len(tokens_told(out, 1, 1)) == 3
    assert rig.books() == before


def test_str_04_all_pins_of_the_writer_are_released_after_the_one_transfer():
    rig = prefiller()
    before = rig.books()
    for number in range(1, 9):
        send_to(rig, number, work(prompt(10, number), num_choices=3))
        rig.finish_steps()
    rig.land_pieces()
    assert rig.books() == before


@pytest.mark.parametrize("num_tokens", [1, 3, 4, 8, 10])
def test_g7_unified_choices_share_the_prompt_too(num_tokens):
    rig = unified()
    before = rig.books()
    out = rig.run(1, work(prompt(num_tokens), num_choices=4, max_tokens=3)) + rig.finish_steps()
    assert [len(tokens_told(out, 1, choice)) for choice in range(4)] == [3] * 4
    assert rig.books() == before


def test_g7_a_resumed_choice_keeps_its_index():
    rig = unified()
    out = rig.run(1, work([*prompt(10), 7, 8], prior=2, first_choice=2, max_tokens=4)) + rig.finish_steps()
    records = records_in(out)
    assert {record.choice for record in records} == {2}
    assert records[0].offset == 2
    assert len(tokens_told(out, 1, 2)) == 2


def test_g7_only_the_first_sequence_computes_the_prompt():
    rig = unified()
    rig.run(1, work(prompt(10), num_choices=3, max_tokens=3))
    assert sum(item.num_tokens for item in rig.rows(rig.steps[0])) == 10
    assert len(rig.steps) == 1  # its siblings have no token yet
    out = rig.step_done()
    assert [len(rig.rows(launch.plan)) for launch in only(out, Launch)] == [3, 3]


def test_a_writer_keeps_going_when_some_choices_end_at_the_first_token():
    rig = prefiller()
    send_to(rig, 1, work(prompt(10), num_choices=2, stop=(1_000_100,)))
    out = rig.step_done()
    assert [record.finish for record in the(out, m.Records).records] == ["stop", ""]
    assert len(only(out, m.Sealed)) == 1
    assert says("decode", m.TransferClosed) not in out
    assert D.name == "decode"


def test_g7_a_choice_that_is_stopped_before_its_copy_was_made_gives_its_blocks_back():
    rig = decoder(num_queued_steps=1)
    before = rig.books()
    rig.decode(1, work(prompt(8, 1), max_tokens=8), P)
    hand_over(rig, 1, first_tokens(5))  # its steps keep the device busy
    rig.decode(2, work(prompt(10, 2), num_choices=3, max_tokens=4), P)
    assert only(hand_over(rig, 2, first_tokens(5, 6, 7)), Launch) == []
    rig.hear(ROUTER, m.Stop(AttemptId(2, 0), 1, 1))
    plan = only(rig.step_done(), Launch)[0].plan
    assert [copy.num_slots for copy in plan.copies] == [2]  # of the third choice alone
    rig.finish_steps()
    assert rig.books() == before
