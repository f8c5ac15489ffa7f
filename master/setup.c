#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/lock.h"
#include "common/log.h"
#include "common/paths.h"
#include "common/types.h"
#include "master/base/master.h"
#include "master/query/answer_cache.h"
#include "master/tables/cache.h"
#include "master/tables/refresh.h"
#include "proto/tls.h"

uint64_t master_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool has_any_client_query_or_slave(const struct master *m)
{
    if (m->clients || m->queries)
        return true;
    for (const struct slave *s = m->roster.first; s; s = s->next) {
        if (s->peer)
            return true;
    }
    return false;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct master *m = arg;
    uint64_t now = master_now_ns();
    query_tick(m);
    refresh_start_due_or_precompute_closed_run(m);
    if (has_any_client_query_or_slave(m))
        m->used_ns = now;
    /* The catalogue commits every write, so nothing must be flushed before the
     * master ends. */
    if (m->private_mode &&
        ips_sub_sat(now, m->used_ns) >= (uint64_t)m->idle_s * 1000000000u) {
        ips_log_info("no slave and no client for %u s: ending", m->idle_s);
        event_base_loopbreak(m->base);
    }
}

static int set_state_directory_and_address(struct master *m,
                                           const struct master_options *o,
                                           struct ips_err *err)
{
    int rc = ips_path_make_state_directory(o->state, err);
    char *whole = rc == 0 ? realpath(o->state, NULL) : NULL;
    if (rc == 0 && !whole)
        rc = ips_err_errno(err, "%s", o->state);
    if (rc == 0 && snprintf(m->state, sizeof(m->state), "%s", whole) >=
                       (int)sizeof(m->state))
        rc = ips_err_set(err, IPS_E_LIMIT, "%s: path too long", whole);
    free(whole);
    if (rc == 0 && o->listen)
        snprintf(m->address, sizeof(m->address), "%s", o->listen);
    else if (rc == 0)
        rc = ips_path_default_master_address(m->state, m->address, err);
    return rc;
}

static int lock_state_and_open_catalogue(struct master *m, struct ips_err *err)
{
    char dir[IPS_PATH_BYTES + 8];
    snprintf(dir, sizeof(dir), "%s/master", m->state);
    int rc = ips_path_make_state_directory(dir, err);
    if (rc == 0)
        rc = ips_lock_directory_and_store_pid(dir, "lock", "--state",
                                              m->private_mode ? 10000 : 3000,
                                              NULL, &m->state_lock, err);
    if (rc < 0)
        return rc;
    message_times_init_for_directory(&m->message_times, dir);
    return catalogue_open(dir, &m->catalogue, err);
}

static int start_master_listener(struct master *m, struct ips_err *err)
{
    int rc =
        ips_tls_check_own_role(m->address, IPS__HELLO__ROLE__MASTER, "", err);
    if (rc < 0)
        return ips_err_wrap(err, rc, "--listen %s", m->address);
    rc = ips_listener_new(m->base, m->address, session_await_hello_of_peer, m,
                          &m->listener, err);
    if (rc == 0)
        snprintf(m->address, sizeof(m->address), "%s",
                 ips_listener_address(m->listener));
    return rc;
}

static int start_tick_timer(struct master *m, struct ips_err *err)
{
    const struct timeval second = {1, 0};
    m->tick = event_new(m->base, -1, EV_PERSIST, on_tick, m);
    if (!m->tick || event_add(m->tick, &second) < 0)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    return 0;
}

int master_start(struct master *m, struct event_base *base,
                 const struct master_options *o, struct ips_err *err)
{
    memset(m, 0, sizeof(*m));
    m->state_lock = IPS_LOCK_NONE;
    m->base = base;
    m->private_mode = o->private_mode;
    m->idle_s = o->idle_s;
    m->silence_ns = QUERY_SILENCE_NS;
    m->stopped_ns = QUERY_STOPPED_NS;
    m->limit_ns = QUERY_LIMIT_NS;
    m->refresh_ns = REFRESH_NS;
    m->started_ns = m->used_ns = master_now_ns();
    int rc = set_state_directory_and_address(m, o, err);
    if (rc == 0)
        rc = start_master_listener(m, err);
    if (rc == 0)
        rc = lock_state_and_open_catalogue(m, err);
    if (rc == 0)
        rc = worker_new(base, &m->worker, err);
    if (rc == 0)
        rc = start_tick_timer(m, err);
    if (rc < 0)
        master_release(m);
    return rc;
}

void master_release(struct master *m)
{
    m->stopping = true;
    ips_listener_free(m->listener);
    query_mark_all_unwanted(m);
    worker_free(m->worker);
    query_release_all(m);
    refresh_release(m);
    table_cache_release(m);
    answer_cache_release(m);
    session_close_clients_and_slaves(m);
    roster_release(&m->roster);
    catalogue_close(m->catalogue);
    message_times_release(&m->message_times);
    if (m->tick)
        event_free(m->tick);
    ips_lock_release(&m->state_lock);
    ips_free_reaped_peers();
    memset(m, 0, sizeof(*m));
}
