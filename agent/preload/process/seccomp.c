/*
 * Handles programs that forbid themselves system calls or the time stamp
 * counter.
 *
 * Under a seccomp filter, a system call that only we make may fail or kill the
 * program, and a process cannot ask which calls a filter allows. So space for
 * records is reserved before a filter is installed, and from then on we make no
 * system call at all (agent/record/sys.h). As a result, new channels are not
 * identified, records that do not fit are lost and counted, CPU times are
 * estimates, and our exec wrapper starts a new image without our library. Like
 * the filter, this holds for the whole process and its descendants.
 *
 * chroot is wrapped as well: files of the pool that are not mapped yet may be
 * unreachable after it.
 *
 * The strict mode of seccomp forbids the time stamp counter as well, as
 * PR_SET_TSC does: nothing is recorded then.
 */
#include "agent/preload/wrap.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "agent/preload/sample/sample.h"
#include "agent/record/sys.h"

void ips_report_unrecorded_activity(const char *text)
{
    size_t n = strlen(text);
    uint64_t cpu = ips_core_thread_cpu_ns();
    struct ips_rec_text *rec = (struct ips_rec_text *)ips_rec_begin(
        IPS_REC_UNSEEN, sizeof(*rec) + n + 1);
    if (!rec)
        return;
    rec->h.a = (uint32_t)n;
    rec->cpu = cpu;
    memcpy(rec->text, text, n + 1);
    ips_rec_publish(rec);
}

bool ips_new_image_must_not_preload(void)
{
    return ips_sys_quiet || ips_me.vfork_filter;
}

void ips_set_vfork_has_seccomp_filter(bool on)
{
    ips_me.vfork_filter = on;
}

enum ips_forbids ips_classify_seccomp_operation(unsigned long operation)
{
    return operation == SECCOMP_SET_MODE_STRICT   ? IPS_FORBIDS_ALL
           : operation == SECCOMP_SET_MODE_FILTER ? IPS_FORBIDS_CALLS
                                                  : IPS_FORBIDS_NOTHING;
}

static enum ips_forbids classify_forbidding_prctl(int option,
                                                  unsigned long value)
{
    if (option == PR_SET_SECCOMP)
        return value == SECCOMP_MODE_STRICT   ? IPS_FORBIDS_ALL
               : value == SECCOMP_MODE_FILTER ? IPS_FORBIDS_CALLS
                                              : IPS_FORBIDS_NOTHING;
    return option == PR_SET_TSC && value == PR_TSC_SIGSEGV
               ? IPS_FORBIDS_ALL
               : IPS_FORBIDS_NOTHING;
}

bool ips_limit_recording_for_forbidden_calls(enum ips_forbids what)
{
    const bool before = ips_new_image_must_not_preload();
    if (what == IPS_FORBIDS_NOTHING || ips_core.wrap_state != IPS_WRAP_ON)
        return before;
    if (ips_me.in_vfork) {
        ips_me.vfork_filter = true;
        return before;
    }
    if (!before)
        ips_report_unrecorded_activity(
            what == IPS_FORBIDS_CALLS
                ? "seccomp filter: new channels, long runs, CPU time"
                : "strict seccomp, or no time stamp counter: everything");
    /* no more sampling signals: a signal handler returns by a system call */
    ips_sample_stop_for_good();
    if (what == IPS_FORBIDS_ALL) {
        ips_core.wrap_state = IPS_WRAP_OFF;
        ips_core_stop_recording();
    } else {
        ips_core_prepare_and_set_syscalls_forbidden(true);
    }
    return before;
}

/* Recording that was ended (IPS_FORBIDS_ALL) is not resumed even if the call
 * failed: the program has shown that it wants to forbid such calls. */
void ips_undo_limit_for_forbidden_calls(enum ips_forbids what, bool before)
{
    if (what != IPS_FORBIDS_CALLS || before)
        return;
    if (ips_me.in_vfork)
        ips_me.vfork_filter = false;
    else
        ips_core_prepare_and_set_syscalls_forbidden(false);
}

/* After chroot the pool's files may be unreachable. So the run's control file
 * with the shared counters, which may not be mapped yet, is mapped before. */
IPS_EXPORT int chroot(const char *path)
{
    if (ips_wrap_start_library_and_check_recording() && !ips_me.in_vfork)
        (void)ips_core_get_or_map_counters();
    return REAL(chroot)(path);
}

IPS_EXPORT int prctl(int option, ...)
{
    va_list ap;
    va_start(ap, option);
    unsigned long a = va_arg(ap, unsigned long);
    unsigned long b = va_arg(ap, unsigned long);
    unsigned long c = va_arg(ap, unsigned long);
    unsigned long d = va_arg(ap, unsigned long);
    va_end(ap);
    ips_wrap_start_library_and_check_recording();
    enum ips_forbids what = classify_forbidding_prctl(option, a);
    bool before = ips_limit_recording_for_forbidden_calls(what);
    int r = REAL(prctl)(option, a, b, c, d);
    if (r < 0)
        ips_undo_limit_for_forbidden_calls(what, before);
    return r;
}
