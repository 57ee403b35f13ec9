"""C12: a knob is refused exactly where it changes nothing. Each is told in each mode, the check aside, and the steps,
transfers and answers of one load are compared with those of its default."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import cycle, product
from random import Random
from typing import Any

import pytest
from msgspec.structs import fields, replace

from baton.core.config import HOLDS, PROTECTIONS, SHARINGS, STEP_MODES, WINDOWS, ExecutorConfig
from baton.core.executor import machine
from baton.core.ids import Role
from baton.core.knob_effects import NEEDS, with_effect, without_effect
from baton.core.sim.fleet_run.request import SimRequest, Span
from baton.core.sim.fleet_run.spec import Wires
from baton.core.sim.step_time.model import StepModel
from tests.support.fleets import at_times, fleet, kind, run

DECODE = kind(one=0.01, decodes=5e-4)
CARD = StepModel(prefill=kind(one=0.03, tokens=1e-4), decode=DECODE)
PROCESSOR = StepModel(prefill=kind(one=0.002, tokens=4e-4), decode=DECODE)
BOTH = (CARD, PROCESSOR)  #: executors whose steps of prompts share a cost, and those whose do not
WIRES = Wires(kv_bytes_per_s=2e5)
SMALL = {"token_budget": 256, "long_prefill_tokens": 192, "num_slots": 24, "growth_reserve": 16, "piece_bytes": 2048}
TOPOLOGY = {Role.UNIFIED: "1U", Role.PREFILL: "1P1D", Role.DECODE: "1P1D"}
#: what makes a mode: words, and the numbers that switch something off
MODES: dict[Role, dict[str, tuple[Any, ...]]] = {
    Role.UNIFIED: {
        "step_mode": STEP_MODES, "hold": HOLDS, "hold_fill": (0.5, 0.0), "protect": PROTECTIONS, "protect_steps": (4, 0)
    },
    Role.PREFILL: {"window": WINDOWS, "share_steps": SHARINGS},
    Role.DECODE: {"join_max_steps": (4, 0)},
}  # fmt: skip
WORDS = {"step_mode": STEP_MODES, "hold": HOLDS, "protect": PROTECTIONS, "window": WINDOWS, "share_steps": SHARINGS}
#: the ends first: what they do not change nothing changes
NUMBERS: dict[type, tuple[Any, ...]] = {int: (0, 1 << 20, 1, 2, 12, 64), float: (0.0, 1e5, 0.002, 0.1, 1.0, 20.0)}
SLOT_BYTES = 16  #: of one plane, in the fleets of this test
#: these act when a process, a link or a write fails, or on what routers are told besides tokens: no step shows them
NOT_SEEN = {"quarantine_blocks", "holding_interval_s", "router_silence_s"}


def load(role: Role) -> tuple[list[SimRequest], list[float]]:
    """Prompts and when they come: short and long, alone and in bursts, some wholly cached, more than blocks hold."""
    rng, requests, times = Random(7), [], [0.0]

    def come(length: int, answer: int, spans: tuple[Span, ...], after_s: float) -> None:
        index = len(requests)
        requests.append(SimRequest(index=index, num_input_tokens=length, num_output_tokens=answer, spans=spans))
        times.append(times[-1] + after_s)

    for _ in range(50 if role is not Role.DECODE else 0):  # so many make an executor expect the next one soon
        come(20, 1, (), 0.001)
    for number in range(30):
        is_shared = rng.random() < 0.4
        length = 64 if is_shared else rng.choice((20, 150, 220, 620))
        spans = (Span(1 + number % 3, 1, 64),) if is_shared else ()
        come(length, rng.choice((2, 15, 40)), spans, rng.choice((0.0, 0.0, 0.005, 0.03, 0.1)))
    for _ in range(5):  # beside long answers, after their protection is over: a short one, and one beside a rest
        come(20, 60, (), 0.2)
        come(236, 60, (), 0.2)
        come(20, 15, (), 0.04)
    for _ in range(3):  # a long prefix that nobody has, asked for again while it is computed and sent
        come(340, 3, (Span(9, 1, 320),), 0.04)
    return requests, times[1:]


@cache
def seen(role: Role, config: ExecutorConfig, steps: StepModel) -> tuple[Any, ...]:
    """What one fleet does under the load, if its executors of this role are so."""
    spec = fleet(TOPOLOGY[role], steps, num_blocks=160, wires=WIRES, placement="predicted", **SMALL)
    groups = [replace(group, config=config) if group.role is role else group for group in spec.groups]
    requests, times = load(role)
    done = run(replace(spec, groups=tuple(groups)), requests, at_times(requests, times))
    computed = [step._replace(lane=0) for step in done.recorder.steps]  # wherever that is
    return computed, done.recorder.pieces, done.facts


def modes(role: Role) -> Iterator[ExecutorConfig]:
    """Each in which every word and number that makes it has an effect."""
    base, words = with_effect(ExecutorConfig(**SMALL), role), MODES[role]
    for values in product(*words.values()):
        mode = replace(base, **dict(zip(words, values, strict=True)))
        if not without_effect(mode, role):
            yield mode


def told(mode: ExecutorConfig, role: Role) -> dict[tuple[str, bool], list[ExecutorConfig]]:
    """By knob and whether that is refused, the mode with it told otherwise, as far as nothing else is wrong with it."""
    found = defaultdict(list)
    for field in fields(mode):
        if field.name in NOT_SEEN:
            continue
        for value in WORDS.get(field.name) or NUMBERS.get(type(field.default), ()):
            config = replace(mode, **{field.name: value})
            if value in (getattr(mode, field.name), field.default) or not is_valid(config, role):
                continue
            why = without_effect(config, role)
            if not why or why.startswith(f"{field.name} = "):  # else another knob of the mode loses its effect
                found[field.name, bool(why)].append(config)
    return found


def is_valid(config: ExecutorConfig, role: Role) -> bool:
    try:
        config.validate()
    except ValueError:
        return False
    return config.piece_bytes >= SLOT_BYTES and (not role.runs_decode or config.num_slots <= config.token_budget)


def text_of(mode: ExecutorConfig, role: Role) -> str:
    return ", ".join(f"{word} = {getattr(mode, word)}" for word in MODES[role])


@pytest.mark.parametrize("role", TOPOLOGY, ids=lambda role: role.name)
def test_c12_a_knob_is_refused_exactly_where_it_changes_nothing(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "contradiction", lambda config, role: "")
    by_mode = {mode: told(mode, role) for mode in modes(role)}
    never = {knob for knob in NEEDS if all((knob, False) not in found for found in by_mode.values())}
    wrong = []
    for mode, found in by_mode.items():
        for (knob, is_refused), configs in found.items():
            tried = zip(cycle(configs), BOTH) if is_refused else product(configs, BOTH)
            changes = any(seen(role, config, steps) != seen(role, mode, steps) for config, steps in tried)
            if is_refused and changes:
                wrong.append(f"{knob} is refused and changes something: {text_of(mode, role)}")
            if not is_refused and not changes:
                wrong.append(f"{knob} is taken and changes nothing: {text_of(mode, role)}")
        for knob in never:  # what the role lacks it lacks in every mode: looked at in the first
            for others in by_mode.values():
                others.pop((knob, True), None)
    assert not wrong, "\n".join(wrong)
