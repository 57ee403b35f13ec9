"""Scores of a prompt's tokens from real logits: those of a plain forward pass, however and wherever it is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from baton.core.executor.steps import NewSequence
from baton.core.wire import messages as m
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores
from baton.services.executor.engine.devices.base import DeviceBroken
from baton.services.executor.engine.prompt_scores import ROWS_AT_ONCE, score_prompt
from baton.services.executor.engine.sequences import DeviceSequence
from tests.services.engine.conftest import VOCAB_SIZE, pack
from tests.support.engines import BLOCK, Alone, ComputingDuo, load
from tests.support.machines import records_in, work
from tests.support.reference import Reference

PROMPT = [(13 * i * i + 7 * i + 2) % VOCAB_SIZE for i in range(53)]
NUM_TOP = 3


def asked(device: Any, tokens: list[int] = PROMPT, **fields: Any) -> m.Work:
    return work(tokens, 4, layout=device.layout, num_prompt_logprobs=NUM_TOP, **fields)


def scores_in(told: list[Any]) -> list[PromptScores]:
    return [record.prompt_scores for record in records_in(told) if record.prompt_scores is not None]


def tokens_in(told: list[Any]) -> list[int]:
    by_offset = {r.offset + index: token.token for r in records_in(told) for index, token in enumerate(r.tokens)}
    return [by_offset[offset] for offset in sorted(by_offset)]


def direct(folder: Path, tokens: list[int], round_bits: int = 0) -> torch.Tensor:
    """float64[len(tokens) - 1, vocab_size] log-probabilities, all rows in one plain forward pass."""
    rows = Reference(folder, round_bits).logits(tokens, len(tokens))[:-1]
    return torch.from_numpy(rows).log_softmax(-1)


def check(scores: PromptScores, rows: torch.Tensor, tokens: list[int]) -> None:
    told = scores.unpack()
    assert scores.is_complete(len(tokens))
    right = rows[torch.arange(len(rows)), torch.tensor(tokens[1:])]
    assert (torch.tensor([row.logprob for row in told], dtype=torch.float64) - right).abs().max() < 1e-4
    tops = torch.tensor([row.top_ids for row in told])
    values = torch.tensor([row.top_logprobs for row in told], dtype=torch.float64)
    assert (values - rows.gather(1, tops)).abs().max() < 1e-4
    assert (values - rows.topk(NUM_TOP).values).abs().max() < 1e-4


@pytest.fixture(scope="module")
def whole(llama_folder: Path) -> PromptScores:
    (scores,) = scores_in(Alone(llama_folder).answer(1, asked(load(llama_folder))))
    return scores


def test_they_are_those_of_a_plain_forward_pass(llama_folder: Path, whole: PromptScores) -> None:
    check(whole, direct(llama_folder, PROMPT), PROMPT)


def test_they_are_those_of_a_plain_forward_pass_of_the_rounding_model(tiny_folder: Path) -> None:
    alone = Alone(tiny_folder, long_prefill_tokens=20)
    (scores,) = scores_in(alone.answer(1, asked(alone.device)))
    check(scores, direct(tiny_folder, PROMPT, round_bits=20), PROMPT)


@pytest.mark.parametrize("chunk", [1, 7, 16, 17, 33, 52, 53])
@pytest.mark.parametrize("kind", [Alone, ComputingDuo])
def test_every_cut_gives_the_same_bits_alone_and_as_a_pair(
    kind: Any, chunk: int, llama_folder: Path, whole: PromptScores
) -> None:
    fleet = kind(llama_folder, token_budget=53, long_prefill_tokens=chunk)
    told = scores_in(fleet.answer(1, asked(load(llama_folder))))
    assert told == [whole] * len(told)
    assert len(told) == (1 if kind is Alone else 2)


@pytest.mark.parametrize("kind", [Alone, ComputingDuo])
def test_a_warm_cache_changes_neither_the_scores_nor_the_answer(
    kind: Any, llama_folder: Path, whole: PromptScores
) -> None:
    fleet = kind(llama_folder)
    plain = asked(load(llama_folder))
    plain = replace(plain, sampling=replace(plain.sampling, num_prompt_logprobs=-1))
    answers = [fleet.answer(number, one) for number, one in enumerate((plain, asked(load(llama_folder)), plain), 1)]
    assert [set(scores_in(answer)) for answer in answers] == [set(), {whole}, set()]
    assert tokens_in(answers[0]) == tokens_in(answers[1]) == tokens_in(answers[2])
    assert len(tokens_in(answers[0])) == 4


@pytest.mark.parametrize("length", [1, 2, BLOCK, BLOCK + 1])
def test_short_prompts_have_as_many_scores_as_tokens_but_one(
    length: int, llama_folder: Path, whole: PromptScores
) -> None:
    alone = Alone(llama_folder)
    (scores,) = scores_in(alone.answer(1, asked(alone.device, PROMPT[:length])))
    assert scores.unpack() == whole.unpack()[: length - 1]


def a_sequence(num_tokens: int) -> DeviceSequence:
    params = SamplingParams(max_tokens=1, num_prompt_logprobs=1)
    return DeviceSequence(NewSequence(1, pack([index % 5 for index in range(num_tokens)]), num_tokens, params, 0))


@pytest.mark.parametrize("num_scores", [0, 1, ROWS_AT_ONCE, 3 * ROWS_AT_ONCE + 1])
def test_only_few_rows_have_their_logits_in_memory_at_once(num_scores: int) -> None:
    hidden = torch.randn(num_scores, 5, generator=torch.Generator().manual_seed(1))
    sizes = []

    def logits_of(rows: torch.Tensor) -> torch.Tensor:
        sizes.append(len(rows))
        return rows

    scores = score_prompt(a_sequence(num_scores + 9), 4, hidden, logits_of)
    assert sum(sizes) == num_scores
    assert max(sizes, default=0) <= ROWS_AT_ONCE
    right = hidden.double().log_softmax(-1)
    assert scores.first == 5
    assert [row.top_ids[0] for row in scores.unpack()] == right.argmax(-1).tolist()
    for index, row in enumerate(scores.unpack()):
        assert abs(row.logprob - float(right[index, (5 + index) % 5])) < 1e-6


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_break_the_device(value: float) -> None:
    hidden = torch.zeros(3, 5)
    hidden[1, 4] = value
    with pytest.raises(DeviceBroken, match="finite"):
        score_prompt(a_sequence(9), 0, hidden, lambda rows: rows)
