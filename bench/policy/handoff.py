"""Hand-off: from the last computed token of a prompt to its first decode step, with both executors computing.

The comparison is planted: steps are launched before chunks are posted, by the loop itself, which waits while the device
is busy. Both run the same load in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from baton.core.metrics.percentiles import percentile
from baton.core.metrics.report import Report
from bench.board_lines import Line
from bench.figures import output_tokens_per_s, time_ms
from bench.policy.stack import SPLIT, Closing, Options, closings, load, start

NOT_COVERED = (
    "several prefill executors for one that decodes, a network between them, prompts "
    "beyond 512 tokens, other devices"
)
PLANT = "launch_first"
CONFIG = '[scheduler]\nplacement = "always_pd"\n'
AIM_MS = 5.0  #: last chunk computed → activated, p95
LOADS = {
    "closed": ["--concurrency", "8", "--input-tokens", "256"],
    "diagnostic": ["--arrivals", "constant", "--rate", "0.5", "--input-tokens", "uniform:64-512"],
}
COUNTS = {"closed": 48, "diagnostic": 12}
FIGURES = ("computed → commit", "computed → landed", "computed → activated", "landed → activated")


class Round(NamedTuple):
    """One load on one stack. Milliseconds, but for the rates and counts."""

    stages_ms: dict[str, list[float]]
    ttft_p50_ms: float
    e2e_p50_ms: float
    output_tokens_per_s: float
    early_share: float  #: of the KV bytes, posted before the prompt was computed


def measure(options: Options, folder: Path) -> dict[str, Any]:
    """Rounds by load and order, in turns."""
    found: dict[str, dict[str, list[Round]]] = {name: {"ours": [], "reversed": []} for name in LOADS}
    for number in range(options.num_rounds):
        for order, plant in (("ours", ""), ("reversed", PLANT)):
            system = start(folder / f"{order}{number}", SPLIT, options.cores, CONFIG, plant)
            try:
                for name in LOADS:
                    told = len(system.log())
                    report = load(system, folder / f"{order}{number}" / name, _flags(name, options), 4)
                    found[name][order].append(_round(report, list(closings(system.log()[told:]))))
            finally:
                system.close()
    return {name: {order: _summary(rounds) for order, rounds in orders.items()} for name, orders in found.items()}


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    heads = ["order", *(f"{figure} p50 / p95 ms" for figure in FIGURES), "early bytes"]
    heads += ["TTFT p50 ms", "E2E p50 ms", "output tok/s"]
    for name, orders in report.items():
        rows = []
        for order, found in orders.items():
            stages = [f"{found['stages_ms'][f][0]:.2f} / {found['stages_ms'][f][1]:.2f}" for f in FIGURES]
            rates = [f"{found['early_share']:.2f}", f"{found['ttft_p50_ms']:.0f}", f"{found['e2e_p50_ms']:.0f}"]
            rows.append([order, *stages, *rates, f"{found['output_tokens_per_s']:.1f}"])
        yield f"hand-off, {name} load", heads, rows


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    ours, other = report["closed"]["ours"], report["closed"]["reversed"]
    for figure in FIGURES[:3]:
        values = [found["stages_ms"][figure][1] for found in (ours, other)]
        limit, limit_name = (AIM_MS, "aim") if figure == "computed → activated" else (None, "")
        yield Line(f"hand-off: {figure}, p95", "ms", False, values[0], {"reversed": values[1]}, limit, limit_name)
    for key, unit, more in (("e2e_p50_ms", "ms", False), ("output_tokens_per_s", "tokens/s", True)):
        yield Line(f"hand-off: {key}", unit, more, ours[key], {"reversed": other[key]})


def _flags(name: str, options: Options) -> list[str]:
    count = max(4, int(COUNTS[name] * options.scale))
    return [*LOADS[name], "--output-tokens", "64", "--num-requests", str(count)]


def _round(report: Report, lines: Sequence[Closing]) -> Round:
    """Joins the two ends of each request that was measured."""
    sent = {line.request: line for line in lines if line.what == "prefill ended"}
    stages: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    shares = []
    for line in lines:
        prefill = sent.get(line.request)
        if line.what != "decode ended" or prefill is None or "activated" not in line.at_s:
            continue
        computed = prefill.at_s["computed"]
        ends = (prefill.at_s["commit"], line.at_s["landed"], line.at_s["activated"])
        for figure, end in zip(FIGURES, ends, strict=False):
            stages[figure].append((end - computed) * 1e3)
        stages["landed → activated"].append((line.at_s["activated"] - line.at_s["landed"]) * 1e3)
        shares.append(prefill.numbers.get("early_share", 0.0))
    if not shares:
        raise RuntimeError("no request with both of its closing lines")
    ttft_p50_ms, e2e_p50_ms = time_ms(report, "ttft_s", "p50"), time_ms(report, "e2e_s", "p50")
    return Round(stages, ttft_p50_ms, e2e_p50_ms, output_tokens_per_s(report), sum(shares) / len(shares))


def _summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Stages over all requests of all rounds; medians of the rounds otherwise."""
    stages = {figure: [value for r in rounds for value in r.stages_ms[figure]] for figure in FIGURES}
    return {
        "stages_ms": {f: [percentile(sorted(v), 50), percentile(sorted(v), 95)] for f, v in stages.items()},
        "num_requests": len(stages[FIGURES[0]]),
        **{key: median(getattr(r, key) for r in rounds) for key in Round._fields[1:]},
    }
