/*
 * What a client is told of a question that takes long
 * (master/query/progress.h), of questions made by hand. Would catch: progress
 * sent too early, too often, to who did not ask for it or does not read; the
 * machine that is furthest behind taken for another; a machine that has no part
 * counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/progress.h"

#define SECOND UINT64_C(1000000000)

static struct {
    struct query q;
    Ips__Request request;
    struct machine_share part[4];
    struct slave slave[4];
    char peer; /* its address stands for the client's connection */
    size_t backlog;
    unsigned sent;
    char doing[200];
} w;

size_t __wrap_ips_peer_backlog(const struct ips_peer *peer);
size_t __wrap_ips_peer_backlog(const struct ips_peer *peer)
{
    assert_ptr_equal(peer, &w.peer);
    return w.backlog;
}

void __wrap_ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply);
void __wrap_ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply)
{
    assert_ptr_equal(peer, &w.peer);
    assert_int_equal(reply->answer_case, IPS__REPLY__ANSWER_PROGRESS);
    assert_int_equal(reply->id, 77);
    assert_false(reply->last || reply->error);
    w.sent++;
    snprintf(w.doing, sizeof(w.doing), "%s", reply->progress->doing);
}

/* Three machines were asked and a fourth is missing; nobody has answered. */
static void begin(void)
{
    memset(&w, 0, sizeof(w));
    ips__request__init(&w.request);
    w.request.progress = true;
    w.q.request = &w.request;
    w.q.client = (void *)&w.peer;
    w.q.id = 77;
    w.q.begun_ns = 10 * SECOND;
    w.q.running = true;
    w.q.machines = w.part;
    w.q.machine_count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        struct machine_share *p = &w.part[i];
        snprintf(p->machine, sizeof(p->machine), "m%u", i + 1);
        p->slave = &w.slave[i];
        p->ask_id = 100 + i;
    }
    w.part[3].state = MACHINE_MISSING;
    w.part[3].slave = NULL;
}

/* What is sent at that moment, "" if nothing is. */
static const char *at(uint64_t ns)
{
    w.doing[0] = '\0';
    progress_send_if_due(&w.q, ns);
    return w.doing;
}

static void check(const char *text)
{
    w.q.progress_ns = 0;
    assert_string_equal(at(20 * SECOND), text);
}

static void build(uint32_t i, uint32_t permille)
{
    w.slave[i].building_for = w.part[i].ask_id;
    w.slave[i].built_permille = permille;
}

static void test_progress__words(void **state)
{
    (void)state;
    begin();
    check("0 of 3 machines have answered; waiting for m1");
    w.part[0].ask_id = 0;
    check("1 of 3 machines have answered; waiting for m2");
    build(2, 459);
    check("1 of 3 machines have answered; m3 has read 45% of its events");
    build(1, 460);
    check("1 of 3 machines have answered; m3 has read 45% of its events");
    build(1, 458);
    check("1 of 3 machines have answered; m2 has read 45% of its events");
    w.slave[1].building_for = 5; /* for another question */
    check("1 of 3 machines have answered; m3 has read 45% of its events");
    w.part[2].slave = NULL; /* gone */
    check("1 of 2 machines have answered; waiting for m2");
    w.part[0].state = MACHINE_FAILED;
    check("waiting for m2");
    build(1, 0);
    check("m2 has read 0% of its events");
    build(1, 1000);
    check("m2 has read 100% of its events");
    w.part[1].ask_id = 0;
    check("computing the answer");
    w.q.running = false;
    check("waiting for an earlier question");
}

static void test_progress__when(void **state)
{
    (void)state;
    begin();
    assert_string_equal(at(11 * SECOND - 1), "");
    assert_string_not_equal(at(11 * SECOND), "");
    assert_string_equal(at(12 * SECOND - 1), "");
    assert_string_not_equal(at(12 * SECOND), "");
    assert_int_equal(w.q.progress_ns, 12 * SECOND);
    assert_int_equal(w.sent, 2);
}

static void test_progress__to_whom(void **state)
{
    (void)state;
    begin();
    w.backlog = QUERY_HIGH_BYTES;
    check("");
    w.backlog--;
    assert_string_not_equal(at(20 * SECOND), "");
    w.request.progress = false;
    check("");
    w.request.progress = true;
    w.q.over = true;
    check("");
    w.q.over = false;
    w.q.streaming = true; /* it comes already */
    check("");
    w.q.streaming = false;
    w.q.client = NULL;
    check("");
    assert_int_equal(w.sent, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress__words),
        cmocka_unit_test(test_progress__when),
        cmocka_unit_test(test_progress__to_whom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
