"""How many blocks a request takes: one answer for whoever spends credit and whoever allocates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.kv.demand import blocks_for, choice_blocks, demand


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 5), st.integers(1, 300), st.integers(1, 64))
def test_a_demand_is_the_blocks_that_its_choices_touch(num_tokens, max_new, num_choices, reserve, size):
    """Counted slot by slot: choices share the prompt's full blocks, the last output token needs no KV."""

    def touched(num_new: int) -> int:
        shared = {("prompt", position // size) for position in range(num_tokens // size * size)}
        own = {
            (choice, position // size)
            for choice in range(num_choices)
            for position in range(num_tokens // size * size, num_tokens + num_new - 1)
        }
        return len(shared | own)

    wanted = demand(num_tokens, max_new, num_choices, reserve, size)
    assert wanted.prefill_blocks == blocks_for(num_tokens, size)
    assert wanted.decode_blocks == touched(min(max_new, reserve))
    assert wanted.life_blocks == touched(max_new)
    assert wanted.num_slots == num_choices


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 49), st.integers(1, 16))
def test_c20_a_resumed_request_needs_no_more_at_its_longest_than_it_did_at_first(num_tokens, max_tokens, done, size):
    done = min(done, max_tokens - 1)
    first = demand(num_tokens, max_tokens, 1, 8, size).life_blocks
    assert demand(num_tokens + done, max_tokens - done, 1, 8, size).life_blocks == first


@pytest.mark.parametrize(("num_tokens", "num_new", "blocks"), [(8, 1, 2), (8, 2, 3), (8, 5, 3), (8, 6, 4), (7, 2, 2)])
def test_the_last_output_needs_no_slot(num_tokens, num_new, blocks):
    assert choice_blocks(num_tokens, num_new, 4) == blocks
