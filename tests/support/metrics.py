"""What a process says of itself at `/metrics`."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def plain_samples(text: str) -> dict[str, float]:
    """Every sample without labels, by its name without `baton_`."""
    families = text_string_to_metric_families(text)
    return {s.name.removeprefix("baton_"): s.value for family in families for s in family.samples if not s.labels}
