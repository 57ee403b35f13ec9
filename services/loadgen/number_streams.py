"""Endless streams of numbers that a run's prompts are made of: one for each request, each group and each block.

A number follows from seed, salt, stream and position alone, so that every process makes the same prompt, equal blocks
and groups give equal tokens, and another salt gives others throughout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from baton.services.loadgen.plan import BlockRun, PlannedRequest

Numbers = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)


class NumberStreams:
    """The streams of one run."""

    def __init__(self, seed: int, salt: str) -> None:
        self._own = _key(seed, salt, "request")
        self._groups = _key(seed, salt, "group")
        self._blocks = _key(seed, salt, "block")

    def of_request(self, request: PlannedRequest, below: int) -> npt.NDArray[np.int64]:
        """`[num_input_tokens]` numbers in `[0, below)`: of its prefixes or blocks first, the rest its own."""
        wanted = request.num_input_tokens
        parts: list[Numbers] = []
        for prefix in request.prefixes:
            parts.append(_numbers(self._groups, prefix.group, min(prefix.num_tokens, wanted)))
            wanted -= len(parts[-1])
        if request.blocks:
            parts.append(self._of_blocks(request.blocks, request.block_size, wanted))
            wanted -= len(parts[-1])
        parts.append(_numbers(self._own, request.index, wanted))
        return _scaled(np.concatenate(parts), below)

    def own_after(self, request: PlannedRequest, first: int, count: int, below: int) -> npt.NDArray[np.int64]:
        """The `[first, first + count)` of a request's own stream."""
        return _scaled(_numbers(self._own, request.index, first + count)[first:], below)

    def _of_blocks(self, runs: Iterable[BlockRun], block_size: int, wanted: int) -> Numbers:
        """The first `wanted`; fewer if the blocks hold no more."""
        num_blocks = -(-wanted // block_size)
        ids = np.concatenate([np.arange(run.first, run.first + run.count) for run in runs])
        keys = _mixed(self._blocks + ids[:num_blocks].astype(np.uint64) * _STEP)
        positions = np.arange(1, block_size + 1, dtype=np.uint64) * _STEP
        return _mixed((keys[:, None] + positions[None, :]).reshape(-1)[:wanted])


def _numbers(kind: Numbers, stream: int, count: int) -> Numbers:
    key = _mixed(kind + np.array([stream], dtype=np.uint64) * _STEP)
    return _mixed(key + np.arange(1, count + 1, dtype=np.uint64) * _STEP)


def _key(seed: int, salt: str, kind: str) -> Numbers:
    """One number, as an array: numpy's arrays wrap around, its scalars warn."""
    return np.frombuffer(hashlib.blake2b(f"{seed}/{kind}/{salt}".encode(), digest_size=8).digest(), dtype="<u8")


def _mixed(values: Numbers) -> Numbers:
    """Every bit of a value decides about every bit of the result (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _scaled(values: Numbers, below: int) -> npt.NDArray[np.int64]:
    return ((values >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(np.int64)
