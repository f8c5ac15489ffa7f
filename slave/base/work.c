/* One worker thread and two queues; see work.h. */
#include "slave/base/work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/large.h"

/* After this many seconds without a job, the worker frees the memory that it
 * keeps for the arrays of later jobs. */
#define IDLE_BEFORE_FREE_S 1

struct queue {
    struct slave_job *head, **tail;
};

struct slave_work {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue todo, done;
    struct slave_job *drop;
    uint64_t at; /* id of the job whose step is running; 0: none */
    bool stop, untidy;
    struct slave_graphs *graphs;
    void (*on_ready)(void *arg);
    void *arg;
};

static void queue_put(struct queue *q, struct slave_job *job)
{
    job->next = NULL;
    *q->tail = job;
    q->tail = &job->next;
}

static struct slave_job *queue_get(struct queue *q)
{
    struct slave_job *job = q->head;
    if (!job)
        return NULL;
    q->head = job->next;
    if (!q->head)
        q->tail = &q->head;
    job->next = NULL;
    return job;
}

void slave_job_fail(struct slave_job *job)
{
    job->reply.error = job->err.code ? job->err.code : IPS_E_IO;
    job->reply.message = job->err.msg;
    job->reply.answer_case = IPS__REPLY__ANSWER__NOT_SET;
    job->finished = true;
}

static void release_job(struct slave_work *w, struct slave_job *job)
{
    if (job->release)
        job->release(job, w->graphs);
    free(job);
}

/* Waits for a job; the caller holds the lock. If no job comes for
 * IDLE_BEFORE_FREE_S, frees the memory kept for the arrays of later jobs. */
static void wait_for_job_or_free_cache(struct slave_work *w)
{
    struct timespec until;
    if (!w->untidy) {
        pthread_cond_wait(&w->more, &w->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_BEFORE_FREE_S;
    if (pthread_cond_timedwait(&w->more, &w->lock, &until) == ETIMEDOUT) {
        w->untidy = false;
        (void)ips_large_unmap_kept_mappings();
    }
}

static void *run_worker(void *arg)
{
    struct slave_work *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct slave_job *job;
        if ((job = w->drop)) {
            w->drop = job->next;
            pthread_mutex_unlock(&w->lock);
            release_job(w, job);
            pthread_mutex_lock(&w->lock);
        } else if (w->stop) {
            break;
        } else if ((job = queue_get(&w->todo))) {
            w->at = job->id;
            pthread_mutex_unlock(&w->lock);
            job->err = (struct ips_err){0};
            job->silent = false;
            if (!atomic_load_explicit(&job->stop, memory_order_relaxed))
                job->step(job, w->graphs);
            w->untidy = true;
            job->reply.id = job->id;
            job->reply.last = job->finished;
            pthread_mutex_lock(&w->lock);
            w->at = 0;
            queue_put(&w->done, job);
            w->on_ready(w->arg);
        } else {
            wait_for_job_or_free_cache(w);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int slave_work_start(struct slave_graphs *graphs, void (*on_ready)(void *arg),
                     void *arg, struct slave_work **out, struct ips_err *err)
{
    struct slave_work *w = calloc(1, sizeof(*w));
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    w->graphs = graphs;
    w->on_ready = on_ready;
    w->arg = arg;
    w->todo.tail = &w->todo.head;
    w->done.tail = &w->done.head;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->more, &attr);
    pthread_condattr_destroy(&attr);
    /* Block all signals in the worker: the main thread handles them. */
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(&w->thread, NULL, run_worker, w);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (rc) {
        free(w);
        errno = rc;
        return ips_err_errno(err, "worker thread");
    }
    *out = w;
    return 0;
}

void slave_work_stop_and_free(struct slave_work *w)
{
    struct slave_job *job;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    while ((job = queue_get(&w->todo)) || (job = queue_get(&w->done)))
        release_job(w, job);
    while ((job = w->drop)) {
        w->drop = job->next;
        release_job(w, job);
    }
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void slave_work_enqueue(struct slave_work *w, struct slave_job *job)
{
    pthread_mutex_lock(&w->lock);
    queue_put(&w->todo, job);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

void slave_work_enqueue_job_for_release(struct slave_work *w,
                                        struct slave_job *job)
{
    pthread_mutex_lock(&w->lock);
    job->next = w->drop;
    w->drop = job;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

uint64_t slave_work_get_running_request_id(struct slave_work *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t id = w->at;
    pthread_mutex_unlock(&w->lock);
    return id;
}

struct slave_job *slave_work_take_job_with_finished_step(struct slave_work *w)
{
    pthread_mutex_lock(&w->lock);
    struct slave_job *job = queue_get(&w->done);
    pthread_mutex_unlock(&w->lock);
    return job;
}
