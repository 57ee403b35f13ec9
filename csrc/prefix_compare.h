/* Where two token sequences part. */
#ifndef BATON_PREFIX_COMPARE_H
#define BATON_PREFIX_COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* First position in [0, count) where the tokens differ, or count. Each buffer holds `count` int32 at any alignment. */
size_t first_difference(const uint8_t *a, const uint8_t *b, size_t count);

#endif
