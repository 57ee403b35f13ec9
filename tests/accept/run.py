"""Everything that Baton promises and this machine can check: one line for each promise.

    python tests/accept/run.py [--only NAME]… [--quick] [--full] [--json FILE]

Exit code 1 if a line is not met.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.accept import (
    agreement,
    aiperf,
    baton_bench,
    clients,
    clone,
    disconnects,
    engines,
    first_answer,
    ground_truth,
    hand_offs,
    openapi,
    policy_coverage,
    published,
    replay,
    rest,
    simulator,
    studies,
    suites,
)
from tests.accept.row import Options, Row, Verdict

ROWS: dict[str, Callable[[Options], Row]] = {
    "first_answer": first_answer.measure,
    "rest": rest.measure,
    "disconnects": disconnects.measure,
    "replay": replay.measure,
    "aiperf": aiperf.measure,
    "bench": baton_bench.measure,
    "agreement": agreement.measure,
    "clients": clients.measure,
    "openapi": openapi.measure,
    "parity": suites.parity,
    "fuzz": suites.fuzz,
    "sim": simulator.sim,
    "sim_ourselves": simulator.sim_ourselves,
    "compare": studies.compared,
    "tune": studies.tuned,
    "policy_coverage": policy_coverage.measure,
    "compose": suites.compose,
    "hot_paths": engines.hot_paths,
    "simulator": engines.simulator,
    "bench_executor": engines.bench_executor,
    "bench_router": engines.bench_router,
    "ground_truth": ground_truth.measure,
    "window": hand_offs.window,
    "unbalanced_pair": hand_offs.unbalanced_pair,
    "best_split": published.best_split,
    "placement_order": published.placement_order,
    "clone_to_first_answer": clone.measure,
}


def measured_row(name: str, options: Options) -> Row:
    """The row; one that raises is not met, and its error is what was measured."""
    try:
        return ROWS[name](options)
    except Exception as error:
        traceback.print_exc()
        return Row("", f"{type(error).__name__}: {error}", Verdict.NOT_MET)


def tell(name: str, row: Row, elapsed_s: float) -> None:
    print(f"{row.verdict.value.upper():15}{name}  ({elapsed_s:.0f} s)")
    for title, text in (("asked", row.asked), ("measured", row.measured)):
        print(f"    {title:9}{text}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(ROWS), metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="fewer seeds and shorter measurements")
    parser.add_argument("--full", action="store_true", help="also install from a clone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    asked = parser.parse_args()
    options = Options(asked.quick, asked.full)
    report = {}
    for name in asked.only or ROWS:
        started_at = time.monotonic()
        row = measured_row(name, options)
        elapsed_s = time.monotonic() - started_at
        tell(name, row, elapsed_s)
        report[name] = row._asdict() | {"verdict": row.verdict.value, "elapsed_s": round(elapsed_s, 1)}
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    verdicts = [row["verdict"] for row in report.values()]
    print(", ".join(f"{verdicts.count(verdict.value)} {verdict.value}" for verdict in Verdict))
    return 1 if Verdict.NOT_MET.value in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
