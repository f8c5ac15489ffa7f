/* i_process CASE: every way to make, replace and wait for a process. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(99);
}

static void show(const char *what, int status)
{
    char line[100];
    if (WIFEXITED(status))
        snprintf(line, sizeof(line), "%s: exit %d\n", what,
                 WEXITSTATUS(status));
    else
        snprintf(line, sizeof(line), "%s: signal %d\n", what, WTERMSIG(status));
    say(line);
}

static void wait_show(const char *what, pid_t pid)
{
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        say("wait failed\n");
    show(what, status);
}

static int clone_child(void *arg)
{
    say((const char *)arg);
    return 6;
}

/* Past libc's wrappers; newer architectures have clone alone. */
static pid_t raw_fork(void)
{
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static void by_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        say("child\n");
        exit(1);
    }
    wait_show("fork", pid);
    if ((pid = _Fork()) == 0)
        _exit(2);
    wait_show("_Fork", pid);
    if ((pid = raw_fork()) == 0)
        _exit(3);
    wait_show("SYS_fork", pid);
    if ((pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0)
        _exit(4);
    wait_show("SYS_clone", pid);
    static char stack[65536] __attribute__((aligned(16)));
    char text[] = "cloned\n";
    pid = clone(clone_child, stack + sizeof(stack), SIGCHLD, text);
    wait_show("clone", pid);
    if ((pid = fork()) == 0)
        raise(SIGKILL);
    wait_show("killed", pid);
    if ((pid = fork()) == 0)
        abort();
    wait_show("aborted", pid);
}

static int told[2];
static void in_child(void)
{
    if (write(told[1], "h", 1) != 1)
        _exit(99);
}

/* A handler of the program's own writes before fork has returned. */
static void with_handler(void)
{
    char c = 0;
    if (pipe(told) || pthread_atfork(NULL, NULL, in_child))
        say("failed\n");
    pid_t pid = fork();
    if (pid == 0)
        _exit(5);
    wait_show("fork", pid);
    if (read(told[0], &c, 1) == 1)
        say(c == 'h' ? "told\n" : "?\n");
}

static int clone_exec(void *arg)
{
    const char *self = (const char *)arg;
    execl(self, self, "say", "cloned with our memory", (char *)NULL);
    return 97;
}

/* What some libraries use instead of vfork. */
static void like_vfork(char *self)
{
    static char stack[65536] __attribute__((aligned(16)));
    pid_t pid = clone(clone_exec, stack + sizeof(stack),
                      CLONE_VM | CLONE_VFORK | SIGCHLD, self);
    wait_show("clone", pid);
}

static void by_vfork(const char *self)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl(self, self, "say", "vforked", (char *)NULL);
        _exit(98);
    }
    wait_show("vfork", pid);
    pid = vfork();
    if (pid == 0) {
        execl("/nonexistent", "x", (char *)NULL);
        _exit(errno == ENOENT ? 7 : 8);
    }
    wait_show("vfork, no exec", pid);
    pid = vfork(); /* the child's own descriptors, our memory */
    if (pid == 0) {
        close(0);
        dup2(1, 2);
        say("in vfork child\n");
        _exit(0);
    }
    wait_show("vfork, no exec at all", pid);
    char *argv[] = {(char *)(size_t)self, (char *)(size_t) "say",
                    (char *)(size_t) "spawned", NULL};
    int err = posix_spawn(&pid, self, NULL, NULL, argv, environ);
    wait_show("spawn", pid);
    printf("spawn %d\n", err);
    err = posix_spawnp(&pid, "no-such-program", NULL, NULL, argv, environ);
    printf("spawnp %s\n", strerror(err));
}

static void by_library(void)
{
    char line[100];
    FILE *f = popen("echo from popen; exit 4", "r");
    while (f && fgets(line, sizeof(line), f))
        printf("%s", line);
    fflush(stdout);
    if (f)
        show("pclose", pclose(f));
    f = popen("cat", "w");
    if (f) {
        fprintf(f, "to popen\n");
        show("pclose", pclose(f));
    }
    show("system", system("echo from system; exit 5"));
    printf("system(NULL) %d\n", system(NULL) != 0);
}

static void waits(void)
{
    siginfo_t info;
    struct rusage ru;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(11);
    memset(&info, 0, sizeof(info));
    int r = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    printf("peek %d %d\n", r, info.si_status);
    memset(&info, 0, sizeof(info));
    r = waitid(P_PID, (id_t)pid, &info, WEXITED);
    printf("waitid %d %d %d\n", r, info.si_code == CLD_EXITED, info.si_status);
    r = waitid(P_PID, (id_t)pid, &info, WEXITED);
    printf("again %d %s\n", r, strerror(errno));
    fflush(stdout);
    if ((pid = fork()) == 0) {
        raise(SIGSTOP);
        _exit(12);
    }
    r = waitpid(pid, &status, WUNTRACED);
    printf("stopped %d %d\n", r == pid, WIFSTOPPED(status));
    memset(&info, 0, sizeof(info));
    r = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG);
    printf("not yet %d %d\n", r, (int)info.si_pid);
    kill(pid, SIGCONT);
    r = wait4(pid, NULL, 0, &ru);
    printf("wait4 %d\n", r == pid);
    fflush(stdout);
    if ((pid = fork()) == 0)
        _exit(13);
    while ((r = wait3(&status, WNOHANG, NULL)) == 0)
        usleep(1000);
    printf("wait3 %d %d\n", r == pid, WEXITSTATUS(status));
    printf("none %d %s\n", wait(&status), strerror(errno));
}

/* The environment is cleared: the children are traced all the same. */
static void cleared(const char *self)
{
    char *empty[] = {NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execle(self, self, "say", "with no environment", (char *)NULL, empty);
        _exit(98);
    }
    wait_show("execle", pid);
    clearenv();
    if ((pid = fork()) == 0) {
        char *argv[] = {(char *)(size_t)self, (char *)(size_t) "say",
                        (char *)(size_t) "cleared", NULL};
        execv(self, argv);
        _exit(98);
    }
    wait_show("execv", pid);
    show("system", system("echo from cleared system"));
    printf("environment %s\n", environ && *environ ? *environ : "empty");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "say") && argc > 2) {
        say(argv[2]);
        say("\n");
        return 0;
    }
    if (!strcmp(what, "fork"))
        by_fork();
    else if (!strcmp(what, "handler"))
        with_handler();
    else if (!strcmp(what, "vfork"))
        by_vfork(argv[0]);
    else if (!strcmp(what, "like-vfork"))
        like_vfork(argv[0]);
    else if (!strcmp(what, "library"))
        by_library();
    else if (!strcmp(what, "wait"))
        waits();
    else if (!strcmp(what, "cleared"))
        cleared(argv[0]);
    else if (!strcmp(what, "exit_group"))
        syscall(SYS_exit_group, 9);
    else
        return 2;
    return 0;
}
