/* Determines the thread's CPU time if the mark in its rseq area is gone
 * (agent/record/cpu.h): reads the CPU clock, or guesses and corrects the error
 * later. */
#include "agent/record/cpu.h"

#include <string.h>
#include <time.h>

#include "agent/record/cpu_gone.h"
#include "agent/record/sys.h"

/* Longest time (ns) for which a baseline of CPU time is used. This limits an
 * error: a hypervisor or an interrupt may take time that the kernel does not
 * count as ours. */
#define LINE_NS 500000u
/* Usual time (ns) between the return of a call and the reading of the clock.
 * After ten times this, the thread may have been switched out in between. */
#define MARK_NS 1000u
/* A reading of the clock that takes longer (ns) was disturbed. */
#define READING_NS 2500u
#define HOLD_MAX_NS (1u << 30)
/* A shorter sleep (ns) between two calls is not examined for page faults. */
#define ASLEEP_NS 10000u
/* A call as long as this (ns) may have had several page faults. */
#define LONG_NS 50000u

void ips_cpu_init(void)
{
    const struct ips_control *c = ips_core.control;
    char *tp = (char *)__builtin_thread_pointer();
    const int32_t no_mark = (int32_t)((char *)&ips_me.cpu.no_mark - tp);
    ips_core.here_offset = (int32_t)((char *)&ips_me - tp);
    ips_core.mark_offset = no_mark;
    ips_core.cpu_limit = ((uint64_t)LINE_NS << 32) / ips_core.mult;
    ips_core.long_call = ips_core.cpu_limit;
    ips_core.cpu_marks = c->cpu_mode != IPS_CPU_CLOCK && !ips_core.test_clock &&
                         ips_core.clock_kind == IPS_CLOCK_TSC &&
                         ips_rseq_is_available();
    if (ips_core.cpu_marks)
        ips_core.mark_offset = (int32_t)(__rseq_offset + IPS_RSEQ_POINTER);
    if (ips_core.cpu_marks && !ips_rseq_is_registered(ips_cpu_mark_address())) {
        ips_core.cpu_marks = false;
        ips_core.mark_offset = no_mark;
    }
    ips_core.guesses = c->cpu_mode == IPS_CPU_FAST && !ips_sys_quiet;
    ips_page_faults_skip_earlier();
}

void ips_cpu_reset(void)
{
    volatile uint64_t *at = ips_cpu_mark_address();
    if (ips_cpu_own_slot_at_mark(*at))
        *at = 0;
    memset(ips_me.slot, 0, sizeof(ips_me.slot));
    ips_me.cpu = (struct ips_cpu){0};
    ips_me.cpu_last = 0;
    ips_me.cpu_next = 0;
    ips_me.era++;
}

static uint64_t read_thread_cpu_ns(void)
{
    return ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t stamps_of_ns(uint64_t ns)
{
    return (ips_min_u64(ns, HOLD_MAX_NS) << 32) / ips_core.mult;
}

/* Does the mark still point at slot `s`, and has no slot been taken since
 * `cpu_next` was `taken`? */
static bool mark_is_valid(const struct ips_cpu_slot *s, uint32_t taken)
{
    return *ips_cpu_mark_address() == (uint64_t)(uintptr_t)s &&
           ips_me.cpu_next == taken;
}

struct clock_reading {
    struct ips_cpu_slot *slot; /* NULL: the mark did not survive the reading */
    uint32_t mark_number;      /* number of the slot's mark */
    uint64_t t, cpu;
};

/* Reads the CPU clock between two stamps. Reads again if the thread was
 * switched out, or if too much time passed between the stamps (a page fault, an
 * interrupt): then the moment of the reading is not known exactly. */
static struct clock_reading set_mark_and_read_cpu_clock(void)
{
    struct clock_reading r = {0};
    for (int tries = 0; tries < 3; tries++) {
        r.slot = ips_set_cpu_mark(&ips_me, &r.mark_number);
        uint64_t before = ips_core_stamp_now();
        r.cpu = read_thread_cpu_ns();
        uint64_t after = ips_core_stamp_now();
        r.t = before + (after - before) / 2;
        if (!r.slot)
            break;
        bool good = mark_is_valid(r.slot, r.mark_number);
        if (good && ips_stamps_to_ns(after - before) < READING_NS)
            break;
        if (!good) {
            r.slot = NULL;
            r.t = after;
        }
    }
    return r;
}

/* Stores the CPU time of a reading, or `floor` if that is greater, as the
 * baseline of the reading's slot. */
static void set_baseline_by_reading(const struct clock_reading *r,
                                    uint64_t floor)
{
    if (!r->slot)
        return;
    uint64_t cpu0 = ips_max_u64(r->cpu, floor);
    ips_set_baseline_or_remove_cpu_mark(&ips_me, r->slot, r->mark_number,
                                        r->t + stamps_of_ns(cpu0 - r->cpu),
                                        cpu0);
}

/* Returns the CPU time at stamp `t` by the slot's baseline; for `t` before t0
 * it is less than cpu0. */
static uint64_t compute_cpu_from_baseline(const struct ips_cpu_slot *s,
                                          uint64_t t)
{
    return t >= s->t0 ? s->cpu0 + ips_stamps_to_ns(t - s->t0)
                      : ips_sub_sat(s->cpu0, ips_stamps_to_ns(s->t0 - t));
}

/* Writes RUNDELAY and GUESSED if they are due. Called after each reading of the
 * clock; most calls only compare. */
static void write_records_due(uint64_t t, uint64_t cpu)
{
    if (ips_core.control->delays &&
        ips_stamps_to_ns(t - ips_me.cpu.delay_t) >= IPS_DELAY_EVERY_NS)
        ips_run_delay_write_if_due(t, cpu);
    if (ips_me.cpu.guess.corrected_ns != ips_me.cpu.guessed_said &&
        ips_stamps_to_ns(t - ips_me.cpu.guessed_t) >= IPS_GUESSED_EVERY_NS)
        ips_write_guessed_cpu_record(t);
}

/* Called when a call begins, at the moment (t, cpu); the thread's last moment
 * was (t0, cpu0). If the thread was off its core in between, it may have slept
 * for pages from the disk. Calls of a signal handler are excluded: the call
 * that the handler interrupted may have slept. */
static void write_page_faults_if_off_core(uint64_t t0, uint64_t cpu0,
                                          uint64_t t, uint64_t cpu)
{
    if ((int64_t)(t - t0) > 0 && ips_me.open_depth == 1 &&
        ips_stamps_to_ns(t - t0) >= ips_sub_sat(cpu, cpu0) + ASLEEP_NS)
        ips_page_faults_write_if_any(t, cpu);
}

/* Starts a new window of guesses (agent/record/cpu_guess.h) at a reading, where
 * the clock is `off` ns ahead of the reported CPU time. Changes r->cpu from the
 * clock's value to the CPU time to report. */
static void start_guess_window_and_correct_reading(struct clock_reading *r,
                                                   uint64_t t, int64_t off)
{
    off = ips_guess_start_next_window_and_cap_error(&ips_me.cpu.guess, off);
    r->cpu =
        off > 0 ? ips_sub_sat(r->cpu, (uint64_t)off) : r->cpu + (uint64_t)-off;
    ips_me.cpu.read_t = t;
    ips_me.cpu.read_cpu = r->cpu;
}

/* The baseline from which CPU times have been computed since the newest mark
 * was set. */
struct cpu_baseline {
    uint64_t t0, cpu0;
};
static struct cpu_baseline get_newest_baseline(void)
{
    struct cpu_baseline line;
    uint32_t taken;
    do { /* repeat if a handler reused the slots meanwhile */
        taken = ips_me.cpu_next;
        const volatile struct ips_cpu_slot *s =
            &ips_me.slot[(taken - 1) % IPS_CPU_SLOTS];
        line = (struct cpu_baseline){s->t0, s->cpu0};
    } while (ips_me.cpu_next != taken);
    return line;
}

/* Returns the stamp at which the CPU time `last` was reported, if it was
 * computed from the baseline `l`; else an earlier stamp. */
static uint64_t stamp_of_last_reported_cpu(const struct cpu_baseline *l,
                                           uint64_t last)
{
    return l->t0 + stamps_of_ns(ips_sub_sat(last, l->cpu0));
}

/* Returns the CPU time that is expected at the reading `r`; `last` is the CPU
 * time reported last. If the mark was still there (`stood`), the baseline `l`
 * gives it. Else it is the clock's value minus the known error of the guesses,
 * but at least `last`, and at most `last` plus the time elapsed since. */
static uint64_t expected_cpu_at_reading(const struct cpu_baseline *l,
                                        bool stood,
                                        const struct clock_reading *r,
                                        uint64_t last)
{
    uint64_t last_t = stamp_of_last_reported_cpu(l, last);
    uint64_t most = (int64_t)(r->t - last_t) < 0
                        ? last
                        : last + ips_stamps_to_ns(r->t - last_t);
    uint64_t is = r->cpu - (uint64_t)ips_me.cpu.guess.off;
    if (stood)
        return most;
    return (int64_t)(is - last) < 0 ? last : ips_min_u64(is, most);
}

static struct ips_moment store_cpu_and_return_moment(uint64_t t, uint64_t cpu,
                                                     uint64_t mark,
                                                     uint32_t taken)
{
    ips_me.cpu_last = cpu;
    return (struct ips_moment){t, cpu, mark, taken};
}
/* CPU times are not computed from a moment without a mark: it is no baseline.
 */
static struct ips_moment store_cpu_and_return_unmarked_moment(uint64_t t,
                                                              uint64_t cpu)
{
    return store_cpu_and_return_moment(t, cpu, IPS_MARK_NOT, 0);
}

/* Quiet mode, in which the clock cannot be read (agent/record/sys.h): a call of
 * IPS_BLOCKED_NS or more counts as waiting, all other time as CPU time. */
static struct ips_moment estimate_moment_without_syscalls(uint64_t t)
{
    uint64_t cpu = ips_max_u64(ips_cpu_now_without_syscalls(), ips_me.cpu_last);
    return store_cpu_and_return_moment(
        t, cpu, ips_core.cpu_marks ? IPS_MARK_NOT : t, 0);
}
static struct ips_moment
return_moment_without_syscalls(const struct ips_moment *call, uint64_t t)
{
    uint64_t took = ips_stamps_to_ns(t - call->t);
    uint64_t cpu = call->cpu + (took < IPS_BLOCKED_NS ? took : 0);
    return store_cpu_and_return_moment(t, ips_store_cpu_for_quiet_mode(cpu),
                                       ips_core.cpu_marks ? IPS_MARK_NOT : t,
                                       0);
}

static struct ips_moment take_moment_and_write_due_records(bool of_call)
{
    uint64_t t = ips_core_stamp_now();
    uint64_t last = ips_me.cpu_last;
    uint64_t cpu = ips_max_u64(read_thread_cpu_ns(), last);
    if (of_call)
        write_page_faults_if_off_core(ips_me.cpu.read_t, last, t, cpu);
    write_records_due(t, cpu);
    ips_me.cpu.read_t = t;
    return store_cpu_and_return_moment(t, cpu, ips_core_stamp_now(), 0);
}

static struct ips_moment take_moment_and_set_mark(bool of_call)
{
    uint32_t taken = ips_me.cpu_next;
    struct ips_cpu_slot *s = ips_cpu_own_slot_at_mark(*ips_cpu_mark_address());
    if (s) {
        uint64_t t0 = s->t0, cpu0 = s->cpu0;
        ips_barrier();
        uint64_t t = ips_core_stamp_now();
        if ((int64_t)(t - t0) < 0 && mark_is_valid(s, taken))
            return store_cpu_and_return_moment(
                t, cpu0, (uint64_t)(uintptr_t)s | IPS_MARK_NOT, taken);
    }
    struct cpu_baseline line = get_newest_baseline();
    struct clock_reading r = set_mark_and_read_cpu_clock();
    uint64_t last = ips_me.cpu_last; /* a signal handler may have changed it */
    bool stood = s && r.slot;
    struct ips_guess *g = &ips_me.cpu.guess;
    int64_t off =
        (int64_t)(r.cpu - expected_cpu_at_reading(&line, stood, &r, last));
    if (stood && g->blocks)
        ips_guess_learn_cpu_of_block(g, g->blocks,
                                     (int64_t)g->given_ns + off - g->off_read);
    start_guess_window_and_correct_reading(&r, r.t, off);
    set_baseline_by_reading(&r, last);
    if (of_call)
        write_page_faults_if_off_core(stamp_of_last_reported_cpu(&line, last),
                                      last, r.t, ips_max_u64(r.cpu, last));
    write_records_due(r.t, r.cpu);
    uint64_t t = ips_core_stamp_now();
    /* The new mark is already gone: a handler has read the clock, or the thread
     * was switched out. */
    if (!r.slot || !mark_is_valid(r.slot, r.mark_number))
        return store_cpu_and_return_unmarked_moment(t,
                                                    ips_max_u64(r.cpu, last));
    uint64_t cpu =
        ips_max_u64(compute_cpu_from_baseline(r.slot, t), r.slot->cpu0);
    uint64_t held = t < r.slot->t0 ? IPS_MARK_NOT : 0;
    return store_cpu_and_return_moment(
        t, cpu, (uint64_t)(uintptr_t)r.slot | held, r.mark_number);
}

/* Returns the current moment by reading the clock, most often after a switch
 * between two calls. If the thread used less than IPS_GUESS_NS of CPU time
 * since the last reading, the slave cannot infer this reading from the records
 * (slave/build/cost.c), so CALLS reports its cost. */
static inline __attribute__((always_inline)) struct ips_moment
take_moment_slow(bool of_call)
{
    if (__builtin_expect(ips_sys_quiet, 0))
        return estimate_moment_without_syscalls(ips_core_stamp_now());
    if (ips_is_unannounced_fork()) {
        uint64_t t = ips_core_stamp_now();
        return (struct ips_moment){t, read_thread_cpu_ns(), t | IPS_MARK_NOT,
                                   0};
    }
    const struct ips_agent_work apart = ips_agent_work_begin();
    uint64_t before = ips_me.cpu.read_cpu;
    struct ips_moment m = ips_core.cpu_marks
                              ? take_moment_and_set_mark(of_call)
                              : take_moment_and_write_due_records(of_call);
    if (ips_sub_sat(m.cpu, before) < IPS_GUESS_NS)
        ips_agent_work_add_to_overhead(&apart, 0);
    return m;
}
__attribute__((cold)) struct ips_moment ips_moment_now_slow(void)
{
    return take_moment_slow(false);
}
__attribute__((cold)) struct ips_moment ips_moment_of_call_slow(void)
{
    return take_moment_slow(true);
}

/* If marks are not used: a call shorter than IPS_BLOCKED_NS did not block, so
 * all of it was CPU time and the clock is not read. */
static struct ips_moment
compute_return_moment_without_marks(const struct ips_moment *call, uint64_t t)
{
    uint64_t after = call->mark;
    bool brief = t < after || ips_stamps_to_ns(t - after) < IPS_BLOCKED_NS;
    uint64_t cpu = brief ? call->cpu + ips_stamps_to_ns(ips_sub_sat(t, after))
                         : read_thread_cpu_ns();
    ips_me.cpu.read_t = t;
    ips_me.cpu.guess.switches += !brief;
    return store_cpu_and_return_moment(t, ips_max_u64(cpu, call->cpu), t, 0);
}

/* The mark in the rseq area survived the call, but its baseline is below the
 * CPU time reported so far. The call is reported as CPU time in full, and the
 * baseline is moved to a later stamp by the excess. */
static __attribute__((noinline)) struct ips_moment
return_moment_above_baseline(const struct ips_moment *call, uint64_t t,
                             struct ips_cpu_slot *s)
{
    uint64_t cpu = call->cpu + ips_stamps_to_ns(t - call->t);
    uint64_t clock = compute_cpu_from_baseline(s, t);
    if (cpu > clock)
        ips_set_baseline_or_remove_cpu_mark(&ips_me, s, call->mark_number,
                                            t + stamps_of_ns(cpu - clock), cpu);
    return store_cpu_and_return_moment(t, ips_max_u64(cpu, clock),
                                       (uint64_t)(uintptr_t)s | IPS_MARK_NOT,
                                       call->mark_number);
}

struct ips_moment
ips_moment_of_return_by_cpu_clock(const struct ips_moment *call, uint64_t t)
{
    struct ips_guess *g = &ips_me.cpu.guess;
    struct clock_reading r = set_mark_and_read_cpu_clock();
    g->switches++;
    uint64_t since = ips_stamps_to_ns(r.t - t),
             elapsed = ips_stamps_to_ns(t - call->t);
    /* page faults within the call belong to the call: do not report them */
    if (elapsed >= LONG_NS && ips_core.control->delays)
        ips_page_faults_skip_earlier();
    int64_t more = (int64_t)(ips_sub_sat(r.cpu, since) - call->cpu);
    int64_t took = more - g->off;
    uint64_t cost = took > 0 ? (uint64_t)took : 0;
    /* If the thread was switched out since the return, `cost` is too low, and
     * the rest counts for the next arc of the activity graph. That is better
     * than a blocking call that does not look like one. */
    bool good = since < MARK_NS * 10;
    if (good) {
        uint64_t each = ips_guess_learn_cpu_of_block(
            g, g->blocks + 1, more + (int64_t)g->given_ns - g->off_read);
        cost = g->blocks ? ips_guess_cap_cpu_of_block(each, elapsed) : cost;
    }
    cost = ips_guess_add_error_share(g, cost, elapsed);
    g->given_ns += g->blocks ? cost : 0;
    uint64_t cpu = call->cpu + cost;
    int64_t off = more - (int64_t)cost;
    /* The thread's CPU time since the return is at most the elapsed time
     * `since`. */
    if (!good)
        off = ips_max_i64(g->off, (int64_t)(r.cpu - cpu - since));
    start_guess_window_and_correct_reading(&r, t, off);
    set_baseline_by_reading(&r, cpu);
    write_records_due(t, cpu);
    if (!r.slot)
        return store_cpu_and_return_unmarked_moment(t, cpu);
    return store_cpu_and_return_moment(t, cpu, (uint64_t)(uintptr_t)r.slot,
                                       r.mark_number);
}

/* The mark in the rseq area survived a long call: reads the clock to learn how
 * much of the call was CPU time. */
static struct ips_moment
read_return_moment_of_long_call(const struct ips_moment *call, uint64_t t)
{
    struct clock_reading r = set_mark_and_read_cpu_clock();
    uint64_t since = ips_stamps_to_ns(r.t - t),
             elapsed = ips_stamps_to_ns(t - call->t);
    int64_t off = ips_me.cpu.guess.off;
    int64_t more = (int64_t)(ips_sub_sat(r.cpu, since) - call->cpu);
    uint64_t cost = more > off ? (uint64_t)(more - off) : 0;
    cost = ips_min_u64(cost, elapsed);
    uint64_t cpu = call->cpu + cost;
    /* CPU time used after a switch since the return belongs to the next arc. */
    start_guess_window_and_correct_reading(
        &r, t, since < MARK_NS * 10 ? more - (int64_t)cost : off);
    set_baseline_by_reading(&r, cpu);
    write_records_due(t, cpu);
    if (!r.slot)
        return store_cpu_and_return_unmarked_moment(t, cpu);
    return store_cpu_and_return_moment(t, cpu, (uint64_t)(uintptr_t)r.slot,
                                       r.mark_number);
}

__attribute__((cold)) struct ips_moment
ips_moment_of_return_slow(const struct ips_moment *call, uint64_t t)
{
    if (ips_is_unannounced_fork() || t < call->t)
        return (struct ips_moment){t, call->cpu, IPS_MARK_NOT, 0};
    if (__builtin_expect(ips_sys_quiet, 0))
        return return_moment_without_syscalls(call, t);
    if (!ips_core.cpu_marks)
        return compute_return_moment_without_marks(call, t);
    struct ips_cpu_slot *s = ips_cpu_own_slot_at_mark(*ips_cpu_mark_address());
    if (s &&
        (call->mark | IPS_MARK_NOT) ==
            ((uint64_t)(uintptr_t)s | IPS_MARK_NOT) &&
        ips_me.cpu_next == call->mark_number)
        return t - call->t < ips_core.cpu_limit
                   ? return_moment_above_baseline(call, t, s)
                   : read_return_moment_of_long_call(call, t);
    if (!s)
        return ips_moment_of_return_by_cpu_clock(call, t);
    /* There is a newer mark: a signal handler read the clock during the call.
     */
    uint64_t most = call->cpu + ips_stamps_to_ns(t - call->t);
    uint64_t cpu = ips_max_u64(compute_cpu_from_baseline(s, t), call->cpu);
    return store_cpu_and_return_unmarked_moment(t, ips_min_u64(cpu, most));
}

__attribute__((hot)) struct ips_moment
ips_moment_of_return_without_mark(const struct ips_moment *call, bool waits)
{
    struct ips_moment ret;
    ips_moment_of_return_if_switched_out(ips_this_thread(), call, waits, &ret);
    return ret;
}

uint64_t ips_cpu_read_clock_and_end_guesses(void)
{
    if (ips_is_unannounced_fork())
        return read_thread_cpu_ns();
    if (ips_sys_quiet)
        return estimate_moment_without_syscalls(ips_core_stamp_now()).cpu;
    struct cpu_baseline line = get_newest_baseline();
    bool stood = ips_cpu_own_slot_at_mark(*ips_cpu_mark_address()) != NULL;
    struct clock_reading r = set_mark_and_read_cpu_clock();
    uint64_t last = ips_me.cpu_last;
    struct ips_guess *g = &ips_me.cpu.guess;
    if (g->blocks)
        ips_guess_add_error_to_totals(
            g, (int64_t)(r.cpu - expected_cpu_at_reading(&line, stood && r.slot,
                                                         &r, last)));
    g->blocks = 0;
    start_guess_window_and_correct_reading(&r, r.t, 0);
    set_baseline_by_reading(&r, last);
    ips_me.cpu_last = ips_max_u64(r.cpu, last);
    return ips_me.cpu_last;
}

uint64_t ips_core_thread_cpu_ns(void)
{
    return ips_moment_now().cpu;
}
