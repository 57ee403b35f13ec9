"""Compiles a grammar and tries it: what an executor would do with it, before one is asked to."""

from __future__ import annotations

import random
import re

import numpy as np
from llguidance import LLMatcher

from baton.services.grammar.ends import without_early_ends
from baton.services.grammar.matcher import TokenMask
from baton.services.grammar.vocabulary import Vocabulary

MAX_ERROR_CHARS = 400
NO_TEXT = "no text that the model can write matches the grammar"
EARLY_END = "it goes on after a token that ends every answer of this model, and has no other way"
#: of the control tokens, whose names are hidden from the library
NAMES = re.compile(r"; following special tokens are available: .*")
NUM_WALKS = 3
WALK_TOKENS = 24  #: in each walk


def find_fault(vocabulary: Vocabulary, grammar: str) -> str:
    """Why the grammar cannot be used, for its author; empty if it can. The same answer each time, but for its cost.

    Some faults show only once tokens are masked: that nothing matches, or that a step takes too much. So a few random
    outputs begin here. A grammar that passes may still fail later in an output; that ends its request, nothing else.
    """
    compiled = vocabulary.compile(grammar)
    if compiled.is_error():
        return _told(compiled)
    for seed in range(NUM_WALKS):
        fault = _walk(vocabulary, compiled.deep_copy(), random.Random(seed))
        if fault:
            return fault
    return ""


def _walk(vocabulary: Vocabulary, state: LLMatcher, draw: random.Random) -> str:
    for _ in range(WALK_TOKENS):
        bits = state.compute_bitmask()
        if state.is_error():
            return _told(state)
        allowed = _token_ids(vocabulary, without_early_ends(state, bits, vocabulary.eos_token_ids))
        going_on = allowed[~np.isin(allowed, vocabulary.eos_token_ids)]
        if not len(allowed):
            return EARLY_END if len(_token_ids(vocabulary, bits)) else NO_TEXT
        if not len(going_on) or state.is_stopped():
            return ""
        state.consume_token(int(going_on[draw.randrange(len(going_on))]))
        if state.is_error():
            return _told(state)
    return ""


def _token_ids(vocabulary: Vocabulary, bits: bytes) -> np.ndarray:
    return TokenMask(bits, vocabulary.size).token_ids()


def _told(state: LLMatcher) -> str:
    """The library's message without what it appends for its own developers."""
    message = state.get_error().split("<state>")[0].split("<non-verbose/>")[0].strip()
    message = NAMES.sub("; control tokens are named by their ids, as in <[0]>", message)
    if message.startswith("NoExtension"):
        return "no text matches the grammar"
    return message[:MAX_ERROR_CHARS] or "the grammar cannot be used"
