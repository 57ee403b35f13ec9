"""Pieces of text of which prompts are put together, such that the tokenizer at hand makes one token of each.

Where a tokenizer knows too few of the words, single letters are tried, which suits those of bytes and characters. A
set counts only if texts of many pieces have as many tokens; else the words are used and every text must be counted.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.words import WORDS

LETTERS = tuple(string.ascii_letters + string.digits)
MIN_PIECES = 48  #: fewer would give prompts that are too alike
PROBE_PIECES = 512
NUM_PROBES = 8

CountTokens = Callable[[str], int]


class PieceSet(msgspec.Struct, frozen=True):
    pieces: tuple[str, ...]
    separator: str  #: between two of them
    is_one_token_each: bool  #: seen with the tokenizer, not assumed

    def text(self, numbers: npt.NDArray[np.int64]) -> str:
        pieces = self.pieces
        return self.separator.join([pieces[number] for number in numbers.tolist()])


ASSUMED = PieceSet(WORDS, " ", False)  #: for a tokenizer that is not at hand


def token_counter(tokenizer_json: Path) -> CountTokens:
    """Counts the tokens of a text, without those that a tokenizer puts around it. Raises BadLoad."""
    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_json))
    except Exception as error:  # the library has no narrower type
        raise BadLoad(f"tokenizer {tokenizer_json}: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def pieces_for(count_tokens: CountTokens) -> PieceSet:
    for candidates, separator in ((WORDS, " "), (LETTERS, "")):
        # Both of two in a row: the first has no separator before it, and some tokenizers tell them apart.
        fitting = tuple(
            piece
            for piece in candidates
            if count_tokens(piece) == 1 and count_tokens(f"{piece}{separator}{piece}") == 2
        )
        if len(fitting) >= MIN_PIECES:
            found = PieceSet(fitting, separator, True)
            if _is_additive(found, count_tokens):
                return found
    return ASSUMED


def _is_additive(pieces: PieceSet, count_tokens: CountTokens) -> bool:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, len(pieces.pieces), (NUM_PROBES, PROBE_PIECES))
    return all(count_tokens(pieces.text(row)) == PROBE_PIECES for row in numbers)
