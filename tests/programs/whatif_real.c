/*
 * Four programs of which any procedure can really be made faster, to hold
 * what-if answers against (tests/bench/whatif_real.py, tests/system).
 *
 *     whatif_real PROGRAM ROUNDS UNIT [PROCEDURE=PERCENT ...]
 *
 *   rounds    a parent hands each round to two children by pipes, waits for
 *             both and combines: slow, quick, combine
 *   stages    three processes in a row, pipes between: parse, transform, emit
 *   threads   two threads that meet at a barrier, one goes on alone: left,
 *             right, serial
 *   server    a client that prepares and asks, a server that looks up and
 *             answers over a Unix socket; a third process audits aside:
 *             prepare, lookup, format_reply, audit
 *
 * A procedure does UNIT * `cost` / 25 turns of a loop, less PERCENT of them:
 * work is counted, not timed, so it is the same on a loaded machine. Every
 * procedure spends its time in itself. Prints nothing.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compute.h"

/* X(name, cost) */
#define PROCEDURES(X)                                                          \
    X(slow, 60)                                                                \
    X(quick, 25)                                                               \
    X(combine, 20)                                                             \
    X(parse, 15)                                                               \
    X(transform, 50)                                                           \
    X(emit, 10)                                                                \
    X(left, 50)                                                                \
    X(right, 20)                                                               \
    X(serial, 25)                                                              \
    X(prepare, 20)                                                             \
    X(lookup, 40)                                                              \
    X(format_reply, 15)                                                        \
    X(audit, 30)

static long unit;
#define X(name, cost)                                                          \
    static long name##_percent;                                                \
    static __attribute__((noinline)) void name(void)                           \
    {                                                                          \
        COMPUTE_TURNS(unit *(cost) / 100 * (100 - name##_percent));            \
    }
PROCEDURES(X)
#undef X

static bool set_percent(const char *word)
{
    static const struct {
        const char *name;
        long *percent;
    } all[] = {
#define X(name, cost) {#name, &name##_percent},
        PROCEDURES(X)
#undef X
    };
    const char *is = strchr(word, '=');
    for (size_t i = 0; is && i < sizeof(all) / sizeof(*all); i++) {
        if (strncmp(all[i].name, word, (size_t)(is - word)) != 0 ||
            all[i].name[is - word])
            continue;
        *all[i].percent = atol(is + 1);
        return *all[i].percent >= 0 && *all[i].percent <= 100;
    }
    return false;
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static bool get(int fd)
{
    char c;
    return read(fd, &c, 1) == 1;
}

static void put(int fd)
{
    must(write(fd, "x", 1) == 1, "write");
}

/* A child that does `work` for every byte and passes it on. */
static void child(int in, int out, void (*work)(void), void (*more)(void))
{
    while (get(in)) {
        work();
        if (more)
            more();
        if (out >= 0)
            put(out);
    }
    _exit(0);
}

static void all_end(void)
{
    while (wait(NULL) > 0)
        ;
}

static void rounds(long count)
{
    int to[2][2], from[2][2];
    void (*const work[2])(void) = {slow, quick};
    for (int i = 0; i < 2; i++) {
        must(pipe(to[i]) == 0 && pipe(from[i]) == 0, "pipe");
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid == 0) {
            for (int k = 0; k <= i; k++)
                close(to[k][1]);
            child(to[i][0], from[i][1], work[i], NULL);
        }
    }
    while (count--) {
        put(to[0][1]);
        put(to[1][1]);
        must(get(from[0][0]) && get(from[1][0]), "read");
        combine();
    }
    close(to[0][1]);
    close(to[1][1]);
    all_end();
}

static void stages(long count)
{
    int a[2], b[2];
    must(pipe(a) == 0 && pipe(b) == 0, "pipe");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        close(a[1]);
        child(a[0], b[1], transform, NULL);
    }
    pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        close(a[1]);
        close(b[1]);
        child(b[0], -1, emit, NULL);
    }
    close(a[0]);
    close(b[0]);
    close(b[1]);
    while (count--) {
        parse();
        put(a[1]);
    }
    close(a[1]);
    all_end();
}

static pthread_barrier_t meeting;
static long turns_left;

static void *other(void *arg)
{
    (void)arg;
    for (long i = 0; i < turns_left; i++) {
        right();
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}

static void threads(long count)
{
    pthread_t t;
    turns_left = count;
    must(pthread_barrier_init(&meeting, NULL, 2) == 0, "barrier");
    must(pthread_create(&t, NULL, other, NULL) == 0, "thread");
    while (count--) {
        left();
        pthread_barrier_wait(&meeting);
        serial();
        pthread_barrier_wait(&meeting);
    }
    pthread_join(t, NULL);
}

static void server(long count)
{
    int ask[2], log[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ask) == 0, "socketpair");
    must(pipe(log) == 0, "pipe");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        close(ask[0]);
        close(log[0]);
        close(log[1]);
        child(ask[1], ask[1], lookup, format_reply);
    }
    pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        close(ask[0]);
        close(ask[1]);
        close(log[1]);
        child(log[0], -1, audit, NULL);
    }
    close(ask[1]);
    close(log[0]);
    while (count--) {
        prepare();
        put(log[1]);
        put(ask[0]);
        must(get(ask[0]), "read");
    }
    close(ask[0]);
    close(log[1]);
    all_end();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long count);
    } programs[] = {{"rounds", rounds},
                    {"stages", stages},
                    {"threads", threads},
                    {"server", server}};
    bool known = argc >= 4;
    for (int i = 4; i < argc; i++)
        known = known && set_percent(argv[i]);
    for (size_t i = 0; known && i < sizeof(programs) / sizeof(*programs); i++) {
        if (strcmp(programs[i].name, argv[1]) != 0)
            continue;
        unit = 4 * atol(argv[3]);
        programs[i].run(atol(argv[2]));
        return 0;
    }
    fputs("usage: whatif_real rounds|stages|threads|server ROUNDS UNIT "
          "[PROCEDURE=PERCENT ...]\n",
          stderr);
    return 2;
}
