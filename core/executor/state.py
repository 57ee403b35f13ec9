"""The state of one executor's machine, owned by the machine and passed to the modules that decide on parts of it."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, NamedTuple

from baton.core.config import ExecutorConfig
from baton.core.deadlines import Deadlines
from baton.core.events import Send
from baton.core.executor.arrivals import Arrivals
from baton.core.executor.bandwidth import TransferPace
from baton.core.executor.gate_state import Gate
from baton.core.executor.joining import Joining
from baton.core.executor.marks import Marks, Stage
from baton.core.executor.memory import Memory
from baton.core.executor.outbox import Outbox
from baton.core.executor.pace import StepPace
from baton.core.executor.sequence import Sequence, SequenceGroup
from baton.core.executor.steps import CopyBlock, StepPlan
from baton.core.executor.transfers import Incoming, Outgoing, Sharer, Transport
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.kv.ready_queue import ReadyQueue
from baton.core.layout import KvLayout
from baton.core.metrics.histogram import SHORT_TIMES_S, TIMES_S, Histogram
from baton.core.wire.messages import Receive


class PendingCopy:
    """A block copy that goes with the next launched step that decodes or may; until then it owns the blocks of both
    sequences."""

    __slots__ = ("copy", "destination", "source")

    def __init__(self, copy: CopyBlock, source: Sequence, destination: Sequence) -> None:
        self.copy = copy
        self.source = source
        self.destination = destination


class EarlyReceive(NamedTuple):
    """A Receive that overtook its Prefill."""

    peer: Peer
    message: Receive
    expires_at: float  #: what has not come by then was lost with its scheduler, or has ended here already


class LaunchedStep:
    """A step that is with the device. It owns the blocks of `owned` until its completion is proven."""

    __slots__ = (
        "borrowed", "decodes", "num_activated", "num_prompt_tokens", "num_samples", "owned", "plan", "prompts",
    )  # fmt: skip

    def __init__(
        self,
        plan: StepPlan,
        decodes: list[Sequence],
        prompts: list[Sequence],
        owned: list[Sequence],
        borrowed: list[bytes],
        num_activated: int,
        num_prompt_tokens: int,
        num_samples: int,
    ) -> None:
        self.plan = plan
        self.decodes = decodes  #: as the plan names them
        self.prompts = prompts  #: one for each item of the plan
        self.owned = owned  #: sequences with one owner count for each mention
        self.borrowed = borrowed  #: block ids held only for a copy of this step
        self.num_activated = num_activated  #: decodes of which it is the first
        self.num_prompt_tokens = num_prompt_tokens  #: that the items compute
        self.num_samples = num_samples  #: tokens that it gives

    @property
    def num_decodes(self) -> int:
        return len(self.decodes)

    @property
    def sequences(self) -> list[Sequence]:
        return [*self.decodes, *self.prompts]

    @property
    def kind(self) -> str:
        """By what counters name it."""
        if not self.prompts:
            return "decode"
        return "mixed" if self.decodes else "prefill"


def _histograms(role: Role) -> dict[str, Histogram]:
    """How long attempts stay between two of their stages on this executor (see `marks`)."""
    found = {"admitted_to_first_token_seconds": Histogram(TIMES_S)}
    if role is Role.PREFILL:
        found |= {
            "computed_to_commit_seconds": Histogram(SHORT_TIMES_S),
            "computed_to_landed_seconds": Histogram(SHORT_TIMES_S),
            "last_post_seconds": Histogram(SHORT_TIMES_S),
        }
    if role is Role.DECODE:
        found |= {
            "landed_to_activated_seconds": Histogram(SHORT_TIMES_S),
            "landed_to_scheduled_seconds": Histogram(SHORT_TIMES_S),
            "landed_to_scheduled_steps": Histogram((0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)),
            "admitted_to_first_token_seconds": Histogram(TIMES_S),  # of prompts that it computes itself
        }
    return found


class ExecutorState:
    """Everything that the executor's machine knows. `out` collects the commands of the current turn, in order."""

    def __init__(self, own: Peer, layout: KvLayout, config: ExecutorConfig, hash_key: bytes) -> None:
        if own.capacity is None:
            raise ValueError("an executor needs a capacity")
        self.own = own
        self.layout = layout
        self.config = config
        self.hash_key = hash_key
        self.now = 0.0
        self.out: list[Any] = []
        self.memory = Memory(own.capacity.num_blocks, config.num_slots, own.capacity.num_spare_blocks)
        self.queue = ReadyQueue()  #: sequences with prompt tokens to schedule; handle = seq_id
        self.groups: dict[AttemptId, SequenceGroup] = {}  #: until all sequences have ended
        self.sequences: dict[int, Sequence] = {}  #: until their blocks are released
        self.gate = Gate(own.role.runs_decode and config.step_mode == "alternate")
        self.joining = Joining()  #: sequences whose KV has landed and that do not decode yet
        self.running: dict[int, Sequence] = {}  #: sequences that decode, oldest activation first
        self.batch: list[Sequence] = []  #: that decode in the last launched step that has decodes
        self.batch_ids: tuple[int, ...] = ()  #: their seq_ids
        self.lanes: list[deque[LaunchedStep]] = [deque() for _ in range(config.num_lanes)]
        self.copies: list[PendingCopy] = []
        self.dropped: list[int] = []  #: seq_ids that the device is to forget with the next plan; no step names them
        self.outbox = Outbox()
        self.transports: dict[Life, Transport] = {}
        self.incoming: dict[int, Incoming] = {}  #: receiving end: by transfer id, until closed
        self.arrivals: dict[Life, Arrivals] = {}  #: the same, by their writer
        self.arriving: dict[bytes, Incoming] = {}  #: receiving end: hash of a block → the open transfer that brings it
        self.sharers: dict[AttemptId, Sharer] = {}  #: receiving end: who waits for blocks of another's transfer
        self.outgoing: dict[tuple[Life, int], Outgoing] = {}  #: writing end: until closed
        self.pieces: dict[int, Outgoing] = {}  #: pieces with the transfer thread
        self.early: dict[AttemptId, EarlyReceive] = {}  #: writing end: Receives whose Prefill has not come yet
        self.scheduler: Peer | None = None  #: while its session is up
        self.routers: dict[str, Peer] = {}  #: whose session is up
        self.router_left_at: dict[Life, float] = {}  #: routers with attempts here whose session is down
        self.peers: dict[str, Peer] = {}  #: executors whose session is up
        self.published = bytearray()  #: hashes to tell the scheduler
        self.num_prompt_tokens_done = 0  #: to tell the scheduler
        self.parked_tokens = 0  #: computed prompt tokens whose transfer is not over
        self.posted_bytes = 0  #: posted and not landed, over all peers
        self.pace = StepPace()  #: what its steps were measured to cost
        self.transfer_pace = TransferPace()  #: writing end: what its pieces were measured to cost
        self.histograms = _histograms(own.role)  #: by name, for `/metrics`
        self.deadlines: Deadlines[AttemptId] = Deadlines()
        self.reclaiming = False  #: a Reclaim is unanswered
        self.reclaim_in_vain = False  #: nothing was returned, placed or granted since the last one was sent
        self.draining = False
        self.stopped = False  #: Exit was commanded
        self.counters: Counter[str] = Counter()
        self.broken: set[Life] = set()  #: writing end: peers to whom a write did not reach DONE
        self.num_agents = 0  #: opened so far
        self._next_seq_id = 0
        self._next_transfer_id = 0
        self._next_piece_id = 0
        self._next_step_id = 0

    @property
    def steps(self) -> list[LaunchedStep]:
        """With the device, in all lanes, in the order of their launch."""
        if not self.overlaps:
            return list(self.lanes[0])
        return sorted([step for lane in self.lanes for step in lane], key=lambda step: step.plan.step_id)

    @property
    def shares_by_cost(self) -> bool:
        """Whether prompts share a step only where that gains something (C15)."""
        return self.own.role is Role.PREFILL and self.config.share_steps == "adaptive"

    @property
    def overlaps(self) -> bool:
        """Whether steps of prompts have a lane of their own, beside that of decodes."""
        return len(self.lanes) > 1

    def note_demand(self, sequence: Sequence) -> None:
        """Where the ready queue looks for it: 1 for what yields to parked prompts, 0 for what may always go."""
        if sequence.seq_id in self.queue:
            self.queue.set_demand(sequence.seq_id, int(sequence.yields_to_parked), 0)

    def note_time(self, name: str, marks: Marks, earlier: Stage, later: Stage) -> None:
        """Count how long it took from one stage to the other, if it passed both here."""
        lasted_s = marks.between(earlier, later)
        if lasted_s is not None:
            self.histograms[name].observe(lasted_s)

    def enter_queue(self, sequence: Sequence) -> None:
        """Its prompt is to be computed here, in the order of its attempt."""
        order, marks = sequence.group.order, sequence.group.marks
        self.queue.push(sequence.seq_id, order.priority_class, order.virtual_start, order.arrival, 0, 0)
        self.gate.arrived(sequence.seq_id, marks.at["admitted"] - sequence.group.waited_s, self.now)
        self.note_demand(sequence)

    def leave_queue(self, seq_id: int) -> None:
        """Nothing of its prompt is to be launched any more. Harmless for what is not there."""
        self.queue.remove(seq_id)
        self.gate.left(seq_id)

    def next_seq_id(self) -> int:
        self._next_seq_id += 1
        return self._next_seq_id

    def next_transfer_id(self) -> int:
        self._next_transfer_id += 1
        return self._next_transfer_id

    def next_piece_id(self) -> int:
        self._next_piece_id += 1
        return self._next_piece_id

    def next_step_id(self) -> int:
        self._next_step_id += 1
        return self._next_step_id

    def tell_scheduler(self, message: Any) -> None:
        """Said only in a session; the next one starts with this executor's inventory."""
        if self.scheduler is not None:
            self.out.append(Send(self.scheduler.name, message))

    def tell(self, life: Life, message: Any) -> None:
        """Said only while that life's session is up."""
        peer = self.peers.get(life.name)
        if peer is not None and peer.epoch == life.epoch:
            self.out.append(Send(life.name, message))
