/* Runs one function on several threads of a pool that the process keeps; there are two such teams, so that two threads
 * may compute at once with helpers of their own.
 *
 * Whoever calls works too, and waits only for threads that have begun: one that the scheduler holds back while other
 * processes use its core joins late or not at all. Idle threads spin briefly, yielding the core, and then sleep. */
#ifndef BATON_TEAM_H
#define BATON_TEAM_H

#include <stdatomic.h>

typedef void (*team_function)(void *data);

enum { TEAM_COUNT = 2 };

/* From now on calls from this thread use the helpers of team `which` (0 until it has said otherwise), and at most
 * num_threads at once, the caller included. Helpers begin with the niceness and the cores of whoever needs them first:
 * a thread sets its own before. */
void team_choose(int which, int num_threads);

/* Calls function(data) here and on up to num_threads - 1 other threads at once, and returns when all have returned.
 * The function must do all work even where it is called once: it takes its tasks with `team_next`. A second caller of
 * the same team at the same time gets no other threads. */
void team_run(team_function function, void *data, int num_threads);

/* The next task of [0, num_tasks) for whoever asks first, or -1. */
static inline long team_next(atomic_long *counter, long num_tasks)
{
    long task = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return task < num_tasks ? task : -1;
}

#endif
