"""The row of the simulator beside a measured engine."""

from __future__ import annotations

from tests.accept.commands import BATON, RAN_PAST_LIMIT, run
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.measured_runs import real_run

LIMIT_S = 900.0
SCENARIO = "vllm-rtx4090"


def measure(_: Options) -> Row:
    asked = "vLLM 0.19 on an RTX 4090: simulated TTFT mean and p99, TPOT and E2E mean within 5 % of the measured ones"
    folder = real_run()
    if folder is None:
        return cannot_run(asked, "no vllm_groundtruth in $BATON_DATA or ../shared/data")
    done = run([*BATON, "sim", "--scenario", SCENARIO, "--data", str(folder)], LIMIT_S)
    if done.code == RAN_PAST_LIMIT:
        return cannot_run(asked, f"it did not end within {LIMIT_S:.0f} s")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines() if "│" in line]
    told = [f"{name} {error}" for name, _, _, error, verdict in rows if verdict]
    return judged(asked, ", ".join(told) or done.last_line, done.code == 0 and len(told) == 4)
