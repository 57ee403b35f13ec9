#include "block_hash.h"

#include "siphash.h"

#define LEAF_TAG 0x4641454c5f4e5442u /* the bytes "BTN_LEAF" */
#define LINK_TAG 0x4b4e494c5f4e5442u /* the bytes "BTN_LINK" */
#define TAG_BYTES 8
#define TOKEN_BYTES 4

/* The last word of a leaf: the length on top, and the odd token of a block whose size is odd. */
static inline uint64_t leaf_last_word(const uint8_t *block, size_t block_bytes) {
    uint64_t word = (uint64_t)(block_bytes + TAG_BYTES) << 56;
    uint32_t odd_token = 0;
    if (block_bytes % 8) memcpy(&odd_token, block + block_bytes - TOKEN_BYTES, TOKEN_BYTES);
    return word | odd_token;
}

/* Where the chain stands. Leaves wait for their links in the place where their hashes will stand. */
typedef struct {
    sip_state_t start; /* has absorbed the tag of links */
    uint64_t hash[2];  /* the last hash made */
    uint8_t *next;     /* the leaf to link next */
    size_t num_waiting;
} chain_t;

/* A link in the making: h_{i-1} and the leaf, then the digest. */
typedef struct {
    sip_state_t state;
    uint64_t words[4];
} link_t;

static inline link_t link_begin(const chain_t *chain) {
    return (link_t){chain->start, {chain->hash[0], chain->hash[1], sip_load(chain->next), sip_load(chain->next + 8)}};
}

#define NUM_LINK_PARTS 8

/* One of the parts of a link, in their order: each is so long as absorbing a word or two, to be woven into other work. */
static inline void link_part(link_t *link, int part) {
    sip_state_t *s = &link->state;
    if (part < 4) {
        sip_absorb(s, link->words[part]);
    } else if (part == 4) {
        sip_absorb(s, (uint64_t)(TAG_BYTES + 2 * BLOCK_HASH_BYTES) << 56);
    } else if (part == 5) {
        s->v2 ^= 0xee;
        sip_rounds(s, 2);
    } else if (part == 6) {
        sip_rounds(s, 2);
        link->words[0] = sip_fold(s);
        s->v1 ^= 0xdd;
    } else {
        sip_rounds(s, 4);
        link->words[1] = sip_fold(s);
    }
}

static inline void link_end(chain_t *chain, const link_t *link) {
    memcpy(chain->hash, link->words, BLOCK_HASH_BYTES);
    memcpy(chain->next, link->words, BLOCK_HASH_BYTES);
    chain->next += BLOCK_HASH_BYTES;
    chain->num_waiting--;
}

static void link_waiting(chain_t *chain) {
    while (chain->num_waiting > 0) {
        link_t link = link_begin(chain);
        for (int part = 0; part < NUM_LINK_PARTS; part++) link_part(&link, part);
        link_end(chain, &link);
    }
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

/* Two side by side, since one alone waits for its own results most of the time. */
static void leaves_portable(sip_state_t start, const uint8_t *tokens, size_t block_bytes, uint8_t *leaves) {
    sip_state_t a = start, b = start;
    const uint8_t *b_tokens = tokens + block_bytes;
    for (size_t at = 0; at + 8 <= block_bytes; at += 8) {
        sip_absorb(&a, sip_load(tokens + at));
        sip_absorb(&b, sip_load(b_tokens + at));
    }
    uint64_t words[4];
    sip_finish(&a, leaf_last_word(tokens, block_bytes), words);
    sip_finish(&b, leaf_last_word(b_tokens, block_bytes), words + 2);
    memcpy(leaves, words, sizeof(words));
}

/* Writes the leaves of the next blocks, as many as go side by side, and returns how many. `start` has absorbed the tag
 * of leaves; there is at least one block. */
static size_t hash_leaves(sip_state_t start, const uint8_t *tokens, size_t num_blocks, size_t block_bytes, int lanes,
                          chain_t *chain, uint8_t *leaves) {
#ifdef HAVE_LANES
    if (lanes >= 16 && num_blocks >= 16) return leaves_avx512(start, tokens, block_bytes, chain, leaves), 16;
    if (lanes >= 8 && num_blocks >= 8) return leaves_avx2(start, tokens, block_bytes, chain, leaves), 8;
#endif
    if (num_blocks >= 2) return leaves_portable(start, tokens, block_bytes, leaves), 2;
    return leaf_portable(start, tokens, block_bytes, leaves), 1;
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
    chain_t chain = {link_start, {sip_load(parent), sip_load(parent + 8)}, hashes, 0};
    size_t count;
    for (size_t done = 0; done < num_blocks; done += count) {
        count = hash_leaves(leaf_start, tokens + done * block_bytes, num_blocks - done, block_bytes, lanes, &chain,
                            hashes + done * BLOCK_HASH_BYTES);
        link_waiting(&chain);
        chain.num_waiting = count;
    }
    link_waiting(&chain);
}
