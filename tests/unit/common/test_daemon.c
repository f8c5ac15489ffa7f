/* Daemons that are started for a user, and children that leave no trace. The
 * test is its own daemon, which writes down what it finds. Catches: a daemon
 * that keeps a descriptor, a signal's handling, a directory or an environment
 * of the one who started it, or that is recorded; a child whose CPU time a
 * program sees as its own children's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/daemon.h"

static char dir[] = "/tmp/ips-daemon-XXXXXX";
static char self[512], fifo[64], log_file[64];

static int begin(void **state)
{
    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    snprintf(log_file, sizeof(log_file), "%s/log", dir);
    return mkfifo(fifo, 0600);
}

static int end(void **state)
{
    (void)state;
    unlink(fifo);
    unlink(log_file);
    return rmdir(dir);
}

/* What the daemon finds, into the FIFO; and two lines into its log. */
static int be_daemon(const char *to)
{
    static const char *const names[] = {"LD_PRELOAD",  "IPS_RUN",
                                        "IPS_POOL",    "IPS_PRELOAD",
                                        "IPS_MACHINE", "KEPT"};
    char cwd[100];
    sigset_t blocked;
    struct sigaction act;
    struct stat null, in;
    unsigned fds = 0, ignored = 0, masked = 0;
    for (int fd = 3; fd < 1024; fd++)
        fds += fcntl(fd, F_GETFD) >= 0;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int sig = 1; sig < 32; sig++) {
        masked += sigismember(&blocked, sig) == 1;
        ignored += sigaction(sig, NULL, &act) == 0 && act.sa_handler == SIG_IGN;
    }
    mode_t mask = umask(0);
    bool is_null = stat("/dev/null", &null) == 0 && fstat(0, &in) == 0 &&
                   null.st_rdev == in.st_rdev;
    dprintf(1, "out\n");
    dprintf(2, "err\n");
    FILE *f = fopen(to, "w");
    if (!f)
        return 1;
    fprintf(f, "cwd %s umask %o fds %u ignored %u masked %u null %d sid %d",
            getcwd(cwd, sizeof(cwd)), (unsigned)mask, fds, ignored, masked,
            is_null, getsid(0) != getpid() && getpgrp() == getsid(0));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (getenv(names[i]))
            fprintf(f, " %s", names[i]);
    return fclose(f);
}

static void read_file(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, room - 1, f)] = '\0';
    fclose(f);
}

static void test_daemon__keeps_nothing(void **state)
{
    (void)state;
    char text[500];
    static char name[] = "be a daemon";
    char *argv[] = {self, name, fifo, NULL};
    struct ips_err err;
    struct stat st;
    sigset_t all, was;
    FILE *before = fopen(log_file, "w");
    fputs("before\n", before);
    fclose(before);
    setenv("IPS_RUN", "r", 1);
    setenv("IPS_POOL", "p", 1);
    setenv("IPS_PRELOAD", "l", 1);
    setenv("IPS_MACHINE", "m", 1);
    setenv("LD_PRELOAD", "", 1);
    setenv("KEPT", "k", 1);
    int kept = dup2(0, 700);
    assert_int_equal(kept, 700);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &was);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    assert_int_equal(ips_daemon_start_detached(argv, log_file, &err), 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &was, NULL);
    close(kept);
    unsetenv("LD_PRELOAD");
    read_file(fifo, text, sizeof(text)); /* until it has ended */
    assert_string_equal(text, "cwd / umask 77 fds 0 ignored 0 masked 0 null 1 "
                              "sid 1 KEPT");
    read_file(log_file, text, sizeof(text));
    assert_string_equal(text, "before\nout\nerr\n");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it is not our child */
    /* a log that is new is its user's alone */
    assert_int_equal(unlink(log_file), 0);
    mode_t mask = umask(0);
    assert_int_equal(ips_daemon_start_detached(argv, log_file, &err), 0);
    umask(mask);
    read_file(fifo, text, sizeof(text));
    assert_int_equal(stat(log_file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    /* without a log it runs all the same; a link is not followed */
    assert_int_equal(unlink(log_file), 0);
    assert_int_equal(symlink("other", log_file), 0);
    assert_int_equal(ips_daemon_start_detached(argv, log_file, &err), 0);
    read_file(fifo, text, sizeof(text));
    assert_int_equal(strncmp(text, "cwd / ", 6), 0);
    assert_int_equal(unlink(log_file), 0);
}

/* Would catch: a program that is missing, and nobody says so. */
static void test_daemon__cannot_be_started(void **state)
{
    (void)state;
    char text[200];
    static char none[] = "/nonexistent/daemon";
    char *argv[] = {none, NULL};
    struct ips_err err;
    /* the FIFO is its log, which it closes as it ends */
    int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    FILE *f = fdopen(fd, "r");
    int writer = open(fifo, O_WRONLY); /* as long as it has not come */
    assert_int_equal(ips_daemon_start_detached(argv, fifo, &err), 0);
    assert_non_null(fgets(text, sizeof(text), f));
    close(writer);
    fclose(f);
    assert_string_equal(text, "cannot start /nonexistent/daemon: No such file "
                              "or directory\n");
}

static volatile int *ran;
static void work(void *arg)
{
    struct sigaction act;
    struct timespec cpu = {0, 0};
    while (cpu.tv_nsec < 20000000 && !cpu.tv_sec)
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    *ran = arg == (void *)&ran && sigaction(SIGCHLD, NULL, &act) == 0 &&
                   act.sa_handler == SIG_DFL
               ? getpid()
               : -1;
}

static void on_child(int sig)
{
    (void)sig;
}

static void test_daemon__no_cpu_of_children(void **state)
{
    (void)state;
    struct rusage before, after;
    struct sigaction act;
    ran = mmap(NULL, sizeof(*ran), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(ran, MAP_FAILED);
    signal(SIGCHLD, on_child);
    for (int other = 0; other < 2; other++) {
        pid_t child = other ? fork() : 0;
        if (other && child == 0) {
            pause();
            _exit(0);
        }
        *ran = 0;
        getrusage(RUSAGE_CHILDREN, &before);
        assert_int_equal(ips_run_outside_child_rusage(work, (void *)&ran), 0);
        getrusage(RUSAGE_CHILDREN, &after);
        assert_true(*ran > 0 && *ran != getpid()); /* it has ended */
        assert_int_equal(sigaction(SIGCHLD, NULL, &act), 0);
        assert_ptr_equal(act.sa_handler, on_child);
        /* another child's waiter needs SIGCHLD: then it counts */
        assert_int_equal(memcmp(&before.ru_utime, &after.ru_utime,
                                sizeof(before.ru_utime)) != 0 ||
                             memcmp(&before.ru_stime, &after.ru_stime,
                                    sizeof(before.ru_stime)) != 0,
                         other);
        if (other) {
            kill(child, SIGKILL);
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
    }
    signal(SIGCHLD, SIG_DFL);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "be a daemon") == 0)
        return be_daemon(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon__keeps_nothing),
        cmocka_unit_test(test_daemon__cannot_be_started),
        cmocka_unit_test(test_daemon__no_cpu_of_children),
    };
    /* In a child, which tells that it came to its end: what is tested here
     * may leave the process with status 0. */
    int told[2], status = 1;
    char end_of_tests = 0;
    if (pipe2(told, O_CLOEXEC) < 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        int failed = cmocka_run_group_tests(tests, begin, end);
        return write(told[1], failed ? "f" : "x", 1) != 1 || failed;
    }
    close(told[1]);
    if (read(told[0], &end_of_tests, 1) != 1 || end_of_tests != 'x' ||
        waitpid(pid, &status, 0) != pid)
        return 1;
    return status != 0;
}
