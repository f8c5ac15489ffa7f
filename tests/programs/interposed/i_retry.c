/* i_retry TRY NAP WHERE [MS]: a thread that tries, and naps between its tries.
 *
 * The main thread tries by TRY again and again, with NAP between. The ender, in
 * WHERE, waits until it naps, computes for MS ms (50) and does what lets the
 * next try succeed; then the main thread computes for MS ms. So the longest
 * path is 2 * MS, whatever the naps took. `i_retry list`: one line for each
 * cell that there is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "compute.h"

static const char *way, *how, *where;
static long ms = 50;
static pid_t waiter, child;
static char directory[] = "/tmp/i_retry.XXXXXX", path[64], other_path[64];
static int bound = -1, pair[2], lock_fd;
static struct sockaddr_storage name;
static socklen_t name_len;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int fail(const char *what)
{
    perror(what);
    exit(9);
}

/* ---- the ways ---- */

static bool is_one_of(const char *const *names)
{
    for (; *names; names++)
        if (is(way, *names))
            return true;
    return false;
}

/* Whether a try succeeds when the file at `path` is gone. */
static bool until_gone(void)
{
    return is_one_of((const char *const[]){"gone", "lockdir", "lockfile",
                                           "lockname", "moved", NULL});
}

/* Whether a try succeeds when the ender is gone. */
static bool until_process_gone(void)
{
    return is_one_of((const char *const[]){"kill0", "proc", NULL});
}

static bool connects(void)
{
    return is(way, "tcp") || is(way, "unix") || is(way, "abstract");
}

static bool of_children(void)
{
    return strncmp(way, "wait", 4) == 0;
}

static bool locks_file(void)
{
    return is(way, "flock") || is(way, "setlk");
}

/* The whole file, by LOCK_EX or LOCK_UN. */
static int lock_file(int fd, int operation)
{
    struct flock whole = {.l_type = operation == LOCK_UN ? F_UNLCK : F_WRLCK};
    return is(way, "flock") ? flock(fd, operation | LOCK_NB)
                            : fcntl(fd, F_SETLK, &whole);
}

static void make_tcp(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(&name, &in, sizeof(in));
    name_len = sizeof(in);
}

static void make_unix(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t from = is(way, "abstract");
    snprintf(un.sun_path + from, sizeof(un.sun_path) - from, "%s/s", directory);
    memcpy(&name, &un, sizeof(un));
    name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + from +
                           strlen(un.sun_path + from));
}

/* Bound, and nobody listens yet. */
static void bind_it(void)
{
    bound = socket(name.ss_family, SOCK_STREAM, 0);
    if (bind(bound, (struct sockaddr *)&name, name_len))
        fail("bind");
    name_len = sizeof(name);
    if (getsockname(bound, (struct sockaddr *)&name, &name_len))
        fail("getsockname");
}

static void begin(void)
{
    if (!mkdtemp(directory))
        fail("mkdtemp");
    snprintf(path, sizeof(path), "%s/f", directory);
    if (is(way, "tcp"))
        make_tcp();
    if (is(way, "unix") || is(way, "abstract"))
        make_unix();
    if (connects())
        bind_it();
    if (is(way, "recv") &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
        fail("socketpair");
    if (is(way, "pipe") && pipe2(pair, O_NONBLOCK))
        fail("pipe");
    if (is(way, "sem"))
        sem_init(&semaphore, 0, 0);
    snprintf(other_path, sizeof(other_path), "%s/o", directory);
    if (is(way, "access") || is(way, "lockname"))
        close(open(other_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (until_process_gone()) /* nobody waits for it */
        signal(SIGCHLD, SIG_IGN);
    if (locks_file())
        lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* ---- the ender ---- */

/* What it has from the beginning on. */
static int hold(void)
{
    if (is(way, "lockdir"))
        mkdir(path, 0700);
    else if (until_gone())
        close(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (is(way, "trylock"))
        pthread_mutex_lock(&mutex);
    if (is(way, "tryrdlock"))
        pthread_rwlock_wrlock(&rwlock);
    int fd = locks_file() ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0 && lock_file(fd, LOCK_EX))
        fail("lock");
    return fd;
}

static void end_it(int fd)
{
    if (connects() && (listen(bound, 8) || accept(bound, NULL, NULL) < 0))
        fail("listen");
    if (is(way, "recv") || is(way, "pipe"))
        (void)!write(pair[1], "x", 1);
    if (is(way, "trylock"))
        pthread_mutex_unlock(&mutex);
    if (is(way, "tryrdlock"))
        pthread_rwlock_unlock(&rwlock);
    if (is(way, "sem"))
        sem_post(&semaphore);
    if (locks_file())
        lock_file(fd, LOCK_UN);
    if (is(way, "stat") || is(way, "open"))
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (is(way, "access") && rename(other_path, path))
        fail("rename");
    if (is(way, "directory") && mkdir(path, 0700))
        fail("mkdir");
    if (is(way, "moved") ? rename(path, other_path)
                         : until_gone() && remove(path))
        fail("remove");
}

/* What both share: whether the ender has what it holds, and how often the other
 * has tried. */
static struct {
    sem_t held;
    atomic_int tries;
} * shared;

static void *ender(void *unused)
{
    int fd = hold();
    (void)unused;
    sem_post(&shared->held);
    while (atomic_load(&shared->tries) < 3)
        sched_yield();
    until_asleep(waiter);
    compute(ms);
    end_it(fd);
    return NULL;
}

static void begin_ender(pthread_t *t)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&shared->held, 1, 0);
    if (is(where, "thread")) {
        if (pthread_create(t, NULL, ender, NULL))
            fail("pthread_create");
        sem_wait(&shared->held);
        return;
    }
    child = fork();
    if (child == 0) {
        ender(NULL);
        if (!of_children() && !until_process_gone()) /* not by its end */
            pause();
        _exit(0);
    }
    sem_wait(&shared->held);
}

/* ---- who tries ---- */

static bool try_connect(void)
{
    int s = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(s, (struct sockaddr *)&name, name_len) == 0)
        return true;
    close(s);
    return false;
}

static bool try_child(void)
{
    siginfo_t info = {0};
    if (is(way, "waitid"))
        return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG) == 0 &&
               info.si_pid == child;
    return waitpid(is(way, "waitpid") ? child : -1, NULL, WNOHANG) == child;
}

/* Tries to be the one that creates `path`. */
static bool try_to_create(void)
{
    if (is(way, "lockdir"))
        return mkdir(path, 0700) == 0;
    if (is(way, "lockname"))
        return link(other_path, path) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static bool try_process(void)
{
    char directory_of_child[32];
    struct stat st;
    if (is(way, "kill0"))
        return kill(child, 0) < 0;
    snprintf(directory_of_child, sizeof(directory_of_child), "/proc/%d",
             (int)child);
    return stat(directory_of_child, &st) < 0;
}

static bool try_path(void)
{
    struct stat st;
    if (is(way, "gone"))
        return access(path, F_OK) < 0;
    if (is(way, "moved"))
        return stat(path, &st) < 0;
    if (is(way, "access"))
        return access(path, F_OK) == 0;
    if (is(way, "open")) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd >= 0 && close(fd) == 0;
    }
    return is(way, "stat") ? stat(path, &st) == 0
                           : fstatat(AT_FDCWD, path, &st, 0) == 0;
}

static bool try_it(void)
{
    char c;
    if (connects())
        return try_connect();
    if (of_children())
        return try_child();
    if (is(way, "recv"))
        return recv(pair[0], &c, 1, 0) == 1;
    if (is(way, "pipe"))
        return read(pair[0], &c, 1) == 1;
    if (is(way, "trylock"))
        return pthread_mutex_trylock(&mutex) == 0;
    if (is(way, "tryrdlock"))
        return pthread_rwlock_tryrdlock(&rwlock) == 0;
    if (is(way, "sem"))
        return sem_trywait(&semaphore) == 0;
    if (locks_file())
        return lock_file(lock_fd, LOCK_EX) == 0;
    if (until_process_gone())
        return try_process();
    if (until_gone() && strncmp(way, "lock", 4) == 0)
        return try_to_create();
    return try_path();
}

static void nap(void)
{
    struct timespec ts = {0, 2000000};
    struct timeval tv = {0, 2000};
    if (is(how, "nanosleep"))
        nanosleep(&ts, NULL);
    else if (is(how, "clock_nanosleep"))
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
    else if (is(how, "usleep"))
        usleep(2000);
    else if (is(how, "poll"))
        poll(NULL, 0, 2);
    else
        select(0, NULL, NULL, NULL, &tv);
}

/* ---- the table ---- */

static const char *const ways[] = {
    "tcp",   "unix",    "abstract", "waitpid",   "wait-1",    "waitid",
    "recv",  "pipe",    "trylock",  "tryrdlock", "sem",       "flock",
    "setlk", "stat",    "access",   "open",      "directory", "gone",
    "moved", "lockdir", "lockfile", "lockname",  "kill0",     "proc"};
static const char *const naps[] = {"nanosleep", "clock_nanosleep", "usleep",
                                   "poll", "select"};
static const char *const places[] = {"thread", "process"};
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static bool there_is(void)
{
    bool process = is(where, "process");
    if (of_children() || until_process_gone())
        return process;
    if (is(way, "trylock") || is(way, "tryrdlock") || is(way, "sem"))
        return !process;
    if (is(way, "setlk")) /* of a process */
        return process;
    return true;
}

static void list(void)
{
    for (size_t w = 0; w < COUNT(ways); w++)
        for (size_t n = 0; n < COUNT(naps); n++)
            for (size_t p = 0; p < COUNT(places); p++) {
                way = ways[w], where = places[p];
                if (there_is())
                    printf("%s %s %s\n", way, naps[n], where);
            }
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc == 2 && is(argv[1], "list")) {
        list();
        return 0;
    }
    if (argc < 4)
        return 2;
    way = argv[1], how = argv[2], where = argv[3];
    ms = argc > 4 ? atol(argv[4]) : ms;
    waiter = getpid();
    begin();
    begin_ender(&t);
    while (!try_it()) {
        atomic_fetch_add(&shared->tries, 1);
        nap();
    }
    compute(ms);
    remove(path);
    unlink(other_path);
    if (is(way, "unix"))
        unlink(((struct sockaddr_un *)&name)->sun_path);
    rmdir(directory);
    if (child > 0 && !of_children() &&
        !until_process_gone()) /* the path ends here */
        kill(child, SIGKILL);
    return 0;
}
