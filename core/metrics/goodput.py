"""Requests that kept their objectives, as a share of all that were asked for and not cancelled as planned.

Failures and refusals stay in the denominator, so a server cannot look better by refusing; so does what the end of the
run cut short, or only the short answers would be judged. Times count from the schedule, so it cannot look better by
keeping the client waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from baton.core.metrics.definitions import Figures
from baton.core.metrics.load import per_second
from baton.core.metrics.percentiles import percentile


class Slo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Upper bounds, each kept at equality; None: no such bound. A request is good that keeps all of them."""

    ttft_s: float | None = None  #: of time to first token, from the schedule
    tpot_s: float | None = None  #: of time per output token; a one-token answer keeps it
    itl_s: float | None = None  #: of the 99th percentile of its token latencies; a one-token answer keeps it
    e2e_s: float | None = None  #: of the whole request, from the schedule


NO_SLO = Slo()


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    slo: Slo
    num_judged: int  #: successes, failures and what the end of the run cut short; not what was cancelled as planned
    num_good: int
    share: float | None  #: good of judged
    good_per_s: float | None  #: over the span of the run
    attainment: dict[str, float]  #: share of judged that kept each single bound, by its name in `Slo`


def goodput(successes: Sequence[Figures], num_others: int, slo: Slo, length_s: float) -> Goodput | None:
    """None where no bound is set. `num_others` are judged, too, and keep none; `length_s` is that of the run's span."""
    if slo == NO_SLO:
        return None
    bounds = [name for name in Slo.__struct_fields__ if getattr(slo, name) is not None]
    num_judged = len(successes) + num_others
    verdicts = [_kept(row, slo, bounds) for row in successes]
    num_good = sum(all(kept.values()) for kept in verdicts)
    return Goodput(
        slo=slo,
        num_judged=num_judged,
        num_good=num_good,
        share=num_good / num_judged if num_judged else None,
        good_per_s=per_second(num_good, length_s),
        attainment={name: sum(kept[name] for kept in verdicts) / num_judged for name in bounds} if num_judged else {},
    )


def keeps(row: Figures, slo: Slo) -> bool:
    """Whether a success kept every bound."""
    return all(_kept(row, slo, [name for name in Slo.__struct_fields__ if getattr(slo, name) is not None]).values())


def _kept(row: Figures, slo: Slo, bounds: list[str]) -> dict[str, bool]:
    measured = {
        "ttft_s": row.ttft_from_schedule_s,
        "tpot_s": 0.0 if row.output_tokens == 1 else row.tpot_s,
        "itl_s": _slow_token(row),
        "e2e_s": row.e2e_from_schedule_s,
    }
    return {name: _is_within(measured[name], getattr(slo, name)) for name in bounds}


def _slow_token(row: Figures) -> float | None:
    """None where tokens cannot be counted, or all came in one chunk; 0 of one token, which has none after it."""
    if row.itl_s:
        return percentile(sorted(row.itl_s), 99.0)
    return 0.0 if row.output_tokens == 1 else None


def _is_within(measured: float | None, bound: float) -> bool:
    """What cannot be shown is not kept."""
    return measured is not None and measured <= bound
