/*
 * Tables of a window of time (slave/graphs/table_window.h), from records
 * written by hand. EVIDENCE-OF: IPS-3
 */
#include "tests/unit/help/recorder.h"

#include "common/large.h"
#include "slave/graphs/table_window.h"

#define T0 1000u

static struct slave_table_window w;

static void make(struct recorder *r, uint64_t from, uint64_t to)
{
    /* Asleep from 1120 to 11120, 10 ns of it on a core. */
    const struct ips_wait_row wait = {.end_ns = T0 + 10120,
                                      .ns = 9990,
                                      .arc = r->built.g.chains[0].first + 1,
                                      .cause = IPS_WAIT_TIMER};
    struct ips_err err = {0};
    slave_table_window_release(&w);
    if (slave_table_window_make(&r->built, &wait, 1, from, to, &w, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Would catch CPU time that is not between the calls that it was spent between,
 * a life that is not cut to the window, a wait counted where it began. */
static void test_table_window__a_thread(void **unused)
{
    (void)unused;
    struct recorder *r = rec_one_thread(T0);
    make(r, T0, T0 + 50);
    assert_int_equal(w.threads[0].cpu_ns, 55); /* the send's own 10, too */
    assert_int_equal(w.threads[0].end_ns - w.threads[0].start_ns, 50);
    assert_int_equal(w.threads[0].wait_ns[IPS_WAIT_TIMER], 0);
    assert_false(w.processes[0].earlier);
    make(r, T0 + 5120, T0 + 7120);
    assert_int_equal(w.threads[0].wait_ns[IPS_WAIT_TIMER], 2000);
    assert_int_equal(w.threads[0].wait_count[IPS_WAIT_TIMER], 0);
    assert_true(w.processes[0].earlier);
    assert_false(w.processes[0].outside);
    make(r, T0 + 10201, UINT64_MAX);
    assert_true(w.processes[0].outside);
    assert_true(w.threads[0].outside);
    make(r, 0, T0);
    assert_true(w.threads[0].outside);
    slave_table_window_release(&w);
    rec_free(r);
}

/* Would catch windows side by side that lose something between them, or have it
 * twice. */
static void test_table_window__windows_add_up(void **unused)
{
    (void)unused;
    struct recorder *r = rec_one_thread(T0);
    for (uint64_t width = 53; width < 20000; width = width * 5 / 3) {
        uint64_t cpu = 0, process = 0, wait = 0, count = 0, life = 0;
        unsigned began = 0;
        for (uint64_t from = 0; from < T0 + 11000; from += width) {
            bool last = from + width >= T0 + 11000;
            make(r, from, last ? UINT64_MAX : from + width);
            const struct slave_window_thread *t = &w.threads[0];
            cpu += t->cpu_ns;
            process += w.processes[0].cpu_ns;
            wait += t->wait_ns[IPS_WAIT_TIMER];
            count += t->wait_count[IPS_WAIT_TIMER];
            life += t->end_ns - t->start_ns;
            began += !w.processes[0].outside && !w.processes[0].earlier;
        }
        assert_int_equal(cpu, 150);
        assert_int_equal(process, 150);
        assert_int_equal(wait, 9990);
        assert_int_equal(count, 1);
        assert_int_equal(life, 10200);
        assert_int_equal(began, 1);
    }
    slave_table_window_release(&w);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_window__a_thread),
        cmocka_unit_test(test_table_window__windows_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
