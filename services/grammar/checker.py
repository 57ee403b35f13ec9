"""Tells good grammars from bad ones, at a bounded cost however hostile they are."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import IO

from baton.core.errors import Incompatible, InvariantViolated
from baton.services.grammar.check_process import read_frame, write_frame
from baton.services.grammar.errors import BadGrammar, CheckerLost
from baton.services.grammar.limits import MAX_CHECK_CPU_S, MAX_GRAMMAR_BYTES

NUM_VERDICTS = 4096  #: remembered; each takes up to half a kilobyte
MAX_WAIT_S = 60.0  #: for an answer, which takes a second of CPU time at most: longer, and the process is lost


class Checker:
    """Owns the process that checks. Thread-safe; grammars are checked one at a time.

    Lifecycle: the process starts with the object and reads the vocabulary meanwhile; `close` ends it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_GRAMMAR_BYTES,
        max_cpu_s: float = MAX_CHECK_CPU_S,
        num_verdicts: int = NUM_VERDICTS,
    ) -> None:
        self.num_checked = 0  #: not answered from memory
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_cpu_s = max_cpu_s
        self._num_verdicts = num_verdicts
        self._lock = threading.Lock()  #: over all below
        self._verdicts: OrderedDict[bytes, str] = OrderedDict()  #: digest → fault, last used last
        self._is_ready = False  #: the process has said that the model can be used
        self._process: subprocess.Popen[bytes] | None = self._start()

    def check(self, grammar: str) -> None:
        """Return if executors can use the grammar. Blocks: for threads that may wait.

        BadGrammar: its fault. Incompatible: no grammar can be used with this model. CheckerLost: not known; try again.
        """
        data = grammar.encode()
        if len(data) > self._max_bytes:
            raise BadGrammar(f"written for the library it takes {len(data)} bytes, at most {self._max_bytes}")
        digest = hashlib.blake2b(data, digest_size=16).digest()
        with self._lock:
            fault = self._verdicts.get(digest)
            if fault is None:
                fault = self._ask(grammar)
                self._remember(digest, fault)
            self._verdicts.move_to_end(digest)
        if fault:
            raise BadGrammar(fault)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _remember(self, digest: bytes, fault: str) -> None:
        self._verdicts[digest] = fault
        if len(self._verdicts) > self._num_verdicts:
            self._verdicts.popitem(last=False)

    # ---- the process

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "baton.services.grammar.check_process", str(self._folder)]
        return subprocess.Popen([*command, str(self._max_cpu_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, grammar: str) -> str:
        self._process = self._process or self._start()
        guard = threading.Timer(MAX_WAIT_S, self._process.kill)
        guard.start()
        try:
            return self._exchange(self._process, grammar)
        except (Incompatible, CheckerLost):
            self._end()
            raise
        finally:
            guard.cancel()

    def _exchange(self, process: subprocess.Popen[bytes], grammar: str) -> str:
        if process.stdin is None or process.stdout is None:
            raise InvariantViolated("the process was started with pipes")
        if not self._is_ready:
            complaint = read_answer(process.stdout)
            if complaint:
                raise Incompatible(complaint)
            self._is_ready = True
        try:
            write_frame(process.stdin, grammar)
        except OSError as error:
            raise CheckerLost("the process that checks grammars has ended") from error
        self.num_checked += 1
        return read_answer(process.stdout)

    def _end(self) -> None:
        process, self._process = self._process, None
        self._is_ready = False
        if process is not None:
            process.kill()
            with contextlib.suppress(BrokenPipeError), process:  # closes the pipes, waits
                pass


def read_answer(stream: IO[bytes]) -> str:
    answer = read_frame(stream)
    if answer is None:
        raise CheckerLost("the process that checks grammars has ended")
    return answer
