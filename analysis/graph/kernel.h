/*
 * Private to analysis: how a scenario weighs cross arcs, prepared once so the
 * inner loops do no work that the scenario does not need; and the kernel's
 * partial run, which the contraction shares.
 */
#ifndef IPS_ANALYSIS_GRAPH_KERNEL_H
#define IPS_ANALYSIS_GRAPH_KERNEL_H

#include "analysis/graph/graph.h"
#include "analysis/graph/path.h"

/* Times at or above this are refused, so two of them never wrap when added and
 * the top bit of an EST is free to say "not known yet". */
#define IPS_TIME_LIMIT (1ULL << 62)

enum ips_arc_mode { IPS_ARC_ABSENT, IPS_ARC_ZERO, IPS_ARC_XLEN, IPS_ARC_MTIME };

struct ips_arcs {
    uint8_t mode[IPS_X_LAST + 1]; /* enum ips_arc_mode by enum ips_xkind */
    struct ips_mtime mtime;
};

void ips_arcs_init(struct ips_arcs *a, const struct ips_scenario *scenario);

/* At most IPS_TIME_LIMIT, so EST + weight never wraps. */
static inline uint64_t ips_arc_ns(const struct ips_arcs *a, uint8_t mode,
                                  const uint64_t *xlen, uint32_t i)
{
    if (mode == IPS_ARC_ZERO)
        return 0;
    uint64_t ns =
        mode == IPS_ARC_XLEN ? xlen[i] : ips_mtime_ns(&a->mtime, xlen[i]);
    return ips_min_u64(ns, IPS_TIME_LIMIT);
}

/* Has node i a local cross arc in this scenario? */
static inline bool ips_arc_present(const struct ips_graph *g,
                                   const struct ips_arcs *a, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && a->mode[g->xkind[i]] != IPS_ARC_ABSENT;
}

int ips_est_alloc(struct ips_est *e, uint32_t nodes,
                  struct ips_err *err) IPS_MUST_USE;

/* Runs every chain as far as it goes without a remote value: reached[c] is the
 * first node of chain c that depends on a remote in (or lies behind a cycle),
 * or the chain's end. `e` holds the values before; total, t_max and end are
 * not set. */
int ips_kernel_partial(const struct ips_graph *g,
                       const struct ips_scenario *scenario, struct ips_est *e,
                       uint32_t *reached, struct ips_err *err) IPS_MUST_USE;

/* T: the chain arcs, which a chain's first node has none of. */
uint64_t ips_graph_total(const struct ips_graph *g);

/* May a path end there? Where the scenario has a goal there is no other. */
static inline bool ips_is_end(const struct ips_graph *g,
                              const struct ips_scenario *scenario,
                              uint32_t node)
{
    return g->kind[node] == IPS_NODE_END &&
           (!scenario->has_goal || node == scenario->goal);
}

/* The last node of chain c, where it is an END, as a candidate for t_max:
 * strictly greater wins, so the lowest of equals stays. */
static inline void ips_est_offer(struct ips_est *e, const struct ips_graph *g,
                                 const struct ips_scenario *scenario,
                                 uint32_t c)
{
    uint32_t last = g->chains[c].first + g->chains[c].count - 1;
    if (!ips_is_end(g, scenario, last))
        return;
    if (e->end == IPS_NO_NODE || e->est[last] > e->t_max) {
        e->end = last;
        e->t_max = e->est[last];
    }
}

#endif
