#include <string.h>

#include "block_hash.h"
#include "driver.h"
#include "prefix_compare.h"
#include "siphash.h"

/* The buffers end where the data ends, so that a read beyond them is seen. */
static uint8_t *random_bytes(size_t size) {
    uint8_t *bytes = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)draw(256);
    return bytes;
}

void drive_block_hash(void) {
    for (int round = 0; round < 400; round++) {
        size_t num_blocks = draw(150), block_size = 1 + draw(70), offset = draw(4);
        uint8_t *key = random_bytes(16), *parent = random_bytes(16);
        uint8_t *tokens = random_bytes(offset + 4 * num_blocks * block_size);
        uint8_t *wide = random_bytes(16 * num_blocks), *narrow = random_bytes(16 * num_blocks);
        block_hash_chain(key, parent, tokens + offset, num_blocks, block_size, block_hash_lanes(), wide);
        block_hash_chain(key, parent, tokens + offset, num_blocks, block_size, 1, narrow);
        EXPECT(memcmp(wide, narrow, 16 * num_blocks) == 0);
        uint8_t digest[16];
        siphash128(key, tokens, offset, digest);
        free(key), free(parent), free(tokens), free(wide), free(narrow);
    }
}

void drive_prefix_compare(void) {
    for (int round = 0; round < 400; round++) {
        size_t count = draw(3000), offset = draw(4);
        uint8_t *a = random_bytes(offset + 4 * count), *b = malloc(4 * count + 1);
        memcpy(b, a + offset, 4 * count);
        EXPECT(first_difference(a + offset, b, count) == count);
        if (count) {
            size_t position = draw((uint32_t)count);
            b[4 * position + draw(4)] ^= 1;
            EXPECT(first_difference(a + offset, b, count) == position);
        }
        free(a), free(b);
    }
}
