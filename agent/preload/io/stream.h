/*
 * The fast path of the most common calls: those that move bytes on a stream
 * that is identified already. After a system call hardly any of our code and
 * data is in the caches, and no branch is predicted. So this path is straight
 * code without a taken jump, and all rare cases are out of line
 * (`tests/bench/run count` counts its instructions).
 *
 * All of it is inlined into each wrapper. A send keeps its struct ips_io in
 * registers: its address is passed to no function, and the rare cases get a
 * copy. A receive often blocks, so the rare cases are frequent there, and a
 * copy would touch four more cache lines.
 */
#ifndef IPS_AGENT_PRELOAD_IO_STREAM_H
#define IPS_AGENT_PRELOAD_IO_STREAM_H

#include "agent/preload/sample/sample.h"
#include "agent/preload/wrap.h"
#include "agent/record/io_event.h"
#include "agent/record/readable.h"
#include "agent/unwind/modules.h"

#define IPS_INLINE static inline __attribute__((always_inline))

/* Whether the memory that the program passed to a call can be read and written.
 * To be called only before the call, and not for streams: if the memory is not
 * on the thread's stack, the test takes a system call. */
static inline bool ips_is_memory_accessible(const void *at, size_t bytes)
{
    return ips_sample_is_in_used_stack(at, bytes) ||
           ips_is_memory_writable(at, bytes);
}

/* Whether the CPU mark `mark` (agent/record/cpu.h), read after the stamp `t`,
 * is that of the CPU baseline `line`, so that the thread has kept its core
 * since. If so, computes the CPU time at `t` from the baseline and stores it in
 * *io. The stamp must be read before the mark: a baseline that a signal handler
 * sets in between then starts after `t`, and does not match. */
IPS_INLINE bool
ips_stream_try_cpu_from_baseline(struct ips_thread *me,
                                 const volatile struct ips_cpu_baseline *line,
                                 uint64_t mark, uint64_t t, struct ips_io *io)
{
    uint64_t cpu = line->cpu, from = line->t, since = t - from;
    if (unlikely(since >= line->span || mark != line->mark ||
                 line->era != me->era))
        return false;
    io->baseline_t = from;
    io->call.cpu = cpu + (since * ips_core.mult >> 32);
    return true;
}

/* Starts the record of a call on `fd`; `frame` is an address in the wrapper's
 * frame. False: the fast path does not apply, and nothing has been done. */
IPS_INLINE bool ips_stream_try_begin_call(struct ips_io *io,
                                          enum ips_rec_type type, int fd,
                                          uint64_t site, const char *frame)
{
    if (unlikely(ips_core.wrap_state != IPS_WRAP_ON))
        return false;
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    if (unlikely(me->in_vfork))
        return false;
    uint64_t word = ips_fd_get(fd);
    if (unlikely(ips_fd_class(word) != IPS_FD_STREAM))
        return false;
    io->mark = me->open_depth;
    io->klass = IPS_FD_STREAM;
    io->fd = fd;
    io->chan = (uint32_t)word;
    io->site = site;
    ips_push_open_call(me, frame, 0);
    uint32_t taken = me->cpu_next;
    uint64_t t = IPS_STAMP(), mark = *ips_cpu_mark_address();
    if (likely(ips_stream_try_cpu_from_baseline(me, &me->io_baseline, mark, t,
                                                io))) {
        me->cpu_last = io->call.cpu;
        io->call.t = t;
        io->call.mark = mark;
        io->call.mark_number = taken;
    } else {
        io->baseline_t = 0;
        ips_moment_at_stamp(me, mark, taken, t, true, &io->call);
    }
    ips_note_outermost_call_begin(
        me, io->mark, IPS_BEGUN(type, IPS_OP_DATA, io->chan), site, &io->call);
    return true;
}

/* Closes `io` after its record is written, and records the module of its call
 * site. Returns `result`. */
IPS_INLINE ssize_t ips_stream_end_call_and_record_module(
    struct ips_thread *me, const struct ips_io *io, ssize_t result)
{
    ips_close_open_call(me, io->mark);
    if (unlikely(me->site_page != ips_module_page_key(io->site)))
        ips_module_record_once_slow(io->site);
    return result;
}

/* The rare cases; all of them record the call, close `io` and return `result`.
 * ips_stream_record_switched_out_call: the thread was off its core during
 * the call (its CPU mark is gone), most often because the call blocked.
 * ips_stream_record_call_in_full: a short record is impossible (no baseline),
 * or the call was long. ips_stream_undo_reserve_and_record: the same, but space
 * for the short record is reserved already. */
ssize_t ips_stream_record_switched_out_call(const struct ips_io *io,
                                            enum ips_rec_type type,
                                            ssize_t result);
ssize_t ips_stream_record_call_in_full(const struct ips_io *io,
                                       enum ips_rec_type type, ssize_t result,
                                       uint64_t t);
ssize_t ips_stream_undo_reserve_and_record(const struct ips_io *io,
                                           enum ips_rec_type type,
                                           ssize_t result, uint64_t t,
                                           uint64_t place)
    __attribute__((cold));
/* Record and close a call that moved no bytes: it failed, or returned 0. Return
 * `result`. */
ssize_t ips_stream_record_failed_or_empty_send(const struct ips_io *io,
                                               ssize_t result)
    __attribute__((cold));
ssize_t ips_stream_record_failed_or_empty_receive(const struct ips_io *io,
                                                  ssize_t result,
                                                  const struct iovec *iov,
                                                  size_t iovcnt);

/* Declares `seldom_`, the struct ips_io that is passed to a rare case: a
 * receive's own, or a copy of a send's, whose own must stay in registers. */
#define IPS_DECLARE_RARE_CASE_IO(io, type)                                     \
    const struct ips_io copy_ = *(io);                                         \
    const struct ips_io *seldom_ = (type) == IPS_REC_RECV ? (io) : &copy_

/* Records a call that moved `result` > 0 bytes; `type` is SEND or RECV. Closes
 * `io`; returns `result`. */
IPS_INLINE ssize_t ips_stream_record_bytes(const struct ips_io *io,
                                           enum ips_rec_type type,
                                           ssize_t result)
{
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    const uint64_t bytes = sizeof(struct ips_rec_io_short);
    const struct ips_moment *call = &io->call;
    const volatile struct ips_cpu_baseline *line = &me->io_baseline;
    if (unlikely(*ips_cpu_mark_address() != call->mark)) {
        IPS_DECLARE_RARE_CASE_IO(io, type);
        return ips_stream_record_switched_out_call(seldom_, type, result);
    }
    uint64_t t = IPS_STAMP(), took = t - call->t;
    /* The elapsed time of a long call may not be CPU time: a pause by the
     * hypervisor is not a context switch, so the mark stays. */
    if (unlikely(*ips_cpu_mark_address() != call->mark ||
                 took >= ips_core.long_call || !io->baseline_t ||
                 (uint64_t)result >> 32 || me->spin_count)) {
        IPS_DECLARE_RARE_CASE_IO(io, type);
        return ips_stream_record_call_in_full(seldom_, type, result, t);
    }
    /* count the open record before the xadd that reserves its space: see
     * ips_segment_abandon_and_unmap */
    me->recs_open++;
    uint64_t at = ips_reserve_bytes(&me->stream.cur, bytes);
    /* A short record takes its CPU time from the baseline: it is valid only if
     * no other CPU mark and no other baseline was set since the call started.
     */
    if (unlikely(!ips_short_record_reservation_is_usable(me, at, bytes) ||
                 line->t != io->baseline_t || line->era != me->era)) {
        IPS_DECLARE_RARE_CASE_IO(io, type);
        return ips_stream_undo_reserve_and_record(seldom_, type, result, t, at);
    }
    me->cpu_last = call->cpu + (took * ips_core.mult >> 32);
    ips_io_fill_and_publish_short(me, at, type, io->chan, IPS_OP_DATA, call->t,
                                  took, result, io->site);
    return ips_stream_end_call_and_record_module(me, io, result);
}
IPS_INLINE ssize_t ips_stream_record_send(const struct ips_io *io,
                                          ssize_t result)
{
    if (likely(result > 0))
        return ips_stream_record_bytes(io, IPS_REC_SEND, result);
    IPS_DECLARE_RARE_CASE_IO(io, IPS_REC_SEND);
    return ips_stream_record_failed_or_empty_send(seldom_, result);
}
IPS_INLINE ssize_t ips_stream_record_receive(const struct ips_io *io,
                                             ssize_t result,
                                             const struct iovec *iov,
                                             size_t iovcnt)
{
    if (likely(result > 0))
        return ips_stream_record_bytes(io, IPS_REC_RECV, result);
    IPS_DECLARE_RARE_CASE_IO(io, IPS_REC_RECV);
    return ips_stream_record_failed_or_empty_receive(seldom_, result, iov,
                                                     iovcnt);
}

#endif
