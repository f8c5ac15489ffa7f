/* What no replay can be shorter than, by hand. Would catch: a lock's time of
 * which a holder, the speed or the number of units is left out, time between
 * two holds that counts, and a semaphore that others give back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/predict/predict.h"

/* Two threads of five nodes, 100 ns before each but the first. */
enum { EACH = 5, NODES = 10 };

struct story {
    struct predict_machine machine[2];
    struct predict_run run;
    struct predict_setup setup;
    uint32_t map[2], units[2];
    struct ips_replay_lock_event event[8];
    struct ips_replay_locks locks;
};

static void begin(struct story *s)
{
    struct ips_err err;
    struct ips_graph *g = &s->run.replay.g;
    memset(s, 0, sizeof(*s));
    assert_int_equal(0, ips_graph_alloc(g, NODES, 2, &err));
    for (uint32_t c = 0; c < 2; c++)
        g->chains[c] = (struct ips_chain){.first = c * EACH, .count = EACH};
    for (uint32_t i = 0; i < NODES; i++)
        g->w[i] = i % EACH ? 100 : 0;
    s->machine[1].is.speed = (struct ips_ratio){2, 1};
    s->setup.machine = s->machine;
    s->setup.machine_count = 2;
    s->setup.map = s->map;
    s->units[0] = s->units[1] = 1;
    s->locks = (struct ips_replay_locks){
        .lock_count = 2, .units = s->units, .event = s->event};
}

static void add(struct story *s, uint32_t node, uint32_t lock, bool gives)
{
    s->event[s->locks.event_count++] =
        (struct ips_replay_lock_event){node, lock, gives};
}

static void end(struct story *s, const uint32_t *place, uint64_t wanted)
{
    struct ips_err err;
    uint64_t least = 0;
    assert_int_equal(0, predict_compute_makespan_lower_bound(&s->run, &s->setup,
                                                             place, &s->locks,
                                                             &least, &err));
    assert_int_equal(least, wanted);
    ips_graph_release(&s->run.replay.g);
}

static void test_predict_least__threads(void **state)
{
    const uint32_t place[NODES] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1};
    struct story s;
    (void)state;
    begin(&s);
    end(&s, NULL, 400);
    begin(&s);
    s.map[0] = s.map[1] = 1; /* twice as fast */
    end(&s, NULL, 200);
    begin(&s);
    end(&s, place, 300); /* the first moves, the second is there */
}

static void test_predict_least__locks(void **state)
{
    struct story s;
    (void)state;
    begin(&s); /* held for 300 and 300 */
    add(&s, 1, 1, false);
    add(&s, 4, 1, true);
    add(&s, 6, 1, false);
    add(&s, 9, 1, true);
    end(&s, NULL, 600);
    begin(&s); /* 100, 100 and 300, which the second thread does in 150 */
    s.map[1] = 1;
    add(&s, 1, 0, false);
    add(&s, 2, 0, true);
    add(&s, 3, 0, false);
    add(&s, 4, 0, true);
    add(&s, 6, 0, false);
    add(&s, 9, 0, true);
    end(&s, NULL, 400);
    begin(&s); /* as much for two at once */
    s.units[1] = 2;
    add(&s, 1, 1, false);
    add(&s, 4, 1, true);
    add(&s, 6, 1, false);
    add(&s, 9, 1, true);
    end(&s, NULL, 400);
    begin(&s); /* the second gives what the first took */
    add(&s, 1, 0, false);
    add(&s, 6, 0, true);
    add(&s, 7, 0, false);
    add(&s, 9, 0, true);
    end(&s, NULL, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predict_least__threads),
        cmocka_unit_test(test_predict_least__locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
