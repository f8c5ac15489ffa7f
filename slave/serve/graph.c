/*
 * Answers requests about a run's graph: Sync, Table, Ends, Peers, Reduce,
 * Finish, Expand, Subgraph. Each request is a job of one or more steps on the
 * worker (work.h). Sync returns the graph's generation; Reduce, Finish, Expand,
 * Subgraph and Peers refer to that very graph; Table and Ends use the newest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/log.h"
#include "slave/drain/unrecorded.h"
#include "slave/graphs/calibrate_map.h"
#include "slave/graphs/series.h"
#include "slave/serve/graph.h"

/* After the last reply to a ReduceAsk: while the master solves the joins,
 * verifies the sections of the graph's file that FinishAsk will read. */
static void verify_sections_for_finish_request(struct slave_graph_ask *j)
{
    struct ips_err err = {0};
    if (slave_graph_get_request(j)->ask_case == IPS__REQUEST__ASK_REDUCE &&
        j->job.finished && !j->job.err.code && !atomic_load(&j->job.stop) &&
        j->graph &&
        slave_graphs_verify_section_or_remove_file(j->graph, SLAVE_PART_PATH,
                                                   &err) < 0)
        ips_log_warn("%s", err.msg);
}

static void release_graph_job(struct slave_job *job,
                              struct slave_graphs *graphs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    verify_sections_for_finish_request(j);
    slave_sql_kill_helper_and_release(j, graphs);
    if (j->shared)
        slave_joins_end_use(&j->graph->joins);
    if (j->graph)
        slave_graphs_release_graph_and_evict(graphs, j->graph);
    if (j->begun)
        slave_graph_wire_release(j);
    ips_joins_release(&j->joins);
    if (j->has_path)
        ips_path_release(&j->path);
    slave_path_sums_release(&j->sums);
    ips_view_release(&j->view);
    slave_snapshot_free(j->snap);
    free(j->rows);
    free(j->ptrs);
    slave_profile_release(j);
    slave_arc_profile_release(j);
    slave_wait_rows_release(j);
    slave_series_answer_release(j);
    slave_marked_spans_answer_release(j);
    slave_procs_release(j);
    slave_cm_release(j);
    free(j->columns);
    free(j->ns);
    free(j->user);
    ips_free_large(j->unended);
    slave_table_window_release(&j->window);
    slave_traffic_window_release(&j->traffic);
    free(j->unrecorded);
    for (uint32_t i = 0; i < j->line_count; i++)
        free(j->unrecorded_lines[i]);
    free(j->unrecorded_lines);
    if (j->state)
        ips__run_state__free_unpacked(j->state, NULL);
    ips__envelope__free_unpacked(j->ask, NULL);
}

void *slave_graph_reallocate_answer_rows(struct slave_graph_ask *j, size_t n,
                                         size_t size)
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

/* ---- choosing the graph ---- */

static bool has_plain_cpu_weights(const Ips__Lane *l)
{
    return !l || (l->weighting == IPS_WEIGH_CPU && !l->calibrated &&
                  !l->probe_off && !l->unended);
}

/* Whether the request reads only the tables and joins of the graph's file. */
static bool reads_only_tables(const struct slave_graph_ask *j)
{
    const Ips__Request *r = slave_graph_get_request(j);
    if (r->ask_case == IPS__REQUEST__ASK_PEERS)
        return r->peers->n_message_times == 0;
    if (r->ask_case == IPS__REQUEST__ASK_TABLE)
        return !r->table->from_ns && !r->table->to_ns;
    if (r->ask_case == IPS__REQUEST__ASK_REDUCE)
        return !r->reduce->detail && has_plain_cpu_weights(r->reduce->lane);
    return r->ask_case == IPS__REQUEST__ASK_SYNC ||
           r->ask_case == IPS__REQUEST__ASK_ENDS ||
           /* Expand uses the view that FinishAsk made */
           r->ask_case == IPS__REQUEST__ASK_EXPAND;
}

/* Whether the request reads only the file's tables, joins and the sections of
 * SLAVE_PART_PATH. A ProfileAsk does so if it has no window and the run has no
 * samples, entries, exits or counters of procedures. */
static bool reads_only_tables_and_path(const struct slave_graph_ask *j)
{
    const Ips__Request *r = slave_graph_get_request(j);
    if (r->ask_case == IPS__REQUEST__ASK_PROFILE)
        return !r->profile->lane && !r->profile->from_ns &&
               !r->profile->to_ns && j->graph->b.counts.code == 0;
    return r->ask_case == IPS__REQUEST__ASK_FINISH &&
           has_plain_cpu_weights(r->finish->lane);
}

static int verify_sections_needed_by_request(struct slave_graph_ask *j)
{
    if (reads_only_tables(j))
        return 0;
    int rc = slave_graphs_verify_section_or_remove_file(
        j->graph, SLAVE_PART_PATH, &j->job.err);
    if (rc < 0 || reads_only_tables_and_path(j))
        return rc;
    return slave_graphs_verify_section_or_remove_file(j->graph, SLAVE_PART_REST,
                                                      &j->job.err);
}

/* Table and Ends use the graph that the last Sync built, although newer records
 * may exist; Sync itself uses all records. */
int slave_graph_get_or_build_newest_and_verify(struct slave_graph_ask *j,
                                               struct slave_graphs *gs)
{
    struct slave_snapshot *snap = j->snap;
    struct slave_graph *last = NULL;
    if (j->graph)
        return 0;
    if (slave_graph_get_request(j)->ask_case != IPS__REQUEST__ASK_SYNC)
        for (struct slave_graph *g = gs->list; g; g = g->next)
            if (g->generation != 0 && strcmp(g->snap->run, snap->run) == 0 &&
                (!last || g->generation > last->generation))
                last = g;
    int rc;
    if (last) {
        rc = slave_graphs_acquire_by_generation(gs, snap->run, last->generation,
                                                &j->graph, &j->job.err);
    } else {
        const Ips__Request *r = slave_graph_get_request(j);
        snap->waits = r->ask_case == IPS__REQUEST__ASK_SYNC && r->sync->waits;
        j->snap = NULL; /* slave_graphs_get_or_build() takes ownership of the
                           snapshot */
        rc = slave_graphs_get_or_build(gs, snap, &j->graph, &j->job.err);
    }
    return rc < 0 ? rc : verify_sections_needed_by_request(j);
}

int slave_graph_use_generation_and_verify(struct slave_graph_ask *j,
                                          struct slave_graphs *gs,
                                          uint64_t generation)
{
    if (j->graph)
        return 0;
    int rc =
        slave_graphs_acquire_by_generation(gs, slave_graph_get_request(j)->run,
                                           generation, &j->graph, &j->job.err);
    return rc < 0 ? rc : verify_sections_needed_by_request(j);
}

/* ---- sync ---- */

static bool fill_sync_unrecorded(struct slave_graph_ask *j, Ips__SyncAnswer *a)
{
    const struct slave_graph *g = j->graph;
    j->line_count = slave_unrecorded_describe(&g->b, g->snap->control.machine,
                                              j->unrecorded, j->unrecorded_rows,
                                              &j->unrecorded_lines);
    a->unseen = j->unrecorded_lines;
    a->n_unseen = j->line_count;
    a->unrecorded = slave_unrecorded_count_communication(&g->b, j->unrecorded,
                                                         j->unrecorded_rows);
    return j->unrecorded_lines != NULL;
}

static void append_unrecorded_program_changes(struct slave_graph_ask *j,
                                              Ips__Untraced *rows,
                                              Ips__SyncAnswer *a)
{
    static char unknown[] = "unknown";
    for (uint32_t i = 0; i < j->unrecorded_rows; i++) {
        if (!slave_unrecorded_is_program_change(&j->graph->b,
                                                &j->unrecorded[i]))
            continue;
        Ips__Untraced *row = &rows[a->n_untraced++];
        ips__untraced__init(row);
        row->cause = unknown;
        row->program = j->unrecorded[i].path;
        row->count = 1;
        row->pid = j->unrecorded[i].pid;
    }
}

static bool fill_untraced_programs(struct slave_graph_ask *j,
                                   Ips__SyncAnswer *a)
{
    struct ips_built *b = &j->graph->b;
    size_t seen = 0;
    for (uint32_t i = 0; i < j->unrecorded_rows; i++)
        seen += slave_unrecorded_is_program_change(b, &j->unrecorded[i]);
    if (b->untraced_count + seen == 0)
        return true;
    Ips__Untraced *rows = slave_graph_reallocate_answer_rows(
        j, b->untraced_count + seen, sizeof(*rows));
    if (!rows)
        return false;
    j->state->untraced = ips_add_sat(j->state->untraced, seen);
    for (uint32_t i = 0; i < b->untraced_count; i++) {
        ips__untraced__init(&rows[i]);
        rows[i].cause = b->untraced[i].cause;
        rows[i].program = b->untraced[i].program;
        rows[i].count = b->untraced[i].count;
        rows[i].pid = b->untraced[i].pid;
    }
    a->untraced = (Ips__Untraced **)j->ptrs;
    a->n_untraced = b->untraced_count;
    append_unrecorded_program_changes(j, rows, a);
    return true;
}

static uint64_t sampling_period_ns(const struct ips_control *c)
{
    return c->procedures == IPS_PROCEDURES_SAMPLE ? c->sample_us * 1000ULL : 0;
}

static void fill_machine_load_of_sync_answer(const struct slave_graph_ask *j,
                                             Ips__SyncAnswer *a)
{
    const struct slave_load_row *l = &j->load;
    if (l->us == 0)
        return;
    a->load_samples = l->samples;
    a->load_milli = (uint64_t)((ips_u128)l->runnable_us * 1000 / l->us);
    a->load_average_milli = (uint64_t)((ips_u128)l->average_us * 1000 / l->us);
}

static void answer_sync_request(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    if (j->snap && !j->unrecorded) {
        j->unrecorded = j->snap->unrecorded;
        j->unrecorded_rows = j->snap->unrecorded_count;
        j->load = j->snap->load;
        j->snap->unrecorded = NULL;
        j->snap->unrecorded_count = 0;
    }
    if (slave_graph_get_or_build_newest_and_verify(j, gs) < 0) {
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
    /* A thread that was joined but left no record is missing. The segments that
     * were given up may be those of missing threads, so report the greater
     * number. While the run is open, missing threads may still appear. */
    if (!j->state->open)
        j->state->torn = ips_max_u64(j->state->torn, b->counts.missing_threads);
    a->state = j->state;
    a->nodes = b->g.node_count;
    a->generation = j->graph->generation;
    a->ambiguous = b->counts.ambiguous;
    a->unmatched = b->counts.unmatched;
    a->pending = b->counts.pending;
    /* Count only waits that this machine classified by itself: earlier PeersAsk
     * requests decided others, and must not change this answer. */
    a->external = b->counts.external - b->counts.external_decided;
    a->idle = b->counts.idle - b->counts.idle_decided;
    a->any = b->counts.order_dependent;
    a->any_unmatched = b->counts.any_unmatched;
    a->unended_ns = b->counts.unended_ns;
    a->tasks = b->counts.tasks;
    a->spin_ns = b->counts.spin_ns;
    a->probe_ns = c->probe_ns;
    a->overhead_ns = b->counts.overhead_ns;
    a->probe_arc_ns = b->counts.probe_arc_ns;
    a->guessed_cpu_ns = b->counts.guessed_ns;
    a->guesses_settled = b->counts.guess_corrected;
    a->guess_off_ns = b->counts.guess_off_ns;
    a->guess_off_max_ns = b->counts.guess_off_max_ns;
    for (uint32_t i = 0; i < b->proc_count; i++)
        a->cpu_ns = ips_add_sat(a->cpu_ns, b->procs[i].cpu_ns);
    a->unattributed_cpu_ns = b->counts.unattributed_ns;
    a->goal_elapsed_ns = b->goal_elapsed_ns;
    a->root_start_ns = b->root_start_ns;
    a->goal_node = b->goal_node == IPS_NO_NODE ? 0 : (uint64_t)b->goal_node + 1;
    a->first_ns = b->first_ns;
    a->last_ns =
        j->graph->file.map ? j->graph->file.last_ns : slave_last_event_ns(b);
    a->delay_ns = b->counts.delay_ns;
    a->delay_unknown_ns = b->counts.delay_unknown_ns;
    a->cores = c->cpus;
    fill_machine_load_of_sync_answer(j, a);
    const struct ips_large_use *in = &j->graph->built_in;
    a->memory_limit = in->limit == UINT64_MAX ? 0 : in->limit;
    a->memory_bytes = in->memory_most;
    a->file_bytes = in->files_most;
    a->records_read = j->graph->effort.records;
    /* report the records read only once: later questions use the built graph */
    j->graph->effort.records = 0;
    a->sample_ns = sampling_period_ns(c);
    a->all_locks = c->locks == IPS_LOCKS_ALL;
    for (uint32_t i = 0; i < b->end_count; i++)
        a->accepted += b->ends[i].accepted;
    if (!fill_untraced_programs(j, a) || !fill_sync_unrecorded(j, a)) {
        slave_job_fail(job);
        return;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_SYNC;
    job->reply.sync = a;
    job->finished = true;
}

/* ---- ends and peers ---- */

static void fill_channel_end(Ips__End *r, const struct ips_built *b, uint32_t i)
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

static void answer_channel_ends_request(struct slave_job *job,
                                        struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    if (slave_graph_get_or_build_newest_and_verify(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_built *b = &j->graph->b;
    Ips__EndsAnswer *a = &j->answer.ends;
    Ips__End *r =
        slave_graph_reallocate_answer_rows(j, IPS_PIECE_ITEMS / 2, sizeof(*r));
    ips__ends_answer__init(a);
    a->generation = j->graph->generation;
    for (; r && j->at < b->end_count; j->at++) {
        if (b->ends[j->at].peer == IPS_PEER_LOCAL)
            continue;
        if (a->n_ends == IPS_PIECE_ITEMS / 2)
            break;
        fill_channel_end(&r[a->n_ends++], b, j->at);
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

/* Sets g->joined: for each channel end, the end on another machine to which it
 * is joined. cm-async and cm-sync use it. */
static int set_remote_peers_of_ends(struct slave_graph *g,
                                    const Ips__PeersAsk *ask,
                                    struct ips_err *err)
{
    size_t n = (size_t)g->b.end_count + 1;
    free(g->joined);
    g->joined = malloc(n * sizeof(*g->joined));
    if (!g->joined)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    memset(g->joined, 0xff, n * sizeof(*g->joined));
    for (size_t i = 0; i < ask->n_peers; i++) {
        const Ips__Peer *p = ask->peers[i];
        if (p->traced)
            g->joined[p->end] =
                (struct ips_peer_end){.machine = p->part, .end = p->peer_end};
    }
    return 0;
}

static void store_peers_and_answer(struct slave_job *job,
                                   struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__PeersAsk *ask = slave_graph_get_request(j)->peers;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
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
        rc = slave_graph_set_peers_and_remake_arcs(
            gs, j->graph, rows, (uint32_t)ask->n_peers, &job->err);
    free(rows);
    if (rc == 0)
        rc = set_remote_peers_of_ends(j->graph, ask, &job->err);
    if (rc == 0)
        rc = slave_graph_set_message_time_curves(j->graph, ask, &job->err);
    if (rc == 0 && j->graph->join_bound == 0) {
        uint64_t kept = 0;
        rc = slave_graphs_verify_section_or_remove_file(
            j->graph, SLAVE_PART_PATH, &job->err);
        if (rc == 0)
            rc = ips_joins_compute_node_bound(&j->graph->b.g, &kept, &job->err);
        j->graph->join_bound = rc == 0 ? kept + 1 : 0;
    }
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
    a->remote_in = j->graph->b.g.in_count;
    a->remote_out = j->graph->b.g.out_count;
    a->kept = j->graph->join_bound - 1;
    job->reply.answer_case = IPS__REPLY__ANSWER_PEERS;
    job->reply.peers = a;
    job->finished = true;
}

/* ---- making the job ---- */

/* Makes a deep copy of the request, which its owner frees after the callback.
 */
static Ips__Envelope *copy_request_into_envelope(const Ips__Request *request)
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

static Ips__RunState *copy_run_state(const Ips__RunState *state)
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

const Ips__Request *slave_graph_get_request_of_job(const struct slave_job *job)
{
    const struct slave_graph_ask *j = (const void *)job;
    return j->ask->request;
}

/* Frees a job that was never given to the worker. */
static void free_unstarted_job(struct slave_graph_ask *j)
{
    slave_snapshot_free(j->snap);
    ips__envelope__free_unpacked(j->ask, NULL);
    free(j);
}

static void (*const steps[])(struct slave_job *, struct slave_graphs *) = {
    [IPS__REQUEST__ASK_SYNC] = answer_sync_request,
    [IPS__REQUEST__ASK_TABLE] = slave_answer_table_request,
    [IPS__REQUEST__ASK_ENDS] = answer_channel_ends_request,
    [IPS__REQUEST__ASK_PEERS] = store_peers_and_answer,
    [IPS__REQUEST__ASK_REDUCE] = slave_answer_reduce_request,
    [IPS__REQUEST__ASK_FINISH] = slave_answer_longest_path_request,
    [IPS__REQUEST__ASK_EXPAND] = slave_answer_path_expansion_request,
    [IPS__REQUEST__ASK_SUBGRAPH] = slave_answer_subgraph_request,
    [IPS__REQUEST__ASK_SPLIT] = slave_answer_piece_time_sums_request,
    [IPS__REQUEST__ASK_PROCEDURES] = slave_answer_procedures_request,
    [IPS__REQUEST__ASK_CM] = slave_cm_handle_mail_and_compute,
    [IPS__REQUEST__ASK_PROFILE] = slave_answer_profile_request,
    [IPS__REQUEST__ASK_PORTIONS] = slave_answer_arc_profile_request,
    [IPS__REQUEST__ASK_WAIT_ROWS] = slave_answer_wait_rows_request,
    [IPS__REQUEST__ASK_SQL] = slave_answer_sql_request,
    [IPS__REQUEST__ASK_SERIES] = slave_answer_series_request,
    [IPS__REQUEST__ASK_BRACKETS] = slave_answer_marked_spans_request,
};

bool slave_graph_handles_request(const Ips__Request *request)
{
    size_t which = (size_t)request->ask_case;
    return which < sizeof(steps) / sizeof(*steps) && steps[which];
}

struct slave_job *slave_graph_make_job(const Ips__Request *request,
                                       struct slave_snapshot *snap,
                                       const Ips__RunState *state)
{
    size_t which = (size_t)request->ask_case;
    struct slave_graph_ask *j = NULL;
    if (slave_graph_handles_request(request))
        j = calloc(1, sizeof(*j));
    if (j)
        j->ask = copy_request_into_envelope(request);
    if (!j || !j->ask) {
        free(j);
        slave_snapshot_free(snap);
        return NULL;
    }
    j->snap = snap;
    if (state)
        j->state = copy_run_state(state);
    if (state && !j->state) {
        free_unstarted_job(j);
        return NULL;
    }
    j->job.id = request->id;
    j->job.step = steps[which];
    j->job.release = release_graph_job;
    ips__reply__init(&j->job.reply);
    j->job.credit = UINT64_MAX;
    if (request->ask_case == IPS__REQUEST__ASK_CM &&
        !slave_cm_allocate_state(j)) {
        free_unstarted_job(j);
        return NULL;
    }
    if (request->ask_case == IPS__REQUEST__ASK_SUBGRAPH &&
        request->subgraph->window)
        j->job.credit = request->subgraph->window;
    if (request->ask_case == IPS__REQUEST__ASK_PORTIONS &&
        request->portions->window)
        j->job.credit = request->portions->window;
    if (request->ask_case == IPS__REQUEST__ASK_WAIT_ROWS &&
        request->wait_rows->window)
        j->job.credit = request->wait_rows->window;
    if (request->ask_case == IPS__REQUEST__ASK_BRACKETS &&
        request->brackets->window)
        j->job.credit = request->brackets->window;
    return &j->job;
}
