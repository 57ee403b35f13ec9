"""Rows of figures that others published of prefill and decode apart, reproduced in the simulator."""

from __future__ import annotations

import os
from pathlib import Path

from tests.accept.commands import BATON, RAN_PAST_LIMIT, Done, run
from tests.accept.row import Options, Row, cannot_run, judged

LIMIT_S = 900.0
TRACE = "mooncake_conversation_trace.jsonl"
SPLIT_REQUESTS, SPLIT_REQUESTS_QUICK = 150, 60
TRACE_REQUESTS, TRACE_REQUESTS_QUICK = 1500, 400


def best_split(options: Options) -> Row:
    asked = "OPT-13B, DistServe's coefficients, 0.2 s / 0.1 s: of the splits that it searched P TP2, D TP1 serves most"
    num_requests = SPLIT_REQUESTS_QUICK if options.quick else SPLIT_REQUESTS
    done = run([*BATON, "sim", "--scenario", "distserve_opt13b", "--set", f"load.num_requests={num_requests}"], LIMIT_S)
    return _row(asked, done, "goodput_per_gpu: ")


def placement_order(options: Options) -> Row:
    asked = "mean TTFT on Mooncake's conversation trace: ours < by load < by chance"
    trace = Path(os.environ.get("BATON_DATA", "")) / TRACE
    if not trace.is_file():
        return cannot_run(asked, f"$BATON_DATA holds no {TRACE}")
    num_requests = TRACE_REQUESTS_QUICK if options.quick else TRACE_REQUESTS
    told = ["--set", f"load.trace={trace}", "--set", f"load.num_requests={num_requests}"]
    return _row(asked, run([*BATON, "sim", "--scenario", "placement_order", *told], LIMIT_S), "ttft_s.mean: ")


def _row(asked: str, done: Done, figure: str) -> Row:
    """What the scenario says of its orders."""
    if done.code == RAN_PAST_LIMIT:
        return cannot_run(asked, f"it did not end within {LIMIT_S:.0f} s")
    told = [line.removeprefix(figure) for line in done.output.splitlines() if line.startswith(figure)]
    return judged(asked, "; ".join(told) or done.last_line, done.code == 0 and bool(told))
