/*
 * Processes and threads of a graph within a window of time: lifetimes cut to
 * it, CPU time, waits by cause. Pure.
 *
 * The sums of adjacent windows that cover the run add up exactly to those of
 * the run: a value is spread evenly over its interval, and a window's share is
 * the difference of two cumulative sums, each rounded down. CPU time is spread
 * between the nodes of the graph (mostly calls); a thread's CPU after its last
 * node is spread from there to its end. The time of a wait is spread evenly
 * over the wait; it is counted in the window in which its call returned.
 * Source: IPS-3, IPS-13.
 */
#ifndef IPS_SLAVE_GRAPHS_TABLE_WINDOW_H
#define IPS_SLAVE_GRAPHS_TABLE_WINDOW_H

#include "slave/build/waits.h"

struct slave_window_thread {
    bool outside;
    /* lifetime cut to the window, in ns of this machine's
     * CLOCK_MONOTONIC_RAW */
    uint64_t start_ns, end_ns;
    uint64_t cpu_ns;
    uint64_t wait_ns[IPS_WAIT_COUNT], wait_count[IPS_WAIT_COUNT];
};
struct slave_window_process {
    /* `outside`: no part of its lifetime is in the window; `earlier`: it
     * started before the window */
    bool outside, earlier;
    uint64_t start_ns, end_ns;
    uint64_t cpu_ns; /* sum over the process's threads */
};
struct slave_table_window {
    /* [chains] one entry for each thread */
    struct slave_window_thread *threads;
    /* [procs] one entry for each process */
    struct slave_window_process *processes;
};

/* Makes the tables of the window from <= t < to, in ns of this machine's
 * CLOCK_MONOTONIC_RAW. `waits`: all waits of the graph. */
int slave_table_window_make(const struct ips_built *b,
                            const struct ips_wait_row *waits,
                            uint32_t wait_count, uint64_t from, uint64_t to,
                            struct slave_table_window *out,
                            struct ips_err *err) IPS_MUST_USE;
void slave_table_window_release(struct slave_table_window *w);

#endif
