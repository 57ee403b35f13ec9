"""Two sides of the same rounds, real and simulated: their figures, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from baton.core.metrics.definitions import is_success
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.intervals import NOT_NEGATIVE, Estimate, estimate, headline
from baton.core.metrics.percentiles import describe
from baton.core.metrics.summary import measured, summarize

WINDOW_S = 2.0
#: figure → how far the simulation may be off
LIMITS = {
    "ttft_s.p50": 0.10,
    "ttft_s.p95": 0.15,
    "itl_s.p50": 0.10,
    "itl_s.p95": 0.15,
    "output_tokens_per_s.p50": 0.10,
    "output_tokens_per_s.p95": 0.15,
}
SHOWN = ("tpot_s.p50", "tpot_s.p95", "e2e_s.p50", "e2e_s.p95", "output_tokens_per_s", "requests_per_s")


class Compared(NamedTuple):
    """One figure over all rounds."""

    figure: str
    real: Estimate
    simulated: Estimate
    ratio: Estimate  #: simulated ÷ real, of each round
    limit: float | None  #: None: shown, and not judged

    @property
    def off(self) -> float:
        """How far the mean of the simulated rounds is from that of the real ones."""
        return self.simulated.value / self.real.value - 1.0

    @property
    def holds(self) -> bool:
        return self.limit is None or abs(self.off) <= self.limit


def figures_of(facts: Iterable[RequestFacts]) -> dict[str, float]:
    """Of one round: the headline figures, and tokens per second in windows that the load fills."""
    rows = list(facts)
    found = headline(summarize(rows))
    rates = describe(token_rates(rows))
    for statistic in ("p50", "p95"):
        if (value := getattr(rates, statistic)) is not None:
            found[f"output_tokens_per_s.{statistic}"] = value
    return found


def token_rates(facts: Iterable[RequestFacts]) -> list[float]:
    """Output tokens per second in windows of `WINDOW_S` from the first token on, the last one, which is not full, left
    out."""
    rows = [row for row in measured(facts) if is_success(row)]
    times = sorted(chunk.time_s for row in rows for chunk in row.chunks for _ in range(max(chunk.num_tokens, 1)))
    if not times:
        return []
    counts = [0] * int((times[-1] - times[0]) / WINDOW_S)
    for time_s in times:
        window = int((time_s - times[0]) / WINDOW_S)
        if window < len(counts):
            counts[window] += 1
    return [count / WINDOW_S for count in counts]


def compare(real: Sequence[Mapping[str, float]], simulated: Sequence[Mapping[str, float]]) -> list[Compared]:
    """Rounds of both at the same place are of one load. Figures that a round lacks are left out, but for those that are
    judged: KeyError."""
    found = []
    for name in (*LIMITS, *SHOWN):
        if name not in LIMITS and not all(name in each for each in (*real, *simulated)):
            continue
        pairs = [(ours[name], theirs[name]) for ours, theirs in zip(simulated, real, strict=True)]
        found.append(
            Compared(
                name,
                estimate([theirs for _, theirs in pairs], NOT_NEGATIVE),
                estimate([ours for ours, _ in pairs], NOT_NEGATIVE),
                estimate([ours / theirs for ours, theirs in pairs], NOT_NEGATIVE),
                LIMITS.get(name),
            )
        )
    return found
