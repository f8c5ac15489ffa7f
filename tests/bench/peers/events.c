/*
 * events COUNT: ns of this thread's CPU time for one event with a short text.
 * Compiled with WITH_LTTNG the event is an lttng-ust tracepoint; else it is
 * ips_mark() where the preload library is there to take it, and nothing (the
 * loop) where it is not. tests/bench/run peers compiles and runs it.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef WITH_LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tp.h"
#endif

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void loop(void (*mark)(const char *), uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
#ifdef WITH_LTTNG
        (void)mark;
        lttng_ust_tracepoint(ips_bench, mark, "a mark");
#else
        if (mark)
            mark("a mark");
#endif
        __asm__ volatile("" ::: "memory");
    }
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 300000;
    void (*mark)(const char *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "ips_mark");
    memcpy(&mark, &found, sizeof(mark));
    loop(mark, 1000); /* what is set up once */
    uint64_t start = now_ns();
    loop(mark, count);
    printf("ns %.2f\n", (double)(now_ns() - start) / (double)count);
    return 0;
}
