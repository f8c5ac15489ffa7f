/*
 * A program that forbids itself system calls, and would be killed for one too
 * many. Prints by write() alone. Usage: i_sandbox CASE
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int p[2];
static char buf[4096], word[] = "say";

static void say(const char *text)
{
    (void)!write(1, text, strlen(text));
}

static void flood(long count)
{
    for (long i = 0; i < count; i++)
        if (write(p[1], buf, 100) != 100 || read(p[0], buf, 100) != 100)
            say("flood failed\n");
}

#define LOAD(field)                                                            \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

/* By what a filter is installed. */
enum by { BY_SYSCALL, BY_PRCTL, WITH_LISTENER };

static int set_filter(const struct sock_fprog *program, enum by by)
{
    long flags = by == WITH_LISTENER ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    if (by == BY_PRCTL)
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
    return by == WITH_LISTENER ? r < 3 : (int)r;
}

/* Every call in `list` gets `listed`, all else `others`. */
static void install(const int *list, size_t n, unsigned listed, unsigned others,
                    enum by by)
{
    struct sock_filter code[200] = {LOAD(nr)};
    unsigned short at = 1;
    for (size_t i = 0; i < n; i++) {
        const struct sock_filter jump =
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i], 0, 1);
        const struct sock_filter hit = RETURN(listed);
        code[at++] = jump;
        code[at++] = hit;
    }
    const struct sock_filter rest = RETURN(others);
    code[at++] = rest;
    struct sock_fprog program = {at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || set_filter(&program, by))
        _exit(99);
}

static const int few[] = {SYS_read,       SYS_write,        SYS_exit,
                          SYS_exit_group, SYS_rt_sigreturn, SYS_seccomp};
/* What the C library and the loader do without at the start of a process, a
 * thread and a program, and a recorder might not. */
static const int unusual[] = {
    SYS_ftruncate, SYS_fallocate,   SYS_fchmod,        SYS_getppid,
    SYS_geteuid,   SYS_getsockopt,  SYS_socket,        SYS_readlinkat,
    SYS_gettid,    SYS_getsockname, SYS_getpeername,   SYS_ioctl,
    SYS_getrusage, SYS_flock,       SYS_clock_gettime, SYS_getdents64,
    SYS_sendto,    SYS_recvfrom,    SYS_unlinkat,      SYS_waitid,
    SYS_fcntl};
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void *body(void *arg)
{
    flood(100);
    return arg;
}

/* The rest of a life under a filter that kills for what is unusual. */
static void live(char *self)
{
    char *argv[] = {self, word, NULL};
    pthread_t t;
    flood(30000); /* more than a segment holds */
    if (pthread_create(&t, NULL, body, NULL) || pthread_join(t, NULL))
        say("no thread\n");
    int q[2], status = 0;
    if (pipe(q) || write(q[1], "x", 1) != 1 || read(q[0], buf, 1) != 1)
        say("no pipe\n");
    pid_t pid = fork();
    if (pid == 0) {
        flood(1000);
        _exit(7);
    }
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
        say("fork failed\n");
    if (posix_spawn(&pid, self, NULL, NULL, argv, environ) ||
        waitpid(pid, &status, 0) != pid || status)
        say("spawn failed\n");
    close(q[0]);
    dup2(q[1], q[0]);
    execv(self, argv);
    say("no exec\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "say")) {
        say("said\n");
        return 0;
    }
    if (pipe(p))
        return 1;
    flood(100);
    if (!strcmp(what, "strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        flood(30000);
        say("done\n");
        syscall(SYS_exit, 3);
    } else if (!strncmp(what, "kill", 4)) {
        install(few, COUNT(few), SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS,
                !strcmp(what, "kill")            ? BY_PRCTL
                : !strcmp(what, "kill-listener") ? WITH_LISTENER
                                                 : BY_SYSCALL);
        if (!strcmp(what, "kill-twice")) /* this one fails */
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, -1L, NULL);
        flood(30000);
        say("done\n");
        _exit(3);
    } else if (!strcmp(what, "eperm")) {
        install(few, COUNT(few), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM,
                1);
        flood(30000);
        say(pipe(p) ? strerror(errno) : "pipe");
        say(fork() < 0 ? strerror(errno) : "fork");
        say("done\n");
        exit(3);
    } else if (!strcmp(what, "live")) {
        install(unusual, COUNT(unusual), SECCOMP_RET_KILL_PROCESS,
                SECCOMP_RET_ALLOW, 1);
        live(argv[0]);
    } else if (!strcmp(what, "vfork")) {
        char *args[] = {argv[0], word, NULL};
        int status = 0;
        pid_t pid = vfork();
        if (pid == 0) {
            install(unusual, COUNT(unusual), SECCOMP_RET_KILL_PROCESS,
                    SECCOMP_RET_ALLOW, 0);
            execv(argv[0], args);
            _exit(99);
        }
        if (waitpid(pid, &status, 0) != pid || status)
            say("killed\n");
        flood(100); /* here there is none */
    } else if (!strcmp(what, "refused")) {
        /* EFAULT: no filter, and recording goes on. */
        say(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) ? "refused\n"
                                                             : "?\n");
        flood(50);
    } else if (!strcmp(what, "no-tsc")) {
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
        flood(1000);
        say("done\n");
        _exit(3);
    } else {
        return 2;
    }
    return 0;
}
