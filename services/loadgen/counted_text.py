"""Prompts for a tokenizer that makes several tokens of most words: each text is counted and made right at its end.

Slow beside texts of one-token pieces: some twenty counts for each prompt.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from baton.services.loadgen.number_streams import NumberStreams
from baton.services.loadgen.pieces import LETTERS, CountTokens, PieceSet
from baton.services.loadgen.plan import PlannedRequest

MAX_DROPPED = 4  #: pieces at the end that are given up in search of a text of the right length
NUM_LAST_PIECES = 24  #: that are tried behind each of these texts

Numbers = npt.NDArray[np.int64]


class CountedText:
    """Equal groups and blocks give equal text, of at most as many tokens as they have."""

    def __init__(self, streams: NumberStreams, pieces: PieceSet, count_tokens: CountTokens) -> None:
        self._streams, self._pieces, self._count_tokens = streams, pieces, count_tokens
        alone = [count_tokens(piece) for piece in pieces.pieces]
        self._num_tokens = np.array(alone)  #: of each piece; behind another it may be one more or less

    def text(self, request: PlannedRequest) -> str:
        """With `num_input_tokens` tokens; the nearest number below where no end gives that."""
        wanted = request.num_input_tokens
        numbers = self._numbers(request)
        num_pieces = self._longest_within(numbers, wanted)
        for dropped in range(min(num_pieces, MAX_DROPPED) + 1):
            text = self._pieces.text(numbers[: num_pieces - dropped])
            for end in ("", *self._ends(request, dropped)):
                if self._count_tokens(text + end if text else end.lstrip(self._pieces.separator)) == wanted:
                    return text + end if text else end.lstrip(self._pieces.separator)
        return self._pieces.text(numbers[:num_pieces])

    def _numbers(self, request: PlannedRequest) -> Numbers:
        """Of pieces: those of each shared part that fit into it, then more of its own than can be needed."""
        wanted = request.num_input_tokens
        numbers = self._streams.of_request(request, len(self._pieces.pieces))
        ends = self._ends_of_shared(request)
        shared = [part[np.cumsum(self._num_tokens[part]) <= len(part)] for part in np.split(numbers, ends)[: len(ends)]]
        own = self._streams.own_after(request, wanted, wanted + 1, len(self._pieces.pieces))
        return np.concatenate([*shared, own])

    @staticmethod
    def _ends_of_shared(request: PlannedRequest) -> list[int]:
        """Where prefixes and blocks end, in tokens, as far as the request reaches."""
        sizes = [prefix.num_tokens for prefix in request.prefixes]
        sizes += [request.block_size] * sum(run.count for run in request.blocks)
        return sorted({min(int(end), request.num_input_tokens) for end in np.cumsum(sizes)})

    def _longest_within(self, numbers: Numbers, wanted: int) -> int:
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high + 1) // 2
            if self._count_tokens(self._pieces.text(numbers[:middle])) <= wanted:
                low = middle
            else:
                high = middle - 1
        return low

    def _ends(self, request: PlannedRequest, dropped: int) -> Iterator[str]:
        """Pieces of its own, then single letters: apart, or as part of the last word."""
        first = 2 * request.num_input_tokens + 1 + dropped * NUM_LAST_PIECES
        numbers = self._streams.own_after(request, first, NUM_LAST_PIECES, len(self._pieces.pieces))
        for number in numbers.tolist():
            yield self._pieces.separator + self._pieces.pieces[number]
        for letter in LETTERS:
            yield self._pieces.separator + letter
            yield letter
