/* Sleeps for pages of a mapped file that are not in memory. Main, or a thread,
 * writes "FAULTS ASLEEP" to FILE.told: its major page faults, and for how many
 * ns it slept from its first touch of the file to its last.
 *
 *   i_page_faults plain FILE   main touches the file and makes no calls
 *   i_page_faults calls FILE   main writes a byte to a pipe after each touch,
 *                              and reads it
 *   i_page_faults busy FILE    as plain, and computes between the touches
 *   i_page_faults thread FILE  a thread touches the file, and ends
 *   i_page_faults within FILE  main writes the file's mapping to memory, 16
 * pages a call i_page_faults futex FILE   as plain, but between the touches the
 * thread sleeps by system calls that are not wrapped
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/compute.h"

#define PAGE 4096u
#define PAGES 4096u
#define TOUCHES 2400u

static const char *how;
static const volatile uint8_t *file;
static unsigned sum;

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How long the thread was ready to run and did not, as the kernel counts it. */
static uint64_t delay_ns(void)
{
    unsigned long long ran, delay = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (!f || fscanf(f, "%llu %llu", &ran, &delay) != 2)
        _exit(6);
    fclose(f);
    return delay;
}

static uint64_t asleep_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC) - clock_ns(CLOCK_THREAD_CPUTIME_ID) -
           delay_ns();
}

/* Sleeps without a wrapper: the instruction is in the program. */
static void sleep_by_instruction(void)
{
    struct timespec t = {0, 500000};
#if defined(__x86_64__)
    long r = SYS_nanosleep;
    __asm__ volatile("syscall"
                     : "+a"(r)
                     : "D"(&t), "S"(0L)
                     : "rcx", "r11", "memory");
#else
    register long nr __asm__("x8") = SYS_nanosleep;
    register long a0 __asm__("x0") = (long)&t;
    register long a1 __asm__("x1") = 0;
    __asm__ volatile("svc 0" : "+r"(a0) : "r"(nr), "r"(a1) : "memory");
#endif
}

static void write_pages(void)
{
    int fd = memfd_create("i_page_faults", MFD_CLOEXEC);
    for (unsigned i = 0; i + 16 <= TOUCHES; i += 16)
        if (write(fd, (const void *)(uintptr_t)(file + (size_t)i * PAGE),
                  16 * PAGE) != 16 * PAGE)
            _exit(7);
}

static void touch_pages(void)
{
    int fds[2];
    if (strcmp(how, "within") == 0) {
        write_pages();
        return;
    }
    char byte = 0;
    if (pipe(fds) < 0)
        _exit(3);
    const bool sleeps = strcmp(how, "futex") == 0;
    for (unsigned i = 0; i < (sleeps ? TOUCHES / 8 : TOUCHES); i++) {
        sum += file[(size_t)(i * 1237u % PAGES) * PAGE];
        if (strcmp(how, "calls") == 0 &&
            (write(fds[1], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1))
            _exit(4);
        if (strcmp(how, "busy") == 0)
            COMPUTE_TURNS(50000);
        if (sleeps)
            for (int k = 0; k < 3; k++)
                sleep_by_instruction();
    }
}

static void *run(void *arg)
{
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    uint64_t t = asleep_ns(), delay = delay_ns();
    touch_pages();
    t = asleep_ns() - t;
    delay = delay_ns() - delay;
    getrusage(RUSAGE_THREAD, &after);
    char name[256];
    snprintf(name, sizeof(name), "%s.told", (const char *)arg);
    FILE *told = fopen(name, "w");
    if (!told)
        _exit(5);
    fprintf(told, "%ld %llu %llu\n", after.ru_majflt - before.ru_majflt,
            (unsigned long long)t, (unsigned long long)delay);
    fclose(told);
    return NULL;
}

/* A mapping of FILE, of which no page is in memory if its disk allows that. */
static bool map_cold_file(const char *name)
{
    static char page[PAGE];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(page, 7, sizeof(page));
    for (unsigned i = 0; fd >= 0 && i < PAGES; i++)
        if (write(fd, page, PAGE) != PAGE)
            return false;
    if (fd < 0 || fsync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
        return false;
    void *map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED ||
        madvise(map, (size_t)PAGES * PAGE, MADV_RANDOM) < 0)
        return false;
    file = map;
    return true;
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc != 3 || !map_cold_file(argv[2]))
        return 2;
    how = argv[1];
    if (strcmp(how, "thread") == 0) {
        if (pthread_create(&t, NULL, run, argv[2]) || pthread_join(t, NULL))
            return 1;
    } else {
        run(argv[2]);
    }
    return sum % 7 != 0;
}
