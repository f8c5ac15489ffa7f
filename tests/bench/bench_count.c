/*
 * What tests/bench/run count traces.
 *
 * Usage: bench_count make POOL RUN    makes a run whose clock is so slow that
 *        an emulator does not seem to take time: ns are 1/4096 of the counter's
 *        bench_count calls ROUNDS     sends and receives, bench_behind.so
 *        behind the agent: ROUNDS that do not block, ROUNDS whose receive does,
 *        as many of epoll_wait, and ROUNDS marks. Prints where
 * bench_behind_mark is. Exit status: 0, 1 where something is missing, 2 wrong
 * usage.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/pool.h"

#define SLOWER 4096u

static int make(const char *root, const char *run)
{
    struct ips_err err = {0};
    char dir[600], path[620];
    const struct ips_run_options options = {
        .pool_root = root, .run = run, .machine = "m", .command = "count"};
    if (ips_pool_make_run(&options, dir, sizeof(dir), &err) < 0) {
        fprintf(stderr, "bench_count: %s\n", err.msg);
        return 1;
    }
    snprintf(path, sizeof(path), "%s/control", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct ips_control *c =
        fd < 0
            ? MAP_FAILED
            : mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c == MAP_FAILED) {
        perror(path);
        return 1;
    }
    c->clock.mult_q32 /= SLOWER;
    c->cpu_mode = IPS_CPU_FAST;
    c->procedures = IPS_PROCEDURES_OFF;
    munmap(c, sizeof(*c));
    close(fd);
    return 0;
}

static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static int calls(uint64_t rounds)
{
    char bytes[64] = "the same sixty-four bytes every time";
    volatile uint32_t *at = find("bench_behind_mark");
    int *blocks = find("bench_behind_blocks");
    void (*mark)(const char *) = NULL;
    void *found = find("ips_mark");
    int fd[2];
    memcpy(&mark, &found, sizeof(mark));
    if (!at || !blocks || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0) {
        fprintf(stderr, "bench_count: bench_behind.so is not preloaded\n");
        return 1;
    }
    printf("%p\n", (void *)(uintptr_t)at);
    fflush(stdout);
    for (int blocking = 0; blocking < 2; blocking++) {
        *blocks = blocking;
        for (uint64_t i = 0; i < rounds; i++) {
            at[0] = 1;
            send(fd[0], bytes, sizeof(bytes), 0);
            at[3]++;
            at[0] = 1;
            recv(fd[1], bytes, sizeof(bytes), 0);
            at[3]++;
        }
    }
    struct epoll_event event = {.events = EPOLLIN}, got[1];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd[1], &event) < 0)
        return 1;
    for (*blocks = 0; *blocks < 2; ++*blocks)
        for (uint64_t i = 0; i < rounds; i++) {
            at[0] = 1;
            epoll_wait(epoll, got, 1, -1);
            at[3]++;
        }
    for (uint64_t i = 0; i < rounds; i++) {
        at[0] = 1;
        if (mark)
            mark("a mark");
        at[3]++;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "calls") == 0)
        return calls(strtoull(argv[2], NULL, 10));
    fprintf(stderr, "usage: bench_count make POOL RUN | calls ROUNDS\n");
    return 2;
}
