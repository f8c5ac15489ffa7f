/*
 * Replays, work queues, locks and the search for placements while memory lacks:
 * each allocation fails once. Would catch: one that is not looked at, an error
 * with another code, memory that is left.
 */
#include "each_allocation.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/replay/replay.h"
#include "analysis/replay/search.h"
#include "tests/support/random_crew.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_queue.h"

#define MACHINES 2u

static const struct ips_scenario lane = {.message_time = {3, 1ULL << 30, 1, 1}};
/* One takes turns and has a load, one shares its cores at every moment. */
static const struct ips_replay_machine machines[MACHINES] = {
    {.cores = 2, .speed = {1, 2}, .load = {2, 1}, .turn_ns = 500},
    {.cores = 1, .load = {1, 1}}};
static const struct ips_message_time times[MACHINES * MACHINES] = {
    {3, 0, 1, 1}, {20, 1ULL << 30, 1, 1}, {20, 1ULL << 30, 1, 1}, {3, 0, 1, 1}};
static const uint32_t media[MACHINES * MACHINES] = {IPS_REPLAY_NO_MEDIUM, 0, 0,
                                                    IPS_REPLAY_NO_MEDIUM};
static const struct ips_replay_load loads[] = {{500, 1, {3, 1}},
                                               {900, 1, {1, 1}}};

struct story {
    const struct ips_graph *g;
    struct ips_replay_ask ask;
    uint32_t *map;
};

/* A replay of `g`, its chains on one machine and the other by turns. */
static void begin(struct story *s, const struct ips_graph *g)
{
    memset(s, 0, sizeof(*s));
    s->g = g;
    s->map = calloc((size_t)g->chain_count + 1, sizeof(*s->map));
    assert_non_null(s->map);
    for (uint32_t c = 0; c < g->chain_count; c++)
        s->map[c] = c % MACHINES;
    s->ask = (struct ips_replay_ask){.machine_count = MACHINES,
                                     .machine = machines,
                                     .map = s->map,
                                     .load_count = 2,
                                     .load = loads,
                                     .message_time = times,
                                     .medium_count = 1,
                                     .medium = media};
}

static int replay(void *arg)
{
    const struct story *s = arg;
    struct ips_replay r;
    int rc = ips_replay(s->g, &lane, &s->ask, &r, NULL);
    if (rc == 0)
        ips_replay_release(&r);
    return rc;
}

static void test_replay_memory__replay(void **state)
{
    struct rg_options opt = rg_options_of(2);
    struct rg r;
    struct story s;
    (void)state;
    opt.unmatched = false;
    rg_make(&opt, &r);
    begin(&s, &r.whole);
    s.ask.relabel = true;
    assert_true(each_allocation(replay, &s) > 8);
    free(s.map);
    rg_release(&r);
}

struct queue_story {
    struct story story;
    const struct rq *q;
};

static int settle_queue(void *arg)
{
    struct queue_story *s = arg;
    struct ips_queues found;
    struct ips_queued_graph made;
    struct ips_replay r;
    int rc = ips_queues_find(&s->q->g, s->q->any, &found, NULL);
    if (rc < 0)
        return rc;
    s->story.ask.queues = &found;
    rc = ips_replay(&s->q->g, &lane, &s->story.ask, &r, NULL);
    if (rc == 0) {
        rc = ips_queued_graph_make_reordered(&s->q->g, &found, r.taken_block,
                                             NULL, &made, NULL);
        if (rc == 0)
            ips_queued_graph_release(&made);
        ips_replay_release(&r);
    }
    ips_queues_release(&found);
    return rc;
}

static void test_replay_memory__queue(void **state)
{
    struct rq q;
    struct queue_story s;
    (void)state;
    rq_make(3, 1000, &q);
    begin(&s.story, &q.g);
    s.q = &q;
    assert_true(each_allocation(settle_queue, &s) > 20);
    free(s.story.map);
    rq_release(&q);
}

struct crew_story {
    struct story story;
    const struct rcrew *crew;
};

static int settle_crew(void *arg)
{
    struct crew_story *s = arg;
    struct ips_queues found = {0};
    struct ips_queued_graph made;
    struct ips_replay r;
    const struct rcrew *c = s->crew;
    int rc = ips_lock_queues_find(&c->g, &c->locks, c->when, NULL,
                                  &found.lock_queues, NULL);
    if (rc < 0)
        return rc;
    s->story.ask.queues = &found;
    rc = ips_replay(&c->g, &lane, &s->story.ask, &r, NULL);
    if (rc == 0) {
        rc = ips_queued_graph_make_reordered(&c->g, &found, NULL,
                                             r.piece_worker, &made, NULL);
        if (rc == 0)
            ips_queued_graph_release(&made);
        ips_replay_release(&r);
    }
    ips_queues_release(&found);
    return rc;
}

static void test_replay_memory__locks(void **state)
{
    struct rcrew crew;
    struct crew_story s;
    (void)state;
    rcrew_make(3, 1000, RCREW_GOOD, &crew);
    begin(&s.story, &crew.g);
    s.story.ask.locks = &crew.locks;
    s.crew = &crew;
    assert_true(each_allocation(settle_crew, &s) > 20);
    free(s.story.map);
    rcrew_release(&crew);
}

/* Items 0 to 5 by weight on equal machines, the most of any. */
#define ITEMS 6u
static const uint64_t weights[ITEMS] = {9, 7, 5, 4, 3, 2};

static int value(void *ctx, const uint32_t *map,
                 struct ips_placement_value *out, struct ips_err *err)
{
    uint64_t sum[3] = {0};
    (void)ctx;
    (void)err;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < ITEMS; i++)
        sum[map[i]] += weights[i];
    for (uint32_t m = 0; m < 3; m++)
        if (sum[m] > out->makespan_ns)
            out->makespan_ns = sum[m];
    return 0;
}

static int search(void *arg)
{
    static const uint64_t capacity[3] = {1, 1, 1};
    const bool *local = arg;
    const struct ips_search_ask ask = {.item_count = ITEMS,
                                       .machine_count = 3,
                                       .weight = weights,
                                       .capacity = capacity,
                                       .evaluations = 800,
                                       .seed = 1,
                                       .top = 5,
                                       .local_only = *local,
                                       .value = value};
    struct ips_placement_search found;
    int rc = ips_placement_search(&ask, &found, NULL);
    if (rc == 0) {
        assert_int_equal(found.best[0].makespan_ns, 11);
        ips_search_release(&found);
    }
    return rc;
}

static void test_replay_memory__search(void **state)
{
    bool local = false;
    (void)state;
    assert_true(each_allocation(search, &local) > 3);
    local = true;
    assert_true(each_allocation(search, &local) > 3);
}

static int bound(void *arg)
{
    const struct story *s = arg;
    static const uint64_t capacity[MACHINES] = {1, 1};
    const struct ips_search_ask of = {.item_count = s->g->chain_count,
                                      .machine_count = MACHINES,
                                      .capacity = capacity};
    struct ips_search_compute_bound out;
    uint32_t item[64];
    assert_true(s->g->chain_count <= 64);
    for (uint32_t c = 0; c < s->g->chain_count; c++)
        item[c] = c;
    return ips_search_compute_bound(s->g, &lane, &s->ask, item, &of, &out,
                                    NULL);
}

static void test_replay_memory__bound(void **state)
{
    struct rg_options opt = rg_options_of(2);
    struct rg r;
    struct story s;
    (void)state;
    opt.unmatched = false;
    rg_make(&opt, &r);
    begin(&s, &r.whole);
    assert_true(each_allocation(bound, &s) > 2);
    free(s.map);
    rg_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_memory__replay),
        cmocka_unit_test(test_replay_memory__queue),
        cmocka_unit_test(test_replay_memory__locks),
        cmocka_unit_test(test_replay_memory__search),
        cmocka_unit_test(test_replay_memory__bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
