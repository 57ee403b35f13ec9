"""Groups of requests that begin with the same tokens, such as the system prompts of several applications."""

from __future__ import annotations

import numpy as np

from baton.services.loadgen.plan import Prefix


def group_prefixes(rng: np.random.Generator, count: int, num_groups: int, num_tokens: int) -> list[tuple[Prefix, ...]]:
    """One for each of `count` requests or sessions: groups are of one size, give or take one, in an order by chance."""
    if not num_groups or not num_tokens:
        return [()] * count
    return [(Prefix(int(group), num_tokens),) for group in rng.permutation(np.arange(count) % num_groups)]
