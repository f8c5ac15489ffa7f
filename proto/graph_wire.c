#include "proto/graph_wire.h"

#include <stdlib.h>
#include <string.h>

/* ---- cutting a graph into pieces ------------------------------------ */

static uint32_t items_in_next_piece(uint32_t at, uint32_t count)
{
    uint32_t left = count - at;
    return left < IPS_PIECE_ITEMS ? left : IPS_PIECE_ITEMS;
}

void ips_wire_piece_release(struct ips_wire_piece *piece)
{
    free(piece->xpred);
    free(piece->site);
    memset(piece, 0, sizeof(*piece));
}

static void fill_chain_columns_of_piece(Ips__Subgraph *m,
                                        const struct ips_wire_graph *g,
                                        uint32_t at, uint32_t n)
{
    m->n_chain_count = m->n_chain_process = m->n_chain_pid = n;
    m->n_chain_tid = m->n_chain_thread = n;
    if (n == 0)
        return;
    m->chain_count = g->chain_nodes + at;
    m->chain_process = g->chain_process + at;
    m->chain_pid = g->chain_pid + at;
    m->chain_tid = g->chain_tid + at;
    m->chain_thread = g->chain_thread + at;
}

static int fill_piece_nodes(struct ips_wire_piece *piece,
                            const struct ips_wire_graph *g, uint32_t at,
                            uint32_t n, struct ips_err *err)
{
    Ips__Subgraph *m = &piece->msg;
    if (n == 0)
        return 0;
    if (!piece->xpred)
        piece->xpred = malloc(IPS_PIECE_ITEMS * sizeof(*piece->xpred));
    if (!piece->site && g->site)
        piece->site = malloc(IPS_PIECE_ITEMS * sizeof(*piece->site));
    if (!piece->xpred || (g->site && !piece->site))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a piece");
    for (uint32_t i = 0; i < n; i++) {
        /* On the wire 0 means "none"; IPS_WIRE_NO_NODE + 1 is 0 in 32 bits. */
        piece->xpred[i] = (uint32_t)(g->xpred[at + i] + 1);
        if (g->site)
            piece->site[i] = g->site[at + i] + 1;
    }
    m->kind = (ProtobufCBinaryData){.len = n, .data = g->kind + at};
    m->xkind = (ProtobufCBinaryData){.len = n, .data = g->xkind + at};
    m->n_w = m->n_xpred = m->n_xlen = n;
    m->w = g->w + at;
    m->xpred = piece->xpred;
    m->xlen = g->xlen + at;
    if (g->t_ns) {
        m->n_t_ns = n;
        m->t_ns = g->t_ns + at;
    }
    if (g->at) {
        m->n_at = n;
        m->at = g->at + at;
    }
    if (g->wait) {
        m->n_wait = n;
        m->wait = g->wait + at;
    }
    if (g->delay) {
        m->n_delay = n;
        m->delay = g->delay + at;
    }
    if (g->probe) {
        m->n_probe = n;
        m->probe = g->probe + at;
    }
    if (g->unended) {
        m->n_unended = n;
        m->unended = g->unended + at;
    }
    if (g->bytes) {
        m->n_bytes = n;
        m->bytes = g->bytes + at;
    }
    if (g->site) {
        m->n_site = n;
        m->site = piece->site;
    }
    return 0;
}

static void fill_piece_remote_ends(Ips__Subgraph *m,
                                   const struct ips_wire_graph *g,
                                   const struct ips_wire_cursor *at,
                                   uint32_t ins, uint32_t outs)
{
    if (ins > 0) {
        m->n_in_node = m->n_in_end = m->n_in_pos = ins;
        m->in_node = g->in_node + at->in;
        m->in_end = g->in_end + at->in;
        m->in_pos = g->in_pos + at->in;
    }
    if (outs > 0) {
        m->n_out_node = m->n_out_end = m->n_out_pos = m->n_out_len = outs;
        m->out_node = g->out_node + at->out;
        m->out_end = g->out_end + at->out;
        m->out_pos = g->out_pos + at->out;
        m->out_len = g->out_len + at->out;
    }
    if (outs > 0 && g->out_ns) {
        m->n_out_ns = outs;
        m->out_ns = g->out_ns + at->out;
    }
}

int ips_wire_fill_next_piece(const struct ips_wire_graph *g,
                             struct ips_wire_cursor *at,
                             struct ips_wire_piece *piece, bool *last,
                             struct ips_err *err)
{
    Ips__Subgraph *m = &piece->msg;
    ips__subgraph__init(m);
    uint32_t chains = items_in_next_piece(at->chain, g->chain_count);
    uint32_t nodes = items_in_next_piece(at->node, g->node_count);
    uint32_t ins = items_in_next_piece(at->in, g->in_count);
    uint32_t outs = items_in_next_piece(at->out, g->out_count);
    fill_chain_columns_of_piece(m, g, at->chain, chains);
    int rc = fill_piece_nodes(piece, g, at->node, nodes, err);
    if (rc < 0)
        return rc;
    fill_piece_remote_ends(m, g, at, ins, outs);
    at->chain += chains;
    at->node += nodes;
    at->in += ins;
    at->out += outs;
    *last = at->chain == g->chain_count && at->node == g->node_count &&
            at->in == g->in_count && at->out == g->out_count;
    if (*last) {
        m->total_cpu_ns = g->total_cpu_ns;
        m->end_count = g->end_count;
    }
    return 0;
}

/* ---- joining received pieces ---------------------------------------- */

void ips_wire_receiver_init(struct ips_wire_receiver *t, uint32_t max_nodes,
                            bool detail)
{
    memset(t, 0, sizeof(*t));
    t->max_nodes = max_nodes;
    t->detail = detail;
}

void ips_wire_receiver_release(struct ips_wire_receiver *t)
{
    struct ips_wire_graph *g = &t->g;
    void *all[] = {
        g->chain_nodes,  g->chain_process, g->chain_pid, g->chain_tid,
        g->chain_thread, g->kind,          g->xkind,     g->w,
        g->xlen,         g->t_ns,          g->xpred,     g->site,
        g->in_node,      g->in_end,        g->in_pos,    g->out_node,
        g->out_end,      g->out_len,       g->out_pos,   g->at,
        g->wait,         g->delay,         g->probe,     g->out_ns,
        g->bytes,        g->unended};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
    memset(t, 0, sizeof(*t));
}

/* Enlarges one of several parallel arrays. Returns false if there is no memory;
 * other arrays may be enlarged already, which does no harm. */
static bool reserve_array(void *slot, uint32_t cap, size_t item)
{
    void *old;
    memcpy(&old, slot, sizeof(old));
    void *bigger = realloc(old, (size_t)cap * item);
    if (!bigger)
        return false;
    memcpy(slot, &bigger, sizeof(bigger));
    /* cppcheck-suppress memleak ; *slot has it */
    return true;
}

/* Returns the capacity, in items, that arrays of `count` items need for `more`
 * items; 0 if that exceeds `max`. The caller stores the capacity once all
 * parallel arrays are enlarged. */
static uint32_t compute_array_capacity(uint32_t count, size_t more,
                                       uint32_t cap, uint32_t max)
{
    if (more > max || count > max - (uint32_t)more)
        return 0;
    uint32_t need = count + (uint32_t)more;
    if (need <= cap)
        return cap ? cap : 1;
    uint32_t twice = cap < max / 2 ? cap * 2 : max;
    return twice > need ? twice : need;
}

static int set_too_many_items_error(const struct ips_wire_receiver *t,
                                    const char *what, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_LIMIT,
                       "subgraph of more than %u %s: the limit of this "
                       "answer",
                       t->max_nodes, what);
}

static int set_err_no_memory(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a subgraph");
}

static int set_unequal_lengths_error(const char *what, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_PROTOCOL,
                       "subgraph: arrays of %s differ in length", what);
}

static void append_items(void *array, uint32_t at, const void *from, size_t n,
                         size_t item)
{
    if (n > 0)
        memcpy((uint8_t *)array + (size_t)at * item, from, n * item);
}

static int append_received_chains(struct ips_wire_receiver *t,
                                  const Ips__Subgraph *m, struct ips_err *err)
{
    struct ips_wire_graph *g = &t->g;
    size_t n = m->n_chain_count;
    if (m->n_chain_process != n || m->n_chain_pid != n || m->n_chain_tid != n ||
        m->n_chain_thread != n)
        return set_unequal_lengths_error("chains", err);
    uint32_t cap =
        compute_array_capacity(g->chain_count, n, t->chain_cap, t->max_nodes);
    if (cap == 0)
        return set_too_many_items_error(t, "chains", err);
    if (cap != t->chain_cap) {
        if (!reserve_array(&g->chain_nodes, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->chain_process, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->chain_pid, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->chain_tid, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->chain_thread, cap, sizeof(uint32_t)))
            return set_err_no_memory(err);
        t->chain_cap = cap;
    }
    uint32_t at = g->chain_count;
    append_items(g->chain_nodes, at, m->chain_count, n, sizeof(uint32_t));
    append_items(g->chain_process, at, m->chain_process, n, sizeof(uint32_t));
    append_items(g->chain_pid, at, m->chain_pid, n, sizeof(uint32_t));
    append_items(g->chain_tid, at, m->chain_tid, n, sizeof(uint32_t));
    append_items(g->chain_thread, at, m->chain_thread, n, sizeof(uint32_t));
    g->chain_count += (uint32_t)n;
    return 0;
}

static bool reserve_nodes(struct ips_wire_receiver *t, uint32_t cap)
{
    struct ips_wire_graph *g = &t->g;
    return reserve_array(&g->kind, cap, 1) &&
           reserve_array(&g->xkind, cap, 1) &&
           reserve_array(&g->w, cap, sizeof(uint64_t)) &&
           reserve_array(&g->xlen, cap, sizeof(uint64_t)) &&
           reserve_array(&g->xpred, cap, sizeof(uint32_t)) &&
           (!t->detail || (reserve_array(&g->t_ns, cap, sizeof(uint64_t)) &&
                           reserve_array(&g->site, cap, sizeof(uint32_t)))) &&
           (!t->times || (reserve_array(&g->at, cap, sizeof(uint64_t)) &&
                          reserve_array(&g->wait, cap, sizeof(uint64_t)))) &&
           (!t->delay || reserve_array(&g->delay, cap, sizeof(uint64_t))) &&
           (!t->probe || reserve_array(&g->probe, cap, sizeof(uint32_t))) &&
           (!t->unended || reserve_array(&g->unended, cap, sizeof(uint64_t))) &&
           (!t->sized || reserve_array(&g->bytes, cap, sizeof(uint64_t)));
}

static bool check_same_optional_arrays_as_first(struct ips_wire_receiver *t,
                                                const Ips__Subgraph *m,
                                                size_t n)
{
    if (t->g.node_count == 0 && n > 0) {
        t->times = m->n_at > 0;
        t->delay = m->n_delay > 0;
        t->probe = m->n_probe > 0;
        t->unended = m->n_unended > 0;
        t->sized = m->n_bytes > 0;
    }
    return m->n_at == (t->times ? n : 0) && m->n_wait == m->n_at &&
           (t->times || !t->delay) && m->n_delay == (t->delay ? n : 0) &&
           m->n_probe == (t->probe ? n : 0) &&
           m->n_unended == (t->unended ? n : 0) &&
           m->n_bytes == (t->sized ? n : 0);
}

static int append_node_arrays(struct ips_wire_receiver *t,
                              const Ips__Subgraph *m, struct ips_err *err)
{
    struct ips_wire_graph *g = &t->g;
    size_t n = m->kind.len;
    if (m->xkind.len != n || m->n_w != n || m->n_xpred != n || m->n_xlen != n ||
        m->n_t_ns != (t->detail ? n : 0) || m->n_site != (t->detail ? n : 0) ||
        !check_same_optional_arrays_as_first(t, m, n))
        return set_unequal_lengths_error("nodes", err);
    uint32_t cap =
        compute_array_capacity(g->node_count, n, t->node_cap, t->max_nodes);
    if (cap == 0)
        return set_too_many_items_error(t, "nodes", err);
    /* The first piece with nodes decides which optional arrays exist, so the
     * arrays are reserved then even if the capacity stays the same. */
    if (cap != t->node_cap || g->node_count == 0) {
        if (!reserve_nodes(t, cap))
            return set_err_no_memory(err);
        t->node_cap = cap;
    }
    uint32_t at = g->node_count;
    append_items(g->kind, at, m->kind.data, n, 1);
    append_items(g->xkind, at, m->xkind.data, n, 1);
    append_items(g->w, at, m->w, n, sizeof(uint64_t));
    append_items(g->xlen, at, m->xlen, n, sizeof(uint64_t));
    for (size_t i = 0; i < n; i++) {
        if (m->xpred[i] > UINT32_MAX)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "subgraph: predecessor beyond 2^32");
        g->xpred[at + i] = (uint32_t)m->xpred[i] - 1;
    }
    if (t->detail) {
        append_items(g->t_ns, at, m->t_ns, n, sizeof(uint64_t));
        for (size_t i = 0; i < n; i++)
            g->site[at + i] = m->site[i] - 1;
    }
    if (t->times) {
        append_items(g->at, at, m->at, n, sizeof(uint64_t));
        append_items(g->wait, at, m->wait, n, sizeof(uint64_t));
    }
    if (t->delay)
        append_items(g->delay, at, m->delay, n, sizeof(uint64_t));
    if (t->probe)
        append_items(g->probe, at, m->probe, n, sizeof(uint32_t));
    if (t->unended)
        append_items(g->unended, at, m->unended, n, sizeof(uint64_t));
    if (t->sized)
        append_items(g->bytes, at, m->bytes, n, sizeof(uint64_t));
    g->node_count += (uint32_t)n;
    return 0;
}

static int append_remote_receives_of_piece(struct ips_wire_receiver *t,
                                           const Ips__Subgraph *m,
                                           struct ips_err *err)
{
    struct ips_wire_graph *g = &t->g;
    size_t n = m->n_in_node;
    if (m->n_in_end != n || m->n_in_pos != n)
        return set_unequal_lengths_error("remote receives", err);
    uint32_t cap =
        compute_array_capacity(g->in_count, n, t->in_cap, t->max_nodes);
    if (cap == 0)
        return set_too_many_items_error(t, "remote receives", err);
    if (cap != t->in_cap) {
        if (!reserve_array(&g->in_node, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->in_end, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->in_pos, cap, sizeof(uint64_t)))
            return set_err_no_memory(err);
        t->in_cap = cap;
    }
    append_items(g->in_node, g->in_count, m->in_node, n, sizeof(uint32_t));
    append_items(g->in_end, g->in_count, m->in_end, n, sizeof(uint32_t));
    append_items(g->in_pos, g->in_count, m->in_pos, n, sizeof(uint64_t));
    g->in_count += (uint32_t)n;
    return 0;
}

static int append_remote_sends_of_piece(struct ips_wire_receiver *t,
                                        const Ips__Subgraph *m,
                                        struct ips_err *err)
{
    struct ips_wire_graph *g = &t->g;
    size_t n = m->n_out_node;
    if (g->out_count == 0 && n > 0)
        t->timed = m->n_out_ns > 0;
    if (m->n_out_end != n || m->n_out_pos != n || m->n_out_len != n ||
        m->n_out_ns != (t->timed ? n : 0))
        return set_unequal_lengths_error("remote sends", err);
    uint32_t cap =
        compute_array_capacity(g->out_count, n, t->out_cap, t->max_nodes);
    if (cap == 0)
        return set_too_many_items_error(t, "remote sends", err);
    if (cap != t->out_cap || g->out_count == 0) {
        if (!reserve_array(&g->out_node, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->out_end, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->out_len, cap, sizeof(uint32_t)) ||
            !reserve_array(&g->out_pos, cap, sizeof(uint64_t)) ||
            (t->timed && !reserve_array(&g->out_ns, cap, sizeof(uint64_t))))
            return set_err_no_memory(err);
        t->out_cap = cap;
    }
    append_items(g->out_node, g->out_count, m->out_node, n, sizeof(uint32_t));
    append_items(g->out_end, g->out_count, m->out_end, n, sizeof(uint32_t));
    append_items(g->out_len, g->out_count, m->out_len, n, sizeof(uint32_t));
    append_items(g->out_pos, g->out_count, m->out_pos, n, sizeof(uint64_t));
    if (t->timed)
        append_items(g->out_ns, g->out_count, m->out_ns, n, sizeof(uint64_t));
    g->out_count += (uint32_t)n;
    return 0;
}

int ips_wire_append_received_piece(struct ips_wire_receiver *t,
                                   const Ips__Subgraph *m, struct ips_err *err)
{
    int rc = append_received_chains(t, m, err);
    if (rc == 0)
        rc = append_node_arrays(t, m, err);
    if (rc == 0)
        rc = append_remote_receives_of_piece(t, m, err);
    if (rc == 0)
        rc = append_remote_sends_of_piece(t, m, err);
    if (m->total_cpu_ns)
        t->g.total_cpu_ns = m->total_cpu_ns;
    if (m->end_count)
        t->g.end_count = m->end_count;
    return rc;
}
