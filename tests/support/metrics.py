"""What a process says of itself at `/metrics`."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples_of(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def plain_samples(text: str) -> dict[str, float]:
    """Every sample without labels, by its name without `baton_`."""
    return {s.name.removeprefix("baton_"): s.value for s in samples_of(text) if not s.labels}


def labelled_samples(text: str) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and the values of its labels."""
    return {(s.name, *sorted(s.labels.values())): s.value for s in samples_of(text)}
