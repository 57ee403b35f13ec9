#include "driver.h"
#include "ledger.h"

static void plant_faults(ledger_t *ledger) {
    EXPECT(ledger_open(ledger, 3, (credit_t){5, 2}) == LEDGER_OK);
    EXPECT(ledger_spend(ledger, 3, (credit_t){4, 1}) == LEDGER_OK);
    account_t *account = &ledger->accounts[3];
    EXPECT_FOUND(account->spent.blocks, 6, ledger_check(ledger));
    EXPECT_FOUND(account->spent.slots, 3, ledger_check(ledger));
    EXPECT_FOUND(account->spent.slots, -1, ledger_check(ledger));
    EXPECT_FOUND(account->is_open, 0, ledger_check(ledger));
}

void drive_ledger(void) {
    ledger_t ledger;
    ledger_init(&ledger);
    EXPECT(ledger_open(&ledger, LEDGER_MAX_EXECUTORS, (credit_t){1, 1}) == LEDGER_BAD_EXECUTOR);
    EXPECT(ledger_open(&ledger, LEDGER_MAX_EXECUTORS - 1, (credit_t){INT64_MAX, 0}) == LEDGER_OK);
    EXPECT(ledger_grant(&ledger, LEDGER_MAX_EXECUTORS - 1, (credit_t){1, 0}) == LEDGER_OVERFLOW);
    ledger_free(&ledger);
    for (int round = 0; round < 50000; round++) {
        int64_t executor = draw(40);
        credit_t credit = {draw(9), draw(3)};
        switch (draw(6)) {
            case 0: EXPECT(ledger_open(&ledger, executor, credit) == LEDGER_OK); break;
            case 1: ledger_close(&ledger, executor); break;
            case 2:
            case 3: ledger_grant(&ledger, executor, credit); break;
            default: ledger_spend(&ledger, executor, credit); break;
        }
        credit_t most = ledger_max_available(&ledger);
        EXPECT(most.blocks >= 0 && most.slots >= 0);
        EXPECT_SOUND(ledger_check(&ledger));
    }
    plant_faults(&ledger);
    ledger_free(&ledger);
}
