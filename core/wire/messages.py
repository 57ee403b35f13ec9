"""What the processes say to each other: one union for each link and direction.

A request is a verb, its answer a participle, a stream item a noun. Tags are never reused; new fields go last with a
default. Long token, block and hash lists travel packed (`bytes`), never as lists of Python integers.
Every link is FIFO and numbered by its session: a message is delivered once, in order, or the session is reset and both
ends start with their inventories.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from baton.core.errors import Reason
from baton.core.ids import AttemptId, Life, Peer
from baton.core.wire.placement import PlacementReason
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores, SampledToken, TokenRows

#: What is counted on the wire: other numbers are no message. Sums and products of a few stay within 64 bits.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
Rank = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
#: What is measured on the wire: finite, for NaN is not at least 0.
MAX_MEASURE = 1e18
Measure = Annotated[float, msgspec.Meta(ge=0, le=MAX_MEASURE)]
MAX_WORK = 1 << 28  #: tokens, choices: beyond it a number is an error, whatever executors there are
MAX_SCORES = 4 << 20  #: log-probabilities of one prompt's tokens, alternatives included: 8 bytes each, in one frame


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of all messages."""


class Order(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a request stands among others: (class, its tenant's virtual start, arrival), smallest first."""

    priority_class: Rank
    virtual_start: Rank
    arrival: Rank  #: microseconds; a resumed request keeps its first arrival


class Work(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an attempt asks for. Written by the router, passed through by the scheduler, used by executors."""

    router: Life  #: who owns the client's stream and gets the tokens
    prompt: bytes  #: int32[num_tokens]: the client's prompt, then outputs that an earlier attempt delivered
    num_tokens: int
    num_prior: int  #: how many of them are outputs of earlier attempts
    root: bytes  #: 16 bytes: root of the block-hash chain (layout, salt, adapter)
    hashes: bytes  #: 16 bytes for each full block of the client's prompt
    sampling: SamplingParams  #: `max_tokens` counts from the client's prompt: outputs of earlier attempts included
    num_choices: int = 1
    first_choice: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError (a decoding error on the wire) when the lengths do not fit together."""
        if len(self.prompt) != 4 * self.num_tokens or not 0 <= self.num_prior < self.num_tokens:
            raise ValueError("prompt, num_tokens and num_prior do not fit together")
        if len(self.root) != 16 or len(self.hashes) % 16 or self.num_choices < 1 or self.first_choice < 0:
            raise ValueError("root, hashes or choices have no valid size")
        if self.max_new_tokens < 1:
            raise ValueError("nothing is left to sample")
        if max(self.num_tokens, self.sampling.max_tokens, self.num_choices, self.first_choice) > MAX_WORK:
            raise ValueError("more than anybody can serve")
        if self.wants_prompt_scores and self.num_tokens * (self.sampling.num_prompt_logprobs + 1) > MAX_SCORES:
            raise ValueError("more scores of the prompt than one message holds")

    @property
    def wants_prompt_scores(self) -> bool:
        """Whether whoever computes the prompt says its tokens' scores with the first choice's first token. An attempt
        that carries on an answer, or another choice than the request's first, does not: its client has them already."""
        return self.sampling.num_prompt_logprobs >= 0 and self.num_prior == 0 and self.first_choice == 0

    @property
    def num_client_tokens(self) -> int:
        """Length of the client's prompt."""
        return self.num_tokens - self.num_prior

    @property
    def max_new_tokens(self) -> int:
        """Tokens that this attempt may still sample for each choice; at least 1."""
        return self.sampling.max_tokens - self.num_prior


# ---- router → scheduler


class Submit(Message, frozen=True, tag=1):
    """Router → scheduler: place this attempt."""

    id: AttemptId
    work: Work
    time_left_ms: Count  #: of the request's deadline
    age_ms: Count = 0  #: since the request first arrived; a resumed request keeps its place
    priority_class: Rank = 0
    tenant: str = ""
    waited_ms: Count = 0  #: how long earlier attempts of the request waited for prefixes (P10)


class Abort(Message, frozen=True, tag=2):
    """Router → scheduler and executors, scheduler → executors: nobody wants this attempt any more."""

    id: AttemptId


# ---- scheduler → router


class Placed(Message, frozen=True, tag=10):
    """Scheduler → router: the attempt runs there. `prefill == decode` when one executor does both; without a decode
    executor its prompt is computed, and it is said again when one is reserved."""

    id: AttemptId
    prefill: Life
    decode: Life | None
    why: PlacementReason | None = None  #: its prompt is computed there
    waited_ms: Count = 0  #: how long its request has waited for prefixes, in all its attempts


class Refusal(Message, frozen=True, tag=11):
    """Scheduler → router: the attempt will not be placed; `numbers` decided it."""

    id: AttemptId
    reason: Reason
    numbers: dict[str, float] = {}


class AttemptFailed(Message, frozen=True, tag=12):
    """Scheduler or executor → router: this attempt is over without an end; the router resumes or gives up."""

    id: AttemptId
    reason: Reason
    detail: str = ""


class Roster(Message, frozen=True, tag=13):
    """Scheduler → router and prefill executors: the live executors, as a level (replaces the previous one)."""

    executors: tuple[Peer, ...]
    can_serve: bool = True  #: some executor, or some pair of them, takes requests


# ---- scheduler → executor


class Prefill(Message, frozen=True, tag=20):
    """Scheduler → prefill executor: compute this prompt; the decode executor that asks with Receive gets its KV."""

    id: AttemptId
    work: Work
    order: Order
    num_blocks: Count  #: credit spent on it
    time_left_ms: Count
    num_cached: Count = 0  #: prompt tokens that lie there as the scheduler sees it: it counts the others as to compute
    waited_ms: Count = 0  #: its request waited for prefixes: taken off the bounds of holds


class Decode(Message, frozen=True, tag=21):
    """Scheduler → decode executor: reserve, receive KV from `prefill`, then decode."""

    id: AttemptId
    work: Work
    order: Order
    prefill: Life
    num_blocks: Count
    time_left_ms: Count


class Run(Message, frozen=True, tag=22):
    """Scheduler → executor that runs decode: prefill and decode here."""

    id: AttemptId
    work: Work
    order: Order
    num_blocks: Count
    time_left_ms: Count
    num_cached: Count = 0  #: prompt tokens that lie there as the scheduler sees it: it counts the others as to compute
    waited_ms: Count = 0  #: its request waited for prefixes: taken off the bounds of holds


class Exited(Message, frozen=True, tag=23):
    """Launcher → scheduler → executors: this process was seen to exit, and with it all its earlier lives."""

    life: Life


class Returned(Message, frozen=True, tag=24):
    """Scheduler → executor: answers Reclaim with the unspent credit that it gave back, perhaps less than asked."""

    num_blocks: Count


# ---- executor → scheduler


class Credit(Message, frozen=True, tag=30):
    """Executor → scheduler: capacity given back or granted first, and prompt tokens that are no longer to compute."""

    num_blocks: Count
    num_slots: Count
    num_prompt_tokens: Count = 0


class Ended(Message, frozen=True, tag=31):
    """Executor → scheduler: it holds nothing of this attempt that it could still spend time on."""

    id: AttemptId


class PairReady(Message, frozen=True, tag=32):
    """Decode executor → scheduler: KV from that prefill executor can be received."""

    prefill: Life


class PairLost(Message, frozen=True, tag=33):
    """Decode executor → scheduler: place nothing on that pair."""

    prefill: Life
    reason: Reason


class CacheChanged(Message, frozen=True, tag=34):
    """Executor → scheduler: hashes that can be found in its prefix index now, and that no longer can."""

    published: bytes
    evicted: bytes


class ExecutorInventory(Message, frozen=True, tag=35):
    """Executor → scheduler, first in a session: what it holds, and its whole free credit."""

    live: tuple[tuple[AttemptId, Count], ...]  #: with the prompt tokens that it still has to compute
    num_blocks: Count
    num_slots: Count
    pairs: tuple[Life, ...]
    cached: bytes  #: hashes in its index
    draining: bool = False


class Draining(Message, frozen=True, tag=36):
    """Executor → scheduler: place nothing new here."""


class Reclaim(Message, frozen=True, tag=37):
    """Executor → scheduler: running sequences need these blocks; give back credit that is not spent."""

    num_blocks: Count


class Due(Message, frozen=True, tag=38):
    """Prefill executor → scheduler: this prompt's end is near, or has come, and no decode executor has asked for it."""

    id: AttemptId


class Pace(Message, frozen=True, tag=39):
    """Executor → scheduler: what its steps and transfers were measured to cost lately; 0: not measured yet."""

    prefill_token_us: Measure = 0.0  #: one more prompt token in a step
    prefill_step_us: Measure = 0.0  #: a step with prompt tokens, beyond those tokens
    decode_step_us: Measure = 0.0  #: a step of decodes alone, at the batches of late
    transfer_us: Measure = 0.0  #: of KV, from the post to the proof, beyond its bytes
    transfer_bytes_per_s: Measure = 0.0


# ---- router ↔ executor


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one choice from `offset` (0 is the client's first output token, whatever the attempt)."""

    id: AttemptId
    choice: int
    offset: int
    tokens: tuple[SampledToken, ...]
    finish: str = ""  #: "stop" or "length" when these are the last
    num_cached_tokens: int = -1  #: prompt tokens found in a prefix cache; said once by whoever prefills
    prompt_scores: PromptScores | None = None  #: with the first choice's first token, by whoever says it, if asked for


class Records(Message, frozen=True, tag=40):
    """Executor → router: what was added since the last ones, merged by request. Nearly all of it is one more token for
    each of many requests, which brings nothing else: a row of `tokens`. Rows go before records."""

    records: tuple[Record, ...]
    tokens: TokenRows = TokenRows()


class RouterInventory(Message, frozen=True, tag=41):
    """Router → executor, first in a session: all its attempts, and the next output offset that it lacks of each choice.

    What is not named is aborted; outboxes are rewound to the offsets.
    """

    live: tuple[tuple[AttemptId, tuple[tuple[int, int], ...]], ...]


class Holding(Message, frozen=True, tag=42):
    """Executor → router, with every heartbeat period: the attempts that it holds for it.

    Whatever the router does not know is aborted; what it misses twice in a row is resumed elsewhere.
    """

    live: tuple[AttemptId, ...]


class Stop(Message, frozen=True, tag=43):
    """Router → executor: the choice ends at this output offset (a stop string was found)."""

    id: AttemptId
    choice: int
    offset: int


# ---- prefill ↔ decode executor


class TransportInfo(Message, frozen=True, tag=50):
    """Both ways, first in a session: how the transport reaches this end's KV memory."""

    metadata: bytes
    base_address: Count
    num_blocks: Count


class TransportProven(Message, frozen=True, tag=51):
    """Prefill → decode: the first write has landed; chunks may follow."""


class Receive(Message, frozen=True, tag=52):
    """Decode → prefill: write the blocks from `first_block` of this attempt's prompt into `block_ids`, in order."""

    transfer_id: int
    id: AttemptId
    first_block: Count
    block_ids: bytes  #: int32[blocks of the prompt − first_block]
    window_bytes: Count  #: this end's bound on bytes posted and not landed, for all transfers of the pair

    def __post_init__(self) -> None:
        """Raises ValueError (a decoding error on the wire) when `block_ids` is no list of int32."""
        if len(self.block_ids) % 4:
            raise ValueError("block_ids has no valid size")


class CloseTransfer(Message, frozen=True, tag=53):
    """Decode → prefill: send nothing more and say when nothing can be in flight (for an unknown transfer: at once)."""

    transfer_id: int


class ChunkPosted(Message, frozen=True, tag=54):
    """Prefill → decode: the pieces of this chunk are about to be posted: drive the transport."""

    transfer_id: int
    chunk: Count
    num_bytes: Count


class ChunkLanded(Message, frozen=True, tag=55):
    """Prefill → decode: every handle of this chunk reached DONE."""

    transfer_id: int
    chunk: Count


class Sealed(Message, frozen=True, tag=56):
    """Prefill → decode: the prompt is computed; chunks `[0, num_chunks)` are all there will be."""

    transfer_id: int
    num_chunks: Count
    first_tokens: tuple[SampledToken, ...]  #: one for each choice; D decodes from them
    prompt_scores: PromptScores | None = None  #: if asked for: D says them with the first token, which may come first


class TransferClosed(Message, frozen=True, tag=57):
    """Prefill → decode: every handle of this transfer reached DONE or ERR and none will follow.

    Reason ABORTED answers CloseTransfer; None says that all choices ended with their first token. Not `is_clean`: a
    handle did not reach DONE, so bytes may still come out of sockets until the receiver has closed its own agent.
    """

    transfer_id: int
    reason: Reason | None
    is_clean: bool = True


RouterToScheduler = Submit | Abort
SchedulerToRouter = Placed | Refusal | AttemptFailed | Roster
SchedulerToExecutor = Prefill | Decode | Run | Abort | Exited | Returned | Roster
ExecutorToScheduler = (
    Credit | Ended | Due | PairReady | PairLost | CacheChanged | ExecutorInventory | Draining | Reclaim | Pace
)
RouterToExecutor = RouterInventory | Abort | Stop
ExecutorToRouter = Records | Holding | AttemptFailed
DecodeToPrefill = TransportInfo | Receive | CloseTransfer
PrefillToDecode = TransportInfo | TransportProven | ChunkPosted | ChunkLanded | Sealed | TransferClosed
LauncherToScheduler = Exited
SchedulerToLauncher = Roster
