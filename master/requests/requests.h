/*
 * The requests of every service of a run, and what limits their rate. The
 * worker computes them on the merged graph of all machines (requests/solve.c),
 * the loop makes the answer (requests/answer.c), and requests/query.c asks and
 * gathers.
 *
 * A service is what clients address: the local end of accepted stream
 * connections ("tcp 127.0.0.1:7777") on one machine, whichever processes
 * accept them. If no connection was accepted, or if the question asks for it,
 * a service is what the program marked (requests/reported.h). Source:
 * ALGORITHMS 4 (requests, throughput); IPS-13.
 */
#ifndef IPS_MASTER_REQUESTS_REQUESTS_H
#define IPS_MASTER_REQUESTS_REQUESTS_H

#include "analysis/explain/lock_holds.h"
#include "analysis/explain/requests.h"
#include "master/path/engine.h"
#include "master/waits/waits.h"

#define REQUESTS_NODE_BYTES 330u
#define REQUESTS_TOP_MAX 10000u
#define REQUESTS_STATIONS_MAX 1000u
/* utilisation of a thread, in ppm; below it, requests rarely wait for the
 * thread */
#define REQUESTS_ALONE_PPM 800000u
#define REQUESTS_MORE 3u /* differences shown for the slowest 1% */
/* limit for the mark names of one machine */
#define REQUESTS_NAMES_MAX 1024u
#define REQUESTS_TOLD_MAX 100000000u /* limit for marked requests */

enum requests_by { REQUESTS_BY_CONNECTION, REQUESTS_BY_MARK, REQUESTS_BY_TASK };

struct request_service {
    uint32_t machine;
    /* its first name_len bytes are the service's address, such as "tcp
     * 127.0.0.1:80", or its mark; belongs to a message kept by
     * query_keep_message(), or to `reported` */
    const char *name;
    size_t name_len;
    uint32_t process; /* one of the serving processes of the machine */
    /* the oldest ancestor of `process` with the same program name */
    uint32_t family;
    uint32_t processes, connections;
    uint32_t first, count; /* range of its requests in `by_service` */
};

/* Something on which the slowest 1% of a service's requests spend more time.
 * cause "": CPU time in the procedure; else a wait there. procedure NULL: the
 * entry is empty. */
struct request_difference {
    /* strings belong to messages kept by query_keep_message() */
    const char *cause, *procedure, *module, *file;
    uint32_t source_line;
    uint64_t slow_ns, median_ns; /* average time per request */
};

struct requests_data {     /* stored in query.data */
    struct path_data path; /* must be first: the engine's helpers work on it */
    struct request_service *service;
    uint32_t service_count;
    struct ips_served_end *ends;
    uint32_t *end_process; /* [end_count] index of the process on its machine */
    uint32_t end_count;
    /* [machines][processes] whether the process received requests on
     * connections that it accepted */
    bool **serving;
    /* [machines][processes] whether the process is at the other end of a
     * connection that a process accepted */
    bool **client;
    struct ips_requests result;
    /* [result.count] requests ordered by service, then duration */
    uint32_t *by_service;
    /* [chains of the merged graph] scratch memory for sums by thread; zero
     * between uses */
    uint64_t *chain_ns;
    uint32_t busiest; /* the service with the most requests */
    /* first arrival and last end of the requests of `busiest` */
    uint64_t first_ns, last_ns;
    /* [chains of the merged graph] the thread's CPU time before first_ns and
     * after last_ns */
    uint64_t *outside_cpu;
    /* [chains of the merged graph] time of waits that keep the thread busy,
     * before first_ns and after last_ns */
    uint64_t *outside_wait;
    struct ips_lock_holds lock_holds; /* how long locks were held */
    /* value of --by; "": chosen by the requests that the run has; borrowed */
    const char *by;
    const char *reported_name; /* name of the mark or task; "": all; borrowed */
    enum requests_by reported_by;
    /* the waits and arc profiles as fetched; waits_place_on_graph() was not
     * called */
    struct waits waits;
    /* [services][REQUESTS_MORE] largest differences between the slowest 1% and
     * the median */
    struct request_difference *more;
    /* [services][2] where the requests around the median compute most, and
     * where they wait most */
    struct request_difference *typical;
    /* the marked requests (requests/reported.h); NULL: requests are found by
     * connection */
    struct reported_requests *reported;
};

static inline struct requests_data *requests_data_of(struct query *q)
{
    return q->data;
}

/* Returns the index of a percentile in `count` requests sorted by duration, by
 * nearest rank: `percent` percent of the requests take at most as long. */
static inline uint32_t requests_percentile_index(uint32_t count,
                                                 uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return rank ? (uint32_t)rank - 1 : 0;
}

/* Whether `ns` lies between the first arrival and the last end of the requests
 * of the busiest service. */
static inline bool
requests_busiest_span_contains_time(const struct requests_data *d, uint64_t ns)
{
    return ns >= d->first_ns && ns <= d->last_ns;
}

/* Returns how many of `count` requests are the slowest 1%. */
static inline uint32_t requests_tail_count(uint32_t count)
{
    return count / 100 ? count / 100 : 1;
}

/* Finds services and ends in the tables; false: no memory. */
bool requests_find_services_and_ends(struct query *q);
/* In the worker: finds the requests, sorts them by service and duration, and
 * explains them. On failure d->path.err has the reason and d->path.blame the
 * machine whose data was wrong. */
void requests_solve(struct query *q);
/* In the loop: sends the reply. */
void requests_send_requests_or_why_answer(struct query *q);
/* requests/stations.c, in the worker: finds the busiest service, and what
 * threads did before its first request and after its last. */
int requests_find_busiest_service_and_outside_ns(
    struct query *q, struct ips_err *err) IPS_MUST_USE;
/* Adds the stations that requests of `service`, the busiest one, keep busy
 * from the arrival of the first to the end of the last; and the limit of its
 * rate. */
void requests_add_stations_and_set_bound(struct query *q, struct arena *a,
                                         Ips__RequestsAnswer *out,
                                         Ips__ServiceRow *service);
void requests_release(struct query *q);

#endif
