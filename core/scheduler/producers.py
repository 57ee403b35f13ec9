"""Which prefix blocks somebody is computing, where, and who: what others could wait for.

Built from the hashes of placed prompts alone, so whether and where a prefix is published depends on its producer, never
on who would like to have it (P12). Hashes are chained from a root that holds salt and adapter: who has another root
finds nothing here (P9).
"""

from __future__ import annotations

from baton.core.errors import InvariantViolated
from baton.core.ids import AttemptId
from baton.core.scheduler.directory import HASH_BYTES, split
from baton.core.scheduler.executors import Executor


class Producer:
    """One attempt whose prompt is being computed, and the `span` [first, end) of its blocks that were not published
    when it was placed and will be."""

    __slots__ = ("end_token", "executor", "hashes", "id", "num_left", "num_tokens", "placed_at", "span")

    def __init__(
        self, work_id: AttemptId, executor: Executor, hashes: bytes, span: tuple[int, int], num_tokens: int, now: float
    ) -> None:
        self.id = work_id
        self.executor = executor.index
        self.hashes = hashes
        self.span = span
        self.num_left = span[1] - span[0]
        self.num_tokens = num_tokens
        self.end_token = executor.num_placed_tokens + num_tokens  #: its last one, among all placed in that life
        self.placed_at = now

    def token_at(self, num_blocks: int, block_size: int) -> int:
        """The token among all placed in that life with which so many of its leading blocks are computed."""
        return self.end_token - (self.num_tokens - (num_blocks - self.span[0]) * block_size)


class Producers:
    """By block hash for each executor, and by attempt. Blocks leave when they are published, or with their attempt."""

    def __init__(self) -> None:
        self._by_hash: dict[int, dict[bytes, Producer]] = {}
        self._by_attempt: dict[AttemptId, Producer] = {}

    def __len__(self) -> int:
        return len(self._by_attempt)

    def attempts(self) -> list[AttemptId]:
        return list(self._by_attempt)

    def any_on(self, executor: int) -> bool:
        return bool(self._by_hash.get(executor))

    def add(
        self, work_id: AttemptId, executor: Executor, hashes: bytes, span: tuple[int, int], num_tokens: int, now: float
    ) -> None:
        """It goes there, where its blocks before the span lie already, with so many tokens to compute. Where another
        one computes the same block only one of the two can publish it, and the other's chain ends there: behind it this
        one publishes nothing that one could rely on."""
        here, first = self._by_hash.setdefault(executor.index, {}), span[0]
        own = split(hashes[: span[1] * HASH_BYTES][first * HASH_BYTES :])
        if not here.keys().isdisjoint(own):
            own = own[: next(index for index, block_hash in enumerate(own) if block_hash in here)]
        if own and work_id not in self._by_attempt:
            producer = Producer(work_id, executor, hashes, (first, first + len(own)), num_tokens, now)
            self._by_attempt[work_id] = producer
            here.update(dict.fromkeys(own, producer))

    def published(self, executor: int, hashes: bytes) -> list[bytes]:
        """Those of the hashes, in order, that somebody computed there: they can be found in its index now."""
        here = self._by_hash.get(executor)
        if not here:
            return []
        found = [block_hash for block_hash in split(hashes) if block_hash in here]
        for block_hash in found:
            producer = here.pop(block_hash)
            producer.num_left -= 1
            if not producer.num_left:
                del self._by_attempt[producer.id]
        return found

    def end(self, work_id: AttemptId) -> tuple[int, list[bytes]]:
        """It publishes nothing any more: its executor and the hashes that were still to come."""
        producer = self._by_attempt.pop(work_id, None)
        if producer is None:
            return -1, []
        here = self._by_hash[producer.executor]
        hashes = [hash_at(producer.hashes, index) for index in range(*producer.span)]
        lost = [block_hash for block_hash in hashes if here.get(block_hash) is producer]
        for block_hash in lost:
            del here[block_hash]
        return producer.executor, lost

    def end_all(self, executor: int) -> None:
        """Nothing is published there any more."""
        for work_id in {producer.id: None for producer in self._by_hash.pop(executor, {}).values()}:
            del self._by_attempt[work_id]

    def depth(self, executor: int, hashes: bytes, held: int, end: int) -> int:
        """Leading blocks, at least `held` and at most `end`, that lie there or that somebody computes there: what is
        computed is closed under prefixes beyond what lies there."""
        here = self._by_hash.get(executor, {})
        low, high = held, end
        while low < high:
            middle = (low + high) // 2
            if hash_at(hashes, middle) in here:
                low = middle + 1
            else:
                high = middle
        return low

    def of(self, executor: int, block_hash: bytes) -> Producer | None:
        """Who computes that block there."""
        return self._by_hash.get(executor, {}).get(block_hash)

    def check_invariants(self) -> None:
        """Raises InvariantViolated when a block stands for an attempt that is not here, or the other way round."""
        named = {producer.id for here in self._by_hash.values() for producer in here.values()}
        if named != set(self._by_attempt):
            raise InvariantViolated("blocks that are computed and those who compute them differ")


def hash_at(hashes: bytes, index: int) -> bytes:
    return hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES]
