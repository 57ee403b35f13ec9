"""What a device must do: compute the step plans of each lane in order on its own KV memory, and prove when it has
finished.

Between `launch` and a proven completion, the blocks that a plan names belong to the device. A completion is *pending*
only by the device's own word; one that was never recorded is not proven, and everything else is broken.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from baton.core.errors import ServingError
from baton.core.executor.steps import StepPlan, StepResult
from baton.core.layout import KvLayout
from baton.services.executor.engine.grammar_masks import GrammarMasks


class DeviceBroken(ServingError):
    """The device lost a step, or cannot prove that it has finished: what it may touch must never be reused."""


class PlanRejected(ServingError):
    """A plan names what the device does not know or cannot hold; nothing of the plan was computed."""


class CompletionState(enum.Enum):
    PENDING = "pending"  #: recorded; the device says that it has not finished
    PROVEN = "proven"  #: everything launched in the lane before `record` has finished
    BROKEN = "broken"  #: never recorded, or the device cannot say


CompletionT = TypeVar("CompletionT")
"""A mark in a device's order of work, of the device's own type. Used once: created, recorded, queried or waited for."""


class Device(Protocol[CompletionT]):
    """One accelerator (or its stand-in), its KV memory and its sequences.

    Each lane has one thread that calls `enter_lane` first and then all else for the lane's steps; threads of two lanes
    may do so at once. Otherwise not thread-safe, except `query` and `wait`.

    A sample under a grammar that cannot go on is an end of a sequence like any other to the device, which says so in
    the item's result; other rows of the step are not touched by it.

    Lifecycle: after construction `launch` may be called; `close` is idempotent and waits for launched work.
    """

    @property
    def layout(self) -> KvLayout: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_model_len(self) -> int:
        """Tokens that one sequence may hold, prompt and output together."""
        ...

    @property
    def kv_base_address(self) -> int:
        """Address of KV memory `[block][kv_layer][plane][slot][head][head_dim]`; fixed until `close`."""
        ...

    def use_grammars(self, masks: GrammarMasks) -> None:
        """Before the first `launch`. Without it, plans with sequences that have a grammar are rejected."""
        ...

    def use_lanes(self, lane_cores: Sequence[frozenset[int]]) -> None:
        """Before the first `enter_lane`: that many lanes, each with these cores. Without it there is one.

        Raises Incompatible where only one lane can be.
        """
        ...

    def enter_lane(self, lane: int) -> None:
        """The calling thread launches the plans of that lane from now on: its cores, threads and context are set here.

        Threads made by it afterwards have its niceness.
        """
        ...

    def tell_progress(self, say: Callable[[int, int], None]) -> None:
        """Before the first `launch`. `say(step_id, num_planes)` is called in the thread of the lane, before the step
        ends, when KV of all its tokens is written in the first `num_planes` planes. A device may say nothing."""
        ...

    def create_completion(self, lane: int) -> CompletionT:
        """A mark for that lane's order of work."""
        ...

    def launch(self, plan: StepPlan) -> None:
        """Start the step; may block while the device's queue is full. PlanRejected: nothing was launched."""
        ...

    def record(self, completion: CompletionT) -> None:
        """Put the mark behind everything launched so far in its lane."""
        ...

    def query(self, completion: CompletionT) -> CompletionState:
        """Never blocks; callable from any thread."""
        ...

    def wait(self, completion: CompletionT) -> None:
        """Block until proven; raise DeviceBroken if it can never be. For the thread that has no other duty."""
        ...

    def collect(self, step_id: int) -> StepResult:
        """The result of a step whose completion is proven; once for each step. Raises DeviceBroken if it is lost."""
        ...

    def close(self) -> None:
        """Called once no thread calls anything else any more."""
        ...
