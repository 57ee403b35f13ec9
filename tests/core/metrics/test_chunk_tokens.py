"""Tokens of chunks: what the server counts, or its total shared out by characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.chunk_tokens import chunk_tokens, num_output_tokens, share
from baton.core.metrics.facts import UNKNOWN, Chunk, RequestFacts


def facts(*chunks: Chunk, total: int = UNKNOWN) -> RequestFacts:
    return RequestFacts(index=0, scheduled_s=0.0, chunks=chunks, num_output_tokens=total)


def test_counts_with_the_events_are_taken_as_they_are():
    counted = facts(Chunk(1.0, 40, 1), Chunk(2.0, 1, 6), total=8)
    assert chunk_tokens(counted) == (1, 6)
    assert num_output_tokens(counted) == 8, "the total is usage's: it may count a token that brought no text"
    assert num_output_tokens(facts(Chunk(1.0, 40, 1), Chunk(2.0, 1, 6))) == 7


def test_one_event_without_a_count_leaves_the_usage_alone():
    partly = facts(Chunk(1.0, 5, 1), Chunk(2.0, 5), total=2)
    assert chunk_tokens(partly) == (1, 1)
    assert num_output_tokens(facts(Chunk(1.0, 5, 1), Chunk(2.0, 5))) is None


def test_without_any_count_there_are_none():
    assert chunk_tokens(facts(Chunk(1.0, 5))) is None
    assert chunk_tokens(facts()) == ()
    assert num_output_tokens(facts()) is None
    assert num_output_tokens(facts(total=0)) == 0


def test_a_total_is_shared_by_characters():
    assert share(13, [20, 20, 5, 20]) == (4, 4, 1, 4)
    assert share(4, [1, 1, 97, 1]) == (1, 1, 1, 1), "a chunk with text has a token where there are enough"
    assert share(3, [0, 0, 0]) == (1, 1, 1)
    assert share(3, [1, 1]) == (2, 1), "running sums are rounded to the nearest, halves up"
    assert share(2, [1, 1, 1]) == (1, 0, 1), "with fewer tokens than chunks the first and the last chunk have one"
    assert share(1, [9, 9]) == (1, 0)
    assert share(0, [3]) == (0,)


@given(st.integers(0, 300), st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_shares_are_whole_and_add_up(total, weights):
    shares = share(total, weights)
    assert sum(shares) == total
    assert len(shares) == len(weights)
    assert min(shares) >= (1 if total >= len(weights) else 0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 7))
def test_shares_are_exact_where_every_token_has_as_much_text(tokens, chars):
    assert share(sum(tokens), [count * chars for count in tokens]) == tuple(tokens)
