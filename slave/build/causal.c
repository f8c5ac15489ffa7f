/*
 * Corrects the coordinates so that no arc between two threads of this machine
 * needs more time than the clock allows.
 *
 * Coordinates assume that the CPU of a send is spent before its bytes arrive,
 * and the CPU of a receive after that. This is true only as far as there was
 * time: part of the send's CPU may be spent after the receiver woke, and part
 * of the receive's CPU before it slept. If both were counted in full, the
 * critical path of a request loop would be longer than the run took. With
 *
 *     before = CPU by which the sender's coordinate is past its call
 *     after  = CPU of the receive's call that comes after its coordinate
 *     time   = the receive's return less the send's call, on one clock
 *
 * this pass establishes before + after <= time. First it lowers the coordinate
 * of the send (the rest of the send's CPU stays after it on the chain). If
 * that is not enough, it raises the coordinate of the receive. A coordinate
 * moves only within its own call, so the order in the chain does not change.
 * "Gives way" means that such a coordinate is moved.
 *
 * An end-of-file that the death of the writer caused depends on END, which
 * carries the CPU of the exit. The exit goes on after the descriptors are
 * closed, so END may have more CPU than there was time until the reader
 * returned. Then either the coordinate of END is lowered, and the rest of its
 * CPU is on no path; or the arc begins at the writer's last record, without the
 * CPU between that record and END. The way that leaves out less CPU is taken.
 * A SIGCHLD comes when the exit is over: there, END's coordinate is
 * lowered.
 *
 * This pass does not visit arcs that pass `match` made, which are nearly all:
 * there, the send gives way when its receive is found (build/match.c), and the
 * receive when its chain gets weights (b_make_weights). Those nodes have no
 * other arc, so for them, too, the send comes first.
 */
#include "slave/build/internal.h"

/* Lists the node of an arc for build/wall.c. Without memory for the list,
 * build/wall.c visits all nodes. */
static void list_arc_for_wall(struct build *b, uint32_t v)
{
    if (B_MORE(b->arcs, NULL) < 0)
        b->bends = true;
    else
        b->arcs.v[b->arcs.n++] = v;
}

/* Returns the time between the two ends of node v's cross arc, ns. */
static uint64_t arc_time_ns(const struct ips_graph *g, uint32_t v)
{
    return ips_sub_sat(g->t_ns[v], g->t_ns[g->xpred[v]]);
}

static bool is_arc_between_threads(const struct ips_graph *g, uint32_t v)
{
    return g->xpred[v] != IPS_NO_NODE && g->xkind[v] != IPS_X_EXTERNAL &&
           g->xkind[v] != IPS_X_IDLE;
}

/* Whether the coordinate of the source of v's arc may be lowered. That of a
 * send may, and that of a lock release: both wake the waiter within their
 * call. */
static bool can_lower_arc_source_coord(const struct ips_graph *g, uint32_t v)
{
    uint32_t u = g->xpred[v];
    return g->kind[u] == IPS_NODE_SEND ||
           (g->kind[u] == IPS_NODE_AUX && g->xkind[v] == IPS_X_RESOURCE);
}

static void lower_arc_source_coord_to_fit_clock(struct build *b, uint32_t v)
{
    struct ips_graph *g = &b->out->g;
    uint32_t u = g->xpred[v];
    if (!is_arc_between_threads(g, v) || !can_lower_arc_source_coord(g, v))
        return;
    uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
    uint64_t room = ips_sub_sat(arc_time_ns(g, v), after);
    uint64_t most = ips_add_sat(b->cpu_at[u], room);
    if (b_is_final_node(b, u))
        b->broken |= most < b->coord[u];
    else
        g->w[u] = ips_min_u64(g->w[u], most);
}

static void lower_coord_of_end_node(struct build *b, uint32_t u, uint64_t most)
{
    if (b_is_final_node(b, u))
        b->broken = true;
    else
        b->out->g.w[u] = most;
}

/* Node v, an end-of-file or the like, depends on the END u, whose CPU after its
 * stamp is more than the `time` between the two. Lowers END's coordinate or
 * lets the arc begin at the node before, as described at the top of this file.
 * Returns how far the coordinate of the arc's source is now past its stamp,
 * ns. */
static uint64_t lower_end_coord_or_move_arc_source(struct build *b, uint32_t u,
                                                   uint32_t v, uint64_t time)
{
    struct ips_graph *g = &b->out->g;
    uint64_t most = ips_add_sat(b->cpu_at[u], time);
    uint64_t over = ips_sub_sat(b_get_coord(b, u), most);
    /* u - 1 exists: a chain has START before its END */
    if (ips_sub_sat(most, b_get_coord(b, u - 1)) > over) {
        lower_coord_of_end_node(b, u, most);
        return time;
    }
    g->xpred[v] = u - 1;
    b->backwards |= g->t_ns[u - 1] >= g->t_ns[v];
    return 0;
}

static void raise_arc_target_coord_to_fit_clock(struct build *b, uint32_t v)
{
    struct ips_graph *g = &b->out->g;
    uint32_t u = g->xpred[v];
    if (u == IPS_NO_NODE)
        return;
    list_arc_for_wall(b, v);
    b->backwards |= g->t_ns[u] >= g->t_ns[v];
    if (!is_arc_between_threads(g, v))
        return;
    uint64_t before = ips_sub_sat(b_get_coord(b, u), b->cpu_at[u]);
    uint64_t time = arc_time_ns(g, v);
    if (before > time && g->kind[u] == IPS_NODE_END &&
        g->xkind[v] == IPS_X_SIGNAL) {
        lower_coord_of_end_node(b, u, b->cpu_at[u] + time);
        before = time;
    } else if (before > time && g->kind[u] == IPS_NODE_END &&
               g->kind[v] != IPS_NODE_JOIN) {
        before = lower_end_coord_or_move_arc_source(b, u, v, time);
    }
    uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
    uint64_t room = ips_sub_sat(time, before);
    if (after > room)
        g->w[v] = b->cpu_at[v] - room;
}

/* Calls f for every node of chain c with a cross arc that pass `match` did not
 * make. Only few nodes have one, so nodes without one are skipped eight at a
 * time. */
static void for_each_chain_arc_not_made_by_match(struct build *b, uint32_t c,
                                                 void (*f)(struct build *,
                                                           uint32_t))
{
    const struct ips_graph *g = &b->out->g;
    uint32_t end = g->chains[c].first + g->chains[c].count;
    for (uint32_t i = b_first_open_node(b, c); i < end; i++) {
        uint64_t eight;
        if (end - i >= 8) {
            memcpy(&eight, g->xkind + i, 8);
            if ((eight & ~(0x0101010101010101ULL * B_X_MATCHED)) == 0) {
                i += 7;
                continue;
            }
        }
        if (g->xkind[i] & ~B_X_MATCHED)
            f(b, i);
    }
}

static void for_each_arc_not_made_by_match(struct build *b,
                                           void (*f)(struct build *, uint32_t))
{
    for (uint32_t c = 0; c < b->out->g.chain_count; c++)
        for_each_chain_arc_not_made_by_match(b, c, f);
}

void b_limit_coords_by_clock(struct build *b)
{
    b->arcs.n = 0;
    for_each_arc_not_made_by_match(b, lower_arc_source_coord_to_fit_clock);
    for_each_arc_not_made_by_match(b, raise_arc_target_coord_to_fit_clock);
}

/* ---- cycles ---- */

/* The next functions make sure that the graph has no cycle. With correct
 * records, all arcs lead forwards in time. Wrong records (a clock that stepped,
 * a hostile writer, a lost send) may give a cycle, and one wrong arc must not
 * make the whole run useless. Chains are visited as in
 * ips_longest_path_compute_ests: each up to a node whose cross predecessor was
 * not visited yet. When no chain can continue, every unfinished chain waits for
 * another: then one arc of a cycle is dropped and counted as ambiguous. */
#define DONE (UINT32_MAX - 1)
/* Number of cycles that are broken one by one; afterwards the arcs of all
 * waiting chains are dropped. */
#define CAREFUL 1000u

struct cycle_search {
    struct build *b;
    struct ips_graph *g;
    uint32_t *waiter; /* [node] first chain that waits for the node; DONE: the
                         node was visited; IPS_NONE: no chain waits for it */
    uint32_t *next;   /* [chain] next waiter of the same node */
    uint32_t *at;     /* [chain] next node to visit */
    uint32_t *ready;  /* stack of the chains that can continue */
    /* [chain] last round in which break_one_cycle() visited it */
    uint32_t *seen;
    uint32_t ready_count, unfinished, dropped;
};

static void visit_chain_nodes_until_unvisited_source(struct cycle_search *r,
                                                     uint32_t c)
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

/* Lets chain c continue by dropping the cross arc into the node at which it
 * waits. */
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

static void visit_all_chains_and_break_cycles(struct cycle_search *r)
{
    uint32_t chains = r->g->chain_count, from = 0;
    for (uint32_t c = chains; c > 0; c--)
        r->ready[r->ready_count++] = c - 1;
    for (;;) {
        while (r->ready_count)
            visit_chain_nodes_until_unvisited_source(
                r, r->ready[--r->ready_count]);
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
    visit_all_chains_and_break_cycles(&r);
out:
    ips_free_large(r.waiter);
    ips_free_large(r.next);
    ips_free_large(r.at);
    ips_free_large(r.ready);
    ips_free_large(r.seen);
    return rc;
}
