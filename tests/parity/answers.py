"""Answers as token ids: the completions endpoint with prompts of token ids, tokens read back from log-probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession

from baton.services.model.folder import read_model_info
from baton.services.router.api.logprobs import token_text
from baton.services.router.text.token_table import build_table


class TokenNames:
    """Ids by the names that log-probabilities have for tokens. Refuses a vocabulary in which two ids share a name."""

    def __init__(self, folder: Path) -> None:
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self.vocab_size = read_model_info(folder).vocab_size
        self.model = folder.name
        table = build_table(tokenizer, self.vocab_size)
        self._ids = {token_text(table, token): token for token in range(self.vocab_size)}
        assert len(self._ids) == self.vocab_size, "two tokens have one name"

    def ids(self, names: list[str]) -> list[int]:
        return [self._ids[name] for name in names]


class Question(NamedTuple):
    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0
    num_choices: int = 1
    salt: str = ""

    def body(self, model: str) -> dict[str, Any]:
        body = {
            "model": model,
            "prompt": list(self.prompt),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "n": self.num_choices,
            "logprobs": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | ({"cache_salt": self.salt} if self.salt else {})


class TokenAnswer(NamedTuple):
    tokens: tuple[list[int], ...]  #: by choice
    logprobs: tuple[list[float], ...]  #: by choice
    finishes: tuple[list[str], ...]  #: by choice: every finish reason that came
    num_cached_tokens: int
    num_output_tokens: int  #: as usage counts them


async def ask(session: ClientSession, url: str, question: Question, names: TokenNames) -> TokenAnswer:
    """Ask and read the whole stream; anything but a whole answer is an AssertionError."""
    choices = range(question.num_choices)
    answer = TokenAnswer(tuple([] for _ in choices), tuple([] for _ in choices), tuple([] for _ in choices), 0, 0)
    is_complete = False
    async with session.post(f"{url}/v1/completions", json=question.body(names.model)) as response:
        assert response.status == 200, await response.text()
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                is_complete = True
                break
            answer = _with_event(answer, json.loads(data), names)
    assert is_complete, "the stream broke off"
    assert answer.num_output_tokens == sum(map(len, answer.tokens))
    return answer


def _with_event(answer: TokenAnswer, event: dict[str, Any], names: TokenNames) -> TokenAnswer:
    assert "error" not in event, event
    for choice in event["choices"]:
        index = choice["index"]
        if choice["logprobs"] is not None:
            answer.tokens[index].extend(names.ids(choice["logprobs"]["tokens"]))
            answer.logprobs[index].extend(choice["logprobs"]["token_logprobs"])
        if choice["finish_reason"] is not None:
            answer.finishes[index].append(choice["finish_reason"])
    usage = event.get("usage")
    if usage is None:
        return answer
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return answer._replace(num_cached_tokens=cached, num_output_tokens=usage["completion_tokens"])
