"""What may be found in the prefix index: computed blocks under their salt, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.kv.block_hash import hash_chain, root_hash
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import KEY, SCHEDULER, P, decoder, packed, prompt, sampled, unified, work


def started_at(rig) -> int:
    """Position at which the newest launched prompt begins to be computed."""
    return rig.rows(rig.steps[-1])[-1].start


def test_g3_a_block_is_published_when_its_last_slot_is_computed_not_when_it_is_allocated():
    rig = unified(token_budget=16, num_queued_steps=1)
    rig.run(1, work(prompt(30)))
    assert rig.core.gauges()["blocks_cached"] == 0
    out = rig.step_done()
    assert len(the(out, m.CacheChanged).published) == 4 * 16
    out = rig.step_done()
    assert len(the(out, m.CacheChanged).published) == 3 * 16  # 30 tokens: the last two slots are open


@pytest.mark.parametrize(("num_tokens", "max_tokens"), [(8, 1), (8, 4), (8, 5), (8, 6), (7, 2), (11, 5)])
def test_g3_after_the_end_prompt_and_outputs_but_one_have_kv(num_tokens, max_tokens):
    rig = unified()
    rig.run(1, work(prompt(num_tokens), max_tokens=max_tokens))
    rig.finish_steps()
    assert rig.core.gauges()["blocks_cached"] == (num_tokens + max_tokens - 1) // 4


def test_sch_04_a_block_whose_step_is_not_done_is_not_found():
    rig = unified()
    rig.run(1, work(prompt(16, 1)))
    rig.run(2, work(prompt(16, 1)))
    assert [item.start for plan in rig.steps for item in rig.rows(plan) if item.num_tokens > 1] == [0]
    rig.step_done()
    assert rig.rows(rig.steps[-1])[-1].start in (0, 12, 16)


def test_sch_04_requests_with_one_prefix_in_one_step_each_compute_it():
    rig = unified(num_queued_steps=1)
    rig.run(9, work(prompt(4, 9)))
    for number in range(1, 4):
        rig.run(number, work(prompt(16, 1)))
    rig.step_done()
    assert [item.start for item in rig.rows(rig.steps[0]) if item.num_tokens > 1] == [0, 0, 0]
    rig.finish_steps()
    assert rig.core.gauges()["blocks_free"] == 64


def test_sch_04_blocks_of_an_aborted_prompt_are_found_as_far_as_they_were_computed():
    rig = unified(token_budget=16, num_queued_steps=1)
    rig.run(1, work(prompt(40)))
    rig.step_done()
    rig.abort(1)
    rig.step_done()
    rig.run(2, work(prompt(40)))
    assert started_at(rig) == 16


def test_sec_07_the_same_salt_hits_another_salt_or_none_does_not():
    rig = unified()
    for number, (salt, start) in enumerate([(b"A", 0), (b"A", 16), (b"B", 0), (b"", 0), (b"", 16), (b"B", 16)], 1):
        rig.run(number, work(prompt(17), salt=salt, max_tokens=1))
        assert started_at(rig) == start
        out = rig.finish_steps()
        assert [r.num_cached_tokens for message in messages(out, m.Records) for r in message.records] == [start]


def test_sec_07_a_decode_executor_keeps_salts_apart_too():
    rig = decoder()
    for number, (salt, first) in enumerate([(b"A", 0), (b"A", 4), (b"B", 0), (b"", 0)], 1):
        assert the(rig.decode(number, work(prompt(17), salt=salt, max_tokens=2), P), m.Receive).first_block == first
        rig.hear(P, m.ChunkLanded(number, 0))
        rig.hear(P, m.Sealed(number, 1, sampled(7)))
        rig.finish_steps()


def root(salt: bytes, adapter: bytes, layout: bytes = bytes(16)) -> bytes:
    return root_hash(KEY, layout, salt, adapter)


def test_sec_06_fields_of_a_root_cannot_imitate_each_other():
    roots = [root(b"ab", b"c"), root(b"a", b"bc"), root(b"abc", b""), root(b"", b"abc"), root(b"c", b"ab")]
    roots += [root(b"abc", b"", b"another layout  "), root_hash(bytes(16), bytes(16), b"abc", b"")]
    assert len(set(roots)) == len(roots)


@given(st.lists(st.integers(0, 40), min_size=4, max_size=8), st.lists(st.integers(0, 40), min_size=4, max_size=8))
def test_sec_06_different_tokens_have_different_hashes(one, other):
    chains = [hash_chain(KEY, root(b"", b""), packed(tokens[:4]), 4) for tokens in (one, other)]
    assert (chains[0] == chains[1]) == (one[:4] == other[:4])


def test_sec_06_a_shift_between_neighbours_is_another_hash():
    chain = {hash_chain(KEY, root(b"", b""), packed(t), 2) for t in ([5, 36], [36, 5], [36, 67], [1, 23], [12, 3])}
    assert len(chain) == 5


def test_sec_07_hashes_depend_on_the_key_of_the_deployment():
    same = hash_chain(KEY, root(b"", b""), packed(prompt(8)), 4)
    assert same != hash_chain(bytes(16), root(b"", b""), packed(prompt(8)), 4)


def test_c18_what_a_plan_found_in_the_index_is_held_from_the_same_turn_on():
    """The found blocks cannot be evicted between the turn that found them and the step that reads them."""
    rig = unified(num_blocks=16, growth_reserve=1, num_queued_steps=1)
    rig.run(1, work(prompt(17, 1), max_tokens=1))
    rig.finish_steps()
    rig.run(2, work(prompt(18, 1), max_tokens=1))
    found = list(rig.state.sequences[2].block_ids)[:4]
    rig.run(3, work(prompt(40, 3), max_tokens=1))
    assert all(rig.state.memory.pool.ref_count(block) >= 1 for block in found)
    assert set(found).isdisjoint(rig.state.sequences[3].block_ids)


def test_c18_cached_tokens_are_counted_once_for_each_admission():
    rig = unified(token_budget=16)
    rig.run(1, work(prompt(32), max_tokens=1))
    rig.finish_steps()
    rig.run(2, work([*prompt(32), *prompt(40, 5)], max_tokens=1))
    out = rig.finish_steps()
    records = [record for message in messages(out, m.Records) for record in message.records]
    assert [record.num_cached_tokens for record in records] == [32]


def test_the_scheduler_hears_of_every_publication_and_eviction_once():
    rig = unified(num_blocks=8, growth_reserve=1)
    out = rig.run(1, work(prompt(32, 1), max_tokens=1)) + rig.finish_steps()
    published = b"".join(message.published for message in messages(out, m.CacheChanged))
    out = rig.run(2, work(prompt(32, 2), max_tokens=1)) + rig.finish_steps()
    evicted = b"".join(message.evicted for message in messages(out, m.CacheChanged))
    assert {published[i : i + 16] for i in range(0, 128, 16)} == {evicted[i : i + 16] for i in range(0, 128, 16)}
    assert len(published) == len(evicted) == 128


def test_a_new_session_with_the_scheduler_begins_with_the_whole_index():
    rig = unified()
    rig.run(1, work(prompt(32), max_tokens=1))
    rig.finish_steps()
    rig.down(SCHEDULER)
    inventory = the(rig.up(SCHEDULER), m.ExecutorInventory)
    assert len(inventory.cached) == 8 * 16
    assert says("scheduler", m.CacheChanged) not in only(rig.run(2, work(prompt(4, 2))), m.CacheChanged)
