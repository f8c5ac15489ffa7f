/*
 * Records new processes. fork, and every fork inside the C library (daemon,
 * forkpty), runs our handlers, which are registered with pthread_atfork: they
 * start the child's stream. _Fork, clone and raw system calls run no such
 * handlers; their wrappers do the same. vfork is in preload/start/entry.S.
 */
#include "agent/preload/wrap.h"

#include "agent/preload/stdio_slots.h"
#include "agent/record/sys.h"

/* Facts about the parent, collected before the fork, that the child writes at
 * the start of its stream of records. */
struct parent_identity {
    uint64_t seq, image;
    uint32_t ppid, ptid;
};
static struct parent_identity prepare_fork_and_get_parent_identity(void)
{
    return (struct parent_identity){ips_core_prepare_fork_and_get_seq(),
                                    ips_core_image_stamp(), ips_sys_getpid(),
                                    ips_sys_gettid()};
}
static void start_recording_in_fork_child(const struct parent_identity *from)
{
    int saved = errno;
    uint64_t cpu = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    /* after a fork in a signal handler: the calls under way are the parent's */
    ips_me.open_depth = 0;
    ips_core_reset_and_start_in_fork_child(from->seq, from->ppid, from->ptid,
                                           from->image);
    /* the series of failed tries are the parent's */
    if (ips_me.extra)
        memset(ips_me.extra->retry, 0, sizeof(ips_me.extra->retry));
    ips_wrap_identify_standard_fds();
    ips_thread_store_own_tid();
    ips_report_start_cost(cpu);
    errno = saved;
}

/* State of a fork that this thread makes. For forks inside the C library,
 * `extra->fork` of the thread (agent/record/extra.h) has the rest. If `extra`
 * cannot be allocated, their FORK record is lost. */
static IPS_TLS struct {
    bool wrapped; /* our wrapper of fork() records the parent's side */
    /* `from` and extra->fork.call are those of the fork in progress */
    bool prepared;
    struct parent_identity from;
} forking;

static void collect_identity_before_fork(void)
{
    forking.prepared = ips_wrap_start_library_and_check_recording();
    if (!forking.prepared)
        return;
    forking.from = prepare_fork_and_get_parent_identity();
    if (forking.wrapped)
        return;
    struct ips_extra *extra = ips_extra_get_or_map();
    if (extra)
        extra->fork.call = ips_take_call_moment();
}

static void record_unwrapped_fork_in_parent(void)
{
    if (forking.prepared && !forking.wrapped) {
        const struct ips_extra *extra = ips_me.extra;
        int saved = errno;
        if (extra)
            ips_record_fork(IPS_FORK_FORK, 0, forking.from.seq,
                            extra->fork.call, 0, extra->fork.site);
        else
            ips_core_count_and_write_lost(IPS_LOST_NO_SEGMENT, 1);
        errno = saved;
    }
}

static void at_fork_child(void)
{
    forking.wrapped = false;
    if (ips_core.wrap_state != IPS_WRAP_ON)
        return;
    if (ips_me.in_vfork) { /* a vfork child forked: the new child has its own
                              memory */
        struct parent_identity from = {0, 0, (uint32_t)getppid(), 0};
        ips_me.vfork_depth = 0;
        ips_me.in_vfork = false;
        start_recording_in_fork_child(&from);
    } else if (forking.prepared) {
        start_recording_in_fork_child(&forking.from);
    }
}

/* Registers our fork handlers at their first use: most images never fork, and
 * registering takes 5 us of the 70 us that we add to a start. They are
 * registered before the program's first handler, so that the child's stream
 * starts before the program's handlers run. If a thread forks while another
 * thread registers them (or in a signal handler that interrupts the
 * registration), they do not run: the child then starts its stream at its first
 * record. */
static void register_fork_handlers(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (ips_core.wrap_state == IPS_WRAP_ON && !atomic_flag_test_and_set(&done))
        (void)REAL(__register_atfork)(collect_identity_before_fork,
                                      record_unwrapped_fork_in_parent,
                                      at_fork_child, NULL);
}

/* The C library's pthread_atfork calls this function. */
int __register_atfork(void (*prepare)(void), void (*parent)(void),
                      void (*child)(void), void *library);
IPS_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void),
                                 void (*child)(void), void *library)
{
    ips_wrap_start_library_and_check_recording();
    register_fork_handlers();
    return REAL(__register_atfork)(prepare, parent, child, library);
}

IPS_EXPORT pid_t fork(void)
{
    bool on = ips_wrap_start_library_and_check_recording();
    /* in a vfork child, too: a process that it forks is not a vfork child */
    register_fork_handlers();
    if (!on)
        return REAL(fork)();
    struct ips_moment call = ips_take_call_moment();
    forking.from = (struct parent_identity){0, 0, 0, 0};
    forking.wrapped = true;
    pid_t pid = REAL(fork)();
    if (pid == 0)
        return 0;
    int saved = errno;
    forking.wrapped = false;
    ips_record_fork(IPS_FORK_FORK, pid > 0 ? (uint32_t)pid : 0,
                    forking.from.seq, call, pid < 0 ? saved : 0, IPS_SITE);
    errno = saved;
    return pid;
}
pid_t __fork(void) IPS_ALIAS(fork);

/* To be called after a fork that ran no fork handlers: writes a FORK record in
 * the parent, and starts the stream of the child (`pid` is 0). */
static void record_fork_or_start_child(pid_t pid,
                                       const struct parent_identity *from,
                                       struct ips_moment call, uint64_t site)
{
    if (pid == 0) {
        start_recording_in_fork_child(from);
        return;
    }
    int saved = errno;
    ips_record_fork(IPS_FORK_FORK, pid > 0 ? (uint32_t)pid : 0, from->seq, call,
                    pid < 0 ? saved : 0, site);
    errno = saved;
}

IPS_EXPORT pid_t _Fork(void)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(_Fork)();
    struct ips_moment call = ips_take_call_moment();
    struct parent_identity from = prepare_fork_and_get_parent_identity();
    pid_t pid = REAL(_Fork)();
    record_fork_or_start_child(pid, &from, call, IPS_SITE);
    return pid;
}

/* Makes and records a fork by syscall(): SYS_fork, or SYS_clone without
 * CLONE_VM (preload/start/syscall.c). Returns the result of the call. */
long ips_call_fork_syscall_and_record(long n, const long args[6],
                                      uint64_t site);
long ips_call_fork_syscall_and_record(long n, const long args[6], uint64_t site)
{
    struct ips_moment call = ips_take_call_moment();
    struct parent_identity from = prepare_fork_and_get_parent_identity();
    long pid =
        REAL(syscall)(n, args[0], args[1], args[2], args[3], args[4], args[5]);
    record_fork_or_start_child((pid_t)pid, &from, call, site);
    return pid;
}

/* --- clone ---------------------------------------------------------------- */

struct clone_start {
    int (*fn)(void *);
    void *arg;
    struct parent_identity from;
};
static int run_and_record_clone_child(void *p)
{
    struct clone_start *start = (struct clone_start *)p;
    start_recording_in_fork_child(&start->from);
    int status = start->fn(start->arg);
    ips_core_record_process_end(IPS_END_EXIT, status);
    return status;
}

IPS_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
    va_list ap;
    va_start(ap, arg);
    pid_t *ptid = va_arg(ap, pid_t *);
    void *tls = va_arg(ap, void *);
    pid_t *ctid = va_arg(ap, pid_t *);
    va_end(ap);
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(clone)(fn, stack, flags, arg, ptid, tls, ctid);
    if (!(flags & CLONE_VM)) {
        /* the child reads `start` in its copy of this stack */
        struct clone_start start = {fn, arg,
                                    prepare_fork_and_get_parent_identity()};
        struct ips_moment call = ips_take_call_moment();
        int pid = REAL(clone)(run_and_record_clone_child, stack, flags, &start,
                              ptid, tls, ctid);
        /* clone with a function never returns in the child */
        record_fork_or_start_child(pid, &start.from, call, IPS_SITE);
        return pid;
    }
    if (flags & CLONE_VFORK) {
        ips_vfork_prepare_record(IPS_SITE);
        int pid = REAL(clone)(fn, stack, flags, arg, ptid, tls, ctid);
        int saved = errno;
        ips_vfork_record_in_parent(pid < 0 ? -saved : pid);
        return pid;
    }
    /* A task that shares our memory and our thread-local data looks like this
     * thread to us. So from now on nothing is recorded in this process. */
    if (!(flags & CLONE_SETTLS)) {
        static const char all[] =
            "all since a task was cloned into the same memory";
        ips_report_unrecorded_with_length(all, sizeof(all) - 1);
        ips_core.wrap_state = IPS_WRAP_OFF;
    }
    return REAL(clone)(fn, stack, flags, arg, ptid, tls, ctid);
}
int __clone(int (*)(void *), void *, int, void *, ...) IPS_ALIAS(clone);

/* --- vfork: around the system call in preload/start/entry.S --------------- */

void ips_vfork_prepare_record(uint64_t site)
{
    bool on = ips_wrap_start_library_and_check_recording();
    if (ips_core.wrap_state != IPS_WRAP_ON)
        return;
    /* NULL: no memory, so the FORK record is lost; or a vfork child called
     * vfork */
    struct ips_extra *extra = on ? ips_extra_get_or_map() : NULL;
    if (extra) {
        extra->vfork.seq = ips_core_prepare_fork_and_get_seq();
        extra->vfork.site = site;
        extra->vfork.target.kind = IPS_TARGET_TRACED;
        extra->vfork.call = ips_take_call_moment();
    }
    ips_me.vfork_depth++;
    ips_me.in_vfork = true;
}

/* Stores for the parent the program that the vfork child is about to execute.
 * Nothing else that the child does is recorded. */
void ips_vfork_store_target_for_parent(const struct ips_target *target)
{
    if (ips_me.vfork_depth == 1 && ips_me.extra)
        ips_me.extra->vfork.target = *target;
}

static void record_vfork(struct ips_extra *extra, long result)
{
    ips_record_fork(IPS_FORK_VFORK, result > 0 ? (uint32_t)result : 0,
                    extra->vfork.seq, extra->vfork.call,
                    result < 0 ? (int)-result : 0, extra->vfork.site);
    if (result > 0)
        ips_record_target_if_untraced(&extra->vfork.target, (uint32_t)result);
    extra->vfork.seq = 0;
}

/* Runs only in the parent, after the child has called exec or ended. `result`
 * is that of the system call. Returns the result of vfork(), and sets errno. */
long ips_vfork_record_in_parent(long result)
{
    if (ips_core.wrap_state == IPS_WRAP_ON && ips_me.vfork_depth &&
        --ips_me.vfork_depth == 0) {
        ips_me.in_vfork = false;
        ips_set_vfork_has_seccomp_filter(false);
        if (ips_me.extra && ips_me.extra->vfork.seq)
            record_vfork(ips_me.extra, result);
        else
            ips_core_count_and_write_lost(IPS_LOST_NO_SEGMENT, 1);
    }
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

/* --- spawn, popen, system ------------------------------------------------- */

#define SPAWN(name, request)                                                   \
    do {                                                                       \
        bool on = ips_wrap_start_library_and_check_recording();                \
        (void)(on && ips_extra_get_or_map()); /* allocates ips_me.extra, which \
                                      exec_target.c uses */                    \
        pid_t own = 0;                                                         \
        struct ips_target target;                                              \
        request;                                                               \
        ips_target_refine_by_arguments(&target, argv, envp);                   \
        IPS_ENV(env, envp, &target);                                           \
        struct ips_moment call = {.t = 0};                                     \
        uint64_t seq = 0;                                                      \
        if (on) {                                                              \
            seq = ips_core_prepare_fork_and_get_seq();                         \
            call = ips_take_call_moment();                                     \
        }                                                                      \
        int err =                                                              \
            REAL(name)(pid ? pid : &own, path, actions, attr, argv, env.envp); \
        int saved = errno;                                                     \
        if (on)                                                                \
            ips_record_fork(IPS_FORK_SPAWN,                                    \
                            err ? 0 : (uint32_t)(pid ? *pid : own), seq, call, \
                            err, IPS_SITE);                                    \
        if (on && !err)                                                        \
            ips_record_target_if_untraced(&target,                             \
                                          (uint32_t)(pid ? *pid : own));       \
        ips_env_free(&env);                                                    \
        errno = saved;                                                         \
        return err;                                                            \
    } while (0)

IPS_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                           const posix_spawn_file_actions_t *restrict actions,
                           const posix_spawnattr_t *restrict attr,
                           char *const argv[restrict],
                           char *const envp[restrict])
{
    SPAWN(posix_spawn, ips_exec_inspect(&target, AT_FDCWD, path));
}

IPS_EXPORT int posix_spawnp(pid_t *pid, const char *path,
                            const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attr, char *const argv[],
                            char *const envp[])
{
    SPAWN(posix_spawnp, ips_exec_find_and_inspect(&target, path));
}

extern char __libc_single_threaded __attribute__((weak));
/* popen, system and wordexp start their child with `environ`. If that lacks our
 * variables, sets `environ` to the copy in `env` for the time of the call,
 * stores the program's own in *kept, and returns true. Does so only in a
 * single-threaded process, because another thread would see the change. */
static bool replace_environ_if_single_threaded(struct ips_env *env,
                                               char ***kept)
{
    if (env->envp == environ || !&__libc_single_threaded ||
        !__libc_single_threaded)
        return false;
    *kept = environ;
    environ = env->envp;
    return true;
}

/* Examines the shell that the C library is about to execute. If it could not be
 * examined, it counts as a usual one, which our library suits. */
static void inspect_shell(struct ips_target *shell)
{
    ips_exec_inspect(shell, AT_FDCWD, "/bin/sh");
    if (shell->kind == IPS_TARGET_NOT_EXAMINED)
        shell->kind = IPS_TARGET_TRACED;
}

IPS_EXPORT FILE *popen(const char *command, const char *mode)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(popen)(command, mode);
    char **kept;
    struct ips_target shell;
    (void)ips_extra_get_or_map();
    inspect_shell(&shell);
    IPS_ENV(env, environ, &shell);
    bool lent = replace_environ_if_single_threaded(&env, &kept);
    uint64_t seq = ips_core_prepare_fork_and_get_seq();
    struct ips_moment call = ips_take_call_moment();
    FILE *f = REAL(popen)(command, mode);
    int saved = errno;
    if (lent)
        environ = kept;
    ips_env_free(&env);
    ips_record_fork(IPS_FORK_POPEN, 0, seq, call, f ? 0 : saved, IPS_SITE);
    if (f) {
        ips_fd_clear(f->_fileno);
        ips_chan_identify_and_record(f->_fileno, ips_fd_get(f->_fileno), NULL);
        ips_stdio_hook_popen_and_store_stream(f, seq);
    }
    errno = saved;
    return f;
}

IPS_EXPORT int system(const char *command)
{
    if (!ips_wrap_start_library_and_check_recording() || !command)
        return REAL(system)(command);
    char **kept;
    struct ips_target shell;
    (void)ips_extra_get_or_map();
    inspect_shell(&shell);
    IPS_ENV(env, environ, &shell);
    bool lent = replace_environ_if_single_threaded(&env, &kept);
    uint64_t seq = ips_core_prepare_fork_and_get_seq();
    ips_record_fork(IPS_FORK_SYSTEM, 0, seq, ips_take_call_moment(), 0,
                    IPS_SITE);
    struct ips_moment call = ips_take_call_moment();
    struct ips_reap reap = ips_reap_take_snapshot();
    int status = REAL(system)(command);
    int saved = errno;
    if (lent)
        environ = kept;
    ips_env_free(&env);
    if (status != -1)
        ips_record_join(IPS_JOIN_SYSTEM, 0, seq, call,
                        ips_count_reaped_child_and_get_its_cpu(reap),
                        (uint32_t)status, IPS_SITE);
    errno = saved;
    return status;
}

/* Returns the end of the command substitution whose text begins at `s`: its
 * closing parenthesis, or the end of the text. Like the C library's wordexp,
 * respects quotes, but not backslashes. */
static const char *skip_command_substitution(const char *s)
{
    unsigned depth = 1;
    char quote = '\0';
    for (; *s; s++) {
        if (quote)
            quote = *s == quote ? '\0' : quote;
        else if (*s == '\'' || *s == '"')
            quote = *s;
        else if (*s == '(')
            depth++;
        else if (*s == ')' && --depth == 0)
            break;
    }
    return s;
}

/* Returns the number of shells that wordexp() starts for these words, one after
 * the other: one for each command substitution. Nested substitutions do not
 * count. */
static unsigned count_command_substitutions(const char *s)
{
    unsigned n = 0;
    for (bool quoted = false; *s; s++) {
        const char *rest = s + 1;
        if (*s == '"')
            quoted = !quoted;
        else if (*s == '\\' && *rest)
            s++;
        else if (*s == '\'' && !quoted && strchr(rest, '\''))
            s = strchr(rest, '\'');
        else if (*s == '`' && strchr(rest, '`'))
            n++, s = strchr(rest, '`');
        else if (*s == '$' && rest[0] == '(' && rest[1] == '(')
            s += 2; /* $((: arithmetic, needs no shell */
        else if (*s == '$' && *rest == '(')
            n++, s = skip_command_substitution(rest + 1);
        if (!*s)
            break;
    }
    return n;
}

/* Records the `n` children that the call of wordexp started and waited for.
 * `cpu_ns`: their CPU time; ~0: unknown. Several children ran one after the
 * other, but it is unknown when each of them ended. So the call is then
 * recorded as a wait of unknown cause, and the joins after it. */
static void record_wordexp_children(unsigned n, struct ips_moment call,
                                    uint64_t cpu_ns, uint64_t site)
{
    uint64_t seq[8];
    n = n < 8 ? n : 8;
    for (unsigned i = 0; i < n; i++) {
        seq[i] = ips_core_prepare_fork_and_get_seq();
        ips_record_fork(IPS_FORK_SYSTEM, 0, seq[i], call, 0, site);
    }
    if (n > 1)
        call = ips_record_wait_if_blocked_or_ready(IPS_OP_OTHER, call, 0, 0,
                                                   site, 0);
    for (unsigned i = 0; i < n; i++)
        ips_record_join(IPS_JOIN_SYSTEM, 0, seq[i], call,
                        n == 1 ? cpu_ns : ~0ull, 0, site);
}

IPS_EXPORT int wordexp(const char *words, wordexp_t *result, int flags)
{
    unsigned n =
        ips_wrap_start_library_and_check_recording() && !(flags & WRDE_NOCMD)
            ? count_command_substitutions(words)
            : 0;
    if (n == 0)
        return REAL(wordexp)(words, result, flags);
    char **kept;
    struct ips_target shell;
    (void)ips_extra_get_or_map();
    inspect_shell(&shell);
    IPS_ENV(env, environ, &shell);
    /* ${X:=v} and ${X=v} set a variable, which may replace `environ` */
    bool lent =
        !strchr(words, '=') && replace_environ_if_single_threaded(&env, &kept);
    struct ips_moment call = ips_take_call_moment();
    struct ips_reap reap = ips_reap_take_snapshot();
    int r = REAL(wordexp)(words, result, flags);
    int saved = errno;
    if (lent)
        environ = kept;
    ips_env_free(&env);
    uint64_t cpu_ns = ips_count_reaped_child_and_get_its_cpu(reap);
    if (cpu_ns)
        record_wordexp_children(n, call, cpu_ns, IPS_SITE);
    errno = saved;
    return r;
}

/* --- calls in which the C library forks ----------------------------------- */

/* Records the close of descriptors 0, 1 and 2 after the C library has replaced
 * them without calling our wrappers. */
static void record_close_of_standard_fds(uint64_t site)
{
    int saved = errno;
    for (int fd = 0; fd <= 2; fd++) {
        uint64_t word = ips_fd_get(fd);
        if (ips_fd_channel_id(word))
            ips_chan_record_close(fd, word, IPS_CLOSE_FD, ips_core_stamp_now(),
                                  site);
        ips_fd_clear(fd);
    }
    errno = saved;
}

/* Stores the call site of a call in which the C library forks; 0: the call is
 * over. */
static void store_call_site_of_libc_fork(uint64_t site)
{
    struct ips_extra *extra = ips_wrap_start_library_and_check_recording()
                                  ? ips_extra_get_or_map()
                                  : NULL;
    if (extra)
        extra->fork.site = site;
}

IPS_EXPORT int daemon(int nochdir, int noclose)
{
    ips_wrap_start_library_and_check_recording();
    register_fork_handlers();
    store_call_site_of_libc_fork(IPS_SITE);
    int r = REAL(daemon)(nochdir, noclose);
    store_call_site_of_libc_fork(0);
    if (r == 0 && !noclose && ips_wrap_start_library_and_check_recording())
        record_close_of_standard_fds(IPS_SITE);
    return r;
}

IPS_EXPORT int forkpty(int *master, char *name, const struct termios *termp,
                       const struct winsize *winp)
{
    ips_wrap_start_library_and_check_recording();
    register_fork_handlers();
    store_call_site_of_libc_fork(IPS_SITE);
    int pid = REAL(forkpty)(master, name, termp, winp);
    store_call_site_of_libc_fork(0);
    if (pid == 0 && ips_wrap_start_library_and_check_recording())
        record_close_of_standard_fds(IPS_SITE);
    return pid;
}
