/* Graphs over the links of bench_links, as the daemons' wire form. */
#include "tests/bench/links.h"

#include <stdlib.h>

static void *need(void *p)
{
    if (!p)
        links_die("memory");
    return p;
}

static void lay_out(const struct ips_graph *g, uint32_t *origin, uint32_t ends,
                    struct ips_wire_graph *w)
{
    size_t chains = (size_t)g->chain_count + 1, in = (size_t)g->in_count + 1,
           out = (size_t)g->out_count + 1;
    *w = (struct ips_wire_graph){.chain_count = g->chain_count,
                                 .node_count = g->node_count,
                                 .in_count = g->in_count,
                                 .out_count = g->out_count,
                                 .kind = g->kind,
                                 .xkind = g->xkind,
                                 .w = g->w,
                                 .xpred = g->xpred,
                                 .xlen = g->xlen,
                                 .origin = origin,
                                 .end_count = ends};
    uint32_t **const words[] = {&w->chain_nodes, &w->chain_process,
                                &w->chain_pid, &w->chain_tid, &w->chain_thread};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        *words[i] = need(calloc(chains, 4));
    w->in_node = need(calloc(in, 4));
    w->in_end = need(calloc(in, 4));
    w->in_pos = need(calloc(in, 8));
    w->out_node = need(calloc(out, 4));
    w->out_end = need(calloc(out, 4));
    w->out_len = need(calloc(out, 4));
    w->out_pos = need(calloc(out, 8));
    for (uint32_t i = 0; i < g->chain_count; i++) {
        w->chain_nodes[i] = g->chains[i].count;
        w->chain_process[i] = g->chains[i].process;
        w->chain_pid[i] = g->chains[i].pid;
        w->chain_tid[i] = g->chains[i].tid;
        w->chain_thread[i] = g->chains[i].thread;
    }
    for (uint32_t i = 0; i < g->in_count; i++) {
        w->in_node[i] = g->in[i].node;
        w->in_end[i] = g->in[i].end;
        w->in_pos[i] = g->in[i].pos;
    }
    for (uint32_t i = 0; i < g->out_count; i++) {
        w->out_node[i] = g->out[i].node;
        w->out_end[i] = g->out[i].end;
        w->out_len[i] = g->out[i].len;
        w->out_pos[i] = g->out[i].pos;
    }
}

void links_send_graph(struct links_net *n, const struct ips_graph *g,
                      uint32_t *origin, uint32_t ends)
{
    struct ips_wire_graph w;
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    struct ips_err err = {0};
    uint8_t *packed = NULL;
    bool last = false;
    lay_out(g, origin, ends, &w);
    while (!last) {
        if (ips_wire_next(&w, &at, &piece, &last, &err) < 0)
            links_die(err.msg);
        size_t len = ips__subgraph__get_packed_size(&piece.msg);
        packed = need(realloc(packed, len + 1));
        ips__subgraph__pack(&piece.msg, packed);
        links_send(n, n->count - 1, LINKS_PIECE, last, packed, len);
    }
    free(packed);
    ips_wire_piece_release(&piece);
    void *const own[] = {w.chain_nodes, w.chain_process, w.chain_pid,
                         w.chain_tid,   w.chain_thread,  w.in_node,
                         w.in_end,      w.in_pos,        w.out_node,
                         w.out_end,     w.out_len,       w.out_pos};
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        free(own[i]);
}

void links_graph(struct ips_wire_taker *t, struct ips_graph *g,
                 uint32_t **origin)
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
    *origin = w->origin;
    w->kind = w->xkind = NULL;
    w->w = w->xlen = NULL;
    w->xpred = w->origin = NULL;
    ips_wire_taker_release(t);
    if (ips_graph_check(g, &err) < 0)
        links_die(err.msg);
}
