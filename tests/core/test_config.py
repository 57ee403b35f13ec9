"""Knobs: one effect, one unit, one finite default; a value without effect is a start-up error that says so."""

from __future__ import annotations

import math

import msgspec
import pytest

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Role
from baton.core.layout import KvLayout
from baton.core.router.machine import RouterCore
from baton.core.scheduler.machine import SchedulerCore
from tests.support.machines import KEY, LAYOUT, ROUTER, SCHEDULER, ExecutorRig, an_executor

CONFIGS = (ExecutorConfig, SchedulerConfig, RouterConfig)
UNITS = ("_tokens", "_bytes", "_s", "_blocks", "_steps", "_slots", "_budget", "_queued", "_ahead", "_reserve", "_slack")
UNITS += ("_ms", "_fill", "_high", "_low", "_share", "_weight")
COUNTS = ("max_streams", "max_attempts", "max_queued", "steps_ahead", "num_slots", "num_queued_steps")


@pytest.mark.parametrize("config", CONFIGS)
def test_c23_every_knob_has_a_unit_or_counts_something_and_a_finite_default(config):
    for field in msgspec.structs.fields(config):
        if field.type is str:  # one of a few words
            with pytest.raises(ValueError, match=field.name):
                config(**{field.name: "something else"}).validate()
            continue
        if field.type is bool:
            continue
        assert field.name.endswith(UNITS) or field.name in COUNTS, field.name
        assert isinstance(field.default, (int, float)), field.name
        assert math.isfinite(field.default), field.name


@pytest.mark.parametrize("config", CONFIGS)
def test_the_defaults_are_valid(config):
    config().validate()


BAD = [
    (ExecutorConfig, {name: 0})
    for name in ("token_budget", "long_prefill_tokens", "num_slots", "piece_bytes", "window_bytes", "parked_tokens")
]
BAD += [(ExecutorConfig, {"total_window_bytes": -1}), (ExecutorConfig, {"holding_interval_s": 0.0})]
BAD += [(ExecutorConfig, {"num_queued_steps": n}) for n in (0, 3)]
BAD += [(ExecutorConfig, {"growth_reserve": 0}), (ExecutorConfig, {"quarantine_blocks": -1})]
BAD += [(SchedulerConfig, {name: 0}) for name in ("max_queued", "steps_ahead", "bypass_s", "absent_s")]
BAD += [(SchedulerConfig, {name: value}) for name in ("bypass_s", "handoff_slack") for value in (math.nan, math.inf)]
BAD += [(ExecutorConfig, {"handoff_lead_steps": value}) for value in (math.nan, math.inf)]
BAD += [(ExecutorConfig, {"handoff_lead_steps": -1.0}), (SchedulerConfig, {"handoff_slack": 1.5})]
BAD += [(SchedulerConfig, {"interruption_weight": value}) for value in (-1.0, math.nan, math.inf)]
BAD += [(SchedulerConfig, {"local_prompt_tokens": value}) for value in (-1, 100)]
BAD += [(SchedulerConfig, {"local_prompt_tokens": 100, "placement": "always_pd"})]
BAD += [(SchedulerConfig, {"interruption_weight": 2.0, "placement": "always_pd"})]
BAD += [(SchedulerConfig, {"local_prompt_tokens": 0, "placement": "by_tokens"})]
BAD += [(RouterConfig, {name: 0}) for name in ("max_streams", "max_attempts", "settle_s")]


@pytest.mark.parametrize(("config", "knobs"), BAD, ids=lambda value: str(value))
def test_c12_a_bad_knob_is_a_start_up_error_with_its_name(config, knobs):
    with pytest.raises(ValueError, match=next(iter(knobs))):
        config(**knobs).validate()


def test_c12_every_machine_checks_its_knobs_when_it_is_made():
    with pytest.raises(ValueError, match="max_queued"):
        SchedulerCore(SCHEDULER, SchedulerConfig(max_queued=0))
    with pytest.raises(ValueError, match="max_streams"):
        RouterCore(ROUTER, RouterConfig(max_streams=0))
    with pytest.raises(ValueError, match="growth_reserve"):
        ExecutorRig(Role.DECODE, growth_reserve=0)


def test_c12_more_slots_than_a_step_has_tokens_can_never_all_decode():
    with pytest.raises(ValueError, match="num_slots"):
        ExecutorRig(Role.UNIFIED, num_slots=65, token_budget=64)
    ExecutorRig(Role.PREFILL, num_slots=65, token_budget=64)  # it decodes nothing


def test_c12_a_piece_must_hold_one_slot_of_one_plane():
    wide = KvLayout(1, 64, 128, "float64", 4, "model", "tokenizer")
    with pytest.raises(ValueError, match="piece_bytes"):
        ExecutorCore(an_executor("decode", Role.DECODE), wide, ExecutorConfig(piece_bytes=1024), KEY)
    assert LAYOUT.slot_bytes == 16


def test_an_executor_without_a_capacity_is_refused():
    own = msgspec.structs.replace(an_executor("decode", Role.DECODE), capacity=None)
    with pytest.raises(ValueError, match="capacity"):
        ExecutorCore(own, LAYOUT, ExecutorConfig(), KEY)
