/* Which engine `auto` takes. Would catch a model that sends everything to one
 * engine, ignores the memory or the round trip, or gives no reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/path/engine_auto.h"

static const char *take(struct auto_facts f)
{
    static char why[256];
    const char *engine = engine_auto_choose(&f, why, sizeof(why));
    assert_true(strlen(why) > 10 && strlen(why) < sizeof(why) - 1);
    return engine;
}

static void test_engine_auto__one_machine(void **state)
{
    (void)state;
    struct auto_facts f = {.machines = 1, .nodes = 9999, .memory_bytes = 1};
    assert_string_equal(take(f), "central");
    f.nodes = 10001;
    assert_string_equal(take(f), "contract");
}

static void test_engine_auto__round_trip_decides(void **state)
{
    (void)state;
    struct auto_facts f = {.machines = 8,
                           .threads = 300,
                           .nodes = 1000000,
                           .crossing = 100000,
                           .crossing_out = 100000,
                           .round_trip_ns = 100000,
                           .memory_bytes = 1ull << 40};
    assert_string_equal(take(f), "contract");
    f.round_trip_ns = 10; /* nearly none: nothing to lose by many */
    assert_string_equal(take(f), "cm-sync");
    f.round_trip_ns = 100000;
    f.machines = 3000; /* few messages for each thread and each link */
    f.threads = 50000;
    assert_string_equal(take(f), "cm-sync");
}

/* A program that crosses rarely, but talks much within its machines: all of
 * that would come to the master. */
static void test_engine_auto__local_messages_count(void **state)
{
    (void)state;
    struct auto_facts f = {.machines = 4,
                           .threads = 64,
                           .nodes = 1000000,
                           .crossing = 30000,
                           .crossing_out = 30000,
                           .round_trip_ns = 50000,
                           .memory_bytes = 1ull << 40};
    assert_string_equal(take(f), "contract");
    f.join_bound = 1000000;
    assert_string_equal(take(f), "cm-sync");
}

static void test_engine_auto__memory_decides(void **state)
{
    (void)state;
    struct auto_facts f = {.machines = 3,
                           .nodes = 1u << 30,
                           .crossing = 100000000,
                           .crossing_out = 100000000,
                           .round_trip_ns = 100000,
                           .memory_bytes = 8ull << 30};
    char why[256];
    assert_string_equal(engine_auto_choose(&f, why, sizeof(why)), "cm-sync");
    assert_non_null(strstr(why, "MiB"));
    f.memory_bytes = 64ull << 30;
    assert_string_equal(take(f), "contract");
}

/* Where `tests/bench/run links` found the crossover, 64 threads on 4 slaves
 * (docs/benchmarks.md, 2026-11-23). Would catch: constants that choose the
 * slower engine there, and a link's speed that is not used. */
static void test_engine_auto__crossover_as_measured(void **state)
{
    (void)state;
    static const struct {
        uint64_t nodes, crossing;
        const char *gbit, *tenth;
    } runs[] = {
        {1000000, 499968, "contract", "cm-sync"}, /* ping-pong, ring, pipeline
                                                   */
        {1000000, 380928, "contract", "cm-sync"}, /* master, random, all */
        {1000000, 249984, "contract", "cm-sync"}, /* stencil */
        {1000000, 107136, "contract", "cm-sync"}, /* stencil in blocks */
        {1000000, 31248, "cm-sync", "cm-sync"},   /* ring in blocks */
        {1000000, 23808, "cm-sync", "cm-sync"},   /* pipeline in blocks */
        {20000, 9984, "contract", "cm-sync"},
        {20000, 7584, "contract", "cm-sync"},
        {20000, 5040, "contract", "cm-sync"},
        {20000, 2160, "contract", "cm-sync"},
        {20000, 474, "cm-sync", "cm-sync"},
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct auto_facts f = {.machines = 4,
                               .threads = 64,
                               .nodes = runs[i].nodes,
                               .join_bound = runs[i].nodes,
                               .crossing = runs[i].crossing,
                               .crossing_out = runs[i].crossing,
                               .round_trip_ns = 10000,
                               .memory_bytes = 1ull << 40,
                               .link_bytes_per_us = 125};
        assert_string_equal(take(f), runs[i].gbit);
        f.link_bytes_per_us = 0; /* not calibrated: as fast */
        assert_string_equal(take(f), runs[i].gbit);
        f.link_bytes_per_us = 12;
        assert_string_equal(take(f), runs[i].tenth);
    }
}

static void test_engine_auto__nothing_wraps(void **state)
{
    (void)state;
    struct auto_facts f = {2,          0,          UINT64_MAX,
                           UINT64_MAX, UINT64_MAX, UINT64_MAX,
                           UINT64_MAX, UINT64_MAX, 1};
    assert_string_equal(take(f), "contract");
    f = (struct auto_facts){.machines = 2};
    assert_string_equal(take(f), "contract");
    assert_true(engine_auto_usable_memory() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_auto__one_machine),
        cmocka_unit_test(test_engine_auto__round_trip_decides),
        cmocka_unit_test(test_engine_auto__local_messages_count),
        cmocka_unit_test(test_engine_auto__memory_decides),
        cmocka_unit_test(test_engine_auto__crossover_as_measured),
        cmocka_unit_test(test_engine_auto__nothing_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
