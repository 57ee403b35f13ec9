"""The transfer thread of a simulated executor and what the bytes do, as measured on real transports.

- `cma`: the post is the copy. It blocks the transfer thread; a stopped writer goes on later, a dead one writes no more.
- `tcp`: the post is short; bytes land in order, in fragments, only while the receiver drives its agent. What a writer
  had already handed to its kernel when it died, closed its agent or saw an error goes on landing until the receiver
  closes its own agent for that peer.
- An error makes a connection worthless: every piece on it fails, TransportFailed follows, later posts fail at once.
- The first write of a pair is done only while the receiver drives, with both.
- Source memory is read when bytes leave, not when they are posted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from baton.core.config import ExecutorConfig
from baton.core.executor import events as e
from baton.core.sim.in_flight import InFlight
from baton.core.sim.memory import KvMemory
from baton.core.sim.process import Process, ThreadMailbox
from baton.core.sim.writes import Agent, Fabric, Fragment, WriteOp, land, settle

CLOSE_S = 5e-2  #: longest time to close an agent


class TransferThread:
    """One per executor process. Commands are jobs, taken one by one; a blocking post holds up all that come after."""

    def __init__(self, process: Process, memory: KvMemory, fabric: Fabric, config: ExecutorConfig) -> None:
        self.process = process
        self.memory = memory
        self.config = config
        self.num_failing_pieces = 0  #: fault: the next pieces end in an error
        self.num_failing_opens = 0  #: fault: the next OpenTransport fails
        self.num_failing_connects = 0  #: fault: the next ConnectTransport fails
        self.books = InFlight(process.env, process.life, fabric.layout, config)
        self._env = process.env
        self._fabric = fabric
        fabric.threads[process.life] = self
        self._mailbox = ThreadMailbox(process)
        self._agents: dict[tuple[str, int], Agent] = {}
        self._jobs: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_busy = False
        self._perform: dict[type, Callable[[Any], None]] = {
            e.OpenTransport: self._open,
            e.ConnectTransport: self._connect,
            e.CloseTransport: self._close,
            e.Drive: self._drive,
        }

    @property
    def is_idle(self) -> bool:
        return not self._is_busy and not self._jobs and not any(agent.ops for agent in self._agents.values())

    def driven(self) -> list[str]:
        """Peers whose agent burns CPU for progress."""
        return [f"{peer}/{epoch}" for (peer, epoch), agent in self._agents.items() if agent.is_driving]

    def forget_faults(self) -> None:
        self.num_failing_pieces = self.num_failing_opens = self.num_failing_connects = 0

    # ---- commands

    def take(self, command: Any) -> None:
        """A command of the machine reaches the thread."""
        if isinstance(command, e.Post):
            for piece in command.pieces:
                self.books.sent(piece)
                self._check_written(piece)
                self._check_receivers_bound((piece.peer, piece.peer_epoch))
                self._jobs.append((self._post, piece))
        else:
            if isinstance(command, e.CloseTransport) and self._env.random() < 0.5:
                self._drop_queued(command.peer, command.peer_epoch)
            self._jobs.append((self._perform[type(command)], command))
        self._work()

    def _check_written(self, piece: e.Piece) -> None:
        """What is sent has been said to be written."""
        device = self.process.device
        num_written = None if device is None else device.lanes.num_written(piece.source_block)
        if num_written is not None and piece.end_plane > num_written:
            text = f"{piece} of {self.process.identity}, of whose block {num_written} planes are known to be written"
            self._env.fail("nothing is sent before it is written", text)

    def _check_receivers_bound(self, key: tuple[str, int]) -> None:
        """What all writers have on its way to one receiver stays within that one's window."""
        receiver = self._fabric.threads.get(key)
        if receiver is None:
            return
        total = sum([thread.books.bytes_to(key) for thread in self._fabric.threads.values() if thread.process.is_alive])
        if total > receiver.config.window_bytes:
            self._env.fail("window", f"{total} bytes on their way to {key}, window {receiver.config.window_bytes}")

    def _work(self) -> None:
        while self._jobs and not self._is_busy:
            call, argument = self._jobs.popleft()
            call(argument)

    def _resume(self) -> None:
        self._is_busy = False
        self._work()

    def _drop_queued(self, peer: str, peer_epoch: int) -> None:
        """A close is seen before the posts that still wait in the thread's queue."""
        kept: deque[tuple[Callable[[Any], None], Any]] = deque()
        for call, argument in self._jobs:
            if isinstance(argument, e.Piece) and (argument.peer, argument.peer_epoch) == (peer, peer_epoch):
                self._mailbox.post(e.PieceFailed(argument.piece_id, "never posted"))
            else:
                kept.append((call, argument))
        self._jobs = kept

    # ---- agents

    def _open(self, command: e.OpenTransport) -> None:
        key = (command.peer, command.peer_epoch)
        self.books.opens(key)
        if key in self._agents:
            self._env.fail("one agent for each peer", f"{self.process.identity} opens {key} twice")
        if self.num_failing_opens:
            self.num_failing_opens -= 1
            self._mailbox.post(e.TransportFailed(*key, "injected"))
            return
        agent = Agent(self.process, command.peer, command.peer_epoch, len(self._fabric.agents))
        self._agents[key] = self._fabric.agents[agent.metadata] = agent
        self._mailbox.post(e.TransportOpened(*key, agent.metadata, agent.base_address), self._env.random() * 5e-3)

    def _connect(self, command: e.ConnectTransport) -> None:
        key = (command.peer, command.peer_epoch)
        agent = self._agents.get(key)
        remote = self._fabric.agents.get(command.metadata)
        if agent is None or remote is None:
            self._env.fail("connect what was opened", f"{self.process.identity}: {command}")
            return
        wrong = remote.base_address != command.base_address or remote.process.life != key
        other = remote.process.memory
        if wrong or (remote.peer, remote.peer_epoch) != self.process.life:
            self._env.fail("metadata of the pair", f"{self.process.identity}: {command}, agent of {remote.peer}")
        if other is not None and other.num_blocks != command.num_blocks:
            self._env.fail("metadata of the pair", f"{command.num_blocks} blocks of {other.num_blocks}")
        if self.num_failing_connects or not remote.is_reachable:
            self.num_failing_connects = max(0, self.num_failing_connects - 1)
            self._mailbox.post(e.TransportFailed(*key, "no connection"), self._env.random() * 2e-2)
            return

        def land() -> None:
            if agent.is_open and self.process.is_alive:
                if remote.is_reachable:
                    agent.remote = remote
                    self._mailbox.post(e.TransportConnected(*key), self._env.random() * 1e-2)
                else:
                    self._mailbox.post(e.TransportFailed(*key, "the peer closed"))

        remote.knocking.append(land)
        self._answer_knocks(remote)

    def _drive(self, command: e.Drive) -> None:
        agent = self._agents.get((command.peer, command.peer_epoch))
        if agent is None:
            return
        agent.is_driving = command.on
        self._answer_knocks(agent)
        self.pump(agent)

    def _answer_knocks(self, agent: Agent) -> None:
        if agent.is_driving or not agent.is_reachable:
            knocking, agent.knocking = agent.knocking, []
            for land in knocking:
                self._env.time.after(self._env.random() * 5e-3, land)

    def _close(self, command: e.CloseTransport) -> None:
        """Takes its time beside the thread's other work: until then what is under way goes on."""
        agent = self._agents.get((command.peer, command.peer_epoch))
        if agent is None:
            self._mailbox.post(e.TransportClosed(command.peer, command.peer_epoch))
        elif not agent.is_closing:
            agent.is_closing = True
            self._env.time.after(self._env.random() * CLOSE_S, self.process.run, self._closed, agent)

    def _closed(self, agent: Agent) -> None:
        """As writer, its open pieces are failed; as receiver, nothing lands through it any more."""
        del self._agents[agent.peer, agent.peer_epoch]
        self._shut(agent)
        self._fail_ops(agent, "the agent was closed", 0.0)
        self._mailbox.post(e.TransportClosed(agent.peer, agent.peer_epoch))

    def _shut(self, agent: Agent) -> None:
        """As receiver: what has not landed never will; the writer learns it at its next post or poll."""
        agent.is_open = False
        agent.is_driving = False
        self._answer_knocks(agent)
        fragments, agent.inbound = list(agent.inbound), deque()
        for op in dict.fromkeys(fragment.op for fragment in fragments):
            settle(op)
            if not op.is_reported:
                op.writer.process.transfer_of().break_agent(op.writer, "the peer closed")

    def break_agent(self, agent: Agent, detail: str) -> None:
        """As writer: an error was seen on this connection."""
        if agent.is_broken or not agent.is_open or not self.process.is_alive:
            return
        agent.is_broken = True
        self._fail_ops(agent, detail, self._env.random() * 2e-2)
        if not agent.is_closing:
            self._mailbox.post(e.TransportFailed(agent.peer, agent.peer_epoch, detail))

    def _fail_ops(self, agent: Agent, detail: str, delay_s: float) -> None:
        for op in list(agent.ops.values()):
            op.is_reported = True
            self._orphan(op)
            self._mailbox.post(e.PieceFailed(op.piece.piece_id, detail), delay_s)
        agent.ops.clear()

    # ---- writing

    def _post(self, piece: e.Piece) -> None:
        agent = self._agents.get((piece.peer, piece.peer_epoch))
        if agent is None or agent.remote is None or agent.is_broken or agent.is_closing:
            self._mailbox.post(e.PieceFailed(piece.piece_id, "the post raised: no connection"))
            return
        if not agent.remote.is_reachable:
            self._mailbox.post(e.PieceFailed(piece.piece_id, "the post raised: no peer"))
            self.break_agent(agent, "the post raised")
            return
        fails_after = None
        if self.num_failing_pieces:
            self.num_failing_pieces -= 1
            self._env.counters["piece failed"] += 1
            if self._env.random() < 0.3:
                self._mailbox.post(e.PieceFailed(piece.piece_id, "refused before its post"))
                return
            fails_after = int(self._env.random() * 2)
        op = WriteOp(piece, agent, agent.remote)
        op.posted_at = self._env.time.now + self.process.clock_offset_s
        self._check_destination(op)
        op.fragments = self._cut(op)
        if fails_after is not None:
            op.fails_after = min(fails_after, len(op.fragments) - 1)
        agent.ops[piece.piece_id] = op
        self.memory.num_outgoing[piece.source_block] += 1
        if self._fabric.kind == "cma":
            self._is_busy = True
            self._copy_next(op, 0)
        else:
            op.receiver.inbound.extend(op.fragments)
            op.receiver.process.transfer_of().pump(op.receiver)

    def _check_destination(self, op: WriteOp) -> None:
        memory = op.receiver.process.memory
        assert memory is not None
        block = op.piece.destination_block
        if memory.grantees[block] != self.process.life:
            self._env.fail(
                "writes only what was granted",
                f"{self.process.identity} writes block {block} of {op.receiver.process.identity}, which is granted to"
                f" {memory.grantees[block]}",
            )
        op.landing_life = memory.lives[block]
        memory.num_incoming[block] += 1

    def _cut(self, op: WriteOp) -> list[Fragment]:
        piece = op.piece
        first_slot, end_slot = piece.first_slot, piece.end_slot
        first_plane, end_plane = piece.first_plane, piece.end_plane
        ranges = [((first_slot, end_slot), (first_plane, end_plane))]
        if end_plane - first_plane > 1 and self._env.random() < 0.5:
            middle = (first_plane + end_plane) // 2
            ranges = [((first_slot, end_slot), (first_plane, middle)), ((first_slot, end_slot), (middle, end_plane))]
        elif end_slot - first_slot > 1 and self._env.random() < 0.5:
            cut = (first_slot + end_slot) // 2
            ranges = [((first_slot, cut), (first_plane, end_plane)), ((cut, end_slot), (first_plane, end_plane))]
        return [Fragment(op, slots, planes) for slots, planes in ranges]

    def _copy_next(self, op: WriteOp, index: int) -> None:
        """cma: the thread copies fragment by fragment inside the post."""
        if op.is_settled:
            self._resume()
            return
        if index == op.fails_after or not op.receiver.process.is_alive:
            self.break_agent(op.writer, "the post raised")
            self._resume()
            return
        if index == len(op.fragments):
            self._finish(op)
            self._resume()
            return
        fragment = op.fragments[index]
        slots, planes = fragment.slots, fragment.planes
        num_bytes = (slots[1] - slots[0]) * (planes[1] - planes[0]) * self._fabric.layout.slot_bytes
        delay_s = num_bytes / self._fabric.bytes_per_s * (0.5 + self._env.random())
        self._env.time.after(delay_s, self.process.run, self._copied, op, index)

    def _copied(self, op: WriteOp, index: int) -> None:
        if not op.is_settled and op.receiver.process.is_alive:
            land(op.fragments[index], self._env.fail)
        self._copy_next(op, index + 1)

    def _finish(self, op: WriteOp) -> None:
        """The handle reached DONE; the thread sees it at its next poll."""
        settle(op)
        if not op.is_reported:
            op.is_reported = True
            op.writer.ops.pop(op.piece.piece_id, None)
            self._mailbox.post(e.PieceLanded(op.piece.piece_id, 1e-5, op.posted_at), self._env.random() * 3e-4)

    # ---- receiving (tcp)

    def pump(self, agent: Agent) -> None:
        if agent.is_pumping or not agent.is_driving or not agent.inbound:
            return
        agent.is_pumping = True
        delay_s = self._fabric.fragment_s * (0.2 + self._env.random())
        self._env.time.after(delay_s, self.process.run, self._pumped, agent)

    def _pumped(self, agent: Agent) -> None:
        agent.is_pumping = False
        if not agent.is_driving or not agent.inbound:
            return
        fragment = agent.inbound[0]
        op = fragment.op
        if op.is_settled:
            agent.inbound.popleft()
        elif fragment.words is None and op.writer.process.is_stopped:
            self._env.time.after(1e-2, self.process.run, self.pump, agent)  # nothing comes from a stopped writer
            return
        else:
            agent.inbound.popleft()
            self._land_inbound(fragment)
        self.pump(agent)

    def _land_inbound(self, fragment: Fragment) -> None:
        op = fragment.op
        thread = op.writer.process.transfer_of()
        if op.num_landed == op.fails_after and not op.is_reported:
            op.writer.process.run(thread.break_agent, op.writer, "injected")
        if op.is_settled:
            return
        land(fragment, self._env.fail)
        if op.num_landed < len(op.fragments):
            return
        if op.is_reported:
            settle(op)
            self._env.counters["write outlives its error"] += 1
        else:
            op.writer.process.run(thread._finish, op)
            settle(op)

    # ---- the end of a life

    def die(self) -> None:
        """This process is dead: see the module for what its bytes do now."""
        self._jobs.clear()
        for agent in self._agents.values():
            self._shut(agent)
            for op in list(agent.ops.values()):
                op.is_reported = True
                self._orphan(op)
            agent.ops.clear()

    def _orphan(self, op: WriteOp) -> None:
        """Nobody at the writer waits for it any more. What its kernel already has goes on; the rest is gone."""
        waiting = [fragment for fragment in op.receiver.inbound if fragment.op is op]
        kept = waiting[: int(self._env.random() * (1 + len(waiting)))] if op.receiver.is_reachable else []
        for fragment in kept:
            fragment.words = self.memory.cut(op.piece.source_block, fragment.slots, fragment.planes)
        if len(kept) < len(waiting):
            op.receiver.inbound = deque(f for f in op.receiver.inbound if f.op is not op or f in kept)
            op.fragments = [f for f in op.fragments if f not in waiting or f in kept]
        if not kept:
            settle(op)
            return
        # its source is free from here on: the bytes have left it
        self.memory.num_outgoing[op.piece.source_block] -= 1
        op.has_left = True
        self._env.counters["write outlives its writer"] += 1
