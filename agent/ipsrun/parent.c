/*
 * On a terminal ipsrun stays the parent of the command, like time(1), and
 * prints one line when the command has ended. Nothing else may differ from
 * running the command without ipsrun. So ipsrun is in the command's process
 * group, passes on signals that were sent to ipsrun alone, stops and continues
 * with the command, and ends as the command ended.
 *
 * All signals are blocked and taken by sigwaitinfo() in a loop, so no handler
 * runs. A signal to the whole group (^C, ^Z, kill %1) has reached the command
 * already; a signal to ipsrun alone must be passed on. To distinguish the two,
 * ipsrun has a *witness*: another process of the group, which only sleeps with
 * all signals blocked. A signal to the group stays pending in the witness; a
 * signal to ipsrun alone does not.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"

#define SUMMARY_WAIT_MS 2000

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Closes our descriptors and leaves the current directory, so that we do not
 * keep a pipe open that the command closes, or a file system busy. Standard
 * error stays open for the summary line. */
static void release_descriptors_and_directory(void)
{
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    close_range(STDERR_FILENO + 1, ~0u, 0);
    if (chdir("/") < 0)
        return; /* no harm: we stay in the old directory */
}

/* Stops ipsrun as the command stopped: by the same signal, so that the shell
 * reports the same. */
static void stop_like_child_until_continued(pid_t child, int sig,
                                            const sigset_t *all)
{
    struct sigaction act = {.sa_handler = SIG_DFL}, old = act;
    sigset_t one;
    siginfo_t info = {0};
    sigemptyset(&one);
    sigaddset(&one, sig);
    sigaction(sig, &act, &old);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* the process stops here */
    sigprocmask(SIG_BLOCK, all, NULL);
    sigaction(sig, &old, NULL);
    /* ipsrun was continued. If the command was not, continue it as well: the
     * sender of SIGCONT meant the command. */
    if (waitid(P_PID, (id_t)child, &info, WCONTINUED | WNOHANG | WNOWAIT) ==
            0 &&
        info.si_pid == 0)
        kill(child, SIGCONT);
}

/* Starts a witness (see the top of this file) and returns its pid, or -1 if
 * fork fails. The witness inherits the caller's mask, which blocks all signals.
 */
static pid_t start_signal_witness(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    close_range(0, ~0u, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(0);
    for (;;)
        pause();
}

static void kill_signal_witness(pid_t witness)
{
    if (witness < 0)
        return;
    kill(witness, SIGKILL);
    waitpid(witness, NULL, 0);
}

/* Returns the signals that are pending in the process `witness`; bit 0 is
 * signal 1. */
static uint64_t read_pending_signals_of_process(pid_t witness)
{
    char path[64], line[256];
    unsigned long long set = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)witness);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "ShdPnd: %llx", &set) == 1)
            break;
    }
    if (f)
        fclose(f);
    return set;
}

/* Was the signal sent to ipsrun alone, not to the group? Replaces the witness
 * by a new one. If a kill() of the group is in progress, the fork of the new
 * witness waits in the kernel until all members have the signal. So after the
 * fork, the old witness has the signal if the group was the target. */
static bool replace_witness_and_check_signal_target(const siginfo_t *info,
                                                    pid_t *witness)
{
    if (info->si_code > 0 || info->si_signo == SIGCHLD ||
        info->si_signo == SIGCONT)
        return false;
    pid_t old = *witness;
    *witness = start_signal_witness();
    uint64_t group = old < 0 ? 0 : read_pending_signals_of_process(old);
    kill_signal_witness(old);
    return !(group >> (info->si_signo - 1) & 1);
}

/* Waits until the command has ended; returns its wait status. */
static int wait_and_forward_signals(pid_t child, const sigset_t *all)
{
    pid_t witness = start_signal_witness();
    for (;;) {
        siginfo_t info;
        int status;
        pid_t pid = waitpid(child, &status, WUNTRACED | WNOHANG);
        if (pid == child && WIFSTOPPED(status)) {
            stop_like_child_until_continued(child, WSTOPSIG(status), all);
            continue;
        }
        if (pid == child) {
            kill_signal_witness(witness);
            return status;
        }
        if (sigwaitinfo(all, &info) <= 0 ||
            !replace_witness_and_check_signal_target(&info, &witness))
            continue;
        if (info.si_code == SI_QUEUE) /* the signal carries a value */
            sigqueue(child, info.si_signo, info.si_value);
        else
            kill(child, info.si_signo);
    }
}

/* Ends this process as the command ended: returns its exit status, or dies by
 * the same signal but without a core file. */
static int end_like_child(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    int sig = WTERMSIG(status);
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t one;
    prctl(PR_SET_DUMPABLE, 0);
    sigaction(sig, &act, NULL);
    raise(sig);
    sigemptyset(&one);
    sigaddset(&one, sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + sig;
}

static pid_t start_ipsq_summary(const struct ipsrun_options *o,
                                const char *name, int *from)
{
    char program[IPS_PATH_BYTES];
    struct ips_err err;
    int ends[2];
    if (ips_path_find_program("ipsq", program, &err) < 0 ||
        pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execl(program, program, "summary", name, "--state", o->state,
              o->master_set ? "--master" : NULL, o->master,
              o->insecure ? "--insecure" : NULL, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

/* Fills `out` with the line that `ipsq summary` prints, without its newline;
 * with "" if that fails or takes longer than SUMMARY_WAIT_MS. */
static void run_ipsq_and_read_summary(const struct ipsrun_options *o,
                                      const char *name, char *out, size_t size)
{
    size_t n = 0;
    int from;
    bool whole = false;
    double end = now_s() + SUMMARY_WAIT_MS / 1e3;
    out[0] = '\0';
    pid_t pid = start_ipsq_summary(o, name, &from);
    if (pid < 0)
        return;
    while (!whole && n + 1 < size) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        int left_ms = (int)((end - now_s()) * 1e3);
        if (left_ms <= 0 || poll(&p, 1, left_ms) <= 0)
            break;
        ssize_t got = read(from, out + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        whole = out[n - 1] == '\n';
    }
    out[whole ? n - 1 : 0] = '\0';
    close(from);
    if (!whole)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void print_summary_line(const struct ipsrun_options *o, const char *name,
                               int status, double took_s)
{
    char how[64], took[32], summary[1024] = "";
    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "ended by SIG%s",
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status))
                                                : "NAL");
    else
        snprintf(how, sizeof(how), "exit %d", WEXITSTATUS(status));
    snprintf(took, sizeof(took), took_s < 0.1 ? "%.0f ms" : "%.1f s",
             took_s < 0.1 ? took_s * 1e3 : took_s);
    if (!o->no_daemons)
        run_ipsq_and_read_summary(o, name, summary, sizeof(summary));
    fprintf(stderr, "ipsrun: %s: %s, %s%s%s. Next: ipsq why %s%s%s%s%s\n", name,
            how, took, *summary ? ", " : "", summary, name,
            o->state_given ? " --state " : "", o->state_given ? o->state : "",
            o->master_set ? " --master " : "", o->master_set ? o->master : "");
}

int ipsrun_fork_and_wait_if_on_terminal(const struct ipsrun_options *o,
                                        const char *name)
{
    sigset_t all, before;
    struct sigaction act = {.sa_handler = SIG_DFL}, old;
    if (o->quiet || o->exec || getpid() == 1 || !isatty(STDERR_FILENO))
        return -1;
    fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    /* If SIGCHLD were ignored, wait() would report no status. */
    sigaction(SIGCHLD, &act, &old);
    double begun = now_s();
    pid_t parent = getpid(), child = fork();
    if (child <= 0) {
        sigaction(SIGCHLD, &old, NULL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        /* ipsrun cannot pass on a SIGKILL, so we ask the kernel to kill the
         * command when ipsrun dies. */
        if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
            getppid() != parent)
            raise(SIGKILL);
        return -1; /* in the child, or if fork failed: become the command */
    }
    release_descriptors_and_directory();
    int status = wait_and_forward_signals(child, &all);
    print_summary_line(o, name, status, now_s() - begun);
    return end_like_child(status);
}
