/* Processes, threads and signals that do not come to be. */
#include "failures.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ONE(name, call)                                                        \
    static void case_##name(void)                                              \
    {                                                                          \
        CALL(call);                                                            \
    }

static char missing[] = "/nonexistent/program", no_program[] = "/dev/null";
static char *argv_missing[] = {missing, NULL};
static char *environment[] = {NULL};
/* No process has this number, which the compiler does not know. */
static pid_t no_process(void)
{
    return (pid_t)strtol("1073741824", NULL, 10);
}

static int child(void *arg)
{
    (void)arg;
    return 0;
}

static void case_clone_inval(void)
{
    static char stack[16384];
    CALL(clone(child, stack + sizeof(stack), CLONE_SIGHAND, NULL));
}
ONE(syscall_clone_inval, syscall(SYS_clone, CLONE_SIGHAND, NULL, NULL, NULL, 0))
ONE(spawn_noent,
    posix_spawn(NULL, missing, NULL, NULL, argv_missing, environment))
ONE(spawnp_noent, posix_spawnp(NULL, "no-such-program-here", NULL, NULL,
                               argv_missing, environment))
ONE(spawn_acces,
    posix_spawn(NULL, no_program, NULL, NULL, argv_missing, environment))
ONE(popen_inval, (popen("true", "x") != NULL))
ONE(system_null, system(NULL))
ONE(execve_noent, execve(missing, argv_missing, environment))
ONE(execv_acces, execv(no_program, argv_missing))
ONE(execvp_noent, execvp("no-such-program-here", argv_missing))
ONE(execl_noent, execl(missing, missing, (char *)NULL))
ONE(fexecve_badf, fexecve(CLOSED, argv_missing, environment))
ONE(execveat_noent, execveat(AT_FDCWD, missing, argv_missing, environment, 0))

/* In a vfork child it is the parent's FORK that is recorded, and that alone. */
static void case_vfork_exec_noent(void)
{
    call_begins();
    errno = UNTOUCHED;
    pid_t pid = vfork();
    if (pid == 0) {
        execve(missing, argv_missing, environment);
        _exit(9);
    }
    int error = pid > 0 ? UNTOUCHED : errno; /* the child wrote over it */
    call_ends(pid > 0, error);
    int status;
    must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9);
}

static void *body(void *arg)
{
    return arg;
}
static void case_thread_inval(void)
{
    pthread_t t;
    pthread_attr_t attr;
    must(pthread_attr_init(&attr) == 0 &&
         pthread_attr_setstacksize(&attr, (size_t)1 << 46) == 0);
    CALL(pthread_create(&t, &attr, body, NULL));
}
static void case_thread_perm(void)
{
    pthread_t t;
    pthread_attr_t attr;
    cpu_set_t none;
    CPU_ZERO(&none);
    must(pthread_attr_init(&attr) == 0 &&
         pthread_attr_setaffinity_np(&attr, sizeof(none), &none) == 0);
    CALL(pthread_create(&t, &attr, body, NULL));
}
ONE(join_deadlock, pthread_join(pthread_self(), NULL))
static void *sleeper(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}
static pthread_t beside;
static void case_tryjoin_busy(void)
{
    sigset_t all, before;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    must(pthread_create(&beside, NULL, sleeper, NULL) == 0);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    CALL(pthread_tryjoin_np(beside, NULL));
}
static void case_timedjoin_timeout(void)
{
    struct timespec until = from_now(CLOCK_REALTIME, 30);
    CALL(pthread_timedjoin_np(beside, NULL, &until));
}
static void case_join_detached(void)
{
    must(pthread_detach(beside) == 0);
    CALL(pthread_join(beside, NULL));
}

ONE(wait_child, wait(NULL))
ONE(waitpid_child, waitpid(1, NULL, 0))
ONE(wait4_inval, wait4(-1, NULL, 0x40000, NULL))
static void case_waitid_child(void)
{
    siginfo_t info;
    CALL(waitid(P_ALL, 0, &info, WEXITED));
}
static void case_waitpid_none(void)
{
    int p[2];
    must(pipe(p) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(p[1]);
        _exit(read(p[0], buf, 1) == 0 ? 0 : 1);
    }
    CALL(waitpid(pid, NULL, WNOHANG));
    close(p[0]);
    close(p[1]);
    must(waitpid(pid, NULL, 0) == pid);
}
static void case_waitpid_interrupted(void)
{
    int p[2];
    must(pipe(p) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(p[1]);
        _exit(read(p[0], buf, 1) == 0 ? 0 : 1);
    }
    alarms_begin();
    CALL(waitpid(pid, NULL, 0));
    alarms_end();
    close(p[0]);
    close(p[1]);
    must(waitpid(pid, NULL, 0) == pid);
}

/* A signal is recorded before it is sent: one that fails is never taken. */
ONE(kill_srch, kill(no_process(), SIGUSR1))
ONE(kill_asks, kill(getpid(), 0))
ONE(kill_inval, kill(getpid(), 1234))
ONE(killpg_srch, killpg(no_process(), SIGUSR1))
ONE(tgkill_srch, tgkill(getpid(), no_process(), SIGUSR1))
static void case_sigqueue_srch(void)
{
    union sigval value = {.sival_int = 4711};
    CALL(sigqueue(no_process(), SIGUSR1, value));
}
ONE(raise_inval, raise(1234))
ONE(pthread_kill_inval, pthread_kill(pthread_self(), 1234))

static void case_still_there(void)
{
    must(write(empty[1], buf, 10) == 10);
    CALL(read(empty[0], buf, 100));
}

const struct one_case process_cases[] = {
    CASE(clone_inval),       CASE(syscall_clone_inval),
    CASE(spawn_noent),       CASE(spawnp_noent),
    CASE(spawn_acces),       CASE(popen_inval),
    CASE(system_null),       CASE(execve_noent),
    CASE(execv_acces),       CASE(execvp_noent),
    CASE(execl_noent),       CASE(fexecve_badf),
    CASE(execveat_noent),    CASE(vfork_exec_noent),
    CASE(wait_child),        CASE(waitpid_child),
    CASE(wait4_inval),       CASE(waitid_child),
    CASE(waitpid_none),      CASE(waitpid_interrupted),
    CASE(kill_srch),         CASE(kill_asks),
    CASE(kill_inval),        CASE(killpg_srch),
    CASE(tgkill_srch),       CASE(sigqueue_srch),
    CASE(raise_inval),       CASE(pthread_kill_inval),
    CASE(thread_inval),      CASE(thread_perm),
    CASE(join_deadlock),     CASE(tryjoin_busy),
    CASE(timedjoin_timeout), CASE(join_detached),
    CASE(still_there),       {NULL, NULL}};
