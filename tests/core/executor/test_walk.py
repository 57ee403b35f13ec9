"""The one walk: what a step computes, and that a plan which is not committed leaves no trace."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.executor import tokens, walk
from baton.core.executor.events import Drain, Exit, Launch, StepDone
from baton.core.executor.steps import ItemResult, StepResult, TokenLogprobs
from baton.core.ids import AttemptId
from baton.core.layout import KvLayout
from baton.core.wire import messages as m
from tests.support.expect import only, says, the
from tests.support.machines import (
    LAYOUT,
    ROUTER,
    SCHEDULER,
    D,
    next_token,
    packed,
    prefiller,
    prompt,
    send_to,
    unified,
    work,
)
from tests.support.plain_scheduler import Item, PlainScheduler
from tests.support.snapshot import snapshot


def shape(rig, plan):
    """(sequence, start, tokens, samples) of each item."""
    return [(item.seq_id, item.start, item.num_tokens, item.num_samples) for item in rig.rows(plan)]


def test_c0_mixed_decodes_come_first_and_prompt_chunks_fill_the_same_budget():
    rig = unified(token_budget=16, num_queued_steps=1)
    rig.run(1, work(prompt(4, 1)))
    rig.run(2, work(prompt(40, 2)))
    rig.step_done()
    assert shape(rig, rig.steps[0]) == [(1, 4, 1, 1), (2, 0, 15, 0)]
    rig.step_done()
    assert shape(rig, rig.steps[0]) == [(1, 5, 1, 1), (2, 15, 15, 0)]


def with_room_to_grow(**knobs):
    """A unified executor with free blocks that the scheduler was not promised, and stays so."""
    rig = unified(**knobs)
    rig.do(Drain())
    rig.hear(SCHEDULER, m.Returned(50))
    return rig


@given(st.data())
def test_c1_and_c27_what_is_planned_is_what_the_device_reports(data):
    rig = with_room_to_grow(
        num_blocks=128,
        token_budget=data.draw(st.integers(16, 40)),
        long_prefill_tokens=data.draw(st.integers(1, 40)),
        num_queued_steps=data.draw(st.integers(1, 2)),
        growth_reserve=data.draw(st.integers(1, 4)),
    )
    budget = rig.state.config.token_budget
    asked = {}
    for number in range(1, data.draw(st.integers(1, 6)) + 1):
        length = data.draw(st.integers(1, 30))
        asked[number] = work(prompt(length, data.draw(st.integers(1, 3))), max_tokens=data.draw(st.integers(1, 5)))
        rig.run(number, asked[number])
    computed = 0
    while rig.steps:
        plan = rig.steps[0]
        assert 0 < plan.num_tokens <= budget
        assert len({item.seq_id for item in rig.rows(plan)}) == len(rig.rows(plan))
        computed += plan.num_tokens
        rig.step_done()
    whole = sum(one.num_tokens + one.sampling.max_tokens - 1 for one in asked.values())
    assert computed <= whole
    assert rig.state.counters["steps_launched"] == rig.state.counters["steps_done"]
    assert rig.core.quiescent()


@pytest.mark.parametrize("wrong", ["fewer tokens", "another sequence", "no sample", "an item missing"])
def test_c27_and_o4_a_result_that_differs_from_its_plan_fails_the_requests_and_stops_the_executor(wrong):
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(6)))
    right = rig.answer(rig.steps[0])
    item = right.items[0]
    items = {
        "fewer tokens": (ItemResult(item.seq_id, item.num_computed - 1, item.sampled),),
        "another sequence": (ItemResult(item.seq_id + 1, item.num_computed, item.sampled),),
        "no sample": (ItemResult(item.seq_id, item.num_computed, ()),),
        "an item missing": (),
    }[wrong]
    out = rig.do(StepDone(StepResult(right.step_id, items, 0.1)))
    assert only(out, m.AttemptFailed, Exit) == [
        the(out, Exit),
        says("router", m.AttemptFailed, id=AttemptId(1, 0)),
    ]


@pytest.mark.parametrize("wrong", ["a token too few", "another position", "another's scores", "another's grammar"])
def test_c27_and_o4_a_batch_that_was_not_decoded_as_planned_is_a_broken_step(wrong):
    rig = unified(num_queued_steps=1)
    rig.run(1, work(prompt(6)))
    rig.run(2, work(prompt(6, 2)))
    rig.step_done()
    rig.step_done()
    plan = rig.steps[0]
    right = rig.answer(plan)
    assert (plan.decodes, plan.num_context, right.num_context) == ((1, 2), 15, 15)
    changed = {
        "a token too few": {"decoded": right.decoded[:1]},
        "another position": {"num_context": 14},
        "another's scores": {"logprobs": ((plan.decodes[1] + 1, TokenLogprobs(-1.0, (), ())),)},
        "another's grammar": {"grammar_failed": (plan.decodes[1] + 1,)},
    }[wrong]
    out = rig.do(StepDone(replace(right, **changed)))
    assert len(only(out, m.AttemptFailed)) == 2
    assert the(out, Exit)


def test_a_batch_is_named_by_the_same_object_as_long_as_it_is_the_same():
    rig = unified(num_queued_steps=2)
    rig.run(1, work(prompt(6)))
    rig.run(2, work(prompt(6, 2), max_tokens=4))
    named = []
    while rig.steps:
        if rig.steps[0].decodes:
            named.append(rig.steps[0].decodes)
        rig.step_done()
    pairs = list(pairwise(named))
    assert {one == next_one for one, next_one in pairs} == {True, False}
    assert all((one is next_one) == (one == next_one) for one, next_one in pairs)


@given(st.data())
def test_c2_planning_twice_gives_the_same_and_leaves_no_trace(data):
    rig = unified(token_budget=20, num_queued_steps=1, num_blocks=data.draw(st.sampled_from([24, 64])))
    for number in range(1, data.draw(st.integers(1, 5)) + 1):
        asked = work(prompt(data.draw(st.integers(1, 20)), data.draw(st.integers(1, 2))), max_tokens=4)
        if rig.demand(asked).decode_blocks <= rig.state.memory.outstanding_blocks:
            rig.run(number, asked)
    for _ in range(data.draw(st.integers(0, 4))):
        if rig.steps:
            rig.step_done()
    before = snapshot(rig.state)
    first, second = walk.plan_step(rig.state), walk.plan_step(rig.state)
    assert first == second
    assert snapshot(rig.state) == before


def test_c3_the_walk_goes_on_until_the_budget_is_spent_however_many_prompts_that_takes():
    rig = prefiller(
        token_budget=16_384, long_prefill_tokens=16_384, num_slots=257, num_blocks=257 * 50, num_queued_steps=1
    )
    rig.is_checked = False
    rig.prefill(1000, work(prompt(4, 1)))
    for number in range(256):
        rig.prefill(number, work(prompt(200, number + 2)))
    rig.step_done()
    plan = rig.steps[0]
    assert plan.num_tokens == 16_384  # fill 1.0
    assert len(rig.rows(plan)) == 82


def test_c4_a_turn_costs_no_more_with_many_waiting_than_with_few(monkeypatch):
    visits = []
    real = walk._plan_chunk
    monkeypatch.setattr(walk, "_plan_chunk", lambda *arguments: visits.append(1) or real(*arguments))
    costs = []
    for depth in (8, 200):
        rig = prefiller(token_budget=16, num_slots=256, num_blocks=2048, num_queued_steps=1, parked_tokens=1 << 30)
        rig.is_checked = False
        for number in range(depth):
            rig.prefill(number, work(prompt(4, number + 1)))
        visits.clear()
        rig.step_done()
        costs.append(len(visits))
    assert costs == [4, 4]


def test_c4_what_parked_prompts_hold_back_is_not_visited(monkeypatch):
    rig = prefiller(token_budget=4, num_slots=256, num_blocks=2048, num_queued_steps=1, parked_tokens=4)
    for number in range(200):
        rig.prefill(number, work(prompt(4, number + 1)))
    rig.step_done()  # 0 is parked; 1 to 198 wait, and a decode executor asks for 199
    assert not rig.steps
    visits = []
    real = walk._plan_chunk
    monkeypatch.setattr(walk, "_plan_chunk", lambda *arguments: visits.append(arguments[1]) or real(*arguments))
    rig.hear(D, m.Receive(199, AttemptId(199, 0), 0, packed([1]), 1 << 40))
    assert [sequence.group.work_id for sequence in visits] == [AttemptId(199, 0)]
    assert rig.state.queue.num_visited < 20


def test_c4_a_prompt_is_hashed_once_in_its_life(monkeypatch):
    hashed = []
    real = tokens.hash_chain
    monkeypatch.setattr(tokens, "hash_chain", lambda *a: hashed.append(len(a[2]) // 4) or real(*a))
    rig = unified(token_budget=16)
    rig.run(1, work(prompt(40), max_tokens=6))
    rig.finish_steps()
    assert hashed == [4]  # the router hashed the prompt; 45 tokens have KV and make one more full block


def test_c5_aborted_and_loading_requests_are_no_demand():
    rig = unified(token_budget=16, num_queued_steps=1)
    rig.run(1, work(prompt(16, 1)))
    rig.run(2, work(prompt(16, 2)))
    rig.run(3, work(prompt(16, 3)))
    rig.abort(2)
    rig.step_done()
    assert [item.seq_id for item in rig.rows(rig.steps[0])] == [1, 3]


def test_c6_and_c21_the_budget_is_charged_with_tokens_to_compute_never_with_cached_ones():
    rig = unified(token_budget=32, num_queued_steps=1, num_slots=8, num_blocks=512)
    rig.run(1, work(prompt(128), max_tokens=1))
    rig.finish_steps()
    for number in range(2, 6):
        rig.run(number, work([*prompt(124), *prompt(8, number)], max_tokens=1))
    rig.steps.clear()
    plan = rig.core.state.steps[0].plan
    assert shape(rig, plan)[0][1:3] == (124, 8)
    rig.steps.append(plan)
    rig.step_done()
    assert [(start, count) for _, start, count, _ in shape(rig, rig.steps[0])] == [(124, 8)] * 3


def test_c7_the_reason_that_ended_a_walk_is_counted():
    rig = unified(token_budget=16)
    rig.run(1, work(prompt(16, 1)))
    rig.run(2, work(prompt(16, 2)))
    rig.run(3, work(prompt(16, 3)))
    rig.step_done()
    assert rig.state.counters["walk_token_budget"] >= 1


@pytest.mark.parametrize("block_size", [1, 2, 4, 5, 10, 20, 25, 50, 100])
def test_c21_of_1000_tokens_with_900_cached_100_are_computed_at_any_block_size(block_size):
    layout = KvLayout(1, 1, 1, "float32", block_size, "model", "tokenizer")
    rig = unified(layout=layout, token_budget=2048, long_prefill_tokens=2048, num_blocks=4096, growth_reserve=1)
    rig.run(1, work(prompt(900), max_tokens=1, layout=layout))
    rig.finish_steps()
    rig.run(2, work(prompt(1000), max_tokens=1, layout=layout))
    assert [(item.start, item.num_tokens) for item in rig.rows(rig.steps[0])] == [(900, 100)]


@pytest.mark.parametrize("block_size", [2, 4, 8, 32])
def test_c21_a_wholly_cached_prompt_computes_its_last_token_in_a_copy(block_size):
    layout = KvLayout(1, 1, 1, "float32", block_size, "model", "tokenizer")
    rig = with_room_to_grow(layout=layout, num_blocks=256, growth_reserve=1)
    rig.run(1, work(prompt(64), max_tokens=1, layout=layout))
    rig.finish_steps()
    rig.run(2, work(prompt(64), max_tokens=1, layout=layout))
    plan = rig.steps[0]
    assert [(item.start, item.num_tokens, item.num_samples) for item in rig.rows(plan)] == [(63, 1, 1)]
    (copy,) = plan.copies
    table = memoryview(rig.rows(plan)[0].new_block_ids).cast("i").tolist()
    assert copy.num_slots == block_size - 1
    assert (copy.source != copy.destination, table[-1]) == (True, copy.destination)


def test_c21_without_a_free_block_for_the_copy_only_the_last_block_is_computed_again():
    rig = unified(num_blocks=17, growth_reserve=1)
    rig.run(1, work(prompt(32), max_tokens=1))
    rig.finish_steps()
    rig.run(2, work(prompt(32), max_tokens=1))
    plan = rig.steps[0]
    assert [(item.start, item.num_tokens) for item in rig.rows(plan)] == [(28, 4)]
    assert plan.copies == ()
    rig.finish_steps()
    assert rig.core.quiescent()


def test_c21_a_wholly_cached_prompt_computes_one_token_although_every_free_block_is_granted():
    rig = unified(growth_reserve=1, num_spare_blocks=1)
    rig.run(1, work(prompt(32), max_tokens=1))
    rig.finish_steps()
    rig.run(2, work(prompt(32), max_tokens=1))
    assert rig.steps[0].num_tokens == 1


@pytest.mark.parametrize("place", ["run", "prefill"])
def test_a_request_does_not_evict_the_prefix_that_it_is_going_to_use(place):
    rig = unified(num_blocks=16, growth_reserve=1) if place == "run" else prefiller(num_blocks=16)
    for number, seed in ((1, 1), (2, 2), (3, 1)):
        asked = work(prompt(32, seed), max_tokens=1)
        if place == "run":
            rig.run(number, asked)
        else:
            send_to(rig, number, asked)
        planned = rig.steps[0].num_tokens
        rig.finish_steps()
        rig.land_pieces()
    assert planned < 32


def test_c22_one_long_prompt_takes_no_more_of_a_step_than_its_cap():
    rig = unified(token_budget=32, long_prefill_tokens=10, num_queued_steps=1)
    rig.run(1, work(prompt(2, 9)))
    rig.run(2, work(prompt(40, 1)))
    rig.run(3, work(prompt(40, 2)))
    rig.step_done()
    assert [count for _, _, count, _ in shape(rig, rig.steps[0])] == [1, 10, 10]


def test_c20_a_resumed_attempt_computes_prompt_and_what_it_had_generated():
    rig = unified()
    asked = work([*prompt(10), 7, 8, 9], max_tokens=8, prior=3)
    assert rig.demand(asked).life_blocks == 5  # 10 + 8 - 1 positions, as for the first attempt
    rig.run(1, asked, attempt=1)
    assert [(item.start, item.num_tokens) for item in rig.rows(rig.steps[0])] == [(0, 13)]


def test_c17_a_turn_without_demand_launches_nothing_and_counts_nothing():
    rig = unified()
    before = dict(rig.state.counters)
    out = rig.hear(ROUTER, m.Abort(AttemptId(9, 0)))
    assert only(out, Launch) == []
    assert dict(rig.state.counters) == before


@given(st.data())
def test_c10_mixed_steps_are_exactly_those_of_the_plain_scheduler(data):
    """Random queues with shared prefixes, budgets, caps and depths of the launch queue, arrivals in between."""
    budget, cap = data.draw(st.integers(16, 40)), data.draw(st.integers(1, 40))
    depth = data.draw(st.integers(1, 2))
    rig = with_room_to_grow(token_budget=budget, long_prefill_tokens=cap, num_queued_steps=depth, num_blocks=180)
    plain = PlainScheduler(budget, cap, LAYOUT.block_size)
    planned: deque[list[Item]] = deque()
    number_of: dict[int, int] = {}

    def check() -> None:
        for _ in range(len(rig.steps) - len(planned)):
            planned.append(plain.plan())
            plan = rig.steps[len(planned) - 1]
            got = [Item(number_of[i.seq_id], i.start, i.num_tokens, i.num_samples == 1) for i in rig.rows(plan)]
            assert got == planned[-1]

    for number in range(1, data.draw(st.integers(1, 8)) + 1):
        tokens = [*prompt(data.draw(st.integers(1, 24)), 1), *prompt(data.draw(st.integers(0, 8)), number + 1)]
        max_tokens = data.draw(st.integers(1, 4))
        number_of[number] = number  # sequences are numbered as they come
        plain.add(number, tokens, max_tokens)
        rig.run(number, work(tokens, max_tokens))
        check()
        for _ in range(data.draw(st.integers(0, 2))):
            answer_both(rig, plain, planned)
            check()
    while rig.steps:
        answer_both(rig, plain, planned)
        check()
    assert rig.core.quiescent()
    assert not plain.waiting
    assert not plain.running


def answer_both(rig, plain: PlainScheduler, planned: deque[list[Item]]) -> None:
    if planned:
        plan = rig.steps[0]
        plain.done(planned.popleft(), {item.seq_id: next_token(item, 0) for item in rig.rows(plan)})
        rig.step_done()


def test_w4_the_order_of_the_queue_is_class_then_tenant_then_arrival():
    rig = prefiller(token_budget=8, num_queued_steps=1)
    send_to(rig, 1, work(prompt(8, 1)))
    for number, cls in ((2, 3), (3, 1), (4, 1)):
        asked = work(prompt(8, number))
        order = m.Order(cls, 0, number)
        rig.hear(SCHEDULER, m.Prefill(AttemptId(number, 0), asked, order, 2, 60_000))
    order_of_launch = []
    while rig.steps:
        order_of_launch.append(rig.rows(rig.steps[0])[0].seq_id)
        rig.step_done()
    assert order_of_launch == [1, 3, 4, 2]
