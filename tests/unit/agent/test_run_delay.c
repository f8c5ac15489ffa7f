/* When the kernel's run delay of a thread is read, and what is recorded of it
 * (agent/record/run_delay.c), on clocks and answers of the test's own. Catches:
 * a reading too many, which costs the program its time, one that is missed, a
 * delay of another unit, a file of the kernel read wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"

static struct {
    uint64_t now, takes; /* stamps are ns; a reading takes so long */
    const char *answer;
    long fails;
    bool no_path;
    unsigned reads, blocked, records;
    struct ips_rec_delay record;
    uint64_t stamp;
    bool no_room;
} m;

static uint64_t fake_now(void)
{
    return m.now;
}
static bool fake_path(char *out, size_t bytes, const char *link,
                      const char *after)
{
    assert_string_equal(link, "thread-self");
    assert_string_equal(after, "/schedstat");
    assert_true(bytes >= 40);
    memcpy(out, "PATH", 5);
    return !m.no_path;
}
static long fake_read(const char *path, void *to, size_t bytes)
{
    assert_string_equal(path, "PATH");
    m.reads++;
    m.now += m.takes;
    if (m.fails)
        return m.fails;
    size_t n = strlen(m.answer);
    assert_true(n <= bytes);
    memcpy(to, m.answer, n);
    return (long)n;
}
static uint64_t fake_block(void)
{
    m.blocked++;
    return 7;
}
static void fake_restore(uint64_t signals)
{
    assert_int_equal(signals, 7);
    m.blocked--;
}
static void *fake_begin(enum ips_rec_type type, size_t bytes, uint64_t stamp)
{
    assert_int_equal(type, IPS_REC_RUNDELAY);
    assert_int_equal(bytes, sizeof(m.record));
    assert_int_equal(m.blocked, 1);
    memset(&m.record, 0x5a, sizeof(m.record));
    m.stamp = stamp;
    return m.no_room ? NULL : &m.record;
}
static void fake_publish(const void *rec)
{
    assert_ptr_equal(rec, &m.record);
    m.records++;
}

#define ips_core_stamp_now fake_now
#define ips_build_proc_path_resolving_link fake_path
#define ips_read_file_with_own_fd_table fake_read
#define ips_sys_block_signals_small_stack fake_block
#define ips_sys_restore_signals fake_restore
#define ips_rec_begin_at fake_begin
#define ips_rec_publish fake_publish
#define ips_run_delay_write_if_due write_if_due
#define ips_run_delay_write_last_if_due write_last
void write_if_due(uint64_t t, uint64_t cpu);
void write_last(uint64_t cpu);
#include "agent/record/run_delay.c"

#define EVERY ((uint64_t)IPS_DELAY_EVERY_NS)
#define RICH (EVERY * 128) /* CPU time that pays for any reading */

static struct ips_control control;

/* A thread whose account began at 1 s, and which has read nothing yet. */
static int begin(void **state)
{
    (void)state;
    memset(&m, 0, sizeof(m));
    memset(&ips_me.cpu, 0, sizeof(ips_me.cpu));
    memset(&control, 0, sizeof(control));
    m.answer = "90 1234 7\n";
    m.now = 5000000000;
    never = false;
    control.delays = 1;
    control.root_pid = 1;
    ips_core.control = &control;
    ips_core.mult = (uint64_t)1 << 32;
    ips_core.main_stream = true;
    ips_core.pid = 50;
    ips_me.in_vfork = false;
    ips_me.said_ns = 0;
    ips_me.stream.state = IPS_STREAM_BEGUN;
    ips_me.stream.generation = ips_core.generation;
    ips_me.stream.tid = 51;
    ips_me.stream.start_flags = 0;
    ips_me.stream.start_t = 1000000000;
    ips_me.stream.start_cpu = 1000;
    ips_sys_quiet = false;
    return 0;
}

static void test_run_delay__parses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t delay;
    } cases[] = {
        {"1 2 3\n", true, 2},   {"90 1234567890123 7\n", true, 1234567890123},
        {"9 0 0\n", true, 0},   {"1 2\n", true, 2},
        {"0 0 0\n", false, 0}, /* a kernel that does not count */
        {"0 5 3\n", false, 5},  {"1 2", false, 2}, /* cut */
        {"1", false, 0},        {"", false, 0},
        {"19 80 5\n", true, 80}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint64_t delay = 99;
        assert_int_equal(
            parse_schedstat(cases[i].text, (long)strlen(cases[i].text), &delay),
            cases[i].good);
        assert_int_equal(delay, cases[i].delay);
    }
}

/* Would catch: a shortage that passes taken for a kernel that never tells. */
static void test_run_delay__fails(void **state)
{
    (void)state;
    static const struct {
        int err;
        bool never;
    } cases[] = {{EMFILE, false}, {ENFILE, false}, {EINTR, false},
                 {EAGAIN, false}, {ENOMEM, false}, {ECHILD, false},
                 {EACCES, true},  {ENOENT, true}};
    uint64_t delay;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        never = false;
        m.fails = -cases[i].err;
        assert_false(read_run_delay_of_thread(&delay));
        assert_int_equal(never, cases[i].never);
    }
    m.fails = 0;
    never = false;
    assert_true(read_run_delay_of_thread(&delay));
    assert_int_equal(delay, 1234);
    assert_false(never);
    m.answer = "0 0 0\n";
    assert_false(read_run_delay_of_thread(&delay));
    assert_true(never);
    never = false;
    m.no_path = true;
    m.reads = 0;
    assert_false(read_run_delay_of_thread(&delay));
    assert_true(never);
    assert_int_equal(m.reads, 0);
}

static void test_run_delay__intervals(void **state)
{
    (void)state;
    static const struct {
        uint64_t had, is, off, waited, waits;
    } cases[] = {
        {100, 110, 160, 0, EVERY}, /* a 16th of the time off: often */
        {100, 109, 160, 0, 2 * EVERY},
        {100, 109, 160, (uint32_t)(2 * EVERY), 4 * EVERY},
        {100, 100, 16, (uint32_t)(8 * EVERY), 16 * EVERY},
        {100, 100, 16, (uint32_t)(16 * EVERY), 16 * EVERY},
        {100, 101, 31, (uint32_t)(16 * EVERY), EVERY},
        {100, 90, 160, 0, 2 * EVERY}, /* less than before: a handler's */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ips_me.cpu.delay_ns = cases[i].had;
        ips_me.cpu.delay_wait = (uint32_t)cases[i].waited;
        adapt_reading_interval(cases[i].is, cases[i].off);
        assert_int_equal(ips_me.cpu.delay_wait, cases[i].waits);
        assert_int_equal(ips_me.cpu.delay_ns, cases[i].is);
    }
}

static void test_run_delay__costs(void **state)
{
    (void)state;
    ips_me.cpu.delay_cpu = 1000;
    assert_true(is_reading_affordable(1000 + 128 * 40000));
    assert_false(is_reading_affordable(1000 + 128 * 40000 - 1));
    learn_reading_cost(20000);
    assert_int_equal(ips_me.cpu.delay_cost, 35001);
    learn_reading_cost(80000);
    assert_int_equal(ips_me.cpu.delay_cost, 46251);
    learn_reading_cost(1000000); /* disturbed */
    assert_int_equal(ips_me.cpu.delay_cost, 54689);
    assert_true(is_reading_affordable(1000 + 128 * 54689));
    assert_false(is_reading_affordable(1000 + 128 * 54689 - 1));
    ips_me.cpu.delay_t = 400;
    ips_core.mult = (uint64_t)1 << 31; /* two stamps a ns */
    assert_int_equal(off_core_ns_since_reading(1400, 1100), 400);
    assert_int_equal(off_core_ns_since_reading(1400, 1600), 0);
}

static void test_run_delay__record(void **state)
{
    (void)state;
    m.takes = 30000;
    read_and_write_run_delay(4000000000, 777);
    assert_int_equal(m.records, 1);
    assert_int_equal(m.blocked, 0);
    assert_int_equal(m.stamp, 5000030000);
    assert_int_equal(m.record.h.a, 30000); /* what it took */
    assert_int_equal(m.record.delay_ns, 1234);
    assert_int_equal(ips_me.said_ns, 30000);
    assert_int_equal(ips_me.cpu.delay_t, 4000000000);
    assert_int_equal(ips_me.cpu.delay_cpu, 777);
    assert_int_equal(ips_me.cpu.delay_ns, 1234);
    assert_int_equal(ips_me.cpu.delay_cost, 37501);
    m.takes = 5000000000;
    read_and_write_run_delay(4000000000, 777);
    assert_int_equal(m.record.h.a, UINT32_MAX);
    m.no_room = true;
    read_and_write_run_delay(4000000000, 777);
    m.fails = -EAGAIN;
    read_and_write_run_delay(4000000001, 778);
    assert_int_equal(m.records, 2);
    assert_int_equal(m.blocked, 0);
    assert_int_equal(ips_me.cpu.delay_t, 4000000001);
}

/* Would catch: a reading where none may be made, or the wrong first one. */
static void test_run_delay__wanted(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        begin(NULL);
        never = i == 1;
        ips_sys_quiet = i == 2;
        ips_core.main_stream = i != 3;
        ips_me.in_vfork = i == 4;
        ips_me.stream.state = i == 5 ? IPS_STREAM_NEW : IPS_STREAM_BEGUN;
        ips_me.stream.generation = ips_core.generation + (i == 6);
        write_if_due(1000000000 + 2 * RICH, 1000 + RICH);
        m.now = 1000000000 + 2 * RICH;
        assert_int_equal(m.records, i == 0);
        begin(NULL);
    }
    for (int i = 0; i < 3; i++) {
        begin(NULL);
        control.delays = i != 1;
        ips_core.control = i == 2 ? NULL : &control;
        write_last(1000);
        assert_int_equal(m.records, i == 0);
    }
    /* the run's command: a reading to compare the next ones with */
    begin(NULL);
    ips_core.pid = control.root_pid = 51;
    write_if_due(1000000001, 1001);
    assert_int_equal(m.records, 1);
    ips_me.stream.tid = 52; /* its second thread */
    ips_me.cpu.delay_t = 0;
    write_if_due(1000000001, 1001);
    ips_me.stream.tid = 51;
    control.root_pid = 50;
    ips_me.cpu.delay_t = 0;
    write_if_due(1000000001, 1001);
    assert_int_equal(m.records, 1);
    assert_int_equal(ips_me.cpu.delay_t, 1000000000);
    assert_int_equal(ips_me.cpu.delay_cpu, 1000);
    ips_me.stream.start_flags = 1; /* its start is in other units */
    ips_me.cpu.delay_t = 0;
    write_if_due(1000000001, 1001);
    assert_int_equal(ips_me.cpu.delay_t, 1000000001);
    assert_int_equal(ips_me.cpu.delay_cpu, 1001);
}

static unsigned due(uint64_t elapsed, uint64_t cpu)
{
    m.records = 0;
    ips_me.cpu.delay_t = 1000000000;
    ips_me.cpu.delay_cpu = 1000;
    ips_me.cpu.delay_cost = 1000;
    write_if_due(1000000000 + elapsed, 1000 + cpu);
    return m.records;
}

static unsigned last(uint64_t elapsed, uint64_t cpu)
{
    m.records = 0;
    ips_me.cpu.delay_t = 1000000000;
    ips_me.cpu.delay_cpu = 1000;
    m.now = 1000000000 + elapsed;
    write_last(1000 + cpu);
    assert_int_equal(ips_me.cpu.delay_t,
                     1000000000 + (m.records ? elapsed : 0));
    return m.records;
}

static void test_run_delay__due(void **state)
{
    (void)state;
    const uint64_t paid = 128 * 1000;
    assert_int_equal(due(EVERY, paid), 1);
    assert_int_equal(due(EVERY - 1, paid), 0);
    assert_int_equal(due(EVERY, paid - 1), 0);
    ips_me.cpu.delay_wait = (uint32_t)(2 * EVERY);
    assert_int_equal(due(2 * EVERY - 1, paid), 0);
    assert_int_equal(due(2 * EVERY, paid), 1);
    ips_me.cpu.delay_wait = 0;
    assert_int_equal(due(EVERY, EVERY - 50000), 1); /* 50 us off the core */
    ips_me.cpu.delay_wait = 0;
    assert_int_equal(due(EVERY, EVERY - 49999), 0);
    assert_int_equal(last(EVERY, EVERY - 50000), 1);
    assert_int_equal(last(EVERY, EVERY - 49999), 0);
    assert_int_equal(last(EVERY, 0), 1); /* whatever it costs */
    assert_int_equal(last(EVERY - 1, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_run_delay__parses),    TEST(test_run_delay__fails),
        TEST(test_run_delay__intervals), TEST(test_run_delay__costs),
        TEST(test_run_delay__record),    TEST(test_run_delay__wanted),
        TEST(test_run_delay__due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
