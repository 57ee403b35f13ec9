"""Finds stop strings in a text that arrives in pieces, reading each character once.

Of several matches the one that ends first counts, and of those that end together the longest. So the result does not
depend on how the text was cut.
"""

from __future__ import annotations

from typing import NamedTuple


class StopMatch(NamedTuple):
    end: int  #: characters of the pushed piece up to and including the match
    length: int  #: of the stop string; it may begin in an earlier piece


def failure_table(pattern: str) -> list[int]:
    """For each length of a matched prefix, the length of its longest proper border (Knuth, Morris and Pratt)."""
    table = [0] * (len(pattern) + 1)
    border = 0
    for length in range(2, len(pattern) + 1):
        while border and pattern[border] != pattern[length - 1]:
            border = table[border]
        if pattern[border] == pattern[length - 1]:
            border += 1
        table[length] = border
    return table


class StopScanner:
    """Invariant: `_matched[i]` is the longest suffix of the text so far that begins stop string i."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        #: longest first, so that of two that end together the longer is found first
        self._patterns = [(stop, failure_table(stop)) for stop in sorted(stops, key=len, reverse=True)]
        self._matched = [0] * len(stops)

    @property
    def num_held(self) -> int:
        """Characters at the end of the text that may turn out to begin a stop string."""
        return max(self._matched)

    def push(self, text: str) -> StopMatch | None:
        """Read on. After a match the scanner must not be used again."""
        if not any(self._matched) and not any(pattern[0] in text for pattern, _ in self._patterns):
            return None
        for position, char in enumerate(text):
            for index, (pattern, table) in enumerate(self._patterns):
                matched = self._matched[index]
                while matched and pattern[matched] != char:
                    matched = table[matched]
                if pattern[matched] == char:
                    matched += 1
                if matched == len(pattern):
                    return StopMatch(position + 1, matched)
                self._matched[index] = matched
        return None
