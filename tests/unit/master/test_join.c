/* Joining ends of different machines. Catches: joining on one side's order
 * alone when an earlier connection of the same endpoints is missing, joining
 * two connecting sides, joining an end with its own machine, and calling a
 * join certain that another order explains as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_allocation.h"
#include "master/query/join.h"

static struct join_end end(uint32_t part, uint32_t index, const char *local,
                           const char *remote)
{
    return (struct join_end){.machine = part,
                             .index = index,
                             .kind = 4,
                             .local = (const uint8_t *)local,
                             .remote = (const uint8_t *)remote,
                             .local_len = (uint32_t)strlen(local),
                             .remote_len = (uint32_t)strlen(remote)};
}

static struct join_end tcp(uint32_t part, uint32_t ordinal, const char *local,
                           const char *remote, uint64_t sent, uint64_t recv,
                           int role)
{
    struct join_end e = end(part, ordinal + 10, local, remote);
    e.ordinal = ordinal;
    e.sent_bytes = sent;
    e.recv_bytes = recv;
    e.closed = true;
    e.connected = role == 'c';
    e.accepted = role == 'a';
    return e;
}

static struct join_end named(uint32_t part, const char *name, uint64_t sent,
                             uint64_t recv)
{
    struct join_end e = end(part, 0, name, "");
    e.kind = 6;
    e.named = true;
    e.sent_bytes = sent;
    e.recv_bytes = recv;
    return e;
}

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof(*(a))))

static uint64_t join(struct join_end *e, uint32_t count)
{
    uint64_t ambiguous = 99;
    assert_int_equal(join_ends(e, count, &ambiguous, NULL), 0);
    for (uint32_t i = 0; i < count; i++) {
        if (e[i].peer != JOIN_NONE) {
            assert_int_equal(e[e[i].peer].peer, i);
            assert_int_not_equal(e[e[i].peer].machine, e[i].machine);
        }
    }
    return ambiguous;
}

static void test_join__swapped_endpoints(void **state)
{
    (void)state;
    struct join_end e[] = {
        tcp(0, 0, "a:1", "b:80", 10, 20, 'c'),
        tcp(0, 0, "a:2", "b:80", 10, 20, 'c'),
        tcp(1, 0, "b:80", "a:2", 20, 10, 'a'),
        tcp(1, 0, "b:80", "a:1", 20, 10, 'a'),
        tcp(2, 0, "c:9", "b:80", 1, 1, 'c'),
    };
    assert_int_equal(join(e, COUNT(e)), 0);
    assert_int_equal(e[0].peer, 3);
    assert_int_equal(e[1].peer, 2);
    assert_int_equal(e[4].peer, JOIN_NONE);
}

static void test_join__reused_endpoints_by_ordinal(void **state)
{
    (void)state;
    struct join_end e[] = {
        tcp(0, 1, "a:1", "b:80", 11, 21, 'c'),
        tcp(0, 0, "a:1", "b:80", 10, 20, 'c'),
        tcp(1, 0, "b:80", "a:1", 20, 10, 'a'),
        tcp(1, 1, "b:80", "a:1", 21, 11, 'a'),
    };
    assert_int_equal(join(e, COUNT(e)), 0);
    assert_int_equal(e[1].peer, 2);
    assert_int_equal(e[0].peer, 3);
}

static void test_join__totals_win_over_ordinals_and_are_counted(void **state)
{
    (void)state;
    /* The first connection was not traced on machine 0. */
    struct join_end e[] = {
        tcp(0, 0, "a:1", "b:80", 11, 21, 'c'),
        tcp(1, 0, "b:80", "a:1", 20, 10, 'a'),
        tcp(1, 1, "b:80", "a:1", 21, 11, 'a'),
    };
    assert_int_equal(join(e, COUNT(e)), 1);
    assert_int_equal(e[0].peer, 2);
    assert_int_equal(e[1].peer, JOIN_NONE);
}

static void test_join__open_ends_go_by_ordinal(void **state)
{
    (void)state;
    struct join_end e[] = {
        tcp(0, 0, "a:1", "b:80", 11, 21, 'c'),
        tcp(1, 0, "b:80", "a:1", 5, 5, 'a'),
    };
    e[1].closed = false;
    assert_int_equal(join(e, COUNT(e)), 0);
    assert_int_equal(e[0].peer, 1);
}

static void test_join__disagreeing_totals_are_ambiguous(void **state)
{
    (void)state;
    struct join_end e[] = {
        tcp(0, 0, "a:1", "b:80", 11, 21, 'c'),
        tcp(1, 0, "b:80", "a:1", 21, 9, 'a'),
    };
    assert_int_equal(join(e, COUNT(e)), 1);
    assert_int_equal(e[0].peer, 1);
}

static void test_join__two_connecting_sides_do_not_join(void **state)
{
    (void)state;
    struct join_end e[] = {
        tcp(0, 0, "a:1", "b:80", 1, 1, 'c'),
        tcp(1, 0, "b:80", "a:1", 1, 1, 'c'),
        tcp(0, 0, "x:1", "y:80", 1, 1, 'c'),
        tcp(0, 0, "y:80", "x:1", 1, 1, 'a'), /* same machine: the slave's */
        tcp(0, 0, "z:1", "z:1", 1, 1, '-'),  /* a socket with itself */
    };
    assert_int_equal(join(e, COUNT(e)), 0);
    for (uint32_t i = 0; i < COUNT(e); i++)
        assert_int_equal(e[i].peer, JOIN_NONE);
}

static void test_join__named_channels(void **state)
{
    (void)state;
    struct join_end e[] = {
        named(0, "work", 100, 0), named(1, "work", 0, 100),
        named(0, "done", 0, 7),   named(1, "done", 7, 0),
        named(2, "else", 5, 5),
    };
    assert_int_equal(join(e, COUNT(e)), 0);
    assert_int_equal(e[0].peer, 1);
    assert_int_equal(e[2].peer, 3);
    assert_int_equal(e[4].peer, JOIN_NONE);
    /* Three machines of one name: somebody is left over, and it is said. */
    struct join_end f[] = {named(0, "w", 100, 0), named(1, "w", 0, 60),
                           named(2, "w", 0, 40)};
    assert_int_equal(join(f, COUNT(f)), 1);
    assert_int_equal(f[0].peer, 1);
    assert_int_equal(f[2].peer, JOIN_NONE);
}

/* Random connections, some ends withheld: what joins is what was connected. */
static void test_join__random_connections(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        struct join_end e[80];
        char text[40][2][16];
        uint32_t truth[80], n = 0;
        for (uint32_t k = 0; k < 40; k++) {
            uint64_t up = 1000 + k * 7, down = 5000 + k * 3;
            snprintf(text[k][0], sizeof(text[k][0]), "a:%u", k);
            snprintf(text[k][1], sizeof(text[k][1]), "b:%d", rand_r(&seed) % 3);
            bool one = rand_r(&seed) % 5, two = rand_r(&seed) % 5;
            if (one)
                e[n++] = tcp(0, 0, text[k][0], text[k][1], up, down, 'c');
            if (two)
                e[n++] = tcp(1, 0, text[k][1], text[k][0], down, up, 'a');
            if (one)
                truth[n - 1 - two] = two ? n - 1 : JOIN_NONE;
            if (two)
                truth[n - 1] = one ? n - 2 : JOIN_NONE;
        }
        assert_int_equal(join(e, n), 0);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(e[i].peer, truth[i]);
    }
}

static int join_again(void *arg)
{
    struct join_end *e = arg;
    uint64_t ambiguous;
    int rc = join_ends(e, 4, &ambiguous, NULL);
    assert_true(rc < 0 || (e[0].peer == 1 && e[2].peer == 3));
    return rc;
}

static void test_join__no_memory(void **state)
{
    struct join_end e[] = {tcp(0, 0, "a", "b", 10, 20, 'c'),
                           tcp(1, 0, "b", "a", 20, 10, 'a'),
                           named(0, "x", 5, 6), named(1, "x", 6, 5)};
    (void)state;
    assert_true(each_allocation(join_again, e) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join__no_memory),
        cmocka_unit_test(test_join__swapped_endpoints),
        cmocka_unit_test(test_join__reused_endpoints_by_ordinal),
        cmocka_unit_test(test_join__totals_win_over_ordinals_and_are_counted),
        cmocka_unit_test(test_join__open_ends_go_by_ordinal),
        cmocka_unit_test(test_join__disagreeing_totals_are_ambiguous),
        cmocka_unit_test(test_join__two_connecting_sides_do_not_join),
        cmocka_unit_test(test_join__named_channels),
        cmocka_unit_test(test_join__random_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
