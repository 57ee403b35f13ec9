"""A load by aiperf, an independent client: no error, and its token counts are ours."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from baton.services.model.fetch import fetch
from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, Verdict, cannot_run, judged
from tests.support.aiperf import profile, read_report, write_tokenizer
from tests.support.environment import AIPERF

NUM_INPUT_TOKENS, NUM_OUTPUT_TOKENS = 256, 64
LIMIT_S = 600.0
COUNTS = re.compile(r" (?:status|num_prompt_tokens|num_output_tokens)=(\d+)")


class Endpoint(NamedTuple):
    """What aiperf calls it, where it is, how it is asked."""

    kind: str
    path: str
    is_streamed: bool  #: and then every output is made as long as asked for


ENDPOINTS = (
    Endpoint("chat", "/v1/chat/completions", True),
    Endpoint("completions", "/v1/completions", True),
    # Whole: of a stream aiperf reads usage only in `response.completed`, and one at its limit ends with another event.
    Endpoint("responses", "/v1/responses", False),
)


def measure(options: Options) -> Row:
    num_requests = 16 if options.quick else 48
    asked = (
        "aiperf profile of chat and completions, streaming, and responses, whole; concurrency 8, "
        f"{num_requests} requests each, {NUM_INPUT_TOKENS} in / {NUM_OUTPUT_TOKENS} out: no error, token counts "
        "equal to ours"
    )
    why_not = AIPERF.install()
    if why_not:
        return cannot_run(asked, why_not)
    with TemporaryDirectory(prefix="accept-") as name, Deployment() as up:
        rows = [measure_one(up, Path(name) / endpoint.kind, endpoint, num_requests) for endpoint in ENDPOINTS]
    is_met = all(row.verdict is Verdict.MET for row in rows)
    reports = {endpoint.kind: row.numbers for endpoint, row in zip(ENDPOINTS, rows, strict=True)}
    return judged(asked, "; ".join(row.measured for row in rows), is_met, **reports)


def measure_one(up: Deployment, folder: Path, endpoint: Endpoint, num_requests: int) -> Row:
    write_tokenizer(fetch(), folder / "home")
    done = profile(up.url, up.model, folder, flags(endpoint, num_requests), LIMIT_S)
    if done.code != 0:
        return judged("", f"{endpoint.kind}: aiperf ended with {done.code}: {done.output[-1500:]}", False)
    up.wait_until_quiescent()
    return judge(endpoint, num_requests, read_report(folder), served(up, endpoint.path))


def flags(endpoint: Endpoint, num_requests: int) -> tuple[str, ...]:
    streamed = ("--streaming", "--extra-inputs", "ignore_eos:true", "--extra-inputs", f"min_tokens:{NUM_OUTPUT_TOKENS}")
    return (
        *("--endpoint-type", endpoint.kind, "--concurrency", "8"),
        *("--request-count", str(num_requests)),
        *("--isl", str(NUM_INPUT_TOKENS), "--isl-stddev", "0", "--osl", str(NUM_OUTPUT_TOKENS), "--osl-stddev", "0"),
        *(streamed if endpoint.is_streamed else ()),
        *("--use-server-token-count", "--random-seed", "1"),
    )


def served(up: Deployment, path: str) -> list[tuple[int, int, int]]:
    """(status, prompt tokens, output tokens) of every request of the measured kind, from the router's access log."""
    lines = [line for line in up.log_tail(1 << 24).splitlines() if f" path={path} " in line]
    return [tuple(int(number) for number in COUNTS.findall(line)) for line in lines]  # type: ignore[misc]


def judge(endpoint: Endpoint, num_requests: int, report: dict[str, Any], ours: list[tuple[int, int, int]]) -> Row:
    """aiperf's sums of what it read from the streams against what the router says it served."""
    num_errors = int(report.get("error_request_count", {}).get("avg", 0)) + len(report.get("error_summary") or [])
    theirs = [round(report[key]["sum"]) for key in ("input_sequence_length", "output_sequence_length")]
    sums = [sum(row[index] for row in ours) for index in (1, 2)]
    is_met = num_errors == 0 and theirs == sums and int(report["request_count"]["avg"]) == num_requests == len(ours)
    is_met = is_met and all(status == 200 for status, _, _ in ours)
    is_met = is_met and (not endpoint.is_streamed or all(output == NUM_OUTPUT_TOKENS for _, _, output in ours))
    measured = (
        f"{endpoint.kind}: {num_errors} errors in {report['request_count']['avg']:.0f} requests; tokens in and out: "
        f"aiperf {theirs}, ours {sums}; {report['output_token_throughput']['avg']:.1f} output tokens/s"
    )
    if endpoint.is_streamed:
        times = (report[key]["p50"] for key in ("time_to_first_token", "inter_token_latency"))
        measured += ", TTFT p50 {:.0f} ms, ITL p50 {:.0f} ms".format(*times)
    return judged("", measured, is_met, report=report)
