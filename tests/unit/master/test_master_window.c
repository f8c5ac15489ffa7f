/* A window of a path by elapsed time (master/path/weighting.c): it is asked for
 * since the first event of the machine of the run's command, and the path's
 * times are since the command began. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <string.h>

#include "master/path/weighting.h"
#include "master/query/machine_share.h"

static struct path_window window_of(enum ips_weighting weighting,
                                    uint64_t first_ns, uint64_t root_ns,
                                    uint64_t from_ns, uint64_t to_ns)
{
    static struct path_data d;
    Ips__SyncAnswer other = IPS__SYNC_ANSWER__INIT,
                    sync = IPS__SYNC_ANSWER__INIT;
    struct machine_share parts[2];
    struct machine_share *active[2] = {&parts[0], &parts[1]};
    struct query q;
    memset(&d, 0, sizeof(d));
    memset(&q, 0, sizeof(q));
    memset(parts, 0, sizeof(parts));
    other.root_start_ns = 999999;
    sync.first_ns = first_ns;
    sync.root_start_ns = root_ns;
    parts[0].sync = &other;
    parts[1].sync = &sync;
    q.gather.active = active;
    q.gather.count = 2;
    q.data = &d;
    d.origin_machine = 1;
    d.scenarios[SCENARIO_MAIN].scenario.weighting = weighting;
    weighting_set_window(&q, from_ns, to_ns);
    return d.window;
}

/* The command began 50 ns after the first event. Would catch: a window that
 * lies where another machine's command began, one that is moved the other way,
 * one without an end that gets one, or the other way round. */
static void test_master_window__begins_with_the_command(void **state)
{
    static const struct {
        uint64_t root, from, to, got_from, got_to;
    } cases[] = {
        {150, 80, 120, 30, 70}, {150, 30, 120, 0, 70},
        {150, 80, 0, 30, 0},    {150, 0, 40, 0, 1},    /* all before it began */
        {150, 50, 51, 0, 1},    {0, 80, 120, 80, 120}, /* not known */
        {90, 80, 120, 80, 120}, {100, 80, 120, 80, 120},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct path_window w = window_of(IPS_WEIGH_WALL, 100, cases[i].root,
                                         cases[i].from, cases[i].to);
        assert_true(w.is_set);
        assert_int_equal(w.from_ns, cases[i].got_from);
        assert_int_equal(w.to_ns, cases[i].got_to);
        /* Of the other weightings it is each machine's own: as asked. */
        w = window_of(IPS_WEIGH_CPU, 100, cases[i].root, cases[i].from,
                      cases[i].to);
        assert_true(w.is_set);
        assert_int_equal(w.from_ns, cases[i].from);
        assert_int_equal(w.to_ns, cases[i].to);
    }
    assert_false(window_of(IPS_WEIGH_WALL, 100, 150, 0, 0).is_set);
    assert_true(window_of(IPS_WEIGH_WALL, 100, 150, 1, 0).is_set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_master_window__begins_with_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
