"""X8: SmolLM2-135M in float32 through HTTP against `transformers` in float64, prompts from 1 to 3,000 tokens.

Every emitted token is within EPSILON of the reference's best given the same prefix, and so are the log-probabilities.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from baton.core.errors import Incompatible
from baton.services.executor.engine.philox import keyed_uniform
from baton.services.model.fetch import DEFAULT_MODEL, fetch
from tests.parity.answers import Question, TokenAnswer
from tests.parity.conftest import ALONE, CPU, PAIR
from tests.parity.interrupt import kill_in_mid_answer
from tests.parity.live import LiveStack
from tests.support.reference import Reference, judge_rows
from tests.support.reference_draw import distance_to_share

pytestmark = pytest.mark.timeout(900)  # the reference computes in float64; nothing is measured against this

EPSILON = 1e-3
LENGTHS = (1, 2, 37, 63, 64, 65, 128, 300, 511, 513, 1100, 3000)  #: blocks of 64, steps of 512
SHORT_LENGTHS = (1, 9, 20, 31, 40, 47, 56, 63, 64, 65, 70, 77, 84, 90, 101, 129)
FLAGS = (*CPU, "--block-size", "64", "--num-blocks", "140", "--token-budget", "512")
SENTENCES = (
    "The river turned brown after the storm, and the ferry did not leave until noon.",
    "def area(width, height):\n    return width * height\n",
    "She counted the coins twice: 17 in copper, 4 in silver, and one that she could not name.",
    "In 1862 the harbour froze for nine weeks; ships were unloaded with sledges.",
    "What is the shortest way from the old bridge to the market?",
    "Wer zuletzt lacht, lacht am besten. Rira bien qui rira le dernier.",
)


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return fetch(DEFAULT_MODEL)
    except Incompatible as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error}")


class Judge:
    """The reference, asked once for each different answer."""

    def __init__(self, folder: Path) -> None:
        self.reference = Reference(folder)
        self._rows = cache(self._reference_rows)

    def check(self, question: Question, answer: TokenAnswer) -> None:
        tokens = tuple(answer.tokens[0])
        assert len(tokens) == question.max_tokens
        assert answer.finishes == (["length"],)
        found = judge_rows(self._rows(question.prompt, tokens), tokens, answer.logprobs[0])
        assert found.worst_gap <= EPSILON, f"prompt of {len(question.prompt)}: {found}"
        assert found.worst_logprob_error <= EPSILON, f"prompt of {len(question.prompt)}: {found}"

    def _reference_rows(self, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> np.ndarray:
        return self.reference.logits([*prompt, *tokens[:-1]], len(tokens))


@pytest.fixture(scope="module")
def judge(folder: Path) -> Judge:
    return Judge(folder)


@pytest.fixture(scope="module")
def text(folder: Path) -> Text:
    return Text(folder)


class Text:
    """Endless text of a few sentences in random order, as tokens."""

    def __init__(self, folder: Path) -> None:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._sentences = [tokenizer.encode(" " + sentence, add_special_tokens=False).ids for sentence in SENTENCES]

    def question(self, num_tokens: int, max_tokens: int, seed: int) -> Question:
        rng = random.Random(seed)
        tokens: list[int] = []
        while len(tokens) < num_tokens:
            tokens += rng.choice(self._sentences)
        return Question(tuple(tokens[:num_tokens]), max_tokens)


@pytest.fixture(scope="module", params=[PAIR, ALONE], ids=["pair", "alone"])
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> Iterator[LiveStack]:
    cores = sorted(os.sched_getaffinity(0))
    flags = {"prefill": (*FLAGS, "--cores", str(cores[0])), "decode": (*FLAGS, "--cores", str(cores[-1]))}
    flags["unified"] = FLAGS
    live = LiveStack(tmp_path_factory.mktemp("run"), folder, request.param, flags)
    yield live
    live.close()


def test_x8_h11_prompts_from_1_to_3000_tokens_are_within_epsilon_cold_and_warm(
    stack: LiveStack, judge: Judge, text: Text
) -> None:
    for length in LENGTHS:
        question = text.question(length, 6, seed=length)
        cold, warm = stack.ask(question)[0], stack.ask(question)[0]
        assert warm.num_cached_tokens == min(length // 64 * 64, length - 1)
        judge.check(question, cold)
        judge.check(question, warm)


def test_x8_sixteen_at_once_are_within_epsilon(stack: LiveStack, judge: Judge, text: Text) -> None:
    asked = [text.question(length, 8, seed=7000 + length) for length in SHORT_LENGTHS]
    for question, answer in zip(asked, stack.ask(*asked), strict=True):
        judge.check(question, answer)


def test_x8_sampled_tokens_are_the_same_keyed_draw_on_the_references_logits(
    stack: LiveStack, judge: Judge, text: Text
) -> None:
    asked = [text.question(length, 12, seed=8000 + length)._replace(seed=length) for length in (20, 64, 150)]
    asked = [question._replace(temperature=0.8) for question in asked]
    for question, answer in zip(asked, stack.ask(*asked), strict=True):
        tokens = answer.tokens[0]
        rows = judge.reference.logits([*question.prompt, *tokens[:-1]], len(tokens))
        for position, (row, token) in enumerate(zip(rows, tokens, strict=True)):
            uniform = keyed_uniform(question.seed, position, 0)
            assert distance_to_share(row, token, uniform, question.temperature, EPSILON) <= EPSILON


def test_x8_g8_answers_are_within_epsilon_when_their_executor_is_killed(
    stack: LiveStack, judge: Judge, text: Text
) -> None:
    victim = "decode" if "decode" in stack.stack.running else "unified"
    asked = [text.question(length, 40, seed=9000 + length) for length in (33, 100, 190)]
    for question, answer in zip(asked, stack.run(kill_in_mid_answer(stack, (victim,), asked)), strict=True):
        judge.check(question, answer)
