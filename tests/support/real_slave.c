#include "tests/support/real_slave.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "slave/base/lock.h"
#include "slave/serve/private.h"
#include "slave/serve/slave.h"

struct real_slave {
    struct slave s;
    struct event *turn, *pool, *worked;
};

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct real_slave *r = arg;
    (void)fd;
    (void)what;
    uint64_t now = slave_now_ns();
    uint64_t wait = slave_drain_turn(&r->s.drain, now);
    slave_serve_answer_due_syncs_and_report(&r->s, now);
    const struct timeval tv = {
        .tv_sec = (time_t)(wait / SLAVE_SECOND_NS),
        .tv_usec = (suseconds_t)(wait % SLAVE_SECOND_NS / 1000)};
    event_add(r->turn, &tv);
}

static void on_worked(evutil_socket_t fd, short what, void *arg)
{
    struct real_slave *r = arg;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        slave_serve_handle_finished_steps(&r->s);
}

static void wake(void *arg)
{
    struct real_slave *r = arg;
    const uint64_t one = 1;
    (void)!write(r->s.wake_fd, &one, sizeof(one));
}

static void place(struct slave_options *o, const char *dir, const char *machine,
                  const char *master)
{
    snprintf(o->pool, sizeof(o->pool), "%s/pool-%s", dir, machine);
    snprintf(o->state, sizeof(o->state), "%s", dir);
    snprintf(o->machine, sizeof(o->machine), "%s", machine);
    snprintf(o->master, sizeof(o->master), "%s", master);
    snprintf(o->listen, sizeof(o->listen), "unix:%s/peers-%s", dir, machine);
}

struct real_slave *real_slave_start(struct event_base *base, const char *dir,
                                    const char *machine, const char *master)
{
    struct real_slave *r = calloc(1, sizeof(*r));
    struct ips_err err = {0};
    char state[IPS_PATH_BYTES], db[IPS_PATH_BYTES];
    assert_non_null(r);
    place(&r->s.opt, dir, machine, master);
    r->s.base = base;
    if (slave_lock_take_drain_lock(r->s.opt.pool, &r->s.pool_lock, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(state, sizeof(state), "%s/slave-%s", dir, machine);
    snprintf(db, sizeof(db), "%s/slave-%s/slave.db", dir, machine);
    const struct slave_drain_options opt = {.pool = r->s.opt.pool,
                                            .state = state};
    slave_graphs_init(&r->s.graphs, db, "");
    if (slave_drain_open(&r->s.drain, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    r->s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->turn = event_new(base, -1, 0, on_turn, r);
    r->pool =
        event_new(base, r->s.drain.epoll_fd, EV_READ | EV_PERSIST, on_turn, r);
    r->worked =
        event_new(base, r->s.wake_fd, EV_READ | EV_PERSIST, on_worked, r);
    assert_true(r->turn && r->pool && r->worked);
    event_add(r->pool, NULL);
    event_add(r->worked, NULL);
    if (slave_work_start(&r->s.graphs, wake, r, &r->s.work, &err) < 0 ||
        slave_serve_init_and_start_timer(&r->s, &err) < 0)
        fail_msg("%s", err.msg);
    event_active(r->turn, EV_TIMEOUT, 0);
    return r;
}

bool real_slave_run_closed(const struct real_slave *r, const char *run)
{
    const struct slave_run *of = slave_drain_find_run(&r->s.drain, run);
    return of && of->row.closed;
}

void real_slave_stop(struct real_slave *r)
{
    slave_serve_disconnect_and_free(&r->s);
    slave_work_stop_and_free(r->s.work);
    slave_graphs_release(&r->s.graphs);
    slave_drain_close(&r->s.drain);
    slave_record_queue_free(r->s.record_queue);
    event_free(r->turn);
    event_free(r->pool);
    event_free(r->worked);
    close(r->s.wake_fd);
    ips_lock_release(&r->s.pool_lock);
    free(r);
}

bool real_slave_at_rest(const struct real_slave *r)
{
    const struct slave_serve *v = r->s.serve;
    for (const struct slave_run *run = r->s.drain.runs; run; run = run->next)
        if (run->pins || run->want_sync)
            return false;
    return !v->tasks && !v->syncs && !v->partials && !v->precompute;
}

bool real_slave_connected(const struct real_slave *r)
{
    return r->s.serve->peer && r->s.serve->ready;
}

void real_slave_hurry(struct real_slave *r)
{
    if (r->s.serve->peer)
        return;
    r->s.serve->next_try_ns = 0;
    r->s.serve->backoff_ns = 1;
    event_active(r->s.serve->tick, EV_TIMEOUT, 0);
}

void real_slave_forget(struct real_slave *r, const char *run)
{
    char db[IPS_PATH_BYTES], path[IPS_PATH_BYTES + 16];
    const struct slave_run *of = slave_drain_find_run(&r->s.drain, run);
    assert_true(real_slave_at_rest(r));
    snprintf(db, sizeof(db), "%s", r->s.graphs.db);
    slave_work_stop_and_free(r->s.work); /* it may still be releasing a job */
    slave_graphs_release(&r->s.graphs);
    slave_graphs_init(&r->s.graphs, db, "");
    assert_int_equal(slave_work_start(&r->s.graphs, wake, r, &r->s.work, NULL),
                     0);
    assert_non_null(of);
    snprintf(path, sizeof(path), "%s/graph", of->dir);
    unlink(path);
}
