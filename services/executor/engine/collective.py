"""What the ranks of a group do together: agree on a step before it begins, and add up their parts of a layer.

Every wait has an end. A group that has failed once is broken for good: its ranks may have come to different points.
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed

from baton.services.executor.engine.devices.base import DeviceBroken
from baton.services.executor.engine.models.shard import Shard

DIGEST_BYTES = 16
distributed: Any = torch.distributed  #: its own annotations leave gloo out


class GroupBroken(DeviceBroken):
    """A rank did not come in time, ended, or stands before another step: the group computes nothing any more."""


class RankCount(NamedTuple):
    """What one rank has done since its start, as it says itself."""

    num_steps: int
    wait_s: float  #: in which it waited for the others


class RankGroup:
    """One rank's end of a group. Not thread-safe. Lifecycle: `connect`, then `agree` and `add_up`."""

    def __init__(self, shard: Shard, timeout_s: float) -> None:
        self.shard = shard
        self.counts = [RankCount(0, 0.0)] * shard.num_ranks  #: by rank, as of the last agreement
        self.broken = ""  #: why it is
        self._timeout_s = timeout_s
        self._num_agreed = 0
        self._wait_s = 0.0
        self._gloo: Any = None

    def connect(self, store: Path) -> None:
        """Meet the other ranks through a file in a private folder. Raises GroupBroken if one does not come in time."""
        timeout = timedelta(seconds=self._timeout_s)
        try:
            files = distributed.FileStore(str(store), self.shard.num_ranks)
            files.set_timeout(timeout)
            options = distributed.ProcessGroupGloo._Options()
            options._timeout = timeout
            options._threads = 1
            options._devices = [distributed.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
            self._gloo = distributed.ProcessGroupGloo(files, self.shard.rank, self.shard.num_ranks, options)
        except RuntimeError as error:
            raise self._break(f"the ranks did not meet: {_first_line(error)}") from error

    def check(self) -> None:
        """Raises GroupBroken if it is."""
        if self.broken:
            raise GroupBroken(self.broken)

    def break_off(self, why: str) -> None:
        """This rank leaves in the middle of a step: nothing of the group is proven any more."""
        self.broken = self.broken or why

    def agree(self, step_id: int, digest: bytes) -> None:
        """Compare step number and digest (16 bytes) of the order with those of all ranks; raises GroupBroken."""
        high, low = (int.from_bytes(part, "little", signed=True) for part in (digest[:8], digest[8:]))
        own = torch.tensor([step_id, high, low, self._num_agreed, int(self._wait_s * 1e9)], dtype=torch.int64)
        said = [row.tolist() for row in self._gather(own)]
        for rank, (their_step, *their_digest, _, _) in enumerate(said):
            if [their_step, *their_digest] != [step_id, high, low]:
                raise self._break(f"rank {rank} has another order for step {their_step} than this one for {step_id}")
        self._num_agreed += 1
        self.counts = [RankCount(num_steps, wait_ns / 1e9) for *_, num_steps, wait_ns in said]

    def add_up(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of all ranks' parts, in the order of the ranks: the same on each, whatever else is in the batch."""
        first, *rest = self._gather(part.contiguous())
        for other in rest:
            first += other
        return first

    def _gather(self, own: torch.Tensor) -> list[torch.Tensor]:
        self.check()
        if self._gloo is None:
            raise self._break("the ranks have not met")
        parts = [torch.empty_like(own) for _ in range(self.shard.num_ranks)]
        started_at = time.perf_counter()
        try:
            self._gloo.allgather([parts], [own]).wait()
        except RuntimeError as error:
            raise self._break(f"a rank did not come within {self._timeout_s:g} s: {_first_line(error)}") from error
        self._wait_s += time.perf_counter() - started_at
        return parts

    def _break(self, why: str) -> GroupBroken:
        self.break_off(why)
        return GroupBroken(why)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
