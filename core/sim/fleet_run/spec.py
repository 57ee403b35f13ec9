"""A fleet as data: which executors, what each takes for a step and can hold, their knobs, the wires between them."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.errors import ServingError
from baton.core.ids import Role
from baton.core.layout import KvLayout
from baton.core.sim.step_time.profile import Profile

ROLES = {"P": Role.PREFILL, "D": Role.DECODE, "U": Role.UNIFIED}
MAX_EXECUTORS = 1024

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class BadTopology(ServingError):
    """The text is no topology such as 6P2D, 4U or 1P1D+2U."""


def parse_topology(text: str) -> tuple[tuple[Role, int], ...]:
    """(role, how many), in the order of the text. Raises BadTopology."""
    plain = text.upper().replace("+", "").replace(" ", "")
    found = re.findall(r"(\d+)([PDU])", plain)
    if not found or "".join(count + role for count, role in found) != plain:
        raise BadTopology(f"topology: {text!r} is none such as 6P2D, 4U or 1P1D+2U")
    groups = tuple((ROLES[role], int(count)) for count, role in found)
    roles = [role for role, _ in groups]
    if len(set(roles)) < len(roles) or not 0 < sum(count for _, count in groups) <= MAX_EXECUTORS:
        raise BadTopology(f"topology: {text!r}: each kind once, 1 to {MAX_EXECUTORS} executors in all")
    counts = {role: count for role, count in groups if count}
    if (Role.PREFILL in counts) != (Role.DECODE in counts):
        raise BadTopology(f"topology: {text!r}: prefill and decode executors need each other")
    return tuple(counts.items())


class Wires(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Links and KV transport. Each executor has one port, whose rate all that leaves shares, and all that comes."""

    latency_s: Seconds = 1e-4  #: of a control message
    kv_bytes_per_s: Rate = 25e9  #: of KV, per port and direction
    kv_setup_s: Seconds = 1e-3  #: from the post of KV to its landing, beyond its bytes
    poll_s: Seconds = 2e-4  #: landings within so long are told together
    turn_s: Seconds = 0.0  #: how long a loop is occupied by one turn
    notice_s: Seconds = 0.0  #: from a step's end until the loop hears of it
    intake_s: Seconds = (
        0.0  #: HTTP and tokenization: from a request's sending until the router has it
    )


class ExecutorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Executors of one role, all alike."""

    role: Role
    count: int
    profile: Profile
    config: ExecutorConfig
    num_blocks: int  #: of its pool


class FleetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a run but its load and its seed."""

    groups: tuple[ExecutorGroup, ...]
    layout: KvLayout
    max_model_len: int
    scheduler: SchedulerConfig = SchedulerConfig()
    router: RouterConfig = RouterConfig()
    wires: Wires = Wires()
    num_routers: int = 1
    timeout_s: float = 3600.0  #: of each request
    heartbeat_s: float = 10.0
    silence_s: float = 35.0
    tells_progress: bool = False  #: prefill executors' devices, of a step's KV before the step ends
    one_machine: bool = False  #: all executors: their steps slow each other down as their profiles say

    @property
    def num_sessions(self) -> int:
        """Links between two processes each of which is kept alive by heartbeats."""
        counts = {group.role: group.count for group in self.groups}
        executors = sum(counts.values())
        pairs = counts.get(Role.PREFILL, 0) * counts.get(Role.DECODE, 0)
        return executors + self.num_routers + self.num_routers * executors + pairs

    @property
    def block_size(self) -> int:
        return self.layout.block_size

    def names(self) -> list[tuple[str, ExecutorGroup]]:
        """Each executor's name and group."""
        return [
            (f"{group.role.name.lower()}-{number}", group) for group in self.groups for number in range(group.count)
        ]
