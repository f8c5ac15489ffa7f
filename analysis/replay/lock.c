/*
 * Locks of a replay: decides which chain gets a unit next (replay.h has the
 * rule).
 *
 * A unit is not granted in the middle of an event: several chains may begin to
 * wait at the same time, and the order in which simultaneous events are
 * processed must not matter. So a lock with free units and waiters is `due`,
 * and rp_run_event_loop() calls rp_grant_free_units_and_continue_chains() when
 * nothing else is left to do at that time.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/run.h"
#include "common/large.h"

static inline uint32_t lock_of_node(const struct rp *r, uint32_t i)
{
    return (r->lock_at[i] - 1) / 2;
}

int rp_locks_alloc_and_init(struct rp *r, struct ips_err *err)
{
    const struct ips_replay_locks *of = r->ask->locks;
    size_t nodes = (size_t)r->g->node_count + 1;
    size_t locks = (size_t)of->lock_count + 1;
    r->lock_at = ips_calloc_large(nodes, sizeof(*r->lock_at));
    r->lock = calloc(locks, sizeof(*r->lock));
    r->due = calloc(locks, sizeof(*r->due));
    r->had_unit = calloc((size_t)r->chains + 1, sizeof(*r->had_unit));
    r->out->giver = ips_alloc_large(nodes, sizeof(*r->out->giver));
    if (!r->lock_at || !r->lock || !r->due || !r->had_unit || !r->out->giver)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u locks", of->lock_count);
    memset(r->out->giver, 0xff, nodes * sizeof(*r->out->giver));
    for (uint32_t k = 0; k < of->lock_count; k++)
        r->lock[k] = (struct rp_lock){.free = of->units[k],
                                      .first = RP_NO_CHAIN,
                                      .last = RP_NO_CHAIN,
                                      .giver = IPS_NO_NODE};
    for (uint32_t k = 0; k < of->event_count; k++) {
        const struct ips_replay_lock_event *e = &of->event[k];
        if (!r->order_kept[e->lock])
            r->lock_at[e->node] = 2 * e->lock + (e->gives ? 2 : 1);
    }
    return 0;
}

void rp_locks_release(struct rp *r)
{
    ips_free_large(r->lock_at);
    free(r->lock);
    free(r->due);
    free(r->had_unit);
}

static void enqueue_lock_if_grantable(struct rp *r, uint32_t k)
{
    struct rp_lock *l = &r->lock[k];
    if (l->due || l->free == 0 || l->first == RP_NO_CHAIN)
        return;
    l->due = true;
    r->due[r->due_count++] = k;
}

static bool did_chain_ask_before_other(const struct rp *r, uint32_t a,
                                       uint32_t b)
{
    const struct rp_chain *x = &r->chain[a], *y = &r->chain[b];
    return x->done_t < y->done_t || (x->done_t == y->done_t && a < b);
}

void rp_insert_chain_into_lock_waiters(struct rp *r, uint32_t c)
{
    uint32_t k = lock_of_node(r, r->chain[c].pos);
    struct rp_lock *l = &r->lock[k];
    uint32_t *link = &l->first;
    if (l->last != RP_NO_CHAIN && did_chain_ask_before_other(r, l->last, c))
        link = &r->chain[l->last].next;
    while (*link != RP_NO_CHAIN && did_chain_ask_before_other(r, *link, c))
        link = &r->chain[*link].next;
    r->chain[c].next = *link;
    if (*link == RP_NO_CHAIN)
        l->last = c;
    *link = c;
    enqueue_lock_if_grantable(r, k);
}

void rp_return_lock_unit(struct rp *r, uint32_t i)
{
    uint32_t k = lock_of_node(r, i);
    r->lock[k].free++;
    r->lock[k].giver = i;
    enqueue_lock_if_grantable(r, k);
}

void rp_grant_free_units_and_continue_chains(struct rp *r)
{
    uint32_t have = 0;
    for (uint32_t d = 0; d < r->due_count; d++) {
        struct rp_lock *l = &r->lock[r->due[d]];
        l->due = false;
        for (; l->free && l->first != RP_NO_CHAIN; l->free--) {
            uint32_t c = l->first;
            l->first = r->chain[c].next;
            if (l->first == RP_NO_CHAIN)
                l->last = RP_NO_CHAIN;
            if (r->queues)
                rp_lock_queue_assign_piece_if_worker(r, c, r->due[d]);
            if (r->chain[c].done_t < r->now)
                r->out->giver[r->chain[c].pos] = l->giver;
            r->had_unit[have++] = c;
        }
    }
    r->due_count = 0;
    r->out->units_taken += have;
    r->out->events += have;
    for (uint32_t k = 0; k < have; k++) {
        rp_continue_chain(r, r->had_unit[k], r->now);
        rp_continue_ready_chains(r, r->now);
    }
}

uint32_t rp_mark_and_count_awaited_locks(const struct rp *r, bool *kept)
{
    uint32_t count = 0;
    for (uint32_t k = 0; r->lock_at && k < r->ask->locks->lock_count; k++) {
        if (kept[k] || r->lock[k].first == RP_NO_CHAIN)
            continue;
        kept[k] = true;
        count++;
    }
    return count;
}
