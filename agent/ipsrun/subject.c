/*
 * The *subject* of ipsrun/probe_costs.c is ipsrun itself, started under the
 * agent. It alternates between batches of calls through the interposer and
 * batches of the same calls that bypass it, and reads the thread's CPU clock.
 * The cost of a call is the mean of the middle half of the differences between
 * neighbouring batches: other load on the machine affects two neighbours alike.
 * ipsrun/starts.c measures forks, images and threads. A subject that is not
 * recorded reports the time that the C library's fork adds by itself.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/ipsrun/subject.h"
#include "agent/pool/pool.h"
#include "agent/record/sys.h"
#include "common/types.h"

/* Number of batches per step and subject: of calls, of waits. There are several
 * subjects. */
#define BATCHES 21
#define WAITS 5

static int channel[2], pair[2], full[2], epoll_fd, full_epoll, file, null;
static char bytes[64], used[64 << 10];

/* A generated function that fills the first-level instruction cache: it jumps
 * from each 64-byte line to the next, then returns. NULL: not available. */
#define CODE_BYTES (32u << 10)
static void (*code)(void);

static void generate_cache_filling_code(void)
{
#if defined(__x86_64__)
    static const unsigned char jump[] = {0xe9, 64 - 5, 0, 0, 0}, ret[] = {0xc3};
#else
    static const unsigned char jump[] = {16, 0, 0, 0x14},
                               ret[] = {0xc0, 0x03, 0x5f, 0xd6};
#endif
    char *at = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    for (size_t i = 0; i < CODE_BYTES - 64; i += 64)
        memcpy(at + i, jump, sizeof(jump));
    memcpy(at + CODE_BYTES - 64, ret, sizeof(ret));
    __builtin___clear_cache(at, at + CODE_BYTES);
    if (mprotect(at, CODE_BYTES, PROT_READ | PROT_EXEC) == 0)
        memcpy(&code, &at, sizeof(code));
}

/* Fills the data cache, as a program's own work between its calls does. */
static void fill_data_cache(void)
{
    for (size_t i = 0; i < sizeof(used); i += 64)
        used[i]++;
    __asm__ volatile("" ::: "memory");
}

static bool write_pipe_message(bool wrapped)
{
    const long n = sizeof(bytes);
    return (wrapped ? write(channel[1], bytes, sizeof(bytes))
                    : ips_sys3(SYS_write, channel[1], (long)bytes, n)) == n;
}

static bool read_pipe_message(bool wrapped)
{
    const long n = sizeof(bytes);
    return (wrapped ? read(channel[0], bytes, sizeof(bytes))
                    : ips_sys3(SYS_read, channel[0], (long)bytes, n)) == n;
}

static bool write_and_read_pipe(bool wrapped)
{
    fill_data_cache();
    return write_pipe_message(wrapped) && read_pipe_message(wrapped);
}

static bool write_and_read_pipe_cold(bool wrapped)
{
    bool good = true;
    for (int i = 0; i < 2; i++) {
        fill_data_cache();
        if (code)
            code();
        good = good &&
               (i ? read_pipe_message(wrapped) : write_pipe_message(wrapped));
    }
    return good;
}

/* A read of a file leaves no record: the interposer only checks how long the
 * call took. */
static bool read_small_file(bool wrapped)
{
    fill_data_cache();
    if (wrapped)
        return pread(file, bytes, sizeof(bytes), 0) == sizeof(bytes);
    return ips_sys6(SYS_pread64, file, (long)bytes, sizeof(bytes), 0, 0, 0) ==
           sizeof(bytes);
}

static bool open_and_close_root_directory(bool wrapped)
{
    fill_data_cache();
    if (wrapped) {
        int fd = open("/", O_RDONLY | O_CLOEXEC);
        return fd >= 0 && close(fd) == 0;
    }
    int fd = ips_sys_open("/", O_RDONLY | O_CLOEXEC, 0);
    return fd >= 0 && ips_sys_close(fd) == 0;
}

/* Does not call fill_data_cache(): the effects of the caches would hide so
 * small a cost. */
static bool write_to_dev_null(bool wrapped)
{
    return (wrapped ? write(null, bytes, 1)
                    : ips_sys3(SYS_write, null, (long)bytes, 1)) == 1;
}

static bool poll_ready_descriptor(bool wrapped)
{
    struct epoll_event e;
    fill_data_cache();
    return (wrapped ? epoll_wait(full_epoll, &e, 1, 0)
                    : ips_sys6(SYS_epoll_pwait, full_epoll, (long)&e, 1, 0, 0,
                               8)) == 1;
}

/* Sends a message to the other process on this core and waits for its reply. */
static bool exchange_with_peer_process(bool wrapped)
{
    struct epoll_event e;
    fill_data_cache();
    if (wrapped)
        return write(pair[0], bytes, sizeof(bytes)) > 0 &&
               epoll_wait(epoll_fd, &e, 1, -1) == 1 &&
               read(pair[0], bytes, sizeof(bytes)) > 0;
    return ips_sys3(SYS_write, pair[0], (long)bytes, sizeof(bytes)) > 0 &&
           ips_sys6(SYS_epoll_pwait, epoll_fd, (long)&e, 1, -1, 0, 8) == 1 &&
           ips_sys3(SYS_read, pair[0], (long)bytes, sizeof(bytes)) > 0;
}

static __attribute__((noinline)) bool sleep_at_stack_depth(bool wrapped,
                                                           int depth)
{
    struct timespec ts = {0, 60000};
    if (depth > 0) {
        bool good = sleep_at_stack_depth(wrapped, depth - 1);
        __asm__ volatile("" ::: "memory"); /* no tail call */
        return good;
    }
    fill_data_cache();
    if (wrapped)
        return nanosleep(&ts, NULL) == 0;
    return ips_sys6(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0,
                    0) == 0;
}

/* Each wait has a different call stack than the previous one, so the agent
 * writes the stack each time. */
static bool sleep_with_new_stack(bool wrapped)
{
    static int depth;
    depth = (depth + 1) % 8;
    return sleep_at_stack_depth(wrapped, 2 + depth);
}

static uint64_t thread_cpu_ns(void)
{
    return ips_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns the mean of the middle half of `values`, which it sorts. Outliers
 * were disturbed, and a mean is more precise than the median. */
static int64_t sort_and_average_middle_half(int64_t *values, int count)
{
    int64_t sum = 0;
    int cut = count / 4;
    qsort(values, (size_t)count, sizeof(*values), ipsrun_compare_i64);
    for (int i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (count - 2 * cut);
}

/* Returns the ps that the interposer adds to one call of `one`. A batch has
 * only a few calls (`times`), since the machine's speed changes from one moment
 * to the next. Clears *good on failure. */
static int64_t measure_added_call_ps(bool (*one)(bool), int batches, int times,
                                     bool *good)
{
    int64_t more[BATCHES];
    for (int b = 0; b < batches && *good; b++) {
        uint64_t took[2];
        for (int k = 0; k < 2; k++) {
            bool wrapped = (b ^ k) & 1;
            *good = one(wrapped) && *good;
            uint64_t start = thread_cpu_ns();
            for (int i = 0; i < times; i++)
                *good = one(wrapped) && *good;
            took[wrapped] = thread_cpu_ns() - start;
        }
        more[b] = ((int64_t)took[1] - (int64_t)took[0]) * 1000 / times;
    }
    if (!*good)
        return 0;
    return sort_and_average_middle_half(more, batches);
}

/* Takes and releases a free mutex; if not `wrapped`, with the C library's own
 * functions. */
static bool lock_and_unlock(bool wrapped)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int (*past_lock)(pthread_mutex_t *),
        (*past_unlock)(pthread_mutex_t *);
    if (!past_unlock) {
        void *lock = ipsrun_find_real_libc_function("pthread_mutex_lock"),
             *unlock = ipsrun_find_real_libc_function("pthread_mutex_unlock");
        memcpy(&past_lock, &lock, sizeof(lock));
        memcpy(&past_unlock, &unlock, sizeof(unlock));
    }
    if (wrapped)
        return pthread_mutex_lock(&mutex) == 0 &&
               pthread_mutex_unlock(&mutex) == 0;
    return past_unlock && past_lock(&mutex) == 0 && past_unlock(&mutex) == 0;
}

/* Makes spare segments, as a slave does while a run starts many processes. */
static bool make_spare_segments(void)
{
    const struct ips_control *c = NULL;
    const char *pool = getenv("IPS_POOL"), *run = getenv("IPS_RUN");
    char dir[IPS_PATH_BYTES];
    if (!pool || !run)
        return false;
    snprintf(dir, sizeof(dir), "%s/%s", pool, run);
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = at >= 0 && ips_control_read_and_check_copy(dir, &c, NULL) == 0;
    for (unsigned n = 0; good && n < IPS_SPARES; n++) {
        uint64_t taken;
        int fd = ips_spare_segment_make(at, n, c, &taken);
        good = fd >= 0;
        if (good)
            close(fd);
    }
    if (c)
        ips_control_free(c);
    if (at >= 0)
        close(at);
    return good;
}

/* Runs in the other process: replies to each message. Makes raw system calls,
 * which bypass the interposer. */
static void reply_to_messages(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ips_sys3(SYS_close, pair[0], 0, 0);
    while (ips_sys3(SYS_read, pair[1], (long)bytes, sizeof(bytes)) > 0 &&
           ips_sys3(SYS_write, pair[1], (long)bytes, sizeof(bytes)) > 0)
        continue;
    ips_sys3(SYS_exit_group, 0, 0, 0);
}

static int64_t measure_step_ps(enum ipsrun_step step, bool *good)
{
    switch (step) {
    case IPSRUN_CALL:
        return measure_added_call_ps(write_and_read_pipe, BATCHES, 20, good) /
               2;
    case IPSRUN_COLD:
        return measure_added_call_ps(write_and_read_pipe_cold, BATCHES, 20,
                                     good) /
               2;
    case IPSRUN_FILE:
        return measure_added_call_ps(read_small_file, BATCHES, 20, good);
    case IPSRUN_OPEN:
        return measure_added_call_ps(open_and_close_root_directory, BATCHES, 10,
                                     good);
    case IPSRUN_PASS:
        return measure_added_call_ps(write_to_dev_null, BATCHES, 100, good);
    case IPSRUN_POLL:
        return measure_added_call_ps(poll_ready_descriptor, BATCHES, 20, good);
    case IPSRUN_FORK:
        return ipsrun_measure_start_added_ps(IPSRUN_CHILD_FORK, false, good);
    case IPSRUN_FORKED_IMAGE:
        return ipsrun_measure_start_added_ps(IPSRUN_CHILD_IMAGE, false, good);
    case IPSRUN_SPAWNED_IMAGE:
        return ipsrun_measure_start_added_ps(IPSRUN_CHILD_SPAWNED, false, good);
    case IPSRUN_SPARE_FORK:
        *good = make_spare_segments() && *good;
        return ipsrun_measure_start_added_ps(IPSRUN_CHILD_FORK, true, good);
    case IPSRUN_STACK:
        return measure_added_call_ps(sleep_with_new_stack, WAITS, 4, good);
    case IPSRUN_THREE_BLOCKED:
        return measure_added_call_ps(exchange_with_peer_process, BATCHES, 10,
                                     good);
    case IPSRUN_THREAD:
        return ipsrun_measure_thread_added_ps(good);
    case IPSRUN_LOCK:
        return measure_added_call_ps(lock_and_unlock, BATCHES, 200, good);
    case IPSRUN_STEPS:
        break;
    }
    return 0;
}

/* Pins the subject to its core and opens its descriptors, all close-on-exec. An
 * image records the names of descriptors that it inherits, which takes about 5
 * us each; the agent reports that cost separately from the probe cost of a
 * start. */
static bool pin_subject_and_open_descriptors(void)
{
    struct epoll_event e = {.events = EPOLLIN};
    cpu_set_t set;
    generate_cache_filling_code();
    CPU_ZERO(&set);
    CPU_SET((unsigned)sched_getcpu(), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    return ipsrun_prepare_start_measuring() && pipe2(channel, O_CLOEXEC) == 0 &&
           pipe2(full, O_CLOEXEC) == 0 &&
           socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
           (epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0 &&
           (full_epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0 &&
           (null = open("/dev/null", O_WRONLY | O_CLOEXEC)) >= 0 &&
           (file = memfd_create("probe", MFD_CLOEXEC)) >= 0 &&
           ftruncate(file, sizeof(bytes)) == 0 && write(full[1], "", 1) == 1 &&
           epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pair[0], &e) == 0 &&
           epoll_ctl(full_epoll, EPOLL_CTL_ADD, full[0], &e) == 0;
}

static int measure_and_write_step_costs(void)
{
    struct ipsrun_step_costs said = {0};
    if (!pin_subject_and_open_descriptors())
        return 1;
    long peer = ips_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (peer == 0)
        reply_to_messages();
    bool good = peer > 0, recorded = ipsrun_is_itself_recorded();
    for (int i = 0; i < IPSRUN_STEPS && good; i++) {
        if (recorded || i == IPSRUN_FORK)
            said.ps[i] = measure_step_ps((enum ipsrun_step)i, &good);
        said.steps++;
        good = good && write(1, &said, sizeof(said)) == sizeof(said);
    }
    if (peer > 0)
        kill((pid_t)peer, SIGKILL);
    return good ? 0 : 1;
}

int ipsrun_run_if_subject(const char *called)
{
    return strcmp(called, IPSRUN_SUBJECT) == 0
               ? measure_and_write_step_costs()
               : ipsrun_run_if_called_as_empty_program(called);
}
