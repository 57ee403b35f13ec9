"""Hold and protection: when a step is of prompts, when prompts are kept back, and until when."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from baton.core.executor import gate, walk
from baton.core.executor.events import Drain
from baton.core.wire import messages as m
from tests.support.alternating import add, alternating, count, done_after, kind, kinds
from tests.support.machines import LAYOUT, SCHEDULER, next_token, prompt, unified, work
from tests.support.plain_scheduler import Item, PlainScheduler
from tests.support.snapshot import snapshot

# ---- C0, C10: what alternates


def test_c0_alternate_a_step_is_of_decodes_or_of_prompts_never_of_both():
    rig = alternating()
    for number in (3, 4, 5):
        add(rig, number, 20)
    assert "M" not in kinds(rig, 12)


@given(st.data())
def test_c10_without_hold_and_protection_steps_are_exactly_those_of_a_plain_prefill_first_scheduler(data):
    budget, cap = data.draw(st.integers(16, 40)), data.draw(st.integers(1, 40))
    hold = data.draw(st.sampled_from(["off", "fill"]))
    none = {"hold_fill": 0.0} if hold == "fill" else {}
    depth = data.draw(st.integers(1, 2))
    rig = unified(
        step_mode="alternate", hold=hold, protect_steps=0, token_budget=budget, long_prefill_tokens=cap,
        num_queued_steps=depth, num_blocks=180, **none,
    )  # fmt: skip
    rig.do(Drain())
    rig.hear(SCHEDULER, m.Returned(50))
    plain = PlainScheduler(budget, cap, LAYOUT.block_size, prefills_first=True)
    planned: deque[list[Item]] = deque()

    def check() -> None:
        for _ in range(len(rig.steps) - len(planned)):
            planned.append(plain.plan())
            plan = rig.steps[len(planned) - 1]
            assert [Item(i.seq_id, i.start, i.num_tokens, i.num_samples == 1) for i in rig.rows(plan)] == planned[-1]

    def answer() -> None:
        if planned:
            plain.done(planned.popleft(), {item.seq_id: next_token(item, 0) for item in rig.rows(rig.steps[0])})
            rig.step_done()
            check()

    for number in range(1, data.draw(st.integers(1, 8)) + 1):
        tokens = [*prompt(data.draw(st.integers(1, 24)), 1), *prompt(data.draw(st.integers(0, 8)), number + 1)]
        max_tokens = data.draw(st.integers(1, 4))
        plain.add(number, tokens, max_tokens)
        rig.run(number, work(tokens, max_tokens))
        check()
        for _ in range(data.draw(st.integers(0, 2))):
            answer()
    while rig.steps:
        answer()
    assert rig.core.quiescent()
    assert not plain.waiting + plain.running


# ---- C9: protection


def test_c9_after_a_step_of_prompts_n_decode_steps_come_before_the_next():
    rig = alternating(protect_steps=3)
    assert kinds(rig, 4) == "DDDD"
    for number in (3, 4, 5):
        add(rig, number, 32)
    assert kinds(rig, 10) == "DPDDDPDDDP"


def test_c9_between_the_chunks_of_one_prompt_too():
    rig = alternating(protect_steps=2)
    kinds(rig, 3)
    add(rig, 3, 96)
    assert kinds(rig, 9) == "DPDDPDDPD"


def test_c9_only_decode_steps_that_ran_count():
    rig = alternating(protect_steps=2, num_queued_steps=2)
    kinds(rig, 6)
    add(rig, 3, 32)
    add(rig, 4, 32)
    launched = []
    for _ in range(6):
        rig.step_done()
        launched.append(kind(rig))
    first = launched.index("P")
    assert launched[first : first + 5] == ["P", "D", "D", "D", "P"]  # of the three the third is not done yet


def test_c9_a_must_fire_bound_ends_protection():
    rig = alternating(protect_steps=50, hold_max_ms=125.0)
    add(rig, 3, 32)
    assert kinds(rig, 2) == "DP"
    add(rig, 4, 32)
    assert kinds(rig, 10) == "D" * 8 + "PD"  # an eighth of a second after its arrival
    assert count(rig, "fires_age") == 1


def test_c9_no_plan_of_prompts_is_built_while_decodes_are_protected():
    rig = alternating(protect_steps=8)
    add(rig, 3, 32)
    assert kinds(rig, 2) == "DP"
    add(rig, 4, 32)
    before = count(rig, "walks")
    assert kinds(rig, 5) == "DDDDD"
    assert count(rig, "walks") == before


def test_c9_no_plan_of_prompts_is_built_for_the_rest_of_one():
    rig = alternating(protect_steps=8)
    add(rig, 3, 64)
    assert kinds(rig, 2) == "DP"
    before = count(rig, "walks")
    assert kinds(rig, 5) == "DDDDD"
    assert count(rig, "walks") == before


# ---- C8: what ends a hold


def test_c8_fires_when_the_fill_is_reached():
    rig = alternating(hold="fill", hold_fill=0.75)
    add(rig, 3, 12)
    assert kinds(rig, 3) == "DDD"
    add(rig, 4, 11)
    assert kinds(rig, 3) == "DDD"
    add(rig, 5, 1 + LAYOUT.block_size)
    assert kinds(rig, 3) == "DPD"
    assert count(rig, "fires_fill") == 1
    assert count(rig, "prefill_tokens_planned") >= 28


def test_c3_256_waiting_prompts_of_200_tokens_fill_a_step_and_fire_at_once():
    rig = alternating(
        1, hold="fill", hold_fill=1.0, token_budget=16_384, long_prefill_tokens=16_384, num_slots=300,
        num_blocks=300 * 60, hold_batch_low=0,
    )  # fmt: skip
    rig.is_checked = False
    for number in range(10, 266):
        add(rig, number, 200)
    assert done_after(rig, 0.0) == "P"
    assert rig.steps[0].num_tokens == 16_384
    assert count(rig, "fires_fill") == 1


def test_c8_fires_when_the_oldest_demand_has_waited_its_time_counted_from_its_arrival():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=200.0)
    add(rig, 3, 4)
    for number in range(4, 10):  # later ones do not arm it again
        assert done_after(rig, 0.03) == "D"
        add(rig, number, 2)
    assert done_after(rig, 0.03) == "P"
    assert count(rig, "fires_age") == 1


def test_c8_the_bound_counts_from_the_oldest_arrival_under_protection_too():
    rig = alternating(protect_steps=50, hold_max_ms=125.0)
    add(rig, 3, 32)
    assert kinds(rig, 2) == "DP"
    for number in range(4, 11):
        add(rig, number, 4)
        assert kinds(rig, 1) == "D"
    assert kinds(rig, 2) == "DP"


def test_c8_fires_when_no_sequence_decodes():
    rig = alternating(0, hold="fill", hold_fill=1.0)
    add(rig, 1, 4)
    assert kind(rig) == "P"
    assert count(rig, "fires_no_decode") == 1


def test_c8_fires_when_the_last_sequence_that_decodes_has_ended():
    rig = alternating(1, hold="fill", hold_fill=1.0)
    add(rig, 2, 4)
    rig.abort(1)
    assert done_after(rig, 0.0) == "P"


def test_c8_fires_when_no_running_sequence_can_decode():
    rig = alternating(1, hold="fill", hold_fill=1.0, num_queued_steps=2)
    first = rig.sequence_of(1)
    while first.num_scheduled + 1 < first.max_len:
        rig.step_done()
    add(rig, 2, 4)
    assert done_after(rig, 0.0) == "P"  # while the last token of the first is being computed
    assert len(rig.state.running) == 2
    assert count(rig, "fires_no_decode") == 1


def test_c8_fires_when_the_batch_is_below_the_low_mark():
    rig = alternating(3, hold="fill", hold_fill=1.0, hold_batch_low=3)
    add(rig, 4, 4)
    assert kinds(rig, 3) == "DDD"
    rig.abort(2)
    assert kinds(rig, 2) == "DP"
    assert count(rig, "fires_batch_low") == 1


def test_c8_fires_when_memory_is_short_and_a_prompt_in_part_holds_some_of_it():
    rig = alternating(hold="fill", hold_fill=0.5, hold_kv_high=0.02, token_budget=64, long_prefill_tokens=32)
    add(rig, 3, 36)  # its first 32 tokens are enough
    assert kinds(rig, 3) == "DPP"
    assert count(rig, "fires_kv_high") == 1


def test_c8_memory_that_is_short_without_a_prompt_in_part_ends_no_hold():
    rig = alternating(hold="fill", hold_fill=0.5, hold_kv_high=0.02)
    add(rig, 3, 4)
    assert kinds(rig, 3) == "DDD"


def test_c8_fires_when_the_rest_of_a_prompt_was_held_for_its_bound():
    rig = alternating(hold="fill", hold_fill=0.5, hold_partial_ms=125.0, token_budget=64, long_prefill_tokens=32)
    add(rig, 3, 36)
    assert kinds(rig, 2) == "DP"
    assert kinds(rig, 9) == "D" * 8 + "P"
    assert count(rig, "fires_partial") == 1


def test_c8_fires_when_demand_has_not_grown_for_the_stall_time():
    rig = alternating(hold="fill", hold_fill=1.0, hold_stall_ms=50.0)
    add(rig, 3, 4)
    assert done_after(rig, 0.04) == "D"
    add(rig, 4, 4)
    assert done_after(rig, 0.04) == "D"
    assert done_after(rig, 0.02) == "P"
    assert len(rig.rows(rig.steps[0])) == 2
    assert count(rig, "fires_stall") == 1


def test_c21_a_prompt_with_nothing_but_its_last_token_to_compute_is_not_held_for_company():
    rig = alternating(hold="fill", hold_fill=1.0)
    rig.run(3, work(prompt(16, 1), max_tokens=4))
    assert done_after(rig, 70.0) == "P"
    assert kinds(rig, 2) == "PD"
    rig.run(4, work(prompt(16, 1), max_tokens=4))
    assert kinds(rig, 2) == "DP"
    assert count(rig, "fires_last_token") == 1


# ---- C17, C13, C5: what counts as demand


def test_c17_an_empty_plan_is_no_fire_and_arms_no_protection():
    rig = alternating(protect_steps=3)
    kinds(rig, 3)
    add(rig, 3, 8)
    rig.abort(3)
    before = {name: value for name, value in rig.state.counters.items() if name.startswith(("fires", "wait", "walks"))}
    assert kinds(rig, 2) == "DD"
    assert rig.state.gate.protect_left == 0
    assert before == {name: value for name, value in rig.state.counters.items() if name in before}


def test_c17_an_overdue_prompt_that_the_plan_does_not_admit_switches_the_policy_off_for_nobody():
    rig = alternating(hold="fill", hold_fill=1.0, hold_max_ms=250.0)
    add(rig, 3, 4)
    seq_id = rig.sequence_of(3).seq_id
    rig.state.queue.set_demand(seq_id, 7, 0)  # what no walk looks for
    rig.is_checked = False
    rig.now += 1.0
    add(rig, 4, 4)
    assert kinds(rig, 5) == "DDDDD"
    before = count(rig, "walks")
    assert kinds(rig, 3) == "DDD"
    assert count(rig, "walks") == before  # and costs no plan in each turn
    rig.now += 0.25
    assert kinds(rig, 2) == "DP"
    assert [item.seq_id for item in rig.rows(rig.state.steps[0].plan)] != [seq_id]


def test_c13_an_aborted_prompt_leaves_under_protection_and_its_blocks_are_free():
    rig = alternating(protect_steps=50)
    add(rig, 3, 32)
    kinds(rig, 2)
    free = rig.books()["blocks_free"]
    add(rig, 4, 32)
    rig.abort(4)
    assert rig.books()["blocks_free"] == free
    assert rig.state.gate.arrivals == {}


def test_c13_an_aborted_rest_of_a_prompt_leaves_at_once_but_for_what_is_launched():
    rig = alternating(protect_steps=50)
    add(rig, 3, 64)
    assert kinds(rig, 2) == "DP"
    rig.abort(3)
    assert rig.state.gate.partials == {}
    assert kinds(rig, 3) == "DDD"


# ---- C1, C2, C4, C11: one decision, at no cost, without a trace


def test_c4_a_turn_on_hold_builds_no_plan_until_demand_changes(monkeypatch):
    rig = alternating(hold="fill", hold_fill=1.0)
    for number in range(3, 8):
        add(rig, number, 4)
    rig.step_done()
    plans = []
    real = walk.plan_prompts
    monkeypatch.setattr(walk, "plan_prompts", lambda state: plans.append(1) or real(state))
    assert kinds(rig, 20) == "D" * 20
    assert plans == []
    add(rig, 8, 4)
    kinds(rig, 5)
    assert len(plans) == 1


def test_c2_a_plan_that_is_looked_at_and_not_launched_leaves_no_trace():
    rig = alternating(protect_steps=50)
    add(rig, 5, 4)
    assert kinds(rig, 2) == "DP"
    rig.run(3, work(prompt(24, 1), max_tokens=4))  # its first block is cached
    rig.run(4, work(prompt(10, 4), max_tokens=4))
    assert kinds(rig, 2) == "DD"  # nobody has planned these yet
    before = snapshot(rig.state)
    first, second = walk.plan_prompts(rig.state), walk.plan_prompts(rig.state)
    assert first == second
    assert first.num_tokens == 30
    assert snapshot(rig.state) == before


def test_c1_the_fill_is_read_from_the_plan_that_is_launched():
    rig = alternating(hold="fill", hold_fill=0.5)
    rig.run(3, work(prompt(28, 30), max_tokens=1))
    kinds(rig, 3)
    planned = count(rig, "prefill_tokens_planned")
    add(rig, 4, 10)
    rig.run(5, work(prompt(30, 30), max_tokens=20))  # all but two of its tokens are cached
    assert kinds(rig, 4) == "DDDD"
    add(rig, 6, 4)
    assert kinds(rig, 2) == "DP"
    assert count(rig, "prefill_tokens_planned") - planned == 16 == count(rig, "prefill_tokens") - planned


def test_c11_nothing_of_an_episode_is_left_after_it():
    rig = alternating(2, hold="fill", hold_fill=1.0, protect_steps=3, hold_stall_ms=30.0)
    for number in range(3, 9):
        add(rig, number, 30 * number)  # of most of them a part is computed when they leave
        kinds(rig, 6)
    assert rig.state.gate.partials
    for number in range(1, 9):
        rig.abort(number)
    rig.finish_steps()
    state = rig.state.gate
    assert (state.arrivals, state.partials, state.kept) == ({}, {}, None)
    assert rig.core.quiescent()


def test_c12_a_mode_is_one_value_that_is_computed_once():
    rig = alternating()
    assert rig.state.gate.is_alternate
    assert not unified().state.gate.is_alternate
    assert gate.Gate.__slots__.count("is_alternate") == 1
