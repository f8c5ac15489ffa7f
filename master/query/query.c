#include "master/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/types.h"
#include "master/query/answer_cache.h"
#include "master/query/machine_share.h"
#include "master/query/phases.h"
#include "master/query/progress.h"

static void query_destroy(struct query *q)
{
    for (struct query *o = q->m->queries; o; o = o->next) {
        if (o->waiter == q)
            o->waiter = NULL;
    }
    if (q->kind && q->kind->release)
        q->kind->release(q);
    machine_shares_release(q);
    answer_cache_discard_recording(q);
    free(q->excluded);
    free(q->windows);
    free(q->phase_ends);
    ips__envelope__free_unpacked(q->envelope, NULL);
    free(q);
}

static void query_begin_due(struct master *m);

/* Frees questions that ended and that no job uses, then starts those whose turn
 * has come. Called at the end of every entry point, so that a question is never
 * freed during its own callback. */
static void query_reap_and_begin_due(struct master *m)
{
    for (struct query **at = &m->queries; *at;) {
        struct query *q = *at;
        if (q->over && !q->working) {
            *at = q->next;
            query_destroy(q);
        } else {
            at = &q->next;
        }
    }
    query_begin_due(m);
}

static void allow_replies_or_stop(struct query *q,
                                  const struct machine_share *p,
                                  uint32_t replies)
{
    Ips__MoreAsk more = IPS__MORE_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    more.replies = replies;
    request.id = p->ask_id;
    request.run = q->run;
    request.ask_case = IPS__REQUEST__ASK_MORE;
    request.more = &more;
    if (p->slave && p->slave->peer)
        ips_send_request(p->slave->peer, &request);
}

void query_widen_reply_window(struct query *q, struct machine_share *p)
{
    if (p->window == 0 || p->reply_count < p->window / 2)
        return;
    allow_replies_or_stop(q, p, p->reply_count);
    p->reply_count = 0;
}

/* Stops the slaves that still owe a reply. Replies on the way are ignored. */
void query_stop_slaves(struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        if (q->machines[i].ask_id)
            allow_replies_or_stop(q, &q->machines[i], 0);
        q->machines[i].ask_id = 0;
    }
    q->waiting = 0;
}

static void query_end(struct query *q)
{
    query_stop_slaves(q);
    q->over = true;
    q->unwanted = true;
    q->streaming = false;
}

/* ---- sending answers -------------------------------------------------- */

void query_send_partial_reply(struct query *q, Ips__Reply *reply)
{
    reply->id = q->id;
    answer_cache_record_reply(q, reply);
    if (q->client)
        ips_send_reply(q->client, reply);
}

void query_answer(struct query *q, Ips__Reply *reply)
{
    if (q->over)
        return;
    reply->last = true;
    query_send_partial_reply(q, reply);
    query_end(q);
}

void query_fail(struct query *q, const struct ips_err *why)
{
    if (q->over)
        return;
    ips_log_info("%s %s: %s", q->kind->name, q->run, why->msg);
    if (q->waiter && phases_find_phase_in_request(q->waiter->request) == 0) {
        /* the waiting question continues without phases, or reports the error
         * itself */
        query_end(q);
        return;
    }
    if (q->client)
        ips_send_error(q->client, q->id, why);
    if (q->waiter)
        query_end(q->waiter);
    query_end(q);
}

void query_end_without_reply(struct query *q)
{
    query_end(q);
}

void query_get_machine_window(const struct query *q,
                              const struct machine_share *p, uint64_t *from_ns,
                              uint64_t *to_ns)
{
    for (uint32_t i = 0; i < q->window_count; i++) {
        if (strcmp(q->windows[i].machine, p->machine) == 0) {
            *from_ns = q->windows[i].from_ns;
            *to_ns = q->windows[i].to_ns;
        }
    }
}

bool query_is_client_backlogged(const struct query *q)
{
    return q->client && ips_peer_backlog(q->client) >= QUERY_HIGH_BYTES;
}

void query_start_streaming(struct query *q)
{
    q->streaming = true;
    q->released_run = true;
    if (!query_is_client_backlogged(q))
        q->kind->pump(q);
}

/* ---- rounds of requests ----------------------------------------------- */

static void query_restart(struct query *q)
{
    struct ips_err err = {0};
    q->restart_needed = false;
    query_stop_slaves(q);
    answer_cache_discard_recording(q);
    if (++q->restarts > QUERY_MAX_RESTARTS) {
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "slaves connected, disconnected or got new data %u times "
                    "during this computation: ask again",
                    q->restarts);
        query_fail(q, &err);
        return;
    }
    ips_log_info("%s %s: starting again", q->kind->name, q->run);
    if (q->kind->release)
        q->kind->release(q);
    q->data = NULL;
    q->in_graph = false;
    if (machine_shares_list_run_and_live_machines(q, &err) < 0)
        query_fail(q, &err);
    else
        q->kind->start(q);
}

static void restart_or_call_after_round(struct query *q)
{
    if (q->over || q->working)
        return;
    if (q->restart_needed)
        query_restart(q);
    else
        q->after(q);
}

void query_open_round(struct query *q,
                      int (*take)(struct query *q, struct machine_share *p,
                                  const Ips__Reply *reply, struct ips_err *err),
                      void (*after)(struct query *q))
{
    q->take_reply = take;
    q->after = after;
    q->fail_as_group = false;
    q->on_tick = NULL;
    q->ask_more = NULL;
}

bool query_is_slave_backlogged(const struct machine_share *p)
{
    return p->slave && p->slave->peer &&
           ips_peer_backlog(p->slave->peer) >= QUERY_HIGH_BYTES;
}

void query_send_request_to_slave(struct query *q, struct machine_share *p,
                                 Ips__Request *request, bool first)
{
    if (!p->slave || !p->slave->peer || (first && q->restart_needed)) {
        q->restart_needed = true;
        return;
    }
    if (first) {
        p->ask_id = ++q->m->next_ask;
        p->asked_ns = p->heard_ns = master_now_ns();
        p->was_silent = !roster_is_slave_alive(p->slave, p->asked_ns);
        p->reply_count = 0;
        p->window = 0;
        q->waiting++;
    }
    if (p->ask_id == 0)
        return;
    request->id = p->ask_id;
    request->run = q->run;
    ips_send_request(p->slave->peer, request);
}

void query_close_round(struct query *q)
{
    if (q->waiting == 0)
        restart_or_call_after_round(q);
}

bool query_exclude(struct query *q, const char *machine, const char *why)
{
    struct excluded *more =
        realloc(q->excluded, (q->excluded_count + 1) * sizeof(*q->excluded));
    if (!more)
        return false;
    q->excluded = more;
    struct excluded *x = &more[q->excluded_count++];
    snprintf(x->machine, sizeof(x->machine), "%s", machine);
    snprintf(x->why, sizeof(x->why), "%.*s", (int)sizeof(x->why) - 1, why);
    return true;
}

void query_mark_machine_failed(struct query *q, struct machine_share *p,
                               const struct ips_err *why)
{
    if (p->ask_id) {
        /* the slave may have received a part of a long request */
        allow_replies_or_stop(q, p, 0);
        p->ask_id = 0;
        q->waiting--;
    }
    /* The slave was not expected to have the run, and it does not: the answer
     * leaves the machine out. */
    if (!q->in_graph && !p->expected) {
        p->state = MACHINE_FAILED;
        p->why[0] = '\0';
        return;
    }
    ips_log_info("%s %s: machine %s: %s", q->kind->name, q->run, p->machine,
                 why->msg);
    p->state = MACHINE_FAILED;
    snprintf(p->why, sizeof(p->why), "%.*s", (int)sizeof(p->why) - 1, why->msg);
    if (!q->in_graph)
        return;
    /* Other slaves got data about the failed one that is not valid now. */
    q->restart_needed = true;
    if (q->fail_as_group)
        query_stop_slaves(q);
    if (why->code != IPS_E_BUSY && why->code != IPS_E_UNREACHABLE &&
        !query_exclude(q, p->machine, why->msg))
        q->restarts = QUERY_MAX_RESTARTS;
}

static struct machine_share *find_machine_of_request(struct master *m,
                                                     const struct slave *s,
                                                     uint64_t id,
                                                     struct query **out)
{
    for (struct query *q = m->queries; q && id; q = q->next) {
        for (uint32_t i = 0; i < q->machine_count; i++) {
            if (q->machines[i].ask_id == id && q->machines[i].slave == s) {
                *out = q;
                return &q->machines[i];
            }
        }
    }
    return NULL;
}

void query_on_reply(struct master *m, struct slave *s, Ips__Reply *reply)
{
    struct query *q;
    struct machine_share *p = find_machine_of_request(m, s, reply->id, &q);
    if (!p)
        return;
    struct ips_err err = {0};
    uint64_t ask = p->ask_id;
    p->heard_ns = master_now_ns();
    uint64_t trip = ips_sub_sat(p->heard_ns, p->asked_ns);
    if (p->round_trip_ns == 0 || trip < p->round_trip_ns)
        p->round_trip_ns = trip;
    p->reply_count++;
    int rc = ips_reply_get_error(reply, &err);
    if (rc == 0)
        rc = q->take_reply(q, p, reply, &err);
    if (rc < 0) {
        query_mark_machine_failed(q, p, &err);
    } else if (reply->last && p->ask_id == ask) {
        p->ask_id = 0;
        q->waiting--;
    }
    if (q->waiting == 0)
        restart_or_call_after_round(q);
    query_reap_and_begin_due(m);
}

void query_fail_machines_of_lost_slave(struct master *m, const struct slave *s,
                                       const char *why)
{
    struct ips_err err = {0};
    for (struct query *q = m->queries; q; q = q->next) {
        for (uint32_t i = 0; i < q->machine_count && !q->over; i++) {
            struct machine_share *p = &q->machines[i];
            if (p->slave != s)
                continue;
            p->slave = NULL;
            if (p->ask_id == 0)
                continue;
            ips_err_set(&err, IPS_E_UNREACHABLE, "the slave disconnected: %s",
                        why);
            query_mark_machine_failed(q, p, &err);
            if (q->waiting == 0)
                restart_or_call_after_round(q);
            break; /* restart_or_call_after_round() may have replaced
                      q->machines */
        }
    }
    query_reap_and_begin_due(m);
}

/* ---- time limits ------------------------------------------------------ */

static bool is_reply_overdue(const struct master *m,
                             const struct machine_share *p, uint64_t now,
                             struct ips_err *err)
{
    uint64_t heard = ips_max_u64(p->heard_ns, p->slave ? p->slave->seen_ns : 0);
    uint64_t limit = p->was_silent && p->heard_ns == p->asked_ns
                         ? m->stopped_ns
                         : m->silence_ns;
    if (ips_sub_sat(now, heard) > limit)
        ips_err_set(err, IPS_E_REFUSED, "no message for %llu s",
                    (unsigned long long)(limit / 1000000000));
    else if (ips_sub_sat(now, p->heard_ns) > m->limit_ns)
        ips_err_set(err, IPS_E_REFUSED, "no answer for %llu s",
                    (unsigned long long)(m->limit_ns / 1000000000));
    else
        return false;
    return true;
}

/* A private slave exits two seconds after its last request. It must not exit
 * while its question waits that long for other slaves or for the master, so the
 * master sends it a request that needs no answer every AWAKE_NS. */
#define AWAKE_NS (500 * 1000 * 1000ULL)
static void keep_private_slave_awake(struct machine_share *p, uint64_t now)
{
    Ips__LookAsk look = IPS__LOOK_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    if (p->ask_id || !p->slave || !p->slave->peer ||
        p->state != MACHINE_ACTIVE ||
        ips_sub_sat(now, ips_max_u64(p->asked_ns, p->awake_ns)) < AWAKE_NS)
        return;
    p->awake_ns = now;
    /* a request without an id gets no answer */
    request.ask_case = IPS__REQUEST__ASK_LOOK;
    request.look = &look;
    ips_send_request(p->slave->peer, &request);
}

void query_tick(struct master *m)
{
    uint64_t now = master_now_ns();
    struct ips_err err = {0};
    for (struct query *q = m->queries; q; q = q->next) {
        bool failed = false;
        /* While the client does not read, the slave is not asked for more, so
         * its silence is not a failure. */
        bool paused = q->streaming && query_is_client_backlogged(q);
        for (uint32_t i = 0; i < q->machine_count && !q->over; i++) {
            struct machine_share *p = &q->machines[i];
            keep_private_slave_awake(p, now);
            if (p->ask_id && paused)
                p->heard_ns = now;
            if (p->ask_id && is_reply_overdue(m, p, now, &err)) {
                query_mark_machine_failed(q, p, &err);
                failed = true;
            }
        }
        if (failed && q->waiting == 0)
            restart_or_call_after_round(q);
        else if (q->on_tick && !q->over && q->waiting > 0)
            q->on_tick(q);
        else if (q->on_work && !q->over && q->working)
            q->on_work(q);
        progress_send_if_due(q, now);
    }
    query_reap_and_begin_due(m);
}

/* ---- start and end of questions --------------------------------------- */

static bool is_run_free_for_query(const struct query *q)
{
    if (!q->kind->exclusive)
        return true;
    for (const struct query *o = q->m->queries; o && o != q; o = o->next) {
        if (o->kind->exclusive && !o->released_run &&
            strcmp(o->run, q->run) == 0)
            return false;
    }
    return true;
}

static void query_answer_from_cache_or_start(struct query *q)
{
    struct ips_err err = {0};
    q->running = true;
    /* If the question that waits for these phases names no phase, its answer
     * may be in the cache, and the phases are not needed. */
    if (q->waiter && phases_find_phase_in_request(q->waiter->request) == 0 &&
        answer_cache_answer_query(q->waiter)) {
        query_end(q);
        return;
    }
    if (answer_cache_answer_query(q))
        return;
    if (machine_shares_list_run_and_live_machines(q, &err) < 0)
        query_fail(q, &err);
    else
        q->kind->start(q);
}

/* Starts the questions whose turn has come. */
static void query_begin_due(struct master *m)
{
    for (struct query *q = m->queries; q; q = q->next) {
        if (!q->running && !q->over && is_run_free_for_query(q))
            query_answer_from_cache_or_start(q);
    }
    /* Some questions may have ended at once; then it is the turn of the
     * questions after them. */
    for (struct query *q = m->queries; q; q = q->next) {
        if (q->over && !q->working) {
            query_reap_and_begin_due(m);
            return;
        }
    }
}

static void send_refusal_to_client(struct ips_peer *client, uint64_t id,
                                   int code, const char *why)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "%s", why);
    ips_send_error(client, id, &err);
}

static uint32_t count_questions_of_client(const struct master *m,
                                          const struct ips_peer *client)
{
    uint32_t count = 0;
    for (const struct query *q = m->queries; q; q = q->next)
        count += q->client == client && !q->over;
    return count;
}

/* Appends a question at the end of the list; always takes ownership of the
 * envelope. NULL: no memory. */
static struct query *append_query(struct master *m, struct ips_peer *client,
                                  Ips__Envelope *env)
{
    struct query *q = env ? calloc(1, sizeof(*q)) : NULL;
    if (!q) {
        ips__envelope__free_unpacked(env, NULL);
        return NULL;
    }
    q->m = m;
    q->kind = query_kind_of(env->request);
    q->client = client;
    q->envelope = env;
    q->request = env->request;
    q->id = env->request->id;
    q->begun_ns = master_now_ns();
    snprintf(q->run, sizeof(q->run), "%s", env->request->run);
    struct query **at = &m->queries;
    while (*at)
        at = &(*at)->next;
    *at = q;
    return q;
}

static void choose_run_and_try_immediate_answer(struct query *q)
{
    struct ips_err err = {0};
    if (machine_shares_default_to_newest_run(q, &err) < 0)
        query_fail(q, &err);
    else if (q->kind->at_once)
        (void)q->kind->at_once(q);
    if (!q->over)
        answer_cache_stop_other_precomputation(q->m, q);
}

void query_accept_from_client(struct master *m, struct ips_peer *client,
                              Ips__Envelope *env)
{
    const Ips__Request *request = env->request;
    const char *why = NULL;
    int code = IPS_E_BUSY;
    if (!query_kind_of(request)) {
        code = IPS_E_PROTOCOL;
        why = "not a question that a client asks the master";
    } else if (strlen(request->run) >= QUERY_RUN_BYTES) {
        code = IPS_E_USAGE;
        why = "run name is too long";
    } else if (count_questions_of_client(m, client) >= MASTER_MAX_QUERIES) {
        why = "too many questions of one client at once";
    }
    if (why) {
        send_refusal_to_client(client, request->id, code, why);
        ips__envelope__free_unpacked(env, NULL);
        return;
    }
    uint64_t id = request->id;
    /* Questions about one run are answered in order, so the question about
     * phases goes before the one that needs them. */
    bool wanted = phases_must_be_asked_before_request(request);
    struct query *first =
        wanted
            ? append_query(m, client, phases_make_question_for_request(request))
            : NULL;
    struct query *q = append_query(m, client, env);
    if (!q || (wanted && !first)) {
        send_refusal_to_client(client, id, IPS_E_NO_MEMORY, "out of memory");
        if (q)
            query_end(q);
        if (first)
            query_end(first);
    } else {
        if (first)
            first->waiter = q;
        choose_run_and_try_immediate_answer(first ? first : q);
        if (first && first->over && !q->over)
            choose_run_and_try_immediate_answer(q);
        else if (first && !q->over)
            snprintf(q->run, sizeof(q->run), "%s", first->run);
    }
    query_begin_due(m);
}

/* Makes the envelope of an internal question, which no client sent. */
static Ips__Envelope *make_internal_envelope(const Ips__Request *request)
{
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = (Ips__Request *)(uintptr_t)request;
    size_t len = ips__envelope__get_packed_size(&env);
    uint8_t *packed = malloc(len + 1);
    Ips__Envelope *copy = NULL;
    if (packed) {
        ips__envelope__pack(&env, packed);
        copy = ips__envelope__unpack(NULL, len, packed);
    }
    free(packed);
    return copy;
}

bool query_start_internal(struct master *m, const struct query_kind *kind,
                          const Ips__Request *request)
{
    struct query *q = append_query(m, NULL, make_internal_envelope(request));
    if (!q)
        return false;
    q->kind = kind;
    query_begin_due(m);
    return true;
}

/* The transport does the client's flow control; all that a client can do here
 * is to stop the question (replies 0). */
void query_stop_if_zero_replies(struct master *m, struct ips_peer *client,
                                uint64_t id, uint32_t replies)
{
    for (struct query *q = m->queries; q && replies == 0; q = q->next) {
        if (q->client == client && q->id == id)
            query_end(q);
    }
    query_reap_and_begin_due(m);
}

void query_on_client_gone(struct master *m, const struct ips_peer *client)
{
    for (struct query *q = m->queries; q; q = q->next) {
        if (q->client == client) {
            q->client = NULL;
            query_end(q);
        }
    }
    query_reap_and_begin_due(m);
}

void query_on_client_drain(struct master *m, const struct ips_peer *client)
{
    for (struct query *q = m->queries; q; q = q->next) {
        if (q->client == client && q->streaming &&
            !query_is_client_backlogged(q))
            q->kind->pump(q);
    }
    query_reap_and_begin_due(m);
}

void query_send_rest_of_requests_to_slave(struct master *m,
                                          const struct ips_peer *slave)
{
    for (struct query *q = m->queries; q; q = q->next)
        for (uint32_t i = 0; q->ask_more && i < q->machine_count; i++) {
            struct machine_share *p = &q->machines[i];
            if (p->ask_id && p->slave && p->slave->peer == slave)
                q->ask_more(q, p);
        }
}

void query_mark_all_unwanted(struct master *m)
{
    for (struct query *q = m->queries; q; q = q->next)
        q->unwanted = true;
}

void query_release_all(struct master *m)
{
    while (m->queries) {
        struct query *q = m->queries;
        m->queries = q->next;
        query_destroy(q);
    }
}

/* ---- jobs of the worker ----------------------------------------------- */

struct work {
    struct query *q;
    void (*run)(struct query *q);
    void (*done)(struct query *q);
};

static void run_query_work(void *arg)
{
    struct work *w = arg;
    w->run(w->q);
}

static void handle_work_done(void *arg)
{
    struct work *w = arg;
    struct query *q = w->q;
    struct master *m = q->m;
    q->working = false;
    if (!q->over && !m->stopping)
        w->done(q);
    free(w);
    query_reap_and_begin_due(m);
}

int query_submit_work(struct query *q, void (*run)(struct query *q),
                      void (*done)(struct query *q), struct ips_err *err)
{
    struct work *w = calloc(1, sizeof(*w));
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a job");
    *w = (struct work){.q = q, .run = run, .done = done};
    int rc =
        worker_submit(q->m->worker, run_query_work, handle_work_done, w, err);
    if (rc < 0)
        free(w);
    else
        q->working = true;
    return rc;
}
