"""A sampled token, and the scores of a prompt's tokens, as every process sees them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import msgspec

ROW = 5  #: numbers of a token that brings nothing else


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Log-probability of the chosen token, and of the most likely ones, most likely first."""

    logprob: float
    top_ids: tuple[int, ...]
    top_logprobs: tuple[float, ...]


class SampledToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One token of one choice."""

    choice: int
    token: int
    logprobs: TokenLogprobs | None = None


class TokenRows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens that bring nothing else, of many choices: each is a row of `ROW` numbers."""

    packed: bytes = b""  #: int64[n, ROW]: request id, attempt, choice, offset, token

    def __post_init__(self) -> None:
        """Raises ValueError (a decoding error on the wire) when the last row is not whole."""
        if len(self.packed) % (8 * ROW):
            raise ValueError("tokens are no whole rows")

    def __bool__(self) -> bool:
        return bool(self.packed)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        numbers = iter(array("q", self.packed))
        return zip(numbers, numbers, numbers, numbers, numbers, strict=True)


def pack_rows(numbers: Iterable[int]) -> TokenRows:
    """Of `ROW` numbers for each token, one row after the other."""
    return TokenRows(array("q", numbers).tobytes())


class PromptScores(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How likely the model found the prompt's tokens from position `first` on, each given the tokens before it.

    Position i of n has float32[n] `logprobs[i]` and the k most likely tokens in its place, most likely first: row i of
    int32[n, k] `top_ids` and float32[n, k] `top_logprobs`. All packed little-endian; n and k follow from the lengths.
    """

    first: int  #: 1 where it is the whole prompt: nothing comes before its first token
    logprobs: bytes = b""
    top_ids: bytes = b""
    top_logprobs: bytes = b""

    def __post_init__(self) -> None:
        """Raises ValueError (a decoding error on the wire) when the lengths do not fit together."""
        if self.first < 1 or len(self.logprobs) % 4 or len(self.top_ids) != len(self.top_logprobs):
            raise ValueError("prompt scores do not fit together")
        if len(self.top_ids) % len(self.logprobs) if self.logprobs else self.top_ids:
            raise ValueError("prompt scores have another number of alternatives at each position")

    @property
    def num_tokens(self) -> int:
        """Tokens that have a score."""
        return len(self.logprobs) // 4

    def is_complete(self, num_prompt_tokens: int) -> bool:
        """Whether every token of a prompt of that length but the first has its score."""
        return self.first == 1 and self.num_tokens == num_prompt_tokens - 1

    def unpack(self) -> tuple[TokenLogprobs, ...]:
        """One for each position."""
        logprobs, top_logprobs = array("f", self.logprobs), array("f", self.top_logprobs)
        top_ids = array("i", self.top_ids)
        k = len(top_ids) // max(1, len(logprobs))
        rows = (slice(index * k, index * k + k) for index in range(len(logprobs)))
        return tuple(
            TokenLogprobs(logprob, tuple(top_ids[row]), tuple(top_logprobs[row]))
            for logprob, row in zip(logprobs, rows, strict=True)
        )


def pack_scores(first: int, rows: Iterable[TokenLogprobs]) -> PromptScores:
    """The scores of the tokens from position `first` on, all with as many alternatives."""
    scores = tuple(rows)
    return PromptScores(
        first,
        array("f", [row.logprob for row in scores]).tobytes(),
        array("i", [token for row in scores for token in row.top_ids]).tobytes(),
        array("f", [value for row in scores for value in row.top_logprobs]).tobytes(),
    )


def join_scores(parts: Sequence[PromptScores]) -> PromptScores:
    """One for parts that follow each other; without any, that of a prompt of one token. Raises ValueError for a gap."""
    first = end = parts[0].first if parts else 1
    for part in parts:
        if part.first != end:
            raise ValueError(f"scores from position {part.first} on follow those before {end}")
        end += part.num_tokens
    return PromptScores(
        first,
        b"".join(part.logprobs for part in parts),
        b"".join(part.top_ids for part in parts),
        b"".join(part.top_logprobs for part in parts),
    )
