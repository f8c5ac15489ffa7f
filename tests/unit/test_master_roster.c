/* The roster with time given. Catches: a second slave pushing a living one
 * out, a dead connection that blocks its own machine for ever, names that
 * would break an object's path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/roster.h"
#include "proto/message.h"

#define SECOND 1000000000ULL

static char peers[4]; /* only their addresses count */
#define PEER(i) ((struct ips_peer *)(void *)&peers[i])

static int admit(struct roster *r, const char *name, int peer, uint64_t now,
                 struct ips_peer **old, struct slave **out, struct ips_err *err)
{
    Ips__Hello hello = ips_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = ips_wire_text(name);
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
    assert_ptr_equal(roster_of(&r, PEER(0)), s);
    roster_heard(s, &report, 2 * SECOND);
    assert_int_equal(admit(&r, "m1", 1, 4 * SECOND, &old, &t, &err),
                     IPS_E_REFUSED);
    assert_non_null(strstr(err.msg, "--machine"));
    assert_ptr_equal(s->peer, PEER(0));
    /* Silent for longer: the new connection takes its place. */
    assert_false(roster_alive(s, 2 * SECOND + ROSTER_MISSING_NS + 1));
    assert_int_equal(admit(&r, "m1", 1, 6 * SECOND, &old, &t, &err), 0);
    assert_ptr_equal(old, PEER(0));
    assert_ptr_equal(t, s);
    assert_null(roster_of(&r, PEER(0)));
    /* Gone: free at once, and still known. */
    roster_gone(s);
    assert_false(roster_alive(s, 6 * SECOND));
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
    assert_false(roster_name_ok(longest));
    longest[ROSTER_NAME_BYTES - 1] = '\0';
    assert_true(roster_name_ok(longest));
    assert_true(roster_name_ok("host-1.example.org"));
    assert_false(roster_name_ok(""));
    assert_false(roster_name_ok("a/b"));
    assert_false(roster_name_ok("a b"));
    assert_false(roster_name_ok("a\nb"));
    assert_false(roster_name_ok("\xc3\xa4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_roster__one_slave_a_machine),
        cmocka_unit_test(test_master_roster__sorted_by_name),
        cmocka_unit_test(test_master_roster__names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
