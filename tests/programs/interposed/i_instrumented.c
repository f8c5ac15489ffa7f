/*
 * Built with -finstrument-functions: known call trees, for test_exact.py.
 * Prints "NAME ADDRESS CALLS" of every procedure that it calls (CALLS as the
 * program itself knows them), and ends with 0.
 *
 *   i_instrumented tree N       N times: root -> (leaf, twice(leaf, leaf))
 *   i_instrumented hot N        N calls of hot, N / 1000 of rare
 *   i_instrumented odd          recursion, longjmp, inlined, signal handler,
 *                               vfork, fork, dlopen
 *   i_instrumented threads T N  T threads with N calls of hot each
 *   i_instrumented storm        many procedures, each called first by a signal
 *                               handler that interrupts the hooks of others
 *   i_instrumented exec N       N calls of hot, then exec of "tree 0"
 *   i_instrumented forever      hot until it is killed; its calls, 8 bytes,
 *                               are shared memory: the file on descriptor 3
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function))
#define ALONE __attribute__((noinline))

static PLAIN void say(const char *name, const void *procedure, uint64_t calls)
{
    printf("%s %" PRIx64 " %" PRIu64 "\n", name, (uint64_t)(uintptr_t)procedure,
           calls);
}
#define SAY(name, calls) say(#name, (const void *)(uintptr_t)name, calls)

static PLAIN void nothing(void)
{
    __asm__ volatile("" ::: "memory");
}

ALONE static void leaf(void)
{
    nothing();
}

ALONE static void twice(void)
{
    leaf();
    leaf();
}

ALONE static void root(void)
{
    leaf();
    twice();
}

ALONE static void hot(void)
{
    nothing();
}

ALONE static void rare(void)
{
    for (volatile int i = 0; i < 100000; i++)
        nothing();
}

ALONE static int down(int n)
{
    nothing();
    return n > 0 ? down(n - 1) + 1 : 0;
}

static jmp_buf back;

ALONE static void jumps(void)
{
    longjmp(back, 1);
}

ALONE static void middle(void)
{
    jumps();
    nothing();
}

ALONE static void on_signal(int sig)
{
    (void)sig;
    nothing();
}

static inline __attribute__((always_inline)) void inlined(void)
{
    nothing();
}

ALONE static void in_child(void)
{
    nothing();
}

/* 256 procedures: FOUR(a) makes a0 to a3. */
#define ONE(n)                                                                 \
    ALONE static void many_##n(void)                                           \
    {                                                                          \
        nothing();                                                             \
    }
#define FOUR(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3)
#define LIST4(M, n) M(n##0) M(n##1) M(n##2) M(n##3)
#define LIST16(M, n) LIST4(M, n##0) LIST4(M, n##1) LIST4(M, n##2) LIST4(M, n##3)
#define LIST64(M, n)                                                           \
    LIST16(M, n##0) LIST16(M, n##1) LIST16(M, n##2) LIST16(M, n##3)
LIST64(FOUR, x)
#define POINT4(n) many_##n##0, many_##n##1, many_##n##2, many_##n##3,
static void (*const many[256])(void) = {LIST64(POINT4, x)};
static volatile sig_atomic_t next_many;

static PLAIN void on_tick(int sig)
{
    (void)sig;
    for (int i = 0; i < 2 && next_many < 256; i++)
        many[next_many++]();
}

/* --- */

static PLAIN int tree(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        root();
    SAY(root, n);
    SAY(twice, n);
    SAY(leaf, 3 * n);
    return 0;
}

static PLAIN int hot_ones(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hot();
        if (i % 1000 == 0)
            rare();
    }
    SAY(hot, n);
    SAY(rare, (n + 999) / 1000);
    return 0;
}

static PLAIN int storm(void)
{
    const struct itimerval every = {{0, 200}, {0, 200}};
    const struct sigaction act = {.sa_handler = on_tick,
                                  .sa_flags = SA_RESTART};
    uint64_t n = 0;
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (; next_many < 256 && n < 20000; n++)
        hot();
    signal(SIGALRM, SIG_IGN);
    while (next_many < 256) /* few came: the machine is busy */
        many[next_many++]();
    SAY(hot, n);
    for (int i = 0; i < 256; i++)
        say("many", (const void *)(uintptr_t)many[i], 1);
    return 0;
}

static PLAIN int load(const char *self)
{
    char path[600];
    const char *slash = strrchr(self, '/');
    snprintf(path, sizeof(path), "%.*s/libi_instrumented_lib.so",
             slash ? (int)(slash - self) : 1, slash ? self : ".");
    void *lib = dlopen(path, RTLD_NOW);
    int (*work)(int) = NULL;
    if (lib)
        *(void **)&work = dlsym(lib, "lib_work");
    if (!work || work(1) != 11)
        return 1;
    say("lib_work", *(void **)&work, 1);
    return 0;
}

static PLAIN int odd(const char *self)
{
    int status = 0;
    if (down(100) != 100)
        return 1;
    for (volatile int i = 0; i < 50; i++)
        if (!setjmp(back))
            middle();
    for (volatile int i = 0; i < 7; i++)
        inlined();
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 20; i++)
        raise(SIGUSR1);
    pid_t pid = vfork();
    if (pid == 0) {
        in_child();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 5; i++)
            in_child();
        exit(0);
    }
    waitpid(pid, &status, 0);
    SAY(down, 101);
    SAY(middle, 50);
    SAY(jumps, 50);
    SAY(inlined, 7);
    SAY(on_signal, 20);
    SAY(in_child, 5);
    return status || load(self);
}

static PLAIN void *thread(void *n)
{
    for (uint64_t i = *(uint64_t *)n; i > 0; i--)
        hot();
    return NULL;
}

static PLAIN int threads(unsigned count, uint64_t n)
{
    pthread_t t[64];
    count = count < 64 ? count : 64;
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&t[i], NULL, thread, &n))
            return 1;
    for (unsigned i = 0; i < count; i++)
        pthread_join(t[i], NULL);
    SAY(hot, count * n);
    return 0;
}

static PLAIN int forever(void)
{
    volatile uint64_t *calls =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (calls == MAP_FAILED)
        return 1;
    SAY(hot, 0);
    fflush(stdout);
    for (;; ++*calls)
        hot();
}

PLAIN int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (strcmp(what, "tree") == 0)
        return tree(n);
    if (strcmp(what, "hot") == 0)
        return hot_ones(n);
    if (strcmp(what, "odd") == 0)
        return odd(argv[0]);
    if (strcmp(what, "storm") == 0)
        return storm();
    if (strcmp(what, "threads") == 0)
        return threads((unsigned)n, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    if (strcmp(what, "exec") == 0) {
        for (uint64_t i = 0; i < n; i++)
            hot();
        SAY(hot, n);
        fflush(stdout);
        execl(argv[0], argv[0], "tree", "0", (char *)NULL);
    }
    if (strcmp(what, "forever") == 0)
        return forever();
    return 2;
}
