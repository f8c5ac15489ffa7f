#include "analysis/explain/lock_holds.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

struct span { /* a chain slept for the lock from `asked` on, and held it from
                 `from` to `to` */
    uint32_t lock, chain;
    uint64_t asked, from, to;
};

static uint32_t find_root(uint32_t *of, uint32_t i)
{
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

static void join_sets(uint32_t *of, uint32_t a, uint32_t b)
{
    a = find_root(of, a);
    b = find_root(of, b);
    of[a > b ? a : b] = a > b ? b : a;
}

static int by_lock_chain_and_begin(const void *a, const void *b)
{
    const struct span *p = a, *q = b;
    if (p->lock != q->lock)
        return p->lock < q->lock ? -1 : 1;
    if (p->chain != q->chain)
        return p->chain < q->chain ? -1 : 1;
    return (p->from > q->from) - (p->from < q->from);
}

static int compare_by_lock_and_time_asked(const void *a, const void *b)
{
    const struct span *p = a, *q = b;
    if (p->lock != q->lock)
        return p->lock < q->lock ? -1 : 1;
    return (p->asked > q->asked) - (p->asked < q->asked);
}

static int compare_holds_by_length(const void *a, const void *b)
{
    const struct ips_lock_hold *p = a, *q = b;
    if (p->ns != q->ns)
        return p->ns > q->ns ? -1 : 1;
    return (p->chain > q->chain) - (p->chain < q->chain);
}

static uint64_t slept_ns_before_node(const struct ips_graph *g, uint32_t i)
{
    return g->wait ? g->wait[i] : 0;
}

static struct span make_span_of_hold(const struct ips_graph *g,
                                     const struct ips_est *est, uint32_t chain,
                                     uint32_t got, uint32_t gave)
{
    return (struct span){
        .lock = got,
        .chain = chain,
        .asked = ips_sub_sat(est->est[got], slept_ns_before_node(g, got)),
        .from = est->est[got],
        .to = est->est[gave]};
}

/* Collects into `out` one span for each acquisition for which the chain slept
 * or after which it passed the lock on to a waiter. Also joins the nodes of one
 * lock in the union-find array `of`. Returns the number of spans. */
static size_t collect_hold_spans_and_join_lock_nodes(
    const struct ips_graph *g, const struct ips_est *est, const bool *is,
    const bool *gives, uint32_t *of, struct span *out)
{
    size_t n = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t got = IPS_NO_NODE;
        uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
        for (uint32_t i = first; i < end; i++) {
            if (gives[i] && got != IPS_NO_NODE) {
                join_sets(of, got, i);
                out[n++] = make_span_of_hold(g, est, c, got, i);
                got = IPS_NO_NODE;
            }
            if (is[i] && g->xpred[i] != IPS_NO_NODE) {
                if (got != IPS_NO_NODE && slept_ns_before_node(g, got))
                    out[n++] = make_span_of_hold(g, est, c, got, got);
                join_sets(of, i, g->xpred[i]);
                got = i;
            }
        }
        /* No thread waited when the chain last released the lock, but the
         * chain's sleep before that acquisition counts. */
        if (got != IPS_NO_NODE && slept_ns_before_node(g, got))
            out[n++] = make_span_of_hold(g, est, c, got, got);
    }
    return n;
}

/* Finds in the `n` spans of one lock the chain that held the lock longest in
 * all. Each span is one hand-over. */
static void fill_longest_holder_and_hold_count(const struct span *s, size_t n,
                                               struct ips_lock_hold *h)
{
    uint64_t most = 0, ns = 0;
    *h = (struct ips_lock_hold){.chain = s[0].chain, .handed_on = n};
    for (size_t i = 0; i < n; i++) {
        ns = i && s[i].chain == s[i - 1].chain ? ns : 0;
        ns += s[i].to - s[i].from;
        if (ns > most) {
            most = ns;
            h->chain = s[i].chain;
        }
    }
}

/* Returns the time during which at least one of the lock's `n` spans lasts,
 * from `asked` to `to`. The spans are sorted by `asked`. */
static uint64_t covered_ns(const struct span *s, size_t n)
{
    uint64_t ns = 0, until = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t from = ips_max_u64(s[i].asked, until);
        ns += ips_sub_sat(s[i].to, from);
        until = ips_max_u64(until, s[i].to);
    }
    return ns;
}

static void append_hold_summary_of_each_lock(struct span *s, size_t n,
                                             struct ips_lock_holds *out)
{
    qsort(s, n, sizeof(*s), by_lock_chain_and_begin);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && s[k].lock == s[i].lock; k++) {
        }
        struct ips_lock_hold *h = &out->lock[out->count++];
        fill_longest_holder_and_hold_count(&s[i], k - i, h);
        qsort(&s[i], k - i, sizeof(*s), compare_by_lock_and_time_asked);
        h->ns = covered_ns(&s[i], k - i);
    }
}

/* argument of by_name() while sorting */
static _Thread_local const uint64_t *naming;

static int by_name(const void *a, const void *b)
{
    uint64_t p = naming[((const struct span *)a)->lock];
    uint64_t q = naming[((const struct span *)b)->lock];
    return (p > q) - (p < q);
}

/* Joins the sets of locks with equal names. At this point span.lock is still
 * the acquiring node. */
static void join_locks_of_equal_name(const uint64_t *name, struct span *s,
                                     size_t n, uint32_t *of)
{
    if (!name || n == 0)
        return;
    naming = name;
    qsort(s, n, sizeof(*s), by_name);
    for (size_t i = 1; i < n; i++) {
        uint64_t own = name[s[i].lock];
        if (own && own == name[s[i - 1].lock])
            join_sets(of, s[i].lock, s[i - 1].lock);
    }
}

int ips_sum_lock_holds_by_lock(const struct ips_graph *g,
                               const struct ips_est *est, const bool *is,
                               const uint64_t *name, struct ips_lock_holds *out,
                               struct ips_err *err)
{
    size_t nodes = (size_t)g->node_count + 1, n = 0;
    uint32_t *of = malloc(nodes * sizeof(*of));
    bool *gives = calloc(nodes, sizeof(*gives));
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; of && gives && i < g->node_count; i++) {
        of[i] = i;
        n += is[i];
        if (is[i] && g->xpred[i] != IPS_NO_NODE)
            gives[g->xpred[i]] = true;
    }
    struct span *span = calloc(n + 1, sizeof(*span));
    out->lock = calloc(n + 1, sizeof(*out->lock));
    int rc = of && gives && span && out->lock
                 ? 0
                 : ips_err_set(err, IPS_E_NO_MEMORY, "no memory for locks");
    if (rc == 0) {
        n = collect_hold_spans_and_join_lock_nodes(g, est, is, gives, of, span);
        join_locks_of_equal_name(name, span, n, of);
        for (size_t i = 0; i < n; i++)
            span[i].lock = find_root(of, span[i].lock);
        if (n)
            append_hold_summary_of_each_lock(span, n, out);
        if (out->count)
            qsort(out->lock, out->count, sizeof(*out->lock),
                  compare_holds_by_length);
    } else {
        ips_lock_holds_release(out);
    }
    free(of);
    free(gives);
    free(span);
    return rc;
}

void ips_lock_holds_release(struct ips_lock_holds *h)
{
    free(h->lock);
    memset(h, 0, sizeof(*h));
}
