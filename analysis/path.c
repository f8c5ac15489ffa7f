/*
 * The kernel. Each chain runs until it needs a value that is not there; then
 * it waits on that node and another chain runs. A node that has no value yet
 * keeps the list of the chains that wait for it in its EST: top bit set, the
 * chain's number below, further waiters linked by chain; so there is nothing
 * to allocate and nothing to look up when a node gets its value.
 */
#include "analysis/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/kernel.h"

#define UNKNOWN UINT64_MAX      /* no value, nobody waits */
#define WAITER_BIT (1ULL << 63) /* no value, and this chain waits */
#define NO_CHAIN UINT32_MAX
#define STALL_NAMED 10

struct cursor {
    uint32_t pos;  /* next node to compute */
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
    uint32_t *ready;    /* stack of chains; each at most once */
    uint32_t ready_count;
    bool overflow;
};

void ips_est_release(struct ips_est *e)
{
    free(e->est);
    free(e->crossed);
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
}

int ips_est_alloc(struct ips_est *e, uint32_t nodes, struct ips_err *err)
{
    memset(e, 0, sizeof(*e));
    e->end = IPS_NO_NODE;
    e->est = malloc(((size_t)nodes + 1) * sizeof(*e->est));
    e->crossed = calloc((size_t)nodes + 1, 1);
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

static void wait_on(struct kernel *k, uint32_t c, uint32_t node)
{
    uint64_t list = k->est[node];
    k->cur[c].next = list == UNKNOWN ? NO_CHAIN : (uint32_t)list;
    k->est[node] = WAITER_BIT | c;
}

static void wake(struct kernel *k, uint64_t list)
{
    for (uint32_t c = (uint32_t)list; c != NO_CHAIN; c = k->cur[c].next)
        k->ready[k->ready_count++] = c;
}

/* Value of the remote in at hand joined with the chain's; false: stop here. */
static bool remote_value(struct kernel *k, struct cursor *cur, uint64_t *a,
                         uint8_t *crossed)
{
    if (!k->in_value)
        return false;
    uint64_t v = k->in_value[cur->in++];
    if (v != IPS_IN_ABSENT && v > *a) {
        *a = ips_min_u64(v, IPS_TIME_LIMIT);
        *crossed = 1;
    }
    return true;
}

static void run_chain(struct kernel *k, uint32_t c)
{
    const struct ips_graph *g = k->g;
    const uint64_t *restrict w = g->w;
    const uint32_t *restrict xpred = g->xpred;
    uint64_t *est = k->est;
    uint8_t *restrict crossed = k->crossed;
    struct cursor *cur = &k->cur[c];
    uint32_t i = cur->pos;
    uint64_t e = i == g->chains[c].first ? 0 : est[i - 1];

    while (i < cur->end) {
        uint32_t in = cur->in < g->in_count ? g->in[cur->in].node : IPS_NO_NODE;
        uint32_t stop = in < cur->end ? in : cur->end;
        for (; i < cur->end; i++) {
            uint64_t a = e + w[i];
            uint8_t won = 0;
            uint32_t x = xpred[i];
            if (x != IPS_NO_NODE) {
                uint8_t mode = k->arcs.mode[g->xkind[i]];
                if (mode != IPS_ARC_ABSENT) {
                    uint64_t from = est[x];
                    if (from & WAITER_BIT) { /* UNKNOWN has it too */
                        wait_on(k, c, x);
                        cur->pos = i;
                        return;
                    }
                    uint64_t b = from + ips_arc_ns(&k->arcs, mode, g->xlen, i);
                    if (b > a) { /* a tie is the chain's */
                        a = b;
                        won = 1;
                    }
                }
            } else if (i == stop && !remote_value(k, cur, &a, &won)) {
                cur->pos = i;
                return;
            }
            if ((w[i] | a) >= IPS_TIME_LIMIT) {
                k->overflow = true;
                cur->pos = i;
                return;
            }
            uint64_t waiters = est[i];
            est[i] = e = a;
            crossed[i] = won;
            if (waiters != UNKNOWN)
                wake(k, waiters);
            if (i == stop) {
                i++;
                break;
            }
        }
    }
    cur->pos = i;
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
    k->ready = malloc(((size_t)g->chain_count + 1) * sizeof(*k->ready));
    if (!k->cur || !k->ready) {
        free(k->cur);
        free(k->ready);
        ips_est_release(e);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u chains", g->chain_count);
    }
    memset(k->est, 0xff, (size_t)g->node_count * sizeof(*k->est));
    uint32_t in = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        while (in < g->in_count && g->in[in].node < first)
            in++;
        k->cur[c] =
            (struct cursor){first, first + g->chains[c].count, in, NO_CHAIN};
    }
    return 0;
}

static void kernel_run(struct kernel *k)
{
    for (uint32_t c = 0; c < k->g->chain_count && !k->overflow; c++) {
        run_chain(k, c);
        while (k->ready_count && !k->overflow)
            run_chain(k, k->ready[--k->ready_count]);
    }
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
    if (k.overflow)
        rc = overflow_error(err);
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        if (k.cur[c].pos != k.cur[c].end)
            rc = stall_error(&k, err);
        else
            ips_est_offer(out, g, lane, c);
    }
    kernel_release(&k);
    if (rc == 0)
        out->total = ips_graph_total(g);
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
    if (k.overflow) {
        rc = overflow_error(err);
        ips_est_release(e);
    }
    kernel_release(&k);
    return rc;
}
