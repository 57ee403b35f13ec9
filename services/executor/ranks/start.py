"""How a group comes to be: checked before a process is started, loaded by all ranks at once, met, proven to agree."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import Incompatible
from baton.core.layout import KvLayout
from baton.services.executor.engine.devices.part import CpuPart
from baton.services.executor.engine.load import cpu_layout, limit_torch_threads
from baton.services.executor.engine.models.config import DecoderConfig
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.executor.engine.models.shard import Shard, shard_config
from baton.services.executor.ranks.messages import RankStart
from baton.services.executor.ranks.processes import GroupIncomplete, RankProcesses
from baton.services.runtime.cores import split_cores
from baton.services.runtime.settings import DeviceSettings

if TYPE_CHECKING:
    from baton.services.executor.engine.devices.group import FollowerDevice, GroupDevice


def plan_ranks(
    told: DeviceSettings,
    folder: str,
    name: str,
    epoch: int,
    cores: tuple[int, ...],
    *,
    moves_kv: bool,
    piece_bytes: int,
) -> list[RankStart]:
    """What each rank is told, the first one too. Raises Incompatible if the model cannot be shared so."""
    _, layout = _model_part(Shard(0, told.num_ranks), folder, told.block_size, told.dtype)
    num_blocks = told.num_blocks or told.kv_bytes // layout.block_bytes
    if num_blocks < 1:
        raise Incompatible(f"device.kv_bytes: KV memory of a rank holds no block of {layout.block_bytes} bytes")
    return [
        RankStart(
            Shard(rank, told.num_ranks),
            name,
            epoch,
            folder,
            told.block_size,
            num_blocks,
            told.dtype,
            own_cores,
            told.rank_timeout_s,
            os.getpid(),
            moves_kv,
            piece_bytes,
        )
        for rank, own_cores in enumerate(split_cores(cores, told.num_ranks))
    ]


def start_group(first: RankStart, others: list[RankStart]) -> tuple[GroupDevice, RankProcesses]:
    """Start the others, load this rank's part beside them, meet. Raises GroupIncomplete or Incompatible."""
    ranks = RankProcesses(others)
    try:
        return _join_group(first, ranks), ranks
    except BaseException:
        ranks.end(0.0)  # they hold nothing of any request yet
        raise


def _join_group(first: RankStart, ranks: RankProcesses) -> GroupDevice:
    from baton.services.executor.engine.collective import GroupBroken, RankGroup
    from baton.services.executor.engine.devices.group import GroupDevice

    part = _part(first)
    device = GroupDevice(part, RankGroup(first.shard, first.timeout_s), ranks.tell, ranks.end)
    limit_torch_threads(device, part.num_threads)
    ranks.wait_loaded()
    with tempfile.TemporaryDirectory(prefix="baton-ranks-") as folder:
        store = Path(folder) / "store"
        ranks.meet(str(store))
        try:
            device.meet(store)
        except GroupBroken as error:
            raise GroupIncomplete(str(error)) from error
    return device


def load_follower(start: RankStart) -> FollowerDevice:
    """Any other rank's part. Raises Incompatible or MemoryError."""
    from baton.services.executor.engine.collective import RankGroup
    from baton.services.executor.engine.devices.group import FollowerDevice

    part = _part(start)
    device = FollowerDevice(part, RankGroup(start.shard, start.timeout_s))
    limit_torch_threads(device, part.num_threads)
    return device


def _part(start: RankStart) -> CpuPart:
    config, layout = _model_part(start.shard, start.folder, start.block_size, start.dtype)
    return CpuPart(Path(start.folder), config, layout, start.num_blocks, len(start.cores))


def _model_part(shard: Shard, folder: str, block_size: int, dtype: str) -> tuple[DecoderConfig, KvLayout]:
    config = shard_config(read_decoder_config(Path(folder)), shard)
    return config, cpu_layout(Path(folder), config, block_size, dtype)
