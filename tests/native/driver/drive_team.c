/* Every task of every job is done once before `team_run` returns: with one caller, with callers that compete for the
 * threads, with a team for each of two callers, and in the child of a fork. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "team.h"

enum { MAX_TASKS = 64, NUM_JOBS = 2000, NUM_CALLERS = 3 };

struct job {
    long num_tasks;
    atomic_long next;
    int times[MAX_TASKS]; /* that each task was done; written by whoever took it */
};

static void work(void *data)
{
    struct job *job = data;
    long task;
    while ((task = team_next(&job->next, job->num_tasks)) >= 0)
        job->times[task]++;
}

static void *run_jobs(void *unused)
{
    for (long i = 0; i < NUM_JOBS; i++) {
        struct job job = {.num_tasks = i % (MAX_TASKS + 1)};
        team_run(work, &job, 1 + (int)(i % 4));
        for (long task = 0; task < MAX_TASKS; task++)
            EXPECT(job.times[task] == (task < job.num_tasks));
    }
    return unused;
}

static void *run_jobs_with_second_team(void *unused)
{
    team_choose(1, 3);
    return run_jobs(unused);
}

struct meeting {
    atomic_int num_there;
    atomic_int is_over;
};

static void meet(void *data) /* ends only once two threads are in it */
{
    struct meeting *meeting = data;
    atomic_fetch_add(&meeting->num_there, 1);
    while (atomic_load(&meeting->num_there) < 2 && !atomic_load(&meeting->is_over))
        sched_yield();
    atomic_store(&meeting->is_over, 1);
}

static void *meet_in_second_team(void *unused)
{
    struct meeting meeting = {0};
    team_choose(1, 2);
    team_run(meet, &meeting, 2);
    EXPECT(meeting.is_over);
    return unused;
}

/* While a job of the first team is open, the second has threads of its own. */
static void call_from_within(void *data)
{
    atomic_int *num_calls = data;
    if (atomic_fetch_add(num_calls, 1) != 0)
        return;
    pthread_t caller;
    EXPECT(pthread_create(&caller, NULL, meet_in_second_team, NULL) == 0);
    EXPECT(pthread_join(caller, NULL) == 0);
}

static void count(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

static void *run_alone(void *unused)
{
    team_choose(1, 1); /* however many are asked for */
    atomic_int num_calls = 0;
    team_run(count, &num_calls, 8);
    EXPECT(num_calls == 1);
    return unused;
}

static void run_in(void *(*function)(void *))
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, function, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

void drive_team(void)
{
    run_jobs(NULL);
    pthread_t callers[NUM_CALLERS];
    for (int i = 0; i < NUM_CALLERS; i++)
        EXPECT(pthread_create(callers + i, NULL, run_jobs, NULL) == 0);
    for (int i = 0; i < NUM_CALLERS; i++)
        EXPECT(pthread_join(callers[i], NULL) == 0);
    EXPECT(pthread_create(callers, NULL, run_jobs_with_second_team, NULL) == 0);
    run_jobs(NULL);
    EXPECT(pthread_join(callers[0], NULL) == 0);
    atomic_int num_calls = 0;
    team_run(call_from_within, &num_calls, 2);
    run_in(run_alone);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        run_jobs(NULL);
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}
