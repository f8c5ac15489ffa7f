/*
 * The slave's side of the master's connection: it calls the master, says
 * Hello, reports every second and on change, and hands requests to the worker.
 *
 * A Sync first has everything taken from the pool that was published when it
 * came; a run whose processes are all dead is waited for until it is closed,
 * so that an answer right after the program's end is a final one.
 */
#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "proto/message.h"
#include "slave/poolfs.h"
#include "slave/slave.h"

#define REPORT_NS SLAVE_SECOND_NS
#define REPORT_SOON_NS (100 * SLAVE_MS_NS)
#define SYNC_NS (3 * SLAVE_SECOND_NS) /* and no longer */
#define BACKLOG_BYTES (16u << 20)
#define RECONNECT_MIN_NS (100 * SLAVE_MS_NS)
#define RECONNECT_MAX_NS (5 * SLAVE_SECOND_NS)
#define TAGS_MAX 32
#define PARTIAL_BYTES (1u << 30) /* of one list that spans requests */

struct sync_wait {
    struct sync_wait *next;
    Ips__Request *request;
    uint64_t until_ns;
};

struct partial { /* a list that spans several requests of one id */
    struct partial *next;
    Ips__Request *request;
    size_t bytes;
};

struct task { /* a job as the loop sees it */
    struct task *next;
    struct slave_job *job;
};

struct slave_serve {
    struct slave *s;
    struct ips_peer *peer;
    bool ready; /* Hello came */
    struct event *tick;
    uint64_t backoff_ns, next_try_ns;
    uint64_t next_report_ns, reported_version;
    struct sync_wait *syncs;
    struct task *tasks;
    struct partial *partials;
    char boot_id[40];
    bool complained;
};

/* ---- reports ----------------------------------------------------------- */

/* Borrowed texts and the arrays they hang in. */
struct state_storage {
    Ips__RunState state;
    uint64_t lost[IPS_LOST_COUNT];
    char *tags[TAGS_MAX];
};

static bool run_open(const struct slave_run *r)
{
    return r->in_pool;
}

static void fill_state(struct state_storage *out, struct slave_run *r)
{
    Ips__RunState *st = &out->state;
    ips__run_state__init(st);
    st->run = r->row.name;
    st->command = r->row.control.command;
    st->open = run_open(r);
    st->created_real_ns = r->row.control.created_real_ns;
    st->processes = r->row.processes;
    st->threads = r->row.threads;
    st->events = r->row.events;
    memcpy(out->lost, r->row.lost, sizeof(out->lost));
    st->lost = out->lost;
    st->n_lost = IPS_LOST_COUNT;
    st->untraced = r->row.untraced;
    st->archive_bytes = r->row.archive_bytes;
    st->has_root = r->row.control.root_pid != 0;
    st->torn = r->row.given_up;
    st->tags = out->tags;
    char *tag = r->row.control.tags, *end = tag + sizeof(r->row.control.tags);
    while (tag < end - 1 && *tag && st->n_tags < TAGS_MAX) {
        out->tags[st->n_tags++] = tag;
        tag += strlen(tag) + 1;
    }
}

static void send_report(struct slave_serve *v)
{
    struct slave_drain *d = &v->s->drain;
    size_t n = 0;
    for (struct slave_run *r = d->runs; r; r = r->next)
        n++;
    struct state_storage *states = calloc(n + 1, sizeof(*states));
    Ips__RunState **ptrs = calloc(n + 1, sizeof(*ptrs));
    if (states && ptrs) {
        Ips__Report report = IPS__REPORT__INIT;
        for (struct slave_run *r = d->runs; r; r = r->next) {
            if (!r->row.id)
                continue; /* nothing of it is committed yet */
            fill_state(&states[report.n_runs], r);
            ptrs[report.n_runs] = &states[report.n_runs].state;
            report.n_runs++;
        }
        report.runs = ptrs;
        if (slave_poolfs_usage(d->pool, &report.pool_used_bytes,
                               &report.pool_size_bytes) < 0)
            report.pool_used_bytes = report.pool_size_bytes = IPS_UNMEASURED;
        ips_send_report(v->peer, &report);
    }
    free(states);
    free(ptrs);
    v->reported_version = d->version;
}

/* ---- jobs ---------------------------------------------------------------- */

static void send_failure(struct slave_serve *v, uint64_t id, int code,
                         const char *run, const char *what)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "run %s: %s", run, what);
    if (v->peer)
        ips_send_error(v->peer, id, &err);
}

static struct task **task_of(struct slave_serve *v, const struct slave_job *job)
{
    struct task **p = &v->tasks;
    while (*p && (*p)->job != job)
        p = &(*p)->next;
    return p;
}

/* The job is over: unpinned, forgotten, given away for release. */
static void end_job(struct slave_serve *v, struct slave_job *job)
{
    struct task **p = task_of(v, job);
    if (*p) {
        struct task *t = *p;
        *p = t->next;
        free(t);
    }
    if (job->run)
        job->run->pins--;
    job->run = NULL;
    slave_work_drop(v->s->work, job);
}

static void start_job(struct slave_serve *v, struct slave_job *job,
                      struct slave_run *run)
{
    struct task *t = calloc(1, sizeof(*t));
    if (!t) {
        send_failure(v, job->id, IPS_E_NO_MEMORY, run->row.name,
                     "out of memory");
        slave_work_drop(v->s->work, job);
        return;
    }
    t->job = job;
    t->next = v->tasks;
    v->tasks = t;
    job->run = run;
    run->pins++;
    slave_work_give(v->s->work, job);
}

static bool may_go_on(const struct slave_serve *v, const struct slave_job *job)
{
    return job->credit > 0 && v->peer &&
           ips_peer_backlog(v->peer) < BACKLOG_BYTES;
}

void slave_serve_worked(struct slave *s)
{
    struct slave_serve *v = s->serve;
    struct slave_job *job;
    while ((job = slave_work_take(s->work))) {
        s->busy_ns = slave_now_ns();
        if (job->cancelled || !v->peer) {
            end_job(v, job);
            continue;
        }
        if (job->credit != UINT64_MAX)
            job->credit--;
        ips_send_reply(v->peer, &job->reply);
        if (job->finished)
            end_job(v, job);
        else if (may_go_on(v, job))
            slave_work_give(s->work, job);
        else
            job->parked = true;
    }
}

/* Parked jobs that may go on; cancelled ones end. */
static void unpark(struct slave_serve *v)
{
    for (struct task *t = v->tasks, *next; t; t = next) {
        struct slave_job *job = t->job;
        next = t->next;
        if (!job->parked)
            continue;
        if (job->cancelled) {
            end_job(v, job);
        } else if (may_go_on(v, job)) {
            job->parked = false;
            slave_work_give(v->s->work, job);
        }
    }
}

static void on_drain(struct ips_peer *peer, void *arg)
{
    (void)peer;
    unpark(arg);
}

/* ---- snapshots --------------------------------------------------------------
 */

struct collect {
    struct slave_snapshot *snap;
    uint32_t cap;
};

static int collect_stream(const struct slave_stream_row *row, void *arg)
{
    struct collect *c = arg;
    if (c->snap->stream_count == c->cap) {
        uint32_t more = c->cap ? c->cap * 2 : 64;
        void *fresh =
            realloc(c->snap->streams, more * sizeof(*c->snap->streams));
        if (!fresh)
            return IPS_E_NO_MEMORY;
        c->snap->streams = fresh;
        c->cap = more;
    }
    c->snap->streams[c->snap->stream_count++] = *row;
    return 0;
}

/* What is committed of the run. NULL with *err set. */
static struct slave_snapshot *snapshot(struct slave *s, struct slave_run *run,
                                       struct ips_err *err)
{
    struct collect c = {.snap = calloc(1, sizeof(*c.snap))};
    if (!c.snap) {
        ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        return NULL;
    }
    snprintf(c.snap->run, sizeof(c.snap->run), "%s", run->row.name);
    snprintf(c.snap->dir, sizeof(c.snap->dir), "%s", run->dir);
    c.snap->run_id = run->row.id;
    c.snap->closed = run->row.closed;
    c.snap->control = run->row.control;
    c.snap->archive_bytes = run->row.archive_bytes;
    int rc = slave_store_streams(s->drain.store, run->row.id, collect_stream,
                                 &c, err);
    if (rc < 0) {
        if (rc == IPS_E_NO_MEMORY)
            ips_err_set(err, rc, "out of memory");
        slave_snapshot_free(c.snap);
        return NULL;
    }
    c.snap->key = slave_snapshot_key(c.snap);
    return c.snap;
}

/* ---- requests
 * ---------------------------------------------------------------- */

static void dispatch(struct slave_serve *v, const Ips__Request *q)
{
    struct slave *s = v->s;
    struct ips_err err = {0};
    struct state_storage state;
    struct slave_run *run = slave_drain_find(&s->drain, q->run);
    if (!run || !run->row.id) {
        send_failure(v, q->id, IPS_E_NOT_FOUND, q->run, "not known here");
        return;
    }
    struct slave_snapshot *snap = snapshot(s, run, &err);
    if (!snap) {
        ips_send_error(v->peer, q->id, &err);
        return;
    }
    struct slave_job *job;
    if (q->ask_case == IPS__REQUEST__ASK_EVENTS) {
        job = slave_events_job(q, snap, s->opt.machine);
    } else {
        fill_state(&state, run);
        job = slave_graph_job(
            q, snap,
            q->ask_case == IPS__REQUEST__ASK_SYNC ? &state.state : NULL);
    }
    if (job)
        start_job(v, job, run);
    else
        send_failure(v, q->id, IPS_E_PROTOCOL, q->run,
                     "this is no question for a slave");
}

static Ips__Request *copy_request(const Ips__Request *q)
{
    size_t len = ips__request__get_packed_size(q);
    uint8_t *data = malloc(len + 1);
    Ips__Request *copy = NULL;
    if (data) {
        ips__request__pack(q, data);
        copy = ips__request__unpack(NULL, len, data);
    }
    free(data);
    return copy;
}

/* Answered when the pool has been looked through. */
static void hold_sync(struct slave_serve *v, const Ips__Request *q,
                      struct slave_run *run)
{
    struct sync_wait *w = calloc(1, sizeof(*w)), **p = &v->syncs;
    if (w)
        w->request = copy_request(q);
    if (!w || !w->request) {
        free(w);
        send_failure(v, q->id, IPS_E_NO_MEMORY, q->run, "out of memory");
        return;
    }
    w->until_ns = slave_now_ns() + SYNC_NS;
    while (*p)
        p = &(*p)->next;
    *p = w;
    run->want_sync = true;
    run->synced = 0;
    run->scan_now = true;
}

static bool all_dead(const struct slave_run *run)
{
    for (const struct slave_image *i = run->images; i; i = i->next)
        if (i->state != SLAVE_IMAGE_DEAD)
            return false;
    return run->images != NULL;
}

static bool sync_over(const struct slave_run *run, uint64_t now_ns,
                      uint64_t until_ns)
{
    if (!run || !run->in_pool || now_ns >= until_ns)
        return true;
    return run->synced >= SLAVE_SYNCED && run->row.id && !all_dead(run);
}

void slave_serve_turn(struct slave *s, uint64_t now_ns)
{
    struct slave_serve *v = s->serve;
    struct sync_wait **p = &v->syncs;
    while (*p) {
        struct sync_wait *w = *p;
        struct slave_run *run = slave_drain_find(&s->drain, w->request->run);
        if (!sync_over(run, now_ns, w->until_ns)) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        if (run)
            run->want_sync = false;
        if (v->peer)
            dispatch(v, w->request);
        ips__request__free_unpacked(w->request, NULL);
        free(w);
    }
    for (struct sync_wait *w = v->syncs; w; w = w->next) {
        struct slave_run *run = slave_drain_find(&s->drain, w->request->run);
        if (run)
            run->want_sync = true; /* another wait may have cleared it */
    }
    if (v->ready && s->drain.version != v->reported_version &&
        v->next_report_ns > now_ns + REPORT_SOON_NS)
        v->next_report_ns = now_ns + REPORT_SOON_NS;
}

static void more(struct slave_serve *v, const Ips__Request *q)
{
    for (struct task *t = v->tasks; t; t = t->next) {
        if (t->job->id != q->id)
            continue;
        if (q->more->replies == 0)
            t->job->cancelled = true;
        else if (t->job->credit != UINT64_MAX)
            t->job->credit += q->more->replies;
    }
    unpark(v);
}

/* ---- lists that span requests
 * ------------------------------------------------- */

static bool goes_on(const Ips__Request *q)
{
    return (q->ask_case == IPS__REQUEST__ASK_PEERS && q->peers->more) ||
           (q->ask_case == IPS__REQUEST__ASK_FINISH && q->finish->more);
}

/* Moves `from`'s list behind `into`'s; both of the same kind. */
static bool append(Ips__Request *into, Ips__Request *from)
{
    if (into->ask_case != from->ask_case)
        return false;
    if (into->ask_case == IPS__REQUEST__ASK_PEERS) {
        Ips__PeersAsk *a = into->peers, *b = from->peers;
        void *list = realloc(a->peers,
                             (a->n_peers + b->n_peers + 1) * sizeof(*a->peers));
        if (!list)
            return false;
        a->peers = list;
        if (b->n_peers)
            memcpy(a->peers + a->n_peers, b->peers,
                   b->n_peers * sizeof(*a->peers));
        a->n_peers += b->n_peers;
        b->n_peers = 0; /* they have a new owner */
        a->more = b->more;
        return true;
    }
    Ips__FinishAsk *a = into->finish, *b = from->finish;
    void *list = realloc(a->in_value, (a->n_in_value + b->n_in_value + 1) *
                                          sizeof(*a->in_value));
    if (!list)
        return false;
    a->in_value = list;
    if (b->n_in_value)
        memcpy(a->in_value + a->n_in_value, b->in_value,
               b->n_in_value * sizeof(*a->in_value));
    a->n_in_value += b->n_in_value;
    a->more = b->more;
    return true;
}

static void partial_free(struct slave_serve *v, struct partial *gone)
{
    struct partial **p = &v->partials;
    while (*p != gone)
        p = &(*p)->next;
    *p = gone->next;
    ips__request__free_unpacked(gone->request, NULL);
    free(gone);
}

/* true: `q` was put away, or completed a list that was then acted on. */
static bool take_partial(struct slave_serve *v, const Ips__Request *q)
{
    struct partial *part = v->partials;
    while (part && part->request->id != q->id)
        part = part->next;
    if (!part && !goes_on(q))
        return false;
    size_t bytes = ips__request__get_packed_size(q);
    Ips__Request *copy = copy_request(q);
    if (!part) {
        part = calloc(1, sizeof(*part));
        if (!part || !copy) {
            free(part);
            if (copy)
                ips__request__free_unpacked(copy, NULL);
            send_failure(v, q->id, IPS_E_NO_MEMORY, q->run, "out of memory");
            return true;
        }
        part->request = copy;
        part->bytes = bytes;
        part->next = v->partials;
        v->partials = part;
        return true;
    }
    bool fine = copy && part->bytes + bytes < PARTIAL_BYTES &&
                append(part->request, copy);
    part->bytes += bytes;
    if (copy)
        ips__request__free_unpacked(copy, NULL);
    if (!fine)
        send_failure(v, q->id, IPS_E_LIMIT, q->run,
                     "a list in several requests cannot be put together");
    else if (!goes_on(part->request))
        dispatch(v, part->request);
    else
        return true;
    partial_free(v, part);
    return true;
}

static void on_request(struct slave_serve *v, const Ips__Request *q)
{
    v->s->busy_ns = slave_now_ns();
    if (q->ask_case == IPS__REQUEST__ASK_MORE) {
        more(v, q);
        return;
    }
    if (take_partial(v, q))
        return;
    struct slave_run *run = slave_drain_find(&v->s->drain, q->run);
    if (q->ask_case == IPS__REQUEST__ASK_SYNC && run && run->in_pool)
        hold_sync(v, q, run);
    else
        dispatch(v, q);
}

/* ---- the connection
 * -------------------------------------------------------------- */

static void on_message(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg)
{
    struct slave_serve *v = arg;
    switch (env->body_case) {
    case IPS__ENVELOPE__BODY_HELLO:
        v->ready = true;
        v->backoff_ns = RECONNECT_MIN_NS;
        v->complained = false;
        v->next_report_ns = 0;
        ips_log_info("connected to the master at %s", v->s->opt.master);
        send_report(v);
        break;
    case IPS__ENVELOPE__BODY_REQUEST:
        on_request(v, env->request);
        break;
    case IPS__ENVELOPE__BODY_REPLY:
    case IPS__ENVELOPE__BODY_REPORT:
    case IPS__ENVELOPE__BODY__NOT_SET:
    case _IPS__ENVELOPE__BODY__CASE_IS_INT_SIZE:
        ips_log_warn("%s: a message that no master sends", ips_peer_name(peer));
        break;
    }
}

static void lost_master(struct slave_serve *v)
{
    v->peer = NULL;
    v->ready = false;
    for (struct task *t = v->tasks; t; t = t->next)
        t->job->cancelled = true;
    unpark(v);
    while (v->partials)
        partial_free(v, v->partials);
    while (v->syncs) {
        struct sync_wait *w = v->syncs;
        struct slave_run *run = slave_drain_find(&v->s->drain, w->request->run);
        v->syncs = w->next;
        if (run)
            run->want_sync = false;
        ips__request__free_unpacked(w->request, NULL);
        free(w);
    }
}

static void on_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct slave_serve *v = arg;
    (void)peer;
    bool was = v->ready;
    lost_master(v);
    if (was)
        ips_log_info("master %s: %s", v->s->opt.master, why);
    else if (!v->complained)
        ips_log_warn("no master at %s (%s); trying again", v->s->opt.master,
                     why);
    v->complained = true;
    v->next_try_ns = slave_now_ns() + v->backoff_ns;
    v->backoff_ns = ips_min_u64(v->backoff_ns * 2, RECONNECT_MAX_NS);
}

static const struct ips_peer_ops ops = {on_message, on_close};

static void try_connect(struct slave_serve *v)
{
    struct ips_err err = {0};
    v->next_try_ns = slave_now_ns() + v->backoff_ns;
    if (ips_peer_connect(v->s->base, v->s->opt.master, &v->peer, &err) < 0) {
        v->peer = NULL;
        if (!v->complained)
            ips_log_warn("master: %s", err.msg);
        v->complained = true;
        return;
    }
    ips_peer_set_ops(v->peer, &ops, v);
    ips_peer_on_drain(v->peer, on_drain);
    cpu_set_t cpus;
    Ips__Hello hello = ips_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = v->s->opt.machine;
    hello.boot_id = v->boot_id;
    hello.cores = sched_getaffinity(0, sizeof(cpus), &cpus) == 0
                      ? (uint32_t)CPU_COUNT(&cpus)
                      : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    ips_send_hello(v->peer, &hello);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct slave_serve *v = arg;
    (void)fd;
    (void)what;
    uint64_t now = slave_now_ns();
    if (!v->peer && now >= v->next_try_ns)
        try_connect(v);
    if (v->ready && now >= v->next_report_ns) {
        v->next_report_ns = now + REPORT_NS;
        send_report(v);
    }
}

static void read_boot_id(char out[40])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = '\0';
    if (f && fgets(out, 40, f))
        out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
}

int slave_serve_open(struct slave *s, struct ips_err *err)
{
    struct slave_serve *v = calloc(1, sizeof(*v));
    if (!v)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    s->serve = v;
    v->s = s;
    v->backoff_ns = RECONNECT_MIN_NS;
    read_boot_id(v->boot_id);
    int rc = ips_address_check(s->opt.master, err);
    if (rc < 0)
        return ips_err_wrap(err, "--master");
    v->tick = event_new(s->base, -1, EV_PERSIST, on_tick, v);
    const struct timeval every = {0, 50000};
    if (!v->tick || event_add(v->tick, &every) < 0)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    event_active(v->tick, EV_TIMEOUT, 0);
    return 0;
}

void slave_serve_close(struct slave *s)
{
    struct slave_serve *v = s->serve;
    if (!v)
        return;
    if (v->peer)
        ips_peer_free(v->peer);
    lost_master(v);
    ips_peer_reap();
    if (v->tick)
        event_free(v->tick);
    while (v->tasks) { /* the worker releases the jobs themselves */
        struct task *t = v->tasks;
        v->tasks = t->next;
        if (t->job->run)
            t->job->run->pins--;
        free(t);
    }
    free(v);
    s->serve = NULL;
}

unsigned slave_serve_pending(const struct slave *s)
{
    unsigned n = 0;
    for (const struct task *t = s->serve->tasks; t; t = t->next)
        n++;
    for (const struct sync_wait *w = s->serve->syncs; w; w = w->next)
        n++;
    return n;
}
