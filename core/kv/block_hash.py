"""Block hashes: the name of a block's tokens together with everything before them, under a deployment's key.

    h_{-1} = PRF(key, ROOT ‖ layout fingerprint ‖ salt ‖ adapter)       leaf_i = PRF(key, LEAF ‖ tokens_i)
    h_i    = PRF(key, LINK ‖ h_{i-1} ‖ leaf_i)

PRF is SipHash-2-4 with 128 bits of output; the three tags have eight bytes each, the root's fields carry their length,
tokens are little-endian int32. Keys and hashes are 16 `bytes`.

- `siphash128(key, data)`: the PRF itself.
- `root_hash(key, layout_fingerprint, salt, adapter)`: the hash before the first block.
- `hash_chain(key, root, tokens, block_size, lanes=True)`: the hashes of all full blocks, concatenated. `tokens` is
  bytes, or any contiguous buffer of 32-bit integers. `lanes=False` forces the portable code: the same digests.
- `extend_chain(key, parent, tokens, block_size)`: the same with the hash of any block as the root: goes on after it.
- `lane_width()`: how many blocks this machine hashes side by side (1: no vector code for it).
"""

from baton.core.kv._block_hash import hash_chain, lane_width, root_hash, siphash128

extend_chain = hash_chain

__all__ = ["extend_chain", "hash_chain", "lane_width", "root_hash", "siphash128"]
