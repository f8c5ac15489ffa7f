/* Makes a slave's joins in four passes over its graph: computes the longest
 * path as far as it does not depend on other machines; marks awaited nodes;
 * numbers joins and sums chains; writes arcs. Then writes the head with the
 * counts. */
#include "analysis/distributed/joins.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/joins_private.h"
#include "analysis/graph/kernel.h"
#include "analysis/graph/varint.h"
#include "common/large.h"

/* a flag in e.crossed, whose values by path.c are not needed any more: another
 * node needs this node's value */
#define AWAITED 2u
/* replaces AWAITED if the node's value depends on a join of its chain */
#define JOINED 4u

struct maker {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    struct ips_cross_arc_weighting arcs;
    /* est: P (see joins.h), the sum of chain arcs; for nodes that depend on no
     * other machine (folded nodes) their EST */
    struct ips_est e;
    uint32_t *reached; /* [chain_count] first node of each chain that depends on
                          a remote receive */
    uint32_t *join;    /* [node_count] number of the join on which a JOINED node
                          depends */
    uint32_t *last;    /* [chain_count] number of the chain's last join */
    /* [chain_count] number of bytes of the chain's encoded arcs */
    uint64_t *bytes;
    uint32_t joins, chains, arcs_made;
    struct ips_joins *out;
};

void ips_joins_release(struct ips_joins *j)
{
    ips_free_large(j->head.data);
    ips_free_large(j->arcs.data);
    memset(j, 0, sizeof(*j));
}

/* Makes room for `more` bytes after the present ones; returns their address, or
 * NULL if out of memory. */
static uint8_t *reserve_bytes(struct ips_joins_bytes *b, size_t more)
{
    if (b->cap - b->len < more) {
        size_t cap = b->cap * 2 + more + 65536;
        uint8_t *bigger = ips_resize_large(b->data, b->len, cap);
        if (!bigger)
            return NULL;
        b->data = bigger;
        b->cap = cap;
    }
    return b->data + b->len;
}

static void set_byte_length_from_end(struct ips_joins_bytes *b,
                                     const uint8_t *end)
{
    b->len = (size_t)(end - b->data);
}

static int no_memory(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for the joins");
}

/* ---- marking awaited nodes ---------------------------------------------- */

static void mark_nodes_whose_values_are_needed(struct maker *m)
{
    const struct ips_graph *g = m->g;
    uint8_t *mark = m->e.crossed;
    for (uint32_t k = 0; k < g->out_count; k++)
        mark[g->out[k].node] |= AWAITED;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count;
        for (uint32_t i = m->reached[c]; i < end; i++) {
            if (ips_has_local_cross_arc(g, &m->arcs, i))
                mark[g->xpred[i]] |= AWAITED;
        }
    }
}

/* ---- numbering joins, summing chains ------------------------------------ */

/* Whether node i is a remote receive. If so, advances *in, an index in g->in,
 * to the next remote receive. */
static inline bool advance_if_node_is_remote_receive(const struct ips_graph *g,
                                                     uint32_t i, uint32_t *in)
{
    if (*in == g->in_count || g->in[*in].node != i)
        return false;
    ++*in;
    return true;
}

static int number_joins_and_sum_chain(struct maker *m, uint32_t c, uint32_t *in,
                                      struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    uint64_t *p = m->e.est, bits = 0;
    uint8_t *mark = m->e.crossed;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    uint32_t i = m->reached[c], before = m->joins;
    uint64_t sum = i > first ? p[i - 1] : 0;
    bool open = false; /* true: since the join's last arc there was no node
                          whose value another node needs, so the next arc
                          belongs to the same join */
    for (; i < end; i++) {
        sum += g->w[i];
        bits |= g->w[i] | sum;
        p[i] = sum;
        if (advance_if_node_is_remote_receive(g, i, in) ||
            ips_has_local_cross_arc(g, &m->arcs, i)) {
            m->joins += !open;
            open = true;
        }
        if (mark[i]) {
            mark[i] = JOINED;
            m->join[i] = m->joins - 1;
            open = false;
        }
    }
    m->chains += m->joins > before;
    m->last[c] = m->joins - 1;
    if (bits >= IPS_TIME_LIMIT)
        return ips_joins_overflow_error(err);
    return 0;
}

/* ---- writing the head --------------------------------------------------- */

static int write_heads_of_chains_with_joins(struct maker *m,
                                            struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    struct ips_joins_bytes *b = &m->out->head;
    uint32_t before = 0, in = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        if (m->reached[c] == chain->first + chain->count)
            continue;
        uint8_t *at = reserve_bytes(b, 5 * IPS_VARINT_BYTES);
        uint32_t ins = in;
        if (!at)
            return no_memory(err);
        while (in < g->in_count && g->in[in].node < chain->first + chain->count)
            in++;
        at = ips_varint_write(at, m->last[c] + 1 - before);
        at = ips_varint_write(at, in - ins);
        at = ips_varint_write(at, m->bytes[c]);
        at = ips_varint_write(at, chain->pid);
        set_byte_length_from_end(b, ips_varint_write(at, chain->tid));
        before = m->last[c] + 1;
    }
    return 0;
}

static uint8_t *write_source_of_remote_send(const struct maker *m,
                                            uint32_t node,
                                            struct ips_joins_last *last,
                                            uint8_t *at)
{
    if (m->e.crossed[node] & JOINED) {
        at = ips_varint_write(
            at, 1 + ips_varint_zigzag_difference(last->join, m->join[node]));
        last->join = m->join[node];
    } else {
        at = ips_varint_write(at, 0);
    }
    at = ips_varint_write(
        at, ips_varint_zigzag_difference(last->p, m->e.est[node]));
    last->p = m->e.est[node];
    return at;
}

/* Writes the remote sends; if `m` is NULL (for
 * ips_joins_encode_send_receive_times()) only positions and times. */
static int write_remote_sends(const struct maker *m, const struct ips_graph *g,
                              unsigned flags, struct ips_joins_bytes *b,
                              struct ips_err *err)
{
    struct ips_joins_last last = {0};
    for (uint32_t k = 0; k < g->out_count; k++) {
        const struct ips_remote_out *o = &g->out[k];
        uint8_t *at = reserve_bytes(b, 8 * IPS_VARINT_BYTES);
        if (!at)
            return no_memory(err);
        at = ips_varint_write(at, o->end - last.end);
        at = ips_varint_write(at,
                              o->end == last.end ? o->pos - last.pos : o->pos);
        at = ips_varint_write(at, o->len);
        last.end = o->end;
        last.pos = o->pos;
        if (m)
            at = write_source_of_remote_send(m, o->node, &last, at);
        if (flags & IPS_JOINS_NS)
            at = ips_varint_write(at, g->out_ns[k]);
        if (flags & (IPS_JOINS_WALL | IPS_JOINS_MOMENTS)) {
            uint64_t t = m ? g->at[o->node] : g->t_ns[o->node];
            at = ips_varint_write(at, ips_varint_zigzag_difference(last.at, t));
            last.at = t;
        }
        set_byte_length_from_end(b, at);
    }
    return 0;
}

static int write_remote_receives(const struct ips_graph *g, unsigned flags,
                                 uint32_t ends, struct ips_joins_bytes *b,
                                 struct ips_err *err)
{
    uint64_t *pos = calloc((size_t)ends + 1, sizeof(*pos)), last = 0;
    bool fine = pos != NULL;
    for (uint32_t k = 0; k < g->in_count && fine; k++) {
        const struct ips_remote_in *in = &g->in[k];
        uint8_t *at = reserve_bytes(b, 4 * IPS_VARINT_BYTES);
        fine = at != NULL;
        if (!fine)
            break;
        at = ips_varint_write(at, (uint64_t)in->end << 3 | g->xkind[in->node]);
        at = ips_varint_write(
            at, ips_varint_zigzag_difference(pos[in->end], in->pos));
        pos[in->end] = in->pos;
        if (flags & (IPS_JOINS_WALL | IPS_JOINS_MOMENTS)) {
            bool wall = flags & IPS_JOINS_WALL;
            uint64_t t = wall ? g->at[in->node] : g->t_ns[in->node];
            at = ips_varint_write(at, ips_varint_zigzag_difference(last, t));
            if (wall)
                at = ips_varint_write(at, g->wait[in->node]);
            last = t;
        }
        set_byte_length_from_end(b, at);
    }
    free(pos);
    return fine ? 0 : no_memory(err);
}

/* Returns the END with the greatest EST of all chains that are folded (depend
 * on no other machine). Of their ENDs only this one is a candidate; the ENDs of
 * all other chains are candidates too. */
static uint32_t find_latest_end_of_local_chains(const struct maker *m)
{
    const struct ips_graph *g = m->g;
    struct ips_est best = {.est = m->e.est, .end = IPS_NO_NODE};
    for (uint32_t c = 0; c < g->chain_count; c++) {
        if (m->reached[c] == g->chains[c].first + g->chains[c].count)
            ips_est_update_path_end_from_chain(&best, g, m->scenario, c);
    }
    return best.end;
}

/* Writes the candidates for the END of the path; if b is NULL only counts them.
 */
static int write_or_count_end_candidates(const struct maker *m,
                                         struct ips_joins_bytes *b,
                                         uint32_t *count, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    uint32_t folded = find_latest_end_of_local_chains(m);
    *count = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count, last = end - 1;
        bool all = m->reached[c] == end;
        if (all ? last != folded : !ips_may_end_path(g, m->scenario, last))
            continue;
        ++*count;
        uint8_t *at = b ? reserve_bytes(b, 3 * IPS_VARINT_BYTES) : NULL;
        if (!b)
            continue;
        if (!at)
            return no_memory(err);
        at = ips_varint_write(at, last);
        at = ips_varint_write(at, all ? 0 : (uint64_t)m->last[c] + 1);
        set_byte_length_from_end(b, ips_varint_write(at, m->e.est[last]));
    }
    return 0;
}

static int write_counts_of_joins_head(struct ips_joins_bytes *b,
                                      const struct ips_joins_head *h,
                                      struct ips_err *err)
{
    uint8_t *at = reserve_bytes(b, 8 * IPS_VARINT_BYTES);
    if (!at)
        return no_memory(err);
    at = ips_varint_write(at, h->flags);
    at = ips_varint_write(at, h->total);
    at = ips_varint_write(at, h->ends);
    at = ips_varint_write(at, h->chains);
    at = ips_varint_write(at, h->joins);
    at = ips_varint_write(at, h->ins);
    at = ips_varint_write(at, h->outs);
    set_byte_length_from_end(b, ips_varint_write(at, h->candidates));
    return 0;
}

static uint32_t greatest_channel_end_plus_one(const struct ips_graph *g)
{
    uint32_t ends = 0;
    for (uint32_t k = 0; k < g->in_count; k++)
        ends = g->in[k].end >= ends ? g->in[k].end + 1 : ends;
    for (uint32_t k = 0; k < g->out_count; k++)
        ends = g->out[k].end >= ends ? g->out[k].end + 1 : ends;
    return ends;
}

static int write_joins_except_arcs(struct maker *m, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    struct ips_joins_bytes *b = &m->out->head;
    bool wall = m->scenario->weighting == IPS_WEIGH_WALL && g->at && g->wait;
    struct ips_joins_head h = {.flags = (wall ? IPS_JOINS_WALL : 0) |
                                        (g->out_ns ? IPS_JOINS_NS : 0),
                               .total = m->out->total,
                               .ends = greatest_channel_end_plus_one(g),
                               .chains = m->chains,
                               .joins = m->joins,
                               .ins = g->in_count,
                               .outs = g->out_count};
    int rc = write_or_count_end_candidates(m, NULL, &h.candidates, err);
    if (rc == 0)
        rc = write_counts_of_joins_head(b, &h, err);
    if (rc == 0)
        rc = write_heads_of_chains_with_joins(m, err);
    if (rc == 0)
        rc = write_remote_sends(m, g, h.flags, b, err);
    if (rc == 0)
        rc = write_remote_receives(g, h.flags, h.ends, b, err);
    if (rc == 0)
        rc = write_or_count_end_candidates(m, b, &h.candidates, err);
    return rc;
}

/* ---- writing the arcs --------------------------------------------------- */

/* Computes the source and the addend of the cross arc into node i, which
 * must have one. */
static int source_and_addend_of_arc(const struct maker *m, uint32_t i,
                                    bool remote, uint32_t *source,
                                    uint64_t *add, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    const uint64_t *p = m->e.est;
    *source = IPS_JOIN_IN;
    *add = 0 - p[i];
    if (remote)
        return 0;
    uint32_t x = g->xpred[i];
    uint64_t t = p[x] + ips_cross_arc_weight_by_mode(
                            &m->arcs, m->arcs.mode[g->xkind[i]], g->xlen, i);
    if (t >= IPS_TIME_LIMIT)
        return ips_joins_overflow_error(err);
    *source = m->e.crossed[x] & JOINED ? m->join[x] : IPS_JOIN_ZERO;
    *add += t;
    return 0;
}

static int write_join_arcs_of_chain(struct maker *m, uint32_t c, uint32_t *in,
                                    uint32_t number, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    const uint8_t *mark = m->e.crossed;
    struct ips_joins_bytes *b = &m->out->arcs;
    struct ips_join_slots s;
    uint32_t end = g->chains[c].first + g->chains[c].count, k = 0;
    bool open = false;
    ips_join_slots_init(&s, number);
    for (uint32_t i = m->reached[c]; i < end; i++) {
        bool remote = advance_if_node_is_remote_receive(g, i, in);
        if (remote || ips_has_local_cross_arc(g, &m->arcs, i)) {
            uint32_t source = IPS_JOIN_IN;
            uint64_t add = 0, what = 0;
            uint8_t *at = reserve_bytes(b, 2 * IPS_VARINT_BYTES);
            int rc =
                at ? source_and_addend_of_arc(m, i, remote, &source, &add, err)
                   : no_memory(err);
            if (rc < 0)
                return rc;
            k = open ? (k + 1) % IPS_JOIN_SLOTS : 0;
            if (source == IPS_JOIN_ZERO) {
                what = 1;
            } else if (source != IPS_JOIN_IN) {
                what =
                    2 + ips_varint_zigzag_difference(s.source[k] + 1, source);
                s.source[k] = source;
            }
            at = ips_varint_write(at, what << 1 | !open);
            set_byte_length_from_end(
                b, ips_varint_write(
                       at, ips_varint_zigzag_difference(s.add[k], add)));
            s.add[k] = add;
            m->arcs_made++;
            open = true;
        }
        open = open && !mark[i];
    }
    return 0;
}

/* ---- the whole encoding ------------------------------------------------- */

static int compute_and_write_joins(struct maker *m, struct ips_err *err)
{
    const struct ips_graph *g = m->g;
    int rc = ips_compute_ests_until_remote_receives(g, m->scenario, &m->e,
                                                    m->reached, err);
    if (rc < 0)
        return rc;
    /* The values of `crossed` for folded nodes are not needed here. Clear them,
     * so that AWAITED and JOINED can use the array. */
    for (uint32_t c = 0; c < g->chain_count; c++)
        memset(m->e.crossed + g->chains[c].first, 0,
               m->reached[c] - g->chains[c].first);
    mark_nodes_whose_values_are_needed(m);
    uint32_t in = 0;
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++)
        rc = number_joins_and_sum_chain(m, c, &in, err);
    in = 0;
    uint32_t number = 0;
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        size_t before = m->out->arcs.len;
        rc = write_join_arcs_of_chain(m, c, &in, number, err);
        m->bytes[c] = m->out->arcs.len - before;
        number = m->last[c] + 1;
    }
    if (rc == 0)
        rc = write_joins_except_arcs(m, err);
    return rc;
}

int ips_joins_compute_and_encode(const struct ips_graph *full,
                                 const struct ips_scenario *scenario,
                                 struct ips_joins *out, struct ips_err *err)
{
    struct maker m = {.g = full, .scenario = scenario, .out = out};
    int rc = 0;
    memset(out, 0, sizeof(*out));
    out->total = ips_graph_sum_chain_arcs(full);
    ips_cross_arc_weighting_init(&m.arcs, scenario);
    size_t chains = (size_t)full->chain_count + 1;
    m.reached = malloc(chains * sizeof(*m.reached));
    m.last = malloc(chains * sizeof(*m.last));
    m.bytes = malloc(chains * sizeof(*m.bytes));
    m.join = ips_alloc_large((size_t)full->node_count + 1, sizeof(*m.join));
    if (!m.reached || !m.last || !m.bytes || !m.join)
        rc = no_memory(err);
    if (rc == 0)
        rc = compute_and_write_joins(&m, err);
    out->count = m.joins;
    out->arc_count = m.arcs_made;
    free(m.reached);
    free(m.last);
    free(m.bytes);
    ips_free_large(m.join);
    ips_est_release(&m.e);
    if (rc < 0)
        ips_joins_release(out);
    return rc;
}

int ips_joins_encode_send_receive_times(const struct ips_graph *full,
                                        struct ips_joins *out,
                                        struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->total = ips_graph_sum_chain_arcs(full);
    struct ips_joins_head h = {.flags = IPS_JOINS_MOMENTS,
                               .total = out->total,
                               .ends = greatest_channel_end_plus_one(full),
                               .ins = full->in_count,
                               .outs = full->out_count};
    int rc = write_counts_of_joins_head(&out->head, &h, err);
    if (rc == 0)
        rc = write_remote_sends(NULL, full, h.flags, &out->head, err);
    if (rc == 0)
        rc = write_remote_receives(full, h.flags, h.ends, &out->head, err);
    if (rc < 0)
        ips_joins_release(out);
    return rc;
}

int ips_joins_decode_receive_values(const uint8_t *data, size_t len,
                                    uint32_t count, uint64_t **value,
                                    struct ips_err *err)
{
    uint8_t tail[2 * IPS_VARINT_BYTES];
    const uint8_t *at = data, *end = data + len;
    uint64_t last = 0, step;
    bool in_tail = false;
    *value = malloc(((size_t)count + 1) * sizeof(**value));
    if (!*value)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u values", count);
    uint32_t k = 0;
    for (; k < count && at < end; k++) {
        if (!in_tail && end - at < IPS_VARINT_BYTES) {
            size_t left = (size_t)(end - at);
            memset(tail, 0, sizeof(tail));
            memcpy(tail, at, left);
            at = tail;
            end = tail + left;
            in_tail = true;
        }
        at = ips_varint_read(at, &step);
        last = ips_add_zigzag_difference(last, step);
        (*value)[k] = last - 1; /* 0 becomes IPS_IN_ABSENT */
    }
    if (k == count && at == end)
        return 0;
    free(*value);
    *value = NULL;
    return ips_err_set(err, IPS_E_PROTOCOL, "not the bytes of %u values",
                       count);
}
