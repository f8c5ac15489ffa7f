/*
 * What a choice of arcs was spent on, by procedure: those of the critical path,
 * or all of a graph. Pure.
 *
 * Each sample ends up standing for some ns of the chosen arcs: for its share of
 * the arc it was taken in, and of arcs alike that have no sample of their own
 * (arc_procs.h). So the costs of the choice are weighted samples as those of a
 * whole run are (procs.h), and whatever works on these - tables, totals,
 * intervals by effective sample size - works on them.
 *
 *   sampled + exact + unsampled = the ns that were added, exactly.
 */
#ifndef IPS_SLAVE_PROFILE_ARC_SUM_H
#define IPS_SLAVE_PROFILE_ARC_SUM_H

#include "slave/graphs/graphs.h"

struct slave_arc_sum {
    const struct slave_profile_cache *profile_cache; /* borrowed */
    const struct ips_built *b;
    uint64_t *stood; /* [samples] ns that each stands for */
    uint64_t *need;  /* [pools] ns of arcs without samples of their own */
    uint64_t *exact; /* [exacts] */
    uint64_t ns;     /* added */
    uint64_t by[4];  /* of it by enum slave_arc_source */
    uint64_t exact_ns;
};

int slave_arc_sum_init(struct slave_arc_sum *s,
                       const struct slave_profile_cache *costs,
                       const struct ips_built *b,
                       struct ips_err *err) IPS_MUST_USE;
void slave_arc_sum_release(struct slave_arc_sum *s);

/* CPU of the arc into `node` in a window: by time between its nodes and its own
 * samples, as if evenly spent between two of them. */
uint64_t slave_arc_within(const struct slave_arcs *a, const struct ips_graph *g,
                          uint32_t chain, uint32_t node,
                          struct slave_window window);

/* Adds the arc into `node` of `chain`, not the chain's first, as far as it is
 * in the window; returns its ns there. Each arc once. */
uint64_t slave_arc_sum_add(struct slave_arc_sum *s, uint32_t chain,
                           uint32_t node, struct slave_window window);
/* The same of `ns` of it, at most what it has there. */
void slave_arc_sum_add_ns(struct slave_arc_sum *s, uint32_t chain,
                          uint32_t node, uint64_t ns,
                          struct slave_window window);

/* The costs of what was added: for slave_proc_table_make. Names, map and
 * stacks are those of s->costs; free with slave_arc_profile_free. Totals by
 * thread are not in it (p.threads is all 0): they are below. */
int slave_arc_sum_profile(struct slave_arc_sum *s,
                          struct slave_profile_cache *out,
                          struct ips_err *err) IPS_MUST_USE;
void slave_arc_profile_free(struct slave_profile_cache *c);

struct slave_arc_totals {
    uint64_t ns, sampled_ns, exact_ns, unsampled_ns, samples;
    uint64_t alike_ns; /* of sampled_ns: told by arcs alike */
    double squares;
};
/* After slave_arc_sum_profile. */
void slave_arc_sum_totals(const struct slave_arc_sum *s,
                          struct slave_arc_totals *out);

#endif
