/*
 * Computes the execution time if the messages between machines share one
 * medium. It is the longest path of CPU and message times with a core for each
 * chain, except that simultaneous transfers share the bandwidth evenly.
 * Computed by a replay (replay.h) with as many cores as chains and one medium
 * for all pairs of machines.
 *
 * A message occupies the medium for its message time less that of an empty
 * message. Messages within a machine do not share it.
 *
 * The result is never below the longest path, since no transfer becomes faster.
 * But a shorter time somewhere may lengthen the result, because it changes
 * which transfers overlap. Pure. Source: DRO-1, DRO-5.
 */
#ifndef IPS_ANALYSIS_REPLAY_SHARED_H
#define IPS_ANALYSIS_REPLAY_SHARED_H

#include "analysis/graph/graph.h"

struct ips_shared_medium_ask {
    uint32_t machine_count;
    const uint32_t *map; /* [chain_count] machine of each chain */
    /* [machine_count * machine_count], from machine f to machine t at index
     * f * machine_count + t. If set, xlen of the graph's DATA arcs is in ns,
     * and least_ns is the time that an empty message takes of it. NULL: xlen is
     * in bytes, and the scenario's message time applies. */
    const uint64_t *least_ns;
};

struct ips_shared_medium_path {
    uint64_t end_ns; /* when the last END, or the scenario's goal, is reached */
    uint64_t busy_ns; /* time during which at least one transfer was in
                         progress */
    /* time of the path by kind, which adds up to end_ns (rounded up to ns where
     * transfers overlapped), and the number of messages on the path */
    uint64_t compute_ns, message_ns, external_ns, messages;
};

/* Computes the execution time with one shared medium. Changes g->xlen if
 * least_ns is set. Returns the errors of ips_replay(). */
int ips_compute_shared_medium_path(struct ips_graph *g,
                                   const struct ips_scenario *scenario,
                                   const struct ips_shared_medium_ask *ask,
                                   struct ips_shared_medium_path *out,
                                   struct ips_err *err) IPS_MUST_USE;

#endif
