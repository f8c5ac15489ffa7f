/* How ipsrun measures what a record costs (agent/ipsrun/probe.c): its clock is
 * here the number of bytes that were written, so that each cost is known.
 * Catches: a cost stored as another kind's or in another unit, a probe that
 * writes another record than the agent does, a mark that is called reliable
 * though it survived a switch, and the other way round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <sys/resource.h>

#include "agent/ipsrun/ipsrun.h"
#include "agent/record/cpu.h"
#include "agent/record/io_event.h"
#include "agent/record/sys.h"

static uint64_t (*clock_is)(void);

static uint64_t fake_now(void)
{
    return clock_is();
}

/* ---- switches of a thread, as the test wants them ---- */

static struct {
    bool marks, clears, sees; /* a mark is set; a switch clears it; is seen */
    uint64_t mark, marks_used;
    long switches, asked;
} machine;

static int fake_usage(int who, struct rusage *out)
{
    assert_int_equal(who, RUSAGE_THREAD);
    if (machine.asked++ & 1) { /* behind what may have switched */
        machine.switches += machine.sees;
        machine.mark = machine.clears ? 0 : machine.mark;
    }
    out->ru_nvcsw = machine.switches / 2;
    out->ru_nivcsw = machine.switches - machine.switches / 2;
    return 0;
}

#define ips_core_stamp_now fake_now
#define ips_cpu_read_clock_and_end_guesses()                                   \
    (machine.mark = machine.marks ? 5 : 0)
#define ips_cpu_mark_address() (machine.marks_used++, &machine.mark)
#define getrusage fake_usage
#include "agent/ipsrun/probe.c"
#undef getrusage
#undef ips_cpu_mark_address
#undef ips_cpu_read_clock_and_end_guesses
#undef ips_core_stamp_now

static uint64_t bytes_written(void)
{
    return ips_me.stream.cur - ips_me.stream.lo;
}

static uint64_t marks_used(void)
{
    return machine.marks_used;
}

static const struct ips_clock raw = {.kind = IPS_CLOCK_RAW,
                                     .mult_q32 = 1ull << 32};

/* ---- the interposer's part: ipsrun/probe_costs.c ---- */

void ipsrun_measure_interposer_probe_costs(const struct ips_clock *clock,
                                           struct ips_probe_measurements *m)
{
    assert_int_equal(clock->mult_q32, raw.mult_q32);
    m->cost_ps[IPS_PROBE_COLD] = 4711;
}

/* ---- each record ---- */

#define AT(type, offset)                                                       \
    ((const struct type *)(const void *)(memory + (offset)))

static void check_record(uint64_t at, enum ips_rec_type type, size_t bytes)
{
    assert_int_equal(AT(ips_rec_head, at)->word, type | bytes / 8 << 8);
}

static void test_ipsrun_probe__writes_what_the_agent_writes(void **state)
{
    (void)state;
    rewind_stream();
    record_one_event();
    record_one_call();
    record_one_lock_release();
    record_one_procedure_enter_and_exit();
    assert_int_equal(bytes_written(), 32 + 64 + 80 + 32 + 32);
    check_record(0, IPS_REC_MARK, 32);
    check_record(32, IPS_REC_SEND, 64);
    check_record(96, IPS_REC_RELEASE, 80);
    check_record(176, IPS_REC_ENTER, 32);
    check_record(208, IPS_REC_EXIT, 32);
    assert_true(AT(ips_rec_text, 0)->cpu > 0);
    const struct ips_rec_io *io = AT(ips_rec_io, 32);
    assert_true(io->h.a == 1 && io->result == 1 && io->site == 1);
    assert_true(io->op == IPS_OP_DATA && !io->err && !io->ready);
    assert_true(io->h.t <= io->t_ret && io->cpu <= io->cpu_ret);
    const struct ips_rec_sync *sync = AT(ips_rec_sync, 96);
    assert_true(sync->object == 1 && sync->site == 1);
    assert_true(sync->h.t <= sync->t_ret && sync->cpu <= sync->cpu_ret);
    assert_true(io->t_ret <= sync->h.t && io->cpu_ret <= sync->cpu);
    signal(SIGURG, record_event_in_signal_handler);
    rewind_stream();
    raise_probe_signal();
    assert_int_equal(bytes_written(), 32);
    signal(SIGURG, SIG_DFL);
}

/* A clock that only these calls advance. */
static uint64_t ticks, calls;
static uint64_t count_ticks(void)
{
    return ticks;
}
/* Batches take 41, 40, ... 1 ticks each call; the lower quartile is the 11th
 * least. */
static void tick(void)
{
    ticks += 41 - calls++ / 200;
}

static void test_ipsrun_probe__lower_quartile(void **state)
{
    (void)state;
    clock_is = count_ticks;
    calls = 0;
    assert_int_equal(measure_cost_ps(tick), 11000);
    assert_int_equal(calls, 41 * 200);
    assert_true(compare_u64(&(uint64_t){1}, &(uint64_t){UINT64_MAX}) < 0);
    assert_true(compare_u64(&(uint64_t){UINT64_MAX}, &(uint64_t){1}) > 0);
    assert_int_equal(compare_u64(&(uint64_t){1}, &(uint64_t){1}), 0);
}

static void check_costs(const struct ips_probe_measurements *m)
{
    static const struct {
        enum ips_probe probe;
        uint64_t ps;
    } costs[] = {
        {IPS_PROBE_EVENT, 32000},
        {IPS_PROBE_CALL, 64000},
        {IPS_PROBE_SAMPLE, 32000},
        {IPS_PROBE_PROC, 64000},
        {IPS_PROBE_COUNT, 1000},
        {IPS_PROBE_SYNC, 80000},
        {IPS_PROBE_READ, 0},
        {IPS_PROBE_STACK, 64000},
        {IPS_PROBE_IMAGE, 32000},
        {IPS_PROBE_FORK, 32000},
        {IPS_PROBE_SPAWN, 32000},
        {IPS_PROBE_FILE, 64000},
        {IPS_PROBE_SPARE_IMAGE, 32000},
        {IPS_PROBE_SPARE_FORK, 32000},
        {IPS_PROBE_POLL, 64000},
        {IPS_PROBE_THREAD, 32000},
        {IPS_PROBE_LOCK, 1000},
    };
    for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++)
        assert_int_equal(m->cost_ps[costs[i].probe], costs[i].ps);
}

static void test_ipsrun_probe__costs(void **state)
{
    (void)state;
    struct ips_probe_measurements m = {0};
    clock_is = bytes_written;
    measure_costs(&m);
    check_costs(&m);
    /* what was written is gone: the next batch finds memory that is zero */
    for (size_t i = 0; i < 200 * sizeof(struct ips_rec_sync); i++)
        assert_int_equal(memory[i], 0);
    clock_is = marks_used; /* only a reading of the clock makes one invalid */
    measure_costs(&m);
    assert_int_equal(m.cost_ps[IPS_PROBE_READ], 1000);
    assert_int_equal(m.cost_ps[IPS_PROBE_CALL], 0);
    signal(SIGURG, SIG_DFL);
}

/* In a child of a child, as ipsrun does. */
static void test_ipsrun_probe__measured(void **state)
{
    (void)state;
    struct ips_probe_measurements m = {0};
    clock_is = bytes_written;
    assert_true(ipsrun_measure_probes(&raw, &m));
    check_costs(&m);
    assert_int_equal(m.marks, IPS_MARKS_UNTRIED);
    assert_int_equal(m.cost_ps[IPS_PROBE_COLD], 4711);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_ipsrun_probe__marks(void **state)
{
    (void)state;
    static const struct {
        bool marks, clears, sees, reliable;
    } cases[] = {
        {true, true, true, true},    {true, false, true, false},
        {false, false, true, true},  {true, true, false, false},
        {true, false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        unsigned switched = 3;
        memset(&machine, 0, sizeof(machine));
        machine.marks = cases[i].marks;
        machine.clears = cases[i].clears;
        machine.sees = cases[i].sees;
        bool survives = cases[i].marks && !cases[i].clears && cases[i].sees;
        assert_int_equal(mark_survives_switch(do_nothing, &switched), survives);
        assert_int_equal(switched, 3 + cases[i].sees);
        assert_int_equal(test_cpu_mark_reliability(), cases[i].reliable);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static int begin(void **state)
{
    (void)state;
    clock_is = bytes_written;
    return !init_core_on_private_memory(&raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipsrun_probe__writes_what_the_agent_writes),
        cmocka_unit_test(test_ipsrun_probe__lower_quartile),
        cmocka_unit_test(test_ipsrun_probe__costs),
        cmocka_unit_test(test_ipsrun_probe__measured),
        cmocka_unit_test(test_ipsrun_probe__marks),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
