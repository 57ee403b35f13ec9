"""The block pool: who holds which KV block, and which computed blocks may be found again by their hash.

`BlockPool(num_blocks)` owns the books, not the memory. Ids are 0 … num_blocks - 1 and travel as packed int32 `bytes`,
hashes as concatenated 16-byte digests. A block is *held* while it has references, *free* otherwise; a free block that
is *published* keeps its content until it is allocated again.

- `allocate(count)`: ids with one reference each. Free blocks without content go first, then published ones in the order
  of their release. `PoolExhausted` when fewer than `count` are free.
- `retain(ids)`, `release(ids)`: one reference more or less for each; release goes from the last id to the first, so
  that a child is free before its parent. The last reference of a parent cannot go while a published child is held.
- `publish(block_id, block_hash, parent)`: enters a held block below its held parent (-1: first of its chain). False,
  and no change, when another block has the hash already or the parent is not published itself.
- `match(hashes)`: number of leading hashes of a chain that are published, by bisection: no block is without its parent.
- `acquire(hashes, count)`: ids of the first `count` hashes, one reference more for each.
- `take_evicted()`: hashes that left the index since the last call. `clear_cache()`: drops all free published blocks.
- `block_hash`, `ref_count`, `is_published` of one block; `num_blocks`, `num_free`, `num_cached` (published) of all.
- `check_invariants()` recounts everything.

Wrong use raises `PoolCorrupt`. Whatever raises changes nothing.
"""

from baton.core.kv._block_pool import BlockPool
from baton.core.kv.errors import PoolCorrupt, PoolExhausted

__all__ = ["BlockPool", "PoolCorrupt", "PoolExhausted"]
