/* Work queues of the replayed run (analysis/replay/queue.h). For each setup a
 * replay decides again which worker takes which piece of work. The result is
 * then computed by replaying the graph in that order. */
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/order_dependent.h"
#include "master/predict/predict.h"

#define FREE_ORDER ((1u << IPS_ORDER_SOURCES) | (1u << IPS_ORDER_WRITERS))

/* Finds the queues that are protected by locks. A thread that belongs to a
 * queue with a dispatcher is in no other queue. */
static int find_work_queues_under_locks(struct predict_run *run, bool *busy,
                                        struct ips_err *err)
{
    const struct ips_graph *g = &run->replay.g;
    struct ips_queues *q = &run->queues;
    memset(busy, 0, g->chain_count * sizeof(*busy));
    for (uint32_t k = 0; k < q->queue_count; k++)
        busy[q->queue[k].chain] = true;
    for (uint32_t w = 0; w < q->worker_count; w++)
        busy[q->worker[w].chain] = true;
    return ips_lock_queues_find(g, predict_locks_to_replay(run),
                                run->lock_at_ns, busy, &q->lock_queues, err);
}

int predict_find_queues(struct predict_run *run, const uint32_t *of_chain,
                        struct ips_err *err)
{
    const struct ips_graph *g = &run->replay.g;
    bool *any = calloc((size_t)g->chain_count + 1, sizeof(*any));
    if (!any)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u threads", g->chain_count);
    for (uint32_t c = 0; c < g->chain_count; c++)
        any[c] = (of_chain[c] & FREE_ORDER) != 0;
    int rc = ips_queues_find(g, any, &run->queues, err);
    if (rc == 0 && run->all_locks && predict_locks_to_replay(run))
        rc = find_work_queues_under_locks(run, any, err);
    free(any);
    return rc;
}

void predict_queued_graph_release(struct predict_queued *q)
{
    ips_queued_graph_release(&q->made);
    free(q->node_of);
    free(q->node_to);
    free(q->node_made);
    free(q->lock_event);
    memset(q, 0, sizeof(*q));
}

static int compare_lock_events_by_node(const void *va, const void *vb)
{
    const struct ips_replay_lock_event *a = va, *b = vb;
    return (a->node > b->node) - (a->node < b->node);
}

static uint32_t node_in_new_order(const struct predict_queued *q, uint32_t node)
{
    return node == IPS_NO_NODE ? IPS_NO_NODE : q->made.to[node];
}

/* Copies the run with its nodes in the new order. */
static int copy_run_with_reordered_nodes(const struct predict_run *run,
                                         struct predict_queued *q,
                                         struct ips_err *err)
{
    size_t nodes = (size_t)run->replay.g.node_count + 1;
    size_t whole = (size_t)run->whole->node_count + 1;
    uint32_t events = run->locks.event_count;
    q->run = *run;
    q->run.recorded = run;
    q->run.recorded_of = q->made.of;
    q->run.recorded_to = q->made.to;
    q->run.replay.g = q->made.g;
    q->node_of = calloc(nodes, sizeof(*q->node_of));
    q->node_to = calloc(whole, sizeof(*q->node_to));
    q->node_made = calloc(nodes, 1);
    q->lock_event = calloc((size_t)events + 1, sizeof(*q->lock_event));
    if (!q->node_of || !q->node_to || !q->node_made || !q->lock_event)
        return ips_err_set(err, IPS_E_NO_MEMORY, "replay of %zu nodes", nodes);
    for (uint32_t k = 0; k + 1 < nodes; k++) {
        q->node_of[k] = run->replay.of[q->made.of[k]];
        q->node_made[k] = run->replay.made[q->made.of[k]];
    }
    for (uint32_t i = 0; i + 1 < whole; i++)
        q->node_to[i] = node_in_new_order(q, run->replay.to[i]);
    for (uint32_t k = 0; k < events; k++) {
        q->lock_event[k] = run->lock_event[k];
        q->lock_event[k].node = q->made.to[run->lock_event[k].node];
    }
    qsort(q->lock_event, events, sizeof(*q->lock_event),
          compare_lock_events_by_node);
    q->run.replay.of = q->node_of;
    q->run.replay.to = q->node_to;
    q->run.replay.made = q->node_made;
    q->run.locks.event = q->lock_event;
    q->run.command = node_in_new_order(q, run->command);
    q->run.scenario.goal = node_in_new_order(q, run->scenario.goal);
    q->run.scenario_then.goal = node_in_new_order(q, run->scenario_then.goal);
    return 0;
}

static void count_work_items_and_reassigned_ones(const struct ips_queues *is,
                                                 const uint32_t *took,
                                                 const uint32_t *piece_worker,
                                                 struct predict_queued *q)
{
    q->pieces = is->lock_queues.piece_count;
    for (uint32_t p = 0; p < is->lock_queues.piece_count; p++)
        q->anew += piece_worker[p] != is->lock_queues.piece[p].worker;
    for (uint32_t t = 0; t < is->turn_count; t++) {
        q->pieces += is->turn[t].gives != IPS_QUEUE_NONE;
        q->anew += is->block[took[t]].worker !=
                       is->block[is->turn[t].taken_block].worker &&
                   is->turn[t].gives != IPS_QUEUE_NONE;
    }
}

int predict_reorder_queues_by_replay(const struct predict_run *run,
                                     const struct ips_replay_ask *ask,
                                     struct predict_queued *out,
                                     struct ips_err *err)
{
    struct ips_replay_ask order = *ask;
    struct ips_replay r = {0};
    struct ips_err why = {0};
    memset(out, 0, sizeof(*out));
    if (!predict_has_queues(run) || ask->move_count)
        return 0;
    order.relabel = false;
    order.queues = &run->queues;
    int rc = ips_replay(&run->replay.g, &run->scenario_then, &order, &r, &why);
    if (rc == IPS_E_STALLED)
        return 0; /* threads also wait for something other than the queues */
    if (rc < 0) {
        *err = why;
        return rc;
    }
    count_work_items_and_reassigned_ones(&run->queues, r.taken_block,
                                         r.piece_worker, out);
    rc = ips_queued_graph_make_reordered(&run->replay.g, &run->queues,
                                         r.taken_block, r.piece_worker,
                                         &out->made, err);
    if (rc == 0)
        rc = copy_run_with_reordered_nodes(run, out, err);
    ips_replay_release(&r);
    if (rc < 0)
        predict_queued_graph_release(out);
    else
        out->is_stable = true;
    return rc;
}
