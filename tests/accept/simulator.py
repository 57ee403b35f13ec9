"""Rows of the simulator: it runs from what ships with the package, and it is right about ourselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from baton.core.metrics.report import decode_report
from baton.services.loadgen.results import PAGE, RECORDS, REPORT, TABLE
from tests.accept.commands import BATON, RAN_PAST_LIMIT, ROOT, run
from tests.accept.row import Options, Row, cannot_run, judged

SHIPPED = ("--topology", "1P1D", "--profile", "cpu-smollm2", "--trace", "sample", "--policy", "plain", "--seeds", "3")
RUN_LIMIT_S = 600.0
OURSELVES_LIMIT_S = 1500.0


def sim(options: Options) -> Row:
    asked = (
        "`baton sim` with what ships: the same bytes again, intervals over seeds, a broken row named by line and field"
    )
    few = ("--set", "load.speed=0.1", "--set", f"load.num_requests={20 if options.quick else 60}")
    with TemporaryDirectory(prefix="accept-") as name:
        folders = [Path(name) / each for each in ("a", "b")]
        for folder in folders:
            done = run([*BATON, "sim", *SHIPPED, *few, "--out", str(folder)], RUN_LIMIT_S)
            if done.code != 0:
                return judged(asked, done.output[-500:], is_met=False)
        files = [[(folder / file).read_bytes() for file in (REPORT, RECORDS, TABLE, PAGE)] for folder in folders]
        report, is_same = decode_report(files[0][0]), files[0] == files[1]
        broken = Path(name) / "broken.jsonl"
        broken.write_text('{"timestamp": 0, "input_length": 9, "output_length": "x", "hash_ids": []}\n')
        done = run([*BATON, "sim", "--topology", "1U", "--profile", "cpu-smollm2", "--trace", str(broken)], RUN_LIMIT_S)
    interval = report.intervals["ttft_s.p50"]
    names_it = done.code == 2 and "broken.jsonl:1: " in done.last_line and "output_length" in done.last_line
    half = f"± {interval.half_share:.0%}" if interval.half_share is not None else "without an even interval"
    measured = f"{report.summary.counts.succeeded} requests, TTFT p50 {interval.value * 1e3:.0f} ms {half} over "
    measured += f"{interval.num_runs} seeds; {'the same' if is_same else 'other'} bytes again; {done.last_line}"
    return judged(asked, measured, is_same and names_it and interval.low is not None)


def sim_ourselves(options: Options) -> Row:
    asked = "the real CPU stack, and simulated by its profile: TTFT, ITL, tokens/s p50 within 10 %, p95 within 15 %"
    with TemporaryDirectory(prefix="accept-") as name:
        path = Path(name) / "report.json"
        flags = ["--requests", "60", "--rounds", "3"] if options.quick else []
        command = [sys.executable, str(ROOT / "bench" / "simulated.py"), "--json", str(path), *flags]
        done = run(command, OURSELVES_LIMIT_S)
        if done.code == RAN_PAST_LIMIT:
            return cannot_run(asked, f"bench/simulated.py did not end within {OURSELVES_LIMIT_S:.0f} s")
        if not path.exists():
            return judged(asked, done.output[-500:], is_met=False)
        found = json.loads(path.read_text())
    judged_rows = [row for row in found["figures"] if row["limit"] is not None]
    measured = ", ".join(f"{row['figure']} {row['off']:+.1%}" for row in judged_rows)
    return judged(asked, measured, all(row["holds"] for row in judged_rows), **found)
