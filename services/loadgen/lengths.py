"""How many tokens each request brings and asks for: drawn from spreads, or in pairs from those of a trace."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt

from baton.services.loadgen.draws import Purpose, generator, parse_spread
from baton.services.loadgen.load_errors import BadLoad

MAX_TOKENS = 1 << 24  #: of one request: more is a slip of the hand

Counts = npt.NDArray[np.int64]


class Lengths(msgspec.Struct, frozen=True):
    """Of requests in their order; both arrays are `[num_requests]` and at least 1."""

    num_input_tokens: Counts
    num_output_tokens: Counts


def drawn(input_spec: str, output_spec: str, seed: int, count: int) -> Lengths:
    """Both lengths, each by its own spread: a spec is `512`, `uniform:128-1024`, `normal:512,64`. Raises BadLoad."""
    return Lengths(
        draw_tokens(input_spec, "input_tokens", generator(seed, Purpose.INPUT_LENGTHS), count),
        draw_tokens(output_spec, "output_tokens", generator(seed, Purpose.OUTPUT_LENGTHS), count),
    )


def draw_tokens(spec: str, what: str, rng: np.random.Generator, count: int) -> Counts:
    spread = parse_spread(spec, what, least=1, is_whole=True)
    if max(spread.low, spread.mean) > MAX_TOKENS or MAX_TOKENS < spread.high < float("inf"):
        raise BadLoad(f"{what} {spec!r}: more than {MAX_TOKENS} tokens")
    return np.minimum(spread.draw_whole(rng, count), MAX_TOKENS)


def sampled(pairs: Iterable[tuple[int, int]], rng: np.random.Generator, count: int) -> Lengths:
    """Pairs (input tokens, output tokens) drawn with replacement: a long prompt keeps the answer that it had."""
    known = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    if not len(known):
        raise BadLoad("there are no lengths to draw from")
    chosen = known[rng.integers(0, len(known), count)]
    return Lengths(np.maximum(chosen[:, 0], 1), np.maximum(chosen[:, 1], 1))
