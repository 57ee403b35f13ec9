"""How fast does `baton sim` run, in how much memory, and where does its time go?

    python bench/simulator.py [--full] [--trace FILE] [--only PART]... [--json FILE]

Each measurement is a process of its own; what counts are seconds of one core (user and system), since other work on the
machine does not add to them. Runs are on compiled modules, if there are any (`make compiled`), but with
`BATON_COMPILED=0`; where time goes is seen of Python alone. `trace` replays a trace in Mooncake's format, at real
speed, on seven prefill and one decode executor of eight H100 each; it is skipped without `--trace`, or where
$BATON_DATA holds none. `--full` adds runs of minutes to hours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.services.sim.compiled import VARIABLE, is_fresh, use_compiled
from bench.board_lines import Line
from bench.table import print_table

PARTS = ("executors", "requests", "where", "trace")
TRACE = "mooncake_conversation_trace.jsonl"
NUM_EXECUTORS, MORE_EXECUTORS = (1, 8, 64, 256), (2, 4, 16, 32, 128)
NUM_REQUESTS, MORE_REQUESTS = (1_000, 10_000), (100_000, 1_000_000)
AIM_CPU_S, AIM_MIB = 60.0, 1024.0  #: of the conversation trace: 59 minutes, 12,031 requests


def fleet_table(num_executors: int, num_requests: int) -> dict[str, Any]:
    """Unified executors with as much to do each, however many there are."""
    load = {"rate": 2.0 * num_executors, "num_requests": num_requests, "input_tokens": "512", "output_tokens": "32"}
    return {
        "name": "scale",
        "topology": f"{num_executors}U",
        "profile": "a100-opt13b-tp1",
        "executor": {"piece_bytes": 1 << 26},
        "load": load,
    }


def trace_table(trace: str, num_requests: int | None = None) -> dict[str, Any]:
    """Blocks are those of the trace; a machine's eight ports carry 400 Gbit/s each."""
    return {
        "name": "trace",
        "topology": "7P1D",
        "profile": "h100-llama70b-tp8",
        "block_size": 512,
        "max_model_len": 200_000,
        "executor": {"token_budget": 8192, "long_prefill_tokens": 8192, "piece_bytes": 1 << 28},
        "wires": {"kv_bytes_per_s": 4e11, "poll_s": 1e-3},
        "load": {"trace": trace} | ({"num_requests": num_requests} if num_requests else {}),
    }


# ---- the measurements


def measured(part: str, num_executors: int, table: dict[str, Any], samples: bool = False) -> dict[str, Any]:
    """Raises CalledProcessError when the run fails; what it said is on stderr."""
    told = json.dumps({"table": table, "samples": samples})
    command = [sys.executable, __file__, "--one"]
    environment = os.environ | ({VARIABLE: "0"} if samples else {})
    done = subprocess.run(command, input=told, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    row: dict[str, Any] = {"part": part, "executors": num_executors} | json.loads(done.stdout)
    print_table(HEADS, [cells(row)])
    return row


def measure(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    parts = asked.only or PARTS
    if "executors" in parts:
        for count in sorted((*NUM_EXECUTORS, *(MORE_EXECUTORS if asked.full else ()))):
            yield measured("executors", count, fleet_table(count, 1_000))
    if "requests" in parts:
        for count in (*NUM_REQUESTS, *(MORE_REQUESTS if asked.full else ())):
            yield measured("requests", 8, fleet_table(8, count))
    if "where" in parts:
        yield measured("where", 8, fleet_table(8, 1_000), samples=True)
    if "trace" in parts:
        if asked.trace.is_file():
            yield measured("trace", 8, trace_table(str(asked.trace), asked.requests))
        else:
            print(f"trace: skipped, {asked.trace} is no file")


HEADS = ("part", "executors", "requests", "events", "output tokens", "CPU s", "events/s", "tokens/s", "MiB")


def cells(row: dict[str, Any]) -> list[str]:
    names = ("executors", "requests", "events", "output_tokens", "cpu_s", "events_per_s", "tokens_per_s", "rss_mib")
    return [row["part"], *(f"{row[name]:,}" for name in names)]


def tell(rows: list[dict[str, Any]]) -> None:
    print()
    print_table(HEADS, [cells(row) for row in rows])
    for row in rows:
        if row["shares"]:
            print("\nwhere the time of a run goes:")
            print_table(("module", "share"), [[name, f"{share:.1%}"] for name, share in row["shares"].items()])


def board_lines(report: list[dict[str, Any]]) -> Iterator[Line]:
    """What the board asks of this script's JSON."""
    for row in report:
        if row["part"] == "trace":
            size = f"{row['requests']:,} requests, {row['virtual_s'] / 60:.0f} minutes"
            name = f"a trace of {size}, on {row['executors']} executors"
            yield Line(f"{name}: CPU", "s", False, row["cpu_s"], limit=AIM_CPU_S, limit_name="aim")
            yield Line(f"{name}: memory", "MiB", False, row["rss_mib"], limit=AIM_MIB, limit_name="aim")
        elif row["part"] != "where":
            name = f"{row['executors']} executors, {row['requests']:,} requests"
            yield Line(f"{name}: events per second of CPU", "1/s", True, row["events_per_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON, too")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--full", action="store_true", help="more executors, up to a million requests")
    data = Path(os.environ.get("BATON_DATA", ""))
    parser.add_argument("--trace", type=Path, metavar="FILE", default=data / TRACE, help=f"$BATON_DATA/{TRACE}")
    parser.add_argument("--requests", type=int, metavar="N", help="of the trace, the first N")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        use_compiled()  # before anything of the core is loaded
        print(json.dumps(importlib.import_module("bench.simulator_run").run_one(json.load(sys.stdin))))
        return
    print("compiled" if is_fresh() else "not compiled (make compiled)")
    rows = list(measure(asked))
    tell(rows)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
