/* Makes sure that the graph has no cycle. With correct records, all arcs lead
 * forwards in time. Wrong records (a clock that stepped, a hostile writer, a
 * lost send) may give a cycle, and one wrong arc must not make the whole run
 * useless. Chains are run as in ips_longest_path: each until a node whose
 * predecessor has not run. When no chain can continue, every unfinished chain
 * waits for another: then one arc of a cycle is dropped and counted as
 * ambiguous. */
#include "slave/build/internal.h"

#define DONE (UINT32_MAX - 1)
/* Number of cycles that are broken one by one; afterwards the arcs of all
 * waiting chains are dropped. */
#define CAREFUL 1000u

struct cycle_search {
    struct build *b;
    struct ips_graph *g;
    uint32_t *waiter; /* [node] first chain that waits for the node; DONE: the
                         node has run; IPS_NONE: no chain waits for it */
    uint32_t *next;   /* [chain] next waiter of the same node */
    uint32_t *at;     /* [chain] next node to run */
    uint32_t *ready;  /* stack of the chains that can continue */
    /* [chain] last round in which break_one_cycle() visited it */
    uint32_t *seen;
    uint32_t ready_count, unfinished, dropped;
};

static void visit_chain_nodes(struct cycle_search *r, uint32_t c)
{
    const struct ips_graph *g = r->g;
    uint32_t end = g->chains[c].first + g->chains[c].count;
    for (uint32_t i = r->at[c]; i < end; i++) {
        uint32_t x = g->xpred[i];
        if (x != IPS_NO_NODE && r->waiter[x] != DONE) {
            r->next[c] = r->waiter[x];
            r->waiter[x] = c;
            r->at[c] = i;
            return;
        }
        for (uint32_t w = r->waiter[i]; w != IPS_NONE;) {
            uint32_t next = r->next[w];
            r->ready[r->ready_count++] = w;
            w = next;
        }
        r->waiter[i] = DONE;
    }
    r->at[c] = end;
    r->unfinished--;
}

static bool is_chain_visited(const struct cycle_search *r, uint32_t c)
{
    return r->at[c] == r->g->chains[c].first + r->g->chains[c].count;
}

/* Ends the wait of chain c by dropping its arc. */
static void drop_waiting_arc(struct cycle_search *r, uint32_t c)
{
    struct ips_graph *g = r->g;
    uint32_t i = r->at[c], x = g->xpred[i];
    uint32_t *link = &r->waiter[x];
    while (*link != c)
        link = &r->next[*link];
    *link = r->next[c];
    g->xpred[i] = IPS_NO_NODE;
    g->xkind[i] = IPS_X_NONE;
    g->xlen[i] = 0;
    r->b->out->counts.ambiguous++;
    r->dropped++;
    r->ready[r->ready_count++] = c;
}

/* Follows the waits from chain c to a cycle, and drops the arc of the cycle
 * that goes back furthest in time. */
static void break_one_cycle(struct cycle_search *r, uint32_t c, uint32_t round)
{
    const struct ips_graph *g = r->g;
    while (r->seen[c] != round) {
        r->seen[c] = round;
        c = ips_chain_of(g, g->xpred[r->at[c]]);
    }
    uint32_t worst = c, first = c;
    uint64_t back = 0;
    do {
        uint32_t i = r->at[c], x = g->xpred[i];
        uint64_t by = ips_sub_sat(g->t_ns[x], g->t_ns[i]);
        if (by > back) {
            back = by;
            worst = c;
        }
        c = ips_chain_of(g, x);
    } while (c != first);
    drop_waiting_arc(r, worst);
}

static void visit_all_chains(struct cycle_search *r)
{
    uint32_t chains = r->g->chain_count, from = 0;
    for (uint32_t c = chains; c > 0; c--)
        r->ready[r->ready_count++] = c - 1;
    for (;;) {
        while (r->ready_count)
            visit_chain_nodes(r, r->ready[--r->ready_count]);
        if (r->unfinished == 0)
            return;
        if (r->dropped < CAREFUL) {
            while (is_chain_visited(r, from))
                from++;
            break_one_cycle(r, from, r->dropped + 1);
            continue;
        }
        for (uint32_t c = 0; c < chains; c++)
            if (!is_chain_visited(r, c))
                drop_waiting_arc(r, c);
    }
}

int b_break_cycles(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    /* no cycle is possible if all arcs lead forwards in time, and those between
     * chains take at least 1 ns */
    if (!b->backwards)
        return 0;
    struct cycle_search r = {.b = b, .g = g, .unfinished = g->chain_count};
    r.waiter = ips_calloc_large((size_t)g->node_count + 1, sizeof(*r.waiter));
    r.next = b_calloc(g->chain_count, sizeof(*r.next), b->err);
    r.at = b_calloc(g->chain_count, sizeof(*r.at), b->err);
    r.ready = b_calloc(g->chain_count, sizeof(*r.ready), b->err);
    r.seen = b_calloc(g->chain_count, sizeof(*r.seen), b->err);
    int rc = 0;
    if (!r.waiter || !r.next || !r.at || !r.ready || !r.seen) {
        rc = ips_err_set(b->err, IPS_E_NO_MEMORY, "order of %u nodes",
                         g->node_count);
        goto out;
    }
    memset(r.waiter, 0xff, ((size_t)g->node_count + 1) * sizeof(*r.waiter));
    for (uint32_t c = 0; c < g->chain_count; c++)
        r.at[c] = g->chains[c].first;
    visit_all_chains(&r);
out:
    ips_free_large(r.waiter);
    ips_free_large(r.next);
    ips_free_large(r.at);
    ips_free_large(r.ready);
    ips_free_large(r.seen);
    return rc;
}
