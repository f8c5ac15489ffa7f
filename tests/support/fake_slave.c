#include "tests/support/fake_slave.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* ---- replies, now or later ---------------------------------------------- */

/* A queue: replies of one slave never overtake each other. */
struct later {
    struct later *next;
    unsigned ms;
    uint8_t *packed;
    size_t len;
};

static void on_due(evutil_socket_t fd, short what, void *arg);

static void arm(struct fake_slave *s)
{
    if (!s->due)
        s->due = event_new(s->c->base, -1, 0, on_due, s);
    if (s->queue && !event_pending(s->due, EV_TIMEOUT, NULL)) {
        const struct timeval wait = {0, (suseconds_t)s->queue->ms * 1000};
        event_add(s->due, &wait);
    }
}

static void drop_first(struct fake_slave *s)
{
    struct later *l = s->queue;
    s->queue = l->next;
    free(l->packed);
    free(l);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct fake_slave *s = arg;
    struct later *l = s->queue;
    Ips__Reply *reply = ips__reply__unpack(NULL, l->len, l->packed);
    assert_non_null(reply);
    ips_send_reply(s->peer, reply);
    ips__reply__free_unpacked(reply, NULL);
    drop_first(s);
    arm(s);
}

static void send_after(struct fake_slave *s, const Ips__Reply *reply,
                       unsigned ms)
{
    struct later *l = calloc(1, sizeof(*l)), **at = &s->queue;
    assert_non_null(l);
    l->ms = ms;
    l->len = ips__reply__get_packed_size(reply);
    l->packed = malloc(l->len + 1);
    assert_non_null(l->packed);
    ips__reply__pack(reply, l->packed);
    while (*at)
        at = &(*at)->next;
    *at = l;
    arm(s);
}

static unsigned ask_delay;

void fake_slave_answer(struct fake_slave *s, uint64_t id, Ips__Reply *reply,
                       bool last)
{
    reply->id = id;
    reply->last = last;
    if (ask_delay || s->queue)
        send_after(s, reply, ask_delay);
    else
        ips_send_reply(s->peer, reply);
}

static void fill_state(struct fake_slave *s, Ips__RunState *state)
{
    ips__run_state__init(state);
    state->run = s->run;
    state->command = ips_unconst_text("the command");
    state->open = s->open;
    state->has_root = s->has_root;
    state->created_real_ns = 1000;
    state->threads = s->g ? s->g->chain_count : 0;
    state->processes = 1;
    state->events = (s->g ? s->g->node_count : 0) + s->more_events;
    if (s->lost) {
        state->n_lost = 1;
        state->lost = &s->lost;
    }
}

void fake_slave_report(struct fake_slave *s)
{
    Ips__Report report = IPS__REPORT__INIT;
    Ips__RunState state, *list = &state;
    if (!s->peer || !s->g)
        return;
    fill_state(s, &state);
    report.n_runs = report.known_runs = s->unknown_run ? 0 : 1;
    report.runs = &list;
    report.building_for = s->building_for;
    report.built_permille = s->built_permille;
    ips_send_report(s->peer, &report);
}

static void answer_sync(struct fake_slave *s, uint64_t id)
{
    Ips__SyncAnswer sync = IPS__SYNC_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    Ips__RunState state;
    fill_state(s, &state);
    sync.state = &state;
    sync.nodes = s->g->node_count;
    sync.generation = 5;
    sync.cores = 2;
    sync.probe_ns = 3;
    sync.goal_elapsed_ns = 1000;
    sync.first_ns = 1000;
    sync.last_ns = 2049000;
    reply.answer_case = IPS__REPLY__ANSWER_SYNC;
    reply.sync = &sync;
    fake_slave_answer(s, id, &reply, true);
}

static uint32_t process_count(const struct ips_graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->chain_count; i++)
        n = g->chains[i].process >= n ? g->chains[i].process + 1 : n;
    return n;
}

/* In two replies: processes, then threads. */
static void answer_table(struct fake_slave *s, uint64_t id)
{
    const struct ips_graph *g = s->g;
    uint32_t procs = process_count(g), threads = g->chain_count;
    Ips__ProcessRow *p = calloc(procs + 1, sizeof(*p));
    Ips__ThreadRow *t = calloc(threads + 1, sizeof(*t));
    Ips__ProcessRow **pl = calloc(procs + 1, sizeof(*pl));
    Ips__ThreadRow **tl = calloc(threads + 1, sizeof(*tl));
    char(*names)[24] = calloc(procs + 1, sizeof(*names));
    assert_true(p && t && pl && tl && names);
    for (uint32_t i = 0; i < procs; i++) {
        ips__process_row__init(&p[i]);
        p[i].index = i;
        p[i].parent = -1;
        snprintf(names[i], sizeof(names[i]), "p.%u", i);
        p[i].name = names[i];
        p[i].start_ns = 10;
        p[i].end_ns = 90;
        pl[i] = &p[i];
    }
    for (uint32_t i = 0; i < threads; i++) {
        ips__thread_row__init(&t[i]);
        t[i].chain = i;
        t[i].process = g->chains[i].process;
        t[i].tid = g->chains[i].tid;
        t[i].start_ns = 10;
        t[i].end_ns = 90;
        t[i].cpu_ns = 7;
        tl[i] = &t[i];
    }
    Ips__TableAnswer a = IPS__TABLE_ANSWER__INIT, b = IPS__TABLE_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    a.n_processes = procs;
    a.processes = pl;
    b.n_threads = threads;
    b.threads = tl;
    reply.answer_case = IPS__REPLY__ANSWER_TABLE;
    reply.table = &a;
    fake_slave_answer(s, id, &reply, false);
    reply.table = &b;
    fake_slave_answer(s, id, &reply, true);
    free(p);
    free(t);
    free(pl);
    free(tl);
    free(names);
}

/* "A>B:e" for the end e of the lower machine: equal on both, swapped. */
static void name_end(char *local, char *remote, size_t cap, uint32_t part,
                     uint32_t end, struct ips_peer_end peer)
{
    bool alone = peer.machine == UINT32_MAX, low = part < peer.machine;
    uint32_t lower = low ? end : peer.end, upper = low ? peer.end : end;
    if (alone)
        snprintf(local, cap, "x%u:%u", part, end);
    else
        snprintf(local, cap, "m%u:%u/%u", part, lower, upper);
    if (alone)
        snprintf(remote, cap, "nobody");
    else
        snprintf(remote, cap, "m%u:%u/%u", peer.machine, lower, upper);
}

static void answer_ends(struct fake_slave *s, uint64_t id)
{
    Ips__End *e = calloc(s->end_count + 1, sizeof(*e));
    Ips__End **list = calloc(s->end_count + 1, sizeof(*list));
    char(*keys)[2][48] = calloc(s->end_count + 1, sizeof(*keys));
    assert_true(e && list && keys);
    for (uint32_t i = 0; i < s->end_count; i++) {
        ips__end__init(&e[i]);
        name_end(keys[i][0], keys[i][1], 48, s->number, i, s->peer_end[i]);
        e[i].index = i;
        e[i].kind = 4;
        e[i].local.data = (uint8_t *)keys[i][0];
        e[i].local.len = strlen(keys[i][0]);
        e[i].remote.data = (uint8_t *)keys[i][1];
        e[i].remote.len = strlen(keys[i][1]);
        list[i] = &e[i];
    }
    Ips__EndsAnswer a = IPS__ENDS_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    a.n_ends = s->end_count;
    a.ends = list;
    a.generation = 5;
    reply.answer_case = IPS__REPLY__ANSWER_ENDS;
    reply.ends = &a;
    fake_slave_answer(s, id, &reply, true);
    free(e);
    free(list);
    free(keys);
}

/* ---- events, with a window ---------------------------------------------- */

static void stream_events(struct fake_slave *s)
{
    while (s->window_left > 0 && s->stream_at <= s->stream_total &&
           !s->stopped) {
        Ips__EventsAnswer a = IPS__EVENTS_ANSWER__INIT;
        Ips__EventRow row = IPS__EVENT_ROW__INIT, *list = &row;
        Ips__Reply reply = IPS__REPLY__INIT;
        static char text[65536];
        memset(text, 'x', sizeof(text) - 1);
        row.machine = s->machine;
        row.t_ns = s->stream_at;
        row.detail = text;
        a.n_events = s->stream_at < s->stream_total;
        a.events = &list;
        reply.answer_case = IPS__REPLY__ANSWER_EVENTS;
        reply.events = &a;
        reply.id = s->stream_id;
        reply.last = s->stream_at == s->stream_total;
        s->stream_at++;
        s->window_left--;
        s->window_sent++;
        if (s->window_sent > s->window_most)
            s->window_most = s->window_sent;
        ips_send_reply(s->peer, &reply);
    }
}

static void begin_events(struct fake_slave *s, const Ips__Request *r)
{
    s->stream_id = r->id;
    s->stream_at = 0;
    s->stopped = false;
    s->stream_total = s->events;
    if (r->events->limit && r->events->limit < s->events)
        s->stream_total = (uint32_t)r->events->limit;
    s->window_left = r->events->window;
    s->window_sent = 0;
    stream_events(s);
}

static void on_more(struct fake_slave *s, const Ips__Request *r)
{
    if (s->cm && r->more->replies == 0)
        fake_slave_cm_end(s);
    if (s->trip_id && r->id == s->trip_id && r->more->replies == 0)
        s->trip_stopped = true;
    if (r->id != s->stream_id)
        return;
    if (r->more->replies == 0)
        s->stopped = true;
    s->window_left += r->more->replies;
    s->window_sent -=
        s->window_sent < r->more->replies ? s->window_sent : r->more->replies;
    stream_events(s);
}

/* ---- asks --------------------------------------------------------------- */

static void answer_error(struct fake_slave *s, uint64_t id, int code)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.error = code;
    reply.message = ips_unconst_text("as the test wants it");
    fake_slave_answer(s, id, &reply, true);
}

static void answer_peers(struct fake_slave *s, const Ips__Request *r)
{
    Ips__PeersAnswer a = IPS__PEERS_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    fake_slave_peers(s, r->peers);
    if (r->peers->more)
        return;
    a.generation = 5;
    for (uint32_t i = 0; i < s->g->node_count; i++)
        a.external += s->g->xkind[i] == IPS_X_EXTERNAL;
    a.pending = s->end_count - (uint32_t)r->peers->n_peers;
    reply.answer_case = IPS__REPLY__ANSWER_PEERS;
    reply.peers = &a;
    fake_slave_answer(s, r->id, &reply, true);
}

static void do_ask(struct fake_slave *s, const Ips__Request *r, bool corrupt)
{
    switch (r->ask_case) {
    case IPS__REQUEST__ASK_SYNC:
        answer_sync(s, r->id);
        break;
    case IPS__REQUEST__ASK_TABLE:
        answer_table(s, r->id);
        break;
    case IPS__REQUEST__ASK_ENDS:
        answer_ends(s, r->id);
        break;
    case IPS__REQUEST__ASK_PEERS:
        answer_peers(s, r);
        break;
    case IPS__REQUEST__ASK_REDUCE:
        fake_slave_reduce(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_FINISH:
        fake_slave_finish(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_EXPAND:
        fake_slave_expand(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_SUBGRAPH:
        fake_slave_subgraph(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_EVENTS:
        begin_events(s, r);
        break;
    case IPS__REQUEST__ASK_CM:
        fake_slave_cm_begin(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_ECHO:
        fake_slave_echo(s, r);
        break;
    case IPS__REQUEST__ASK_TRIP:
        fake_slave_trip(s, r);
        break;
    case IPS__REQUEST__ASK_READY:
        fake_slave_ready(s, r);
        break;
    case IPS__REQUEST__ASK_PORTIONS:
        fake_slave_portions(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_WAITS:
    case IPS__REQUEST__ASK_WAIT_ROWS:
    case IPS__REQUEST__ASK_SERIES:
        fake_slave_series(s, r, corrupt);
        break;
    case IPS__REQUEST__ASK_WHATIF:
    case IPS__REQUEST__ASK_REQUESTS:
    case IPS__REQUEST__ASK_BRACKETS:
    case IPS__REQUEST__ASK_WHY:
    case IPS__REQUEST__ASK_RUNS:
    case IPS__REQUEST__ASK_STATUS:
    case IPS__REQUEST__ASK_LS:
    case IPS__REQUEST__ASK_METRICS:
    case IPS__REQUEST__ASK_PATH:
    case IPS__REQUEST__ASK_GRAPH:
    case IPS__REQUEST__ASK_PROCEDURES:
    case IPS__REQUEST__ASK_PROFILE:
    case IPS__REQUEST__ASK_SPLIT:
    case IPS__REQUEST__ASK_SQL:
    case IPS__REQUEST__ASK_PHASES:
    case IPS__REQUEST__ASK_PREDICT:
    case IPS__REQUEST__ASK_LOOK:
    case IPS__REQUEST__ASK_CALIBRATE:
    case IPS__REQUEST__ASK_ESTIMATE:
    case IPS__REQUEST__ASK_MORE:
    case IPS__REQUEST__ASK__NOT_SET:
    case _IPS__REQUEST__ASK__CASE_IS_INT_SIZE:
        fail_msg("the master asked %d", (int)r->ask_case);
    }
}

static void on_ask(struct fake_slave *s, const Ips__Request *r)
{
    if (r->ask_case == IPS__REQUEST__ASK_MORE) {
        on_more(s, r);
        return;
    }
    s->asks++;
    ask_delay = s->delay_ms
                    ? (unsigned)(next_random(&s->c->seed) % (s->delay_ms + 1))
                    : 0;
    enum fault fault = s->asks == s->fault_at ? s->fault : FAULT_NONE;
    bool of_run = r->ask_case != IPS__REQUEST__ASK_ECHO &&
                  r->ask_case != IPS__REQUEST__ASK_TRIP &&
                  r->ask_case != IPS__REQUEST__ASK_READY;
    if (of_run && (s->unknown_run || strcmp(r->run, s->run) != 0))
        answer_error(s, r->id, IPS_E_NOT_FOUND);
    else if (fault == FAULT_CLOSE)
        cluster_disconnect(s);
    else if (fault == FAULT_ERROR)
        answer_error(s, r->id, IPS_E_CORRUPT);
    else if (fault == FAULT_BUSY)
        answer_error(s, r->id, IPS_E_BUSY);
    else if (fault == FAULT_TYPE)
        answer_error(s, r->id, 0);
    else if (fault != FAULT_SILENT)
        do_ask(s, r, fault == FAULT_CORRUPT);
    else if (s->built_permille) {
        s->building_for = r->id;
        fake_slave_report(s);
    }
}

/* Counted like an ask, so that faults come in the middle too. */
static void on_cm(struct fake_slave *s, const Ips__CmMessage *m)
{
    enum fault fault = ++s->asks == s->fault_at ? s->fault : FAULT_NONE;
    uint64_t id = fake_slave_cm_id(s);
    if (fault == FAULT_NONE || fault == FAULT_CORRUPT || !id) {
        fake_slave_cm_message(s, m, fault == FAULT_CORRUPT);
        return;
    }
    if (fault == FAULT_CLOSE) {
        cluster_disconnect(s);
        return;
    }
    fake_slave_cm_end(s);
    if (fault != FAULT_SILENT)
        answer_error(s, id,
                     fault == FAULT_ERROR  ? IPS_E_CORRUPT
                     : fault == FAULT_BUSY ? IPS_E_BUSY
                                           : 0);
}

static void on_message(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg)
{
    struct fake_slave *s = arg;
    (void)peer;
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO)
        fake_slave_report(s);
    else if (env->body_case == IPS__ENVELOPE__BODY_REQUEST)
        on_ask(s, env->request);
    else if (env->body_case == IPS__ENVELOPE__BODY_CM)
        on_cm(s, env->cm);
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct fake_slave *s = arg;
    if (s->peer != peer)
        return;
    s->peer = NULL;
    fake_slave_cm_end(s);
    while (s->queue)
        drop_first(s);
    if (s->due)
        event_del(s->due);
    s->refused = true;
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static const struct ips_peer_ops ops = {on_message, on_close};

void cluster_connect(struct fake_slave *s)
{
    struct ips_err err = {0};
    if (ips_peer_connect(s->c->base, s->c->master.address, &s->peer, &err) < 0)
        fail_msg("%s", err.msg);
    ips_peer_set_ops(s->peer, &ops, s);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = s->machine;
    hello.cores = 2;
    ips_send_hello(s->peer, &hello);
}

void cluster_disconnect(struct fake_slave *s)
{
    struct ips_peer *peer = s->peer;
    s->peer = NULL;
    fake_slave_cm_end(s);
    while (s->queue)
        drop_first(s);
    if (s->due)
        event_del(s->due);
    ips_peer_close_and_free_later(peer);
}

struct fake_slave *cluster_add(struct cluster *c, const char *machine,
                               const char *run, const struct ips_graph *g,
                               const struct ips_peer_end *peer_end,
                               uint32_t end_count)
{
    assert_true(c->slave_count < CLUSTER_SLAVES);
    struct fake_slave *s = &c->slave[c->slave_count];
    memset(s, 0, sizeof(*s));
    s->c = c;
    s->number = c->slave_count++;
    snprintf(s->machine, sizeof(s->machine), "%s", machine);
    snprintf(s->run, sizeof(s->run), "%s", run);
    s->g = g;
    s->peer_end = peer_end;
    s->end_count = end_count;
    cluster_connect(s);
    return s;
}

void fake_slave_release(struct fake_slave *s)
{
    if (s->peer)
        cluster_disconnect(s);
    if (s->due)
        event_free(s->due);
    free(s->values);
    s->values = NULL;
    free(s->pairs);
    s->pairs = NULL;
    ips_est_release(&s->est);
    ips_view_release(&s->view);
    ips_message_time_map_release(&s->message_times);
}
