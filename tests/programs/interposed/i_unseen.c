/*
 * What leaves no record: i_unseen KIND... sets each up, prints "ready" and
 * holds it until its standard input ends.
 *   uring       a ring by its own system call
 *   uring-libc  a ring by syscall()
 *   aio         a kernel AIO context by its own system call
 *   shared      anonymous memory shared with a child
 *   file        a file mapped shared, to write, by this process alone
 *   task        a task in our memory that has none of its own for a thread
 *   openmp      a second thread that waits in OpenMP's library
 *   idle-openmp that library, without a thread
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long own_call(long n, long a, long b)
{
    long r = -1;
#if defined(__x86_64__)
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b)
                     : "rcx", "r11", "memory");
#else
    r = syscall(n, a, b);
#endif
    return r;
}

static char parameters[256]; /* struct io_uring_params, 120 bytes */
static unsigned long context;
static pid_t child;

static void share(void)
{
    char *p = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    *p = 1;
    child = fork();
    if (child)
        return;
    for (;;)
        pause();
}

static void map_file(void)
{
    FILE *f = tmpfile();
    if (!f || ftruncate(fileno(f), 4096) < 0 ||
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0) ==
            MAP_FAILED)
        exit(1);
}

static int task(void *at)
{
    return (int)*(const char *)at;
}

static long run_task(void)
{
    static char stack[65536] __attribute__((aligned(64)));
    static char none;
    pid_t pid = clone(task, stack + sizeof(stack), CLONE_VM | SIGCHLD, &none);
    return pid < 0 || waitpid(pid, NULL, 0) != pid ? -1 : 0;
}

static void nothing(void *arg)
{
    (void)arg;
}

typedef void parallel(void (*part)(void *), void *arg, unsigned threads,
                      unsigned flags);

static long openmp(bool threads)
{
    void *library = dlopen("libgomp.so.1", RTLD_NOW);
    void *at = library ? dlsym(library, "GOMP_parallel") : NULL;
    parallel *run;
    if (!at)
        return -1;
    memcpy(&run, &at, sizeof(run));
    if (threads)
        run(nothing, NULL, 2, 0);
    return 0;
}

static long set_up(const char *kind)
{
    if (!strcmp(kind, "uring"))
        return own_call(SYS_io_uring_setup, 4, (long)parameters);
    if (!strcmp(kind, "uring-libc"))
        return syscall(SYS_io_uring_setup, 4, parameters);
    if (!strcmp(kind, "aio"))
        return own_call(SYS_io_setup, 4, (long)&context);
    if (!strcmp(kind, "task"))
        return run_task();
    if (!strcmp(kind, "openmp") || !strcmp(kind, "idle-openmp"))
        return openmp(kind[0] == 'o');
    if (!strcmp(kind, "shared"))
        share();
    else if (!strcmp(kind, "file"))
        map_file();
    else
        return -1;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (set_up(argv[i]) < 0) {
            fprintf(stderr, "%s: not here\n", argv[i]);
            return 1;
        }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    if (child > 0) {
        kill(child, 9);
        waitpid(child, NULL, 0);
    }
    return 0;
}
