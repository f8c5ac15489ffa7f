/* Writing the records of wrapped calls. */
#include "agent/wrap.h"

#include "agent/sys.h"

void ips_record_io(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                   struct ips_moment call, struct ips_moment ret,
                   int64_t result, int err, uint64_t site, uint32_t ready)
{
    struct ips_rec_io *rec =
        (struct ips_rec_io *)ips_rec_begin_at(type, sizeof(*rec), call.t);
    if (!rec)
        return;
    rec->h.a = chan;
    rec->t_ret = ret.t;
    rec->cpu = call.cpu;
    rec->cpu_ret = ret.cpu;
    rec->result = result;
    rec->site = site;
    rec->op = (uint16_t)op;
    rec->err = (uint16_t)err;
    rec->ready = ready;
    ips_rec_publish(rec);
}

void ips_record_wait(enum ips_op op, struct ips_moment call, int64_t result,
                     int err, uint64_t site, uint32_t ready)
{
    struct ips_moment ret = ips_at_return(&call);
    if (result > 0 || ips_was_blocked(&call, &ret))
        ips_record_io(IPS_REC_BLOCK, 0, op, call, ret, result,
                      result < 0 ? err : 0, site, ready);
}

bool ips_io_begin_slow(struct ips_io *io, int fd, uint64_t word, uint64_t site)
{
    if (ips_fd_class(word) == IPS_FD_UNKNOWN || (unsigned)fd >= IPS_FD_MAX)
        word = ips_chan_name(fd, word, NULL);
    io->klass = ips_fd_class(word);
    if (io->klass == IPS_FD_NONE || io->klass == IPS_FD_LISTEN)
        return false;
    /* for a datagram's peer we would make other calls than the program does */
    if (unlikely(ips_sys_quiet) && io->klass == IPS_FD_DGRAM)
        return false;
    io->fd = fd;
    io->chan = ips_fd_chan(word);
    io->site = site;
    ips_call_open(io);
    io->call = ips_at_call();
    return true;
}

static bool asked_for_nothing(const struct iovec *iov, size_t iovcnt)
{
    for (size_t i = 0; i < iovcnt; i++)
        if (iov[i].iov_len)
            return false;
    return true;
}

ssize_t ips_io_sent(const struct ips_io *io, enum ips_op op, ssize_t result,
                    const struct iovec *iov, size_t iovcnt,
                    const struct sockaddr *name, socklen_t name_len)
{
    if (io->klass != IPS_FD_STREAM && io->klass != IPS_FD_DGRAM)
        return result; /* eventfd */
    int err = errno;
    struct ips_moment ret = ips_at_return(&io->call);
    if (result == 0 && io->klass == IPS_FD_STREAM)
        return result;
    if (result >= 0 && io->klass == IPS_FD_DGRAM)
        ips_chan_dgram(io->fd, io->chan, io->call.t, iov, iovcnt,
                       (uint64_t)result, name, name_len);
    ips_record_io(IPS_REC_SEND, io->chan, op, io->call, ret, result,
                  result < 0 ? err : 0, io->site, 0);
    return result;
}

static enum ips_op wait_op(enum ips_fd_class klass)
{
    return klass == IPS_FD_EVENTFD   ? IPS_OP_EVENTFD
           : klass == IPS_FD_TIMERFD ? IPS_OP_TIMERFD
                                     : IPS_OP_SIGNALFD;
}

ssize_t ips_io_received(const struct ips_io *io, enum ips_op op, ssize_t result,
                        const struct iovec *iov, size_t iovcnt,
                        const struct sockaddr *name, socklen_t name_len)
{
    int err = errno;
    struct ips_moment ret = ips_at_return(&io->call);
    if (io->klass != IPS_FD_STREAM && io->klass != IPS_FD_DGRAM) {
        if (result > 0 || ips_was_blocked(&io->call, &ret))
            ips_record_io(IPS_REC_BLOCK, 0, wait_op(io->klass), io->call, ret,
                          result, result < 0 ? err : 0, io->site, 0);
        return result;
    }
    if (result == 0 && asked_for_nothing(iov, iovcnt))
        return result;
    if (result >= 0 && io->klass == IPS_FD_DGRAM)
        ips_chan_dgram(io->fd, io->chan, io->call.t, iov, iovcnt,
                       (uint64_t)result, name, name_len);
    ips_record_io(result < 0 ? IPS_REC_RECVCALL : IPS_REC_RECV, io->chan, op,
                  io->call, ret, result, result < 0 ? err : 0, io->site, 0);
    return result;
}

void ips_record_fork(enum ips_fork_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, int err)
{
    struct ips_moment ret = ips_at_return(&call);
    struct ips_rec_fork *rec = (struct ips_rec_fork *)ips_rec_begin_at(
        IPS_REC_FORK, sizeof(*rec), call.t);
    if (!rec)
        return;
    rec->h.a = pid;
    rec->t_ret = ret.t;
    rec->cpu = call.cpu;
    rec->cpu_ret = ret.cpu;
    rec->fork_seq = seq;
    rec->kind = kind;
    rec->err = (uint32_t)err;
    ips_rec_publish(rec);
}

void ips_record_join(enum ips_join_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, uint64_t child_cpu_ns,
                     uint32_t status)
{
    struct ips_moment ret = ips_at_return(&call);
    struct ips_rec_join *rec = (struct ips_rec_join *)ips_rec_begin_at(
        IPS_REC_JOIN, sizeof(*rec), call.t);
    if (!rec)
        return;
    rec->h.a = pid;
    rec->t_ret = ret.t;
    rec->cpu = call.cpu;
    rec->cpu_ret = ret.cpu;
    rec->seq = seq;
    rec->child_cpu_ns = child_cpu_ns;
    rec->status = status;
    rec->kind = kind;
    ips_rec_publish(rec);
}
