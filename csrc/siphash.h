/* SipHash-2-4 with 128 bits of output: a keyed pseudorandom function (Aumasson and Bernstein, 2012). */
#ifndef BATON_SIPHASH_H
#define BATON_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the hash reads words in memory order, which must be little-endian"
#endif

#define SIPHASH_KEY_BYTES 16
#define SIPHASH_DIGEST_BYTES 16

typedef struct {
    uint64_t v0, v1, v2, v3;
} sip_state_t;

/* One SipRound on four variables; they may be words or vectors of words. */
#define SIP_ROTATE(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))
#define SIP_ROUND_WITH(ROTATE16, ROTATE32, v0, v1, v2, v3)                                \
    do {                                                                                  \
        v0 += v1; v1 = SIP_ROTATE(v1, 13); v1 ^= v0; v0 = ROTATE32(v0);                   \
        v2 += v3; v3 = ROTATE16(v3); v3 ^= v2;                                            \
        v0 += v3; v3 = SIP_ROTATE(v3, 21); v3 ^= v0;                                      \
        v2 += v1; v1 = SIP_ROTATE(v1, 17); v1 ^= v2; v2 = ROTATE32(v2);                   \
    } while (0)

#define SIP_ROTATE16(x) SIP_ROTATE(x, 16)
#define SIP_ROTATE32(x) SIP_ROTATE(x, 32)
#define SIP_ROUND(v0, v1, v2, v3) SIP_ROUND_WITH(SIP_ROTATE16, SIP_ROTATE32, v0, v1, v2, v3)

static inline uint64_t sip_load(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static inline sip_state_t sip_start(const uint8_t *key) {
    uint64_t k0 = sip_load(key), k1 = sip_load(key + 8);
    return (sip_state_t){
        k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
}

static inline void sip_absorb(sip_state_t *s, uint64_t word) {
    s->v3 ^= word;
    SIP_ROUND(s->v0, s->v1, s->v2, s->v3);
    SIP_ROUND(s->v0, s->v1, s->v2, s->v3);
    s->v0 ^= word;
}

/* The last word of a message: the 0 to 7 bytes left over and, on top, the length of the whole modulo 256. */
static inline uint64_t sip_last_word(const uint8_t *rest, size_t num_bytes) {
    uint64_t word = (uint64_t)num_bytes << 56;
    for (size_t i = 0; i < num_bytes % 8; i++) word |= (uint64_t)rest[i] << (8 * i);
    return word;
}

static inline void sip_rounds(sip_state_t *s, int count) {
    for (int i = 0; i < count; i++) SIP_ROUND(s->v0, s->v1, s->v2, s->v3);
}

static inline uint64_t sip_fold(const sip_state_t *s) {
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* Absorbs the last word and writes the digest. */
static inline void sip_finish(sip_state_t *s, uint64_t last_word, uint64_t digest[2]) {
    sip_absorb(s, last_word);
    s->v2 ^= 0xee;
    sip_rounds(s, 4);
    digest[0] = sip_fold(s);
    s->v1 ^= 0xdd;
    sip_rounds(s, 4);
    digest[1] = sip_fold(s);
}

void siphash128(const uint8_t *key, const uint8_t *data, size_t num_bytes, uint8_t *digest);

#endif
