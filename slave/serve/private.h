/* What serve.c (connection, syncs), serve/run.c (reports, jobs, snapshots) and
 * serve/partial.c (lists that span requests) share. All of it is the loop's. */
#ifndef IPS_SLAVE_SERVE_PRIVATE_H
#define IPS_SLAVE_SERVE_PRIVATE_H

#include "proto/message.h"
#include "slave/serve/slave.h"

struct event;
struct slave_cm_net;

struct sync_wait {
    struct sync_wait *next;
    Ips__Request *request;
    uint64_t until_ns;
};

struct partial { /* a list that spans several requests of one id */
    struct partial *next;
    Ips__Request *request;
    size_t bytes;
};

struct task { /* a job as the loop sees it */
    struct task *next;
    struct slave_job *job;
    struct slave_serve *serve;
    struct event *readable; /* job->wait_fd is waited for; else NULL */
};

struct slave_serve {
    struct slave *s;
    struct ips_peer *peer;
    bool ready; /* Hello came */
    struct event *tick;
    uint64_t backoff_ns, next_try_ns;
    uint64_t next_report_ns, next_full_report_ns, reported_version,
        reported_found;
    struct sync_wait *syncs;
    struct task *tasks;
    struct slave_job
        *precompute;  /* serve/precompute.c: in the worker's hands, or NULL */
    int64_t live_run; /* run that s->record_queue is of, or 0 */
    bool needs_write; /* a question was answered since graphs were kept */
    struct partial *partials;
    struct slave_cm_net *cm; /* serve/cm.c */
    /* Of the closed run that was asked about last: no row of it changes. */
    struct slave_snapshot *known;
    uint64_t known_version;
    char boot_id[40];
    bool complained;
};

/* serve/run.c */
void slave_serve_report(struct slave_serve *v);
/* Answers a request with an error about its run. */
void slave_serve_fail(struct slave_serve *v, uint64_t id, int code,
                      const char *run, const char *what);
/* What is committed of the run. NULL with *err set. */
struct slave_snapshot *slave_serve_snapshot(struct slave *s,
                                            struct slave_run *run,
                                            struct ips_err *err);
/* A snapshot and a job for what is asked. */
void slave_serve_dispatch(struct slave_serve *v, const Ips__Request *q);
/* What a job waits for has come. */
void slave_serve_wake(struct slave_serve *v, struct slave_job *job);
/* Parked jobs that may go on; cancelled ones end. */
void slave_serve_unpark(struct slave_serve *v);
/* Deep; NULL: out of memory. */
Ips__Request *slave_serve_copy(const Ips__Request *q);

/* serve/partial.c: true: `q` was put away, or it completed a list that was then
 * dispatched. */
bool slave_serve_partial(struct slave_serve *v, const Ips__Request *q);
/* The question is cancelled: what has come of its list goes. */
void slave_serve_partial_drop(struct slave_serve *v, uint64_t id);
void slave_serve_partials_free(struct slave_serve *v);

#endif
