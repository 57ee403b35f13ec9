"""A client of the HTTP API and the PARITY oracle: what the fake device must answer, by the pure token model."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from aiohttp import ClientSession

from baton.core.sim import token_model

NUM_DRAWN_TOKENS = 256


class Question(NamedTuple):
    prompt: tuple[int, ...]  #: byte tokens
    max_tokens: int
    seed: int
    num_choices: int = 1

    def body(self) -> dict[str, Any]:
        return {
            "model": "tiny",
            "prompt": list(self.prompt),
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "n": self.num_choices,
            "logprobs": 0,
            "stream": True,
            "temperature": 1.0,
        }


class Answer(NamedTuple):
    status: int
    tokens: dict[int, list[str]]  #: by choice
    finishes: dict[int, list[str]]  #: by choice: every finish reason that came
    error: str  #: code of the error, in the body or as the stream's last event; empty if none
    is_complete: bool  #: the end marker came
    placement: str = ""  #: as the head said


def random_question(rng: random.Random, num_tokens: int = 100, max_tokens: int = 20) -> Question:
    length = rng.randint(1, num_tokens)
    prompt = tuple(rng.randrange(NUM_DRAWN_TOKENS) for _ in range(length))
    return Question(prompt, rng.randint(1, max_tokens), rng.getrandbits(32))


def expected_tokens(question: Question, choice: int = 0) -> list[str]:
    digest = token_model.prefix_digest(list(question.prompt))
    names = []
    for position in range(question.max_tokens):
        token = token_model.next_token(digest, question.seed, position, choice, NUM_DRAWN_TOKENS)
        names.append(token_name(token))
        digest = token_model.next_digest(digest, token)
    return names


def token_name(token: int) -> str:
    """As the router writes a byte token in log-probabilities."""
    return chr(token) if token < 128 else f"bytes:\\x{token:02x}"


async def ask(session: ClientSession, url: str, question: Question) -> Answer:
    tokens: dict[int, list[str]] = {choice: [] for choice in range(question.num_choices)}
    finishes: dict[int, list[str]] = {choice: [] for choice in range(question.num_choices)}
    async with session.post(f"{url}/v1/completions", json=question.body()) as response:
        if response.status != 200:
            body = await response.json()
            return Answer(response.status, tokens, finishes, str(body["error"]["code"]), False)
        placement = response.headers.get("X-Baton-Placement", "")
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return Answer(200, tokens, finishes, "", True, placement)
            event = json.loads(data)
            if "error" in event:
                return Answer(200, tokens, finishes, str(event["error"]["code"]), False)
            for choice in event["choices"]:
                if choice["logprobs"] is not None:
                    tokens[choice["index"]] += choice["logprobs"]["tokens"]
                if choice["finish_reason"] is not None:
                    finishes[choice["index"]].append(choice["finish_reason"])
    return Answer(200, tokens, finishes, "stream ended", False)


def check_answer(question: Question, answer: Answer) -> None:
    """PARITY: exactly these tokens and one finish for each choice."""
    assert answer.error == "", answer
    assert answer.is_complete
    for choice in range(question.num_choices):
        assert answer.tokens[choice] == expected_tokens(question, choice)
        assert answer.finishes[choice] == ["length"]
