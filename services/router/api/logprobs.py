"""Log-probabilities in OpenAI's two shapes: one entry for each output token, in order."""

from __future__ import annotations

from typing import Any

from baton.core.errors import InvariantViolated
from baton.core.executor.steps import TokenLogprobs
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


def alternatives(placed: PlacedToken) -> list[tuple[int, float]]:
    found = scores(placed)
    return [(token, max(value, LEAST)) for token, value in zip(found.top_ids, found.top_logprobs, strict=True)]


def completion_logprobs(table: TokenTable, tokens: tuple[PlacedToken, ...]) -> dict[str, Any]:
    """Four lists of equal length; the chosen token is always among its alternatives."""
    names = [token_text(table, placed.sampled.token) for placed in tokens]
    values = [max(scores(placed).logprob, LEAST) for placed in tokens]
    tops = []
    for placed, name, value in zip(tokens, names, values, strict=True):
        top: dict[str, float] = {}
        for token, other in alternatives(placed):
            top.setdefault(token_text(table, token), other)
        top.setdefault(name, value)
        tops.append(top)
    return {
        "tokens": names,
        "token_logprobs": values,
        "top_logprobs": tops,
        "text_offset": [placed.start_char for placed in tokens],
    }


def chat_entry(table: TokenTable, token: int, value: float) -> dict[str, Any]:
    return {"token": token_text(table, token), "logprob": value, "bytes": list(table.shown(token))}


def chat_logprobs(table: TokenTable, tokens: tuple[PlacedToken, ...]) -> dict[str, Any]:
    content = []
    for placed in tokens:
        entry = chat_entry(table, placed.sampled.token, max(scores(placed).logprob, LEAST))
        entry["top_logprobs"] = [chat_entry(table, *other) for other in alternatives(placed)]
        content.append(entry)
    return {"content": content, "refusal": None}
