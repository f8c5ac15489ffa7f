/*
 * Execution time where the messages between machines share one medium: the
 * longest path of CPU and message times, a core for each chain, but of
 * transfers at the same time each gets its part of the bandwidth, the same for
 * all, from its send on. A replay (replay.h) of as many cores as chains, with
 * one medium for all pairs of machines.
 *
 * What of a message's time the medium is taken for is all but what a message of
 * no bytes takes. Messages inside a machine do not share it.
 *
 * Never below the longest path (no transfer is quicker for others) - but not
 * monotone in anything else: which transfers meet depends on all times.
 * Pure. Source: DRO-1, DRO-5.
 */
#ifndef IPS_ANALYSIS_REPLAY_SHARED_H
#define IPS_ANALYSIS_REPLAY_SHARED_H

#include "analysis/graph/graph.h"

struct ips_shared_ask {
    uint32_t machine_count;
    const uint32_t *map; /* [chain_count] */
    /* [machine_count * machine_count] f * machine_count + t: the graph's DATA
     * have ns, of which so many are those of a message of no bytes; NULL: they
     * have bytes, by the scenario's message time. */
    const uint64_t *least_ns;
};

struct ips_shared {
    uint64_t end_ns;  /* the greatest END, or the scenario's goal */
    uint64_t busy_ns; /* some transfer was under way */
    /* the path back from there, which is end_ns together; rounded up to ns
     * where transfers met */
    uint64_t compute_ns, message_ns, external_ns, messages;
};

/* Changes g->xlen where there is least_ns. The errors of ips_replay(). */
int ips_shared_path(struct ips_graph *g, const struct ips_scenario *scenario,
                    const struct ips_shared_ask *ask, struct ips_shared *out,
                    struct ips_err *err) IPS_MUST_USE;

#endif
