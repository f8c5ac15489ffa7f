/* The roster with time given. Catches: a second slave pushing a living one
 * out, a dead connection that blocks its own machine for ever, names that
 * would break an object's path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "master/base/roster.h"
#include "proto/message.h"

#define SECOND 1000000000ULL

static char peers[4]; /* only their addresses count */
#define PEER(i) ((struct ips_peer *)(void *)&peers[i])

static int admit(struct roster *r, const char *name, int peer, uint64_t now,
                 struct ips_peer **old, struct slave **out, struct ips_err *err)
{
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = ips_unconst_text(name);
    return roster_admit(r, &hello, PEER(peer), now, old, out, err);
}

static void test_master_roster__one_slave_a_machine(void **state)
{
    (void)state;
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s, *t;
    struct ips_err err = {0};
    Ips__Report report = IPS__REPORT__INIT;
    assert_int_equal(admit(&r, "m1", 0, 0, &old, &s, &err), 0);
    assert_null(old);
    assert_ptr_equal(roster_find_by_peer(&r, PEER(0)), s);
    roster_store_report(s, &report, 2 * SECOND);
    assert_int_equal(admit(&r, "m1", 1, 4 * SECOND, &old, &t, &err),
                     IPS_E_REFUSED);
    assert_non_null(strstr(err.msg, "--machine"));
    assert_ptr_equal(s->peer, PEER(0));
    /* Silent for longer: the new connection takes its place. */
    assert_false(roster_is_slave_alive(s, 2 * SECOND + ROSTER_MISSING_NS + 1));
    assert_int_equal(admit(&r, "m1", 1, 6 * SECOND, &old, &t, &err), 0);
    assert_ptr_equal(old, PEER(0));
    assert_ptr_equal(t, s);
    assert_null(roster_find_by_peer(&r, PEER(0)));
    /* Gone: free at once, and still known. */
    roster_mark_disconnected(s);
    assert_false(roster_is_slave_alive(s, 6 * SECOND));
    assert_ptr_equal(roster_find(&r, "m1"), s);
    assert_int_equal(admit(&r, "m1", 2, 6 * SECOND, &old, &t, &err), 0);
    assert_null(old);
    assert_int_equal(r.count, 1);
    roster_release(&r);
}

static void test_master_roster__sorted_by_name(void **state)
{
    (void)state;
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s;
    assert_int_equal(admit(&r, "b", 0, 0, &old, &s, NULL), 0);
    assert_int_equal(admit(&r, "c", 1, 0, &old, &s, NULL), 0);
    assert_int_equal(admit(&r, "a", 2, 0, &old, &s, NULL), 0);
    assert_string_equal(r.first->machine, "a");
    assert_string_equal(r.first->next->machine, "b");
    assert_string_equal(r.first->next->next->machine, "c");
    roster_release(&r);
}

static void test_master_roster__names(void **state)
{
    (void)state;
    char longest[ROSTER_NAME_BYTES + 1];
    memset(longest, 'x', sizeof(longest));
    longest[ROSTER_NAME_BYTES] = '\0';
    assert_false(roster_is_valid_machine_name(longest));
    longest[ROSTER_NAME_BYTES - 1] = '\0';
    assert_true(roster_is_valid_machine_name(longest));
    assert_true(roster_is_valid_machine_name("host-1.example.org"));
    assert_true(roster_is_valid_machine_name("!~"));
    assert_false(roster_is_valid_machine_name("/a"));
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s;
    struct ips_err err = {0};
    assert_int_equal(admit(&r, " ", 0, 0, &old, &s, &err), IPS_E_REFUSED);
    assert_string_equal(err.msg, "\" \" is not a valid machine name: 1 to 63 "
                                 "printable characters without space and '/' "
                                 "(--machine NAME)");
    assert_int_equal(r.count, 0);
    assert_false(roster_is_valid_machine_name("a\x7f"));
    assert_false(roster_is_valid_machine_name(""));
    assert_false(roster_is_valid_machine_name("a/b"));
    assert_false(roster_is_valid_machine_name("a b"));
    assert_false(roster_is_valid_machine_name("a\nb"));
    assert_false(roster_is_valid_machine_name("\xc3\xa4"));
}

/* Silence of exactly as long as is allowed is none; a second slave is taken in
 * one ns later. Of a moment before the last sign of life nothing is said. */
static void test_master_roster__silence_to_the_ns(void **state)
{
    (void)state;
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s, *t;
    struct ips_err err = {0};
    const uint64_t seen = 7 * SECOND;
    assert_int_equal(admit(&r, "m1", 0, seen, &old, &s, &err), 0);
    assert_true(roster_is_slave_alive(s, seen + ROSTER_MISSING_NS));
    assert_true(roster_is_slave_alive(s, seen - SECOND));
    assert_false(roster_is_slave_alive(s, seen + ROSTER_MISSING_NS + 1));
    assert_int_equal(
        admit(&r, "m1", 1, seen + ROSTER_MISSING_NS, &old, &t, &err),
        IPS_E_REFUSED);
    assert_ptr_equal(roster_find_by_peer(&r, PEER(0)), s);
    assert_null(roster_find_by_peer(&r, PEER(1)));
    assert_int_equal(
        admit(&r, "m1", 1, seen + ROSTER_MISSING_NS + 1, &old, &t, &err), 0);
    assert_ptr_equal(old, PEER(0));
    roster_release(&r);
}

/* What a slave says of itself is kept, and what it said before is not, where it
 * was started again; a refused one changes nothing. */
static void test_master_roster__what_it_says(void **state)
{
    (void)state;
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s;
    struct ips_err err = {0};
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    Ips__Report report = IPS__REPORT__INIT;
    hello.machine = ips_unconst_text("m1");
    hello.boot_id = ips_unconst_text("boot-1");
    hello.version = ips_unconst_text("9.8.7");
    hello.peers = ips_unconst_text("tcp:m1:7");
    hello.cores = 12;
    assert_int_equal(roster_admit(&r, &hello, PEER(0), SECOND, &old, &s, &err),
                     0);
    assert_string_equal(s->boot_id, "boot-1");
    assert_string_equal(s->version, "9.8.7");
    assert_string_equal(s->peers, "tcp:m1:7");
    assert_int_equal(s->cores, 12);
    report.n_runs = report.known_runs = 3;
    report.computations = 4;
    report.questions = 5;
    report.pool_used_bytes = 6;
    report.pool_size_bytes = 7;
    roster_store_report(s, &report, 2 * SECOND);
    assert_int_equal(s->runs, 3);
    assert_int_equal(s->computations, 4);
    assert_int_equal(s->questions, 5);
    assert_int_equal(s->pool_used_bytes, 6);
    assert_int_equal(s->pool_size_bytes, 7);
    assert_int_equal(s->seen_ns, 2 * SECOND);
    /* Another one of the same host, and of another. */
    hello.cores = 99;
    assert_int_equal(
        roster_admit(&r, &hello, PEER(1), 3 * SECOND, &old, &s, &err),
        IPS_E_REFUSED);
    assert_non_null(strstr(err.msg, "connected from the same host:"));
    hello.boot_id = ips_unconst_text("boot-2");
    assert_int_equal(
        roster_admit(&r, &hello, PEER(1), 3 * SECOND, &old, &s, &err),
        IPS_E_REFUSED);
    assert_non_null(strstr(err.msg, "connected from another host: give"));
    s = roster_find(&r, "m1");
    assert_string_equal(s->boot_id, "boot-1");
    assert_int_equal(s->cores, 12);
    roster_mark_disconnected(s);
    assert_int_equal(
        roster_admit(&r, &hello, PEER(1), 3 * SECOND, &old, &s, &err), 0);
    assert_string_equal(s->boot_id, "boot-2");
    assert_int_equal(s->cores, 99);
    assert_int_equal(s->computations + s->questions, 0);
    assert_int_equal(s->seen_ns, 3 * SECOND);
    roster_release(&r);
}

/* So many machines, and none more; one of them may come again. */
static void test_master_roster__so_many(void **state)
{
    (void)state;
    struct roster r = {0};
    struct ips_peer *old;
    struct slave *s;
    struct ips_err err = {0};
    char name[32];
    for (unsigned i = 0; i < ROSTER_MAX_SLAVES; i++) {
        snprintf(name, sizeof(name), "m%04u", i * 7 % ROSTER_MAX_SLAVES);
        assert_int_equal(admit(&r, name, 0, SECOND, &old, &s, &err), 0);
        s->peer = NULL;
    }
    assert_int_equal(r.count, ROSTER_MAX_SLAVES);
    assert_int_equal(admit(&r, "one-more", 0, SECOND, &old, &s, &err),
                     IPS_E_LIMIT);
    assert_non_null(strstr(err.msg, "1024 machines"));
    assert_null(roster_find(&r, "one-more"));
    assert_int_equal(admit(&r, "m0000", 1, SECOND, &old, &s, &err), 0);
    unsigned count = 1;
    for (s = r.first; s->next; s = s->next, count++)
        assert_true(strcmp(s->machine, s->next->machine) < 0);
    assert_int_equal(count, ROSTER_MAX_SLAVES);
    roster_release(&r);
    assert_int_equal(r.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_roster__one_slave_a_machine),
        cmocka_unit_test(test_master_roster__sorted_by_name),
        cmocka_unit_test(test_master_roster__names),
        cmocka_unit_test(test_master_roster__silence_to_the_ns),
        cmocka_unit_test(test_master_roster__what_it_says),
        cmocka_unit_test(test_master_roster__so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
