/*
 * What the threads of a run did over time: CPU, messages and waits in bins of
 * one machine's clock, from the records. Pure.
 *
 * A thread's CPU clock is a line through all its readings (calls, returns,
 * samples, marks ...); what it grew by between two of them is spread evenly
 * between the two. So over all time the sum of the bins is the thread's CPU
 * (build.h: its cpu_ns, and what it burnt by spinning). What the kernel charged
 * beyond its last reading lies between that and the thread's end. A message is
 * counted where it was sent; a wait is spread evenly over its call.
 * Source: IPS-3, IPS-16.
 */
#ifndef IPS_SLAVE_GRAPHS_SERIES_H
#define IPS_SLAVE_GRAPHS_SERIES_H

#include "slave/build/build.h"

struct slave_series_ask {
    const uint64_t *edges; /* [bins + 1] rising, local raw ns; borrowed */
    uint32_t bins;
    const uint32_t *row; /* [chains] each chain's row, IPS_NONE: left out;
                            NULL: row 0 for all */
    uint32_t rows;       /* 1 where row is NULL */
};
struct slave_series { /* each [rows][bins] */
    uint32_t bins, rows;
    uint64_t *cpu_ns;
    uint64_t *messages; /* sent */
    uint64_t *bytes;    /* of them */
    uint64_t *wait_ns;  /* of all threads: blocked in recorded calls */
};

/* `b` is the build of `in`. O(records). */
int slave_series_make(const struct ips_build_input *in,
                      const struct ips_built *b,
                      const struct slave_series_ask *ask,
                      struct slave_series *out,
                      struct ips_err *err) IPS_MUST_USE;
void slave_series_release(struct slave_series *s);

/* The latest moment that anything is known of, at least b->first_ns. */
uint64_t slave_last_ns(const struct ips_built *b);

#endif
