"""Geometry of KV memory: bytes, runs and the fingerprint that two executors compare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.layout import DTYPE_BYTES, KvLayout

LAYOUTS = st.builds(
    KvLayout,
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 8),
    st.sampled_from(sorted(DTYPE_BYTES)),
    st.integers(1, 9),
    st.just("model"),
    st.just("tokenizer"),
)


@given(LAYOUTS, st.data())
def test_runs_cover_exactly_the_slots_and_planes_that_were_asked_for(layout, data):
    first_slot = data.draw(st.integers(0, layout.block_size - 1))
    end_slot = data.draw(st.integers(first_slot + 1, layout.block_size))
    first_plane = data.draw(st.integers(0, layout.num_planes - 1))
    end_plane = data.draw(st.integers(first_plane + 1, layout.num_planes))
    covered: set[int] = set()
    for run in layout.runs(first_slot, end_slot, first_plane, end_plane):
        part = set(range(run.offset, run.offset + run.length))
        assert covered.isdisjoint(part)
        covered |= part
    wanted = {
        plane * layout.plane_bytes + slot * layout.slot_bytes + byte
        for plane in range(first_plane, end_plane)
        for slot in range(first_slot, end_slot)
        for byte in range(layout.slot_bytes)
    }
    assert covered == wanted


@given(LAYOUTS)
def test_a_block_is_its_tokens_and_whole_planes_are_one_run(layout):
    assert layout.block_bytes == layout.block_size * layout.token_bytes == layout.num_planes * layout.plane_bytes
    assert layout.runs(0, layout.block_size, 0, layout.num_planes) == [(0, layout.block_bytes)]


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_blocks_for_rounds_up(num_tokens, num_blocks):
    assert KvLayout(1, 1, 1, "float32", 4, "m", "t").blocks_for(num_tokens) == num_blocks


@given(LAYOUTS, LAYOUTS)
def test_kvt_08_fingerprints_are_equal_only_for_equal_layouts(one, other):
    assert (one.fingerprint() == other.fingerprint()) == (one == other)
    assert len(one.fingerprint()) == 16


@pytest.mark.parametrize(
    ("num_layers", "told"),
    [(1, []), (2, [1]), (3, [2]), (5, [3, 4]), (30, [15, 23, 27, 29]), (16, [8, 12, 14, 15])],
)
def test_h8_a_step_tells_when_half_of_what_is_left_is_written(num_layers, told):
    assert KvLayout(num_layers, 1, 4, "float32", 16, "model", "tokenizer").layers_to_tell() == told
