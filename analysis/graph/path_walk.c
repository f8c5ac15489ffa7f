#include <string.h>

#include "analysis/graph/kernel.h"
#include "common/large.h"

void ips_path_release(struct ips_path *p)
{
    ips_free_large(p->seg);
    p->seg = NULL;
    p->count = 0;
}

/* The capacity is always a power of two, so the array is full when the count is
 * a power of two. */
static int append_segment_without_merging(struct ips_path *p,
                                          const struct ips_path_segment *seg,
                                          struct ips_err *err)
{
    if ((p->count & (p->count - 1)) == 0) {
        uint64_t room = p->count ? p->count * 2 : 1;
        struct ips_path_segment *grown = ips_resize_large(
            p->seg, p->count * sizeof(*grown), room * sizeof(*grown));
        if (!grown)
            return ips_err_set(err, IPS_E_NO_MEMORY, "path of %llu segments",
                               (unsigned long long)room);
        p->seg = grown;
    }
    p->seg[p->count++] = *seg;
    return 0;
}

int ips_path_append_or_merge_segment(struct ips_path *p,
                                     const struct ips_path_segment *seg,
                                     struct ips_err *err)
{
    struct ips_path_segment *last = p->count ? &p->seg[p->count - 1] : NULL;
    if (last && last->kind == IPS_SEG_COMPUTE && seg->kind == IPS_SEG_COMPUTE &&
        last->chain == seg->chain && last->to == seg->from &&
        last->from !=
            IPS_NO_NODE) { /* a segment that begins at IPS_NO_NODE stands for a
                              path that was left out: do not merge it */
        last->to = seg->to;
        last->ns += seg->ns;
        return 0;
    }
    return append_segment_without_merging(p, seg, err);
}

static enum ips_segment_kind segment_kind_of_cross_arc(uint8_t xkind)
{
    return xkind == IPS_X_EXTERNAL || xkind == IPS_X_IDLE ? IPS_SEG_EXTERNAL
                                                          : IPS_SEG_MESSAGE;
}

/* Where a walk back along the winning arcs (see ips_path_walk_back_and_store())
 * ended. */
struct walk {
    uint32_t at;
    bool remote; /* true: the arc that won at node `at` comes from another
                    machine */
};

/* Walks back from node i along the winning arcs and calls `seen` with each
 * segment, the last one first. Stops at node `until`, at the beginning of the
 * path, or where another machine's arc won. `until` may be IPS_NO_NODE. *w is
 * set to where the walk ended. */
static int walk_back(const struct ips_graph *g, const struct ips_est *e,
                     uint32_t i, uint32_t until, ips_path_segment_fn *seen,
                     void *arg, struct walk *w, struct ips_err *err)
{
    int rc = 0;
    w->remote = false;
    while (rc == 0 && i != until) {
        uint32_t chain = ips_chain_of(g, i), first = g->chains[chain].first;
        uint32_t low = i;
        while (low != until && low > first && !e->crossed[low])
            low--;
        if (low != i)
            rc = seen(arg,
                      &(struct ips_path_segment){IPS_SEG_COMPUTE, IPS_X_NONE,
                                                 chain, low, i,
                                                 e->est[i] - e->est[low]},
                      err);
        i = low;
        if (rc < 0 || i == until)
            break;
        if (!e->crossed[i]) { /* i is the chain's first node */
            bool folded = g->kind[i] != IPS_NODE_START || g->w[i];
            if (folded)
                rc = seen(arg,
                          &(struct ips_path_segment){IPS_SEG_COMPUTE,
                                                     IPS_X_NONE, chain,
                                                     IPS_NO_NODE, i, e->est[i]},
                          err);
            break;
        }
        uint32_t x = g->xpred[i];
        if (x == IPS_NO_NODE) {
            w->remote = true;
            break;
        }
        rc = seen(arg,
                  &(struct ips_path_segment){
                      segment_kind_of_cross_arc(g->xkind[i]), g->xkind[i],
                      chain, x, i, e->est[i] - e->est[x]},
                  err);
        i = x;
    }
    w->at = i;
    return rc;
}

static int count_segment(void *arg, const struct ips_path_segment *seg,
                         struct ips_err *err)
{
    (void)seg;
    (void)err;
    ++*(uint64_t *)arg;
    return 0;
}

static int store_segment_backwards(void *arg,
                                   const struct ips_path_segment *seg,
                                   struct ips_err *err)
{
    struct ips_path_segment **at = arg;
    (void)err;
    *--*at = *seg;
    return 0;
}

/* Walks twice, once to count and once to store: a path may have as many
 * segments as the graph has nodes, and growing the array would cost more than
 * the second walk. */
static int walk_back_and_store_path(const struct ips_graph *g,
                                    const struct ips_est *e, uint32_t i,
                                    uint32_t until, struct ips_path *out,
                                    struct walk *w, struct ips_err *err)
{
    uint64_t room = 1;
    memset(out, 0, sizeof(*out));
    int rc = walk_back(g, e, i, until, count_segment, &out->count, w, err);
    if (rc < 0 || out->count == 0)
        return rc;
    while (room < out->count) /* append_segment_without_merging() expects a
                                 power of two */
        room *= 2;
    out->seg = ips_alloc_large(room, sizeof(*out->seg));
    if (!out->seg)
        return ips_err_set(err, IPS_E_NO_MEMORY, "path of %llu segments",
                           (unsigned long long)room);
    struct ips_path_segment *end = out->seg + out->count;
    return walk_back(g, e, i, until, store_segment_backwards, &end, w, err);
}

int ips_path_walk_back_and_store(const struct ips_graph *g,
                                 const struct ips_scenario *scenario,
                                 const struct ips_est *e, uint32_t from_end,
                                 struct ips_path *out, uint32_t *stop,
                                 struct ips_err *err)
{
    (void)scenario; /* not needed: `e` shows which arcs won */
    struct walk w;
    memset(out, 0, sizeof(*out));
    *stop = IPS_NO_NODE;
    if (from_end >= g->node_count)
        return ips_err_set(err, IPS_E_NOT_FOUND, "no node %u to walk back from",
                           from_end);
    int rc =
        walk_back_and_store_path(g, e, from_end, IPS_NO_NODE, out, &w, err);
    if (rc < 0)
        ips_path_release(out);
    else if (w.remote)
        *stop = w.at;
    return rc;
}

/* Returns IPS_E_NOT_FOUND if the walk from `to` ended at another machine's
 * arc, or not at `from` (IPS_NO_NODE: any start of a path will do). */
static int check_walk_ended_at(const struct walk *w, uint32_t from, uint32_t to,
                               struct ips_err *err)
{
    if (!w->remote && (from == IPS_NO_NODE || w->at == from))
        return 0;
    return ips_err_set(err, IPS_E_NOT_FOUND,
                       "node %u is not on the longest path to node %u", from,
                       to);
}

static int check_nodes_exist(const struct ips_graph *g, uint32_t from,
                             uint32_t to, struct ips_err *err)
{
    if (to < g->node_count && (from < g->node_count || from == IPS_NO_NODE))
        return 0;
    return ips_err_set(err, IPS_E_NOT_FOUND, "no path from %u to %u", from, to);
}

int ips_path_visit_segments_backwards(const struct ips_graph *g,
                                      const struct ips_est *e, uint32_t from,
                                      uint32_t to, ips_path_segment_fn *seen,
                                      void *arg, struct ips_err *err)
{
    struct walk w;
    int rc = check_nodes_exist(g, from, to, err);
    if (rc == 0)
        rc = walk_back(g, e, to, from, seen, arg, &w, err);
    return rc == 0 ? check_walk_ended_at(&w, from, to, err) : rc;
}

int ips_path_find_between(const struct ips_graph *g,
                          const struct ips_scenario *scenario,
                          const struct ips_est *e, uint32_t from, uint32_t to,
                          struct ips_path *out, struct ips_err *err)
{
    (void)scenario;
    struct walk w;
    memset(out, 0, sizeof(*out));
    int rc = check_nodes_exist(g, from, to, err);
    if (rc == 0)
        rc = walk_back_and_store_path(g, e, to, from, out, &w, err);
    if (rc == 0)
        rc = check_walk_ended_at(&w, from, to, err);
    if (rc < 0)
        ips_path_release(out);
    return rc;
}
