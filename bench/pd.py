"""What does P/D end to end give, with a real model on the CPU: ours, and vLLM's?

    python bench/pd.py [--json FILE] [--requests 32] [--rounds 3] [--cores 0,1] [--only SYSTEM]...
                       [--vllm-python PYTHON] [--vllm-router PROGRAM]

SmolLM2-135M-Instruct in float32, 256 tokens in, 64 out, 8 requests open at once, by `baton bench`. One prefill and one
decode executor have a core each; what does both has both cores. With an environment that holds vLLM for CPUs (see
bench/peers.md) it is asked the same in turns with ours: on both cores, and, with vllm-router, split over NIXL with a
core each, everything in a network of its own. Router, scheduler and client share the cores. Each figure is the median
of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.core.metrics.report import Report, decode_report
from baton.services.model.fetch import DEFAULT_MODEL, fetch
from bench.board_lines import Line
from bench.figures import known, output_tokens_per_s, time_ms
from bench.machine import enter_own_network, process_cpu_s
from bench.peers.vllm import Vllm
from bench.systems import PD, Baton, CannotStart, System
from bench.table import print_table

NUM_INPUT_TOKENS, NUM_OUTPUT_TOKENS, CONCURRENCY = 256, 64, 8
CAVEAT = "Two cores of one machine judge overheads, not P/D itself."
Make = Callable[[Path], System]


class Row(NamedTuple):
    """One system. Times are milliseconds."""

    system: str
    output_tokens_per_s: float
    requests_per_s: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    itl_p50_ms: float
    itl_p99_ms: float
    e2e_p50_ms: float
    e2e_p99_ms: float
    cpu_s_per_request: float  #: of all its processes
    num_failed: int


def systems(cores: Sequence[str], vllm_python: Path | None, vllm_router: Path | None) -> dict[str, Make]:
    """Name → how it is started in a folder. Ours first."""
    both = ",".join(cores)
    found: dict[str, Make] = {
        "baton 1P1D": lambda folder: Baton("baton 1P1D", folder, [*PD, "--cores", both]),
        "baton unified": lambda folder: Baton("baton unified", folder, ["--unified", "1", "--cores", both]),
    }
    if vllm_python:
        model = fetch()
        if vllm_router:
            found["vllm 1P1D"] = lambda folder: Vllm("vllm 1P1D", folder, model, vllm_python, cores, vllm_router)
        found["vllm unified"] = lambda folder: Vllm("vllm unified", folder, model, vllm_python, [both])
    return found


def run_load(system: System, folder: Path, num_requests: int) -> Report:
    """`baton bench` in a process of its own. Raises RuntimeError where it measured nothing."""
    command = [sys.executable, "-m", "baton.services.loadgen", "--url", f"http://127.0.0.1:{system.port}"]
    command += ["--model", system.model, "--endpoint", "completions", "--tokenizer", str(fetch() / "tokenizer.json")]
    command += ["--input-tokens", str(NUM_INPUT_TOKENS), "--output-tokens", str(NUM_OUTPUT_TOKENS)]
    command += ["--concurrency", str(CONCURRENCY), "--num-requests", str(num_requests)]
    command += ["--warm-up-requests", str(CONCURRENCY), "--workers", "1", "--out", str(folder / "load")]
    command += ["--no-metrics", "--no-live"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return decode_report((folder / "load" / "report.json").read_bytes())
    except FileNotFoundError as error:
        raise RuntimeError(f"baton bench on {system.name}:\n{done.stdout}{done.stderr}") from error


def measure(make: Make, num_requests: int) -> Row:
    """One round."""
    with tempfile.TemporaryDirectory() as name:
        system = make(Path(name))
        try:
            pids = [pid for group in system.processes().values() for pid in group]
            before_s = sum(map(process_cpu_s, pids))
            report = run_load(system, Path(name), num_requests)
            cpu_s = sum(map(process_cpu_s, pids)) - before_s
        finally:
            system.close()
    return row_of(system.name, report, cpu_s / (num_requests + CONCURRENCY))


def row_of(name: str, report: Report, cpu_s_per_request: float) -> Row:
    """Raises RuntimeError without a success."""
    summary = report.summary
    if not summary.counts.succeeded:
        raise RuntimeError(f"{name} answered nothing: {summary.counts.failures}")
    return Row(
        system=name,
        output_tokens_per_s=output_tokens_per_s(report),
        requests_per_s=known(summary.throughput.requests_per_s, "rate of requests"),
        ttft_p50_ms=time_ms(report, "ttft_s", "p50"),
        ttft_p99_ms=time_ms(report, "ttft_s", "p99"),
        itl_p50_ms=time_ms(report, "itl_s", "p50"),
        itl_p99_ms=time_ms(report, "itl_s", "p99"),
        e2e_p50_ms=time_ms(report, "e2e_s", "p50"),
        e2e_p99_ms=time_ms(report, "e2e_s", "p99"),
        cpu_s_per_request=cpu_s_per_request,
        num_failed=summary.counts.failed,
    )


def median_row(rounds: Sequence[Row]) -> Row:
    """The median of each figure for itself; failures of all rounds."""
    figures = {name: statistics.median(getattr(row, name) for row in rounds) for name in Row._fields[1:-1]}
    return rounds[0]._replace(**figures, num_failed=sum(row.num_failed for row in rounds))


def measure_all(makes: dict[str, Make], num_requests: int, num_rounds: int) -> list[Row]:
    """In turns. A system that does not start is told of and left out."""
    rounds: dict[str, list[Row]] = {name: [] for name in makes}
    for _ in range(num_rounds):
        for name, make in makes.items():
            try:
                rounds[name].append(measure(make, num_requests))
            except (CannotStart, RuntimeError) as error:
                if name.startswith("baton"):
                    raise
                print(f"{name} is left out of a round: {error}", file=sys.stderr)
    return [median_row(found) for found in rounds.values() if found]


def tell(rows: Sequence[Row]) -> None:
    heads = ["system", "output tok/s", "req/s", "TTFT p50 / p99 ms", "ITL p50 / p99 ms", "E2E p50 / p99 ms"]
    heads += ["CPU s/req", "failed"]
    print_table(heads, [_cells(row) for row in rows])
    print(CAVEAT)


def _cells(row: Row) -> list[str]:
    return [
        row.system,
        f"{row.output_tokens_per_s:.1f}",
        f"{row.requests_per_s:.2f}",
        f"{row.ttft_p50_ms:.0f} / {row.ttft_p99_ms:.0f}",
        f"{row.itl_p50_ms:.1f} / {row.itl_p99_ms:.1f}",
        f"{row.e2e_p50_ms:.0f} / {row.e2e_p99_ms:.0f}",
        f"{row.cpu_s_per_request:.2f}",
        str(row.num_failed),
    ]


#: field of a row → question, unit, whether more is better
QUESTIONS = {
    "output_tokens_per_s": ("output tokens per second", "tokens/s", True),
    "ttft_p50_ms": ("TTFT p50", "ms", False),
    "itl_p50_ms": ("ITL p50", "ms", False),
    "e2e_p50_ms": ("E2E p50", "ms", False),
}


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    """What the board asks of this script's JSON: ours against vLLM's of the same shape."""
    found = {row["system"]: row for row in report["rows"]}
    for shape in ("1P1D", "unified"):
        ours, peer = found.get(f"baton {shape}"), found.get(f"vllm {shape}")
        if ours is None:
            continue
        for field, (question, unit, is_more_better) in QUESTIONS.items():
            peers = {} if peer is None else {"vLLM": peer[field]}
            yield Line(f"{shape}: {question}", unit, is_more_better, ours[field], peers)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=32, help="of one load, after its warm-up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", default="0,1", help="two, by commas")
    parser.add_argument("--only", action="append", metavar="SYSTEM", help="such as 'baton 1P1D'")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--vllm-python", type=Path, metavar="PYTHON", help="of an environment that holds vLLM for CPUs")
    parser.add_argument("--vllm-router", type=Path, metavar="PROGRAM", help="that of vllm-router")
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    if asked.vllm_python:
        enter_own_network()
    makes = systems(asked.cores.split(","), asked.vllm_python, asked.vllm_router)
    rows = measure_all({name: makes[name] for name in asked.only or makes}, asked.requests, asked.rounds)
    tell(rows)
    if asked.json:
        report = {"model": DEFAULT_MODEL, "caveat": CAVEAT, "rows": [row._asdict() for row in rows]}
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
