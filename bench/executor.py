"""How fast is the CPU engine, beside other engines and beside what this machine can do?

Same weights, dtype (float32), cores and token counts. Each engine has a process of its own, all on the same cores;
they take turns, so that a busy machine slows all of them, and what is told is the median of the turns' ratios. Two
limits are measured in the same turns: the rate of a large float32 product, and the rate of reading memory. The floor of
a row is the time that its arithmetic and its one pass over weights and KV would take at these rates. Where other
processes use the cores already, threads that spin at barriers are told to sleep (OMP_WAIT_POLICY), and the ratio of CPU
times, told beside that of the clock, is the better one.

    python bench/executor.py [--model FOLDER] [--threads 2] [--repeats 3] [--budget-s 110] [--vllm-python PYTHON]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.executor.engine.models.config import DecoderConfig
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.model.fetch import fetch
from bench.board_lines import Line
from bench.table import print_table

PREFILL_TOKENS = 2048
DECODE_BATCHES = (64, 16, 1)  #: each a part of the one before, so that prompts are computed once
DECODE_CONTEXT = 256  #: tokens that each sequence has before it decodes
DECODE_STEPS = 4  #: in one turn
MAX_TURNS = 15
PEERS = ("transformers", "vllm")


class Engine:
    """A process of `executor_engine.py`."""

    def __init__(self, name: str, python: str, folder: Path, num_threads: int, is_busy: bool) -> None:
        self.name = name
        script = Path(__file__).with_name("executor_engine.py")
        self._process = subprocess.Popen(
            [python, str(script), name, str(folder), str(num_threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | ({"OMP_WAIT_POLICY": "PASSIVE"} if is_busy else {}),
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        if self._read() != "ready":
            raise RuntimeError(f"{self.name} does not start")

    def run(self, *command: Any) -> dict[str, Any]:
        """Seconds `s` and `cpu_s`, and the command's `result`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = self._read()
        return reply

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Row(NamedTuple):
    name: str
    num_tokens: int  #: in one turn
    turns: list[dict[str, dict[str, Any]]]  #: replies by engine
    of_limit: float  #: median of floor / baton's time

    def ratio(self, name: str, clock: str) -> float:
        """How many times as fast as the named engine by "s" or "cpu_s", median over the turns."""
        return float(statistics.median(turn[name][clock] / turn["baton"][clock] for turn in self.turns))

    def median_s(self, name: str) -> float:
        return float(statistics.median(turn[name]["s"] for turn in self.turns))

    def as_json(self) -> dict[str, Any]:
        engines = {f"{name}_s": self.median_s(name) for name in self.turns[0]}
        ratios = {
            f"{name}_{clock}_ratio": self.ratio(name, clock) for name in self.turns[0] for clock in ("s", "cpu_s")
        }
        return {"name": self.name, "num_tokens": self.num_tokens, **engines, **ratios, "of_limit": self.of_limit}


def matrix_weights(config: DecoderConfig) -> int:
    """Weights of one layer stack's matrices, without embedding and output matrix."""
    attention = config.head_dim * config.hidden_size * 2 * (config.num_heads + config.num_kv_heads)
    return config.num_layers * (attention + 3 * config.hidden_size * config.intermediate_size)


def floor_s(config: DecoderConfig, rows: int, logit_rows: int, pairs: int, limits: tuple[float, float]) -> float:
    """Seconds of a step: the larger of its arithmetic and of reading all weights and, for decodes, the KV."""
    flops, read = limits
    output = config.vocab_size * config.hidden_size
    attention = 4 * pairs * config.num_heads * config.head_dim * config.num_kv_layers
    arithmetic = 2.0 * (rows * matrix_weights(config) * config.num_loops + logit_rows * output) + attention
    kv_bytes = 8 * pairs * config.num_kv_heads * config.head_dim * config.num_kv_layers if rows == logit_rows else 0
    return max(arithmetic / flops, (4.0 * (matrix_weights(config) + output) + kv_bytes) / read)


class Bench:
    """Turns of all engines, row by row; a row ends when its share of the time is used."""

    def __init__(self, folder: Path, engines: list[Engine], min_turns: int, budget_s: float) -> None:
        self._config = read_decoder_config(folder)
        self._engines = engines
        self._min_turns = min_turns
        self._budget_s = budget_s
        self._tokens = np.random.default_rng(0).integers(100, self._config.vocab_size, PREFILL_TOKENS).tolist()
        self.limits: list[tuple[float, float]] = []  #: FLOP/s and bytes/s of each turn

    def prefill(self) -> Row:
        pairs = PREFILL_TOKENS * (PREFILL_TOKENS + 1) // 2
        self._turn("prefill", self._tokens[:128])
        turns, of_limit = self._turns(0.4, (PREFILL_TOKENS, 1, pairs), 1, "prefill", self._tokens)
        return Row(f"prefill {PREFILL_TOKENS}", PREFILL_TOKENS, turns, of_limit)

    def start(self) -> None:
        self._turn("start", self._tokens[:DECODE_CONTEXT], max(DECODE_BATCHES))

    def decode(self, batch: int) -> Row:
        self._turn("keep", batch)
        self._turn("decode", 1)
        work = batch, batch, batch * (DECODE_CONTEXT + DECODE_STEPS * self._min_turns // 2)
        turns, of_limit = self._turns(0.15, work, DECODE_STEPS, "decode", DECODE_STEPS)
        return Row(f"decode {batch}", batch * DECODE_STEPS, turns, of_limit)

    def _turn(self, *command: Any) -> dict[str, dict[str, Any]]:
        return {engine.name: engine.run(*command) for engine in self._engines}

    def _turns(
        self, share: float, work: tuple[int, int, int], num_steps: int, *command: Any
    ) -> tuple[list[dict[str, dict[str, Any]]], float]:
        ends_at = time.monotonic() + share * self._budget_s
        measured: list[dict[str, dict[str, Any]]] = []
        of_limit = []
        measurer = next(engine for engine in self._engines if engine.name == "transformers")
        hard_end = ends_at + share * self._budget_s  # twice the share, however few turns that were
        while not measured or (len(measured) < MAX_TURNS and time.monotonic() < hard_end):
            if len(measured) >= self._min_turns and time.monotonic() >= ends_at:
                break
            flops, read = measurer.run("limits")["result"]
            self.limits.append((flops, read))
            measured.append(self._turn(*command))
            of_limit.append(num_steps * floor_s(self._config, *work, (flops, read)) / measured[-1]["baton"]["s"])
        return measured, statistics.median(of_limit)


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[Row], tuple[float, float]]:
    """The table's rows, and the medians of product and read rate."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # the engines inherit it
    pythons = {"baton": sys.executable, "transformers": sys.executable}
    if options.vllm_python:
        pythons["vllm"] = options.vllm_python
    is_busy = os.getloadavg()[0] > 0.5
    engines = [Engine(name, python, folder, options.threads, is_busy) for name, python in pythons.items()]
    try:
        for engine in engines:
            engine.wait_until_ready()
        bench = Bench(folder, engines, options.repeats, options.budget_s)
        rows = [bench.prefill()]
        bench.start()
        rows += [bench.decode(batch) for batch in DECODE_BATCHES]
    finally:
        for engine in engines:
            engine.close()
    flops, read = (statistics.median(values) for values in zip(*bench.limits, strict=True))
    return rows, (flops, read)


def tell(rows: list[Row]) -> None:
    names = list(rows[0].turns[0])
    heads = ["", *(f"{name} tokens/s" for name in names)]
    heads += [head for name in names[1:] for head in (f"× {name}", "by CPU")]
    print_table([*heads, "of the limit", "turns"], [_cells(row, names) for row in rows])


def _cells(row: Row, names: list[str]) -> list[str]:
    rates = [f"{row.num_tokens / row.median_s(name):.1f}" for name in names]
    ratios = [f"{row.ratio(name, clock):.2f}" for name in names[1:] for clock in ("s", "cpu_s")]
    return [row.name, *rates, *ratios, f"{row.of_limit:.0%}", str(len(row.turns))]


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    """What the board asks of this script's JSON. Figures of others are ours by the turns' median ratio."""
    peers = [name for name in PEERS if f"{name}_s_ratio" in report["rows"][0]]
    for row in report["rows"]:
        rate = row["num_tokens"] / row["baton_s"]
        others = {name: rate / row[f"{name}_s_ratio"] for name in peers}
        yield Line(
            f"{row['name']}, {report['threads']} threads",
            "tokens/s", True, rate, others, rate / row["of_limit"], "arithmetic and memory",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None, help="folder, or any source that `baton model fetch` takes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each row, at least")
    parser.add_argument("--budget-s", type=float, default=110.0, help="time for turns beyond the repeats")
    parser.add_argument("--vllm-python", default=None, help="an interpreter that has vLLM for CPUs")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    folder = fetch(options.model) if options.model else fetch()
    load_before = os.getloadavg()[0]
    rows, (flops, read) = measure(folder, options)
    print(
        f"{folder.name}, float32, {options.threads} threads on {options.threads} cores; load before: {load_before:.1f}"
    )
    print(f"limits: products {flops / 1e9:.0f} GFLOP/s, reads {read / 1e9:.1f} GB/s")
    tell(rows)
    if options.json:
        report = {"model": folder.name, "threads": options.threads, "matrix_flops": flops, "read_bytes_per_s": read}
        report["rows"] = [row.as_json() for row in rows]
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
