/* Decides when a thread is sampled; see pace.h. */
#include "agent/preload/sample/pace.h"

#include <sys/syscall.h>

#include "agent/preload/sample/sample.h"
#include "agent/preload/stdio_slots.h"
#include "agent/record/core.h"
#include "agent/record/sys.h"
#include "agent/record/valgrind.h"
#include "common/types.h"
#include <string.h>

/* A sampling moment no further ahead than this counts as reached: setting a
 * timer takes longer. */
#define NOW_NS 2000u
/* A shorter time would expire while the exact timer is being set. */
#define LEAST_NS 5000u
/* TAKES_MOST_NS: measured times for setting a timer are limited to this. If the
 * sampling moment is no further ahead, no timer is set at the return of a call:
 * the moment would nearly always come while the timer is being set, and the
 * next return can tell whether it was before or in the next call. LEARNT_NS:
 * the step by which signal_ns is corrected. */
#define LEARNT_NS 100
#define TAKES_MOST_NS 10000u
/* Upper limit of the difference between our CPU clock and the kernel's, plus
 * the delay of a tick. */
#define SLACK_NS 100000u
/* If the returns of calls are examined for less time than this before a
 * sampling moment, the thread counts as being in a loop of calls. */
#define LOOP_NS 500000u
#define NEAR_LEAST_NS 30000u
#define NEAR_MOST                                                              \
    9u /* get_call_return_check_window_ns() is then at most 15 ms */
/* After so many returns of calls near sampling moments, the time before a
 * moment in which returns are examined is halved. */
#define RETURNS_NEAR 64u
/* If fewer returns of calls than this were examined before a sampling moment,
 * the timer may be set BUDGET times for the next moment. */
#define RETURNS_FEW 8u
/* how often returns of calls may set the exact timer for one sampling moment */
#define BUDGET 4u
/* most attempts at a postponed sampling moment; then the sample is late */
#define TRIES 24u

/* Kept small because static TLS is scarce (agent/record/thread.h). */
static IPS_TLS struct {
    /* the moment of the next sample, in the thread's CPU time (ns) */
    uint64_t at;
    uint32_t back; /* low half of the CPU time at the newest return of a call */
    /* if the sampling moment is postponed: it is this many ns after the return
     * of a call; 0: not postponed */
    uint32_t offset;
    /* stack pointer / 16 of the call that a handler interrupted; 0: none */
    uint32_t nested;
    /* real function of the newest call, relative to
     * ips_stdio_libc_file_write_address(); 0: unknown */
    int32_t real;
    int16_t watch, exact; /* ids of the two kernel timers; -1: none */
    uint8_t near; /* exponent used in get_call_return_check_window_ns() */
    /* the least `near` with which each of the latest gaps between two calls is
     * examined from its beginning */
    uint8_t least;
    /* if the moment is postponed: returns of calls to skip; attempts that
     * failed */
    uint8_t skip, tries;
    /* for this moment: how often returns set the exact timer; the limit of that
     */
    uint8_t arms, budget;
    uint8_t returns; /* returns of calls examined for this moment */
    /* back_known: `back` is valid. postponed_timer_set: the exact timer is set
     * for a postponed moment. on: the thread is sampled. busy: it is in
     * sample_or_set_timer_at_call_return(). */
    bool back_known : 1, postponed_timer_set : 1, on : 1, busy : 1;
} pace;

static uint64_t tick_ns, period_ns;
/* True once an exact timer has interrupted a sleep in a call that we do not
 * wrap: exact timers are no longer set in this process. */
static _Atomic bool sleeps_unseen;

struct kernel_sigevent {
    uint64_t value;
    int32_t signo, notify;
    int32_t tid;
    int32_t pad[11];
};
struct kernel_itimer {
    int64_t interval_s, interval_ns, value_s, value_ns;
};

/* --- clocks and timers ---------------------------------------------------- */

static uint64_t random_below(uint64_t n)
{
    uint64_t x = ips_core_stamp_now() ^ (uint64_t)ips_me.stream.tid << 40 ^
                 pace.at * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 32;
    return n ? x % n : 0;
}

static uint64_t ns_to_stamps(uint64_t ns)
{
    return ips_core.mult
               ? (ips_min_u64(ns, (uint64_t)1 << 31) << 32) / ips_core.mult
               : ns;
}

/* Returns the least time (ns) before a sampling moment at which the watch timer
 * must expire. */
static uint64_t watch_lead_ns(void)
{
    return tick_ns + SLACK_NS;
}

static void set_kernel_timer(int id, uint64_t ns, uint64_t interval)
{
    const struct kernel_itimer when = {
        (int64_t)(interval / 1000000000u), (int64_t)(interval % 1000000000u),
        (int64_t)(ns / 1000000000u), (int64_t)(ns % 1000000000u)};
    ips_sys6(SYS_timer_settime, id, 0, (long)&when, 0, 0, 0);
}

static int create_kernel_timer(long clock, uint32_t cookie)
{
    struct kernel_sigevent event = {.value = cookie,
                                    .signo = IPS_SAMPLE_SIGNAL,
                                    .notify = SIGEV_THREAD_ID,
                                    .tid = (int32_t)ips_me.stream.tid};
    int id = -1;
    if (ips_sys3(SYS_timer_create, clock, (long)&event, (long)&id) < 0)
        return -1; /* no timer, for example because of RLIMIT_SIGPENDING */
    if (id <= INT16_MAX)
        return id;
    ips_sys3(SYS_timer_delete, id, 0, 0);
    return -1;
}

/* Sets the stamp `t` from which on returns of calls are examined
 * (ips_sample_check_call_return). */
static void set_return_check_start_stamp(uint64_t t)
{
    ips_me.sample_off = ~t;
    ips_me.io_baseline.span = 0;
}

static bool is_exact_timer_set(void)
{
    return ips_me.sample_watch & IPS_SAMPLE_SET;
}

static void start_exact_timer(uint64_t ns)
{
    ips_me.sample_watch |= IPS_SAMPLE_SET;
    atomic_signal_fence(memory_order_seq_cst);
    set_kernel_timer(pace.exact, ips_max_u64(ns, LEAST_NS), 0);
}

/* Loops because a signal that comes in between may set the timer again. */
static void stop_exact_timer(void)
{
    while (is_exact_timer_set()) {
        ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
        atomic_signal_fence(memory_order_seq_cst);
        set_kernel_timer(pace.exact, 0, 0);
    }
}

/* Time (ns) from the expiry of the exact timer to the interruption of the
 * program, learnt from signals that came too early or too late. It can be
 * negative, because a virtual machine may be interrupted early. */
static _Atomic int32_t signal_ns;
static void adjust_signal_delay_estimate(int32_t more)
{
    int32_t is = atomic_load_explicit(&signal_ns, memory_order_relaxed) + more;
    if (is > -(int32_t)TAKES_MOST_NS / 2 && is < (int32_t)TAKES_MOST_NS / 2)
        atomic_store_explicit(&signal_ns, is, memory_order_relaxed);
}

/* Sets the exact timer to expire `ns` after this function returns. Setting it
 * often takes longer than the time between two calls. So it is set for a later
 * time, and this function busy-waits for the difference. */
static void set_exact_timer_to_expire_after_return(uint64_t ns)
{
    /* running average of the time (ns) that setting the timer takes */
    static _Atomic uint32_t takes_ns;
    uint32_t takes = atomic_load_explicit(&takes_ns, memory_order_relaxed);
    uint64_t t = ips_core_stamp_now(), ahead = takes + takes / 2 + LEAST_NS / 4,
             now;
    start_exact_timer(ns + ahead);
    uint64_t took = ips_stamps_to_ns(ips_core_stamp_now() - t);
    took = ips_min_u64(took, TAKES_MOST_NS);
    takes = (uint32_t)(takes ? (takes * (uint64_t)7 + took) / 8 : took);
    takes = (uint32_t)ips_min_u64(takes, TAKES_MOST_NS);
    atomic_store_explicit(&takes_ns, takes, memory_order_relaxed);
    int64_t leave =
        (int64_t)ahead + atomic_load_explicit(&signal_ns, memory_order_relaxed);
    do
        now = ips_core_stamp_now();
    while ((int64_t)ips_stamps_to_ns(now - t) < leave);
    pace.back += (uint32_t)ips_stamps_to_ns(now - t);
}

/* Whether the thread, whose stack pointer is `sp`, has left the call that a
 * signal handler interrupted. */
static bool is_outside_interrupted_call(uint64_t sp)
{
    if (!pace.nested)
        return true;
    if ((uint32_t)(sp >> 4) - pace.nested >= 1u << 22)
        return false;
    pace.nested = 0;
    return true;
}

static bool may_set_exact_timer(void)
{
    return pace.exact >= 0 && !is_exact_timer_set() &&
           !atomic_load_explicit(&sleeps_unseen, memory_order_relaxed);
}

/* --- choosing the moment of a sample -------------------------------------- */

/* Returns for how long (ns) before a sampling moment the returns of calls are
 * examined. The more returns there are, the shorter. */
static uint64_t get_call_return_check_window_ns(void)
{
    return ips_min_u64((uint64_t)NEAR_LEAST_NS << pace.near,
                       ips_max_u64(period_ns, watch_lead_ns()));
}

/* Draws the moment of the next sample at random: in the next sampling period
 * or, if that moment is not after the CPU time `cpu`, in a later one. */
static void choose_next_sample_time(uint64_t cpu)
{
    do
        pace.at =
            (pace.at / period_ns + 1) * period_ns + random_below(period_ns);
    while (pace.at <= cpu);
    if (pace.returns < RETURNS_FEW)
        pace.budget = BUDGET;
    else if (pace.least)
        pace.least--; /* the next gaps set it again */
    pace.arms = pace.returns = 0;
}

/* Decides from which stamp on the returns of calls are examined. The thread's
 * CPU clock showed `cpu` at the stamp `t`. */
static void plan_return_checks(uint64_t cpu, uint64_t t)
{
    uint64_t left = ips_sub_sat(pace.at, cpu);
    if (pace.offset || left <= get_call_return_check_window_ns()) {
        ips_me.sample_watch |= IPS_SAMPLE_CLOSE;
        set_return_check_start_stamp(0);
        return;
    }
    ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_CLOSE;
    pace.back_known = false;
    pace.real = 0;
    set_return_check_start_stamp(
        t + ns_to_stamps(left - get_call_return_check_window_ns()));
}

/* Sets the watch (the timer on CPU time, pace.h) to expire in the last tick
 * before the sampling moment, then in each tick until a sample is taken. */
static void set_watch_timer(uint64_t cpu)
{
    uint64_t left = ips_sub_sat(pace.at, cpu);
    uint64_t before =
        is_exact_timer_set() || !may_set_exact_timer() ? 0 : watch_lead_ns();
    uint64_t ns = left > before ? left - before : 1;
    set_kernel_timer(pace.watch, ns, tick_ns);
}

/* To be called after a sample: draws the moment of the next one and sets the
 * timers. `runs`: the thread continues in the program, not in a wrapper. */
static void choose_next_sample_and_set_timers(uint64_t cpu, bool runs)
{
    choose_next_sample_time(cpu);
    uint64_t left = pace.at - cpu;
    if (runs && may_set_exact_timer() &&
        is_outside_interrupted_call(ips_stack_pointer()))
        start_exact_timer(left);
    set_watch_timer(cpu);
    plan_return_checks(cpu, ips_core_stamp_now());
}

/* --- timer signals -------------------------------------------------------- */

static uint64_t context_stack_pointer(const ucontext_t *uc)
{
#if defined(__x86_64__)
    return (uint64_t)uc->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return uc->uc_mcontext.sp;
#endif
}

/* Whether the signal of the exact timer ended a system call that the thread was
 * in at `uc`. `off`: the thread was off the CPU. */
static bool did_signal_end_syscall(const ucontext_t *uc, bool off)
{
#if defined(__x86_64__)
    const int64_t result = uc->uc_mcontext.gregs[REG_RAX];
#elif defined(__aarch64__)
    const int64_t result = (int64_t)uc->uc_mcontext.regs[0];
#endif
    /* If the result is >= 0 at a system call, the kernel restarts the call. */
    return (result == -EINTR || (off && result >= 0)) &&
           ips_context_is_at_syscall(uc);
}

static void end_sample_postponement(void)
{
    pace.budget = pace.offset > SLACK_NS ? BUDGET : 0;
    pace.offset = 0;
}

static void
sample_or_rearm_on_exact_timer(const ucontext_t *uc, uint64_t cpu,
                               bool (*in_call)(const ucontext_t *uc))
{
    if (!is_exact_timer_set())
        return;
    const bool postponed_timer_set = pace.postponed_timer_set;
    uint64_t at =
        postponed_timer_set
            ? cpu + (uint32_t)(pace.back + pace.offset - (uint32_t)cpu)
            : pace.at;
    if (postponed_timer_set &&
        (uint32_t)(pace.back + pace.offset - (uint32_t)cpu) >> 31)
        at = cpu; /* the moment of the sample has passed */
    ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
    if (did_signal_end_syscall(uc, cpu + NOW_NS < at))
        atomic_store(&sleeps_unseen, true);
    if (cpu + NOW_NS < at) {
        if (may_set_exact_timer())
            start_exact_timer(at - cpu);
        return;
    }
    /* The timer for a postponed moment expired inside the wrapper that set it:
     * try again at a later return. */
    if (postponed_timer_set && in_call(uc)) {
        pace.postponed_timer_set = false;
        pace.skip = (uint8_t)random_below(4);
        adjust_signal_delay_estimate(-LEARNT_NS);
        return;
    }
    ips_sample_write(uc, cpu, false);
    if (postponed_timer_set) {
        pace.postponed_timer_set = false;
        end_sample_postponement();
        plan_return_checks(cpu, ips_core_stamp_now());
    } else {
        pace.budget = BUDGET;
        choose_next_sample_and_set_timers(cpu, true);
    }
}

/* The sampling moment passed some ns after the newest return of a call:
 * postpones it to the same time after a later return. False: not possible, for
 * example because the newest return is unknown. */
static bool postpone_sample_if_possible(void)
{
    uint32_t since = (uint32_t)pace.at - pace.back;
    if (!pace.back_known || since >> 31 || pace.offset ||
        !may_set_exact_timer())
        return false;
    pace.offset = since | 1;
    pace.skip = (uint8_t)(1 + random_below(4));
    pace.tries = 0;
    return true;
}

static void sample_or_arm_on_watch_timer(const ucontext_t *uc, uint64_t cpu,
                                         bool (*in_call)(const ucontext_t *uc))
{
    if (is_exact_timer_set()) {
        if (cpu < pace.at + tick_ns)
            return;
        /* the timer's signal never reached our handler: the C library's took it
         * (sample.h) */
        stop_exact_timer();
    }
    if (cpu < pace.at) {
        if (may_set_exact_timer() &&
            is_outside_interrupted_call(context_stack_pointer(uc)) &&
            !in_call(uc)) {
            pace.postponed_timer_set = false;
            start_exact_timer(pace.at - cpu);
        }
        return;
    }
    if (!postpone_sample_if_possible())
        ips_sample_write(uc, cpu, true);
    choose_next_sample_and_set_timers(cpu, !in_call(uc));
}

void ips_pace_sample_or_rearm_on_signal(uint32_t cookie, const ucontext_t *uc,
                                        bool (*in_call)(const ucontext_t *uc))
{
    if (!pace.on)
        return;
    /* the signal interrupted sample_or_set_timer_at_call_return(), or a longjmp
     * left that function */
    if (pace.busy) {
        if (cookie == IPS_PACE_EXACT)
            ips_me.sample_watch &= (uint8_t)~IPS_SAMPLE_SET;
        else
            pace.busy = false;
        return;
    }
    uint64_t cpu = ips_core_thread_cpu_ns();
    if (cookie == IPS_PACE_EXACT)
        sample_or_rearm_on_exact_timer(uc, cpu, in_call);
    else
        sample_or_arm_on_watch_timer(uc, cpu, in_call);
}

/* --- returns of wrapped calls --------------------------------------------- */

void ips_sample_stop_timer_before_call(uint64_t real)
{
    if (ips_me.in_vfork || ips_me.own_table)
        return;
    int64_t from_libc =
        (int64_t)(real -
                  (uint64_t)(uintptr_t)ips_stdio_libc_file_write_address());
    pace.real = from_libc == (int32_t)from_libc ? (int32_t)from_libc : 0;
    if (!is_exact_timer_set())
        return;
    /* Stopping the timer may take more CPU time than the call. The moment gives
     * way by that, or many moments would fall into this function and count as
     * in the call. */
    uint64_t cpu = ips_core_thread_cpu_ns();
    stop_exact_timer();
    if (cpu < pace.at)
        pace.at += ips_core_thread_cpu_ns() - cpu;
}

void ips_sample_store_sp_of_interrupted_syscall(const void *context)
{
    const ucontext_t *uc = (const ucontext_t *)context;
    if (pace.on && !pace.nested && ips_context_is_at_syscall(uc))
        pace.nested = (uint32_t)(context_stack_pointer(uc) >> 4) | 1;
}

static void write_sample_of_call(bool late)
{
    uint64_t real = 0;
    if (pace.real)
        real = (uint64_t)(uintptr_t)ips_stdio_libc_file_write_address() +
               (uint64_t)(int64_t)pace.real;
    ips_sample_write_at_return(real, late);
}

/* Examines the return of a call while a sampling moment is postponed. True: the
 * caller must set the exact timer. */
static bool update_postponed_sample_at_return(const struct ips_moment *call)
{
    if (!pace.postponed_timer_set) {
        if (pace.skip)
            pace.skip--;
        return pace.skip == 0;
    }
    /* The thread made the next call before the timer expired: the gap between
     * the calls was too short, or the timer late. */
    const uint32_t lasted = (uint32_t)call->cpu - pace.back;
    if (lasted >= pace.offset && !(lasted >> 31))
        adjust_signal_delay_estimate(LEARNT_NS);
    pace.postponed_timer_set = false;
    pace.skip = (uint8_t)(1 + random_below(4));
    if (++pace.tries >= TRIES) {
        write_sample_of_call(true);
        end_sample_postponement();
    }
    return false;
}

/* Takes the sample of a moment that has passed, or postpones the moment.
 * `call`: the call that is returning; `cpu`: the CPU time now. */
static void sample_or_postpone_missed_moment(const struct ips_moment *call,
                                             uint64_t cpu)
{
    if (call->cpu <= pace.at) {
        write_sample_of_call(false);
        pace.budget = BUDGET;
    } else if (!postpone_sample_if_possible()) {
        bool loop = get_call_return_check_window_ns() < LOOP_NS;
        pace.least = (uint8_t)ips_min_u64(pace.near + 1u, NEAR_MOST);
        pace.near = (uint8_t)ips_min_u64(pace.near + 3u, NEAR_MOST);
        if (loop) { /* the next moment may be soon: all iterations of a loop are
                       alike */
            pace.at = cpu + random_below(get_call_return_check_window_ns());
            return;
        }
        write_sample_of_call(true);
    }
    choose_next_sample_time(cpu);
    set_watch_timer(cpu);
}

/* Raises `least` to the gap between the newest return and `call`. */
static void raise_least_check_window_to_call_gap(const struct ips_moment *call)
{
    const uint32_t gap = (uint32_t)call->cpu - pace.back;
    while (pace.back_known && !(gap >> 31) && pace.least < NEAR_MOST &&
           gap > (uint64_t)NEAR_LEAST_NS << pace.least)
        pace.least++;
}

/* Examines the return of a call near the sampling moment, or while the moment
 * is postponed: takes a sample, or sets the exact timer. */
static void sample_or_set_timer_at_call_return(const struct ips_moment *call,
                                               uint64_t cpu, uint64_t t)
{
    bool set = false, off = false;
    const bool may = may_set_exact_timer() && ips_me.open_depth <= 1 &&
                     is_outside_interrupted_call(ips_stack_pointer());
    raise_least_check_window_to_call_gap(call);
    if (cpu >= pace.at)
        sample_or_postpone_missed_moment(call, cpu);
    if (pace.offset)
        set = off = update_postponed_sample_at_return(call) && may;
    uint64_t left = pace.at - cpu;
    if (!off && left <= get_call_return_check_window_ns()) {
        if (++pace.returns >= RETURNS_NEAR && pace.near) {
            pace.near--;
            pace.returns = 0;
        }
        /* Too many calls came before the moment. A moment in a gap that is not
         * examined from its beginning would be lost, and long gaps sampled too
         * rarely. */
        if (may && pace.budget && pace.arms >= pace.budget &&
            pace.near > pace.least) {
            pace.near--;
            pace.arms = 0;
        }
        set = may && pace.arms < pace.budget && left > TAKES_MOST_NS &&
              left <= get_call_return_check_window_ns();
        pace.arms += set;
    }
    pace.back = (uint32_t)cpu;
    pace.back_known = true;
    plan_return_checks(cpu, t);
    pace.postponed_timer_set = off;
    /* still busy: a signal in this function must not take a sample */
    if (set && !off)
        start_exact_timer(left);
    pace.busy = false;
    if (set && off)
        set_exact_timer_to_expire_after_return(pace.offset);
}

void ips_sample_check_call_return_slow(const struct ips_moment *call,
                                       const struct ips_moment *ret)
{
    if (!pace.on || pace.busy || ips_me.in_vfork || ips_me.own_table ||
        is_exact_timer_set())
        return;
    int saved = errno;
    pace.busy = true;
    sample_or_set_timer_at_call_return(call, ret->cpu, ret->t);
    errno = saved;
}

/* --- start and end of a thread -------------------------------------------- */

void ips_pace_set_tick_and_period(void)
{
    struct timespec tick = {0, 10000000};
    ips_sys3(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick, 0);
    tick_ns = ips_min_u64((uint64_t)tick.tv_nsec, 10000000);
    period_ns = ips_core_control()->sample_us * (uint64_t)1000;
}

void ips_pace_create_and_start_timers(void)
{
    memset(&pace, 0, sizeof(pace));
    ips_me.sample_watch = 0;
    ips_me.sample_off = 0;
    pace.watch = pace.exact = -1;
    if (!period_ns || ips_in_valgrind())
        return;
    pace.watch =
        (int16_t)create_kernel_timer(CLOCK_THREAD_CPUTIME_ID, IPS_PACE_WATCH);
    if (pace.watch < 0)
        return; /* no watch timer: this thread is not sampled */
    pace.exact = (int16_t)create_kernel_timer(CLOCK_MONOTONIC, IPS_PACE_EXACT);
    pace.near = NEAR_MOST;
    pace.budget = BUDGET;
    pace.on = true;
    uint64_t cpu = ips_core_thread_cpu_ns();
    pace.at = cpu / period_ns * period_ns + random_below(period_ns);
    if (pace.at <= cpu)
        choose_next_sample_time(cpu);
    uint64_t left = pace.at - cpu;
    if (left <= watch_lead_ns() && may_set_exact_timer()) {
        ips_me.sample_watch |= IPS_SAMPLE_SET;
        set_kernel_timer(pace.exact, ips_max_u64(left, LEAST_NS), 0);
    }
    set_watch_timer(cpu);
    plan_return_checks(cpu, ips_core_stamp_now());
    ips_sample_write_empty_start_sample(cpu);
}

void ips_pace_delete_timers(void)
{
    if (!pace.on)
        return;
    pace.on = false; /* the handler of a pending signal sees this and returns */
    ips_me.sample_watch = 0;
    ips_me.sample_off = 0;
    ips_sys3(SYS_timer_delete, pace.watch, 0, 0);
    if (pace.exact >= 0)
        ips_sys3(SYS_timer_delete, pace.exact, 0, 0);
}
