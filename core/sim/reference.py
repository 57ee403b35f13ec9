"""The right answer to a request: the token model over its prompt and outputs, without memory, steps or processes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from baton.core.sim import token_model
from baton.core.sim.device import NUM_DRAWN_TOKENS
from baton.core.sim.scenario import Client
from baton.core.wire.tokens import PromptScores, pack_scores


class Answer(NamedTuple):
    """All tokens of one choice, the end token included, and why it ends."""

    tokens: list[int]
    finish: str  #: empty if it has none: its grammar cannot go on


def answer(client: Client, choice: int, end_one_in: int) -> Answer:
    """What this choice of the request must be."""
    params = client.sampling
    digest = token_model.prefix_digest(client.prompt)
    tokens: list[int] = []
    while True:
        position = len(tokens)
        if token_model.is_dead_end(digest, params.seed, params.grammar):
            return Answer(tokens, "")
        token = token_model.next_token(digest, params.seed, position, choice, NUM_DRAWN_TOKENS)
        may_end = bool(params.stop_token_ids) and position + 1 >= params.min_tokens
        if may_end and token_model.is_end(digest, params.seed, position, choice, end_one_in):
            token = params.stop_token_ids[0]
        tokens.append(token)
        if params.ends_with(token, position + 1):
            return Answer(tokens, "stop")
        if position + 1 == params.max_tokens:
            return Answer(tokens, "length")
        digest = token_model.next_digest(digest, token)


def prompt_scores(client: Client) -> PromptScores | None:
    """What the client must get of its prompt; None if it asked for nothing."""
    num_top = client.sampling.num_prompt_logprobs
    if num_top < 0:
        return None
    rows = []
    digest = token_model.EMPTY_DIGEST
    for token, following in pairwise(client.prompt):
        digest = token_model.next_digest(digest, token)
        rows.append(token_model.token_scores(digest, following, num_top, NUM_DRAWN_TOKENS))
    return pack_scores(1, rows)
