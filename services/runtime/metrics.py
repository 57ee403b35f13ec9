"""What a service exports for Prometheus: counters of notes, and gauges read from their owners when asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from baton.core.events import Note
from baton.services.runtime.metric_texts import metric_text

MAX_KINDS = 256  #: of notes; others are counted together, so that no peer can grow the table

STAGES_TEXT = "From an attempt's admission here (or a request's arrival) to each of its stages"
STAGE_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

GaugeSource = Callable[[], Mapping[str, float]]


class Row(NamedTuple):
    """One labelled counter, without `baton_` and `_total`."""

    name: str
    labels: Mapping[str, str]
    value: float


RowSource = Callable[[], Iterable[Row]]


class StageTimes:
    """How often something took how long. Its own, as the library's takes ten times as long for each observation."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        self._counts = [0] * (len(STAGE_BUCKETS_S) + 1)

    def add(self, time_s: float) -> None:
        self.sum_s += time_s
        self._counts[bisect_left(STAGE_BUCKETS_S, time_s)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds and how many are at most that, as the exposition has them."""
        bounds = [*map(floatToGoString, STAGE_BUCKETS_S), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]


class Metrics:
    """One service's registry. `add_gauges(source)`: names to values, read at each scrape, shown as `baton_<name>`.

    A name that ends in `_total` is a counter: it never falls in a process's life.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kinds: set[str] = set()
        self._notes: dict[tuple[str, str], int] = {}  #: by what and reason
        self._stages: dict[tuple[str, str], StageTimes] = {}  #: by what and stage
        self._sources: list[GaugeSource] = []
        self._row_sources: list[RowSource] = []
        self.registry.register(self)

    def count(self, note: Note) -> None:
        what = note.what
        if what not in self._kinds:
            if len(self._kinds) >= MAX_KINDS:
                what = "other"
            else:
                self._kinds.add(what)
        counted = what, "" if note.reason is None else note.reason.name
        self._notes[counted] = self._notes.get(counted, 0) + 1
        for name, value in note.numbers.items():
            if name.endswith("_ms"):
                stage = what, name[:-3]
                if stage not in self._stages:
                    self._stages[stage] = StageTimes()
                self._stages[stage].add(value / 1e3)

    def add_gauges(self, source: GaugeSource) -> None:
        self._sources.append(source)

    def add_rows(self, source: RowSource) -> None:
        """Counters with labels, read at each scrape; rows of one name have the same labels."""
        self._row_sources.append(source)

    def collect(self) -> Iterable[Metric]:
        """For the registry."""
        notes = CounterMetricFamily("baton_notes", "Notes of the deciding machine", labels=["what", "reason"])
        for labels, count in self._notes.items():
            notes.add_metric(labels, count)
        yield notes
        stages = HistogramMetricFamily("baton_stage_seconds", STAGES_TEXT, labels=["what", "stage"])
        for labels, times in self._stages.items():
            stages.add_metric(labels, times.buckets(), times.sum_s)
        yield stages
        for source in self._sources:
            for name, value in source().items():
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                yield kind(f"baton_{name}", metric_text(name), value)
        families: dict[str, CounterMetricFamily] = {}
        for row in (row for rows in self._row_sources for row in rows()):
            if row.name not in families:
                text = metric_text(row.name)
                families[row.name] = CounterMetricFamily(f"baton_{row.name}", text, labels=list(row.labels))
            families[row.name].add_metric(list(row.labels.values()), row.value)
        yield from families.values()

    def text(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
