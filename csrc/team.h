/* Runs one function on several threads, on the OpenMP team that the process already has (torch's), so that there are
 * not two teams that spin against each other. Without one it runs on the calling thread alone. */
#ifndef BATON_TEAM_H
#define BATON_TEAM_H

#include <stdatomic.h>

typedef void (*team_function)(void *data);

/* Calls function(data) on num_threads threads at once and returns when all have returned. */
void team_run(team_function function, void *data, int num_threads);

/* The next task of [0, num_tasks) for whoever asks first, or -1. */
static inline long team_next(atomic_long *counter, long num_tasks)
{
    long task = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return task < num_tasks ? task : -1;
}

#endif
