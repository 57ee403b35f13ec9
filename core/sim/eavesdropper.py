"""Listens to what executors say on the wire, and keeps what the world needs to judge: write grants and credit.

It knows messages, not machines: a block that a decode executor names in a Receive may be written by that prefill
executor, and by nobody else; the free credit of a process at rest is what it granted at its start; a decode executor is
told to compute only the prompts that the rule of placement leaves to it.
"""

from __future__ import annotations

import re
from typing import Any

from baton.core.errors import BadMessage
from baton.core.events import ConnectLink, Several
from baton.core.ids import Life, Role
from baton.core.session.node import FrameArrived
from baton.core.sim.device import unpack
from baton.core.sim.env import Env
from baton.core.sim.oracle import START_UP_S
from baton.core.sim.process import Process
from baton.core.sim.scenario import Scenario
from baton.core.wire import frames as f
from baton.core.wire.codec import decode_message
from baton.core.wire.messages import ExecutorInventory, Receive, Run


class Eavesdropper:
    """See the module."""

    def __init__(self, env: Env, scenario: Scenario, fault_kinds: set[str]) -> None:
        self._env = env
        self._rule = scenario.scheduler
        self._has_pairs = any(spec.role is Role.PREFILL for spec in scenario.executors)
        self._fault_kinds = fault_kinds  #: what has gone wrong so far
        self._transfers: set[tuple[Life, int]] = set()  #: grants that were seen: a repeated one changes nothing
        self.first_credit: dict[Life, tuple[int, int]] = {}  #: blocks and slots of each life's first inventory
        self.last_inventory: dict[Life, ExecutorInventory] = {}
        self.wants_inventories = False

    def hear(self, process: Process, event: FrameArrived) -> None:
        """A frame reaches a process: what the scheduler tells an executor that decodes for others."""
        if process.role is not Role.DECODE or event.link != "scheduler":
            return
        try:
            messages = _messages(event.data, Role.SCHEDULER, process.role)
        except BadMessage:
            return  # spoiled on its way
        for message in messages:
            if isinstance(message, Run):
                self._check_rule(process, message)

    def _check_rule(self, process: Process, message: Run) -> None:
        """By the fixed rule only what no prefill executor is there for; by the strict one not even that."""
        self._env.counters["prompts computed where they decode"] += 1
        rule = self._rule
        may_fall_back = not rule.strict_pd and (self._env.time.now < START_UP_S or bool(self._fault_kinds))
        if rule.placement == "always_pd" and self._has_pairs and not may_fall_back:
            self._env.fail("prompts are computed where the rule says", f"{process.identity}: {message.id}, {rule}")

    def listen(self, process: Process, link: str, data: bytes) -> None:
        """An executor hands these bytes to its socket."""
        accepted = process.accepted.get(link)
        if accepted is not None:
            if accepted.dialer.role is Role.PREFILL:
                self._listen_to_decode(process, accepted.dialer, data)
        elif link == "scheduler" and (self.wants_inventories or process.life not in self.first_credit):
            self._listen_to_credit(process, data)

    def _listen_to_decode(self, process: Process, writer: Process, data: bytes) -> None:
        for message in _messages(data, process.role, Role.PREFILL):
            if isinstance(message, Receive):
                self._grant(process, writer, message)

    def _grant(self, process: Process, writer: Process, message: Receive) -> None:
        """The blocks must be free of writers; what they held is nobody's any more."""
        memory = process.memory
        assert memory is not None
        thread = writer.transfer_of()
        window = min(message.window_bytes, thread.config.window_bytes)  # a smaller one counts once it is heard, if ever
        windows = thread.books.windows
        windows[process.life] = max(window, windows.get(process.life, 0))
        key = (process.life, message.transfer_id)
        if key in self._transfers:
            return
        self._transfers.add(key)
        self._env.counters["transfers granted"] += 1
        for block in unpack(message.block_ids):
            if memory.num_incoming[block]:
                self._env.fail(
                    "proof before reuse",
                    f"{process.identity} grants block {block} to transfer {message.transfer_id}: it is being written",
                )
            memory.grantees[block] = writer.life
            memory.lives[block] += 1
            memory.poison(block, 0, memory.block_size, f"granted to transfer {message.transfer_id}")

    def _listen_to_credit(self, process: Process, data: bytes) -> None:
        for message in _messages(data, process.role, Role.SCHEDULER):
            if isinstance(message, ExecutorInventory):
                self.first_credit.setdefault(process.life, (message.num_blocks, message.num_slots))
                self.last_inventory[process.life] = message

    def describe(self, process: Process, event: Any) -> str:
        """An event as one line of a story."""
        if isinstance(event, FrameArrived):
            try:
                return self._describe_frame(process, event)
            except BadMessage as error:
                return f"{event.link}: {error}"
        if isinstance(event, Several):
            return " + ".join([self.describe(process, one) for one in event.events])
        if isinstance(event, ConnectLink):
            return f"ConnectLink {event.peer.name}"
        return _brief(event)

    def _describe_frame(self, process: Process, event: FrameArrived) -> str:
        frame = f.decode_frame(event.data)
        if not isinstance(frame, f.Data):
            return f"{event.link}: {type(frame).__name__} {getattr(frame, 'num_sent', '')}"
        connection = process.accepted.get(event.link) or process.dialed.get(event.link)
        if connection is None:
            return f"{event.link}: Data"
        other = connection.dialer if connection.acceptor is process else connection.acceptor
        if other is None:
            return f"{event.link}: Data {frame.number}"
        said = "; ".join([_brief(decode_message(body, other.role, process.role)) for body in frame.bodies])
        return f"{event.link}: {said}"


_BYTES = re.compile(r"""b(["'])(?:\\.|(?!\1).)*\1""")
_PLAIN = re.compile(
    r"(temperature|top_k|top_p|min_p|\w+_penalty|ignore_eos|logit_bias|num_logprobs|layout_fingerprint|logprobs)"
    r"=[^ )]*,? ?"
)


def _brief(value: Any) -> str:
    """Without long bytes and what hardly ever matters."""
    return _PLAIN.sub("", _BYTES.sub("b''", str(value)))[:600]


def _messages(data: bytes, sender: Role, receiver: Role) -> list[Any]:
    frame = f.decode_frame(data)
    return [decode_message(body, sender, receiver) for body in frame.bodies] if isinstance(frame, f.Data) else []
