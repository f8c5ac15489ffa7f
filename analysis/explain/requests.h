/*
 * The requests of a service, from the graph alone: one turn of an accepted
 * stream connection - received, then answered - is a request. Its path is the
 * walk back along the winning arcs of `wall` from its answer to its arrival, so
 * the parts of its time add up to it exactly:
 *
 *   queued     its thread, or another of the service, was at another request
 *   untaken    its thread was at nothing of it, and had not received it
 *   own        its threads, from the receive on
 *   elsewhere  other threads it waited for (a back end's)
 *   message    messages under way
 *   external   waits for what is not traced
 *
 * It arrives when its first message was sent and had its message time; where
 * the sender is not traced, when it was received: what it had waited before
 * that nobody saw. Connections on which a request is sent before the last one
 * is answered (pipelined, multiplexed) are counted and left out whole; that is
 * seen where the client is traced. What a server says first (a greeting) is no
 * request.
 *
 * Or a request is a stretch of one thread's time that the program itself told
 * of (marks, tasks of the API): ips_requests_of_marks. It arrives, and is
 * taken, when it begins; the same walk says what its time was.
 *
 * Times are EST of the graph: ns since the run's origin. Pure.
 * Source: ALGORITHMS 4 (requests); IPS-13.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_REQUESTS_H
#define IPS_ANALYSIS_EXPLAIN_REQUESTS_H

#include "analysis/graph/path.h"

#define IPS_NO_REQUEST UINT32_MAX

/* An end that a service has accepted, told by its machine and its number there
 * (graph.site). Sorted by (machine, end), each once. */
struct ips_served_end {
    uint32_t machine, end;
    uint32_t
        service; /* those of equal number share a queue; below `services` */
};

struct ips_request {
    uint32_t end;         /* index of the served ends */
    uint32_t first, last; /* nodes: the first receive, the last send */
    uint64_t arrived_ns, accepted_ns, finished_ns;
    uint64_t queued, untaken, own, elsewhere, message, external;
    uint32_t behind; /* most of `queued`; IPS_NO_REQUEST */
    uint64_t behind_ns;
};

struct ips_requests {
    struct ips_request *r; /* by finish, then node */
    uint32_t count;
    bool *pipelined_end; /* [end_count] left out */
    uint32_t pipelined;  /* how many */
    uint32_t unanswered; /* turns that the end of the records cut off */
    uint32_t idle_ends;  /* ends without a request */
};

/* `g` a merged graph as `wall` sees it, `scenario` its scenario, `est` its
 * values. IPS_E_USAGE: ends not sorted. */
int ips_requests_find(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      const struct ips_est *est,
                      const struct ips_served_end *ends, uint32_t end_count,
                      struct ips_requests *out,
                      struct ips_err *err) IPS_MUST_USE;
void ips_requests_release(struct ips_requests *r);

/* A piece of the way back from a request's end. */
struct ips_request_step {
    uint32_t chain;    /* whose */
    uint32_t arc;      /* it lies in the arc into this node */
    uint64_t from, to; /* of it */
    uint64_t whole;    /* how long that arc is */
    bool crossed; /* the cross arc: a message, a wait for what nobody traced */
};
void ips_request_walk(const struct ips_graph *g, const struct ips_est *est,
                      const struct ips_request *r,
                      void (*step)(void *arg, const struct ips_request_step *s),
                      void *arg);

/* A moment of a chain: so long after a node of it, no later than the next. */
struct ips_moment {
    uint32_t node;
    uint64_t ns;
};
/* In the chain of `begin.node`; `end` indexes the ends, which say whose
 * requests they are: in any order. */
struct ips_marked_request {
    uint32_t end;
    struct ips_moment begin, finish;
};
/* IPS_E_CORRUPT: one that ends in another chain. */
int ips_requests_of_marks(const struct ips_graph *g,
                          const struct ips_scenario *scenario,
                          const struct ips_est *est,
                          const struct ips_served_end *ends, uint32_t end_count,
                          const struct ips_marked_request *told, uint32_t count,
                          struct ips_requests *out,
                          struct ips_err *err) IPS_MUST_USE;

static inline uint64_t ips_request_ns(const struct ips_request *r)
{
    return r->finished_ns - r->arrived_ns;
}

/* The parts of one request's time in threads: `ns` [chain_count] grows by what
 * it spent in each, queued and untaken included. */
void ips_request_chains(const struct ips_graph *g, const struct ips_est *est,
                        const struct ips_request *r, uint64_t *ns);

#endif
