/*
 * What the interposer as a whole costs: wrapper, record, the kernel's part of a
 * mark, caches that the program has used in between. A loop round the recording
 * core alone (ipsrun_probe.c) says too little of that.
 *
 * ipsrun starts itself in a pool of its own that is removed again, as the
 * *subject*, under the agent, which makes the same calls through the interposer
 * and past it, by turns, on the thread's CPU clock: also forks, and forks that
 * become an image that only begins and ends. Means of the middle half of the
 * differences of neighbouring batches, so that what others do on the machine
 * falls on both alike. Some 60 ms together; where a loaded machine makes it
 * SUBJECT_MS, what was said until then counts (the calls that wait come last,
 * since each waits for the core). Where it cannot be done (a sanitized ipsrun,
 * no library) nothing is changed.
 */
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun.h"
#include "agent/pool.h"
#include "agent/sys.h"
#include "common/types.h"

#define SUBJECT "ipsrun: what a call costs"
#define EMPTY "ipsrun: an image and its end"
#define LIBRARY "libips-preload.so"
#define BATCHES_MAX 101
#define STARTS 21
#define SUBJECT_MS 3000

/* --- the subject -----------------------------------------------------------
 */

/* What it says, after each step anew: costs in ps. */
struct said {
    int64_t steps; /* so many of the others are known */
    int64_t call, file, fork, image, forked_image, spare_fork, spare_image,
        stack, three_calls_blocked;
};
#define SAID_STEPS 9

static int channel[2], pair[2], epoll_fd, file;
static char bytes[64], used[64 << 10];

/* What a program does between its calls, for the caches. */
static void work(void)
{
    for (size_t i = 0; i < sizeof(used); i += 64)
        used[i]++;
    __asm__ volatile("" ::: "memory");
}

static bool two_calls(bool wrapped)
{
    const long n = sizeof(bytes);
    work();
    if (wrapped)
        return write(channel[1], bytes, sizeof(bytes)) == n &&
               read(channel[0], bytes, sizeof(bytes)) == n;
    return ips_sys3(SYS_write, channel[1], (long)bytes, n) == n &&
           ips_sys3(SYS_read, channel[0], (long)bytes, n) == n;
}

/* It leaves no record: files alone are looked at for how long they take. */
static bool file_call(bool wrapped)
{
    work();
    if (wrapped)
        return pread(file, bytes, sizeof(bytes), 0) == sizeof(bytes);
    return ips_sys6(SYS_pread64, file, (long)bytes, sizeof(bytes), 0, 0, 0) ==
           sizeof(bytes);
}

/* A question to the other process on this core; its answer is waited for. */
static bool question(bool wrapped)
{
    struct epoll_event e;
    work();
    if (wrapped)
        return write(pair[0], bytes, sizeof(bytes)) > 0 &&
               epoll_wait(epoll_fd, &e, 1, -1) == 1 &&
               read(pair[0], bytes, sizeof(bytes)) > 0;
    return ips_sys3(SYS_write, pair[0], (long)bytes, sizeof(bytes)) > 0 &&
           ips_sys6(SYS_epoll_pwait, epoll_fd, (long)&e, 1, -1, 0, 8) == 1 &&
           ips_sys3(SYS_read, pair[0], (long)bytes, sizeof(bytes)) > 0;
}

static __attribute__((noinline)) bool deeper(bool wrapped, int depth)
{
    struct timespec ts = {0, 60000};
    if (depth > 0) {
        bool good = deeper(wrapped, depth - 1);
        __asm__ volatile("" ::: "memory"); /* no tail call */
        return good;
    }
    work();
    if (wrapped)
        return nanosleep(&ts, NULL) == 0;
    return ips_sys6(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0,
                    0) == 0;
}

/* Each has another stack than the one before at its site, so it is written. */
static bool long_wait(bool wrapped)
{
    static int depth;
    depth = (depth + 1) % 8;
    return deeper(wrapped, 2 + depth);
}

static uint64_t own_cpu(void)
{
    return ips_sys_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What lies far off was disturbed; the mean of what does not says more than one
 * of them. */
static int64_t middle(int64_t *values, int count)
{
    int64_t sum = 0;
    int cut = count / 4;
    qsort(values, (size_t)count, sizeof(*values), by_value);
    for (int i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (count - 2 * cut);
}

/* ps that the interposer adds to `one`, of short batches, as the machine
 * changes from one moment to the next; *good is cleared where it failed. */
static int64_t added(bool (*one)(bool), int batches, int times, bool *good)
{
    int64_t more[BATCHES_MAX];
    for (int b = 0; b < batches && *good; b++) {
        uint64_t took[2];
        for (int k = 0; k < 2; k++) {
            bool wrapped = (b ^ k) & 1;
            *good = one(wrapped) && *good;
            uint64_t start = own_cpu();
            for (int i = 0; i < times; i++)
                *good = one(wrapped) && *good;
            took[wrapped] = own_cpu() - start;
        }
        more[b] = ((int64_t)took[1] - (int64_t)took[0]) * 1000 / times;
    }
    if (!*good)
        return 0;
    return middle(more, batches);
}

enum child { FORK, VFORK_IMAGE, FORK_IMAGE };

/* In a child: another image, or none. */
static __attribute__((noreturn)) void leave(bool wrapped, enum child child)
{
    const bool image = child != FORK;
    char *argv[] = {(char *)(uintptr_t)EMPTY, NULL}, *none[] = {NULL};
    if (image && wrapped)
        execve("/proc/self/exe", argv, environ);
    else if (image)
        ips_sys3(SYS_execve, (long)"/proc/self/exe", (long)argv, (long)none);
    if (wrapped)
        _exit(image);
    ips_sys3(SYS_exit_group, image, 0, 0);
    __builtin_unreachable();
}

/* CPU of a fork, both sides of it. A vfork goes through the interposer always:
 * that is a call more, no more. */
static uint64_t forked_cpu(bool wrapped, enum child child, bool *good)
{
    int status = -1;
    struct rusage before, after;
    uint64_t start = own_cpu();
    getrusage(RUSAGE_CHILDREN, &before);
    long pid = child == VFORK_IMAGE ? vfork()
               : wrapped            ? fork()
                         : ips_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0)
        leave(wrapped, child);
    long reaped = wrapped ? waitpid((pid_t)pid, &status, 0)
                          : ips_sys6(SYS_wait4, pid, (long)&status, 0, 0, 0, 0);
    uint64_t took = own_cpu() - start;
    getrusage(RUSAGE_CHILDREN, &after);
    *good = *good && pid > 0 && reaped == pid && status == 0;
    const struct timeval *a[] = {&after.ru_utime, &after.ru_stime},
                         *b[] = {&before.ru_utime, &before.ru_stime};
    for (int i = 0; i < 2; i++)
        took += (uint64_t)((a[i]->tv_sec - b[i]->tv_sec) * 1000000 +
                           a[i]->tv_usec - b[i]->tv_usec) *
                1000;
    return took;
}

static int64_t fork_added(enum child child, bool *good)
{
    int64_t more[STARTS];
    for (int i = 0; i < STARTS && *good; i++) {
        uint64_t took[2];
        for (int k = 0; k < 2; k++)
            took[(i ^ k) & 1] = forked_cpu((i ^ k) & 1, child, good);
        more[i] = ((int64_t)took[1] - (int64_t)took[0]) * 1000;
    }
    return *good ? middle(more, STARTS) : 0;
}

/* As a slave makes them for processes that come and go. */
static bool spares_make(void)
{
    const struct ips_control *c = NULL;
    const char *pool = getenv("IPS_POOL"), *run = getenv("IPS_RUN");
    char dir[IPS_PATH_BYTES];
    if (!pool || !run)
        return false;
    snprintf(dir, sizeof(dir), "%s/%s", pool, run);
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = at >= 0 && ips_control_map(dir, &c, NULL) == 0;
    for (unsigned n = 0; good && n < IPS_SPARES; n++) {
        uint64_t taken;
        int fd = ips_spare_make(at, n, c, &taken);
        good = fd >= 0;
        if (good)
            close(fd);
    }
    if (c)
        ips_control_unmap(c);
    if (at >= 0)
        close(at);
    return good;
}

/* The other process: past the interposer. */
static void answer(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ips_sys3(SYS_close, pair[0], 0, 0);
    while (ips_sys3(SYS_read, pair[1], (long)bytes, sizeof(bytes)) > 0 &&
           ips_sys3(SYS_write, pair[1], (long)bytes, sizeof(bytes)) > 0)
        continue;
    ips_sys3(SYS_exit_group, 0, 0, 0);
}

static bool say(struct said *said, bool good)
{
    said->steps++;
    return good && write(1, said, sizeof(*said)) == sizeof(*said);
}

static int subject(void)
{
    struct said said = {0};
    struct epoll_event e = {.events = EPOLLIN};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)sched_getcpu(), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    if (pipe(channel) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
        (epoll_fd = epoll_create1(0)) < 0 ||
        (file = memfd_create("probe", MFD_CLOEXEC)) < 0 ||
        ftruncate(file, sizeof(bytes)) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pair[0], &e) < 0)
        return 1;
    long peer = ips_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (peer == 0)
        answer();
    bool good = peer > 0;
    said.call = added(two_calls, 101, 20, &good) / 2;
    good = say(&said, good);
    said.file = added(file_call, 101, 20, &good);
    good = say(&said, good);
    said.fork = fork_added(FORK, &good);
    good = say(&said, good);
    said.image = fork_added(VFORK_IMAGE, &good);
    good = say(&said, good);
    said.forked_image = fork_added(FORK_IMAGE, &good);
    good = say(&said, good);
    good = spares_make() && good;
    said.spare_fork = fork_added(FORK, &good);
    good = say(&said, good);
    said.spare_image = fork_added(VFORK_IMAGE, &good);
    good = say(&said, good);
    said.stack = added(long_wait, 25, 4, &good);
    good = say(&said, good);
    said.three_calls_blocked = added(question, 101, 10, &good);
    good = say(&said, good);
    if (peer > 0)
        kill((pid_t)peer, SIGKILL);
    return good ? 0 : 1;
}

int ipsrun_subject(const char *called)
{
    if (strcmp(called, EMPTY) == 0)
        return 0;
    return strcmp(called, SUBJECT) == 0 ? subject() : -1;
}

/* --- who asks it -----------------------------------------------------------
 */

/* A pool with a run in it, and the environment of what is recorded there. */
struct place {
    char root[64], library[IPS_PATH_BYTES];
    char preload[IPS_PATH_BYTES + 16], installed[IPS_PATH_BYTES + 16], pool[80];
};

static bool place_make(struct place *p, const struct ips_clock *clock,
                       const struct ips_measured *m)
{
    struct ips_err err = {0};
    struct stat st;
    char dir[IPS_PATH_BYTES];
    struct ips_run_options run = {.pool_root = p->root,
                                  .run = "probe",
                                  .machine = "",
                                  .command = "",
                                  .procedures = IPS_PROCEDURES_SAMPLE,
                                  .sample_us = 10000,
                                  .quota_bytes = 16 << 20,
                                  .plain = true};
    snprintf(p->root, sizeof(p->root), "%s/ips-probe-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (ips_path_library(LIBRARY, p->library, &err) < 0 ||
        strpbrk(p->library, ": ") || !mkdtemp(p->root))
        return false;
    snprintf(p->preload, sizeof(p->preload), "LD_PRELOAD=%s", p->library);
    snprintf(p->installed, sizeof(p->installed), "IPS_PRELOAD=%s", p->library);
    snprintf(p->pool, sizeof(p->pool), "IPS_POOL=%s", p->root);
    return ips_pool_clock_keep(p->root, clock, m, &err) == 0 &&
           ips_pool_make_run(&run, dir, sizeof(dir), &err) == 0 &&
           /* As a slave would: an image asks less then. */
           (stat("/proc/self/ns/pid", &st) < 0 ||
            st.st_ino != IPS_PIDNS_INITIAL || ips_control_sign(dir, &err) == 0);
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

static void place_remove(const struct place *p)
{
    (void)nftw(p->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The subject, standard output to `out`; the pid or -1. */
static pid_t start(const struct place *p, int out)
{
    char *argv[] = {(char *)(uintptr_t)SUBJECT, NULL};
    char *with[] = {(char *)(uintptr_t)p->preload,
                    (char *)(uintptr_t)p->installed, (char *)(uintptr_t)p->pool,
                    (char *)(uintptr_t) "IPS_RUN=probe", NULL};
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    execve("/proc/self/exe", argv, with);
    _exit(1);
}

static int64_t now_ms(void)
{
    return (int64_t)(ips_sys_clock(CLOCK_MONOTONIC) / 1000000);
}

static void ask_subject(const struct place *p, struct said *said)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return;
    pid_t pid = start(p, out[1]);
    close(out[1]);
    struct pollfd ready = {.fd = out[0], .events = POLLIN};
    struct said next;
    int64_t end = now_ms() + SUBJECT_MS;
    *said = (struct said){0};
    while (pid > 0 && said->steps < SAID_STEPS && now_ms() < end &&
           poll(&ready, 1, (int)(end - now_ms())) == 1 &&
           read(out[0], &next, sizeof(next)) == sizeof(next))
        *said = next;
    close(out[0]);
    if (pid > 0 && said->steps < SAID_STEPS)
        kill(pid, SIGKILL);
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* What is left when `less` is taken off; where noise left nothing, the least
 * that it can be. */
static uint64_t rest(int64_t all, uint64_t less, uint64_t least)
{
    int64_t left = all - (int64_t)less;
    return left > (int64_t)least ? (uint64_t)left : least;
}

void ipsrun_measure_calls(const struct ips_clock *clock, struct ips_measured *m)
{
    struct place p = {0};
    struct said said = {0};
    uint64_t *ps = m->cost_ps;
    /* Of 64 blocks one has the clock read (slave/build_cost.c); where it is
     * more here, that is in the price of a block. */
    uint64_t read = ps[IPS_PROBE_READ] / 64;
    if (place_make(&p, clock, m))
        ask_subject(&p, &said);
    /* The middle of the batches is of those in which the pool did not grow. */
    int64_t memory = (int64_t)(m->byte_ps * sizeof(struct ips_rec_io_short));
    said.call += memory;
    said.three_calls_blocked +=
        2 * memory + (int64_t)(m->byte_ps * sizeof(struct ips_rec_io));
    if (said.steps > 0)
        ps[IPS_PROBE_CALL] = rest(said.call, 0, ps[IPS_PROBE_CALL]);
    if (said.steps > 1)
        ps[IPS_PROBE_FILE] = rest(said.file, 0, 0);
    if (said.steps > 2)
        ps[IPS_PROBE_FORK] = rest(said.fork, 0, ps[IPS_PROBE_FORK]);
    if (said.steps > 3)
        ps[IPS_PROBE_IMAGE] = rest(said.image, 0, ps[IPS_PROBE_IMAGE]);
    if (said.steps > 4)
        ps[IPS_PROBE_EXEC] =
            rest(said.forked_image, ps[IPS_PROBE_FORK] + ps[IPS_PROBE_IMAGE],
                 ps[IPS_PROBE_EXEC]);
    /* Never dearer than without. */
    ps[IPS_PROBE_SPARE_FORK] = ps[IPS_PROBE_FORK];
    ps[IPS_PROBE_SPARE_IMAGE] = ps[IPS_PROBE_IMAGE];
    if (said.steps > 5)
        ps[IPS_PROBE_SPARE_FORK] =
            ips_min_u64(rest(said.spare_fork, 0, 0), ps[IPS_PROBE_FORK]);
    if (said.steps > 6)
        ps[IPS_PROBE_SPARE_IMAGE] =
            ips_min_u64(rest(said.spare_image, 0, 0), ps[IPS_PROBE_IMAGE]);
    if (said.steps > 8)
        ps[IPS_PROBE_BLOCK] =
            rest(said.three_calls_blocked, 3 * ps[IPS_PROBE_CALL] + read, 0);
    if (said.steps > 7)
        ps[IPS_PROBE_STACK] =
            rest(said.stack, ps[IPS_PROBE_CALL] + ps[IPS_PROBE_BLOCK] + read,
                 ps[IPS_PROBE_STACK]);
    place_remove(&p);
}
