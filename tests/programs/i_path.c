/* Two processes that answer each other, and what each does meanwhile.
 *
 *   i_path TURNS MS    parent: ask() computes 5 * MS, then sends; the child
 *                      receives, answer() computes 2 * MS and sends back; then
 *                      aside() computes 2 * MS while the parent asks again.
 *
 * So of the critical path 5/7 is ask, 2/7 answer, and nothing is aside, which
 * is done by the same thread and as much as answer. MS may be a fraction. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Turns of the loop that take a millisecond. */
static uint64_t calibrate(void)
{
    uint64_t turns = 1000000, t = cpu_ns();
    for (uint64_t i = 0; i < turns; i++)
        sink += i;
    t = cpu_ns() - t;
    return t ? turns * 1000000 / t : turns;
}

NOINLINE static void ask(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sink += i;
}
NOINLINE static void answer(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sink += i;
}
NOINLINE static void aside(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sink += i;
}

static void child(int in, int out, uint64_t per_ms, double ms)
{
    char c;
    while (read(in, &c, 1) == 1) {
        answer((uint64_t)(2 * ms * (double)per_ms));
        if (write(out, &c, 1) != 1)
            break;
        aside((uint64_t)(2 * ms * (double)per_ms));
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int down[2], up[2];
    char c = 'x';
    if (argc < 3 || pipe(down) < 0 || pipe(up) < 0)
        return 2;
    int turns = atoi(argv[1]);
    double ms = atof(argv[2]);
    uint64_t per_ms = calibrate();
    pid_t pid = fork();
    if (pid < 0)
        return 2;
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        child(down[0], up[1], per_ms, ms);
    }
    close(down[0]);
    close(up[1]);
    for (int i = 0; i < turns; i++) {
        ask((uint64_t)(5 * ms * (double)per_ms));
        if (write(down[1], &c, 1) != 1 || read(up[0], &c, 1) != 1)
            return 1;
    }
    close(down[1]);
    waitpid(pid, NULL, 0);
    printf("%d turns\n", turns);
    return 0;
}
