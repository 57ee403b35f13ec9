"""A deployment without requests uses next to no CPU."""

from __future__ import annotations

import time

from tests.accept.deployment import Deployment, post
from tests.accept.row import Options, Row, judged

AIM_SHARE = 0.02  #: of one core, all processes together
SETTLE_S = 2.0


def measure(options: Options) -> Row:
    duration_s = 10.0 if options.quick else 30.0
    asked = f"all processes together use < {AIM_SHARE:.0%} of one core at rest, over {duration_s:.0f} s"
    with Deployment() as up:
        post(f"{up.url}/v1/completions", {"model": up.model, "prompt": "Once", "max_tokens": 8})
        up.wait_until_quiescent()
        time.sleep(SETTLE_S)
        before_s, started_at = up.cpu_s(), time.monotonic()
        time.sleep(duration_s)
        used_s, elapsed_s = up.cpu_s() - before_s, time.monotonic() - started_at
        num_processes = len(up.pids())
    share = used_s / elapsed_s
    return judged(asked, f"{share:.2%} of one core, {num_processes} processes", share < AIM_SHARE, share=share)
