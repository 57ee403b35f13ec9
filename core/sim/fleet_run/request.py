"""What a client asks in a performance run. Prompts are real token ids with real block hashes, so that caches hit as
they would; what the tokens say, nobody looks at.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

BLOCKS = 0  #: ids of a trace's blocks count from here
GROUPS = 1_000_000_000  #: tokens of a group's prefix
OWN = 1_500_000_000  #: tokens that one request alone has
ANSWERS = 2_000_000_000  #: tokens of its answer
MAX_INDEX = 100_000_000  #: of requests and groups: their tokens are 31 bits

_SPAN = {BLOCKS: GROUPS, GROUPS: OWN - GROUPS, OWN: ANSWERS - OWN, ANSWERS: MAX_INDEX}


def token_of(kind: int, number: int) -> int:
    """The token id that stands for this block, group, request or answer."""
    return kind + number % _SPAN[kind]


def text_tokens(text: str) -> bytes:
    """int32 tokens of a text where no tokenizer is at hand: one for each four bytes of it, equal where these are."""
    data = text.encode()
    return (np.frombuffer(data + bytes(-len(data) % 4), np.int32) & 0x7FFFFFFF).tobytes()


class Span(NamedTuple):
    """`each` tokens of each of the ids `first`, `first + 1` … `first + num_ids − 1`."""

    first: int
    num_ids: int = 1
    each: int = 1


class SimRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request. Its prompt is its text or its spans, cut to `num_input_tokens`, and what they lack as tokens of its
    own."""

    index: int
    num_input_tokens: int  #: without what it repeats
    num_output_tokens: int
    spans: tuple[Span, ...] = ()
    text: bytes = b""  #: int32 tokens
    repeats: int | None = None  #: index of a request whose prompt and answer it begins with
    cancel_after_s: float | None = None
    session: str = ""
    turn: int = 0
    is_measured: bool = True
    is_due_by_plan: bool = True
    priority_class: int = 0
    tenant: str = ""
    num_choices: int = 1

    def prompt(self, before: bytes = b"") -> bytes:
        """int32 tokens, after those of `before`."""
        parts = [np.frombuffer(before, np.int32)] if before else []
        if self.text:
            parts.append(np.frombuffer(self.text, np.int32)[: self.num_input_tokens])
        left = self.num_input_tokens - len(self.text) // 4
        for span in self.spans:
            if left <= 0:
                break
            ids = np.arange(span.first, span.first + span.num_ids, dtype=np.int32)
            parts.append(np.repeat(ids, span.each)[:left])
            left -= len(parts[-1])
        parts.append(np.full(max(left, 0), token_of(OWN, self.index), np.int32))
        return np.concatenate(parts).tobytes()

    @property
    def answer_token(self) -> int:
        return token_of(ANSWERS, self.index)

    def answer(self) -> bytes:
        """All tokens of its answer."""
        return np.full(self.num_output_tokens, self.answer_token, np.int32).tobytes()
