/*
 * why-problems PROBLEM...: each problem in turn, for about as much work; of
 * several each is a part of the run. All waits are for work, not for time (but
 * `outside`, which sleeps as long as its work would take). Prints nothing.
 *
 *   healthy    two processes, equal work, eight procedures
 *   procedure  nine tenths of the work in hot_spot()
 *   serial     three threads in step; between steps one works alone
 *   late       a child computes long before each of its messages
 *   imbalance  of four children one has most of the work
 *   chatty     two processes that tell each other one byte at a time
 *   locks      four threads that do all their work under one lock
 *   cores      six processes a core
 *   outside    sleeps much longer than it works
 *   spread     work spread over 60 procedures
 *
 * why-problems serve: prints "port P", answers one client's questions with four
 * times the work that it has itself; why-problems ask P: is that client.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

#define UNIT 1000L /* thousandths: what WORK takes */

static void must(int fine)
{
    if (!fine)
        abort();
}

static void wait_all(void)
{
    while (wait(NULL) > 0) {
    }
}

/* ---- healthy, procedure, spread ---- */

static void healthy(void)
{
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            work_several(100 * UNIT);
            _exit(0);
        }
    }
    wait_all();
}

static void hot_spot(long units)
{
    WORK(units);
}

static void procedure(void)
{
    for (int i = 0; i < 10; i++) {
        hot_spot(9 * UNIT);
        work_several(UNIT);
    }
}

static void spread(void)
{
    work_spread(120 * UNIT);
}

/* ---- serial ---- */

#define STEPS 20
static pthread_barrier_t barrier;

static void serial_part(void)
{
    WORK(4 * UNIT);
}
static void parallel_part(void)
{
    WORK(UNIT);
}

static void *in_step(void *main_thread)
{
    for (int i = 0; i < STEPS; i++) {
        if (main_thread)
            serial_part();
        pthread_barrier_wait(&barrier);
        parallel_part();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void serial(void)
{
    pthread_t thread[2];
    int one = 1;
    pthread_barrier_init(&barrier, NULL, 3);
    for (int i = 0; i < 2; i++)
        must(pthread_create(&thread[i], NULL, in_step, NULL) == 0);
    in_step(&one);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

/* ---- late ---- */

static void prepare(void)
{
    WORK(4 * UNIT);
}
static void consume(void)
{
    WORK(UNIT);
}

static void late(void)
{
    int to[2];
    char c;
    must(pipe(to) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        close(to[0]);
        for (int i = 0; i < STEPS; i++) {
            prepare();
            must(write(to[1], "x", 1) == 1);
        }
        _exit(0);
    }
    close(to[1]);
    while (read(to[0], &c, 1) == 1)
        consume();
    close(to[0]);
    wait_all();
}

/* ---- imbalance ---- */

static void uneven_part(long units)
{
    WORK(units);
}

static void imbalance(void)
{
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            uneven_part(i == 2 ? 80 * UNIT : 5 * UNIT);
            _exit(0);
        }
    }
    wait_all();
}

/* ---- chatty ---- */

static void chatty(void)
{
    int there[2], back[2];
    char c = 'x';
    must(pipe(there) == 0 && pipe(back) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        close(there[1]);
        close(back[0]);
        while (read(there[0], &c, 1) == 1)
            must(write(back[1], &c, 1) == 1);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    for (int i = 0; i < 100000; i++)
        must(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
    close(there[1]);
    wait_all();
    close(back[0]);
}

/* ---- locks ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void critical(void)
{
    WORK(UNIT / 10);
}

static void *in_line(void *unused)
{
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        critical();
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void locks(void)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        must(pthread_create(&thread[i], NULL, in_line, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* ---- cores ---- */

static void cores(void)
{
    long count = 6 * sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < count; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            work_several(15 * UNIT);
            _exit(0);
        }
    }
    wait_all();
}

/* ---- outside ---- */

/* As long as 120 units of work take here: of a fixed time a quick machine's
 * other problems would be little. */
static void outside(void)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    work_several(UNIT);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    long unit_ns =
        (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
    long each_ns = 6 * unit_ns;
    const struct timespec t = {each_ns / 1000000000, each_ns % 1000000000};
    for (int i = 0; i < 20; i++) {
        nanosleep(&t, NULL);
        work_several(UNIT / 100);
    }
}

/* ---- serve, ask ---- */

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void answer_question(void)
{
    WORK(4 * UNIT);
}
static void put_question(void)
{
    WORK(UNIT);
}

static int serve(void)
{
    struct sockaddr_in at = local(0);
    socklen_t len = sizeof(at);
    char c;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&at, len) == 0);
    must(listen(listener, 1) == 0);
    must(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    printf("port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    while (read(fd, &c, 1) == 1) {
        answer_question();
        must(write(fd, &c, 1) == 1);
    }
    return 0;
}

static int ask(int port)
{
    struct sockaddr_in at = local(port);
    char c = 'x';
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    for (int i = 0; i < STEPS; i++) {
        put_question();
        must(write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } problems[] = {{"healthy", healthy},     {"procedure", procedure},
                    {"serial", serial},       {"late", late},
                    {"imbalance", imbalance}, {"chatty", chatty},
                    {"locks", locks},         {"cores", cores},
                    {"outside", outside},     {"spread", spread}};
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return serve();
    if (argc == 3 && strcmp(argv[1], "ask") == 0)
        return ask(atoi(argv[2]));
    for (int i = 1; i < argc; i++) {
        size_t k = 0, n = sizeof(problems) / sizeof(*problems);
        while (k < n && strcmp(problems[k].name, argv[i]) != 0)
            k++;
        if (k == n)
            return 2;
        problems[k].run();
    }
    return argc < 2 ? 2 : 0;
}
