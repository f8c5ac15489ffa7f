/*
 * Attributes the CPU time of arcs to procedures. Samples, entries and exits are
 * assigned, by the thread's CPU clock, to the arc (node i - 1, i] in which they
 * were taken. From this come the procedures of the critical path (arc_sum.h)
 * and of single arcs (slave_arc_split_by_procedure), in ns that add up to the
 * arc's weight.
 *
 * The first of these sources that exists decides how an arc of w ns is divided:
 *  - exact: the arc's thread has recorded entries and exits of procedures. Each
 *    procedure gets its own overlap with the arc; the rest was outside
 *    instrumented code and has no procedure.
 *  - own: the samples taken in the arc divide w in proportion to their weights.
 *    A sample counts only for the arc in which it was taken, although the CPU
 *    time that it represents may have begun in the arc before: neighbouring
 *    arcs may run different code, and one of them may not be on the path.
 *  - similar: an arc shorter than the sampling period mostly has no sample.
 *    Then the samples of similar arcs divide w: arcs of the same thread between
 *    the same two kinds of nodes on the same two channel ends; if none of these
 *    has a sample, of the same thread between such kinds of nodes on any ends;
 *    else of the same process. In a loop "receive, f, send, receive, g, send" f
 *    and g are distinguished, however short they are. Similar arcs that differ
 *    only in the program's data are not.
 *  - no source: none of these exists, and w is `unsampled`.
 *
 * CPU burnt by spinning belongs to no arc (build.h, struct ips_spun), and a
 * sample taken there counts for none. Pure. Source: IPS-12, IPS-13; ALGORITHMS
 * 1 (samples are attributes of arcs).
 */
#ifndef IPS_SLAVE_SYMBOLS_ARC_PROCS_H
#define IPS_SLAVE_SYMBOLS_ARC_PROCS_H

#include "common/types.h"
#include "slave/base/intern.h"
#include "slave/build/build.h"

struct slave_arc_sample {
    uint32_t node, stack;
    uint64_t ns; /* weight of the sample, at least 1 */
    /* thread's CPU time in ns from the start of the arc to the sample, without
     * spinning */
    uint64_t cpu_ns;
    /* time of the sample on this machine's CLOCK_MONOTONIC_RAW */
    uint64_t t_ns;
};
struct slave_arc_exact { /* measured CPU time of one procedure in one arc */
    uint32_t node, code_location;
    /* the sum of `ns` over all exact rows of an arc is at most the arc's weight
     */
    uint64_t ns;
};
struct slave_arc_pool { /* the samples of similar arcs */
    uint32_t key[5];
    /* chain of one of the pool's arcs; all its arcs are of one process */
    uint32_t chain;
    uint32_t first, count; /* samples of the pool, as a range of `pooled` */
    uint64_t ns;           /* sum of the samples' weights */
};

struct slave_arcs {
    struct slave_arc_sample *samples; /* sorted by node, then by time */
    uint32_t sample_count, sample_capacity;
    struct slave_arc_exact *exacts; /* sorted by node, then by first use */
    uint32_t exact_count, exact_capacity;
    struct slave_arc_pool *pools;
    uint32_t pool_count, pool_capacity;
    struct slave_intern pool_index;
    uint32_t *pooled;  /* sample numbers, grouped by pool */
    bool *exact_chain; /* [chains] whether the chain has ENTER and EXIT
                          records: exact times */
};

/* ---- making: called by procs.c, stream by stream ---- */

/* Position of a walk along the arcs of one chain, while a stream's samples and
 * calls are added; begins with slave_arc_walk_init_at_chain(). */
struct slave_arc_walk {
    const struct ips_built *b;
    /* the current arc leads to `node`; `end`: index after the chain's last
     * node */
    uint32_t chain, node, end;
    uint32_t spun; /* index of the next entry of b->spun to be passed */
    uint64_t came; /* thread's CPU clock, in ns, at the preceding node */
    /* thread's CPU clock, in ns, at the start of the current arc (after time
     * spent spinning) and at its end */
    uint64_t begin_ns, end_ns;
};
void slave_arc_walk_init_at_chain(struct slave_arc_walk *w,
                                  const struct ips_built *b, uint32_t chain);

/* Adds a sample of weight `ns`, taken when the thread's CPU clock showed
 * `cpu`. */
int slave_arc_add_sample(struct slave_arcs *a, struct slave_arc_walk *w,
                         uint64_t cpu, uint64_t t_ns, uint32_t stack,
                         uint64_t ns, struct ips_err *err) IPS_MUST_USE;
/* Adds the CPU time between the readings `from` and `to` of the thread's CPU
 * clock to the code location `place`. *last: index + 1 of the row used last for
 * this location of this chain, which the caller keeps; 0 at first. */
int slave_arc_add_exact_interval_to_arcs(struct slave_arcs *a,
                                         struct slave_arc_walk *w,
                                         uint64_t from, uint64_t to,
                                         uint32_t place, uint32_t *last,
                                         struct ips_err *err) IPS_MUST_USE;
/* Call after the last stream: sorts the samples and exact rows, and groups the
 * samples of similar arcs into pools. exact[chain]: whether the chain has
 * entries and exits. */
int slave_arcs_sort_samples_and_make_pools(struct slave_arcs *a,
                                           const struct ips_built *b,
                                           const bool *exact,
                                           struct ips_err *err) IPS_MUST_USE;
void slave_arcs_release(struct slave_arcs *a);

/* ---- one arc ---- */

enum slave_arc_source {
    SLAVE_ARC_EXACT,
    SLAVE_ARC_OWN,
    SLAVE_ARC_SIMILAR,
    SLAVE_ARC_NO_SOURCE,
};
struct slave_arc_source_range {
    enum slave_arc_source source;
    /* for EXACT: range in slave_arcs.exacts (may be empty); for OWN: range in
     * slave_arcs.samples */
    uint32_t first, count;
    uint32_t pool; /* for SIMILAR: the index of the pool */
    /* sum of the ns of the samples or exact rows in this range */
    uint64_t ns;
};
/* Returns the source that decides how the CPU time of the arc to `node` of
 * `chain` is divided. `node` must not be the chain's first. O(log samples). */
struct slave_arc_source_range
slave_arc_find_cpu_split_source(const struct slave_arcs *a,
                                const struct ips_graph *g, uint32_t chain,
                                uint32_t node);

/* A window of time, from_ns < t <= to_ns, in ns of this machine's
 * CLOCK_MONOTONIC_RAW. */
struct slave_window {
    uint64_t from_ns, to_ns;
};
#define SLAVE_WINDOW_ALL ((struct slave_window){0, UINT64_MAX})

/* Returns the part, in ns, of the weight of the arc's k-th own sample that is
 * in the window. The weight is spread evenly over the time since the preceding
 * sample or the arc's start; for the arc's last sample, up to the arc's end. */
uint64_t slave_arc_sample_ns_in_window(const struct slave_arcs *a,
                                       const struct ips_graph *g,
                                       const struct slave_arc_source_range *v,
                                       uint32_t node, uint32_t k,
                                       struct slave_window window);

/* Returns the sum of slave_arc_sample_ns_in_window over all samples of the arc;
 * 0: no part is in the window. */
uint64_t
slave_arc_total_sample_ns_in_window(const struct slave_arcs *a,
                                    const struct ips_graph *g,
                                    const struct slave_arc_source_range *v,
                                    uint32_t node, struct slave_window window);

/* ---- procedures of single arcs ---- */

struct slave_profile_cache;
struct slave_proc_names;

struct slave_arc_part {
    uint32_t symbol; /* index of names.symbols; IPS_NONE: unsampled */
    uint64_t ns;
};
/* CPU time by procedure of each pool of similar arcs, for
 * slave_arc_split_by_procedure. */
struct slave_arc_pool_profiles {
    uint32_t *first; /* [pools + 1] start of each pool's entries */
    struct slave_arc_part *entries;
    uint32_t entry_count, entry_capacity;
};
int slave_arc_pool_profiles_make(const struct slave_profile_cache *costs,
                                 const struct slave_proc_names *names,
                                 struct slave_arc_pool_profiles *out,
                                 struct ips_err *err) IPS_MUST_USE;
void slave_arc_pool_profiles_release(struct slave_arc_pool_profiles *m);

/* Divides `ns`, the weight of the arc that leads to `node` or the part of the
 * weight in the window, by procedure, using the samples in the window if there
 * are any. Calls `put` for parts of more than 0 ns that add up to `ns`; a
 * procedure may come several times. Remainders of the division go to one part
 * or another by a hash of the node, so that sums over many small arcs have no
 * bias. O(log samples + parts). */
void slave_arc_split_by_procedure(
    const struct slave_profile_cache *costs,
    const struct slave_proc_names *names,
    const struct slave_arc_pool_profiles *mixes, const struct ips_graph *g,
    uint32_t chain, uint32_t node, uint64_t ns, struct slave_window window,
    void (*put)(void *arg, uint32_t symbol, uint64_t ns), void *arg);

/* Returns the procedure in which most of the arc that leads to `node` was
 * spent; IPS_NONE: unsampled. */
uint32_t
slave_arc_find_main_procedure(const struct slave_profile_cache *costs,
                              const struct slave_proc_names *names,
                              const struct slave_arc_pool_profiles *mixes,
                              const struct ips_graph *g, uint32_t chain,
                              uint32_t node);

/* Divides `ns` in proportion to parts: each call of
 * slave_proportional_split_compute_share() returns the share of one `part` of
 * `whole`. Call slave_proportional_split_init() first; the parts must add up to
 * whole > 0. */
struct slave_proportional_split {
    uint64_t ns, whole, phase, gone;
    uint64_t given_ns;
};
static inline void
slave_proportional_split_init(struct slave_proportional_split *s, uint64_t ns,
                              uint64_t whole, uint64_t seed)
{
    seed = (seed + 1) * 0x9e3779b97f4a7c15ULL;
    seed = (seed ^ seed >> 32) * 0xff51afd7ed558ccdULL;
    *s = (struct slave_proportional_split){
        .ns = ns, .whole = whole, .phase = (seed ^ seed >> 29) % whole};
}
static inline uint64_t
slave_proportional_split_compute_share(struct slave_proportional_split *s,
                                       uint64_t part)
{
    s->gone = ips_add_sat(s->gone, part);
    uint64_t up_to =
        (uint64_t)(((ips_u128)s->ns * s->gone + s->phase) / s->whole);
    uint64_t got = up_to - s->given_ns;
    s->given_ns = up_to;
    return got;
}

#endif
