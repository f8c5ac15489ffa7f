/*
 * Writes PAGEFAULT: the thread slept for pages from the disk (a mapped file, a
 * program's own code, swapped memory). Such a sleep happens outside of recorded
 * calls, so it is noticed only afterwards: the thread was off its core, and the
 * kernel counted major faults of the thread. The slave computes the length of
 * the sleep from the records before and after (on_page_faults() in
 * slave/build/node.c).
 */
#include <sys/resource.h>

#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/sys.h"

/* Do the page faults explain all the sleeps? A major fault sleeps once, rarely
 * twice. If there are more sleeps than that (a quarter more), the thread also
 * slept for other reasons, such as a futex without a wrapper, and the time that
 * it waited for pages is unknown. */
static bool faults_explain_sleeps(int32_t faults, int32_t sleeps)
{
    return sleeps <= faults + faults / 4;
}

static bool read_fault_counts(struct rusage *ru)
{
    return !ips_sys_quiet &&
           ips_sys3(SYS_getrusage, RUSAGE_THREAD, (long)ru, 0) == 0;
}

void ips_page_faults_skip_earlier(void)
{
    struct rusage ru;
    if (read_fault_counts(&ru))
        ips_page_faults_store_seen_counts(&ru);
}

void ips_page_faults_store_seen_counts(const struct rusage *ru)
{
    ips_me.cpu.faults_seen = (uint32_t)ru->ru_majflt;
    ips_me.cpu.guess.switches = (uint32_t)ru->ru_nvcsw;
}

/* Are PAGEFAULT records wanted? Not without RUNDELAY records: the time that a
 * thread was ready to run could then not be distinguished from its sleeps. */
static bool may_write_page_faults(void)
{
    const struct ips_stream *s = &ips_me.stream;
    return ips_core.main_stream && *ips_core.alive != 0 && !ips_me.in_vfork &&
           !ips_me.own_table && s->state == IPS_STREAM_BEGUN &&
           s->generation == ips_core.generation && ips_core.control->delays;
}

void ips_page_faults_write_if_new_in_counts(const struct rusage *ru, uint64_t t,
                                            uint64_t cpu)
{
    int32_t faults =
        (int32_t)((uint32_t)ru->ru_majflt - ips_me.cpu.faults_seen);
    int32_t sleeps =
        (int32_t)((uint32_t)ru->ru_nvcsw - ips_me.cpu.guess.switches);
    if (!may_write_page_faults() ||
        faults < 0) /* < 0: a signal handler updated the counts */
        return;
    ips_page_faults_store_seen_counts(ru);
    if (faults == 0 || !faults_explain_sleeps(faults, sleeps))
        return;
    struct ips_rec_cpu *rec =
        ips_rec_begin_at(IPS_REC_PAGEFAULT, sizeof(*rec), t);
    if (!rec)
        return;
    rec->h.a = (uint32_t)faults;
    rec->cpu = cpu;
    ips_rec_publish(rec);
}

__attribute__((cold)) void ips_page_faults_write_if_any(uint64_t t,
                                                        uint64_t cpu)
{
    struct rusage ru;
    if (may_write_page_faults() && read_fault_counts(&ru))
        ips_page_faults_write_if_new_in_counts(&ru, t, cpu);
}
