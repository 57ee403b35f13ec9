#define _GNU_SOURCE
#include "team.h"

#include <dlfcn.h>
#include <stddef.h>

/* GCC's OpenMP entry point; LLVM's and Intel's run-times export it too. */
typedef void (*parallel_function)(team_function function, void *data, unsigned num_threads, unsigned flags);

static parallel_function find_parallel(void)
{
    static _Atomic(parallel_function) found;
    parallel_function parallel = atomic_load_explicit(&found, memory_order_relaxed);
    if (parallel == NULL) {
        /* Looked up again until it is there: torch may be loaded after this. */
        *(void **)&parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
        atomic_store_explicit(&found, parallel, memory_order_relaxed);
    }
    return parallel;
}

void team_run(team_function function, void *data, int num_threads)
{
    parallel_function parallel = num_threads > 1 ? find_parallel() : NULL;
    if (parallel == NULL)
        function(data);
    else
        parallel(function, data, (unsigned)num_threads, 0);
}
