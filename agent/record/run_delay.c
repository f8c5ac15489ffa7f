/*
 * Writes RUNDELAY: how long the thread has been runnable without running, as
 * counted by the kernel. The count is read where the CPU clock is read anyway,
 * and only if the thread was off its core since the last reading.
 */
#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"

/* If a thread hardly waited for a CPU (less than 1 / HARDLY of its time off the
 * core), its count is read less and less often, at least every EVERY_NS_MAX. */
#define EVERY_NS_MAX (16u * IPS_DELAY_EVERY_NS)
#define HARDLY 16u
/* Readings take at most 1 / COST_PART of the thread's CPU time. */
#define COST_PART 128u
#define COST_NS_FIRST 40000u /* assumed at first, for cold caches */
#define COST_NS_MAX 80000u   /* a longer reading was disturbed */
/* A shorter time off the core (ns) is not worth a reading. */
#define OFF_NS 50000u

/* true: the kernel does not report the run delay. Determined once per process.
 */
static bool never;

/* Parses /proc/.../schedstat: "CPU DELAY SLICES\n", in ns. Returns false if the
 * delay is unknown: a kernel that does not count it writes "0 0 0". */
static bool parse_schedstat(const char *text, long len, uint64_t *delay)
{
    uint64_t n[2] = {0, 0};
    int field = 0;
    for (long i = 0; i < len && field < 2; i++) {
        if (text[i] >= '0' && text[i] <= '9')
            n[field] = n[field] * 10 + (uint64_t)(text[i] - '0');
        else
            field++;
    }
    *delay = n[1];
    return field == 2 && n[0] > 0;
}

static bool read_run_delay_of_thread(uint64_t *delay)
{
    char path[64], text[64];
    if (!ips_build_proc_path_resolving_link(path, sizeof(path), "thread-self",
                                            "/schedstat")) {
        never = true;
        return false;
    }
    long len = ips_read_file_with_own_fd_table(path, text, sizeof(text));
    if (len < 0) { /* after a temporary shortage, try again later */
        never = len != -EMFILE && len != -ENFILE && len != -EINTR &&
                len != -EAGAIN && len != -ENOMEM && len != -ECHILD;
        return false;
    }
    if (!parse_schedstat(text, len, delay)) {
        never = true;
        return false;
    }
    return true;
}

static uint64_t off_core_ns_since_reading(uint64_t t, uint64_t cpu)
{
    uint64_t elapsed = ips_stamps_to_ns(t - ips_me.cpu.delay_t);
    return ips_sub_sat(elapsed, ips_sub_sat(cpu, ips_me.cpu.delay_cpu));
}

/* Adapts the interval between readings to how much the run delay grew. If a
 * signal handler has read the delay in between, the adaptation is slower but
 * still right. */
static void adapt_reading_interval(uint64_t delay, uint64_t off)
{
    uint64_t more = ips_sub_sat(delay, ips_me.cpu.delay_ns);
    uint64_t wait = ips_max_u64(ips_me.cpu.delay_wait, IPS_DELAY_EVERY_NS);
    wait = more >= off / HARDLY ? IPS_DELAY_EVERY_NS
                                : ips_min_u64(2 * wait, EVERY_NS_MAX);
    ips_me.cpu.delay_wait = (uint32_t)wait;
    ips_me.cpu.delay_ns = delay;
}

static void learn_reading_cost(uint64_t ns)
{
    uint64_t known =
        ips_me.cpu.delay_cost ? ips_me.cpu.delay_cost : COST_NS_FIRST;
    ips_me.cpu.delay_cost =
        (uint32_t)((3 * known + ips_min_u64(ns, COST_NS_MAX)) / 4 + 1);
}

static bool is_reading_affordable(uint64_t cpu)
{
    uint64_t cost =
        ips_me.cpu.delay_cost ? ips_me.cpu.delay_cost : COST_NS_FIRST;
    return ips_sub_sat(cpu, ips_me.cpu.delay_cpu) >= COST_PART * cost;
}

static void read_and_write_run_delay(uint64_t t, uint64_t cpu)
{
    uint64_t delay, off = off_core_ns_since_reading(t, cpu);
    ips_me.cpu.delay_t = t;
    ips_me.cpu.delay_cpu = cpu;
    uint64_t begun = ips_core_stamp_now();
    uint64_t signals = ips_sys_block_signals_small_stack();
    if (read_run_delay_of_thread(&delay)) {
        adapt_reading_interval(delay, off);
        uint64_t now = ips_core_stamp_now();
        learn_reading_cost(ips_stamps_to_ns(now - begun));
        struct ips_rec_delay *rec =
            ips_rec_begin_at(IPS_REC_RUNDELAY, sizeof(*rec), now);
        if (rec) {
            rec->h.a = (uint32_t)ips_min_u64(ips_stamps_to_ns(now - begun),
                                             UINT32_MAX);
            ips_me.said_ns += rec->h.a;
            rec->delay_ns = delay;
            ips_rec_publish(rec);
        }
    }
    ips_sys_restore_signals(signals);
}

static bool may_write_run_delay(void)
{
    const struct ips_stream *s = &ips_me.stream;
    return !never && !ips_sys_quiet && ips_core.main_stream &&
           !ips_me.in_vfork && s->state == IPS_STREAM_BEGUN &&
           s->generation == ips_core.generation;
}

/* The thread's run delay counts from the start of its stream. The kernel's
 * count for the run's command started earlier, with ipsrun, so it is recorded
 * once as a reference. */
static void init_run_delay_account(uint64_t t, uint64_t cpu)
{
    const struct ips_stream *s = &ips_me.stream;
    ips_me.cpu.delay_t = s->start_flags ? t : s->start_t;
    ips_me.cpu.delay_cpu = s->start_flags ? cpu : s->start_cpu;
    if (s->tid == ips_core.pid && ips_core.pid == ips_core.control->root_pid)
        read_and_write_run_delay(t, cpu);
}

__attribute__((cold)) void ips_run_delay_write_if_due(uint64_t t, uint64_t cpu)
{
    if (!may_write_run_delay())
        return;
    if (!ips_me.cpu.delay_t)
        init_run_delay_account(t, cpu);
    uint64_t every = ips_max_u64(IPS_DELAY_EVERY_NS, ips_me.cpu.delay_wait);
    if (ips_stamps_to_ns(t - ips_me.cpu.delay_t) >= every &&
        is_reading_affordable(cpu) &&
        off_core_ns_since_reading(t, cpu) >= OFF_NS)
        read_and_write_run_delay(t, cpu);
}

void ips_run_delay_write_last_if_due(uint64_t cpu)
{
    if (!ips_core.control || !ips_core.control->delays ||
        !may_write_run_delay())
        return;
    uint64_t t = ips_core_stamp_now();
    if (!ips_me.cpu.delay_t)
        init_run_delay_account(t, cpu);
    if (ips_stamps_to_ns(t - ips_me.cpu.delay_t) >= IPS_DELAY_EVERY_NS &&
        off_core_ns_since_reading(t, cpu) >= OFF_NS)
        read_and_write_run_delay(t, cpu);
}
