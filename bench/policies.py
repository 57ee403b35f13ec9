"""What do the scheduling policies do to the real stack on this machine?

    python bench/policies.py [--json FILE] [--only QUESTION]... [--rounds 3] [--scale 1.0] [--cores 0,1]

The small model on the CPU, prefill and decode on a core each, warmed, compared arms in turns; figures are medians of
the rounds. `--scale 0.25` asks a quarter of the requests. Two cores of one machine judge what the policies cost and
keep, not what P/D gains.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.board_lines import Line
from bench.policy import answers, handoff, hold, overlap, prefix, window
from bench.policy.stack import Options
from bench.table import print_table

QUESTIONS: dict[str, ModuleType] = {
    "handoff": handoff,
    "window": window,
    "prefix": prefix,
    "hold": hold,
    "overlap": overlap,
    "answers": answers,
}


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    """What the board asks of this script's JSON."""
    for name, found in report.items():
        yield from QUESTIONS[name].board_lines(found)


def tell(name: str, found: dict[str, Any]) -> None:
    for title, heads, rows in QUESTIONS[name].tables(found):
        print(f"\n{title}")
        print_table(heads, rows)
    print(f"Not covered: {QUESTIONS[name].NOT_COVERED}.")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(QUESTIONS)
    parser.add_argument("--only", action="append", choices=names, metavar="QUESTION", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of requests")
    parser.add_argument("--cores", default="0,1", help="two, by commas")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    options = Options(asked.cores, asked.rounds, asked.scale)
    report: dict[str, Any] = {}
    for name in asked.only or QUESTIONS:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            report[name] = QUESTIONS[name].measure(options, Path(folder))
        tell(name, report[name])
        if asked.json:
            asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
