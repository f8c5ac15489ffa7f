/*
 * Runs a plan of tests/oracle/random_program.py and keeps a log of what really
 * happened, for the comparison with what IPS says happened.
 *
 *   random_program PLAN LOGS THREAD OP
 *
 * PLAN is text: "threads channels shared", a kind for each channel, then one
 * line "thread code a b c d" an operation, in each thread's order. THREAD is
 * the one that this image's main thread is, OP where it goes on. LOGS is a
 * directory: T<thread> is that thread's log, a header and entries (below),
 * mapped shared.
 *
 * What is not the plan's must not be recorded: the log is written by stores,
 * and all else is done by system calls of our own (raw below). So a thread can
 * wait, unseen, until another one sleeps in an operation (await), and the plan
 * knows who waited for whom.
 *
 * Any failure is a message and status 3: the plan cannot be run here.
 */
#include "random_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_THREADS = 64,
    MAX_OPS = 4096,
    MAX_CHANNELS = 48,
    MAX_OBJECTS = 128,
    FIRST_FD = 200, /* of the channels; nothing else is up here */
    LOG_BYTES = 1 << 18
};

struct op {
    int code;
    long a, b, c, d;
};

struct entry {
    uint32_t op;
    uint32_t code; /* of the call: enum call */
    uint64_t before_ns, after_ns;
    int64_t result, extra;
};

struct log {
    uint64_t pid, tid;
    _Atomic uint64_t count;
    uint64_t zero;
    struct entry entry[];
};

enum call {
    CALL_OP, /* the operation's own */
    CALL_READ,
    CALL_WRITE,
    CALL_POLL,
    CALL_CLOSE, /* extra: the descriptor's channel * 2 + side */
    CALL_RANGE
};

static const char *plan_path, *log_path;
static char *self_path;
static int thread_count, channel_count;
static int channel_kind[MAX_CHANNELS];
static struct op *ops[MAX_THREADS];
static int op_count[MAX_THREADS];
static struct op all_ops[MAX_OPS];

/* In a file that all images map, if the plan says so. */
struct shared {
    sem_t semaphore[MAX_OBJECTS];
    pthread_mutex_t mutex[MAX_OBJECTS];
};
static struct shared *shared;
static int wants_shared;

static pthread_t handle[MAX_THREADS];
static _Atomic int has_handle[MAX_THREADS];
static pthread_mutex_t mutex[MAX_OBJECTS];
static pthread_cond_t condition[MAX_OBJECTS];
static pthread_rwlock_t rwlock[MAX_OBJECTS];
static pthread_barrier_t barrier[MAX_OBJECTS];
static sem_t semaphore[MAX_OBJECTS];
static char data[1 << 20];

static _Thread_local struct log *my_log;
static _Thread_local int my_op, my_thread;
static volatile sig_atomic_t handled_from;

/* --- what nobody sees ---------------------------------------------------- */

static long raw(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#endif
}

static void die(const char *what, long code)
{
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "random_program: thread %d op %d: %s: %ld\n", my_thread,
                     my_op, what, code);
    raw(SYS_write, 2, (long)text, n, 0, 0, 0);
    raw(SYS_exit_group, 3, 0, 0, 0, 0, 0);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void spin(uint64_t ns)
{
    for (uint64_t end = now() + ns; now() < end;)
        ;
}

static void hidden_sleep(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    raw(SYS_nanosleep, (long)&t, 0, 0, 0, 0, 0);
}

static long hidden_read(const char *path, void *to, long bytes)
{
    long fd =
        raw(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return -1;
    long n = raw(SYS_read, fd, (long)to, bytes, 0, 0, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    return n;
}

static void log_name(char *path, int thread)
{
    snprintf(path, 400, "%s/T%d", log_path, thread);
}

/* This thread is `thread` from now on: opens its log, or goes on with it. */
static void be(int thread)
{
    char path[400];
    log_name(path, thread);
    my_thread = thread;
    long fd =
        raw(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT, 0600, 0, 0);
    if (fd < 0 || raw(SYS_ftruncate, fd, LOG_BYTES, 0, 0, 0, 0) < 0)
        die(path, fd);
    long at =
        raw(SYS_mmap, 0, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096)
        die("mmap", at);
    raw(SYS_madvise, at, LOG_BYTES, MADV_DONTFORK, 0, 0, 0);
    my_log = (struct log *)at;
    my_log->tid = (uint64_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    my_log->pid = (uint64_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static struct entry *begin(enum call code)
{
    struct entry *e = &my_log->entry[my_log->count];
    if ((char *)(e + 1) > (char *)my_log + LOG_BYTES)
        die("log is full", 0);
    e->op = (uint32_t)my_op;
    e->code = code;
    e->before_ns = now();
    my_log->count++;
    spin(4000);
    return e;
}

static long finish(struct entry *e, long result, const char *what)
{
    int error = errno;
    spin(4000);
    e->result = result;
    e->after_ns = now();
    if (result < 0 && what)
        die(what, error);
    return result;
}

static struct log hidden_header(int thread)
{
    char path[400];
    struct log header = {0};
    log_name(path, thread);
    for (int i = 0;; i++) {
        if (hidden_read(path, &header, sizeof(header)) == sizeof(header) &&
            header.pid)
            return header;
        if (i > 50000)
            die("no such thread", thread);
        hidden_sleep(200);
    }
}

static int is_asleep(const struct log *of)
{
    char path[100], text[400] = "";
    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/stat", (long)of->pid,
             (long)of->tid);
    if (hidden_read(path, text, sizeof(text) - 1) <= 0)
        return 0;
    const char *end = strrchr(text, ')');
    return end && end[2] == 'S';
}

/* Until `thread` sleeps in its operation `op`; or, over: until that has ended.
 */
static void await(int thread, long op, int over)
{
    static _Thread_local char copy[LOG_BYTES];
    char path[400];
    log_name(path, thread);
    for (int i = 0; i < 100000; i++, hidden_sleep(200)) {
        if (hidden_read(path, copy, sizeof(copy)) < (long)sizeof(struct log))
            continue;
        const struct log *of = (const struct log *)(const void *)copy;
        const struct entry *last = &of->entry[of->count ? of->count - 1 : 0];
        if (!of->count || last->op < op)
            continue;
        if (last->op > op || last->after_ns) {
            if (over)
                return;
            die("was not waited for", thread);
        }
        if (!over && is_asleep(of)) {
            hidden_sleep(1000);
            return;
        }
    }
    die("never slept", thread);
}

/* --- channels ------------------------------------------------------------ */

static int fd_of(long channel, long side)
{
    return FIRST_FD + 2 * (int)channel + (int)side;
}

static void place(int fd, long channel, long side)
{
    if (fd < 0 || dup2(fd, fd_of(channel, side)) < 0)
        die("channel", errno);
    close(fd);
}

static struct sockaddr_un unix_name(long channel)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%.80s/c%ld", log_path, channel);
    return to;
}

/* A socket with a name that waits for connections or datagrams. */
static int named(long channel, int family, int type)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = unix_name(channel);
    int fd = socket(family, type, 0);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int r = family == AF_INET ? bind(fd, (struct sockaddr *)&in, sizeof(in))
                              : bind(fd, (struct sockaddr *)&un, sizeof(un));
    if (r < 0 || (type == SOCK_STREAM && listen(fd, 8) < 0))
        die("bind", errno);
    return fd;
}

static void make_channel(long c)
{
    int fd[2];
    switch (channel_kind[c]) {
    case PIPE:
    case UNIX_PAIR:
        if (channel_kind[c] == PIPE ? pipe(fd)
                                    : socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
            die("pipe", errno);
        place(fd[0], c, 0);
        place(fd[1], c, 1);
        break;
    case UNIX_STREAM:
        place(named(c, AF_UNIX, SOCK_STREAM), c, 0);
        break;
    case TCP:
        place(named(c, AF_INET, SOCK_STREAM), c, 0);
        break;
    case UDP:
        place(named(c, AF_INET, SOCK_DGRAM), c, 0);
        place(socket(AF_INET, SOCK_DGRAM, 0), c, 1);
        break;
    case UNIX_DGRAM:
        place(named(c, AF_UNIX, SOCK_DGRAM), c, 0);
        place(socket(AF_UNIX, SOCK_DGRAM, 0), c, 1);
        break;
    case EVENTFD:
        place(eventfd(0, 0), c, 0);
        break;
    default:
        die("channel kind", channel_kind[c]);
    }
}

static socklen_t address(long c, struct sockaddr_storage *to)
{
    socklen_t size = sizeof(*to);
    memset(to, 0, sizeof(*to));
    if (getsockname(fd_of(c, 0), (struct sockaddr *)to, &size) < 0)
        die("getsockname", errno);
    return size;
}

static void do_connect(long c)
{
    struct sockaddr_storage to;
    socklen_t size = address(c, &to);
    int fd = socket(to.ss_family, SOCK_STREAM, 0);
    struct entry *e = begin(CALL_OP);
    finish(e, connect(fd, (struct sockaddr *)&to, size), "connect");
    place(fd, c, 1);
}

static void do_accept(long c)
{
    struct entry *e = begin(CALL_OP);
    int fd = (int)finish(e, accept(fd_of(c, 0), NULL, NULL), "accept");
    place(fd, c, 0); /* the listening socket goes with it */
}

static void look(int fd, long how)
{
    struct entry *e;
    long r = 1;
    if (how == 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        e = begin(CALL_POLL);
        r = poll(&p, 1, -1);
    } else if (how == 2) {
        struct epoll_event ev = {.events = EPOLLIN};
        int ep = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
            die("epoll_ctl", errno);
        e = begin(CALL_POLL);
        r = epoll_wait(ep, &ev, 1, -1);
        finish(e, r, "epoll_wait");
        close(ep);
        return;
    } else if (how == 3) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        e = begin(CALL_POLL);
        r = select(fd + 1, &set, NULL, NULL, NULL);
    } else {
        return;
    }
    finish(e, r, "poll");
}

/* Receives `bytes`, at most `chunk` a call; of end-of-file and datagrams,
 * one call. */
static void do_receive(long c, long bytes, long chunk, long how)
{
    static _Thread_local char to[1 << 16];
    int fd = fd_of(c, 0);
    int whole = bytes == 0;
    do {
        look(fd, how);
        long ask = whole || bytes > chunk ? chunk : bytes;
        struct entry *e = begin(CALL_READ);
        long n = how & 1 || channel_kind[c] == PIPE
                     ? read(fd, to, (size_t)ask)
                     : recv(fd, to, (size_t)ask, 0);
        e->extra = c;
        finish(e, n, "read");
        if (!whole && !n)
            die("early end of file", c);
        bytes -= n;
    } while (bytes > 0);
}

/* From two channels, in the order in which they become readable. */
static void do_receive_both(const struct op *o)
{
    static _Thread_local char to[1 << 16];
    long channel[2] = {o->a, o->c}, left[2] = {o->b, o->d};
    while (left[0] > 0 || left[1] > 0) {
        struct pollfd p[2];
        for (int i = 0; i < 2; i++) {
            p[i].fd = left[i] > 0 ? fd_of(channel[i], 0) : -1;
            p[i].events = POLLIN;
        }
        struct entry *e = begin(CALL_POLL);
        finish(e, poll(p, 2, -1), "poll");
        for (int i = 0; i < 2; i++) {
            if (left[i] <= 0 || !(p[i].revents & POLLIN))
                continue;
            e = begin(CALL_READ);
            e->extra = channel[i];
            left[i] -= finish(e, read(p[i].fd, to, (size_t)left[i]), "read");
        }
    }
}

/* Writes until that fails with EPIPE: a process that was just forked may still
 * hold the other end. */
static void do_send_broken(long c)
{
    for (;; hidden_sleep(500)) {
        struct entry *e = begin(CALL_WRITE);
        long n = finish(e, write(fd_of(c, 1), data, 1), NULL);
        if (n < 0)
            return;
    }
}

static void do_send(long c, long bytes, long how)
{
    int fd = fd_of(c, 1);
    while (bytes > 0) {
        struct entry *e = begin(CALL_WRITE);
        long n = how && channel_kind[c] != PIPE
                     ? send(fd, data, (size_t)bytes, MSG_NOSIGNAL)
                     : write(fd, data, (size_t)bytes);
        bytes -= finish(e, n, "write");
    }
}

static void do_send_datagram(long c, long bytes)
{
    static _Thread_local char text[2000];
    struct sockaddr_storage to;
    socklen_t size = address(c, &to);
    memset(text, my_thread, sizeof(text));
    memcpy(text, &my_op, sizeof(my_op));
    struct entry *e = begin(CALL_WRITE);
    finish(e,
           sendto(fd_of(c, 1), text, (size_t)bytes, 0, (struct sockaddr *)&to,
                  size),
           "sendto");
}

static void do_close(long c, long side)
{
    struct entry *e = begin(CALL_CLOSE);
    e->extra = 2 * c + side;
    finish(e, close(fd_of(c, side)), NULL);
}

/* A new process lets go of what is not its own. keep: a bit an end. */
static void do_trim(unsigned long low, unsigned long high)
{
    for (long c = 0; c < channel_count; c++)
        for (long side = 0; side < 2; side++) {
            long bit = 2 * c + side;
            unsigned long word = bit < 48 ? low : high;
            if (!(word >> (bit % 48) & 1))
                do_close(c, side);
        }
    struct entry *e = begin(CALL_RANGE);
    finish(e, close_range(3, FIRST_FD - 1, 0), NULL);
}

/* --- processes, threads -------------------------------------------------- */

static void run(int from);

static void *thread_main(void *arg)
{
    be((int)(intptr_t)arg);
    run(0);
    return NULL;
}

static void do_create(long t)
{
    struct entry *e = begin(CALL_OP);
    finish(e,
           -pthread_create(&handle[t], NULL, thread_main, (void *)(intptr_t)t),
           "pthread_create");
    has_handle[t] = 1;
}

static void do_join(long t)
{
    while (!has_handle[t])
        hidden_sleep(200);
    struct entry *e = begin(CALL_OP);
    finish(e, -pthread_join(handle[t], NULL), "pthread_join");
}

static void do_fork(long t)
{
    struct entry *e = begin(CALL_OP);
    pid_t child = fork();
    if (child == 0) {
        be((int)t);
        run(0);
        _exit(0);
    }
    finish(e, child, "fork");
}

static void image_words(char *words[6], char text[2][24], long t, long op)
{
    union {
        const char *in;
        char *out;
    } plan = {plan_path}, logs = {log_path};
    snprintf(text[0], 24, "%ld", t);
    snprintf(text[1], 24, "%ld", op);
    char *list[] = {self_path, plan.out, logs.out, text[0], text[1], NULL};
    memcpy(words, list, sizeof(list));
}

static void do_spawn(long t)
{
    extern char **environ;
    char text[2][24], *words[6];
    pid_t child;
    image_words(words, text, t, 0);
    struct entry *e = begin(CALL_OP);
    int r = posix_spawn(&child, self_path, NULL, NULL, words, environ);
    finish(e, r ? -1 : child, "posix_spawn");
}

static void do_exec(void)
{
    char text[2][24], *words[6];
    image_words(words, text, my_thread, my_op + 1);
    begin(CALL_OP);
    execv(self_path, words);
    die("execv", errno);
}

static void do_wait(long t)
{
    pid_t child = (pid_t)hidden_header((int)t).pid;
    int status;
    struct entry *e = begin(CALL_OP);
    finish(e, waitpid(child, &status, 0), "waitpid");
    if (status)
        die("child failed", status);
}

/* --- signals ------------------------------------------------------------- */

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    handled_from = info->si_pid;
}

static void do_kill(long t, long sig, long how)
{
    struct log to = hidden_header((int)t);
    struct entry *e = begin(CALL_OP);
    if (how == 0)
        finish(e, kill((pid_t)to.pid, (int)sig), "kill");
    else if (how == 1)
        finish(e, tgkill((pid_t)to.pid, (pid_t)to.tid, (int)sig), "tgkill");
    else
        finish(e,
               sigqueue((pid_t)to.pid, (int)sig,
                        (union sigval){.sival_int = my_op}),
               "sigqueue");
}

static void do_sigwait(long sig)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, (int)sig);
    struct entry *e = begin(CALL_OP);
    finish(e, sigwaitinfo(&set, &info), "sigwaitinfo");
    e->extra = info.si_pid;
}

static void do_sigsuspend(long sig)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigset_t set;
    if (sigaction((int)sig, &act, NULL) < 0 ||
        pthread_sigmask(SIG_SETMASK, NULL, &set))
        die("sigaction", errno);
    sigdelset(&set, (int)sig);
    struct entry *e = begin(CALL_OP);
    sigsuspend(&set);
    finish(e, 0, NULL);
    e->extra = handled_from;
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
        sigaddset(&set, sig);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* --- operations ---------------------------------------------------------- */

static void do_eventfd(long c, int write_it)
{
    uint64_t one = 1;
    struct entry *e = begin(CALL_OP);
    finish(e,
           write_it ? write(fd_of(c, 0), &one, 8) : read(fd_of(c, 0), &one, 8),
           "eventfd");
}

/* Whole files, by a description of each lock's own or by the process. */
static void do_file_lock(long object, long how, int lock)
{
    static int fd[MAX_THREADS][MAX_OBJECTS];
    int *mine = &fd[my_thread][object];
    char path[400];
    snprintf(path, sizeof(path), "%s/f%ld", log_path, object);
    if (!*mine)
        *mine = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock whole = {.l_type = lock ? F_WRLCK : F_UNLCK};
    struct entry *e = begin(CALL_OP);
    finish(e,
           how ? fcntl(*mine, F_SETLKW, &whole)
               : flock(*mine, lock ? LOCK_EX : LOCK_UN),
           "file lock");
}

static void map_shared(int first)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/shared", log_path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
        die(path, errno);
    shared = (struct shared *)mmap(NULL, sizeof(struct shared),
                                   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    for (int i = 0; first && i < MAX_OBJECTS; i++) {
        sem_init(&shared->semaphore[i], 1, 0);
        pthread_mutex_init(&shared->mutex[i], &attr);
    }
}

static void do_sync(const struct op *o)
{
    struct entry *e = begin(CALL_OP);
    long r = 0;
    switch (o->code) {
    case LOCK:
        r = pthread_mutex_lock(&mutex[o->a]);
        break;
    case UNLOCK:
        r = pthread_mutex_unlock(&mutex[o->a]);
        break;
    case READ_LOCK:
        r = pthread_rwlock_rdlock(&rwlock[o->a]);
        break;
    case WRITE_LOCK:
        r = pthread_rwlock_wrlock(&rwlock[o->a]);
        break;
    case RW_UNLOCK:
        r = pthread_rwlock_unlock(&rwlock[o->a]);
        break;
    case COND_WAIT:
        r = pthread_cond_wait(&condition[o->a], &mutex[o->b]);
        break;
    case COND_SIGNAL:
        r = pthread_cond_signal(&condition[o->a]);
        break;
    case COND_BROADCAST:
        r = pthread_cond_broadcast(&condition[o->a]);
        break;
    case SEM_WAIT:
        r = sem_wait(&semaphore[o->a]);
        break;
    case SEM_POST:
        r = sem_post(&semaphore[o->a]);
        break;
    case SHARED_WAIT:
        r = sem_wait(&shared->semaphore[o->a]);
        break;
    case SHARED_POST:
        r = sem_post(&shared->semaphore[o->a]);
        break;
    case SHARED_LOCK:
        r = pthread_mutex_lock(&shared->mutex[o->a]);
        break;
    case SHARED_UNLOCK:
        r = pthread_mutex_unlock(&shared->mutex[o->a]);
        break;
    case BARRIER_WAIT:
        r = pthread_barrier_wait(&barrier[o->a]);
        r = r == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : r;
        break;
    default:
        die("code", o->code);
    }
    finish(e, r > 0 ? -r : r, "sync");
}

static void do_op(const struct op *o)
{
    switch (o->code) {
    case SETUP:
        for (long c = 0; c < channel_count; c++)
            make_channel(c);
        break;
    case COMPUTE:
        spin((uint64_t)o->a * 1000);
        break;
    case SLEEP: {
        struct timespec t = {0, o->a * 1000};
        struct entry *e = begin(CALL_OP);
        finish(e, nanosleep(&t, NULL), "nanosleep");
        break;
    }
    case HIDE:
        hidden_sleep(o->a);
        break;
    case AWAIT:
        await((int)o->a, o->b, 0);
        break;
    case AFTER:
        await((int)o->a, o->b, 1);
        break;
    case SEND:
        do_send(o->a, o->b, o->c);
        break;
    case RECEIVE:
        do_receive(o->a, o->b, o->c, o->d);
        break;
    case RECEIVE_BOTH:
        do_receive_both(o);
        break;
    case SEND_BROKEN:
        do_send_broken(o->a);
        break;
    case FILE_LOCK:
        do_file_lock(o->a, o->b, 1);
        break;
    case FILE_UNLOCK:
        do_file_lock(o->a, o->b, 0);
        break;
    case SEND_DATAGRAM:
        do_send_datagram(o->a, o->b);
        break;
    case CLOSE:
        do_close(o->a, o->b);
        break;
    case SHUTDOWN: {
        struct entry *e = begin(CALL_OP);
        finish(e, shutdown(fd_of(o->a, 1), SHUT_WR), "shutdown");
        break;
    }
    case CONNECT:
        do_connect(o->a);
        break;
    case ACCEPT:
        do_accept(o->a);
        break;
    case TRIM:
        do_trim((unsigned long)o->a, (unsigned long)o->b);
        break;
    case CREATE:
        do_create(o->a);
        break;
    case JOIN:
        do_join(o->a);
        break;
    case FORK:
        do_fork(o->a);
        break;
    case SPAWN:
        do_spawn(o->a);
        break;
    case EXEC:
        do_exec();
        break;
    case WAIT:
        do_wait(o->a);
        break;
    case KILL:
        do_kill(o->a, o->b, o->c);
        break;
    case SIGWAIT:
        do_sigwait(o->a);
        break;
    case SIGSUSPEND:
        do_sigsuspend(o->a);
        break;
    case EVENTFD_WRITE:
        do_eventfd(o->a, 1);
        break;
    case EVENTFD_READ:
        do_eventfd(o->a, 0);
        break;
    case BARRIER_INIT:
        pthread_barrier_init(&barrier[o->a], NULL, (unsigned)o->b);
        break;
    default:
        do_sync(o);
        break;
    }
}

static void run(int from)
{
    int thread = my_thread;
    for (int i = from; i < op_count[thread]; i++) {
        my_op = i;
        do_op(&ops[thread][i]);
    }
}

/* --- the plan ------------------------------------------------------------ */

static long number(const char **at)
{
    char *end;
    long n = strtol(*at, &end, 10);
    if (end == *at)
        die("bad plan", 0);
    *at = end;
    return n;
}

static void read_plan(void)
{
    long fd = raw(SYS_openat, AT_FDCWD, (long)plan_path, O_RDONLY, 0, 0, 0);
    static char text[1 << 17];
    if (fd < 0 || raw(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0) <= 0)
        die("no plan", fd);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    const char *at = text;
    thread_count = (int)number(&at);
    channel_count = (int)number(&at);
    wants_shared = (int)number(&at);
    if (thread_count > MAX_THREADS || channel_count > MAX_CHANNELS)
        die("plan is too large", 0);
    for (int c = 0; c < channel_count; c++)
        channel_kind[c] = (int)number(&at);
    int used = 0;
    for (int t = 0; t < thread_count; t++) {
        op_count[t] = (int)number(&at);
        ops[t] = &all_ops[used];
        for (int i = 0; i < op_count[t]; i++, used++) {
            if (used >= MAX_OPS)
                die("plan is too large", used);
            struct op *o = &all_ops[used];
            o->code = (int)number(&at);
            o->a = number(&at);
            o->b = number(&at);
            o->c = number(&at);
            o->d = number(&at);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage: random_program PLAN LOGS THREAD OP", argc);
    self_path = argv[0];
    plan_path = argv[1];
    log_path = argv[2];
    read_plan();
    for (int i = 0; i < MAX_OBJECTS; i++) {
        pthread_mutex_init(&mutex[i], NULL);
        pthread_cond_init(&condition[i], NULL);
        pthread_rwlock_init(&rwlock[i], NULL);
        sem_init(&semaphore[i], 0, 0);
    }
    block_signals();
    if (wants_shared)
        map_shared(atoi(argv[3]) + atoi(argv[4]) == 0);
    be(atoi(argv[3]));
    run(atoi(argv[4]));
    return 0;
}
