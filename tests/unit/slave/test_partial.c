/*
 * Requests whose list comes in several parts (slave/serve/partial.c). Would
 * catch: an answer to a part of a list, parts of two questions that are mixed,
 * a list out of order, one that is never answered, parts that stay in memory
 * after a question is over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "slave/serve/private.h"

/* What was made of the parts: the last whole request, the last error. */
static struct {
    unsigned started, refused;
    Ips__Request *request;
    uint64_t id;
    int code;
} did;

void __wrap_slave_serve_start_job_for_request(struct slave_serve *v,
                                              const Ips__Request *q);
void __wrap_slave_serve_start_job_for_request(struct slave_serve *v,
                                              const Ips__Request *q)
{
    (void)v;
    did.started++;
    did.id = q->id;
    if (did.request)
        ips__request__free_unpacked(did.request, NULL);
    did.request = slave_serve_copy_request(q);
    assert_non_null(did.request);
}

void __wrap_slave_serve_send_error(struct slave_serve *v, uint64_t id, int code,
                                   const char *run, const char *what);
void __wrap_slave_serve_send_error(struct slave_serve *v, uint64_t id, int code,
                                   const char *run, const char *what)
{
    (void)v;
    assert_string_equal(run, "r");
    assert_true(strlen(what) > 10);
    did.refused++;
    did.id = id;
    did.code = code;
}

static struct slave_serve serve;

static int setup(void **state)
{
    (void)state;
    memset(&serve, 0, sizeof(serve));
    memset(&did, 0, sizeof(did));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slave_serve_free_partial_requests(&serve);
    if (did.request)
        ips__request__free_unpacked(did.request, NULL);
    return serve.partials != NULL;
}

static bool give(uint64_t id, Ips__Request__AskCase what, void *ask)
{
    Ips__Request q = IPS__REQUEST__INIT;
    q.id = id;
    q.run = ips_unconst_text("r");
    q.ask_case = what;
    q.finish = ask; /* all of them are pointers in one union */
    return slave_serve_collect_partial_and_start_if_whole(&serve, &q);
}

static bool give_finish(uint64_t id, const char *values, bool more)
{
    Ips__FinishAsk ask = IPS__FINISH_ASK__INIT;
    ask.generation = 7;
    ask.values.data = (uint8_t *)ips_unconst_text(values);
    ask.values.len = strlen(values);
    ask.more = more;
    return give(id, IPS__REQUEST__ASK_FINISH, &ask);
}

static bool give_peers(uint64_t id, uint32_t first, uint32_t count, bool more)
{
    Ips__Peer row[8], *list[8];
    Ips__PeersAsk ask = IPS__PEERS_ASK__INIT;
    for (uint32_t i = 0; i < count; i++) {
        ips__peer__init(&row[i]);
        row[i].end = first + i;
        row[i].machine = ips_unconst_text("m1");
        list[i] = &row[i];
    }
    ask.peers = list;
    ask.n_peers = count;
    ask.more = more;
    return give(id, IPS__REQUEST__ASK_PEERS, &ask);
}

/* Asks with lists of numbers: first, first + 1 and so on, other ones in each.
 */
static bool give_numbers(uint64_t id, Ips__Request__AskCase what,
                         uint32_t first, bool more)
{
    uint32_t v[4][3];
    uint64_t most[3];
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 4; k++)
            v[k][i] = 1000 * k + first + i;
        most[i] = 9000 + first + i;
    }
    if (what == IPS__REQUEST__ASK_PROFILE) {
        Ips__ProfileAsk ask = IPS__PROFILE_ASK__INIT;
        ask.from = v[0], ask.to = v[1], ask.most = most;
        ask.n_from = ask.n_to = ask.n_most = 3;
        ask.more = more;
        return give(id, what, &ask);
    }
    if (what == IPS__REQUEST__ASK_SPLIT) {
        Ips__SplitAsk ask = IPS__SPLIT_ASK__INIT;
        ask.from = v[0], ask.to = v[1];
        ask.n_from = ask.n_to = 3;
        ask.more = more;
        return give(id, what, &ask);
    }
    Ips__ExpandAsk ask = IPS__EXPAND_ASK__INIT;
    ask.from = v[0], ask.to = v[1], ask.in = v[2], ask.out = v[3];
    ask.n_from = ask.n_to = ask.n_in = ask.n_out = 3;
    ask.more = more;
    return give(id, IPS__REQUEST__ASK_EXPAND, &ask);
}

static void check_numbers(const uint32_t *v, size_t n, uint32_t from)
{
    assert_int_equal(n, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(v[i], from + i);
}

/* A request of one part is no list. */
static void test_partial__whole(void **state)
{
    (void)state;
    assert_false(give_finish(1, "abc", false));
    assert_false(give_peers(2, 0, 2, false));
    assert_false(give_numbers(3, IPS__REQUEST__ASK_EXPAND, 0, false));
    Ips__SyncAsk sync = IPS__SYNC_ASK__INIT;
    assert_false(give(4, IPS__REQUEST__ASK_SYNC, &sync));
    assert_int_equal(did.started + did.refused, 0);
    assert_null(serve.partials);
}

/* Three lists at once, each in three parts; and two in as many. */
static void test_partial__in_order(void **state)
{
    (void)state;
    assert_true(give_finish(1, "abc", true));
    assert_true(give_peers(2, 0, 3, true));
    assert_true(give_finish(3, "uv", true));
    assert_true(give_finish(1, "", true));
    assert_true(give_peers(2, 3, 0, true));
    assert_int_equal(did.started, 0);
    assert_true(give_finish(1, "defg", false));
    assert_int_equal(did.started, 1);
    assert_int_equal(did.id, 1);
    const Ips__FinishAsk *f = did.request->finish;
    assert_int_equal(f->generation, 7);
    assert_false(f->more);
    assert_int_equal(f->values.len, 7);
    assert_memory_equal(f->values.data, "abcdefg", 7);
    assert_true(give_peers(2, 3, 2, false));
    assert_int_equal(did.started, 2);
    const Ips__PeersAsk *p = did.request->peers;
    assert_int_equal(p->n_peers, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(p->peers[i]->end, i);
        assert_string_equal(p->peers[i]->machine, "m1");
    }
    assert_true(give_finish(3, "w", false));
    assert_int_equal(did.started, 3);
    assert_memory_equal(did.request->finish->values.data, "uvw", 3);
    assert_int_equal(did.refused, 0);
    assert_null(serve.partials);
}

static void test_partial__numbers(void **state)
{
    (void)state;
    assert_true(give_numbers(1, IPS__REQUEST__ASK_PROFILE, 10, true));
    assert_true(give_numbers(2, IPS__REQUEST__ASK_SPLIT, 20, true));
    assert_true(give_numbers(3, IPS__REQUEST__ASK_EXPAND, 30, true));
    assert_true(give_numbers(1, IPS__REQUEST__ASK_PROFILE, 13, false));
    const Ips__ProfileAsk *p = did.request->profile;
    check_numbers(p->from, p->n_from, 10);
    check_numbers(p->to, p->n_to, 1010);
    assert_int_equal(p->n_most, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(p->most[i], 9010 + i);
    assert_true(give_numbers(2, IPS__REQUEST__ASK_SPLIT, 23, false));
    const Ips__SplitAsk *s = did.request->split;
    check_numbers(s->from, s->n_from, 20);
    check_numbers(s->to, s->n_to, 1020);
    assert_true(give_numbers(3, IPS__REQUEST__ASK_EXPAND, 33, false));
    const Ips__ExpandAsk *e = did.request->expand;
    check_numbers(e->from, e->n_from, 30);
    check_numbers(e->to, e->n_to, 1030);
    check_numbers(e->in, e->n_in, 2030);
    check_numbers(e->out, e->n_out, 3030);
    assert_int_equal(did.started, 3);
    assert_null(serve.partials);
}

/* A part of another kind under the same number: an error, and the list is
 * forgotten, so that what follows is a question of its own. */
static void test_partial__mixed(void **state)
{
    (void)state;
    assert_true(give_finish(1, "abc", true));
    assert_true(give_finish(2, "x", true));
    assert_true(give_peers(1, 0, 1, false));
    assert_int_equal(did.started, 0);
    assert_int_equal(did.refused, 1);
    assert_int_equal(did.id, 1);
    assert_int_equal(did.code, IPS_E_LIMIT);
    assert_false(give_finish(1, "def", false));
    assert_true(give_finish(2, "y", false));
    assert_int_equal(did.started, 1);
    assert_memory_equal(did.request->finish->values.data, "xy", 2);
}

static void test_partial__dropped(void **state)
{
    (void)state;
    assert_true(give_finish(1, "abc", true));
    assert_true(give_finish(2, "x", true));
    assert_true(give_finish(3, "p", true));
    slave_serve_drop_partial_request(&serve, 2);
    slave_serve_drop_partial_request(&serve, 9); /* there is none */
    assert_false(give_finish(2, "y", false));
    assert_true(give_finish(3, "q", false));
    assert_memory_equal(did.request->finish->values.data, "pq", 2);
    assert_true(give_finish(1, "d", false));
    assert_memory_equal(did.request->finish->values.data, "abcd", 4);
    assert_int_equal(did.started, 2);
    assert_int_equal(did.refused, 0);
    assert_true(give_finish(1, "abc", true)); /* left for teardown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name)                                                                \
    cmocka_unit_test_setup_teardown(test_partial__##name, setup, teardown)
        T(whole), T(in_order), T(numbers), T(mixed), T(dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
