/*
 * Writes PAGEFAULT: the thread slept for pages from the disk (a mapped file, a
 * program's own code, swapped memory). Such a sleep is no call, so it is
 * noticed afterwards: the thread was off its core outside of calls, and the
 * kernel counted major faults of it. How long it slept follows from the times
 * of the records before and after (slave/build/page_faults.c).
 */
#include <sys/resource.h>

#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/sys.h"

/* A major fault sleeps once or twice: for the page, and for another thread that
 * is reading it. If the thread gave its core up more often than that, it slept
 * for other things as well (a futex without a wrapper), and how much of the
 * time was for pages is not known. */
#define SLEEPS_OF_FAULT 2u

static bool read_counts(struct rusage *ru)
{
    return !ips_sys_quiet &&
           ips_sys3(SYS_getrusage, RUSAGE_THREAD, (long)ru, 0) == 0;
}

void ips_page_faults_begin(void)
{
    struct rusage ru;
    if (!read_counts(&ru))
        return;
    ips_me.cpu.faults_seen = (uint32_t)ru.ru_majflt;
    ips_me.cpu.guess.switches = (uint32_t)ru.ru_nvcsw;
}

__attribute__((cold)) void ips_page_faults_write_if_any(uint64_t t,
                                                        uint64_t cpu)
{
    const struct ips_stream *s = &ips_me.stream;
    struct rusage ru;
    if (!ips_core.main_stream || ips_me.in_vfork || ips_me.own_table ||
        s->state != IPS_STREAM_BEGUN || s->generation != ips_core.generation ||
        !read_counts(&ru))
        return;
    uint32_t faults = (uint32_t)ru.ru_majflt - ips_me.cpu.faults_seen;
    int32_t sleeps =
        (int32_t)((uint32_t)ru.ru_nvcsw - ips_me.cpu.guess.switches);
    ips_me.cpu.faults_seen = (uint32_t)ru.ru_majflt;
    ips_me.cpu.guess.switches = (uint32_t)ru.ru_nvcsw;
    if (!faults || sleeps > (int64_t)SLEEPS_OF_FAULT * faults)
        return;
    struct ips_rec_cpu *rec =
        ips_rec_begin_at(IPS_REC_PAGEFAULT, sizeof(*rec), t);
    if (!rec)
        return;
    rec->h.a = faults;
    rec->cpu = cpu;
    ips_rec_publish(rec);
}
