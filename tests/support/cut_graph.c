#include "tests/support/cut_graph.h"

#include <stdlib.h>
#include <string.h>

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

struct cutter {
    const struct ips_graph *whole;
    const uint32_t *of; /* by chain */
    struct cut *c;
    uint32_t *part; /* by node */
    uint32_t *node; /* by node: its number there */
    uint32_t
        *pair; /* [count * count] the writer's end of that direction, + 1 */
    uint32_t *end_count, *end_cap;
    uint64_t **pos; /* [count][end] written so far */
};

static uint32_t new_end(struct cutter *k, uint32_t at, struct ips_peer_end to)
{
    uint32_t n = k->end_count[at]++;
    if (n == k->end_cap[at]) {
        k->end_cap[at] = n * 2 + 4;
        k->c->peer[at] = need(
            realloc(k->c->peer[at], k->end_cap[at] * sizeof(**k->c->peer)));
        k->pos[at] =
            need(realloc(k->pos[at], k->end_cap[at] * sizeof(**k->pos)));
    }
    k->c->peer[at][n] = to;
    k->pos[at][n] = 0;
    return n;
}

/* One direction of machine a to b: a's end. */
static uint32_t end_of(struct cutter *k, uint32_t a, uint32_t b)
{
    uint32_t *pair = &k->pair[(size_t)a * k->c->count + b];
    if (*pair == 0) {
        uint32_t x = new_end(k, a, (struct ips_peer_end){b, 0});
        uint32_t y = new_end(k, b, (struct ips_peer_end){a, x});
        k->c->peer[a][x].end = y;
        *pair = x + 1;
    }
    return *pair - 1;
}

static void count_nodes(struct cutter *k)
{
    const struct ips_graph *w = k->whole;
    uint32_t n = k->c->count;
    uint32_t *nodes = need(calloc(n + 1, 4)), *chains = need(calloc(n + 1, 4));
    uint32_t *ins = need(calloc(n + 1, 4)), *outs = need(calloc(n + 1, 4));
    for (uint32_t c = 0; c < w->chain_count; c++) {
        chains[k->of[c]]++;
        for (uint32_t i = 0; i < w->chains[c].count; i++) {
            k->part[w->chains[c].first + i] = k->of[c];
            k->node[w->chains[c].first + i] = nodes[k->of[c]]++;
        }
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        uint32_t x = w->xpred[i];
        if (x == IPS_NO_NODE || k->part[x] == k->part[i])
            continue;
        ins[k->part[i]]++;
        outs[k->part[x]]++;
        k->c->crossing++;
    }
    for (uint32_t p = 0; p < n; p++) {
        struct ips_graph *g = &k->c->g[p];
        if (ips_graph_alloc(g, nodes[p], chains[p], NULL) < 0)
            abort();
        g->chain_count = 0; /* from here: how many are laid out */
        g->in = need(calloc(ins[p] + 1, sizeof(*g->in)));
        g->out = need(calloc(outs[p] + 1, sizeof(*g->out)));
    }
    free(nodes);
    free(chains);
    free(ins);
    free(outs);
}

static void lay_node(struct cutter *k, uint32_t i)
{
    const struct ips_graph *w = k->whole;
    struct ips_graph *g = &k->c->g[k->part[i]];
    uint32_t at = k->node[i], x = w->xpred[i];
    g->kind[at] = w->kind[i];
    g->w[at] = w->w[i];
    g->xkind[at] = w->xkind[i];
    g->site[at] = IPS_NO_NODE;
    if (x == IPS_NO_NODE)
        return;
    if (k->part[x] == k->part[i]) {
        g->xpred[at] = k->node[x];
        g->xlen[at] = w->xlen[i];
        return;
    }
    struct ips_graph *from = &k->c->g[k->part[x]];
    uint32_t end = end_of(k, k->part[x], k->part[i]);
    uint32_t len = (uint32_t)w->xlen[i];
    uint64_t *pos = &k->pos[k->part[x]][end];
    *pos += len ? len : 1;
    from->out[from->out_count++] = (struct ips_remote_out){
        .node = k->node[x], .end = end, .pos = *pos, .len = len};
    g->in[g->in_count++] = (struct ips_remote_in){
        .node = at, .end = k->c->peer[k->part[x]][end].end, .pos = *pos};
}

static int by_end_pos(const void *a, const void *b)
{
    const struct ips_remote_out *p = a, *q = b;
    if (p->end != q->end)
        return p->end < q->end ? -1 : 1;
    return (p->pos > q->pos) - (p->pos < q->pos);
}

static void lay_all(struct cutter *k)
{
    const struct ips_graph *w = k->whole;
    for (uint32_t c = 0; c < w->chain_count; c++) {
        struct ips_graph *g = &k->c->g[k->of[c]];
        struct ips_chain *to = &g->chains[g->chain_count++];
        *to = w->chains[c];
        to->first = k->node[w->chains[c].first];
    }
    for (uint32_t i = 0; i < w->node_count; i++)
        lay_node(k, i);
    for (uint32_t p = 0; p < k->c->count; p++) {
        struct ips_graph *g = &k->c->g[p];
        qsort(g->out, g->out_count, sizeof(*g->out), by_end_pos);
        k->c->part[p] =
            (struct ips_machine_graph){g, k->c->peer[p], k->end_count[p]};
    }
}

void cut_make(const struct ips_graph *whole, const uint32_t *of, uint32_t count,
              struct cut *out)
{
    struct cutter k = {.whole = whole, .of = of, .c = out};
    memset(out, 0, sizeof(*out));
    out->count = count;
    out->g = need(calloc(count, sizeof(*out->g)));
    out->peer = need(calloc(count, sizeof(*out->peer)));
    out->part = need(calloc(count, sizeof(*out->part)));
    k.part = need(calloc((size_t)whole->node_count + 1, 4));
    k.node = need(calloc((size_t)whole->node_count + 1, 4));
    k.pair = need(calloc((size_t)count * count, 4));
    k.end_count = need(calloc(count, 4));
    k.end_cap = need(calloc(count, 4));
    k.pos = need(calloc(count, sizeof(*k.pos)));
    count_nodes(&k);
    lay_all(&k);
    uint32_t *base = need(calloc(count, 4));
    uint64_t unmatched;
    static const struct ips_scenario cpu = {.message_time = {0, 0, 1, 1}};
    if (ips_graph_merge(out->part, count, &cpu, &out->merged, base, &unmatched,
                        NULL) < 0 ||
        unmatched)
        abort();
    for (uint32_t p = 0; p < count; p++)
        free(k.pos[p]);
    free(base);
    free(k.pos);
    free(k.part);
    free(k.node);
    free(k.pair);
    free(k.end_count);
    free(k.end_cap);
}

void cut_release(struct cut *c)
{
    for (uint32_t p = 0; p < c->count; p++) {
        ips_graph_release(&c->g[p]);
        free(c->peer[p]);
    }
    free(c->g);
    free(c->peer);
    free(c->part);
    ips_graph_release(&c->merged);
    memset(c, 0, sizeof(*c));
}
