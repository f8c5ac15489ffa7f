/*
 * The inner loops of ips_longest_path_compute_ests(). "Running" a chain means
 * computing the EST of its nodes, one after another. Each chain runs until it
 * needs a value that is not computed yet; then the chain waits on that node and
 * another chain runs. A node without a value stores the list of its waiting
 * chains in its EST: the top bit is set, the first waiter's number is in the
 * low bits, and further waiters are linked by chain. So giving a node its value
 * needs neither an allocation nor a lookup.
 *
 * Most of the time goes to mispredicted branches, some 20 cycles each, and to
 * cache misses. Therefore a node has only one unpredictable branch: whether the
 * value it depends on is known. A node without a cross arc reads a value of 0
 * stored after the last node. The waiter of a node is written to the queue in
 * any case, but the queue's end advances only if there was one. Nodes are
 * prefetched well ahead, because chains take turns every few nodes and there
 * are too many chains for the hardware prefetcher. T and the check of limits
 * are computed in the same pass.
 */
#include "analysis/graph/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "common/large.h"

#define NO_CHAIN UINT32_MAX
/* `est` of a node that has no value yet and for which no chain waits */
#define UNKNOWN UINT64_MAX
/* set in `est` of a node that has no value yet and for which a chain waits; the
 * low bits are the number of that chain */
#define WAITER_BIT (1ULL << 63)
#define AHEAD 64u /* nodes are prefetched this far ahead */
#define PIECE 16u /* number of nodes prefetched at a time */
/* if fewer chains than this are ready, the next chain that has not run yet is
 * started */
#define IN_TURN 64u
#define STALL_NAMED 10
#define SELDOM(c) __builtin_expect(c, 0)

struct cursor {
    uint64_t e;         /* EST of the node before `pos`, 0 at the start of the
                           chain */
    uint32_t pos;       /* next node to compute */
    uint32_t stop_node; /* the chain's next remote receive, or `end` */
    uint32_t end;       /* one past the chain's last node */
    uint32_t in;        /* index in g->in of the chain's next remote receive */
    uint32_t next;      /* next chain waiting on the same node */
    uint32_t asked; /* all nodes before asked + AHEAD have been prefetched */
};

struct kernel {
    const struct ips_graph *g;
    struct ips_cross_arc_weighting arcs;
    const uint64_t *in_value; /* values of the remote receives; NULL: chains
                                 stop at remote receives */
    uint64_t *est;
    uint8_t *crossed;
    struct cursor *cur; /* [chain_count] position of each chain */
    uint32_t absent; /* bit set of the kinds (enum ips_xkind) of arcs that are
                        absent in this scenario */
    uint32_t odd;    /* bit set of the kinds (enum ips_xkind) of arcs that are
                        absent or have a weight */
    /* Queue of ready chains: heads of lists that are linked by cursor.next. A
     * chain is in it at most once, so there is always room at its end. */
    uint32_t *ready; /* [2 * chain_count + 2] */
    /* sum of the chain arcs `w` of all nodes computed so far, ns */
    ips_u128 passed;
    uint64_t bits; /* bitwise OR of all computed times, to check against
                      IPS_TIME_LIMIT */
};

/* The state of the kernel's loops. Its address never escapes, so the
 * compiler can keep it in registers and on the stack. */
struct run {
    const struct kernel *k;
    const uint64_t *w;
    const uint32_t *xpred;
    const uint8_t *xkind;
    uint64_t *est;
    uint8_t *crossed;
    struct cursor *cur;
    uint32_t *ready;
    size_t from, to; /* the queue of ready chains is ready[from .. to) */
    ips_u128 passed;
    uint64_t bits;
    uint32_t none, absent, odd;
    uint32_t begun; /* chains that have been started */
};

void ips_est_release(struct ips_est *e)
{
    ips_free_large(e->est);
    ips_free_large(e->crossed);
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
}

/* Allocates the arrays of `e`, with room for one more value after the last
 * node. */
static int est_alloc(struct ips_est *e, uint32_t nodes,
                     void *(*values)(size_t count, size_t size),
                     struct ips_err *err)
{
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
    e->est = values((size_t)nodes + 1, sizeof(*e->est));
    e->crossed = ips_calloc_large((size_t)nodes + 1, 1);
    if (!e->est || !e->crossed) {
        ips_est_release(e);
        return ips_err_set(err, IPS_E_NO_MEMORY, "values of %u nodes", nodes);
    }
    return 0;
}

int ips_est_alloc(struct ips_est *e, uint32_t nodes, struct ips_err *err)
{
    return est_alloc(e, nodes, ips_calloc_large, err);
}

void ips_cross_arc_weighting_init(struct ips_cross_arc_weighting *a,
                                  const struct ips_scenario *scenario)
{
    bool no_message_time = (scenario->message_time.base_ns == 0 &&
                            scenario->message_time.per_byte_q32 == 0) ||
                           (scenario->message_time.scale_num == 0 &&
                            scenario->message_time.scale_den != 0);
    bool wall = scenario->weighting == IPS_WEIGH_WALL;
    uint8_t by_itself = wall ? IPS_ARC_XLEN : IPS_ARC_ZERO;
    a->message_time = wall ? ips_message_time_model_of_wall_weighting(scenario)
                           : scenario->message_time;
    a->mode[IPS_X_NONE] = IPS_ARC_ABSENT;
    a->mode[IPS_X_DATA] =
        !wall && no_message_time ? IPS_ARC_ZERO : IPS_ARC_MTIME;
    a->mode[IPS_X_LIFETIME] = by_itself;
    a->mode[IPS_X_ROOM] = by_itself;
    a->mode[IPS_X_SIGNAL] = by_itself;
    a->mode[IPS_X_RESOURCE] =
        scenario->order_dependent_off ? IPS_ARC_ABSENT : by_itself;
    a->mode[IPS_X_EXTERNAL] =
        scenario->external == IPS_EXTERNAL_OFF ? IPS_ARC_ABSENT : IPS_ARC_XLEN;
    /* In the weighting `wall` idle time is part of the chain arc
     * (analysis/graph/view.c). */
    a->mode[IPS_X_IDLE] = !wall && scenario->external == IPS_EXTERNAL_ALL
                              ? IPS_ARC_XLEN
                              : IPS_ARC_ABSENT;
}

uint64_t ips_graph_sum_chain_arcs(const struct ips_graph *g)
{
    uint64_t total = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const uint64_t *w = g->w + g->chains[c].first;
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            total = ips_add_sat(total, w[i]);
    }
    return total;
}

/* A prefetch is only a hint, so it may point after the end of an array. The
 * function must be inlined: otherwise the compiler sees no effect in it and
 * removes the calls. */
static inline __attribute__((always_inline)) void
prefetch_data_of_next_nodes(const struct run *r, size_t i)
{
    i += AHEAD;
    __builtin_prefetch(r->w + i);
    __builtin_prefetch(r->w + i + 8);
    __builtin_prefetch(r->xpred + i);
    __builtin_prefetch(r->xkind + i);
    __builtin_prefetch(r->est + i, 1);
    __builtin_prefetch(r->est + i + 8, 1);
    __builtin_prefetch(r->crossed + i, 1);
    if (r->k->arcs.mode[IPS_X_DATA] == IPS_ARC_ZERO)
        return;
    __builtin_prefetch(r->k->g->xlen + i);
    __builtin_prefetch(r->k->g->xlen + i + 8);
}

/* Runs chain c, whose cursor is *cur, to its next remote receive or its end. If
 * the chain stops earlier (cur->pos < cur->stop_node), it now waits for another
 * node's value. */
static inline __attribute__((always_inline)) void
compute_chain_until_receive_or_wait(struct run *r, uint32_t c,
                                    struct cursor *cur)
{
    uint64_t e = cur->e, bits = 0, passed = 0;
    const uint32_t none = r->none, absent = r->absent, odd = r->odd;
    size_t i = cur->pos, stop = cur->stop_node, to = r->to;
    while (i < stop) {
        if (i >= cur->asked) {
            prefetch_data_of_next_nodes(r, i);
            cur->asked = (uint32_t)i + PIECE;
        }
        size_t end = cur->asked < stop ? cur->asked : stop;
        for (; i < end; i++) {
            uint64_t v = r->w[i], a = e + v;
            uint8_t kind = r->xkind[i];
            uint32_t x = ips_min_u32(r->xpred[i], none);
            if (SELDOM(odd >> kind & 1) && absent >> kind & 1)
                x = none;
            uint64_t b = r->est[x];
            if (b & WAITER_BIT) { /* chain c stops here until node x gets its
                                     value */
                cur->next = (uint32_t)b;
                r->est[x] = WAITER_BIT | c;
                goto stopped;
            }
            if (SELDOM(odd >> kind & 1) && x != none)
                b += ips_cross_arc_weight_by_mode(&r->k->arcs,
                                                  r->k->arcs.mode[kind],
                                                  r->k->g->xlen, (uint32_t)i);
            uint64_t waiters = r->est[i];
            r->crossed[i] = b > a; /* with equal times the chain arc wins */
            a = b > a ? b : a;
            passed += v;
            bits |= v | a;
            r->est[i] = a;
            e = a;
            r->ready[to] = (uint32_t)waiters;
            to += waiters != UNKNOWN;
        }
    }
stopped:
    r->to = to;
    cur->e = e;
    cur->pos = (uint32_t)i;
    r->passed += passed; /* this chain's sum cannot wrap unnoticed: the times in
                            `bits` reach IPS_TIME_LIMIT first */
    r->bits |= bits;
}

/* Computes the node at the cursor, which is a remote receive. Returns false if
 * the remote value is not known. */
static inline __attribute__((always_inline)) bool
compute_remote_receive_if_known(struct run *r, struct cursor *cur)
{
    const struct ips_graph *g = r->k->g;
    uint32_t i = cur->pos;
    uint64_t a = cur->e + g->w[i];
    if (!r->k->in_value)
        return false;
    uint64_t v = r->k->in_value[cur->in++];
    if (v != IPS_IN_ABSENT && v > a) {
        a = ips_min_u64(v, IPS_TIME_LIMIT);
        r->crossed[i] = 1;
    }
    if (r->est[i] != UNKNOWN)
        r->ready[r->to++] = (uint32_t)r->est[i];
    r->est[i] = a;
    cur->e = a;
    r->passed += g->w[i];
    r->bits |= g->w[i] | a;
    cur->pos = i + 1;
    uint32_t in = cur->in < g->in_count ? g->in[cur->in].node : IPS_NO_NODE;
    cur->stop_node = in < cur->end ? in : cur->end;
    return true;
}

/* Removes and returns the first chain of the list in ready[at]. Sets *left to
 * whether the list still has chains. */
static inline __attribute__((always_inline)) uint32_t
dequeue_chain(const struct run *r, size_t at, bool *left)
{
    uint32_t c = r->ready[at];
    r->ready[at] = r->cur[c].next;
    *left = r->ready[at] != NO_CHAIN;
    return c;
}

/* Removes from the queue and returns the chain that runs after `cur` stopped,
 * or NO_CHAIN. Chains take turns, because the values that a chain needs are
 * computed while it waits for its turn, so it then runs far. Two chains that
 * answer each other are the exception: if `cur` waits for the chain that it
 * woke last, that chain runs next. */
static inline __attribute__((always_inline)) uint32_t
choose_and_dequeue_next_chain(struct run *r, const struct cursor *cur)
{
    size_t ready = r->to - r->from;
    bool left;
    if (ready && cur->pos < cur->stop_node) {
        const struct cursor *last = &r->cur[r->ready[r->to - 1]];
        uint32_t x = r->xpred[cur->pos];
        if (x >= last->pos && x < last->end) {
            uint32_t c = dequeue_chain(r, r->to - 1, &left);
            r->to -= !left;
            return c;
        }
    }
    uint32_t chains = r->k->g->chain_count;
    if (ready < IN_TURN && r->begun < chains)
        return r->begun++;
    if (!ready)
        return NO_CHAIN;
    if (r->from >= chains) {
        memmove(r->ready, r->ready + r->from, ready * sizeof(*r->ready));
        r->from = 0;
        r->to = ready;
    }
    uint32_t c = dequeue_chain(r, r->from, &left);
    r->from += !left;
    return c;
}

static void compute_chains_until_none_is_ready(struct kernel *k)
{
    const struct ips_graph *g = k->g;
    struct run r = {.k = k,
                    .w = g->w,
                    .xpred = g->xpred,
                    .xkind = g->xkind,
                    .est = k->est,
                    .crossed = k->crossed,
                    .cur = k->cur,
                    .ready = k->ready,
                    .none = g->node_count,
                    .absent = k->absent,
                    .odd = k->odd,
                    .begun = 1};
    /* The loop ends early if a time reaches IPS_TIME_LIMIT: then sums may have
     * wrapped. */
    for (uint32_t c = g->chain_count ? 0 : NO_CHAIN;
         c != NO_CHAIN && r.bits < IPS_TIME_LIMIT;) {
        struct cursor *cur = &k->cur[c];
        do
            compute_chain_until_receive_or_wait(&r, c, cur);
        while (cur->pos == cur->stop_node && cur->pos < cur->end &&
               compute_remote_receive_if_known(&r, cur));
        c = choose_and_dequeue_next_chain(&r, cur);
    }
    k->passed = r.passed;
    k->bits = r.bits;
}

static void init_cross_arc_modes_of_kernel(struct kernel *k,
                                           const struct ips_scenario *scenario)
{
    ips_cross_arc_weighting_init(&k->arcs, scenario);
    const struct ips_message_time *m = &k->arcs.message_time;
    /* If a message takes 1 ns for each ns of xlen, as with measured message
     * times, xlen is used as it is. */
    if (k->arcs.mode[IPS_X_DATA] == IPS_ARC_MTIME && m->base_ns == 0 &&
        m->per_byte_q32 == 1ULL << 32 &&
        (m->scale_den == 0 || m->scale_num == m->scale_den))
        k->arcs.mode[IPS_X_DATA] = IPS_ARC_XLEN;
    /* Skip IPS_X_NONE: a node of this kind has no cross predecessor. */
    for (int x = IPS_X_NONE + 1; x <= IPS_X_LAST; x++) {
        k->absent |= (uint32_t)(k->arcs.mode[x] == IPS_ARC_ABSENT) << x;
        k->odd |= (uint32_t)(k->arcs.mode[x] != IPS_ARC_ZERO) << x;
    }
}

static int alloc_ests_and_init_kernel(struct kernel *k,
                                      const struct ips_graph *g,
                                      const struct ips_scenario *scenario,
                                      const uint64_t *in_value,
                                      struct ips_est *e, struct ips_err *err)
{
    memset(k, 0, sizeof(*k));
    int rc = est_alloc(e, g->node_count, ips_alloc_large, err);
    if (rc < 0)
        return rc;
    memset(e->est, 0xff,
           g->node_count * sizeof(*e->est)); /* 0xff.. is UNKNOWN */
    e->est[g->node_count] = 0;
    k->g = g;
    init_cross_arc_modes_of_kernel(k, scenario);
    k->in_value = in_value;
    k->est = e->est;
    k->crossed = e->crossed;
    k->cur = malloc(((size_t)g->chain_count + 1) * sizeof(*k->cur));
    k->ready = malloc((2 * (size_t)g->chain_count + 2) * sizeof(*k->ready));
    if (!k->cur || !k->ready) {
        free(k->cur);
        free(k->ready);
        ips_est_release(e);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u chains", g->chain_count);
    }
    uint32_t in = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        while (in < g->in_count && g->in[in].node < first)
            in++;
        uint32_t end = first + g->chains[c].count;
        uint32_t stop = in < g->in_count ? g->in[in].node : end;
        k->cur[c] = (struct cursor){.pos = first,
                                    .stop_node = ips_min_u32(stop, end),
                                    .end = end,
                                    .in = in,
                                    .next = NO_CHAIN};
    }
    return 0;
}

static void kernel_release(struct kernel *k)
{
    free(k->cur);
    free(k->ready);
}

static int set_path_overflow_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_LIMIT,
                       "times add up to more than 2^62 ns: damaged weights");
}

static int set_stalled_chains_error(const struct kernel *k, struct ips_err *err)
{
    char named[512] = "";
    uint32_t stalled = 0;
    for (uint32_t c = 0; c < k->g->chain_count; c++) {
        uint32_t i = k->cur[c].pos;
        if (i == k->cur[c].end)
            continue;
        size_t at = strlen(named);
        if (stalled++ < STALL_NAMED)
            snprintf(named + at, sizeof(named) - at,
                     "%s node %u of %u.%u awaits node %u", at ? "," : "", i,
                     k->g->chains[c].pid, k->g->chains[c].tid, k->g->xpred[i]);
    }
    return ips_err_set(
        err, IPS_E_STALLED,
        "a cycle or a missing send holds up %u of %u chains:%s%s", stalled,
        k->g->chain_count, named, stalled > STALL_NAMED ? ", ..." : "");
}

int ips_longest_path_compute_ests(const struct ips_graph *g,
                                  const struct ips_scenario *scenario,
                                  const uint64_t *in_value, struct ips_est *out,
                                  struct ips_err *err)
{
    struct kernel k;
    if (g->in_count && !in_value)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u remote references without values", g->in_count);
    int rc = alloc_ests_and_init_kernel(&k, g, scenario, in_value, out, err);
    if (rc < 0)
        return rc;
    compute_chains_until_none_is_ready(&k);
    if (k.bits >= IPS_TIME_LIMIT)
        rc = set_path_overflow_error(err);
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        if (k.cur[c].pos != k.cur[c].end)
            rc = set_stalled_chains_error(&k, err);
        else
            ips_est_update_path_end_from_chain(out, g, scenario, c);
    }
    for (uint32_t c = 0; c < g->chain_count; c++)
        k.passed -= g->w[g->chains[c].first];
    uint64_t total = k.passed > UINT64_MAX ? UINT64_MAX : (uint64_t)k.passed;
    kernel_release(&k);
    if (rc == 0)
        out->total = total;
    else
        ips_est_release(out);
    return rc;
}

int ips_compute_ests_until_remote_receives(const struct ips_graph *g,
                                           const struct ips_scenario *scenario,
                                           struct ips_est *e, uint32_t *reached,
                                           struct ips_err *err)
{
    struct kernel k;
    int rc = alloc_ests_and_init_kernel(&k, g, scenario, NULL, e, err);
    if (rc < 0)
        return rc;
    compute_chains_until_none_is_ready(&k);
    for (uint32_t c = 0; c < g->chain_count; c++)
        reached[c] = k.cur[c].pos;
    if (k.bits >= IPS_TIME_LIMIT) {
        rc = set_path_overflow_error(err);
        ips_est_release(e);
    }
    kernel_release(&k);
    return rc;
}
