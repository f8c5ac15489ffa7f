#include "common/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void remove_run_environment(void)
{
    static const char *const names[] = {"LD_PRELOAD", "IPS_RUN", "IPS_POOL",
                                        "IPS_PRELOAD", "IPS_MACHINE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

/* Runs in the grandchild: becomes the daemon. Does not return. */
static void exec_daemon(char *const argv[], const char *log)
{
    int null = open("/dev/null", O_RDWR);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (out < 0)
        out = null;
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(1);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0) {
        for (int fd = 3; fd < 65536; fd++)
            close(fd);
    }
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(077);
    if (chdir("/") < 0)
        _exit(1);
    remove_run_environment();
    execv(argv[0], argv);
    dprintf(2, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(1);
}

int ips_run_outside_child_rusage(void (*run)(void *), void *arg)
{
    struct sigaction was, ignore = {.sa_handler = SIG_IGN};
    siginfo_t any;
    bool alone = waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) < 0 &&
                 errno == ECHILD && sigaction(SIGCHLD, &ignore, &was) == 0;
    pid_t pid = fork();
    int saved = errno;
    if (pid == 0) {
        signal(SIGCHLD, SIG_DFL);
        run(arg);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (alone)
        sigaction(SIGCHLD, &was, NULL);
    errno = saved;
    return pid > 0 ? 0 : -1;
}

struct daemon {
    char *const *argv;
    const char *log;
};

static void fork_daemon(void *arg)
{
    const struct daemon *d = arg;
    if (setsid() >= 0 && fork() == 0)
        exec_daemon(d->argv, d->log);
}

int ips_daemon_start_detached(char *const argv[], const char *log,
                              struct ips_err *err)
{
    struct daemon d = {argv, log};
    return ips_run_outside_child_rusage(fork_daemon, &d) < 0
               ? ips_err_errno(err, "cannot start %s: fork", argv[0])
               : 0;
}
