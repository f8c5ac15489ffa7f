/*
 * What must hold of the single waits of a build, whatever the records: they are
 * the sums of the thread rows, lie in arcs of their chains, and add up when
 * they are blamed, as do the cores of the machine. Header only; NULL, or what
 * does not hold.
 */
#ifndef IPS_TESTS_CHECK_WAITS_H
#define IPS_TESTS_CHECK_WAITS_H

#include <stdlib.h>

#include "analysis/explain/idle.h"
#include "slave/build/waits.h"

static inline void check_waits_add(void *arg, const struct ips_blame *part)
{
    *(uint64_t *)arg += part->ns;
}

static inline const char *check_waits_blame(const struct ips_waits *w)
{
    struct ips_idle idle;
    uint64_t sum, ns, all;
    for (uint64_t i = 0; i < w->count; i++) {
        struct ips_blamer b = {
            .w = w, .put = check_waits_add, .arg = &sum, .budget = 1000};
        sum = 0;
        int rc = ips_blame_wait(&b, &w->wait[i], 0, UINT64_MAX, &ns, NULL);
        ips_blamer_release(&b);
        if (rc == 0 && (ns != sum || ns != w->wait[i].ns))
            return "the blame of a wait is not the wait";
    }
    if (ips_idle_account_core_time(w, 0, 3, 1000, 1000000, 1u << IPS_WAIT_SPIN,
                                   &idle, NULL) < 0)
        return NULL;
    all = idle.running + idle.spun + idle.others + idle.unknown + idle.nobody +
          idle.before + idle.after;
    for (uint32_t c = 0; c < IPS_IDLE_CAUSES; c++)
        all += idle.cause[c];
    return all == 3 * 999000 ? NULL : "cores are not accounted for";
}

/* Rows of locks: in order, in arcs; and a chain that takes what has one unit
 * gives it back before it takes it again - but a semaphore's, which have units
 * where all was recorded (`all`). */
static inline const char *check_locks(const struct ips_built *b,
                                      const struct ips_wait_rows *rows,
                                      bool all)
{
    const struct ips_graph *g = &b->g;
    for (uint32_t k = 0; k < rows->lock_count; k++) {
        const struct ips_lock_row *r = &rows->lock[k];
        if (r->node >= g->node_count || r->lock >= rows->lock_count ||
            r->node == g->chains[ips_chain_of(g, r->node)].first ||
            (r->w != IPS_LOCK_AT_NODE && r->w > g->w[r->node]))
            return "a row of a lock lies in no arc";
        if (k &&
            (r[-1].node > r->node || (r[-1].node == r->node && r[-1].w > r->w)))
            return "rows of locks are out of order";
    }
    if (all || rows->lock_count > 2000)
        return NULL; /* what follows is slow */
    for (uint32_t k = 0; k < rows->lock_count; k++) {
        const struct ips_lock_row *r = &rows->lock[k], *next = r + 1;
        uint32_t c = ips_chain_of(g, r->node);
        while (next < rows->lock + rows->lock_count && next->lock != r->lock)
            next++;
        bool mine = next < rows->lock + rows->lock_count &&
                    ips_chain_of(g, next->node) == c;
        if (r->units && (mine ? next->gives == r->gives : !r->gives))
            return "a lock is taken twice, or never given back";
    }
    return NULL;
}

static inline const char *check_waits(const struct ips_built *b,
                                      const struct ips_wait_rows *rows,
                                      bool all)
{
    uint64_t k = 0;
    bool sane = true;
    const char *wrong = NULL;
    struct ips_wait *wait = calloc((size_t)rows->count + 1, sizeof(*wait));
    struct ips_waits laid;
    for (uint32_t i = 0; i < b->g.node_count; i++) /* else sums run over */
        sane = sane && b->g.t_ns[i] < 1ull << 50;
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_chain *chain = &b->g.chains[c];
        uint64_t ns[IPS_WAIT_COUNT] = {0};
        uint32_t count[IPS_WAIT_COUNT] = {0};
        for (;
             k < rows->count && rows->row[k].arc < chain->first + chain->count;
             k++) {
            const struct ips_wait_row *r = &rows->row[k];
            if (r->arc <= chain->first)
                wrong = "a wait before its thread";
            if (r->stack != IPS_NONE && r->stack >= rows->stack_count)
                wrong = "a wait with a stack that there is not";
            ns[r->cause] += r->ns;
            count[r->cause]++;
            if (wait)
                wait[k] = (struct ips_wait){.arc = r->arc,
                                            .cause = r->cause,
                                            .of_node = r->of_node,
                                            .ns = r->ns,
                                            .end_ns = r->end_ns};
        }
        for (int i = 0; i < IPS_WAIT_COUNT; i++)
            if ((sane && ns[i] != b->threads[c].wait_ns[i]) ||
                count[i] != b->threads[c].wait_count[i])
                wrong = "the waits of a thread are not its sums";
    }
    if (k != rows->count)
        wrong = "a wait of no thread";
    if (!wrong)
        wrong = check_locks(b, rows, all);
    if (!wrong && wait &&
        ips_waits_set_begin_and_end_times(&b->g, wait, rows->count, &laid,
                                          NULL) == 0) {
        wrong = check_waits_blame(&laid);
        ips_waits_release(&laid);
    }
    free(wait);
    return wrong;
}

#endif
