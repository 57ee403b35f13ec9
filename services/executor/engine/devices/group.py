"""One executor's device over several ranks: the first decides and samples, the others follow its orders.

An order is a plan and the tokens that the plans before it sampled, encoded once by the first rank. Every rank takes it
into a chain of digests, and before anything is computed all ranks compare step number and chain: a rank that missed an
order, took one twice or read another one differs from then on.

A step that is proven on the first rank is proven on all: it has every rank's part of the last sum, and a rank writes
its KV before it gives that. So is a layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from baton.core.errors import Incompatible
from baton.core.executor.steps import StepPlan, StepResult
from baton.services.executor.engine.batch import Batch
from baton.services.executor.engine.collective import DIGEST_BYTES, GroupBroken, RankGroup
from baton.services.executor.engine.devices.cpu import CpuDevice
from baton.services.executor.engine.devices.host import HostCompletion
from baton.services.executor.engine.devices.part import CpuPart
from baton.services.executor.engine.sequences import DeviceSequence


class RankOrder(msgspec.Struct, frozen=True, array_like=True):
    """What the first rank tells the others for each step."""

    plan: StepPlan
    sampled: tuple[tuple[int, int], ...]  #: (seq_id, token) that the step before appended


_ORDERS = msgspec.msgpack.Decoder(RankOrder)


class RankDevice(CpuDevice):
    """What both kinds of rank share: the chain of orders."""

    def __init__(self, part: CpuPart, group: RankGroup) -> None:
        super().__init__(part, group)
        self.group = group
        self._chain = _digest(part.layout.fingerprint(), part.num_blocks.to_bytes(8, "little"))

    def meet(self, store: Path) -> None:
        """Join the other ranks, which have loaded the same model in the same geometry. Raises GroupBroken."""
        self.group.connect(store)
        self.group.agree(-1, self._chain)

    def use_lanes(self, lane_cores: Sequence[frozenset[int]]) -> None:
        """Ranks meet in one order of steps."""
        if len(lane_cores) > 1:
            told = f"device.num_ranks = {self.group.shard.num_ranks}"
            raise Incompatible(f"{told}: ranks compute one step at a time, without step_mode = overlap")
        super().use_lanes(lane_cores)

    def _agree(self, plan: StepPlan, order: bytes) -> None:
        self._chain = _digest(self._chain, order)
        self.group.agree(plan.step_id, self._chain)

    def launch(self, plan: StepPlan) -> None:
        super().launch(plan)
        if not plan.num_tokens:  # no sum has shown that the other ranks have done it
            self.group.agree(plan.step_id, self._chain)


class GroupDevice(RankDevice):
    """The first rank. `tell` gives an order to all others and may raise OSError; `end` ends them."""

    def __init__(self, part: CpuPart, group: RankGroup, tell: Callable[[bytes], None], end: Callable[[], None]) -> None:
        super().__init__(part, group)
        self._tell = tell
        self._end = end
        self._sampled: list[tuple[int, int]] = []  #: what the other ranks do not know yet
        self._decodes: tuple[int, ...] = ()  #: of the plan that is computed

    def begin(self, plan: StepPlan) -> None:
        self.group.check()
        order = msgspec.msgpack.encode(RankOrder(plan, tuple(self._sampled)))
        self._sampled.clear()
        self._decodes = plan.decodes
        try:
            self._tell(order)
        except OSError as error:
            self.group.break_off(f"a rank takes no orders: {error}")
            raise GroupBroken(self.group.broken) from error
        self._agree(plan, order)

    def forward(self, plan: StepPlan, batch: Batch) -> torch.Tensor:
        """A layer that fails here leaves the other ranks in the middle of the step."""
        try:
            return super().forward(plan, batch)
        except Exception as error:
            self.group.break_off(f"the first rank left the step: {error}")
            raise

    def store(self, result: StepResult) -> None:
        self._sampled += zip(self._decodes, result.decoded, strict=True)
        self._sampled += [(item.seq_id, item.sampled[0].token) for item in result.items if item.sampled]
        super().store(result)

    def record(self, completion: HostCompletion) -> None:
        """Of a broken group nothing can be proven."""
        self.group.check()
        super().record(completion)

    def close(self) -> None:
        self._end()


class FollowerDevice(RankDevice):
    """Any other rank: computes its part of each order and samples nothing."""

    def follow(self, order: bytes) -> None:
        """Compute one order. Whatever it raises, the rank has to end."""
        told = _ORDERS.decode(order)
        for seq_id, token in told.sampled:
            self._sequences[seq_id].tokens.append(token)
        self._order = order
        self.launch(told.plan)
        self.collect(told.plan.step_id)

    def begin(self, plan: StepPlan) -> None:
        self._agree(plan, self._order)

    def _compute(
        self, plan: StepPlan, decoding: list[DeviceSequence], sequences: list[DeviceSequence], batch: Batch
    ) -> StepResult:
        self.forward(plan, batch)
        return StepResult(plan.step_id, (), 0.0)


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()
