"""Token masks for sequences with a grammar, found on a thread beside the one that computes.

What may follow a sequence's outputs does not depend on the logits: a device asks for the masks of a step before it
computes the step, and the sampler collects them after it. Grammars are compiled on the same thread, once for all
sequences that share them.
"""

from __future__ import annotations

from array import array
from concurrent.futures import Future, ThreadPoolExecutor

from baton.services.grammar.matcher import Matcher, Matchers, TokenMask


class SequenceGrammar:
    """What one sequence may say next. `tokens` is the sequence's own array, which grows by what is sampled.

    The state follows the outputs in the array and nothing else, so that a sequence that begins with known outputs
    (handed over, or resumed) goes on as if it had sampled them here.
    """

    __slots__ = ("_grammar", "_masks", "_matcher", "_num_taken", "_pending", "_tokens")

    def __init__(self, masks: GrammarMasks, grammar: str, tokens: array[int], num_prompt_tokens: int) -> None:
        self._masks = masks
        self._grammar = grammar
        self._tokens = tokens
        self._num_taken = num_prompt_tokens  #: tokens before this position are behind the matcher
        self._matcher: Matcher | None = None  #: of the mask thread
        self._pending: Future[TokenMask] | None = None

    def look_ahead(self) -> None:
        """Begin to find what may follow the tokens known now."""
        outputs = self._tokens[self._num_taken :]
        self._num_taken = len(self._tokens)
        self._pending = self._masks.pool.submit(self._follow, outputs)

    def mask(self) -> TokenMask:
        """What may follow the tokens known now; waits if that is not known yet."""
        if self._pending is None or self._num_taken != len(self._tokens):
            self.look_ahead()
        assert self._pending is not None
        return self._pending.result()

    @property
    def has_failed(self) -> bool:
        """Whether the last mask only fills the place of a token: the grammar cannot go on."""
        return self._pending is not None and self._pending.result().is_of_failure

    def _follow(self, outputs: array[int]) -> TokenMask:
        if self._matcher is None:
            self._matcher = self._masks.matchers.start(self._grammar)
        for token in outputs:
            self._matcher.take(token)
        return self._matcher.mask()


class GrammarMasks:
    """The thread that compiles grammars, follows outputs and finds masks. Lifecycle: `close` ends it."""

    def __init__(self, matchers: Matchers) -> None:
        self.matchers = matchers
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    def follow(self, grammar: str, tokens: array[int], num_prompt_tokens: int) -> SequenceGrammar:
        return SequenceGrammar(self, grammar, tokens, num_prompt_tokens)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
