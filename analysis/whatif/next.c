/*
 * A path is represented by its deviations: the nodes at which, walking
 * backwards, it takes the losing in-arc instead of the winning one. `result`
 * has the deviations that were walked, each with the parent path from which it
 * branches off. The heap has the deviations that were not walked yet.
 */
#include "analysis/whatif/next.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/idmap.h"
#include "analysis/graph/kernel.h"

#define NOTHING UINT32_MAX

struct branch {
    uint64_t priority; /* length of the whole path */
    uint64_t suffix;   /* length of the path from `node` to the END */
    uint32_t node;     /* the path continues backwards from this node */
    uint32_t at;     /* node at which the path leaves its parent's path, by the
                        in-arc that does not determine the node's EST; NOTHING: the
                        path has no parent, and `node` is the END */
    uint32_t parent; /* index in `result` of the branch that this one leaves;
                        NOTHING: none */
    uint32_t group;  /* group of the labels after `node` */
};

/* A group of paths, stored as a linked list of labels: one label before the
 * labels of the group `rest`. Number 0 is the empty group. */
struct group {
    uint32_t label, rest;
    bool emitted;
};

struct search {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    const struct ips_est *e;
    const struct ips_next_ask *ask;
    struct ips_cross_arc_weighting arcs;
    struct ips_next_paths *out;
    struct branch *heap;
    uint64_t heap_count, heap_cap;
    struct branch *result;
    uint64_t found_count, found_cap;
    struct group *group;
    uint64_t group_count, group_cap;
    struct ips_idmap longer; /* (group, label) -> the group that has the label
                                before the labels of `group` */
    struct ips_idmap met;    /* set of the pairs (node, group) that walks met */
    struct ips_idmap joined; /* SET: (group, label) -> the set with the label
                                added */
    uint64_t bytes, limit;
    bool full, none_emitted;
};

static bool charge_bytes_to_limit(struct search *s, uint64_t bytes)
{
    s->bytes += bytes;
    if (s->bytes > s->limit)
        s->full = true;
    return !s->full;
}

/* ---- tables of paths and groups ----------------------------------------- */

static bool reserve_map(struct search *s, struct ips_idmap *m)
{
    if (!charge_bytes_to_limit(s, ips_idmap_bytes_to_reserve(m)))
        return false;
    if (!ips_idmap_reserve_one_key(m))
        s->full = true;
    return !s->full;
}

/* Adds the pair (node, group) to the set of those met. Returns false if the
 * pair was met before. Also returns false, and sets s->full, if memory runs
 * out. */
static bool add_node_and_group_to_met_set(struct search *s, uint32_t node,
                                          uint32_t group)
{
    struct ips_idmap *m = &s->met;
    if (!reserve_map(s, m))
        return false;
    uint64_t key = (uint64_t)node << 32 | group;
    uint64_t at = ips_idmap_find_slot(m, key);
    if (ips_idmap_slot_is_used(m, at))
        return false;
    ips_idmap_fill_slot(m, at, key, 0);
    return true;
}

/* Returns the group that has `label` before the labels of `rest`. Groups are
 * looked up by (rest, label), so each exists only once. */
static uint32_t intern_group_with_label_prepended(struct search *s,
                                                  uint32_t rest, uint32_t label)
{
    struct ips_idmap *m = &s->longer;
    if (!reserve_map(s, m))
        return rest;
    uint64_t key = (uint64_t)rest << 32 | label;
    uint64_t at = ips_idmap_find_slot(m, key);
    if (ips_idmap_slot_is_used(m, at))
        return m->value[at];
    if (s->group_count == s->group_cap) {
        uint64_t cap = s->group_cap * 2 + 64;
        struct group *more =
            charge_bytes_to_limit(s, (cap - s->group_cap) * sizeof(*more))
                ? realloc(s->group, cap * sizeof(*more))
                : NULL;
        if (!more) {
            s->full = true;
            return rest;
        }
        s->group = more;
        s->group_cap = cap;
    }
    if (s->group_count == 0) /* the empty group, number 0 */
        s->group[s->group_count++] = (struct group){0, 0, false};
    uint32_t result = (uint32_t)s->group_count;
    s->group[s->group_count++] = (struct group){label, rest, false};
    ips_idmap_fill_slot(m, at, key, result);
    return result;
}

/* Returns the set `group` with `label` added. A set is stored as the sequence
 * of its labels in descending order, so that equal sets are equal groups. The
 * labels greater than `label` are removed and then put before it again. */
static uint32_t add_label_to_set_group(struct search *s, uint32_t group,
                                       uint32_t label)
{
    uint32_t at = group, off = 0;
    while (at && s->group[at].label > label) {
        at = s->group[at].rest;
        off++;
    }
    if (at && s->group[at].label == label)
        return group;
    uint32_t *taken = malloc(((size_t)off + 1) * sizeof(*taken));
    if (!taken) {
        s->full = true;
        return group;
    }
    at = group;
    for (uint32_t i = 0; i < off; i++, at = s->group[at].rest)
        taken[i] = s->group[at].label;
    at = intern_group_with_label_prepended(s, at, label);
    while (off > 0 && !s->full)
        at = intern_group_with_label_prepended(s, at, taken[--off]);
    free(taken);
    return at;
}

/* Returns the group of paths that have `label` before the labels of `group`. */
static uint32_t find_or_make_group_with_label(struct search *s, uint32_t group,
                                              uint32_t label)
{
    if (label == IPS_NO_LABEL)
        return group;
    if (s->ask->group == IPS_NEXT_SET) {
        if (!reserve_map(s, &s->joined))
            return group;
        uint64_t key = (uint64_t)group << 32 | label;
        uint64_t at = ips_idmap_find_slot(&s->joined, key);
        if (!ips_idmap_slot_is_used(&s->joined, at))
            ips_idmap_fill_slot(&s->joined, at, key,
                                add_label_to_set_group(s, group, label));
        return s->joined.value[at];
    }
    if (group && s->group[group].label == label)
        return group;
    return intern_group_with_label_prepended(s, group, label);
}

/* ---- branches to be walked ---------------------------------------------- */

static int compare_branches_by_priority(const void *a, const void *b)
{
    const struct branch *p = a, *q = b;
    if (p->priority != q->priority)
        return p->priority < q->priority ? 1 : -1;
    if (p->parent != q->parent) /* at equal priority, branches without a parent
                                   come last: NOTHING is the greatest value */
        return p->parent < q->parent ? -1 : 1;
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    return (p->node > q->node) - (p->node < q->node);
}

static bool reserve_branches(struct search *s, struct branch **list,
                             uint64_t *cap)
{
    uint64_t more_cap = *cap * 2 + 64;
    if (!charge_bytes_to_limit(s, (more_cap - *cap) * sizeof(**list)))
        return false;
    struct branch *more = realloc(*list, more_cap * sizeof(*more));
    if (!more) {
        s->full = true;
        return false;
    }
    *list = more;
    *cap = more_cap;
    return true;
}

static void push_branch_and_trim_heap(struct search *s, const struct branch *b)
{
    /* Without grouping only the k best paths are ever needed. A sorted list is
     * a heap, so the tail can simply be cut off. */
    if (s->ask->group == IPS_NEXT_PATHS && s->heap_count >= 64 &&
        s->heap_count >= 2 * (uint64_t)s->ask->k) {
        qsort(s->heap, s->heap_count, sizeof(*s->heap),
              compare_branches_by_priority);
        s->heap_count = s->ask->k;
    }
    if (s->heap_count == s->heap_cap &&
        !reserve_branches(s, &s->heap, &s->heap_cap))
        return;
    uint64_t i = s->heap_count++;
    while (i > 0 &&
           compare_branches_by_priority(b, &s->heap[(i - 1) / 2]) < 0) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = *b;
}

static struct branch heap_pop(struct search *s)
{
    struct branch top = s->heap[0], last = s->heap[--s->heap_count];
    uint64_t i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count &&
            compare_branches_by_priority(&s->heap[child + 1], &s->heap[child]) <
                0)
            child++;
        if (compare_branches_by_priority(&last, &s->heap[child]) <= 0)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    if (s->heap_count)
        s->heap[i] = last;
    return top;
}

/* ---- walking a branch --------------------------------------------------- */

struct arcs_in {
    bool chain, cross;
    uint64_t xw;
};

static struct arcs_in present_arcs_into(const struct search *s, uint32_t node,
                                        uint32_t first)
{
    struct arcs_in in = {.chain = node != first,
                         .cross =
                             ips_has_local_cross_arc(s->g, &s->arcs, node)};
    if (in.cross)
        in.xw = ips_cross_arc_weight_by_mode(
            &s->arcs, s->arcs.mode[s->g->xkind[node]], s->g->xlen, node);
    return in;
}

/* Whether the longest path to `node` takes the node's cross arc. A chain's
 * first node has no chain arc, so its cross arc, if there is one, is always
 * taken, even if the EST is 0. */
static bool takes_cross_arc(const struct search *s, uint32_t node,
                            const struct arcs_in *in)
{
    return in->cross && (s->e->crossed[node] || !in->chain);
}

static struct branch make_branch_at_node(const struct search *s, uint32_t node,
                                         const struct arcs_in *in, bool cross,
                                         uint64_t suffix)
{
    struct branch b = {.at = node};
    b.node = cross ? s->g->xpred[node] : node - 1;
    b.suffix = suffix + (cross ? in->xw : s->g->w[node]);
    b.priority = s->e->est[b.node] + b.suffix;
    return b;
}

static uint32_t label_of_arc_into_node(const struct search *s, uint32_t node,
                                       uint32_t chain)
{
    return s->ask->node_label ? s->ask->node_label[node]
                              : s->ask->chain_label[chain];
}

/* Walks a branch back to the start of its path and pushes the branches that
 * leave it. Sets *group to the path's group and *ns to its length. Returns
 * false if the walk meets a (node, group) that a longer path met before, or
 * reaches the memory limit. */
static bool walk_back_and_push_branches(struct search *s,
                                        const struct branch *b, uint32_t self,
                                        uint32_t *group, uint64_t *ns)
{
    bool grouped = s->ask->group != IPS_NEXT_PATHS;
    uint32_t v = b->node, chain = ips_chain_of(s->g, v), label = NOTHING;
    uint64_t suffix = b->suffix;
    *group = b->group;
    while (!s->full) {
        uint32_t first = s->g->chains[chain].first;
        if (grouped && label_of_arc_into_node(s, v, chain) != label) {
            label = label_of_arc_into_node(s, v, chain);
            *group = find_or_make_group_with_label(s, *group, label);
        }
        struct arcs_in in = present_arcs_into(s, v, first);
        if (!in.chain && !in.cross) {
            *ns = suffix + s->e->est[v];
            return !s->full;
        }
        bool cross = takes_cross_arc(s, v, &in);
        if (in.chain && in.cross) {
            if (grouped && !add_node_and_group_to_met_set(s, v, *group))
                return false;
            struct branch other =
                make_branch_at_node(s, v, &in, !cross, suffix);
            other.parent = self;
            other.group = *group;
            push_branch_and_trim_heap(s, &other);
        }
        suffix += cross ? in.xw : s->g->w[v];
        if (cross) {
            v = s->g->xpred[v];
            chain = ips_chain_of(s->g, v);
        } else {
            v--;
        }
    }
    return false;
}

/* ---- writing the paths found -------------------------------------------- */

static int append_arc_to_path(const struct search *s, struct ips_path *p,
                              uint32_t node, uint32_t chain, bool cross,
                              struct ips_err *err)
{
    const struct ips_graph *g = s->g;
    struct ips_path_segment *last = p->count ? &p->seg[p->count - 1] : NULL;
    if (!cross) {
        if (last && last->kind == IPS_SEG_COMPUTE && last->from == node) {
            last->from = node - 1;
            last->ns += g->w[node];
            return 0;
        }
        return ips_path_append_or_merge_segment(
            p,
            &(struct ips_path_segment){IPS_SEG_COMPUTE, IPS_X_NONE, chain,
                                       node - 1, node, g->w[node]},
            err);
    }
    uint8_t kind = g->xkind[node];
    bool outside = kind == IPS_X_EXTERNAL || kind == IPS_X_IDLE;
    return ips_path_append_or_merge_segment(
        p,
        &(struct ips_path_segment){
            outside ? IPS_SEG_EXTERNAL : IPS_SEG_MESSAGE, kind, chain,
            g->xpred[node], node,
            ips_cross_arc_weight_by_mode(&s->arcs, s->arcs.mode[kind], g->xlen,
                                         node)},
        err);
}

/* Collects the path from the END backwards, with the deviations of result[self]
 * and of its parents, and then reverses it. */
static int build_path_from_deviations(const struct search *s, uint32_t self,
                                      struct ips_next_path *to,
                                      struct ips_err *err)
{
    uint32_t depth = 0, v;
    int rc = 0;
    for (uint32_t i = self; s->result[i].parent != NOTHING;
         i = s->result[i].parent)
        depth++;
    uint32_t *turn = malloc(((size_t)depth + 1) * sizeof(*turn));
    if (!turn)
        return ips_err_set(err, IPS_E_NO_MEMORY, "a path of %u turns", depth);
    uint32_t i = self, done = 0;
    for (uint32_t at = depth; at > 0; i = s->result[i].parent)
        turn[--at] = s->result[i].at;
    to->end = v = s->result[i].node;
    for (uint32_t chain = ips_chain_of(s->g, v); rc == 0;) {
        struct arcs_in in = present_arcs_into(s, v, s->g->chains[chain].first);
        if (!in.chain && !in.cross)
            break;
        bool cross = takes_cross_arc(s, v, &in);
        if (done < depth && turn[done] == v) {
            cross = !cross;
            done++;
        }
        rc = append_arc_to_path(s, &to->path, v, chain, cross, err);
        v = cross ? s->g->xpred[v] : v - 1;
        if (cross)
            chain = ips_chain_of(s->g, v);
    }
    free(turn);
    struct ips_path *p = &to->path;
    for (uint64_t a = 0, b = p->count; a + 1 < b; a++) {
        struct ips_path_segment swap = p->seg[--b];
        p->seg[b] = p->seg[a];
        p->seg[a] = swap;
    }
    return rc;
}

/* Whether a path of the group was emitted. Paths without any label form a
 * group too (number 0), possibly the only one. That group may have no entry
 * in `group`, so its flag is `none_emitted`. */
static bool is_path_of_group_emitted(const struct search *s, uint32_t group)
{
    return group ? s->group[group].emitted : s->none_emitted;
}

static void set_emitted(struct search *s, uint32_t group)
{
    if (group)
        s->group[group].emitted = true;
    else
        s->none_emitted = true;
}

static int append_next_path(struct search *s, uint32_t self, uint32_t group,
                            uint64_t ns, struct ips_err *err)
{
    uint32_t labels = 0;
    struct ips_next_path *grown =
        realloc(s->out->path, (s->out->count + 1u) * sizeof(*grown));
    if (!grown)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u paths", s->out->count + 1);
    s->out->path = grown;
    struct ips_next_path *to = &grown[s->out->count++];
    memset(to, 0, sizeof(*to));
    to->ns = ns;
    if (s->ask->group != IPS_NEXT_PATHS) {
        set_emitted(s, group);
        for (uint32_t i = group; i; i = s->group[i].rest)
            labels++;
    }
    to->label = malloc(((size_t)labels + 1) * sizeof(*to->label));
    if (!to->label)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u labels", labels);
    for (uint32_t i = group; labels && i; i = s->group[i].rest)
        to->label[to->label_count++] = s->group[i].label;
    for (uint32_t a = 0, b = labels; s->ask->group == IPS_NEXT_SET && a + 1 < b;
         a++) {
        uint32_t swap = to->label[--b];
        to->label[b] = to->label[a];
        to->label[a] = swap;
    }
    return build_path_from_deviations(s, self, to, err);
}

static int search_paths(struct search *s, struct ips_err *err)
{
    const struct ips_graph *g = s->g;
    int rc = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t last = g->chains[c].first + g->chains[c].count - 1;
        if (ips_may_end_path(g, s->scenario, last))
            push_branch_and_trim_heap(
                s, &(struct branch){.priority = s->e->est[last],
                                    .node = last,
                                    .at = NOTHING,
                                    .parent = NOTHING});
    }
    while (rc == 0 && !s->full && s->heap_count && s->out->count < s->ask->k) {
        struct branch b = heap_pop(s);
        uint64_t before = s->heap_count, ns = 0;
        uint32_t self = (uint32_t)s->found_count, group = 0;
        if ((s->found_count == s->found_cap &&
             !reserve_branches(s, &s->result, &s->found_cap)) ||
            self == NOTHING)
            break;
        s->result[s->found_count++] = b;
        bool whole = walk_back_and_push_branches(s, &b, self, &group, &ns);
        if (whole && (s->ask->group == IPS_NEXT_PATHS ||
                      !is_path_of_group_emitted(s, group)))
            rc = append_next_path(s, self, group, ns, err);
        else if (s->ask->group != IPS_NEXT_PATHS && s->heap_count == before)
            s->found_count--; /* no branch starts from result[self], so no later
                                 path needs it as its parent */
    }
    s->out->complete = !s->full;
    return rc;
}

void ips_next_paths_release(struct ips_next_paths *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        free(n->path[i].label);
        ips_path_release(&n->path[i].path);
    }
    free(n->path);
    memset(n, 0, sizeof(*n));
}

int ips_find_longest_paths(const struct ips_graph *g,
                           const struct ips_scenario *scenario,
                           const struct ips_est *e,
                           const struct ips_next_ask *ask,
                           struct ips_next_paths *out, struct ips_err *err)
{
    struct search s = {.g = g,
                       .scenario = scenario,
                       .e = e,
                       .ask = ask,
                       .out = out,
                       .met = {.set = true}};
    memset(out, 0, sizeof(*out));
    if (g->in_count)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u remote references without values", g->in_count);
    s.limit = ask->limit_bytes ? ask->limit_bytes : IPS_NEXT_LIMIT_BYTES;
    ips_cross_arc_weighting_init(&s.arcs, scenario);
    int rc = search_paths(&s, err);
    free(s.heap);
    free(s.result);
    free(s.group);
    ips_idmap_release(&s.longer);
    ips_idmap_release(&s.joined);
    ips_idmap_release(&s.met);
    if (rc < 0)
        ips_next_paths_release(out);
    return rc;
}
