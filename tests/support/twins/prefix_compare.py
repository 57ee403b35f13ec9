"""Where two token sequences part, one token at a time."""

from collections.abc import Sequence


def first_difference_twin(a: Sequence[int], b: Sequence[int]) -> int:
    for position, (token_a, token_b) in enumerate(zip(a, b, strict=False)):
        if token_a != token_b:
            return position
    return min(len(a), len(b))
