"""Borrowing int32 tokens from any object that lends its memory."""

from cpython.buffer cimport (
    PyBUF_CONTIG_RO,
    PyBUF_FORMAT,
    PyBuffer_Release,
    PyObject_GetBuffer,
)

cdef enum:
    TOKEN_BYTES = 4


cdef inline int borrow_tokens(object tokens, Py_buffer *view) except -1:
    """Fill `view`; the caller releases it. Accepts plain bytes of whole tokens, or items that are 32-bit integers."""
    PyObject_GetBuffer(tokens, view, PyBUF_CONTIG_RO | PyBUF_FORMAT)
    cdef bytes item_format = view.format if view.format != NULL else b"B"
    cdef bint is_tokens = view.itemsize == TOKEN_BYTES and item_format.endswith((b"i", b"I", b"l", b"L"))
    cdef bint is_bytes = view.itemsize == 1 and view.len % TOKEN_BYTES == 0
    if is_tokens or is_bytes:
        return 0
    PyBuffer_Release(view)
    raise TypeError(f"tokens are int32 items or their bytes, not {view.len} bytes of format {item_format!r}")
