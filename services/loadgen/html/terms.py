"""What the page calls the figures, and their definitions in the words of `docs/metrics.md`."""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    title: str
    definition: str


PERCENTILES = "linear between the two nearest ranks, as numpy's default"

#: by the names in `definitions.UNITS`, in its order
FIGURES = {
    "ttft_s": Term("Time to first token", "sending → first chunk"),
    "ttft_from_schedule_s": Term("Time to first token, from the schedule", "due → first chunk"),
    "e2e_s": Term("End to end", "sending → end, the end marker included"),
    "e2e_from_schedule_s": Term("End to end, from the schedule", "due → end"),
    "tpot_s": Term(
        "Time per output token",
        "(end − first chunk) / (output tokens − 1); undefined below two tokens, and of one chunk",
    ),
    "itl_s": Term(
        "Inter-token latency",
        "token-expanded: the k tokens of a chunk share equally the gap since the chunk before",
    ),
    "chunk_gap_s": Term("Gap between chunks", "between each two chunks"),
    "longest_gap_s": Term("Longest gap", "the longest of the gaps between chunks and of last chunk → end"),
    "schedule_lag_s": Term("Schedule lag", "due → sending; → taken up where it was not sent"),
    "input_tokens": Term("Input tokens", "of `usage`"),
    "output_tokens": Term(
        "Output tokens", "of `usage`; without it the sum of the counts with the events, if every event has one"
    ),
}

_THROUGHPUT = (
    "successes, their output, input and uncached input tokens, over the span; undefined if one success does not say "
    "its count"
)
#: of a run, by the figure's name in `docs/metrics.md`
OF_A_RUN = {
    "span": "due time of the first request → end of the last one",
    "counts": "planned = succeeded + failed + cancelled; failed by class",
    "cut short": "of the cancelled: by the end of the run",
    "throughput": _THROUGHPUT,
    "request rate, asked": (
        "(n − 1) / (last − first due time), of what was due at times of the plan and taken up: of chats and sessions "
        "the first requests alone, so that it counts sessions; undefined where nothing was"
    ),
    "request rate, achieved": "the same of sending; where no time was planned, of all that was sent",
    "concurrency, mean and max": "sent and not over, successes or not; the mean is over the span",
    "prefix-hit rate": "cached / input tokens of the successes that say both",
    "goodput": (
        "successes that keep every bound of the SLO, of successes, failures (refusals and what was not sent in time "
        "too) and what was cut short, not of what was cancelled as planned; over the span"
    ),
    "SLO attainment": "the same for each bound alone",
}

BOUNDS = {
    "ttft_s": "Time to first token, from the schedule",
    "tpot_s": "Time per output token",
    "itl_s": "Inter-token latency, p99 of a request",
    "e2e_s": "End to end, from the schedule",
}
