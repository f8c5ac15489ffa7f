/* A thread that agent/preload/sample/pace.c samples: the clocks, the kernel's
 * timers and the place of each call are the test's own. It includes pace.c, for
 * tests that include cmocka.h before. */
#ifndef IPS_TESTS_UNIT_HELP_PACE_MACHINE_H
#define IPS_TESTS_UNIT_HELP_PACE_MACHINE_H

#include "agent/preload/sample/pace.h"
#include "agent/preload/sample/sample.h"
#include "agent/preload/stdio_slots.h"
#include "agent/record/core.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"
#include "common/types.h"

#define TICK 4000000u
#define PERIOD 10000000u
#define LIBC 0x700000000000u

static struct {
    uint64_t now, step;     /* stamps are ns; step: from reading to reading */
    uint64_t cpu, cpu_step; /* cpu_step: from reading to reading */
    struct ips_control control;
    bool valgrind, at_syscall;
    /* of the timers: what the last calls were */
    unsigned sets, made, deleted;
    bool expires; /* the signal comes while its timer is being set */
    long id, deleted_id[2];
    uint64_t ns, interval;
    long new_id, clock[2];
    int32_t signo, notify, tid;
    uint64_t cookie[2];
    /* of the samples */
    unsigned written, here, starts;
    bool late;
    uint64_t sample_cpu, real;
} m;

static uint64_t fake_now(void)
{
    return m.now += m.step;
}
static uint64_t fake_cpu(void)
{
    uint64_t cpu = m.cpu;
    m.cpu += m.cpu_step;
    return cpu;
}
static const struct ips_control *fake_control(void)
{
    return &m.control;
}
static const void *fake_libc(void)
{
    return (const void *)(uintptr_t)LIBC;
}
static bool fake_valgrind(void)
{
    return m.valgrind;
}

static long set(long id, const int64_t *when)
{
    m.sets++;
    m.id = id;
    m.interval = (uint64_t)when[0] * 1000000000 + (uint64_t)when[1];
    m.ns = (uint64_t)when[2] * 1000000000 + (uint64_t)when[3];
    assert_true(when[1] < 1000000000 && when[3] < 1000000000);
    if (m.expires)
        ips_pace_sample_or_rearm_on_signal(IPS_PACE_EXACT, NULL, NULL);
    return 0;
}

static long fake_call(long number, long a, long b, long c)
{
    if (number == SYS_timer_settime) {
        assert_int_equal(b, 0); /* relative */
        return set(a, (const int64_t *)c);
    }
    if (number == SYS_timer_create) {
        const int32_t *event = (const int32_t *)b;
        m.clock[m.made % 2] = a;
        memcpy(&m.cookie[m.made % 2], event, 8);
        m.signo = event[2];
        m.notify = event[3];
        m.tid = event[4];
        m.made++;
        if (m.new_id < 0)
            return -EAGAIN;
        *(int *)c = (int)m.new_id++;
        return 0;
    }
    if (number == SYS_timer_delete) {
        m.deleted_id[m.deleted++ % 2] = a;
        return 0;
    }
    assert_int_equal(number, SYS_clock_getres);
    assert_int_equal(a, CLOCK_MONOTONIC_COARSE);
    *(struct timespec *)b = (struct timespec){0, TICK};
    return 0;
}
#define fake_sys6(n, a, b, c, d, e, f) fake_call(n, a, b, c)

static bool fake_at_syscall(const ucontext_t *uc)
{
    (void)uc;
    return m.at_syscall;
}
static void fake_write(const ucontext_t *uc, uint64_t cpu, bool late)
{
    (void)uc;
    m.written++;
    m.sample_cpu = cpu;
    m.late = late;
}
static void fake_write_here(uint64_t real, bool late)
{
    m.here++;
    m.real = real;
    m.late = late;
}
static void fake_write_start(uint64_t cpu)
{
    m.starts++;
    m.sample_cpu = cpu;
}

#define ips_core_stamp_now fake_now
#define ips_core_thread_cpu_ns fake_cpu
#define ips_core_control fake_control
#define ips_stdio_libc_file_write_address fake_libc
#define ips_in_valgrind fake_valgrind
#define ips_sys3 fake_call
#define ips_sys6 fake_sys6
#define ips_context_is_at_syscall fake_at_syscall
#define ips_sample_write fake_write
#define ips_sample_write_at_return fake_write_here
#define ips_sample_write_empty_start_sample fake_write_start
#include "agent/preload/sample/pace.c"
#undef ips_sys3
#undef ips_sys6

static ucontext_t uc;
static bool is_in_call;
static inline bool in_call(const ucontext_t *at)
{
    assert_ptr_equal(at, &uc);
    return is_in_call;
}

static inline void set_sp(uint64_t sp)
{
#if defined(__x86_64__)
    uc.uc_mcontext.gregs[REG_RSP] = (long long)sp;
#else
    uc.uc_mcontext.sp = sp;
#endif
}
static inline void set_result(int64_t result)
{
#if defined(__x86_64__)
    uc.uc_mcontext.gregs[REG_RAX] = result;
#else
    uc.uc_mcontext.regs[0] = (uint64_t)result;
#endif
}

/* A thread that is sampled: the next moment is at 45 ms, its CPU time is 40. */
static int begin(void **state)
{
    (void)state;
    memset(&m, 0, sizeof(m));
    memset(&pace, 0, sizeof(pace));
    memset(&uc, 0, sizeof(uc));
    is_in_call = false;
    m.now = 1000000;
    m.cpu = 40000000;
    m.control.sample_us = PERIOD / 1000;
    m.new_id = 3;
    ips_core.mult = (uint64_t)1 << 32;
    ips_me.stream.tid = 77;
    ips_me.sample_watch = 0;
    ips_me.sample_off = 0;
    ips_me.in_vfork = ips_me.own_table = false;
    ips_me.open_depth = 1;
    atomic_store(&signal_ns, 0);
    atomic_store(&sleeps_unseen, false);
    ips_pace_set_tick_and_period();
    pace.watch = 5;
    pace.exact = 6;
    pace.near = NEAR_MOST;
    pace.budget = BUDGET;
    pace.on = true;
    pace.at = 45000000;
    return 0;
}

static inline struct ips_moment at_cpu(uint64_t cpu)
{
    return (struct ips_moment){.t = m.now, .cpu = cpu};
}

static inline bool is_set(void)
{
    return ips_me.sample_watch & IPS_SAMPLE_SET;
}
static inline bool is_close(void)
{
    return ips_me.sample_watch & IPS_SAMPLE_CLOSE;
}

/* Returns are examined from this stamp on. */
static inline uint64_t examined_from(void)
{
    return ~ips_me.sample_off;
}

static inline void assert_timer(long id, uint64_t ns, uint64_t interval)
{
    assert_int_equal(m.id, id);
    assert_int_equal(m.ns, ns);
    assert_int_equal(m.interval, interval);
}

#endif
