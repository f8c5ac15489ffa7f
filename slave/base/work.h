/*
 * The worker: one thread that runs the long jobs (builds, longest paths,
 * reading archives) in steps. A step produces at most one reply. Between two
 * steps the job belongs to the event loop, which sends the reply and decides
 * when the next step may run: not while the client's credit is used up, and not
 * while the connection's buffer is full. So a slow client delays no other, and
 * replies do not pile up.
 *
 * Invariants:
 *  - a job belongs either to the loop or to the worker, never to both.
 *  - data that a reply points to belongs to the job and stays valid until its
 *    next step or its release.
 *  - `step` and `release` run on the worker, and only the worker touches
 *    graphs.
 *
 * Threads: the loop calls every function here, except as stated above.
 */
#ifndef IPS_SLAVE_BASE_WORK_H
#define IPS_SLAVE_BASE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/frame.h"

struct slave_graphs;
struct slave_run;

struct slave_job {
    struct slave_job *next;
    uint64_t id; /* id of the request that the job answers */
    /* run that the job is about; the event loop keeps it from being removed.
     * The worker must not use it */
    struct slave_run *run;
    uint64_t credit; /* number of replies that may still be sent */
    bool cancelled;  /* the client has gone or cancelled the request */
    /* set by the event loop together with `cancelled`; a long step on the
     * worker thread polls it in order to end early */
    atomic_bool stop;
    bool parked;
    /* the job is parked until a message from another slave comes (`box`) or
     * `wait_fd` is readable */
    bool waiting;
    /* mailbox for messages to other slaves (cm_box.h), or NULL */
    struct slave_mailbox *box;
    void (*step)(struct slave_job *job, struct slave_graphs *graphs);
    void (*release)(struct slave_job *job, struct slave_graphs *graphs);
    /* Members that `step` sets: */
    bool finished; /* `reply` is the job's last reply */
    /* the step made no reply: the job waits for a message from another slave if
     * it has a `box`, else until `wait_fd` is readable */
    bool silent;
    int wait_fd;
    Ips__Reply reply;
    struct ips_err err; /* error of the job; reply.message points into it */
};

struct slave_work;

/* Starts the worker thread. Whenever a step has finished, the thread calls
 * on_ready(arg), which must wake the event loop so that it calls
 * slave_work_take_job_with_finished_step(). `graphs` is borrowed; only the
 * worker may use it from now on. */
int slave_work_start(struct slave_graphs *graphs, void (*on_ready)(void *arg),
                     void *arg, struct slave_work **out,
                     struct ips_err *err) IPS_MUST_USE;
/* Stops the worker: waits for the step that is running, releases all jobs that
 * were given to the worker, and frees `w`. */
void slave_work_stop_and_free(struct slave_work *w);

/* Both functions pass a job to the worker thread: slave_work_enqueue to run its
 * next step, slave_work_enqueue_job_for_release to release and free it. */
void slave_work_enqueue(struct slave_work *w, struct slave_job *job);
void slave_work_enqueue_job_for_release(struct slave_work *w,
                                        struct slave_job *job);
/* Returns the id of the request whose step is running; 0: none. */
uint64_t slave_work_get_running_request_id(struct slave_work *w);
/* Returns a job whose step has finished, which belongs to the loop again, or
 * NULL. */
struct slave_job *slave_work_take_job_with_finished_step(struct slave_work *w);

/* Called by a step that failed: makes the error job->err the job's last reply.
 */
void slave_job_fail(struct slave_job *job);

#endif
