"""Questions for the tiny model, and the judge of its answers."""

from __future__ import annotations

import random

from baton.services.executor.engine.philox import keyed_uniform
from tests.parity.answers import Question, TokenAnswer
from tests.support.reference import Reference
from tests.support.reference_draw import plain_draw

NUM_BYTES = 256
MAX_TOKENS = 6


def questions(lengths: tuple[int, ...], seed: int, **fields: object) -> list[Question]:
    rng = random.Random(seed)
    return [
        Question(tuple(rng.randrange(NUM_BYTES) for _ in range(length)), MAX_TOKENS, **fields)  # type: ignore[arg-type]
        for length in lengths
    ]


def check_exact(reference: Reference, question: Question, answer: TokenAnswer) -> None:
    tokens = answer.tokens[0]
    assert len(tokens) == question.max_tokens
    assert answer.finishes == (["length"],)
    assert reference.is_exactly_greedy(question.prompt, tokens), f"prompt of {len(question.prompt)}: {tokens}"
    judgement = reference.judge(question.prompt, tokens, answer.logprobs[0])
    assert judgement.worst_logprob_error < 1e-9


def check_drawn(reference: Reference, question: Question, answer: TokenAnswer) -> None:
    """Every choice's tokens are the same keyed draws on the reference's logits."""
    for choice, tokens in enumerate(answer.tokens):
        rows = reference.logits([*question.prompt, *tokens[:-1]], len(tokens))
        drawn = [
            plain_draw(
                row,
                keyed_uniform(question.seed, position, choice),
                question.temperature,
                question.top_k,
                question.top_p,
            )
            for position, row in enumerate(rows)
        ]
        assert tokens == drawn, question
