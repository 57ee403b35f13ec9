"""What `_ledger.pyx` needs of ledger.h."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "ledger.h" nogil:
    int LEDGER_MAX_EXECUTORS

    ctypedef enum ledger_status_t:
        LEDGER_OK
        LEDGER_NO_MEMORY
        LEDGER_BAD_EXECUTOR
        LEDGER_NOT_OPEN
        LEDGER_NEGATIVE
        LEDGER_OVERFLOW
        LEDGER_SHORT

    ctypedef struct credit_t:
        int64_t blocks
        int64_t slots

    ctypedef struct account_t:
        pass

    ctypedef struct ledger_t:
        account_t *accounts
        int32_t capacity

    void ledger_init(ledger_t *ledger)
    void ledger_free(ledger_t *ledger)
    int ledger_is_open(const ledger_t *ledger, int64_t executor)
    credit_t account_available(const account_t *account)
    ledger_status_t ledger_open(ledger_t *ledger, int64_t executor, credit_t credit)
    ledger_status_t ledger_close(ledger_t *ledger, int64_t executor)
    ledger_status_t ledger_grant(ledger_t *ledger, int64_t executor, credit_t credit)
    ledger_status_t ledger_spend(ledger_t *ledger, int64_t executor, credit_t credit)
    credit_t ledger_max_available(const ledger_t *ledger)
    const char *ledger_check(const ledger_t *ledger)
