"""Knobs: one effect, one unit, one finite default; a value without effect is a start-up error that says so."""

from __future__ import annotations

import math

import msgspec
import pytest

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Role
from baton.core.knob_effects import NEEDS, lacking, with_effect, without_effect
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
def test_the_defaults_are_valid_and_are_what_an_empty_section_says(config):
    read = msgspec.convert({}, config)
    read.validate()
    assert msgspec.to_builtins(read) == {field.name: field.default for field in msgspec.structs.fields(config)}


BAD = [
    (ExecutorConfig, {name: 0})
    for name in ("token_budget", "long_prefill_tokens", "num_slots", "piece_bytes", "window_bytes", "parked_tokens")
]
BAD += [(ExecutorConfig, {"total_window_bytes": -1}), (ExecutorConfig, {"holding_interval_s": 0.0})]
BAD += [(ExecutorConfig, {"num_queued_steps": n}) for n in (0, 3)]
BAD += [(ExecutorConfig, {"share_steps": "never"})]
BAD += [(ExecutorConfig, {"growth_reserve": 0}), (ExecutorConfig, {"quarantine_blocks": -1})]
BAD += [(SchedulerConfig, {name: 0}) for name in ("max_queued", "steps_ahead", "absent_s")]
BAD += [(SchedulerConfig, {name: x}) for name in ("bypass_s", "handoff_slack") for x in (-1, math.nan, math.inf)]
BAD += [(ExecutorConfig, {"handoff_lead_steps": value}) for value in (math.nan, math.inf)]
BAD += [(ExecutorConfig, {"handoff_lead_steps": -1.0}), (SchedulerConfig, {"handoff_slack": 1.5})]
BAD += [(SchedulerConfig, {"interruption_weight": value}) for value in (-1.0, math.nan, math.inf)]
BAD += [(SchedulerConfig, {"local_prompt_tokens": value}) for value in (-1, 100)]
BAD += [(SchedulerConfig, {"local_prompt_tokens": 100, "placement": "always_pd"})]
BAD += [(SchedulerConfig, {"interruption_weight": 2.0, "placement": "always_pd"})]
BAD += [(SchedulerConfig, {"local_prompt_tokens": 0, "placement": "by_tokens"})]
BAD += [(ExecutorConfig, {name: 1 << 31}) for name in ("token_budget", "growth_reserve", "protect_steps")]
BAD += [(ExecutorConfig, {"piece_bytes": 1 << 63}), (SchedulerConfig, {"local_prompt_tokens": 10**30})]
BAD += [(RouterConfig, {"max_attempts": 1 << 31})]
BAD += [(ExecutorConfig, {name: 1.1}) for name in ("hold_fill", "hold_kv_high", "join_share")]
BAD += [(ExecutorConfig, {name: -1}) for name in ("share_wait_s", "hold_batch_low", "protect_steps", "join_max_steps")]
BAD += [(ExecutorConfig, {"share_wait_s": math.inf}), (ExecutorConfig, {"itl_target_ms": math.nan})]
BAD += [(SchedulerConfig, {"prefix_wait_max_ms": value}) for value in (0.0, math.inf)]
BAD += [(SchedulerConfig, {"prefix_wait_max_ms": 5.0, "prefix_wait": False})]
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


ALTERNATE = {"step_mode": "alternate"}
DECODING, ALL = (Role.DECODE, Role.UNIFIED), (Role.PREFILL, Role.DECODE, Role.UNIFIED)
#: a knob, what else it needs, and the roles on which it then has an effect
EFFECTS = [
    ({"growth_reserve": 64}, {}, DECODING),
    ({"step_mode": "alternate"}, {}, DECODING),
    ({"hold": "off"}, ALTERNATE, DECODING),
    ({"hold_fill": 0.3}, ALTERNATE | {"hold": "fill"}, DECODING),
    ({"hold_max_ms": 100.0}, ALTERNATE, DECODING),
    ({"hold_stall_ms": 10.0}, ALTERNATE, DECODING),
    ({"hold_partial_ms": 10.0}, ALTERNATE, DECODING),
    ({"hold_kv_high": 0.5}, ALTERNATE, DECODING),
    ({"hold_batch_low": 8}, ALTERNATE, DECODING),
    ({"itl_target_ms": 20.0}, ALTERNATE, DECODING),
    ({"protect": "fixed"}, ALTERNATE, DECODING),
    ({"protect_steps": 8}, ALTERNATE, DECODING),
    ({"join_share": 0.5}, {}, (Role.DECODE,)),
    ({"join_max_steps": 8}, {}, (Role.DECODE,)),
    ({"join_max_ms": 10.0}, {}, (Role.DECODE,)),
    ({"piece_bytes": 1 << 20}, {}, (Role.PREFILL,)),
    ({"window": "fixed"}, {}, (Role.PREFILL,)),
    ({"window_bytes": 1 << 20}, {}, (Role.PREFILL, Role.DECODE)),
    ({"total_window_bytes": 1 << 20}, {}, (Role.PREFILL,)),
    ({"handoff_lead_steps": 0.0}, {}, (Role.PREFILL,)),
    ({"parked_tokens": 4096}, {}, (Role.PREFILL,)),
    ({"share_steps": "always"}, {}, (Role.PREFILL,)),
    ({"share_wait_s": 0.1}, {}, (Role.DECODE,)),
    ({"quarantine_blocks": 4}, {}, (Role.DECODE,)),
]


def test_c12_every_knob_that_needs_something_is_among_these():
    assert {next(iter(knob)) for knob, _, _ in EFFECTS} == set(NEEDS)


@pytest.mark.parametrize(("knob", "needs", "roles"), EFFECTS, ids=lambda value: str(value))
def test_c12_a_knob_is_taken_where_it_has_an_effect_and_refused_where_it_has_none(knob, needs, roles):
    name = next(iter(knob))
    for role in ALL:
        if role in roles:
            ExecutorRig(role, **(needs | knob))
            continue
        with pytest.raises(ValueError, match=f"{name} = .* has no effect"):
            ExecutorRig(role, **knob)
    if needs:
        with pytest.raises(ValueError, match=f"{name} = .* has no effect: only with step_mode = alternate"):
            ExecutorRig(roles[0], **knob)


@pytest.mark.parametrize("knob", [{"hold_stall_ms": 10.0}, {"itl_target_ms": 10.0}, {"hold_fill": 0.1}], ids=str)
def test_c12_a_hold_that_is_off_leaves_its_knobs_without_effect(knob):
    told = ExecutorConfig(**(ALTERNATE | {"hold": "off"} | knob))
    assert without_effect(told, Role.UNIFIED).startswith(f"{next(iter(knob))} = ")


@pytest.mark.parametrize("off", [{"hold": "off"}, {"hold": "fill", "hold_fill": 0.0}], ids=str)
@pytest.mark.parametrize("knob", [{"hold_max_ms": 9.0}, {"hold_partial_ms": 9.0}, {"hold_kv_high": 0.5}], ids=str)
def test_c12_where_nothing_is_kept_back_nothing_bounds_that(off, knob):
    (name,) = knob
    neither = ALTERNATE | {"protect_steps": 0} | off
    with pytest.raises(ValueError, match=f"{name} = .* has no effect: only with a hold or protect_steps"):
        ExecutorRig(Role.UNIFIED, **(neither | knob))
    for keeps in ({"protect_steps": 1}, {"hold": "adaptive", "hold_fill": 0.5}, {"hold": "fill", "hold_fill": 0.1}):
        assert not without_effect(ExecutorConfig(**(neither | knob | keeps)), Role.UNIFIED)


@pytest.mark.parametrize("knob", ["join_share", "join_max_ms"])
def test_c12_where_all_join_at_once_nothing_else_says_how_they_join(knob):
    with pytest.raises(ValueError, match=f"{knob} = .* has no effect: only with join_max_steps"):
        ExecutorRig(Role.DECODE, join_max_steps=0, **{knob: 1})


def test_c12_what_is_drawn_or_told_for_many_counts_where_it_has_an_effect():
    told = ExecutorConfig(step_mode="alternate", hold="fill", hold_fill=0.3, parked_tokens=9, token_budget=500)
    assert with_effect(told, Role.PREFILL) == ExecutorConfig(parked_tokens=9, token_budget=500)
    assert with_effect(told, Role.UNIFIED) == msgspec.structs.replace(told, parked_tokens=8192)


ALL_ROLES = {Role.PREFILL: 1, Role.DECODE: 1, Role.UNIFIED: 1}


@pytest.mark.parametrize(
    ("section", "knob", "role"),
    [
        ("prefill", "window", Role.PREFILL),
        ("decode", "num_slots", Role.DECODE),
        ("unified", "hold", Role.UNIFIED),
        ("scheduler", "strict_pd", Role.DECODE),
        ("scheduler", "local_prompt_tokens", Role.DECODE),
        ("scheduler", "handoff_slack", Role.DECODE),
    ],
)
def test_c12_a_fleet_that_lacks_whom_a_knob_is_about_is_told(section, knob, role):
    assert not lacking(section, knob, ALL_ROLES)
    assert lacking(section, knob, ALL_ROLES | {role: 0}) == f"there is no {role.name.lower()} executor"


@pytest.mark.parametrize(("section", "knob"), [("executor", "hold"), ("router", "settle_s"), ("scheduler", "bypass_s")])
def test_c12_what_is_about_nobody_in_particular_lacks_nobody(section, knob):
    assert not lacking(section, knob, {Role.UNIFIED: 1})


def test_c12_more_slots_than_a_step_has_tokens_can_never_all_decode():
    with pytest.raises(ValueError, match="num_slots"):
        ExecutorRig(Role.UNIFIED, num_slots=65, token_budget=64)
    ExecutorRig(Role.PREFILL, num_slots=65, token_budget=64)  # it decodes nothing


def test_c12_a_piece_must_hold_one_slot_of_one_plane():
    wide = KvLayout(1, 64, 128, "float64", 4, "model", "tokenizer")
    with pytest.raises(ValueError, match="piece_bytes"):
        ExecutorCore(an_executor("prefill", Role.PREFILL), wide, ExecutorConfig(piece_bytes=1024), KEY)
    assert LAYOUT.slot_bytes == 16


def test_an_executor_without_a_capacity_is_refused():
    own = msgspec.structs.replace(an_executor("decode", Role.DECODE), capacity=None)
    with pytest.raises(ValueError, match="capacity"):
        ExecutorCore(own, LAYOUT, ExecutorConfig(), KEY)
