/* The next paths: all lengths of the golden graphs, and every answer on small
 * random graphs against a list of all paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/whatif/next.h"
#include "tests/support/golden.h"
#include "tests/support/shrink.h"

static uint32_t *own_labels(const struct ips_graph *g)
{
    uint32_t *label = calloc(g->chain_count + 1, sizeof(*label));
    for (uint32_t c = 0; c < g->chain_count; c++)
        label[c] = c;
    return label;
}

static const uint64_t lengths[GOLDEN_COUNT][10] = {
    {34, 23, 15},         {23, 17, 16, 10, 5}, {43, 25, 22, 14},
    {22, 19, 18, 15, 12}, {17, 10, 8},         {15, 12, 9, 7, 7, 5, 3},
    {17, 17, 9, 9, 9, 4},
};

/* EVIDENCE-OF: ALGORITHMS-8: would catch a path that is left out, comes twice
 * or out of order. */
static void test_next__golden(void **state)
{
    (void)state;
    for (int n = 0; n < GOLDEN_COUNT; n++) {
        struct ips_graph g;
        struct ips_est e;
        struct ips_next_paths next;
        struct ips_scenario lane = golden_lane(&golden[n]);
        golden_make(&golden[n], &g);
        uint32_t *label = own_labels(&g), count = 0;
        while (lengths[n][count])
            count++;
        struct ips_next_ask ask = {
            .group = IPS_NEXT_PATHS, .k = 100, .chain_label = label};
        assert_int_equal(
            0, ips_longest_path_compute_ests(&g, &lane, NULL, &e, NULL));
        assert_int_equal(
            0, ips_find_longest_paths(&g, &lane, &e, &ask, &next, NULL));
        assert_true(next.complete);
        assert_int_equal(next.count, count);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(next.path[i].ns, lengths[n][i]);
        ips_next_paths_release(&next);
        ips_est_release(&e);
        ips_graph_release(&g);
        free(label);
    }
}

/* G4 by process: the path through c2, then through c1, then P alone. */
static void test_next__grouped(void **state)
{
    (void)state;
    struct ips_graph g;
    struct ips_est e;
    struct ips_next_paths next;
    struct ips_scenario lane = golden_lane(&golden[3]);
    golden_make(&golden[3], &g);
    uint32_t *label = own_labels(&g);
    struct ips_next_ask ask = {
        .group = IPS_NEXT_SEQUENCE, .k = 2, .chain_label = label};
    assert_int_equal(0,
                     ips_longest_path_compute_ests(&g, &lane, NULL, &e, NULL));
    assert_int_equal(0,
                     ips_find_longest_paths(&g, &lane, &e, &ask, &next, NULL));
    assert_int_equal(next.count, 2);
    assert_int_equal(next.path[0].ns, 22);
    assert_int_equal(next.path[0].label_count, 3);
    assert_int_equal(next.path[0].label[1], 2);
    assert_int_equal(next.path[1].ns, 19);
    assert_int_equal(next.path[1].label[1], 1);
    assert_int_equal(next.path[1].path.count, 5);
    assert_int_equal(next.path[1].path.seg[2].ns, 10);
    ips_next_paths_release(&next);
    ask.limit_bytes = 1; /* says that it stopped, and is not wrong */
    assert_int_equal(0,
                     ips_find_longest_paths(&g, &lane, &e, &ask, &next, NULL));
    assert_false(next.complete);
    ips_next_paths_release(&next);
    ips_est_release(&e);
    ips_graph_release(&g);
    free(label);
}

/* ---- against all paths of a small graph ---------------------------------- */

#define MAX_PATHS 3000
#define MAX_LABELS 400

struct one {
    uint64_t ns;
    uint32_t label_count;
    uint32_t label[MAX_LABELS]; /* from the END back */
};
struct all {
    const struct ips_graph *g;
    struct ips_scenario lane;
    const uint32_t *label; /* of nodes */
    enum ips_next_group group;
    uint64_t paths;
    struct one *one; /* groups, or paths */
    uint32_t count;
};

static void put(struct all *a, const struct one *path)
{
    for (uint32_t i = 0; a->group != IPS_NEXT_PATHS && i < a->count; i++) {
        struct one *o = &a->one[i];
        if (o->label_count == path->label_count &&
            memcmp(o->label, path->label,
                   path->label_count * sizeof(*path->label)) == 0) {
            o->ns = path->ns > o->ns ? path->ns : o->ns;
            return;
        }
    }
    a->one[a->count++] = *path;
}

static void enumerate(struct all *a, uint32_t v, struct one path)
{
    const struct ips_graph *g = a->g;
    bool known = false, present;
    if (a->paths > MAX_PATHS)
        return;
    for (uint32_t i = 0; i < path.label_count; i++)
        known |= path.label[i] == a->label[v] &&
                 (a->group == IPS_NEXT_SET || i + 1 == path.label_count);
    if (a->group != IPS_NEXT_PATHS && !known && a->label[v] != IPS_NO_LABEL) {
        if (path.label_count == MAX_LABELS) {
            a->paths = MAX_PATHS + 1;
            return;
        }
        uint32_t at = path.label_count++;
        for (; a->group == IPS_NEXT_SET && at > 0 &&
               path.label[at - 1] < a->label[v];
             at--)
            path.label[at] = path.label[at - 1]; /* falling */
        path.label[at] = a->label[v];
    }
    uint64_t ns = path.ns, xw = ips_cross_arc_weight(g, v, &a->lane, &present);
    present = present && g->xpred[v] != IPS_NO_NODE;
    bool first = g->chains[ips_chain_of(g, v)].first == v;
    if (present) {
        path.ns = ns + xw;
        enumerate(a, g->xpred[v], path);
    }
    if (!first) {
        path.ns = ns + g->w[v];
        enumerate(a, v - 1, path);
    }
    if (first && !present) {
        a->paths++;
        put(a, &path);
    }
}

static int longest_first(const void *a, const void *b)
{
    const struct one *p = a, *q = b;
    return (p->ns < q->ns) - (p->ns > q->ns);
}

/* A path that was given: contiguous, of its length? */
static const char *path_wrong(const struct ips_next_path *p)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->path.count; i++) {
        sum += p->path.seg[i].ns;
        if (i && p->path.seg[i].from != p->path.seg[i - 1].to)
            return "a path with a hole";
    }
    if (sum != p->ns)
        return "a path that does not add up";
    if (p->path.count && p->path.seg[p->path.count - 1].to != p->end)
        return "a path that misses its END";
    return NULL;
}

static const char *compare(const struct all *a,
                           const struct ips_next_paths *next, uint32_t k)
{
    uint32_t want = a->count < k ? a->count : k;
    if (next->count != want || !next->complete)
        return "another number of paths";
    for (uint32_t i = 0; i < want; i++) {
        const struct ips_next_path *p = &next->path[i];
        const char *wrong = path_wrong(p);
        bool found = a->group == IPS_NEXT_PATHS;
        if (p->ns != a->one[i].ns)
            return "another length";
        if (wrong)
            return wrong;
        for (uint32_t j = 0; j < a->count && !found; j++) {
            const struct one *o = &a->one[j];
            found = o->ns == p->ns && o->label_count == p->label_count;
            for (uint32_t l = 0; l < p->label_count && found; l++)
                found = o->label[l] == p->label[p->label_count - 1 - l];
        }
        if (!found)
            return "a group that there is not, or with another longest path";
    }
    return NULL;
}

static uint64_t compared; /* graphs small enough to be enumerated */

static const char *next_property(struct rg *r, uint64_t seed)
{
    const struct ips_graph *g = &r->whole;
    uint64_t rng = seed ^ 77;
    struct all a = {.g = g,
                    .lane = {{rg_below(&rng, 20), 0, 1, 1},
                             (enum ips_external)rg_below(&rng, 3),
                             rg_below(&rng, 2)},
                    .group = (enum ips_next_group)(seed % 3)};
    rg_goal(g, &a.lane, &rng);
    uint32_t *label = calloc(g->node_count + 1, sizeof(*label));
    bool by_node = rg_below(&rng, 2);
    const char *wrong = NULL;
    a.one = calloc(MAX_PATHS + 2, sizeof(*a.one));
    for (uint32_t i = 0; i < g->node_count; i++)
        label[i] = !by_node                 ? ips_chain_of(g, i)
                   : rg_below(&rng, 4) == 0 ? IPS_NO_LABEL
                                            : rg_below(&rng, 4);
    a.label = label;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t last = g->chains[c].first + g->chains[c].count - 1;
        if (!a.lane.has_goal || a.lane.goal == last)
            enumerate(&a, last, (struct one){0});
    }
    if (a.paths <= MAX_PATHS) {
        struct ips_est e;
        struct ips_next_paths next;
        uint32_t *chain_label = own_labels(g);
        struct ips_next_ask ask = {.group = a.group,
                                   .k = 1 + rg_below(&rng, 200),
                                   .chain_label = chain_label,
                                   .node_label = by_node ? label : NULL};
        compared++;
        qsort(a.one, a.count, sizeof(*a.one), longest_first);
        if (ips_longest_path_compute_ests(g, &a.lane, NULL, &e, NULL) < 0 ||
            ips_find_longest_paths(g, &a.lane, &e, &ask, &next, NULL) < 0)
            return "an error";
        wrong = compare(&a, &next, ask.k);
        ips_next_paths_release(&next);
        ips_est_release(&e);
        free(chain_label);
    }
    free(a.one);
    free(label);
    return wrong;
}

/* EVIDENCE-OF: ALGORITHMS-4: would catch a search that stops too early, prunes
 * what is still wanted, or gives a group a path that is not its longest. */
static void test_next__as_all_paths(void **state)
{
    (void)state;
    const char *wrong = rg_hold(next_property, 300);
    if (wrong)
        fail_msg("%s", wrong);
    if (compared < 60)
        fail_msg("only %llu graphs were small enough",
                 (unsigned long long)compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next__golden),
        cmocka_unit_test(test_next__grouped),
        cmocka_unit_test(test_next__as_all_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
