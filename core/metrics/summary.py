"""A run in figures, from the facts of its measured requests alone.

Distributions are over successes (the schedule's lag is over everything that was taken up); failures stand beside them
by class. Tokens count for throughput when their request succeeded, so an answer that broke off raises nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec

from baton.core.errors import InvariantViolated
from baton.core.metrics.chunk_tokens import num_output_tokens
from baton.core.metrics.definitions import (
    Figures,
    client_lag,
    failure_of,
    figures,
    is_cut_short,
    is_success,
    schedule_lag,
    values,
)
from baton.core.metrics.facts import UNKNOWN, Failure, Phase, RequestFacts
from baton.core.metrics.goodput import NO_SLO, Goodput, Slo, goodput
from baton.core.metrics.load import (
    Concurrency,
    Rate,
    Span,
    allowed_rate,
    concurrency,
    per_second,
    request_rate,
    span_of,
)
from baton.core.metrics.percentiles import Distribution, describe, percentile

MAX_SCHEDULE_LAG_S = 0.05  #: p99 past it: the client was too slow for the load
MIN_ACHIEVED_SHARE = 0.95  #: of the rate at which requests were due and had a place
MIN_NOTED_SHARE = 0.01  #: of answers with another length than asked for


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """planned = succeeded + failed + cancelled."""

    planned: int
    succeeded: int
    failed: int
    cancelled: int
    failures: dict[str, int]  #: by class, most frequent first; classes that did not occur are not there
    cut_short: int = 0  #: of the cancelled: by the end of the run

    @property
    def is_whole(self) -> bool:
        """Whether the run went on until every request had been sent and was over."""
        return not self.cut_short and Failure.UNSENT not in self.failures


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Of successes, per second of the span; None without a span, or where the server does not say counts."""

    requests_per_s: float | None
    output_tokens_per_s: float | None
    input_tokens_per_s: float | None
    uncached_input_tokens_per_s: float | None  #: without those that the server found in a cache


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    span: Span
    counts: Counts
    distributions: dict[str, Distribution]  #: by the names in `definitions.UNITS`
    throughput: Throughput
    rate: Rate
    concurrency: Concurrency
    prefix_hit_rate: float | None  #: cached of input tokens, over successes whose server says both
    goodput: Goodput | None
    degraded: tuple[str, ...]  #: why the client did not offer the load that was asked for to its end; empty: it did
    notes: tuple[str, ...]  #: what figures do not cover


def summarize(
    facts: Iterable[RequestFacts],
    slo: Slo = NO_SLO,
    span: Span | None = None,
    max_lag_s: float = MAX_SCHEDULE_LAG_S,
) -> Summary:
    """`span` is from the first request's due time to the last one's end, if not given.

    Raises InvariantViolated if a request is there twice.
    """
    rows = measured(facts)
    successes = [row for row in rows if is_success(row)]
    good = [figures(row) for row in successes]
    whole = span_of(rows) if span is None else span
    found = values(good)
    found["schedule_lag_s"] = array("d", [lag for row in rows if (lag := schedule_lag(row)) is not None])
    distributions = {name: describe(numbers) for name, numbers in found.items()}
    counts = _count(rows)
    return Summary(
        span=whole,
        counts=counts,
        distributions=distributions,
        throughput=_throughput(good, whole.length_s),
        rate=request_rate(rows),
        concurrency=concurrency(rows, whole),
        prefix_hit_rate=_prefix_hit_rate(good),
        goodput=goodput(good, counts.failed + counts.cut_short, slo, whole.length_s),
        degraded=_degradations(rows, counts, max_lag_s),
        notes=(*_held_back(rows), *_other_lengths(successes), *_notes(good)),
    )


def measured(facts: Iterable[RequestFacts]) -> list[RequestFacts]:
    """The measured phase in the order of the plan. Raises InvariantViolated if a request is there twice."""
    rows = sorted((row for row in facts if row.phase is Phase.MEASURED), key=lambda row: row.index)
    if len({row.index for row in rows}) != len(rows):
        raise InvariantViolated("a request has ended twice in these facts")
    return rows


def _count(rows: Sequence[RequestFacts]) -> Counts:
    failures: dict[str, int] = {}
    for row in rows:
        if (failure := failure_of(row)) is not None:
            failures[failure.value] = failures.get(failure.value, 0) + 1
    succeeded, failed = sum(map(is_success, rows)), sum(failures.values())
    return Counts(
        planned=len(rows),
        succeeded=succeeded,
        failed=failed,
        cancelled=len(rows) - succeeded - failed,
        failures=dict(sorted(failures.items(), key=lambda item: (-item[1], item[0]))),
        cut_short=sum(map(is_cut_short, rows)),
    )


def _throughput(good: Sequence[Figures], length_s: float) -> Throughput:
    outputs = [row.output_tokens for row in good if row.output_tokens is not None]
    inputs = [row.input_tokens for row in good if row.input_tokens is not None]
    computed = [
        row.input_tokens - row.cached_tokens
        for row in good
        if row.input_tokens is not None and row.cached_tokens is not None
    ]

    def rate(counts: Sequence[int]) -> float | None:
        return per_second(sum(counts), length_s) if len(counts) == len(good) else None

    return Throughput(
        requests_per_s=rate([1] * len(good)),
        output_tokens_per_s=rate(outputs),
        input_tokens_per_s=rate(inputs),
        uncached_input_tokens_per_s=rate(computed),
    )


def _prefix_hit_rate(good: Sequence[Figures]) -> float | None:
    pairs = [
        (row.cached_tokens, row.input_tokens)
        for row in good
        if row.cached_tokens is not None and row.input_tokens is not None
    ]
    num_input = sum(num_input for _, num_input in pairs)
    return sum(num_cached for num_cached, _ in pairs) / num_input if num_input else None


def _degradations(rows: Sequence[RequestFacts], counts: Counts, max_lag_s: float) -> tuple[str, ...]:
    reasons = []
    if counts.cut_short:
        text = f"{counts.cut_short} of {counts.planned} requests were cut short by the end of the run"
        reasons.append(f"{text}: figures are of the shorter answers")
    if num_unsent := counts.failures.get(Failure.UNSENT):
        reasons.append(f"{num_unsent} of {counts.planned} requests were not sent")
    lags = sorted(lag for row in rows if (lag := client_lag(row)) is not None)
    if lags and (slow := percentile(lags, 99.0)) > max_lag_s:
        reasons.append(f"schedule lag p99 of the client is {slow * 1e3:.1f} ms, limit {max_lag_s * 1e3:.1f} ms")
    allowed, rate = allowed_rate(rows), request_rate(rows)
    achieved = rate.achieved_per_s
    if allowed is not None and achieved is not None and achieved < MIN_ACHIEVED_SHARE * allowed:
        reasons.append(f"{achieved:.2f} {rate.what}/s were sent, {allowed:.2f} were due")
    return tuple(reasons)


def _held_back(rows: Sequence[RequestFacts]) -> list[str]:
    """Not the client's fault, but not the load that the times of the plan are, either."""
    waits = [row.held_until_s - row.scheduled_s for row in rows if row.is_due_by_plan and row.held_until_s is not None]
    if not waits:
        return []
    text = f"the bound on open requests held back {len(waits)} of {len(rows)} requests"
    return [f"{text} when they were due, by up to {max(waits) * 1e3:,.0f} ms: figures from the schedule have the wait"]


def _other_lengths(successes: Sequence[RequestFacts]) -> list[str]:
    """Where answers have other lengths than asked for, the work is not the one that was asked for."""
    pairs = [
        (wanted, found)
        for row in successes
        if (wanted := row.wanted_output_tokens) != UNKNOWN and (found := num_output_tokens(row)) is not None
    ]
    notes = []
    for what, other in (
        ("shorter", [(wanted, found) for wanted, found in pairs if found < wanted]),
        ("longer", [(wanted, found) for wanted, found in pairs if found > wanted]),
    ):
        if other and len(other) >= MIN_NOTED_SHARE * len(pairs):
            all_wanted, all_found = (sum(counts) for counts in zip(*other, strict=True))
            text = f"{len(other)} of {len(pairs)} answers are {what} than asked for"
            notes.append(f"{text}: {all_found:,} tokens in place of {all_wanted:,}")
    return notes


def _is_bundled(row: Figures) -> bool:
    """A stream whose tokens all came at once."""
    return row.ttft_s is not None and row.tpot_s is None and (row.output_tokens or 0) > 1


def _notes(good: Sequence[Figures]) -> tuple[str, ...]:
    notes = []
    if num_bundled := sum(_is_bundled(row) for row in good):
        text = f"{num_bundled} of {len(good)} answers of more than one token came in one chunk"
        notes.append(f"{text}: TPOT and ITL leave them out or are undefined, and they keep no bound of either")
    for count, what in (
        (sum(row.output_tokens is None for row in good), "output tokens: TPOT, ITL and token throughput"),
        (sum(row.input_tokens is None for row in good), "input tokens: input throughput"),
        (sum(row.cached_tokens is None for row in good), "cached tokens: prefix hits"),
    ):
        if count:
            notes.append(f"{count} of {len(good)} successes do not say their {what} leave them out or are undefined")
    return tuple(notes)
