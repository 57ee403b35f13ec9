"""The per-request records of a run, one line of JSON each, written as the facts arrive."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from baton.core.metrics.facts import RequestFacts


class Records:
    """A file of whole lines, whatever happens: every batch is handed to the system at once, and a batch that does not
    fit is cut off. After the first failure nothing more is written, and `failure` says why.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.path = path
        self.failure = ""
        self.num_written = 0
        self._encoder = msgspec.json.Encoder()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._num_bytes = 0  #: of whole batches

    def add(self, facts: Iterable[RequestFacts]) -> None:
        if self.failure:
            return
        batch = tuple(facts)
        try:
            self._write(self._encoder.encode_lines(batch))
        except OSError as error:
            self.failure = f"{self.path}: {error.strerror}; it holds the first {self.num_written} requests that ended"
            self._cut()
        else:
            self.num_written += len(batch)

    def close(self) -> None:
        if self._file < 0:
            return
        try:
            os.close(self._file)
        except OSError as error:
            self.failure = self.failure or f"{self.path}: {error.strerror}"
        self._file = -1

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._num_bytes += len(data)

    def _cut(self) -> None:
        try:
            os.ftruncate(self._file, self._num_bytes)
        except OSError:
            return  # no regular file
