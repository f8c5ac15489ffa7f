/*
 * Computes CPU time, messages and waits of a run's threads over time, in bins
 * of one machine's clock, from the records. Pure.
 *
 * Records of calls, returns, samples, marks ... contain readings of the
 * thread's CPU clock. The CPU time between two readings is spread evenly over
 * the time between them. So the bins over all time add up to the thread's CPU
 * (build.h: cpu_ns plus the CPU burnt by spinning). CPU time after the last
 * reading is spread from there to the thread's end. A message is counted when
 * it was sent; a wait is spread evenly over its call. Source: IPS-3, IPS-16.
 */
#ifndef IPS_SLAVE_GRAPHS_SERIES_H
#define IPS_SLAVE_GRAPHS_SERIES_H

#include "slave/build/build.h"

struct slave_series_ask {
    /* [bins + 1] limits of the bins, increasing, in ns of this machine's
     * CLOCK_MONOTONIC_RAW; borrowed */
    const uint64_t *edges;
    uint32_t bins;
    /* [chains] row of each chain; IPS_NONE: the chain is left out. If `row` is
     * NULL, all chains add to row 0. */
    const uint32_t *row;
    uint32_t rows; /* number of rows; 1 if `row` is NULL */
};
struct slave_series { /* all arrays are [rows][bins] */
    uint32_t bins, rows;
    uint64_t *cpu_ns;
    uint64_t *messages; /* number of messages sent */
    uint64_t *bytes;    /* number of bytes sent */
    uint64_t *wait_ns;  /* time that threads were blocked in recorded calls */
};

/* Makes the series; `b` is the build of `in`. O(records). */
int slave_series_make(const struct ips_build_input *in,
                      const struct ips_built *b,
                      const struct slave_series_ask *ask,
                      struct slave_series *out,
                      struct ips_err *err) IPS_MUST_USE;
void slave_series_release(struct slave_series *s);

/* Returns the time of the last known event on this machine, in ns of its
 * CLOCK_MONOTONIC_RAW; at least b->first_ns. */
uint64_t slave_last_event_ns(const struct ips_built *b);

#endif
