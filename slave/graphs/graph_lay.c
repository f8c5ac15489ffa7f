/* Converts a graph to the form in which it is sent; see graph_lay.h. */
#include "slave/graphs/graph_lay.h"

#include <stdlib.h>

void slave_graph_to_wire_release(struct ips_wire_graph *w)
{
    void *const own[] = {w->chain_nodes, w->chain_process, w->chain_pid,
                         w->chain_tid,   w->chain_thread,  w->in_node,
                         w->in_end,      w->in_pos,        w->out_node,
                         w->out_end,     w->out_len,       w->out_pos,
                         w->out_ns};
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        free(own[i]);
}

static void copy_remote_arcs(struct ips_wire_graph *w,
                             const struct ips_graph *g)
{
    for (uint32_t i = 0; i < g->in_count; i++) {
        w->in_node[i] = g->in[i].node;
        w->in_end[i] = g->in[i].end;
        w->in_pos[i] = g->in[i].pos;
    }
    for (uint32_t i = 0; i < g->out_count; i++) {
        w->out_node[i] = g->out[i].node;
        w->out_end[i] = g->out[i].end;
        w->out_pos[i] = g->out[i].pos;
        w->out_len[i] = g->out[i].len;
        if (w->out_ns)
            w->out_ns[i] = g->out_ns[i];
    }
    w->in_count = g->in_count;
    w->out_count = g->out_count;
}

int slave_graph_to_wire(struct ips_wire_graph *w, const struct ips_graph *g,
                        struct ips_err *err)
{
    size_t n = (size_t)g->chain_count + 1, in = (size_t)g->in_count + 1,
           out = (size_t)g->out_count + 1;
    w->chain_nodes = calloc(n, 4);
    w->chain_process = calloc(n, 4);
    w->chain_pid = calloc(n, 4);
    w->chain_tid = calloc(n, 4);
    w->chain_thread = calloc(n, 4);
    w->in_node = calloc(in, 4);
    w->in_end = calloc(in, 4);
    w->in_pos = calloc(in, 8);
    w->out_node = calloc(out, 4);
    w->out_end = calloc(out, 4);
    w->out_len = calloc(out, 4);
    w->out_pos = calloc(out, 8);
    w->out_ns = g->out_ns ? calloc(out, 8) : NULL;
    if (!w->chain_nodes || !w->chain_process || !w->chain_pid ||
        !w->chain_tid || !w->chain_thread || !w->in_node || !w->in_end ||
        !w->in_pos || !w->out_node || !w->out_end || !w->out_len ||
        !w->out_pos || (g->out_ns && !w->out_ns))
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < g->chain_count; i++) {
        w->chain_nodes[i] = g->chains[i].count;
        w->chain_process[i] = g->chains[i].process;
        w->chain_pid[i] = g->chains[i].pid;
        w->chain_tid[i] = g->chains[i].tid;
        w->chain_thread[i] = g->chains[i].thread;
    }
    copy_remote_arcs(w, g);
    w->chain_count = g->chain_count;
    w->node_count = g->node_count;
    w->kind = g->kind;
    w->xkind = g->xkind;
    w->w = g->w;
    w->xpred = g->xpred;
    w->xlen = g->xlen;
    return 0;
}
