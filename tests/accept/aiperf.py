"""A load by aiperf, an independent client: no error, and its token counts are ours."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from baton.services.model.fetch import fetch
from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.aiperf import profile, read_report, write_tokenizer
from tests.support.environment import AIPERF

NUM_INPUT_TOKENS, NUM_OUTPUT_TOKENS = 256, 64
LIMIT_S = 600.0
COUNTS = re.compile(r" (?:status|num_prompt_tokens|num_output_tokens)=(\d+)")


def measure(options: Options) -> Row:
    num_requests = 16 if options.quick else 48
    asked = (
        f"aiperf profile, streaming chat, concurrency 8, {num_requests} requests, {NUM_INPUT_TOKENS} in / "
        f"{NUM_OUTPUT_TOKENS} out: no error, token counts equal to ours"
    )
    why_not = AIPERF.install()
    if why_not:
        return cannot_run(asked, why_not)
    with TemporaryDirectory(prefix="accept-") as name, Deployment() as up:
        write_tokenizer(fetch(), Path(name) / "home")
        done = profile(up.url, up.model, Path(name), flags(num_requests), LIMIT_S)
        if done.code != 0:
            return judged(asked, f"aiperf ended with {done.code}: {done.output[-1500:]}", False)
        up.wait_until_quiescent()
        return judge(asked, num_requests, read_report(Path(name)), served(up))


def flags(num_requests: int) -> tuple[str, ...]:
    return (
        *("--endpoint-type", "chat", "--streaming", "--concurrency", "8", "--request-count", str(num_requests)),
        *("--isl", str(NUM_INPUT_TOKENS), "--isl-stddev", "0", "--osl", str(NUM_OUTPUT_TOKENS), "--osl-stddev", "0"),
        *("--extra-inputs", "ignore_eos:true", "--extra-inputs", f"min_tokens:{NUM_OUTPUT_TOKENS}"),
        *("--use-server-token-count", "--random-seed", "1"),
    )


def served(up: Deployment) -> list[tuple[int, int, int]]:
    """(status, prompt tokens, output tokens) of every request of the measured kind, from the router's access log."""
    lines = [line for line in up.log_tail(1 << 24).splitlines() if "path=/v1/chat/completions" in line]
    return [tuple(int(number) for number in COUNTS.findall(line)) for line in lines]  # type: ignore[misc]


def judge(asked: str, num_requests: int, report: dict[str, Any], ours: list[tuple[int, int, int]]) -> Row:
    """aiperf's sums of what it read from the streams against what the router says it served."""
    num_errors = int(report.get("error_request_count", {}).get("avg", 0)) + len(report.get("error_summary") or [])
    theirs = [round(report[key]["sum"]) for key in ("input_sequence_length", "output_sequence_length")]
    sums = [sum(row[index] for row in ours) for index in (1, 2)]
    is_met = num_errors == 0 and theirs == sums and int(report["request_count"]["avg"]) == num_requests == len(ours)
    is_met = is_met and all(status == 200 and output == NUM_OUTPUT_TOKENS for status, _, output in ours)
    measured = (
        f"{num_errors} errors in {report['request_count']['avg']:.0f} requests; tokens in and out: aiperf {theirs}, "
        f"ours {sums}; {report['output_token_throughput']['avg']:.1f} output tokens/s, TTFT p50 "
        f"{report['time_to_first_token']['p50']:.0f} ms, ITL p50 {report['inter_token_latency']['p50']:.0f} ms"
    )
    return judged(asked, measured, is_met, report=report)
