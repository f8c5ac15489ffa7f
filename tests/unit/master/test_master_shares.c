/* Shares of a path. Catches: sums that are not the length (a piece counted
 * twice or not at all), a rank called stable that changes in a lane, a range
 * that leaves out a lane in which an item is not on the path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "master/path/shares.h"

/* A piece, and where it begins. */
struct stretch {
    struct path_thread came;
    struct path_piece piece;
};

static struct stretch compute(uint32_t part, uint32_t process, uint64_t ns)
{
    struct path_thread p = {part, process, 1};
    return (struct stretch){p, {.kind = IPS_SEG_COMPUTE, .at = p, .ns = ns}};
}

static struct stretch cross(uint32_t from, uint32_t to, uint8_t xkind,
                            uint64_t ns)
{
    return (struct stretch){
        {from, 0, 1},
        {.kind = xkind >= IPS_X_EXTERNAL ? IPS_SEG_EXTERNAL : IPS_SEG_MESSAGE,
         .xkind = xkind,
         .at = {to, 0, 1},
         .ns = ns}};
}

static int make(const struct stretch *p, size_t count, uint64_t t_max,
                struct shares *s, struct ips_err *err)
{
    *s = (struct shares){0};
    for (size_t i = 0; i < count; i++) {
        s->at = p[i].came;
        if (shares_add_next_piece(s, &p[i].piece, err) < 0)
            return IPS_E_NO_MEMORY;
    }
    return shares_rank_and_check_sum(s, t_max, err);
}

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static void test_master_shares__sums_and_order(void **state)
{
    (void)state;
    const struct stretch p[] = {
        compute(0, 0, 5),           cross(0, 1, IPS_X_DATA, 3),
        compute(1, 0, 10),          cross(1, 0, IPS_X_DATA, 3),
        compute(0, 0, 1),           cross(0, 0, IPS_X_EXTERNAL, 30),
        compute(0, 2, 7),           cross(0, 1, IPS_X_LIFETIME, 0),
        cross(0, 1, IPS_X_DATA, 3),
    };
    struct shares s;
    assert_int_equal(make(p, COUNT(p), 62, &s, NULL), 0);
    assert_int_equal(s.count[SHARE_MACHINE], 2);
    assert_int_equal(s.row[SHARE_MACHINE][0].a, 0);
    assert_int_equal(s.row[SHARE_MACHINE][0].ns, 13);
    assert_int_equal(s.row[SHARE_MACHINE][0].count, 3);
    assert_int_equal(s.count[SHARE_PROCESS], 3);
    assert_int_equal(s.row[SHARE_PROCESS][0].ns, 10);
    assert_int_equal(s.row[SHARE_PROCESS][1].ns, 7);
    assert_int_equal(s.row[SHARE_PROCESS][2].ns, 6);
    assert_int_equal(s.count[SHARE_MESSAGE], 2);
    assert_int_equal(s.row[SHARE_MESSAGE][0].ns, 6);
    assert_int_equal(s.row[SHARE_MESSAGE][0].count, 2);
    assert_int_equal(s.count[SHARE_OUTSIDE], 1);
    assert_int_equal(s.row[SHARE_OUTSIDE][0].b, SHARE_EXTERNAL);
    assert_int_equal(s.row[SHARE_OUTSIDE][0].ns, 30);
    assert_int_equal(s.count[SHARE_THREAD], 3);
    assert_int_equal(s.row[SHARE_THREAD][0].b, 1);
    assert_int_equal(s.row[SHARE_THREAD][0].ns, 10);
    assert_int_equal(s.messages, 3);
    shares_release(&s);
    /* Not the length: said, not shown. */
    struct ips_err err = {0};
    assert_int_equal(make(p, COUNT(p), 61, &s, &err), IPS_E_CORRUPT);
}

/* Many objects, so that tables grow; a message is from where the piece before
 * it ended. Catches: rows lost or doubled as a table grows, a message that is
 * laid to another sender. */
static void test_master_shares__many_objects(void **state)
{
    (void)state;
    enum { PROCESSES = 5000, ROUNDS = 3 };
    struct shares s = {.at = {0, 0, 1}};
    struct ips_err err;
    for (uint32_t i = 0; i < PROCESSES * ROUNDS; i++) {
        struct path_thread at = {i % PROCESSES / 100, i % PROCESSES % 100, 1};
        const struct path_piece message = {.kind = IPS_SEG_MESSAGE,
                                           .xkind = IPS_X_DATA,
                                           .at = at,
                                           .ns = 2},
                                work = {.kind = IPS_SEG_COMPUTE,
                                        .at = at,
                                        .ns = 1 + i % PROCESSES};
        assert_int_equal(shares_add_next_piece(&s, &message, &err), 0);
        assert_int_equal(shares_add_next_piece(&s, &work, &err), 0);
    }
    uint64_t computed = (uint64_t)ROUNDS * PROCESSES * (PROCESSES + 1) / 2;
    assert_int_equal(
        shares_rank_and_check_sum(&s, computed + 2 * PROCESSES * ROUNDS, &err),
        0);
    assert_int_equal(s.messages, PROCESSES * ROUNDS);
    assert_int_equal(s.count[SHARE_MACHINE], PROCESSES / 100);
    assert_int_equal(s.count[SHARE_PROCESS], PROCESSES);
    for (size_t i = 0; i < PROCESSES; i++) {
        const struct share_row *row = &s.row[SHARE_PROCESS][i];
        uint64_t process = PROCESSES - 1 - i;
        assert_int_equal(row->a, process / 100 << 32 | process % 100);
        assert_int_equal(row->ns, ROUNDS * (process + 1));
        assert_int_equal(row->count, ROUNDS);
        assert_int_equal(row->rank, i);
    }
    /* The first comes once from itself, then from the last. */
    assert_int_equal(s.count[SHARE_MESSAGE], PROCESSES + 1);
    assert_int_equal(s.row[SHARE_MESSAGE][PROCESSES].count, 1);
    assert_int_equal(s.row[SHARE_MESSAGE][PROCESSES].a, 0);
    assert_int_equal(s.row[SHARE_MESSAGE][PROCESSES].b, 0);
    assert_int_equal(s.row[SHARE_MESSAGE][PROCESSES - 1].count, ROUNDS - 1);
    assert_int_equal(s.row[SHARE_MESSAGE][PROCESSES - 1].b, 0);
    shares_release(&s);
}

static void test_master_shares__stability_over_lanes(void **state)
{
    (void)state;
    const struct stretch main_path[] = {compute(0, 0, 10), compute(0, 1, 8),
                                        compute(0, 2, 3)};
    const struct stretch swapped[] = {compute(0, 0, 7), compute(0, 1, 9),
                                      compute(0, 2, 3)};
    const struct stretch shorter[] = {compute(0, 0, 12)};
    struct shares s, a, b;
    struct shares *lanes[] = {&a, &b};
    bool same[2];
    assert_int_equal(make(main_path, 3, 21, &s, NULL), 0);
    assert_int_equal(make(swapped, 3, 19, &a, NULL), 0);
    assert_int_equal(make(shorter, 1, 12, &b, NULL), 0);
    shares_update_stability_by_scenarios(&s, lanes, 1, same);
    assert_false(same[0]);
    assert_false(s.row[SHARE_PROCESS][0].stable);
    assert_false(s.row[SHARE_PROCESS][1].stable);
    assert_true(s.row[SHARE_PROCESS][2].stable);
    assert_true(s.row[SHARE_MACHINE][0].stable);
    assert_int_equal(s.row[SHARE_PROCESS][0].ns_low, 7);
    assert_int_equal(s.row[SHARE_PROCESS][0].ns_high, 10);
    shares_update_stability_by_scenarios(&s, lanes, 2, same);
    assert_false(s.row[SHARE_PROCESS][2].stable);
    assert_int_equal(s.row[SHARE_PROCESS][2].ns_low, 0);
    assert_int_equal(s.row[SHARE_PROCESS][0].ns_high, 12);
    shares_release(&s);
    assert_int_equal(make(main_path, 3, 21, &s, NULL), 0);
    struct shares *self[] = {&s};
    shares_update_stability_by_scenarios(&s, self, 1, same);
    assert_true(same[0]);
    shares_release(&s);
    shares_release(&a);
    shares_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_shares__sums_and_order),
        cmocka_unit_test(test_master_shares__many_objects),
        cmocka_unit_test(test_master_shares__stability_over_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
