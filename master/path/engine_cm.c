/*
 * The master's side of cm-async and cm-sync. It opens a computation on every
 * slave. As the root it starts each scenario and detects when all values are
 * final. Then it walks the path back, with one request for each change of
 * machine. The values go directly from slave to slave; the master relays
 * messages between slaves that cannot connect to each other.
 *
 * One CmAsk lasts for all scenarios and ends with the master's MoreAsk. So if a
 * client disconnects or a slave is lost, the master makes every slave discard
 * the computation.
 */
#include "master/path/engine_cm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "master/path/weighting.h"

static void start_scenario_on_all_slaves(struct query *q, enum scenario_id id);

static struct cm_run *cm_run_of(const struct query *q)
{
    const struct path_data *d = q->data;
    return d->cm;
}

void cm_send_message(struct query *q, const struct machine_share *p,
                     Ips__CmMessage *m, Ips__CmMessage__Kind kind)
{
    struct cm_run *r = cm_run_of(q);
    m->key = (ProtobufCBinaryData){CM_KEY_BYTES, r->key};
    m->kind = kind;
    m->from = IPS_CM_ROOT;
    m->to = p->number;
    m->lane = r->scenario;
    if (p->slave && p->slave->peer)
        ips_send_chandy_misra_message(p->slave->peer, m);
}

static void send_cm_message_to_all_slaves(struct query *q,
                                          Ips__CmMessage__Kind kind)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        Ips__CmMessage m = IPS__CM_MESSAGE__INIT;
        cm_send_message(q, q->gather.active[i], &m, kind);
    }
}

/* ---- relaying messages --------------------------------------------------- */

static struct machine_share *machine_of_slave(const struct query *q,
                                              const struct slave *s)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        if (q->gather.active[i]->slave == s)
            return q->gather.active[i];
    }
    return NULL;
}

void engine_cm_relay_message(struct master *m, const struct slave *s,
                             Ips__CmMessage *message)
{
    for (struct query *q = m->queries; q; q = q->next) {
        struct path_data *d =
            q->kind == &query_path && !q->over ? q->data : NULL;
        struct cm_run *r = d ? d->cm : NULL;
        if (!r || message->key.len != CM_KEY_BYTES ||
            memcmp(r->key, message->key.data, CM_KEY_BYTES) != 0)
            continue;
        struct machine_share *p = machine_of_slave(q, s);
        if (!p || p->number != message->from || message->to >= q->gather.count)
            return;
        const struct machine_share *to = q->gather.active[message->to];
        p->heard_ns = master_now_ns();
        if (to->slave && to->slave->peer)
            ips_send_chandy_misra_message(to->slave->peer, message);
        return;
    }
}

/* ---- end of a scenario -------------------------------------------------- */

static void begin_next_scenario_or_answer(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->err.code) {
        engine_exclude_blamed_machine_or_fail(q);
        return;
    }
    if (q->restart_needed) { /* a slave was lost during the scenario */
        query_close_round(q);
        return;
    }
    enum scenario_id next = engine_find_next_wanted_scenario(d, d->now);
    if (next != SCENARIOS) {
        start_scenario_on_all_slaves(q, next);
        return;
    }
    query_stop_slaves(q);
    path_start_answer(q);
}

static void compute_scenario_shares(struct query *q)
{
    struct path_data *d = path_data_of(q);
    (void)engine_finish_shares_and_pieces(
        d); /* on failure the reason is in d->err */
}

void cm_submit_shares_of_walked_scenario(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, compute_scenario_shares,
                          begin_next_scenario_or_answer, &err) < 0)
        query_fail(q, &err);
}

/* To be called when all slaves have reported their latest END node. The path
 * ends at the latest END of all machines; if several are equal, at that of the
 * first machine. */
static void start_walk_from_latest_end(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct scenario_result *scenario = &d->scenarios[d->now];
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct engine_machine *e =
            engine_data_of_machine(q->gather.active[i]);
        if (e->cm_end &&
            (best == UINT32_MAX || e->finished_t_max > scenario->t_max))
            best = i;
        if (best == i)
            scenario->t_max = e->finished_t_max;
    }
    if (best == UINT32_MAX) {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "no thread of this run has ended yet: nothing to show");
        query_fail(q, &err);
        return;
    }
    d->work_count = 0;
    if (scenario->with_shares)
        cm_walk_begin(
            q, best,
            (uint32_t)(engine_data_of_machine(q->gather.active[best])->cm_end -
                       1));
    else
        cm_submit_shares_of_walked_scenario(q);
}

static void add_engine_cost(struct path_data *d, const Ips__CmAnswer *a)
{
    if (d->now != SCENARIO_MAIN)
        return;
    d->total_cpu_ns = ips_add_sat(d->total_cpu_ns, a->total_ns);
    d->cost.values += a->values;
    d->cost.messages += a->messages;
    d->cost.bytes += a->bytes;
    d->cost.rounds = ips_max_u64(d->cost.rounds, a->passes);
}

static int handle_latest_end_answer(struct query *q, struct machine_share *p,
                                    const Ips__CmAnswer *a, struct ips_err *err)
{
    struct cm_run *r = cm_run_of(q);
    struct engine_machine *e = engine_data_of_machine(p);
    if (!r->over || e->cm_done || a->end > p->sync->nodes)
        return ips_err_set(err, IPS_E_PROTOCOL, "an end that cannot be");
    e->cm_done = true;
    e->cm_end = a->end;
    e->finished_t_max = a->t_max_ns;
    add_engine_cost(path_data_of(q), a);
    if (++r->finished == q->gather.count)
        start_walk_from_latest_end(q);
    return 0;
}

/* ---- termination detection -------------------------------------------- */

static void declare_scenario_over(struct query *q)
{
    struct cm_run *r = cm_run_of(q);
    if (r->over)
        return;
    r->over = true;
    send_cm_message_to_all_slaves(q, IPS__CM_MESSAGE__KIND__OVER);
}

static void fail_stalled_question(struct query *q)
{
    struct ips_err err = {0};
    char text[900] = "";
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        size_t at = strlen(text);
        if (*engine_data_of_machine(p)->cm_stalled)
            snprintf(text + at, sizeof(text) - at, "%smachine %s: %s",
                     at ? "; " : "", p->machine,
                     engine_data_of_machine(p)->cm_stalled);
    }
    ips_err_set(&err, IPS_E_STALLED, "the graph of this run is damaged: %s",
                text);
    query_fail(q, &err);
}

/* cm-sync: adds the counts in a slave's answer to TELL to the current round of
 * counting. If the round shows that all values are final, ends the scenario; if
 * it shows a stall, fails the question. */
static void add_counts_and_end_if_final(struct query *q, const Ips__CmAnswer *a)
{
    struct cm_run *r = cm_run_of(q);
    if (r->asked)
        r->asked--;
    switch (ips_cm_tally_add_report_and_get_state(&r->tally, a->sent, a->taken,
                                                  a->unfinished)) {
    case IPS_CM_OVER:
        declare_scenario_over(q);
        break;
    case IPS_CM_STALLED:
        fail_stalled_question(q);
        break;
    case IPS_CM_GOES_ON:
    case IPS_CM_ASK_AGAIN: /* the root asks again at the next tick */
        break;
    }
}

static bool all_values_are_final(const struct query *q)
{
    uint64_t sent = 0, taken = 0, unfinished = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct engine_machine *e =
            engine_data_of_machine(q->gather.active[i]);
        if (!e->cm_reported)
            return false;
        sent += e->cm_sent;
        taken += e->cm_taken;
        unfinished += e->cm_unfinished;
    }
    return unfinished == 0 && sent == taken;
}

static int store_counts_and_detect_termination(struct query *q,
                                               struct machine_share *p,
                                               const Ips__CmAnswer *a,
                                               struct ips_err *err)
{
    struct cm_run *r = cm_run_of(q);
    struct engine_machine *e = engine_data_of_machine(p);
    if (a->acks > r->root_unacked)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "acknowledges what the root never sent");
    if (r->over)
        return 0;
    e->cm_reported = true;
    e->cm_sent = a->sent;
    e->cm_taken = a->taken;
    e->cm_unfinished = a->unfinished;
    snprintf(e->cm_stalled, sizeof(e->cm_stalled), "%.*s",
             (int)sizeof(e->cm_stalled) - 1, a->stalled);
    r->root_unacked -= a->acks;
    if (r->async && r->root_unacked == 0)
        declare_scenario_over(q);
    else if (!r->async && all_values_are_final(q))
        declare_scenario_over(q);
    else if (!r->async && a->asked)
        add_counts_and_end_if_final(q, a);
    return 0;
}

/* Asks all slaves for their counts (TELL), so that the root notices a stall,
 * and knows that slaves which compute for long are alive. */
static void ask_counts_on_tick(struct query *q)
{
    struct cm_run *r = cm_run_of(q);
    uint64_t now = master_now_ns();
    if (r->scenario == 0 || r->over || now - r->progress_ns < CM_TELL_NS)
        return;
    r->progress_ns = now;
    if (r->asked && !r->async)
        return; /* the previous round of counts is not complete */
    r->asked = q->gather.count;
    send_cm_message_to_all_slaves(q, IPS__CM_MESSAGE__KIND__TELL);
}

/* ---- start of a scenario ---------------------------------------------- */

static void start_scenario_on_all_slaves(struct query *q, enum scenario_id id)
{
    struct path_data *d = path_data_of(q);
    struct cm_run *r = d->cm;
    Ips__Lane scenario;
    d->now = id;
    r->scenario++;
    r->finished = 0;
    r->over = false;
    r->asked = 0;
    r->progress_ns = master_now_ns();
    r->root_unacked = r->async ? q->gather.count : 0;
    ips_cm_tally_init(&r->tally, q->gather.count);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct engine_machine *e = engine_data_of_machine(q->gather.active[i]);
        Ips__CmMessage m = IPS__CM_MESSAGE__INIT;
        e->cm_reported = e->cm_done = false;
        *e->cm_stalled = '\0';
        weighting_write_scenario(q, q->gather.active[i],
                                 &d->scenarios[id].scenario, &scenario);
        m.weights = &scenario;
        m.async = r->async;
        m.count = r->links;
        cm_send_message(q, q->gather.active[i], &m,
                        IPS__CM_MESSAGE__KIND__LANE);
    }
}

static int count_opened_and_begin_main_scenario(struct query *q,
                                                const Ips__CmAnswer *a,
                                                struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    struct cm_run *r = d->cm;
    if (r->opened == q->gather.count)
        return ips_err_set(err, IPS_E_PROTOCOL, "opens twice");
    r->links += a->links_in;
    d->unmatched += a->unmatched;
    d->cost.relayed += a->relayed;
    if (a->relayed && *a->relayed_why && !*d->relay_note)
        snprintf(d->relay_note, sizeof(d->relay_note),
                 "slaves that cannot reach each other talk through the master: "
                 "%.180s",
                 a->relayed_why);
    if (++r->opened == q->gather.count)
        start_scenario_on_all_slaves(q, SCENARIO_MAIN);
    return 0;
}

/* If a slave reports invalid data from another slave, the sender is excluded,
 * not the slave that reports it. */
static int exclude_blamed_machine(struct query *q,
                                  const struct machine_share *p,
                                  const Ips__CmAnswer *a, struct ips_err *err)
{
    struct ips_err why = {0};
    if (a->part >= q->gather.count || a->part == p->number)
        return ips_err_set(err, IPS_E_PROTOCOL, "blames nobody");
    ips_err_set(&why, IPS_E_PROTOCOL, "sent to machine %s: %s", p->machine,
                a->stalled);
    query_mark_machine_failed(q, q->gather.active[a->part], &why);
    return 0;
}

static int dispatch_cm_reply(struct query *q, struct machine_share *p,
                             const Ips__Reply *reply, struct ips_err *err)
{
    const Ips__CmAnswer *a = reply->cm;
    struct cm_run *r = cm_run_of(q);
    if (reply->answer_case != IPS__REPLY__ANSWER_CM || reply->last)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to CmAsk");
    if (a->lane != r->scenario)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "speaks of lane %u, this is lane %u", a->lane,
                           r->scenario);
    switch (a->kind) {
    case IPS__CM_ANSWER__KIND__OPENED:
        return count_opened_and_begin_main_scenario(q, a, err);
    case IPS__CM_ANSWER__KIND__TOLD:
        return store_counts_and_detect_termination(q, p, a, err);
    case IPS__CM_ANSWER__KIND__FINISHED:
        return handle_latest_end_answer(q, p, a, err);
    case IPS__CM_ANSWER__KIND__WALKED:
        return cm_push_walk_answer_and_continue(q, p, a, err);
    case IPS__CM_ANSWER__KIND__BLAMED:
        return exclude_blamed_machine(q, p, a, err);
    case IPS__CM_ANSWER__KIND__NONE:
    case _IPS__CM_ANSWER__KIND_IS_INT_SIZE:
        break;
    }
    return ips_err_set(err, IPS_E_PROTOCOL, "no answer to CmAsk");
}

/* The round's `after`, which is not expected to be called: the round ends with
 * path_start_answer(), with a failure, or with a restart of the question. */
static void fail_stopped_computation(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_INCOMPLETE,
                "the slaves ended the computation before it was over");
    query_fail(q, &err);
}

static void open_computation_on_slaves(struct query *q, char **machines,
                                       char **peers)
{
    struct cm_run *r = cm_run_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__CmAsk ask = IPS__CM_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.generation = p->sync->generation;
        ask.key = (ProtobufCBinaryData){CM_KEY_BYTES, r->key};
        ask.self = i;
        ask.n_machines = ask.n_peers = q->gather.count;
        ask.machines = machines;
        ask.peers = peers;
        ask.calibrated =
            path_data_of(q)->scenarios[SCENARIO_MAIN].scenario.calibrated;
        request.ask_case = IPS__REQUEST__ASK_CM;
        request.cm = &ask;
        query_send_request_to_slave(q, p, &request, true);
    }
}

void engine_start_cm(struct query *q, bool async)
{
    struct path_data *d = path_data_of(q);
    struct cm_run *r = calloc(1, sizeof(*r));
    uint32_t n = q->gather.count;
    char **names = calloc((size_t)n * 2 + 1, sizeof(*names));
    struct ips_err err = {0};
    if (!r || !names ||
        getrandom(r->key, sizeof(r->key), 0) != (ssize_t)sizeof(r->key)) {
        free(r);
        free(names);
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    d->cm = r;
    r->async = async;
    d->total_cpu_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct machine_share *p = q->gather.active[i];
        names[i] = p->machine;
        /* A restart may be due to a broken link. Without addresses of its
         * peers, a slave lets the master relay everything. */
        names[n + i] = q->restarts == 0 && p->slave ? p->slave->peers
                                                    : ips_unconst_text("");
    }
    query_open_round(q, dispatch_cm_reply, fail_stopped_computation);
    q->fail_as_group = true;
    q->on_tick = ask_counts_on_tick;
    open_computation_on_slaves(q, names, names + n);
    free(names);
    query_close_round(q);
}
