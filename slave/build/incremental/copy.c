/* Copies the result of an incremental build, without the spare node numbers
 * between chains (build/incremental/grow.h). */
#include "slave/build/incremental/state.h"

/* Maps node numbers to those of the copy. [first, end) and `shift` are of the
 * chain that was looked up last. */
struct moved {
    const struct ips_graph *from, *to;
    uint32_t first, end, shift;
};

static uint32_t node_number_in_copy(struct moved *m, uint32_t node)
{
    if (node == IPS_NO_NODE)
        return node;
    if (node < m->first || node >= m->end) {
        uint32_t c = ips_chain_of(m->from, node);
        m->first = m->from->chains[c].first;
        m->end = m->first + m->from->chains[c].count;
        m->shift = m->first - m->to->chains[c].first;
    }
    return node - m->shift;
}

static int copy_columns(const struct b_incremental *k, struct ips_graph *to)
{
    const struct ips_graph *g = &k->built.g;
    struct moved m = {.from = g, .to = to};
    uint32_t n = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        n += g->chains[c].count;
    int rc = ips_graph_alloc_uncleared(to, n, g->chain_count, k->b.err);
    size_t room = (size_t)n + 1;
    if (rc < 0)
        return rc;
    to->at = ips_alloc_large(room, sizeof(*to->at));
    to->wait = ips_alloc_large(room, sizeof(*to->wait));
    to->delay = ips_alloc_large(room, sizeof(*to->delay));
    to->probe = ips_alloc_large(room, sizeof(*to->probe));
    if (!to->at || !to->wait || !to->delay || !to->probe)
        return ips_err_set(k->b.err, IPS_E_NO_MEMORY, "%u nodes", n);
    n = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        to->chains[c] = g->chains[c];
        to->chains[c].first = n;
        n += g->chains[c].count;
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t a = g->chains[c].first, b = to->chains[c].first,
                 count = g->chains[c].count;
#define COLUMN(x) memcpy(to->x + b, g->x + a, count * sizeof(*g->x))
        COLUMN(kind);
        COLUMN(w);
        COLUMN(xkind);
        COLUMN(xlen);
        COLUMN(t_ns);
        COLUMN(site);
        COLUMN(at);
        COLUMN(wait);
        COLUMN(delay);
        COLUMN(probe);
#undef COLUMN
        for (uint32_t i = 0; i < count; i++)
            to->xpred[b + i] = node_number_in_copy(&m, g->xpred[a + i]);
    }
    return 0;
}

static void *duplicate_array(const void *v, size_t n, size_t size,
                             struct ips_err *err)
{
    void *to = b_calloc(n, size, err);
    if (to && n)
        memcpy(to, v, n * size);
    return to;
}

static int copy_tables(const struct b_incremental *k, struct ips_built *out)
{
    const struct ips_built *o = &k->built;
    struct ips_err *err = k->b.err;
    struct ips_graph g = out->g;
    *out = *o;
    out->g = g;
    out->more = NULL;
#define TABLE(x, n) out->x = duplicate_array(o->x, o->n, sizeof(*o->x), err)
    TABLE(procs, proc_count);
    TABLE(threads, g.chain_count);
    TABLE(ends, end_count);
    TABLE(traffic, traffic_count);
    TABLE(untraced, untraced_count);
    TABLE(unrecorded, unrecorded_count);
    TABLE(spun, spun_count);
    TABLE(unended, unended_count);
#undef TABLE
    if (!out->procs || !out->threads || !out->ends || !out->traffic ||
        !out->untraced || !out->unrecorded || !out->spun || !out->unended)
        return IPS_E_NO_MEMORY;
    struct moved m = {.from = &o->g, .to = &out->g};
    for (uint32_t i = 0; i < out->spun_count; i++)
        out->spun[i].node =
            node_number_in_copy(&m, (uint32_t)out->spun[i].node);
    for (uint32_t i = 0; i < out->unended_count; i++)
        out->unended[i].node = node_number_in_copy(&m, out->unended[i].node);
    out->goal_node = node_number_in_copy(&m, out->goal_node);
    return 0;
}

/* Makes out->more, with the node numbers of the copy, and the arcs of
 * ips_built_set_peers_and_remake_arcs(). */
static int copy_peer_data_and_remake_arcs(struct b_incremental *k,
                                          struct ips_built *out)
{
    struct build *b = &k->b;
    struct moved m = {.from = &k->built.g, .to = &out->g};
    b->outs.n = 0;
    int rc = b_store_remote_data(b, out);
    if (rc < 0)
        return rc;
    struct ips_built_peer_data *more = out->more;
    for (uint32_t i = 0; i < more->ext_count; i++) {
        more->exts[i].node = node_number_in_copy(&m, more->exts[i].node);
        more->exts[i].last_send =
            node_number_in_copy(&m, more->exts[i].last_send);
    }
    for (uint32_t i = 0; i < more->out_count; i++)
        more->outs[i].node = node_number_in_copy(&m, more->outs[i].node);
    return ips_built_set_peers_and_remake_arcs(out, NULL, 0, b->err);
}

int g_copy_result(struct b_incremental *k, struct ips_built *out)
{
    memset(out, 0, sizeof(*out));
    ips_graph_init(&out->g);
    int rc = copy_columns(k, &out->g);
    if (rc == 0)
        rc = copy_tables(k, out);
    if (rc == 0)
        rc = copy_peer_data_and_remake_arcs(k, out);
    if (rc < 0)
        ips_built_release(out);
    return rc;
}
