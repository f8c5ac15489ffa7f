/*
 * A program whose phases are known: it computes alone, then talks with its
 * child without a pause, then both are idle, then it computes again. How much
 * of each is counted, not timed (but for being idle). A mark stands at each
 * boundary: "talk", "idle", "again", "over".
 *
 * Usage: phased ROUNDS MESSAGES IDLE_MS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/api/ips.h"

static volatile uint64_t sink;

/* Some 60 us each. */
static void compute(unsigned long rounds)
{
    uint64_t x = 88172645463325252ULL;
    for (unsigned long i = 0; i < rounds * 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

static void echo(int fd)
{
    char text[64];
    ssize_t n;
    while ((n = read(fd, text, sizeof(text))) > 0) {
        if (write(fd, text, (size_t)n) != n)
            _exit(1);
    }
    _exit(0);
}

static int talk(int fd, unsigned long messages)
{
    char text[64] = "phased";
    for (unsigned long i = 0; i < messages; i++) {
        if (write(fd, text, sizeof(text)) != (ssize_t)sizeof(text) ||
            read(fd, text, sizeof(text)) <= 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int fd[2], status = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: phased ROUNDS MESSAGES IDLE_MS\n");
        return 2;
    }
    unsigned long rounds = strtoul(argv[1], NULL, 10);
    long idle_ms = strtol(argv[3], NULL, 10);
    struct timespec idle = {idle_ms / 1000, idle_ms % 1000 * 1000000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        close(fd[0]);
        echo(fd[1]);
    }
    close(fd[1]);
    compute(rounds);
    ips_mark("talk");
    if (talk(fd[0], strtoul(argv[2], NULL, 10)))
        return 1;
    ips_mark("idle");
    nanosleep(&idle, NULL);
    ips_mark("again");
    compute(rounds);
    ips_mark("over");
    close(fd[0]);
    waitpid(child, &status, 0);
    return status ? 1 : 0;
}
