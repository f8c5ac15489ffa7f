/* Answers WALK letters: follows the critical path backwards within this
 * machine, for the master. */
#include <stdlib.h>
#include <string.h>

#include "slave/serve/cm_private.h"

/* Fills `a` with the next segments of j->cm->path: the last of those that were
 * not sent yet. */
int slave_cm_fill_next_path_segments(struct slave_graph_ask *j,
                                     Ips__CmAnswer *a)
{
    struct slave_cm *c = j->cm;
    uint64_t n =
        c->path_left < IPS_PIECE_ITEMS ? c->path_left : IPS_PIECE_ITEMS;
    if (!j->columns)
        j->columns = calloc((size_t)IPS_PIECE_ITEMS * 6, sizeof(uint32_t));
    if (!j->ns)
        j->ns = calloc(IPS_PIECE_ITEMS, sizeof(*j->ns));
    if (!j->columns || !j->ns)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    const struct ips_path_segment *s = c->path.seg + (c->path_left - n);
    for (uint64_t i = 0; i < n; i++) {
        j->columns[i] = s[i].kind;
        j->columns[IPS_PIECE_ITEMS + i] = s[i].xkind;
        j->columns[2 * IPS_PIECE_ITEMS + i] = s[i].chain;
        j->columns[3 * IPS_PIECE_ITEMS + i] = s[i].from;
        j->columns[4 * IPS_PIECE_ITEMS + i] = s[i].to;
        j->ns[i] = s[i].ns;
    }
    uint32_t **const column[] = {&a->kinds, &a->xkinds, &a->chains, &a->from,
                                 &a->to};
    size_t *const counts[] = {&a->n_kinds, &a->n_xkinds, &a->n_chains,
                              &a->n_from, &a->n_to};
    for (size_t i = 0; i < 5; i++) {
        *column[i] = j->columns + i * IPS_PIECE_ITEMS;
        *counts[i] = n;
    }
    a->ns = j->ns;
    a->n_ns = n;
    c->path_left -= n;
    a->more = c->path_left > 0;
    if (!a->more) {
        ips_path_release(&c->path);
        c->has_path = false;
    }
    return 0;
}

static int find_start_node_of_walk(struct slave_graph_ask *j,
                                   const struct slave_letter *l, uint32_t *node)
{
    const struct ips_cm_links *links = &j->cm->links;
    uint32_t p = IPS_CM_NONE;
    if (l->of_machine == UINT32_MAX) {
        *node = l->count < j->graph->b.g.node_count ? (uint32_t)l->count
                                                    : IPS_NO_NODE;
    } else {
        p = ips_cm_find_peer_index_of_machine(links, l->of_machine);
        *node = p != IPS_CM_NONE && l->count < links->peer[p].out_count
                    ? links->peer[p].out_node[l->count]
                    : IPS_NO_NODE;
    }
    if (*node == IPS_NO_NODE || !j->graph->has_est)
        return ips_err_set(
            &j->job.err, IPS_E_PROTOCOL,
            "asked to walk back from a message that was never sent");
    return 0;
}

int slave_cm_walk_back_and_answer(struct slave_graph_ask *j,
                                  const struct slave_letter *l)
{
    struct slave_cm *c = j->cm;
    const struct ips_graph *g = &j->graph->b.g;
    const struct ips_est *est = &j->graph->est;
    uint32_t node, stop;
    int rc = find_start_node_of_walk(j, l, &node);
    if (rc == 0)
        rc = ips_path_walk_back_and_store(&j->graph->view.g, &c->scenario, est,
                                          node, &c->path, &stop, &j->job.err);
    if (rc < 0)
        return rc;
    c->has_path = true;
    c->path_left = c->path.count;
    Ips__CmAnswer *a =
        slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__WALKED);
    a->node = node;
    a->node_chain = ips_chain_of(g, node);
    a->est_ns = est->est[node];
    if (stop != IPS_NO_NODE) {
        struct ips_cm_sender hop;
        rc = ips_cm_find_peer_and_link_of_node(&c->links, stop, &hop,
                                               &j->job.err);
        if (rc < 0)
            return rc;
        a->crosses = true;
        a->stop = stop;
        a->stop_chain = ips_chain_of(g, stop);
        a->stop_est_ns = est->est[stop];
        a->stop_xkind = g->xkind[stop];
        a->part = c->links.peer[hop.peer].machine;
        a->link = hop.link;
    }
    return slave_cm_fill_next_path_segments(j, a);
}
