"""How fast is the CPU engine, beside transformers and beside what this machine can do?

Same weights, threads and token counts, in turns within one run; medians, so that a busy machine slows both. Two limits
are measured in the same run: the rate of a large float32 matrix product, and the rate of reading memory. The floor of a
row is the time that its arithmetic and its one pass over the weights would take at these rates.

    python bench/executor.py [--model FOLDER] [--threads 2] [--repeats 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from baton.core.executor.steps import NewSequence, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.load import load_device
from baton.services.executor.engine.models.config import DecoderConfig
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.model.fetch import fetch

PREFILL_TOKENS = 2048
DECODE_BATCHES = (1, 16, 64)
DECODE_CONTEXT = 256  #: tokens that each sequence has before it decodes
DECODE_STEPS = 8  #: in one repeat
BLOCK_SIZE = 64


class Row(NamedTuple):
    name: str
    num_tokens: int  #: in one repeat
    baton_s: float  #: median of the repeats
    transformers_s: float
    floor_s: float


def timed(work: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


def matrix_rate() -> float:
    """FLOP/s of one product of 2048 × 2048."""
    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return 2 * 2048**3 / timed(lambda: left @ right)


def read_rate(values: torch.Tensor) -> float:
    """Bytes/s of a sum over memory that no cache holds."""
    return values.numel() * values.element_size() / timed(values.sum)


class Baton:
    """Our engine, driven with plans as an executor does it."""

    def __init__(self, folder: Path, num_threads: int) -> None:
        num_blocks = max(DECODE_BATCHES) * -(-(DECODE_CONTEXT + 512) // BLOCK_SIZE) + PREFILL_TOKENS // BLOCK_SIZE
        self.device = load_device("cpu", folder, num_blocks=num_blocks, block_size=BLOCK_SIZE, num_threads=num_threads)
        self._step_id = 0
        self._lengths: dict[int, int] = {}

    def _run(self, new: tuple[NewSequence, ...], items: list[StepItem], dropped: tuple[int, ...] = ()) -> None:
        self._step_id += 1
        self.device.launch(StepPlan(self._step_id, dropped, new, (), tuple(items)))
        self.device.collect(self._step_id)

    def prefill(self, tokens: np.ndarray) -> None:
        blocks = np.arange(-(-len(tokens) // BLOCK_SIZE), dtype="<i4").tobytes()
        new = NewSequence(10_000, tokens.astype("<i4").tobytes(), len(tokens), SamplingParams(1, temperature=0.0), 0)
        self._run((new,), [StepItem(10_000, 0, len(tokens), 1, blocks)])
        self._run((), [], (10_000,))

    def start(self, prompts: np.ndarray) -> None:
        """Prefill [batch, DECODE_CONTEXT]."""
        dropped, self._lengths = tuple(self._lengths), {}
        width = -(-(DECODE_CONTEXT + 512) // BLOCK_SIZE)
        for seq_id, prompt in enumerate(prompts):
            blocks = np.arange(seq_id * width, (seq_id + 1) * width, dtype="<i4").tobytes()
            params = SamplingParams(4096, temperature=0.0)
            new = NewSequence(seq_id, prompt.astype("<i4").tobytes(), len(prompt), params, 0)
            self._run((new,), [StepItem(seq_id, 0, len(prompt), 1, blocks)], dropped if seq_id == 0 else ())
            self._lengths[seq_id] = len(prompt)

    def decode(self) -> None:
        for _ in range(DECODE_STEPS):
            self._run((), [StepItem(seq_id, length, 1, 1, b"") for seq_id, length in self._lengths.items()])
            self._lengths = {seq_id: length + 1 for seq_id, length in self._lengths.items()}


class Transformers:
    """The reference library with its own KV cache, greedy."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._cache: Any = None
        self._tokens = torch.empty(0)

    def prefill(self, tokens: np.ndarray) -> None:
        self._model(torch.from_numpy(tokens)[None], use_cache=True, logits_to_keep=1).logits.argmax(-1)

    def start(self, prompts: np.ndarray) -> None:
        output = self._model(torch.from_numpy(prompts), use_cache=True, logits_to_keep=1)
        self._cache, self._tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)

    def decode(self) -> None:
        for _ in range(DECODE_STEPS):
            output = self._model(self._tokens, past_key_values=self._cache, use_cache=True)
            self._cache, self._tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)


def matrix_weights(config: DecoderConfig) -> int:
    """Weights of one layer stack's matrices, without embedding and output matrix."""
    attention = config.head_dim * config.hidden_size * 2 * (config.num_heads + config.num_kv_heads)
    return config.num_layers * (attention + 3 * config.hidden_size * config.intermediate_size)


def floor_s(config: DecoderConfig, rows: int, logit_rows: int, pairs: int, flops: float, read: float) -> float:
    """Seconds of a step: the larger of its arithmetic and of reading all weights and, for decodes, the KV."""
    output = config.vocab_size * config.hidden_size
    attention = 4 * pairs * config.num_heads * config.head_dim * config.num_layers
    arithmetic = 2.0 * (rows * matrix_weights(config) + logit_rows * output) + attention
    kv_bytes = 8 * pairs * config.num_kv_heads * config.head_dim * config.num_layers if rows == logit_rows else 0
    return max(arithmetic / flops, (4.0 * (matrix_weights(config) + output) + kv_bytes) / read)


def measure(folder: Path, num_threads: int, repeats: int) -> tuple[list[Row], float, float]:
    """The table's rows, and the medians of matrix and read rate."""
    config = read_decoder_config(folder)
    baton, reference = Baton(folder, num_threads), Transformers(folder)
    tokens = np.random.default_rng(0).integers(100, config.vocab_size, (max(DECODE_BATCHES), PREFILL_TOKENS))
    memory = torch.ones(100_000_000)
    flops = statistics.median(matrix_rate() for _ in range(5))
    read = statistics.median(read_rate(memory) for _ in range(5))
    rows = []
    with torch.inference_mode():
        ours, theirs = alternate(lambda: baton.prefill(tokens[0]), lambda: reference.prefill(tokens[0]), repeats)
        pairs = PREFILL_TOKENS * (PREFILL_TOKENS + 1) // 2
        lowest = floor_s(config, PREFILL_TOKENS, 1, pairs, flops, read)
        rows.append(Row(f"prefill {PREFILL_TOKENS}", PREFILL_TOKENS, ours, theirs, lowest))
        for batch in DECODE_BATCHES:
            prompts = tokens[:batch, :DECODE_CONTEXT]
            baton.start(prompts)
            reference.start(prompts)
            ours, theirs = alternate(baton.decode, reference.decode, repeats)
            pairs = batch * (DECODE_CONTEXT + repeats * DECODE_STEPS // 2)
            lowest = DECODE_STEPS * floor_s(config, batch, batch, pairs, flops, read)
            rows.append(Row(f"decode {batch}", batch * DECODE_STEPS, ours, theirs, lowest))
    return rows, flops, read


def alternate(left: Callable[[], None], right: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Medians after one warm-up each, in turns."""
    left(), right()
    pairs = [(timed(left), timed(right)) for _ in range(repeats)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None, help="folder, or any source that `baton model fetch` takes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    folder = fetch(options.model) if options.model else fetch()
    rows, flops, read = measure(folder, options.threads, options.repeats)
    limits = f"products {flops / 1e9:.0f} GFLOP/s, reads {read / 1e9:.1f} GB/s"
    print(f"{folder.name}, float32, {options.threads} threads; {limits}")
    print(f"{'':14}{'baton':>10}{'transformers':>14}{'ratio':>8}{'of the limit':>14}   (tokens/s)")
    for row in rows:
        ours, theirs = row.num_tokens / row.baton_s, row.num_tokens / row.transformers_s
        print(f"{row.name:14}{ours:10.1f}{theirs:14.1f}{ours / theirs:8.2f}{row.floor_s / row.baton_s:14.0%}")
    if options.json:
        report = {"model": folder.name, "threads": options.threads, "matrix_flops": flops, "read_bytes_per_s": read}
        options.json.write_text(json.dumps(report | {"rows": [row._asdict() for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
