/* What others do while the path goes on, on graphs worked out by hand. Catches:
 * a moment counted twice or for the wrong cause, a shell that waits taken for
 * an idle worker, time in which enough runs called wasted, crowding that does
 * not follow from the cores.
 *
 * EVIDENCE-OF: IPS-15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/concurrent_activity.h"
#include "tests/support/golden.h"

/* clang-format off */
#define N(kind, w) {IPS_NODE_##kind, w, IPS_X_NONE, IPS_NO_NODE, 0}
#define X(kind, w, xkind, xpred) \
    {IPS_NODE_##kind, w, IPS_X_##xkind, xpred, 0}

/* P begins two children and waits for both: 10 and 12. */
static const struct golden children = {"children", 0, 22, 34, 22, 10, {
    N(START, 0), N(FORK, 5), N(FORK, 1), X(JOIN, 2, LIFETIME, 7),
    X(JOIN, 0, LIFETIME, 9), N(END, 4),
    X(START, 0, LIFETIME, 1), N(END, 10),
    X(START, 0, LIFETIME, 2), N(END, 12)}};
/* A works 10 and then hands on to B, who asked at 1 and works 5. */
static const struct golden handed = {"handed", 0, 15, 18, 15, 6, {
    N(START, 0), N(AUX, 10), N(END, 2),
    N(START, 0), X(AUX, 1, RESOURCE, 1), N(END, 5)}};
/* A and B work by turns, 10 each time, for which each waits for the other. */
static const struct golden turns = {"turns", 0, 30, 30, 30, 8, {
    N(START, 0), N(AUX, 10), X(AUX, 0, RESOURCE, 6), N(END, 10),
    N(START, 0), X(AUX, 0, RESOURCE, 1), N(AUX, 10), N(END, 0)}};
static const struct golden message = {"message", 0, 15, 18, 15, 6, {
    N(START, 0), N(SEND, 10), N(END, 2),
    N(START, 0), X(RECV, 1, DATA, 1), N(END, 5)}};
static const struct golden three = {"three", 0, 10, 30, 10, 6, {
    N(START, 0), N(END, 10), N(START, 0), N(END, 10),
    N(START, 0), N(END, 10)}};
/* A is asked by B and C at 1 and answers one after the other: 10 and 5. */
static const struct golden queue = {"queue", 0, 16, 17, 16, 11, {
    N(START, 0), X(RECV, 0, DATA, 6), N(SEND, 10), X(RECV, 0, DATA, 9),
    N(END, 5),
    N(START, 0), N(SEND, 1), N(END, 0),
    N(START, 0), N(SEND, 1), N(END, 0)}};
/* C asks A and B at 1; A works 10, B 5 and is asked again when A has answered. */
static const struct golden asked = {"asked", 0, 11, 16, 11, 15, {
    N(START, 0), N(SEND, 1), N(SEND, 0), X(RECV, 0, DATA, 8), N(SEND, 0),
    N(END, 0),
    N(START, 0), X(RECV, 0, DATA, 1), N(SEND, 10), N(END, 0),
    N(START, 0), X(RECV, 0, DATA, 2), N(AUX, 5), X(RECV, 0, DATA, 4),
    N(END, 0)}};
/* A works 10 and sends to B, who sends on to C. */
static const struct golden chain = {"chain", 0, 13, 13, 13, 9, {
    N(START, 0), N(SEND, 10), N(END, 0),
    N(START, 0), X(RECV, 0, DATA, 1), N(SEND, 2),
    N(START, 0), X(RECV, 0, DATA, 5), N(END, 1)}};
/* clang-format on */

struct looked {
    struct ips_graph g;
    struct ips_est est;
    struct ips_concurrent_activity b;
    uint8_t thing[16];
    uint64_t outside[16];
    uint32_t role[8], cores[1];
    bool worker[8];
    const bool *serves;
    uint64_t alone_ns; /* of parts ALONE, which are not left in b */
};

/* Every chain a worker and of a role of its own, two cores. */
static void begin(struct looked *l, const struct golden *from)
{
    memset(l, 0, sizeof(*l));
    golden_make(from, &l->g);
    for (uint32_t c = 0; c < l->g.chain_count; c++) {
        l->role[c] = c;
        l->worker[c] = true;
    }
    l->cores[0] = 2;
}

static void look(struct looked *l)
{
    const struct ips_scenario lane = {0};
    const struct ips_concurrent_ask ask = {.g = &l->g,
                                           .est = &l->est,
                                           .scenario = &lane,
                                           .resource_kind = l->thing,
                                           .outside = l->outside,
                                           .role = l->role,
                                           .role_count = 8,
                                           .worker = l->worker,
                                           .serves = l->serves,
                                           .cores = l->cores,
                                           .machine_count = 1};
    assert_int_equal(
        ips_longest_path_compute_ests(&l->g, &lane, NULL, &l->est, NULL), 0);
    assert_int_equal(ips_classify_core_underuse_along_path(&ask, &l->b, NULL),
                     0);
    size_t kept = 0;
    for (size_t i = 0; i < l->b.count; i++) {
        if (l->b.share[i].of == IPS_BESIDE_ALONE)
            l->alone_ns += l->b.share[i].ns;
        else
            l->b.share[kept++] = l->b.share[i];
    }
    l->b.count = kept;
}

static void end(struct looked *l)
{
    ips_concurrent_release(&l->b);
    ips_est_release(&l->est);
    ips_graph_release(&l->g);
}

/* All there is: one part. */
static void one(const struct looked *l, uint32_t node,
                enum ips_concurrent_class of, uint32_t waiter, uint64_t ns,
                uint64_t spread)
{
    assert_int_equal(l->b.count, 1);
    assert_int_equal(l->b.share[0].node, node);
    assert_int_equal(l->b.share[0].of, of);
    assert_int_equal(l->b.share[0].waiter, waiter);
    assert_int_equal(l->b.share[0].ns, ns);
    assert_int_equal(l->b.share[0].spread_ns, spread);
}

static void test_beside__a_shell_that_waits_wants_no_core(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &children);
    l.worker[0] = false;
    look(&l);
    assert_int_equal(l.b.count, 0);
    assert_int_equal(l.b.peak, 3); /* all of them from 6 to 8 */
    end(&l);
}

static void test_beside__alike_are_done_before(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &children);
    l.worker[0] = false;
    l.role[1] = l.role[2] = 1;
    look(&l);
    /* The first child is done at 15, the second works on until 18. */
    one(&l, 9, IPS_BESIDE_ALIKE, 1, 3, 1);
    end(&l);
}

static void test_beside__by_what_is_waited_for(void **state)
{
    static const struct {
        const struct golden *from;
        uint8_t thing;
        bool alike;
        enum ips_concurrent_class of;
    } cases[] = {
        {&message, IPS_THING_UNKNOWN, false, IPS_BESIDE_PEER},
        {&message, IPS_THING_UNKNOWN, true, IPS_BESIDE_ALIKE},
        {&handed, IPS_THING_LOCK, false, IPS_BESIDE_LOCK},
        {&handed, IPS_THING_LOCK, true, IPS_BESIDE_LOCK},
        {&handed, IPS_THING_BARRIER, false, IPS_BESIDE_OTHER},
        {&handed, IPS_THING_BARRIER, true, IPS_BESIDE_ALIKE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct looked l;
        begin(&l, cases[i].from);
        l.thing[4] = cases[i].thing;
        if (cases[i].alike) {
            l.role[0] = l.role[1] = 0;
            l.g.w[2] = 0; /* A ends with it: not done while B works */
            l.g.w[5] = 0;
        }
        look(&l);
        /* A is alone from 1 to 10. */
        one(&l, 1, cases[i].of, 1, 9, 4);
        end(&l);
    }
}

static void test_beside__one_core_wants_nothing(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &message);
    l.cores[0] = 1;
    look(&l);
    assert_int_equal(l.b.count, 0);
    /* Both run from 0 to 1 and from 10 to 12. */
    assert_int_equal(l.b.oversubscription_ns, 3);
    end(&l);
}

static void test_beside__what_sleeps_outside_is_not_late(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &message);
    l.outside[1] = 10; /* all that A does */
    look(&l);
    assert_int_equal(l.b.count, 0);
    end(&l);
}

static void test_beside__one_serves_and_others_stand_in_line(void **state)
{
    static const bool only_b[8] = {false, true};
    struct looked l;
    (void)state;
    begin(&l, &queue);
    l.g.site[1] = 1;
    l.g.site[3] = 2;
    look(&l);
    one(&l, 2, IPS_BESIDE_QUEUE, 2, 10, 5);
    assert_int_equal(l.alone_ns, 5);
    end(&l);
    begin(&l, &queue); /* the same connection: more of what it is at */
    l.g.site[1] = l.g.site[3] = 1;
    look(&l);
    assert_int_equal(l.b.count, 0);
    assert_int_equal(l.alone_ns, 15);
    end(&l);
    begin(&l, &queue);
    l.g.site[1] = 1;
    l.g.site[3] = 2;
    l.serves = only_b; /* A asked them: it is a client */
    look(&l);
    assert_int_equal(l.b.count, 0);
    end(&l);
}

static uint64_t ns_of(const struct looked *l, enum ips_concurrent_class of)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < l->b.count; i++)
        ns += l->b.share[i].of == of ? l->b.share[i].ns : 0;
    return ns;
}

static void test_beside__who_is_asked_nothing(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &asked);
    l.role[2] = l.role[1];
    look(&l);
    assert_int_equal(ns_of(&l, IPS_BESIDE_ALIKE), 5);
    assert_int_equal(ns_of(&l, IPS_BESIDE_PEER), 1); /* before C asks */
    end(&l);
    begin(&l, &asked);
    l.role[2] = l.role[1];
    l.g.w[12] = 9; /* as much as A, nearly: uneven it is not */
    look(&l);
    assert_int_equal(ns_of(&l, IPS_BESIDE_ALIKE), 0);
    assert_int_equal(ns_of(&l, IPS_BESIDE_PEER), 2);
    end(&l);
}

/* B waits for A to make space, from its start or from 1. Catches: what is
 * waited for lost where another change comes at the same moment. */
static void test_beside__space_is_waited_for(void **state)
{
    struct looked l;
    (void)state;
    for (uint64_t works = 0; works < 2; works++) {
        begin(&l, &message);
        l.g.xkind[4] = IPS_X_ROOM;
        l.g.w[4] = works;
        look(&l);
        one(&l, 1, IPS_BESIDE_PEER, 1, 10 - works, (10 - works) / 2);
        assert_true(l.b.share[0].awaits_space);
        end(&l);
    }
}

/* Would catch: C named as the one that waits for A, although it waits for B. */
static void test_beside__the_waiter_waits_for_the_busy_one(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &chain);
    look(&l);
    assert_int_equal(l.b.count, 2);
    assert_int_equal(l.b.share[0].of, IPS_BESIDE_PEER);
    assert_int_equal(l.b.share[0].node, 1);
    assert_int_equal(l.b.share[0].waiter, 1);
    assert_int_equal(l.b.share[0].wait_node, 4);
    assert_int_equal(l.b.share[1].node, 5);
    assert_int_equal(l.b.share[1].waiter, 2);
    assert_int_equal(l.b.share[1].wait_node, 7);
    assert_true(l.b.share[0].direct && l.b.share[1].direct);
    end(&l);
}

/* A signal of one alike hands on; of another role it only calls. */
static void test_beside__signals(void **state)
{
    struct looked l;
    (void)state;
    for (int i = 0; i < 3; i++) {
        begin(&l, &handed);
        l.g.xkind[4] = IPS_X_SIGNAL;
        l.g.w[2] = l.g.w[5] = 0;
        if (i < 2)
            l.role[1] = l.role[0];
        l.thing[4] = i == 0 ? IPS_THING_LOCK : IPS_THING_UNKNOWN;
        look(&l);
        if (i < 2)
            one(&l, 1, i ? IPS_BESIDE_ALIKE : IPS_BESIDE_LOCK, 1, 9, 4);
        else
            assert_int_equal(l.b.count, 0);
        end(&l);
    }
}

/* Would catch: threads that never work at once said to have uneven work (those
 * of a Python program, which share one lock); uneven work denied although they
 * do work at once for a part of it. */
static void test_beside__taking_turns_is_not_uneven(void **state)
{
    struct looked l;
    (void)state;
    for (uint64_t at_once = 0; at_once < 3; at_once += 2) {
        begin(&l, &turns);
        l.role[1] = l.role[0];
        l.thing[2] = l.thing[5] = IPS_THING_CONDITION;
        l.g.w[5] = at_once;
        look(&l);
        uint64_t uneven = ns_of(&l, IPS_BESIDE_ALIKE);
        assert_int_equal(uneven, at_once ? 28 : 0);
        assert_int_equal(ns_of(&l, IPS_BESIDE_OTHER), at_once ? 0 : 20);
        end(&l);
    }
}

static void test_beside__crowding_shares_the_cores(void **state)
{
    struct looked l;
    (void)state;
    begin(&l, &three);
    look(&l);
    assert_int_equal(l.b.peak, 3);
    assert_int_equal(l.b.oversubscription_ns, 5); /* 30 on two cores take 15 */
    uint64_t sum = 0;
    for (uint32_t c = 0; c < l.g.chain_count; c++)
        sum += l.b.oversubscription[c];
    assert_int_equal(sum, 5);
    end(&l);
    begin(&l, &three);
    l.cores[0] = 3;
    look(&l);
    assert_int_equal(l.b.oversubscription_ns, 0);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside__a_shell_that_waits_wants_no_core),
        cmocka_unit_test(test_beside__alike_are_done_before),
        cmocka_unit_test(test_beside__by_what_is_waited_for),
        cmocka_unit_test(test_beside__one_core_wants_nothing),
        cmocka_unit_test(test_beside__one_serves_and_others_stand_in_line),
        cmocka_unit_test(test_beside__who_is_asked_nothing),
        cmocka_unit_test(test_beside__signals),
        cmocka_unit_test(test_beside__the_waiter_waits_for_the_busy_one),
        cmocka_unit_test(test_beside__space_is_waited_for),
        cmocka_unit_test(test_beside__what_sleeps_outside_is_not_late),
        cmocka_unit_test(test_beside__taking_turns_is_not_uneven),
        cmocka_unit_test(test_beside__crowding_shares_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
