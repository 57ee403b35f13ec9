#include "ledger.h"

#include <stdlib.h>
#include <string.h>

void ledger_init(ledger_t *ledger) { memset(ledger, 0, sizeof(*ledger)); }

void ledger_free(ledger_t *ledger) {
    free(ledger->accounts);
    ledger_init(ledger);
}

static int reserve(ledger_t *ledger, int64_t executor) {
    if (executor < ledger->capacity) return 0;
    int32_t capacity = ledger->capacity ? ledger->capacity : 16;
    while (capacity <= executor) capacity *= 2;
    account_t *grown = realloc(ledger->accounts, (size_t)capacity * sizeof(account_t));
    if (!grown) return -1;
    memset(grown + ledger->capacity, 0, (size_t)(capacity - ledger->capacity) * sizeof(account_t));
    ledger->accounts = grown;
    ledger->capacity = capacity;
    return 0;
}

ledger_status_t ledger_open(ledger_t *ledger, int64_t executor, credit_t credit) {
    if (executor < 0 || executor >= LEDGER_MAX_EXECUTORS) return LEDGER_BAD_EXECUTOR;
    if (credit.blocks < 0 || credit.slots < 0) return LEDGER_NEGATIVE;
    if (reserve(ledger, executor) < 0) return LEDGER_NO_MEMORY;
    ledger->accounts[executor] = (account_t){.granted = credit, .is_open = 1};
    return LEDGER_OK;
}

ledger_status_t ledger_close(ledger_t *ledger, int64_t executor) {
    if (!ledger_is_open(ledger, executor)) return LEDGER_NOT_OPEN;
    ledger->accounts[executor] = (account_t){.is_open = 0};
    return LEDGER_OK;
}

ledger_status_t ledger_grant(ledger_t *ledger, int64_t executor, credit_t credit) {
    if (!ledger_is_open(ledger, executor)) return LEDGER_NOT_OPEN;
    if (credit.blocks < 0 || credit.slots < 0) return LEDGER_NEGATIVE;
    credit_t *granted = &ledger->accounts[executor].granted;
    if (granted->blocks > INT64_MAX - credit.blocks || granted->slots > INT64_MAX - credit.slots)
        return LEDGER_OVERFLOW;
    granted->blocks += credit.blocks;
    granted->slots += credit.slots;
    return LEDGER_OK;
}

ledger_status_t ledger_spend(ledger_t *ledger, int64_t executor, credit_t credit) {
    if (!ledger_is_open(ledger, executor)) return LEDGER_NOT_OPEN;
    if (credit.blocks < 0 || credit.slots < 0) return LEDGER_NEGATIVE;
    account_t *account = &ledger->accounts[executor];
    credit_t available = account_available(account);
    if (credit.blocks > available.blocks || credit.slots > available.slots) return LEDGER_SHORT;
    account->spent.blocks += credit.blocks;
    account->spent.slots += credit.slots;
    return LEDGER_OK;
}

credit_t ledger_max_available(const ledger_t *ledger) {
    credit_t most = {0, 0};
    for (int32_t executor = 0; executor < ledger->capacity; executor++) {
        if (!ledger->accounts[executor].is_open) continue;
        credit_t available = account_available(&ledger->accounts[executor]);
        if (available.blocks > most.blocks) most.blocks = available.blocks;
        if (available.slots > most.slots) most.slots = available.slots;
    }
    return most;
}

const char *ledger_check(const ledger_t *ledger) {
    for (int32_t executor = 0; executor < ledger->capacity; executor++) {
        const account_t *account = &ledger->accounts[executor];
        if (account->spent.blocks < 0 || account->spent.slots < 0) return "an account spent less than nothing";
        if (account->spent.blocks > account->granted.blocks || account->spent.slots > account->granted.slots)
            return "an account spent more than was granted";
        if (!account->is_open && (account->granted.blocks || account->granted.slots))
            return "a closed account holds credit";
    }
    return NULL;
}
