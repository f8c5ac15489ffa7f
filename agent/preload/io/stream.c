/* The rare cases of a stream call that moved bytes, and polls. */
#include "agent/preload/io/stream.h"
#include "agent/preload/tries.h"

#include "agent/record/cpu_gone.h"

/* Writes the full record of a call, which also sets a CPU baseline for the next
 * short records. */
static inline __attribute__((always_inline)) ssize_t
write_full_record_and_close_call(struct ips_thread *me, const struct ips_io *io,
                                 enum ips_rec_type type, ssize_t result,
                                 const struct ips_moment *ret)
{
    if (type != IPS_REC_SEND && type != IPS_REC_RECV)
        __builtin_unreachable();
    if (type == IPS_REC_RECV)
        ips_spin_end_and_record_failures(me, &io->call);
    else
        me->spin_count = 0;
    ips_sample_check_call_return(&io->call, ret);
    if (likely(ips_io_write_long(me, type, io->chan, IPS_OP_DATA, &io->call,
                                 ret, result, 0, io->site, 0))) {
        ips_stream_end_call_and_record_module(me, io, result);
        ips_stack_write_if_long_call(io->call.t, ret->t, io->site);
        return result;
    }
    ips_close_open_call(me, io->mark);
    return result;
}

IPS_HOT ssize_t ips_stream_record_switched_out_call(const struct ips_io *io,
                                                    enum ips_rec_type type,
                                                    ssize_t result)
{
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    struct ips_moment ret;
    if (likely(ips_core.cpu_marks))
        ips_moment_of_return_if_switched_out(me, &io->call, false, &ret);
    else
        ret = ips_moment_of_return_slow(&io->call, ips_core_stamp_now());
    return write_full_record_and_close_call(me, io, type, result, &ret);
}

IPS_HOT ssize_t ips_stream_record_call_in_full(const struct ips_io *io,
                                               enum ips_rec_type type,
                                               ssize_t result, uint64_t t)
{
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    uint64_t took = t - io->call.t;
    if (likely(*ips_cpu_mark_address() == io->call.mark &&
               me->cpu_next == io->call.mark_number &&
               took < ips_core.cpu_limit)) {
        const struct ips_moment ret = {t, io->call.cpu + ips_stamps_to_ns(took),
                                       io->call.mark, io->call.mark_number};
        me->cpu_last = ret.cpu;
        return write_full_record_and_close_call(me, io, type, result, &ret);
    }
    const struct ips_moment ret = ips_moment_of_return_slow(&io->call, t);
    return write_full_record_and_close_call(me, io, type, result, &ret);
}

ssize_t ips_stream_undo_reserve_and_record(const struct ips_io *io,
                                           enum ips_rec_type type,
                                           ssize_t result, uint64_t t,
                                           uint64_t place)
{
    ips_reservation_give_back_or_fill(place, sizeof(struct ips_rec_io_short));
    return ips_stream_record_call_in_full(io, type, result, t);
}

IPS_HOT int ips_poll_record_with_ready_fd(const struct ips_moment *call,
                                          uint32_t mark, enum ips_op op,
                                          int result, uint64_t site,
                                          uint64_t ready)
{
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    struct ips_moment ret;
    if (likely(ips_core.cpu_marks && *ips_cpu_mark_address() != call->mark))
        ips_moment_of_return_if_switched_out(me, call, true, &ret);
    else
        ret = ips_moment_of_wait_return(call);
    ips_sample_check_call_return(call, &ret);
    ips_spin_end_and_record_failures(me, call);
    const uint32_t what = (uint32_t)ready;
    bool good = ips_io_write_long(me, IPS_REC_BLOCK, (uint32_t)(ready >> 32),
                                  op, call, &ret, result, 0, site, what);
    ips_close_open_call(me, mark);
    if (likely(good)) {
        if (unlikely(me->site_page != ips_module_page_key(site)))
            ips_module_record_once_slow(site);
        ips_stack_write_if_long_call(call->t, ret.t, site);
    }
    if (unlikely(IPS_READY_KIND(what) == IPS_READY_PIDFD))
        ips_record_signal_taken(IPS_SIGNAL_PIDFD, SIGCHLD, CLD_EXITED,
                                (int32_t)IPS_READY_NUMBER(what), 0, ret);
    return result;
}

ssize_t ips_stream_record_failed_or_empty_send(const struct ips_io *io,
                                               ssize_t result)
{
    ips_io_record_sent(io, IPS_OP_DATA, result, NULL, 0, NULL, 0);
    ips_io_close_open_call_at_scope_end(io);
    return result;
}

/* Records a receive that failed with EAGAIN, the first of its run. A loop that
 * receives until nothing is left, and then waits, makes one such attempt in
 * each iteration. Writes the same as record_non_stream_or_empty_receive. False:
 * it is not such an attempt, and nothing was written. */
static inline __attribute__((always_inline)) bool
try_record_first_failed_receive(struct ips_thread *me, const struct ips_io *io)
{
    const struct ips_moment *call = &io->call;
    if (unlikely(*ips_cpu_mark_address() != call->mark || me->spin_count ||
                 errno != EAGAIN))
        return false;
    uint64_t t = IPS_STAMP(), took = t - call->t;
    if (unlikely(*ips_cpu_mark_address() != call->mark ||
                 me->cpu_next != call->mark_number ||
                 took >= ips_core.long_call || !ips_core.cpu_marks))
        return false;
    const struct ips_moment ret = {t, call->cpu + ips_stamps_to_ns(took),
                                   call->mark, call->mark_number};
    me->cpu_last = ret.cpu;
    ips_sample_check_call_return(call, &ret);
    ips_spin_start_failure_series(me, call, &ret, io->chan, io->site);
    if (likely(ips_io_write_long(me, IPS_REC_RECVCALL, io->chan, IPS_OP_DATA,
                                 call, &ret, -1, EAGAIN, io->site, 0)))
        ips_module_record_once(io->site);
    return true;
}

IPS_HOT ssize_t ips_stream_record_failed_or_empty_receive(
    const struct ips_io *io, ssize_t result, const struct iovec *iov,
    size_t iovcnt)
{
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    if (likely(result < 0 && try_record_first_failed_receive(me, io))) {
        ips_close_open_call(me, io->mark);
        return result;
    }
    ips_io_record_received(io, IPS_OP_DATA, result, iov, iovcnt, NULL, 0);
    ips_io_close_open_call_at_scope_end(io);
    return result;
}
