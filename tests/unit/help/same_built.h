/* Are two builds the same, bit for bit? NULL, or a word for the first thing
 * that differs. */
#ifndef IPS_TESTS_UNIT_HELP_SAME_BUILT_H
#define IPS_TESTS_UNIT_HELP_SAME_BUILT_H

#include <string.h>

#include "slave/build/build.h"

static inline const char *built_differs(const struct ips_built *a,
                                        const struct ips_built *b)
{
    const struct ips_graph *x = &a->g, *y = &b->g;
    size_t n = x->node_count;
    if (n != y->node_count || x->chain_count != y->chain_count)
        return "size";
#define ALL(v, count)                                                          \
    if (count && memcmp(a->v, b->v, (count) * sizeof(*a->v)) != 0)             \
    return #v
    ALL(g.chains, x->chain_count);
    ALL(g.kind, n);
    ALL(g.t_ns, n);
    ALL(g.site, n);
    ALL(g.xkind, n);
    ALL(g.xpred, n);
    ALL(g.xlen, n);
    ALL(g.w, n);
    ALL(g.probe, n);
    ALL(g.at, n);
    ALL(g.wait, n);
    ALL(g.delay, n);
    if (x->in_count != y->in_count || x->out_count != y->out_count)
        return "remote counts";
    ALL(g.in, x->in_count);
    for (uint32_t i = 0; i < x->out_count; i++)
        if (x->out[i].node != y->out[i].node ||
            x->out[i].pos != y->out[i].pos || x->out[i].end != y->out[i].end ||
            x->out[i].len != y->out[i].len)
            return "g.out";
    if (a->proc_count != b->proc_count || a->end_count != b->end_count ||
        a->traffic_count != b->traffic_count ||
        a->spun_count != b->spun_count ||
        a->unended_count != b->unended_count ||
        a->untraced_count != b->untraced_count)
        return "rows";
    ALL(procs, a->proc_count);
    ALL(threads, x->chain_count);
    ALL(ends, a->end_count);
    ALL(traffic, a->traffic_count);
    ALL(spun, a->spun_count);
    ALL(unended, a->unended_count);
    ALL(untraced, a->untraced_count);
#undef ALL
    if (memcmp(&a->counts, &b->counts, sizeof(a->counts)) != 0)
        return "counts";
    if (a->first_ns != b->first_ns || a->goal_node != b->goal_node ||
        a->goal_elapsed_ns != b->goal_elapsed_ns || a->open != b->open ||
        a->root_start_ns != b->root_start_ns)
        return "goal";
    return NULL;
}

#endif
