"""Draws a scenario from a seed. Every knob is drawn towards its edges: tiny pools, tiny windows, tiny budgets.

Swarm testing: each kind of fault is on or off in a scenario and has its own rate, so that a rare combination is not
drowned by the common ones.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from baton.core.config import PREFIX_WAIT_MAX_MS, ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.ids import Role
from baton.core.knob_effects import with_effect
from baton.core.layout import KvLayout
from baton.core.sim.draw_gate import with_gates
from baton.core.sim.faults import draw_faults
from baton.core.sim.memory import sim_layout
from baton.core.sim.scenario import Client, ExecutorSpec, Fault, Scenario
from baton.core.wire.sampling import SamplingParams

VOCABULARY = 256
SCORES_SALT = 0x510E527FADE682D1  #: which prompts are scored is drawn from a stream of its own
GRAMMARS_SALT = 0x9B05688C2B3E6C1F  #: so is who has a grammar
WINDOWS_SALT = 0x1F83D9ABFB41BD6B  #: and how the executors bound what is on its way
GATES_SALT = 0x6A09E667F3BCC908  #: and which executors alternate, and how sequences join a batch
LOOPS_SALT = 0x3C6EF372FE94F82B  #: and whose loops are busy
PREFIXES_SALT = 0xBB67AE8584CAA73B  #: and who waits for whose prefix
PLACEMENT_SALT = 0xA54FF53A5F1D36F1  #: and where prompts are computed
LANES_SALT = 0x428A2F98D728AE22  #: and beside what
PROGRESS_SALT = 0x7137449123EF65CD  #: and whether devices say how far a step is
END_TOKEN = 257
FIRST_ARRIVAL_S = 0.3


def draw_scenario(seed: int) -> Scenario:
    """The scenario of this seed: always the same."""
    rng = Random(seed)
    block_size = rng.choice((1, 2, 3, 4, 4, 8, 16))
    num_kv_layers = rng.choice((1, 1, 2))
    lasts_s = rng.choice((0.1, 0.5, 1.0, 2.0))
    max_model_len = block_size * rng.randint(6, 20) + rng.randint(0, block_size)
    executors = _draw_executors(rng, block_size, num_kv_layers, max_model_len)
    num_routers = rng.choice((1, 1, 1, 2))
    faults_end_at = FIRST_ARRIVAL_S + lasts_s + 0.5
    heartbeat_s = rng.choice((0.3, 0.6, 0.6, 1.0))
    clients = _draw_clients(rng, block_size, max_model_len, num_routers, lasts_s)
    scenario = Scenario(
        seed=seed,
        executors=executors,
        num_routers=num_routers,
        scheduler=SchedulerConfig(
            max_queued=rng.choice((4096, 4096, 4096, 4096, 4096, 5)),
            steps_ahead=rng.choice((0.5, 1.0, 2.0, 4.0)),
            bypass_s=rng.choice((0.02, 0.2, 5.0)),
            absent_s=10.0,
            handoff_slack=rng.choice((0.0, 0.25, 1.0)),
        ),
        router=RouterConfig(
            max_streams=rng.choice((8192, 8192, 8192, 8192, 10)),
            max_attempts=rng.choice((3, 3, 8, 50)),
            settle_s=rng.choice((0.3, 0.8)),
        ),
        block_size=block_size,
        num_kv_layers=num_kv_layers,
        max_model_len=max_model_len,
        clients=clients,
        faults=draw_faults(rng, [client.at for client in clients], faults_end_at) if rng.random() < 0.75 else (),
        faults_end_at=faults_end_at,
        heartbeat_s=heartbeat_s,
        silence_s=rng.choice((2.2, 3.5)) * heartbeat_s,
        latency_s=rng.choice((1e-4, 5e-4, 5e-3)),
        # as the services' settings ask: a session begins with all attempts at once and must not end of that again
        max_unread=max(rng.choice((1000, 1000, 1000, 60)), 2 * sum(client.num_choices for client in clients)),
        transport=rng.choice(("tcp", "cma")),
        bytes_per_s=rng.choice((1e6, 2e5, 2e4)),
        fragment_s=rng.choice((2e-5, 2e-4, 2e-3)),
        end_one_in=rng.choice((0, 3, 8, 30)),
        is_told_of_exits=rng.random() < 0.8,
        keeps_addresses=rng.random() < 0.6,
        step_base_s=rng.choice((1e-3, 4e-3, 2e-2)),
        step_token_s=rng.choice((1e-5, 1e-4, 1e-3)),
    )
    scenario = _with_scores(Random(seed ^ SCORES_SALT), scenario)
    scenario = _with_grammars(Random(seed ^ GRAMMARS_SALT), scenario)
    scenario = _with_windows(Random(seed ^ WINDOWS_SALT), scenario)
    scenario = _with_placement(Random(seed ^ PLACEMENT_SALT), scenario)
    scenario = _with_lanes(Random(seed ^ LANES_SALT), scenario)
    scenario = with_gates(Random(seed ^ GATES_SALT), scenario)
    scenario = _with_prefixes(Random(seed ^ PREFIXES_SALT), scenario)
    scenario = _with_loops_and_progress(seed, scenario)
    emphasis = rng.random()
    if emphasis < 0.08:
        return _with_late_writes(rng, scenario)
    return _with_broken_handshakes(rng, scenario) if emphasis < 0.16 else scenario


def _with_loops_and_progress(seed: int, scenario: Scenario) -> Scenario:
    """How busy loops are, and whether devices say how far a step is."""
    busy_loop_s = Random(seed ^ LOOPS_SALT).choice((0.0, 0.0, 0.0, 5e-4, 5e-3))
    tells_progress = Random(seed ^ PROGRESS_SALT).random() < 0.4
    return replace(scenario, busy_loop_s=busy_loop_s, tells_progress=tells_progress)


def _with_scores(rng: Random, scenario: Scenario) -> Scenario:
    """Some clients ask for the scores of their prompts, in some scenarios all."""
    share = rng.choice((0.0, 0.2, 0.2, 0.5, 1.0))
    clients = []
    for client in scenario.clients:
        num_top = rng.choice((0, 1, 3))
        if rng.random() < share:
            client = replace(client, sampling=replace(client.sampling, num_prompt_logprobs=num_top))
        clients.append(client)
    return replace(scenario, clients=tuple(clients))


def _with_grammars(rng: Random, scenario: Scenario) -> Scenario:
    """In some scenarios some answers are under grammars that cannot always go on."""
    share = rng.choice((0.0, 0.0, 0.0, 0.1, 0.4))
    clients = []
    for client in scenario.clients:
        grammar = rng.choice(("3", "12", "40"))
        if rng.random() < share:
            client = replace(client, sampling=replace(client.sampling, grammar=grammar))
        clients.append(client)
    return replace(scenario, clients=tuple(clients))


def _with_windows(rng: Random, scenario: Scenario) -> Scenario:
    """Some windows are fixed, the others follow what is measured; some executors never wait for shared blocks."""
    executors = []
    for spec in scenario.executors:
        window = rng.choice(("adaptive", "adaptive", "fixed"))
        share_wait_s = rng.choice((0.0, 5e-3, 0.5, 0.5))
        executors.append(_told(spec, window=window, share_wait_s=share_wait_s))
    scenario = replace(scenario, executors=tuple(executors))
    return _with_one_prefix(rng, scenario) if rng.random() < 0.2 else scenario


def _with_one_prefix(rng: Random, scenario: Scenario) -> Scenario:
    """All prompts begin alike and come within a short time: several transfers are to bring the same blocks, or many
    wait for who computes them."""
    executors = [_told(spec, handoff_lead_steps=3.0) for spec in scenario.executors]
    longest = max([client.prompt for client in scenario.clients], key=len)
    spread_s = rng.choice((0.0, 0.02, 0.2))
    clients = []
    for client in scenario.clients:
        num_own = rng.choice((0, 0, 1, 3))
        shared = longest[: max(1, len(client.prompt) - num_own)]
        prompt = shared + client.prompt[len(shared) :]
        clients.append(replace(client, prompt=prompt, at=FIRST_ARRIVAL_S + rng.uniform(0.0, spread_s)))
    clients.sort(key=lambda client: client.at)
    slow = {"bytes_per_s": 2e4, "fragment_s": 2e-3}
    return replace(scenario, executors=tuple(executors), clients=tuple(clients), **slow)


def _with_prefixes(rng: Random, scenario: Scenario) -> Scenario:
    """Waits for prefixes, some of them too short for anything; in some scenarios many prompts begin alike and come
    while the first of them is computed, on executors that compute slowly."""
    is_on, max_ms = rng.random() < 0.8, rng.choice((5.0, 50.0, 500.0, PREFIX_WAIT_MAX_MS))
    knobs = {"prefix_wait": is_on} | ({"prefix_wait_max_ms": max_ms} if is_on else {})
    checkpoint_blocks = rng.choice((1, 1, 1, 1, 2, 3))
    scheduler = replace(scenario.scheduler, **knobs)
    scenario = replace(scenario, scheduler=scheduler, checkpoint_blocks=checkpoint_blocks)
    if rng.random() > 0.3:
        return scenario
    step_token_s = rng.choice((scenario.step_token_s, 1e-3, 4e-3))
    steps_ahead = rng.choice((scenario.scheduler.steps_ahead, 10.0, 100.0))  # or few are asked while others compute
    scenario = replace(scenario, scheduler=replace(scenario.scheduler, steps_ahead=steps_ahead))
    return replace(_with_one_prefix(rng, _with_long_prompts(rng, scenario)), step_token_s=step_token_s)


def _with_long_prompts(rng: Random, scenario: Scenario) -> Scenario:
    """Prompts that leave room for little but the answer."""
    clients = []
    for client in scenario.clients:
        longest = scenario.max_model_len - client.sampling.max_tokens
        missing = rng.randint(longest // 2, longest) - len(client.prompt) if longest > 1 else 0
        prompt = client.prompt + tuple([rng.randrange(VOCABULARY) for _ in range(missing)])
        clients.append(replace(client, prompt=prompt))
    return replace(scenario, clients=tuple(clients))


def _with_placement(rng: Random, scenario: Scenario) -> Scenario:
    """By which rule, and with which knob of that rule. Half of all by the fixed one: only there is KV sent for sure."""
    placement = rng.choice(("predicted", "predicted", "by_tokens", "always_pd", "always_pd", "always_pd"))
    knobs: dict[str, float] = {}
    if placement == "by_tokens":
        knobs["local_prompt_tokens"] = rng.choice((1, scenario.block_size, 4 * scenario.block_size, 1 << 20))
    elif placement == "predicted":
        knobs["interruption_weight"] = rng.choice((0.0, 0.1, 1.0, 10.0))
    strict_pd = rng.random() < 0.3
    return _placed_by(placement, replace(scenario, scheduler=replace(scenario.scheduler, strict_pd=strict_pd)), **knobs)


def _placed_by(placement: str, scenario: Scenario, **knobs: float) -> Scenario:
    """By that rule, with its knobs and no other's."""
    plain = SchedulerConfig()
    others = {name: getattr(plain, name) for name in ("local_prompt_tokens", "interruption_weight")}
    config = replace(scenario.scheduler, placement=placement, **(others | knobs))
    return replace(scenario, scheduler=config)


def _with_lanes(rng: Random, scenario: Scenario) -> Scenario:
    """Some executors that decode compute prompts in a lane beside (O8)."""
    executors = []
    for spec in scenario.executors:
        if rng.random() < 0.4 and spec.role.runs_decode and spec.config.step_mode == "mixed":
            spec = replace(spec, config=replace(spec.config, step_mode="overlap"))
        executors.append(spec)
    return replace(scenario, executors=tuple(executors))


def _with_late_writes(rng: Random, scenario: Scenario) -> Scenario:
    """Many writes that outlive their writer or its error, while the blocks that they may touch are wanted by others:
    too rare when each of the conditions is drawn by itself."""
    layout = sim_layout(scenario.block_size, scenario.num_kv_layers)
    window = 64 * layout.block_bytes
    whole = -(-scenario.max_model_len // scenario.block_size)
    executors = []
    for spec in scenario.executors:
        sizes = {"piece_bytes": layout.plane_bytes, "window_bytes": window, "total_window_bytes": window}
        num_blocks = whole + 2 if spec.role is Role.DECODE else 4 * whole
        executors.append(replace(_told(spec, **sizes, growth_reserve=1, window="fixed"), num_blocks=num_blocks))
    at = [rng.choice(scenario.clients).at + rng.uniform(0.0, 0.2) for _ in range(10)]
    kinds = ["piece"] * 7 + ["kill executor"] * 3
    faults = list(scenario.faults)
    for time, kind in zip(at, kinds, strict=True):
        faults.append(Fault(time, kind, rng.randrange(1 << 16), 0.05, rng.randint(1, 3)))
    return replace(
        _placed_by("always_pd", scenario),
        executors=tuple(executors),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        transport="tcp",
        fragment_s=5e-3,
        is_told_of_exits=True,
    )


def _with_broken_handshakes(rng: Random, scenario: Scenario) -> Scenario:
    """Processes die again and again while others are stopped, so that hellos and welcomes meet lives that they were not
    meant for; frames are lost and doubled meanwhile."""
    faults = list(scenario.faults)
    first = rng.choice(scenario.clients).at
    kinds = ["kill executor"] * 8 + ["kill scheduler"] * 2 + ["stop"] * 10 + ["lose", "double"] * 6
    for kind in kinds:
        at, duration_s = first + rng.uniform(0.0, 3.0), rng.choice((0.05, 0.6, 1.2))
        duration_s = duration_s if kind == "stop" else 0.01
        faults.append(Fault(at, kind, rng.randrange(1 << 16), duration_s, 1, rng.choice(("create", "wait"))))
    until = max(scenario.faults_end_at, first + 3.1)
    return replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at)), faults_end_at=until)


def _told(spec: ExecutorSpec, **knobs: Any) -> ExecutorSpec:
    """With those of the knobs, too, that have an effect on it."""
    return replace(spec, config=with_effect(replace(spec.config, **knobs), spec.role))


def _draw_executors(
    rng: Random, block_size: int, num_kv_layers: int, max_model_len: int
) -> tuple[ExecutorSpec, ...]:
    num_prefill, num_decode, num_unified = rng.choice(
        ((1, 1, 0), (1, 1, 0), (1, 1, 0), (2, 1, 0), (1, 2, 0), (2, 2, 0), (1, 1, 1), (0, 0, 1), (0, 0, 2), (1, 2, 1))
    )
    layout = sim_layout(block_size, num_kv_layers)
    whole = -(-max_model_len // block_size)  # blocks of the longest sequence
    specs = []
    for role, count in ((Role.PREFILL, num_prefill), (Role.DECODE, num_decode), (Role.UNIFIED, num_unified)):
        for index in range(count):
            sizes = (whole + 2, whole + 2, 2 * whole, 2 * whole, 4 * whole, 8 * whole, max(3, whole // 2))
            num_blocks = rng.choice(sizes)
            config = with_effect(_draw_config(rng, layout), role)
            specs.append(ExecutorSpec(f"{role.name.lower()}{index}", role, num_blocks, config))
    return tuple(specs)


def _draw_config(rng: Random, layout: KvLayout) -> ExecutorConfig:
    plane_bytes, block_bytes = layout.plane_bytes, layout.block_bytes
    token_budget = rng.choice((3, 8, 16, 64, 256))
    piece_bytes = rng.choice((layout.slot_bytes, plane_bytes, block_bytes, block_bytes, 4 * block_bytes))
    return ExecutorConfig(
        token_budget=token_budget,
        long_prefill_tokens=rng.choice((token_budget, token_budget, max(1, token_budget // 2), min(3, token_budget))),
        num_slots=min(token_budget, rng.choice((2, 4, 16, 64))),
        growth_reserve=rng.choice((1, 1, 2, layout.block_size, 512)),
        num_queued_steps=rng.choice((1, 2, 2)),
        piece_bytes=piece_bytes,
        window_bytes=rng.choice((1, piece_bytes, 3 * piece_bytes, 64 * block_bytes)),
        total_window_bytes=rng.choice((piece_bytes, 64 * block_bytes, 64 * block_bytes)),
        handoff_lead_steps=rng.choice((0.0, 1.0, 3.0)),
        parked_tokens=rng.choice((1, 4 * token_budget, 8192)),
        quarantine_blocks=rng.choice((0, 0, 1, 4)),
        holding_interval_s=0.5,
        router_silence_s=2.0,
    )


def _draw_clients(
    rng: Random, block_size: int, max_model_len: int, num_routers: int, lasts_s: float
) -> tuple[Client, ...]:
    num_clients = rng.choice((2, 6, 12, 24, 40))
    families = [[rng.randrange(VOCABULARY) for _ in range(max_model_len)] for _ in range(rng.randint(1, 3))]
    is_burst = rng.random() < 0.4
    has_gone, has_stops, has_deadlines = rng.random() < 0.4, rng.random() < 0.3, rng.random() < 0.3
    max_choices = rng.choice((1, 1, 2, 4))
    clients = []
    for _ in range(num_clients):
        prompt, max_tokens = _draw_prompt(rng, families, max_model_len, block_size)
        num_choices = rng.randint(1, max_choices)
        has_end = rng.random() < 0.5
        sampling = SamplingParams(
            max_tokens=max_tokens,
            seed=rng.getrandbits(32),
            min_tokens=rng.choice((0, 0, 1, 3)),
            stop_token_ids=(END_TOKEN,) if has_end else (),
        )
        clients.append(
            Client(
                at=FIRST_ARRIVAL_S + (0.0 if is_burst else rng.uniform(0.0, lasts_s)),
                router=rng.randrange(num_routers),
                prompt=tuple(prompt),
                sampling=sampling,
                num_choices=num_choices,
                timeout_s=rng.choice((0.01, 0.1, 0.5)) if has_deadlines and rng.random() < 0.3 else 1000.0,
                priority_class=rng.choice((0, 0, 1)),
                tenant=rng.choice(("", "a", "b")),
                gone_after_s=rng.uniform(0.0, 0.5) if has_gone and rng.random() < 0.4 else None,
                stop_at=(rng.randrange(num_choices), rng.randint(1, max_tokens))
                if has_stops and rng.random() < 0.5
                else None,
            )
        )
    return tuple(sorted(clients, key=lambda client: client.at))


def _draw_prompt(
    rng: Random, families: list[list[int]], max_model_len: int, block_size: int
) -> tuple[list[int], int]:
    """A prompt that shares a random length with its family, and how many tokens may follow."""
    max_tokens = rng.choice((1, 2, 5, 12, 24, 40))
    longest = max_model_len - max_tokens
    if longest < 1:
        max_tokens, longest = 1, max_model_len - 1
    length = rng.choice((1, block_size, block_size + 1, rng.randint(1, longest), rng.randint(1, longest), longest))
    length = max(1, min(length, longest))
    family = rng.choice(families)
    shared = rng.choice((0, length, length - 1, rng.randint(0, length)))
    prompt = family[:shared] + [rng.randrange(VOCABULARY) for _ in range(length - shared)]
    if rng.random() < 0.01:
        max_tokens += max_model_len  # longer than any context
    return prompt, max_tokens
