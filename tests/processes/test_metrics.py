"""`/metrics` of every process: each number is explained, and what only grows is a counter."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from baton.services.runtime.metric_texts import TEXTS
from tests.processes.conftest import NAMES, Stage
from tests.support.load import Load
from tests.support.stack import Stack


async def families(stack: Stack, name: str) -> dict[str, Metric]:
    """By name; those that Baton exports of itself."""
    record = await stack.record(name)
    _, text = await stack.get(record.admin_port or record.http_port, "/metrics")
    found = list(text_string_to_metric_families(text))
    assert len({family.name for family in found}) == len(found), f"{name} exports one name twice"
    return {family.name: family for family in found}


def counters(found: dict[str, Metric]) -> dict[tuple[str, ...], float]:
    """Samples of counters, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in found.values()
        if family.type == "counter"
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def test_every_number_is_explained_and_no_counter_falls(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        await load.good_answers(5)
        before = {name: await families(stack, name) for name in NAMES}
        await load.good_answers(5)
        await load.stop()
        for name in NAMES:
            for family in before[name].values():
                assert family.documentation.lower() != family.name.removeprefix("baton_").replace("_", " "), family.name
                assert family.type in ("counter", "gauge", "histogram"), family.name
            later = counters(await families(stack, name))
            earlier = counters(before[name])
            assert all(later[key] >= value for key, value in earlier.items())
            assert later[("baton_events_total",)] > earlier[("baton_events_total",)]
            assert {"baton_frames_sent", "baton_busy_seconds"} <= {key[0].removesuffix("_total") for key in earlier}

    stage.run(story)


def test_no_explanation_only_says_the_name_again() -> None:
    for name, text in TEXTS.items():
        assert text.lower() != name.replace("_", " ")
