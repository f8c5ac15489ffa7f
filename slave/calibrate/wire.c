#include "slave/calibrate/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/types.h"

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t slave_wire_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

uint64_t slave_wire_calling_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t slave_wire_run_delay_ns(void)
{
    char text[96];
    char *end;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    /* the first number is CPU time, the second the delay */
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

uint64_t slave_wire_measure_clock_cost(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 32; i++) {
        uint64_t before = slave_wire_calling_thread_cpu_ns();
        /* the clock reads that a measured round has between its two CPU time
         * reads */
        (void)slave_wire_now_ns();
        (void)slave_wire_now_ns();
        least = ips_min_u64(least, slave_wire_calling_thread_cpu_ns() - before);
    }
    return least;
}

void slave_wire_encode_number(uint8_t *to, uint64_t n, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(n >> 8 * i);
}

uint64_t slave_wire_decode_number(const uint8_t *from, unsigned bytes)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < bytes; i++)
        n |= (uint64_t)from[i] << 8 * i;
    return n;
}

void slave_wire_set_socket_options(int fd)
{
    const struct timeval look_up = {0, 100000};
    const int on = 1;
    /* TCP_NODELAY fails on a Unix socket, which does not delay. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &look_up, sizeof(look_up));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &look_up, sizeof(look_up));
}

/* Handles a send or receive that moved no bytes. Returns 0 to try again, or an
 * error code. */
static int retry_or_fail_stalled_call(ssize_t n, const char *what,
                                      uint64_t *since, const atomic_bool *stop,
                                      struct ips_err *err)
{
    if (n == 0)
        return ips_err_set(err, IPS_E_UNREACHABLE,
                           "the other side closed the connection");
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return ips_err_set(err, IPS_E_UNREACHABLE, "%s: %s", what,
                           strerror(errno));
    if (atomic_load_explicit(stop, memory_order_relaxed))
        return ips_err_set(err, IPS_E_REFUSED, "cancelled");
    uint64_t now = slave_wire_now_ns();
    if (*since == 0)
        *since = now;
    if (now - *since > SLAVE_WIRE_SILENCE_NS)
        return ips_err_set(err, IPS_E_UNREACHABLE, "%s: nothing for 30 s",
                           what);
    return 0;
}

int slave_wire_send(int fd, const void *data, size_t len,
                    const atomic_bool *stop, struct ips_err *err)
{
    const uint8_t *at = data;
    uint64_t since = 0;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            since = 0;
            continue;
        }
        int rc = retry_or_fail_stalled_call(n < 0 ? n : -1, "send", &since,
                                            stop, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int slave_wire_recv(int fd, void *data, size_t len, const atomic_bool *stop,
                    struct ips_err *err)
{
    uint8_t *at = data;
    uint64_t since = 0;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            since = 0;
            continue;
        }
        int rc = retry_or_fail_stalled_call(n, "receive", &since, stop, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}
