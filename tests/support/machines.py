"""One executor's machine on a bench: the test plays everyone else, and its books are checked after every event."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Any

from msgspec.structs import replace

from baton.core.config import ExecutorConfig
from baton.core.events import PeerDown, PeerUp, Received, Send
from baton.core.executor import events as ev
from baton.core.executor.machine import ExecutorCore
from baton.core.executor.steps import ItemResult, StepItem, StepPlan, StepResult
from baton.core.ids import AttemptId, Capacity, Life, Peer, Role
from baton.core.knob_effects import with_effect
from baton.core.kv.block_hash import hash_chain, root_hash
from baton.core.kv.demand import demand
from baton.core.layout import KvLayout
from baton.core.wire import messages as m
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores, SampledToken, TokenLogprobs, pack_scores

KEY = bytes(range(16))
LAYOUT = KvLayout(2, 1, 4, "float32", 4, "model", "tokenizer")  #: 4 tokens and 256 bytes a block, 16 bytes a slot
SCHEDULER = Peer("scheduler", Role.SCHEDULER, 1)
ROUTER = Peer("router", Role.ROUTER, 1)
MAX_MODEL_LEN = 4096

Token = Callable[[StepItem, int], int]


def an_executor(
    name: str,
    role: Role,
    *,
    epoch: int = 1,
    num_blocks: int = 64,
    num_slots: int = 16,
    token_budget: int = 64,
    growth_reserve: int = 8,
) -> Peer:
    """A peer with a small capacity, in blocks of four tokens."""
    capacity = Capacity(num_blocks, num_slots, LAYOUT.block_size, token_budget, MAX_MODEL_LEN, growth_reserve)
    return Peer(name, role, epoch, f"at-{name}", LAYOUT.fingerprint(), capacity)


def packed(tokens: Iterable[int]) -> bytes:
    return array("i", tokens).tobytes()


def unpacked(data: bytes) -> list[int]:
    return list(memoryview(data).cast("i"))


def prompt(num_tokens: int, seed: int = 0) -> list[int]:
    """Tokens that share no block with another seed's."""
    return [seed * 10_000 + position for position in range(num_tokens)]


def root_of(layout: KvLayout = LAYOUT, salt: bytes = b"") -> bytes:
    return root_hash(KEY, layout.fingerprint(), salt, b"")


def work(
    tokens: list[int],
    max_tokens: int = 8,
    *,
    prior: int = 0,
    salt: bytes = b"",
    num_choices: int = 1,
    first_choice: int = 0,
    stop: tuple[int, ...] = (),
    layout: KvLayout = LAYOUT,
    router: Life = ROUTER.life,
    num_prompt_logprobs: int = -1,
) -> m.Work:
    """What a router asks for these tokens, the last `prior` of which are outputs of earlier attempts."""
    root = root_of(layout, salt)
    hashes = hash_chain(KEY, root, packed(tokens[: len(tokens) - prior]), layout.block_size)
    sampling = SamplingParams(max_tokens, temperature=0.0, stop_token_ids=stop, num_prompt_logprobs=num_prompt_logprobs)
    return m.Work(router, packed(tokens), len(tokens), prior, root, hashes, sampling, num_choices, first_choice)


def sampled(*tokens: int, choice: int = 0) -> tuple[SampledToken, ...]:
    return tuple(SampledToken(choice, token) for token in tokens)


def next_token(item: StepItem, choice: int) -> int:
    """A token that no prompt has."""
    return 1_000_000 + 100 * item.seq_id + choice


def scores_of(first: int, count: int) -> PromptScores:
    """What the bench's device says of the prompt tokens from position `first` on."""
    rows = (TokenLogprobs(-position / 4, (position,), (-position / 8,)) for position in range(first, first + count))
    return pack_scores(first, rows)


class CountingDevice:
    """Computes nothing, but counts as a device does where sequences decode. Plans are launched in their order."""

    def __init__(self) -> None:
        self.rows: dict[int, list[StepItem]] = {}  #: by step_id: what it computes, decodes as items too
        self._ends: dict[int, int] = {}  #: by sequence: positions that have KV after the last launched plan

    def launch(self, plan: StepPlan) -> None:
        for new in plan.new:
            self._ends[new.seq_id] = len(unpacked(new.tokens)) - 1
        blocks = {new.seq_id: new.new_block_ids for new in plan.new_blocks}
        decodes = [StepItem(seq_id, self._ends[seq_id], 1, 1, blocks.get(seq_id, b"")) for seq_id in plan.decodes]
        self.rows[plan.step_id] = rows = [*decodes, *plan.items]
        self._ends.update({row.seq_id: row.start + row.num_tokens for row in rows})

    def answer(
        self, plan: StepPlan, choices: dict[int, int], token: Token = next_token, failing: Container[int] = ()
    ) -> StepResult:
        """`choices`: by sequence, where it is not the first."""
        items = []
        decodes = self.rows[plan.step_id][: len(plan.decodes)]
        for item in plan.items:
            first = choices.get(item.seq_id, 0)
            tokens = (SampledToken(first + i, token(item, first + i)) for i in range(item.num_samples))
            scores = scores_of(item.start + 1, item.num_scores) if item.num_scores else None
            has_failed = item.num_samples > 0 and item.seq_id in failing
            items.append(ItemResult(item.seq_id, item.num_tokens, tuple(tokens), scores, has_failed))
        return StepResult(
            plan.step_id,
            tuple(items),
            0.01,
            decoded=tuple(token(row, choices.get(row.seq_id, 0)) for row in decodes),
            num_context=sum(row.start + 1 for row in decodes),
            grammar_failed=tuple(seq_id for seq_id in plan.decodes if seq_id in failing),
        )


class ExecutorRig:
    """An executor's machine; `steps` and `pieces` are what it handed to its threads and has not been answered."""

    def __init__(
        self, role: Role, layout: KvLayout = LAYOUT, num_blocks: int = 64, num_spare_blocks: int = 0, **knobs: Any
    ) -> None:
        small: dict[str, Any] = {"token_budget": 64, "num_slots": 16, "growth_reserve": 8, "long_prefill_tokens": 64}
        config = replace(with_effect(ExecutorConfig(**small), role), **knobs)
        capacity = Capacity(
            num_blocks=num_blocks,
            num_slots=config.num_slots,
            block_size=layout.block_size,
            token_budget=config.token_budget,
            max_model_len=MAX_MODEL_LEN,
            growth_reserve=config.growth_reserve,
            num_spare_blocks=num_spare_blocks,
        )
        self.own = Peer(role.name.lower(), role, 1, "here", layout.fingerprint(), capacity)
        self.layout = layout
        self.core = ExecutorCore(self.own, layout, config, KEY)
        self.now = 100.0
        self.steps: deque[StepPlan] = deque()
        self.pieces: deque[ev.Piece] = deque()
        self.transports: deque[Any] = deque()  #: unanswered OpenTransport, ConnectTransport, CloseTransport
        self.num_agents = 0
        self.turns: list[tuple[Any, float, list[Any]]] = []
        self._device = CountingDevice()
        self.num_orders = 0
        self.is_checked = True  #: off where a test has so many blocks that counting them takes all the time

    @property
    def state(self) -> Any:
        return self.core.state

    def do(self, event: Any, after_s: float = 0.0) -> list[Any]:
        """One turn of the machine, `after_s` later."""
        self.now += after_s
        out = self.core.handle(event, self.now)
        self.turns.append((event, self.now, out))
        for command in out:
            if isinstance(command, ev.Launch):
                self.steps.append(command.plan)
                self._device.launch(command.plan)
            elif isinstance(command, ev.Post):
                self.pieces.extend(command.pieces)
            elif isinstance(command, (ev.OpenTransport, ev.ConnectTransport, ev.CloseTransport)):
                self.transports.append(command)
        if self.is_checked and not self.state.stopped:
            self.core.check_invariants()
        return out

    # ---- peers

    def up(self, *peers: Peer) -> list[Any]:
        return [command for peer in peers for command in self.do(PeerUp(peer))]

    def down(self, peer: Peer) -> list[Any]:
        return self.do(PeerDown(peer, "silence"))

    def hear(self, peer: Peer, message: Any, after_s: float = 0.0) -> list[Any]:
        return self.do(Received(peer, message), after_s)

    # ---- the scheduler's words

    def demand(self, asked: m.Work) -> Any:
        reserve = self.core.state.config.growth_reserve
        return demand(asked.num_tokens, asked.max_new_tokens, asked.num_choices, reserve, self.layout.block_size)

    def order(self, priority_class: int = 0) -> m.Order:
        self.num_orders += 1
        return m.Order(priority_class, 0, self.num_orders)

    def run(self, number: int, asked: m.Work, *, attempt: int = 0, left_ms: int = 60_000, cls: int = 0) -> list[Any]:
        """Place an attempt that is prefilled and decoded here."""
        blocks = self.demand(asked).decode_blocks
        return self.hear(SCHEDULER, m.Run(AttemptId(number, attempt), asked, self.order(cls), blocks, left_ms))

    def prefill(self, number: int, asked: m.Work, *, attempt: int = 0, left_ms: int = 60_000) -> list[Any]:
        blocks = self.demand(asked).prefill_blocks
        message = m.Prefill(AttemptId(number, attempt), asked, self.order(), blocks, left_ms)
        return self.hear(SCHEDULER, message)

    def decode(self, number: int, asked: m.Work, by: Peer, *, attempt: int = 0, left_ms: int = 60_000) -> list[Any]:
        blocks = self.demand(asked).decode_blocks
        message = m.Decode(AttemptId(number, attempt), asked, self.order(), by.life, blocks, left_ms)
        return self.hear(SCHEDULER, message)

    def abort(self, number: int, attempt: int = 0) -> list[Any]:
        return self.hear(SCHEDULER, m.Abort(AttemptId(number, attempt)))

    # ---- the device's answers

    def step_done(self, token: Token = next_token, failing: Container[int] = (), duration_s: float = 0.01) -> list[Any]:
        """The oldest launched step is done; `token(item, choice)` is what it samples. The grammars of the sequences
        `failing` cannot go on."""
        result = self.answer(self.steps.popleft(), token, failing)
        return self.do(ev.StepDone(replace(result, duration_s=duration_s)))

    def answer(self, plan: StepPlan, token: Token = next_token, failing: Container[int] = ()) -> StepResult:
        """What a device reports for the plan, by its own count."""
        choices = {s.seq_id: s.choice for s in self.state.sequences.values()}
        return self._device.answer(plan, choices, token, failing)

    def rows(self, plan: StepPlan) -> list[StepItem]:
        """What the device computes for a plan that was launched, its decodes as items too."""
        return self._device.rows[plan.step_id]

    def finish_steps(self, token: Token = next_token, limit: int = 1000) -> list[Any]:
        """Answer launched steps until none is left; all commands."""
        out: list[Any] = []
        for _ in range(limit):
            if not self.steps:
                return out
            out += self.step_done(token)
        raise AssertionError(f"still busy after {limit} steps")

    # ---- the transfer thread's answers

    def piece_landed(self) -> list[Any]:
        return self.do(ev.PieceLanded(self.pieces.popleft().piece_id))

    def land_pieces(self) -> list[Any]:
        out: list[Any] = []
        while self.pieces:
            out += self.piece_landed()
        return out

    def answer_transport(self) -> list[Any]:
        """The transfer thread does the oldest thing that it was asked; a closed agent's pieces fail first."""
        command = self.transports.popleft()
        key = (command.peer, command.peer_epoch)
        if isinstance(command, ev.OpenTransport):
            self.num_agents += 1
            return self.do(ev.TransportOpened(*key, b"agent %d" % self.num_agents, 4096))
        if isinstance(command, ev.ConnectTransport):
            return self.do(ev.TransportConnected(*key))
        mine = [piece for piece in self.pieces if (piece.peer, piece.peer_epoch) == key]
        out = []
        for piece in mine:
            self.pieces.remove(piece)
            out += self.do(ev.PieceFailed(piece.piece_id, "its agent was closed"))
        return out + self.do(ev.TransportClosed(*key))

    def connect(self, peer: Peer) -> list[Any]:
        """Open the transport to a peer whose session is up, until chunks may move."""
        out = self.do(ev.TransportOpened(peer.name, peer.epoch, b"here", 0))
        if self.own.role is Role.PREFILL:
            out += self.hear(peer, m.TransportInfo(b"there", 4096, 64))
            return out + self.do(ev.TransportConnected(peer.name, peer.epoch))
        return out + self.hear(peer, m.TransportProven())

    # ---- what a test looks at

    def sequence_of(self, number: int, attempt: int = 0) -> Any:
        return self.state.groups[AttemptId(number, attempt)].first

    def books(self) -> dict[str, float]:
        """The gauges that are back at their start when nothing of any request is left."""
        names = ("blocks_free", "slots_used", "attempts", "sequences_held", "sequences_running", "sequences_waiting")
        names += ("steps_in_flight", "transfers_incoming", "transfers_outgoing", "transfer_bytes_in_flight")
        names += ("transfers_quarantined", "parked_tokens", "receives_early")
        gauges = self.core.gauges()
        return {name: gauges[name] for name in names}


def unified(**knobs: Any) -> ExecutorRig:
    """A unified executor in session with its scheduler and one router."""
    rig = ExecutorRig(Role.UNIFIED, **knobs)
    rig.up(SCHEDULER, ROUTER)
    return rig


D = an_executor("decode", Role.DECODE)
D2 = an_executor("decode2", Role.DECODE)
P = an_executor("prefill", Role.PREFILL)
P2 = an_executor("prefill2", Role.PREFILL)


def prefiller(*peers: Peer, **knobs: Any) -> ExecutorRig:
    """A prefill executor in session with everyone, its transports to `peers` (default: D) ready."""
    rig = ExecutorRig(Role.PREFILL, **knobs)
    rig.up(SCHEDULER, ROUTER)
    for peer in peers or (D,):
        rig.up(peer)
        rig.connect(peer)
    return rig


def decoder(*peers: Peer, **knobs: Any) -> ExecutorRig:
    """A decode executor in session with everyone, its pairs with `peers` (default: P) ready. Sequences join its batch
    at once, unless asked otherwise."""
    rig = ExecutorRig(Role.DECODE, **({"join_max_steps": 0} | knobs))
    rig.up(SCHEDULER, ROUTER)
    for peer in peers or (P,):
        rig.up(peer)
        rig.connect(peer)
    return rig


def send_to(rig: ExecutorRig, number: int, asked: m.Work, to: Peer = D, *, transfer_id: int | None = None) -> list[Any]:
    """Place a prefill whose receiver has already named its blocks (100, 101, …), so that its transfer is open."""
    blocks = range(100, 100 + rig.layout.blocks_for(asked.num_tokens))
    receive = m.Receive(transfer_id or number, AttemptId(number, 0), 0, packed(blocks), 1 << 40)
    rig.hear(to, receive)
    return rig.prefill(number, asked)


def records_in(commands: Iterable[Any]) -> list[m.Record]:
    """All that the Records among the commands, or among messages, say: one record for each row of tokens."""
    found = []
    for command in commands:
        message = command.message if isinstance(command, Send) else command
        if isinstance(message, m.Records):
            for request_id, attempt, choice, offset, token in message.tokens:
                sampled = (SampledToken(choice, token),)
                found.append(m.Record(AttemptId(request_id, attempt), choice, offset, sampled))
            found += message.records
    return found


def scores_told(commands: Iterable[Any]) -> list[tuple[AttemptId, int, int, PromptScores]]:
    """(attempt, choice, offset, scores) of the Records among the commands that have any."""
    records = records_in(commands)
    return [(r.id, r.choice, r.offset, r.prompt_scores) for r in records if r.prompt_scores is not None]


def tokens_told(commands: Iterable[Any], number: int, choice: int = 0, attempt: int = 0) -> list[int]:
    """Tokens of one choice in the Records among the commands, by their offsets; a token said twice must be the same."""
    told: dict[int, int] = {}
    for record in records_in(commands):
        if record.id == AttemptId(number, attempt) and record.choice == choice:
            for offset, token in enumerate(record.tokens, record.offset):
                assert told.setdefault(offset, token.token) == token.token
    return [told[offset] for offset in sorted(told)]
