"""What a service exports for Prometheus: counters of notes, and gauges read from their owners when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from baton.core.events import Note
from baton.services.runtime.metric_texts import metric_text

MAX_KINDS = 256  #: of notes; others are counted together, so that no peer can grow the table

STAGE_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

GaugeSource = Callable[[], Mapping[str, float]]


class Row(NamedTuple):
    """One labelled counter, without `baton_` and `_total`."""

    name: str
    labels: Mapping[str, str]
    value: float


RowSource = Callable[[], Iterable[Row]]


class Metrics:
    """One service's registry. `add_gauges(source)`: names to values, read at each scrape, shown as `baton_<name>`.

    A name that ends in `_total` is a counter: it never falls in a process's life.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["what", "reason"]
        self._notes = Counter("baton_notes", "Notes of the deciding machine", labels, registry=self.registry)
        self._stages = Histogram(
            "baton_stage_seconds",
            "From an attempt's admission here (or a request's arrival) to each of its stages",
            ["what", "stage"],
            buckets=STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._kinds: set[str] = set()
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
        self._notes.labels(what, "" if note.reason is None else note.reason.name).inc()
        for name, value in note.numbers.items():
            if name.endswith("_ms"):
                self._stages.labels(what, name.removesuffix("_ms")).observe(value / 1e3)

    def add_gauges(self, source: GaugeSource) -> None:
        self._sources.append(source)

    def add_rows(self, source: RowSource) -> None:
        """Counters with labels, read at each scrape; rows of one name have the same labels."""
        self._row_sources.append(source)

    def collect(self) -> Iterable[Metric]:
        """For the registry."""
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
