/* The admission ledger: credit (blocks and slots) that each executor granted and that is not spent yet.
 *
 * For each open account 0 <= spent <= granted holds in both resources; what is available is the difference. */
#ifndef BATON_LEDGER_H
#define BATON_LEDGER_H

#include <stdint.h>

#define LEDGER_MAX_EXECUTORS 65536

typedef enum {
    LEDGER_OK = 0,
    LEDGER_NO_MEMORY,
    LEDGER_BAD_EXECUTOR, /* not in [0, LEDGER_MAX_EXECUTORS) */
    LEDGER_NOT_OPEN,
    LEDGER_NEGATIVE,     /* an amount below zero */
    LEDGER_OVERFLOW,     /* the sum of an account's grants would not fit 64 bits */
    LEDGER_SHORT,        /* less is available than was to be spent */
} ledger_status_t;

typedef struct {
    int64_t blocks, slots;
} credit_t;

typedef struct {
    credit_t granted, spent; /* since the account was opened */
    uint8_t is_open;
} account_t;

typedef struct {
    account_t *accounts; /* by executor id */
    int32_t capacity;
} ledger_t;

void ledger_init(ledger_t *ledger);
void ledger_free(ledger_t *ledger);

static inline int ledger_is_open(const ledger_t *ledger, int64_t executor) {
    return executor >= 0 && executor < ledger->capacity && ledger->accounts[executor].is_open;
}

static inline credit_t account_available(const account_t *account) {
    return (credit_t){account->granted.blocks - account->spent.blocks, account->granted.slots - account->spent.slots};
}

/* Opens the account with this credit, or starts it anew. */
ledger_status_t ledger_open(ledger_t *ledger, int64_t executor, credit_t credit);
ledger_status_t ledger_close(ledger_t *ledger, int64_t executor);
ledger_status_t ledger_grant(ledger_t *ledger, int64_t executor, credit_t credit);

/* Both resources or neither. */
ledger_status_t ledger_spend(ledger_t *ledger, int64_t executor, credit_t credit);

/* For each resource the most that any one executor has available; zero without executors. */
credit_t ledger_max_available(const ledger_t *ledger);

/* NULL, or what is wrong. */
const char *ledger_check(const ledger_t *ledger);

#endif
