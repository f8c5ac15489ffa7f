/* Placement search: against all maps of small random graphs, its bound, its
 * determinism, and questions that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/replay/search.h"
#include "tests/support/golden.h"
#include "tests/support/random_graph.h"

#define MACHINES 4u
#define ITEMS 8u

/* A random graph with items, machines and message times. */
struct drawn {
    struct rg graph;
    struct ips_scenario lane;
    struct ips_replay_machine machine[MACHINES];
    struct ips_message_time message_time[MACHINES * MACHINES];
    struct ips_replay_load load[3];
    struct ips_replay_ask replay;
    uint32_t *item; /* [chains] */
    uint32_t *map;  /* [chains] scratch */
    uint64_t weight[ITEMS], capacity[MACHINES];
    uint32_t alike[MACHINES], fixed[ITEMS];
    bool closed[MACHINES];
    struct ips_search_ask ask;
    uint64_t asked, stop_at;
};

static int value(void *ctx, const uint32_t *map,
                 struct ips_placement_value *out, struct ips_err *err)
{
    struct drawn *d = ctx;
    struct ips_replay r;
    for (uint32_t c = 0; c < d->graph.whole.chain_count; c++)
        d->map[c] = map[d->item[c]];
    int rc = ips_replay(&d->graph.whole, &d->lane, &d->replay, &r, err);
    if (rc < 0)
        return rc;
    d->asked++;
    out->makespan_ns = r.makespan_ns;
    out->second = 0;
    for (uint32_t c = 0; c < d->graph.whole.chain_count; c++)
        out->second += r.chain[c].end_ns;
    ips_replay_release(&r);
    return 0;
}

static void draw_machines(struct drawn *d, uint64_t *s, uint32_t n)
{
    static const struct ips_ratio speed[] = {{0, 0}, {1, 1}, {2, 1}, {1, 3}};
    static const struct ips_ratio load[] = {{0, 0}, {0, 1}, {1, 2}, {2, 1}};
    bool equal = rg_below(s, 2);
    for (uint32_t m = 0; m < n; m++) {
        d->machine[m] =
            (struct ips_replay_machine){.cores = 1 + rg_below(s, 2),
                                        .speed = speed[rg_below(s, 4)],
                                        .load = load[rg_below(s, 4)]};
        if (equal) { /* but for one thing of one of them, mostly */
            struct ips_replay_machine other = d->machine[m];
            d->machine[m] = d->machine[0];
            uint32_t what = m + 1 == n ? rg_below(s, 4) : 3;
            if (what == 0)
                d->machine[m].cores = other.cores;
            else if (what == 1)
                d->machine[m].speed = other.speed;
            else if (what == 2)
                d->machine[m].load = other.load;
        }
        d->capacity[m] =
            (d->machine[m].speed.den
                 ? 6u * d->machine[m].speed.num / d->machine[m].speed.den
                 : 6u) *
            d->machine[m].cores;
    }
    struct ips_message_time near = {rg_below(s, rg_below(s, 4) ? 3 : 40), 0, 1,
                                    1};
    struct ips_message_time far = {rg_below(s, 30),
                                   (uint64_t)rg_below(s, 2) << 30, 1, 1};
    for (uint32_t p = 0; p < n * n; p++) {
        d->message_time[p] = p / n == p % n ? near : far;
        if (!equal && rg_below(s, 4) == 0)
            d->message_time[p].base_ns = rg_below(s, 40);
    }
    if (equal && rg_below(s, 4) == 0)
        d->message_time[rg_below(s, n * n)].base_ns = rg_below(s, 40);
}

static void draw(uint64_t seed, struct drawn *d)
{
    struct rg_options opt = rg_options_of(seed);
    uint64_t s = seed;
    memset(d, 0, sizeof(*d));
    opt.unmatched = false;
    opt.steps = 20 + opt.steps / 6;
    rg_make(&opt, &d->graph);
    const struct ips_graph *g = &d->graph.whole;
    uint32_t n = 2 + rg_below(&s, MACHINES - 1), items = 1;
    d->item = calloc(g->chain_count, sizeof(*d->item));
    d->map = calloc(g->chain_count, sizeof(*d->map));
    if (!d->item || !d->map)
        abort();
    for (uint32_t c = 0; c < g->chain_count; c++) {
        d->item[c] = c < ITEMS - 1 ? c : ITEMS - 1 - rg_below(&s, 2);
        items = d->item[c] >= items ? d->item[c] + 1 : items;
        for (uint32_t i = g->chains[c].first + 1;
             i < g->chains[c].first + g->chains[c].count; i++)
            d->weight[d->item[c]] += g->w[i];
    }
    draw_machines(d, &s, n);
    d->lane =
        (struct ips_scenario){.external = (enum ips_external)rg_below(&s, 3),
                              .order_dependent_off = rg_below(&s, 2)};
    if (rg_below(&s, 4) == 0) {
        uint32_t c = rg_below(&s, g->chain_count);
        d->lane.has_goal = true;
        d->lane.goal = g->chains[c].first + g->chains[c].count - 1;
    }
    uint32_t loads = rg_below(&s, 4) == 0 ? 2 : 0;
    for (uint32_t k = 0; k < loads; k++)
        d->load[k] = (struct ips_replay_load){
            50 * (k + 1), rg_below(&s, n), {rg_below(&s, 3), 1}};
    d->replay = (struct ips_replay_ask){.machine_count = n,
                                        .machine = d->machine,
                                        .map = d->map,
                                        .load_count = loads,
                                        .load = d->load,
                                        .message_time = d->message_time};
    memset(d->fixed, 0xff, sizeof(d->fixed));
    if (rg_below(&s, 3) == 0)
        d->fixed[rg_below(&s, items)] = rg_below(&s, n);
    if (rg_below(&s, 3) == 0)
        d->closed[rg_below(&s, n)] = true;
    d->ask = (struct ips_search_ask){.item_count = items,
                                     .machine_count = n,
                                     .fixed = d->fixed,
                                     .closed = d->closed,
                                     .alike = d->alike,
                                     .weight = d->weight,
                                     .capacity = d->capacity,
                                     .evaluations = 100000,
                                     .seed = seed,
                                     .top = 3,
                                     .value = value,
                                     .ctx = d};
    ips_search_find_alike_machines(&d->replay, &d->ask, d->alike);
}

static void discard(struct drawn *d)
{
    rg_release(&d->graph);
    free(d->item);
    free(d->map);
}

static struct ips_placement_search solve(const struct drawn *d)
{
    struct ips_placement_search s;
    struct ips_err err = {0};
    if (ips_placement_search(&d->ask, &s, &err) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)d->ask.seed, err.msg);
    return s;
}

static struct ips_search_compute_bound bound_of(const struct drawn *d)
{
    struct ips_search_compute_bound b;
    struct ips_err err = {0};
    if (ips_search_compute_bound(&d->graph.whole, &d->lane, &d->replay, d->item,
                                 &d->ask, &b, &err) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)d->ask.seed, err.msg);
    return b;
}

/* All maps, one by one, without the search: the least makespan, and how many
 * maps there are. */
static uint64_t least_of_all(struct drawn *d, uint64_t *count)
{
    uint32_t map[ITEMS] = {0};
    uint64_t least = UINT64_MAX;
    for (*count = 1;; ++*count) {
        struct ips_placement_value worth;
        bool may = true;
        for (uint32_t i = 0; i < d->ask.item_count; i++)
            may &= d->fixed[i] == IPS_SEARCH_FREE ? !d->closed[map[i]]
                                                  : d->fixed[i] == map[i];
        if (may) {
            assert_int_equal(0, value(d, map, &worth, NULL));
            least = worth.makespan_ns < least ? worth.makespan_ns : least;
        }
        uint32_t i = 0;
        while (i < d->ask.item_count && ++map[i] == d->ask.machine_count)
            map[i++] = 0;
        if (i == d->ask.item_count)
            return least;
    }
}

/* EVIDENCE-OF: DPM-7: where all maps can be tried, the answer is the best there
 * is, as trying each of them without any order finds it, though maps that only
 * exchange machines that are alike are left out. Would catch a map that is
 * skipped and machines that are called alike and are not. */
static void test_search__tries_all(void **state)
{
    (void)state;
    uint64_t left_out = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct drawn d;
        draw(seed, &d);
        if (d.ask.item_count > 6)
            d.ask.item_count = 6;
        for (uint32_t c = 0; c < d.graph.whole.chain_count; c++)
            d.item[c] = d.item[c] < 6 ? d.item[c] : 5;
        uint64_t count, least = least_of_all(&d, &count);
        struct ips_placement_search s = solve(&d);
        assert_int_equal(IPS_SEARCH_ALL, s.end);
        assert_int_equal(0, s.starts);
        assert_int_equal(least, s.best[0].makespan_ns);
        assert_true(s.evaluations <= count);
        left_out += count - s.evaluations;
        for (uint32_t k = 1; k < s.count; k++)
            assert_true(s.best[k - 1].makespan_ns <= s.best[k].makespan_ns);
        ips_search_release(&s);
        discard(&d);
    }
    assert_true(left_out > 0);
}

/* EVIDENCE-OF: DPM-8: no map of any of the graphs is better than the bound, in
 * none of its three parts (each with whatever speeds, loads that change, ways
 * and goals); and it is no empty phrase: in some it is reached. Would catch a
 * rate that is too low, work counted that nothing waits for, a message that
 * could have been nearer. */
static void test_search__bound(void **state)
{
    (void)state;
    uint32_t reached = 0, by_path = 0, by_capacity = 0, by_item = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct drawn d;
        draw(seed, &d);
        struct ips_search_compute_bound b = bound_of(&d);
        d.ask.evaluations = 60;
        struct ips_placement_search s = solve(&d);
        uint64_t best = s.best[0].makespan_ns;
        if (b.path_ns > best || b.capacity_ns > best || b.item_ns > best)
            fail_msg("seed %llu: %llu, and the bounds are path %llu, "
                     "capacity %llu, item %llu",
                     (unsigned long long)seed, (unsigned long long)best,
                     (unsigned long long)b.path_ns,
                     (unsigned long long)b.capacity_ns,
                     (unsigned long long)b.item_ns);
        assert_true(b.ns == b.path_ns || b.ns == b.capacity_ns ||
                    b.ns == b.item_ns);
        reached += b.ns == best;
        by_path += b.ns == best && b.path_ns == best;
        by_capacity += b.ns > b.path_ns && b.ns == b.capacity_ns;
        by_item += b.ns > b.path_ns && b.ns == b.item_ns;
        ips_search_release(&s);
        discard(&d);
    }
    assert_true(reached > 0 && by_path > 0 && by_capacity > 0 && by_item > 0);
}

/* The share in which the local search finds the best of all maps, with a
 * quarter as many evaluations as there are maps (not told apart by machines
 * that are alike) and at least 30: what docs/predict.md says of it. Seeds and
 * graphs are fixed, so the share is too. Would catch a move that is never
 * tried and a start that leads nowhere. */
static void test_search__finds_the_best(void **state)
{
    (void)state;
    uint32_t found = 0, graphs = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct drawn d;
        draw(seed, &d);
        d.ask.evaluations = 5000; /* more have too many maps for a test */
        struct ips_placement_search all = solve(&d);
        if (all.end == IPS_SEARCH_ALL && all.evaluations > 120) {
            d.ask.local_only = true;
            d.ask.evaluations = all.evaluations / 4;
            d.asked = 0;
            struct ips_placement_search s = solve(&d);
            assert_true(s.evaluations <= d.ask.evaluations);
            assert_int_equal(d.asked, s.evaluations);
            assert_true(s.best[0].makespan_ns >= all.best[0].makespan_ns);
            found += s.best[0].makespan_ns == all.best[0].makespan_ns;
            graphs++;
            ips_search_release(&s);
        }
        ips_search_release(&all);
        discard(&d);
    }
    print_message("the best of all: %u of %u\n", found, graphs);
    assert_true(graphs >= 40);
    assert_true(found * 100 >= graphs * 90);
}

/* Same question, same answer: maps, order, number of evaluations. And what is
 * told of a map is what a replay of it says. Would catch a state that is kept
 * from one search to the next, and values of other maps. */
static void test_search__deterministic(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct drawn d;
        draw(seed, &d);
        d.ask.local_only = true;
        d.ask.evaluations = 50;
        struct ips_placement_search a = solve(&d), b = solve(&d);
        assert_int_equal(a.evaluations, b.evaluations);
        assert_int_equal(a.count, b.count);
        for (uint32_t k = 0; k < a.count; k++) {
            struct ips_placement_value worth;
            assert_memory_equal(a.best[k].machine, b.best[k].machine,
                                d.ask.item_count * sizeof(uint32_t));
            assert_int_equal(0, value(&d, a.best[k].machine, &worth, NULL));
            assert_int_equal(worth.makespan_ns, a.best[k].makespan_ns);
            for (uint32_t i = 0; i < d.ask.item_count; i++)
                assert_true(d.fixed[i] == IPS_SEARCH_FREE
                                ? !d.closed[a.best[k].machine[i]]
                                : d.fixed[i] == a.best[k].machine[i]);
        }
        ips_search_release(&a);
        ips_search_release(&b);
        discard(&d);
    }
}

/* A given map is never made worse, whatever few evaluations there are. Would
 * catch a search that forgets where it began. */
static void test_search__given(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct drawn d;
        uint64_t s = seed;
        uint32_t given[ITEMS];
        struct ips_placement_value worth;
        draw(seed, &d);
        d.ask.closed = NULL;
        for (uint32_t i = 0; i < d.ask.item_count; i++)
            given[i] = d.fixed[i] == IPS_SEARCH_FREE
                           ? rg_below(&s, d.ask.machine_count)
                           : d.fixed[i];
        assert_int_equal(0, value(&d, given, &worth, NULL));
        d.ask.start_map = given;
        d.ask.local_only = true;
        d.ask.evaluations = 1 + rg_below(&s, 5);
        struct ips_placement_search found = solve(&d);
        assert_true(found.best[0].makespan_ns <= worth.makespan_ns);
        assert_true(found.end == IPS_SEARCH_BUDGET ||
                    found.end == IPS_SEARCH_SETTLED);
        ips_search_release(&found);
        discard(&d);
    }
}

static bool stop(void *ctx, uint64_t evaluations, uint64_t best_ns)
{
    const struct drawn *d = ctx;
    return evaluations < d->stop_at && best_ns > 0;
}

/* G5 by hand: A (6, 4) sends to B (2, 6), 5 away. On one core 18 with a message
 * of no time, on two machines 17; nothing is below the path of 12 that messages
 * of no time leave. Would catch times given in other units than asked, and a
 * search that goes on when told to stop. */
static void test_search__by_hand(void **state)
{
    struct drawn d = {.stop_at = UINT64_MAX};
    uint32_t item[] = {0, 1}, map[2];
    (void)state;
    golden_make(&golden[4], &d.graph.whole);
    d.lane = golden_lane(&golden[4]);
    d.item = item;
    d.map = map;
    for (uint32_t m = 0; m < 2; m++) {
        d.machine[m].cores = 1;
        d.capacity[m] = 1;
    }
    d.message_time[1] = d.message_time[2] =
        (struct ips_message_time){5, 0, 1, 1};
    d.replay = (struct ips_replay_ask){.machine_count = 2,
                                       .machine = d.machine,
                                       .map = map,
                                       .message_time = d.message_time};
    d.weight[0] = 10;
    d.weight[1] = 8;
    d.ask = (struct ips_search_ask){.item_count = 2,
                                    .machine_count = 2,
                                    .alike = d.alike,
                                    .weight = d.weight,
                                    .capacity = d.capacity,
                                    .evaluations = 10,
                                    .top = 5,
                                    .value = value,
                                    .progress = stop,
                                    .ctx = &d};
    ips_search_find_alike_machines(&d.replay, &d.ask, d.alike);
    assert_int_equal(0, d.alike[1]);
    struct ips_search_compute_bound b = bound_of(&d);
    assert_int_equal(12, b.path_ns);
    assert_int_equal(9, b.capacity_ns);
    assert_int_equal(10, b.item_ns);
    assert_int_equal(0, b.item);
    struct ips_placement_search s = solve(&d);
    assert_int_equal(2, s.count); /* the two of four that differ */
    assert_int_equal(17, s.best[0].makespan_ns);
    assert_int_equal(2, s.best[0].used);
    assert_int_equal(18, s.best[1].makespan_ns);
    assert_int_equal(1, s.best[1].used);
    assert_int_equal(IPS_SEARCH_ALL, s.end);
    ips_search_release(&s);
    d.ask.top = 1;
    d.ask.bound_ns = 18; /* as if: the first map is good enough */
    s = solve(&d);
    assert_int_equal(IPS_SEARCH_BOUND, s.end);
    assert_int_equal(1, s.evaluations);
    ips_search_release(&s);
    d.ask.bound_ns = 0;
    d.stop_at = 1;
    s = solve(&d);
    assert_int_equal(IPS_SEARCH_STOPPED, s.end);
    assert_int_equal(1, s.count);
    ips_search_release(&s);
    ips_graph_release(&d.graph.whole);
}

static void refuse(int code, const char *word, const struct drawn *d)
{
    struct ips_placement_search s;
    struct ips_err err = {0};
    assert_int_equal(code, ips_placement_search(&d->ask, &s, &err));
    if (!strstr(err.msg, word))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, word);
    assert_null(s.best);
}

/* Wrong questions get an error that says what is wrong; one of the value's own
 * ends the search. */
static void test_search__refuses(void **state)
{
    struct drawn d;
    (void)state;
    draw(3, &d);
    struct ips_search_ask good = d.ask;
    uint32_t wild[ITEMS] = {9}, crossed[MACHINES] = {1, 1, 2, 3};
    d.ask.top = 0;
    refuse(IPS_E_LIMIT, "the best 0", &d);
    d.ask = good;
    d.ask.evaluations = 0;
    refuse(IPS_E_LIMIT, "of 0 maps", &d);
    d.ask = good;
    d.ask.start_map = wild;
    refuse(IPS_E_USAGE, "item 0 is on no machine", &d);
    d.ask = good;
    d.ask.fixed = wild;
    refuse(IPS_E_USAGE, "item 0 is on no machine", &d);
    d.ask = good;
    d.ask.alike = crossed;
    refuse(IPS_E_USAGE, "not the lowest", &d);
    d.ask = good;
    for (uint32_t m = 0; m < MACHINES; m++)
        d.closed[m] = true;
    refuse(IPS_E_USAGE, "may not be on machine", &d);
    memset(d.closed, 0, sizeof(d.closed));
    d.machine[0].cores = 0;
    refuse(IPS_E_USAGE, "0 cores", &d);
    discard(&d);
}

/* Would catch: machines called alike, so that one of their maps is not tried,
 * although they differ in one property. */
static void test_search__alike_only_if_all_is_equal(void **state)
{
    enum { EQUAL, CORES, SPEED, TURN, WIRE, MEDIUM, CASES };
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const struct ips_curve slow = {.count = 1, .bytes = {1}, .ns = {500}},
                               fast = {.count = 1, .bytes = {1}, .ns = {400}};
        const struct ips_curve *wire[4] = {&slow, &slow, &slow, &slow};
        uint32_t medium[4] = {0}, alike[2];
        struct ips_replay_machine machine[2] = {{.cores = 2}, {.cores = 2}};
        const struct ips_replay_ask ask = {.machine = machine,
                                           .machine_count = 2,
                                           .medium_count = 2,
                                           .medium = medium,
                                           .wire = wire};
        const struct ips_search_ask of = {.machine_count = 2};
        machine[1].cores += k == CORES;
        machine[1].speed = (struct ips_ratio){k == SPEED ? 2 : 1, 1};
        machine[1].turn_ns = k == TURN ? 1000 : 0;
        wire[3] = k == WIRE ? &fast : &slow;
        medium[3] = k == MEDIUM;
        ips_search_find_alike_machines(&ask, &of, alike);
        assert_int_equal(alike[0], 0);
        assert_int_equal(alike[1], k == EQUAL ? 0 : 1);
    }
}

/* Would catch: machines called alike whose messages to a third one, from it, or
 * between the two differ. */
static void test_search__alike_only_if_all_pairs_are(void **state)
{
    (void)state;
    for (uint32_t pair = 0; pair < 9; pair++) {
        uint32_t medium[9] = {0}, alike[3];
        struct ips_replay_machine machine[3] = {
            {.cores = 2}, {.cores = 2}, {.cores = 3}};
        const struct ips_replay_ask ask = {.machine = machine,
                                           .machine_count = 3,
                                           .medium_count = 2,
                                           .medium = medium};
        const struct ips_search_ask of = {.machine_count = 3};
        medium[pair] = 1;
        ips_search_find_alike_machines(&ask, &of, alike);
        assert_int_equal(alike[1], pair == 8 ? 0 : 1); /* 8: the third's own */
        assert_int_equal(alike[2], 2);
    }
}

/* Equal machines whose loads change. Would catch: machines taken for one whose
 * loads change at other times, to other values or more often; changes of one
 * machine taken for another's; equal ones that are told apart. */
static void test_search__alike_by_changes_of_load(void **state)
{
    static const struct ips_replay_machine machine[5] = {
        {.cores = 2}, {.cores = 2}, {.cores = 2}, {.cores = 2}, {.cores = 2}};
    static const struct {
        struct ips_replay_load load[6];
        uint32_t count, alike[5];
    } rows[] = {
        /* 1 and 3 as each other, in other words; 0 and 4 have none */
        {{{10, 1, {1, 1}}, {10, 3, {2, 2}}, {20, 3, {0, 1}}, {20, 1, {0, 5}}},
         4,
         {0, 1, 0, 1, 0}},
        {{{10, 1, {1, 1}}, {11, 3, {1, 1}}}, 2, {0, 1, 0, 3, 0}},
        {{{10, 1, {1, 1}}, {10, 3, {1, 2}}}, 2, {0, 1, 0, 3, 0}},
        {{{10, 0, {1, 1}},
          {10, 1, {1, 1}},
          {20, 0, {2, 1}},
          {20, 2, {2, 1}},
          {30, 1, {2, 1}},
          {40, 3, {1, 1}}},
         6,
         {0, 1, 2, 3, 4}},
    };
    const struct ips_search_ask of = {.machine_count = 5};
    (void)state;
    for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
        const struct ips_replay_ask ask = {.machine_count = 5,
                                           .machine = machine,
                                           .load_count = rows[k].count,
                                           .load = rows[k].load};
        uint32_t alike[5];
        ips_search_find_alike_machines(&ask, &of, alike);
        for (uint32_t m = 0; m < 5; m++)
            assert_int_equal(rows[k].alike[m], alike[m]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search__tries_all),
        cmocka_unit_test(test_search__alike_by_changes_of_load),
        cmocka_unit_test(test_search__bound),
        cmocka_unit_test(test_search__finds_the_best),
        cmocka_unit_test(test_search__deterministic),
        cmocka_unit_test(test_search__given),
        cmocka_unit_test(test_search__by_hand),
        cmocka_unit_test(test_search__refuses),
        cmocka_unit_test(test_search__alike_only_if_all_is_equal),
        cmocka_unit_test(test_search__alike_only_if_all_pairs_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
