"""Counters that are shown before their first event: those that the pages name, and those that machines count."""

from __future__ import annotations

import re
from itertools import product

import pytest

from baton.core.config import STEP_MODES, ExecutorConfig, SchedulerConfig
from baton.core.ids import Role
from baton.services.runtime.known_counters import known_counters
from baton.services.runtime.settings import SECTIONS
from tests.core.executor.test_sharing_steps import PROCESSOR, come, measured
from tests.support.machines import ExecutorRig, prompt, unified, work
from tests.support.planted import ROOT
from tests.support.scheduling import SchedulerRig

#: what is counted beside a machine: shown by whoever counts it
OF_SERVICES = ("device_", "rank_", "kv_transfer_", "output_tokens_")
#: what machines show from the start by themselves, or count of a transfer that a unified executor has none of
OF_ALL = {
    "prompt_tokens_computed_total",
    "tokens_sampled_total",
    "kv_bytes_posted_total",
    "kv_bytes_posted_early_total",
}
ROLES = (Role.SCHEDULER, Role.ROUTER, Role.PREFILL, Role.DECODE, Role.UNIFIED)


def everywhere() -> set[str]:
    """By all roles, in all modes, and by machines at their start."""
    found: set[str] = set(SchedulerRig().core.gauges())
    for role in ROLES:
        found |= set(known_counters(role, SECTIONS[role.name.lower()]()))  # type: ignore[arg-type]
    for role, mode in product((Role.DECODE, Role.UNIFIED), STEP_MODES):
        found |= set(known_counters(role, ExecutorConfig(step_mode=mode)))
    return found | set(unified().core.gauges())


@pytest.mark.parametrize("page", ["policies.md", "operations.md"])
def test_each_counter_that_a_page_names_is_there_before_its_first_event(page: str) -> None:
    named = set(re.findall(r"`baton_([a-z_]+_total)`", (ROOT / "docs" / page).read_text()))
    assert len(named) >= 4
    shown = everywhere()
    assert {name for name in named if name not in shown and not name.startswith(OF_SERVICES)} == set()


def counted(rig: ExecutorRig) -> set[str]:
    return {f"{name}_total" for name in rig.state.counters}


def test_what_a_prefill_executor_counts_of_its_steps_was_known() -> None:
    rig = measured(PROCESSOR)
    come(rig, PROCESSOR, 100, 100, 3000)
    assert "walk_unshared_total" in counted(rig)
    assert counted(rig) <= set(known_counters(Role.PREFILL, rig.state.config)) | OF_ALL
    assert "walk_unshared_total" not in known_counters(Role.PREFILL, ExecutorConfig(share_steps="always"))


@pytest.mark.parametrize("mode", STEP_MODES)
def test_what_an_executor_that_decodes_counts_of_its_steps_was_known(mode: str) -> None:
    rig = unified(step_mode=mode)
    for number in range(6):
        rig.run(number, work(prompt(20, number), max_tokens=4))
        for _ in range(2):
            rig.step_done()
    while rig.steps:
        rig.step_done()
    assert {f"prefill_steps_{what}_total" for what in ("launched", "done")} <= counted(rig)
    assert counted(rig) <= set(known_counters(Role.UNIFIED, rig.state.config)) | OF_ALL


def test_a_scheduler_shows_waits_for_prefixes_only_where_it_has_them() -> None:
    assert "prefix_waits_served_total" in known_counters(Role.SCHEDULER, SchedulerConfig())
    assert "prefix_waits_served_total" not in known_counters(Role.SCHEDULER, SchedulerConfig(prefix_wait=False))
    assert known_counters(Role.LAUNCHER, SchedulerConfig()) == {}
