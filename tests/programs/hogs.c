/* Processes that compete for one core: `hogs N MS` lets N processes burn MS
 * milliseconds of CPU each, at the same time, on the first core they may use.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void burn(long ms)
{
    volatile unsigned long sum = 0;
    while (cpu_ms() < ms)
        for (unsigned i = 0; i < 100000; i++)
            sum += i;
}

static int one_core(void)
{
    cpu_set_t mine, first;
    if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
        return -1;
    unsigned core = 0;
    while (core < CPU_SETSIZE && !CPU_ISSET(core, &mine))
        core++;
    CPU_ZERO(&first);
    CPU_SET(core, &first);
    return sched_setaffinity(0, sizeof(first), &first);
}

int main(int argc, char **argv)
{
    if (argc != 3 || one_core() < 0) {
        fprintf(stderr, "usage: hogs N MS\n");
        return 2;
    }
    long n = strtol(argv[1], NULL, 10), ms = strtol(argv[2], NULL, 10);
    for (long i = 1; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0) {
            burn(ms);
            return 0;
        }
    }
    burn(ms);
    while (wait(NULL) > 0)
        continue;
    return 0;
}
