/*
 * Phases: where what is measured of a run changes for good. Series of bins of
 * equal length - CPU time, messages - are cut where their values before and
 * after differ, with nothing for the user to choose. Pure.
 *
 * The cut. Of each series 15 levels are taken, its own quantiles, and of every
 * bin only on which side of each level it is: so the scale of a series does not
 * matter, one bin can say no more than any other (spikes make no phase), and
 * neither what a value is distributed like nor how much it varies is assumed.
 * A stretch costs what it takes to write down those sides if each level has its
 * own share of bins in that stretch (-log2 of the likelihood, mean over the
 * levels, sum over the series); every further stretch costs 2 log2(bins) (per
 * change: where it is, and what changed). The cheapest cut of all is found, by
 * dynamic programming: O(bins^2). Series of noise alone give one stretch: over
 * levels the mean of the likelihood ratio passes x nats with probability of
 * about e^-2x, far less than the penalty allows for.
 *
 * What does not matter. Neighbours are one phase again where no series differs
 * in its mean by an eighth of the greater and by `least`: what is significant
 * in a long run is not always worth a word.
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

#define IPS_PHASES_BINS 1024u /* at most */
#define IPS_PHASES_SERIES 4u
#define IPS_PHASES_LEVELS 15u

struct ips_phase_series {
    const uint64_t *v; /* [bins] borrowed; a sum of all is less than 2^63 */
    uint64_t least;    /* means of bins that differ by less are alike */
};

/* Where phases end: [0, end[0]), [end[0], end[1]) ... the last at `bins`. No
 * phase is empty. */
struct ips_phases {
    uint32_t end[IPS_PHASES_BINS];
    uint32_t count;
};

/* Both steps. bins 0 gives none. */
int ips_phases_find(const struct ips_phase_series *series, uint32_t count,
                    uint32_t bins, struct ips_phases *out,
                    struct ips_err *err) IPS_MUST_USE;

#endif
