/*
 * Writes QUEUE records: when a received datagram reached the kernel
 * (--arrivals).
 *
 * The socket keeps the arrival time of the last datagram taken from it, in
 * CLOCK_REALTIME. It starts to do so at the first request (SIOCGSTAMPNS), so
 * the first datagram of a socket has no QUEUE. If the program uses time stamps
 * itself (SO_TIMESTAMP), the socket keeps none and no QUEUE is written.
 *
 * CLOCK_REALTIME is read just before the stamp clock. If CLOCK_REALTIME was set
 * between the arrival and now, the result is wrong by that step. Therefore a
 * time of arrival is dropped if it is after the call, before the run, or more
 * than 10 s ago.
 */
#include "agent/preload/wrap.h"

#include <linux/sockios.h>

#include "agent/record/sys.h"

#define ARRIVAL_MAX_NS 10000000000u

static uint64_t stamp_to_raw_ns(const struct ips_clock *c, uint64_t stamp)
{
    if (c->kind == IPS_CLOCK_RAW)
        return stamp;
    uint64_t since = stamp - c->counter0;
    return (int64_t)since >= 0
               ? c->raw0_ns + ips_mul_q32(since, c->mult_q32)
               : c->raw0_ns - ips_mul_q32(0 - since, c->mult_q32);
}

/* Returns the CLOCK_REALTIME (ns) at which the datagram last received from `fd`
 * arrived; 0: unknown. */
static uint64_t last_arrival_realtime_ns(int fd)
{
    struct timespec ts = {0, 0};
    if (ips_sys3(SYS_ioctl, fd, SIOCGSTAMPNS, (long)&ts) < 0 || ts.tv_sec <= 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void ips_record_arrival_time(const struct ips_io *io)
{
    const struct ips_control *c = ips_core_control();
    uint64_t arrival = last_arrival_realtime_ns(io->fd);
    if (!arrival || ips_me.in_vfork)
        return;
    uint64_t real = ips_sys_clock_ns(CLOCK_REALTIME);
    uint64_t now = stamp_to_raw_ns(&c->clock, ips_core_stamp_now());
    uint64_t call = stamp_to_raw_ns(&c->clock, io->call.t);
    if (arrival > real || real - arrival > ARRIVAL_MAX_NS ||
        real - arrival > now)
        return;
    uint64_t t = now - (real - arrival);
    if (t > call || t < c->created_raw_ns)
        return;
    struct ips_rec_head *rec =
        (struct ips_rec_head *)ips_rec_begin(IPS_REC_QUEUE, sizeof(*rec));
    if (!rec)
        return;
    ips_rec_add_flags(rec, IPS_REC_F_NS);
    rec->a = io->chan;
    rec->t = t; /* the time of arrival, not of this record */
    ips_rec_publish(rec);
}
