#include "slave/calibrate/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "analysis/graph/message_time.h"
#include "common/types.h"
#include "proto/message.h"
#include "slave/calibrate/wire.h"

#define BATCH 50u
/* The sender sleeps this long before each send, so that the receiver is blocked
 * in recv() again. */
#define SLEEP_NS 100000

/* ---- waking -------------------------------------------------------------- */

struct sender {
    int fd;
    uint32_t count, done;
    const atomic_bool *stopping;
    uint64_t *cost_ns; /* [count] CPU time of each send */
};

static void *run_sender(void *arg)
{
    struct sender *s = arg;
    const struct timespec a_while = {0, SLEEP_NS};
    while (s->done < s->count && !atomic_load(s->stopping)) {
        (void)nanosleep(&a_while, NULL);
        uint64_t before = slave_wire_calling_thread_cpu_ns();
        ssize_t n = send(s->fd, "w", 1, MSG_NOSIGNAL);
        s->cost_ns[s->done] = slave_wire_calling_thread_cpu_ns() - before;
        if (n != 1)
            break;
        s->done++;
    }
    (void)shutdown(s->fd, SHUT_WR);
    return NULL;
}

static void *run_receiver(void *arg)
{
    const int *fd = arg;
    char byte;
    ssize_t n;
    do {
        n = recv(*fd, &byte, 1, 0);
    } while (n == 1 || (n < 0 && errno == EINTR));
    return NULL;
}

static int start_thread_on_processor(pthread_t *thread, int processor,
                                     void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    pthread_attr_init(&attr);
    int failed = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    if (!failed)
        failed = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return failed;
}

/* Measures `count` sends from processor `from` to a receiver on processor `to`;
 * all signals must be blocked. */
static int measure_wake_cost_batch(int from, int to, uint32_t count,
                                   const atomic_bool *stop, uint64_t *cost_ns,
                                   struct ips_err *err)
{
    int fd[2];
    pthread_t sending, receiving;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        return ips_err_errno(err, "a socket pair to measure waking");
    struct sender s = {
        .fd = fd[0], .count = count, .stopping = stop, .cost_ns = cost_ns};
    int failed =
        start_thread_on_processor(&receiving, to, run_receiver, &fd[1]);
    if (!failed) {
        failed = start_thread_on_processor(&sending, from, run_sender, &s);
        if (failed)
            (void)shutdown(fd[0], SHUT_WR);
        else
            pthread_join(sending, NULL);
        pthread_join(receiving, NULL);
    }
    close(fd[0]);
    close(fd[1]);
    if (failed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no thread: %s",
                           strerror(failed));
    if (s.done < count)
        return ips_err_set(err, IPS_E_REFUSED, "cancelled");
    return 0;
}

/* Finds the first two processors that this process may use. Returns how many it
 * found: 0 to 2. */
static int find_two_processors(int at[2])
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 0;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++) {
        if (CPU_ISSET((size_t)i, &set))
            at[found++] = i;
    }
    return found;
}

static int measure_cpu_cost_of_waking(uint32_t rounds, const atomic_bool *stop,
                                      uint64_t *wake_ns, struct ips_err *err)
{
    int at[2];
    sigset_t all, old;
    *wake_ns = IPS_UNMEASURED;
    if (find_two_processors(at) < 2)
        return 0;
    uint64_t *cost = calloc((size_t)rounds * 2, sizeof(*cost));
    if (!cost)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (uint32_t done = 0; done < rounds && rc == 0; done += BATCH) {
        uint32_t n = ips_min_u32(BATCH, rounds - done);
        rc = measure_wake_cost_batch(at[0], at[0], n, stop, cost + done, err);
        if (rc == 0)
            rc = measure_wake_cost_batch(at[0], at[1], n, stop,
                                         cost + rounds + done, err);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        *wake_ns = ips_estimate_wake_cost_ns(cost, cost + rounds, rounds);
    free(cost);
    return rc;
}

/* ---- how busy ------------------------------------------------------------ */

/* Reads the one-minute load average, the first number of /proc/loadavg, in
 * thousandths; UINT32_MAX: unknown. */
static uint32_t read_load_average_milli(void)
{
    char text[64] = "";
    char *end;
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return UINT32_MAX;
    unsigned long whole = strtoul(text, &end, 10);
    unsigned long part = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (end == text || whole > 1000000 || part > 99)
        return UINT32_MAX;
    return (uint32_t)(whole * 1000 + part * 10);
}

int slave_ready_measure_load_and_wake_cost(uint32_t rounds,
                                           const atomic_bool *stop,
                                           struct slave_ready *out,
                                           struct ips_err *err)
{
    if (rounds == 0 || rounds > SLAVE_READY_ROUNDS_MAX)
        return ips_err_set(err, IPS_E_PROTOCOL, "%u rounds of waking", rounds);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    /* read the load before the measurement itself loads the machine */
    out->load_milli = read_load_average_milli();
    out->processors = count > 0 ? (uint32_t)count : 1;
    return measure_cpu_cost_of_waking(rounds, stop, &out->wake_ns, err);
}
