/*
 * The worker: one thread that does what takes long (builds, longest paths,
 * reading archives), in steps. A job gives at most one reply a step; between
 * two steps it belongs to the loop, which sends the reply and decides when the
 * next step may be: not while the asker's window is used up, and not while the
 * connection is full. So a slow reader holds up nobody, and nothing piles up.
 *
 * Invariants:
 *  - a job is in the loop's hands or in the worker's, never both.
 *  - what a reply points to belongs to the job and is good until its next step
 *    or its release.
 *  - `step` and `release` run on the worker, which alone touches graphs.
 *
 * Threads: every function is the loop's, but for what is said above.
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
    uint64_t id;           /* of the request */
    struct slave_run *run; /* pinned by the loop; not for the worker */
    uint64_t credit;       /* replies that may still be sent */
    bool cancelled;        /* the asker is gone, or said so */
    atomic_bool stop;      /* the same, for a long step to look at */
    bool parked;
    bool waiting;          /* parked until mail comes, or `wait_fd` */
    struct slave_box *box; /* talks with other slaves (cm_box.h), else NULL */
    void (*step)(struct slave_job *job, struct slave_graphs *graphs);
    void (*release)(struct slave_job *job, struct slave_graphs *graphs);
    /* Set by step: */
    bool finished; /* `reply` is the last one */
    bool silent;   /* no reply this time: waits for mail where there is a
                      `box`, else until `wait_fd` can be read */
    int wait_fd;
    Ips__Reply reply;
    struct ips_err err; /* reply.message points here in an error */
};

struct slave_work;

/* `on_ready` is called on the worker whenever slave_work_take has something:
 * it wakes the loop. `graphs` is borrowed, and the worker's from now on. */
int slave_work_start(struct slave_graphs *graphs, void (*on_ready)(void *arg),
                     void *arg, struct slave_work **out,
                     struct ips_err *err) IPS_MUST_USE;
/* Waits for the step in hand; releases every job the worker still has. */
void slave_work_stop(struct slave_work *w);

/* Gives a job to the worker: for a step, or (slave_work_drop) for release and
 * free. */
void slave_work_give(struct slave_work *w, struct slave_job *job);
void slave_work_drop(struct slave_work *w, struct slave_job *job);
/* The request whose step goes on, 0: none. */
uint64_t slave_work_at(struct slave_work *w);
/* A job whose step is over, or NULL. */
struct slave_job *slave_work_take(struct slave_work *w);

/* For steps: makes job->err the last reply. */
void slave_job_fail(struct slave_job *job);

#endif
