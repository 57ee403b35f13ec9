/* The chain of block hashes of a token sequence.
 *
 *     leaf_i = PRF(key, LEAF || tokens_i)        h_i = PRF(key, LINK || h_{i-1} || leaf_i)
 *
 * PRF is SipHash-2-4-128; tokens are little-endian int32; each tag is eight bytes. The leaves are independent, so they
 * are computed in vector lanes where the CPU has them; every width gives the same digests. */
#ifndef BATON_BLOCK_HASH_H
#define BATON_BLOCK_HASH_H

#include <stddef.h>
#include <stdint.h>

#define BLOCK_HASH_BYTES 16

/* The tag that opens the message of h_{-1}, so that no root is ever a leaf or a link: the bytes "BTN_ROOT". */
#define ROOT_TAG 0x544f4f525f4e5442u

/* Blocks that one vector step computes side by side, as the CPU allows: 16, 8, or 1 for the portable code. */
int block_hash_lanes(void);

/* Writes the hashes of `num_blocks` whole blocks of `block_size` tokens; `parent` is the hash before the first.
 * `max_lanes` bounds the width (1: portable). `tokens` may have any alignment. */
void block_hash_chain(const uint8_t *key, const uint8_t *parent, const uint8_t *tokens, size_t num_blocks,
                      size_t block_size, int max_lanes, uint8_t *hashes);

#endif
