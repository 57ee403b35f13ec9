"""Which executor holds which prefix blocks: a hint, kept from what executors publish and evict; no capacity."""

from __future__ import annotations

HASH_BYTES = 16


class Directory:
    """Block hashes by executor, each executor a bit."""

    def __init__(self) -> None:
        self._holders: dict[bytes, int] = {}
        self._found: dict[int, tuple[bytes, int]] = {}  #: by executor: the last chain asked for, and what was answered

    def reset(self, executor: int, hashes: bytes) -> None:
        """The executor's index is exactly this."""
        bit = 1 << executor
        for block_hash in [h for h, holders in self._holders.items() if holders & bit]:
            self._remove(block_hash, bit)
        self.change(executor, hashes, b"")

    def change(self, executor: int, published: bytes, evicted: bytes) -> None:
        bit = 1 << executor
        self._found.pop(executor, None)
        for block_hash in split(evicted):
            self._remove(block_hash, bit)
        for block_hash in split(published):
            self._holders[block_hash] = self._holders.get(block_hash, 0) | bit

    def num_held(self, executor: int, hashes: bytes) -> int:
        """Leading blocks of the chain that the executor holds, by bisection: its index is closed under prefixes.
        Placing a prompt asks for the same several times."""
        found = self._found.get(executor)
        if found is not None and found[0] is hashes:
            return found[1]
        num_held = self._bisect(1 << executor, hashes)
        self._found[executor] = hashes, num_held
        return num_held

    def _bisect(self, bit: int, hashes: bytes) -> int:
        low, high = 0, len(hashes) // HASH_BYTES
        while low < high:
            middle = (low + high) // 2
            block_hash = hashes[middle * HASH_BYTES : (middle + 1) * HASH_BYTES]
            if self._holders.get(block_hash, 0) & bit:
                low = middle + 1
            else:
                high = middle
        return low

    def __len__(self) -> int:
        return len(self._holders)

    def _remove(self, block_hash: bytes, bit: int) -> None:
        holders = self._holders.get(block_hash, 0) & ~bit
        if holders:
            self._holders[block_hash] = holders
        else:
            self._holders.pop(block_hash, None)


def split(hashes: bytes) -> list[bytes]:
    return [hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES)]
