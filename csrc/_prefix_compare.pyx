"""Python types around prefix_compare.c; `baton.core.kv.prefix_compare` documents the interface."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from token_buffer cimport TOKEN_BYTES, PyBuffer_Release, borrow_tokens


cdef extern from "prefix_compare.h" nogil:
    size_t compare_tokens "first_difference"(const uint8_t *a, const uint8_t *b, size_t count)


def first_difference(a, b):
    cdef Py_buffer a_view, b_view
    borrow_tokens(a, &a_view)
    try:
        borrow_tokens(b, &b_view)
        try:
            return compare_tokens(
                <const uint8_t *> a_view.buf, <const uint8_t *> b_view.buf, min(a_view.len, b_view.len) // TOKEN_BYTES
            )
        finally:
            PyBuffer_Release(&b_view)
    finally:
        PyBuffer_Release(&a_view)
