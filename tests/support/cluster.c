#include "tests/support/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <event2/event.h>
#include <ftw.h>
#include <unistd.h>

#include "tests/support/fake_slave.h"

/* ---- the daemon ------------------------------------------------------- */

static void master_up(struct cluster *c)
{
    struct ips_err err = {0};
    const struct master_options o = {.state = c->dir, .idle_s = 10};
    if (master_start(&c->master, c->base, &o, &err) < 0)
        fail_msg("%s", err.msg);
    c->master.refresh_ns = 0; /* slaves count what they are asked */
    c->running = true;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct cluster *c = arg;
    for (uint32_t i = 0; i < c->slave_count; i++)
        fake_slave_report(&c->slave[i]);
}

void cluster_start(struct cluster *c)
{
    const struct timeval beat = {0, 200000};
    memset(c, 0, sizeof(*c));
    setenv("IPS_LOG", "error", 0);
    ips_log_init("test");
    snprintf(c->dir, sizeof(c->dir), "/tmp/ips-test-cluster-XXXXXX");
    assert_non_null(mkdtemp(c->dir));
    c->base = event_base_new();
    assert_non_null(c->base);
    c->seed = 12345;
    c->beat = event_new(c->base, -1, EV_PERSIST, on_beat, c);
    event_add(c->beat, &beat);
    master_up(c);
}

void cluster_restart_master(struct cluster *c)
{
    master_release(&c->master);
    master_up(c);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void cluster_stop(struct cluster *c)
{
    for (uint32_t i = 0; i < c->slave_count; i++)
        fake_slave_release(&c->slave[i]);
    master_release(&c->master);
    event_free(c->beat);
    cluster_turn(c, 15); /* replies that were to come later */
    ips_free_reaped_peers();
    event_base_free(c->base);
    nftw(c->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void cluster_turn(struct cluster *c, unsigned ms)
{
    const struct timeval tick = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};
    event_base_loopexit(c->base, &tick);
    event_base_dispatch(c->base);
}

void cluster_settle(struct cluster *c)
{
    for (unsigned turns = 0; turns < CLUSTER_PATIENCE_MS; turns++) {
        uint32_t ready = 0;
        for (uint32_t i = 0; i < c->slave_count; i++) {
            const struct fake_slave *s = &c->slave[i];
            const struct slave *known =
                roster_find(&c->master.roster, s->machine);
            ready += !s->peer || (known && known->peer && known->runs > 0);
        }
        if (ready == c->slave_count)
            return;
        cluster_turn(c, 1);
    }
    fail_msg("the slaves did not connect");
}

/* ---- the client ------------------------------------------------------- */

static void on_client_message(struct ips_peer *peer, const Ips__Envelope *env,
                              void *arg)
{
    struct answer *a = arg;
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO)
        return;
    assert_int_equal(env->body_case, IPS__ENVELOPE__BODY_REPLY);
    assert_int_equal(env->reply->id, a->id);
    assert_false(a->done);
    a->env = realloc(a->env, (a->count + 1) * sizeof(*a->env));
    assert_non_null(a->env);
    a->done = env->reply->last;
    a->env[a->count++] = ips_peer_take_current_message(peer);
    if (a->done)
        ips_peer_close_and_free_later(peer);
}

static void on_client_close(struct ips_peer *peer, const char *why, void *arg)
{
    (void)peer;
    (void)why;
    struct answer *a = arg;
    a->closed = true;
}

static const struct ips_peer_ops client_ops = {on_client_message,
                                               on_client_close};

struct ips_peer *cluster_begin(struct cluster *c, Ips__Request *request,
                               struct answer *out)
{
    static uint64_t next_id = 100;
    struct ips_peer *peer;
    struct ips_err err = {0};
    memset(out, 0, sizeof(*out));
    out->c = c;
    out->id = request->id = ++next_id;
    request->fresh = !c->keeps;
    if (ips_peer_connect(c->base, c->master.address, &peer, &err) < 0)
        fail_msg("%s", err.msg);
    ips_peer_set_ops(peer, &client_ops, out);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    ips_send_hello(peer, &hello);
    ips_send_request(peer, request);
    return peer;
}

void cluster_wait(struct cluster *c, struct answer *a)
{
    for (unsigned ms = 0; !a->done && !a->closed; ms++) {
        if (ms > CLUSTER_PATIENCE_MS)
            fail_msg("no last reply came");
        cluster_turn(c, 1);
    }
}

void cluster_ask(struct cluster *c, Ips__Request *request, struct answer *out)
{
    cluster_begin(c, request, out);
    cluster_wait(c, out);
    assert_true(out->done);
}

const Ips__Reply *answer_last(const struct answer *a)
{
    assert_true(a->done);
    return a->env[a->count - 1]->reply;
}

void answer_release(struct answer *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        ips__envelope__free_unpacked(a->env[i], NULL);
    free(a->env);
    memset(a, 0, sizeof(*a));
}
