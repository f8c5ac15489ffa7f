#include "master/query/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/format.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/object.h"
#include "common/types.h"
#include "master/query/join.h"
#include "master/query/machine_share.h"
#include "master/query/message_times_plan.h"

#define MAX_ENDS (1u << 22) /* limit for a slave's channel ends */

void gather_write_missing_machines(const struct query *q, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < q->machine_count && at < cap; i++) {
        const struct machine_share *p = &q->machines[i];
        if (p->state == MACHINE_ACTIVE || !p->expected)
            continue;
        at += (size_t)snprintf(
            out + at, cap - at, "%s%s (%.200s)", at ? ", " : "", p->machine,
            p->state == MACHINE_MISSING ? "its slave is not connected"
                                        : p->why);
    }
}

uint64_t gather_max_sample_period_ns(const struct query *q)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        ns = ips_max_u64(ns, q->gather.active[i]->sync->sample_ns);
    return ns;
}

/* Calls `stop` with the name of each machine that answered, and of each of its
 * processes and threads; for a thread twice, with its number and with its name.
 * Ends at the first name for which `stop` returns true, and returns true. */
static bool visit_object_names_until_true(const struct query *q,
                                          bool (*stop)(const char *object,
                                                       void *arg),
                                          void *arg)
{
    char name[OBJECT_BYTES], thread[2 * OBJECT_BYTES];
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        snprintf(name, sizeof(name), "/%s", p->machine);
        if (stop(name, arg))
            return true;
        for (uint32_t k = 0; k < p->t.proc_count; k++) {
            machine_share_write_process_object_name(p, k, name);
            if (stop(name, arg))
                return true;
        }
        for (uint32_t k = 0; k < p->t.thread_count; k++) {
            const Ips__ThreadRow *t = p->t.threads[k];
            machine_share_write_process_object_name(p, t->process, name);
            snprintf(thread, sizeof(thread), "%s/%u", name, t->tid);
            if (stop(thread, arg))
                return true;
            snprintf(thread, sizeof(thread), "%s/%.*s", name, OBJECT_BYTES - 2,
                     t->name);
            if (stop(thread, arg))
                return true;
        }
    }
    return false;
}

static bool object_matches_pattern(const char *object, void *pattern)
{
    return ips_object_matches_pattern(pattern, object);
}

bool gather_has_object(const struct query *q, const char *object)
{
    return visit_object_names_until_true(q, object_matches_pattern,
                                         (void *)(uintptr_t)object);
}

static bool offer_nearest_object(const char *object, void *near)
{
    ips_nearest_consider_candidate(near, object);
    return false;
}

int gather_set_no_object_error(const struct query *q, const char *object,
                               struct ips_err *err)
{
    char missing[800];
    struct ips_nearest near;
    gather_write_missing_machines(q, missing, sizeof(missing));
    ips_nearest_start_search(&near, object);
    (void)visit_object_names_until_true(q, offer_nearest_object, &near);
    return ips_err_set(err, *missing ? IPS_E_INCOMPLETE : IPS_E_NOT_FOUND,
                       "no object %.300s in run %s%s%s%s", object, q->run,
                       *missing ? "; not asked: " : "", missing,
                       ips_nearest_format_suggestion(&near));
}

void gather_release(struct query *q)
{
    free(q->gather.active);
    memset(&q->gather, 0, sizeof(q->gather));
}

/* ---- PeersAsk: the peers of channel ends ------------------------------ */

static int check_and_keep_peers_reply(struct query *q, struct machine_share *p,
                                      const Ips__Reply *reply,
                                      struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_PEERS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PeersAsk");
    if (!query_keep_message(q, p))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    p->peers = reply->peers;
    return 0;
}

static int compare_end_index(const void *a, const void *b)
{
    uint32_t x = (*(Ips__End *const *)a)->index;
    uint32_t y = (*(Ips__End *const *)b)->index;
    return (x > y) - (x < y);
}

static void fill_peer(const struct query *q, const struct machine_share *p,
                      const Ips__End *end, Ips__Peer *row)
{
    const struct ips_peer_end *peer = &p->peer[end->index];
    row->end = end->index;
    if (peer->machine == JOIN_NONE)
        return;
    const struct machine_share *other = q->gather.active[peer->machine];
    row->traced = true;
    row->machine = ips_unconst_text(other->machine);
    row->peer_end = peer->end;
    row->part = other->number;
    Ips__End key = {.index = peer->end}, *wanted = &key;
    Ips__End **found = bsearch(&wanted, other->t.ends, other->t.end_count,
                               sizeof(*other->t.ends), compare_end_index);
    if (found) {
        row->peer_sent_bytes = (*found)->sent_bytes;
        row->peer_closed = (*found)->closed;
    }
}

/* Sends the slave of `p` the peers of its ends. With `all` this includes the
 * ends without a peer. Otherwise a machine is missing: those ends are left out
 * and stay pending. */
static int send_peers_and_message_times_to_slave(struct query *q,
                                                 struct machine_share *p,
                                                 bool all, struct ips_err *err)
{
    uint32_t total = p->t.end_count, done = 0, n = 0;
    Ips__Peer *rows = calloc(IPS_PIECE_ITEMS, sizeof(*rows));
    Ips__Peer **list = calloc(IPS_PIECE_ITEMS, sizeof(*list));
    struct message_times_curves curves = {0};
    bool first = true, more = true;
    int rc = message_times_plan_make_curves(q, p, &curves, err);
    if (rc == 0 && (!rows || !list))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0)
        goto out;
    while (more) {
        for (n = 0; done < total && n < IPS_PIECE_ITEMS; done++) {
            const Ips__End *end = p->t.ends[done];
            if (!all && p->peer[end->index].machine == JOIN_NONE)
                continue;
            ips__peer__init(&rows[n]);
            fill_peer(q, p, end, &rows[n]);
            list[n] = &rows[n];
            n++;
        }
        more = done < total;
        Ips__PeersAsk ask = IPS__PEERS_ASK__INIT;
        ask.generation = p->sync->generation;
        ask.n_peers = n;
        ask.peers = list;
        ask.more = more;
        if (first) {
            ask.n_message_times = curves.count;
            ask.message_times = curves.list;
        }
        Ips__Request request = IPS__REQUEST__INIT;
        request.ask_case = IPS__REQUEST__ASK_PEERS;
        request.peers = &ask;
        query_send_request_to_slave(q, p, &request, first);
        first = false;
    }
out:
    message_times_curves_release(&curves);
    free(rows);
    free(list);
    return rc;
}

static int sort_ends_and_allocate_peer_table(struct machine_share *p,
                                             struct ips_err *err)
{
    uint32_t n = p->t.end_count;
    if (n > 0)
        qsort(p->t.ends, n, sizeof(*p->t.ends), compare_end_index);
    for (uint32_t i = 0; i < n; i++) {
        if (p->t.ends[i]->index >= MAX_ENDS ||
            (i > 0 && p->t.ends[i]->index == p->t.ends[i - 1]->index))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "end %u is named twice or beyond %u",
                               p->t.ends[i]->index, MAX_ENDS);
    }
    p->peer_count = n ? p->t.ends[n - 1]->index + 1 : 0;
    p->peer = malloc(((size_t)p->peer_count + 1) * sizeof(*p->peer));
    if (!p->peer)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    memset(p->peer, 0xff, ((size_t)p->peer_count + 1) * sizeof(*p->peer));
    return 0;
}

static struct join_end make_join_end(const struct machine_share *p,
                                     const Ips__End *e)
{
    return (struct join_end){
        .machine = p->number,
        .index = e->index,
        .kind = e->kind,
        .local = e->local.data,
        .remote = e->remote.data,
        .local_len = (uint32_t)e->local.len,
        .remote_len = (uint32_t)e->remote.len,
        .ordinal = e->ordinal,
        .sent_bytes = e->sent_bytes,
        .recv_bytes = e->recv_bytes,
        .closed = e->closed,
        .connected = e->connected,
        .accepted = e->accepted,
        .named = e->kind == IPS_CHAN_USER,
    };
}

static int join_ends_of_all_machines(struct query *q, struct ips_err *err)
{
    struct gather *g = &q->gather;
    uint64_t count = 0;
    uint32_t n = 0;
    int rc = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        count += g->active[i]->t.end_count;
        rc = sort_ends_and_allocate_peer_table(g->active[i], err);
        if (rc < 0)
            return rc;
    }
    if (count > UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_LIMIT, "too many channel ends");
    struct join_end *ends = calloc(count + 1, sizeof(*ends));
    if (!ends)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < g->count; i++) {
        const struct machine_share *p = g->active[i];
        for (uint32_t k = 0; k < p->t.end_count; k++)
            ends[n++] = make_join_end(p, p->t.ends[k]);
    }
    rc = join_ends(ends, n, &g->ambiguous, err);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (ends[i].peer == JOIN_NONE) {
            g->untraced_ends++;
            continue;
        }
        const struct join_end *o = &ends[ends[i].peer];
        g->active[ends[i].machine]->peer[ends[i].index] =
            (struct ips_peer_end){.machine = o->machine, .end = o->index};
    }
    free(ends);
    return rc;
}

static void call_after_gathering(struct query *q)
{
    q->gather.after(q);
}

static void join_ends_and_send_peers(struct query *q)
{
    struct ips_err err = {0};
    int rc = join_ends_of_all_machines(q, &err);
    bool all = !query_is_missing_a_machine(q);
    if (rc == 0)
        rc = message_times_plan_describe_and_set_calibrated(q, &err);
    query_open_round(q, check_and_keep_peers_reply, call_after_gathering);
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++)
        rc = send_peers_and_message_times_to_slave(q, q->gather.active[i], all,
                                                   &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        query_close_round(q);
}

/* ---- EndsAsk: channel ends -------------------------------------------- */

static int append_received_ends(struct query *q, struct machine_share *p,
                                const Ips__Reply *reply, struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_ENDS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to EndsAsk");
    const Ips__EndsAnswer *a = reply->ends;
    if (a->generation != p->sync->generation)
        return ips_err_set(err, IPS_E_BUSY, "its graph is a newer one");
    if (p->t.end_count + a->n_ends > MAX_ENDS)
        return ips_err_set(err, IPS_E_LIMIT, "more than %u channel ends",
                           MAX_ENDS);
    if (!query_keep_message(q, p) ||
        !machine_share_append_rows(&p->t.ends, &p->t.end_count,
                                   (void *const *)a->ends, a->n_ends))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    return 0;
}

static void ask_ends(struct query *q)
{
    query_open_round(q, append_received_ends, join_ends_and_send_peers);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        Ips__EndsAsk ask = IPS__ENDS_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        request.ask_case = IPS__REQUEST__ASK_ENDS;
        request.ends = &ask;
        query_send_request_to_slave(q, q->gather.active[i], &request, true);
    }
    query_close_round(q);
}

/* ---- TableAsk: tables ------------------------------------------------- */

static int check_tables(const struct machine_share *p, struct ips_err *err)
{
    for (uint32_t i = 0; i < p->t.proc_count; i++) {
        if (p->t.procs[i]->index != i)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "process row %u says it is %u", i,
                               p->t.procs[i]->index);
    }
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        if (p->t.threads[i]->chain != i ||
            p->t.threads[i]->process >= p->t.proc_count)
            return ips_err_set(
                err, IPS_E_PROTOCOL, "thread row %u is of chain %u, process %u",
                i, p->t.threads[i]->chain, p->t.threads[i]->process);
    }
    for (uint32_t i = 0; i < p->t.channel_count; i++) {
        const Ips__ChannelRow *c = p->t.channels[i];
        if (c->process >= p->t.proc_count ||
            c->peer_process >= (int64_t)p->t.proc_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "channel row %u names no process", i);
    }
    return 0;
}

/* Sets the elapsed time of the run's command to its time inside the window: the
 * sum over the command's process rows, which the slave has cut to the window.
 */
static void limit_command_elapsed_to_window(struct machine_share *p)
{
    p->sync->goal_elapsed_ns = 0;
    for (uint32_t i = 0; i < p->t.proc_count; i++)
        if (p->t.procs[i]->root && !p->t.procs[i]->outside)
            p->sync->goal_elapsed_ns +=
                ips_sub_sat(p->t.procs[i]->end_ns, p->t.procs[i]->start_ns);
}

static int append_received_table_rows(struct query *q, struct machine_share *p,
                                      const Ips__Reply *reply,
                                      struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_TABLE)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to TableAsk");
    const Ips__TableAnswer *a = reply->table;
    struct machine_tables *t = &p->t;
    if (!query_keep_message(q, p) ||
        !machine_share_append_rows(&t->procs, &t->proc_count,
                                   (void *const *)a->processes,
                                   a->n_processes) ||
        !machine_share_append_rows(&t->threads, &t->thread_count,
                                   (void *const *)a->threads, a->n_threads) ||
        !machine_share_append_rows(&t->channels, &t->channel_count,
                                   (void *const *)a->channels, a->n_channels))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    if (reply->last && query_wants_windowed_tables(q))
        limit_command_elapsed_to_window(p);
    return reply->last ? check_tables(p, err) : 0;
}

static void request_ends_or_finish_gathering(struct query *q)
{
    if (q->gather.want & GATHER_PEERS)
        ask_ends(q);
    else
        call_after_gathering(q);
}

/* Sets *from_ns and *to_ns to the window in the question. Returns false if it
 * names neither a window nor a phase; only `ls` and `metrics` have tables of a
 * window. */
static bool get_requested_window(const struct query *q, uint64_t *from_ns,
                                 uint64_t *to_ns)
{
    const Ips__Request *r = q->request;
    *from_ns = *to_ns = 0;
    if (r->ask_case == IPS__REQUEST__ASK_LS) {
        *from_ns = r->ls->from_ns;
        *to_ns = r->ls->to_ns;
        return *from_ns || *to_ns || r->ls->phase;
    }
    if (r->ask_case == IPS__REQUEST__ASK_METRICS) {
        *from_ns = r->metrics->from_ns;
        *to_ns = r->metrics->to_ns;
        return *from_ns || *to_ns || r->metrics->phase;
    }
    return false;
}

bool query_wants_windowed_tables(const struct query *q)
{
    uint64_t from_ns, to_ns;
    return get_requested_window(q, &from_ns, &to_ns);
}

static void ask_table(struct query *q)
{
    query_open_round(q, append_received_table_rows,
                     request_ends_or_finish_gathering);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        Ips__TableAsk ask = IPS__TABLE_ASK__INIT;
        if (get_requested_window(q, &ask.from_ns, &ask.to_ns))
            query_get_machine_window(q, q->gather.active[i], &ask.from_ns,
                                     &ask.to_ns);
        ask.traffic = q->gather.want & GATHER_PEERS;
        Ips__Request request = IPS__REQUEST__INIT;
        request.ask_case = IPS__REQUEST__ASK_TABLE;
        request.table = &ask;
        query_send_request_to_slave(q, q->gather.active[i], &request, true);
    }
    query_close_round(q);
}

/* ---- SyncAsk: the first round ----------------------------------------- */

struct known_row {
    const Ips__RunState *state;
    const char *machine;
    bool is_known;
};

static void mark_run_known_if_row_matches(const struct catalogue_row *row,
                                          void *arg)
{
    struct known_row *k = arg;
    k->is_known =
        k->is_known || (strcmp(row->machine, k->machine) == 0 &&
                        row->created_real_ns == k->state->created_real_ns);
}

/* Stores the run in the catalogue if no report of the slave has named it yet. A
 * known run is left as it is: the reply has its state at the time of the
 * question, and a later report may have stored a newer one. */
static void store_run_in_catalogue_if_new(struct query *q,
                                          const struct machine_share *p)
{
    struct ips_err err = {0};
    struct known_row k = {.state = p->sync->state, .machine = p->machine};
    int rc = catalogue_for_each_row(q->m->catalogue, q->run,
                                    mark_run_known_if_row_matches, &k, &err);
    if (rc == 0 && !k.is_known)
        rc = catalogue_store_changed_runs(q->m->catalogue, p->machine,
                                          &p->sync->state, 1, &err);
    if (rc < 0)
        ips_log_warn("%s", err.msg);
}

static int keep_sync_reply_and_store_run(struct query *q,
                                         struct machine_share *p,
                                         const Ips__Reply *reply,
                                         struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_SYNC || !reply->sync->state)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to SyncAsk");
    if (strcmp(reply->sync->state->run, q->run) != 0)
        return ips_err_set(err, IPS_E_PROTOCOL, "answers about another run");
    if (!query_keep_message(q, p))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    p->sync = reply->sync;
    p->expected = true;
    store_run_in_catalogue_if_new(q, p);
    return 0;
}

static void fail_no_machine_answers(struct query *q)
{
    char missing[800];
    struct ips_err err = {0};
    gather_write_missing_machines(q, missing, sizeof(missing));
    if (*missing)
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "run %s: no machine with its data can answer: %s", q->run,
                    missing);
    else
        ips_err_set(&err, IPS_E_NOT_FOUND, "the master knows no run %s",
                    q->run);
    query_fail(q, &err);
}

static void on_sync_answers_received(struct query *q)
{
    struct gather *g = &q->gather;
    g->active = calloc(q->machine_count + 1, sizeof(*g->active));
    if (!g->active) {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    g->count = 0;
    for (uint32_t i = 0; i < q->machine_count; i++) {
        struct machine_share *p = &q->machines[i];
        if (p->state != MACHINE_ACTIVE)
            continue;
        p->number = g->count;
        g->active[g->count++] = p;
    }
    if (g->count == 0) {
        fail_no_machine_answers(q);
        return;
    }
    q->in_graph = true;
    if (g->want & (GATHER_TABLE | GATHER_PEERS))
        ask_table(q);
    else
        call_after_gathering(q);
}

void gather_start(struct query *q, unsigned want,
                  void (*after)(struct query *q))
{
    gather_release(q);
    q->gather.want = want;
    q->gather.after = after;
    query_open_round(q, keep_sync_reply_and_store_run,
                     on_sync_answers_received);
    for (uint32_t i = 0; i < q->machine_count; i++) {
        Ips__SyncAsk ask = IPS__SYNC_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.waits = want & GATHER_WAITS;
        request.ask_case = IPS__REQUEST__ASK_SYNC;
        request.sync = &ask;
        if (q->machines[i].state == MACHINE_ACTIVE)
            query_send_request_to_slave(q, &q->machines[i], &request, true);
    }
    query_close_round(q);
}
