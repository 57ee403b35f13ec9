"""The figures of one request, each with its one definition. What its facts do not tell is None, never a guess.

Times are seconds. A figure "from sending" begins when the request's last byte was handed over; "from the schedule" when
it was due, so that a wait in the client counts too (no coordinated omission).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import msgspec
import numpy as np

from baton.core.metrics.chunk_tokens import chunk_times, chunk_tokens, num_output_tokens
from baton.core.metrics.facts import UNKNOWN, Failure, RequestFacts

#: Every figure that has a distribution, with its unit. `docs/metrics.md` has a row for each.
UNITS = {
    "ttft_s": "s",
    "ttft_from_schedule_s": "s",
    "e2e_s": "s",
    "e2e_from_schedule_s": "s",
    "tpot_s": "s/token",
    "itl_s": "s",
    "chunk_gap_s": "s",
    "longest_gap_s": "s",
    "schedule_lag_s": "s",
    "input_tokens": "tokens",
    "output_tokens": "tokens",
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one request."""

    ttft_s: float | None  #: sending → first chunk
    ttft_from_schedule_s: float | None  #: due → first chunk
    e2e_s: float | None  #: sending → end
    e2e_from_schedule_s: float | None  #: due → end
    tpot_s: float | None  #: see `time_per_output_token`
    itl_s: tuple[float, ...]  #: see `token_latencies`
    chunk_gap_s: tuple[float, ...]  #: between chunks, one value for each chunk but the first
    longest_gap_s: float | None  #: the longest time without news after the first chunk, the wait for the end included
    schedule_lag_s: float | None  #: see `schedule_lag`
    input_tokens: int | None
    cached_tokens: int | None  #: input tokens that the server found in a cache
    output_tokens: int | None


def figures(facts: RequestFacts) -> Figures:
    """All figures of a request, however it ended; `is_success` says whether they count."""
    gaps = chunk_gaps(facts)
    return Figures(
        ttft_s=_between(facts.sent_s, first_text_s(facts)),
        ttft_from_schedule_s=ttft_from_schedule(facts),
        e2e_s=_between(facts.sent_s, facts.done_s),
        e2e_from_schedule_s=e2e_from_schedule(facts),
        tpot_s=time_per_output_token(facts),
        itl_s=token_latencies(facts, gaps),
        chunk_gap_s=gaps,
        longest_gap_s=_longest_gap(facts, gaps),
        schedule_lag_s=schedule_lag(facts),
        input_tokens=_known(facts.num_input_tokens),
        cached_tokens=_known(facts.num_cached_tokens),
        output_tokens=num_output_tokens(facts),
    )


def failure_of(facts: RequestFacts) -> Failure | None:
    """Why it failed; None if it is a success or was cancelled.

    A failure that was seen is never hidden by a cancellation. An end without a finish reason is a failure even where
    nobody said so.
    """
    if facts.failure is not None or facts.is_cancelled:
        return facts.failure
    if not facts.finish_reason:
        return Failure.NO_FINISH
    return Failure.NO_END if facts.done_s is None else None


def is_success(facts: RequestFacts) -> bool:
    """It has a finish reason and an end, did not fail and was not cancelled."""
    return failure_of(facts) is None and not facts.is_cancelled


def is_cut_short(facts: RequestFacts) -> bool:
    """The end of the run took it before its answer was over, and it had not failed."""
    return facts.is_cut_short and failure_of(facts) is None


def first_text_s(facts: RequestFacts) -> float | None:
    """When the first chunk came; None for an answer in one piece, of which only the end is known."""
    return facts.chunks[0].time_s if facts.chunks and not facts.is_whole else None


def ttft_from_schedule(facts: RequestFacts) -> float | None:
    return _between(facts.scheduled_s, first_text_s(facts))


def e2e_from_schedule(facts: RequestFacts) -> float | None:
    return _between(facts.scheduled_s, facts.done_s)


def time_per_output_token(facts: RequestFacts) -> float | None:
    """(end − first chunk) / (output tokens − 1); None below two tokens, and where all came in one chunk."""
    after_first, tokens = _between(first_text_s(facts), facts.done_s), num_output_tokens(facts)
    if after_first is None or tokens is None or tokens < 2 or len(facts.chunks) < 2:
        return None
    return after_first / (tokens - 1)


def schedule_lag(facts: RequestFacts) -> float | None:
    """From when it was due until it was sent, or was taken up where it was not sent."""
    return _between(facts.scheduled_s, facts.dispatched_s if facts.sent_s is None else facts.sent_s)


def client_lag(facts: RequestFacts) -> float | None:
    """The schedule lag without the wait for a place: what the client alone is late by."""
    lag = schedule_lag(facts)
    return lag if lag is None or facts.held_until_s is None else lag - (facts.held_until_s - facts.scheduled_s)


def token_latencies(facts: RequestFacts, gaps: tuple[float, ...]) -> tuple[float, ...]:
    """Inter-token latencies: the k tokens of a chunk share equally the gap since the chunk before.

    The first chunk's tokens have none: it has no chunk before it, and calling its further tokens instant would make
    every server that bundles its first tokens look faster. A chunk without a token leaves its gap to the next one with
    tokens. So they add up to the time from the first to the last chunk with tokens. Empty where counts are unknown.
    `gaps` are its `chunk_gaps`.
    """
    counts = chunk_tokens(facts) or ()
    if counts.count(1) == len(counts):
        return gaps if counts else ()
    latencies: list[float] = []
    before: float | None = None
    for time_s, count in zip(chunk_times(facts), counts, strict=True):
        if not count:
            continue
        if before is not None:
            latencies += [(time_s - before) / count] * count
        before = time_s
    return tuple(latencies)


def chunk_gaps(facts: RequestFacts) -> tuple[float, ...]:
    """Between each two chunks."""
    return tuple(np.diff(np.array(chunk_times(facts), np.float64)).tolist())


def values(rows: Iterable[Figures], names: Iterable[str] = tuple(UNITS)) -> dict[str, array[float]]:
    """Name of each of these figures → its values over all requests; undefined ones are left out."""
    found = {name: array("d") for name in names}
    for row in rows:
        for name, kept in found.items():
            value = getattr(row, name)
            if isinstance(value, tuple):
                kept.extend(value)
            elif value is not None:
                kept.append(value)
    return found


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else end - begin


def _known(count: int) -> int | None:
    return None if count == UNKNOWN else count


def _longest_gap(facts: RequestFacts, gaps: tuple[float, ...]) -> float | None:
    """Whoever reads along does not know that the text is over before the end, so the wait for it is a gap as well."""
    if first_text_s(facts) is None or facts.done_s is None:
        return None
    return max((*gaps, facts.done_s - facts.chunks[-1].time_s))
