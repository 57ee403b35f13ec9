"""Which tokens may follow: a grammar's state after the tokens of one output."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from llguidance import LLMatcher

from baton.services.grammar.ends import without_early_ends
from baton.services.grammar.vocabulary import Vocabulary


class TokenMask:
    """Which of `[0, size)` tokens are allowed; at least one is."""

    __slots__ = ("_bits", "_size", "is_of_failure")

    def __init__(self, bits: bytes, size: int, is_of_failure: bool = False) -> None:
        self._bits = bits  #: token t is bit t % 8 of byte t // 8
        self._size = size
        self.is_of_failure = is_of_failure  #: the grammar cannot go on: what is allowed only fills a token's place

    def allows(self, token: int) -> bool:
        return bool(self._bits[token >> 3] >> (token & 7) & 1)

    def token_ids(self) -> np.ndarray:
        """int64[num_allowed], ascending."""
        return np.flatnonzero(
            np.unpackbits(np.frombuffer(self._bits, dtype=np.uint8), count=self._size, bitorder="little").view(bool)
        )


class Matcher:
    """The grammar's state after the tokens taken so far. One thread at a time.

    What the library learns of a grammar while it finds masks is bounded; once that is full nothing goes on. Then a new
    state takes the tokens again, and so learns only what lies on their path. Once the grammar is complete, only the
    model's ends of a sequence are allowed; also, but under a mask that says so, once it has failed for good: where a
    token is taken that no mask allowed, where one step would take more work than the limits grant, where no token of
    the model goes on, or only one that ends the answer there.
    """

    def __init__(
        self, begin: Callable[[], LLMatcher], vocabulary: Vocabulary, ends: bytes, on_failure: Callable[[str], None]
    ) -> None:
        self._begin = begin
        self._state = begin()
        self._taken: list[int] = []
        self._ends = ends  #: the bits of a mask
        self._end_ids = vocabulary.eos_token_ids
        self._size = vocabulary.size
        self._on_failure = on_failure
        self._has_failed = False
        if self._state.is_error():
            self._fail()

    def take(self, token: int) -> None:
        if self._is_over():
            return
        self._taken.append(token)
        if not self._state.consume_token(token):
            self._begin_again()

    def mask(self) -> TokenMask:
        """What may come next."""
        bits = b"" if self._is_over() else self._find_bits()
        if bits:
            return TokenMask(bits, self._size)
        return TokenMask(self._ends, self._size, self._has_failed)

    def _find_bits(self) -> bytes:
        """Of what may come next; empty where that shows that the grammar is over."""
        bits = self._state.compute_bitmask()
        if self._state.is_error():
            self._begin_again()
            if self._is_over():
                return b""
            bits = self._state.compute_bitmask()
        if not self._state.is_error():
            bits = without_early_ends(self._state, bits, self._end_ids)
        if self._state.is_error() or not self._allows_any(bits):
            self._fail()
            return b""
        return bits

    def _allows_any(self, bits: bytes) -> bool:
        """Whether a token of the model is among what is allowed: its tokenizer may have more of them."""
        num_whole, num_bits = divmod(self._size, 8)
        return bits.count(0, 0, num_whole) < num_whole or bool(num_bits and bits[num_whole] & ((1 << num_bits) - 1))

    def _is_over(self) -> bool:
        return self._has_failed or bool(self._state.is_stopped() and not self._state.is_error())

    def _begin_again(self) -> None:
        self._state = self._begin()
        self._state.consume_tokens(self._taken)
        if self._state.is_error():
            self._fail()

    def _fail(self) -> None:
        self._has_failed = True
        self._on_failure(self._state.stop_reason())  # the error itself may quote what a client wrote


class Matchers:
    """Makes matchers. Any thread. Each compiles its grammar anew, in about a millisecond: copies of a compiled one
    would share what the library learns of it, and with it the bound on that."""

    def __init__(self, vocabulary: Vocabulary, on_failure: Callable[[str], None] = lambda _: None) -> None:
        """`on_failure` is told why, once for each matcher that fails, by the thread that uses it."""
        self.num_compiled = 0
        self.num_failed = 0  #: outputs whose grammar could not go on
        self.vocabulary = vocabulary
        self._ends = vocabulary.pack(vocabulary.eos_token_ids)
        self._tell_failure = on_failure

    def start(self, grammar: str, outputs: Iterable[int] = ()) -> Matcher:
        """The state after `outputs`. Never raises: a grammar that cannot be compiled has failed."""

        def begin() -> LLMatcher:
            self.num_compiled += 1
            return self.vocabulary.compile(grammar)

        matcher = Matcher(begin, self.vocabulary, self._ends, self._count_failure)
        for token in outputs:
            matcher.take(token)
        return matcher

    def _count_failure(self, message: str) -> None:
        self.num_failed += 1
        self._tell_failure(message)
