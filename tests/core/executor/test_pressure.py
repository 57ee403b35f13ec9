"""Running sequences grow: from blocks that were never granted, from credit that comes back, at last by preemption."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.executor.events import Launch
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import like, messages, only, says, the
from tests.support.machines import ROUTER, SCHEDULER, prompt, tokens_told, unified, work


def grown(rig, *, returned: int = 0):
    """Run until the device is idle; the scheduler gives back `returned` blocks whenever it is asked."""
    out = []
    while rig.steps:
        out += rig.step_done()
        while rig.state.reclaiming:
            out += rig.hear(SCHEDULER, m.Returned(min(returned, rig.state.memory.outstanding_blocks)))
    return out


def test_growth_asks_the_scheduler_for_unspent_credit_before_anything_is_preempted():
    rig = unified(growth_reserve=1)
    out = rig.run(1, work(prompt(4), max_tokens=8))
    assert only(out, Launch, m.Reclaim) == [like(Launch), says("scheduler", m.Reclaim, num_blocks=1)]
    assert only(rig.step_done(), Launch, m.Reclaim) == []
    out = rig.hear(SCHEDULER, m.Returned(1))
    assert len(only(out, Launch)) == 2
    assert len(tokens_told(grown(rig, returned=1), 1)) == 7


def test_growth_asks_two_positions_ahead_so_that_no_step_goes_without_the_sequence():
    rig = unified(growth_reserve=1, num_queued_steps=1)
    out = rig.run(1, work(prompt(5), max_tokens=8))  # its second block has three positions left
    assert messages(out + rig.step_done(), m.Reclaim) == []
    out = rig.step_done()  # the plan of the seventh position is launched
    assert only(out, Launch, m.Reclaim) == [says("scheduler", m.Reclaim, num_blocks=1), like(Launch)]
    rig.hear(SCHEDULER, m.Returned(1))
    for _ in range(3):
        assert len(messages(rig.step_done(), m.Reclaim)) <= 1
        assert len(rig.steps) == 1
    assert "wait_kv_exhausted_total" not in rig.core.gauges()


def test_g8_without_a_free_block_the_youngest_is_preempted_and_told_to_its_router():
    rig = unified(num_blocks=4, growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=8))
    rig.run(2, work(prompt(8, 2), max_tokens=8))
    out = grown(rig)
    assert says("router", m.AttemptFailed, id=AttemptId(2, 0), reason=Reason.PREEMPTED) in out
    assert len(tokens_told(out, 1)) == 8
    assert rig.core.quiescent()
    assert rig.core.gauges()["blocks_free"] == 4


def test_w6_preemption_follows_from_kv_exhausted_and_is_counted_under_it():
    rig = unified(num_blocks=4, growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=8))
    rig.run(2, work(prompt(8, 2), max_tokens=8))
    grown(rig)
    gauges = rig.core.gauges()
    assert gauges["wait_kv_exhausted_total"] >= 1
    assert gauges["preempted_total"] == 1


def test_c7_a_sequence_that_needs_a_block_lets_those_pass_that_have_theirs():
    rig = unified(growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=8))
    rig.run(2, work(prompt(6, 2), max_tokens=3))
    out = rig.step_done() + rig.step_done() + rig.step_done()  # the scheduler does not answer
    assert len(messages(out, m.Reclaim)) == 1
    assert (len(tokens_told(out, 1)), len(tokens_told(out, 2))) == (1, 2)
    out += rig.finish_steps()  # the second one's blocks come back and serve the first
    assert (len(tokens_told(out, 1)), len(tokens_told(out, 2))) == (8, 3)


def test_the_only_running_request_is_never_preempted():
    rig = unified(num_blocks=4, growth_reserve=1)
    rig.run(1, work(prompt(8), max_tokens=8))
    out = grown(rig, returned=4)
    assert messages(out, m.AttemptFailed) == []
    assert len(tokens_told(out, 1)) == 8


def test_growth_goes_before_new_grants():
    """One block stays back for each running sequence that may outgrow what it holds."""
    rig = unified(num_blocks=16, growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(16, 9), max_tokens=1))
    rig.run(2, work(prompt(4, 1), max_tokens=8))
    granted = sum(c.num_blocks for c in messages(rig.step_done(), m.Credit))
    assert granted == 3  # of the four that the first gave back


def reclaiming(num_blocks: int, first: m.Work, second: m.Work):
    """An executor whose two sequences outgrow what it holds: a Reclaim is unanswered."""
    rig = unified(num_blocks=num_blocks, growth_reserve=1, num_queued_steps=1)
    rig.run(1, first)
    rig.run(2, second)
    rig.step_done()
    assert rig.state.reclaiming
    return rig


def test_a_reclaim_that_brought_nothing_is_not_asked_again_until_something_changed():
    rig = reclaiming(8, work(prompt(8, 1), max_tokens=8), work(prompt(8, 2), max_tokens=8))
    out = rig.hear(SCHEDULER, m.Returned(0))
    out += rig.step_done()
    assert messages(out, m.Reclaim) == []
    assert [failed.id for failed in messages(out, m.AttemptFailed)] == [AttemptId(2, 0)]


def test_what_was_granted_while_a_reclaim_was_unanswered_is_asked_for_after_an_answer_that_did_not_know_it():
    rig = reclaiming(12, work(prompt(8, 1), max_tokens=16), work(prompt(24, 2), max_tokens=8))
    out = rig.hear(ROUTER, m.Abort(AttemptId(2, 0)))
    while rig.steps:
        out += rig.step_done()
    assert sum(credit.num_blocks for credit in messages(out, m.Credit)) > 0
    assert len(messages(rig.hear(SCHEDULER, m.Returned(0)), m.Reclaim)) == 1
    rig.hear(SCHEDULER, m.Returned(1))
    grown(rig, returned=1)
    assert rig.core.quiescent()


def test_a_scheduler_that_comes_back_is_asked_again():
    rig = unified(num_blocks=8, growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(8, 1), max_tokens=16))
    rig.step_done()
    rig.hear(SCHEDULER, m.Returned(0))
    rig.down(SCHEDULER)
    rig.up(SCHEDULER)
    assert len(tokens_told(grown(rig, returned=1), 1)) > 0
    assert rig.core.quiescent()


def test_a_lost_scheduler_gives_all_unspent_credit_back_to_the_pool():
    rig = unified()
    rig.run(1, work(prompt(8)))
    rig.down(SCHEDULER)
    assert rig.state.memory.outstanding_blocks == 0
    assert the(rig.up(SCHEDULER), m.ExecutorInventory).num_blocks == 64 - 4

def test_blocks_of_an_ended_sequence_that_a_step_still_owns_are_waited_for_before_anybody_is_preempted():
    rig = unified(num_blocks=6, growth_reserve=1, num_queued_steps=2)
    for number in (1, 2, 3):
        rig.run(number, work(prompt(8, number), max_tokens=4))
    out = rig.step_done()
    out += rig.hear(ROUTER, m.Abort(AttemptId(3, 0)))  # its blocks stay with what was launched
    while rig.steps:
        out += rig.step_done()
        out += rig.hear(SCHEDULER, m.Returned(0)) if rig.state.reclaiming else []
    assert messages(out, m.AttemptFailed) == []
    assert rig.core.quiescent()
