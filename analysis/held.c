#include "analysis/held.h"

#include <stdlib.h>
#include <string.h>

struct span { /* held by a chain */
    uint32_t lock, chain;
    uint64_t ns, handed;
};

static uint32_t root(uint32_t *of, uint32_t i)
{
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

static void join(uint32_t *of, uint32_t a, uint32_t b)
{
    a = root(of, a);
    b = root(of, b);
    of[a > b ? a : b] = a > b ? b : a;
}

static int by_lock(const void *a, const void *b)
{
    const struct span *p = a, *q = b;
    if (p->lock != q->lock)
        return p->lock < q->lock ? -1 : 1;
    return (p->chain > q->chain) - (p->chain < q->chain);
}

static int longest(const void *a, const void *b)
{
    const struct ips_held *p = a, *q = b;
    if (p->ns != q->ns)
        return p->ns > q->ns ? -1 : 1;
    return (p->chain > q->chain) - (p->chain < q->chain);
}

/* Every getting with the next giving of its chain. */
static size_t spans(const struct ips_graph *g, const struct ips_est *est,
                    const bool *is, const bool *gives, uint32_t *of,
                    struct span *out)
{
    size_t n = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t got = IPS_NO_NODE;
        uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
        for (uint32_t i = first; i < end; i++) {
            if (gives[i] && got != IPS_NO_NODE) {
                join(of, got, i);
                out[n++] =
                    (struct span){got, c, est->est[i] - est->est[got], 1};
                got = IPS_NO_NODE;
            }
            if (is[i] && g->xpred[i] != IPS_NO_NODE) {
                join(of, i, g->xpred[i]);
                got = i;
            }
        }
    }
    return n;
}

static void add_up(struct span *s, size_t n, struct ips_helds *out)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n;) {
        uint64_t ns = 0;
        size_t k = i;
        for (; k < n && by_lock(&s[i], &s[k]) == 0; k++)
            ns += s[k].ns;
        struct ips_held *h = &out->lock[out->count];
        bool same = i && s[i].lock == s[i - 1].lock;
        if (!same) {
            h = &out->lock[out->count++];
            *h = (struct ips_held){s[i].chain, 0, 0};
            most = 0;
        } else {
            h--;
        }
        if (ns > most) {
            most = ns;
            h->chain = s[i].chain;
        }
        h->ns += ns;
        h->handed += k - i;
        i = k;
    }
}

int ips_locks_held(const struct ips_graph *g, const struct ips_est *est,
                   const bool *is, struct ips_helds *out, struct ips_err *err)
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
        n = spans(g, est, is, gives, of, span);
        for (size_t i = 0; i < n; i++)
            span[i].lock = root(of, span[i].lock);
        if (n)
            qsort(span, n, sizeof(*span), by_lock);
        add_up(span, n, out);
        if (out->count)
            qsort(out->lock, out->count, sizeof(*out->lock), longest);
    } else {
        ips_helds_release(out);
    }
    free(of);
    free(gives);
    free(span);
    return rc;
}

void ips_helds_release(struct ips_helds *h)
{
    free(h->lock);
    memset(h, 0, sizeof(*h));
}
