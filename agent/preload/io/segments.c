/*
 * Handles calls that move several datagrams at once: with UDP_SEGMENT the
 * kernel splits one send into datagrams, with UDP_GRO it joins datagrams into
 * one receive.
 *
 * The options of a socket are queried only in processes in which some socket
 * has had one of them: the process set it, or a socket had it when the agent
 * identified the socket. If another process later sets an option on a socket
 * that both use, this process does not notice.
 */
#include "agent/preload/at.h"

#include <netinet/in.h>

#include "agent/record/sys.h"

/* linux/udp.h defines these two since Linux 4.18 and 5.0. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static _Atomic bool sends_cut, receives_joined;

static uint32_t get_udp_option(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);
    if (ips_sys6(SYS_getsockopt, fd, IPPROTO_UDP, option, (long)&value,
                 (long)&len, 0) < 0 ||
        value < 0)
        return 0;
    return (uint32_t)value;
}

static inline bool load_flag_relaxed(const _Atomic bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void note_udp_segment_or_gro_option(int option)
{
    if (option == UDP_SEGMENT)
        atomic_store_explicit(&sends_cut, true, memory_order_relaxed);
    if (option == UDP_GRO)
        atomic_store_explicit(&receives_joined, true, memory_order_relaxed);
}

void ips_note_if_fd_has_udp_segment_options(int fd)
{
    if (!load_flag_relaxed(&sends_cut) && get_udp_option(fd, UDP_SEGMENT))
        note_udp_segment_or_gro_option(UDP_SEGMENT);
    if (!load_flag_relaxed(&receives_joined) && get_udp_option(fd, UDP_GRO))
        note_udp_segment_or_gro_option(UDP_GRO);
}

/* Whether the close of a socket with this value of SO_LINGER waits until its
 * data is sent. */
static bool does_linger_wait_at_close(const void *value, socklen_t len)
{
    struct linger l = {0, 0};
    if (len >= sizeof(l))
        memcpy(&l, value, sizeof(l));
    return l.l_onoff && l.l_linger > 0;
}

IPS_EXPORT int setsockopt(int fd, int level, int name, const void *value,
                          socklen_t len)
{
    bool on = ips_wrap_start_library_and_check_recording();
    int r = REAL(setsockopt)(fd, level, name, value, len);
    if (on && r == 0 && level == IPPROTO_UDP)
        note_udp_segment_or_gro_option(name);
    if (on && r == 0 && level == SOL_SOCKET && name == SO_LINGER &&
        does_linger_wait_at_close(value, len))
        ips_store_linger_option_used();
    return r;
}

uint32_t ips_sent_segment_bytes(const struct ips_io *io)
{
    if (io->segment || !load_flag_relaxed(&sends_cut))
        return io->segment;
    return get_udp_option(io->fd, UDP_SEGMENT);
}

bool ips_must_ask_segment_size(const struct ips_io *io)
{
    return unlikely(load_flag_relaxed(&receives_joined)) && !ips_sys_quiet &&
           get_udp_option(io->fd, UDP_GRO) > 0;
}

/* Parses the control data by hand, because a program's may be malformed. */
uint32_t ips_segment_bytes_in_control(const struct msghdr *m, int type)
{
    const char *at = m->msg_control;
    size_t left = at ? m->msg_controllen : 0;
    struct cmsghdr c;
    while (left >= sizeof(c)) {
        memcpy(&c, at, sizeof(c));
        size_t bytes = CMSG_ALIGN(c.cmsg_len);
        if (c.cmsg_len < sizeof(c) || c.cmsg_len > left)
            break;
        if (c.cmsg_level == IPPROTO_UDP && c.cmsg_type == type) {
            int value = 0;
            uint16_t half = 0;
            if (c.cmsg_len >= CMSG_LEN(sizeof(value))) {
                memcpy(&value, at + CMSG_LEN(0), sizeof(value));
            } else if (c.cmsg_len >= CMSG_LEN(sizeof(half))) {
                memcpy(&half, at + CMSG_LEN(0), sizeof(half));
                value = half;
            }
            /* value 0: the call moved one datagram, whatever the socket's
             * option is */
            return value > 0 ? (uint32_t)value : UINT32_MAX;
        }
        if (bytes >= left)
            break;
        at += bytes;
        left -= bytes;
    }
    return 0;
}
