/* What can be asked about, made of a graph and tables of names, and found by
 * patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_allocation.h"
#include "master/path/entities.h"
#include "tests/support/golden.h"

/* G1 on two machines: A is process a.7 of m1, B b.8 of m2; b.9 has no thread.
 * A's 10 ns are 6 of f and 3 of g, B's 20 are f's. */
struct world {
    struct ips_graph g;
    const char *name1[1], *name2[2];
    struct entity_symbol symbol1[2], symbol2[1];
    uint32_t node1[2], of1[2], node2[1], of2[1];
    uint64_t ns1[2], ns2[1];
    struct machine_entities part[2];
    struct entities t;
};

static void make(struct world *w)
{
    memset(w, 0, sizeof(*w));
    golden_make(&golden[0], &w->g);
    w->g.chains[1].machine = 1;
    w->g.chains[0].process = w->g.chains[1].process = 0;
    w->name1[0] = "a.7";
    w->name2[0] = "b.8";
    w->name2[1] = "b.9";
    w->symbol1[0] = (struct entity_symbol){"g", "/bin/x", "x.c", 3};
    w->symbol1[1] = (struct entity_symbol){"f", "/bin/x", "x.c", 1};
    w->symbol2[0] = (struct entity_symbol){"f", "/bin/x", "x.c", 1};
    w->node1[0] = w->node1[1] = 1;
    w->of1[0] = 1;
    w->ns1[0] = 6;
    w->ns1[1] = 3;
    w->node2[0] = 2;
    w->ns2[0] = 20;
    w->part[0] = (struct machine_entities){
        "m1", w->name1, 1, 0, 3, w->symbol1, 2, w->node1, w->of1, w->ns1, 2};
    w->part[1] = (struct machine_entities){
        "m2", w->name2, 2, 3, 3, w->symbol2, 1, w->node2, w->of2, w->ns2, 1};
}

static void forget(struct world *w)
{
    entities_release(&w->t);
    ips_graph_release(&w->g);
}

/* Would catch a feature in two machines, procedures of one name that are two,
 * a portion at the wrong node, a message named the wrong way round. */
static void test_things__made(void **state)
{
    (void)state;
    static const char *const names[] = {
        "/m1",     "/m2", "/m1/a.7", "/m2/b.8",
        "/m2/b.9", "f",   "g",       "m1/a.7 -> m2/b.8"};
    struct world w;
    struct ips_err err;
    uint32_t blame;
    char text[ENTITY_NAME_BYTES];
    make(&w);
    if (entities_make(&w.g, w.part, 2, false, &w.t, &blame, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(w.t.entity_count, 8);
    for (uint32_t i = 0; i < 8; i++)
        assert_string_equal(entities_write_name(&w.t, &w.t.entity[i], text),
                            names[i]);
    assert_int_equal(w.t.entity[5].count, 2); /* f here and there */
    assert_string_equal(entities_procedure_symbol(&w.t, &w.t.entity[5])->module,
                        "/bin/x");
    assert_null(entities_procedure_symbol(&w.t, &w.t.entity[0]));
    struct ips_est e;
    struct ips_scenario lane = golden_lane(&golden[0]);
    uint64_t *share = calloc(w.t.f.count, sizeof(*share)), f = 0, g = 0;
    assert_int_equal(
        0, ips_longest_path_compute_ests(&w.g, &lane, NULL, &e, NULL));
    (void)ips_sum_path_time_by_feature(&w.g, &lane, &e, &w.t.f, share);
    for (uint32_t k = 0; k < w.t.entity[5].count; k++)
        f += share[w.t.member[w.t.entity[5].first + k]];
    g = share[w.t.member[w.t.entity[6].first]];
    assert_int_equal(f, 26);
    assert_int_equal(g, 3);
    assert_int_equal(share[w.t.member[w.t.entity[7].first]], 4);
    free(share);
    ips_est_release(&e);
    forget(&w);
}

static uint32_t chosen(const struct world *w, const char *procedure,
                       const char *process, const char *message,
                       const char *object)
{
    struct entity_selector s = {procedure, process, message, object};
    uint32_t *feature = NULL, count;
    struct ips_err err;
    int rc = entities_select_features(&w->t, &s, &feature, &count, &err);
    if (rc < 0)
        assert_int_equal(rc, IPS_E_USAGE);
    free(feature);
    return rc < 0 ? UINT32_MAX : count;
}

/* Would catch a pattern that fits too much or nothing, and one that fits
 * messages where computing was meant. */
static void test_things__selected(void **state)
{
    (void)state;
    struct world w;
    uint32_t blame;
    make(&w);
    assert_int_equal(0,
                     entities_make(&w.g, w.part, 2, false, &w.t, &blame, NULL));
    assert_int_equal(chosen(&w, "f", "", "", ""), 2);
    assert_int_equal(chosen(&w, "?", "", "", ""), 3);
    assert_int_equal(chosen(&w, "f", "b", "", ""), 1);
    assert_int_equal(chosen(&w, "g", "b", "", ""), 0);
    assert_int_equal(chosen(&w, "", "b", "", ""), 3); /* b.8, its f, b.9 */
    assert_int_equal(chosen(&w, "", "b.8", "", ""), 2);
    assert_int_equal(chosen(&w, "", "/m2/*", "", ""), 3);
    assert_int_equal(chosen(&w, "", "m1/a.*", "", ""), 3);
    assert_int_equal(chosen(&w, "", "", "", "/m1"), 3);
    assert_int_equal(chosen(&w, "", "", "", "/m"), 0);
    assert_int_equal(chosen(&w, "", "", "", "/m2/b.8/"), 2);
    assert_int_equal(chosen(&w, "", "", "a->b", ""), 1);
    assert_int_equal(chosen(&w, "", "", " a -> /m2/b.8 ", ""), 1);
    assert_int_equal(chosen(&w, "", "", "b->a", ""), 0);
    assert_int_equal(chosen(&w, "", "", "*->external", ""), 0);
    assert_int_equal(chosen(&w, "", "", "a", ""), UINT32_MAX);
    forget(&w);
    make(&w); /* the message becomes a wait outside */
    w.g.xkind[4] = IPS_X_EXTERNAL;
    w.g.xpred[4] = 3;
    assert_int_equal(0,
                     entities_make(&w.g, w.part, 2, false, &w.t, &blame, NULL));
    assert_int_equal(chosen(&w, "", "", "b->external", ""), 1);
    forget(&w);
}

/* What a slave may not send: the slave is named. */
static void test_things__refused(void **state)
{
    (void)state;
    struct world w;
    uint32_t blame;
    for (int what = 0; what < 4; what++) {
        make(&w);
        w.node2[0] = what == 0 ? 3 : 2;
        w.of2[0] = what == 1 ? 1 : 0;
        w.g.chains[1].process = what == 2 ? 2 : 0;
        w.ns2[0] = what == 3 ? 21 : 20; /* more than the arc has */
        assert_true(entities_make(&w.g, w.part, 2, false, &w.t, &blame, NULL) <
                    0);
        if (what < 3)
            assert_int_equal(blame, 1);
        if (what == 3)
            assert_int_equal(
                0, entities_make(&w.g, w.part, 2, true, &w.t, &blame, NULL));
        forget(&w);
    }
}

static int make_and_choose(void *arg)
{
    struct world *w = arg;
    const struct entity_selector all = {"f", "", "", ""};
    uint32_t blame, *feature = NULL, count;
    int rc = entities_make(&w->g, w->part, 2, false, &w->t, &blame, NULL);
    if (rc < 0)
        return rc;
    rc = entities_select_features(&w->t, &all, &feature, &count, NULL);
    assert_true(rc < 0 || count == 2);
    free(feature);
    entities_release(&w->t);
    return rc;
}

/* Would catch an allocation that is not looked at, and what is left of those
 * before it. */
static void test_things__no_memory(void **state)
{
    (void)state;
    struct world w;
    make(&w);
    assert_true(each_allocation(make_and_choose, &w) > 10);
    ips_graph_release(&w.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_things__no_memory),
        cmocka_unit_test(test_things__made),
        cmocka_unit_test(test_things__selected),
        cmocka_unit_test(test_things__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
