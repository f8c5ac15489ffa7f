/*
 * Sums up the CPU time of a selection of arcs (those of the critical path, or
 * all) by procedure. Pure.
 *
 * Each sample gets the ns of the selected arcs that it represents: its share of
 * the arc in which it was taken, and of similar arcs that have no sample
 * (slave/symbols/arc_procs.h). So the costs are weighted samples like those of
 * a whole run (slave/symbols/procs.h), and the same code makes tables, totals
 * and confidence intervals (by effective sample size) from them.
 *
 *   sampled + exact + unsampled = the ns that were added, exactly.
 */
#ifndef IPS_SLAVE_PROFILE_ARC_SUM_H
#define IPS_SLAVE_PROFILE_ARC_SUM_H

#include "slave/graphs/graphs.h"

struct slave_arc_sum {
    /* the run's CPU time by code location, with samples and pools; borrowed */
    const struct slave_profile_cache *profile_cache;
    const struct ips_built *b;
    /* [number of the sample] ns of the selected arcs that this sample
     * represents */
    uint64_t *stood;
    /* [pools] ns of the selected arcs that have no samples of their own and use
     * those of this pool */
    uint64_t *need;
    /* [exacts] ns of the selected arcs that belong to each row of measured
     * entries and exits */
    uint64_t *exact;
    uint64_t ns;    /* total ns of the selected arcs */
    uint64_t by[4]; /* total ns by source (enum slave_arc_source) */
    uint64_t exact_ns;
};

/* Begins an empty sum. *s keeps pointers to `costs` and `b`, which must outlive
 * it. */
int slave_arc_sum_init(struct slave_arc_sum *s,
                       const struct slave_profile_cache *costs,
                       const struct ips_built *b,
                       struct ips_err *err) IPS_MUST_USE;
void slave_arc_sum_release(struct slave_arc_sum *s);

/* Returns the CPU time, in ns, of the chain arc into `node` within a window.
 * Between two successive known points (the two nodes and the samples of the
 * arc), CPU time counts as spread evenly. */
uint64_t slave_arc_cpu_ns_in_window(const struct slave_arcs *a,
                                    const struct ips_graph *g, uint32_t chain,
                                    uint32_t node, struct slave_window window);

/* Adds the part of the arc into `node` of `chain` that is in the window, and
 * returns its CPU time in ns. `node` must not be the chain's first. Add each
 * arc only once. */
uint64_t slave_arc_sum_add_window_cpu_of_arc(struct slave_arc_sum *s,
                                             uint32_t chain, uint32_t node,
                                             struct slave_window window);
/* Adds `ns` of the arc into `node`, instead of its whole part in the window;
 * `ns` must not exceed the CPU time of that part. */
void slave_arc_sum_add_given_ns(struct slave_arc_sum *s, uint32_t chain,
                                uint32_t node, uint64_t ns,
                                struct slave_window window);

/* Makes a profile of the added arcs: their CPU time by code location, as input
 * for slave_proc_table_make. It shares names, map and stacks with
 * s->profile_cache; free it with slave_arc_profile_free. Totals by thread are
 * not set (p.threads is all 0): use slave_arc_sum_totals. */
int slave_arc_sum_make_profile(struct slave_arc_sum *s,
                               struct slave_profile_cache *out,
                               struct ips_err *err) IPS_MUST_USE;
void slave_arc_profile_free(struct slave_profile_cache *c);

struct slave_arc_totals {
    uint64_t ns, sampled_ns, exact_ns, unsampled_ns, samples;
    uint64_t alike_ns; /* part of sampled_ns that was taken from similar arcs */
    double squares;
};
/* Sets *out to the sums over all added arcs. Call after
 * slave_arc_sum_make_profile.
 */
void slave_arc_sum_compute_totals(const struct slave_arc_sum *s,
                                  struct slave_arc_totals *out);

#endif
