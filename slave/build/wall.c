/*
 * Computes when each node was passed (g.at), and how long its thread slept in
 * the call that the node ends (g.wait): the basis of the weightings `sched` and
 * `wall` (analysis/graph/view.h).
 *
 * A node's coordinate is some CPU time before or after the reading of its
 * clocks; b_make_weights() moves the time of the node by the same amount. But
 * on a channel to another machine a send is passed at its call and a receive at
 * its return, because the clocks are aligned by these times: so no message
 * arrives before it was sent. This pass then "bends" times, that is, lowers
 * them until no arc of this machine leads back in time: a node is passed no
 * later than the nodes that depend on it. Therefore a node's earliest start
 * time in `wall` equals g.at.
 */
#include "slave/build/internal.h"

/* Limit of the rounds of lower_times_once(). Few arcs lead back in time, and by
 * little: only damaged records need more rounds. */
#define ROUNDS 64
#define AHEAD 16u

/* Node v is the join of a thread. END of that thread may have CPU that was used
 * after its record: moves the time of END forwards by that CPU, but not past v.
 */
static void shift_end_time_of_joined_thread(struct build *b, uint32_t v)
{
    struct ips_graph *g = &b->out->g;
    uint32_t u = g->xpred[v];
    if (u == IPS_NO_NODE || g->kind[u] != IPS_NODE_END || g->at[u] >= g->at[v])
        return;
    int64_t shift = b->chains[ips_chain_of(g, u)].end_shift;
    uint64_t at = ips_min_u64(b_shift_time(g->at[u], shift), g->at[v]);
    /* if END only becomes later, no other time has to be lowered, because END
     * has no wait */
    b->bends |= at < g->at[u];
    g->at[u] = at;
}

static int compare_join_nodes(const void *va, const void *vb)
{
    CMP3(*(const uint32_t *)va, *(const uint32_t *)vb);
    return 0;
}

/* Applies shift_end_time_of_joined_thread() to all joins, in the order of their
 * nodes: several may join one thread. */
static int shift_end_times_of_joined_threads(struct build *b)
{
    uint32_t n = 0, *nodes;
    if (!b->joins.n)
        return 0;
    nodes = b_calloc(b->joins.n, sizeof(*nodes), b->err);
    if (!nodes)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->joins.n; i++)
        if (b->joins.v[i].node != IPS_NO_NODE &&
            !b_is_final_node(b, b->joins.v[i].node))
            nodes[n++] = b->joins.v[i].node;
    qsort(nodes, n, sizeof(*nodes), compare_join_nodes);
    for (uint32_t i = 0; i < n; i++)
        shift_end_time_of_joined_thread(b, nodes[i]);
    ips_free_large(nodes);
    return 0;
}

/* Lowers the time of node u to that of node i, which depends on it. False: u
 * was not later. */
static bool lower_node_time(struct build *b, uint32_t u, uint32_t i)
{
    struct ips_graph *g = &b->out->g;
    if (g->at[u] <= g->at[i])
        return false;
    if (b->incremental)
        b_incremental_add_lowered(b, u, i);
    b->broken |= b_is_final_node(b, u);
    g->at[u] = g->at[i];
    return true;
}

/* Visits all arcs once: lowers the time of each node to the earliest time of
 * its successors. False: no time changed. */
static bool lower_times_once(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    bool bent = false;
    for (uint32_t c = g->chain_count; c > 0; c--) {
        const struct ips_chain *chain = &g->chains[c - 1];
        uint32_t from = b_first_open_node(b, c - 1);
        for (uint32_t i = chain->first + chain->count; i-- > from;) {
            uint32_t x = g->xpred[i];
            if (i >= AHEAD && g->xpred[i - AHEAD] != IPS_NO_NODE)
                __builtin_prefetch(&g->at[g->xpred[i - AHEAD]]);
            if (i > chain->first)
                bent |= lower_node_time(b, i - 1, i);
            if (x != IPS_NO_NODE)
                bent |= lower_node_time(b, x, i);
        }
    }
    return bent;
}

/* Whether any arc leads back in time. b_make_weights() checked the arcs within
 * chains and those of matched receives; that result holds if no time was moved
 * since. */
static bool may_have_backward_arc(const struct build *b)
{
    const struct ips_graph *g = &b->out->g;
    bool against =
        b->bends || b->backwards || !b_weights_pass_corrects_waits(b);
    for (uint32_t k = 0; k < b->arcs.n && !against; k++) {
        uint32_t i = b->arcs.v[k], x = g->xpred[i];
        against = x != IPS_NO_NODE && g->at[x] > g->at[i];
    }
    return against;
}

/* Whether the event that node i waited for was over before the thread began to
 * sleep. Then the thread did not sleep for that event: it was preempted, or
 * slept for something else. Bytes sent through memory arrive at once, but a
 * network may delay a message. */
static bool was_event_over_before_sleep(const struct build *b, uint32_t i)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t x = g->xpred[i], end = g->site[i];
    if (x == IPS_NO_NODE || g->xkind[i] == IPS_X_EXTERNAL ||
        g->xkind[i] == IPS_X_IDLE || g->at[x] > g->at[i] - g->wait[i])
        return false;
    return g->xkind[i] != IPS_X_DATA || b_is_end_in_memory(b, end);
}

/* Called if no time has to be lowered: corrects the waits of the nodes in
 * b->arcs. b_make_weights() has corrected all others. */
static void clear_waits_for_events_already_over(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    for (uint32_t k = 0; k < b->arcs.n; k++) {
        uint32_t i = b->arcs.v[k];
        if (g->wait[i] && was_event_over_before_sleep(b, i))
            g->wait[i] = 0;
    }
}

static void restore_waits(struct build *b)
{
    for (uint32_t k = 0; k < b->fitted.n; k++)
        b->out->g.wait[b->fitted.v[k].node] = b->fitted.v[k].wait;
    b->fitted.n = 0;
}

static void limit_waits_and_delays(struct build *b, uint32_t c)
{
    struct ips_graph *g = &b->out->g;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    bool queued = b->chains[c].read_delays;
    uint32_t from = b_first_open_node(b, c);
    if (from == first)
        g->wait[from++] = g->delay[first] = 0;
    for (uint32_t i = from; i < end; i++) {
        uint64_t apart = g->at[i] - g->at[i - 1];
        if (g->wait[i]) {
            g->wait[i] = ips_min_u64(g->wait[i], apart);
            if (was_event_over_before_sleep(b, i))
                g->wait[i] = 0;
        }
        if (!g->delay[i])
            continue;
        /* the run delay cannot be longer than the time off the CPU and not
         * asleep */
        uint64_t room = ips_sub_sat(apart - g->wait[i], g->w[i]);
        /* if another machine woke the thread at the node before, the delay
         * after that wake-up is in this arc */
        if (queued && b_may_peer_be_remote(b, i - 1))
            room += b->off[i - 1];
        g->delay[i] = ips_min_u64(g->delay[i], room);
    }
}

int b_make_times_fit_arcs(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    size_t room = (size_t)g->node_count + 1, size = sizeof(*g->delay);
    if (!b->from)
        g->delay = b->delays.n || b->spun ? ips_calloc_large(room, size)
                                          : ips_calloc_large_sparse(room, size);
    if (!g->delay)
        return ips_err_set(b->err, IPS_E_NO_MEMORY, "delays of %zu nodes",
                           room);
    b_distribute_run_delays(b);
    int rc = shift_end_times_of_joined_threads(b);
    bool bent = may_have_backward_arc(b);
    if (!bent) {
        clear_waits_for_events_already_over(b);
        return rc;
    }
    restore_waits(b);
    for (int i = 0; i < ROUNDS && bent; i++)
        bent = lower_times_once(b);
    b->broken |= bent;
    for (uint32_t c = 0; c < g->chain_count; c++)
        limit_waits_and_delays(b, c);
    return rc;
}
