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

static void limit_source_coord(struct build *b, uint32_t v)
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

static void lower_coord_of_end(struct build *b, uint32_t u, uint64_t most)
{
    if (b_is_final_node(b, u))
        b->broken = true;
    else
        b->out->g.w[u] = most;
}

/* Node v, an end-of-file or the like, depends on the END u, whose CPU after its
 * stamp is more than the `time` between the two. Lowers END's coordinate or
 * lets the arc begin at the node before; see above. Returns how far the
 * coordinate of the arc's source is now past its stamp. */
static uint64_t limit_death_coord(struct build *b, uint32_t u, uint32_t v,
                                  uint64_t time)
{
    struct ips_graph *g = &b->out->g;
    uint64_t most = ips_add_sat(b->cpu_at[u], time);
    uint64_t over = ips_sub_sat(b_get_coord(b, u), most);
    /* u - 1 exists: a chain has START before its END */
    if (ips_sub_sat(most, b_get_coord(b, u - 1)) > over) {
        lower_coord_of_end(b, u, most);
        return time;
    }
    g->xpred[v] = u - 1;
    b->backwards |= g->t_ns[u - 1] >= g->t_ns[v];
    return 0;
}

static void limit_target_coord(struct build *b, uint32_t v)
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
        lower_coord_of_end(b, u, b->cpu_at[u] + time);
        before = time;
    } else if (before > time && g->kind[u] == IPS_NODE_END &&
               g->kind[v] != IPS_NODE_JOIN) {
        before = limit_death_coord(b, u, v, time);
    }
    uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
    uint64_t room = ips_sub_sat(time, before);
    if (after > room)
        g->w[v] = b->cpu_at[v] - room;
}

/* Calls f for every node of chain c with a cross arc that pass `match` did not
 * make. Only few nodes have one, so nodes without one are skipped eight at a
 * time. */
static void for_each_arc_of_chain(struct build *b, uint32_t c,
                                  void (*f)(struct build *, uint32_t))
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

static void for_each_arc(struct build *b, void (*f)(struct build *, uint32_t))
{
    for (uint32_t c = 0; c < b->out->g.chain_count; c++)
        for_each_arc_of_chain(b, c, f);
}

void b_limit_coords_by_clock(struct build *b)
{
    b->arcs.n = 0;
    for_each_arc(b, limit_source_coord);
    for_each_arc(b, limit_target_coord);
}
