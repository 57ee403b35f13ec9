"""Philox4x32-10, a counter-based random function (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

A draw is a pure function of its key and counter: nothing is remembered between draws, so what other requests drew,
where a sequence runs and how often it was resumed cannot change it.
"""

from __future__ import annotations

MASK_32 = 0xFFFFFFFF


def philox_4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Ten rounds; all words are 32-bit."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product_0, product_1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c2 = (product_1 >> 32) ^ c1 ^ k0, (product_0 >> 32) ^ c3 ^ k1
        c1, c3 = product_1 & MASK_32, product_0 & MASK_32
        k0, k1 = (k0 + 0x9E3779B9) & MASK_32, (k1 + 0xBB67AE85) & MASK_32
    return c0, c1, c2, c3


def keyed_uniform(seed: int, position: int, choice: int) -> float:
    """A number in [0, 1) with 53 random bits, for output number `position` (from 0) of a request's answer `choice`."""
    words = philox_4x32((position & MASK_32, choice & MASK_32, 0, 0), (seed & MASK_32, (seed >> 32) & MASK_32))
    return ((words[0] << 21) ^ (words[1] >> 11)) * 2.0**-53
