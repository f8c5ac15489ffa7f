/*
 * Wrappers of the wait family. Every wait also asks the kernel for the child's
 * CPU time (rusage). A child that stopped or continued is recorded as a SIGCHLD
 * that was waited for: BLOCK and SIGNAL. A wait that finds nothing yet
 * (WNOHANG) leaves no record of its own.
 */
#include "agent/preload/at.h"
#include "agent/preload/tries.h"

#include "agent/record/sys.h"

static _Atomic uint32_t reaped;

static uint64_t rusage_to_cpu_ns(const struct rusage *ru)
{
    return ((uint64_t)ru->ru_utime.tv_sec + (uint64_t)ru->ru_stime.tv_sec) *
               1000000000u +
           ((uint64_t)ru->ru_utime.tv_usec + (uint64_t)ru->ru_stime.tv_usec) *
               1000u;
}

static uint64_t reaped_children_cpu_ns(void)
{
    struct rusage ru;
    memset(&ru, 0, sizeof(ru));
    ips_sys3(SYS_getrusage, RUSAGE_CHILDREN, (long)&ru, 0);
    return rusage_to_cpu_ns(&ru);
}

struct ips_reap ips_reap_take_snapshot(void)
{
    return (struct ips_reap){reaped_children_cpu_ns(), atomic_load(&reaped)};
}

uint64_t ips_count_reaped_child_and_get_its_cpu(struct ips_reap since)
{
    if (reaped_children_cpu_ns() == since.cpu_ns)
        return 0;
    uint32_t count = atomic_fetch_add(&reaped, 1);
    return count == since.count ? reaped_children_cpu_ns() - since.cpu_ns
                                : ~0ull;
}

/* To be called when a wait for `which` has reaped a child: records the thread's
 * earlier waits with WNOHANG that found none, if it slept between them. */
static void record_failed_tries_before_reap(pid_t which, int options,
                                            struct ips_moment call,
                                            uint64_t site)
{
    struct ips_retry_series run;
    if (options & WNOHANG &&
        ips_retry_end_and_get_series(IPS_RETRY_CHILD, (uint64_t)which, &run))
        ips_retry_write_series_record(&run, call, site);
}

/* Converts waitid's arguments to the argument `pid` of waitpid. */
static pid_t waitid_to_waitpid_argument(idtype_t type, id_t id)
{
    return type == P_PID ? (pid_t)id : type == P_PGID ? (pid_t)(0u - id) : -1;
}

static void record_wait_and_sigchld_of_child(pid_t child, int code,
                                             struct ips_moment call,
                                             uint64_t site)
{
    int saved = errno;
    struct ips_moment ret = ips_record_wait_if_blocked_or_ready(
        IPS_OP_SIGWAIT, call, child, 0, site, 0);
    ips_record_signal_taken(IPS_SIGNAL_WAIT, SIGCHLD, code, child, 0, ret);
    errno = saved;
}

/* Records a wait that failed because no child is left (SIGCHLD is ignored, so
 * the kernel discards ended children), or because a signal interrupted it. */
static void record_failed_child_wait(struct ips_moment call, pid_t child,
                                     uint64_t site)
{
    int saved = errno;
    uint32_t which = child > 0 ? (uint32_t)child : 0;
    ips_record_wait_if_blocked_or_ready(
        IPS_OP_CHILD, call, -1, saved, site,
        ips_pack_ready_object_and_events(IPS_READY(IPS_READY_PIDFD, which), 0));
    errno = saved;
}

/* Whether the child was stopped by a job control signal and the caller asked
 * for stops. Stops by other signals do not count: only a debugger sees them. */
static bool is_reported_stop(int status, int options)
{
    int sig = WSTOPSIG(status);
    return options & WUNTRACED && WIFSTOPPED(status) &&
           (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN ||
            sig == SIGTTOU);
}

static pid_t call_wait4_and_record(pid_t pid, int *status, int options,
                                   struct rusage *ru, uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(wait4)(pid, status, options, ru);
    int own_status = 0;
    struct rusage own;
    status = status ? status : &own_status;
    /* cppcheck-suppress uninitvar ; wait4 fills it */
    ru = ru ? ru : &own;
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_JOIN_BEGINS(pid > 0 ? (uint32_t)pid : 0, 0, site, call);
    pid_t r = REAL(wait4)(pid, status, options, ru);
    if (r > 0 && (WIFEXITED(*status) || WIFSIGNALED(*status))) {
        int saved = errno;
        atomic_fetch_add(&reaped, 1);
        record_failed_tries_before_reap(pid, options, call, site);
        ips_record_join(IPS_JOIN_WAIT, (uint32_t)r, 0, call,
                        rusage_to_cpu_ns(ru), (uint32_t)*status, site);
        ips_count_child_join();
        errno = saved;
    } else if (r > 0 &&
               (is_reported_stop(*status, options) || WIFCONTINUED(*status))) {
        record_wait_and_sigchld_of_child(
            r, WIFSTOPPED(*status) ? CLD_STOPPED : CLD_CONTINUED, call, site);
    } else if (r < 0) {
        record_failed_child_wait(call, pid, site);
    } else if (r == 0 && options & WNOHANG) {
        ips_retry_count_failed_try(IPS_RETRY_CHILD, (uint64_t)pid, &call);
    }
    return r;
}

IPS_EXPORT pid_t wait(int *status)
{
    return call_wait4_and_record(-1, status, 0, NULL, IPS_SITE);
}
pid_t __wait(int *) IPS_ALIAS(wait);

IPS_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
    return call_wait4_and_record(pid, status, options, NULL, IPS_SITE);
}
pid_t __waitpid(pid_t, int *, int) IPS_ALIAS(waitpid);

IPS_EXPORT pid_t wait3(int *status, int options, struct rusage *ru)
{
    return call_wait4_and_record(-1, status, options, ru, IPS_SITE);
}

IPS_EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *ru)
{
    return call_wait4_and_record(pid, status, options, ru, IPS_SITE);
}

static bool is_siginfo_of_ended_child(const siginfo_t *info)
{
    return info->si_pid &&
           (info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
            info->si_code == CLD_DUMPED);
}

static uint32_t siginfo_to_wait_status(const siginfo_t *info)
{
    uint32_t value = (uint32_t)info->si_status;
    return info->si_code == CLD_EXITED   ? (value & 0xff) << 8
           : info->si_code == CLD_DUMPED ? (value & 0x7f) | 0x80
                                         : value & 0x7f;
}

/* Makes and records a waitid with WNOWAIT. It does not reap the child, so it is
 * recorded like a wait for a signal. */
static int call_waitid_nowait_and_record(idtype_t type, id_t id, siginfo_t *out,
                                         int options, uint64_t site)
{
    siginfo_t own;
    /* cppcheck-suppress uninitvar ; waitid fills it */
    siginfo_t *info = out ? out : &own;
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_JOIN_BEGINS(type == P_PID ? (uint32_t)id : 0, 0, site, call);
    int r = REAL(waitid)(type, id, info, options);
    if (r < 0)
        record_failed_child_wait(call, type == P_PID ? (pid_t)id : 0, site);
    else if (is_siginfo_of_ended_child(info))
        record_wait_and_sigchld_of_child(info->si_pid, info->si_code, call,
                                         site);
    return r;
}

/* Records the state of a child that a waitid for `which`, begun at `call`,
 * reported: the child ended, stopped or continued. */
static void record_child_state(const siginfo_t *info, int options, pid_t which,
                               struct ips_moment call, const struct rusage *ru,
                               uint64_t site)
{
    bool stops = info->si_code == CLD_STOPPED || info->si_code == CLD_CONTINUED;
    if (is_siginfo_of_ended_child(info) && !(options & WNOWAIT)) {
        atomic_fetch_add(&reaped, 1);
        record_failed_tries_before_reap(which, options, call, site);
        ips_record_join(IPS_JOIN_WAIT, (uint32_t)info->si_pid, 0, call,
                        rusage_to_cpu_ns(ru), siginfo_to_wait_status(info),
                        site);
        ips_count_child_join();
    } else if (is_siginfo_of_ended_child(info) ||
               (stops && !(options & WNOWAIT))) {
        record_wait_and_sigchld_of_child(info->si_pid, info->si_code, call,
                                         site);
    }
}

/* Makes and records the system call waitid with its fifth argument, a rusage,
 * which libc's waitid does not have. */
long ips_waitid_with_usage_at(const long args[6], uint64_t site)
{
    siginfo_t own = {0};
    siginfo_t *info = args[2] ? (siginfo_t *)(uintptr_t)args[2] : &own;
    idtype_t type = (idtype_t)args[0];
    pid_t which = waitid_to_waitpid_argument(type, (id_t)args[1]);
    int options = (int)args[3];
    IPS_CALL_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_JOIN_BEGINS(type == P_PID ? (uint32_t)which : 0, 0, site, call);
    long r = REAL(syscall)(SYS_waitid, args[0], args[1], info, args[3], args[4],
                           args[5]);
    int saved = errno;
    if (r < 0)
        record_failed_child_wait(call, type == P_PID ? which : 0, site);
    else if (!info->si_pid)
        ips_retry_count_failed_try(IPS_RETRY_CHILD, (uint64_t)which, &call);
    else
        record_child_state(info, options, which, call,
                           (const struct rusage *)(uintptr_t)args[4], site);
    errno = saved;
    return r;
}

/* libc's waitid returns no rusage. The kernel's does, but is not a cancellation
 * point. So libc's is called first, with WNOWAIT; then the kernel's reaps the
 * child that the first call reported. If another thread reaped that child in
 * between, both calls are repeated, just as the kernel would go on waiting. If
 * `out` cannot be written, the kernel fails only after it has reaped the child,
 * so the child is reaped here, too. Only the kernel writes to `out`; it sets
 * si_pid to 0 if there is no child. */
int ips_waitid_at(idtype_t type, id_t id, siginfo_t *out, int options,
                  uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording() || ips_sys_quiet)
        return REAL(waitid)(type, id, out, options);
    if (options & WNOWAIT)
        return call_waitid_nowait_and_record(type, id, out, options, site);
    siginfo_t own;
    /* cppcheck-suppress uninitvar ; waitid fills it */
    siginfo_t *info = out ? out : &own;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_JOIN_BEGINS(type == P_PID ? (uint32_t)id : 0, 0, site, call);
    for (;;) {
        int r = REAL(waitid)(type, id, info, options | WNOWAIT);
        if (r < 0 && errno == EFAULT)
            ips_sys6(SYS_waitid, type, (long)id, (long)info, options | WNOHANG,
                     0, 0);
        if (r < 0)
            record_failed_child_wait(call, type == P_PID ? (pid_t)id : 0, site);
        else if (!info->si_pid)
            ips_retry_count_failed_try(
                IPS_RETRY_CHILD, (uint64_t)waitid_to_waitpid_argument(type, id),
                &call);
        if (r < 0 || !info->si_pid)
            return r;
        struct rusage ru;
        memset(&ru, 0, sizeof(ru));
        int saved = errno;
        long taken = ips_sys6(SYS_waitid, P_PID, (long)info->si_pid, (long)info,
                              options | WNOHANG, (long)&ru, 0);
        if (taken < 0 || !info->si_pid)
            continue;
        record_child_state(info, options, waitid_to_waitpid_argument(type, id),
                           call, &ru, site);
        errno = saved;
        return 0;
    }
}

IPS_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *out, int options)
{
    return ips_waitid_at(type, id, out, options, IPS_SITE);
}

pid_t ips_wait4_at(pid_t pid, int *status, int options, struct rusage *ru,
                   uint64_t site)
{
    return call_wait4_and_record(pid, status, options, ru, site);
}
