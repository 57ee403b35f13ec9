"""The identities that cross processes. Three fences: epoch (a process's life), attempt (of a request), transfer id."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import NamedTuple

import msgspec


class Role(enum.IntEnum):
    ROUTER = 1
    SCHEDULER = 2
    PREFILL = 3
    DECODE = 4
    UNIFIED = 5
    LAUNCHER = 6

    @property
    def is_executor(self) -> bool:
        return self in (Role.PREFILL, Role.DECODE, Role.UNIFIED)

    @property
    def runs_decode(self) -> bool:
        return self in (Role.DECODE, Role.UNIFIED)

    def may_be_called(self, name: str) -> bool:
        """A service's name begins with its role's: so a key, which has a name, can speak for one role alone."""
        return name.startswith(self.name.lower())


class AttemptId(NamedTuple):
    """One try at one leg of a request. `request_id` is unique over all routers; attempts count up from 0."""

    request_id: int
    attempt: int


class Life(NamedTuple):
    """One life of a named process."""

    name: str
    epoch: int


class Peer(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Who is at the other end of a link, as its handshake said."""

    name: str
    role: Role
    epoch: int
    address: str = ""  #: where it can be reached by others; empty if it cannot
    layout_fingerprint: bytes = b""  #: of executors; empty for others
    capacity: Capacity | None = None  #: of executors

    @cached_property
    def life(self) -> Life:
        return Life(self.name, self.epoch)


class Capacity(msgspec.Struct, frozen=True, array_like=True):
    """What an executor measured of itself at its start. Never changes during its life."""

    num_blocks: int  #: KV blocks that requests may take
    num_slots: int  #: sequences that it may hold
    block_size: int  #: tokens per block
    token_budget: int  #: tokens per step
    max_model_len: int  #: prompt and output together
    growth_reserve: int  #: output tokens that a decode reservation covers at once
    num_spare_blocks: int = 0  #: further blocks of its pool, never granted: for copies of blocks that many share
    block_bytes: int = 0  #: of KV in one block; 0: not told, so that nobody can say how long a transfer takes
    checkpoint_blocks: int = 1  #: blocks between positions from which computing can go on: 1 with attention alone
