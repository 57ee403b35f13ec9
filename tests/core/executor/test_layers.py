"""The writing end of a hand-off while a step runs: what of its layers is written goes before it ends."""

from __future__ import annotations

from baton.core.executor.events import Post, StepAdvanced
from baton.core.wire import messages as m
from tests.support.expect import only, the
from tests.support.machines import prefiller, prompt, send_to, work


def parts(commands):
    """Of the pieces that are posted: block of the prompt, slots and planes."""
    posts = only(commands, Post)
    return [
        (piece.source_block, piece.end_slot, piece.first_plane, piece.end_plane)
        for post in posts
        for piece in post.pieces
    ]


def test_h8_planes_that_a_running_step_has_written_go_out_before_it_ends_and_the_rest_after_it():
    rig = prefiller()
    send_to(rig, 1, work(prompt(10, 1)))
    step_id, blocks = rig.steps[0].step_id, list(rig.sequence_of(1).block_ids[:3])
    first, second = rig.do(StepAdvanced(step_id, 2)), rig.do(StepAdvanced(step_id, 3))
    slots = [4, 4, 2]
    assert parts(first) == [(block, end, 0, 2) for block, end in zip(blocks, slots, strict=True)]
    assert parts(second) == [(block, end, 2, 3) for block, end in zip(blocks, slots, strict=True)]
    assert only([*first, *second], m.Sealed) == []
    last = rig.step_done()
    assert parts(last) == [(block, end, 3, 4) for block, end in zip(blocks, slots, strict=True)]
    assert the(last, m.Sealed).num_chunks == 3
    assert the(rig.land_pieces(), m.Ended)
    assert rig.core.gauges()["kv_bytes_posted_early_total"] * 4 == rig.core.gauges()["kv_bytes_posted_total"] * 3


def test_h8_a_step_that_ends_no_block_has_nothing_to_send_before_it_ends():
    rig = prefiller(token_budget=6)
    send_to(rig, 1, work(prompt(14, 1)))
    sent = []
    for _ in range(3):
        sent.append(parts(rig.do(StepAdvanced(rig.steps[0].step_id, 2))))
        rig.step_done()
    assert [len(pieces) for pieces in sent] == [1, 2, 1]


def test_h8_a_step_within_a_block_sends_nothing_before_it_ends_nor_does_what_was_told_twice():
    rig = prefiller(token_budget=3)
    send_to(rig, 1, work(prompt(6, 1)))
    assert parts(rig.do(StepAdvanced(rig.steps[0].step_id, 2))) == []
    rig.step_done()
    second = rig.steps[0].step_id
    assert len(parts(rig.do(StepAdvanced(second, 2)))) == 2
    assert parts(rig.do(StepAdvanced(second, 2))) == []


def test_h8_a_receiver_that_comes_during_a_step_gets_the_planes_from_the_first_on():
    rig = prefiller()
    asked = work(prompt(8, 1))
    rig.prefill(1, asked)
    assert parts(rig.do(StepAdvanced(rig.steps[0].step_id, 1))) == []
    send_to(rig, 1, asked)
    blocks = list(rig.sequence_of(1).block_ids)
    assert parts(rig.do(StepAdvanced(rig.steps[0].step_id, 3))) == [(block, 4, 0, 3) for block in blocks]
    assert parts(rig.step_done()) == [(block, 4, 3, 4) for block in blocks]


def test_h8_a_step_that_has_written_all_planes_leaves_nothing_to_send():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8, 1)))
    assert len(parts(rig.do(StepAdvanced(rig.steps[0].step_id, 4)))) == 2
    out = rig.step_done()
    assert parts(out) == []
    assert the(out, m.Sealed).num_chunks == 1
    rig.land_pieces()
    assert rig.core.quiescent()


def test_h3_what_a_running_step_has_written_of_an_aborted_prompt_is_not_sent():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8, 1)))
    rig.do(StepAdvanced(rig.steps[0].step_id, 1))
    rig.abort(1)
    assert parts(rig.do(StepAdvanced(rig.steps[0].step_id, 3))) == []
    assert parts(rig.step_done()) == []
    rig.land_pieces()
    assert rig.core.quiescent()
