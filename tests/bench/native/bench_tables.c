/*
 * A program of many short processes that are all alike, each of which sends and
 * receives, and calls ten procedures (built with -finstrument-functions): so
 * `bench_tables N`, recorded with --procedures=exact, gives tables of N + 1
 * processes and about 11 N procedures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCEDURES(X) X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j)
#define AT_ONCE 16

static volatile unsigned sum;

#define X(name)                                                                \
    static __attribute__((noinline)) void work_##name(unsigned n)              \
    {                                                                          \
        for (unsigned k = 0; k < n; k++)                                       \
            sum += k ^ n;                                                      \
    }
PROCEDURES(X)
#undef X

static __attribute__((noinline)) void child(int from, int to, unsigned n)
{
    char byte;
    if (read(from, &byte, 1) != 1)
        _exit(1);
#define X(name) work_##name(100 + n % 97);
    PROCEDURES(X)
#undef X
    _exit(write(to, &byte, 1) == 1 ? 0 : 1);
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    int down[2], up[2], status, bad = 0;
    if (pipe(down) || pipe(up))
        return 2;
    for (unsigned long done = 0; done < count;) {
        unsigned made = 0;
        for (; made < AT_ONCE && done < count; made++, done++) {
            pid_t pid = fork();
            if (pid < 0)
                return 2;
            if (pid == 0)
                child(down[0], up[1], (unsigned)done);
        }
        for (unsigned k = 0; k < made; k++) {
            char byte = 'x';
            if (write(down[1], &byte, 1) != 1 || read(up[0], &byte, 1) != 1)
                return 2;
        }
        while (made-- > 0)
            bad |= wait(&status) < 0 || status != 0;
    }
    return bad;
}
