#include "master/base/worker.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct job {
    struct job *next;
    void (*run)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

struct queue {
    struct job *first, **last;
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock; /* protects todo, ready and stop */
    pthread_cond_t more;
    struct queue todo, ready;
    bool stop, started;
    int fd; /* eventfd; readable when `ready` is not empty */
    struct event *ev;
};

static void queue_put(struct queue *q, struct job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static struct job *queue_take(struct queue *q)
{
    struct job *job = q->first;
    if (job) {
        q->first = job->next;
        if (!q->first)
            q->last = &q->first;
    }
    return job;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->todo.first && !w->stop)
            pthread_cond_wait(&w->more, &w->lock);
        if (w->stop)
            break;
        struct job *job = queue_take(&w->todo);
        pthread_mutex_unlock(&w->lock);
        job->run(job->arg);
        pthread_mutex_lock(&w->lock);
        queue_put(&w->ready, job);
        uint64_t one = 1;
        /* A write fails only after 2^64 - 2 jobs, and then the eventfd is
         * readable anyway. */
        if (write(w->fd, &one, sizeof(one)) < 0)
            continue;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void call_done_and_free_queued_jobs(struct worker *w, struct queue *q)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        struct job *job = queue_take(q);
        pthread_mutex_unlock(&w->lock);
        if (!job)
            return;
        job->done(job->arg);
        free(job);
    }
}

static void read_notice_and_finish_done_jobs(evutil_socket_t fd, short what,
                                             void *arg)
{
    (void)what;
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0)
        return;
    struct worker *w = arg;
    call_done_and_free_queued_jobs(w, &w->ready);
}

static int start_thread(struct worker *w)
{
    /* Signals must be delivered to the loop's thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->started = rc == 0;
    return rc;
}

int worker_new(struct event_base *base, struct worker **out,
               struct ips_err *err)
{
    struct worker *w = calloc(1, sizeof(*w));
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for the worker");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->todo.last = &w->todo.first;
    w->ready.last = &w->ready.first;
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd >= 0)
        w->ev = event_new(base, w->fd, EV_READ | EV_PERSIST,
                          read_notice_and_finish_done_jobs, w);
    if (!w->ev || event_add(w->ev, NULL) < 0 || start_thread(w) != 0) {
        worker_free(w);
        return ips_err_set(err, IPS_E_IO, "the worker thread did not start");
    }
    *out = w;
    return 0;
}

int worker_submit(struct worker *w, void (*run)(void *arg),
                  void (*done)(void *arg), void *arg, struct ips_err *err)
{
    struct job *job = calloc(1, sizeof(*job));
    if (!job)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a job");
    *job = (struct job){.run = run, .done = done, .arg = arg};
    pthread_mutex_lock(&w->lock);
    queue_put(&w->todo, job);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    if (w->started) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_signal(&w->more);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    call_done_and_free_queued_jobs(w, &w->ready);
    call_done_and_free_queued_jobs(w, &w->todo);
    if (w->ev)
        event_free(w->ev);
    if (w->fd >= 0)
        close(w->fd);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
