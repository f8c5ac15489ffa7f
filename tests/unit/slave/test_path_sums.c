/* The sums of a path are those of its pieces one by one: else a scenario of the
 * certificate would have other shares than its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "master/path/shares.h"
#include "slave/serve/path_sums.h"
#include "tests/support/longest.h"
#include "tests/support/shrink.h"

#define SEEDS 300

static struct path_thread place_of(const struct ips_graph *g, uint32_t chain)
{
    return (struct path_thread){.process = g->chains[chain].process,
                                .tid = chain};
}

static bool equal(const struct shares *a, const struct shares *b)
{
    bool same = a->messages == b->messages && a->resources == b->resources;
    for (int l = 0; l < SHARE_LISTS && same; l++)
        same =
            a->count[l] == b->count[l] &&
            (a->count[l] == 0 ||
             memcmp(a->row[l], b->row[l], a->count[l] * sizeof(**a->row)) == 0);
    return same;
}

/* Of the path from `from`, or from a START, to the END. */
static bool holds(const struct ips_graph *g, const struct ips_est *e,
                  uint32_t from)
{
    struct ips_path p;
    struct slave_path_sums sums = {0};
    struct shares whole = {0}, summed = {0};
    uint64_t ns = 0;
    assert_int_equal(0,
                     ips_path_find_between(g, NULL, e, from, e->end, &p, NULL));
    if (from != IPS_NO_NODE)
        whole.at = place_of(g, ips_chain_of(g, from));
    else if (p.count)
        whole.at = place_of(g, p.seg[0].chain);
    for (uint64_t i = 0; i < p.count; i++) {
        const struct ips_path_segment *s = &p.seg[i];
        const struct path_piece piece = {.kind = (uint8_t)s->kind,
                                         .xkind = s->xkind,
                                         .at = place_of(g, s->chain),
                                         .ns = s->ns};
        ns += s->ns;
        assert_int_equal(0, shares_add_next_piece(&whole, &piece, NULL));
    }
    assert_int_equal(0,
                     slave_path_sums_add_path(&sums, g, e, from, e->end, NULL));
    for (uint32_t i = 0; i < sums.sum.n; i++) {
        const struct slave_path_sum *s = &sums.sum.v[i];
        const struct path_piece piece = {.kind = s->kind,
                                         .xkind = s->xkind,
                                         .at = place_of(g, s->chain),
                                         .ns = s->ns};
        assert_int_equal(0, shares_add_pieces(&summed, &piece,
                                              place_of(g, s->before), s->count,
                                              NULL));
    }
    assert_int_equal(0, shares_rank_and_check_sum(&whole, ns, NULL));
    assert_int_equal(0, shares_rank_and_check_sum(&summed, ns, NULL));
    bool same = equal(&whole, &summed);
    shares_release(&whole);
    shares_release(&summed);
    slave_path_sums_release(&sums);
    ips_path_release(&p);
    return same;
}

static const char *of_path(struct rg *r, uint64_t seed)
{
    const char *wrong = NULL;
    const struct ips_graph *g = &r->whole;
    struct ips_est e;
    struct ips_path p;
    struct ips_scenario lane = {.message_time = {.base_ns = seed % 3 * 1000,
                                                 .scale_num = 1,
                                                 .scale_den = 1}};
    assert_int_equal(0,
                     ips_longest_path_compute_ests(g, &lane, NULL, &e, NULL));
    RG_HOLD(holds(g, &e, IPS_NO_NODE));
    assert_int_equal(
        0, ips_path_find_between(g, &lane, &e, IPS_NO_NODE, e.end, &p, NULL));
    for (uint64_t i = 0; i < p.count; i += 7)
        RG_HOLD(holds(g, &e, p.seg[i].to));
    ips_path_release(&p);
    ips_est_release(&e);
    return wrong;
}

static void test_path_sums__pieces(void **state)
{
    (void)state;
    const char *wrong = rg_hold(of_path, SEEDS);
    if (wrong)
        fail_msg("%s", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_sums__pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
