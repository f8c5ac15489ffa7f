/*
 * What one intercepted call costs: the same thread sends 64 bytes and receives
 * them again, so nothing ever blocks. Prints ns per send and per receive; run
 * it bare and under ipsrun in turn (tests/bench/run calls) - the difference is
 * the agent's. `event`: a mark through the API, where the preload library is
 * there to take it. `pingpong`: two processes on one core send 64 bytes of TCP
 * to and fro, so that every receive blocks; ns and both's CPU ns per round
 * trip. `lock`: a thread, not the only one, takes a mutex that is free and
 * gives it back; ns of its CPU (ipsrun --locks=all records that). `files`: ns
 * of a stat, of an open and close, and of a creation and removal.
 *
 * Usage: bench_calls socketpair|pipe|tcp|event|pingpong|lock|files ROUNDS
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int tcp_pair(int fd[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, len) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
        listen(listener, 1) < 0)
        return -1;
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd[0], (struct sockaddr *)&at, len) < 0)
        return -1;
    fd[1] = accept(listener, NULL, NULL);
    return fd[1] < 0 ? -1 : 0;
}

static int open_pair(const char *kind, int fd[2])
{
    if (strcmp(kind, "pipe") == 0) {
        int rc = pipe(fd);
        int read_end = fd[0];
        fd[0] = fd[1];
        fd[1] = read_end;
        return rc;
    }
    if (strcmp(kind, "tcp") == 0)
        return tcp_pair(fd);
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Without the preload library: an empty loop. CPU time: nothing waits. */
static int event(uint64_t rounds)
{
    void (*mark)(const char *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "ips_mark");
    memcpy(&mark, &found, sizeof(mark));
    uint64_t start = thread_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        if (mark)
            mark("a mark");
        __asm__ volatile("" ::: "memory");
    }
    printf("event_ns %.2f\n", (double)(thread_ns() - start) / (double)rounds);
    return 0;
}

static int echo(int in, int out, uint64_t rounds, int begins)
{
    char bytes[64] = "the same sixty-four bytes every time";
    for (uint64_t i = 0; i < rounds; i++) {
        if (begins && send(out, bytes, sizeof(bytes), 0) < 0)
            return 1;
        if (recv(in, bytes, sizeof(bytes), MSG_WAITALL) !=
            (ssize_t)sizeof(bytes))
            return 1;
        if (!begins && send(out, bytes, sizeof(bytes), 0) < 0)
            return 1;
    }
    return 0;
}

static uint64_t cpu_ns(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) *
               1000000000u +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000u;
}

static int pingpong(uint64_t rounds)
{
    int fd[2], one = 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof(set), &set);
    if (tcp_pair(fd) < 0)
        return 1;
    setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    pid_t pid = fork();
    if (pid == 0)
        _exit(echo(fd[1], fd[1], rounds + 1, 0));
    int rc = echo(fd[0], fd[0], 1, 1);
    uint64_t start = now_ns(), cpu = cpu_ns(RUSAGE_SELF);
    rc |= echo(fd[0], fd[0], rounds, 1);
    uint64_t took = now_ns() - start;
    cpu = cpu_ns(RUSAGE_SELF) - cpu;
    waitpid(pid, NULL, 0);
    cpu += cpu_ns(RUSAGE_CHILDREN); /* the other's beginning, too */
    printf("round_ns %.1f cpu_ns %.1f\n", (double)took / (double)rounds,
           (double)cpu / (double)rounds);
    return rc;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *take_and_give(void *rounds)
{
    uint64_t count = *(const uint64_t *)rounds, start = thread_ns();
    for (uint64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    printf("lock_ns %.2f\n", (double)(thread_ns() - start) / (double)count);
    return NULL;
}

static int lock(uint64_t rounds)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, take_and_give, &rounds) ||
           pthread_join(thread, NULL);
}

/* Two files in turn: each test is of another path than the one before. */
static int files(uint64_t rounds)
{
    static const char *const there[] = {"/bin/sh", "/etc/passwd"};
    char name[] = "/tmp/bench_calls.XXXXXX";
    struct stat st;
    int made = mkstemp(name);
    if (made < 0 || close(made) || unlink(name))
        return 1;
    uint64_t t0 = thread_ns();
    for (uint64_t i = 0; i < rounds; i++)
        if (stat(there[i % 2], &st))
            return 1;
    uint64_t t1 = thread_ns();
    for (uint64_t i = 0; i < rounds; i++)
        if (close(open(there[1], O_RDONLY | O_CLOEXEC)))
            return 1;
    uint64_t t2 = thread_ns();
    for (uint64_t i = 0; i < rounds; i++)
        if (close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) ||
            unlink(name))
            return 1;
    uint64_t t3 = thread_ns();
    printf("stat_ns %.1f open_ns %.1f create_ns %.1f\n",
           (double)(t1 - t0) / (double)rounds,
           (double)(t2 - t1) / (double)rounds,
           (double)(t3 - t2) / (double)rounds);
    return 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "socketpair";
    uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 200000;
    int fd[2];
    char bytes[64] = "the same sixty-four bytes every time";
    if (rounds && strcmp(kind, "event") == 0)
        return event(rounds);
    if (rounds && strcmp(kind, "lock") == 0)
        return lock(rounds);
    if (rounds && strcmp(kind, "files") == 0)
        return files(rounds);
    if (rounds && strcmp(kind, "pingpong") == 0)
        return pingpong(rounds);
    if (rounds == 0 || open_pair(kind, fd) < 0) {
        perror("bench_calls");
        return 1;
    }
    uint64_t send_ns = 0, recv_ns = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t t0 = now_ns();
        if (write(fd[0], bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
            return 1;
        uint64_t t1 = now_ns();
        if (read(fd[1], bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
            return 1;
        send_ns += t1 - t0;
        recv_ns += now_ns() - t1;
    }
    printf("send_ns %.1f recv_ns %.1f\n", (double)send_ns / (double)rounds,
           (double)recv_ns / (double)rounds);
    return 0;
}
