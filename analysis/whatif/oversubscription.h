/*
 * How many threads of a machine the longest path's schedule would run at once.
 * EST supposes a processor for every thread; where more threads than cores are
 * busy at a time, what was left out may come back: gains computed from EST are
 * no promise there (the answer to that is a replay on the cores there are).
 * Source: ALGORITHMS 4 (what-if), DPM-6.
 */
#ifndef IPS_ANALYSIS_WHATIF_OVERSUBSCRIPTION_H
#define IPS_ANALYSIS_WHATIF_OVERSUBSCRIPTION_H

#include "analysis/graph/path.h"

struct ips_oversubscription {
    uint32_t peak;      /* threads busy at once, at most */
    uint64_t beyond_ns; /* of EST time, with more than `cores` busy */
};

/* Of the chains of a machine. O(nodes + n log n) for n stretches of work
 * without a wait; 32 bytes each. */
int ips_find_oversubscription(const struct ips_graph *g,
                              const struct ips_est *e, uint32_t machine,
                              uint32_t cores, struct ips_oversubscription *out,
                              struct ips_err *err) IPS_MUST_USE;

#endif
