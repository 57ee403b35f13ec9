"""Everything that was taken comes back, whatever happened in whatever order; and the check of it can fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.errors import IllegalTransition, InvariantViolated
from baton.core.executor import ownership
from baton.core.executor.sequence import _COMPUTE, _TRANSFER, Compute, Transfer, check_transfer
from baton.core.kv.block_pool import PoolCorrupt
from baton.core.wire import messages as m
from tests.support.duo import Duo
from tests.support.machines import ROUTER, prefiller, prompt, send_to, unified, work
from tests.support.snapshot import snapshot


@settings(max_examples=150)
@given(st.data())
def test_x1_and_w7_both_executors_are_back_at_the_start_whatever_happened_between_them(data):
    """Any order of messages, results, landings, failures, aborts, and a cut of the control link."""
    duo = Duo(token_budget=16, window_bytes=data.draw(st.sampled_from([1, 512, 1 << 20])), num_blocks=48)
    before = [rig.books() for rig in duo.rigs.values()]
    number = 0
    for _ in range(data.draw(st.integers(1, 40))):
        choices = duo.moves() + ["place"] * (number < 6 and duo.can_place()) + ["abort"] * (number > 0)
        if data.draw(st.integers(0, 30)) == 0:
            duo.cut()
            continue
        match data.draw(st.sampled_from(choices or ["settle"])):
            case "place":
                number += 1
                num_choices = data.draw(st.integers(1, 3))
                tokens = prompt(data.draw(st.integers(1, 20)), data.draw(st.integers(0, 2)))
                duo.place(number, work(tokens, data.draw(st.integers(1, 4)), num_choices=num_choices))
            case "abort":
                duo.abort(data.draw(st.integers(1, number)))
            case "settle":
                duo.settle()
            case move:
                duo.do(move)
    duo.settle()
    duo.cut()
    duo.settle()
    assert all(rig.core.quiescent() for rig in duo.rigs.values())
    assert [rig.books() for rig in duo.rigs.values()] == before
    assert {message.id for _, message in duo.to_scheduler if isinstance(message, m.Ended)} <= {
        (n, 0) for n in range(1, number + 1)
    }


@given(st.data())
def test_x2_every_placed_attempt_ends_once_at_each_executor(data):
    """What ended with its first token before its receiver was known is ended at the receiver by the router."""
    duo = Duo(token_budget=16, num_blocks=64)
    for number in range(1, 4):
        duo.place(number, work(prompt(data.draw(st.integers(1, 20)), number), data.draw(st.integers(1, 4))))
    while moves := duo.moves():
        duo.do(data.draw(st.sampled_from(moves)))
    for number in (1, 2, 3):
        duo.abort(number)
    duo.settle()
    ended = [(name, message.id.request_id) for name, message in duo.to_scheduler if isinstance(message, m.Ended)]
    assert sorted(ended) == [(name, number) for name in ("decode", "prefill") for number in (1, 2, 3)]


def test_x1_prompt_tokens_reported_as_done_are_those_that_were_placed():
    duo = Duo(token_budget=16)
    for number in range(1, 4):
        duo.place(number, work(prompt(10 * number, number)))
    duo.abort(3)
    duo.settle()
    done = [m_.num_prompt_tokens for name, m_ in duo.to_scheduler if isinstance(m_, m.Credit) and name == "prefill"]
    assert sum(done) == 60


def busy():
    """An executor in the middle of everything."""
    rig = prefiller(window_bytes=256)
    send_to(rig, 1, work(prompt(12, 1)))
    rig.step_done()
    send_to(rig, 2, work(prompt(12, 2)))
    return rig


def _lose_a_block(rig):
    rig.state.memory.pool.allocate(1)


def _free_a_block_twice(rig):
    rig.state.memory.pool.release(rig.state.sequences[1].block_ids[-1:].tobytes())


def _forget_a_slot(rig):
    rig.state.memory.used_slots -= 1


def _promise_what_is_not_there(rig):
    rig.state.memory.outstanding_blocks = 1000


def _own_without_an_owner(rig):
    ownership.own(rig.state.sequences[1])


def _lose_bytes_in_flight(rig):
    next(iter(rig.state.transports.values())).in_flight -= 1


def _forget_a_group(rig):
    rig.state.groups.popitem()


def _park_too_much(rig):
    rig.state.parked_tokens += 1


def _compute_more_than_was_scheduled(rig):
    rig.state.sequences[2].num_computed = 100


def _forget_posted_bytes(rig):
    rig.state.posted_bytes = 0


@pytest.mark.parametrize(
    "damage",
    [
        _lose_a_block,
        _free_a_block_twice,
        _forget_a_slot,
        _promise_what_is_not_there,
        _own_without_an_owner,
        _lose_bytes_in_flight,
        _forget_a_group,
        _park_too_much,
        _compute_more_than_was_scheduled,
        _forget_posted_bytes,
    ],
)
def test_x1_each_planted_violation_is_found(damage):
    rig = busy()
    rig.core.check_invariants()
    damage(rig)
    with pytest.raises((InvariantViolated, PoolCorrupt)):
        rig.core.check_invariants()


def test_o10_blocks_given_back_twice_raise_at_once():
    rig = unified()
    rig.run(1, work(prompt(8)))
    sequence = rig.state.sequences[1]
    ownership.disown(rig.state, sequence)
    ownership.disown(rig.state, sequence)  # as often as two launched steps own it
    with pytest.raises(InvariantViolated):
        ownership.disown(rig.state, sequence)


def test_c19_an_illegal_move_raises_with_the_objects_story():
    rig = unified()
    rig.run(1, work(prompt(8)))
    sequence = rig.sequence_of(1)
    with pytest.raises(IllegalTransition) as raised:
        sequence.move(Compute.WAITING)
    assert raised.value.story == ("RUNNING",)
    with pytest.raises(IllegalTransition):
        check_transfer(Transfer.CLOSED, Transfer.OPEN, ())


def test_c19_every_pair_of_states_is_decided_and_ends_are_final():
    """Nothing leaves an end, everything reaches it, and no state follows itself."""
    for table, states, end in ((_COMPUTE, Compute, Compute.ENDED), (_TRANSFER, Transfer, Transfer.CLOSED)):
        assert all(old is not new for old, new in table)
        assert not [pair for pair in table if pair[0] is end]
        assert {old for old, new in table if new is end} == set(states) - {end}


@given(st.data())
def test_x3_the_same_events_give_the_same_commands(data):
    knobs = {"token_budget": 16, "num_blocks": 48}
    first, second = unified(**knobs), unified(**knobs)
    for number in range(1, data.draw(st.integers(1, 5)) + 1):
        first.run(number, work(prompt(data.draw(st.integers(1, 12)), number % 3), data.draw(st.integers(1, 3))))
        if data.draw(st.booleans()) and first.steps:
            first.step_done()
        if data.draw(st.booleans()):
            first.hear(ROUTER, m.Abort((number, 0)))
    first.finish_steps()
    for event, now, out in first.turns[len(second.turns) :]:
        second.now = now
        assert second.do(event) == out
    assert snapshot(second.state) == snapshot(first.state)


def test_c11_a_long_life_leaves_no_counter_or_map_that_only_grows():
    rig = unified()
    sizes = []
    for number in range(1, 61):
        rig.run(number, work(prompt(8, number % 4)))
        rig.finish_steps()
        if number in (20, 40, 60):
            sizes.append({k: len(v) for k, v in vars(rig.state).items() if hasattr(v, "__len__") and k != "out"})
    assert sizes[0] == sizes[1] == sizes[2]
