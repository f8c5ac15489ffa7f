/* A program that is hard on a guest in its process: floods, limits, jumps,
 * filters. Its output is the same with and without one. Usage: i_guest CASE */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int p[2];
static char buf[4096];

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
static void flood(long count)
{
    make_pipe();
    long moved = 0;
    for (long i = 0; i < count; i++) {
        size_t n = 1 + (size_t)(i % 4093);
        if (write(p[1], buf, n) != (ssize_t)n ||
            read(p[0], buf, n) != (ssize_t)n)
            die("flood");
        moved += (long)n;
    }
    printf("moved %ld\n", moved);
}

static long number(char **argv)
{
    return argv[2] ? strtol(argv[2], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "flood"))
        flood(number(argv));
    else
        return 2;
    return 0;
}
