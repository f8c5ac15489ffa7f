/*
 * `cm-async`: Chandy & Misra's asynchronous distributed path algorithm
 * ("Distributed Computation on Graphs: Shortest Path Algorithms", CACM 25(11),
 * 1982), turned to the longest path of a graph without cycles (IPS-11, first
 * variation). A vertex of theirs is a slave's whole subgraph. One slave's part
 * of it, as a state machine: messages in, messages out.
 *
 * Phase I. LEN carries values: "there is a path of this length to this
 * message". The root, from which every chain begins, sends each slave one LEN
 * without values. A slave that has no parent takes the sender of a LEN as its
 * parent. It applies what is better than what it had, relaxes forward, and
 * sends each peer one LEN with all links that improved. It counts the messages
 * it has sent that are not acknowledged. A LEN that made no parent is
 * acknowledged at once; the parent's when that count is zero and nothing is
 * left to relax: then the slave is where it began, without a parent. When
 * every message of the root is acknowledged no message is on its way and no
 * slave has work: phase I is over (Dijkstra & Scholten's argument).
 * Phase II. The root tells all that the values are final.
 *
 * It speculates: values are sent that later ones replace.
 *
 * Cycles. In their algorithm a negative cycle shows in phase II; here lengths
 * round a cycle through machines would grow for ever, or not at all. So each
 * value says how many machine changes its path has (of equal lengths the one
 * with more): more than there are links means a cycle, IPS_E_STALLED. Cycles
 * within the subgraph are found at the beginning.
 *
 * A batch is: its number (from 0, of this sender), how many values, and of
 * each the step to its link, the step to its EST, in `wall` when it was sent
 * (as in cm_sync.h), its machine changes.
 * After an error every further call fails; release is all that is left to do.
 * Pure. Source: IPS-11, ALGORITHMS 3.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_ASYNC_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_ASYNC_H

#include "analysis/distributed/cm.h"

struct ips_cm_async;

/* `links` must be ready and is borrowed, `g` as in cm_sync.h. `links_in_all`:
 * of all machines, each counted once. IPS_E_STALLED: the subgraph itself has a
 * cycle. */
int ips_cm_async_new(const struct ips_cm_links *links,
                     const struct ips_graph *g,
                     const struct ips_scenario *scenario, uint64_t links_in_all,
                     uint32_t batch_values, struct ips_cm_async **out,
                     struct ips_err *err) IPS_MUST_USE;
void ips_cm_async_free(struct ips_cm_async *a);

/* LEN of a peer (an index in links->peer), or of IPS_CM_ROOT (no bytes). */
int ips_cm_async_len(struct ips_cm_async *a, uint32_t from, const uint8_t *data,
                     size_t len, struct ips_err *err) IPS_MUST_USE;
/* `count` messages of ours to that peer are acknowledged. */
int ips_cm_async_ack(struct ips_cm_async *a, uint32_t from, uint64_t count,
                     struct ips_err *err) IPS_MUST_USE;
/* Relaxes what the last messages improved. */
int ips_cm_async_pass(struct ips_cm_async *a, struct ips_err *err) IPS_MUST_USE;
/* 1: *out is to be sent; 0: nothing until the next message. */
int ips_cm_async_next(struct ips_cm_async *a, struct ips_cm_message *out,
                      struct ips_err *err) IPS_MUST_USE;
const struct ips_cm_counts *ips_cm_async_counts(const struct ips_cm_async *a);

/* Phase II: the values are final. Gives them away, as ips_longest_path() makes
 * them of this subgraph and its remote values, having checked that they are
 * the same. */
int ips_cm_async_finish(struct ips_cm_async *a, struct ips_est *out,
                        struct ips_err *err) IPS_MUST_USE;

#endif
