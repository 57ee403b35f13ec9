"""Fixed strings that structure a model's output, found in text that arrives in pieces."""

from __future__ import annotations

import re


class Markers:
    """A few short strings. Looking for them costs the same for every character, however the text is cut."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self._beginnings = frozenset(name[:length] for name in names for length in range(1, len(name) + 1))
        self._first = re.compile("[" + "".join(re.escape(char) for char in sorted({name[0] for name in names})) + "]")

    def __contains__(self, text: str) -> bool:
        return text in self._names

    def is_begun_by(self, text: str) -> bool:
        """Whether some marker starts with it."""
        return text in self._beginnings

    def find_first(self, text: str, at: int) -> int:
        """Where, from `at` on, a marker could start; the text's length if nowhere."""
        found = self._first.search(text, at)
        return found.start() if found else len(text)

    def num_begun(self, text: str) -> int:
        """Length of the longest end of `text` that starts a marker. `text` is one character longer than a beginning."""
        starts = range(len(text))
        return next((len(text) - start for start in starts if text[start:] in self._beginnings), 0)
