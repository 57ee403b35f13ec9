"""Small random models as folders, and a runner that drives a device the way an executor does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the engine is not installed")

import torch

from baton.core.executor.steps import MAIN_LANE, CopyBlock, NewBlocks, NewSequence, SampledToken, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import Device
from baton.services.model.fetch import fetch
from baton.services.model.folder import write_model_info
from baton.services.model.tiny import byte_tokenizer

VOCAB_SIZE = 97
SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "intermediate_size": 88,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("tiny", tmp_path_factory.mktemp("cache"))


def finish_folder(folder: Path, dtype: str = "float32") -> Path:
    """Add what a folder of weights and config lacks."""
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()), encoding="utf-8")
    write_model_info(folder, folder.name, dtype)
    return folder


def save_random_model(folder: Path, model: torch.nn.Module) -> Path:
    """Weights large enough that every part of the model matters, biases and norms included."""
    generator = torch.Generator().manual_seed(7)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = noise * 0.25 if parameter.dim() > 1 else noise * 0.2 + (parameter.data > 0.5).float()
    model.save_pretrained(folder)
    return finish_folder(folder)


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return save_random_model(tmp_path_factory.mktemp("llama"), LlamaForCausalLM(LlamaConfig(**SMALL)))


def pack(values: list[int] | range) -> bytes:
    return np.array(list(values), dtype="<i4").tobytes()


class Runner:
    """Gives a device its plans one by one; sequences get the blocks that the test names."""

    def __init__(self, device: Device[Any]) -> None:
        self.device = device
        self.failed: list[int] = []  #: sequences whose grammar could not go on in the last step
        self._step_id = 0
        self._new: list[NewSequence] = []
        self._copies: list[CopyBlock] = []
        self._known: dict[int, int] = {}  #: by sequence: tokens, as far as they are sampled
        self._choices: dict[int, int] = {}

    def add(self, seq_id: int, tokens: list[int], params: SamplingParams, num_prompt: int = 0, choice: int = 0) -> None:
        self._known[seq_id], self._choices[seq_id] = len(tokens), choice
        self._new.append(NewSequence(seq_id, pack(tokens), num_prompt or len(tokens), params, choice))

    def copy(self, source: int, destination: int, num_slots: int) -> None:
        self._copies.append(CopyBlock(source, destination, num_slots))

    def step(self, *items: tuple[int, int, int, int, list[int]]) -> dict[int, tuple[SampledToken, ...]]:
        """Items are (seq_id, start, num_tokens, num_samples, new blocks); sampled tokens by seq_id. Those of one sample
        after the last known token decode."""
        rows = [StepItem(*item[:4], pack(item[4])) for item in items]
        last = [(self._known[row.seq_id] - 1, 1, 1) for row in rows]
        decodes = [
            row for row, end in zip(rows, last, strict=True) if (row.start, row.num_tokens, row.num_samples) == end
        ]
        planned = tuple(row for row in rows if row not in decodes)
        new_blocks = tuple(NewBlocks(row.seq_id, row.new_block_ids) for row in decodes if row.new_block_ids)
        named = tuple(row.seq_id for row in decodes)
        context = sum(row.start + 1 for row in decodes)
        plan = StepPlan(self._step_id, (), tuple(self._new), tuple(self._copies), planned, named, new_blocks, context)
        self._step_id += 1
        self._new, self._copies = [], []
        completion = self.device.create_completion(MAIN_LANE)
        self.device.launch(plan)
        self.device.record(completion)
        self.device.wait(completion)
        result = self.device.collect(plan.step_id)
        assert [item.num_computed for item in result.items] == [item.num_tokens for item in planned]
        assert result.num_context == context
        self.failed = [*result.grammar_failed, *[item.seq_id for item in result.items if item.grammar_failed]]
        logprobs = dict(result.logprobs)
        sampled = {item.seq_id: item.sampled for item in result.items}
        for seq_id, token in zip(named, result.decoded, strict=True):
            sampled[seq_id] = (SampledToken(self._choices[seq_id], token, logprobs.get(seq_id)),)
        for row in rows:
            self._known[row.seq_id] += row.num_samples > 0
        return {row.seq_id: sampled[row.seq_id] for row in rows}

    def generate(
        self, seq_id: int, prompt: list[int], params: SamplingParams, chunks: list[int], blocks: list[int]
    ) -> list[SampledToken]:
        """Prefill in the given chunks, then decode to `max_tokens`; all blocks at once."""
        self.add(seq_id, prompt, params)
        sampled: list[SampledToken] = []
        start = 0
        while len(sampled) < params.max_tokens:
            count = chunks.pop(0) if chunks else 1 if sampled else len(prompt) - start
            new_blocks, blocks = blocks, []
            sampled.extend(self.step((seq_id, start, count, int(start + count >= len(prompt)), new_blocks))[seq_id])
            start += count
        return sampled


@pytest.fixture
def make_runner() -> Callable[[Device], Runner]:
    return Runner
