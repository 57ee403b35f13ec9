"""The same facts by the definitions of other tools, so that their boards can be read beside ours.

Whose definitions, of which version: `SOURCES`. Where facts do not tell what a tool would have seen, the nearest fact
stands for it; `docs/metrics.md` says where.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

import msgspec

from baton.core.metrics.definitions import failure_of
from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.goodput import NO_SLO, Slo
from baton.core.metrics.peers import aiperf, guidellm, vllm
from baton.core.metrics.peers.clock import Board, has_text_and_no_error
from baton.core.metrics.percentiles import Distribution
from baton.core.metrics.summary import measured


class Tool(enum.StrEnum):
    VLLM = "vllm"
    AIPERF = "aiperf"
    GUIDELLM = "guidellm"


SOURCES = {
    Tool.VLLM: "vllm bench serve: vllm-project/vllm, serve.py at 009e6d4, endpoint_request_func.py at 02cfb53",
    Tool.AIPERF: "aiperf: ai-dynamo/aiperf, metrics reference at 0176f59, with the server's token counts",
    Tool.GUIDELLM: "guidellm: vllm-project/guidellm, request_stats.py at 31c74ea, statistics.py at 03820eb",
}

_COMPLETES: dict[Tool, Callable[[RequestFacts], bool]] = {
    Tool.VLLM: vllm.completes,
    Tool.AIPERF: has_text_and_no_error,
    Tool.GUIDELLM: has_text_and_no_error,
}
_BOARDS: dict[Tool, Callable[[Sequence[RequestFacts], Sequence[RequestFacts], Slo], Board]] = {
    Tool.VLLM: vllm.board,
    Tool.AIPERF: aiperf.board,
    Tool.GUIDELLM: guidellm.board,
}


class Compat(msgspec.Struct, frozen=True, kw_only=True):
    """Figures as `tool` would name and make them, but for the unit: seconds."""

    tool: Tool
    source: str
    completed: int
    failed: int
    distributions: dict[str, Distribution]
    rates: dict[str, float | None]  #: per second


def compat(tool: Tool, facts: Iterable[RequestFacts], slo: Slo = NO_SLO) -> Compat:
    """Of the measured phase, without what this side cancelled. `slo` counts from sending, as the tools do."""
    rows = [row for row in measured(facts) if failure_of(row) is not None or not row.is_cancelled]
    completed = [row for row in rows if _COMPLETES[tool](row)]
    distributions, rates = _BOARDS[tool](rows, completed, slo)
    return Compat(
        tool=tool,
        source=SOURCES[tool],
        completed=len(completed),
        failed=len(rows) - len(completed),
        distributions=distributions,
        rates=rates,
    )
