"""One engine in a process of its own, for `executor.py`: commands as JSON lines on standard input, seconds back.

    python bench/executor_engine.py baton|transformers|vllm FOLDER THREADS

Commands: `["prefill", tokens]`, `["start", prompt, batch]` (so many sequences with KV of their own that decode from
then on), `["keep", batch]` (only so many of them), `["decode", steps]`, and of transformers `["limits"]`. It runs in
any interpreter that has the engine: only baton's needs this project.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MAX_BATCH = 64
MAX_LENGTH = 2304  #: of a sequence: a prompt of 2,048 and some decoding
DECODE_LENGTH = 768  #: of a sequence that decodes, at most
BLOCK_SIZE = 64
READ_FLOATS = 100_000_000  #: no cache holds them


class Baton:
    """Our engine, driven with plans as an executor does it."""

    def __init__(self, folder: Path, num_threads: int) -> None:
        from baton.core.executor import steps
        from baton.core.wire.sampling import SamplingParams
        from baton.services.executor.engine.load import load_device

        self._steps = steps
        self._greedy = SamplingParams(4096, temperature=0.0)
        num_blocks = MAX_BATCH * DECODE_LENGTH // BLOCK_SIZE
        self._device = load_device(
            "cpu", folder, num_blocks=num_blocks, block_size=BLOCK_SIZE, num_threads=num_threads, dtype="float32"
        )
        self._step_id = 0
        self._batch: tuple[int, ...] = ()  #: sequences that are decoding
        self._length = 0  #: of each of them

    def _run(
        self,
        new: tuple[Any, ...],
        items: list[Any],
        dropped: tuple[int, ...] = (),
        copies: Any = (),
        decodes: tuple[int, ...] = (),
    ) -> None:
        self._step_id += 1
        context = len(decodes) * self._length
        plan = self._steps.StepPlan(self._step_id, dropped, new, copies, tuple(items), decodes, num_context=context)
        self._device.launch(plan)
        self._device.collect(self._step_id)

    def _prefill(self, seq_id: int, tokens: list[int], first_block: int, max_length: int) -> None:
        blocks = np.arange(first_block, first_block + max_length // BLOCK_SIZE, dtype="<i4").tobytes()
        packed = np.array(tokens, dtype="<i4").tobytes()
        new = self._steps.NewSequence(seq_id, packed, len(tokens), self._greedy, 0)
        self._run((new,), [self._steps.StepItem(seq_id, 0, len(tokens), 1, blocks)])

    def prefill(self, tokens: list[int]) -> None:
        self._prefill(MAX_BATCH, tokens, 0, MAX_LENGTH)
        self._run((), [], (MAX_BATCH,))

    def start(self, prompt: list[int], batch: int) -> None:
        """The first sequence computes its prompt, the others get copies of its blocks and compute the last token."""
        self._prefill(0, prompt, 0, DECODE_LENGTH)
        num_used = -(-len(prompt) // BLOCK_SIZE)
        packed = np.array(prompt, dtype="<i4").tobytes()
        for seq_id in range(1, batch):
            table = range(seq_id * DECODE_LENGTH // BLOCK_SIZE, (seq_id + 1) * DECODE_LENGTH // BLOCK_SIZE)
            copies = [self._steps.CopyBlock(block, table[block], BLOCK_SIZE) for block in range(num_used)]
            new = self._steps.NewSequence(seq_id, packed, len(prompt), self._greedy, 0)
            blocks = np.array(table, dtype="<i4").tobytes()
            self._run((new,), [self._steps.StepItem(seq_id, len(prompt) - 1, 1, 1, blocks)], copies=tuple(copies))
        self._batch, self._length = tuple(range(batch)), len(prompt)

    def keep(self, batch: int) -> None:
        self._run((), [], self._batch[batch:])
        self._batch = self._batch[:batch]

    def decode(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self._length += 1
            self._run((), [], decodes=self._batch)


class Transformers:
    """The reference library with its own KV cache, greedy."""

    def __init__(self, folder: Path, num_threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(num_threads)
        torch.set_grad_enabled(False)
        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._cache: Any = None
        self._tokens: Any = None

    def prefill(self, tokens: list[int]) -> None:
        self._model(self._torch.tensor([tokens]), use_cache=True, logits_to_keep=1).logits.argmax(-1)

    def start(self, prompt: list[int], batch: int) -> None:
        output = self._model(self._torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
        self._cache, self._tokens = output.past_key_values, output.logits[:, -1:].argmax(-1).repeat(batch, 1)
        self._cache.batch_repeat_interleave(batch)

    def keep(self, batch: int) -> None:
        self._cache.batch_select_indices(self._torch.arange(batch))
        self._tokens = self._tokens[:batch]

    def decode(self, num_steps: int) -> None:
        for _ in range(num_steps):
            output = self._model(self._tokens, past_key_values=self._cache, use_cache=True)
            self._cache, self._tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)

    def limits(self) -> tuple[float, float]:
        """FLOP/s of a large product, and bytes/s of reading memory."""
        left, right = self._torch.randn(2, 2048, 2048).unbind()
        values = self._torch.ones(READ_FLOATS)
        times = []
        for work in (lambda: left @ right, values.sum):
            started_at = time.perf_counter()
            work()
            times.append(time.perf_counter() - started_at)
        return 2 * 2048**3 / times[0], 4 * READ_FLOATS / times[1]


class Vllm:
    """vLLM's offline engine in this process, stepped by hand."""

    def __init__(self, folder: Path, num_threads: int) -> None:
        os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "3", "HF_HUB_OFFLINE": "1"}
        cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:num_threads])
        os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": cores, "OMP_NUM_THREADS": str(num_threads)}
        from vllm import LLM, SamplingParams

        llm = LLM(
            str(folder), dtype="float32", max_model_len=MAX_LENGTH, max_num_batched_tokens=4096, max_num_seqs=MAX_BATCH,
            enable_prefix_caching=False, skip_tokenizer_init=True, disable_log_stats=True,
        )  # fmt: skip
        self._engine = llm.llm_engine
        self._params = SamplingParams
        self._num_requests = 0
        self._decoding: list[str] = []

    def _add(self, tokens: list[int], max_tokens: int) -> str:
        self._num_requests += 1
        params = self._params(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, detokenize=False)
        name = str(self._num_requests)
        self._engine.add_request(name, {"prompt_token_ids": tokens}, params)
        return name

    def prefill(self, tokens: list[int]) -> None:
        self._add(tokens, 1)
        while self._engine.has_unfinished_requests():
            self._engine.step()

    def start(self, prompt: list[int], batch: int) -> None:
        self._decoding = [self._add(prompt, DECODE_LENGTH - len(prompt)) for _ in range(batch)]
        started: set[str] = set()
        while len(started) < batch:
            started |= {output.request_id for output in self._engine.step() if output.outputs[0].token_ids}

    def keep(self, batch: int) -> None:
        self._engine.abort_request(self._decoding[batch:])
        self._decoding = self._decoding[:batch]

    def decode(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self._engine.step()


ENGINES = {"baton": Baton, "transformers": Transformers, "vllm": Vllm}


def main() -> None:
    name, folder, num_threads = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print: only replies belong on standard output
    engine = ENGINES[name](Path(folder), int(num_threads))
    replies.write(json.dumps("ready") + "\n")
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        started_at, cpu_before_s = time.perf_counter(), time.process_time()
        result = getattr(engine, command)(*arguments)
        times = {"s": time.perf_counter() - started_at, "cpu_s": time.process_time() - cpu_before_s}
        replies.write(json.dumps(times | {"result": result}) + "\n")


if __name__ == "__main__":
    main()
