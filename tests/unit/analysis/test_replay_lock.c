/* Locks of a replay: who has one next, by hand. The same rule in exact
 * fractions, over random graphs: tests/system/answers/test_oracle_replay.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "analysis/replay/replay.h"

#define CHAINS_MAX 4u
#define NODES_MAX 8u

/* A node: its arc's work, what it takes or gives (1 + lock), what it awaits
 * (1 + chain, node). */
struct step {
    uint64_t w;
    uint32_t takes, gives;
    uint32_t from_chain, from;
    uint8_t xkind;
};
struct story {
    struct ips_graph g;
    struct ips_replay_lock_event event[CHAINS_MAX * NODES_MAX];
    uint32_t units[2];
    struct ips_replay_locks locks;
};

static void tell(const struct step (*step)[NODES_MAX], uint32_t chains,
                 const uint32_t *units, struct story *s)
{
    uint32_t first[CHAINS_MAX], n = 0;
    memset(s, 0, sizeof(*s));
    for (uint32_t c = 0; c < chains; c++) {
        first[c] = n++;
        for (uint32_t k = 0; k < NODES_MAX && step[c][k].w; k++)
            n++;
    }
    assert_int_equal(0, ips_graph_alloc(&s->g, n, chains, NULL));
    for (uint32_t c = 0; c < chains; c++) {
        uint32_t end = c + 1 < chains ? first[c + 1] : n;
        s->g.chains[c] =
            (struct ips_chain){.first = first[c], .count = end - first[c]};
        for (uint32_t i = first[c] + 1; i < end; i++) {
            const struct step *from = &step[c][i - first[c] - 1];
            s->g.kind[i] = i + 1 == end ? IPS_NODE_END : IPS_NODE_AUX;
            s->g.w[i] = from->w;
            if (from->from_chain) {
                s->g.xkind[i] = from->xkind;
                s->g.xpred[i] = first[from->from_chain - 1] + from->from;
            }
            if (from->takes || from->gives)
                s->event[s->locks.event_count++] =
                    (struct ips_replay_lock_event){
                        i, from->takes + from->gives - 1, from->gives != 0};
        }
    }
    memcpy(s->units, units, sizeof(s->units));
    s->locks.lock_count = 2;
    s->locks.units = s->units;
    s->locks.event = s->event;
    assert_int_equal(0, ips_graph_check_invariants(&s->g, NULL));
}

static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
static const uint32_t mutexes[2] = {1, 1};

/* The longest path of the relabelled graph, with who gave to whom, is the
 * replay. */
static void check_path(struct story *s, const struct ips_replay *r)
{
    struct ips_est e;
    struct ips_graph *g = &s->g;
    for (uint32_t k = 0; k < s->locks.event_count; k++) {
        uint32_t i = s->event[k].node;
        if (s->event[k].gives || r->kept_count)
            continue;
        g->xpred[i] = r->giver[i];
        g->xkind[i] = r->giver[i] == IPS_NO_NODE ? IPS_X_NONE : IPS_X_RESOURCE;
    }
    memcpy(g->w, r->weight, g->node_count * sizeof(*g->w));
    assert_int_equal(0,
                     ips_longest_path_compute_ests(g, &lane, NULL, &e, NULL));
    assert_memory_equal(e.est, r->reach, g->node_count * sizeof(*e.est));
    ips_est_release(&e);
}

/* A: 4, takes, 5, gives, 1. B: 6, takes, 3, gives, 2; seen in that order. On
 * two cores A has it from 4 to 9 and ends at 10; B asks at 6, has it from 9 to
 * 12 and ends at 14. With A at half the speed it asks at 8; B has had it since
 * 6, gives it back at 9 and ends at 11; A goes on until 19, and ends at 21. As
 * it was seen: A from 8 to 18, B from 18 to 21, and its end at 23. Would catch
 * an order that is replayed as recorded, a lock that two have at once, and the
 * time in line taken for work. */
static void test_replay_lock__settled_anew(void **state)
{
    static const struct step steps[2][NODES_MAX] = {
        {{4, 1, 0, 0, 0, 0}, {5, 0, 1, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
        {{6, 1, 0, 1, 2, IPS_X_RESOURCE},
         {3, 0, 1, 0, 0, 0},
         {2, 0, 0, 0, 0, 0}}};
    static const struct {
        bool anew;
        uint32_t half;
        uint64_t a_end, b_end, a_blocked, b_blocked;
    } expected[] = {{true, 0, 10, 14, 0, 3},
                    {true, 1, 21, 11, 1, 0},
                    {false, 1, 20, 23, 0, 12}};
    static const uint32_t map[] = {1, 0};
    (void)state;
    for (size_t k = 0; k < sizeof(expected) / sizeof(*expected); k++) {
        struct ips_replay_machine two[] = {
            {.cores = 1}, {.cores = 1, .speed = {1, 1 + expected[k].half}}};
        struct story s;
        struct ips_replay r;
        tell(steps, 2, mutexes, &s);
        struct ips_replay_ask ask = {.machine_count = 2,
                                     .machine = two,
                                     .map = map,
                                     .locks =
                                         expected[k].anew ? &s.locks : NULL,
                                     .relabel = true};
        assert_int_equal(0, ips_replay(&s.g, &lane, &ask, &r, NULL));
        assert_int_equal(expected[k].a_end, r.chain[0].end_ns);
        assert_int_equal(expected[k].b_end, r.chain[1].end_ns);
        assert_int_equal(expected[k].a_blocked, r.chain[0].blocked_ns);
        assert_int_equal(expected[k].b_blocked, r.chain[1].blocked_ns);
        assert_int_equal(expected[k].anew ? 2 : 0, r.units_taken);
        assert_int_equal(expected[k].anew ? 0 : 1, r.resources);
        assert_int_equal(0, r.kept_count);
        if (expected[k].anew)
            check_path(&s, &r);
        ips_replay_release(&r);
        ips_graph_release(&s.g);
    }
}

/* Four that come at the same moment, 5, and on machines whose completions are
 * processed in the other order; D gives it back at 5 as well, having had it
 * since 1. So A has it from 5, B from 7, C from 9. Then the last two come at 5
 * and 4: C, the earlier one, is first. Would catch a tie that the order of
 * machines decides, and a lock given while others of that moment are still to
 * come. */
static void test_replay_lock__ties(void **state)
{
    static const uint32_t map[] = {3, 2, 1, 0};
    (void)state;
    for (uint64_t early = 0; early < 2; early++) {
        const struct step steps[4][NODES_MAX] = {
            {{5, 1, 0, 0, 0, 0}, {2, 0, 1, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
            {{5, 1, 0, 0, 0, 0}, {2, 0, 1, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
            {{5 - early, 1, 0, 0, 0, 0},
             {2, 0, 1, 0, 0, 0},
             {1, 0, 0, 0, 0, 0}},
            {{1, 1, 0, 0, 0, 0}, {4, 0, 1, 0, 0, 0}, {1, 0, 0, 0, 0, 0}}};
        static const uint64_t ends[2][4] = {{8, 10, 12, 6}, {10, 12, 8, 6}};
        struct ips_replay_machine many[4] = {
            {.cores = 1}, {.cores = 1}, {.cores = 1}, {.cores = 1}};
        struct story s;
        struct ips_replay r;
        tell(steps, 4, mutexes, &s);
        struct ips_replay_ask ask = {.machine_count = 4,
                                     .machine = many,
                                     .map = map,
                                     .locks = &s.locks,
                                     .relabel = true};
        assert_int_equal(0, ips_replay(&s.g, &lane, &ask, &r, NULL));
        for (uint32_t c = 0; c < 4; c++)
            assert_int_equal(ends[early][c], r.chain[c].end_ns);
        check_path(&s, &r);
        ips_replay_release(&r);
        ips_graph_release(&s.g);
    }
}

/* A semaphore that has nothing at the begin: A posts at 3, 5, 6 and 11. B asks
 * at 1 and has the first; C at 7 and D at 8 have those that were left; D asks
 * again at 9, and has to wait until 11. Would catch a post that is lost when
 * nobody waits, and one that lets two go. */
static void test_replay_lock__semaphore(void **state)
{
    static const struct step steps[4][NODES_MAX] = {
        {{3, 0, 1, 0, 0, 0},
         {2, 0, 1, 0, 0, 0},
         {1, 0, 1, 0, 0, 0},
         {5, 0, 1, 0, 0, 0},
         {1, 0, 0, 0, 0, 0}},
        {{1, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
        {{7, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
        {{8, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0}}};
    static const uint32_t none[2] = {0, 0};
    static const uint64_t ends[] = {12, 4, 8, 12};
    struct ips_replay_machine four = {.cores = 4};
    struct story s;
    struct ips_replay r;
    (void)state;
    tell(steps, 4, none, &s);
    struct ips_replay_ask ask = {.machine_count = 1,
                                 .machine = &four,
                                 .locks = &s.locks,
                                 .relabel = true};
    assert_int_equal(0, ips_replay(&s.g, &lane, &ask, &r, NULL));
    for (uint32_t c = 0; c < 4; c++)
        assert_int_equal(ends[c], r.chain[c].end_ns);
    check_path(&s, &r);
    ips_replay_release(&r);
    ips_graph_release(&s.g);
}

/* A sends to B while it has the lock, and B receives while it has it. Seen with
 * A first. On a slow A, B is first, and would have it for ever: the lock keeps
 * its order. The other lock, that C and D contend for, does not. Would catch a
 * replay that gives up, or that drops all locks for one. */
static void test_replay_lock__keeps_its_order(void **state)
{
    static const struct step steps[4][NODES_MAX] = {
        {{4, 1, 0, 0, 0, 0},
         {2, 0, 0, 0, 0, 0},
         {2, 0, 1, 0, 0, 0},
         {1, 0, 0, 0, 0, 0}},
        {{6, 1, 0, 1, 3, IPS_X_RESOURCE},
         {1, 0, 0, 1, 2, IPS_X_SIGNAL},
         {1, 0, 1, 0, 0, 0},
         {1, 0, 0, 0, 0, 0}},
        {{4, 2, 0, 0, 0, 0}, {5, 0, 2, 0, 0, 0}, {1, 0, 0, 0, 0, 0}},
        {{6, 2, 0, 3, 2, IPS_X_RESOURCE},
         {3, 0, 2, 0, 0, 0},
         {2, 0, 0, 0, 0, 0}}};
    static const uint32_t map[] = {1, 0, 1, 0};
    static const uint64_t ends[2][4] = {{9, 11, 10, 14}, {18, 19, 21, 11}};
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        struct ips_replay_machine two[] = {
            {.cores = 2}, {.cores = 2, .speed = {1, 1 + slow}}};
        struct story s;
        struct ips_replay r;
        struct ips_err err = {0};
        tell(steps, 4, mutexes, &s);
        struct ips_replay_ask ask = {.machine_count = 2,
                                     .machine = two,
                                     .map = map,
                                     .locks = &s.locks,
                                     .relabel = true};
        assert_int_equal(0, ips_replay(&s.g, &lane, &ask, &r, &err));
        for (uint32_t c = 0; c < 4; c++)
            assert_int_equal(ends[slow][c], r.chain[c].end_ns);
        assert_int_equal(0, err.code); /* of the attempt before: forgotten */
        assert_int_equal(slow, r.kept_count);
        assert_int_equal(slow ? 2 : 4, r.units_taken);
        assert_int_equal(slow, r.resources);
        ips_replay_release(&r);
        ips_graph_release(&s.g);
    }
}

static void test_replay_lock__refused(void **state)
{
    static const struct step steps[1][NODES_MAX] = {
        {{4, 1, 0, 0, 0, 0}, {2, 0, 1, 0, 0, 0}, {1, 0, 0, 0, 0, 0}}};
    struct ips_replay_machine one = {.cores = 1};
    struct story s;
    struct ips_replay r;
    (void)state;
    tell(steps, 1, mutexes, &s);
    struct ips_replay_ask ask = {
        .machine_count = 1, .machine = &one, .locks = &s.locks};
    s.event[1].lock = 2;
    assert_int_equal(IPS_E_USAGE, ips_replay(&s.g, &lane, &ask, &r, NULL));
    s.event[1] = (struct ips_replay_lock_event){1, 0, true};
    assert_int_equal(IPS_E_USAGE, ips_replay(&s.g, &lane, &ask, &r, NULL));
    s.event[1].node = 99;
    assert_int_equal(IPS_E_USAGE, ips_replay(&s.g, &lane, &ask, &r, NULL));
    s.locks.event_count = 1;
    s.g.xkind[1] = IPS_X_EXTERNAL;
    assert_int_equal(IPS_E_USAGE, ips_replay(&s.g, &lane, &ask, &r, NULL));
    ips_graph_release(&s.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_lock__settled_anew),
        cmocka_unit_test(test_replay_lock__ties),
        cmocka_unit_test(test_replay_lock__semaphore),
        cmocka_unit_test(test_replay_lock__keeps_its_order),
        cmocka_unit_test(test_replay_lock__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
