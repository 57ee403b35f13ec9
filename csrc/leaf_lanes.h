/* One vector width of the leaf hash. Included once per width with these defined:
 *
 *   LANES_NAME    the function's name          LANES_TARGET   the instruction set that it is compiled for
 *   LANES_WIDTH   64-bit lanes in one vector   LANES_LOAD     gathers one word of each of LANES_WIDTH blocks
 *   LANES_ROTATE16, LANES_ROTATE32             the two rotations that are cheaper as a shuffle
 *
 * Two vectors run side by side, since one alone waits for its own results most of the time. The links of the leaves
 * before these are woven in: each waits for the one before it, in units that the vectors leave idle. */

#define BOTH_ROUND()                                                         \
    SIP_ROUND_WITH(LANES_ROTATE16, LANES_ROTATE32, a0, a1, a2, a3);          \
    SIP_ROUND_WITH(LANES_ROTATE16, LANES_ROTATE32, b0, b1, b2, b3)
/* `first` and `second` are other work, put between the rounds. */
#define BOTH_ABSORB(a_word, b_word, first, second)                           \
    do {                                                                     \
        lanes_t a_w = (a_word), b_w = (b_word);                              \
        a3 ^= a_w; b3 ^= b_w;                                                \
        BOTH_ROUND();                                                        \
        first;                                                               \
        BOTH_ROUND();                                                        \
        second;                                                              \
        a0 ^= a_w; b0 ^= b_w;                                                \
    } while (0)
#define BOTH_ABSORB_AT(at, first, second)                                                    \
    BOTH_ABSORB(LANES_LOAD(lanes_t, a_tokens + (at), block_bytes),                           \
                LANES_LOAD(lanes_t, b_tokens + (at), block_bytes), first, second)
#define STORE_HALF(half)                                                                                     \
    do {                                                                                                     \
        lanes_t a_out = a0 ^ a1 ^ a2 ^ a3, b_out = b0 ^ b1 ^ b2 ^ b3;                                        \
        for (int lane = 0; lane < LANES_WIDTH; lane++) {                                                     \
            uint64_t a_part = a_out[lane], b_part = b_out[lane];                                             \
            memcpy(leaves + 16 * lane + 8 * (half), &a_part, 8);                                             \
            memcpy(leaves + 16 * (LANES_WIDTH + lane) + 8 * (half), &b_part, 8);                             \
        }                                                                                                    \
    } while (0)

__attribute__((target(LANES_TARGET))) static void LANES_NAME(sip_state_t start, const uint8_t *tokens,
                                                             size_t block_bytes, chain_t *chain, uint8_t *leaves) {
    typedef uint64_t lanes_t __attribute__((vector_size(8 * LANES_WIDTH)));
    typedef uint32_t words_t __attribute__((vector_size(8 * LANES_WIDTH), unused));
    typedef uint8_t bytes_t __attribute__((vector_size(8 * LANES_WIDTH), unused));
    const uint8_t *a_tokens = tokens, *b_tokens = tokens + LANES_WIDTH * block_bytes;
    lanes_t a0 = start.v0 - (lanes_t){0}, a1 = start.v1 - (lanes_t){0};
    lanes_t a2 = start.v2 - (lanes_t){0}, a3 = start.v3 - (lanes_t){0};
    lanes_t b0 = a0, b1 = a1, b2 = a2, b3 = a3;

    size_t at = 0;
    for (; at + 32 <= block_bytes && chain->num_waiting; at += 32) {
        link_t link = link_begin(chain);
        BOTH_ABSORB_AT(at, link_part(&link, 0), link_part(&link, 1));
        BOTH_ABSORB_AT(at + 8, link_part(&link, 2), link_part(&link, 3));
        BOTH_ABSORB_AT(at + 16, link_part(&link, 4), link_part(&link, 5));
        BOTH_ABSORB_AT(at + 24, link_part(&link, 6), link_part(&link, 7));
        link_end(chain, &link);
    }
    for (; at + 8 <= block_bytes; at += 8) BOTH_ABSORB_AT(at, (void)0, (void)0);
    lanes_t a_last, b_last;
    for (int lane = 0; lane < LANES_WIDTH; lane++) {
        a_last[lane] = leaf_last_word(a_tokens + (size_t)lane * block_bytes, block_bytes);
        b_last[lane] = leaf_last_word(b_tokens + (size_t)lane * block_bytes, block_bytes);
    }
    BOTH_ABSORB(a_last, b_last, (void)0, (void)0);
    a2 ^= 0xee; b2 ^= 0xee;
    for (int i = 0; i < 4; i++) { BOTH_ROUND(); }
    STORE_HALF(0);
    a1 ^= 0xdd; b1 ^= 0xdd;
    for (int i = 0; i < 4; i++) { BOTH_ROUND(); }
    STORE_HALF(1);
}

#undef BOTH_ROUND
#undef BOTH_ABSORB
#undef BOTH_ABSORB_AT
#undef STORE_HALF

#undef LANES_NAME
#undef LANES_TARGET
#undef LANES_WIDTH
#undef LANES_LOAD
#undef LANES_ROTATE16
#undef LANES_ROTATE32
