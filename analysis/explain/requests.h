/*
 * Finds the requests of a service and what they wait for, from the graph alone.
 * One turn of an accepted stream connection, a receive and then an answer, is a
 * request. Its path is the walk back from its answer to its arrival, along the
 * arcs that determine the EST in the weighting `wall`. So the parts of its time
 * add up to it exactly:
 *  - queued: its thread, or another thread of the service, worked on another
 *    request
 *  - untaken: its thread worked on no other request of the service and had not
 *    received this one yet
 *  - own: its threads worked on it, after the receive
 *  - elsewhere: it waited for other threads (of a back end)
 *  - message: messages were on the way
 *  - external: it waited for something that is not recorded
 *
 * A request arrives when its first message was sent plus the message time. If
 * the sender is not recorded it arrives when it was received; time before that
 * is unknown. A connection on which a request is sent before the previous one
 * was answered (pipelined, multiplexed) is only counted; it gets no requests.
 * Such a connection is detected only if the client is recorded. A message that
 * a server sends first (a greeting) is no request.
 *
 * A request may also be a span of one thread's time that the program itself
 * marked (marks, tasks of the API): ips_requests_make_from_marks(). It arrives,
 * and is accepted, when it begins; the same walk explains its time.
 *
 * Times are EST of the graph: ns since the run's origin. Pure.
 * Source: ALGORITHMS 4 (requests); IPS-13.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_REQUESTS_H
#define IPS_ANALYSIS_EXPLAIN_REQUESTS_H

#include "analysis/graph/path.h"

#define IPS_NO_REQUEST UINT32_MAX

/* A channel end that a service accepted, identified by its machine and its
 * number on that machine (graph.site). Sorted by (machine, end), without
 * duplicates. */
struct ips_served_end {
    uint32_t machine, end;
    uint32_t service; /* number of the service, from 0; all its ends share one
                         queue of requests */
};

struct ips_request {
    uint32_t end;         /* index of the channel end among the served ends */
    uint32_t first, last; /* nodes: the first receive, the last send */
    uint64_t arrived_ns, accepted_ns, finished_ns;
    uint64_t queued, untaken, own, elsewhere, message, external;
    uint32_t behind; /* the request on which most of `queued` was spent, or
                        IPS_NO_REQUEST */
    uint64_t behind_ns;
};

struct ips_requests {
    struct ips_request *r; /* sorted by finished_ns, then by last node */
    uint32_t count;
    bool *pipelined_end; /* [end_count] true: the end is pipelined and was left
                            out */
    uint32_t pipelined;  /* number of pipelined ends */
    uint32_t unanswered; /* number of turns that had no answer when the
                            recording ended */
    uint32_t idle_ends;  /* ends without any request */
};

/* Finds the requests. `g` is a merged graph in the weighting `wall` (a view of
 * analysis/graph/view.h), `scenario` that of the view, `est` the result of
 * ips_longest_path_compute_ests() for both.
 * IPS_E_USAGE: the ends are not sorted. */
int ips_requests_find(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      const struct ips_est *est,
                      const struct ips_served_end *ends, uint32_t end_count,
                      struct ips_requests *out,
                      struct ips_err *err) IPS_MUST_USE;
void ips_requests_release(struct ips_requests *r);

/* A step of the walk back from a request's end. */
struct ips_request_step {
    uint32_t chain; /* chain of the thread to which the step belongs */
    uint32_t arc;   /* the step is part of the arc into this node */
    uint64_t from,
        to; /* begin and end of the step, EST: a part of the arc into `arc` */
    uint64_t whole; /* length of the whole arc */
    bool crossed;   /* the step is the cross arc: a message, or a wait for
                       something not recorded */
};
void ips_request_report_steps_backwards(
    const struct ips_graph *g, const struct ips_est *est,
    const struct ips_request *r,
    void (*step)(void *arg, const struct ips_request_step *s), void *arg);

/* A moment of a chain: `ns` after a node, but no later than the next node. */
struct ips_moment {
    uint32_t node;
    uint64_t ns;
};
/* A request that the program marked, in the chain of `begin.node`. `end` is
 * an index into the served ends given to ips_requests_make_from_marks(); that
 * entry names the service. The requests may be in any order. */
struct ips_marked_request {
    uint32_t end;
    struct ips_moment begin, finish;
};
/* Like ips_requests_find(), for marked requests. IPS_E_CORRUPT: a request does
 * not end in the chain in which it begins. */
int ips_requests_make_from_marks(
    const struct ips_graph *g, const struct ips_scenario *scenario,
    const struct ips_est *est, const struct ips_served_end *ends,
    uint32_t end_count, const struct ips_marked_request *told, uint32_t count,
    struct ips_requests *out, struct ips_err *err) IPS_MUST_USE;

static inline uint64_t ips_request_ns(const struct ips_request *r)
{
    return r->finished_ns - r->arrived_ns;
}

/* Splits the time of one request by thread: adds to `ns` [chain_count] the time
 * that the request spent in each thread, including queued and untaken time. */
void ips_request_add_ns_by_chain(const struct ips_graph *g,
                                 const struct ips_est *est,
                                 const struct ips_request *r, uint64_t *ns);

#endif
