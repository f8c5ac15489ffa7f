/*
 * Divides a run into phases, at the moments where its measured behaviour
 * changes for a longer time. The input is series of bins of equal length (CPU
 * time, messages). They are cut where the values before and after differ. There
 * is no parameter to choose. Pure.
 *
 * The cut. Each series gets 15 levels, which are its quantiles. A bin counts
 * only by the side of each level on which its value is. So the scale of a
 * series does not matter, no bin counts more than another (a spike makes no
 * phase), and nothing is assumed about the distribution or variance of the
 * values. The cost of a segment of bins is the number of bits to encode those
 * sides if each level has its own proportion in that segment (-log2 of the
 * likelihood, mean over the levels, sum over the series). Every further segment
 * costs 2 log2(bins) bits, which encode the place and the kind of the change.
 * Dynamic programming finds the cheapest of all cuts: O(bins^2). Pure noise
 * gives one segment: averaged over the levels the likelihood ratio exceeds x
 * nats with a probability of about e^-2x, far less than the penalty allows for.
 *
 * Irrelevant changes. Neighbouring segments are merged into one phase unless in
 * some series their means differ by at least an eighth of the greater one and
 * by `least`. The reason: in a long run a significant change may be too small
 * to matter.
 *
 * Integers only: the same series give the same phases on every machine.
 * Source: IPS-16; K. Haynes, P. Fearnhead, I. Eckley, A computationally
 * efficient nonparametric approach for changepoint detection, 2017 (the cost);
 * B. Jackson et al., An algorithm for optimal partitioning of data on an
 * interval, 2005.
 */
#ifndef IPS_ANALYSIS_EXPLAIN_PHASES_H
#define IPS_ANALYSIS_EXPLAIN_PHASES_H

#include <stdint.h>

#include "common/err.h"

#define IPS_PHASES_BINS 1024u /* greatest number of bins */
#define IPS_PHASES_SERIES 4u
#define IPS_PHASES_LEVELS 15u

struct ips_phase_series {
    const uint64_t *v; /* [bins] borrowed; their sum must be below 2^63 */
    /* a difference of two means (per bin) below this is no change */
    uint64_t least;
};

/* The ends of the phases: [0, end[0]), [end[0], end[1]) ...; the last end is
 * `bins`. No phase is empty. */
struct ips_phases {
    uint32_t end[IPS_PHASES_BINS];
    uint32_t count;
};

/* Cuts the series and merges similar neighbours. With 0 bins there are no
 * phases. */
int ips_phases_find_in_series(const struct ips_phase_series *series,
                              uint32_t count, uint32_t bins,
                              struct ips_phases *out,
                              struct ips_err *err) IPS_MUST_USE;

#endif
