/* Writes the records of wrapped calls. */
#include "agent/preload/tries.h"
#include "agent/preload/wrap.h"

#include <sys/signalfd.h>

#include "agent/pool/ready.h"
#include "agent/preload/sample/sample.h"
#include "agent/record/io_event.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

static inline __attribute__((always_inline)) void
write_io_record(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                const struct ips_moment *call, const struct ips_moment *ret,
                int64_t result, int err, uint64_t site, uint32_t ready)
{
    ips_spin_drop_failure_series();
    if (!ips_io_write_record(type, chan, op, call, ret, result, err, site,
                             ready))
        return;
    ips_module_record_once(site);
    ips_stack_write_if_long_call(call->t, ret->t, site);
}

void ips_record_io_call(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                        struct ips_moment call, struct ips_moment ret,
                        int64_t result, int err, uint64_t site, uint32_t ready)
{
    write_io_record(type, chan, op, &call, &ret, result, err, site, ready);
}

struct ips_moment ips_record_wait_if_blocked_or_ready(enum ips_op op,
                                                      struct ips_moment call,
                                                      int64_t result, int err,
                                                      uint64_t site,
                                                      uint64_t ready)
{
    /* calls of any other kind may use the CPU before they sleep */
    bool waits = op == IPS_OP_POLL || op == IPS_OP_SELECT ||
                 op == IPS_OP_EPOLL || op == IPS_OP_SLEEP ||
                 op == IPS_OP_SIGWAIT;
    struct ips_moment ret = waits
                                ? ips_take_wakeup_moment_and_check_sample(&call)
                                : ips_return_moment(&call);
    if (op == IPS_OP_SLEEP || (waits && result == 0))
        ips_count_sleep();
    if (result > 0 || ips_was_blocked(&call, &ret))
        ips_record_io_call(IPS_REC_BLOCK, (uint32_t)(ready >> 32), op, call,
                           ret, result, result < 0 ? err : 0, site,
                           (uint32_t)ready);
    return ret;
}

void ips_record_poll_or_count_failed_poll(enum ips_op op,
                                          struct ips_moment call,
                                          int64_t result, int err,
                                          uint64_t site, uint64_t ready,
                                          bool no_wait)
{
    if (result > 0)
        ips_spin_end_and_record_failures(&ips_me, &call);
    if (result == 0 && no_wait) {
        struct ips_moment ret = ips_return_moment(&call);
        ips_spin_start_or_continue_failures(&call, &ret, 0, site);
    } else {
        ips_record_wait_if_blocked_or_ready(op, call, result, err, site, ready);
    }
}

/* Whether a call that failed with EAGAIN returned without waiting, even if it
 * took long. (It may have been preempted. On a blocking socket it may have
 * waited for a timeout.) */
bool ips_failed_without_waiting(int fd, const struct ips_moment *call,
                                const struct ips_moment *ret)
{
    return likely(!ips_was_blocked(call, ret)) ||
           ips_sys3(SYS_fcntl, fd, F_GETFL, 0) & O_NONBLOCK;
}

/* Returns the value (IPS_BEGUN) that notes a call on `io` while it is in
 * progress: it shows what the call may wait for. */
static uint64_t encode_call_in_progress(const struct ips_io *io,
                                        enum ips_rec_type type)
{
    const enum ips_op op = io->klass == IPS_FD_EVENTFD    ? IPS_OP_EVENTFD
                           : io->klass == IPS_FD_TIMERFD  ? IPS_OP_TIMERFD
                           : io->klass == IPS_FD_SIGNALFD ? IPS_OP_SIGNALFD
                           : io->klass == IPS_FD_TERMINAL ? IPS_OP_TERMINAL
                           : io->klass == IPS_FD_FILE     ? IPS_OP_DISK
                                                          : IPS_OP_DATA;
    return op == IPS_OP_DATA ? IPS_BEGUN(type, op, io->chan)
                             : IPS_BEGUN(IPS_REC_BLOCK, op, 0);
}

bool ips_io_identify_fd_and_begin_call_slow(struct ips_io *io,
                                            enum ips_rec_type type, int fd,
                                            uint64_t word, uint64_t site)
{
    if (ips_fd_must_be_identified(word) || (unsigned)fd >= IPS_FD_MAX)
        word = ips_chan_identify_and_record(fd, word, NULL);
    io->klass = ips_fd_class(word);
    if (io->klass == IPS_FD_NONE || io->klass == IPS_FD_LISTEN ||
        io->klass == IPS_FD_EPOLL)
        return false;
    /* finding the peer of a datagram takes system calls, which are forbidden
     * now (preload/process/seccomp.c) */
    if (unlikely(ips_sys_quiet) && io->klass == IPS_FD_DGRAM)
        return false;
    io->fd = fd;
    io->not_last = false;
    io->segment = 0;
    io->whole = false;
    io->chan = ips_fd_channel_id(word);
    /* The call site of a file access is looked up only if the call was slow. */
    io->site =
        io->klass == IPS_FD_FILE ? site : ips_site_look_up_if_deferred(site);
    ips_push_open_call(&ips_me, io, 0);
    io->call = io->klass == IPS_FD_FILE ? ips_file_call_take_start_moment(false)
                                        : ips_moment_of_call();
    /* A starting program reads hundreds of files. Site 0 saves the lookup of
     * the module for each. */
    ips_note_outermost_call_begin(
        &ips_me, io->mark, encode_call_in_progress(io, type),
        io->klass == IPS_FD_FILE ? 0 : io->site, &io->call);
    return true;
}

static bool are_all_buffers_empty(const struct iovec *iov, size_t iovcnt)
{
    for (size_t i = 0; i < iovcnt; i++)
        if (iov[i].iov_len)
            return false;
    return true;
}

/* Records a write to a descriptor that is not a channel. */
static ssize_t record_write_to_non_channel(const struct ips_io *io,
                                           ssize_t result)
{
    int saved = errno;
    if (io->klass == IPS_FD_FILE)
        ips_file_call_count_and_record_if_slow(&io->call, result, io->site);
    else if (io->klass == IPS_FD_EVENTFD && result > 0)
        ips_record_eventfd_write(io);
    else if (io->klass == IPS_FD_TERMINAL &&
             !(result > 0 && ips_record_pty_write(io)))
        ips_record_wait_if_blocked_or_ready(
            IPS_OP_TERMINAL, io->call, result < 0 ? -1 : 0, saved, io->site, 0);
    errno = saved;
    return result;
}

/* Records sends of datagrams, and writes to descriptors that are not channels.
 */
static __attribute__((noinline)) ssize_t
record_datagram_or_non_channel_send(const struct ips_io *io, enum ips_op op,
                                    ssize_t result, const struct iovec *iov,
                                    size_t iovcnt, const struct sockaddr *name,
                                    socklen_t name_len)
{
    if (io->klass != IPS_FD_DGRAM)
        return record_write_to_non_channel(io, result);
    struct ips_moment ret = ips_return_moment(&io->call);
    int err = result < 0 ? errno : 0;
    if (result >= 0)
        ips_record_dgram(io->fd, io->chan, io->call.t, iov, iovcnt,
                         (uint64_t)result, ips_sent_segment_bytes(io), name,
                         name_len);
    ips_record_io_call(IPS_REC_SEND, io->chan, op, io->call, ret, result, err,
                       io->site, 0);
    return result;
}

/* Here and in ips_io_record_received, rare cases are in separate functions:
 * after a system call little of this code is in the caches, so each cache line
 * of code costs time. */
ssize_t ips_io_record_sent(const struct ips_io *io, enum ips_op op,
                           ssize_t result, const struct iovec *iov,
                           size_t iovcnt, const struct sockaddr *name,
                           socklen_t name_len)
{
    if (unlikely(io->klass != IPS_FD_STREAM))
        return record_datagram_or_non_channel_send(io, op, result, iov, iovcnt,
                                                   name, name_len);
    struct ips_moment ret = ips_return_moment(&io->call);
    int err = unlikely(result < 0) ? errno : 0;
    if (unlikely(result == 0))
        return result;
    write_io_record(IPS_REC_SEND, io->chan, op, &io->call, &ret, result, err,
                    io->site, 0);
    return result;
}

/* Records the signals that a read of a signalfd returned. Only complete
 * structures in the first buffer are read. */
static void record_signals_read(const struct iovec *iov, size_t iovcnt,
                                size_t got, struct ips_moment ret)
{
    struct signalfd_siginfo one;
    size_t n = iovcnt ? ips_min_u64(got, iov[0].iov_len) / sizeof(one) : 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&one, (const char *)iov[0].iov_base + i * sizeof(one),
               sizeof(one));
        ips_record_signal_taken(
            IPS_SIGNAL_FD, (int)one.ssi_signo, one.ssi_code,
            (int32_t)one.ssi_pid,
            ips_choose_signal_value_by_code((int)one.ssi_signo, one.ssi_code,
                                            one.ssi_fd, (long)one.ssi_band,
                                            one.ssi_ptr),
            ret);
    }
}

static enum ips_op wait_op_of_fd_class(enum ips_fd_class klass)
{
    return klass == IPS_FD_EVENTFD    ? IPS_OP_EVENTFD
           : klass == IPS_FD_TIMERFD  ? IPS_OP_TIMERFD
           : klass == IPS_FD_SIGNALFD ? IPS_OP_SIGNALFD
           : klass == IPS_FD_TERMINAL ? IPS_OP_TERMINAL
                                      : IPS_OP_OTHER;
}

/* Records a read from a descriptor that is not a channel. */
static ssize_t record_read_from_non_channel(const struct ips_io *io,
                                            ssize_t result,
                                            const struct iovec *iov,
                                            size_t iovcnt)
{
    int err = errno;
    struct ips_moment ret = ips_return_moment(&io->call);
    bool eventfd = io->klass == IPS_FD_EVENTFD && result > 0;
    bool watch = io->klass == IPS_FD_WATCH && result > 0 && iovcnt;
    bool terminal = io->klass == IPS_FD_TERMINAL && result > 0;
    if (result > 0)
        ips_spin_end_and_record_failures(&ips_me, &io->call);
    else if (result < 0 && err == EAGAIN &&
             ips_failed_without_waiting(io->fd, &io->call, &ret))
        ips_spin_start_or_continue_failures(&io->call, &ret, 0, io->site);
    size_t first = watch ? ips_min_u64((size_t)result, iov[0].iov_len) : 0;
    if (!(eventfd && ips_record_eventfd_read(io, ret)) &&
        !(watch && ips_record_inotify_read(io, iov[0].iov_base, first, ret)) &&
        !(terminal && ips_record_pty_read(io, ret)) &&
        (result > 0 || ips_was_blocked(&io->call, &ret)))
        ips_record_io_call(IPS_REC_BLOCK, 0, wait_op_of_fd_class(io->klass),
                           io->call, ret, result, result < 0 ? err : 0,
                           io->site, 0);
    if (io->klass == IPS_FD_SIGNALFD && result > 0)
        record_signals_read(iov, iovcnt, (size_t)result, ret);
    return result;
}

/* Returns whether the received datagram of `got` bytes was truncated, as far as
 * the call shows. */
static enum ips_cut truncation_of_datagram(const struct ips_io *io,
                                           uint64_t got,
                                           const struct iovec *iov,
                                           size_t iovcnt)
{
    uint64_t room = 0;
    if (io->whole)
        return IPS_CUT_NOT;
    for (size_t i = 0; i < iovcnt; i++)
        room += iov[i].iov_len;
    if (got < room)
        return IPS_CUT_NOT;
    return got == room ? IPS_CUT_MAYBE : IPS_CUT_KNOWN;
}

/* Records receives of datagrams, reads from descriptors that are not channels,
 * and stream reads that returned no bytes. */
static __attribute__((noinline)) ssize_t
record_non_stream_or_empty_receive(const struct ips_io *io, enum ips_op op,
                                   ssize_t result, const struct iovec *iov,
                                   size_t iovcnt, const struct sockaddr *name,
                                   socklen_t name_len)
{
    if (io->klass == IPS_FD_FILE)
        return ips_file_call_count_and_record_if_slow(&io->call, result,
                                                      io->site),
               result;
    if (io->klass != IPS_FD_STREAM && io->klass != IPS_FD_DGRAM)
        return record_read_from_non_channel(io, result, iov, iovcnt);
    struct ips_moment ret = ips_return_moment(&io->call);
    int err = result < 0 ? errno : 0;
    if (result == 0 && are_all_buffers_empty(iov, iovcnt))
        return result;
    if (result >= 0) /* before QUEUE and DGRAM, because writing a record
                        discards the run */
        ips_spin_end_and_record_failures(&ips_me, &io->call);
    if (io->klass == IPS_FD_DGRAM && result >= 0 && !io->not_last &&
        unlikely(ips_core_control()->receive_stamps) && !ips_sys_quiet &&
        !ips_was_blocked(&io->call, &ret))
        ips_record_arrival_time(io);
    if (result >= 0 && io->klass == IPS_FD_DGRAM)
        ips_record_dgram(io->fd, io->chan, io->call.t, iov, iovcnt,
                         (uint64_t)result, io->segment, name, name_len);
    bool again = result < 0 && err == EAGAIN &&
                 ips_failed_without_waiting(io->fd, &io->call, &ret);
    if (again && ips_spin_start_or_continue_failures(&io->call, &ret, io->chan,
                                                     io->site))
        return result;
    ips_record_io_call(
        result < 0 ? IPS_REC_RECVCALL : IPS_REC_RECV, io->chan, op, io->call,
        ret, result, err, io->site,
        result > 0 && io->klass == IPS_FD_DGRAM
            ? truncation_of_datagram(io, (uint64_t)result, iov, iovcnt)
            : 0);
    if (again)
        ips_spin_restart_failure_series();
    return result;
}

ssize_t ips_io_record_received(const struct ips_io *io, enum ips_op op,
                               ssize_t result, const struct iovec *iov,
                               size_t iovcnt, const struct sockaddr *name,
                               socklen_t name_len)
{
    if (unlikely(io->klass != IPS_FD_STREAM || result <= 0))
        return record_non_stream_or_empty_receive(io, op, result, iov, iovcnt,
                                                  name, name_len);
    struct ips_moment ret = ips_return_moment(&io->call);
    ips_spin_end_and_record_failures(&ips_me, &io->call);
    write_io_record(IPS_REC_RECV, io->chan, op, &io->call, &ret, result, 0,
                    io->site, 0);
    return result;
}

void ips_record_fork(enum ips_fork_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, int err, uint64_t site)
{
    struct ips_moment ret = ips_return_moment(&call);
    ips_spin_drop_failure_series();
    struct ips_rec_fork *rec = (struct ips_rec_fork *)ips_rec_begin_at(
        IPS_REC_FORK, sizeof(*rec) + IPS_REC_SITE_BYTES, call.t);
    if (!rec)
        return;
    rec->h.a = pid;
    rec->t_ret = ret.t;
    rec->cpu = call.cpu;
    rec->cpu_ret = ret.cpu;
    rec->fork_seq = seq;
    rec->kind = kind;
    rec->err = (uint32_t)err;
    ips_rec_put_site(rec, sizeof(*rec), site);
    ips_rec_publish(rec);
    ips_module_record_once(site);
}

void ips_record_join(enum ips_join_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, uint64_t child_cpu_ns,
                     uint32_t status, uint64_t site)
{
    struct ips_moment ret = ips_return_moment(&call);
    ips_spin_drop_failure_series();
    struct ips_rec_join *rec = (struct ips_rec_join *)ips_rec_begin_at(
        IPS_REC_JOIN, sizeof(*rec) + IPS_REC_SITE_BYTES, call.t);
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
    ips_rec_put_site(rec, sizeof(*rec), site);
    ips_rec_publish(rec);
    ips_module_record_once(site);
    ips_stack_write_if_long_call(call.t, ret.t, site);
}
