"""The block pool in plain Python: same rules, same ids, no tricks."""

import struct

from baton.core.kv.block_pool import PoolCorrupt, PoolExhausted

HASH_BYTES = 16


def unpack_ids(packed: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(packed) // 4}i", packed))


def pack_ids(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}i", *ids)


def split_hashes(packed: bytes) -> list[bytes]:
    return [packed[at : at + HASH_BYTES] for at in range(0, len(packed), HASH_BYTES)]


class BlockPoolTwin:
    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.refs = dict.fromkeys(range(num_blocks), 0)
        self.fresh = list(range(num_blocks))  # next to be allocated first
        self.cached: list[int] = []  # next to be evicted first
        self.published: dict[int, tuple[bytes, int]] = {}  # block -> its hash and parent
        self.by_hash: dict[bytes, int] = {}
        self.evicted: list[bytes] = []

    @property
    def num_free(self) -> int:
        return len(self.fresh) + len(self.cached)

    @property
    def num_cached(self) -> int:
        return len(self.published)

    def allocate(self, count: int) -> bytes:
        if count > self.num_free:
            raise PoolExhausted(needed=count, free=self.num_free)
        ids = [self.fresh.pop(0) if self.fresh else self._evict() for _ in range(count)]
        for block in ids:
            self.refs[block] = 1
        return pack_ids(ids)

    def _evict(self) -> int:
        block = self.cached.pop(0)
        block_hash, _ = self.published.pop(block)
        del self.by_hash[block_hash]
        self.evicted.append(block_hash)
        return block

    def retain(self, packed: bytes) -> None:
        ids = unpack_ids(packed)
        if any(self.refs.get(block, 0) == 0 for block in ids):
            raise PoolCorrupt("retain")
        for block in ids:
            self.refs[block] += 1

    def release(self, packed: bytes) -> None:
        before = (dict(self.refs), list(self.fresh), list(self.cached))
        try:
            for block in reversed(unpack_ids(packed)):
                self._release_one(block)
        except PoolCorrupt:
            self.refs, self.fresh, self.cached = before
            raise

    def _release_one(self, block: int) -> None:
        if self.refs.get(block, 0) == 0:
            raise PoolCorrupt("not held")
        if self.refs[block] == 1 and any(
            parent == block and self.refs[child] for child, (_, parent) in self.published.items()
        ):
            raise PoolCorrupt("a child is held")
        self.refs[block] -= 1
        if self.refs[block] == 0 and block in self.published:
            self.cached.append(block)
        elif self.refs[block] == 0:
            self.fresh.insert(0, block)

    def publish(self, block: int, block_hash: bytes, parent: int) -> bool:
        if self.refs.get(block, 0) == 0 or (parent != -1 and self.refs.get(parent, 0) == 0):
            raise PoolCorrupt("publish")
        if block in self.published:
            if self.published[block] != (block_hash, parent):
                raise PoolCorrupt("republished")
            return True
        if (parent != -1 and parent not in self.published) or block_hash in self.by_hash:
            return False
        self.published[block] = (block_hash, parent)
        self.by_hash[block_hash] = block
        return True

    def match(self, hashes: bytes) -> int:
        count = 0
        for block_hash in split_hashes(hashes):
            if block_hash not in self.by_hash:
                break
            count += 1
        return count

    def acquire(self, hashes: bytes, count: int) -> bytes:
        wanted = split_hashes(hashes)[:count]
        if any(block_hash not in self.by_hash for block_hash in wanted):
            raise PoolCorrupt("not cached")
        ids = [self.by_hash[block_hash] for block_hash in wanted]
        if [self.published[block][1] for block in ids] != [-1, *ids][:count]:
            raise PoolCorrupt("not a chain")
        for block in ids:
            if self.refs[block] == 0:
                self.cached.remove(block)
            self.refs[block] += 1
        return pack_ids(ids)

    def take_evicted(self) -> bytes:
        taken, self.evicted = b"".join(self.evicted), []
        return taken

    def clear_cache(self) -> int:
        count = len(self.cached)
        for _ in range(count):
            self.fresh.insert(0, self._evict())
        return count

    def block_hash(self, block: int) -> bytes | None:
        return self.published[block][0] if block in self.published else None

    def ref_count(self, block: int) -> int:
        return self.refs[block]

    def is_published(self, block: int) -> bool:
        return block in self.published
