/*
 * The parts of the daemon: the drain (drain.h) moves records from the pool to
 * the archives, serve answers the master, the worker (work.h) runs long jobs.
 * main.c shows how they work together.
 */
#ifndef IPS_SLAVE_SERVE_SLAVE_H
#define IPS_SLAVE_SERVE_SLAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/lock.h"
#include "common/paths.h"
#include "slave/base/work.h"
#include "slave/drain/drain.h"
#include "slave/graphs/graphs.h"
#include "slave/serve/job.h"

struct event_base;
struct event;
struct slave_serve;

struct slave_options {
    char pool[IPS_PATH_BYTES];
    /* state directory, shared with the other IPS programs */
    char state[IPS_PATH_BYTES];
    char machine[64];
    char master[IPS_PATH_BYTES];
    /* address to listen on for other slaves, or "none" */
    char listen[IPS_PATH_BYTES];
    bool is_private;
    bool foreground;
    bool idle_given;
    uint64_t idle_ns;
    uint64_t archive_max_bytes;
    uint64_t archive_age_s;
    /* memory limit for large arrays, in bytes; 0: no limit */
    uint64_t memory_bytes;
};

struct slave {
    struct slave_options opt;
    struct event_base *base;
    struct slave_drain drain;
    /* graphs of runs; only the worker may use them */
    struct slave_graphs graphs;
    struct slave_work *work;
    /* queue from the drain to the worker: new records of the run whose tables
     * are kept up to date (serve/precompute.h); NULL: not made yet */
    struct slave_record_queue *record_queue;
    struct slave_serve *serve;
    struct ips_lock pool_lock, state_lock; /* locks that this slave holds */
    int wake_fd; /* eventfd that the worker signals when it has a result */
    bool stopping;
    bool had_run; /* true: the pool has had a run since this slave started */
    uint64_t busy_ns; /* monotonic time at which there last was a request or an
                         open run: the idle time before exit counts from here */
    uint64_t turn_due_ns; /* monotonic time at which the next turn of the drain
                             is due */
    unsigned sched_class; /* current scheduling class, base/sched_class.h */
    unsigned wanted_level;
};

/* Functions of serve.c: connection, reports, dispatch. */
int slave_serve_init_and_start_timer(struct slave *s,
                                     struct ips_err *err) IPS_MUST_USE;
void slave_serve_disconnect_and_free(struct slave *s);
/* Call after every turn of the drain: answers the Sync requests that are due,
 * and reports changes to the master. */
void slave_serve_answer_due_syncs_and_report(struct slave *s, uint64_t now_ns);
/* Handles the jobs whose step has finished; called when the worker has woken
 * the event loop. */
void slave_serve_handle_finished_steps(struct slave *s);
/* Returns the number of requests in progress, with held Sync requests. */
unsigned slave_serve_count_pending_requests(const struct slave *s);

#endif
