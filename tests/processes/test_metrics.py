"""`/metrics` of every process: each number is explained, and what only grows is a counter."""

from __future__ import annotations

from itertools import pairwise

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from baton.services.runtime.driver import EVENTS_PER_TURN
from baton.services.runtime.metric_texts import TEXTS
from tests.processes.conftest import NAMES, Stage
from tests.support.load import Load
from tests.support.stack import Stack


async def families(stack: Stack, name: str) -> dict[str, Metric]:
    """By name; those that Baton exports of itself."""
    found = list(text_string_to_metric_families(await stack.metrics(name)))
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
        for name, counter in (
            ("prefill", "walk_unshared"),
            ("scheduler", "prefix_waits_lost"),
            ("decode", "share_waits"),
        ):
            assert f"baton_{counter}" in await families(stack, name), "shown before its first event"
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


def check_histogram(family: Metric) -> float:
    """Its buckets never fall, the last one is its count, and the sum is within what they allow. Returns the count."""
    by_labels: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[str, ...], float] = {}
    counts: dict[tuple[str, ...], float] = {}
    for sample in family.samples:
        labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "le")
        if sample.name.endswith("_bucket"):
            by_labels.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
        else:
            counts[labels] = sample.value
    for labels, buckets in by_labels.items():
        assert [bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets}), family.name
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), family.name
        assert buckets[-1] == (float("inf"), counts[labels]), family.name
        steps = [(bound, now - before) for (_, before), (bound, now) in pairwise([(0.0, 0.0), *buckets])]
        floors = [0.0, *(bound for bound, _ in steps)]
        assert sums[labels] >= sum(n * floor for (_, n), floor in zip(steps, floors, strict=False) if n) - 1e-9
        if not steps[-1][1]:
            assert sums[labels] <= sum(bound * n for bound, n in steps if n) + 1e-9, family.name
    return sum(counts.values())


def labelled(family: Metric, **labels: str) -> float:
    """The count of one histogram of a family."""
    wanted = [s for s in family.samples if s.name.endswith("_count") and labels.items() <= s.labels.items()]
    return sum(sample.value for sample in wanted)


def test_h10_histograms_add_up_and_count_every_request_once(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack, num_clients=4)
        await load.good_answers(12)
        await load.stop()
        await stack.quiescent()
        found = {name: await families(stack, name) for name in NAMES}
        for name in NAMES:
            for family in found[name].values():
                if family.type == "histogram":
                    check_histogram(family)
            num_events = next(s.value for s in found[name]["baton_events"].samples if s.name == "baton_events_total")
            num_turns = check_histogram(found[name]["baton_turn_seconds"])
            num_joined = labelled(found[name]["baton_turn_seconds"], event="Several")
            assert 0 < num_turns + num_joined <= num_events <= num_turns + num_joined * (EVENTS_PER_TURN - 1)
        stages = {name: found[name]["baton_stage_seconds"] for name in NAMES}
        assert labelled(stages["router"], what="request ended", stage="first_token") == load.num_good
        assert labelled(stages["router"], what="request ended", stage="placed") == load.num_good
        assert labelled(stages["scheduler"], what="placed", stage="placed") >= load.num_good
        assert labelled(stages["prefill"], what="prefill ended", stage="computed") >= load.num_good
        for executor, stage_name in (("prefill", "admitted_to_first_token"), ("decode", "landed_to_activated")):
            assert f"baton_{stage_name}_seconds" in found[executor]

    stage.run(story)


def test_no_explanation_only_says_the_name_again() -> None:
    for name, text in TEXTS.items():
        assert text.lower() != name.replace("_", " ")
