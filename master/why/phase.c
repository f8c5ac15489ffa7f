/*
 * Finds the phases with the least parallelism, among the phases that `ipsq
 * phases` shows. For each it computes its part of the quiet path (the path as
 * if no other program had run, and each thread had a core of its own), and the
 * number of busy cores: CPU time of all threads divided by that part. The wall
 * clock determines where a phase is, but the quiet graph determines its length.
 * So a load by other programs does not make a phase longer.
 */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

#define CORE 1000000u

struct sums {
    uint64_t path, cpu, outside;
};
struct phase_search {
    struct why_solving *y;
    /* [count] end of each phase, in ns since the run started */
    const uint64_t *end;
    uint32_t count;
    struct sums *s; /* [count] sums of each phase */
    uint64_t cores;
};

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* ---- assigning time to phases ----------------------------------------- */

static uint32_t phase_at(const struct phase_search *l, uint64_t at)
{
    uint32_t low = 0, high = l->count - 1;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (l->end[mid] > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static uint64_t begin_of_phase(const struct phase_search *l, uint32_t phase)
{
    return phase ? l->end[phase - 1] : 0;
}

/* Spreads `ns` evenly over [from, to), and returns the part of it before
 * `at`. */
static uint64_t ns_before_moment_if_spread_evenly(uint64_t ns, uint64_t from,
                                                  uint64_t to, uint64_t at)
{
    if (at <= from)
        return 0;
    return at >= to ? ns : (uint64_t)((ips_u128)ns * (at - from) / (to - from));
}

/* Spreads `ns` evenly over [from, to), and returns the part of it in
 * `phase`. */
static uint64_t compute_share_of_ns_in_phase(const struct phase_search *l,
                                             uint32_t phase, uint64_t ns,
                                             uint64_t from, uint64_t to)
{
    why_clip_to_window(l->y, &from, &to);
    if (to <= from)
        return phase_at(l, from) == phase ? ns : 0;
    uint64_t end = phase + 1 == l->count ? UINT64_MAX : l->end[phase];
    uint64_t upto = ns_before_moment_if_spread_evenly(ns, from, to, end);
    return upto - ns_before_moment_if_spread_evenly(
                      ns, from, to, phase ? begin_of_phase(l, phase) : 0);
}

/* An arc: its begin and end by the wall clock, and how many of its ns are on
 * the path, are CPU time, and are waits for unrecorded causes. */
struct arc {
    uint64_t from, to, path, cpu, outside;
};

static void add_arc_to_phases(const struct phase_search *l, const struct arc *a)
{
    uint32_t last = phase_at(l, a->to > a->from ? a->to - 1 : a->from);
    for (uint32_t p = phase_at(l, a->from); p <= last; p++) {
        struct sums *s = &l->s[p];
        s->path += compute_share_of_ns_in_phase(l, p, a->path, a->from, a->to);
        s->cpu += compute_share_of_ns_in_phase(l, p, a->cpu, a->from, a->to);
        s->outside +=
            compute_share_of_ns_in_phase(l, p, a->outside, a->from, a->to);
    }
}

static void sum_cpu_by_phase(const struct phase_search *l)
{
    const struct ips_graph *g = l->y->s.g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++) {
            const struct arc a = {.from = l->y->wall.est[i - 1],
                                  .to = l->y->wall.est[i],
                                  .cpu = l->y->cpu[i]};
            if (a.cpu)
                add_arc_to_phases(l, &a);
        }
    }
}

/* ---- arcs of the path --------------------------------------------------- */

/* Stores in *a the arc of the path into `node`. Returns the previous node and
 * sets *chain to its chain. At the path's start returns IPS_NO_NODE. */
static uint32_t step_back_along_path_and_get_arc(const struct why_solving *y,
                                                 uint32_t node, uint32_t *chain,
                                                 struct arc *a)
{
    const struct ips_graph *g = y->s.g;
    bool present, crossed = y->d->w.path.est.crossed[node];
    uint32_t from = crossed ? g->xpred[node] : node - 1;
    if (!crossed && node == g->chains[*chain].first)
        return IPS_NO_NODE;
    *a = (struct arc){.from = y->wall.est[from], .to = y->wall.est[node]};
    if (crossed) {
        a->path = ips_cross_arc_weight(g, node, &y->s.scenario, &present);
        a->outside = y->cross[node] == WHY_F_OUTSIDE ? a->path : 0;
        *chain = ips_chain_of(g, from);
    } else {
        a->path = g->w[node];
        a->outside = y->outside[node];
    }
    return from;
}

static void sum_path_by_phase(const struct phase_search *l)
{
    uint32_t node = l->y->d->w.path.est.end, next;
    uint32_t chain = ips_chain_of(l->y->s.g, node);
    struct arc a;
    for (; (next = step_back_along_path_and_get_arc(l->y, node, &chain, &a)) !=
           IPS_NO_NODE;
         node = next)
        add_arc_to_phases(l, &a);
}

/* ---- choosing phases -------------------------------------------------- */

static uint64_t busy_cores_ppm(uint64_t cpu, uint64_t path)
{
    return path ? (uint64_t)((ips_u128)cpu * CORE / path) : 0;
}

/* Sums up the phases in which clearly more cores are busy than in `phase`. Sets
 * *ns to the length of the path in these phases, and returns the number of busy
 * cores in them, in millionths. */
static uint64_t sum_busier_phases(const struct phase_search *l, uint32_t phase,
                                  uint64_t *ns)
{
    uint64_t own = busy_cores_ppm(l->s[phase].cpu, l->s[phase].path), cpu = 0;
    *ns = 0;
    for (uint32_t p = 0; p < l->count; p++) {
        uint64_t theirs = ips_min_u64(busy_cores_ppm(l->s[p].cpu, l->s[p].path),
                                      l->cores * CORE);
        if (theirs <= own || why_share_ppm(own, theirs) > WHY_PHASE_BUSY_PPM)
            continue;
        *ns += l->s[p].path;
        cpu += l->s[p].cpu;
    }
    return ips_min_u64(busy_cores_ppm(cpu, *ns), l->cores * CORE);
}

static struct why_phase describe_phase(const struct phase_search *l,
                                       uint32_t phase)
{
    struct why_phase out = {
        .number = phase + 1,
        .phases = l->count,
        .from_ns = begin_of_phase(l, phase),
        .to_ns = l->end[phase],
        .busy_ppm = busy_cores_ppm(l->s[phase].cpu, l->s[phase].path),
        .outside_ns = l->s[phase].outside};
    out.others_ppm = sum_busier_phases(l, phase, &out.others_ns);
    out.amount.ns = l->s[phase].path;
    return out;
}

/* Returns by how much, in ppm, the phase would shrink if as many cores were
 * busy in it as in the busier phases. */
static uint32_t phase_shrink_ppm(const struct why_phase *p)
{
    return p->others_ppm > p->busy_ppm
               ? CORE - why_share_ppm(p->busy_ppm, p->others_ppm)
               : 0;
}
static uint64_t phase_shrink_ns(const struct why_phase *p)
{
    return ips_scale_by_ppm(p->amount.ns, phase_shrink_ppm(p));
}

/* Chooses the phases that would shrink the most. Returns their number. */
static size_t choose_phases(const struct phase_search *l, struct why_phase *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        struct why_phase p = describe_phase(l, i);
        size_t at = count;
        if (phase_shrink_ns(&p) == 0)
            continue;
        while (at > 0 && phase_shrink_ns(&out[at - 1]) < phase_shrink_ns(&p))
            at--;
        if (at == WHY_PHASES)
            continue;
        count = count < WHY_PHASES ? count + 1 : count;
        memmove(&out[at + 1], &out[at], (count - at - 1) * sizeof(*out));
        out[at] = p;
    }
    return count;
}

/* ---- contents of a phase ---------------------------------------------- */

static enum why_kind
finding_kind_of_concurrent_activity(enum ips_concurrent_class of)
{
    static const enum why_kind kind[IPS_BESIDE_CLASSES] = {
        [IPS_BESIDE_LOCK] = WHY_LOCK,    [IPS_BESIDE_ALIKE] = WHY_IMBALANCE,
        [IPS_BESIDE_QUEUE] = WHY_QUEUE,  [IPS_BESIDE_PEER] = WHY_LATE,
        [IPS_BESIDE_OTHER] = WHY_SERIAL, [IPS_BESIDE_ALONE] = WHY_SERIAL};
    return kind[of];
}

/* Adds up the path's time in this phase by process and procedure in `v`, and in
 * `named` the part of it that findings of each kind explain. */
static void
sum_phase_time_by_process_and_procedure(const struct phase_search *l,
                                        uint32_t phase, uint64_t *named,
                                        struct why_votes *v)
{
    struct why_solving *y = l->y;
    uint32_t node = y->d->w.path.est.end, next;
    uint32_t chain = ips_chain_of(y->s.g, node);
    struct arc a;
    while ((next = step_back_along_path_and_get_arc(y, node, &chain, &a)) !=
           IPS_NO_NODE) {
        bool crossed = y->d->w.path.est.crossed[node];
        /* At this point `chain` is the chain in which the arc starts. */
        uint32_t to = y->process_of[ips_chain_of(y->s.g, node)];
        uint64_t ns =
            compute_share_of_ns_in_phase(l, phase, a.path, a.from, a.to);
        uint64_t out =
            compute_share_of_ns_in_phase(l, phase, a.outside, a.from, a.to);
        uint32_t process = y->process_of[chain];
        named[WHY_OUTSIDE] += out;
        if (y->chats && y->chatty[process] && y->chatty[to])
            named[WHY_CHATTY] += ns - out;
        else if (crossed)
            named[WHY_TRANSIT] += ns - out;
        v->process[process] += ns;
        if (!crossed)
            why_vote_procedures(y, node, ns - out, v->procedure);
        node = next;
    }
    for (size_t i = 0; i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        named[finding_kind_of_concurrent_activity(p->of)] +=
            compute_share_of_ns_in_phase(l, phase, p->ns,
                                         y->wall.est[p->node - 1],
                                         y->wall.est[p->node]);
    }
}

static int allocate_votes(struct why_solving *y, struct why_votes *v)
{
    v->process = calloc((size_t)y->processes + 1, sizeof(*v->process));
    v->procedure = calloc((size_t)y->procedures + 1, sizeof(*v->procedure));
    return v->process && v->procedure ? 0 : set_why_no_memory_error(y);
}

/* ---- gain of a phase ---------------------------------------------------- */

/* Makes one feature, which a what-if can shorten, from the phase's part of each
 * chain arc of the path. */
static int make_feature_of_phase(const struct phase_search *l, uint32_t phase,
                                 uint64_t *first,
                                 struct ips_arc_share **portion)
{
    const struct why_solving *y = l->y;
    uint32_t nodes = y->s.g->node_count, count = 0;
    uint32_t node = y->d->w.path.est.end, next;
    uint32_t chain = ips_chain_of(y->s.g, node);
    struct arc a;
    while ((next = step_back_along_path_and_get_arc(y, node, &chain, &a)) !=
           IPS_NO_NODE) {
        if (!y->d->w.path.est.crossed[node])
            first[node] =
                compute_share_of_ns_in_phase(l, phase, a.path, a.from, a.to);
        count += first[node] > 0;
        node = next;
    }
    *portion = malloc(((size_t)count + 1) * sizeof(**portion));
    if (!*portion)
        return set_why_no_memory_error(l->y);
    count = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        uint64_t ns = first[i];
        first[i] = count;
        if (ns)
            (*portion)[count++] = (struct ips_arc_share){0, ns};
    }
    first[nodes] = count;
    return 0;
}

static int compute_gain_of_phase(const struct phase_search *l, uint32_t phase,
                                 uint32_t ppm, struct why_amount *a)
{
    struct why_solving *y = l->y;
    const struct ips_graph *g = y->s.g;
    struct ips_arc_share *portion = NULL;
    uint64_t *first = calloc((size_t)g->node_count + 1, sizeof(*first));
    uint64_t share = 0;
    int rc = first ? make_feature_of_phase(l, phase, first, &portion)
                   : set_why_no_memory_error(y);
    struct ips_features f = {.count = 1,
                             .chain = y->chain_none,
                             .first = first,
                             .arc_share = portion};
    struct ips_whatif_base b = y->s.base;
    b.f = &f;
    b.share = &share;
    if (rc == 0)
        rc = ips_features_check(g, &f, y->s.err);
    if (rc == 0) {
        const struct ips_edit edit = {0, ppm};
        (void)ips_sum_path_time_by_feature(g, &y->s.scenario, &y->d->w.path.est,
                                           &f, &share);
        rc = why_compute_gain(y, &b, &edit, 1, &a->gain_ns, &a->bound_ns);
    }
    free(first);
    free(portion);
    return rc;
}

/* ---- examining all phases ----------------------------------------------- */

static int find_location_and_gain_of_phase(const struct phase_search *l,
                                           struct why_phase *p,
                                           struct why_votes *v)
{
    int rc = allocate_votes(l->y, v);
    if (rc < 0)
        return rc;
    sum_phase_time_by_process_and_procedure(l, p->number - 1, p->named_ns, v);
    why_set_most_voted_location(l->y, v, &p->amount.location);
    p->amount.phase = p;
    return compute_gain_of_phase(l, p->number - 1, phase_shrink_ppm(p),
                                 &p->amount);
}

int why_find_least_parallel_phases(struct why_solving *y)
{
    struct query *q = y->s.q;
    struct why_phase *p = arena_alloc(&y->d->a, WHY_PHASES * sizeof(*p));
    struct phase_search l = {
        .y = y, .end = q->phase_ends, .count = q->phase_count};
    if (!p)
        return set_why_no_memory_error(y);
    if (l.count < 2)
        return 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        l.cores += ips_max_u64(q->gather.active[i]->sync->cores, 1);
    l.s = calloc(l.count, sizeof(*l.s));
    if (!l.s)
        return set_why_no_memory_error(y);
    sum_cpu_by_phase(&l);
    sum_path_by_phase(&l);
    size_t count = choose_phases(&l, p);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = find_location_and_gain_of_phase(&l, &p[i], &y->phase[i]);
    if (rc == 0) {
        y->d->facts.phase = p;
        y->d->facts.phases = count;
    }
    free(l.s);
    return rc;
}
