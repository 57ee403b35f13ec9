"""What the first rank and the others say to each other beside step orders. Frames of one socket pair, in this order:

first rank → other: RankStart, Meet, then one `RankOrder` a step; the end of the stream ends the rank
other → first rank: RankAlive again and again, RankLoaded once, RankFailed last
"""

from __future__ import annotations

import msgspec

from baton.core.executor.events import ThreadEvent
from baton.services.executor.engine.models.shard import Shard


class RankStart(msgspec.Struct, frozen=True):
    """All that a rank is told; the rest it reads from the model folder."""

    shard: Shard
    name: str  #: of the executor
    epoch: int
    folder: str
    block_size: int
    num_blocks: int
    dtype: str
    cores: tuple[int, ...]
    timeout_s: float
    parent_pid: int
    moves_kv: bool  #: whether peers write to, or are written from, this executor's KV
    piece_bytes: int  #: the largest write of it


class Meet(msgspec.Struct, frozen=True):
    """Every rank has loaded its part: meet through this file."""

    store: str


class RankAlive(msgspec.Struct, frozen=True, tag=1):
    """Said several times in each timeout from `RankLoaded` on, whatever the rank does."""


class RankLoaded(msgspec.Struct, frozen=True, tag=2):
    """The rank has its weights and its KV memory."""


class RankFailed(msgspec.Struct, frozen=True, tag=3):
    """The last word. `is_refusal`: with these settings it would fail again."""

    detail: str
    is_refusal: bool = False


RankWord = RankAlive | RankLoaded | RankFailed


class RankReport(msgspec.Struct, frozen=True, array_like=True):
    """From a rank's transfer thread: an event, and its counters as they are now."""

    event: ThreadEvent
    counters: tuple[float, ...]  #: in the order of `TransferCounters.__slots__`
