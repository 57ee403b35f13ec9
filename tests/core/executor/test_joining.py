"""W10: sequences whose KV has landed join the batch over several steps, and none waits longer than its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.events import Wake
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.machines import ExecutorRig, P, decoder, prompt, sampled, tokens_told, work

PACED = {"join_share": 0.125, "join_max_steps": 100, "join_max_ms": 60_000.0, "num_queued_steps": 1}
PACED |= {"num_blocks": 2048, "num_slots": 64, "token_budget": 64, "growth_reserve": 60}  # nobody grows


def pacing(**knobs) -> ExecutorRig:
    told = PACED | knobs
    if told["join_max_steps"] == 0:  # all join at once: nothing else says how
        del told["join_share"], told["join_max_ms"]
    rig = decoder(**told)
    rig.is_checked = False
    rig.do(Wake())
    return rig


def land(rig: ExecutorRig, *numbers: int, max_tokens: int = 60, choices: int = 1) -> list:
    """The KV of these attempts lands, in one chunk each."""
    out = []
    for number in numbers:
        asked = work(prompt(3, number), max_tokens=max_tokens, num_choices=choices)
        receive = [c for c in rig.decode(number, asked, P) if isinstance(getattr(c, "message", None), m.Receive)]
        transfer_id = receive[0].message.transfer_id
        rig.hear(P, m.ChunkLanded(transfer_id, 0))
        firsts = tuple(token for choice in range(choices) for token in sampled(7, choice=choice))
        out += rig.hear(P, m.Sealed(transfer_id, 1, firsts))
    return out


def sizes(rig: ExecutorRig, count: int) -> list[int]:
    """Sequences in each of the next decode steps, the one with the device first."""
    found = []
    for _ in range(count):
        found.append(len(rig.rows(rig.state.steps[-1].plan)))
        rig.now += 0.01
        rig.step_done()
    return found


def test_w10_at_most_an_eighth_of_the_batch_is_new_in_a_step():
    rig = pacing()
    land(rig, *range(1000, 1016))
    while rig.state.joining.waiting:
        rig.step_done()
    rig.step_done()
    assert len(rig.rows(rig.state.steps[-1].plan)) == 16
    land(rig, *range(1, 7))
    assert sizes(rig, 5) == [16, 18, 20, 22, 22]


def test_w10_one_may_join_a_small_batch_in_each_step():
    rig = pacing()
    land(rig, 1, 2, 3, 4)
    assert sizes(rig, 5) == [1, 2, 3, 4, 4]


def test_w10_nobody_is_kept_longer_than_four_steps():
    rig = pacing(join_max_steps=4)
    land(rig, *range(1, 3))
    sizes(rig, 3)
    land(rig, *range(3, 23))  # twenty at once, and one may join in each step
    grown = sizes(rig, 7)
    assert grown[0] == 2  # launched before
    assert grown[1:] == [6, 10, 14, 18, 22, 22]  # evenly, so that all are in after four steps without them


def test_w10_nobody_is_kept_longer_than_fifty_milliseconds_whatever_steps_take():
    rig = pacing(join_max_ms=50.0)
    land(rig, 1)
    land(rig, *range(2, 10))  # the first of these may be in the next step, the others are kept
    assert rig.core.next_wake == pytest.approx(rig.now + 0.05)
    assert len(rig.state.joining.waiting) == 7
    rig.do(Wake(), after_s=0.0625)
    assert len(rig.state.joining.waiting) == 0
    assert sizes(rig, 2) == [1, 9]


def test_w10_time_that_is_left_counts_in_steps_of_the_measured_length():
    rig = pacing(join_max_ms=55.0)
    land(rig, 1)
    sizes(rig, 5)
    assert rig.state.pace.decode_step_s == pytest.approx(0.01)
    land(rig, *range(2, 20))
    assert sizes(rig, 6) == [1, 5, 9, 13, 16, 19]  # five steps begin within the 55 ms, and all are in by then


def test_w10_the_client_has_the_first_token_before_its_sequence_joins():
    rig = pacing()
    land(rig, 1, 2)
    out = land(rig, 3)
    assert tokens_told(out, 3) == [7]
    assert list(rig.state.joining.waiting) == [rig.sequence_of(3).seq_id]


def test_h13_activated_is_when_it_may_be_in_the_next_step():
    rig = pacing()
    land(rig, 1, 2)
    assert "activated" in rig.state.groups[AttemptId(2, 0)].marks.at  # in the step after the one with the device
    land(rig, 3)
    marks = rig.state.groups[AttemptId(3, 0)].marks
    assert "landed" in marks.at
    assert "activated" not in marks.at
    rig.now += 3.0
    rig.step_done()
    assert marks.at["activated"] - marks.at["landed"] == pytest.approx(3.0)
    delays = rig.state.histograms["landed_to_activated_seconds"]
    assert (delays.num, delays.sum) == (3, pytest.approx(3.0))


def test_w10_what_ends_before_it_joins_is_gone():
    rig = pacing()
    before = rig.books()
    land(rig, 1, 2, 3, 4)
    rig.abort(3)
    land(rig, 5, max_tokens=1)  # its first token is its last
    assert list(rig.state.joining.waiting) == [rig.sequence_of(4).seq_id]
    for number in (1, 2, 4):
        rig.abort(number)
    rig.finish_steps()
    assert rig.core.quiescent()
    assert rig.books() == before


def test_w10_who_joined_and_ended_before_a_step_takes_nobodys_place():
    rig = pacing()
    land(rig, 1)
    land(rig, 2)  # joins while the step of 1 is with the device
    assert not rig.state.joining.waiting
    rig.abort(2)
    rig.abort(1)
    land(rig, 3)
    rig.step_done()
    assert not rig.state.joining.waiting
    assert [s.group.work_id.request_id for s in rig.state.steps[-1].sequences] == [3]


def test_w10_and_g7_choices_of_one_request_join_one_by_one_too():
    rig = pacing()
    rig.is_checked = True
    out = land(rig, 1, choices=3, max_tokens=5)
    assert sizes(rig, 3) == [1, 2, 3]
    out += rig.finish_steps()
    assert [len(tokens_told(out, 1, choice)) for choice in range(3)] >= [1, 1, 1]
    assert rig.core.quiescent()


@given(st.data())
def test_w10_joins_a_step_are_within_the_bounds_and_everybody_is_in_by_then(data):
    max_steps = data.draw(st.sampled_from([0, 1, 3, 4, 1000]))
    share = data.draw(st.sampled_from([0.0, 0.125, 0.5, 1.0]))
    rig = pacing(join_share=share, join_max_steps=max_steps, num_queued_steps=data.draw(st.integers(1, 2)))
    landed_before: dict[int, int] = {}  # sequence → steps launched when it landed
    seen: set[int] = set()
    num_launched = number = 0

    def look() -> None:
        nonlocal num_launched
        for step in [step for step in rig.state.steps if step.plan.step_id > num_launched]:
            batch = {item.seq_id for item in rig.rows(step.plan)}
            new = batch - seen
            kept = [num_launched - landed_before[seq_id] for seq_id in new]
            assert max(kept, default=0) <= max_steps
            if max_steps == 1000:
                assert len(new) <= max(1, int(share * len(seen)))
            seen.update(batch)
            num_launched = step.plan.step_id

    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(0, 4))):
            number += 1
            before = num_launched
            land(rig, number)
            landed_before[rig.sequence_of(number).seq_id] = before
            look()
        if rig.steps:
            rig.step_done()
            look()
