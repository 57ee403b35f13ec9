"""Scores of a prompt's tokens: packed, cut and joined without loss, and never of lengths that do not fit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.wire.tokens import PromptScores, TokenLogprobs, join_scores, pack_scores

EIGHTHS = st.integers(-1000, 0).map(lambda number: number / 8)  # exact in float32


@st.composite
def rows(draw: st.DrawFn) -> list[TokenLogprobs]:
    num_top = draw(st.integers(0, 3))
    tops = st.tuples(*[st.integers(0, 1 << 20)] * num_top)
    values = st.tuples(*[EIGHTHS] * num_top)
    return draw(st.lists(st.builds(TokenLogprobs, EIGHTHS, tops, values), max_size=12))


@given(rows(), st.integers(1, 1000))
def test_what_is_packed_is_unpacked(scored: list[TokenLogprobs], first: int) -> None:
    scores = pack_scores(first, scored)
    assert scores.unpack() == tuple(scored)
    assert scores.num_tokens == len(scored)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(scores), type=PromptScores) == scores


@given(rows(), st.lists(st.integers(0, 12), max_size=4))
def test_the_parts_of_a_prompt_are_joined_to_the_whole(scored: list[TokenLogprobs], cuts: list[int]) -> None:
    cuts = sorted(min(cut, len(scored)) for cut in cuts)
    edges = list(zip([0, *cuts], [*cuts, len(scored)], strict=True))
    whole = join_scores([pack_scores(1 + begin, scored[begin:end]) for begin, end in edges])
    assert whole == pack_scores(1, scored)
    assert whole.is_complete(len(scored) + 1)


def test_a_prompt_of_one_token_has_complete_scores_of_nothing() -> None:
    assert join_scores([]) == PromptScores(1)
    assert PromptScores(1).is_complete(1)
    assert PromptScores(1).unpack() == ()


def test_what_lacks_its_beginning_or_its_end_is_not_complete_and_a_gap_is_an_error() -> None:
    one = TokenLogprobs(-1.0, (), ())
    assert not pack_scores(2, [one]).is_complete(3)
    assert not pack_scores(1, [one]).is_complete(3)
    with pytest.raises(ValueError, match="follow"):
        join_scores([pack_scores(1, [one]), pack_scores(3, [one])])


@pytest.mark.parametrize(
    "fields",
    [
        (0, b"", b"", b""),
        (1, bytes(3), b"", b""),
        (1, bytes(8), bytes(8), bytes(12)),
        (1, bytes(8), bytes(12), bytes(12)),
        (1, bytes(8), bytes(6), bytes(6)),
        (1, b"", bytes(4), bytes(4)),
    ],
)
def test_lengths_that_do_not_fit_together_are_a_decoding_error(fields: tuple[int, bytes, bytes, bytes]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=PromptScores)
