/*
 * `cm-sync`, the second variation of Chandy & Misra's distributed longest path
 * (IPS-11): a value is forwarded only when all in-arcs of its node are known,
 * so each node is computed once and its value is final. This file implements
 * one slave's side, as a state machine that takes and returns values:
 *  - ips_cm_sync_compute_ready_chains(): every chain continues until it needs a
 * value that is not known.
 *  - ips_cm_sync_make_next_batch(): returns one batch at a time, with values
 * that a peer awaits and that are now known.
 *  - ips_cm_sync_receive_batch(): reads a batch from a peer; chains that
 * awaited its values may run again.
 *
 * There is exactly one value for each link (cm.h). A batch consists of its
 * number (from 0 for each sender), the number of values, and for each value the
 * difference of its link's number and the difference of its EST from the
 * previous value's, both small in channel order. In `wall` the time of the send
 * follows, as a difference from that EST; the receiver computes the arc's
 * weight from it.
 *
 * The computation is over when no slave has unfinished chains. It has stalled
 * (because of a cycle or damaged data) if no slave can compute more, all
 * batches sent were received, and chains are unfinished. The root's struct
 * ips_cm_tally detects both; for a stall it needs two equal rounds of counts.
 *
 * After an error every further call fails except ips_cm_sync_free(). Pure.
 * Source: IPS-11, ALGORITHMS 2-3.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_SYNC_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_SYNC_H

#include "analysis/distributed/cm.h"

struct ips_cm_sync;

/* Makes the state of one slave. `links` must be complete
 * (ips_cm_is_link_exchange_complete) and is borrowed. `g` is the graph of the
 * links, or the scenario's view of it (analysis/graph/view.h), also borrowed.
 * `batch_values` 0 means IPS_CM_BATCH_VALUES. */
int ips_cm_sync_new(const struct ips_cm_links *links, const struct ips_graph *g,
                    const struct ips_scenario *scenario, uint32_t batch_values,
                    struct ips_cm_sync **out, struct ips_err *err) IPS_MUST_USE;
void ips_cm_sync_free(struct ips_cm_sync *s);

/* Computes all nodes that can be computed with the values received so far.
 * O(nodes computed). */
int ips_cm_sync_compute_ready_chains(struct ips_cm_sync *s,
                                     struct ips_err *err) IPS_MUST_USE;
/* Returns 1 if *out has a message to send, 0 if there is none until the next
 * batch is received. */
int ips_cm_sync_make_next_batch(struct ips_cm_sync *s,
                                struct ips_cm_message *out,
                                struct ips_err *err) IPS_MUST_USE;
/* Reads a batch from peer p (an index into links->peer). */
int ips_cm_sync_receive_batch(struct ips_cm_sync *s, uint32_t p,
                              const uint8_t *data, size_t len,
                              struct ips_err *err) IPS_MUST_USE;

/* Returns the number of chains that are not computed to their end. */
uint32_t ips_cm_sync_count_unfinished_chains(const struct ips_cm_sync *s);
/* Returns IPS_E_STALLED; the message names up to ten unfinished chains and what
 * they await. */
int ips_cm_sync_stall_error(const struct ips_cm_sync *s,
                            struct ips_err *err) IPS_MUST_USE;
const struct ips_cm_counts *ips_cm_sync_counts(const struct ips_cm_sync *s);

/* Moves the values into *out: the result of ips_longest_path_compute_ests() for
 * this subgraph with its remote values. IPS_E_STALLED if chains are unfinished.
 */
int ips_cm_sync_move_result_out(struct ips_cm_sync *s, struct ips_est *out,
                                struct ips_err *err) IPS_MUST_USE;

/* ---- the root: detecting the end ----------------------------------------- */

/* State of a computation, derived from what idle slaves report (they have
 * computed and sent all that the batches received so far allow): batches sent
 * and received, and unfinished chains. The computation is over when no chain is
 * unfinished and all batches sent were received. Batches may be in transit
 * while the master collects the counts, so one round of reports does not prove
 * a stall. Two rounds with the same counts, and with all batches received, do
 * prove it (four counters: Mattern 1987). */
enum ips_cm_state {
    IPS_CM_GOES_ON,
    IPS_CM_ASK_AGAIN,
    IPS_CM_OVER,
    IPS_CM_STALLED
};
struct ips_cm_tally {
    uint32_t machines;
    uint32_t reported; /* number of slaves that have reported in this round */
    uint64_t sent, received, unfinished;
    uint64_t last_sent, last_taken;
    bool has_last;
    uint64_t rounds;
};
void ips_cm_tally_init(struct ips_cm_tally *t, uint32_t parts);
/* Adds one slave's counts of this round. Returns IPS_CM_GOES_ON until all
 * slaves have reported; then the round is over, and the result says what to do.
 */
enum ips_cm_state ips_cm_tally_add_report_and_get_state(struct ips_cm_tally *t,
                                                        uint64_t sent,
                                                        uint64_t taken,
                                                        uint64_t unfinished);

#endif
