/* Graphs over the links of bench_links, as the daemons' wire form. */
#include "tests/bench/native/links.h"

#include <stdlib.h>

#include "slave/graphs/graph_lay.h"

static void *need(void *p)
{
    if (!p)
        links_die("memory");
    return p;
}

void links_send_graph(struct links_net *n, const struct ips_graph *g,
                      uint32_t ends)
{
    struct ips_wire_graph w = {0};
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    struct ips_err err = {0};
    uint8_t *packed = NULL;
    bool last = false;
    if (slave_graph_to_wire(&w, g, &err) < 0)
        links_die(err.msg);
    w.end_count = ends;
    while (!last) {
        if (ips_wire_fill_next_piece(&w, &at, &piece, &last, &err) < 0)
            links_die(err.msg);
        size_t len = ips__subgraph__get_packed_size(&piece.msg);
        packed = need(realloc(packed, len + 1));
        ips__subgraph__pack(&piece.msg, packed);
        links_send(n, n->count - 1, LINKS_PIECE, last, packed, len);
    }
    free(packed);
    ips_wire_piece_release(&piece);
    slave_graph_to_wire_release(&w);
}

void links_graph(struct ips_wire_receiver *t, struct ips_graph *g)
{
    struct ips_wire_graph *w = &t->g;
    struct ips_err err = {0};
    uint32_t first = 0;
    ips_graph_init(g);
    g->chains = need(calloc((size_t)w->chain_count + 1, sizeof(*g->chains)));
    g->in = need(calloc((size_t)w->in_count + 1, sizeof(*g->in)));
    g->out = need(calloc((size_t)w->out_count + 1, sizeof(*g->out)));
    for (uint32_t i = 0; i < w->chain_count; i++) {
        g->chains[i] = (struct ips_chain){.first = first,
                                          .count = w->chain_nodes[i],
                                          .process = w->chain_process[i],
                                          .pid = w->chain_pid[i],
                                          .tid = w->chain_tid[i],
                                          .thread = w->chain_thread[i]};
        first += w->chain_nodes[i];
    }
    for (uint32_t i = 0; i < w->in_count; i++)
        g->in[i] =
            (struct ips_remote_in){w->in_node[i], w->in_end[i], w->in_pos[i]};
    for (uint32_t i = 0; i < w->out_count; i++)
        g->out[i] = (struct ips_remote_out){w->out_node[i], w->out_end[i],
                                            w->out_pos[i], w->out_len[i]};
    g->chain_count = w->chain_count;
    g->node_count = w->node_count;
    g->in_count = w->in_count;
    g->out_count = w->out_count;
    g->kind = w->kind;
    g->xkind = w->xkind;
    g->w = w->w;
    g->xlen = w->xlen;
    g->xpred = w->xpred;
    w->kind = w->xkind = NULL;
    w->w = w->xlen = NULL;
    w->xpred = NULL;
    ips_wire_receiver_release(t);
    if (ips_graph_check_invariants(g, &err) < 0)
        links_die(err.msg);
}
