/*
 * A program that is hard on a guest in its process: floods, storms of signals,
 * jumps, limits, closed descriptors. What it prints and its status are the same
 * with and without one. Usage: i_guest CASE [ARGUMENT]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static int p[2];
static char buf[4096];
static volatile bool stop;
static const char self[] = "/proc/self/exe";

static void die(const char *what)
{
    fprintf(stderr, "i_guest: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void make_pipe(void)
{
    if (pipe(p))
        die("pipe");
}

/* `count` writes and reads: the i-th of 1 + i % 4093 bytes. */
static long flood_pipe(const int q[2], long count)
{
    char room[4096] = {0};
    long moved = 0;
    for (long i = 0; i < count; i++) {
        size_t n = 1 + (size_t)(i % 4093);
        if (write(q[1], room, n) != (ssize_t)n ||
            read(q[0], room, n) != (ssize_t)n)
            die("flood");
        moved += (long)n;
    }
    return moved;
}

static void flood(long count)
{
    make_pipe();
    printf("moved %ld\n", flood_pipe(p, count));
}

static int wait_status(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    return status;
}

/* --- signals ---------------------------------------------------------------
 */

static volatile sig_atomic_t handled;
static sigjmp_buf back;

/* Its own pipe, its own copies of it, its own wait: all of it recorded. */
static void on_storm(int sig)
{
    (void)sig;
    int saved = errno, q[2];
    char c = 'x';
    if (pipe(q) || write(q[1], &c, 1) != 1 || read(q[0], &c, 1) != 1 ||
        close(q[0]) || close(q[1]))
        _exit(77);
    handled++;
    errno = saved;
}

static void storm(void)
{
    struct itimerval tick = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    struct sigaction sa = {.sa_handler = on_storm,
                           .sa_flags = SA_RESTART | SA_NODEFER};
    make_pipe();
    sigaction(SIGALRM, &sa, NULL);
    sigaction(SIGVTALRM, &sa, NULL);
    sigaction(SIGPROF, &sa, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    setitimer(ITIMER_VIRTUAL, &tick, NULL);
    setitimer(ITIMER_PROF, &tick, NULL);
    long moved = 0;
    for (int i = 0; i < 4000 || handled < 300; i++) {
        if (write(p[1], buf, 7) != 7 || read(p[0], buf, 7) != 7)
            die("storm");
        moved += i < 4000 ? 7 : 0;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    setitimer(ITIMER_VIRTUAL, &off, NULL);
    setitimer(ITIMER_PROF, &off, NULL);
    printf("moved %ld, many signals %d\n", moved, handled >= 300);
}

static void on_jump(int sig)
{
    (void)sig;
    handled++;
    siglongjmp(back, 1);
}

/* The read end signals every byte that comes, so the handler runs before
 * write() has returned and jumps away from it: `count` writes of a byte that
 * nobody sees return, and one read of them all. */
static void jump(int count, int flags)
{
    struct sigaction sa = {.sa_handler = on_jump, .sa_flags = flags};
    static char alternate[65536];
    stack_t ss = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigaltstack(&ss, NULL);
    make_pipe();
    sigaction(SIGIO, &sa, NULL);
    if (fcntl(p[0], F_SETOWN, getpid()) ||
        fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK))
        die("fcntl");
    for (volatile int i = 0; i < count; i++)
        if (sigsetjmp(back, 1) == 0) {
            (void)!write(p[1], buf, 1);
            puts("not interrupted");
        }
    fcntl(p[0], F_SETFL, 0);
    printf("jumped %d, read %zd\n", (int)handled, read(p[0], buf, 4096));
}

/* A handler that records on a stack of its own while a call is under way, and
 * returns: nothing was left. */
static void on_alternate(int sig)
{
    (void)sig;
    int saved = errno;
    for (int i = 0; i < 3; i++)
        if (write(p[1], buf, 1) != 1)
            _exit(77);
    handled++;
    errno = saved;
}

static void alternate(void)
{
    struct sigaction sa = {.sa_handler = on_alternate,
                           .sa_flags = SA_ONSTACK | SA_RESTART};
    static char room[65536];
    stack_t ss = {.ss_sp = room, .ss_size = sizeof(room)};
    sigaltstack(&ss, NULL);
    make_pipe();
    int q[2];
    if (pipe(q))
        die("pipe");
    sigaction(SIGIO, &sa, NULL);
    if (fcntl(q[0], F_SETOWN, getpid()) || fcntl(q[0], F_SETFL, O_ASYNC))
        die("fcntl");
    for (int i = 0; i < 100; i++)
        if (write(q[1], buf, 2) != 2)
            die("write");
    printf("handled %d, read %zd %zd\n", (int)handled, read(p[0], buf, 4096),
           read(q[0], buf, 4096));
}

static void on_exit_now(int sig)
{
    (void)sig;
    _exit(42);
}

static void exit_in_handler(void)
{
    struct itimerval tick = {{0, 0}, {0, 3000}};
    signal(SIGALRM, on_exit_now);
    setitimer(ITIMER_REAL, &tick, NULL);
    make_pipe();
    for (;;)
        flood_pipe(p, 1000);
}

/* Children whose handlers end them in a call of theirs: a write that has moved
 * its byte, a write that failed, a read and a poll that wait. */
static void ends_in_calls(void)
{
    static const char *const how[] = {"moved", "failed", "read", "poll"};
    struct itimerval tick = {{0, 0}, {0, 3000}};
    make_pipe();
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int q[2];
            struct pollfd at = {.fd = p[0], .events = POLLIN};
            for (int sig = 1; sig < 32; sig++)
                if (sig == SIGIO || sig == SIGPIPE || sig == SIGALRM)
                    signal(sig, on_exit_now);
            if (i == 0 && (fcntl(p[0], F_SETOWN, getpid()) ||
                           fcntl(p[0], F_SETFL, O_ASYNC)))
                die("fcntl");
            if (i < 2 && !pipe(q) && !close(q[0]))
                (void)!write(i ? q[1] : p[1], buf, 1);
            setitimer(ITIMER_REAL, &tick, NULL);
            if (i == 2)
                (void)!read(p[0], buf, 1);
            poll(&at, 1, -1);
            _exit(1);
        }
        printf("%s: %d\n", how[i], WEXITSTATUS(wait_status(pid)));
        if (i == 0)
            printf("read %zd\n", read(p[0], buf, 4096));
        fflush(stdout);
    }
}

static void on_overflow(int sig)
{
    (void)sig;
    static const char text[] = "overflow\n";
    (void)!write(1, text, sizeof(text) - 1);
    _exit(43);
}

static volatile char sink;
static int deeper(int n) /* writes at every step, until the stack is used up */
{
    volatile char frame[2000];
    frame[n % 2000] = 1;
    if (write(p[1], buf, 1) != 1 || read(p[0], buf, 1) != 1)
        die("deeper");
    sink = frame[0];
    return stop ? 0 : deeper(n + 1) + frame[1];
}

/* A coroutine with 4.5 KB of stack, to whole pages, beside the kernel's frame
 * of a signal: recorded calls, a signal, and computing while it is sampled. */
static ucontext_t outside, inside;
static volatile uintptr_t handler_at;
static void note_frame(int sig)
{
    char here;
    (void)sig;
    handler_at = (uintptr_t)&here;
}

static void coroutine(void)
{
    struct timespec ms = {0, 1000000};
    struct pollfd poll_in = {p[0], POLLIN, 0};
    volatile long sum = 0;
    for (int i = 0; i < 3; i++) {
        char c = 'c';
        for (long k = 0; k < 20000000; k++)
            sum += k;
        if (write(p[1], &c, 1) != 1 || poll(&poll_in, 1, -1) != 1 ||
            read(p[0], &c, 1) != 1 || nanosleep(&ms, NULL))
            die("coroutine");
        kill(getpid(), SIGUSR1);
    }
    puts("coroutine done");
    swapcontext(&inside, &outside);
}

static void small_stack(void)
{
    char here;
    make_pipe();
    signal(SIGUSR1, note_frame);
    raise(SIGUSR1);
    size_t frame = (uintptr_t)&here - handler_at;
    size_t size = (frame + 4608 + 4095) & ~(size_t)4095;
    char *room = aligned_alloc(4096, size + 4096);
    if (!room || mprotect(room, 4096, PROT_NONE) || getcontext(&inside))
        die("small stack");
    inside.uc_stack.ss_sp = room + 4096;
    inside.uc_stack.ss_size = size;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
}

static void overflow(void)
{
    static char room[65536];
    stack_t ss = {.ss_sp = room, .ss_size = sizeof(room)};
    struct sigaction sa = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
    sigaltstack(&ss, NULL);
    sigaction(SIGSEGV, &sa, NULL);
    make_pipe();
    exit(deeper(0));
}

/* Computes for a while with the stack pointer far past where the stack may
 * grow to, as between the making of a frame and its first use; with an
 * alternate stack signals may come. */
static void far_stack(void)
{
    static char room[65536];
    stack_t ss = {.ss_sp = room, .ss_size = sizeof(room)};
    unsigned long down = 32ul << 20, turns = 300000000; /* of 8 MiB */
    sigaltstack(&ss, NULL);
#if defined(__x86_64__)
    __asm__ volatile("subq %1, %%rsp\n"
                     "1: decq %0\n"
                     "jnz 1b\n"
                     "addq %1, %%rsp"
                     : "+r"(turns)
                     : "r"(down)
                     : "cc");
#elif defined(__aarch64__)
    __asm__ volatile("sub sp, sp, %1\n"
                     "1: subs %0, %0, #1\n"
                     "b.ne 1b\n"
                     "add sp, sp, %1"
                     : "+r"(turns)
                     : "r"(down)
                     : "cc");
#endif
    exit(turns != 0);
}

/* --- threads and forks -----------------------------------------------------
 */

static void *busy(void *arg)
{
    (void)arg;
    int q[2];
    if (pipe(q))
        die("pipe");
    while (!stop)
        flood_pipe(q, 50);
    close(q[0]);
    close(q[1]);
    return NULL;
}

static void fork_threads(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, busy, NULL);
    int sum = 0, failed = 0;
    for (int i = 0; i < 30; i++) {
        pid_t pid = i % 3 == 2 ? vfork() : fork();
        if (pid == 0) {
            if (i % 3 == 0) { /* records, in the copy of a threaded process */
                int q[2];
                if (pipe(q))
                    _exit(99);
                flood_pipe(q, 20);
                _exit(i);
            }
            execl(self, "i_guest", "flood", "20", NULL);
            _exit(99);
        }
        int status = wait_status(pid);
        sum += i % 3 == 0 ? WEXITSTATUS(status) : 0;
        failed += i % 3 != 0 && status != 0;
    }
    stop = true;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    printf("sum %d failed %d\n", sum, failed);
}

static void *leaver(void *arg)
{
    long how = (long)arg;
    int q[2];
    if (pipe(q))
        die("pipe");
    flood_pipe(q, 20);
    close(q[0]);
    close(q[1]);
    if (how == 1)
        pthread_exit(NULL);
    while (how == 2) /* until it is cancelled, in a recorded call */
        usleep(1000);
    return NULL;
}

static void thread_exit(void)
{
    pthread_t t[30], detached;
    for (long i = 0; i < 30; i++)
        pthread_create(&t[i], NULL, leaver, (void *)(i % 3));
    for (int i = 0; i < 30; i++) {
        if (i % 3 == 2)
            pthread_cancel(t[i]);
        pthread_join(t[i], NULL);
    }
    /* The process ends while these record. */
    for (int i = 0; i < 4; i++) {
        pthread_create(&detached, NULL, busy, NULL);
        pthread_detach(detached);
    }
    make_pipe();
    flood_pipe(p, 2000);
    puts("ended");
}

/* --- descriptors -----------------------------------------------------------
 */

static void close_all(const char *how)
{
    make_pipe();
    flood_pipe(p, 10);
    if (!strcmp(how, "closefrom"))
        closefrom(3);
    else if (!strcmp(how, "close_range"))
        close_range(3, ~0u, 0);
    else
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
    make_pipe();
    printf("next %d %d\n", p[0], p[1]);
    flood_pipe(p, 20000); /* the segment has to grow, and a new one made */
    pthread_t t;
    pthread_create(&t, NULL, leaver, NULL);
    pthread_join(t, NULL);
}

/* --- limits ----------------------------------------------------------------
 */

/* What a limited program does: it goes on as far as it may. */
static void limited(void)
{
    make_pipe();
    flood_pipe(p, 500);
    pthread_t t;
    int err = pthread_create(&t, NULL, leaver, NULL);
    if (!err)
        pthread_join(t, NULL);
    printf("thread %s\n", strerror(err));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        flood_pipe(p, 100);
        _exit(5);
    }
    printf("fork %s\n", pid < 0 ? strerror(errno) : "made");
    if (pid > 0)
        printf("child %d\n", wait_status(pid));
    flood_pipe(p, 20000);
    puts("done");
}

static void limit(const char *name)
{
    static const struct {
        const char *name;
        int resource;
        rlim_t value;
    } limits[] = {{"fsize", RLIMIT_FSIZE, 0},
                  {"fsize-small", RLIMIT_FSIZE, 100000},
                  {"nofile", RLIMIT_NOFILE, 8},
                  {"as", RLIMIT_AS, 96 << 20},
                  {"data", RLIMIT_DATA, 8 << 20},
                  {"nproc", RLIMIT_NPROC, 1},
                  {"memlock", RLIMIT_MEMLOCK, 0},
                  {"stack", RLIMIT_STACK, 128 << 10},
                  {"sigpending", RLIMIT_SIGPENDING, 0},
                  {"msgqueue", RLIMIT_MSGQUEUE, 0}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        struct rlimit r = {limits[i].value, limits[i].value};
        if (strcmp(name, limits[i].name))
            continue;
        if (setrlimit((__rlimit_resource_t)limits[i].resource, &r))
            die("setrlimit");
        /* The new image, too, begins with it. */
        execl(self, "i_guest", "limited", NULL);
        die("exec");
    }
    exit(2);
}

/* Less than this and the program itself could not start; the guest's segments
 * do not fit in. */
static void limit_cpu(void)
{
    struct rlimit r = {1, 2};
    setrlimit(RLIMIT_CPU, &r);
    make_pipe();
    flood_pipe(p, 1000);
    for (;;) /* SIGXCPU */
        sink++;
}

/* --- surroundings ----------------------------------------------------------
 */

static void surroundings(const char *what)
{
    char *none[] = {NULL};
    char directory[] = "/tmp/i_guest-XXXXXX";
    if (!strcmp(what, "umask")) {
        umask(0777);
    } else if (!strcmp(what, "cwd")) {
        if (!mkdtemp(directory) || chdir(directory) || rmdir(directory))
            die("cwd");
    } else if (!strcmp(what, "environment")) {
        char *text = malloc(1001);
        memset(text, 'v', 1000);
        text[1000] = '\0';
        clearenv();
        for (int i = 0; i < 900; i++) {
            char key[16];
            snprintf(key, sizeof(key), "K%d", i);
            setenv(key, text, 1);
        }
    } else if (!strcmp(what, "argv0")) {
        execve(self, none, environ);
        die("exec");
    }
    execl(self, "i_guest", "limited", NULL);
    die("exec");
}

/* --- in the order of a life -------------------------------------------------
 */

static void early(int argc, char **argv, char **envp)
{
    static const char text[] = "before any constructor\n";
    (void)argc;
    (void)argv;
    for (; *envp; envp++) /* getenv does not work yet */
        if (!strcmp(*envp, "I_GUEST_EARLY=1")) {
            if (ftrylockfile(stdout) == 0) /* our first call of all */
                funlockfile(stdout);
            make_pipe();
            flood_pipe(p, 10);
            (void)!write(1, text, sizeof(text) - 1);
        }
}
/* Runs before the constructors of every library. */
__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char **, char **) = early;

__attribute__((destructor(101))) static void late(void)
{
    if (!getenv("I_GUEST_EARLY"))
        return;
    make_pipe();
    flood_pipe(p, 10);
    puts("after exit");
}

/* Tells the test that it may do something to us, and waits until it has. */
static void meanwhile(const char *path)
{
    make_pipe();
    flood_pipe(p, 100);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || close(fd))
        die(path);
    while (access(path, F_OK) == 0)
        usleep(1000);
    flood_pipe(p, 30000);
    limited();
}

static long number(char **argv)
{
    return argv[2] ? strtol(argv[2], NULL, 10) : 0;
}

static void no_core(void)
{
    struct rlimit r = {0, 0};
    setrlimit(RLIMIT_CORE, &r);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *word = argc > 2 ? argv[2] : "";
    if (argc == 0 || argv[0][0] == '\0')
        limited();
    else if (!strcmp(what, "flood"))
        flood(number(argv));
    else if (!strcmp(what, "storm"))
        storm();
    else if (!strcmp(what, "jump"))
        jump((int)number(argv), 0);
    else if (!strcmp(what, "jump-alternate"))
        jump((int)number(argv), SA_ONSTACK);
    else if (!strcmp(what, "alternate"))
        alternate();
    else if (!strcmp(what, "exit-in-handler"))
        exit_in_handler();
    else if (!strcmp(what, "ends-in-calls"))
        ends_in_calls();
    else if (!strcmp(what, "overflow"))
        overflow();
    else if (!strcmp(what, "small-stack"))
        small_stack();
    else if (!strcmp(what, "far-stack"))
        far_stack();
    else if (!strcmp(what, "fork-threads"))
        fork_threads();
    else if (!strcmp(what, "thread-exit"))
        thread_exit();
    else if (!strcmp(what, "close"))
        close_all(word);
    else if (!strcmp(what, "limit"))
        limit(word);
    else if (!strcmp(what, "limited"))
        limited();
    else if (!strcmp(what, "limit-cpu"))
        limit_cpu();
    else if (!strcmp(what, "surroundings"))
        surroundings(word);
    else if (!strcmp(what, "meanwhile"))
        meanwhile(word);
    else if (!strcmp(what, "abort")) {
        no_core();
        flood(100);
        abort();
    } else
        return 2;
    return 0;
}
