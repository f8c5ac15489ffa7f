/*
 * Tests that ipsrun makes before the first run after a boot; POOL/clock keeps
 * the results. Does this kernel clear our mark in the rseq area whenever it
 * switches a thread out (agent/record/cpu.h)? How much CPU time does each kind
 * of probe cost on this machine? The tests run in a separate child process,
 * because the kernel may kill it for its mark and because it installs a signal
 * handler.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "agent/record/cpu.h"
#include "agent/record/io_event.h"
#include "agent/record/sys.h"
#include "common/daemon.h"

#define BATCH 200u
#define BATCHES 41u
#define ROOM (1u << 20)

/* --- the recording core, writing to private memory ------------------- */

static struct ips_control control;
static const uint64_t alive = 1;
static char *memory;

static void rewind_stream(void)
{
    struct ips_stream *s = &ips_me.stream;
    s->cur = s->tail = s->lo;
}

static bool init_core_on_private_memory(const struct ips_clock *clock)
{
    struct ips_stream *s = &ips_me.stream;
    memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    control.clock = *clock;
    control.cpu_mode = IPS_CPU_EXACT;
    ips_core.control = &control;
    ips_core.clock_kind = clock->kind;
    ips_core.mult = clock->mult_q32;
    ips_core.generation = 1;
    ips_core.main_stream = true;
    ips_core.alive = &alive;
    s->lo = (uint64_t)(uintptr_t)memory;
    s->limit = s->lo + ROOM;
    s->generation = 1;
    s->state = IPS_STREAM_BEGUN;
    rewind_stream();
    ips_cpu_init();
    return true;
}

/* --- does the mark show every switch? -------------------------------- */

static uint64_t count_context_switches(void)
{
    struct rusage ru;
    getrusage(RUSAGE_THREAD, &ru);
    return (uint64_t)(ru.ru_nvcsw + ru.ru_nivcsw);
}

static void pin_to_core(unsigned core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void migrate_to_another_core(void)
{
    cpu_set_t all;
    int here = sched_getcpu();
    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return;
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && (int)i != here) {
            pin_to_core(i);
            break;
        }
    sched_setaffinity(0, sizeof(all), &all);
}

static void sleep_briefly(void)
{
    struct timespec ts = {0, 50000};
    ips_sys6(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0, 0);
}

static void yield_core(void)
{
    ips_sys3(SYS_sched_yield, 0, 0, 0);
}

static void spin_briefly(void)
{
    for (volatile unsigned i = 0; i < 20000; i++)
        continue;
}

/* Did `action` switch the thread out although the mark survived? The readings
 * are ordered so that an additional, unintended switch never makes the result
 * true. Adds 1 to *switched if there was a switch. */
static bool mark_survives_switch(void (*action)(void), unsigned *switched)
{
    ips_cpu_read_clock_and_end_guesses(); /* sets a mark in the rseq area */
    uint64_t mark = *ips_cpu_mark_address(), before = count_context_switches();
    action();
    bool was = count_context_switches() != before;
    *switched += was;
    return was && mark && *ips_cpu_mark_address() == mark;
}

static bool test_cpu_mark_reliability(void)
{
    unsigned slept = 0, moved = 0, shared = 0;
    for (int i = 0; i < 5; i++)
        if (mark_survives_switch(sleep_briefly, &slept) ||
            mark_survives_switch(migrate_to_another_core, &moved))
            return false;
    /* Now with two processes that compete for one core. */
    cpu_set_t all;
    bool had = sched_getaffinity(0, sizeof(all), &all) == 0;
    pin_to_core((unsigned)sched_getcpu());
    pid_t me = getpid(), hog = fork();
    if (hog == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == me)
            spin_briefly();
        _exit(0);
    }
    bool good = true;
    for (int i = 0; hog > 0 && good && i < 200 && shared < 8; i++)
        good =
            !mark_survives_switch(i & 1 ? yield_core : spin_briefly, &shared);
    if (hog > 0) {
        kill(hog, SIGKILL);
        waitpid(hog, NULL, 0);
    }
    if (had)
        sched_setaffinity(0, sizeof(all), &all);
    return good && slept > 0;
}

/* --- the cost of a probe ---------------------------------------------- */

static void do_nothing(void)
{
    __asm__ volatile("" ::: "memory");
}

static void record_one_event(void)
{
    struct ips_moment m = ips_moment_now();
    struct ips_rec_text *r = (struct ips_rec_text *)ips_rec_begin_at(
        IPS_REC_MARK, sizeof(*r) + 8, m.t);
    if (!r)
        return;
    r->cpu = m.cpu;
    ips_rec_publish(r);
}

static void record_call(bool switched)
{
    struct ips_moment call = ips_moment_now();
    if (switched)
        *ips_cpu_mark_address() = 0;
    struct ips_moment ret = ips_moment_of_return(&call);
    (void)ips_io_write_record(IPS_REC_SEND, 1, IPS_OP_DATA, &call, &ret, 1, 0,
                              1, 0);
}

static void record_one_call(void)
{
    record_call(false);
}

static void record_one_lock_release(void)
{
    struct ips_moment call = ips_moment_now();
    struct ips_moment ret = ips_moment_of_return(&call);
    struct ips_rec_sync *r = (struct ips_rec_sync *)ips_rec_begin_at(
        IPS_REC_RELEASE, sizeof(*r), call.t);
    if (!r)
        return;
    r->t_ret = ret.t;
    r->cpu = call.cpu;
    r->cpu_ret = ret.cpu;
    r->object = 1;
    r->site = 1;
    ips_rec_publish(r);
}

static char used[64 << 10];
/* Replaces the contents of the data cache. This imitates a program that did
 * other work, so that the kernel's data for the clock is not in the cache. */
static void evict_data_cache(void)
{
    for (size_t i = 0; i < sizeof(used); i += 64)
        used[i]++;
    __asm__ volatile("" ::: "memory");
}

static void evict_cache_and_record_call_by_mark(void)
{
    evict_data_cache();
    record_call(false);
}

static void evict_cache_and_record_call_by_clock(void)
{
    evict_data_cache();
    record_call(true);
}

static void record_one_procedure_enter_and_exit(void)
{
    for (int i = 0; i < 2; i++) {
        struct ips_moment m;
        uint64_t left = ips_try_write_short_procedure_event(
            i ? IPS_REC_EXIT_SHORT : IPS_REC_ENTER_SHORT, 1);
        if (!left)
            continue;
        ips_short_record_give_back_if_reserved(left,
                                               sizeof(struct ips_rec_head));
        (void)ips_write_long_procedure_event(i ? IPS_REC_EXIT : IPS_REC_ENTER,
                                             1, &m);
    }
}

static void record_event_in_signal_handler(int sig)
{
    (void)sig;
    record_one_event();
}

static void raise_probe_signal(void)
{
    raise(SIGURG);
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Returns the cost of a call of `one` in ps. It is the lower quartile of the
 * batches, since other load on the machine only ever adds time. */
static uint64_t measure_cost_ps(void (*one)(void))
{
    uint64_t took[BATCHES];
    for (unsigned b = 0; b < BATCHES; b++) {
        rewind_stream();
        uint64_t start = ips_core_stamp_now();
        for (unsigned i = 0; i < BATCH; i++)
            one();
        took[b] = ips_stamps_to_ns(ips_core_stamp_now() - start);
        memset(memory, 0, BATCH * sizeof(struct ips_rec_sync));
    }
    qsort(took, BATCHES, sizeof(took[0]), compare_u64);
    return took[BATCHES / 4] * 1000 / BATCH;
}

static void measure_costs(struct ips_probe_measurements *m)
{
    uint64_t loop = measure_cost_ps(do_nothing);
    signal(SIGURG, record_event_in_signal_handler);
    const struct {
        enum ips_probe probe;
        void (*one)(void);
    } kinds[] = {
        {IPS_PROBE_EVENT, record_one_event},
        {IPS_PROBE_CALL, record_one_call},
        {IPS_PROBE_SAMPLE, raise_probe_signal},
        {IPS_PROBE_PROC, record_one_procedure_enter_and_exit},
        {IPS_PROBE_SYNC, record_one_lock_release},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        m->cost_ps[kinds[i].probe] =
            ips_sub_sat(measure_cost_ps(kinds[i].one), loop);
    m->cost_ps[IPS_PROBE_READ] =
        ips_sub_sat(measure_cost_ps(evict_cache_and_record_call_by_clock),
                    measure_cost_ps(evict_cache_and_record_call_by_mark));
    m->cost_ps[IPS_PROBE_STACK] = 2 * m->cost_ps[IPS_PROBE_EVENT];
    m->cost_ps[IPS_PROBE_IMAGE] = m->cost_ps[IPS_PROBE_FORK] =
        m->cost_ps[IPS_PROBE_SPAWN] = m->cost_ps[IPS_PROBE_SPARE_IMAGE] =
            m->cost_ps[IPS_PROBE_SPARE_FORK] = m->cost_ps[IPS_PROBE_EVENT];
    m->cost_ps[IPS_PROBE_THREAD] = m->cost_ps[IPS_PROBE_EVENT];
    m->cost_ps[IPS_PROBE_POLL] = m->cost_ps[IPS_PROBE_CALL];
    m->cost_ps[IPS_PROBE_FILE] = 2 * m->cost_ps[IPS_PROBE_EVENT];
    m->cost_ps[IPS_PROBE_COUNT] = m->cost_ps[IPS_PROBE_LOCK] = 1000;
}

static bool measure_marks_and_costs(const struct ips_clock *clock,
                                    struct ips_probe_measurements *out)
{
    struct ips_probe_measurements *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        if (!init_core_on_private_memory(clock))
            _exit(1);
        m->marks =
            IPS_MARKS_FAIL; /* the verdict if the kernel kills this process */
        if (!ips_core.cpu_marks)
            m->marks = IPS_MARKS_UNTRIED;
        else if (test_cpu_mark_reliability())
            m->marks = IPS_MARKS_WORK;
        else
            ips_core.cpu_marks = false;
        measure_costs(m);
        _exit(0);
    }
    int status = -1;
    bool ran = pid > 0 && waitpid(pid, &status, 0) == pid;
    *out = *m;
    munmap(m, sizeof(*m));
    if (ran && status == 0 && out->marks != IPS_MARKS_FAIL)
        ipsrun_measure_interposer_probe_costs(clock, out);
    /* If the kernel killed the child, the verdict on the marks is valid all the
     * same. */
    return ran && (status == 0 || out->marks == IPS_MARKS_FAIL);
}

struct measurement {
    const struct ips_clock *clock;
    bool ok;
    struct ips_probe_measurements m;
};

static void child_main_of_probe_measurement(void *arg)
{
    struct measurement *told = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    told->ok = measure_marks_and_costs(told->clock, &told->m);
}

/* Measures in a child whose CPU time is not added to this process's
 * RUSAGE_CHILDREN: this process becomes the command, and the command must not
 * see CPU time of children that it did not start. */
bool ipsrun_measure_probes(const struct ips_clock *clock,
                           struct ips_probe_measurements *out)
{
    struct measurement *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return false;
    told->clock = clock;
    bool ok = ips_run_outside_child_rusage(child_main_of_probe_measurement,
                                           told) == 0 &&
              told->ok;
    *out = told->m;
    munmap(told, sizeof(*told));
    return ok;
}
