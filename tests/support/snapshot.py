"""A deep picture of a machine's state, to say that two states are the same or that nothing was touched."""

from __future__ import annotations

import enum
from array import array
from collections import deque
from typing import Any

import msgspec

from baton.core.kv.block_pool import BlockPool
from baton.core.kv.ledger import Ledger
from baton.core.kv.ready_queue import ReadyQueue


def snapshot(thing: Any) -> Any:
    """Plain data, equal for equal states. Objects that were met before are named by when that was."""
    return _picture(thing, {})


def _picture(thing: Any, seen: dict[int, int]) -> Any:
    if thing is None or isinstance(thing, (bool, int, float, str, bytes, enum.Enum)):
        return thing
    if isinstance(thing, (bytearray, array)):
        return bytes(thing)
    if id(thing) in seen:
        return ("seen", seen[id(thing)])
    if isinstance(thing, msgspec.Struct):
        return repr(thing)
    if isinstance(thing, tuple):
        return tuple(_picture(one, seen) for one in thing)
    seen[id(thing)] = len(seen)
    if isinstance(thing, dict):
        return [(_picture(key, seen), _picture(value, seen)) for key, value in thing.items()]
    if isinstance(thing, (list, deque)):
        return [_picture(one, seen) for one in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(repr(one) for one in thing)
    if isinstance(thing, BlockPool):
        return _pool(thing)
    if isinstance(thing, Ledger):
        return [(executor, thing.available(executor)) for executor in thing.executors()]
    if isinstance(thing, ReadyQueue):
        return [(handle, thing.key(handle), thing.demand(handle)) for handle in thing.handles()]
    if callable(thing):
        return "callable"
    return (type(thing).__name__, [(name, _picture(value, seen)) for name, value in _fields(thing)])


def _fields(thing: Any) -> list[tuple[str, Any]]:
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(thing, "__dict__", {}))
    return [(name, getattr(thing, name)) for name in names if hasattr(thing, name)]


def _pool(pool: BlockPool) -> Any:
    blocks = [(pool.ref_count(i), pool.block_hash(i), pool.is_published(i)) for i in range(pool.num_blocks)]
    return (pool.num_free, pool.num_cached, blocks)
