"""Compiles a grammar and tries it: what an executor would do with it, before one is asked to."""

from __future__ import annotations

import random

import numpy as np
from llguidance import LLMatcher

from baton.services.grammar.vocabulary import Vocabulary

MAX_ERROR_CHARS = 400
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
        bits = np.frombuffer(state.compute_bitmask(), dtype=np.uint8)
        if state.is_error():
            return _told(state)
        allowed = np.flatnonzero(np.unpackbits(bits, count=vocabulary.size, bitorder="little"))
        going_on = allowed[~np.isin(allowed, vocabulary.eos_token_ids)]
        if not len(allowed):
            return "no text that the model can write matches the grammar"
        if not len(going_on) or state.is_stopped():
            return ""
        state.consume_token(int(going_on[draw.randrange(len(going_on))]))
        if state.is_error():
            return _told(state)
    return ""


def _told(state: LLMatcher) -> str:
    """The library's message without what it appends for its own developers."""
    message = state.get_error().split("<state>")[0].split("<non-verbose/>")[0].strip()
    if message.startswith("NoExtension"):
        return "no text matches the grammar"
    return message[:MAX_ERROR_CHARS] or "the grammar cannot be used"
