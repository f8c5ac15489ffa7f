/*
 * The requests of every service of a run, and what bounds their rate: computed
 * in the worker on the merged graph of all machines (requests/solve.c), made an
 * answer in the loop (requests/answer.c), asked for and gathered by
 * requests/query.c.
 *
 * A service is what clients address: the local end of accepted stream
 * connections
 * ("tcp 127.0.0.1:7777"), on one machine, whichever processes accept them.
 * Where nobody accepted any, and where it is asked for, it is what the program
 * told of (requests/reported.h). Source: ALGORITHMS 4 (requests, throughput);
 * IPS-13.
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
#define REQUESTS_ALONE_PPM 800000u   /* in use: less leaves room to wait */
#define REQUESTS_MORE 3u             /* things told of the slowest 1% */
#define REQUESTS_NAMES_MAX 1024u     /* of a part's marks */
#define REQUESTS_TOLD_MAX 100000000u /* requests that a program told of */

enum requests_by { REQUESTS_BY_CONNECTION, REQUESTS_BY_MARK, REQUESTS_BY_TASK };

struct request_service {
    uint32_t machine;
    const char *name; /* of its end, in kept messages */
    size_t name_len;
    uint32_t process; /* one of those that serve, of the part */
    uint32_t family;  /* the process of its name that it comes from */
    uint32_t processes, connections;
    uint32_t first, count; /* of `by_service` */
};

/* Something that the slowest 1% of a service's requests have more of; cause "":
 * CPU time in the procedure, else a wait there. NULL procedure: none. */
struct request_more {
    const char *cause, *procedure, *module, *file; /* in kept messages */
    uint32_t source_line;
    uint64_t slow_ns, median_ns; /* of a request, on average */
};

struct requests_data {     /* query.data */
    struct path_data path; /* first: the engine's helpers work on it */
    struct request_service *service;
    uint32_t service_count;
    struct ips_served_end *ends;
    uint32_t *end_process; /* [end_count] of the part */
    uint32_t end_count;
    bool **serving; /* [parts][processes]; `client` alike */
    bool **client;
    struct ips_requests result;
    uint32_t *by_service; /* [found.count] requests: by service, then time */
    uint64_t *chain_ns;   /* [merged chains] for sums; zero between uses */
    uint32_t busiest;     /* service that has most requests */
    uint64_t first_ns, last_ns; /* its first arrival, its last end */
    uint64_t *outside_cpu; /* [merged chains] before its first request and after
                             its last: CPU time, */
    uint64_t *outside_wait; /* and waits that keep a thread busy, alike */
    struct ips_lock_holds lock_holds; /* locks */
    const char *by; /* as it was asked, "" by what there is; borrowed */
    const char *reported_name; /* "" all; borrowed */
    enum requests_by reported_by;
    struct waits waits;           /* fetched, not laid; portions in it */
    struct request_more *more;    /* [services][REQUESTS_MORE] */
    struct request_more *typical; /* [services][2] of those about the median,
                                     most CPU time and most waiting */
    struct reported_requests
        *reported; /* requests/reported.h; NULL: by connections */
};

static inline struct requests_data *requests_of(struct query *q)
{
    return q->data;
}

/* Of requests in order of the time they took: the one that p in a hundred are
 * not longer than (nearest rank). */
static inline uint32_t requests_rank(uint32_t count, uint32_t percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return rank ? (uint32_t)rank - 1 : 0;
}

/* Is a moment one of the busiest service's requests? */
static inline bool requests_at(const struct requests_data *d, uint64_t ns)
{
    return ns >= d->first_ns && ns <= d->last_ns;
}

/* How many of so many are the slowest 1%. */
static inline uint32_t requests_tail(uint32_t count)
{
    return count / 100 ? count / 100 : 1;
}

/* Services and ends from the tables; false: no memory. */
bool requests_services(struct query *q);
/* In the worker: d->path.err says what failed, d->path.blame who. */
void requests_solve(struct query *q);
/* In the loop: the reply. */
void requests_answer(struct query *q);
/* requests/stations.c: in the worker, what threads did while none of the
 * requests of the busiest service was there. */
int requests_find_outside(struct query *q, struct ips_err *err) IPS_MUST_USE;
/* Who is kept busy by requests of `service`, the busiest, from its first one's
 * arrival to its last one's end; and its bound. */
void requests_stations(struct query *q, struct arena *a,
                       Ips__RequestsAnswer *out, Ips__ServiceRow *service);
void requests_release(struct query *q);

#endif
