/*
 * ips-slave drains this machine's data pool and answers the master. main()
 * shows the set-up, whose order matters, then the loop.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/large.h"
#include "common/lock.h"
#include "common/log.h"
#include "common/paths.h"
#include "slave/base/lock.h"
#include "slave/base/sched_class.h"
#include "slave/options.h"
#include "slave/serve/slave.h"
#include "slave/symbols/symbols.h"

/* A private slave that has drained a run ends after it was idle for this
 * time. */
#define AFTER_RUN_NS (2 * SLAVE_SECOND_NS)
/* The event loop runs at normal priority for this time after the last
 * request. */
#define WAITED_NS (SLAVE_SECOND_NS / 2)

static struct {
    struct event *turn, *pool, *worked, *signals[3];
} events;

static void break_event_loop(struct slave *s)
{
    (void)event_base_loopbreak(s->base);
}

/* ---- the turn ---- */

static void begin_shutdown(struct slave *s)
{
    ips_lock_release(&s->pool_lock); /* release slave.lock before pool.lock */
    s->stopping = true;
    break_event_loop(s);
}

/* Ends a private slave when it is idle, or when its pool was removed. It takes
 * pool.lock before it decides, so that no process can create a run that would
 * be left without a slave. */
static void end_private_slave_if_idle_or_pool_removed(struct slave *s,
                                                      uint64_t now_ns)
{
    if (access(s->drain.pool, F_OK) < 0 && errno == ENOENT) {
        ips_log_warn("the pool %s was removed with its contents",
                     s->drain.pool);
        begin_shutdown(s);
        return;
    }
    uint64_t idle =
        s->had_run && !s->opt.idle_given ? AFTER_RUN_NS : s->opt.idle_ns;
    if (slave_drain_count_open_runs(&s->drain) ||
        slave_serve_count_pending_requests(s)) {
        s->busy_ns = now_ns;
        return;
    }
    if (ips_sub_sat(now_ns, s->busy_ns) < idle)
        return;
    int lock = slave_lock_try_pool_lock(s->drain.pool);
    if (lock < 0)
        /* another process holds pool.lock, probably to create a run: try again
         * later */
        return;
    slave_watch_scan_pool_directory(&s->drain);
    if (slave_drain_count_open_runs(&s->drain) == 0) {
        ips_log_info("all runs are archived and no question is open: ending");
        begin_shutdown(s);
    }
    close(lock);
}

static void choose_sched_class_and_break_loop_if_new(struct slave *s,
                                                     uint64_t now_ns)
{
    bool waited_for = slave_serve_count_pending_requests(s) > 0 ||
                      ips_sub_sat(now_ns, s->busy_ns) < WAITED_NS;
    s->wanted_level = slave_sched_class_choose_by_pool_fill(
        (enum slave_sched_class)s->sched_class,
        slave_drain_fullest_run_permille(&s->drain), waited_for);
    if (s->wanted_level != s->sched_class)
        break_event_loop(s);
}

static void on_drain_timer(evutil_socket_t fd, short what, void *arg)
{
    struct slave *s = arg;
    (void)fd;
    (void)what;
    if (s->stopping)
        return;
    uint64_t now = slave_now_ns();
    uint64_t wait = slave_drain_turn(&s->drain, now);
    slave_serve_answer_due_syncs_and_report(s, now);
    unsigned open = slave_drain_count_open_runs(&s->drain);
    if (open && !s->had_run)
        s->had_run = true;
    /* Do not count the delay of a late turn as idle time: this process was
     * stopped or got no CPU, and perhaps also the master, whose requests keep a
     * private slave alive. */
    s->busy_ns =
        ips_min_u64(now, s->busy_ns + ips_sub_sat(now, s->turn_due_ns));
    s->turn_due_ns = now + wait;
    if (s->opt.is_private)
        end_private_slave_if_idle_or_pool_removed(s, now);
    if (!s->stopping)
        choose_sched_class_and_break_loop_if_new(s, now);
    const struct timeval tv = {
        .tv_sec = (time_t)(wait / SLAVE_SECOND_NS),
        .tv_usec = (suseconds_t)(wait % SLAVE_SECOND_NS / 1000)};
    (void)event_add(events.turn, &tv);
}

static void run_drain_turn_on_pool_event(evutil_socket_t fd, short what,
                                         void *arg)
{
    on_drain_timer(fd, what, arg);
}

static void read_wakeup_and_handle_finished_steps(evutil_socket_t fd,
                                                  short what, void *arg)
{
    struct slave *s = arg;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        slave_serve_handle_finished_steps(s);
}

static void stop_slave_on_signal(evutil_socket_t number, short what, void *arg)
{
    struct slave *s = arg;
    (void)what;
    if (number == SIGHUP)
        return; /* ignore SIGHUP: there is no log file to reopen */
    ips_log_info("signal %d: ending", (int)number);
    s->stopping = true;
    break_event_loop(s);
}

/* Wakes the event loop; called on the worker thread. */
static void wake_loop(void *arg)
{
    struct slave *s = arg;
    const uint64_t one = 1;
    /* the write fails only if the counter is full, and then the loop wakes up
     * anyway */
    (void)!write(s->wake_fd, &one, sizeof(one));
}

/* ---- setup ---- */

static int make_and_lock_pool(struct slave *s, struct ips_err *err)
{
    int rc = slave_make_and_check_pool_directory(s->opt.pool, err);
    if (rc < 0)
        return rc;
    return slave_lock_take_drain_lock(s->opt.pool, &s->pool_lock, err);
}

static int set_up_state_and_drain(struct slave *s, struct ips_err *err)
{
    char state[IPS_PATH_BYTES], db[IPS_PATH_BYTES];
    const struct slave_drain_options opt = {
        .pool = s->opt.pool,
        .state = state,
        .archive_max_bytes = s->opt.archive_max_bytes,
        .archive_age_s = s->opt.archive_age_s};
    int n = snprintf(state, sizeof(state), "%s/slave-%s", s->opt.state,
                     s->opt.machine);
    int m = snprintf(db, sizeof(db), "%s/slave-%s/slave.db", s->opt.state,
                     s->opt.machine);
    if (n < 0 || m < 0 || m >= (int)sizeof(db))
        return ips_err_set(err, IPS_E_LIMIT, "the path of --state is too long");
    slave_graphs_init(&s->graphs, db, "/proc/self/exe");
    int rc = ips_path_make_state_directory(state, err);
    if (rc == 0)
        rc = ips_lock_directory_and_store_pid(
            state, "lock", "--state", s->opt.is_private ? 10000 : 3000,
            &s->pool_lock, &s->state_lock, err);
    if (rc == 0)
        rc = slave_drain_open(&s->drain, &opt, err);
    if (rc == 0 && s->opt.memory_bytes)
        ips_large_set_limit_and_file_directory(s->opt.memory_bytes, state);
    return rc;
}

static int set_up_events_and_worker(struct slave *s, struct ips_err *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    /* ignore the signal, so that beyond RLIMIT_FSIZE write() fails as on a full
     * disk */
    signal(SIGXFSZ, SIG_IGN);
    s->base = event_base_new();
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!s->base || s->wake_fd < 0)
        return ips_err_errno(err, "event loop");
    events.turn = event_new(s->base, -1, 0, on_drain_timer, s);
    events.pool = event_new(s->base, s->drain.epoll_fd, EV_READ | EV_PERSIST,
                            run_drain_turn_on_pool_event, s);
    events.worked = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST,
                              read_wakeup_and_handle_finished_steps, s);
    if (!events.turn || !events.pool || !events.worked ||
        event_add(events.pool, NULL) < 0 || event_add(events.worked, NULL) < 0)
        return ips_err_set(err, IPS_E_NO_MEMORY, "event loop");
    for (size_t i = 0; i < 3; i++) {
        events.signals[i] =
            evsignal_new(s->base, numbers[i], stop_slave_on_signal, s);
        if (!events.signals[i] || event_add(events.signals[i], NULL) < 0)
            return ips_err_set(err, IPS_E_NO_MEMORY, "signals");
    }
    return slave_work_start(&s->graphs, wake_loop, s, &s->work, err);
}

static void release_slave(struct slave *s)
{
    /* Close the connections first, so that no more requests come; then stop the
     * worker, which owns the graphs; release the pool's lock last. */
    slave_serve_disconnect_and_free(s);
    slave_work_stop_and_free(s->work);
    slave_graphs_release(&s->graphs);
    slave_drain_close(&s->drain);
    slave_record_queue_free(s->record_queue);
    s->record_queue = NULL;
    struct event **const all[] = {&events.turn,       &events.pool,
                                  &events.worked,     &events.signals[0],
                                  &events.signals[1], &events.signals[2]};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (*all[i])
            event_free(*all[i]);
    if (s->base)
        event_base_free(s->base);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    ips_lock_release(&s->state_lock);
    ips_lock_release(&s->pool_lock);
}

static void run_loop(struct slave *s)
{
    s->busy_ns = s->turn_due_ns = slave_now_ns();
    event_active(events.turn, EV_TIMEOUT, 0);
    while (!s->stopping) {
        s->sched_class = s->wanted_level;
        slave_sched_class_run_loop(s->base,
                                   (enum slave_sched_class)s->sched_class);
    }
}

int main(int argc, char **argv)
{
    struct slave s = {.pool_lock = IPS_LOCK_NONE,
                      .state_lock = IPS_LOCK_NONE,
                      .wake_fd = -1,
                      .wanted_level = SLAVE_SCHED_NORMAL};
    struct ips_err err = {0};
    char who[80];
    if (argc == 2 && strcmp(argv[1], "--symbolise") == 0)
        /* this process is a helper of another slave process */
        return slave_symbols_helper_main(stdin, stdout);
    if (argc == 2 && strcmp(argv[1], "--sql") == 0)
        return slave_sql_main(stdin, stdout);
    enum slave_options_result parsed = slave_options_parse(argc, argv, &s.opt);
    if (parsed != SLAVE_RUN)
        return parsed == SLAVE_EXIT_OK ? 0 : 2;
    snprintf(who, sizeof(who), "slave[%s]", s.opt.machine);
    ips_log_init(who);
    s.drain.pool_fd = s.drain.epoll_fd = s.drain.inotify_fd = -1;

    int rc = make_and_lock_pool(&s, &err);
    if (rc == IPS_E_BUSY && s.opt.is_private) {
        /* another slave drains the pool already, so this one is not needed */
        ips_log_info("%s", err.msg);
        return 0;
    }
    if (rc == 0)
        rc = set_up_state_and_drain(&s, &err);
    if (rc == 0)
        rc = set_up_events_and_worker(&s, &err);
    if (rc == 0)
        rc = slave_serve_init_and_start_timer(&s, &err);
    if (rc == 0) {
        ips_log_info("draining %s into %s", s.drain.pool, s.drain.state);
        run_loop(&s);
    } else {
        ips_log_error("%s", err.msg);
    }
    release_slave(&s);
    return rc == 0 ? 0 : 1;
}
