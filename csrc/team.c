#define _GNU_SOURCE
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

enum {
    MAX_OTHERS = 63,   /* threads beside the caller */
    PAUSES = 16,       /* between two looks at the core's other users */
    IDLE_ROUNDS = 150, /* looks before an idle thread sleeps: tens of microseconds */
    WAIT_ROUNDS = 150  /* looks before the caller sleeps until the last thread has returned */
};

/* The job's number in the high half, whether it may be joined, how many threads are in it. */
#define JOB(state) ((uint32_t)((state) >> 32))
#define IS_OPEN ((uint64_t)1 << 31)
#define NUM_INSIDE(state) ((state) & (IS_OPEN - 1))

struct team {
    pthread_mutex_t caller; /* held by whoever runs a job */
    pthread_mutex_t sleep;
    pthread_cond_t job_opened, job_left;
    atomic_int num_sleepers, is_caller_asleep;
    _Atomic uint64_t state;
    team_function function; /* of the open job, as are the two below */
    void *data;
    int num_others;
    int num_threads; /* started; written by the caller alone */
};

#define NO_THREADS                                                                                                     \
    {                                                                                                                  \
        .caller = PTHREAD_MUTEX_INITIALIZER, .sleep = PTHREAD_MUTEX_INITIALIZER,                                       \
        .job_opened = PTHREAD_COND_INITIALIZER, .job_left = PTHREAD_COND_INITIALIZER                                   \
    }

static struct team teams[TEAM_COUNT] = {NO_THREADS, NO_THREADS};

static _Thread_local int chosen_team;                 /* of this thread's calls */
static _Thread_local int chosen_size = MAX_OTHERS + 1; /* threads that they get at most, the caller included */

static void look_around(void)
{
    for (int i = 0; i < PAUSES; i++)
        PAUSE();
    sched_yield();
}

/* Whether a job is open that the thread has not looked at yet. */
static int has_new_job(struct team *team, uint32_t last_job)
{
    const uint64_t state = atomic_load(&team->state);
    return (state & IS_OPEN) != 0 && JOB(state) != last_job;
}

static void wait_for_job(struct team *team, uint32_t last_job)
{
    for (int round = 0; round < IDLE_ROUNDS; round++) {
        if (has_new_job(team, last_job))
            return;
        look_around();
    }
    pthread_mutex_lock(&team->sleep);
    atomic_fetch_add(&team->num_sleepers, 1); /* before the look: the caller opens the job before it looks for sleepers */
    while (!has_new_job(team, last_job))
        pthread_cond_wait(&team->job_opened, &team->sleep);
    atomic_fetch_sub(&team->num_sleepers, 1);
    pthread_mutex_unlock(&team->sleep);
}

/* Takes part in the open job unless it closes first or has threads enough; returns its number. */
static uint32_t join_job(struct team *team)
{
    uint64_t state = atomic_load(&team->state);
    do {
        if ((state & IS_OPEN) == 0)
            return JOB(state);
    } while (!atomic_compare_exchange_weak(&team->state, &state, state + 1));
    /* Inside: the job's fields stay as they are until this thread has left. */
    if ((int)NUM_INSIDE(state) < team->num_others)
        team->function(team->data);
    const uint64_t left = atomic_fetch_sub(&team->state, 1) - 1;
    if ((left & IS_OPEN) == 0 && NUM_INSIDE(left) == 0 && atomic_load(&team->is_caller_asleep)) {
        pthread_mutex_lock(&team->sleep);
        pthread_cond_signal(&team->job_left);
        pthread_mutex_unlock(&team->sleep);
    }
    return JOB(state);
}

static void *serve(void *data)
{
    for (uint32_t last_job = 0;;) {
        wait_for_job(data, last_job);
        last_job = join_job(data);
    }
    return data;
}

static void forget_threads(void) /* in the child of a fork, which has none of them */
{
    static const struct team fresh = NO_THREADS;
    for (int i = 0; i < TEAM_COUNT; i++)
        teams[i] = fresh;
}

/* New threads have the caller's niceness and cores. Fewer than asked for is no error. */
static void start_threads(struct team *team, int num_others)
{
    static atomic_int is_watching_forks;
    if (!atomic_exchange(&is_watching_forks, 1) && pthread_atfork(NULL, NULL, forget_threads) != 0)
        atomic_store(&is_watching_forks, 0);
    while (team->num_threads < num_others) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, team) != 0)
            return;
        pthread_detach(thread);
        team->num_threads++;
    }
}

static void open_job(struct team *team, team_function function, void *data, int num_others)
{
    team->function = function;
    team->data = data;
    team->num_others = num_others;
    atomic_store(&team->state, ((uint64_t)(JOB(atomic_load(&team->state)) + 1) << 32) | IS_OPEN);
    if (atomic_load(&team->num_sleepers) > 0) {
        pthread_mutex_lock(&team->sleep);
        pthread_cond_broadcast(&team->job_opened);
        pthread_mutex_unlock(&team->sleep);
    }
}

static void close_job(struct team *team)
{
    uint64_t state = atomic_fetch_and(&team->state, ~IS_OPEN);
    for (int round = 0; round < WAIT_ROUNDS && NUM_INSIDE(state) != 0; round++) {
        look_around();
        state = atomic_load(&team->state);
    }
    if (NUM_INSIDE(state) == 0)
        return;
    pthread_mutex_lock(&team->sleep);
    atomic_store(&team->is_caller_asleep, 1);
    while (NUM_INSIDE(atomic_load(&team->state)) != 0)
        pthread_cond_wait(&team->job_left, &team->sleep);
    atomic_store(&team->is_caller_asleep, 0);
    pthread_mutex_unlock(&team->sleep);
}

void team_choose(int which, int num_threads)
{
    chosen_team = which;
    chosen_size = num_threads;
}

void team_run(team_function function, void *data, int num_threads)
{
    struct team *team = &teams[chosen_team];
    const int size = num_threads < chosen_size ? num_threads : chosen_size;
    const int num_others = size - 1 < MAX_OTHERS ? size - 1 : MAX_OTHERS;
    if (num_others < 1 || pthread_mutex_trylock(&team->caller) != 0) {
        function(data);
        return;
    }
    start_threads(team, num_others);
    open_job(team, function, data, num_others);
    function(data);
    close_job(team);
    pthread_mutex_unlock(&team->caller);
}
