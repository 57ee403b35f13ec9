"""What is seen of a run while it lasts: counts and recent times. The report alone has the figures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from baton.core.metrics.definitions import figures, is_success
from baton.core.metrics.facts import Phase, RequestFacts
from baton.core.metrics.percentiles import percentile
from baton.core.metrics.summary import measured
from baton.services.loadgen.server_metrics import Sample

RECENT_S = 10.0  #: as it is shown
MAX_RECENT = 2000


class LiveView:
    """Fed by the run, drawn by `rich`'s own thread: what is read there is replaced whole, never changed."""

    def __init__(self, label: str, num_planned: int, clock: Callable[[], float]) -> None:
        self._label = label
        self._num_planned = num_planned
        self._clock = clock
        self._num_done = self._num_good = self._num_failed = 0
        self._phase = ""
        self._recent: deque[tuple[float, float | None, int]] = deque(maxlen=MAX_RECENT)  #: (end, TTFT, output tokens)
        self._server = ""

    def told(self, facts: Sequence[RequestFacts]) -> None:
        self._phase = "warm-up" if facts[-1].phase is Phase.WARM_UP else ""
        for row in measured(facts):
            self._num_done += 1
            self._num_failed += row.failure is not None
            if is_success(row):
                self._num_good += 1
                found = figures(row)
                self._recent.append((row.done_s or 0.0, found.ttft_s, found.output_tokens or 0))

    def sampled(self, sample: Sample) -> None:
        parts = [("queued", sample.num_queued), ("running", sample.num_running)]
        texts = [f"{name} {value:.0f}" for name, value in parts if value is not None]
        texts += [f"KV {sample.kv_use:.0%}"] if sample.kv_use is not None else []
        self._server = ", ".join(texts)

    def __rich__(self) -> RenderableType:
        now = self._clock()
        recent = [row for row in tuple(self._recent) if row[0] > now - RECENT_S]
        firsts = sorted(ttft_s for _, ttft_s, _ in recent if ttft_s is not None)
        tokens_per_s = sum(count for _, _, count in recent) / max(1e-9, min(RECENT_S, now))
        text = f"{self._num_good} good, {self._num_failed} failed of {self._num_planned}; {now:.0f} s"
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(self._num_planned, self._num_done, width=20)
        grid.add_row(self._phase or self._label or "run", bar, text)
        if firsts:
            p50, p99 = (percentile(firsts, percent) * 1e3 for percent in (50.0, 99.0))
            text = f"{tokens_per_s:,.0f} output tokens/s, TTFT p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"
            grid.add_row("last 10 s", "", text)
        if self._server:
            grid.add_row("server", "", self._server)
        return grid
