"""Which tokens may follow: a grammar's state after the tokens of one output, and the compiled grammars behind it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np
from llguidance import LLMatcher

from baton.services.grammar.vocabulary import Vocabulary

NUM_COMPILED = 64  #: grammars kept ready; each takes some 0.1 … 10 MB


class TokenMask:
    """Which of `[0, size)` tokens are allowed; at least one is."""

    __slots__ = ("_bits", "_size")

    def __init__(self, bits: bytes, size: int) -> None:
        self._bits = bits  #: token t is bit t % 8 of byte t // 8
        self._size = size

    def allows(self, token: int) -> bool:
        return bool(self._bits[token >> 3] >> (token & 7) & 1)

    def token_ids(self) -> np.ndarray:
        """int64[num_allowed], ascending."""
        return np.flatnonzero(
            np.unpackbits(np.frombuffer(self._bits, dtype=np.uint8), count=self._size, bitorder="little").view(bool)
        )


class Matcher:
    """The grammar's state after the tokens taken so far. One thread at a time.

    Once the grammar is complete, or has failed, only the model's ends of a sequence are allowed. It fails where a
    token is taken that no mask allowed, or where a step would take more work than the limits grant.
    """

    def __init__(self, state: LLMatcher, ends: TokenMask, size: int, on_failure: Callable[[str], None]) -> None:
        self._state = state
        self._ends = ends
        self._size = size
        self._on_failure = on_failure
        self._has_failed = False
        self._check()

    def take(self, token: int) -> None:
        if not self._has_failed and not self._state.is_stopped():
            self._state.consume_token(token)
            self._check()

    def mask(self) -> TokenMask:
        """What may come next."""
        if self._has_failed or self._state.is_stopped():
            return self._ends
        bits = self._state.compute_bitmask()
        self._check()
        if self._has_failed or bits.count(0) == len(bits):
            return self._ends
        return TokenMask(bits, self._size)

    def _check(self) -> None:
        if not self._has_failed and self._state.is_error():
            self._has_failed = True
            self._on_failure(self._state.stop_reason())  # the error itself may quote what a client wrote


class Matchers:
    """Makes matchers; compiles a grammar once for as long as it stays among the last `num_cached` used. Any thread."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        num_cached: int = NUM_COMPILED,
        on_failure: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_failure` is told why, once for each matcher that fails, by the thread that uses it."""
        self.num_compiled = 0
        self.num_failed = 0  #: outputs that ended early because their grammar could not go on
        self._vocabulary = vocabulary
        self._num_cached = num_cached
        self._ends = TokenMask(vocabulary.pack(vocabulary.eos_token_ids), vocabulary.size)
        self._tell_failure = on_failure
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()  #: by grammar, last used last

    def start(self, grammar: str, outputs: Iterable[int] = ()) -> Matcher:
        """The state after `outputs`. Never raises: a grammar that cannot be compiled allows only ends."""
        matcher = Matcher(self.compile(grammar).deep_copy(), self._ends, self._vocabulary.size, self._count_failure)
        for token in outputs:
            matcher.take(token)
        return matcher

    def compile(self, grammar: str) -> LLMatcher:
        """The compiled grammar, from the cache if it is there; to be copied before use."""
        with self._lock:
            compiled = self._compiled.get(grammar)
            if compiled is None:
                compiled = self._vocabulary.compile(grammar)
                self.num_compiled += 1
                self._compiled[grammar] = compiled
                if len(self._compiled) > self._num_cached:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(grammar)
            return compiled

    def _count_failure(self, message: str) -> None:
        self.num_failed += 1
        self._tell_failure(message)
