/*
 * Signals: records which thread sends one (KILL), and which handler takes it
 * (SIGNAL).
 *
 * In place of the program's handler we install a stub. It records the signal
 * and jumps to the program's handler with the same three arguments. It leaves
 * no frame, so stack and return address are as the kernel made them. There are
 * STUBS stubs. Each belongs permanently to one pair (handler, whether the
 * program gave SA_SIGINFO), for any number of signals.
 *
 * So all state stays in the kernel: mask, flags, SA_RESETHAND, and the rules
 * for fork and exec. A vfork child, or another thread that sets a handler at
 * the same time, can only add a stub, and the old action that sigaction returns
 * is translated from its stub alone. If a program has more handlers than there
 * are stubs, the kernel calls the others directly and their signals are not
 * recorded.
 *
 * The kernel gives siginfo (the sender) only with SA_SIGINFO, so a stub always
 * sets that flag. Signals of faults are left alone: programs rely on their
 * handlers to compute (null checks, guard pages).
 *
 * Async-signal-safe throughout, as sigaction is.
 */
#include "agent/preload/tries.h"
#include "agent/preload/wrap.h"

#include "agent/preload/sample/sample.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

#ifndef SA_INTERRUPT
#define SA_INTERRUPT 0x20000000
#endif

typedef void handler_fn(int, siginfo_t *, void *);

/* --- stubs for signal handlers -------------------------------------------- */

#define STUBS 128u
/* The key of each stub: handler << 1 | plain, where plain is 1 if the program
 * gave no SA_SIGINFO. 0: the stub is free. Written once. */
static _Atomic uint64_t key_of_stub[STUBS] IPS_TABLE;

static uint64_t stub_key_of_handler(const void *handler, bool plain)
{
    return (uint64_t)(uintptr_t)handler << 1 | plain;
}

static __attribute__((noinline)) void
record_handler_signal(int sig, const siginfo_t *info, const void *context)
{
    ips_mark_whether_open_call_waits(context);
    ips_sample_store_sp_of_interrupted_syscall(context);
    struct ips_moment at = {.t = ips_core_stamp_now(),
                            .cpu = ips_core_thread_cpu_ns()};
    ips_record_signal_taken(IPS_SIGNAL_HANDLER, sig, info->si_code,
                            info->si_pid,
                            ips_choose_signal_value_by_code(
                                sig, info->si_code, info->si_fd, info->si_band,
                                (uint64_t)(uintptr_t)info->si_value.sival_ptr),
                            at);
}

static __attribute__((noinline)) void
record_and_call_handler(int sig, siginfo_t *info, void *context, unsigned i)
{
    uint64_t key = atomic_load_explicit(&key_of_stub[i], memory_order_relaxed);
    handler_fn *handler = (handler_fn *)(uintptr_t)(key >> 1);
    ips_me.handlers_run++;
    if (likely(ips_core.wrap_state == IPS_WRAP_ON && !ips_me.in_vfork))
        record_handler_signal(sig, info, context);
    /* A tail call: this frame is gone when the handler runs. */
    handler(sig, info, context);
}

#define S1(a, b)                                                               \
    static __attribute__((used)) void stub_##a##b(int sig, siginfo_t *info,    \
                                                  void *context)               \
    {                                                                          \
        record_and_call_handler(sig, info, context, 0x##a##b);                 \
    }
#define S16(hi)                                                                \
    S1(hi, 0)                                                                  \
    S1(hi, 1)                                                                  \
    S1(hi, 2)                                                                  \
    S1(hi, 3)                                                                  \
    S1(hi, 4)                                                                  \
    S1(hi, 5)                                                                  \
    S1(hi, 6)                                                                  \
    S1(hi, 7)                                                                  \
    S1(hi, 8)                                                                  \
    S1(hi, 9)                                                                  \
    S1(hi, a)                                                                  \
    S1(hi, b)                                                                  \
    S1(hi, c)                                                                  \
    S1(hi, d)                                                                  \
    S1(hi, e)                                                                  \
    S1(hi, f)
S16(0)
S16(1)
S16(2)
S16(3)
S16(4)
S16(5)
S16(6)
S16(7)
#undef S16
#undef S1

/* Offsets of the stubs, each relative to its own entry, so that the loader has
 * nothing to relocate in a table that hardly any program reads. */
#define N1(s) "    .long stub_" s " - .\n"
#define N16(hi)                                                                \
    N1(hi "0")                                                                 \
    N1(hi "1")                                                                 \
    N1(hi "2")                                                                 \
    N1(hi "3")                                                                 \
    N1(hi "4")                                                                 \
    N1(hi "5")                                                                 \
    N1(hi "6")                                                                 \
    N1(hi "7")                                                                 \
    N1(hi "8")                                                                 \
    N1(hi "9")                                                                 \
    N1(hi "a")                                                                 \
    N1(hi "b")                                                                 \
    N1(hi "c")                                                                 \
    N1(hi "d")                                                                 \
    N1(hi "e")                                                                 \
    N1(hi "f")
__asm__(".pushsection .rodata.stub_places, \"a\"\n"
        ".p2align 2\n"
        "stub_places:\n" N16("0") N16("1") N16("2") N16("3") N16("4") N16("5")
            N16("6") N16("7") ".popsection\n");
#undef N16
#undef N1
extern const int32_t stub_places[STUBS] IPS_HIDDEN;

static handler_fn *stub_at(unsigned i)
{
    intptr_t at = (intptr_t)&stub_places[i] + stub_places[i];
    return (handler_fn *)(uintptr_t)at;
}

/* Returns the stub for `handler`; claims a free stub if it has none yet.
 * Returns `handler` itself if all stubs are taken. */
static handler_fn *get_or_claim_stub(handler_fn *handler, bool plain)
{
    uint64_t key = stub_key_of_handler((const void *)(uintptr_t)handler, plain);
    for (unsigned i = 0; i < STUBS; i++) {
        uint64_t has = atomic_load(&key_of_stub[i]);
        if (has == 0 &&
            atomic_compare_exchange_strong(&key_of_stub[i], &has, key))
            return stub_at(i);
        if (has == key)
            return stub_at(i);
    }
    return handler;
}

/* Returns the key of the program's handler to which the stub `handler` belongs;
 * 0: `handler` is not one of our stubs. */
static uint64_t find_stub_key(handler_fn *handler)
{
    for (unsigned i = 0; i < STUBS; i++) {
        uint64_t key =
            atomic_load_explicit(&key_of_stub[i], memory_order_relaxed);
        if (key == 0)
            return 0;
        if (stub_at(i) == handler)
            return key;
    }
    return 0;
}

static bool is_handler_function(const void *handler)
{
    return (uintptr_t)handler > 2 && (intptr_t)handler != -1;
}

static bool is_valid_non_fault_signal(int sig)
{
    return sig > 0 && sig < NSIG && sig != SIGSEGV && sig != SIGBUS &&
           sig != SIGFPE && sig != SIGILL && sig != SIGTRAP && sig != SIGSYS;
}

/* --- setting handlers ----------------------------------------------------- */

/* A bit for each signal whose handler the program set with SA_RESETHAND and
 * without SA_SIGINFO. The kernel removes such a handler when it is called, but
 * keeps its flags, among them the SA_SIGINFO that we added. */
static _Atomic uint64_t plain_resets;

static void store_siginfo_flag_if_resethand(int sig,
                                            const struct sigaction *act)
{
    uint64_t bit = (uint64_t)1 << (sig - 1);
    if (!(act->sa_flags & (int)SA_RESETHAND))
        return;
    if (act->sa_flags & SA_SIGINFO)
        atomic_fetch_and(&plain_resets, ~bit);
    else
        atomic_fetch_or(&plain_resets, bit);
}

/* Translates *old, the action that the kernel returned, to the action that the
 * program had set. */
static void replace_stub_in_old_action(int sig, struct sigaction *old)
{
    uint64_t key = find_stub_key(old->sa_sigaction);
    bool gone = old->sa_handler == SIG_DFL &&
                old->sa_flags & (int)SA_RESETHAND && sig > 0 && sig < NSIG;
    if (key)
        old->sa_sigaction = (handler_fn *)(uintptr_t)(key >> 1);
    if (key & 1 || (gone && atomic_load(&plain_resets) >> (sig - 1) & 1))
        old->sa_flags &= ~SA_SIGINFO;
    ips_sample_set_signal_in_mask(&old->sa_mask, false);
}

IPS_EXPORT int sigaction(int sig, const struct sigaction *act,
                         struct sigaction *old)
{
    struct sigaction mine;
    bool on = ips_wrap_start_library_and_check_recording();
    if (on && act && is_valid_non_fault_signal(sig) &&
        is_handler_function((const void *)(uintptr_t)act->sa_sigaction)) {
        mine = *act;
        mine.sa_sigaction =
            get_or_claim_stub(act->sa_sigaction, !(act->sa_flags & SA_SIGINFO));
        if (mine.sa_sigaction != act->sa_sigaction)
            mine.sa_flags |= SA_SIGINFO;
        store_siginfo_flag_if_resethand(sig, act);
        act = &mine;
    }
    if (on && act && act->sa_flags & SA_ONSTACK && act != &mine) {
        mine = *act;
        act = &mine;
    }
    if (act == &mine && mine.sa_flags & SA_ONSTACK)
        ips_sample_set_signal_in_mask(&mine.sa_mask, true);
    int r = REAL(sigaction)(sig, act, old);
    if (r == 0 && old)
        replace_stub_in_old_action(sig, old);
    return r;
}
int __sigaction(int, const struct sigaction *, struct sigaction *)
    IPS_ALIAS(sigaction);

/* Translates the previous handler that signal() or sigset() returned to the one
 * that the program had set. */
static __sighandler_t translate_stub_to_program_handler(__sighandler_t old)
{
    handler_fn *fn;
    memcpy(&fn, &old, sizeof(fn));
    uint64_t key = find_stub_key(fn);
    if (key) {
        fn = (handler_fn *)(uintptr_t)(key >> 1);
        memcpy(&old, &fn, sizeof(old));
    }
    return old;
}

static bool must_wrap_handler(int sig, __sighandler_t handler)
{
    return ips_wrap_start_library_and_check_recording() &&
           is_valid_non_fault_signal(sig) &&
           is_handler_function((const void *)(uintptr_t)handler);
}

/* Sets a handler on behalf of signal, sysv_signal or sigset, which cannot ask
 * for siginfo. Uses sigaction, as libc does. Returns the old handler, or
 * SIG_ERR. */
static __sighandler_t set_handler_by_sigaction(int sig, __sighandler_t handler,
                                               int flags, bool masked)
{
    struct sigaction act = {.sa_flags = flags}, old;
    act.sa_handler = handler;
    sigemptyset(&act.sa_mask);
    if (masked)
        sigaddset(&act.sa_mask, sig);
    return sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* a bit for each signal for which the program called siginterrupt(sig, true) */
static _Atomic uint64_t interrupts;

IPS_EXPORT int siginterrupt(int sig, int interrupt)
{
    ips_wrap_start_library_and_check_recording();
    int r = REAL(siginterrupt)(sig, interrupt);
    if (r == 0 && sig > 0 && sig < NSIG) {
        uint64_t bit = (uint64_t)1 << (sig - 1);
        if (interrupt)
            atomic_fetch_or(&interrupts, bit);
        else
            atomic_fetch_and(&interrupts, ~bit);
    }
    return r;
}

IPS_EXPORT __sighandler_t signal(int sig, __sighandler_t handler)
{
    if (!must_wrap_handler(sig, handler))
        return translate_stub_to_program_handler(REAL(signal)(sig, handler));
    bool restart = !(atomic_load(&interrupts) >> (sig - 1) & 1);
    return set_handler_by_sigaction(sig, handler, restart ? SA_RESTART : 0,
                                    true);
}
__sighandler_t bsd_signal(int, __sighandler_t) IPS_ALIAS(signal);
__sighandler_t ssignal(int, __sighandler_t) IPS_ALIAS(signal);

IPS_EXPORT __sighandler_t __sysv_signal(int sig, __sighandler_t handler)
{
    if (!must_wrap_handler(sig, handler))
        return translate_stub_to_program_handler(
            REAL(__sysv_signal)(sig, handler));
    return set_handler_by_sigaction(
        sig, handler, (int)SA_RESETHAND | SA_NODEFER | SA_INTERRUPT, false);
}
__sighandler_t sysv_signal(int, __sighandler_t) IPS_ALIAS(__sysv_signal);

IPS_EXPORT __sighandler_t sigset(int sig, __sighandler_t handler)
{
    /* The real call also serves SIG_HOLD, which only queries the handler and
     * blocks the signal. */
    if (!must_wrap_handler(sig, handler))
        return translate_stub_to_program_handler(REAL(sigset)(sig, handler));
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, sig);
    __sighandler_t r = set_handler_by_sigaction(sig, handler, 0, false);
    if (r == SIG_ERR || sigprocmask(SIG_UNBLOCK, &set, &old) < 0)
        return SIG_ERR;
    return sigismember(&old, sig) ? SIG_HOLD : r;
}

/* --- KILL and SIGNAL records ---------------------------------------------- */

static void write_signal_or_kill_record(enum ips_rec_type type,
                                        enum ips_signal_how how, int sig,
                                        int code, int32_t pid, int32_t tid,
                                        uint64_t value, struct ips_moment at,
                                        uint64_t site)
{
    bool kill = type == IPS_REC_KILL;
    struct ips_rec_signal *rec = (struct ips_rec_signal *)ips_rec_begin_at(
        type, sizeof(*rec) + (kill ? IPS_REC_SITE_BYTES : 0), at.t);
    if (!rec)
        return;
    rec->h.a = (uint32_t)sig;
    rec->cpu = at.cpu;
    rec->pid = pid;
    rec->tid = tid;
    rec->code = code;
    rec->how = how;
    rec->value = value;
    rec->t_ret = at.t;
    if (kill)
        ips_rec_put_site(rec, sizeof(*rec), site);
    ips_rec_publish(rec);
    if (kill)
        ips_module_record_once(site);
}

/* Whether the si_pid of a signal with this si_code is its sender, or the child
 * of a SIGCHLD. */
static bool has_valid_sender_pid(int sig, int code)
{
    return code == SI_USER || code == SI_TKILL || code == SI_QUEUE ||
           code == SI_MESGQ || (sig == SIGCHLD && code > 0 && code < SI_KERNEL);
}

void ips_record_signal_taken(enum ips_signal_how how, int sig, int code,
                             int32_t pid, uint64_t value, struct ips_moment at)
{
    write_signal_or_kill_record(IPS_REC_SIGNAL, how, sig, code,
                                has_valid_sender_pid(sig, code) ? pid : 0, 0,
                                value, at, 0);
}

/* Writes a KILL record, before the real call: a signal to the calling thread is
 * taken inside that call. If the call fails, no SIGNAL matches this record. */
static void record_signal_sent(enum ips_signal_how how, int sig, int32_t pid,
                               int32_t tid, uint64_t value, uint64_t site)
{
    /* signal 0 only tests whether the process exists */
    if (sig == 0 || !ips_wrap_start_library_and_check_recording())
        return;
    struct ips_moment at = {.t = ips_core_stamp_now(),
                            .cpu = ips_core_thread_cpu_ns()};
    write_signal_or_kill_record(IPS_REC_KILL, how, sig, 0, pid, tid, value, at,
                                site);
}

/* --- calls that send signals ---------------------------------------------- */

/* Calls kill(pid, 0), which only tests whether the process exists, and notes
 * the result. */
static int test_process_and_record_result(pid_t pid, uint64_t site)
{
    struct ips_moment call = ips_take_call_moment();
    int r = REAL(kill)(pid, 0), saved = errno;
    if (pid > 0 && ips_wrap_start_library_and_check_recording())
        ips_record_or_count_process_test(pid, r == 0 || saved == EPERM, call,
                                         site);
    errno = saved;
    return r;
}

IPS_EXPORT int kill(pid_t pid, int sig)
{
    if (sig == 0 && ips_wrap_start_library_and_check_recording())
        return test_process_and_record_result(pid, IPS_SITE);
    record_signal_sent(IPS_KILL_PROCESS, sig, pid, 0, 0, IPS_SITE);
    return ips_wrap_start_library_and_check_recording(), REAL(kill)(pid, sig);
}

IPS_EXPORT int killpg(pid_t group, int sig)
{
    record_signal_sent(IPS_KILL_PROCESS, sig, -group, 0, 0, IPS_SITE);
    return ips_wrap_start_library_and_check_recording(),
           REAL(killpg)(group, sig);
}

IPS_EXPORT int raise(int sig)
{
    record_signal_sent(IPS_KILL_THREAD, sig, (int32_t)ips_sys_getpid(),
                       (int32_t)ips_sys_gettid(), 0, IPS_SITE);
    return ips_wrap_start_library_and_check_recording(), REAL(raise)(sig);
}
int gsignal(int) IPS_ALIAS(raise);

static uint64_t sigval_to_uint64(union sigval value)
{
    return (uint64_t)(uintptr_t)value.sival_ptr;
}

IPS_EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
    record_signal_sent(IPS_KILL_QUEUE, sig, pid, 0, sigval_to_uint64(value),
                       IPS_SITE);
    return ips_wrap_start_library_and_check_recording(),
           REAL(sigqueue)(pid, sig, value);
}

IPS_EXPORT int tgkill(pid_t pid, pid_t tid, int sig)
{
    record_signal_sent(IPS_KILL_THREAD, sig, pid, tid, 0, IPS_SITE);
    return ips_wrap_start_library_and_check_recording(),
           REAL(tgkill)(pid, tid, sig);
}

static void record_signal_sent_to_thread(pthread_t thread, int sig,
                                         uint64_t site)
{
    if (sig)
        record_signal_sent(IPS_KILL_THREAD, sig, (int32_t)ips_sys_getpid(),
                           (int32_t)ips_thread_tid(thread), 0, site);
}

IPS_EXPORT int pthread_kill(pthread_t thread, int sig)
{
    record_signal_sent_to_thread(thread, sig, IPS_SITE);
    return ips_wrap_start_library_and_check_recording(),
           REAL(pthread_kill)(thread, sig);
}

/* Unlike the new version of pthread_kill, the old one returns ESRCH for a
 * thread that has ended. */
IPS_OLD(int, pthread_kill, (pthread_t thread, int sig), (thread, sig),
        record_signal_sent_to_thread(thread, sig, IPS_SITE))

IPS_EXPORT int pthread_sigqueue(pthread_t thread, int sig,
                                const union sigval value)
{
    record_signal_sent(IPS_KILL_THREAD, sig, (int32_t)ips_sys_getpid(),
                       (int32_t)ips_thread_tid(thread), sigval_to_uint64(value),
                       IPS_SITE);
    return ips_wrap_start_library_and_check_recording(),
           REAL(pthread_sigqueue)(thread, sig, value);
}

/* The target thread records at its end that it was cancelled
 * (preload/process/thread.c). */
IPS_EXPORT int pthread_cancel(pthread_t thread)
{
    record_signal_sent_to_thread(thread, (int)IPS_CANCEL, IPS_SITE);
    ips_thread_mark_cancelled(thread);
    return ips_wrap_start_library_and_check_recording(),
           REAL(pthread_cancel)(thread);
}

static void record_signal_sent_by_pidfd(int fd, int sig, bool queued,
                                        uint64_t site)
{
    uint64_t pid;
    if (sig && ips_read_fdinfo_number(fd, "Pid:", &pid))
        record_signal_sent(queued ? IPS_KILL_QUEUE : IPS_KILL_PROCESS, sig,
                           (int32_t)pid, 0, 0, site);
}

int pidfd_send_signal(int, int, siginfo_t *, unsigned);
IPS_EXPORT int pidfd_send_signal(int fd, int sig, siginfo_t *info,
                                 unsigned flags)
{
    if (ips_wrap_start_library_and_check_recording())
        record_signal_sent_by_pidfd(fd, sig, info != NULL, IPS_SITE);
    return REAL(pidfd_send_signal)(fd, sig, info, flags);
}

/* --- signal calls made by syscall() --------------------------------------- */

/* Replaces our stub by the program's handler in `old`, the old action that a
 * raw system call returned. The kernel's structure starts with handler and
 * flags. (A handler that a program sets by a raw call gets no stub.) */
static void replace_stub_in_old_kernel_action(void *old)
{
    struct {
        handler_fn *handler;
        unsigned long flags;
    } act;
    memcpy(&act, old, sizeof(act));
    uint64_t key = find_stub_key(act.handler);
    if (!key)
        return;
    act.handler = (handler_fn *)(uintptr_t)(key >> 1);
    if (key & 1)
        act.flags &= ~(unsigned long)SA_SIGINFO;
    memcpy(old, &act, sizeof(act));
}

/* Reads no memory of the caller, except the old action that the kernel just
 * wrote. */
bool ips_record_kill_or_make_sigaction(long *r, long n, const long args[6],
                                       uint64_t site)
{
    switch (n) {
    case SYS_kill:
        record_signal_sent(IPS_KILL_PROCESS, (int)args[1], (int32_t)args[0], 0,
                           0, site);
        return false;
    case SYS_tgkill:
        record_signal_sent(IPS_KILL_THREAD, (int)args[2], (int32_t)args[0],
                           (int32_t)args[1], 0, site);
        return false;
    case SYS_tkill:
        record_signal_sent(IPS_KILL_THREAD, (int)args[1], 0, (int32_t)args[0],
                           0, site);
        return false;
    case SYS_rt_sigqueueinfo:
        record_signal_sent(IPS_KILL_QUEUE, (int)args[1], (int32_t)args[0], 0, 0,
                           site);
        return false;
    case SYS_rt_tgsigqueueinfo:
        record_signal_sent(IPS_KILL_THREAD, (int)args[2], (int32_t)args[0],
                           (int32_t)args[1], 0, site);
        return false;
    case SYS_pidfd_send_signal:
        record_signal_sent_by_pidfd((int)args[0], (int)args[1], args[2] != 0,
                                    site);
        return false;
    case SYS_rt_sigaction:
        *r = REAL(syscall)(n, args[0], args[1], args[2], args[3], args[4],
                           args[5]);
        if (*r == 0 && args[2])
            replace_stub_in_old_kernel_action((void *)(uintptr_t)args[2]);
        return true;
    default:
        return false;
    }
}
