/* Every task of every job is done once before `team_run` returns: with one caller, with callers that compete for the
 * threads, and in the child of a fork. */
#define _GNU_SOURCE
#include <pthread.h>
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

void drive_team(void)
{
    run_jobs(NULL);
    pthread_t callers[NUM_CALLERS];
    for (int i = 0; i < NUM_CALLERS; i++)
        EXPECT(pthread_create(callers + i, NULL, run_jobs, NULL) == 0);
    for (int i = 0; i < NUM_CALLERS; i++)
        EXPECT(pthread_join(callers[i], NULL) == 0);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        run_jobs(NULL);
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}
