"""What do router, scheduler and executors cost for each request and each token, when the device answers at once?

    python bench/control_plane.py [--json FILE] [--model NAME|FOLDER] [--requests 512] [--streams 1,64,512]
                                  [--rounds 3] [--only SYSTEM]... [--dynamo-python PYTHON]

Real processes: a router, a scheduler, and a prefill and a decode executor (or one that does both) with a fake device
that takes no time; KV still moves. 512 prompt tokens, 64 output tokens, so many streams at once; prompts are chats of
text, which the front tokenizes, or token ids. CPU is that of all threads of each process. The client (bench/load.py)
is a process of its own, shares the machine's cores and is not counted. With an environment that holds Dynamo (see
bench/peers.md), its front end before its mocker, split into prefill and decode and whole, is asked the same by the same
client in turns with ours, everything in a network of its own, as it listens on all addresses. Each figure is the median
of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.model.fetch import fetch
from bench.board_lines import Line
from bench.load import KINDS, NUM_OUTPUT_TOKENS, offer
from bench.machine import enter_own_network, process_cpu_s
from bench.peers.dynamo import Dynamo
from bench.systems import PD, Baton, System
from bench.table import print_table

CONFIG = """
[device]
checks_memory = false
num_blocks = 40000
block_size = 64
[executor]
num_slots = 600
token_budget = 65536
[http]
max_open_requests = 2048
"""
NUM_REQUESTS_OF_ONE_STREAM = 64
Make = Callable[[Path], System]


class Point(NamedTuple):
    prompts: str
    streams: int
    num_requests: int


class Row(NamedTuple):
    """One system at one point."""

    system: str
    prompts: str
    streams: int
    requests_per_s: float
    tokens_per_s: float
    chunks_per_request: float
    ttft_p50_ms: float
    e2e_p50_ms: float
    cpu_ms_per_request: dict[str, float]  #: by process; the front, which clients talk to, is first
    client_cpu_ms_per_request: float

    @property
    def front_cpu_ms(self) -> float:
        return next(iter(self.cpu_ms_per_request.values()))

    @property
    def cpu_ms(self) -> float:
        return sum(self.cpu_ms_per_request.values())

    def as_json(self) -> dict[str, Any]:
        per_token = {name: ms_to_us_of_token(ms) for name, ms in self.cpu_ms_per_request.items()}
        totals = {"front_cpu_ms_per_request": self.front_cpu_ms, "all_cpu_ms_per_request": self.cpu_ms}
        return self._asdict() | {"cpu_us_per_token": per_token} | totals


def ms_to_us_of_token(ms_per_request: float) -> float:
    return ms_per_request * 1e3 / NUM_OUTPUT_TOKENS


def systems(model: str, dynamo_python: Path | None) -> dict[str, Make]:
    """Name → how it is started in a folder. Ours first."""
    flags = ["--device", "fake", "--model", model]
    found: dict[str, Make] = {
        "baton P/D": lambda folder: Baton("baton P/D", folder, [*flags, *PD], CONFIG),
        "baton unified": lambda folder: Baton("baton unified", folder, [*flags, "--unified", "1"], CONFIG),
    }
    if dynamo_python is not None:
        folder_of_model = fetch(model)
        found |= {name: dynamo(name, folder_of_model, dynamo_python) for name in ("dynamo P/D", "dynamo unified")}
    return found


def dynamo(name: str, model: Path, python: Path) -> Make:
    return lambda folder: Dynamo(name, folder, model, python, is_split=name.endswith("P/D"))


def cpu_of(system: System) -> dict[str, float]:
    """Seconds so far, by process."""
    return {name: sum(map(process_cpu_s, pids)) for name, pids in system.processes().items()}


def measure(system: System, point: Point) -> Row:
    """One round."""
    before = cpu_of(system)
    seen = offer(system.port, point.prompts, system.model, point.streams, point.num_requests)
    after = cpu_of(system)
    return Row(
        system.name,
        point.prompts,
        point.streams,
        seen.num_requests / seen.elapsed_s,
        seen.num_tokens / seen.elapsed_s,
        seen.num_chunks / seen.num_requests,
        seen.ttft_p50_s * 1e3,
        seen.e2e_p50_s * 1e3,
        {name: (after[name] - before[name]) * 1e3 / seen.num_requests for name in before},
        seen.client_cpu_s * 1e3 / seen.num_requests,
    )


def measure_all(make: Make, points: Sequence[Point]) -> list[Row]:
    """One round of every point, after requests that warm the system up."""
    with tempfile.TemporaryDirectory() as folder:
        system = make(Path(folder))
        try:
            for kind in KINDS:
                measure(system, Point(kind, 16, 64))
            return [measure(system, point) for point in points]
        finally:
            system.close()


def median_row(rounds: Sequence[Row]) -> Row:
    """The median of each figure for itself."""
    figures = {
        name: statistics.median(getattr(row, name) for row in rounds)
        for name, value in rounds[0]._asdict().items()
        if isinstance(value, float)
    }
    names = rounds[0].cpu_ms_per_request
    cpu = {name: statistics.median(row.cpu_ms_per_request[name] for row in rounds) for name in names}
    return rounds[0]._replace(**figures, cpu_ms_per_request=cpu)


def tell(rows: Sequence[Row]) -> None:
    heads = ["system", "prompts", "streams", "req/s", "tokens/s", "TTFT ms", "E2E ms"]
    heads += ["front ms/req", "µs/token", "all ms/req", "µs/token", "CPU ms/req of each"]
    print_table(heads, [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    of_each = ", ".join(f"{name} {ms:.2f}" for name, ms in row.cpu_ms_per_request.items())
    cells = [row.system, row.prompts, str(row.streams), f"{row.requests_per_s:.0f}", f"{row.tokens_per_s:.0f}"]
    cells += [f"{row.ttft_p50_ms:.1f}", f"{row.e2e_p50_ms:.1f}"]
    for ms in (row.front_cpu_ms, row.cpu_ms):
        cells += [f"{ms:.2f}", f"{ms_to_us_of_token(ms):.1f}"]
    return [*cells, of_each]


#: field of a row → question, unit, whether more is better
QUESTIONS = {
    "requests_per_s": ("requests per second", "req/s", True),
    "front_cpu_ms_per_request": ("CPU of the front end per request", "ms", False),
    "all_cpu_ms_per_request": ("CPU of all processes per request", "ms", False),
    "ttft_p50_ms": ("first bytes of an answer, p50", "ms", False),
}


def board_lines(report: list[dict[str, Any]]) -> Iterator[Line]:
    """What the board asks of this script's JSON: ours against Dynamo's, split and whole."""
    found = {(row["system"], row["prompts"], row["streams"]): row for row in report}
    for (system, prompts, streams), row in found.items():
        if not system.startswith("baton "):
            continue
        shape = system.removeprefix("baton ")
        peer = found.get((f"dynamo {shape}", prompts, streams))
        for field, (question, unit, is_more_better) in QUESTIONS.items():
            yield Line(
                f"{shape}, {prompts}, {streams} streams: {question}",
                unit,
                is_more_better,
                row[field],
                {} if peer is None else {"Dynamo": peer[field]},
            )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--requests", type=int, default=512, help="of one load, at least one for each stream")
    parser.add_argument("--streams", default="1,64,512", help="concurrencies, by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", metavar="SYSTEM", help="such as 'baton P/D'")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--dynamo-python", type=Path, metavar="PYTHON", help="of an environment that holds Dynamo")
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    if asked.dynamo_python:
        enter_own_network()
    makes = systems(asked.model, asked.dynamo_python)
    chosen = [makes[name] for name in asked.only or makes]
    points = [
        Point(kind, streams, NUM_REQUESTS_OF_ONE_STREAM if streams == 1 else max(streams, asked.requests))
        for kind in KINDS
        for streams in map(int, asked.streams.split(","))
    ]
    rounds = [[measure_all(make, points) for make in chosen] for _ in range(asked.rounds)]
    rows = [
        median_row([each[number][place] for each in rounds])
        for place in range(len(points))
        for number in range(len(chosen))
    ]
    tell(rows)
    if asked.json:
        asked.json.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
