/* Wrappers of sendmsg, recvmsg, sendmmsg, recvmmsg. */
#include "agent/preload/at.h"
#include "agent/preload/io/stream.h"
#include "agent/record/readable.h"
#include "agent/record/sys.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Flags of receives that do not consume the stream's bytes in their order:
 * peeks, urgent data, error messages. */
#define NOT_DATA (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)
#define COPIES                                                                 \
    64u /* most messages of a recvmmsg whose headers are copied to ask for     \
           senders */

static const struct sockaddr unknown = {.sa_family = AF_UNSPEC};

static size_t msg_iov_count_or_zero_if_invalid(const struct msghdr *m)
{
    return m->msg_iovlen > 1024 ? 0 : m->msg_iovlen;
}

/* Clears the words in our descriptor table of the descriptors that arrived in
 * the message `m` (SCM_RIGHTS): the words describe earlier descriptors with the
 * same numbers. */
static void clear_table_words_of_received_fds(struct msghdr *m)
{
    if (!m->msg_control || m->msg_controllen < sizeof(struct cmsghdr))
        return;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            ips_fd_clear(fd);
        }
    }
}

__attribute__((noinline)) ssize_t
ips_sendmsg_slow(int fd, const struct msghdr *m, int flags, uint64_t site)
{
    if (flags & MSG_FASTOPEN && ips_wrap_start_library_and_check_recording()) {
        IPS_CALL_MARK;
        struct ips_moment call = ips_take_call_moment();
        ssize_t got = REAL(sendmsg)(fd, m, flags);
        /* the kernel may have refused the descriptor before it read `m` */
        if (got >= 0 || (ips_is_word_readable(&m->msg_name) &&
                         ips_is_word_readable(&m->msg_namelen)))
            ips_record_fastopen_send(fd, got,
                                     (const struct sockaddr *)m->msg_name,
                                     m->msg_namelen, call, site);
        return got;
    }
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(sendmsg)(fd, m, flags);
    ssize_t r = REAL(sendmsg)(fd, m, flags);
    if (r < 0) /* the call may have failed because `m` is invalid, so `m` is not
                  read */
        return ips_io_record_sent(&io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    if (io.klass == IPS_FD_DGRAM && m->msg_control)
        io.segment = ips_segment_bytes_in_control(m, UDP_SEGMENT);
    return ips_io_record_sent(
        &io, IPS_OP_DATA, r, m->msg_iov, msg_iov_count_or_zero_if_invalid(m),
        (const struct sockaddr *)m->msg_name, m->msg_namelen);
}

IPS_EXPORT IPS_HOT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct ips_io io;
    char frame;
    if (unlikely(flags & MSG_FASTOPEN) ||
        unlikely(!ips_stream_try_begin_call(&io, IPS_REC_SEND, fd, IPS_SITE,
                                            &frame)))
        return ips_sendmsg_slow(fd, m, flags, IPS_SITE);
    ssize_t r = REAL(sendmsg)(fd, m, flags);
    return ips_stream_record_send(&io, r);
}

/* For a datagram socket whose caller did not ask for the sender, or not for the
 * segment size (several datagrams joined): makes the call with a copy of `m`
 * that asks for both, and records it. Of a message header the kernel changes
 * only name length, control length and flags, which are copied back. If the
 * caller gave no space for control data, MSG_CTRUNC is set as it would be
 * without IPS. */
ssize_t ips_receive_and_record_with_sender(struct ips_io *io, struct msghdr *m,
                                           int flags)
{
    struct sockaddr_storage from;
    _Alignas(struct cmsghdr) char control[IPS_CONTROL_ROOM];
    struct msghdr copy = *m;
    bool asks = !m->msg_controllen && ips_must_ask_segment_size(io);
    if (asks) {
        copy.msg_control = control;
        copy.msg_controllen = sizeof(control);
    }
    if (!m->msg_name) {
        copy.msg_name = &from;
        copy.msg_namelen = sizeof(from);
    }
    const socklen_t room = copy.msg_namelen;
    ssize_t r = REAL(recvmsg)(io->fd, &copy, flags);
    if (r < 0)
        return ips_io_record_received(io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    io->segment = ips_segment_bytes_in_control(&copy, UDP_GRO);
    io->whole = !(copy.msg_flags & MSG_TRUNC);
    m->msg_flags = copy.msg_flags;
    if (asks && copy.msg_controllen)
        m->msg_flags |= MSG_CTRUNC;
    if (!asks)
        m->msg_controllen = copy.msg_controllen;
    clear_table_words_of_received_fds(m);
    if (m->msg_name)
        m->msg_namelen = copy.msg_namelen;
    const struct sockaddr *name = (const struct sockaddr *)copy.msg_name;
    socklen_t len = copy.msg_namelen;
    if (len < sizeof(sa_family_t) || len > room) {
        name = m->msg_name ? &unknown : NULL;
        len = m->msg_name ? (socklen_t)sizeof(unknown) : 0;
    }
    return ips_io_record_received(io, IPS_OP_DATA, r, m->msg_iov,
                                  msg_iov_count_or_zero_if_invalid(m), name,
                                  len);
}

ssize_t ips_recvmsg_at(int fd, struct msghdr *m, int flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return REAL(recvmsg)(fd, m, flags);
    if (flags & NOT_DATA) {
        ssize_t r = REAL(recvmsg)(fd, m, flags);
        if (r >= 0)
            /* a peek receives descriptors, too */
            clear_table_words_of_received_fds(m);
        if ((flags & NOT_DATA) == MSG_OOB && r > 0)
            return ips_io_record_received(&io, IPS_OP_DATA, r, NULL, 0, NULL,
                                          0);
        if (flags & MSG_PEEK)
            ips_record_wait_if_blocked_or_ready(
                IPS_OP_POLL, io.call, r < 0 ? -1 : 1, errno, io.site,
                ips_pack_ready_object_and_events(io.chan, IPS_READY_IN));
        return r;
    }
    /* For a stream, `m` is not read before the kernel has accepted it, because
     * it may be invalid. */
    const bool dgram =
        io.klass == IPS_FD_DGRAM && ips_is_memory_accessible(m, sizeof(*m));
    if (dgram && (!m->msg_name ||
                  (!m->msg_controllen && ips_must_ask_segment_size(&io))))
        return ips_receive_and_record_with_sender(&io, m, flags);
    const socklen_t room = dgram ? m->msg_namelen : 0;
    ssize_t r = REAL(recvmsg)(fd, m, flags);
    if (r < 0)
        return ips_io_record_received(&io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    clear_table_words_of_received_fds(m);
    if (dgram) {
        io.segment = ips_segment_bytes_in_control(m, UDP_GRO);
        io.whole = !(m->msg_flags & MSG_TRUNC);
    }
    bool whole =
        m->msg_namelen >= sizeof(sa_family_t) && m->msg_namelen <= room;
    return ips_io_record_received(
        &io, IPS_OP_DATA, r, m->msg_iov, msg_iov_count_or_zero_if_invalid(m),
        whole ? (const struct sockaddr *)m->msg_name : &unknown,
        whole ? m->msg_namelen : (socklen_t)sizeof(unknown));
}

IPS_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    return ips_recvmsg_at(fd, m, flags, IPS_SITE);
}

int ips_sendmmsg_at(int fd, struct mmsghdr *v, unsigned n, int flags,
                    uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(sendmmsg)(fd, v, n, flags);
    int r = REAL(sendmmsg)(fd, v, n, flags);
    int saved = errno;
    if (r < 0)
        ips_io_record_sent(&io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    for (int i = 0; i < r; i++) {
        if (io.klass == IPS_FD_DGRAM)
            io.segment =
                ips_segment_bytes_in_control(&v[i].msg_hdr, UDP_SEGMENT);
        ips_io_record_sent(&io, IPS_OP_DATA, v[i].msg_len, v[i].msg_hdr.msg_iov,
                           msg_iov_count_or_zero_if_invalid(&v[i].msg_hdr),
                           (const struct sockaddr *)v[i].msg_hdr.msg_name,
                           v[i].msg_hdr.msg_namelen);
    }
    errno = saved;
    return r;
}

IPS_EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned n, int flags)
{
    return ips_sendmmsg_at(fd, v, n, flags, IPS_SITE);
}

/* Writes a RECV record for each of the `r` messages. `room[i]`: bytes of space
 * that message `i` had for its sender's address; NULL: no message had too
 * little. */
static void record_received_messages(const struct ips_io *io, struct mmsghdr *v,
                                     const socklen_t *room, int r)
{
    struct ips_io each = *io;
    for (int i = 0; i < r; i++) {
        struct msghdr *m = &v[i].msg_hdr;
        each.not_last = i + 1 < r;
        if (io->klass == IPS_FD_DGRAM)
            each.segment = ips_segment_bytes_in_control(m, UDP_GRO);
        each.whole = !(m->msg_flags & MSG_TRUNC);
        bool whole = m->msg_name && m->msg_namelen >= sizeof(sa_family_t) &&
                     (!room || m->msg_namelen <= room[i]);
        ips_io_record_received(
            &each, IPS_OP_DATA, v[i].msg_len, m->msg_iov,
            msg_iov_count_or_zero_if_invalid(m),
            whole ? (const struct sockaddr *)m->msg_name : &unknown,
            whole ? m->msg_namelen : (socklen_t)sizeof(unknown));
    }
}

struct ips_mmsg_copies {
    struct sockaddr_storage from[COPIES];
    socklen_t capacity[COPIES]; /* bytes of space for each sender's address */
    struct mmsghdr copy[COPIES];
};

/* Returns the thread's memory for copies of headers, mapped at first use: a
 * small stack has no space for it. Only the outermost call of the thread may
 * use it; a call in a signal handler, which may have interrupted another one,
 * does without. NULL: not available. */
static struct ips_mmsg_copies *get_or_map_mmsg_copies(const struct ips_io *io)
{
    struct ips_extra *extra = io->mark == 0 ? ips_extra_get_or_map() : NULL;
    if (!extra || extra->mmsg)
        return extra ? extra->mmsg : NULL;
    uint64_t at = ips_sys_mmap(0, sizeof(*extra->mmsg), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (ips_sys_is_error(at))
        return NULL;
    extra->mmsg_bytes = sizeof(*extra->mmsg);
    atomic_signal_fence(memory_order_seq_cst);
    extra->mmsg = (struct ips_mmsg_copies *)(uintptr_t)at;
    return extra->mmsg;
}

/* Receives and records up to `n` <= COPIES messages, with copies of the headers
 * that ask for the senders. Returns the result of recvmmsg. */
static int receive_and_record_many_with_senders(const struct ips_io *io,
                                                struct mmsghdr *v, unsigned n,
                                                int flags,
                                                struct timespec *timeout,
                                                struct ips_mmsg_copies *c)
{
    struct sockaddr_storage *from = c->from;
    socklen_t *room = c->capacity;
    struct mmsghdr *copy = c->copy;
    for (unsigned i = 0; i < n; i++) {
        copy[i] = v[i];
        if (!copy[i].msg_hdr.msg_name) {
            copy[i].msg_hdr.msg_name = &from[i];
            copy[i].msg_hdr.msg_namelen = sizeof(from[i]);
        }
        room[i] = copy[i].msg_hdr.msg_namelen;
    }
    int r = REAL(recvmmsg)(io->fd, copy, n, flags, timeout);
    for (int i = 0; i < r; i++) {
        struct msghdr *m = &v[i].msg_hdr;
        m->msg_controllen = copy[i].msg_hdr.msg_controllen;
        m->msg_flags = copy[i].msg_hdr.msg_flags;
        if (m->msg_name)
            m->msg_namelen = copy[i].msg_hdr.msg_namelen;
        v[i].msg_len = copy[i].msg_len;
        clear_table_words_of_received_fds(m);
    }
    record_received_messages(io, copy, room, r);
    return r;
}

int ips_recvmmsg_at(int fd, struct mmsghdr *v, unsigned n, int flags,
                    struct timespec *timeout, uint64_t site)
{
    IPS_IO(io);
    if (flags & NOT_DATA ||
        !ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return ips_wrap_start_library_and_check_recording(),
               REAL(recvmmsg)(fd, v, n, flags, timeout);
    int r;
    const bool asks = io.klass == IPS_FD_DGRAM && n <= COPIES &&
                      ips_is_memory_accessible(v, n * sizeof(*v));
    struct ips_mmsg_copies *copies = asks ? get_or_map_mmsg_copies(&io) : NULL;
    if (copies) {
        r = receive_and_record_many_with_senders(&io, v, n, flags, timeout,
                                                 copies);
    } else {
        r = REAL(recvmmsg)(fd, v, n, flags, timeout);
        for (int i = 0; i < r; i++)
            clear_table_words_of_received_fds(&v[i].msg_hdr);
        record_received_messages(&io, v, NULL, r);
    }
    int saved = errno;
    if (r < 0)
        ips_io_record_received(&io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    errno = saved;
    return r;
}

IPS_EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags,
                        struct timespec *timeout)
{
    return ips_recvmmsg_at(fd, v, n, flags, timeout, IPS_SITE);
}
