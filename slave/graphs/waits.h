/*
 * Every wait of a run's graph, and the code location where it happened. The
 * build makes the waits if the next request will ask for them. Else the graph
 * is built again with waits when they are first needed (build/waits.h). They
 * are kept with the graph. Runs on the worker thread.
 *
 * The location of a wait is the innermost frame of its stack that is neither in
 * a system library (C, C++, threads) nor in IPS. Without a stack (waits of up
 * to 50 us) it is the call's return address. Source: IPS-15.
 */
#ifndef IPS_SLAVE_GRAPHS_WAITS_H
#define IPS_SLAVE_GRAPHS_WAITS_H

#include "slave/build/waits.h"
#include "slave/graphs/graphs.h"

#define SLAVE_PAGE_FAULTS (IPS_NONE - 1)
struct slave_wait_site {
    /* code location, index into slave_waits.map.locations; IPS_NONE: unknown;
     * SLAVE_PAGE_FAULTS: the wait was for page faults, not in a call */
    uint32_t code_location;
    /* the stack, as a range of slave_waits.frame; count 0: no stack */
    uint32_t first, count;
};
struct slave_waits {
    /* waits in order of their arcs; `stack` of a row is here the index of its
     * call site in `site` */
    struct ips_wait_row *row;
    uint32_t count;
    /* [count] for each wait that ended because another thread released a lock,
     * the call site of the release: index into `site`; 0: unknown, or no such
     * wait */
    uint32_t *giver;
    struct ips_lock_row *lock;
    uint32_t lock_count;
    /* calls in which threads still waited when the records end, in order of
     * their chains */
    struct ips_blocked_row *blocked;
    /* [blocked_count] call site of each row of `blocked`: index into `site` */
    uint32_t *blocked_site;
    uint32_t blocked_count;
    struct slave_wait_site *site; /* call sites; entry 0 is the unknown site,
                                     entry 1 that of page faults */
    uint32_t site_count, site_capacity;
    /* frames of all stacks, innermost first: code locations of `map` */
    uint32_t *frame;
    uint32_t frame_count, frame_capacity;
    struct ips_codemap map;
    struct slave_symbols names;
};

/* Makes g->waits if they are missing. The first call is O(records) and reads
 * symbol files. */
int slave_graph_rebuild_for_missing_waits(struct slave_graphs *gs,
                                          struct slave_graph *g,
                                          struct ips_err *err) IPS_MUST_USE;
/* Makes g->waits from the rows that the build of `g` made from `in`. Moves
 * arrays out of `rows`. */
int slave_graph_make_waits_from_rows(struct slave_graphs *gs,
                                     struct slave_graph *g,
                                     const struct slave_input *in,
                                     struct ips_wait_rows *rows,
                                     struct ips_err *err) IPS_MUST_USE;
void slave_waits_free(struct slave_waits *w);

#endif
