"""Placement by chance and by load alone, beside ours, on the same fleet."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from baton.core.config import SchedulerConfig
from baton.core.ids import AttemptId, Peer, Role
from baton.core.scheduler.machine import SchedulerCore
from baton.core.sim.baselines.blind_placement import make
from baton.core.sim.fleet_run.arms import split_arms
from baton.core.sim.fleet_run.parts import BadParts, Parts, load_parts
from baton.core.sim.fleet_run.scenario_file import make_scenario, read_scenario, set_value
from baton.core.wire import messages as m
from baton.services.sim.arms import run_arms
from baton.services.sim.run import simulate
from tests.support.machines import ROUTER, SCHEDULER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig

PARTS = "baton.core.sim.baselines.blind_placement:make"
ASKED = work(prompt(60, 1))
KNOBS = {"placement": "always_pd", "prefix_wait": False, "steps_ahead": 1e6}


def scheduler_of(parts: Parts) -> SchedulerCore:
    """As a run makes it."""
    table = {"name": "t", "topology": "1P1D", "profile": "a100-opt13b-tp1", "scheduler": KNOBS}
    spec = make_scenario(table).fleet()
    machine = parts.wiring(spec, spec.layout).scheduler(SCHEDULER).machine
    assert isinstance(machine, SchedulerCore)
    return machine


def a_fleet(core: SchedulerCore, num_idle: int = 2) -> SchedulerRig:
    """`cached` holds all of a prompt and has a little to compute; the idle ones have neither."""
    rig = SchedulerRig()
    rig.core = core
    rig.up(ROUTER)
    prefills = [a_peer("cached", Role.PREFILL), *[a_peer(f"idle{n}", Role.PREFILL) for n in range(num_idle)]]
    rig.join(prefills[0], live=((AttemptId(900, 0), 20),), cached=ASKED.hashes)
    for prefill in prefills[1:]:
        rig.join(prefill)
    rig.join(a_peer("decode", Role.DECODE), pairs=tuple(prefill.life for prefill in prefills))
    return rig


def a_peer(name: str, role: Role) -> Peer:
    return an_executor(name, role, num_blocks=4096, num_slots=256)


@pytest.mark.parametrize(("by", "chosen"), [("load", "idle0"), ("cache", "cached")])
def test_load_alone_does_not_look_into_caches(by: str, chosen: str) -> None:
    rig = a_fleet(scheduler_of(make(by)))
    rig.submit(1, ASKED)
    assert rig.where(1) == [chosen, "decode"]


def test_ours_goes_to_the_cache_too_and_not_where_waiting_costs_more() -> None:
    rig = a_fleet(SchedulerCore(SCHEDULER, SchedulerConfig(**KNOBS)))  # type: ignore[arg-type]
    rig.submit(1, ASKED)
    assert rig.where(1)[0] == "cached"
    rig.submit(2, work(prompt(200, 2)))
    assert rig.where(2)[0] == "idle0"


def test_load_counts_what_is_still_to_be_computed() -> None:
    rig = a_fleet(scheduler_of(make("load")), num_idle=1)
    rig.submit(1, work(prompt(100, 3)))
    rig.submit(2, work(prompt(100, 4)))
    assert [rig.where(number)[0] for number in (1, 2)] == ["idle0", "cached"]
    rig.hear(a_peer("idle0", Role.PREFILL), m.Credit(0, 0, 100))
    rig.submit(3, ASKED)
    assert rig.where(3)[0] == "idle0"


def test_chance_chooses_everybody_and_the_same_ones_with_the_same_seed() -> None:
    def chosen(seed: int) -> list[str]:
        rig = a_fleet(scheduler_of(make("random", seed)))
        for number in range(1, 61):
            rig.submit(number, work(prompt(8, number)))
        return [rig.where(number)[0] for number in range(1, 61)]

    assert chosen(0) == chosen(0) != chosen(1)
    assert min(Counter(chosen(0))[name] for name in ("cached", "idle0", "idle1")) >= 10


def test_a_strategy_that_there_is_not_is_named() -> None:
    with pytest.raises(BadParts, match="'best' is none of random, load, cache"):
        load_parts(PARTS, {"by": "best"})


# ---- the scenario, on a trace of families of prompts


def families(path: Path, num_requests: int) -> None:
    """Prompts of ten blocks of 512, eight of which are those of one of 24 families; 1.7 a second."""
    chance = random.Random(5)
    rows = []
    for number in range(num_requests):
        family, own = chance.randrange(24), 10_000 + 2 * number
        blocks = [*range(8 * family, 8 * family + 8), own, own + 1]
        rows.append({"timestamp": 590 * number, "input_length": 5120, "output_length": 4, "hash_ids": blocks})
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_scenario_finds_that_ours_is_before_load_and_load_before_chance(tmp_path: Path) -> None:
    families(tmp_path / "trace.jsonl", 150)
    table = read_scenario("placement_order")
    set_value(table, f"load.trace={tmp_path / 'trace.jsonl'}")
    set_value(table, "load.num_requests=150")
    set_value(table, "topology=3P1D")
    set_value(table, "kv_tokens=65536")
    table["arms"] = [arm for arm in table["arms"] if arm["name"] in ("random", "load", "ours")]
    table["orders"] = [order for order in table["orders"] if order["arms"] == ["ours", "load", "random"]]
    arms = split_arms(table)
    assert arms is not None
    assert len(arms.orders) == 1
    text = io.StringIO()
    assert run_arms(table, arms, Console(file=text, width=200), simulate) == 0, text.getvalue()
    assert "ttft_s.mean: ours " in text.getvalue()
