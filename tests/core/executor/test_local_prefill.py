"""R2 on the executor: one that decodes what others compute computes prompts of its own beside that."""

from __future__ import annotations

from baton.core.ids import AttemptId, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, the
from tests.support.machines import ROUTER, SCHEDULER, ExecutorRig, P, decoder, prompt, sampled, tokens_told, work


def landed(rig, number, asked):
    """One that was computed elsewhere decodes here."""
    rig.decode(number, asked, P)
    transfer_id = the(rig.turns[-1][2], m.Receive).transfer_id
    rig.hear(P, m.ChunkPosted(transfer_id, 0, 1))
    rig.hear(P, m.ChunkLanded(transfer_id, 0))
    return rig.hear(P, m.Sealed(transfer_id, 1, sampled(7)))


def test_r2_a_prompt_is_computed_beside_decodes_in_what_they_leave_of_the_budget():
    rig = decoder(token_budget=16, num_queued_steps=1)
    landed(rig, 1, work(prompt(8, 1)))
    rig.run(2, work(prompt(40, 2)))
    rig.step_done()
    items = rig.rows(rig.steps[0])
    assert [(item.num_tokens, item.num_samples) for item in items] == [(1, 1), (15, 0)]
    out = rig.finish_steps()
    assert len(tokens_told(out, 2)) == 8
    assert rig.core.quiescent()


def test_r2_only_prompts_that_are_computed_here_count_as_work_ahead():
    rig = decoder(token_budget=16)
    rig.decode(1, work(prompt(8, 1)), P)
    out = rig.run(2, work(prompt(40, 2)))
    assert messages(out, m.Credit) == []
    out = rig.step_done()
    assert [credit.num_prompt_tokens for credit in messages(out, m.Credit)] == [16]
    rig.down(SCHEDULER)
    inventory = the(rig.up(SCHEDULER), m.ExecutorInventory)
    assert dict(inventory.live) == {AttemptId(1, 0): 0, AttemptId(2, 0): 24}


def test_r2_what_was_computed_here_is_found_by_the_next_turn():
    rig = decoder()
    first = work(prompt(40, 1), max_tokens=4)
    rig.run(1, first)
    out = rig.finish_steps()
    published = b"".join(change.published for change in messages(out, m.CacheChanged))
    assert published[: len(first.hashes)] == first.hashes
    told = tokens_told(out, 1)
    rig.run(2, work([*prompt(40, 1), *told, *prompt(6, 2)]))
    assert [(item.start, item.num_tokens) for item in rig.rows(rig.steps[0])] == [(40, 10)]


def test_r2_and_g7_choices_of_a_prompt_that_is_computed_here():
    rig = decoder()
    rig.run(1, work(prompt(10, 1), max_tokens=3, num_choices=2))
    out = rig.finish_steps()
    assert [len(tokens_told(out, 1, choice)) for choice in (0, 1)] == [3, 3]
    assert rig.core.quiescent()


def test_r2_a_decode_executor_without_any_other_is_ready_and_one_without_a_transport_is_not():
    rig = ExecutorRig(Role.DECODE)
    rig.up(SCHEDULER, ROUTER)
    assert rig.core.readiness() == ""
    rig.up(P)
    assert rig.core.readiness() == "no transport to another executor"
