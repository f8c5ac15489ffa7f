/*
 * Wrappers of the read and write families, send, recv, sendfile and splice.
 *
 * pread, pwrite and copy_file_range only move bytes of files: see
 * preload/io/file.c. preadv2 and pwritev2 at offset -1 behave like readv and
 * writev.
 */
#include "agent/preload/at.h"
#include "agent/preload/io/stream.h"
#include "agent/record/sys.h"

/* glibc declares the socket calls with transparent unions of all address
 * types; in the ABI they are the plain pointers written here. */
#pragma GCC diagnostic ignored "-Wpedantic"

#include <sys/eventfd.h>
#include <sys/sendfile.h>

/* Flags of receives that do not consume the stream's bytes in their order:
 * peeks, urgent data, error messages. */
#define NOT_DATA (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)

/* Receives on a datagram socket for a caller that did not ask for the sender.
 * The record needs the sender, so the call is made as a recvfrom with an
 * address buffer of our own, which otherwise does the same. */
static ssize_t receive_and_record_dgram_with_sender(struct ips_io *io,
                                                    void *buf, size_t n,
                                                    int flags)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    if (ips_must_ask_segment_size(io)) {
        struct iovec iov = {buf, n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
        return ips_receive_and_record_with_sender(io, &m, flags);
    }
    ssize_t r =
        REAL(recvfrom)(io->fd, buf, n, flags, (struct sockaddr *)&from, &len);
    bool named = r >= 0 && len >= sizeof(sa_family_t) && len <= sizeof(from);
    return ips_io_record_received(io, IPS_OP_DATA, r, IPS_IOV(buf, n),
                                  named ? (struct sockaddr *)&from : NULL, len);
}

/* Records a receive with a flag of NOT_DATA that returned `r`; returns `r`. A
 * peek receives nothing; if it waited, that is recorded as a wait for this
 * channel. A receive of urgent data never waits, but its byte is counted. The
 * sender counts that byte, too, so the count of a receiver that never receives
 * it stays one byte behind. */
static ssize_t record_peek_or_urgent_data(const struct ips_io *io, int flags,
                                          ssize_t r)
{
    if ((flags & NOT_DATA) == MSG_OOB && r > 0)
        return ips_io_record_received(io, IPS_OP_DATA, r, NULL, 0, NULL, 0);
    if (flags & MSG_PEEK)
        ips_record_wait_if_blocked_or_ready(
            IPS_OP_POLL, io->call, r < 0 ? -1 : 1, errno, io->site,
            ips_pack_ready_object_and_events(io->chan, IPS_READY_IN));
    return r;
}

__attribute__((noinline)) ssize_t ips_read_slow(int fd, void *buf, size_t n,
                                                uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return REAL(read)(fd, buf, n);
    if (io.klass == IPS_FD_DGRAM && n)
        return receive_and_record_dgram_with_sender(&io, buf, n, 0);
    ssize_t r = REAL(read)(fd, buf, n);
    return ips_io_record_received(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL,
                                  0);
}
IPS_EXPORT IPS_HOT ssize_t read(int fd, void *buf, size_t n)
{
    struct ips_io io;
    char frame;
    if (unlikely(!ips_stream_try_begin_call(&io, IPS_REC_RECV, fd, IPS_SITE,
                                            &frame)))
        return ips_read_slow(fd, buf, n, IPS_SITE);
    ssize_t r = REAL(read)(fd, buf, n);
    return ips_stream_record_receive(&io, r, IPS_IOV(buf, n));
}
ssize_t __read(int, void *, size_t) IPS_ALIAS(read);

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
IPS_EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, IPS_SITE))
        return REAL(__read_chk)(fd, buf, n, size);
    if (io.klass == IPS_FD_DGRAM && n && n <= size)
        return receive_and_record_dgram_with_sender(&io, buf, n, 0);
    ssize_t r = REAL(__read_chk)(fd, buf, n, size);
    return ips_io_record_received(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL,
                                  0);
}

__attribute__((noinline)) ssize_t ips_write_slow(int fd, const void *buf,
                                                 size_t n, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(write)(fd, buf, n);
    ssize_t r = REAL(write)(fd, buf, n);
    return ips_io_record_sent(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL, 0);
}
IPS_EXPORT IPS_HOT ssize_t write(int fd, const void *buf, size_t n)
{
    struct ips_io io;
    char frame;
    if (unlikely(!ips_stream_try_begin_call(&io, IPS_REC_SEND, fd, IPS_SITE,
                                            &frame)))
        return ips_write_slow(fd, buf, n, IPS_SITE);
    ssize_t r = REAL(write)(fd, buf, n);
    return ips_stream_record_send(&io, r);
}
ssize_t __write(int, const void *, size_t) IPS_ALIAS(write);

/* Returns the number of buffers in an iovec that may be read: 0 if the kernel
 * refuses `count`. */
static size_t iov_count_or_zero_if_invalid(long count)
{
    return count < 0 || count > 1024 ? 0 : (size_t)count;
}

__attribute__((noinline)) ssize_t
ips_readv_slow(int fd, const struct iovec *iov, int count, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return REAL(readv)(fd, iov, count);
    ssize_t r = REAL(readv)(fd, iov, count);
    return ips_io_record_received(&io, IPS_OP_DATA, r, iov,
                                  iov_count_or_zero_if_invalid(count), NULL, 0);
}
IPS_EXPORT IPS_HOT ssize_t readv(int fd, const struct iovec *iov, int count)
{
    struct ips_io io;
    char frame;
    if (unlikely(!ips_stream_try_begin_call(&io, IPS_REC_RECV, fd, IPS_SITE,
                                            &frame)))
        return ips_readv_slow(fd, iov, count, IPS_SITE);
    ssize_t r = REAL(readv)(fd, iov, count);
    return ips_stream_record_receive(&io, r, iov,
                                     iov_count_or_zero_if_invalid(count));
}

__attribute__((noinline)) ssize_t
ips_writev_slow(int fd, const struct iovec *iov, int count, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(writev)(fd, iov, count);
    ssize_t r = REAL(writev)(fd, iov, count);
    return ips_io_record_sent(&io, IPS_OP_DATA, r, iov,
                              iov_count_or_zero_if_invalid(count), NULL, 0);
}
IPS_EXPORT IPS_HOT ssize_t writev(int fd, const struct iovec *iov, int count)
{
    struct ips_io io;
    char frame;
    if (unlikely(!ips_stream_try_begin_call(&io, IPS_REC_SEND, fd, IPS_SITE,
                                            &frame)))
        return ips_writev_slow(fd, iov, count, IPS_SITE);
    ssize_t r = REAL(writev)(fd, iov, count);
    return ips_stream_record_send(&io, r);
}

ssize_t ips_call_preadv2_and_record(int fd, const struct iovec *iov, int count,
                                    off_t at, int flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site) ||
        (at != -1 && io.klass != IPS_FD_FILE))
        return ips_wrap_start_library_and_check_recording(),
               REAL(preadv2)(fd, iov, count, at, flags);
    ssize_t r = REAL(preadv2)(fd, iov, count, at, flags);
    return ips_io_record_received(&io, IPS_OP_DATA, r, iov,
                                  iov_count_or_zero_if_invalid(count), NULL, 0);
}

IPS_EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t at,
                           int flags)
{
    return ips_call_preadv2_and_record(fd, iov, count, at, flags, IPS_SITE);
}
ssize_t preadv64v2(int, const struct iovec *, int, off64_t, int)
    IPS_ALIAS(preadv2);

ssize_t ips_pwritev2_at(int fd, const struct iovec *iov, int count, off_t at,
                        int flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site) ||
        (at != -1 && io.klass != IPS_FD_FILE))
        return ips_wrap_start_library_and_check_recording(),
               REAL(pwritev2)(fd, iov, count, at, flags);
    ssize_t r = REAL(pwritev2)(fd, iov, count, at, flags);
    return ips_io_record_sent(&io, IPS_OP_DATA, r, iov,
                              iov_count_or_zero_if_invalid(count), NULL, 0);
}

IPS_EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int count,
                            off_t at, int flags)
{
    return ips_pwritev2_at(fd, iov, count, at, flags, IPS_SITE);
}
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int)
    IPS_ALIAS(pwritev2);

static __attribute__((noinline)) ssize_t
send_slow(int fd, const void *buf, size_t n, int flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(send)(fd, buf, n, flags);
    ssize_t r = REAL(send)(fd, buf, n, flags);
    return ips_io_record_sent(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL, 0);
}
IPS_EXPORT IPS_HOT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    struct ips_io io;
    char frame;
    if (unlikely(!ips_stream_try_begin_call(&io, IPS_REC_SEND, fd, IPS_SITE,
                                            &frame)))
        return send_slow(fd, buf, n, flags, IPS_SITE);
    ssize_t r = REAL(send)(fd, buf, n, flags);
    return ips_stream_record_send(&io, r);
}
ssize_t __send(int, const void *, size_t, int) IPS_ALIAS(send);

__attribute__((noinline)) ssize_t ips_sendto_slow(int fd, const void *buf,
                                                  size_t n, int flags,
                                                  const struct sockaddr *to,
                                                  socklen_t len, uint64_t site)
{
    if (flags & MSG_FASTOPEN && to &&
        ips_wrap_start_library_and_check_recording()) {
        IPS_CALL_MARK;
        struct ips_moment call = ips_take_call_moment();
        ssize_t got = REAL(sendto)(fd, buf, n, flags, to, len);
        ips_record_fastopen_send(fd, got, to, len, call, site);
        return got;
    }
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(sendto)(fd, buf, n, flags, to, len);
    ssize_t r = REAL(sendto)(fd, buf, n, flags, to, len);
    return ips_io_record_sent(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), to, len);
}
IPS_EXPORT IPS_HOT ssize_t sendto(int fd, const void *buf, size_t n, int flags,
                                  const struct sockaddr *to, socklen_t len)
{
    struct ips_io io;
    char frame;
    if (unlikely(flags & MSG_FASTOPEN) ||
        unlikely(!ips_stream_try_begin_call(&io, IPS_REC_SEND, fd, IPS_SITE,
                                            &frame)))
        return ips_sendto_slow(fd, buf, n, flags, to, len, IPS_SITE);
    ssize_t r = REAL(sendto)(fd, buf, n, flags, to, len);
    return ips_stream_record_send(&io, r);
}

static __attribute__((noinline)) ssize_t recv_slow(int fd, void *buf, size_t n,
                                                   int flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return REAL(recv)(fd, buf, n, flags);
    if (flags & NOT_DATA)
        return record_peek_or_urgent_data(&io, flags,
                                          REAL(recv)(fd, buf, n, flags));
    if (io.klass == IPS_FD_DGRAM)
        return receive_and_record_dgram_with_sender(&io, buf, n, flags);
    ssize_t r = REAL(recv)(fd, buf, n, flags);
    return ips_io_record_received(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL,
                                  0);
}
IPS_EXPORT IPS_HOT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    struct ips_io io;
    char frame;
    if (unlikely(flags & NOT_DATA) ||
        unlikely(!ips_stream_try_begin_call(&io, IPS_REC_RECV, fd, IPS_SITE,
                                            &frame)))
        return recv_slow(fd, buf, n, flags, IPS_SITE);
    ssize_t r = REAL(recv)(fd, buf, n, flags);
    return ips_stream_record_receive(&io, r, IPS_IOV(buf, n));
}

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags);
IPS_EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size,
                              int flags)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, IPS_SITE))
        return REAL(__recv_chk)(fd, buf, n, size, flags);
    if (flags & NOT_DATA)
        return record_peek_or_urgent_data(
            &io, flags, REAL(__recv_chk)(fd, buf, n, size, flags));
    if (io.klass == IPS_FD_DGRAM && n <= size)
        return receive_and_record_dgram_with_sender(&io, buf, n, flags);
    ssize_t r = REAL(__recv_chk)(fd, buf, n, size, flags);
    return ips_io_record_received(&io, IPS_OP_DATA, r, IPS_IOV(buf, n), NULL,
                                  0);
}

/* Records a receive with the sender that the kernel stored in the caller's own
 * buffer. If the buffer is too short for the address, the sender is unknown. */
static ssize_t record_receive_with_sender_address(
    const struct ips_io *io, ssize_t r, void *buf, size_t n,
    const struct sockaddr *from, const socklen_t *len, socklen_t room)
{
    static const struct sockaddr unknown = {.sa_family = AF_UNSPEC};
    socklen_t got = r >= 0 && len ? *len : 0;
    if (got > room || got < sizeof(sa_family_t)) {
        from = &unknown;
        got = sizeof(unknown);
    }
    return ips_io_record_received(io, IPS_OP_DATA, r, IPS_IOV(buf, n), from,
                                  got);
}

__attribute__((noinline)) ssize_t
ips_recvfrom_slow(int fd, void *buf, size_t n, int flags, struct sockaddr *from,
                  socklen_t *len, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_RECV, fd, site))
        return REAL(recvfrom)(fd, buf, n, flags, from, len);
    if (flags & NOT_DATA)
        return record_peek_or_urgent_data(
            &io, flags, REAL(recvfrom)(fd, buf, n, flags, from, len));
    if (io.klass == IPS_FD_DGRAM && !from)
        return receive_and_record_dgram_with_sender(&io, buf, n, flags);
    const bool dgram =
        io.klass == IPS_FD_DGRAM && ips_is_memory_accessible(len, sizeof(*len));
    socklen_t room = dgram ? *len : 0;
    if (dgram && ips_must_ask_segment_size(&io)) {
        struct iovec iov = {buf, n};
        struct msghdr m = {.msg_name = from,
                           .msg_namelen = room,
                           .msg_iov = &iov,
                           .msg_iovlen = 1};
        ssize_t got = ips_receive_and_record_with_sender(&io, &m, flags);
        if (got >= 0)
            *len = m.msg_namelen;
        return got;
    }
    ssize_t r = REAL(recvfrom)(fd, buf, n, flags, from, len);
    return record_receive_with_sender_address(&io, r, buf, n, from,
                                              from ? len : NULL, room);
}
IPS_EXPORT IPS_HOT ssize_t recvfrom(int fd, void *buf, size_t n, int flags,
                                    struct sockaddr *from, socklen_t *len)
{
    struct ips_io io;
    char frame;
    if (unlikely(flags & NOT_DATA) ||
        unlikely(!ips_stream_try_begin_call(&io, IPS_REC_RECV, fd, IPS_SITE,
                                            &frame)))
        return ips_recvfrom_slow(fd, buf, n, flags, from, len, IPS_SITE);
    ssize_t r = REAL(recvfrom)(fd, buf, n, flags, from, len);
    return ips_stream_record_receive(&io, r, IPS_IOV(buf, n));
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags,
                       struct sockaddr *from, socklen_t *len);
IPS_EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size,
                                  int flags, struct sockaddr *from,
                                  socklen_t *len)
{
    if (n > size) /* the C library's check aborts the program */
        return ips_wrap_start_library_and_check_recording(),
               REAL(__recvfrom_chk)(fd, buf, n, size, flags, from, len);
    return recvfrom(fd, buf, n, flags, from, len);
}

/* --- transfers from descriptor to descriptor ------------------------------ */

/* Records bytes that one call received from one descriptor and sent to another.
 * `asked`: the number of bytes asked for. An error is recorded for the reading
 * end if that is a channel. Returns `r`. */
static ssize_t record_fd_to_fd_transfer(struct ips_io *in, struct ips_io *out,
                                        ssize_t r, size_t asked)
{
    const struct iovec iov = {NULL, asked};
    int saved = errno;
    if (in && in->klass == IPS_FD_STREAM)
        ips_io_record_received(in, IPS_OP_SENDFILE, r, &iov, 1, NULL, 0);
    else
        in = NULL;
    if (out && out->klass == IPS_FD_STREAM && !(r < 0 && in))
        ips_io_record_sent(out, IPS_OP_SENDFILE, r, &iov, 1, NULL, 0);
    errno = saved;
    return r;
}

ssize_t ips_sendfile_at(int to, int from, off_t *at, size_t n, uint64_t site)
{
    IPS_IO(in);
    IPS_IO(out);
    /* With an offset (`at`), `from` is a file and not a channel. */
    bool has_in =
        !at && ips_io_open_call_if_recorded(&in, IPS_REC_RECV, from, site);
    bool has_out = ips_io_open_call_if_recorded(&out, IPS_REC_SEND, to, site);
    ssize_t r = REAL(sendfile)(to, from, at, n);
    if (has_in || has_out)
        record_fd_to_fd_transfer(has_in ? &in : NULL, has_out ? &out : NULL, r,
                                 n);
    return r;
}

IPS_EXPORT ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
    return ips_sendfile_at(to, from, at, n, IPS_SITE);
}
ssize_t sendfile64(int, int, off64_t *, size_t) IPS_ALIAS(sendfile);

ssize_t ips_splice_at(int from, off64_t *from_at, int to, off64_t *to_at,
                      size_t n, unsigned flags, uint64_t site)
{
    IPS_IO(in);
    IPS_IO(out);
    bool has_in = ips_io_open_call_if_recorded(&in, IPS_REC_RECV, from, site);
    bool has_out = ips_io_open_call_if_recorded(&out, IPS_REC_SEND, to, site);
    ssize_t r = REAL(splice)(from, from_at, to, to_at, n, flags);
    if (has_in || has_out)
        record_fd_to_fd_transfer(has_in ? &in : NULL, has_out ? &out : NULL, r,
                                 n);
    return r;
}

IPS_EXPORT ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at,
                          size_t n, unsigned flags)
{
    return ips_splice_at(from, from_at, to, to_at, n, flags, IPS_SITE);
}

static bool is_pipe_empty(int pipe)
{
    int bytes = 0;
    return !ips_sys_quiet &&
           ips_sys3(SYS_ioctl, pipe, FIONREAD, (long)(uintptr_t)&bytes) == 0 &&
           bytes == 0;
}

/* Records that a tee whose source pipe `from` was empty returned `r`. If it
 * waited, records the wait as a poll of the source, after which the send
 * begins. */
static void record_tee_wait_if_blocked(struct ips_io *out, int from, ssize_t r)
{
    int saved = errno;
    struct ips_moment ret = ips_return_moment(&out->call);
    if (ips_was_blocked(&out->call, &ret)) {
        ips_record_poll_or_count_failed_poll(
            IPS_OP_POLL, out->call, 1, 0, out->site,
            ips_pack_ready_events(from, r ? POLLIN : POLLHUP), false);
        out->call = ret;
    }
    errno = saved;
}

/* tee copies bytes and leaves them in the source pipe, so only a send is
 * recorded. */
ssize_t ips_tee_at(int from, int to, size_t n, unsigned flags, uint64_t site)
{
    IPS_IO(out);
    if (!ips_io_open_call_if_recorded(&out, IPS_REC_SEND, to, site))
        return REAL(tee)(from, to, n, flags);
    bool empty = is_pipe_empty(from);
    ssize_t r = REAL(tee)(from, to, n, flags);
    if (empty && r >= 0)
        record_tee_wait_if_blocked(&out, from, r);
    return record_fd_to_fd_transfer(NULL, &out, r, n);
}

IPS_EXPORT ssize_t tee(int from, int to, size_t n, unsigned flags)
{
    return ips_tee_at(from, to, n, flags, IPS_SITE);
}

/* vmsplice passes pages to a write end, or takes bytes from a read end. */
ssize_t ips_vmsplice_at(int fd, const struct iovec *iov, size_t count,
                        unsigned flags, uint64_t site)
{
    IPS_IO(io);
    if (!ips_io_open_call_if_recorded(&io, IPS_REC_SEND, fd, site))
        return REAL(vmsplice)(fd, iov, count, flags);
    ssize_t r = REAL(vmsplice)(fd, iov, count, flags);
    int saved = errno;
    bool reads =
        !ips_sys_quiet && (REAL(fcntl)(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    errno = saved;
    if (reads)
        return ips_io_record_received(&io, IPS_OP_SENDFILE, r, iov,
                                      iov_count_or_zero_if_invalid((long)count),
                                      NULL, 0);
    return ips_io_record_sent(&io, IPS_OP_SENDFILE, r, iov,
                              iov_count_or_zero_if_invalid((long)count), NULL,
                              0);
}

IPS_EXPORT ssize_t vmsplice(int fd, const struct iovec *iov, size_t count,
                            unsigned flags)
{
    return ips_vmsplice_at(fd, iov, count, flags, IPS_SITE);
}

IPS_EXPORT int eventfd_read(int fd, eventfd_t *value)
{
    return read(fd, value, sizeof(*value)) == (ssize_t)sizeof(*value) ? 0 : -1;
}
