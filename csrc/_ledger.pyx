"""Python types around ledger.c; `baton.core.kv.ledger` documents the interface."""

from libc.stdint cimport int64_t

from _c_ledger cimport *


cdef int check_status(ledger_status_t status, int64_t executor) except -1:
    """Translate what the C side refused; nothing was changed there."""
    if status == LEDGER_OK:
        return 0
    if status == LEDGER_NOT_OPEN:
        raise KeyError(executor)
    if status == LEDGER_NO_MEMORY:
        raise MemoryError
    if status == LEDGER_OVERFLOW:
        raise OverflowError(f"executor {executor} granted more than 64 bits can count")
    if status == LEDGER_NEGATIVE:
        raise ValueError("an amount of credit is not negative")
    raise ValueError(f"an executor id lies in [0, {LEDGER_MAX_EXECUTORS}), not {executor}")


cdef class Ledger:
    cdef ledger_t ledger

    def __cinit__(self):
        ledger_init(&self.ledger)

    def __dealloc__(self):
        ledger_free(&self.ledger)

    def open(self, int64_t executor, int64_t blocks, int64_t slots):
        check_status(ledger_open(&self.ledger, executor, credit_t(blocks=blocks, slots=slots)), executor)

    def close(self, int64_t executor):
        check_status(ledger_close(&self.ledger, executor), executor)

    def grant(self, int64_t executor, int64_t blocks, int64_t slots):
        check_status(ledger_grant(&self.ledger, executor, credit_t(blocks=blocks, slots=slots)), executor)

    def try_spend(self, int64_t executor, int64_t blocks, int64_t slots):
        cdef ledger_status_t status = ledger_spend(&self.ledger, executor, credit_t(blocks=blocks, slots=slots))
        if status == LEDGER_SHORT:
            return False
        check_status(status, executor)
        return True

    def available(self, int64_t executor):
        if not ledger_is_open(&self.ledger, executor):
            raise KeyError(executor)
        cdef credit_t credit = account_available(&self.ledger.accounts[executor])
        return (credit.blocks, credit.slots)

    def max_available(self):
        cdef credit_t credit = ledger_max_available(&self.ledger)
        return (credit.blocks, credit.slots)

    def executors(self):
        return [executor for executor in range(self.ledger.capacity) if ledger_is_open(&self.ledger, executor)]

    def check_invariants(self):
        cdef const char *problem = ledger_check(&self.ledger)
        if problem != NULL:
            raise RuntimeError(problem.decode("ascii"))
