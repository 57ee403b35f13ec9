"""Text to token ids, by the faster of two libraries where it is known to agree with the other.

`tokenizers` is the reference: what it says is right. `fastokens` takes a fifth of the time and a fraction of the memory
for byte-level BPE. It is used for a model only if both say the same of every probe when the model is loaded, and never
for a text that it refuses.
"""

from __future__ import annotations

import array
from collections.abc import Iterable
from typing import Any

import fastokens
from tokenizers import Tokenizer

#: whatever a tokenizer's rules look at: kinds of characters, white space, contractions, digits, marks, long words
PROBES = (
    "",
    " ",
    "Hello, world! It's 12345 o'clock; they'll've known I'm DON'T.",
    "def f(x):\n    return x ** 2 # 3.14e-10\n\n\n\tif x!=0x1F:\r\n\r\n  pass   \n ",
    "größer naïve ÀÉÎ ﬁnance ①②③ Ⅻ ½ ٣٤ १२३",
    "速い茶色の狐が、のろまな犬を飛び越える。한국어 문장 하나. Жёлтый дом; γλῶσσα; עִבְרִית; العَرَبِيَّة",
    "👩\u200d👩\u200d👧 family 😀😀 \u0301e\u0301\u200b\u00a0\u3000\u2028x\x00\x1f\x7f\ufffd\U0010ffff",
    "a" * 300 + " " * 300 + "\n" * 100 + "=" * 100 + "9" * 100,
    "https://example.org/a_b-c?d=e&f=%20#g {\"k\": [1, null]} <b>'\"`~^|\\",
)


class TextTokens:
    """One model's tokenizer. Threads may share it."""

    def __init__(self, tokenizer_json: str, control_names: Iterable[str]) -> None:
        self._spelled, self._ordinary = _reference(tokenizer_json), _reference(tokenizer_json)
        self._ordinary.encode_special_tokens = True
        self.has_normalizer = self._spelled.normalizer is not None  #: which may shorten a text
        self._fast = _fast(tokenizer_json)
        probes = [*PROBES, *(f"x {name} y{name}{name}z" for name in control_names)]
        if self._fast is not None and not all(map(self._agrees, probes)):
            self._fast = None

    @property
    def library(self) -> str:
        """The one that makes the tokens: the faster one only if the two agree about this tokenizer."""
        return "tokenizers" if self._fast is None else "fastokens"

    def ids(self, text: str, *, is_ordinary: bool = False, adds_special: bool = False) -> bytes:
        """int32 ids. `is_ordinary`: names of control tokens are text like any other. `adds_special`: with what the
        tokenizer puts around a text. Releases the GIL while it works."""
        if self._fast is not None:
            try:
                ids: bytes = self._fast.encode_batch_flat(
                    [text], add_special_tokens=adds_special, split_special_tokens=is_ordinary
                )[0]
            except ValueError:  # such as millions of blanks, which its regular expressions do not take
                return self.reference_ids(text, is_ordinary, adds_special)
            return ids
        return self.reference_ids(text, is_ordinary, adds_special)

    def reference_ids(self, text: str, is_ordinary: bool, adds_special: bool) -> bytes:
        """The batch call of one text: it holds the GIL for milliseconds where `encode` with its offsets holds it 20
        times as long."""
        tokenizer = self._ordinary if is_ordinary else self._spelled
        encoding = tokenizer.encode_batch_fast([text], add_special_tokens=adds_special)[0]
        return array.array("i", encoding.ids).tobytes()

    def _agrees(self, text: str) -> bool:
        ways = [(False, False), (False, True), (True, False)]
        return all(
            self.ids(text, is_ordinary=is_ordinary, adds_special=adds_special)
            == self.reference_ids(text, is_ordinary, adds_special)
            for is_ordinary, adds_special in ways
        )


def _reference(tokenizer_json: str) -> Any:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _fast(tokenizer_json: str) -> Any:
    """None for a tokenizer of a kind that it does not know."""
    try:
        tokenizer = fastokens.Tokenizer.from_json_str(tokenizer_json)
    except ValueError:
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
