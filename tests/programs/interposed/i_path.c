/* Two processes that answer each other, and what each does meanwhile.
 *
 *   i_path both TURNS MS       ask and answer are parent and child, with pipes
 *   i_path serve MS            answers on a port of 127.0.0.1 that it prints
 *   i_path call PORT TURNS MS  asks there
 *
 * ask() computes 5 * MS and sends; answer() receives, computes 2 * MS and sends
 * back; then aside() computes 2 * MS while the other asks again. So of the
 * critical path 5/7 is ask, 2/7 answer, and nothing is aside, which is done by
 * the same thread and as much as answer. MS may be a fraction.
 *
 * Prints "NAME ADDRESS" of the three. i_path_exact is the same with entries and
 * exits of the three recorded. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compute.h"

#define PLAIN __attribute__((no_instrument_function))
#define NOINLINE __attribute__((noinline, noclone))

static uint64_t per_ms;

PLAIN static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

NOINLINE static void ask(uint64_t n)
{
    COMPUTE_TURNS(n);
}
NOINLINE static void answer(uint64_t n)
{
    COMPUTE_TURNS(n);
}
NOINLINE static void aside(uint64_t n)
{
    COMPUTE_TURNS(n);
}

/* Turns of the loop that take a millisecond. */
PLAIN static void calibrate(void)
{
    uint64_t turns = 1000000, t = cpu_ns();
    COMPUTE_TURNS(turns);
    t = cpu_ns() - t;
    per_ms = t ? turns * 1000000 / t : turns;
}

PLAIN static uint64_t turns_of(double ms)
{
    return (uint64_t)(ms * (double)per_ms);
}

PLAIN static int answers(int in, int out, double ms)
{
    char c;
    while (read(in, &c, 1) == 1) {
        answer(turns_of(2 * ms));
        if (write(out, &c, 1) != 1)
            return 1;
        aside(turns_of(2 * ms));
    }
    return 0;
}

PLAIN static int asks(int in, int out, int turns, double ms)
{
    char c = 'x';
    for (int i = 0; i < turns; i++) {
        ask(turns_of(5 * ms));
        if (write(out, &c, 1) != 1 || read(in, &c, 1) != 1)
            return 1;
    }
    return 0;
}

PLAIN static int both(int turns, double ms)
{
    int down[2], up[2];
    if (pipe(down) < 0 || pipe(up) < 0)
        return 1;
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        _exit(answers(down[0], up[1], ms));
    }
    close(down[0]);
    close(up[1]);
    int status = asks(up[0], down[1], turns, ms);
    close(down[1]);
    waitpid(pid, NULL, 0);
    return status;
}

PLAIN static int nodelay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

PLAIN static int serve(double ms)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, len) < 0 || listen(s, 1) < 0 ||
        getsockname(s, (struct sockaddr *)&a, &len) < 0)
        return 1;
    printf("port %d\n", ntohs(a.sin_port));
    fflush(stdout);
    int c = accept(s, NULL, NULL);
    return c < 0 ? 1 : answers(nodelay(c), c, ms);
}

PLAIN static int call(int port, int turns, double ms)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof(a)) < 0)
        return 1;
    return asks(nodelay(s), s, turns, ms);
}

PLAIN int main(int argc, char **argv)
{
    calibrate();
    printf("ask %p\nanswer %p\naside %p\n", (void *)(uintptr_t)ask,
           (void *)(uintptr_t)answer, (void *)(uintptr_t)aside);
    fflush(stdout);
    if (argc == 4 && strcmp(argv[1], "both") == 0)
        return both(atoi(argv[2]), atof(argv[3]));
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(atof(argv[2]));
    if (argc == 5 && strcmp(argv[1], "call") == 0)
        return call(atoi(argv[2]), atoi(argv[3]), atof(argv[4]));
    return 2;
}
