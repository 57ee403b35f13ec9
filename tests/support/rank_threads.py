"""A group of ranks inside one process: each rank's device on a thread, between them the real gloo."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from baton.services.executor.engine.collective import GroupBroken, RankGroup
from baton.services.executor.engine.devices.group import FollowerDevice, GroupDevice
from baton.services.executor.engine.devices.part import CpuPart
from baton.services.executor.engine.load import cpu_layout
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.executor.engine.models.shard import Shard, shard_config

TIMEOUT_S = 30.0  #: bounds a test that hangs; nothing is measured against it


def run_ranks(num_ranks: int, rank: Callable[[RankGroup], Any], store: Path, timeout_s: float = TIMEOUT_S) -> list[Any]:
    """`rank(group)` on a thread for each rank of a group that has met; what each returned or raised."""
    outcomes: list[Any] = [None] * num_ranks

    def run(index: int) -> None:
        group = RankGroup(Shard(index, num_ranks), timeout_s)
        try:
            group.connect(store)
            outcomes[index] = rank(group)
        except GroupBroken as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


class ThreadedGroup:
    """`device` is the first rank's; `followers` are the others'. `spoil` may change what a rank is told."""

    def __init__(self, folder: Path, num_ranks: int, store: Path, num_blocks: int, block_size: int, dtype: str) -> None:
        self.spoil: Callable[[int, bytes], bytes] = lambda rank, order: order
        self.ends: list[BaseException | None] = [None] * num_ranks  #: why a follower ended, by rank
        self._orders: list[queue.SimpleQueue[bytes | None]] = [queue.SimpleQueue() for _ in range(num_ranks)]

        def part(rank: int) -> tuple[CpuPart, RankGroup]:
            shard = Shard(rank, num_ranks)
            config = shard_config(read_decoder_config(folder), shard)
            layout = cpu_layout(folder, config, block_size, dtype)
            return CpuPart(folder, config, layout, num_blocks, 1), RankGroup(shard, TIMEOUT_S)

        self.device = GroupDevice(*part(0), self._tell, self._end)
        self.followers = [FollowerDevice(*part(rank)) for rank in range(1, num_ranks)]
        self.threads = [
            threading.Thread(target=self._follow, args=(follower, store), daemon=True) for follower in self.followers
        ]
        for thread in self.threads:
            thread.start()
        self.device.meet(store)

    def _tell(self, order: bytes) -> None:
        for rank in range(1, len(self._orders)):
            self._orders[rank].put(self.spoil(rank, order))

    def _end(self) -> None:
        for orders in self._orders:
            orders.put(None)

    def _follow(self, device: FollowerDevice, store: Path) -> None:
        rank = device.group.shard.rank
        try:
            device.meet(store)
            while (order := self._orders[rank].get()) is not None:
                device.follow(order)
        except Exception as error:
            self.ends[rank] = error
            device.group._gloo = None  # as its process would end: the others' waits for it end at once


@contextmanager
def threaded_group(
    folder: Path, num_ranks: int, tmp_path: Path, *, num_blocks: int = 16, block_size: int = 16, dtype: str = ""
) -> Iterator[ThreadedGroup]:
    torch.set_num_threads(1)
    group = ThreadedGroup(folder, num_ranks, tmp_path / "store", num_blocks, block_size, dtype)
    try:
        yield group
    finally:
        group.device.close()
        for thread in group.threads:
            thread.join()
