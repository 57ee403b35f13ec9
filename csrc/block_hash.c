#include "block_hash.h"

#include "siphash.h"

#define LEAF_TAG 0x4641454c5f4e5442u /* the bytes "BTN_LEAF" */
#define LINK_TAG 0x4b4e494c5f4e5442u /* the bytes "BTN_LINK" */
#define TAG_BYTES 8
#define TOKEN_BYTES 4

/* Leaves computed before they are linked: enough for the lanes, small enough for the first-level cache. */
#define LEAVES_AT_ONCE 64

/* The last word of a leaf: the length on top, and the odd token of a block whose size is odd. */
static inline uint64_t leaf_last_word(const uint8_t *block, size_t block_bytes) {
    uint64_t word = (uint64_t)(block_bytes + TAG_BYTES) << 56;
    uint32_t odd_token = 0;
    if (block_bytes % 8) memcpy(&odd_token, block + block_bytes - TOKEN_BYTES, TOKEN_BYTES);
    return word | odd_token;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_LANES 1
#include <immintrin.h>

#define LANES_NAME leaves_avx2
#define LANES_TARGET "avx2"
#define LANES_WIDTH 4
/* Broadcasting loads and blends leave the shuffle ports, which limit this width, to the rotations. */
#define BROADCAST(from) _mm256_set1_epi64x((int64_t)sip_load(from))
#define LANES_LOAD(type, from, step)                                                            \
    ((type)_mm256_blend_epi32(                                                                  \
        _mm256_blend_epi32(BROADCAST(from), BROADCAST((from) + (step)), 0x0c),                  \
        _mm256_blend_epi32(BROADCAST((from) + 2 * (step)), BROADCAST((from) + 3 * (step)), 0xc0), 0xf0))
#define LANES_ROTATE32(x) ((lanes_t)__builtin_shuffle((words_t)(x), (words_t){1, 0, 3, 2, 5, 4, 7, 6}))
#define LANES_ROTATE16(x) ((lanes_t)__builtin_shuffle((bytes_t)(x), (bytes_t){ \
    6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13, 22, 23, 16, 17, 18, 19, 20, 21, 30, 31, 24, 25, 26, 27, 28, 29}))
#include "leaf_lanes.h"

#define LANES_NAME leaves_avx512
#define LANES_TARGET "avx512f"
#define LANES_WIDTH 8
#define LANES_LOAD(type, from, step)                                                                              \
    ((type){sip_load(from), sip_load((from) + (step)), sip_load((from) + 2 * (step)), sip_load((from) + 3 * (step)), \
            sip_load((from) + 4 * (step)), sip_load((from) + 5 * (step)), sip_load((from) + 6 * (step)),          \
            sip_load((from) + 7 * (step))})
#define LANES_ROTATE32(x) SIP_ROTATE32(x)
#define LANES_ROTATE16(x) SIP_ROTATE16(x)
#include "leaf_lanes.h"
#endif

int block_hash_lanes(void) {
#ifdef HAVE_LANES
    if (__builtin_cpu_supports("avx512f")) return 16;
    if (__builtin_cpu_supports("avx2")) return 8;
#endif
    return 1;
}

static void leaf_portable(sip_state_t state, const uint8_t *block, size_t block_bytes, uint8_t *leaf) {
    for (size_t at = 0; at + 8 <= block_bytes; at += 8) sip_absorb(&state, sip_load(block + at));
    uint64_t words[2];
    sip_finish(&state, leaf_last_word(block, block_bytes), words);
    memcpy(leaf, words, sizeof(words));
}

/* `start` has absorbed the tag. As many blocks as fill the lanes go there, the rest one by one. */
static void hash_leaves(sip_state_t start, const uint8_t *tokens, size_t num_blocks, size_t block_bytes, int lanes,
                        uint8_t *leaves) {
    size_t done = 0;
#ifdef HAVE_LANES
    for (; lanes >= 16 && num_blocks - done >= 16; done += 16)
        leaves_avx512(start, tokens + done * block_bytes, block_bytes, leaves + done * BLOCK_HASH_BYTES);
    for (; lanes >= 8 && num_blocks - done >= 8; done += 8)
        leaves_avx2(start, tokens + done * block_bytes, block_bytes, leaves + done * BLOCK_HASH_BYTES);
#endif
    for (; done < num_blocks; done++)
        leaf_portable(start, tokens + done * block_bytes, block_bytes, leaves + done * BLOCK_HASH_BYTES);
}

void block_hash_chain(const uint8_t *key, const uint8_t *parent, const uint8_t *tokens, size_t num_blocks,
                      size_t block_size, int max_lanes, uint8_t *hashes) {
    size_t block_bytes = block_size * TOKEN_BYTES;
    int lanes = block_hash_lanes();
    if (lanes > max_lanes) lanes = max_lanes;
    /* Every message of a kind opens with the same tag, so its state is computed once. */
    sip_state_t leaf_start = sip_start(key), link_start = leaf_start;
    sip_absorb(&leaf_start, LEAF_TAG);
    sip_absorb(&link_start, LINK_TAG);
    const uint64_t link_last = (uint64_t)(TAG_BYTES + 2 * BLOCK_HASH_BYTES) << 56;
    uint64_t hash[2] = {sip_load(parent), sip_load(parent + 8)};
    uint8_t leaves[LEAVES_AT_ONCE * BLOCK_HASH_BYTES];
    for (size_t first = 0; first < num_blocks; first += LEAVES_AT_ONCE) {
        size_t count = num_blocks - first < LEAVES_AT_ONCE ? num_blocks - first : LEAVES_AT_ONCE;
        hash_leaves(leaf_start, tokens + first * block_bytes, count, block_bytes, lanes, leaves);
        for (size_t i = 0; i < count; i++) {
            sip_state_t state = link_start;
            sip_absorb(&state, hash[0]);
            sip_absorb(&state, hash[1]);
            sip_absorb(&state, sip_load(leaves + i * BLOCK_HASH_BYTES));
            sip_absorb(&state, sip_load(leaves + i * BLOCK_HASH_BYTES + 8));
            sip_finish(&state, link_last, hash);
            memcpy(hashes + (first + i) * BLOCK_HASH_BYTES, hash, BLOCK_HASH_BYTES);
        }
    }
}
