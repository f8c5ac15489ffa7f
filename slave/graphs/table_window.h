/*
 * What of the processes and threads of a graph lies in a window of time: lives
 * cut to it, CPU time, waits by cause. Pure.
 *
 * Of windows side by side that cover the run, every sum is that of the whole,
 * to the ns: what passed between two moments is spread evenly between them, and
 * the share of a window is the difference of two sums rounded down. CPU time
 * lies between the nodes of the graph (calls, mostly); what its thread has
 * beyond its last node is of its end. A wait ends when its call returned, there
 * it is counted. Source: IPS-3, IPS-13.
 */
#ifndef IPS_SLAVE_GRAPHS_TABLE_WINDOW_H
#define IPS_SLAVE_GRAPHS_TABLE_WINDOW_H

#include "slave/build/waits.h"

struct slave_window_thread {
    bool outside;
    uint64_t start_ns, end_ns; /* local raw, both in the window; end: lived */
    uint64_t cpu_ns;
    uint64_t wait_ns[IPS_WAIT_COUNT], wait_count[IPS_WAIT_COUNT];
};
struct slave_window_process {
    bool outside, earlier; /* it began before the window */
    uint64_t start_ns, end_ns;
    uint64_t cpu_ns; /* sum of its threads' */
};
struct slave_table_window {
    struct slave_window_thread *threads;    /* [chains] */
    struct slave_window_process *processes; /* [procs] */
};

/* from <= t < to, local raw; waits: all of the graph's. */
int slave_table_window_make(const struct ips_built *b,
                            const struct ips_wait_row *waits,
                            uint32_t wait_count, uint64_t from, uint64_t to,
                            struct slave_table_window *out,
                            struct ips_err *err) IPS_MUST_USE;
void slave_table_window_release(struct slave_table_window *w);

#endif
