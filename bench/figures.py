"""Figures of a load's report that a benchmark cannot do without."""

from __future__ import annotations

from baton.core.metrics.report import Report


def known(value: float | None, what: str) -> float:
    """Raises RuntimeError for a figure that the run does not have: nothing succeeded, or too little of it."""
    if value is None:
        raise RuntimeError(f"the run has no {what}")
    return value


def time_ms(report: Report, figure: str, statistic: str) -> float:
    """`figure`: of the summary's distributions, in seconds there, such as "ttft_s". Raises RuntimeError, KeyError."""
    value: float | None = getattr(report.summary.distributions[figure], statistic)
    return known(value, f"{figure} {statistic}") * 1e3


def output_tokens_per_s(report: Report) -> float:
    """Raises RuntimeError."""
    return known(report.summary.throughput.output_tokens_per_s, "rate of output tokens")
