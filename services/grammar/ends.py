"""The model's ends of a sequence in a mask. Such a token ends the answer wherever it stands, and a grammar may name it
by its id anywhere: in its middle it is taken out of the mask, so that no answer that has ended is half of one."""

from __future__ import annotations

from collections.abc import Iterable

from llguidance import LLMatcher


def without_early_ends(state: LLMatcher, bits: bytes, ends: Iterable[int]) -> bytes:
    """The state's mask without those of `ends` after which the grammar would have to go on."""
    named = [token for token in ends if bits[token >> 3] >> (token & 7) & 1]
    if not named or state.is_accepting():
        return bits
    changed = bytearray(bits)
    for token in named:
        if not _completes(state, token):
            changed[token >> 3] &= ~(1 << (token & 7))
    return bytes(changed)


def _completes(state: LLMatcher, token: int) -> bool:
    after = state.deep_copy()  # the library's rollback does not bring back all of a state
    return bool(after.consume_token(token) and after.is_accepting())
