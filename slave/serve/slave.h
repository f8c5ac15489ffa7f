/*
 * The daemon's parts and how they hang together: the drain (drain.h) moves
 * records from the pool to the archives, serve answers the master, the worker
 * (work.h) does what takes long. main.c is the map.
 */
#ifndef IPS_SLAVE_SERVE_SLAVE_H
#define IPS_SLAVE_SERVE_SLAVE_H

#include <stdbool.h>
#include <stdint.h>

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
    char state[IPS_PATH_BYTES]; /* of all of IPS */
    char machine[64];
    char master[IPS_PATH_BYTES];
    char listen[IPS_PATH_BYTES]; /* for other slaves; "none" */
    bool is_private;
    bool foreground;
    bool idle_given;
    uint64_t idle_ns;
    uint64_t archive_max_bytes;
    uint64_t archive_age_s;
    uint64_t memory_bytes; /* of large arrays; 0: no limit */
};

struct slave {
    struct slave_options opt;
    struct event_base *base;
    struct slave_drain drain;
    struct slave_graphs graphs; /* the worker's */
    struct slave_work *work;
    struct slave_record_queue *record_queue; /* NULL: no run was followed yet */
    struct slave_serve *serve;
    int lock_fd;  /* slave.lock, held */
    int state_fd; /* the same of the state directory */
    int wake_fd;  /* eventfd: the worker has something */
    bool stopping;
    bool had_run;         /* a run was in the pool since we began */
    uint64_t busy_ns;     /* monotonic, of the last request or open run */
    unsigned sched_class; /* scheduling, see base/sched_class.h */
    unsigned wanted_level;
};

/* serve.c: connection, reports, dispatch. */
int slave_serve_open(struct slave *s, struct ips_err *err) IPS_MUST_USE;
void slave_serve_close(struct slave *s);
/* After every turn of the drain: syncs that are over, changes to report. */
void slave_serve_turn(struct slave *s, uint64_t now_ns);
/* The worker woke us. */
void slave_serve_worked(struct slave *s);
/* Requests in hand. */
unsigned slave_serve_pending(const struct slave *s);

#endif
