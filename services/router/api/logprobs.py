"""Log-probabilities in OpenAI's two shapes: one entry for each token, in order. And those of a prompt."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from baton.core.errors import InvariantViolated
from baton.core.wire.tokens import TokenLogprobs
from baton.services.router.api.answers import (
    ChatLogprobs,
    ChosenTokenScore,
    CompletionLogprobs,
    PromptScore,
    PromptScoreList,
    TokenScore,
)
from baton.services.router.streams import Part
from baton.services.router.text.choice_text import PlacedToken
from baton.services.router.text.token_table import TokenTable

LEAST = -9999.0  #: stands for minus infinity, which JSON does not have


def token_text(table: TokenTable, token: int) -> str:
    """A token's text; `bytes:\\x..` for one that is no whole character, so that tokens keep different names."""
    piece = table.shown(token)
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def scores(placed: PlacedToken) -> TokenLogprobs:
    if placed.sampled.logprobs is None:
        raise InvariantViolated("a token came without the log-probabilities that were asked for")
    return placed.sampled.logprobs


def completion_logprobs(table: TokenTable, tokens: tuple[PlacedToken, ...], first_char: int = 0) -> CompletionLogprobs:
    """The chosen token is always among its alternatives. `first_char` characters are shown before the output."""
    names = [token_text(table, placed.sampled.token) for placed in tokens]
    found = [scores(placed) for placed in tokens]
    return CompletionLogprobs(
        tokens=names,
        token_logprobs=[max(score.logprob, LEAST) for score in found],
        top_logprobs=[_top(table, name, score, len(score.top_ids)) for name, score in zip(names, found, strict=True)],
        text_offset=[first_char + placed.start_char for placed in tokens],
    )


def echoed_logprobs(table: TokenTable, part: Part, num_logprobs: int) -> CompletionLogprobs:
    """The same for the prompt that an answer shows; nothing comes before its first token, so that has none."""
    prompt, found = part.prompt, prompt_scores(part)
    if prompt.echoed is None:
        raise InvariantViolated("a prompt is shown that was not kept")
    names = [token_text(table, token) for token in prompt.token_ids()]
    return CompletionLogprobs(
        tokens=names,
        token_logprobs=[None, *(max(score.logprob, LEAST) for score in found)],
        top_logprobs=[
            None,
            *(_top(table, name, score, num_logprobs) for name, score in zip(names[1:], found, strict=True)),
        ],
        text_offset=list(prompt.echoed.starts),
    )


def joined(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    """One after the other."""
    return CompletionLogprobs(
        tokens=first.tokens + second.tokens,
        token_logprobs=first.token_logprobs + second.token_logprobs,
        top_logprobs=first.top_logprobs + second.top_logprobs,
        text_offset=first.text_offset + second.text_offset,
    )


def prompt_logprobs(table: TokenTable, part: Part, num_shown: int) -> PromptScoreList | UnsetType:
    """For each token of the prompt but the first (null): by token id its score and those of the likeliest. UNSET where
    they are not asked for: fewer than 0."""
    if num_shown < 0:
        return UNSET
    entries: PromptScoreList = [None]
    for token, score in zip(part.prompt.token_ids()[1:], prompt_scores(part), strict=True):
        shown = zip(score.top_ids[:num_shown], score.top_logprobs[:num_shown], strict=True)
        found = {
            str(other): PromptScore(logprob=max(value, LEAST), rank=rank, decoded_token=token_text(table, other))
            for rank, (other, value) in enumerate(shown, 1)
        }
        own = PromptScore(logprob=max(score.logprob, LEAST), rank=None, decoded_token=token_text(table, token))
        found.setdefault(str(token), own)
        entries.append(found)
    return entries


def prompt_scores(part: Part) -> tuple[TokenLogprobs, ...]:
    if part.scores is None:
        raise InvariantViolated("a prompt came without the log-probabilities that were asked for")
    return part.scores


def chat_logprobs(table: TokenTable, tokens: tuple[PlacedToken, ...]) -> ChatLogprobs:
    content = []
    for placed in tokens:
        token, score = placed.sampled.token, scores(placed)
        content.append(
            ChosenTokenScore(
                token=token_text(table, token),
                logprob=max(score.logprob, LEAST),
                bytes=list(table.shown(token)),
                top_logprobs=[
                    _token_score(table, other, value)
                    for other, value in zip(score.top_ids, score.top_logprobs, strict=True)
                ],
            )
        )
    return ChatLogprobs(content=content)


def _token_score(table: TokenTable, token: int, value: float) -> TokenScore:
    return TokenScore(token=token_text(table, token), logprob=max(value, LEAST), bytes=list(table.shown(token)))


def _top(table: TokenTable, name: str, score: TokenLogprobs, count: int) -> dict[str, float]:
    top: dict[str, float] = {}
    for token, value in zip(score.top_ids[:count], score.top_logprobs[:count], strict=True):
        top.setdefault(token_text(table, token), max(value, LEAST))
    top.setdefault(name, max(score.logprob, LEAST))
    return top
