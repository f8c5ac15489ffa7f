/*
 * The slave's side of the connection to the master: it connects, sends Hello,
 * reports every second and on changes, and hands requests to the worker.
 *
 * A Sync request is answered only after the slave has read from the pool all
 * records that were published before the request came. If all processes of the
 * run are dead, it also waits until the run is closed, so that an answer right
 * after the program's end is final.
 */
#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"
#include "common/log.h"
#include "slave/serve/cm.h"
#include "slave/serve/precompute.h"
#include "slave/serve/private.h"

#define REPORT_NS SLAVE_SECOND_NS
#define REPORT_SOON_NS (100 * SLAVE_MS_NS)
/* a Sync request is answered after this time at the latest */
#define SYNC_NS (3 * SLAVE_SECOND_NS)
#define RECONNECT_MIN_NS (100 * SLAVE_MS_NS)
#define RECONNECT_MAX_NS (5 * SLAVE_SECOND_NS)

/* ---- requests ---- */

/* Stores a Sync request, to answer it when the pool has been read. */
static void hold_sync_request(struct slave_serve *v, const Ips__Request *q,
                              struct slave_run *run)
{
    struct sync_wait *w = calloc(1, sizeof(*w)), **p = &v->syncs;
    if (w)
        w->request = slave_serve_copy_request(q);
    if (!w || !w->request) {
        free(w);
        slave_serve_send_error(v, q->id, IPS_E_NO_MEMORY, q->run,
                               "out of memory");
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

static bool may_answer_sync(const struct slave_run *run, uint64_t now_ns,
                            uint64_t until_ns)
{
    if (!run || !run->in_pool || now_ns >= until_ns)
        return true;
    return run->synced >= SLAVE_SYNCED && run->row.id &&
           !slave_run_are_all_processes_dead(run);
}

void slave_serve_answer_due_syncs_and_report(struct slave *s, uint64_t now_ns)
{
    struct slave_serve *v = s->serve;
    struct sync_wait **p = &v->syncs;
    while (*p) {
        struct sync_wait *w = *p;
        struct slave_run *run =
            slave_drain_find_run(&s->drain, w->request->run);
        if (!may_answer_sync(run, now_ns, w->until_ns)) {
            p = &w->next;
            continue;
        }
        *p = w->next;
        if (run)
            run->want_sync = false;
        if (v->peer)
            slave_serve_start_job_for_request(v, w->request);
        ips__request__free_unpacked(w->request, NULL);
        free(w);
    }
    for (struct sync_wait *w = v->syncs; w; w = w->next) {
        struct slave_run *run =
            slave_drain_find_run(&s->drain, w->request->run);
        if (run)
            /* set it again: the loop above cleared it if another Sync request
             * of the run was answered */
            run->want_sync = true;
    }
    slave_precompute_start_next_job(v);
    /* A new run is reported at once, because a client's next question may be
     * about it. */
    if (v->ready && s->drain.runs_found != v->reported_found) {
        v->next_report_ns = now_ns + REPORT_NS;
        slave_serve_send_report(v);
    }
    if (v->ready && s->drain.version != v->reported_version &&
        v->next_report_ns > now_ns + REPORT_SOON_NS)
        v->next_report_ns = now_ns + REPORT_SOON_NS;
}

static void mark_job_cancelled(struct slave_job *job)
{
    job->cancelled = true;
    atomic_store_explicit(&job->stop, true, memory_order_relaxed);
}

static void add_reply_credit_or_cancel_job(struct slave_serve *v,
                                           const Ips__Request *q)
{
    if (q->more->replies == 0)
        slave_serve_drop_partial_request(v, q->id);
    for (struct job_task *t = v->tasks; t; t = t->next) {
        if (t->job->id != q->id)
            continue;
        if (q->more->replies == 0)
            mark_job_cancelled(t->job);
        else if (t->job->credit != UINT64_MAX)
            t->job->credit += q->more->replies;
    }
    slave_serve_enqueue_or_end_parked_jobs(v);
}

/* Runs a turn of the drain that scans the pool, to find runs that have just
 * started. */
static void run_drain_turn_with_pool_scan(struct slave_serve *v)
{
    v->s->drain.scan_now = true;
    (void)slave_drain_turn(&v->s->drain, slave_now_ns());
}

static void scan_pool_and_send_report(struct slave_serve *v,
                                      const Ips__Request *q)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    run_drain_turn_with_pool_scan(v);
    if (v->peer)
        slave_serve_send_report(v);
    reply.id = q->id;
    reply.last = true;
    /* id 0: the sender wants no reply; the request only keeps a private slave
     * alive */
    if (v->peer && q->id)
        ips_send_reply(v->peer, &reply);
}

static void dispatch_request(struct slave_serve *v, const Ips__Request *q)
{
    v->s->busy_ns = slave_now_ns();
    if (q->ask_case == IPS__REQUEST__ASK_LOOK) {
        scan_pool_and_send_report(v, q);
        return;
    }
    if (q->ask_case == IPS__REQUEST__ASK_MORE) {
        add_reply_credit_or_cancel_job(v, q);
        return;
    }
    if (slave_serve_collect_partial_and_start_if_whole(v, q))
        return;
    struct slave_run *run = slave_drain_find_run(&v->s->drain, q->run);
    if (q->ask_case == IPS__REQUEST__ASK_SYNC && (!run || !run->in_pool)) {
        run_drain_turn_with_pool_scan(v);
        run = slave_drain_find_run(&v->s->drain, q->run);
    }
    if (q->ask_case == IPS__REQUEST__ASK_SYNC && run && run->in_pool)
        hold_sync_request(v, q, run);
    else
        slave_serve_start_job_for_request(v, q);
}

/* ---- the connection ---- */

static void dispatch_message_of_master(struct ips_peer *peer,
                                       const Ips__Envelope *env, void *arg)
{
    struct slave_serve *v = arg;
    switch (env->body_case) {
    case IPS__ENVELOPE__BODY_HELLO:
        if (env->hello->role != IPS__HELLO__ROLE__MASTER) {
            ips_peer_refuse(peer, "this is no master: give the address that "
                                  "ips-master listens on (--master)");
            break;
        }
        v->ready = true;
        v->backoff_ns = RECONNECT_MIN_NS;
        v->complained = false;
        v->next_report_ns = v->next_full_report_ns = 0;
        ips_log_info("connected to the master at %s", v->s->opt.master);
        slave_serve_send_report(v);
        break;
    case IPS__ENVELOPE__BODY_REQUEST:
        dispatch_request(v, env->request);
        break;
    case IPS__ENVELOPE__BODY_CM:
        slave_cm_deliver_message_from_master(v, env->cm);
        break;
    case IPS__ENVELOPE__BODY_REPLY:
    case IPS__ENVELOPE__BODY_REPORT:
    case IPS__ENVELOPE__BODY__NOT_SET:
    case _IPS__ENVELOPE__BODY__CASE_IS_INT_SIZE:
        ips_log_warn("%s: sent a message that a master never sends",
                     ips_peer_name(peer));
        break;
    }
}

static void cancel_jobs_and_sync_requests(struct slave_serve *v)
{
    v->peer = NULL;
    v->ready = false;
    for (struct job_task *t = v->tasks; t; t = t->next)
        mark_job_cancelled(t->job);
    slave_serve_enqueue_or_end_parked_jobs(v);
    slave_serve_free_partial_requests(v);
    while (v->syncs) {
        struct sync_wait *w = v->syncs;
        struct slave_run *run =
            slave_drain_find_run(&v->s->drain, w->request->run);
        v->syncs = w->next;
        if (run)
            run->want_sync = false;
        ips__request__free_unpacked(w->request, NULL);
        free(w);
    }
}

static void on_master_close(struct ips_peer *peer, const char *why, void *arg)
{
    struct slave_serve *v = arg;
    (void)peer;
    bool was = v->ready;
    cancel_jobs_and_sync_requests(v);
    if (was)
        ips_log_info("master %s: %s", v->s->opt.master, why);
    else if (!v->complained)
        ips_log_warn("no master at %s (%s); trying again", v->s->opt.master,
                     why);
    v->complained = true;
    v->next_try_ns = slave_now_ns() + v->backoff_ns;
    v->backoff_ns = ips_min_u64(v->backoff_ns * 2, RECONNECT_MAX_NS);
}

static void resume_jobs_and_send_held_letters(struct ips_peer *peer, void *arg)
{
    (void)peer;
    slave_serve_enqueue_or_end_parked_jobs(arg);
    slave_cm_send_letters_held_for_relay(arg);
}

static const struct ips_peer_ops ops = {dispatch_message_of_master,
                                        on_master_close};

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
    ips_peer_set_on_drain(v->peer, resume_jobs_and_send_held_letters);
    cpu_set_t cpus;
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = v->s->opt.machine;
    hello.boot_id = v->boot_id;
    hello.peers = ips_unconst_text(slave_cm_get_listen_address(v));
    hello.cores = sched_getaffinity(0, sizeof(cpus), &cpus) == 0
                      ? (uint32_t)CPU_COUNT(&cpus)
                      : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    ips_send_hello(v->peer, &hello);
}

static void reconnect_and_report_if_due(evutil_socket_t fd, short what,
                                        void *arg)
{
    struct slave_serve *v = arg;
    (void)fd;
    (void)what;
    uint64_t now = slave_now_ns();
    slave_cm_drop_stale_unattached_wires(v, now);
    if (!v->peer && now >= v->next_try_ns)
        try_connect(v);
    if (v->ready && now >= v->next_report_ns) {
        v->next_report_ns = now + REPORT_NS;
        slave_serve_send_report(v);
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

int slave_serve_init_and_start_timer(struct slave *s, struct ips_err *err)
{
    struct slave_serve *v = calloc(1, sizeof(*v));
    if (!v)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    s->serve = v;
    v->s = s;
    v->backoff_ns = RECONNECT_MIN_NS;
    read_boot_id(v->boot_id);
    struct ips_address master;
    int rc = ips_address_parse(s->opt.master, &master, err);
    if (rc < 0)
        return ips_err_wrap(err, rc, "--master");
    if (master.insecure)
        ips_log_warn("--master %s: no TLS (--insecure): others on the network "
                     "can read and change everything, and pose as the master",
                     s->opt.master);
    slave_cm_start_listening(v);
    v->tick =
        event_new(s->base, -1, EV_PERSIST, reconnect_and_report_if_due, v);
    const struct timeval every = {0, 50000};
    if (!v->tick || event_add(v->tick, &every) < 0)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    event_active(v->tick, EV_TIMEOUT, 0);
    return 0;
}

void slave_serve_disconnect_and_free(struct slave *s)
{
    struct slave_serve *v = s->serve;
    if (!v)
        return;
    if (v->peer)
        ips_peer_close_and_free_later(v->peer);
    cancel_jobs_and_sync_requests(v);
    slave_cm_close(v);
    if (v->precompute &&
        /* the worker frees the job, so only unpin its run */
        v->precompute->run)
        v->precompute->run->pins--;
    ips_free_reaped_peers();
    if (v->tick)
        event_free(v->tick);
    /* the worker frees the jobs, so free only the tasks */
    while (v->tasks) {
        struct job_task *t = v->tasks;
        v->tasks = t->next;
        if (t->job->run)
            t->job->run->pins--;
        if (t->readable)
            event_free(t->readable);
        free(t);
    }
    slave_snapshot_free(v->known);
    free(v);
    s->serve = NULL;
}

unsigned slave_serve_count_pending_requests(const struct slave *s)
{
    unsigned n = 0;
    for (const struct job_task *t = s->serve->tasks; t; t = t->next)
        n++;
    for (const struct sync_wait *w = s->serve->syncs; w; w = w->next)
        n++;
    return n;
}
