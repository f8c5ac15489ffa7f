/*
 * No arc between two threads of this machine is quicker than the clock.
 *
 * The CPU of a send lies before the arrival of its bytes, and the CPU of a
 * receive after it, but only as far as there was time: some of the send's runs
 * on after the receiver woke, and some of the receive's was spent before it
 * slept. Taken whole on both sides, a request loop's path would come out
 * longer than the run took (property 9). So with
 *
 *     before = CPU the sender's coordinate lies past its call
 *     after  = CPU of the receive's call that its coordinate leaves for later
 *     time   = the receive's return less the send's call, one clock
 *
 * before + after <= time is made true: first the send (SEND, the rest of its
 * call stays behind it on the chain) gives way, then the receive. Coordinates
 * move within their own calls alone, so their order in the chain stays.
 *
 * An end-of-file by the death of its writer hangs on END, which carries the
 * exit's CPU; where that was still going on when the reader returned, it hangs
 * on the writer's last record instead.
 */
#include "slave/build_internal.h"

/* Time between the two ends of node v's cross arc. */
static uint64_t arc_time(const struct ips_graph *g, uint32_t v)
{
    return ips_sub_sat(g->t_ns[v], g->t_ns[g->xpred[v]]);
}

static bool between_threads(const struct ips_graph *g, uint32_t v)
{
    return g->xpred[v] != IPS_NO_NODE && g->xkind[v] != IPS_X_EXTERNAL &&
           g->xkind[v] != IPS_X_IDLE;
}

/* A release sits at its return as a send does: it wakes within the call. */
static bool gives_way(const struct ips_graph *g, uint32_t v)
{
    uint32_t u = g->xpred[v];
    return g->kind[u] == IPS_NODE_SEND ||
           (g->kind[u] == IPS_NODE_AUX && g->xkind[v] == IPS_X_RESOURCE);
}

/* What node v's cross arc comes from is anywhere: asked for some nodes ahead.
 */
static inline void ask_ahead(const struct build *b, uint32_t v)
{
    const struct ips_graph *g = &b->out->g;
    if (v >= g->node_count || g->xpred[v] == IPS_NO_NODE)
        return;
    __builtin_prefetch(&g->t_ns[g->xpred[v]]);
    __builtin_prefetch(&g->w[g->xpred[v]], 1);
    __builtin_prefetch(&b->cpu_at[g->xpred[v]]);
}
#define AHEAD 16u

static void sends_give_way(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    for (uint32_t v = 0; v < g->node_count; v++) {
        uint32_t u = g->xpred[v];
        ask_ahead(b, v + AHEAD);
        if (!between_threads(g, v) || !gives_way(g, v))
            continue;
        uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
        uint64_t room = ips_sub_sat(arc_time(g, v), after);
        g->w[u] = ips_min_u64(g->w[u], ips_add_sat(b->cpu_at[u], room));
    }
}

static void receives_give_way(struct build *b)
{
    struct ips_graph *g = &b->out->g;
    for (uint32_t v = 0; v < g->node_count; v++) {
        uint32_t u = g->xpred[v];
        ask_ahead(b, v + AHEAD);
        if (u == IPS_NO_NODE)
            continue;
        b->backwards |= g->t_ns[u] >= g->t_ns[v];
        if (!between_threads(g, v))
            continue;
        uint64_t before = ips_sub_sat(g->w[u], b->cpu_at[u]);
        uint64_t time = arc_time(g, v);
        if (before > time && g->kind[u] == IPS_NODE_END &&
            g->kind[v] != IPS_NODE_JOIN) {
            g->xpred[v] = u - 1; /* a chain has START before its END */
            b->backwards |= g->t_ns[u - 1] >= g->t_ns[v];
            before = 0;
        }
        uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
        uint64_t room = ips_sub_sat(time, before);
        if (after > room)
            g->w[v] = b->cpu_at[v] - room;
    }
}

void b_causal(struct build *b)
{
    sends_give_way(b);
    receives_give_way(b);
}
