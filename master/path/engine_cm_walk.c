/*
 * Walks the path back over the slaves. Each slave walks back within its
 * subgraph, from the END node or from the send of the last message, to the
 * receive of a message from another machine, which it reports. The pieces
 * arrive in reverse order and are reversed at the end.
 */
#include <inttypes.h>
#include <string.h>

#include "master/path/engine_cm.h"

static void send_walk_request(struct query *q, uint32_t part, uint32_t of_part,
                              uint64_t count)
{
    struct path_data *d = path_data_of(q);
    Ips__CmMessage m = IPS__CM_MESSAGE__INIT;
    d->cm->walk_machine = part;
    d->cm->walk_more = false;
    m.part = of_part;
    m.count = count;
    cm_send_message(q, q->gather.active[part], &m, IPS__CM_MESSAGE__KIND__WALK);
}

void cm_walk_begin(struct query *q, uint32_t part, uint32_t node)
{
    struct path_data *d = path_data_of(q);
    d->cm->crossing = false;
    d->cm->hops = 0;
    send_walk_request(q, part, UINT32_MAX, node);
}

/* Returns true if piece i is the time before the first node of a chain that no
 * recorded thread started (only in `wall`). */
static bool is_piece_of_time_before_chain_start(const Ips__CmAnswer *a,
                                                size_t i)
{
    return a->kinds[i] == IPS_SEG_COMPUTE && a->from[i] == IPS_NO_NODE;
}

static bool are_pieces_valid(const struct machine_share *p,
                             const Ips__CmAnswer *a)
{
    size_t n = a->n_kinds;
    if (a->n_xkinds != n || a->n_chains != n || a->n_from != n ||
        a->n_to != n || a->n_ns != n || a->node >= p->sync->nodes ||
        a->node_chain >= p->t.thread_count)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (a->kinds[i] > IPS_SEG_EXTERNAL || a->xkinds[i] > IPS_X_LAST ||
            a->chains[i] >= p->t.thread_count || a->to[i] >= p->sync->nodes ||
            (a->from[i] >= p->sync->nodes &&
             !is_piece_of_time_before_chain_start(a, i)))
            return false;
    }
    return !a->crosses ||
           (a->stop < p->sync->nodes && a->stop_chain < p->t.thread_count &&
            a->stop_xkind <= IPS_X_LAST);
}

static struct path_thread thread_of_chain(const struct machine_share *p,
                                          uint32_t chain)
{
    const Ips__ThreadRow *t = p->t.threads[chain];
    return (struct path_thread){
        .machine = p->number, .process = t->process, .tid = t->tid};
}

static bool push_pieces(struct path_data *d, const struct machine_share *p,
                        const Ips__CmAnswer *a)
{
    uint64_t base = engine_data_of_machine(p)->base;
    bool ok = true;
    for (size_t i = a->n_kinds; i-- > 0 && ok;) {
        const struct path_piece piece = {
            .kind = (uint8_t)a->kinds[i],
            .xkind = (uint8_t)a->xkinds[i],
            .at = thread_of_chain(p, a->chains[i]),
            .from = is_piece_of_time_before_chain_start(a, i)
                        ? IPS_NO_NODE
                        : (uint32_t)(base + a->from[i]),
            .to = (uint32_t)(base + a->to[i]),
            .ns = a->ns[i]};
        ok = engine_append_or_merge_piece(d, piece.at, &piece);
    }
    return ok;
}

/* Adds the piece for the message between the previous machine's walk and this
 * one; its sending node is known now. */
static int append_message_between_machines(struct path_data *d,
                                           const struct machine_share *p,
                                           const Ips__CmAnswer *a,
                                           struct ips_err *err)
{
    struct cm_run *r = d->cm;
    if (a->est_ns > r->cross_est)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "a message arrives before it was sent");
    r->cross.from = (uint32_t)(engine_data_of_machine(p)->base + a->node);
    r->cross.ns = r->cross_est - a->est_ns;
    r->crossing = false;
    if (!engine_append_or_merge_piece(d, thread_of_chain(p, a->node_chain),
                                      &r->cross))
        return ips_err_set(err, IPS_E_NO_MEMORY, "%s", d->err.msg);
    return 0;
}

/* Remembers the message over which the walk leaves this machine. All answers of
 * one machine's walk contain it; that of the first answer is used. */
static void remember_walk_exit(struct cm_run *r, const struct machine_share *p,
                               const Ips__CmAnswer *a)
{
    r->next_crosses = a->crosses;
    r->next_machine = a->part;
    r->next_link = a->link;
    r->next_est = a->stop_est_ns;
    if (!a->crosses)
        return;
    r->next_cross = (struct path_piece){
        .kind = IPS_SEG_MESSAGE,
        .xkind = (uint8_t)a->stop_xkind,
        .at = thread_of_chain(p, a->stop_chain),
        .to = (uint32_t)(engine_data_of_machine(p)->base + a->stop)};
}

/* Reverses the pieces, which are in the order from END to START. */
static void reverse_pieces(struct path_data *d)
{
    for (uint64_t a = 0, b = d->work_count; a + 1 < b; a++) {
        struct path_piece swap = d->work[--b];
        d->work[b] = d->work[a];
        d->work[a] = swap;
    }
}

int cm_push_walk_answer_and_continue(struct query *q, struct machine_share *p,
                                     const Ips__CmAnswer *a,
                                     struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    struct cm_run *r = d->cm;
    int rc = 0;
    if (!r->over || p->number != r->walk_machine ||
        d->work_count + a->n_kinds > 2 * d->nodes + 2 ||
        !(r->walk_more ? a->n_kinds > 0 : are_pieces_valid(p, a)) ||
        (a->crosses && a->part >= q->gather.count))
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its piece of the path cannot be");
    if (!r->walk_more) {
        if (r->crossing)
            rc = append_message_between_machines(d, p, a, err);
        remember_walk_exit(r, p, a);
    } else if (!are_pieces_valid(p, a)) {
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its piece of the path cannot be");
    }
    if (rc < 0)
        return rc;
    if (!push_pieces(d, p, a))
        return ips_err_set(err, IPS_E_NO_MEMORY, "%s", d->err.msg);
    r->walk_more = a->more;
    if (a->more)
        return 0;
    if (!r->next_crosses) {
        reverse_pieces(d);
        cm_submit_shares_of_walked_scenario(q);
        return 0;
    }
    if (++r->hops > r->links)
        return ips_err_set(err, IPS_E_STALLED,
                           "the path crosses between machines more often than "
                           "there are messages: a cycle");
    r->cross = r->next_cross;
    r->cross_est = r->next_est;
    r->crossing = true;
    send_walk_request(q, r->next_machine, p->number, r->next_link);
    return 0;
}
