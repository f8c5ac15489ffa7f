/*
 * Reports the known runs, and handles requests about a run: takes a snapshot of
 * the data committed to the database, starts a job on the worker, and sends the
 * job's replies.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slave/base/wordhash.h"
#include "slave/drain/poolfs.h"
#include "slave/serve/calibrate.h"
#include "slave/serve/cm.h"
#include "slave/serve/cm_box.h"
#include "slave/serve/precompute.h"
#include "slave/serve/private.h"

#define BACKLOG_BYTES (16u << 20)
#define TAGS_MAX 32
/* Interval of full reports, which list all runs, not only changed ones: a
 * master may have failed to store an earlier report. */
#define FULL_REPORT_NS (10 * SLAVE_SECOND_NS)

/* ---- reports ---- */

/* A run's state, with storage for the texts and arrays that it points to. */
struct state_storage {
    Ips__RunState state;
    uint64_t lost[IPS_LOST_COUNT];
    char *tags[TAGS_MAX];
    char trouble[256];
};

static char gone[] = "no longer has the pool that it was recorded in: what was "
                     "not archived yet is missing";

static bool is_run_open(const struct slave_run *r)
{
    return r->in_pool || r->unopened[0];
}

/* Returns the reason why the run's records cannot be archived now; NULL: they
 * can be. */
static const char *get_archive_failure_reason(const struct slave_drain *d,
                                              const struct slave_run *r)
{
    if (r->unopened[0])
        return r->unopened;
    return d->failing_since_ns && r->in_pool ? d->failing : NULL;
}

static void fill_run_state(struct state_storage *out,
                           const struct slave_drain *d, struct slave_run *r)
{
    Ips__RunState *st = &out->state;
    ips__run_state__init(st);
    const char *trouble = get_archive_failure_reason(d, r);
    if (!r->in_pool && !r->row.closed)
        st->trouble = gone;
    if (trouble) {
        snprintf(out->trouble, sizeof(out->trouble), "cannot archive: %.199s",
                 trouble);
        st->trouble = out->trouble;
    }
    st->run = r->row.name;
    st->command = r->row.control.command;
    st->open = is_run_open(r);
    st->goes_on =
        st->open && (r->unopened[0] || !slave_run_are_all_processes_dead(r));
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

/* Returns a hash of all fields of a run's state that may change; never 0. */
static uint64_t hash_run_state(const Ips__RunState *st)
{
    const uint64_t fields[] = {
        st->open != 0,     st->goes_on != 0,   st->processes, st->threads,
        st->events,        st->untraced,       st->torn,      st->archive_bytes,
        st->has_root != 0, st->created_real_ns};
    uint64_t hash = slave_hash_bytes(st->n_lost, fields, sizeof(fields));
    hash = slave_hash_bytes(hash, st->lost, st->n_lost * sizeof(*st->lost));
    hash = slave_hash_bytes(hash, st->command, strlen(st->command));
    hash = slave_hash_bytes(hash, st->trouble, strlen(st->trouble));
    for (size_t i = 0; i < st->n_tags; i++)
        hash = slave_hash_bytes(hash, st->tags[i], strlen(st->tags[i]));
    return hash ? hash : 1;
}

/* Appends the state of run `r` to the list if it has changed since the last
 * report, or if `all` states are wanted. */
static int append_run_state_if_changed(struct slave_serve *v,
                                       struct slave_run *r, bool all,
                                       Ips__RunState ***list, size_t *count,
                                       size_t *room)
{
    struct state_storage now;
    fill_run_state(&now, &v->s->drain, r);
    uint64_t hash = hash_run_state(&now.state);
    if (!all && r->reported == hash)
        return 0;
    struct state_storage *kept = malloc(sizeof(*kept));
    if (kept && *count == *room) {
        size_t more = *room ? *room * 2 : 16;
        Ips__RunState **grown = realloc(*list, more * sizeof(**list));
        *list = grown ? grown : *list;
        *room = grown ? more : *room;
    }
    if (!kept || *count == *room) {
        free(kept);
        return IPS_E_NO_MEMORY;
    }
    fill_run_state(kept, &v->s->drain, r);
    r->reported = hash;
    /* `state` is the first member, so free() of this pointer frees all of it */
    (*list)[(*count)++] = &kept->state;
    return 0;
}

void slave_serve_send_report(struct slave_serve *v)
{
    struct slave_drain *d = &v->s->drain;
    Ips__Report report = IPS__REPORT__INIT;
    size_t room = 0;
    int rc = 0;
    uint64_t now = slave_now_ns();
    bool all = now >= v->next_full_report_ns;
    for (struct slave_run *r = d->runs; r && rc == 0; r = r->next) {
        /* skip a run that has no committed data and was never reported */
        if (!r->row.id && !r->reported && !get_archive_failure_reason(d, r))
            continue;
        report.known_runs++;
        rc = append_run_state_if_changed(v, r, all, &report.runs,
                                         &report.n_runs, &room);
    }
    if (rc == 0) {
        report.trouble = d->failing;
        report.computations = slave_cm_count_computations(v);
        report.questions = slave_serve_count_pending_requests(v->s);
        report.built_permille =
            atomic_load_explicit(&v->s->graphs.permille, memory_order_relaxed);
        if (report.built_permille < 1000)
            report.building_for = slave_work_get_running_request_id(v->s->work);
        if (slave_poolfs_get_filesystem_usage(d->pool, &report.pool_used_bytes,
                                              &report.pool_size_bytes) < 0)
            report.pool_used_bytes = report.pool_size_bytes = IPS_UNMEASURED;
        ips_send_report(v->peer, &report);
    }
    for (size_t i = 0; i < report.n_runs; i++)
        free(report.runs[i]);
    free(report.runs);
    if (all || rc < 0) /* if memory was short, the next report has all runs */
        v->next_full_report_ns = rc < 0 ? 0 : now + FULL_REPORT_NS;
    v->reported_version = d->version;
    v->reported_found = d->runs_found;
}

/* ---- jobs ---- */

void slave_serve_send_error(struct slave_serve *v, uint64_t id, int code,
                            const char *run, const char *what)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "run %s: %s", run, what);
    if (v->peer)
        ips_send_error(v->peer, id, &err);
}

static struct job_task **find_task_link(struct slave_serve *v,
                                        const struct slave_job *job)
{
    struct job_task **p = &v->tasks;
    while (*p && (*p)->job != job)
        p = &(*p)->next;
    return p;
}

/* Ends a job: unpins its run, frees its task and gives it to the worker for
 * release. */
static void end_job(struct slave_serve *v, struct slave_job *job)
{
    struct job_task **p = find_task_link(v, job);
    if (*p) {
        struct job_task *t = *p;
        *p = t->next;
        if (t->readable)
            event_free(t->readable);
        free(t);
    }
    if (job->run)
        job->run->pins--;
    job->run = NULL;
    if (job->box)
        slave_cm_remove_computation(v, job);
    slave_work_enqueue_job_for_release(v->s->work, job);
}

/* Gives a new job to the worker. `run`: the run that the job is about, or NULL;
 * it stays pinned (in memory) until the job ends. */
static void enqueue_job_and_pin_run(struct slave_serve *v,
                                    struct slave_job *job,
                                    struct slave_run *run)
{
    struct job_task *t = calloc(1, sizeof(*t));
    if (!t) {
        slave_serve_send_error(v, job->id, IPS_E_NO_MEMORY,
                               run ? run->row.name : "", "out of memory");
        slave_work_enqueue_job_for_release(v->s->work, job);
        return;
    }
    t->job = job;
    t->serve = v;
    t->next = v->tasks;
    v->tasks = t;
    job->run = run;
    if (run) {
        run->pins++;
        run->asked_ns = slave_now_ns();
    }
    slave_work_enqueue(v->s->work, job);
}

static bool can_send_next_reply(const struct slave_serve *v,
                                const struct slave_job *job)
{
    return job->credit > 0 && v->peer &&
           ips_peer_backlog(v->peer) < BACKLOG_BYTES;
}

static void continue_job_of_readable_fd(evutil_socket_t fd, short what,
                                        void *arg)
{
    struct job_task *t = arg;
    (void)fd;
    (void)what;
    event_free(t->readable);
    t->readable = NULL;
    t->serve->s->busy_ns = slave_now_ns();
    slave_serve_enqueue_job_if_waiting(t->serve, t->job);
}

/* Lets the job wait until job->wait_fd is readable. */
static void watch_fd_of_waiting_job(struct slave_serve *v,
                                    struct slave_job *job)
{
    struct job_task *t = *find_task_link(v, job);
    t->readable = event_new(v->s->base, job->wait_fd, EV_READ,
                            continue_job_of_readable_fd, t);
    if (t->readable && event_add(t->readable, NULL) == 0)
        return;
    slave_serve_send_error(v, job->id, IPS_E_NO_MEMORY,
                           job->run ? job->run->row.name : "", "out of memory");
    end_job(v, job);
}

void slave_serve_handle_finished_steps(struct slave *s)
{
    struct slave_serve *v = s->serve;
    struct slave_job *job;
    while ((job = slave_work_take_job_with_finished_step(s->work))) {
        if (slave_release_job_if_precompute(v, job))
            continue;
        s->busy_ns = slave_now_ns();
        v->needs_write = true;
        if (job->cancelled || !v->peer) {
            end_job(v, job);
            continue;
        }
        if (job->box)
            slave_cm_send_outgoing_letters_of_job(v, job);
        if (job->silent) {
            job->waiting = job->parked = true;
            if (!job->box)
                watch_fd_of_waiting_job(v, job);
            else if (slave_mailbox_has_mail_or_lost_mail(job->box))
                slave_serve_enqueue_job_if_waiting(v, job);
            continue;
        }
        if (job->credit != UINT64_MAX)
            job->credit--;
        ips_send_reply(v->peer, &job->reply);
        if (job->finished)
            end_job(v, job);
        else if (can_send_next_reply(v, job))
            slave_work_enqueue(s->work, job);
        else
            job->parked = true;
    }
}

void slave_serve_enqueue_job_if_waiting(struct slave_serve *v,
                                        struct slave_job *job)
{
    if (!job->waiting)
        return;
    job->waiting = job->parked = false;
    slave_work_enqueue(v->s->work, job);
}

void slave_serve_enqueue_or_end_parked_jobs(struct slave_serve *v)
{
    for (struct job_task *t = v->tasks, *next; t; t = next) {
        struct slave_job *job = t->job;
        next = t->next;
        if (!job->parked)
            continue;
        if (job->cancelled) {
            end_job(v, job);
        } else if (!job->waiting && can_send_next_reply(v, job)) {
            job->parked = false;
            slave_work_enqueue(v->s->work, job);
        }
    }
}

/* ---- snapshots ---- */

struct stream_collector {
    struct slave_snapshot *snap;
    uint32_t cap;
};

static int append_stream_row_to_snapshot(const struct slave_stream_row *row,
                                         void *arg)
{
    struct stream_collector *c = arg;
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

static int
append_unrecorded_row_to_snapshot(const struct slave_unrecorded_row *row,
                                  void *arg)
{
    struct slave_snapshot *snap = arg;
    if (snap->unrecorded_count % 64 == 0) {
        void *fresh = realloc(snap->unrecorded, (snap->unrecorded_count + 64) *
                                                    sizeof(*snap->unrecorded));
        if (!fresh)
            return IPS_E_NO_MEMORY;
        snap->unrecorded = fresh;
    }
    snap->unrecorded[snap->unrecorded_count++] = *row;
    return 0;
}

static void *duplicate_rows(const void *rows, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    if (copy && bytes)
        memcpy(copy, rows, bytes);
    return copy;
}

/* Copies a snapshot; the copy has its own descriptor of the archive. NULL: out
 * of memory. */
static struct slave_snapshot *copy_snapshot(const struct slave_snapshot *s)
{
    struct slave_snapshot *copy = duplicate_rows(s, sizeof(*s));
    if (!copy)
        return NULL;
    copy->streams =
        duplicate_rows(s->streams, s->stream_count * sizeof(*s->streams));
    copy->unrecorded = duplicate_rows(
        s->unrecorded, s->unrecorded_count * sizeof(*s->unrecorded));
    copy->archive_fd = -1;
    if (copy->streams && copy->unrecorded) {
        copy->archive_fd = slave_archive_open_for_reading(s->dir);
        return copy;
    }
    slave_snapshot_free(copy);
    return NULL;
}

/* Makes a snapshot of the run from its rows in the database. NULL with *err set
 * on failure. */
static struct slave_snapshot *
make_snapshot_from_database(struct slave *s, const struct slave_run *run,
                            struct ips_err *err)
{
    struct stream_collector c = {.snap = calloc(1, sizeof(*c.snap))};
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
    c.snap->archive_fd = slave_archive_open_for_reading(run->dir);
    int rc = slave_store_for_each_stream(
        s->drain.store, run->row.id, append_stream_row_to_snapshot, &c, err);
    if (rc == 0)
        rc = slave_store_for_each_unrecorded(s->drain.store, run->row.id,
                                             append_unrecorded_row_to_snapshot,
                                             c.snap, err);
    if (rc == 0)
        rc = slave_store_get_load(s->drain.store, run->row.id, &c.snap->load,
                                  err);
    if (rc < 0) {
        if (rc == IPS_E_NO_MEMORY)
            ips_err_set(err, rc, "out of memory");
        slave_snapshot_free(c.snap);
        return NULL;
    }
    c.snap->key = slave_snapshot_compute_key(c.snap);
    return c.snap;
}

struct slave_snapshot *slave_serve_copy_or_read_snapshot(struct slave *s,
                                                         struct slave_run *run,
                                                         struct ips_err *err)
{
    struct slave_serve *v = s->serve;
    struct slave_snapshot *known = v->known;
    if (known && run->row.closed && known->run_id == run->row.id &&
        strcmp(known->run, run->row.name) == 0 &&
        v->known_version == run->version) {
        struct slave_snapshot *copy = copy_snapshot(known);
        if (!copy)
            ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
        return copy;
    }
    struct slave_snapshot *snap = make_snapshot_from_database(s, run, err);
    if (snap && snap->closed) {
        slave_snapshot_free(known);
        v->known = copy_snapshot(snap);
        v->known_version = run->version;
        if (v->known && v->known->archive_fd >= 0)
            /* not needed: each copy of the snapshot opens its own descriptor */
            close(v->known->archive_fd);
        if (v->known)
            v->known->archive_fd = -1;
    }
    return snap;
}

void slave_serve_start_job_for_request(struct slave_serve *v,
                                       const Ips__Request *q)
{
    struct slave *s = v->s;
    struct ips_err err = {0};
    struct state_storage state;
    if (slave_calibrate_handles_request(q)) {
        struct slave_job *measuring = slave_calibrate_make_job(q);
        if (measuring)
            enqueue_job_and_pin_run(v, measuring, NULL);
        else
            slave_serve_send_error(v, q->id, IPS_E_NO_MEMORY, "",
                                   "out of memory");
        return;
    }
    struct slave_run *run = slave_drain_find_run(&s->drain, q->run);
    if (!run || !run->row.id) {
        const char *why =
            run ? get_archive_failure_reason(&s->drain, run) : NULL;
        ips_err_set(&err, IPS_E_NOT_FOUND, "%s%s",
                    why ? "cannot archive: " : "unknown run", why ? why : "");
        slave_serve_send_error(v, q->id, err.code, q->run, err.msg);
        return;
    }
    struct slave_snapshot *snap =
        slave_serve_copy_or_read_snapshot(s, run, &err);
    if (!snap) {
        ips_send_error(v->peer, q->id, &err);
        return;
    }
    struct slave_job *job;
    if (q->ask_case == IPS__REQUEST__ASK_EVENTS) {
        job = slave_events_make_job(q, snap, s->opt.machine);
    } else {
        fill_run_state(&state, &s->drain, run);
        job = slave_graph_make_job(
            q, snap,
            q->ask_case == IPS__REQUEST__ASK_SYNC ? &state.state : NULL);
    }
    if (job && job->box &&
        slave_cm_register_computation(
            v, job, slave_graph_get_request_of_job(job)->cm, &err) < 0) {
        ips_send_error(v->peer, q->id, &err);
        slave_work_enqueue_job_for_release(s->work, job);
    } else if (job)
        enqueue_job_and_pin_run(v, job, run);
    else if (q->ask_case == IPS__REQUEST__ASK_EVENTS ||
             slave_graph_handles_request(q))
        slave_serve_send_error(v, q->id, IPS_E_NO_MEMORY, q->run,
                               "out of memory");
    else
        slave_serve_send_error(v, q->id, IPS_E_PROTOCOL, q->run,
                               "this is no question for a slave");
}

Ips__Request *slave_serve_copy_request(const Ips__Request *q)
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
