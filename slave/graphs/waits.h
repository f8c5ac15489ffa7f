/*
 * The waits of a run's graph, one by one, and the places they were made at.
 * Made with the graph where its builder knows that they are asked for next,
 * else when they are first asked for, by building the graph once more with the
 * waits (build/waits.h), and kept with it. Thread: the worker's.
 *
 * A wait's place is the innermost frame of its stack that is not the C or C++
 * library's own; where there is no stack (waits of up to 50 us), the call's
 * return address. Source: IPS-15.
 */
#ifndef IPS_SLAVE_GRAPHS_WAITS_H
#define IPS_SLAVE_GRAPHS_WAITS_H

#include "slave/build/waits.h"
#include "slave/graphs/graphs.h"

struct slave_wait_site {
    uint32_t code_location; /* of the map; IPS_NONE: not known */
    uint32_t first, count;  /* of `frame`: the stack; 0 none */
};
struct slave_waits {
    struct ips_wait_row *row; /* by arc; `stack` is a number of `place` here */
    uint32_t count;
    uint32_t *giver; /* [count] of `site`: from where who let it go did; 0 */
    struct ips_lock_row *lock;
    uint32_t lock_count;
    struct ips_blocked_row *blocked; /* by chain */
    uint32_t *blocked_site;          /* [blocked_count] of `site` */
    uint32_t blocked_count;
    struct slave_wait_site *site; /* 0: not known */
    uint32_t site_count, site_capacity;
    uint32_t *frame; /* places of the map */
    uint32_t frame_count, frame_capacity;
    struct ips_codemap map;
    struct slave_symbols names;
};

/* g->waits. O(records) the first time, and symbol files are read. */
int slave_graph_waits(struct slave_graphs *gs, struct slave_graph *g,
                      struct ips_err *err) IPS_MUST_USE;
/* The same of rows that the build of `g` from `in` made. */
int slave_graph_waits_of(struct slave_graphs *gs, struct slave_graph *g,
                         const struct slave_input *in,
                         struct ips_wait_rows *rows,
                         struct ips_err *err) IPS_MUST_USE;
void slave_waits_free(struct slave_waits *w);

#endif
