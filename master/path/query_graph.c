/*
 * The whole activity graph, one row per node, with node numbers that run
 * through all machines, so that anyone can recompute an answer from it.
 * Message times are 0. All weights are those of the default scenario, also for
 * external arcs. Each row has the weights of the weightings cpu, sched and, on
 * one machine, wall. Category 3 of IPS-9.
 *
 * With a window: the nodes inside it, and the nodes with an arc that overlaps
 * it. Whether an end of an arc is inside is decided by the clock of its own
 * machine. The row says which end of the arc the window cuts off. Numbers and
 * weights are those of the whole graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/view.h"
#include "common/types.h"
#include "master/path/engine.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"

#define NODES_A_REPLY 8192

static const char *const node_kinds[] = {
#define X(name, number) [number] = #name,
    IPS_NODE_KINDS(X)
#undef X
};
static const char *const xkinds[] = {
#define X(name, number, text) [number] = (text),
    IPS_XKINDS(X)
#undef X
};

/* The names of one machine's channels in readable form, indexed by end. */
struct channel_names {
    const char **name;
    uint32_t count;
};

struct graph_window {
    uint64_t from_ns, to_ns; /* the window contains from < t <= to */
};
struct graph_data {
    /* must be first: the functions of the engines use it as path_data */
    struct path_data path;
    struct channel_names *names; /* [machines] channel names of each machine */
    uint32_t chain;              /* chain of the next node to be sent */
    /* [machines] the window by each machine's own clock, in ns; NULL: no
     * window */
    struct graph_window *window;
    /* [count] numbers of the nodes to be sent; NULL: all nodes */
    uint32_t *shown_node;
    uint32_t count;
    /* path.merged with the weights of these weightings; own_w is NULL if the
     * weights are not known */
    struct ips_view sched, wall;
};

static struct graph_data *graph_data_of(struct query *q)
{
    return q->data;
}

static void free_channel_names(struct query *q)
{
    struct graph_data *d = graph_data_of(q);
    for (uint32_t i = 0; d->names && i < q->gather.count; i++)
        free(d->names[i].name);
    free(d->names);
    d->names = NULL;
}

static bool make_channel_names(struct query *q)
{
    struct graph_data *d = graph_data_of(q);
    d->names = calloc(q->gather.count + 1, sizeof(*d->names));
    for (uint32_t i = 0; d->names && i < q->gather.count; i++) {
        const struct machine_tables *t = &q->gather.active[i]->t;
        uint32_t most = 0;
        for (uint32_t k = 0; k < t->channel_count; k++)
            most = t->channels[k]->end > most ? t->channels[k]->end : most;
        if (most >= ENGINE_MAX_NODES)
            most = 0;
        d->names[i].name = calloc((size_t)most + 1, sizeof(char *));
        if (!d->names[i].name)
            return false;
        d->names[i].count = most + 1;
        for (uint32_t k = 0; k < t->channel_count; k++) {
            if (t->channels[k]->end <= most)
                d->names[i].name[t->channels[k]->end] = t->channels[k]->name;
        }
    }
    return d->names != NULL;
}

static const char *channel_name(struct query *q, uint32_t part, uint32_t site)
{
    const struct channel_names *n = &graph_data_of(q)->names[part];
    return site < n->count && n->name[site] ? n->name[site] : "";
}

/* ---- nodes inside the window --------------------------------------------- */

static bool make_machine_windows(struct query *q)
{
    const Ips__GraphAsk *ask = q->request->graph;
    struct graph_data *d = graph_data_of(q);
    if (!ask->from_ns && !ask->to_ns)
        return true;
    d->window = calloc(q->gather.count + 1u, sizeof(*d->window));
    for (uint32_t i = 0; d->window && i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        uint64_t from = ask->from_ns, to = ask->to_ns;
        query_get_machine_window(q, p, &from, &to);
        d->window[i].from_ns = from ? ips_add_sat(p->sync->first_ns, from) : 0;
        d->window[i].to_ns =
            to ? ips_add_sat(p->sync->first_ns, to) : UINT64_MAX;
    }
    return d->window != NULL;
}

enum window_side { BEFORE, INSIDE, AFTER };

static enum window_side window_side_of(const struct query *q, uint32_t part,
                                       uint32_t node)
{
    const struct graph_data *d = graph_data_of((struct query *)(uintptr_t)q);
    const struct ips_graph *g = &d->path.merged;
    uint64_t at = g->at ? g->at[node] : g->t_ns[node];
    const struct graph_window *w = &d->window[part];
    /* The window excludes its start time, which belongs to the window before
     * it; but a window from 0 includes it. */
    if (w->from_ns && at <= w->from_ns)
        return BEFORE;
    return at <= w->to_ns ? INSIDE : AFTER;
}

/* Says in words which part of an arc the window cuts off. The two ends may have
 * different clocks, so an arc may end before it starts. */
static const char *text_of_arc_ends_outside_window(enum window_side begin,
                                                   enum window_side end)
{
    if (begin == INSIDE)
        return end == INSIDE ? "none" : "end";
    if (end == INSIDE)
        return "begin";
    return begin == BEFORE && end == AFTER ? "both" : "all";
}

/* Sets *arc and *cross to the part of the node's chain arc and cross arc that
 * the window cuts off (text_of_arc_ends_outside_window), or to "" for an arc
 * that does not exist. Returns whether the node is to be sent. */
static bool check_node_in_window_and_get_arc_cuts(const struct query *q,
                                                  uint32_t i,
                                                  const struct ips_chain *c,
                                                  const char **arc,
                                                  const char **cross)
{
    const struct graph_data *d = graph_data_of((struct query *)(uintptr_t)q);
    const struct ips_graph *g = &d->path.merged;
    uint32_t x = g->xpred[i];
    *arc = *cross = "";
    if (!d->window)
        return true;
    enum window_side end = window_side_of(q, c->machine, i);
    if (i != c->first)
        *arc = text_of_arc_ends_outside_window(
            window_side_of(q, c->machine, i - 1), end);
    if (x != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE)
        *cross = text_of_arc_ends_outside_window(
            window_side_of(q, g->chains[ips_chain_of(g, x)].machine, x), end);
    return end == INSIDE || (**arc && strcmp(*arc, "all") != 0) ||
           (**cross && strcmp(*cross, "all") != 0);
}

/* In the worker: chooses the nodes to be sent. */
static int choose_nodes_to_send(struct query *q)
{
    struct graph_data *d = graph_data_of(q);
    const struct ips_graph *g = &d->path.merged;
    const char *arc, *cross;
    d->count = g->node_count;
    if (!d->window)
        return 0;
    d->shown_node =
        malloc(((size_t)g->node_count + 1) * sizeof(*d->shown_node));
    if (!d->shown_node)
        return ips_err_set(&d->path.err, IPS_E_NO_MEMORY,
                           "no memory for a window");
    d->count = 0;
    for (uint32_t k = 0; k < g->chain_count; k++) {
        const struct ips_chain *c = &g->chains[k];
        for (uint32_t i = c->first; i < c->first + c->count; i++) {
            if (check_node_in_window_and_get_arc_cuts(q, i, c, &arc, &cross))
                d->shown_node[d->count++] = i;
        }
    }
    return 0;
}

/* ---- sending the nodes --------------------------------------------------- */

/* Fills in the weights of node i in the weightings sched and wall. */
static void fill_sched_and_wall_weights(struct query *q, uint32_t i, bool first,
                                        bool present, Ips__GraphNode *out)
{
    const struct graph_data *d = graph_data_of(q);
    struct ips_scenario scenario =
        path_data_of(q)->scenarios[SCENARIO_MAIN].scenario;
    bool there;
    out->arc_sched_ns = out->arc_wall_ns = IPS_UNMEASURED;
    out->xarc_sched_ns = out->xarc_wall_ns = IPS_UNMEASURED;
    if (d->sched.own_w) {
        scenario.weighting = IPS_WEIGH_SCHED;
        uint64_t x = ips_cross_arc_weight(&d->sched.g, i, &scenario, &there);
        out->arc_sched_ns = first ? IPS_UNMEASURED : d->sched.own_w[i];
        out->xarc_sched_ns = present ? x : IPS_UNMEASURED;
    }
    /* In `wall` a chain's first node has a weight too: the time until the chain
     * started. */
    if (d->wall.own_w) {
        scenario.weighting = IPS_WEIGH_WALL;
        uint64_t x = ips_cross_arc_weight(&d->wall.g, i, &scenario, &there);
        out->arc_wall_ns = d->wall.own_w[i];
        out->xarc_wall_ns = present ? x : IPS_UNMEASURED;
    }
}

static void fill_node(struct query *q, uint32_t i, const struct ips_chain *c,
                      Ips__GraphNode *out)
{
    const struct path_data *d = path_data_of(q);
    const struct ips_graph *g = &d->merged;
    bool present;
    /* An idle arc does not count in the default scenario: it has weight 0 and
     * so does not change the path. */
    uint64_t xw = ips_cross_arc_weight(
        g, i, &d->scenarios[SCENARIO_MAIN].scenario, &present);
    present = g->xpred[i] != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE;
    ips__graph_node__init(out);
    out->id = i;
    out->machine = ips_unconst_text(q->gather.active[c->machine]->machine);
    out->pid = c->pid;
    out->tid = c->tid;
    out->kind = ips_unconst_text(node_kinds[g->kind[i]]);
    out->pred = i == c->first ? IPS_UNMEASURED : i - 1;
    out->arc_cpu_ns = i == c->first ? IPS_UNMEASURED : g->w[i];
    out->arc_probe_ns =
        i == c->first || !g->probe ? IPS_UNMEASURED : g->probe[i];
    out->xpred = present ? g->xpred[i] : IPS_UNMEASURED;
    out->xarc_cpu_ns = present ? xw : IPS_UNMEASURED;
    out->xkind = ips_unconst_text(present ? xkinds[g->xkind[i]] : "");
    fill_sched_and_wall_weights(q, i, i == c->first, present, out);
    out->t_ns = g->t_ns[i];
    out->channel = ips_unconst_text(channel_name(q, c->machine, g->site[i]));
    /* a receive from an unrecorded sender has bytes but no arc */
    bool alone = g->kind[i] == IPS_NODE_RECV && g->xkind[i] == IPS_X_NONE &&
                 g->xlen[i] > 0;
    out->bytes = alone || (g->xkind[i] == IPS_X_DATA && present)
                     ? g->xlen[i]
                     : IPS_UNMEASURED;
}

/* Fills `rows` with the next nodes to be sent, at most `count`. */
static uint32_t fill_rows_with_next_nodes(struct query *q, uint32_t count,
                                          Ips__GraphNode *rows)
{
    struct path_data *d = path_data_of(q);
    struct graph_data *gd = graph_data_of(q);
    uint32_t n = 0;
    for (; n < count && d->sent < gd->count; n++) {
        uint32_t i =
            gd->shown_node ? gd->shown_node[d->sent] : (uint32_t)d->sent;
        const struct ips_chain *c = &d->merged.chains[gd->chain];
        const char *arc, *cross;
        while (i >= c->first + c->count)
            c = &d->merged.chains[++gd->chain];
        (void)check_node_in_window_and_get_arc_cuts(q, i, c, &arc, &cross);
        fill_node(q, i, c, &rows[n]);
        rows[n].arc_cut = ips_unconst_text(arc);
        rows[n].xarc_cut = ips_unconst_text(cross);
        d->sent++;
    }
    return n;
}

static void send_nodes(struct query *q, uint32_t count, bool last)
{
    Ips__GraphNode *rows = calloc(count + 1, sizeof(*rows));
    Ips__GraphNode **list = calloc(count + 1, sizeof(*list));
    if (rows && list) {
        for (uint32_t k = 0; k < count; k++)
            list[k] = &rows[k];
        Ips__GraphAnswer answer = IPS__GRAPH_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        answer.n_nodes = fill_rows_with_next_nodes(q, count, rows);
        answer.from_ns = q->request->graph->from_ns;
        answer.to_ns = q->request->graph->to_ns;
        answer.nodes = list;
        reply.answer_case = IPS__REPLY__ANSWER_GRAPH;
        reply.graph = &answer;
        if (last)
            query_answer(q, &reply);
        else
            query_send_partial_reply(q, &reply);
    } else {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    }
    free(rows);
    free(list);
}

/* Sends the last reply, or an error if nodes are missing: an incomplete graph
 * must not be taken for the whole one. */
static void send_last_graph_reply_or_missing_error(struct query *q)
{
    char missing[800];
    struct ips_err err = {0};
    gather_write_missing_machines(q, missing, sizeof(missing));
    if (!*missing) {
        send_nodes(q, 0, true);
        return;
    }
    ips_err_set(&err, IPS_E_INCOMPLETE,
                "nodes of these machines are missing: %s", missing);
    query_fail(q, &err);
}

static void send_graph_nodes_until_backlog(struct query *q)
{
    struct path_data *d = path_data_of(q);
    while (!q->over && d->sent < graph_data_of(q)->count) {
        if (query_is_client_backlogged(q))
            return;
        uint64_t left = graph_data_of(q)->count - d->sent;
        send_nodes(q, (uint32_t)(left < NODES_A_REPLY ? left : NODES_A_REPLY),
                   false);
    }
    if (!q->over)
        send_last_graph_reply_or_missing_error(q);
}

static void merge_graphs_and_choose_nodes(struct query *q)
{
    struct graph_data *d = graph_data_of(q);
    struct ips_scenario scenario = d->path.scenarios[SCENARIO_MAIN].scenario;
    if (!engine_make_graphs(q) || !engine_merge_graphs(q) ||
        choose_nodes_to_send(q) < 0 || !d->path.merged.at)
        return;
    scenario.weighting = IPS_WEIGH_SCHED;
    int rc = ips_graph_make_view(&d->path.merged, &scenario, &d->sched,
                                 &d->path.err);
    if (rc < 0 || q->gather.count > 1)
        return; /* with several clocks, wall is not available here */
    scenario.weighting = IPS_WEIGH_WALL;
    scenario.clock = engine_data_of_machine(q->gather.active[0])->clock;
    rc =
        ips_graph_make_view(&d->path.merged, &scenario, &d->wall, &d->path.err);
    if (rc < 0)
        d->path.err.code = rc;
}

static void start_streaming_or_handle_failure(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        query_start_streaming(q);
}

static void make_names_and_submit_graph_merge(struct query *q)
{
    struct ips_err err = {0};
    int rc = 0;
    if (!make_channel_names(q) || !make_machine_windows(q))
        rc = ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc == 0)
        rc = query_submit_work(q, merge_graphs_and_choose_nodes,
                               start_streaming_or_handle_failure, &err);
    if (rc < 0)
        query_fail(q, &err);
}

static void set_origin_clock_and_fetch_subgraphs(struct query *q)
{
    struct ips_err err = {0};
    for (uint32_t i = 0; i < q->gather.count; i++) {
        q->gather.active[i]->own = calloc(1, sizeof(struct engine_machine));
        if (!q->gather.active[i]->own) {
            ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
            query_fail(q, &err);
            return;
        }
    }
    weighting_set_origin_clock(q);
    engine_fetch_subgraphs(q, true, make_names_and_submit_graph_merge);
}

static void graph_start(struct query *q)
{
    struct ips_err err = {0};
    struct graph_data *d = calloc(1, sizeof(*d));
    if (!d) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = d;
    const Ips__GraphAsk *ask = q->request->graph;
    if (ask->to_ns && ask->from_ns >= ask->to_ns) {
        ips_err_set(&err, IPS_E_USAGE, "the window is empty");
        query_fail(q, &err);
        return;
    }
    gather_start(q, GATHER_TABLE | GATHER_PEERS,
                 set_origin_clock_and_fetch_subgraphs);
}

static void graph_release(struct query *q)
{
    if (q->data) {
        free_channel_names(q);
        free(graph_data_of(q)->window);
        free(graph_data_of(q)->shown_node);
        ips_view_release(&graph_data_of(q)->sched);
        ips_view_release(&graph_data_of(q)->wall);
    }
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_graph = {.name = "graph",
                                       .exclusive = true,
                                       .start = graph_start,
                                       .release = graph_release,
                                       .pump = send_graph_nodes_until_backlog};
