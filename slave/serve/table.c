/* Answers TableAsk: sends processes, threads and channels of a graph, in
 * pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "slave/graphs/waits.h"
#include "slave/serve/graph.h"

static void fill_process_row(Ips__ProcessRow *r, const struct ips_built *b,
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

static void
set_process_row_to_window_values(Ips__ProcessRow *r,
                                 const struct slave_window_process *w)
{
    r->outside = w->outside;
    r->earlier = w->earlier;
    r->start_ns = w->start_ns;
    r->end_ns = w->end_ns;
    r->cpu_ns = w->cpu_ns;
    r->rusage_cpu_ns = IPS_UNMEASURED;
}

struct thread_rows {
    Ips__ThreadRow row;
    Ips__WaitCause cause[IPS_WAIT_COUNT];
    Ips__WaitCause *causes[IPS_WAIT_COUNT];
};

static void fill_thread_row(struct thread_rows *out, const struct ips_built *b,
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
    r->ended = t->ended;
    r->cpu_ns = t->cpu_ns;
    r->delay_ns = t->delay_ns;
    r->woken_ns = t->woken_ns;
    r->unknown_ns = t->unknown_ns;
    r->messages_out = t->messages_out;
    r->bytes_out = t->bytes_out;
    r->messages_in = t->messages_in;
    r->bytes_in = t->bytes_in;
    r->choices = t->choices;
    r->empty_polls = t->empty_polls;
    const struct ips_chain *chain = &b->g.chains[i];
    r->end_node = (uint64_t)chain->first + chain->count - 1;
    r->waits = out->causes;
    for (int c = 0; c < IPS_WAIT_COUNT; c++) {
        if (!t->wait_count[c])
            continue;
        Ips__WaitCause *w = &out->cause[r->n_waits];
        ips__wait_cause__init(w);
        w->cause = ips_unconst_text(ips_wait_name((enum ips_wait_cause)c));
        w->ns = t->wait_ns[c];
        w->count = t->wait_count[c];
        r->wait_ns += t->wait_ns[c];
        out->causes[r->n_waits++] = w;
    }
}

static void set_thread_row_to_window_values(struct thread_rows *out,
                                            const struct slave_window_thread *w)
{
    Ips__ThreadRow *r = &out->row;
    r->outside = w->outside;
    r->start_ns = w->start_ns;
    r->end_ns = w->end_ns;
    r->cpu_ns = w->cpu_ns;
    r->delay_ns = r->woken_ns = r->unknown_ns = 0;
    r->messages_out = r->bytes_out = r->messages_in = r->bytes_in = 0;
    r->wait_ns = 0;
    r->n_waits = 0;
    for (int c = 0; c < IPS_WAIT_COUNT; c++) {
        if (!w->wait_count[c] && !w->wait_ns[c])
            continue;
        Ips__WaitCause *row = &out->cause[r->n_waits];
        ips__wait_cause__init(row);
        row->cause = ips_unconst_text(ips_wait_name((enum ips_wait_cause)c));
        row->ns = w->wait_ns[c];
        row->count = w->wait_count[c];
        r->wait_ns += w->wait_ns[c];
        out->causes[r->n_waits++] = row;
    }
}

/* Makes the tables of the request's window, once. Returns 1 if the request has
 * a window, 0 if it has none, or a negative error. */
static int make_window_tables_if_requested(struct slave_graph_ask *j,
                                           struct slave_graphs *gs)
{
    const Ips__TableAsk *ask = slave_graph_get_request(j)->table;
    const struct ips_built *b = &j->graph->b;
    if (!ask->from_ns && !ask->to_ns)
        return 0;
    if (j->window.threads)
        return 1;
    if (ask->to_ns && ask->from_ns >= ask->to_ns)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL, "an empty window");
    uint64_t from = ask->from_ns ? ips_add_sat(b->first_ns, ask->from_ns) : 0;
    uint64_t to =
        ask->to_ns ? ips_add_sat(b->first_ns, ask->to_ns) : UINT64_MAX;
    int rc = slave_graph_rebuild_for_missing_waits(gs, j->graph, &j->job.err);
    if (rc == 0)
        rc = slave_table_window_make(b, j->graph->waits->row,
                                     j->graph->waits->count, from, to,
                                     &j->window, &j->job.err);
    if (rc == 0 && ask->traffic)
        rc = slave_traffic_window_make_by_rebuild(gs, j->graph, from, to,
                                                  &j->traffic, &j->job.err);
    return rc < 0 ? rc : 1;
}

#define USER_NONE (-1)
#define USER_SEVERAL (-2)

/* Returns an array [channel ends] with the process that uses each end, or
 * USER_NONE or USER_SEVERAL. The caller frees it. NULL: out of memory. */
static int64_t *find_processes_using_ends(const struct ips_built *b)
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

static int64_t find_peer_process(const struct slave_graph_ask *j, uint32_t end)
{
    const struct ips_end *e = &j->graph->b.ends[end];
    if (e->peer != IPS_PEER_LOCAL || j->user[e->peer_end] < 0)
        return -1;
    return j->user[e->peer_end];
}

/* Returns the number of the peer end + 1 if several processes use that end,
 * else 0. The master then sees from the rows of these processes how much each
 * of them received. */
static uint32_t find_shared_peer_end(const struct slave_graph_ask *j,
                                     uint32_t end)
{
    const struct ips_end *e = &j->graph->b.ends[end];
    bool shared =
        e->peer == IPS_PEER_LOCAL && j->user[e->peer_end] == USER_SEVERAL;
    return shared ? e->peer_end + 1 : 0;
}

static void fill_channel_row(Ips__ChannelRow *r,
                             const struct slave_graph_ask *j, uint32_t i)
{
    const struct ips_built *b = &j->graph->b;
    const struct ips_traffic *t = &b->traffic[i];
    ips__channel_row__init(r);
    r->end = t->end;
    r->process = t->process;
    r->name = b->ends[t->end].name;
    r->peer_process = find_peer_process(j, t->end);
    r->peer_shared = find_shared_peer_end(j, t->end);
    r->sent_messages = t->sent_messages;
    r->sent_bytes = t->sent_bytes;
    r->recv_messages = t->recv_messages;
    r->recv_bytes = t->recv_bytes;
    const struct ips_end *e = &b->ends[t->end];
    r->serves =
        e->accepted && (e->kind == IPS_CHAN_TCP || e->kind == IPS_CHAN_UNIX);
}

static void set_channel_row_to_window_values(Ips__ChannelRow *r,
                                             const struct ips_traffic_cut *t)
{
    r->windowed = true;
    r->sent_messages = t->sent_messages;
    r->sent_bytes = t->sent_bytes;
    r->sent_messages_before = t->sent_messages_before;
    r->sent_bytes_before = t->sent_bytes_before;
    r->recv_messages_in = t->recv_messages;
    r->recv_bytes_in = t->recv_bytes;
}

/* Maximum number of rows in a reply; a row has at most about 1 KB. */
#define TABLE_ROWS 4096u

static size_t count_rows_of_next_page(uint32_t at, uint32_t first,
                                      uint32_t count)
{
    uint32_t left = first + count - at;
    return left < TABLE_ROWS ? left : TABLE_ROWS;
}

/* Sends processes, then threads, then channels; j->at counts through all
 * three. */
void slave_answer_table_request(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    if (slave_graph_get_or_build_newest_and_verify(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    const struct ips_built *b = &j->graph->b;
    int window = make_window_tables_if_requested(j, gs);
    if (window < 0) {
        slave_job_fail(job);
        return;
    }
    uint32_t threads = b->proc_count;
    uint32_t channels = threads + b->g.chain_count;
    uint32_t end = channels + (window ? j->traffic.count : b->traffic_count);
    Ips__TableAnswer *a = &j->answer.table;
    ips__table_answer__init(a);
    size_t n = 0;
    if (j->at < threads) {
        n = count_rows_of_next_page(j->at, 0, b->proc_count);
        Ips__ProcessRow *r =
            slave_graph_reallocate_answer_rows(j, n, sizeof(*r));
        for (size_t i = 0; r && i < n; i++) {
            fill_process_row(&r[i], b, j->at + (uint32_t)i);
            if (window)
                set_process_row_to_window_values(
                    &r[i], &j->window.processes[j->at + i]);
        }
        a->processes = (Ips__ProcessRow **)(void *)j->ptrs;
        a->n_processes = n;
    } else if (j->at < channels) {
        n = count_rows_of_next_page(j->at, threads, b->g.chain_count);
        struct thread_rows *r =
            slave_graph_reallocate_answer_rows(j, n, sizeof(*r));
        for (size_t i = 0; r && i < n; i++) {
            uint32_t chain = j->at - threads + (uint32_t)i;
            fill_thread_row(&r[i], b, chain);
            if (window)
                set_thread_row_to_window_values(&r[i],
                                                &j->window.threads[chain]);
        }
        a->threads = (Ips__ThreadRow **)(void *)j->ptrs;
        a->n_threads = n;
    } else if (j->at < end) {
        n = count_rows_of_next_page(j->at, channels, b->traffic_count);
        Ips__ChannelRow *r =
            slave_graph_reallocate_answer_rows(j, n, sizeof(*r));
        if (!j->user)
            j->user = find_processes_using_ends(b);
        if (!j->user)
            ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
        for (size_t i = 0; r && j->user && i < n; i++)
            fill_channel_row(&r[i], j, j->at - channels + (uint32_t)i);
        for (size_t i = 0; window && r && j->user && i < n; i++)
            set_channel_row_to_window_values(
                &r[i], &j->traffic.row[j->at - channels + i]);
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
