/*
 * Finds how many threads of a machine are busy at once if every node is passed
 * at its EST. EST assumes a core for every thread. While more threads than
 * cores are busy, threads may lose the time that a change saves by waiting for
 * a core, so gains computed from EST are not guaranteed. A replay with the
 * machine's cores gives the answer. Source: ALGORITHMS 4 (what-if), DPM-6.
 */
#ifndef IPS_ANALYSIS_WHATIF_OVERSUBSCRIPTION_H
#define IPS_ANALYSIS_WHATIF_OVERSUBSCRIPTION_H

#include "analysis/graph/path.h"

struct ips_oversubscription {
    uint32_t peak;      /* the most threads busy at once */
    uint64_t beyond_ns; /* EST time during which more than `cores` threads are
                           busy */
};

/* Fills *out for the chains of machine `machine`. O(nodes + n log n) time and
 * 32 bytes each, for n periods of work without a wait. */
int ips_measure_oversubscription_of_machine(const struct ips_graph *g,
                                            const struct ips_est *e,
                                            uint32_t machine, uint32_t cores,
                                            struct ips_oversubscription *out,
                                            struct ips_err *err) IPS_MUST_USE;

#endif
