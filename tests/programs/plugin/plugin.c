/* Code that comes by dlopen: computes, then writes. */
#include <stdint.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int plugin_run(int fd, uint64_t cpu_ms);
int plugin_run(int fd, uint64_t cpu_ms)
{
    struct timespec ts;
    static volatile uint64_t sink;
    uint64_t now, end = 0;
    do {
        for (uint64_t i = 0; i < 10000; i++)
            sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
        if (!end)
            end = now + cpu_ms * 1000000u;
    } while (now < end);
    return write(fd, "x", 1) == 1;
}
