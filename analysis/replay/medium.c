/*
 * Messages that share a medium. The medium is modelled as a machine with one
 * core, and a transfer as work that the receiving node does on this machine.
 * The message arrives MTIME(0) after that work is done. A message that a chain
 * reads with several receives is one transfer.
 *
 * arrive[i] of a node that receives through a medium is RP_UNKNOWN from the
 * send on, with its low bit set if the chain waits. Later it is the time of
 * arrival, which is above 0. For all other nodes it is 0. The time that an idle
 * medium saved up (token bucket) is subtracted from the next transfer. If it
 * covers the whole transfer, there is no work.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/run.h"

int rp_media_alloc(struct rp *r, struct ips_err *err)
{
    const struct ips_graph *g = r->g;
    size_t nodes = (size_t)g->node_count + 1;
    r->arrive = calloc(nodes, sizeof(*r->arrive));
    r->sends_next = calloc(nodes, sizeof(*r->sends_next));
    r->sends = malloc(nodes * sizeof(*r->sends));
    if (r->ask->burst_ns)
        r->bucket = calloc(r->media + (size_t)1, sizeof(*r->bucket));
    if (!r->arrive || !r->sends_next || !r->sends ||
        (r->ask->burst_ns && !r->bucket))
        return ips_err_set(err, IPS_E_NO_MEMORY, "transfers of %u nodes",
                           g->node_count);
    for (uint32_t m = 0; r->bucket && m < r->media; m++)
        /* a full bucket: more than any burst_ns */
        r->bucket[m].saved_t = 1ULL << 62;
    memset(r->sends, 0xff, nodes * sizeof(*r->sends)); /* 0xffffffff is
                                                          IPS_NO_NODE */
    for (uint32_t i = g->node_count; i-- > 0;) {
        if (!ips_has_local_cross_arc(g, &r->arcs, i) ||
            r->arcs.mode[g->xkind[i]] != IPS_ARC_MTIME)
            continue;
        r->sends_next[i] = r->sends[g->xpred[i]];
        r->sends[g->xpred[i]] = i;
    }
    return 0;
}

void rp_media_release(struct rp *r)
{
    free(r->arrive);
    free(r->sends_next);
    free(r->sends);
    free(r->bucket);
}

/* ---- token bucket ------------------------------------------------------- */

/* Subtracts the time that medium m saved up from a transfer that takes `all`.
 * Returns the time that is left. Both are in units of virtual time (_v). */
static uint64_t charge_transfer_to_token_bucket(struct rp *r, uint32_t m,
                                                uint64_t all, uint64_t now)
{
    if (!r->bucket || r->machine[r->machines + m].count)
        return all; /* a busy medium has saved nothing */
    struct rp_bucket *b = &r->bucket[m];
    uint64_t most = r->ask->burst_ns[m] << r->bits;
    uint64_t saved = ips_min_u64(most, b->saved_t + (now - b->at_t));
    uint64_t has = ips_min_u64(saved, all);
    *b = (struct rp_bucket){saved - has, now};
    return all - has;
}

/* Returns how many ns a message of `bytes` bytes occupies its medium. */
static uint64_t medium_time_of_message(const struct rp *r, size_t pair,
                                       uint64_t bytes)
{
    if (r->ask->wire && r->ask->wire[pair])
        return ips_replay_medium_occupancy_ns(r->ask, pair, bytes);
    return ips_sub_sat(rp_compute_message_ns(r, pair, bytes),
                       rp_compute_message_ns(r, pair, 0));
}

/* A chain may read one message with several receives. They are one transfer,
 * that of the first receive `i`. Returns the first receive of the same send by
 * another chain, or IPS_NO_NODE. Receives of one chain are adjacent in the
 * list, because it is sorted by node. */
static uint32_t find_receive_of_send_by_next_chain(const struct rp *r,
                                                   uint32_t i)
{
    uint32_t c = ips_chain_of(r->g, i);
    do
        i = r->sends_next[i];
    while (i != IPS_NO_NODE && ips_chain_of(r->g, i) == c);
    return i;
}

void rp_start_transfers_of_node(struct rp *r, uint32_t x, uint64_t now)
{
    uint32_t next;
    for (uint32_t i = r->sends[x]; i != IPS_NO_NODE; i = next) {
        size_t pair =
            rp_machine_pair_index(r, x, rp_find_chain_that_runs_node(r, i));
        uint32_t m = r->ask->medium[pair];
        uint64_t w = 0;
        next = find_receive_of_send_by_next_chain(r, i);
        if (m == IPS_REPLAY_NO_MEDIUM)
            continue;
        for (uint32_t k = i; k != next; k = r->sends_next[k])
            w = ips_max_u64(w, medium_time_of_message(r, pair, r->g->xlen[k]));
        if (w == 0)
            continue;
        uint64_t left =
            charge_transfer_to_token_bucket(r, m, w << r->bits, now);
        uint64_t there = ips_max_u64(
            now + (rp_compute_message_ns(r, pair, 0) << r->bits), 1);
        for (uint32_t k = i; k != next; k = r->sends_next[k])
            r->arrive[k] = left ? RP_UNKNOWN : there;
        if (left)
            rp_add_virtual_work(r, r->machines + m, i, left, now);
    }
}

void rp_schedule_arrival_after_transfer(struct rp *r, uint32_t i, uint32_t m,
                                        uint64_t now)
{
    uint32_t c = rp_find_chain_that_runs_node(r, i), x = r->g->xpred[i];
    uint32_t next = find_receive_of_send_by_next_chain(r, i);
    uint64_t rest = rp_compute_message_ns(r, rp_machine_pair_index(r, x, c), 0)
                    << r->bits;
    bool waits = false;
    if (r->bucket)
        r->bucket[m] = (struct rp_bucket){0, now};
    for (uint32_t k = i; k != next; k = r->sends_next[k]) {
        waits = waits || (r->arrive[k] & 1);
        r->arrive[k] = now + rest;
    }
    if (waits && r->queues &&
        rp_queue_block_whose_result_node_sends(r, x) != IPS_QUEUE_NONE)
        rp_schedule_arrival_of_result(
            r, rp_queue_block_whose_result_node_sends(r, x), now + rest);
    else if (waits && rest)
        rp_schedule_arrival_at_chain(r, c, now + rest);
    else if (waits)
        r->ready[r->ready_count++] = c;
}
