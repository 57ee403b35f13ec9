"""How a study writes its figures in sentences and tables."""

from __future__ import annotations

from baton.core.metrics.intervals import Estimate

NONE = "–"


def time_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.9995 else milliseconds(seconds)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds * 1e3 < 999.5 else f"{seconds * 1e3:,.0f} ms"


def percent(share: float) -> str:
    """What is not all is never rounded up to all, nor what is something down to nothing."""
    if 0.995 <= share < 1:
        return "> 99 %"
    return "< 1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def with_interval(found: Estimate | None, factor: float = 1.0, sign: str = " ± ") -> str:
    """`3.92 ± 0.11`; `3.92 (0 to 8.1)` where the interval is not even around it; the value alone where nothing tells
    its spread."""
    if found is None:
        return NONE
    value = number(found.value * factor)
    if found.low is None or found.high is None:
        return value
    if not found.is_even:
        return f"{value} ({number(found.low * factor)} to {number(found.high * factor)})"
    half = (found.high - found.low) / 2 * factor
    return f"{value}{sign}{number(float(f'{half:.2g}'))}"
