/* Waits whose cause, place and culprit are known. Nobody goes on before the
 * other is asleep (its state in /proc), so every wait is one, however late.
 *
 *   i_waits chain     main waits in await_answer() for a child `middle`, which
 *                     waits in await_order() for a child `late`, which computes
 *                     in work_late(), sleeps in rest_late(), and sends; middle
 *                     computes in work_middle() and answers
 *   i_waits pour      a child writes in pour() what no pipe holds, until the
 *                     parent, which computes in work_late() first, reads
 *   i_waits lock      a thread has a mutex and computes in work_late(); main
 *                     waits for it in take_lock()
 *   i_waits reap      main, which handles SIGCHLD, waits in await_child() for a
 *                     child that computes in work_late()
 *   i_waits disk FILE i_waits, `middle` and `late` as in chain, but late writes
 *                     and syncs FILE in rest_late()
 *   i_waits serve FILE, i_waits ask PORT FILE   late and main over TCP: the
 *                     server prints its port; FILE has the asker's pid
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/asleep.h"

#define NOINLINE __attribute__((noinline, noclone))
#define WORK_NS 40000000u
#define POUR_BYTES (1u << 20)

static volatile uint64_t sink;
static const char *file;

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

NOINLINE static void turn(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sink += i;
}

#define WORK(name)                                                             \
    NOINLINE static void name(void)                                            \
    {                                                                          \
        uint64_t end = cpu_ns() + WORK_NS;                                     \
        while (cpu_ns() < end)                                                 \
            for (uint64_t i = 0; i < 300000; i++)                              \
                sink += i;                                                     \
        turn(1);                                                               \
    }
WORK(work_late)
WORK(work_middle)

static void must(int fine, const char *what)
{
    if (fine)
        return;
    perror(what);
    _exit(1);
}

/* The others' pids, and that they are about to wait. */
struct shared {
    volatile int pid[2], ready[2];
};

static void until_ready(struct shared *s, int who)
{
    while (!s->ready[who])
        usleep(1000);
    until_asleep(s->pid[who]);
}

static void get(int fd)
{
    char c;
    must(read(fd, &c, 1) == 1, "read");
}
static void put(int fd)
{
    must(write(fd, "x", 1) == 1, "write");
}
#define AWAIT(name)                                                            \
    NOINLINE static void name(int fd)                                          \
    {                                                                          \
        char c;                                                                \
        must(read(fd, &c, 1) == 1, "read");                                    \
        turn(1);                                                               \
    }
AWAIT(await_answer)
AWAIT(await_order)

NOINLINE static void rest_late(void)
{
    if (!file) {
        usleep(20000);
    } else {
        static char data[65536];
        int fd = open(file, O_RDWR | O_CREAT, 0600);
        must(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data) &&
                 fsync(fd) == 0,
             file);
        close(fd);
    }
    turn(1);
}

static void chain(void)
{
    int order[2], answer[2];
    struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(s != MAP_FAILED && pipe(order) == 0 && pipe(answer) == 0, "pipe");
    s->pid[0] = getpid();
    if (fork() == 0) {
        s->pid[1] = getpid();
        s->ready[1] = 1;
        await_order(order[0]);
        work_middle();
        put(answer[1]);
        _exit(0);
    }
    if (fork() == 0) {
        until_ready(s, 0);
        until_ready(s, 1);
        work_late();
        rest_late();
        put(order[1]);
        _exit(0);
    }
    s->ready[0] = 1;
    await_answer(answer[0]);
    while (wait(NULL) > 0)
        continue;
}

NOINLINE static void pour(int fd)
{
    static char data[POUR_BYTES];
    must(write(fd, data, sizeof(data)) == sizeof(data), "write");
    turn(1);
}

static void pouring(void)
{
    static char data[65536];
    int p[2];
    must(pipe(p) == 0, "pipe");
    int child = fork();
    if (child == 0) {
        close(p[0]);
        pour(p[1]);
        _exit(0);
    }
    close(p[1]);
    until_asleep(child);
    work_late();
    while (read(p[0], data, sizeof(data)) > 0)
        continue;
    wait(NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int held, main_tid;

static void *holder(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&mutex);
    held = 1;
    while (!main_tid)
        usleep(1000);
    until_asleep(main_tid);
    work_late();
    pthread_mutex_unlock(&mutex);
    return NULL;
}

NOINLINE static void take_lock(void)
{
    main_tid = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void locking(void)
{
    pthread_t t;
    must(pthread_create(&t, NULL, holder, NULL) == 0, "pthread_create");
    while (!held)
        usleep(1000);
    take_lock();
    pthread_join(t, NULL);
}

static void on_child(int sig)
{
    (void)sig;
}

NOINLINE static void await_child(void)
{
    while (wait(NULL) < 0)
        continue;
    turn(1);
}

static void reaping(void)
{
    struct sigaction a = {.sa_handler = on_child};
    sigaction(SIGCHLD, &a, NULL);
    int parent = getpid();
    if (fork() == 0) {
        until_asleep(parent);
        work_late();
        _exit(0);
    }
    await_child();
}

static void serve(const char *name)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof(a);
    int s = socket(AF_INET, SOCK_STREAM, 0), pid = 0;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(s >= 0 && bind(s, (struct sockaddr *)&a, len) == 0 &&
             listen(s, 1) == 0 &&
             getsockname(s, (struct sockaddr *)&a, &len) == 0,
         "listen");
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    int fd = accept(s, NULL, NULL);
    must(fd >= 0, "accept");
    for (int i = 0; i < 8; i++) { /* for the clocks */
        get(fd);
        put(fd);
    }
    while (pid <= 0) {
        FILE *f = fopen(name, "r");
        if (f && fscanf(f, "%d\n", &pid) != 1)
            pid = 0;
        if (f)
            fclose(f);
        usleep(1000);
    }
    until_asleep(pid);
    work_late();
    put(fd);
}

static void ask(int port, const char *name)
{
    char temporary[512];
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_port = htons((uint16_t)port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0,
         "connect");
    for (int i = 0; i < 8; i++) {
        put(fd);
        get(fd);
    }
    snprintf(temporary, sizeof(temporary), "%s.new", name);
    FILE *f = fopen(temporary, "w");
    must(f && fprintf(f, "%d\n", (int)getpid()) > 0 && fclose(f) == 0 &&
             rename(temporary, name) == 0,
         name);
    await_answer(fd);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "disk") == 0 && argc > 2)
        file = argv[2];
    if (strcmp(what, "chain") == 0 || file)
        chain();
    else if (strcmp(what, "pour") == 0)
        pouring();
    else if (strcmp(what, "lock") == 0)
        locking();
    else if (strcmp(what, "reap") == 0)
        reaping();
    else if (strcmp(what, "serve") == 0 && argc > 2)
        serve(argv[2]);
    else if (strcmp(what, "ask") == 0 && argc > 3)
        ask(atoi(argv[2]), argv[3]);
    else
        return 2;
    return 0;
}
