/*
 * What the arcs of a graph's chains were spent on: samples, entries and exits
 * laid on the arc (node i - 1, i] in which they were taken, by the thread's CPU
 * clock. From this come the procedures of the critical path (arc_sum.h) and of
 * single arcs (slave_arc_split), in ns that add up to the arc's weight.
 *
 * What an arc of w ns was spent on is told by the first of these that is there:
 *
 *  exact    its thread has entries and exits: each procedure's own overlap with
 *           the arc; the rest was outside instrumented code: nobody's.
 *  own      the samples taken in the arc: w by their weights. A sample speaks
 *           for the arc it was taken in, never for a neighbour, though the CPU
 *           it weighs began there: neighbours may be different code, and one of
 *           them off the path.
 *  alike    arcs shorter than the period mostly have no sample of their own.
 *           What the samples in arcs alike say of their time is taken for it:
 *           arcs of the same thread between the same two kinds of nodes on the
 *           same two channel ends; where none has a sample, of the thread
 *           between such kinds of nodes on whatever ends; else of the process.
 *           Of a loop "receive, f, send, receive, g, send" the f and g are told
 *           apart, however short; arcs that look alike and differ by what the
 *           program knows are not.
 *  nobody   w is `unsampled`.
 *
 * CPU burnt by spinning is in no arc (build.h, struct ips_spun), and a sample
 * taken there speaks for none. Pure.
 * Source: IPS-12, IPS-13; ALGORITHMS 1 (samples are attributes of arcs).
 */
#ifndef IPS_SLAVE_SYMBOLS_ARC_PROCS_H
#define IPS_SLAVE_SYMBOLS_ARC_PROCS_H

#include "common/types.h"
#include "slave/base/intern.h"
#include "slave/build/build.h"

struct slave_arc_sample {
    uint32_t node, stack;
    uint64_t ns;     /* its weight, at least 1 */
    uint64_t cpu_ns; /* since the arc's begin, without what was spun */
    uint64_t t_ns;   /* local raw */
};
struct slave_arc_exact { /* of one procedure in one arc */
    uint32_t node, code_location;
    uint64_t ns; /* the sum over an arc is at most its weight */
};
struct slave_arc_pool { /* the samples of arcs alike */
    uint32_t key[5];
    uint32_t chain;        /* one of theirs: all are of its process */
    uint32_t first, count; /* of `pooled` */
    uint64_t ns;           /* sum of their weights */
};

struct slave_arcs {
    struct slave_arc_sample *samples; /* by node, within it in order */
    uint32_t sample_count, sample_capacity;
    struct slave_arc_exact *exacts; /* by node, within it by first use */
    uint32_t exact_count, exact_capacity;
    struct slave_arc_pool *pools;
    uint32_t pool_count, pool_capacity;
    struct slave_intern pool_index;
    uint32_t *pooled;  /* samples, by pool */
    bool *exact_chain; /* [chains] */
};

/* ---- making: procs.c, stream by stream ---- */

/* Where a stream stands on its chain; zeroed, then slave_arc_walk_begin. */
struct slave_arc_walk {
    const struct ips_built *b;
    uint32_t chain, node, end; /* the arc into `node`; behind the last node */
    uint32_t spun;             /* next of b->spun */
    uint64_t came;             /* CPU clock at the node before */
    uint64_t begin_ns, end_ns; /* of the arc, without what was spun */
};
void slave_arc_walk_begin(struct slave_arc_walk *w, const struct ips_built *b,
                          uint32_t chain);

/* A sample of `ns` taken when the thread's CPU clock showed `cpu`. */
int slave_arc_add_sample(struct slave_arcs *a, struct slave_arc_walk *w,
                         uint64_t cpu, uint64_t t_ns, uint32_t stack,
                         uint64_t ns, struct ips_err *err) IPS_MUST_USE;
/* The CPU clock from `from` to `to` was `place`'s. *last is the caller's, for
 * this place on this chain, 0 to begin with. */
int slave_arc_add_exact(struct slave_arcs *a, struct slave_arc_walk *w,
                        uint64_t from, uint64_t to, uint32_t place,
                        uint32_t *last, struct ips_err *err) IPS_MUST_USE;
/* All streams are there. exact[chain]: it has entries. */
int slave_arcs_finish(struct slave_arcs *a, const struct ips_built *b,
                      const bool *exact, struct ips_err *err) IPS_MUST_USE;
void slave_arcs_release(struct slave_arcs *a);

/* ---- one arc ---- */

enum slave_arc_source {
    SLAVE_ARC_EXACT,
    SLAVE_ARC_OWN,
    SLAVE_ARC_ALIKE,
    SLAVE_ARC_NOBODY,
};
struct slave_arc_view {
    enum slave_arc_source source;
    uint32_t first, count; /* of exacts (may be 0), samples; OWN, EXACT */
    uint32_t pool;         /* ALIKE */
    uint64_t ns;           /* sum of what `first` and `count` name */
};
/* What speaks for the arc into `node` of `chain`, not the chain's first node.
 * O(log samples). */
struct slave_arc_view slave_arc_find(const struct slave_arcs *a,
                                     const struct ips_graph *g, uint32_t chain,
                                     uint32_t node);

/* The window that an arc is cut to: local raw ns, from < t <= to. */
struct slave_window {
    uint64_t from_ns, to_ns;
};
#define SLAVE_WINDOW_ALL ((struct slave_window){0, UINT64_MAX})

/* Of what the k-th of an arc's own samples stands for: what lies in the window,
 * evenly over the time since the sample before it, the last one's until the
 * arc's end. */
uint64_t slave_arc_sample_in(const struct slave_arcs *a,
                             const struct ips_graph *g,
                             const struct slave_arc_view *v, uint32_t node,
                             uint32_t k, struct slave_window window);

/* All of them; 0: none says anything of the window. */
uint64_t slave_arc_own_in(const struct slave_arcs *a, const struct ips_graph *g,
                          const struct slave_arc_view *v, uint32_t node,
                          struct slave_window window);

/* ---- single arcs by procedure ---- */

struct slave_profile_cache;
struct slave_proc_names;

struct slave_arc_part {
    uint32_t symbol; /* of the names; IPS_NONE: unsampled */
    uint64_t ns;
};
/* What pools are made of, by procedure: for slave_arc_split. */
struct slave_arc_mixes {
    uint32_t *first; /* [pools + 1] */
    struct slave_arc_part *entries;
    uint32_t entry_count, entry_capacity;
};
int slave_arc_mixes_make(const struct slave_profile_cache *costs,
                         const struct slave_proc_names *names,
                         struct slave_arc_mixes *out,
                         struct ips_err *err) IPS_MUST_USE;
void slave_arc_mixes_release(struct slave_arc_mixes *m);

/* `ns` of the arc into `node` (its weight, or what of it lies in the window) by
 * procedure, by the samples of the window where there are any: calls
 * `put` for parts of more than 0 ns that add up to `ns`; a procedure may come
 * several times. What cannot be divided evenly falls to one or the other by a
 * hash of the node, so that the sums over many small arcs come out right.
 * O(log samples + parts). */
void slave_arc_split(const struct slave_profile_cache *costs,
                     const struct slave_proc_names *names,
                     const struct slave_arc_mixes *mixes,
                     const struct ips_graph *g, uint32_t chain, uint32_t node,
                     uint64_t ns, struct slave_window window,
                     void (*put)(void *arg, uint32_t symbol, uint64_t ns),
                     void *arg);

/* The procedure that most of the arc was spent in; IPS_NONE: unsampled. */
uint32_t slave_arc_main(const struct slave_profile_cache *costs,
                        const struct slave_proc_names *names,
                        const struct slave_arc_mixes *mixes,
                        const struct ips_graph *g, uint32_t chain,
                        uint32_t node);

/* Divides `ns` in proportion: the k-th call gets the share of `part` of
 * `whole`. Zeroed, then slave_share_begin; the parts must add up to whole > 0.
 */
struct slave_share {
    uint64_t ns, whole, phase, gone;
    uint64_t given_ns;
};
static inline void slave_share_begin(struct slave_share *s, uint64_t ns,
                                     uint64_t whole, uint64_t seed)
{
    seed = (seed + 1) * 0x9e3779b97f4a7c15ULL;
    seed = (seed ^ seed >> 32) * 0xff51afd7ed558ccdULL;
    *s = (struct slave_share){
        .ns = ns, .whole = whole, .phase = (seed ^ seed >> 29) % whole};
}
static inline uint64_t slave_share_next(struct slave_share *s, uint64_t part)
{
    s->gone = ips_add_sat(s->gone, part);
    uint64_t up_to =
        (uint64_t)(((ips_u128)s->ns * s->gone + s->phase) / s->whole);
    uint64_t got = up_to - s->given_ns;
    s->given_ns = up_to;
    return got;
}

#endif
