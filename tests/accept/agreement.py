"""`baton bench` and aiperf, in turns on the same server with the same load, say the same of what they define alike."""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from baton.core.metrics.compat import Tool, compat
from baton.services.model.fetch import fetch
from tests.accept.aiperf import LIMIT_S
from tests.accept.baton_bench import read
from tests.accept.commands import BATON, run
from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.aiperf import profile, read_report, write_tokenizer
from tests.support.environment import AIPERF

CONCURRENCY, NUM_INPUT_TOKENS, NUM_OUTPUT_TOKENS = 3, 256, 32
MAX_DIFFERENCE = 0.03
MODEL = "SmolLM2-135M-Instruct"  #: whose tokenizer both clients count with
#: steps so long that a client's own cost is far below the bound
CONFIG = """
[device]
step_time_s = 0.04
token_time_s = 0.001
"""
#: as aiperf names it → the statistic, and aiperf's unit in ours
FIGURES = {
    "time_to_first_token": ("p50", 1e-3),
    "inter_token_latency": ("p50", 1e-3),
    "request_latency": ("p50", 1e-3),
    "request_throughput": ("avg", 1.0),
    "output_token_throughput": ("avg", 1.0),
}
Figures = dict[str, float]


def measure(options: Options) -> Row:
    num_rounds, num_requests = (1, 24) if options.quick else (3, 48)
    asked = (
        f"baton bench and aiperf, {num_requests} streamed chats, {CONCURRENCY} at once, {NUM_INPUT_TOKENS} in / "
        f"{NUM_OUTPUT_TOKENS} out, {num_rounds} times in turns: medians of the figures that both define alike differ "
        f"by at most {MAX_DIFFERENCE:.0%}"
    )
    why_not = AIPERF.install()
    if why_not:
        return cannot_run(asked, why_not)
    ours: list[Figures] = []
    theirs: list[Figures] = []
    with TemporaryDirectory(prefix="accept-") as name:
        config = Path(name) / "steps.toml"
        config.write_text(CONFIG)
        with Deployment("--device", "fake", "--config", str(config), model=MODEL) as up:
            for number in range(num_rounds):
                theirs.append(by_aiperf(up, Path(name) / f"aiperf{number}", num_requests, number))
                ours.append(by_bench(up, Path(name) / f"bench{number}", num_requests))
    medians = {key: tuple(statistics.median(each[key] for each in runs) for runs in (ours, theirs)) for key in FIGURES}
    apart = {key: abs(mine - other) / other for key, (mine, other) in medians.items()}
    told = (f"{key} {medians[key][0]:.4g} and {medians[key][1]:.4g} ({apart[key]:.1%} apart)" for key in FIGURES)
    return judged(asked, "; ".join(told), max(apart.values()) <= MAX_DIFFERENCE, ours=ours, theirs=theirs)


def by_bench(up: Deployment, out: Path, num_requests: int) -> Figures:
    load = ("--concurrency", str(CONCURRENCY), "--num-requests", str(num_requests))
    tokenizer = ("--tokenizer", str(fetch(MODEL) / "tokenizer.json"))
    lengths = ("--input-tokens", str(NUM_INPUT_TOKENS), "--output-tokens", str(NUM_OUTPUT_TOKENS))
    done = run([*BATON, "bench", "--url", up.url, "--out", str(out), *load, *lengths, *tokenizer], LIMIT_S)
    if done.code != 0:
        raise RuntimeError(f"baton bench ended with {done.code}: {done.output[-1500:]}")
    board = compat(Tool.AIPERF, read(out)[1])
    distributions = {name.removesuffix("_s"): figure.p50 for name, figure in board.distributions.items()}
    figures = {key: distributions.get(key, board.rates.get(key)) for key in FIGURES}
    return {key: value for key, value in figures.items() if value is not None}


def by_aiperf(up: Deployment, folder: Path, num_requests: int, seed: int) -> Figures:
    """Another seed each time, or its prompts would be in the prefix cache already."""
    write_tokenizer(fetch(MODEL), folder / "home")
    flags = (
        *("--endpoint-type", "chat", "--streaming", "--concurrency", str(CONCURRENCY)),
        *("--request-count", str(num_requests)),
        *("--isl", str(NUM_INPUT_TOKENS), "--isl-stddev", "0", "--osl", str(NUM_OUTPUT_TOKENS), "--osl-stddev", "0"),
        *("--extra-inputs", "ignore_eos:true", "--extra-inputs", f"min_tokens:{NUM_OUTPUT_TOKENS}"),
        *("--use-server-token-count", "--random-seed", str(seed)),
    )
    done = profile(up.url, up.model, folder, flags, LIMIT_S)
    if done.code != 0:
        raise RuntimeError(f"aiperf ended with {done.code}: {done.output[-1500:]}")
    report = read_report(folder)
    return {key: report[key][statistic] * unit for key, (statistic, unit) in FIGURES.items()}
