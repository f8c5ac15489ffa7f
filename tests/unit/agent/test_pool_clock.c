/* The clock of a boot (agent/pool/clock.c) on a machine made of numbers: the
 * counter, the kernel's clock, the sleep between two readings and the two files
 * that say whether the counter may be used are the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/counter.h"

static uint64_t fake_counter(void);
static int fake_gettime(clockid_t id, struct timespec *out);
static int fake_sleep(const struct timespec *want, struct timespec *left);
static FILE *fake_open(const char *path, const char *how);
#define ips_counter_read fake_counter
#define clock_gettime fake_gettime
#define nanosleep fake_sleep
#define fopen fake_open
#if defined(__aarch64__)
static uint64_t fake_hz(void);
#define ips_counter_hz fake_hz
#endif
#include "agent/pool/clock.c"
#undef fopen
#undef nanosleep
#undef clock_gettime

/* ---- the machine ---- */

#define GOOD_FLAGS                                                             \
    "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc sse\n"
#define RAW_AT_0 7000000000u /* raw ns at counter 0 */

static struct {
    uint64_t khz, now; /* the counter */
    uint64_t step;     /* between two readings of either */
    uint64_t calm;     /* this reading and the next two take 10 each */
    uint64_t readings;
    unsigned sleeps;
    const char *source, *cpuinfo; /* NULL: no such file */
    bool stopped;                 /* the kernel's clock */
} machine;

/* 2 GHz: two counts are 1 ns. */
static void start_machine(void)
{
    memset(&machine, 0, sizeof(machine));
    machine.khz = 2000000;
    machine.now = 1000000;
    machine.step = 1000;
    machine.source = "tsc\n";
    machine.cpuinfo = GOOD_FLAGS;
#if defined(__aarch64__)
    machine.source = IPS_COUNTER_CLOCKSOURCE;
#endif
}

static void pass(void)
{
    bool calm =
        machine.readings >= machine.calm && machine.readings < machine.calm + 3;
    machine.readings++;
    machine.now += calm ? 10 : machine.step;
}

static uint64_t fake_counter(void)
{
    uint64_t now = machine.now;
    pass();
    return now;
}

static uint64_t raw_at(uint64_t counter)
{
    return RAW_AT_0 + (uint64_t)((ips_u128)counter * 1000000 / machine.khz);
}

static int fake_gettime(clockid_t id, struct timespec *out)
{
    assert_int_equal(id, CLOCK_MONOTONIC_RAW);
    uint64_t ns = raw_at(machine.stopped ? 0 : machine.now);
    out->tv_sec = (time_t)(ns / 1000000000);
    out->tv_nsec = (long)(ns % 1000000000);
    pass();
    return 0;
}

#if defined(__aarch64__)
static uint64_t fake_hz(void)
{
    return machine.khz * 1000;
}
#endif

/* The readings before and behind a sleep are calm in their middle. */
static int fake_sleep(const struct timespec *want, struct timespec *left)
{
    (void)left;
    assert_int_equal(want->tv_sec, 0);
    assert_int_equal(want->tv_nsec, 50000000);
    machine.now += machine.khz * 50;
    machine.calm = machine.readings + 3 * 91;
    machine.sleeps++;
    return 0;
}

static FILE *text_file(const char *text)
{
    static char copy[400];
    snprintf(copy, sizeof(copy), "%s", text ? text : "");
    return text ? fmemopen(copy, strlen(copy), "r") : NULL;
}

static FILE *fake_open(const char *path, const char *how)
{
    if (strstr(path, "/current_clocksource"))
        return text_file(machine.source);
    if (strcmp(path, "/proc/cpuinfo") == 0)
        return text_file(machine.cpuinfo);
    return fopen(path, how);
}

/* ---- the pool ---- */

static char root[64];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/dev/shm/ips-clock-XXXXXX");
    start_machine();
    machine.calm = 3 * 37;
    return mkdtemp(root) ? 0 : -1;
}

static const char *clock_file(void)
{
    static char path[80];
    snprintf(path, sizeof(path), "%s/clock", root);
    return path;
}

static int teardown(void **state)
{
    (void)state;
    if (unlink(clock_file()) < 0)
        rmdir(clock_file());
    return rmdir(root); /* and nothing else was left there */
}

static unsigned measures;
static struct ips_clock measured_on;

static bool measure_all(const struct ips_clock *clock,
                        struct ips_probe_measurements *m)
{
    measured_on = *clock;
    measures++;
    m->marks = IPS_MARKS_WORK;
    for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
        m->cost_ps[i] = 1000 + i;
    return true;
}

static bool measure_in_vain(const struct ips_clock *clock,
                            struct ips_probe_measurements *m)
{
    measure_all(clock, m);
    return false;
}

static void get_clock(const char *boot, struct ips_clock *clock,
                      struct ips_probe_measurements *m,
                      bool (*measure)(const struct ips_clock *,
                                      struct ips_probe_measurements *))
{
    struct ips_err err = {0};
    memset(clock, 0xa5, sizeof(*clock));
    memset(m, 0xa5, sizeof(*m));
    if (ips_pool_load_or_measure_clock_and_costs(root, boot, clock, m, measure,
                                                 &err) < 0)
        fail_msg("%s", err.msg);
}

static void is_raw(void)
{
    struct ips_clock clock;
    struct ips_probe_measurements m;
    get_clock("boot", &clock, &m, NULL);
    assert_int_equal(clock.kind, IPS_CLOCK_RAW);
    assert_int_equal(clock.counter0, clock.raw0_ns);
    assert_true(clock.counter0 >= RAW_AT_0);
    assert_true(clock.mult_q32 == 1ULL << 32);
    assert_int_equal(unlink(clock_file()), 0);
}

/* Of 200 brackets the 38th is the tightest, and its middle is where the clock
 * was read: 37 brackets of three readings of 1000 counts come before it, and
 * its first reading, of 10. Would catch: a moment of one bracket with the
 * other clock's of another, the loosest bracket instead of the tightest, a rate
 * from one reading, ns and counts mixed up. */
static void test_pool_clock__is_measured_where_it_is_undisturbed(void **state)
{
    struct ips_clock clock;
    struct ips_probe_measurements m;
    (void)state;
    get_clock("boot", &clock, &m, NULL);
    assert_int_equal(machine.sleeps, 1);
    assert_int_equal(clock.kind, IPS_CLOCK_TSC);
    assert_int_equal(clock.reserved, 0);
    assert_int_equal(clock.counter0, 1000000 + 37 * 3000 + 10);
    assert_int_equal(clock.raw0_ns, RAW_AT_0 + clock.counter0 / 2);
    assert_true(clock.mult_q32 == 1ULL << 31); /* half a ns a count */
    assert_int_equal(m.marks, IPS_MARKS_UNTRIED);
    for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
        assert_int_equal(m.cost_ps[i], 0);
}

#if defined(__x86_64__)
/* The kernel's factor for 600 s (clocks_calc_mult_shift), worked out by hand:
 * 3 GHz: 600000 * 3e6 >> 32 = 419, 9 bits, so the factor has 23; 10^6 * 2^25 /
 * 3e6 has 24, 10^6 * 2^24 / 3e6 = 5592405.3. 1 GHz: 139, 8 bits, 24; 2^24 has
 * 25, 2^23 fits. 3.6 GHz: 502, 9 bits; 2^24 / 3.6 = 4660337.8, rounded up.
 * Would catch: a rate off the one by which the kernel's own clock runs. */
static void test_pool_clock__has_the_kernels_rate(void **state)
{
    static const struct {
        uint64_t khz, factor;
        unsigned shift;
    } cases[] = {
        {3000000, 5592405, 24}, {1000000, 1 << 23, 23}, {3600000, 4660338, 24}};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct ips_clock clock;
        struct ips_probe_measurements m;
        start_machine();
        machine.khz = cases[i].khz;
        get_clock("boot", &clock, &m, NULL);
        assert_int_equal(clock.kind, IPS_CLOCK_TSC);
        assert_true(clock.mult_q32 == cases[i].factor << (32 - cases[i].shift));
        assert_int_equal(unlink(clock_file()), 0);
    }
}

/* Would catch: a counter used that stops while the core sleeps, or whose rate
 * changes with the core's. */
static void test_pool_clock__a_counter_that_wavers_is_not_used(void **state)
{
    static const char *const flags[] = {
        "flags\t\t: fpu constant_tsc sse\n",
        "flags\t\t: fpu nonstop_tsc sse\n",
        "processor\t: 0\n",
        "bugs\t\t: constant_tsc nonstop_tsc x\nflags\t\t: fpu\n",
        NULL,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        machine.cpuinfo = flags[i];
        is_raw();
    }
    start_machine();
    machine.khz = 999; /* below 1 MHz: absurd */
    is_raw();
}
#endif

/* Would catch: a counter used on which the kernel itself does not rely, or one
 * that was compared with a clock that stands. */
static void test_pool_clock__without_the_kernels_trust_is_raw(void **state)
{
    static const char *const sources[] = {"hpet\n", "kvm-clock\n", "tsc2\n",
                                          NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
        machine.source = sources[i];
        is_raw();
        assert_int_equal(machine.sleeps, 0);
    }
    start_machine();
    machine.stopped = true;
    is_raw();
    assert_int_equal(machine.sleeps, 1);
}

static void same_clock(const struct ips_clock *a, const struct ips_clock *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->counter0, b->counter0);
    assert_int_equal(a->raw0_ns, b->raw0_ns);
    assert_int_equal(a->mult_q32, b->mult_q32);
}

/* Would catch: a clock measured anew for each run, whose stamps would not be
 * the first run's; costs in the wrong order; what was kept at another boot. */
static void test_pool_clock__is_kept_for_its_boot(void **state)
{
    struct ips_clock first, again;
    struct ips_probe_measurements m;
    (void)state;
    get_clock("boot", &first, &m, NULL);
    machine.now += 12345678;
    measures = 0;
    get_clock("boot", &again, &m, measure_all); /* not measured before */
    same_clock(&again, &first);
    same_clock(&measured_on, &first);
    for (int i = 0; i < 2; i++) {
        get_clock("boot", &again, &m, measure_all);
        same_clock(&again, &first);
        assert_int_equal(m.marks, IPS_MARKS_WORK);
        for (unsigned k = 0; k < IPS_PROBE_COSTS; k++)
            assert_int_equal(m.cost_ps[k], 1000 + k);
    }
    assert_int_equal(measures, 1);
    assert_int_equal(machine.sleeps, 1);
    get_clock("another", &again, &m, NULL);
    assert_int_equal(machine.sleeps, 2);
    assert_true(again.counter0 > first.counter0);
    assert_int_equal(m.cost_ps[IPS_PROBE_CALL], 0);
}

/* Would catch: half of a measurement that failed kept as if it were one. */
static void test_pool_clock__failed_measurements_are_not_kept(void **state)
{
    struct ips_clock clock;
    struct ips_probe_measurements m;
    (void)state;
    measures = 0;
    for (int i = 0; i < 2; i++) {
        get_clock("boot", &clock, &m, measure_in_vain);
        assert_int_equal(m.marks, IPS_MARKS_UNTRIED);
        for (unsigned k = 0; k < IPS_PROBE_COSTS; k++)
            assert_int_equal(m.cost_ps[k], 0);
    }
    assert_int_equal(measures, 2);
    assert_int_equal(machine.sleeps, 1);
}

static void write_kept(const char *text)
{
    FILE *f = fopen(clock_file(), "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A line of this version, with `costs` of the costs. */
static void kept_line(char *to, size_t room, int version, unsigned kind,
                      unsigned mult, unsigned marks, int costs)
{
    int n = snprintf(to, room, "%d boot %u 11 22 %u %u", version, kind, mult,
                     marks);
    for (int i = 0; i < costs; i++)
        n += snprintf(to + n, room - (size_t)n, " %d", 500 + i);
}

/* Would catch: a damaged file believed: the stamps of every run since would be
 * wrong, or divided by 0. */
static void test_pool_clock__damaged_files_are_measured_anew(void **state)
{
    enum { VERSION = IPS_POOL_VERSION, COSTS = IPS_PROBE_COSTS };
    static const struct {
        int version;
        unsigned kind, mult, marks;
        int costs;
        bool good;
    } lines[] = {
        {VERSION, IPS_CLOCK_RAW, 1, IPS_MARKS_FAIL, COSTS, true},
        {VERSION, IPS_CLOCK_TSC, 7, IPS_MARKS_UNTRIED, COSTS, true},
        {VERSION + 1, IPS_CLOCK_TSC, 7, IPS_MARKS_WORK, COSTS, false},
        {VERSION, IPS_CLOCK_TSC + 8, 7, IPS_MARKS_WORK, COSTS, false},
        {VERSION, IPS_CLOCK_TSC, 0, IPS_MARKS_WORK, COSTS, false},
        {VERSION, IPS_CLOCK_TSC, 7, IPS_MARKS_FAIL + 1, COSTS, false},
        {VERSION, IPS_CLOCK_TSC, 7, IPS_MARKS_WORK, COSTS - 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char line[400];
        struct ips_clock clock;
        struct ips_probe_measurements m;
        kept_line(line, sizeof(line), lines[i].version, lines[i].kind,
                  lines[i].mult, lines[i].marks, lines[i].costs);
        write_kept(line);
        start_machine();
        get_clock("boot", &clock, &m, NULL);
        assert_int_equal(machine.sleeps, lines[i].good ? 0 : 1);
        assert_int_equal(clock.counter0 == 11, lines[i].good);
        assert_int_equal(clock.raw0_ns == 22, lines[i].good);
        assert_int_equal(m.marks, lines[i].good ? lines[i].marks : 0);
        for (unsigned k = 0; k < IPS_PROBE_COSTS; k++)
            assert_int_equal(m.cost_ps[k], lines[i].good ? 500 + k : 0);
    }
}

/* A directory is where the file should go. Would catch: an error that is not
 * reported, a fresh file left behind by each run (teardown finds the pool not
 * empty). */
static void test_pool_clock__failure_leaves_nothing(void **state)
{
    struct ips_clock clock;
    struct ips_probe_measurements m;
    struct ips_err err = {0};
    (void)state;
    assert_int_equal(mkdir(clock_file(), 0700), 0);
    int rc = ips_pool_load_or_measure_clock_and_costs(root, "boot", &clock, &m,
                                                      NULL, &err);
    assert_true(rc < 0);
    assert_non_null(strstr(err.msg, clock_file()));
    assert_non_null(strstr(err.msg, strerror(EISDIR)));
    struct ips_err none = {0};
    rc = ips_pool_load_or_measure_clock_and_costs("/no/such/pool", "boot",
                                                  &clock, &m, NULL, &none);
    assert_true(rc < 0);
    assert_non_null(strstr(none.msg, strerror(ENOENT)));
}

/* Would catch: a clock kept for another boot than this one, where it is never
 * found again. */
static void test_pool_clock__written_is_read(void **state)
{
    const struct ips_clock clock = {IPS_CLOCK_TSC, 0, 333, 444, 555};
    struct ips_probe_measurements m = {.marks = IPS_MARKS_FAIL}, back;
    struct ips_clock found;
    struct ips_err err = {0};
    char boot[40] = "";
    (void)state;
    for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
        m.cost_ps[i] = (uint64_t)UINT32_MAX * (i + 1);
    assert_int_equal(
        ips_pool_store_clock_and_probe_costs(root, &clock, &m, &err), 0);
    assert_int_equal(ips_pool_read_boot_id(boot, &err), 0);
    assert_int_equal(strlen(boot), 36);
    get_clock(boot, &found, &back, measure_all);
    same_clock(&found, &clock);
    assert_int_equal(back.marks, IPS_MARKS_FAIL);
    for (unsigned i = 0; i < IPS_PROBE_COSTS; i++)
        assert_true(back.cost_ps[i] == m.cost_ps[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
#if IPS_HAVE_COUNTER
        CASE(test_pool_clock__is_measured_where_it_is_undisturbed),
#endif
#if defined(__x86_64__)
        CASE(test_pool_clock__has_the_kernels_rate),
        CASE(test_pool_clock__a_counter_that_wavers_is_not_used),
#endif
        CASE(test_pool_clock__without_the_kernels_trust_is_raw),
        CASE(test_pool_clock__is_kept_for_its_boot),
        CASE(test_pool_clock__failed_measurements_are_not_kept),
        CASE(test_pool_clock__damaged_files_are_measured_anew),
        CASE(test_pool_clock__failure_leaves_nothing),
        CASE(test_pool_clock__written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
