/*
 * `cm-sync`, the second variation of Chandy & Misra's distributed longest path
 * (IPS-11): a value is forwarded only when all in-arcs of its node have
 * reported, so each node is computed once and its value is final. One slave's
 * part of it, as a state machine: values in, values out.
 *
 *   run    every chain goes on until it needs a value that is not there
 *   next   one batch a peer of what that peer awaits and we now know
 *   take   a batch of a peer; chains that awaited its values may run again
 *
 * Exactly one value per link (cm.h). A batch is: its number (from 0, of this
 * sender), how many values, and of each the step to its link and the step to
 * its EST from the value before: both small, in channel order; in `wall` the
 * step from that EST to when it was sent, too, by which the arc weighs.
 *
 * The computation is over when no chain of any slave is unfinished. When all
 * slaves have run, as many batches were taken as sent, and chains are
 * unfinished, it is stalled: a cycle or damaged data; struct ips_cm_tally
 * finds that out with two equal rounds of counts.
 *
 * After an error every further call fails; release is all that is left to do.
 * Pure. Source: IPS-11, ALGORITHMS 2-3.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_SYNC_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_SYNC_H

#include "analysis/distributed/cm.h"

struct ips_cm_sync;

/* `links` must be ready (ips_cm_links_ready) and is borrowed. `g` is its graph,
 * or the scenario's view of it (analysis/graph/view.h), borrowed too.
 * `batch_values` 0: IPS_CM_BATCH_VALUES. */
int ips_cm_sync_new(const struct ips_cm_links *links, const struct ips_graph *g,
                    const struct ips_scenario *scenario, uint32_t batch_values,
                    struct ips_cm_sync **out, struct ips_err *err) IPS_MUST_USE;
void ips_cm_sync_free(struct ips_cm_sync *s);

/* O(nodes that can be computed). */
int ips_cm_sync_run(struct ips_cm_sync *s, struct ips_err *err) IPS_MUST_USE;
/* 1: *out is to be sent; 0: nothing more until the next take. */
int ips_cm_sync_next(struct ips_cm_sync *s, struct ips_cm_message *out,
                     struct ips_err *err) IPS_MUST_USE;
/* A batch of peer p (an index in links->peer). */
int ips_cm_sync_take(struct ips_cm_sync *s, uint32_t p, const uint8_t *data,
                     size_t len, struct ips_err *err) IPS_MUST_USE;

/* Chains that await something. */
uint32_t ips_cm_sync_unfinished(const struct ips_cm_sync *s);
/* IPS_E_STALLED, naming up to ten of them and what they await. */
int ips_cm_sync_stalled(const struct ips_cm_sync *s,
                        struct ips_err *err) IPS_MUST_USE;
const struct ips_cm_counts *ips_cm_sync_counts(const struct ips_cm_sync *s);

/* Gives away the values, as ips_longest_path() would make them of this
 * subgraph with its remote values; IPS_E_STALLED where chains are unfinished.
 */
int ips_cm_sync_finish(struct ips_cm_sync *s, struct ips_est *out,
                       struct ips_err *err) IPS_MUST_USE;

/* ---- the root's side: is it over? ---------------------------------------- */

/* Where a computation stands, from what the slaves tell at rest (after run
 * and next: what was taken has had its effect): batches sent and taken, chains
 * unfinished. It is over when no chain is unfinished and as many batches were
 * taken as sent. Batches may be on the way while the counts are told, so one
 * round proves no stall; two rounds with the same counts, and as many taken as
 * sent, do (four counters: Mattern 1987). */
enum ips_cm_state {
    IPS_CM_GOES_ON,
    IPS_CM_ASK_AGAIN,
    IPS_CM_OVER,
    IPS_CM_STALLED
};
struct ips_cm_tally {
    uint32_t machines;
    uint32_t reported; /* in this round */
    uint64_t sent, received, unfinished;
    uint64_t last_sent, last_taken;
    bool has_last;
    uint64_t rounds;
};
void ips_cm_tally_init(struct ips_cm_tally *t, uint32_t parts);
/* One slave's counts of this round. With the last of them the round is over:
 * the answer says what to do. */
enum ips_cm_state ips_cm_tally_add(struct ips_cm_tally *t, uint64_t sent,
                                   uint64_t taken, uint64_t unfinished);

#endif
