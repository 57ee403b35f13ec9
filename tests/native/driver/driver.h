/* The sanitizer driver: random calls of each C unit, invariants after each, and planted faults that must be found. */
#ifndef BATON_DRIVER_H
#define BATON_DRIVER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* `check` found nothing wrong, or says what. */
#define EXPECT_SOUND(check)                                                \
    do {                                                                   \
        const char *problem = (check);                                     \
        if (problem) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, problem);   \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

/* Breaks the structure with one statement; the check must notice. Then puts the field back. */
#define EXPECT_FOUND(field, wrong, check)      \
    do {                                       \
        __typeof__(field) right = (field);     \
        (field) = (wrong);                     \
        EXPECT((check) != NULL);               \
        (field) = right;                       \
        EXPECT_SOUND(check);                   \
    } while (0)

/* Uniform in [0, bound); the sequence is the same in every run. */
uint32_t draw(uint32_t bound);

void drive_block_hash(void);
void drive_prefix_compare(void);
void drive_block_pool(void);
void drive_ready_queue(void);
void drive_ledger(void);
void drive_team(void);
void drive_dense(void);
void drive_paged_attention(void);

#endif
