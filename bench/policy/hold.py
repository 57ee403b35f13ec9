"""Hold and protection on the CPU: what they cost where a prompt's time is linear in its tokens, and what they gain
where a step is bound by the weights that it reads (very short prompts). One unified executor, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from baton.core.metrics.report import Report
from bench.board_lines import Line
from bench.figures import output_tokens_per_s, time_ms
from bench.policy.stack import UNIFIED, Options, load, metric_rows, start

NOT_COVERED = (
    "devices whose steps of prompts have a large fixed part (the simulator's "
    "scenarios have one), more than one executor"
)
ALTERNATE = '[executor]\nstep_mode = "alternate"\n'
ARMS = {
    "nothing": ALTERNATE + 'hold = "off"\nprotect_steps = 0\n',
    "hold, adaptive": ALTERNATE + "protect_steps = 0\n",
    "protection": ALTERNATE + 'hold = "off"\n',
    "both": ALTERNATE,
    "both, fixed fill": ALTERNATE + 'hold = "fill"\n',
    "mixed steps": "",
}
LOADS = {
    "prompts of 256 tokens": ["--rate", "1.0", "--input-tokens", "256", "--output-tokens", "32", "--num-requests"],
    "prompts of 8 tokens": ["--rate", "4.0", "--input-tokens", "8", "--output-tokens", "24", "--num-requests"],
}
COUNTS = {"prompts of 256 tokens": 40, "prompts of 8 tokens": 120}
AIM = 1.02  #: of the TTFT ratio where a prompt's time is linear in its tokens: more would be a cost


class Round(NamedTuple):
    """One load on one arm. Milliseconds, but for the rates and counts."""

    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    itl_mean_ms: float
    itl_p90_ms: float
    itl_p99_ms: float
    output_tokens_per_s: float
    prefill_steps: float
    waits: float  #: turns in which prompts were held or protected from


def measure(options: Options, folder: Path) -> dict[str, Any]:
    rounds: dict[str, dict[str, list[Round]]] = {name: {arm: [] for arm in ARMS} for name in LOADS}
    for number in range(options.num_rounds):
        for arm, config in ARMS.items():
            own = folder / f"{arm}{number}"
            system = start(own, UNIFIED, options.cores, config)
            try:
                for name, flags in LOADS.items():
                    before = metric_rows(system)["unified0"]
                    count = str(max(8, int(COUNTS[name] * options.scale)))
                    report = load(system, own / name, [*flags, count, "--arrivals", "poisson"], 4)
                    rounds[name][arm].append(_round(report, before, metric_rows(system)["unified0"]))
            finally:
                system.close()
    return {
        name: {arm: _summary(found, arms["nothing"]) for arm, found in arms.items()} for name, arms in rounds.items()
    }


def tables(report: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    heads = ["policies", "TTFT mean / p50 / p90 ms", "× nothing", "ITL mean / p90 / p99 ms", "× nothing, p90"]
    heads += ["output tok/s", "prefill steps", "turns kept back"]
    for name, arms in report.items():
        rows = []
        for arm, found in arms.items():
            ttft = " / ".join(f"{found[f'ttft_{s}_ms']:.0f}" for s in ("mean", "p50", "p90"))
            itl = " / ".join(f"{found[f'itl_{s}_ms']:.1f}" for s in ("mean", "p90", "p99"))
            ratios = [f"{found['ttft_ratio']:.3f}", f"{found['itl_p90_ratio']:.3f}"]
            counts = [f"{found[key]:.0f}" for key in ("prefill_steps", "waits")]
            rows.append([arm, ttft, ratios[0], itl, ratios[1], f"{found['output_tokens_per_s']:.1f}", *counts])
        yield f"hold and protection, {name}", heads, rows


def board_lines(report: dict[str, Any]) -> Iterator[Line]:
    for name, arms in report.items():
        limit, limit_name = (AIM, "aim") if "256" in name else (None, "")
        found, what = arms["both"], f"hold and protection, {name}"
        yield Line(f"{what}: TTFT mean, both ÷ nothing", "", False, found["ttft_ratio"], {}, limit, limit_name)
        yield Line(f"{what}: ITL p90, both ÷ nothing", "", False, found["itl_p90_ratio"])


def _round(report: Report, before: dict[str, float], after: dict[str, float]) -> Round:
    def grown(*names: str) -> float:
        return sum(after.get(f"baton_{name}_total", 0.0) - before.get(f"baton_{name}_total", 0.0) for name in names)

    return Round(
        ttft_mean_ms=time_ms(report, "ttft_s", "mean"),
        ttft_p50_ms=time_ms(report, "ttft_s", "p50"),
        ttft_p90_ms=time_ms(report, "ttft_s", "p90"),
        itl_mean_ms=time_ms(report, "itl_s", "mean"),
        itl_p90_ms=time_ms(report, "itl_s", "p90"),
        itl_p99_ms=time_ms(report, "itl_s", "p99"),
        output_tokens_per_s=output_tokens_per_s(report),
        prefill_steps=grown("prefill_steps"),
        waits=grown("wait_held", "wait_protected"),
    )


def _summary(rounds: list[Round], plain: list[Round]) -> dict[str, float]:
    """Medians; ratios are medians of those of the rounds that ran beside each other."""
    found = {key: median(getattr(r, key) for r in rounds) for key in Round._fields}
    pairs = list(zip(rounds, plain, strict=True))
    found["ttft_ratio"] = median(a.ttft_mean_ms / b.ttft_mean_ms for a, b in pairs)
    found["itl_p90_ratio"] = median(a.itl_p90_ms / b.itl_p90_ms for a, b in pairs)
    return found
