#include "driver.h"

#include "handle_map.h"

static uint64_t counter;

uint32_t draw(uint32_t bound) { return (uint32_t)((mix64(counter++) >> 32) * bound >> 32); }

int main(void) {
    drive_block_hash();
    drive_prefix_compare();
    drive_block_pool();
    drive_ready_queue();
    drive_ledger();
    drive_team();
    drive_dense();
    drive_paged_attention();
    puts("native core: every unit kept its invariants, every planted fault was found");
    return 0;
}
