/*
 * The kernel. Each chain runs until it needs a value that is not there; then
 * it waits on that node and another chain runs. A node that has no value yet
 * keeps the list of the chains that wait for it in its EST: top bit set, the
 * chain's number below, further waiters linked by chain; so there is nothing
 * to allocate and nothing to look up when a node gets its value.
 *
 * What is bound by memory, not by arithmetic: "no value" is 0, so that
 * fresh pages need no filling (the value 0 is written otherwise while the
 * kernel runs: it stands only at the beginnings of chains, so it is soon found
 * again), the chain's next nodes are asked for ahead - chains take turns every
 * few nodes, too many for the hardware to follow -, and T and the check of
 * limits are made on the way.
 */
#include "analysis/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/kernel.h"
#include "common/large.h"

#define UNKNOWN 0ULL            /* no value, nobody waits */
#define ZERO IPS_TIME_LIMIT     /* the value 0, until kernel_end */
#define WAITER_BIT (1ULL << 63) /* no value, and this chain waits */
#define AHEAD 32u               /* nodes that are asked for ahead */
#define NO_CHAIN UINT32_MAX
#define IN_TURN 64u /* while fewer are ready, one more chain is begun */
#define STALL_NAMED 10

struct cursor {
    uint64_t e;    /* EST of the node before `pos`, 0 at the chain's begin */
    uint32_t pos;  /* next node to compute */
    uint32_t stop; /* the next node with a remote in, or `end` */
    uint32_t end;  /* one past the chain's last node */
    uint32_t in;   /* index of the chain's next remote in */
    uint32_t next; /* next chain waiting on the same node */
};

struct kernel {
    const struct ips_graph *g;
    struct ips_arcs arcs;
    const uint64_t *in_value; /* NULL: stop at remote ins */
    uint64_t *est;
    uint8_t *crossed;
    struct cursor *cur; /* [chain_count] */
    uint32_t *ready;    /* queue of chains, a ring; each at most once */
    uint32_t ready_from, ready_to, ready_mask;
    ips_u128 passed; /* all w of the nodes that have values */
    uint64_t bits;   /* of all times met, or-ed */
};

void ips_est_release(struct ips_est *e)
{
    ips_free_large(e->est);
    ips_free_large(e->crossed);
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
}

int ips_est_alloc(struct ips_est *e, uint32_t nodes, struct ips_err *err)
{
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
    e->est = ips_calloc_large((size_t)nodes + 1, sizeof(*e->est));
    e->crossed = ips_calloc_large((size_t)nodes + 1, 1);
    if (!e->est || !e->crossed) {
        ips_est_release(e);
        return ips_err_set(err, IPS_E_NO_MEMORY, "values of %u nodes", nodes);
    }
    return 0;
}

void ips_arcs_init(struct ips_arcs *a, const struct ips_lane *lane)
{
    bool no_mtime =
        (lane->mtime.base_ns == 0 && lane->mtime.per_byte_q32 == 0) ||
        (lane->mtime.scale_num == 0 && lane->mtime.scale_den != 0);
    bool wall = lane->weighting == IPS_WEIGH_WALL;
    uint8_t by_itself = wall ? IPS_ARC_XLEN : IPS_ARC_ZERO;
    a->mtime = wall ? ips_wall_scale(lane) : lane->mtime;
    a->mode[IPS_X_NONE] = IPS_ARC_ABSENT;
    a->mode[IPS_X_DATA] = !wall && no_mtime ? IPS_ARC_ZERO : IPS_ARC_MTIME;
    a->mode[IPS_X_LIFETIME] = by_itself;
    a->mode[IPS_X_ROOM] = by_itself;
    a->mode[IPS_X_SIGNAL] = by_itself;
    a->mode[IPS_X_RESOURCE] = lane->any_off ? IPS_ARC_ABSENT : by_itself;
    a->mode[IPS_X_EXTERNAL] =
        lane->external == IPS_EXTERNAL_OFF ? IPS_ARC_ABSENT : IPS_ARC_XLEN;
    /* In `wall` what was idle is in the chain's arc (analysis/view.c). */
    a->mode[IPS_X_IDLE] = !wall && lane->external == IPS_EXTERNAL_ALL
                              ? IPS_ARC_XLEN
                              : IPS_ARC_ABSENT;
}

uint64_t ips_graph_total(const struct ips_graph *g)
{
    uint64_t total = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const uint64_t *w = g->w + g->chains[c].first;
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            total = ips_add_sat(total, w[i]);
    }
    return total;
}

static void wake(struct kernel *k, uint64_t list)
{
    for (uint32_t c = (uint32_t)list; c != NO_CHAIN; c = k->cur[c].next)
        k->ready[k->ready_to++ & k->ready_mask] = c;
}

/* Chain c stops at node i, to be woken when `node` has its value. */
static void wait_on(struct kernel *k, uint32_t c, uint32_t node)
{
    uint64_t list = k->est[node];
    k->cur[c].next = list == UNKNOWN ? NO_CHAIN : (uint32_t)list;
    k->est[node] = WAITER_BIT | c;
}

/* What the chain will need when it is its turn again. */
static inline void ask_ahead(const struct kernel *k, uint32_t i)
{
    uint32_t at = i + AHEAD;
    if (at >= k->g->node_count)
        return;
    __builtin_prefetch(k->g->w + at);
    __builtin_prefetch(k->g->xpred + at);
    __builtin_prefetch(k->g->xkind + at);
    __builtin_prefetch(k->est + at, 1);
    __builtin_prefetch(k->crossed + at, 1);
}

/* Runs chain c, whose cursor is *cur, to its next remote in or its end; before
 * that (cur->pos < cur->stop) only where it waits. */
static inline void run_local(struct kernel *k, uint32_t c, struct cursor *cur)
{
    const uint64_t *restrict w = k->g->w;
    const uint32_t *restrict xpred = k->g->xpred;
    uint64_t *est = k->est, e = cur->e, bits = 0, passed = 0;
    uint8_t *restrict crossed = k->crossed;
    uint32_t i = cur->pos, stop = cur->stop;

    for (; i < stop; i++) {
        uint64_t a = e + w[i];
        uint32_t x = xpred[i];
        if (x != IPS_NO_NODE) {
            uint8_t mode = k->arcs.mode[k->g->xkind[i]];
            if (mode != IPS_ARC_ABSENT) {
                uint64_t from = est[x];
                if (from - 1 >= IPS_TIME_LIMIT - 1) {
                    if (from != ZERO) {
                        wait_on(k, c, x);
                        ask_ahead(k, i);
                        break;
                    }
                    from = 0;
                }
                uint64_t b = from + ips_arc_ns(&k->arcs, mode, k->g->xlen, i);
                crossed[i] = b > a; /* a tie is the chain's */
                a = b > a ? b : a;
            }
        }
        uint64_t waiters = est[i];
        passed += w[i];
        bits |= w[i] | a;
        est[i] = a ? a : ZERO;
        e = a;
        if (waiters != UNKNOWN)
            wake(k, waiters);
    }
    cur->e = e;
    cur->pos = i;
    k->passed += passed; /* below 2^62, or `bits` says so */
    k->bits |= bits;
}

/* The node at hand has a remote in. False: its value is not there. */
static bool run_remote(struct kernel *k, struct cursor *cur)
{
    const struct ips_graph *g = k->g;
    uint32_t i = cur->pos;
    uint64_t a = cur->e + g->w[i];
    if (!k->in_value)
        return false;
    uint64_t v = k->in_value[cur->in++];
    if (v != IPS_IN_ABSENT && v > a) {
        a = ips_min_u64(v, IPS_TIME_LIMIT);
        k->crossed[i] = 1;
    }
    uint64_t waiters = k->est[i];
    k->est[i] = a ? a : ZERO;
    cur->e = a;
    k->passed += g->w[i];
    k->bits |= g->w[i] | a;
    if (waiters != UNKNOWN)
        wake(k, waiters);
    cur->pos = i + 1;
    uint32_t in = cur->in < g->in_count ? g->in[cur->in].node : IPS_NO_NODE;
    cur->stop = in < cur->end ? in : cur->end;
    return true;
}

/* Values of 0 as they are read. They are never behind greater ones. */
static void kernel_end(struct kernel *k)
{
    for (uint32_t c = 0; c < k->g->chain_count; c++)
        for (uint32_t i = k->g->chains[c].first;
             i < k->cur[c].pos && k->est[i] == ZERO; i++)
            k->est[i] = 0;
}

/* The chain that runs after `cur` stopped, or NO_CHAIN. Chains take turns: when
 * it is its turn again a chain finds much of what it needs, and runs far. But
 * two that answer each other go on with each other: the one that `cur` woke
 * last runs next where `cur` waits for it. `*begun`: chains that have run. */
static inline uint32_t next_chain(struct kernel *k, const struct cursor *cur,
                                  uint32_t *begun)
{
    uint32_t ready = k->ready_to - k->ready_from;
    if (cur && ready && cur->pos < cur->stop) {
        uint32_t last = k->ready[(k->ready_to - 1) & k->ready_mask];
        uint32_t x = k->g->xpred[cur->pos];
        if (x >= k->cur[last].pos && x < k->cur[last].end) {
            k->ready_to--;
            return last;
        }
    }
    if (ready < IN_TURN && *begun < k->g->chain_count)
        return (*begun)++;
    return ready ? k->ready[k->ready_from++ & k->ready_mask] : NO_CHAIN;
}

static void kernel_run(struct kernel *k)
{
    uint32_t begun = 0, c;
    const struct cursor *before = NULL;
    /* Beyond the limit sums may have wrapped: of no use. */
    while (k->bits < IPS_TIME_LIMIT &&
           (c = next_chain(k, before, &begun)) != NO_CHAIN) {
        struct cursor *cur = &k->cur[c];
        do
            run_local(k, c, cur);
        while (cur->pos == cur->stop && cur->pos < cur->end &&
               run_remote(k, cur));
        before = cur;
    }
    kernel_end(k);
}

static int kernel_init(struct kernel *k, const struct ips_graph *g,
                       const struct ips_lane *lane, const uint64_t *in_value,
                       struct ips_est *e, struct ips_err *err)
{
    memset(k, 0, sizeof(*k));
    int rc = ips_est_alloc(e, g->node_count, err);
    if (rc < 0)
        return rc;
    k->g = g;
    ips_arcs_init(&k->arcs, lane);
    k->in_value = in_value;
    k->est = e->est;
    k->crossed = e->crossed;
    k->cur = malloc(((size_t)g->chain_count + 1) * sizeof(*k->cur));
    while (k->ready_mask < g->chain_count)
        k->ready_mask = k->ready_mask * 2 + 1;
    k->ready = malloc(((size_t)k->ready_mask + 1) * sizeof(*k->ready));
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
                                    .stop = ips_min_u32(stop, end),
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

static int overflow_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_LIMIT,
                       "times add up to more than 2^62 ns: damaged weights");
}

static int stall_error(const struct kernel *k, struct ips_err *err)
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

int ips_longest_path(const struct ips_graph *g, const struct ips_lane *lane,
                     const uint64_t *in_value, struct ips_est *out,
                     struct ips_err *err)
{
    struct kernel k;
    if (g->in_count && !in_value)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u remote references without values", g->in_count);
    int rc = kernel_init(&k, g, lane, in_value, out, err);
    if (rc < 0)
        return rc;
    kernel_run(&k);
    if (k.bits >= IPS_TIME_LIMIT)
        rc = overflow_error(err);
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        if (k.cur[c].pos != k.cur[c].end)
            rc = stall_error(&k, err);
        else
            ips_est_offer(out, g, lane, c);
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

int ips_kernel_partial(const struct ips_graph *g, const struct ips_lane *lane,
                       struct ips_est *e, uint32_t *reached,
                       struct ips_err *err)
{
    struct kernel k;
    int rc = kernel_init(&k, g, lane, NULL, e, err);
    if (rc < 0)
        return rc;
    kernel_run(&k);
    for (uint32_t c = 0; c < g->chain_count; c++)
        reached[c] = k.cur[c].pos;
    if (k.bits >= IPS_TIME_LIMIT) {
        rc = overflow_error(err);
        ips_est_release(e);
    }
    kernel_release(&k);
    return rc;
}
