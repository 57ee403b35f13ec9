"""The transfer window: what arriving KV does to the decode steps that run beside it.

A prefill executor that computes nothing floods a decode executor with KV of the model's shape, through the real
transport, from the other core. The comparison has the same requests at the same times, and their KV lands at once,
unwritten. Answers are nonsense in both; what is measured is time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.board_lines import Line
from bench.policy.stack import SPLIT, Options, load, metric_rows, start

NOT_COVERED = "a network, several writers for one that decodes, KV that was computed (its writer computes nothing)"
ARMS = {"written": "writer", "at once": "writer_at_once"}
FLAGS = ["--arrivals", "poisson", "--rate", "1", "--input-tokens", "1500", "--output-tokens", "48"]
FLAGS += ["--content", "tokens"]
CONFIG = "[device]\nkv_bytes = 3221225472\n[scheduler]\nplacement = \"always_pd\"\n"


class Round(NamedTuple):
    """One load on one arm. Milliseconds, but for the counts."""

    tpot_mean_ms: float
    tpot_p95_ms: float
    itl_p99_ms: float
    output_tokens_per_s: float
    step_ms: dict[str, float]  #: decode step by padded batch
    kv_bytes: float  #: that came while it was measured
    num_returned: float  #: blocks that were given back unused


def measure(options: Options, folder: Path) -> dict[str, Any]:
    rounds: dict[str, list[Round]] = {arm: [] for arm in ARMS}
    for number in range(options.num_rounds):
        for arm, plant in ARMS.items():
            own = folder / f"{arm}{number}"
            system = start(own, SPLIT, options.cores, CONFIG, plant)
            try:
                count = str(max(8, int(60 * options.scale)))
                report = load(system, own, [*FLAGS, "--num-requests", count], 4)
                rounds[arm].append(_round(report, metric_rows(system)))
            finally:
                system.close()
    return {arm: _summary(found) for arm, found in rounds.items()} | {"ratios": _ratios(rounds)}


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    heads = ["KV", "TPOT mean ms", "TPOT p95 ms", "ITL p99 ms", "output tok/s", "KV MB", "blocks returned unused"]
    rows = []
    for arm in ARMS:
        found = report[arm]
        times = [f"{found[key]:.2f}" for key in ("tpot_mean_ms", "tpot_p95_ms", "itl_p99_ms")]
        counts = [f"{found['kv_bytes'] / 1e6:.0f}", f"{found['num_returned']:.0f}"]
        rows.append([arm, *times, f"{found['output_tokens_per_s']:.1f}", *counts])
    yield "window: decode beside arriving KV", heads, rows
    ratios = report["ratios"]
    yield "written ÷ at once", list(ratios), [[f"{value:.3f}" for value in ratios.values()]]


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    ratios = report["ratios"]
    for key, aim in (("tpot_mean_ms", 1.02), ("tpot_p95_ms", 1.10)):
        yield Line(f"window: {key}, written ÷ landed at once", "", False, ratios[key], {}, aim, "aim")
    yield Line("window: blocks returned unused", "blocks", False, report["written"]["num_returned"])


def _round(report: Any, rows: dict[str, dict[str, float]]) -> Round:
    summary, decode, prefill = report.summary, rows["decode0"], rows["prefill0"]
    tpot, itl = summary.distributions["tpot_s"], summary.distributions["itl_s"]
    return Round(
        tpot.mean * 1e3,
        tpot.p95 * 1e3,
        itl.p99 * 1e3,
        summary.throughput.output_tokens_per_s,
        _step_ms(decode),
        prefill.get("baton_kv_bytes_posted_total", 0.0),
        sum(value for name, value in decode.items() if "returned" in name and name.endswith("_total")),
    )


def _step_ms(rows: dict[str, float]) -> dict[str, float]:
    """By padded batch, of steps of decodes alone."""
    found = {}
    for name, count in rows.items():
        if name.startswith("baton_decode_steps_total{") and 'mixed="false"' in name and count:
            batch = name.split('padded_batch="', 1)[1].split('"', 1)[0]
            seconds = rows[name.replace("baton_decode_steps_total", "baton_decode_step_seconds_total")]
            found[batch] = seconds / count * 1e3
    return found


def _summary(rounds: Sequence[Round]) -> dict[str, Any]:
    plain = [field for field in Round._fields if field != "step_ms"]
    batches = sorted({batch for r in rounds for batch in r.step_ms}, key=int)
    steps = {batch: median(r.step_ms[batch] for r in rounds if batch in r.step_ms) for batch in batches}
    return {key: median(getattr(r, key) for r in rounds) for key in plain} | {"step_ms": steps}


def _ratios(rounds: dict[str, list[Round]]) -> dict[str, float]:
    """Medians of the ratios of each pair of rounds."""
    pairs = list(zip(rounds["written"], rounds["at once"], strict=True))
    keys = ("tpot_mean_ms", "tpot_p95_ms", "itl_p99_ms", "output_tokens_per_s")
    return {key: median(getattr(a, key) / getattr(b, key) for a, b in pairs) for key in keys}
