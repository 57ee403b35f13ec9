"""A sampled token as every process sees it."""

from __future__ import annotations

import msgspec


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log-probability of the chosen token, and of the most likely ones, most likely first."""

    logprob: float
    top_ids: tuple[int, ...]
    top_logprobs: tuple[float, ...]


class SampledToken(msgspec.Struct, frozen=True, array_like=True):
    """One token of one choice."""

    choice: int
    token: int
    logprobs: TokenLogprobs | None = None
