"""How many output tokens a request had, and each of its chunks.

Tokens are counted by the server alone: text is never tokenized again. Where it says a count with each event, that is
taken. Otherwise `usage`'s total is shared out by characters: an estimate, exact where all tokens have as much text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from baton.core.metrics.facts import UNKNOWN, RequestFacts, TokenChunks


def num_output_tokens(facts: RequestFacts) -> int | None:
    """What `usage` says, or else the sum of the counts with the events; None where the server says neither."""
    if facts.num_output_tokens != UNKNOWN:
        return facts.num_output_tokens
    return _counted(facts)


def chunk_times(facts: RequestFacts) -> Sequence[float]:
    """When each came."""
    chunks = facts.chunks
    return chunks.times if isinstance(chunks, TokenChunks) else [chunk.time_s for chunk in chunks]


def chunk_tokens(facts: RequestFacts) -> Sequence[int] | None:
    """One count for each chunk; None where the server says no counts at all."""
    if not facts.chunks:
        return ()
    if isinstance(facts.chunks, TokenChunks):
        return facts.chunks.counts
    if _counted(facts) is not None:
        return tuple(_counts(facts))
    if facts.num_output_tokens == UNKNOWN:
        return None
    return share(facts.num_output_tokens, [chunk.num_chars for chunk in facts.chunks])


def share(total: int, weights: list[int]) -> tuple[int, ...]:
    """Whole numbers with sum `total`, as proportional to `weights` as running sums that are rounded allow.

    Everyone gets at least one where there are enough; otherwise the first and then the last do.
    """
    if not any(weights):
        weights = [1] * len(weights)
    sums = list(accumulate(weights))
    whole = sums[-1]
    fair = [(2 * total * running + whole) // (2 * whole) for running in sums]
    shares = tuple(end - begin for begin, end in pairwise((0, *fair)))
    return shares if min(shares) > 0 else _with_floors(total, fair)


def _with_floors(total: int, fair: list[int]) -> tuple[int, ...]:
    """Move the ends of fair shares as little as gives everyone, or else the first and the last, at least one."""
    ends = [0]
    for index, end in enumerate(fair):
        num_after = len(fair) - 1 - index
        if total >= len(fair):
            ends.append(min(max(end, ends[-1] + 1), total - num_after))
        else:
            kept_back = min(num_after, 1, max(total - 1, 0))
            ends.append(min(max(end, ends[-1], 1), total - kept_back))
    return tuple(end - begin for begin, end in pairwise(ends))


def _counted(facts: RequestFacts) -> int | None:
    counts = _counts(facts)
    return None if not counts or UNKNOWN in counts else sum(counts)


def _counts(facts: RequestFacts) -> Sequence[int]:
    chunks = facts.chunks
    return chunks.counts if isinstance(chunks, TokenChunks) else [chunk.num_tokens for chunk in chunks]
