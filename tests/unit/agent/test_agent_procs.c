/* Counters of instrumented procedures, from the inside: what no program can be
 * made to do at a chosen moment. test_exact.py has the rest. */
#include "tests/unit/help/core_help.h"

#include <signal.h>
#include <sys/wait.h>

#include "agent/preload/sample/procs.c"

/* modules.c is the preload library's. */
void ips_module_record_once_slow(uint64_t pc)
{
    (void)pc;
}

static struct pool_dir pool;

static int setup(void **state)
{
    (void)state;
    pool_help_make(&pool, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pool_help_remove(&pool);
    return 0;
}

static void *procedure(unsigned n)
{
    return (void *)(uintptr_t)(0x1000 + n * 16u);
}

static void call(unsigned n)
{
    __cyg_profile_func_enter(procedure(n), NULL);
    __cyg_profile_func_exit(procedure(n), NULL);
}

static void set_mode(uint32_t procedures, uint32_t ppm)
{
    struct ips_control *c = pool_help_control(&pool);
    c->procedures = procedures;
    c->budget_ppm = ppm;
}

struct sums {
    uint64_t shorts, headless;
    uint64_t seg; /* its number, from 1 */
    uint64_t enters, exits, counted, turned;
};

static void sum(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct sums *s = arg;
    (void)len;
    uint32_t type = ips_rec_type(rec);
    bool is_short = type == IPS_REC_ENTER_SHORT || type == IPS_REC_EXIT_SHORT;
    if (is_short || type == IPS_REC_ENTER || type == IPS_REC_EXIT) {
        s->shorts += is_short;
        s->headless += is_short && s->seg != (uint64_t)seg->head.seq + 1;
        s->seg = (uint64_t)seg->head.seq + 1;
    }
    s->enters += type == IPS_REC_ENTER || type == IPS_REC_ENTER_SHORT;
    s->exits += type == IPS_REC_EXIT || type == IPS_REC_EXIT_SHORT;
    if (type != IPS_REC_COUNT)
        return;
    const struct ips_rec_count *c = rec;
    s->counted += c->calls;
    s->turned += c->calls == 0;
}

static struct sums run(void (*body)(void *))
{
    struct sums s = {0};
    int status = in_child(&pool, body, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&pool, sum, NULL, &s);
    return s;
}

/* A handler that grows the table, between the look-up and the step, and
 * between the step and the look whether it did. */
static void body_moved(void *arg)
{
    (void)arg;
    ips_procs_read_options_or_reset_at_start(IPS_START_IMAGE);
    call(0);
    struct slot *slots = here.slots,
                *s = find_procedure_or_free_slot(here.table, 0x1000);
    for (unsigned n = 1; here.slots == slots; n++)
        call(n);
    uint64_t others = here.table->used - 1;
    count_call(s, slots); /* found before, stepped after */
    s->calls++;           /* another that is left behind */
    move_counts_to_new_slot(s);
    call(0);
    if (find_procedure_or_free_slot(here.table, 0x1000)->calls != 4 ||
        others < 31)
        _exit(1);
    ips_procs_flush_all();
    ips_procs_flush_all(); /* nothing twice */
}

/* Would catch: calls that stay in a table that nobody reads any more. */
static void test_agent_procs__moved_below_a_hook(void **state)
{
    (void)state;
    set_mode(IPS_PROCEDURES_SAMPLE, 0);
    struct sums s = run(body_moved);
    assert_in_range(s.counted, 4 + 31, 4 + 64);
    assert_int_equal(s.enters, 0);
}

static void body_deep(void *arg)
{
    (void)arg;
    ips_procs_read_options_or_reset_at_start(IPS_START_IMAGE);
    for (int i = 0; i < 1000; i++)
        __cyg_profile_func_enter(procedure(1), NULL);
    for (int i = 0; i < 1000; i++)
        __cyg_profile_func_exit(procedure(1), NULL);
    for (int i = 0; i < 50; i++)
        call(1);
    ips_procs_flush_all();
}

/* Would catch: a procedure that becomes a counter while calls of it are open,
 * and then lacks their EXITs or has those of calls without ENTER. */
static void test_agent_procs__budget_in_a_recursion(void **state)
{
    (void)state;
    set_mode(IPS_PROCEDURES_EXACT, 0);
    struct sums s = run(body_deep);
    assert_int_equal(s.turned, 1);
    assert_int_equal(s.enters, BUDGET_EVERY);
    assert_int_equal(s.exits, s.enters);
    assert_int_equal(s.enters + s.counted, 1050);
}

static void nothing(int sig)
{
    (void)sig;
}

static void body_short(void *arg)
{
    (void)arg;
    ips_procs_read_options_or_reset_at_start(IPS_START_IMAGE);
    if (!ips_core.cpu_marks)
        _exit(0); /* all of them are long */
    signal(SIGURG, nothing);
    for (int i = 0; i < 100000; i++)
        call(1);
    for (int i = 0; i < 100; i++) {
        call(1);
        uint64_t t = ips_me.proc_baseline.t;
        raise(SIGURG); /* clears the mark, as a switch does */
        call(1);
        if (ips_me.proc_baseline.t == t)
            _exit(1);
    }
}

/* Would catch: a short record whose CPU time nobody can say: with no long one
 * in its segment, or after the thread may have left its core. */
static void test_agent_procs__short_ones_have_their_line(void **state)
{
    (void)state;
    /* Ten times the CPU: nothing here is to fall back to counters. */
    set_mode(IPS_PROCEDURES_EXACT, 10000000);
    struct sums s = run(body_short);
    assert_int_equal(s.headless, 0);
    assert_int_equal(s.enters, s.exits);
    assert_true(s.enters == 0 || s.seg > 1);
    if (s.enters)
        assert_in_range(s.shorts, s.enters,
                        2 * s.enters - 100); /* one for each signal */
}

static void body_ended(void *arg)
{
    (void)arg;
    ips_procs_read_options_or_reset_at_start(IPS_START_IMAGE);
    for (unsigned i = 0; i < 100; i++) {
        struct table *before = atomic_load(&tables);
        call(i);
        ips_procs_flush_and_release_own_table();
        call(i); /* after the thread's END: dropped */
        here.ended = false;
        if (i > 0 && before != atomic_load(&tables))
            _exit(1); /* one for each thread that ever was */
    }
}

/* Would catch: tables that pile up with the threads of a long run. */
static void test_agent_procs__tables_are_used_again(void **state)
{
    (void)state;
    set_mode(IPS_PROCEDURES_SAMPLE, 0);
    assert_int_equal(run(body_ended).counted, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_agent_procs__moved_below_a_hook),
        T(test_agent_procs__budget_in_a_recursion),
        T(test_agent_procs__short_ones_have_their_line),
        T(test_agent_procs__tables_are_used_again),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
