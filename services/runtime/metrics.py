"""What a service exports for Prometheus: counters of notes, and values read from their owners when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from baton.core.events import Note, Span
from baton.core.metrics.histogram import Histogram
from baton.services.runtime.metric_texts import metric_text

MAX_KINDS = 256  #: of notes, and of spans; others are counted together, so that no peer can grow the table

STAGES_TEXT = "From an attempt's admission here (or a request's arrival) to each of its stages"
SPANS_TEXT = "How long holds, protections and waits lasted that are over"

GaugeSource = Callable[[], Mapping[str, float]]


class Row(NamedTuple):
    """One labelled counter, without `baton_` and `_total`."""

    name: str
    labels: Mapping[str, str]
    value: float


RowSource = Callable[[], Iterable[Row]]


class Distribution(NamedTuple):
    """One labelled histogram, without `baton_`."""

    name: str
    labels: Mapping[str, str]
    values: Histogram


DistributionSource = Callable[[], Iterable[Distribution]]


def buckets(values: Histogram) -> list[tuple[str, float]]:
    """Upper bounds and how many are at most that, as the exposition has them."""
    bounds = [*map(floatToGoString, values.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, values.cumulative(), strict=True)]


class Metrics:
    """One service's registry. `add_gauges(source)`: names to values, read at each scrape, shown as `baton_<name>`.

    A name that ends in `_total` is a counter: it never falls in a process's life.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._notes: dict[tuple[str, str], int] = {}  #: by what and reason
        self._stages: dict[tuple[str, str], Histogram] = {}  #: by what and stage
        self._spans: dict[tuple[str, str, str], Histogram] = {}  #: by what, reason and what ended it
        self._kinds: set[str] = set()  #: of notes
        self._sources: list[GaugeSource] = []
        self._row_sources: list[RowSource] = []
        self._distribution_sources: list[DistributionSource] = []
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
                    self._stages[stage] = Histogram()
                self._stages[stage].observe(value / 1e3)

    def count_span(self, span: Span) -> None:
        kind = span.what, "" if span.reason is None else span.reason.name, span.ended_by
        if kind not in self._spans:
            if len(self._spans) >= MAX_KINDS:
                kind = ("other", "", "")
            self._spans.setdefault(kind, Histogram())
        self._spans[kind].observe(span.ended_at - span.since)

    def add_gauges(self, source: GaugeSource) -> None:
        self._sources.append(source)

    def add_rows(self, source: RowSource) -> None:
        """Counters with labels, read at each scrape; rows of one name have the same labels."""
        self._row_sources.append(source)

    def add_distributions(self, source: DistributionSource) -> None:
        """Histograms, read at each scrape; those of one name have the same labels."""
        self._distribution_sources.append(source)

    def collect(self) -> Iterable[Metric]:
        """For the registry."""
        notes = CounterMetricFamily("baton_notes", "Notes of the deciding machine", labels=["what", "reason"])
        for labels, count in self._notes.items():
            notes.add_metric(labels, count)
        yield notes
        stages = HistogramMetricFamily("baton_stage_seconds", STAGES_TEXT, labels=["what", "stage"])
        for labels, times in self._stages.items():
            stages.add_metric(labels, buckets(times), times.sum)
        yield stages
        spans = HistogramMetricFamily("baton_span_seconds", SPANS_TEXT, labels=["what", "reason", "ended_by"])
        for kind, times in self._spans.items():
            spans.add_metric(kind, buckets(times), times.sum)
        yield spans
        for source in self._sources:
            for name, value in source().items():
                family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                yield family(f"baton_{name}", metric_text(name), value)
        yield from self._rows()
        yield from self._distributions()

    def text(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    def _rows(self) -> Iterable[Metric]:
        families: dict[str, CounterMetricFamily] = {}
        for row in (row for rows in self._row_sources for row in rows()):
            if row.name not in families:
                text = metric_text(row.name)
                families[row.name] = CounterMetricFamily(f"baton_{row.name}", text, labels=list(row.labels))
            families[row.name].add_metric(list(row.labels.values()), row.value)
        return families.values()

    def _distributions(self) -> Iterable[Metric]:
        families: dict[str, HistogramMetricFamily] = {}
        for one in (one for source in self._distribution_sources for one in source()):
            if one.name not in families:
                text = metric_text(one.name)
                families[one.name] = HistogramMetricFamily(f"baton_{one.name}", text, labels=list(one.labels))
            families[one.name].add_metric(list(one.labels.values()), buckets(one.values), one.values.sum)
        return families.values()
