#include "siphash.h"

void siphash128(const uint8_t *key, const uint8_t *data, size_t num_bytes, uint8_t *digest) {
    sip_state_t state = sip_start(key);
    size_t whole = num_bytes & ~(size_t)7;
    for (size_t at = 0; at < whole; at += 8) sip_absorb(&state, sip_load(data + at));
    uint64_t words[2];
    sip_finish(&state, sip_last_word(data + whole, num_bytes), words);
    memcpy(digest, words, sizeof(words));
}
