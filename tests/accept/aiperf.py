"""A load by aiperf, an independent client: no error, and its token counts are ours."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baton.services.model.fetch import fetch
from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.aiperf import install, profile, read_report, write_tokenizer

NUM_INPUT_TOKENS, NUM_OUTPUT_TOKENS = 256, 64
LIMIT_S = 600.0


def measure(options: Options) -> Row:
    num_requests = 16 if options.quick else 48
    asked = (
        f"aiperf profile, streaming chat, concurrency 8, {num_requests} requests, {NUM_INPUT_TOKENS} in / "
        f"{NUM_OUTPUT_TOKENS} out: no error, token counts equal to ours"
    )
    why_not = install()
    if why_not:
        return cannot_run(asked, why_not)
    with TemporaryDirectory(prefix="accept-") as name, Deployment() as up:
        write_tokenizer(fetch(), Path(name) / "home")
        before = up.metrics("router")
        done = profile(up.url, up.model, Path(name), flags(num_requests), LIMIT_S)
        if done.code != 0:
            return judged(asked, f"aiperf ended with {done.code}: {done.output[-1500:]}", False)
        found = read_report(Path(name))
        up.wait_until_quiescent()
        after = up.metrics("router")
    return judge(asked, found, num_requests, int(after["accepted_total"] - before.get("accepted_total", 0)))


def flags(num_requests: int) -> tuple[str, ...]:
    return (
        *("--endpoint-type", "chat", "--streaming", "--concurrency", "8", "--request-count", str(num_requests)),
        *("--isl", str(NUM_INPUT_TOKENS), "--isl-stddev", "0", "--osl", str(NUM_OUTPUT_TOKENS), "--osl-stddev", "0"),
        *("--extra-inputs", "ignore_eos:true", "--extra-inputs", f"min_tokens:{NUM_OUTPUT_TOKENS}"),
        *("--random-seed", "1"),
    )


def judge(asked: str, found: dict[str, Any], num_requests: int, num_accepted: int) -> Row:
    return judged(asked, str(found)[:3000], False, report=found, accepted=num_accepted)
