"""P in the simulated world, where tokens are checked and time is virtual: what a burst with one prefix costs."""

from __future__ import annotations

import pytest

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.ids import Role
from baton.core.knob_effects import with_effect
from baton.core.sim.scenario import Client, ExecutorSpec, Scenario
from baton.core.sim.world import World
from baton.core.wire.sampling import SamplingParams

SHARED = tuple(range(200)) * 4  #: 800 tokens, 50 blocks
UNRELATED_AT = 1.002  #: right behind the burst
CONFIG = ExecutorConfig(
    token_budget=4096, long_prefill_tokens=4096, num_slots=200, growth_reserve=16, parked_tokens=1 << 20
)


def burst(num_clients: int = 128, salts: tuple[int, ...] = (0,), **knobs) -> Scenario:
    """At 1.0 s; `unrelated` prompts of 16 tokens come 2 ms later, at another router."""
    clients = [
        Client(1.0, 0, (*SHARED, index, index), SamplingParams(2, seed=index), salt=salts[index % len(salts)])
        for index in range(num_clients)
    ]
    clients += [Client(UNRELATED_AT, 1, (255, index) * 8, SamplingParams(2, seed=index)) for index in range(4)]
    executors = tuple(
        ExecutorSpec(role.name.lower() + "0", role, 16384, with_effect(CONFIG, role))
        for role in (Role.PREFILL, Role.DECODE)
    )
    return Scenario(
        seed=1, executors=executors, num_routers=2, scheduler=SchedulerConfig(placement="always_pd", **knobs),
        router=RouterConfig(), block_size=16, num_kv_layers=1, max_model_len=1024, clients=tuple(clients), faults=(),
        faults_end_at=0.0, latency_s=1e-4, bytes_per_s=1e9, fragment_s=1e-6, step_base_s=1e-3, step_token_s=1e-4,
    )  # fmt: skip


class Outcome:
    """What the clients and the prefill executor saw of one run."""

    def __init__(self, scenario: Scenario) -> None:
        self.world = world = World(scenario)
        self.unrelated_s = 0.0
        world.start()
        while world.env.time.now < UNRELATED_AT or world.oracle.num_live:
            world.env.time.step()
            is_first_over = any(s.ended for (router, _), s in world.oracle.streams.items() if router.name == "router1")
            if is_first_over and not self.unrelated_s:
                self.unrelated_s = world.env.time.now - UNRELATED_AT
        world.check()
        self.took_s = world.env.time.now - 1.0
        self.num_computed = world.processes["prefill0"].node.machine.gauges()["prompt_tokens_computed_total"]
        self.scheduler = world.processes["scheduler"].node.machine.gauges()


def test_p7_a_burst_computes_its_shared_blocks_once_and_is_done_sooner():
    on, off = Outcome(burst()), Outcome(burst(prefix_wait=False))
    assert on.num_computed == 800 + 128 * 2 + 4 * 16
    assert off.num_computed > on.num_computed
    assert on.took_s < off.took_s
    assert on.scheduler["prefix_waits_served_total"] == on.scheduler["prefix_waits_begun_total"] > 0


def test_p7_whoever_comes_behind_the_burst_and_shares_nothing_is_served_before_it():
    on, off = Outcome(burst()), Outcome(burst(prefix_wait=False))
    alone = Outcome(burst(num_clients=1))
    assert on.unrelated_s < off.unrelated_s
    assert on.unrelated_s < alone.unrelated_s + 128 * 2 * 1e-4  # what the others of the burst have of their own


def test_p9_each_cache_salt_computes_its_own():
    assert Outcome(burst(salts=(1, 2, 3))).num_computed == 3 * 800 + 128 * 2 + 4 * 16


@pytest.mark.parametrize("max_ms", [5.0, 40.0])
def test_p10_waits_that_are_given_up_cost_computation_and_lose_nobody(max_ms):
    given_up = Outcome(burst(prefix_wait_max_ms=max_ms))
    assert given_up.num_computed >= 800 + 128 * 2 + 4 * 16
    assert given_up.scheduler["prefix_waits_begun_total"] > 0
