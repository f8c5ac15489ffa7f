/*
 * `cm-async`: Chandy and Misra's asynchronous distributed path algorithm
 * ("Distributed Computation on Graphs: Shortest Path Algorithms", CACM 25(11),
 * 1982), applied to the longest path of a graph without cycles (IPS-11, first
 * variation). Each slave with its whole subgraph is one vertex of their
 * algorithm. This file implements one slave's side, as a state machine that
 * receives and returns messages.
 *
 * Phase I. A LEN message carries values: "there is a path of this length to
 * this message". The root, which stands for the start of every chain, sends
 * each slave one LEN without values. A slave without a parent takes the sender
 * of a LEN as its parent. It applies the values that are greater than its own,
 * recomputes the nodes that depend on them (relaxes them), and sends each peer
 * one LEN with all links that improved. It counts its own messages that are not
 * acknowledged yet. A LEN whose sender did not become the parent is
 * acknowledged at once. The parent's LEN is acknowledged when that count is
 * zero and nothing is left to relax; the slave then has no parent again. When
 * all messages of the root are acknowledged, no message is in transit and no
 * slave has work: phase I is over (the argument of Dijkstra & Scholten). Phase
 * II. The root tells all slaves that the values are final.
 *
 * The algorithm speculates: it sends values before they are final.
 *
 * Cycles. In their algorithm a negative cycle shows in phase II. Here the
 * lengths around a cycle through several machines would grow for ever, or stay
 * equal. So each value also carries the number of machine changes of its path
 * (the greatest number, if several paths have that length). If that exceeds the
 * number of links there is a cycle: IPS_E_STALLED. Cycles within the subgraph
 * are found at the start.
 *
 * A batch consists of its number (from 0 for each sender), the number of
 * values, and for each value the step to its link, the step to its EST, in
 * `wall` the time of the send (as in cm_sync.h), and its machine changes. After
 * an error every further call fails except ips_cm_async_free(). Pure.
 * Source: IPS-11, ALGORITHMS 3.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_ASYNC_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_ASYNC_H

#include "analysis/distributed/cm.h"

struct ips_cm_async;

/* Makes the state of one slave. `links` must be complete
 * (ips_cm_is_link_exchange_complete) and is borrowed. `g` is the graph of the
 * links, or the scenario's view of it, also borrowed. `links_in_all`: the
 * number of links of all machines together. IPS_E_STALLED: the subgraph itself
 * has a cycle. */
int ips_cm_async_new(const struct ips_cm_links *links,
                     const struct ips_graph *g,
                     const struct ips_scenario *scenario, uint64_t links_in_all,
                     uint32_t batch_values, struct ips_cm_async **out,
                     struct ips_err *err) IPS_MUST_USE;
void ips_cm_async_free(struct ips_cm_async *a);

/* Handles a received LEN message, which carries values of links. `from`: the
 * peer (an index into links->peer), or IPS_CM_ROOT, whose LEN has no bytes. */
int ips_cm_async_store_values_and_owe_ack(struct ips_cm_async *a, uint32_t from,
                                          const uint8_t *data, size_t len,
                                          struct ips_err *err) IPS_MUST_USE;
/* Handles an acknowledgement: peer `from` acknowledges `count` of our messages.
 */
int ips_cm_async_receive_ack(struct ips_cm_async *a, uint32_t from,
                             uint64_t count, struct ips_err *err) IPS_MUST_USE;
/* Recomputes the values of all nodes that depend on nodes that received
 * messages improved. */
int ips_cm_async_propagate_improved_values(struct ips_cm_async *a,
                                           struct ips_err *err) IPS_MUST_USE;
/* Returns 1 if *out has a message to send, 0 if there is none until the next
 * message arrives. */
int ips_cm_async_make_next_message(struct ips_cm_async *a,
                                   struct ips_cm_message *out,
                                   struct ips_err *err) IPS_MUST_USE;
const struct ips_cm_counts *
ips_cm_async_get_counters(const struct ips_cm_async *a);

/* Called in phase II, when the values are final. Sets *out to the result of
 * ips_longest_path_compute_ests() for this subgraph with its remote values.
 * Returns IPS_E_CORRUPT if that result differs from the values found in phase
 * I. */
int ips_cm_async_recompute_and_check_result(struct ips_cm_async *a,
                                            struct ips_est *out,
                                            struct ips_err *err) IPS_MUST_USE;

#endif
