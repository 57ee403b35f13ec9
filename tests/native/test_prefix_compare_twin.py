"""The C token compare against a loop, around the strides in which it skips."""

import array
import random

import pytest

from baton.core.kv.prefix_compare import first_difference
from tests.support.twins.prefix_compare import first_difference_twin


@pytest.mark.parametrize("length", [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 5000])
def test_every_position_of_a_difference_is_found(length: int) -> None:
    rng = random.Random(length)
    tokens = array.array("i", (rng.randrange(-(2**31), 2**31) for _ in range(length)))
    assert first_difference(tokens, tokens) == length
    for position in {*range(min(length, 70)), *(rng.randrange(length) for _ in range(100 if length else 0))}:
        other = tokens[:]
        other[position] ^= 1 << rng.randrange(31)
        assert first_difference(tokens, other) == first_difference_twin(tokens, other) == position


def test_a_prefix_of_the_other_differs_at_its_own_length() -> None:
    tokens = array.array("i", range(3000))
    for length in (0, 1, 1024, 2047, 3000):
        assert first_difference(tokens, tokens[:length].tobytes()) == length
        assert first_difference(tokens[:length], tokens) == length
