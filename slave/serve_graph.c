/*
 * Answers about a run's graph: Sync, Table, Ends, Peers, Reduce, Finish,
 * Expand, Subgraph. Each ask is a job of one or more steps on the worker
 * (work.h). Sync names the graph's generation; Reduce, Finish, Expand,
 * Subgraph and Peers are about that very graph; Table and Ends take the newest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/contract.h"
#include "common/log.h"
#include "proto/graph_wire.h"
#include "proto/message.h"
#include "slave/slave.h"

struct graph_job {
    struct slave_job job;
    Ips__Envelope *ask; /* our own copy */
    struct slave_snapshot *snap;
    Ips__RunState *state; /* sync: our own copy */
    int64_t *user;        /* table: the one process of each end, or < 0 */
    struct slave_graph *graph;
    uint64_t revision;
    bool begun;
    uint32_t at; /* next row, end or part */
    /* One reply's worth of storage; what the reply points into. */
    void *rows;
    void **ptrs;
    union {
        Ips__SyncAnswer sync;
        Ips__TableAnswer table;
        Ips__EndsAnswer ends;
        Ips__PeersAnswer peers;
        Ips__FinishAnswer finish;
        Ips__ExpandAnswer expand;
    } answer;
    struct ips_reduced reduced;
    bool has_reduced;
    struct ips_wire_graph wire;
    struct ips_wire_cursor cursor;
    struct ips_wire_piece piece;
    struct ips_path path; /* of one asked pair */
    bool has_path;
    uint64_t path_at;
    uint32_t *columns; /* expand: kind, xkind, chain, from, to, part */
    uint64_t *ns;
};

static const Ips__Request *request_of(const struct graph_job *j)
{
    return j->ask->request;
}

static struct graph_job *of(struct slave_job *job)
{
    return (struct graph_job *)(void *)job;
}

static void wire_release(struct graph_job *j);

static void release(struct slave_job *job, struct slave_graphs *graphs)
{
    struct graph_job *j = of(job);
    if (j->graph)
        slave_graphs_put(graphs, j->graph);
    if (j->begun)
        wire_release(j);
    if (j->has_reduced)
        ips_reduced_release(&j->reduced);
    if (j->has_path)
        ips_path_release(&j->path);
    slave_snapshot_free(j->snap);
    free(j->rows);
    free(j->ptrs);
    free(j->columns);
    free(j->ns);
    free(j->user);
    if (j->state)
        ips__run_state__free_unpacked(j->state, NULL);
    ips__envelope__free_unpacked(j->ask, NULL);
}

/* Storage for `n` messages of `size` bytes and the pointers to them. */
static void *make_rows(struct graph_job *j, size_t n, size_t size)
{
    free(j->rows);
    free(j->ptrs);
    j->rows = calloc(n + 1, size);
    j->ptrs = calloc(n + 1, sizeof(*j->ptrs));
    if (!j->rows || !j->ptrs) {
        ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        j->ptrs[i] = (char *)j->rows + i * size;
    return j->rows;
}

/* ---- which graph ------------------------------------------------------ */

/* Table and Ends ask about what the last Sync built, though more may have come
 * since; Sync itself wants everything. */
static int newest(struct graph_job *j, struct slave_graphs *gs)
{
    struct slave_snapshot *snap = j->snap;
    struct slave_graph *last = NULL;
    if (j->graph)
        return 0;
    if (request_of(j)->ask_case != IPS__REQUEST__ASK_SYNC)
        for (struct slave_graph *g = gs->list; g; g = g->next)
            if (strcmp(g->snap->run, snap->run) == 0 &&
                (!last || g->generation > last->generation))
                last = g;
    if (last)
        return slave_graphs_find(gs, snap->run, last->generation, &j->graph,
                                 &j->job.err);
    j->snap = NULL; /* taken */
    return slave_graphs_get(gs, snap, &j->graph, &j->job.err);
}

/* The graph the asker means; the same one, unchanged, from step to step. */
static int by_generation(struct graph_job *j, struct slave_graphs *gs,
                         uint64_t generation)
{
    if (!j->graph) {
        int rc = slave_graphs_find(gs, request_of(j)->run, generation,
                                   &j->graph, &j->job.err);
        if (rc < 0)
            return rc;
        j->revision = j->graph->revision;
    }
    if (j->graph->revision != j->revision)
        return ips_err_set(&j->job.err, IPS_E_BUSY,
                           "run %s: its peers changed meanwhile: ask again",
                           request_of(j)->run);
    return 0;
}

static struct ips_lane lane_of(const Ips__Lane *l)
{
    struct ips_lane lane = {.mtime = {.scale_num = 1, .scale_den = 1}};
    if (!l)
        return lane;
    lane.mtime.base_ns = l->mtime_base_ns;
    lane.mtime.per_byte_q32 = l->mtime_per_byte_q32;
    lane.mtime.scale_num = l->scale_den ? l->scale_num : 1;
    lane.mtime.scale_den = l->scale_den ? l->scale_den : 1;
    lane.external = l->external <= IPS_EXTERNAL_OFF
                        ? (enum ips_external)l->external
                        : IPS_EXTERNAL_REPLY;
    return lane;
}

/* ---- sync --------------------------------------------------------------- */

static char unseen_note[] = "shared memory between processes, raw futexes and "
                            "runtimes with schedulers of their own";

static void step_sync(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    static char *unseen[] = {unseen_note};
    if (newest(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_built *b = &j->graph->b;
    const struct ips_control *c = &j->graph->snap->control;
    Ips__SyncAnswer *a = &j->answer.sync;
    ips__sync_answer__init(a);
    j->state->processes = b->proc_count;
    j->state->threads = b->g.chain_count;
    j->state->untraced = b->counts.untraced;
    a->state = j->state;
    a->nodes = b->g.node_count;
    a->generation = j->graph->generation;
    a->ambiguous = b->counts.ambiguous;
    a->unmatched = b->counts.unmatched;
    a->pending = b->counts.pending;
    a->external = b->counts.external;
    a->idle = b->counts.idle;
    a->probe_ns = c->probe_ns;
    a->unattributed_cpu_ns = b->counts.unattributed_ns;
    a->unseen = unseen;
    a->n_unseen = 1;
    a->goal_elapsed_ns = b->goal_elapsed_ns;
    a->cores = c->cpus;
    job->reply.answer_case = IPS__REPLY__ANSWER_SYNC;
    job->reply.sync = a;
    job->finished = true;
}

/* ---- table --------------------------------------------------------------- */

static char *const wait_names[IPS_WAIT_COUNT] = {
    [IPS_WAIT_PEER] = (char[]){"peer"},
    [IPS_WAIT_CHILD] = (char[]){"child"},
    [IPS_WAIT_TIMER] = (char[]){"timer"},
    [IPS_WAIT_SIGNAL] = (char[]){"signal"},
    [IPS_WAIT_EVENT] = (char[]){"event"},
    [IPS_WAIT_IDLE] = (char[]){"idle"},
    [IPS_WAIT_RESOLVE] = (char[]){"resolve"},
    [IPS_WAIT_OTHER] = (char[]){"other"},
};

static void process_row(Ips__ProcessRow *r, const struct ips_built *b,
                        uint32_t i)
{
    struct ips_proc *p = &b->procs[i];
    ips__process_row__init(r);
    r->index = i;
    r->pid = p->pid;
    r->parent = p->parent == IPS_NONE ? -1 : (int64_t)p->parent;
    r->name = p->name;
    r->command = p->command;
    r->start_ns = p->start_ns;
    r->end_ns = p->end_ns;
    r->open = p->open;
    r->end = p->end;
    r->cpu_ns = p->cpu_ns;
    r->rusage_cpu_ns = p->rusage_cpu_ns;
    r->events = p->events;
    r->root = p->root;
}

struct thread_rows {
    Ips__ThreadRow row;
    Ips__WaitCause cause[IPS_WAIT_COUNT];
    Ips__WaitCause *causes[IPS_WAIT_COUNT];
};

static void thread_row(struct thread_rows *out, const struct ips_built *b,
                       uint32_t i)
{
    struct ips_thread_row *t = &b->threads[i];
    Ips__ThreadRow *r = &out->row;
    ips__thread_row__init(r);
    r->chain = i;
    r->process = t->process;
    r->tid = t->tid;
    r->name = t->name;
    r->start_ns = t->start_ns;
    r->end_ns = t->end_ns;
    r->open = t->open;
    r->cpu_ns = t->cpu_ns;
    r->messages_out = t->messages_out;
    r->bytes_out = t->bytes_out;
    r->messages_in = t->messages_in;
    r->bytes_in = t->bytes_in;
    r->waits = out->causes;
    for (int c = 0; c < IPS_WAIT_COUNT; c++) {
        if (!t->wait_count[c])
            continue;
        Ips__WaitCause *w = &out->cause[r->n_waits];
        ips__wait_cause__init(w);
        w->cause = wait_names[c];
        w->ns = t->wait_ns[c];
        w->count = t->wait_count[c];
        r->wait_ns += t->wait_ns[c];
        out->causes[r->n_waits++] = w;
    }
}

#define USER_NONE (-1)
#define USER_SEVERAL (-2)

/* Which process uses an end, where exactly one does. */
static int64_t *make_users(const struct ips_built *b)
{
    int64_t *user = malloc(((size_t)b->end_count + 1) * sizeof(*user));
    for (uint32_t i = 0; user && i < b->end_count; i++)
        user[i] = USER_NONE;
    for (uint32_t i = 0; user && i < b->traffic_count; i++) {
        int64_t *u = &user[b->traffic[i].end];
        *u = *u == USER_NONE ? (int64_t)b->traffic[i].process : USER_SEVERAL;
    }
    return user;
}

static int64_t peer_process(const struct graph_job *j, uint32_t end)
{
    const struct ips_end *e = &j->graph->b.ends[end];
    if (e->peer != IPS_PEER_LOCAL || j->user[e->peer_end] < 0)
        return -1;
    return j->user[e->peer_end];
}

static void channel_row(Ips__ChannelRow *r, const struct graph_job *j,
                        uint32_t i)
{
    const struct ips_built *b = &j->graph->b;
    const struct ips_traffic *t = &b->traffic[i];
    ips__channel_row__init(r);
    r->end = t->end;
    r->process = t->process;
    r->name = b->ends[t->end].name;
    r->peer_process = peer_process(j, t->end);
    r->sent_messages = t->sent_messages;
    r->sent_bytes = t->sent_bytes;
    r->recv_messages = t->recv_messages;
    r->recv_bytes = t->recv_bytes;
}

/* Rows of one kind in a piece; a row is at most about 1 KB. */
#define TABLE_ROWS 4096u

static size_t piece_rows(uint32_t at, uint32_t first, uint32_t count)
{
    uint32_t left = first + count - at;
    return left < TABLE_ROWS ? left : TABLE_ROWS;
}

/* Processes, then threads, then channels, numbered through by j->at. */
static void step_table(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    if (newest(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_built *b = &j->graph->b;
    uint32_t threads = b->proc_count;
    uint32_t channels = threads + b->g.chain_count;
    uint32_t end = channels + b->traffic_count;
    Ips__TableAnswer *a = &j->answer.table;
    ips__table_answer__init(a);
    size_t n = 0;
    if (j->at < threads) {
        n = piece_rows(j->at, 0, b->proc_count);
        Ips__ProcessRow *r = make_rows(j, n, sizeof(*r));
        for (size_t i = 0; r && i < n; i++)
            process_row(&r[i], b, j->at + (uint32_t)i);
        a->processes = (Ips__ProcessRow **)(void *)j->ptrs;
        a->n_processes = n;
    } else if (j->at < channels) {
        n = piece_rows(j->at, threads, b->g.chain_count);
        struct thread_rows *r = make_rows(j, n, sizeof(*r));
        for (size_t i = 0; r && i < n; i++)
            thread_row(&r[i], b, j->at - threads + (uint32_t)i);
        a->threads = (Ips__ThreadRow **)(void *)j->ptrs;
        a->n_threads = n;
    } else if (j->at < end) {
        n = piece_rows(j->at, channels, b->traffic_count);
        Ips__ChannelRow *r = make_rows(j, n, sizeof(*r));
        if (!j->user)
            j->user = make_users(b);
        if (!j->user)
            ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
        for (size_t i = 0; r && j->user && i < n; i++)
            channel_row(&r[i], j, j->at - channels + (uint32_t)i);
        a->channels = (Ips__ChannelRow **)(void *)j->ptrs;
        a->n_channels = n;
    }
    if (job->err.code) {
        slave_job_fail(job);
        return;
    }
    j->at += (uint32_t)n;
    job->reply.answer_case = IPS__REPLY__ANSWER_TABLE;
    job->reply.table = a;
    job->finished = j->at >= end;
}

/* ---- ends and peers ---------------------------------------------------------
 */

static void end_row(Ips__End *r, const struct ips_built *b, uint32_t i)
{
    struct ips_end *e = &b->ends[i];
    ips__end__init(r);
    size_t len = e->key_len <= sizeof(e->key_local) ? e->key_len : 0;
    r->index = i;
    r->kind = e->kind;
    r->local = (ProtobufCBinaryData){len, e->key_local};
    r->remote = (ProtobufCBinaryData){len, e->key_remote};
    r->ordinal = e->ordinal;
    r->sent_bytes = e->sent_bytes;
    r->recv_bytes = e->recv_bytes;
    r->closed = e->closed;
    r->connected = e->connected;
    r->accepted = e->accepted;
}

static void step_ends(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    if (newest(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_built *b = &j->graph->b;
    Ips__EndsAnswer *a = &j->answer.ends;
    Ips__End *r = make_rows(j, IPS_PIECE_ITEMS / 2, sizeof(*r));
    ips__ends_answer__init(a);
    a->generation = j->graph->generation;
    for (; r && j->at < b->end_count; j->at++) {
        if (b->ends[j->at].peer == IPS_PEER_LOCAL)
            continue;
        if (a->n_ends == IPS_PIECE_ITEMS / 2)
            break;
        end_row(&r[a->n_ends++], b, j->at);
    }
    if (job->err.code) {
        slave_job_fail(job);
        return;
    }
    a->ends = (Ips__End **)(void *)j->ptrs;
    job->reply.answer_case = IPS__REPLY__ANSWER_ENDS;
    job->reply.ends = a;
    job->finished = j->at >= b->end_count;
}

static void step_peers(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    const Ips__PeersAsk *ask = request_of(j)->peers;
    int rc = by_generation(j, gs, ask->generation);
    struct ips_peer_row *rows = calloc(ask->n_peers + 1, sizeof(*rows));
    if (rc == 0 && !rows)
        rc = ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; rc == 0 && i < ask->n_peers; i++) {
        const Ips__Peer *p = ask->peers[i];
        if (p->end >= j->graph->b.end_count)
            rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                             "there is no channel end %u", p->end);
        rows[i] = (struct ips_peer_row){.end = p->end,
                                        .traced = p->traced,
                                        .peer_sent_bytes = p->peer_sent_bytes,
                                        .peer_closed = p->peer_closed};
    }
    if (rc == 0)
        rc = slave_graph_set_peers(gs, j->graph, rows, (uint32_t)ask->n_peers,
                                   &job->err);
    free(rows);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_build_counts *c = &j->graph->b.counts;
    Ips__PeersAnswer *a = &j->answer.peers;
    ips__peers_answer__init(a);
    a->generation = j->graph->generation;
    a->external = c->external;
    a->idle = c->idle;
    a->unmatched = c->unmatched;
    a->pending = c->pending;
    job->reply.answer_case = IPS__REPLY__ANSWER_PEERS;
    job->reply.peers = a;
    job->finished = true;
}

/* ---- reduce and subgraph
 * ----------------------------------------------------- */

static void wire_release(struct graph_job *j)
{
    struct ips_wire_graph *w = &j->wire;
    void *const own[] = {w->chain_nodes, w->chain_process, w->chain_pid,
                         w->chain_tid,   w->chain_thread,  w->in_node,
                         w->in_end,      w->in_pos,        w->out_node,
                         w->out_end,     w->out_len,       w->out_pos};
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        free(own[i]);
    ips_wire_piece_release(&j->piece);
}

/* The graph's arrays are lent; chains, ins and outs are laid out anew. */
static int wire_make(struct graph_job *j, const struct ips_graph *g,
                     bool detail)
{
    struct ips_wire_graph *w = &j->wire;
    size_t n = (size_t)g->chain_count + 1, in = (size_t)g->in_count + 1,
           out = (size_t)g->out_count + 1;
    j->begun = true;
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
    if (!w->chain_nodes || !w->chain_process || !w->chain_pid ||
        !w->chain_tid || !w->chain_thread || !w->in_node || !w->in_end ||
        !w->in_pos || !w->out_node || !w->out_end || !w->out_len || !w->out_pos)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
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
        w->out_pos[i] = g->out[i].pos;
        w->out_len[i] = g->out[i].len;
    }
    w->chain_count = g->chain_count;
    w->node_count = g->node_count;
    w->in_count = g->in_count;
    w->out_count = g->out_count;
    w->kind = g->kind;
    w->xkind = g->xkind;
    w->w = g->w;
    w->xpred = g->xpred;
    w->xlen = g->xlen;
    w->t_ns = detail ? g->t_ns : NULL;
    w->site = detail ? g->site : NULL;
    w->end_count = j->graph->b.end_count;
    w->origin = j->has_reduced ? j->reduced.origin : NULL;
    return 0;
}

static void send_piece(struct graph_job *j)
{
    bool last = false;
    if (ips_wire_next(&j->wire, &j->cursor, &j->piece, &last, &j->job.err) <
        0) {
        slave_job_fail(&j->job);
        return;
    }
    j->job.reply.answer_case = IPS__REPLY__ANSWER_SUBGRAPH;
    j->job.reply.subgraph = &j->piece.msg;
    j->job.finished = last;
}

/* T without the arrays' help: the sum of all chain arcs. */
static uint64_t total_cpu(const struct ips_graph *g)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t i = 1; i < g->chains[c].count; i++)
            sum = ips_add_sat(sum, g->w[g->chains[c].first + i]);
    return sum;
}

static void step_subgraph(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    const Ips__SubgraphAsk *ask = request_of(j)->subgraph;
    int rc = by_generation(j, gs, ask->generation);
    if (rc == 0 && !j->begun) {
        rc = wire_make(j, &j->graph->b.g, ask->detail);
        j->wire.total_cpu_ns = total_cpu(&j->graph->b.g);
    }
    if (rc < 0)
        slave_job_fail(job);
    else
        send_piece(j);
}

static void step_reduce(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    const Ips__ReduceAsk *ask = request_of(j)->reduce;
    int rc = by_generation(j, gs, ask->generation);
    if (rc == 0 && !j->begun) {
        struct ips_lane lane = lane_of(ask->lane);
        rc = ips_contract(&j->graph->b.g, &lane, &j->reduced, &job->err);
        j->has_reduced = rc == 0;
        if (rc == 0)
            rc = wire_make(j, &j->reduced.g, false);
        j->wire.total_cpu_ns = j->has_reduced ? j->reduced.total : 0;
    }
    if (rc < 0)
        slave_job_fail(job);
    else
        send_piece(j);
}

/* ---- finish and expand
 * ---------------------------------------------------------- */

static void step_finish(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    const Ips__FinishAsk *ask = request_of(j)->finish;
    uint64_t *in = NULL;
    int rc = by_generation(j, gs, ask->generation);
    if (rc == 0 && ask->n_in_value != j->graph->b.g.in_count)
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "%zu values for %u remote receives", ask->n_in_value,
                         j->graph->b.g.in_count);
    if (rc == 0) {
        in = calloc(ask->n_in_value + 1, sizeof(*in));
        if (!in)
            rc = ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < ask->n_in_value; i++)
        in[i] = ask->in_value[i] ? ask->in_value[i] - 1 : IPS_IN_ABSENT;
    if (rc == 0) {
        struct slave_graph *g = j->graph;
        if (g->has_est)
            ips_est_release(&g->est);
        g->lane = lane_of(ask->lane);
        rc = ips_longest_path(&g->b.g, &g->lane, g->b.g.in_count ? in : NULL,
                              &g->est, &job->err);
        g->has_est = rc == 0;
    }
    free(in);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    Ips__FinishAnswer *a = &j->answer.finish;
    ips__finish_answer__init(a);
    a->t_max_ns = j->graph->est.t_max;
    job->reply.answer_case = IPS__REPLY__ANSWER_FINISH;
    job->reply.finish = a;
    job->finished = true;
}

/* Room for one piece: six columns of 32 bits and one of 64. */
static int expand_room(struct graph_job *j)
{
    if (!j->columns)
        j->columns = calloc((size_t)IPS_PIECE_ITEMS * 6, sizeof(uint32_t));
    if (!j->ns)
        j->ns = calloc(IPS_PIECE_ITEMS, sizeof(*j->ns));
    if (!j->columns || !j->ns)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    return 0;
}

static int next_pair(struct graph_job *j, const Ips__ExpandAsk *ask)
{
    const struct slave_graph *g = j->graph;
    uint32_t from = ask->from[j->at], to = ask->to[j->at];
    if (j->has_path)
        ips_path_release(&j->path);
    j->has_path = false;
    if (to >= g->b.g.node_count ||
        (from != IPS_NO_NODE && from >= g->b.g.node_count))
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "there is no node %u or %u", from, to);
    int rc = ips_path_between(&g->b.g, &g->lane, &g->est, from, to, &j->path,
                              &j->job.err);
    j->has_path = rc == 0;
    j->path_at = 0;
    return rc;
}

static int fill_expand(struct graph_job *j, const Ips__ExpandAsk *ask,
                       size_t *count)
{
    uint32_t *const c = j->columns;
    size_t n = 0;
    while (n < IPS_PIECE_ITEMS && j->at < ask->n_to) {
        if (!j->has_path) {
            int rc = next_pair(j, ask);
            if (rc < 0)
                return rc;
        }
        for (; n < IPS_PIECE_ITEMS && j->path_at < j->path.count; n++) {
            const struct ips_path_segment *s = &j->path.seg[j->path_at++];
            c[n] = s->kind;
            c[IPS_PIECE_ITEMS + n] = s->xkind;
            c[2 * IPS_PIECE_ITEMS + n] = s->chain;
            c[3 * IPS_PIECE_ITEMS + n] = s->from;
            c[4 * IPS_PIECE_ITEMS + n] = s->to;
            c[5 * IPS_PIECE_ITEMS + n] = j->at;
            j->ns[n] = s->ns;
        }
        if (j->path_at < j->path.count)
            break;
        ips_path_release(&j->path);
        j->has_path = false;
        j->at++;
    }
    *count = n;
    return 0;
}

static void step_expand(struct slave_job *job, struct slave_graphs *gs)
{
    struct graph_job *j = of(job);
    const Ips__ExpandAsk *ask = request_of(j)->expand;
    size_t n = 0;
    int rc = by_generation(j, gs, ask->generation);
    if (rc == 0 && (!j->graph->has_est || ask->n_from != ask->n_to))
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "nothing to expand: FinishAsk comes first");
    if (rc == 0)
        rc = expand_room(j);
    if (rc == 0)
        rc = fill_expand(j, ask, &n);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    Ips__ExpandAnswer *a = &j->answer.expand;
    ips__expand_answer__init(a);
    uint32_t **const column[] = {&a->kind, &a->xkind, &a->chain,
                                 &a->from, &a->to,    &a->part};
    size_t *const counts[] = {&a->n_kind, &a->n_xkind, &a->n_chain,
                              &a->n_from, &a->n_to,    &a->n_part};
    for (size_t i = 0; i < 6; i++) {
        *column[i] = j->columns + i * IPS_PIECE_ITEMS;
        *counts[i] = n;
    }
    a->ns = j->ns;
    a->n_ns = n;
    job->reply.answer_case = IPS__REPLY__ANSWER_EXPAND;
    job->reply.expand = a;
    job->finished = j->at >= ask->n_to;
}

/* ---- making the job
 * --------------------------------------------------------------- */

/* A deep copy, since the message ends with its callback. */
static Ips__Envelope *copy_request(const Ips__Request *request)
{
    size_t len = ips__request__get_packed_size(request);
    uint8_t *data = malloc(len + 1);
    Ips__Envelope *env = malloc(sizeof(*env));
    Ips__Request *copy = NULL;
    if (data && env) {
        ips__request__pack(request, data);
        copy = ips__request__unpack(NULL, len, data);
    }
    free(data);
    if (!copy) {
        free(env);
        return NULL;
    }
    ips__envelope__init(env);
    env->body_case = IPS__ENVELOPE__BODY_REQUEST;
    env->request = copy;
    return env;
}

static Ips__RunState *copy_state(const Ips__RunState *state)
{
    size_t len = ips__run_state__get_packed_size(state);
    uint8_t *data = malloc(len + 1);
    Ips__RunState *copy = NULL;
    if (data) {
        ips__run_state__pack(state, data);
        copy = ips__run_state__unpack(NULL, len, data);
    }
    free(data);
    return copy;
}

/* A job that the worker never saw. */
static void release_early(struct graph_job *j)
{
    slave_snapshot_free(j->snap);
    ips__envelope__free_unpacked(j->ask, NULL);
    free(j);
}

struct slave_job *slave_graph_job(const Ips__Request *request,
                                  struct slave_snapshot *snap,
                                  const Ips__RunState *state)
{
    static void (*const steps[])(struct slave_job *, struct slave_graphs *) = {
        [IPS__REQUEST__ASK_SYNC] = step_sync,
        [IPS__REQUEST__ASK_TABLE] = step_table,
        [IPS__REQUEST__ASK_ENDS] = step_ends,
        [IPS__REQUEST__ASK_PEERS] = step_peers,
        [IPS__REQUEST__ASK_REDUCE] = step_reduce,
        [IPS__REQUEST__ASK_FINISH] = step_finish,
        [IPS__REQUEST__ASK_EXPAND] = step_expand,
        [IPS__REQUEST__ASK_SUBGRAPH] = step_subgraph,
    };
    size_t which = (size_t)request->ask_case;
    struct graph_job *j = NULL;
    if (which < sizeof(steps) / sizeof(*steps) && steps[which])
        j = calloc(1, sizeof(*j));
    if (j)
        j->ask = copy_request(request);
    if (!j || !j->ask) {
        free(j);
        slave_snapshot_free(snap);
        return NULL;
    }
    j->snap = snap;
    if (state)
        j->state = copy_state(state);
    if (state && !j->state) {
        release_early(j);
        return NULL;
    }
    j->job.id = request->id;
    j->job.step = steps[which];
    j->job.release = release;
    ips__reply__init(&j->job.reply);
    j->job.credit = UINT64_MAX;
    if (request->ask_case == IPS__REQUEST__ASK_SUBGRAPH &&
        request->subgraph->window)
        j->job.credit = request->subgraph->window;
    return &j->job;
}
