/*
 * Phases asked of a whole cluster, and of one whose slaves fail in the middle.
 * Catches: series of machines that are not added up, an answer called complete
 * without a machine, a question that never ends because the one it waits for
 * failed, or was given up.
 * EVIDENCE-OF: IPS-16
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cluster.h"
#include "tests/support/random_graph.h"

static struct cluster c;
static struct rg r;

static void begin(uint32_t count)
{
    static const char *const names[] = {"m1", "m2", "m3"};
    const struct rg_options o = {.seed = 5,
                                 .machines = count,
                                 .chains = 6,
                                 .steps = 200,
                                 .weight_max = 9};
    rg_make(&o, &r);
    cluster_start(&c);
    for (uint32_t m = 0; m < count; m++)
        cluster_add(&c, names[m], "r", &r.part[m], r.peer[m], r.end_count[m]);
    cluster_settle(&c);
}

static void end(void)
{
    cluster_stop(&c);
    rg_release(&r);
}

static Ips__PhasesAsk phases_ask;
static Ips__EventsAsk events_ask;

static Ips__Request phases_request(void)
{
    Ips__Request request = IPS__REQUEST__INIT;
    ips__phases_ask__init(&phases_ask);
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PHASES;
    request.phases = &phases_ask;
    return request;
}

static Ips__Request events_request(uint32_t phase)
{
    Ips__Request request = IPS__REQUEST__INIT;
    ips__events_ask__init(&events_ask);
    events_ask.phase = phase;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_EVENTS;
    request.events = &events_ask;
    return request;
}

/* Of `machines` machines, half of it busy. */
static void check(const Ips__PhasesAnswer *a, uint64_t machines)
{
    uint64_t cpu = 0, busy = (a->n_cpu_ns + 1) / 2;
    assert_int_equal(a->n_phases, 2);
    assert_int_equal(a->n_messages, a->n_cpu_ns);
    for (size_t i = 0; i < a->n_cpu_ns; i++)
        cpu += a->cpu_ns[i];
    assert_int_equal(cpu, 100 * machines * busy);
    const Ips__PhaseRow *one = a->phases[0], *two = a->phases[1];
    assert_int_equal(one->cpu_ns, cpu);
    assert_int_equal(one->messages, 3 * machines * busy);
    assert_int_equal(one->bytes, 15 * machines * busy);
    assert_int_equal(two->cpu_ns, 0);
    assert_int_equal(two->wait_ns, 7 * machines * (a->n_cpu_ns - busy));
    assert_int_equal(one->to_ns, two->from_ns);
    assert_int_equal(one->from_ns, a->from_ns);
    assert_int_equal(two->to_ns, a->to_ns);
    assert_string_equal(one->process, "/m1/p.0");
    assert_string_equal(one->procedure, "f");
    assert_int_equal(one->procedure_ns, 100 * machines);
    assert_string_equal(two->process, "");
}

static void test_cluster_phases__add_up(void **state)
{
    (void)state;
    for (uint32_t machines = 1; machines <= 3; machines++) {
        struct answer got;
        Ips__Request request = phases_request();
        begin(machines);
        cluster_ask(&c, &request, &got);
        const Ips__Reply *reply = answer_last(&got);
        if (reply->error)
            fail_msg("%u: %s", machines, reply->message);
        assert_true(reply->phases->certificate->complete);
        check(reply->phases, machines);
        answer_release(&got);
        end();
    }
}

/* Whatever a slave does at whichever ask: a whole answer, one that says what
 * it lacks, or a refusal, for the right reason; and afterwards all is well. */
static void try_faults(enum fault fault, bool window)
{
    uint32_t failed = 0;
    begin(3);
    struct fake_slave *s = &c.slave[1];
    s->events = 3;
    for (uint32_t at = 1; at < 30; at++) {
        struct answer got;
        Ips__Request request = window ? events_request(2) : phases_request();
        s->asks = 0;
        s->fault = fault;
        s->fault_at = at;
        cluster_ask(&c, &request, &got);
        const Ips__Reply *reply = answer_last(&got);
        bool whole = reply->error == 0;
        if (reply->error) {
            assert_true(strlen(reply->message) > 10);
            assert_null(strstr(reply->message, "no memory"));
        } else if (!window) {
            whole = reply->phases->certificate->complete;
            check(reply->phases, whole ? 3 : 2);
        }
        failed += !whole;
        uint32_t asked = s->asks;
        answer_release(&got);
        s->fault = FAULT_NONE;
        if (!s->peer)
            cluster_connect(s);
        cluster_settle(&c);
        request = phases_request();
        cluster_ask(&c, &request, &got);
        assert_int_equal(answer_last(&got)->error, 0);
        check(answer_last(&got)->phases, 3);
        answer_release(&got);
        if (asked < at)
            break;
    }
    assert_true(fault == FAULT_BUSY || failed > 0);
    end();
}

static void test_cluster_phases__faults(void **state)
{
    (void)state;
    try_faults(FAULT_CLOSE, false);
    try_faults(FAULT_ERROR, false);
    try_faults(FAULT_TYPE, false);
    try_faults(FAULT_CORRUPT, false);
    try_faults(FAULT_BUSY, false);
}

static void test_cluster_phases__faults_before_a_window(void **state)
{
    (void)state;
    try_faults(FAULT_CLOSE, true);
    try_faults(FAULT_ERROR, true);
    try_faults(FAULT_CORRUPT, true);
}

/* A phase that is not there is refused once, by the question that was asked;
 * and one that is given up leaves nothing that others wait for. */
static void test_cluster_phases__no_such_phase(void **state)
{
    (void)state;
    struct answer got;
    Ips__Request request = events_request(3);
    begin(3);
    cluster_ask(&c, &request, &got);
    assert_int_equal(answer_last(&got)->error, IPS_E_NOT_FOUND);
    assert_non_null(
        strstr(answer_last(&got)->message, "no phase 3: the run has 2"));
    assert_int_equal(got.count, 1);
    answer_release(&got);
    for (unsigned turns = 0; turns < 8; turns++) {
        request = events_request(1);
        struct ips_peer *peer = cluster_begin(&c, &request, &got);
        cluster_turn(&c, turns);
        if (!got.done)
            ips_peer_close_and_free_later(peer); /* it hangs up */
        answer_release(&got);
    }
    request = phases_request();
    cluster_ask(&c, &request, &got);
    check(answer_last(&got)->phases, 3);
    answer_release(&got);
    assert_null(c.master.queries);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_phases__add_up),
        cmocka_unit_test(test_cluster_phases__faults),
        cmocka_unit_test(test_cluster_phases__faults_before_a_window),
        cmocka_unit_test(test_cluster_phases__no_such_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
