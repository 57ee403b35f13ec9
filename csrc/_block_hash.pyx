"""Python types around siphash.c and block_hash.c; `baton.core.kv.block_hash` documents the interface."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from _c_block_hash cimport *
from token_buffer cimport TOKEN_BYTES, PyBuffer_Release, borrow_tokens

cdef enum:
    MANY_TOKENS = 4096  # from here on hashing takes longer than letting go of the GIL costs


cdef const uint8_t *sized(bytes value, Py_ssize_t size, str name) except NULL:
    """Return the bytes' address; they must have this size."""
    if value is None or PyBytes_GET_SIZE(value) != size:
        raise ValueError(f"{name} must be {size} bytes")
    return <const uint8_t *> PyBytes_AS_STRING(value)


def siphash128(bytes key, bytes data not None):
    cdef const uint8_t *raw_key = sized(key, SIPHASH_KEY_BYTES, "key")
    cdef bytes digest = PyBytes_FromStringAndSize(NULL, SIPHASH_DIGEST_BYTES)
    cdef const uint8_t *raw_data = <const uint8_t *> PyBytes_AS_STRING(data)
    siphash128_into(raw_key, raw_data, PyBytes_GET_SIZE(data), <uint8_t *> PyBytes_AS_STRING(digest))
    return digest


def root_hash(bytes key, bytes layout_fingerprint not None, bytes salt not None, bytes adapter not None):
    cdef list parts = [(<object> ROOT_TAG).to_bytes(8, "little")]
    for field in (layout_fingerprint, salt, adapter):
        parts.append(len(field).to_bytes(8, "little"))
        parts.append(field)
    return siphash128(key, b"".join(parts))


def hash_chain(bytes key, bytes root, tokens, Py_ssize_t block_size, bint lanes=True):
    cdef const uint8_t *raw_key = sized(key, SIPHASH_KEY_BYTES, "key")
    cdef const uint8_t *raw_root = sized(root, SIPHASH_DIGEST_BYTES, "root")
    if block_size < 1:
        raise ValueError(f"block_size must be positive, not {block_size}")
    cdef int max_lanes = block_hash_lanes() if lanes else 1
    cdef Py_buffer view
    borrow_tokens(tokens, &view)
    cdef Py_ssize_t num_blocks = view.len // TOKEN_BYTES // block_size
    cdef bytes hashes
    cdef uint8_t *out
    try:
        hashes = PyBytes_FromStringAndSize(NULL, num_blocks * SIPHASH_DIGEST_BYTES)
        out = <uint8_t *> PyBytes_AS_STRING(hashes)
        if num_blocks * block_size >= MANY_TOKENS:
            with nogil:
                block_hash_chain(raw_key, raw_root, <uint8_t *> view.buf, num_blocks, block_size, max_lanes, out)
        else:
            block_hash_chain(raw_key, raw_root, <uint8_t *> view.buf, num_blocks, block_size, max_lanes, out)
    finally:
        PyBuffer_Release(&view)
    return hashes


def lane_width():
    return block_hash_lanes()
