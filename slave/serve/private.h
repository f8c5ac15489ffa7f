/* Shared by serve.c (connection, syncs), serve/run.c (reports, jobs, snapshots)
 * and serve/partial.c (lists that span several requests). Runs on the event
 * loop's thread. */
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

struct partial_request { /* a request whose list comes in several requests with
                            one id, as far as received */
    struct partial_request *next;
    Ips__Request *request;
    size_t bytes;
};

struct job_task { /* a job in progress, in the event loop's list */
    struct job_task *next;
    struct slave_job *job;
    struct slave_serve *serve;
    /* event for job->wait_fd becoming readable; NULL: the job does not wait for
     * that */
    struct event *readable;
};

struct slave_serve {
    struct slave *s;
    struct ips_peer *peer;
    bool ready; /* true: connected, and the master's Hello was received */
    struct event *tick;
    uint64_t backoff_ns, next_try_ns;
    uint64_t next_report_ns, next_full_report_ns, reported_version,
        reported_found;
    struct sync_wait *syncs;
    struct job_task *tasks;
    /* the job of serve/precompute.c that is in progress; NULL: none */
    struct slave_job *precompute;
    int64_t live_run; /* id of the run that s->record_queue serves, or 0 */
    /* true: questions were answered since graph files were last written */
    bool needs_write;
    struct partial_request *partials;
    struct slave_cm_net *cm; /* connections to other slaves (serve/cm.c) */
    /* Snapshot of the closed run asked about last, for the next question: the
     * rows of a closed run cannot change. */
    struct slave_snapshot *known;
    uint64_t known_version;
    char boot_id[40];
    bool complained;
};

/* Functions of serve/run.c: */
void slave_serve_send_report(struct slave_serve *v);
/* Answers a request with an error about a run. */
void slave_serve_send_error(struct slave_serve *v, uint64_t id, int code,
                            const char *run, const char *what);
/* Makes a snapshot of the run's committed data. NULL with *err set on
 * failure. */
struct slave_snapshot *slave_serve_copy_or_read_snapshot(struct slave *s,
                                                         struct slave_run *run,
                                                         struct ips_err *err);
/* Makes a snapshot and a job for the request, and gives the job to the worker.
 * If that fails, answers the request with the error. */
void slave_serve_start_job_for_request(struct slave_serve *v,
                                       const Ips__Request *q);
/* Continues a job that waited for letters from other slaves, or for its
 * descriptor. */
void slave_serve_enqueue_job_if_waiting(struct slave_serve *v,
                                        struct slave_job *job);
/* Gives each parked job (one that waits until it may send its next reply) back
 * to the worker if the reply can be sent now. Ends parked jobs that were
 * cancelled. */
void slave_serve_enqueue_or_end_parked_jobs(struct slave_serve *v);
/* Makes a deep copy of the request; NULL: out of memory. */
Ips__Request *slave_serve_copy_request(const Ips__Request *q);

/* If the list of `q` spans several requests, handles `q` and returns true: it
 * stores `q`, or starts the job if `q` completes the list, or sends an error.
 * Returns false for any other request. In serve/partial.c, like the next two.
 */
bool slave_serve_collect_partial_and_start_if_whole(struct slave_serve *v,
                                                    const Ips__Request *q);
/* Call when request `id` is cancelled: frees what was received of its list. */
void slave_serve_drop_partial_request(struct slave_serve *v, uint64_t id);
void slave_serve_free_partial_requests(struct slave_serve *v);

#endif
