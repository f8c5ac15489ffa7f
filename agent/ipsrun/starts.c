/*
 * Measures the CPU time that the interposer adds to a fork, a spawn, a program
 * image and a thread. The subject (ipsrun/subject.c) alternates between starts
 * through the interposer and starts that bypass it. Starts are long and few, so
 * compute_recording_cost_ps compares the quickest ones. Overhead that the agent
 * itself reports for a start (CALLS records) is subtracted; an image returns
 * that amount as its exit status.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/subject.h"
#include "agent/record/sys.h"
#include "common/types.h"

#define EMPTY "ipsrun: an image and its end"
/* Exit status if the image could not be executed. Any other exit status is the
 * overhead that the image reported, in units of SAID_NS ns. */
#define NO_IMAGE 255
#define SAID_NS 2000
/* Starts per subject; there are several subjects. With fewer starts, the cost
 * of an image varied by half between measurements. */
#define STARTS 32
/* Number of starts that are measured with spare segments, and of threads. A
 * process looks for the spare segment whose number follows from its pid; this
 * many starts find one each. */
#define SPARED 12

/* Defined by the interposer. */
extern uint32_t ips_reported_overhead_ns(void) __attribute__((weak));

/* Overhead (ns) that the agent reported in a fork child, in a shared mapping:
 * the parent subtracts it. */
static volatile uint32_t *said_ns;
/* The environment without LD_PRELOAD. */
static char *bare[1024];

/* imitate_program_work() imitates a program's work between two starts, after
 * which the first-level caches hold little of the previous start. */
#define WORK_BYTES (1u << 20)
static volatile char *lines;
static void imitate_program_work(void)
{
    for (size_t i = 0; i < WORK_BYTES; i += 64)
        lines[i]++;
}

bool ipsrun_prepare_start_measuring(void)
{
    size_t n = 0;
    for (char **e = environ; *e && n < sizeof(bare) / sizeof(bare[0]) - 1; e++)
        if (strncmp(*e, "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
            bare[n++] = *e;
    void *shared = mmap(NULL, sizeof(*said_ns), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *map = mmap(NULL, WORK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || map == MAP_FAILED)
        return false;
    said_ns = shared;
    lines = map;
    return madvise(map, WORK_BYTES, MADV_DONTFORK) == 0;
}

bool ipsrun_is_itself_recorded(void)
{
    return ips_reported_overhead_ns;
}

void *ipsrun_find_real_libc_function(const char *name)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc ? dlsym(libc, name) : NULL;
}

/* --- images --------------------------------------------------------------- */

int ipsrun_run_if_called_as_empty_program(const char *called)
{
    if (strcmp(called, EMPTY) != 0)
        return -1;
    /* Small tools do the same at their end, to check that all output was
     * written. */
    (void)fclose(stdout);
    (void)fclose(stderr);
    uint32_t said =
        ipsrun_is_itself_recorded() ? ips_reported_overhead_ns() : 0;
    return (int)ips_min_u64((said + SAID_NS / 2) / SAID_NS, NO_IMAGE - 1);
}

/* --- a start with and without the interposer -------------------------------
 */

/* Runs in a child: executes ipsrun as a program that ends at once or, if only a
 * fork is measured, exits. */
static __attribute__((noreturn)) void exec_or_exit(bool wrapped,
                                                   enum ipsrun_start_kind child)
{
    const int status = child == IPSRUN_CHILD_FORK ? 0 : NO_IMAGE;
    char *argv[] = {(char *)(uintptr_t)EMPTY, NULL};
    if (wrapped && ipsrun_is_itself_recorded())
        *said_ns = ips_reported_overhead_ns();
    if (child == IPSRUN_CHILD_IMAGE && wrapped)
        execve("/proc/self/exe", argv, environ);
    else if (child == IPSRUN_CHILD_IMAGE)
        ips_sys3(SYS_execve, (long)"/proc/self/exe", (long)argv, (long)bare);
    if (wrapped)
        _exit(status);
    ips_sys3(SYS_exit_group, status, 0, 0);
    __builtin_unreachable();
}

static long spawn_image(bool wrapped)
{
    static int (*past)(pid_t *, const char *,
                       const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const[], char *const[]);
    char *argv[] = {(char *)(uintptr_t)EMPTY, NULL};
    void *found = past ? NULL : ipsrun_find_real_libc_function("posix_spawn");
    pid_t pid = 0;
    if (found)
        memcpy(&past, &found, sizeof(past));
    if (!past)
        return -1;
    int err =
        wrapped ? posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ)
                : past(&pid, "/proc/self/exe", NULL, NULL, argv, bare);
    return err ? -1 : pid;
}

/* Returns the CPU time (ns) of one start, parent and child together, minus the
 * overhead that the agent itself reports for it. Clears *good on failure. */
static int64_t measure_start_cpu(bool wrapped, enum ipsrun_start_kind child,
                                 bool *good)
{
    int status = -1;
    struct rusage before, after;
    *said_ns = 0;
    uint64_t start = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    getrusage(RUSAGE_CHILDREN, &before);
    long pid = child == IPSRUN_CHILD_SPAWNED ? spawn_image(wrapped)
               : wrapped                     ? fork()
                         : ips_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0)
        exec_or_exit(wrapped, child);
    long reaped = wrapped ? waitpid((pid_t)pid, &status, 0)
                          : ips_sys6(SYS_wait4, pid, (long)&status, 0, 0, 0, 0);
    uint64_t took = ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    getrusage(RUSAGE_CHILDREN, &after);
    *good = *good && pid > 0 && reaped == pid && WIFEXITED(status) &&
            WEXITSTATUS(status) < NO_IMAGE;
    const struct timeval *a[] = {&after.ru_utime, &after.ru_stime},
                         *b[] = {&before.ru_utime, &before.ru_stime};
    for (int i = 0; i < 2; i++)
        took += (uint64_t)((a[i]->tv_sec - b[i]->tv_sec) * 1000000 +
                           a[i]->tv_usec - b[i]->tv_usec) *
                1000;
    return (int64_t)took - *said_ns - (int64_t)WEXITSTATUS(status) * SAID_NS;
}

static int64_t compute_mean(const int64_t *ns, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += ns[i];
    return sum / count;
}

/* Computes the ps that recording adds to a start. Compares the quickest quarter
 * of the starts through the interposer (took[1]) with the quickest quarter of
 * those that bypass it (took[0]). The mean of the quickest quarter varies only
 * a third as much between measurements as the mean of all starts. The
 * difference is multiplied by the ratio of the overall mean to the quickest
 * quarter of took[0]: other load and cache misses slow down our work in the
 * same proportion. */
static int64_t compute_recording_cost_ps(int64_t took[2][STARTS], int count)
{
    for (int k = 0; k < 2; k++)
        qsort(took[k], (size_t)count, sizeof(took[k][0]), ipsrun_compare_i64);
    int64_t quick = compute_mean(took[0], count / 4);
    int64_t more = compute_mean(took[1], count / 4) - quick;
    return quick > 0 ? more * compute_mean(took[0], count) / quick * 1000 : 0;
}

int64_t ipsrun_measure_start_added_ps(enum ipsrun_start_kind child, bool spared,
                                      bool *good)
{
    int64_t took[2][STARTS];
    const int count = spared ? SPARED : STARTS;
    for (int i = 0; i < count && *good; i++)
        for (int k = 0; k < 2; k++) {
            bool wrapped = (i ^ k) & 1;
            imitate_program_work();
            took[wrapped][i] = measure_start_cpu(wrapped, child, good);
        }
    return *good ? compute_recording_cost_ps(took, count) : 0;
}

static void *return_from_empty_thread(void *unused)
{
    return unused;
}

int64_t ipsrun_measure_thread_added_ps(bool *good)
{
    typedef int (*maker)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                         void *);
    maker past = NULL;
    void *found = ipsrun_find_real_libc_function("pthread_create");
    memcpy(&past, &found, sizeof(past));
    int64_t took[2][STARTS];
    *good = *good && past;
    for (int i = 0; i < SPARED && *good; i++)
        for (int k = 0; k < 2; k++) {
            bool wrapped = (i ^ k) & 1;
            pthread_t id;
            uint64_t start = ips_sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
            *good =
                (wrapped
                     ? pthread_create(&id, NULL, return_from_empty_thread, NULL)
                     : past(&id, NULL, return_from_empty_thread, NULL)) == 0 &&
                pthread_join(id, NULL) == 0 && *good;
            took[wrapped][i] =
                (int64_t)(ips_sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start);
        }
    return *good ? compute_recording_cost_ps(took, SPARED) : 0;
}
