/*
 * Shared by all interposed functions: the real functions, and the few lines
 * around a call that record it.
 *
 * Law of a wrapper: it calls the real function exactly once with the same
 * arguments, and returns its result and errno to the caller. Where nothing is
 * recorded (no run, vfork child, not a channel), it does nothing else. A
 * wrapper that departs from this law says so. During the real call a wrapper
 * holds no lock or other state that a cancellation, a longjmp or a signal
 * handler could leave behind.
 *
 * No wrapper calls another wrapped function by its public name, except as its
 * last act in place of the real function (aliases).
 */
#ifndef IPS_AGENT_PRELOAD_WRAP_H
#define IPS_AGENT_PRELOAD_WRAP_H

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <resolv.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>
#include <wordexp.h>

#include "agent/preload/chan_name.h"
#include "agent/preload/fd_table.h"
#include "agent/record/core.h"
#include "agent/record/cpu.h"
#include "agent/record/exec_target.h"
#include "agent/record/extra.h"
#include "agent/record/fast.h"
#include "agent/record/stream.h"
#include "agent/unwind/modules.h"
#include "common/types.h"

#define IPS_EXPORT __attribute__((visibility("default")))
#define IPS_HIDDEN __attribute__((visibility("hidden")))
#ifdef __clang__
#define IPS_ALIAS(name) __attribute__((visibility("default"), alias(#name)))
#else
#define IPS_ALIAS(name)                                                        \
    __attribute__((visibility("default"), alias(#name), copy(name)))
#endif
#define IPS_SITE ((uint64_t)(uintptr_t)__builtin_return_address(0))
#define IPS_TLS __thread __attribute__((tls_model("initial-exec")))

/* --- the real functions (preload/start/find.c) ---------------------------- */

struct sembuf;
struct statx;
struct ips_real {
#define X(type, name, parameters) type(*name) parameters;
#include "agent/preload/real.def"
#undef X
};
extern struct ips_real ips_real IPS_HIDDEN;
/* Calls the real function. Our exact sampling timer, which could wake the
 * thread, does not run during the call. */
#define REAL(name)                                                             \
    (ips_sample_pause_timer((uint64_t)(uintptr_t)ips_real.name), ips_real.name)

/* Bits of `sample_watch` (preload/sample/pace.h). SET: the exact timer, which
 * could wake the thread, is running. CLOSE: a sample is due soon. */
#define IPS_SAMPLE_SET 1u
#define IPS_SAMPLE_CLOSE 2u
void ips_sample_stop_timer_before_call(uint64_t real) IPS_HIDDEN
    __attribute__((cold));
static inline void ips_sample_pause_timer(uint64_t real)
{
    if (unlikely(ips_me.sample_watch))
        ips_sample_stop_timer_before_call(real);
}
void ips_sample_check_call_return_slow(const struct ips_moment *call,
                                       const struct ips_moment *ret) IPS_HIDDEN
    __attribute__((cold));
static inline void ips_sample_check_call_return(const struct ips_moment *call,
                                                const struct ips_moment *ret)
{
    if (unlikely(ret->t >= ~ips_me.sample_off))
        ips_sample_check_call_return_slow(call, ret);
}
/* To be called when a signal handler of the program starts; it interrupted the
 * thread at `context`. If that is in a system call, the exact sampling timer
 * stays off until the thread has left the call. */
void ips_sample_store_sp_of_interrupted_syscall(const void *context);
/* To be called before any use of REAL or SREAL: fills their tables with stubs,
 * each of which finds its function at the first call. Idempotent,
 * async-signal-safe. */
void ips_install_real_function_stubs(void);
/* Returns the next definition of `name` after our library in the search order,
 * or NULL. */
void *ips_find_real(const char *name);
/* Returns the old symbol version of `name`, for programs linked long ago. */
void *ips_find_old_version(const char *name);
#if defined(__x86_64__)
#define IPS_OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define IPS_OLD_VERSION "GLIBC_2.17"
#endif
/* Defines our wrapper of a function's old symbol version (preload-*.map):
 * executes `before`, then calls the real old version. */
#define IPS_OLD(type, name, parameters, arguments, before)                     \
    IPS_EXPORT type ips_old_##name parameters;                                 \
    __asm__(".symver ips_old_" #name "," #name "@" IPS_OLD_VERSION);           \
    IPS_EXPORT type ips_old_##name parameters                                  \
    {                                                                          \
        static type(*_Atomic real) parameters;                                 \
        before;                                                                \
        if (unlikely(!real))                                                   \
            real = (type(*) parameters)(uintptr_t)ips_find_old_version(#name); \
        return real arguments;                                                 \
    }
/* Whether `name` resolves to a function of the C library (true if unknown).
 * Under a sanitizer it resolves to the sanitizer's function. */
bool ips_resolves_to_libc(const char *name);
/* Returns the end address of the write-protected memory (RELRO) that contains
 * `at`, in any listed library; 0: unknown. */
uint64_t ips_find_relro_end(const void *at);
#define IPS_STUBS 256u /* number of stubs in preload/start/stub.S */
void *ips_find_and_store_real_of_stub(uint32_t index);

enum ips_wrap_state {                   /* values of ips_core.wrap_state */
                      IPS_WRAP_NEW = 0, /* our constructor has not run yet */
                      IPS_WRAP_OFF, /* nothing is recorded in this process */
                      IPS_WRAP_ON,
};
void ips_wrap_initialize_agent(void);
/* Writes a CALLS record with the CPU time that the start of an image or fork
 * child took since the thread CPU clock showed `from` (ns). A start varies too
 * much for a measured probe cost (cold library, first segment), so it is
 * reported separately. */
void ips_report_start_cost(uint64_t from);
/* Exported for ipsrun/starts.c, which measures probe costs. Returns the
 * overhead (ns) that this thread has reported or will report in addition to
 * probe costs, its start included. */
uint32_t ips_reported_overhead_ns(void);
/* To be called when the process ends: closes the calls under way, records the
 * release of file locks, and writes the END record. */
void ips_close_calls_and_record_process_end(enum ips_end_kind kind, int status);

/* Every wrapper calls this first. Starts our library if its constructor has not
 * run yet (the constructor of another library ran first). True: the wrapper
 * must record this call. */
static inline bool ips_wrap_start_library_and_check_recording(void)
{
    if (unlikely(ips_core.wrap_state == IPS_WRAP_NEW))
        ips_wrap_initialize_agent();
    return ips_core.wrap_state == IPS_WRAP_ON && !ips_me.in_vfork;
}

/* IPS_BLOCKED_NS (2 us) in stamps: a shorter call counts as not blocked. */
extern uint64_t ips_wrap_blocked IPS_HIDDEN;
extern uint64_t ips_wrap_mult IPS_HIDDEN; /* ns per stamp times 2^32 */
static inline uint64_t ips_wrap_stamps_to_ns(uint64_t stamps)
{
    return ips_mul_q32(stamps, ips_wrap_mult);
}

/* --- moments: stamp and CPU time ------------------------------------------ */

/* ips_take_call_moment, ips_return_moment: stamp and thread CPU time just
 * before and just after a call (agent/record/cpu.h).
 * ips_take_wakeup_moment_and_check_sample: the same after a call that does
 * nothing but wait. */
static inline struct ips_moment ips_take_call_moment(void)
{
    return ips_moment_now();
}
static inline struct ips_moment ips_return_moment(const struct ips_moment *call)
{
    struct ips_moment ret = ips_moment_of_return(call);
    ips_sample_check_call_return(call, &ret);
    return ret;
}
static inline struct ips_moment
ips_take_wakeup_moment_and_check_sample(const struct ips_moment *call)
{
    struct ips_moment ret = ips_moment_of_wait_return(call);
    ips_sample_check_call_return(call, &ret);
    return ret;
}
/* Whether the thread was off the CPU for at least IPS_BLOCKED_NS during the
 * call (docs/design/build.md). */
static inline bool ips_was_blocked(const struct ips_moment *call,
                                   const struct ips_moment *ret)
{
    uint64_t stamps = ips_sub_sat(ret->t, call->t);
    return unlikely(stamps >= ips_wrap_blocked) &&
           ips_sub_sat(ips_wrap_stamps_to_ns(stamps), ret->cpu - call->cpu) >=
               IPS_BLOCKED_NS;
}

/* --- calls under way (preload/process/jump.c) -----------------------------
 *
 * If a signal handler leaves by longjmp, the call that it interrupted never
 * returns, so its result is unknown and it has no record. Therefore every
 * thread keeps the frames of its calls under way, and longjmp counts the calls
 * that it abandons as lost (NESTED). If a handler ends the process, the calls
 * under way are counted in the same way, unless they certainly moved no bytes.
 * Two flags mark these: IPS_OPEN_WAIT a call that never moves bytes, and
 * IPS_OPEN_IDLE a call that a signal interrupted while it waited. Cost: two
 * stores a call; the end of the scope closes the call. */
static inline struct ips_open_call *
ips_entry_of_open_call(struct ips_thread *me, uint32_t depth)
{
    uint32_t n = depth % IPS_OPEN_MAX;
    return unlikely(n) ? &me->nested[n - 1] : &me->outermost;
}
static inline void ips_push_open_call(struct ips_thread *me, const void *frame,
                                      uint64_t flags)
{
    uint32_t at = me->open_depth;
    /* incremented before the entry is filled: a handler that interrupts here
     * uses the next entry */
    me->open_depth = at + 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct ips_open_call *open = ips_entry_of_open_call(me, at);
    open->frame = (uint64_t)(uintptr_t)frame;
    open->recs = me->recs_open | flags;
}
/* Returns where the thread's segment (its file of records) notes the call in
 * progress (agent/pool/begun.h). NULL: the thread has no segment, or the mapped
 * one belongs to the parent process. */
static inline struct ips_current_call *
ips_current_call_note(const struct ips_thread *me)
{
    uint64_t base = me->stream.seg.base;
    if (unlikely(!base || *ips_core.alive != IPS_ALIVE))
        return NULL;
    return &((struct ips_segment_header *)(uintptr_t)base)->begun;
}
/* Notes in the thread's segment, just before the real call, the call opened at
 * depth `mark`. Only the outermost call (depth 0) is noted. */
static inline void ips_note_outermost_call_begin(const struct ips_thread *me,
                                                 uint32_t mark, uint64_t what,
                                                 uint64_t site,
                                                 const struct ips_moment *call)
{
    struct ips_current_call *begun =
        likely(mark == 0) ? ips_current_call_note(me) : NULL;
    if (unlikely(!begun))
        return;
    if (likely(site != 0))
        /* record the module now, because the call may never return */
        ips_module_record_once(site);
    begun->cpu = call->cpu;
    begun->site = site;
    begun->what = what;
    atomic_store_explicit(&begun->t, call->t, memory_order_release);
}
/* Closes the open call at depth `mark`: it has returned and is recorded. */
static inline void ips_close_open_call(struct ips_thread *me, uint32_t mark)
{
    struct ips_current_call *begun =
        likely(mark == 0) ? ips_current_call_note(me) : NULL;
    if (likely(begun != NULL))
        atomic_store_explicit(&begun->t, 0, memory_order_relaxed);
    me->open_depth = mark;
}
static inline void ips_close_open_call_at_scope_end(const uint32_t *mark)
{
    ips_close_open_call(&ips_me, *mark);
}
/* To be placed at the start of a scope that makes a call: adds the call to the
 * thread's calls under way. The end of the scope removes it. */
#define IPS_CALL_MARK_AS(flags)                                                \
    const uint32_t mark_                                                       \
        __attribute__((cleanup(ips_close_open_call_at_scope_end))) =           \
            ips_me.open_depth;                                                 \
    ips_push_open_call(&ips_me, &mark_, flags)
#define IPS_CALL_MARK IPS_CALL_MARK_AS(0)
#define IPS_WAIT_MARK IPS_CALL_MARK_AS(IPS_OPEN_WAIT)
/* To be placed between IPS_CALL_MARK or IPS_WAIT_MARK and the real call: notes
 * what the thread is about to do or to wait for. */
#define IPS_CALL_BEGINS(what, site, call)                                      \
    ips_note_outermost_call_begin(&ips_me, mark_, what, site, &(call))
/* To be called when a signal handler of the program starts; it interrupted the
 * thread at `context`: notes whether the call in progress was waiting. */
void ips_mark_whether_open_call_waits(const void *context);
/* To be called when the process ends: closes the calls under way, and counts
 * them as lost if they may have moved bytes. */
void ips_close_open_calls_and_count_lost(void);
/* To be called when the thread leaves the call in which it waits (cancellation,
 * longjmp): records the call as if a signal had ended it. */
void ips_record_abandoned_call_if_blocked(void);

/* Like IPS_CALL_BEGINS, for a wait for a process (`pid`, 0: any) or for the
 * thread whose creation is the FORK record with number `seq`. */
#define IPS_JOIN_BEGINS(pid, seq, site, call)                                  \
    do {                                                                       \
        struct ips_current_call *begun_ = ips_current_call_note(&ips_me);      \
        if (mark_ == 0 && begun_)                                              \
            begun_->object = seq;                                              \
        IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_JOIN, 0, pid), site, call);          \
    } while (0)

/* --- calls that move bytes (preload/io/record.c) -------------------------- */

struct ips_io {
    uint32_t mark; /* number of the thread's calls under way before this one */
    struct ips_moment call;
    /* Used by preload/io/stream.h only: stamp of the CPU baseline from which
     * `call.cpu` was computed; 0: it was not computed from a baseline. */
    uint64_t baseline_t;
    uint64_t site;
    int fd;
    uint32_t chan;
    enum ips_fd_class klass;
    /* For datagrams. not_last: the call received more datagrams after this one,
     * so the socket's receive timestamp belongs to a later one. whole: the call
     * reported that the datagram was not truncated. segment: if the kernel
     * joined several datagrams, bytes of each but the last
     * (preload/io/segments.c); 0: the call did not report it. */
    bool not_last, whole;
    uint32_t segment;
};

static inline void ips_io_close_open_call_at_scope_end(const struct ips_io *io)
{
    ips_close_open_call(&ips_me, io->mark);
}
/* Declares a struct ips_io for ips_io_open_call_if_recorded; the end of its
 * scope closes the call. */
#define IPS_IO(io)                                                             \
    struct ips_io io                                                           \
        __attribute__((cleanup(ips_io_close_open_call_at_scope_end)));         \
    io.mark = ips_me.open_depth

bool ips_io_identify_fd_and_begin_call_slow(struct ips_io *io,
                                            enum ips_rec_type type, int fd,
                                            uint64_t word, uint64_t site);

/* Starts the record of a call; `type` is SEND or RECV. False: nothing to
 * record. Costs one load for a descriptor that needs no records (class NONE).
 */
static inline bool ips_io_open_call_if_recorded(struct ips_io *io,
                                                enum ips_rec_type type, int fd,
                                                uint64_t site)
{
    if (!ips_wrap_start_library_and_check_recording())
        return false;
    uint64_t word = ips_fd_get(fd);
    if (ips_fd_class(word) == IPS_FD_NONE && (unsigned)fd < IPS_FD_MAX) {
        ips_me.passes++;
        return false;
    }
    if (unlikely(ips_fd_class(word) != IPS_FD_STREAM))
        return ips_io_identify_fd_and_begin_call_slow(io, type, fd, word, site);
    io->klass = IPS_FD_STREAM;
    io->fd = fd;
    io->chan = ips_fd_channel_id(word);
    io->site = site;
    ips_push_open_call(&ips_me, io, 0);
    io->call = ips_moment_of_call();
    ips_note_outermost_call_begin(&ips_me, io->mark,
                                  IPS_BEGUN(type, IPS_OP_DATA, io->chan), site,
                                  &io->call);
    return true;
}

/* Record that the call of `io` returned `result`, and return `result`. If it is
 * -1, both read errno and keep it. `iov`: the buffers with the payload. `name`:
 * address of a datagram's peer; NULL: the socket is connected. */
ssize_t ips_io_record_sent(const struct ips_io *io, enum ips_op op,
                           ssize_t result, const struct iovec *iov,
                           size_t iovcnt, const struct sockaddr *name,
                           socklen_t name_len);
ssize_t ips_io_record_received(const struct ips_io *io, enum ips_op op,
                               ssize_t result, const struct iovec *iov,
                               size_t iovcnt, const struct sockaddr *name,
                               socklen_t name_len);

#define IPS_HOT __attribute__((hot, aligned(64)))

/* --- polls (preload/io/stream.c) ------------------------------------------ */

/* Starts the record of a poll. False: the poll is not recorded. Stores in *mark
 * the number of the thread's calls under way before it. */
static inline __attribute__((always_inline)) bool
ips_poll_open_call_if_recorded(struct ips_moment *call, uint32_t *mark,
                               enum ips_op op, uint64_t site)
{
    if (unlikely(!ips_wrap_start_library_and_check_recording()))
        return false;
    struct ips_thread *me = ips_this_thread_of_recorded_process();
    *mark = me->open_depth;
    ips_push_open_call(me, call, IPS_OPEN_WAIT);
    ips_moment_store_now(me, true, call);
    ips_note_outermost_call_begin(me, *mark, IPS_BEGUN(IPS_REC_BLOCK, op, 0),
                                  site, call);
    return true;
}
/* Packs two fields of a poll's BLOCK record (pool/format.h) into one word:
 * `what` (its field `ready`) and, in the upper half, `why` (its field `a`). */
static inline uint64_t ips_pack_ready_object_and_events(uint32_t what,
                                                        uint32_t why)
{
    return what | (uint64_t)why << 32;
}
/* Records a poll of kind `op` that returned `result` > 0: writes a BLOCK
 * record, and also a SIGNAL record if a pidfd is ready. Returns `result`. */
int ips_poll_record_with_ready_fd(const struct ips_moment *call, uint32_t mark,
                                  enum ips_op op, int result, uint64_t site,
                                  uint64_t ready);

/* preload/io/receive_stamps.c: writes a QUEUE record for the datagram of `io`
 * if the kernel has its time of arrival. To be called only after a receive that
 * did not block, and not if system calls are forbidden. */
void ips_record_arrival_time(const struct ips_io *io);

/* preload/io/segments.c: returns the bytes of each datagram but the last into
 * which the kernel split the send of `io`; 0: it was one datagram. */
uint32_t ips_sent_segment_bytes(const struct ips_io *io);
/* Returns the segment size of `type` (UDP_SEGMENT, UDP_GRO) in the control data
 * of a message; 0: it has none; UINT32_MAX: the message is one datagram. */
uint32_t ips_segment_bytes_in_control(const struct msghdr *m, int type);
/* Whether a receive from this socket must ask the kernel for the segment
 * size. */
bool ips_must_ask_segment_size(const struct ips_io *io);
#define IPS_CONTROL_ROOM 512u

#define IPS_IOV(buffer, length)                                                \
    &(const struct iovec){(void *)(uintptr_t)(buffer), (length)}, 1

/* Writes one SEND, RECV, RECVCALL or BLOCK record (`type`). `err`: the error
 * number of the call if `result` is negative. */
void ips_record_io_call(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                        struct ips_moment call, struct ips_moment ret,
                        int64_t result, int err, uint64_t site, uint32_t ready);

/* Records a wait of kind `op` that is over, if `result` > 0 or the thread was
 * blocked. `result` < 0: the wait failed with errno `err`. `ready`: value of
 * ips_pack_ready_object_and_events. Returns the moment at which the wait
 * returned. */
struct ips_moment ips_record_wait_if_blocked_or_ready(enum ips_op op,
                                                      struct ips_moment call,
                                                      int64_t result, int err,
                                                      uint64_t site,
                                                      uint64_t ready);

/* Like ips_record_wait_if_blocked_or_ready, for a poll, select or epoll.
 * `no_wait`: its timeout was 0, so that `result` 0 is a failed attempt
 * (preload/io/spin.c). */
void ips_record_poll_or_count_failed_poll(enum ips_op op,
                                          struct ips_moment call,
                                          int64_t result, int err,
                                          uint64_t site, uint64_t ready,
                                          bool no_wait);
bool ips_failed_without_waiting(int fd, const struct ips_moment *call,
                                const struct ips_moment *ret);
/* For a wait that is repeated: return how much is left of its timeout `asked`,
 * which started at `call`. ips_timeout_left_ms: in milliseconds; negative: no
 * limit. ips_timeout_left: as a timespec stored in *room; NULL: no limit. */
int ips_timeout_left_ms(int asked, const struct ips_moment *call);
const struct timespec *ips_timeout_left(const struct timespec *asked,
                                        const struct ips_moment *call,
                                        struct timespec *room);

/* Writes a FORK record. `err` 0: the child was created. */
void ips_record_fork(enum ips_fork_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, int err, uint64_t site);
/* Writes a JOIN record. `child_cpu_ns` ~0: unknown. */
void ips_record_join(enum ips_join_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, uint64_t child_cpu_ns,
                     uint32_t status, uint64_t site);

/* preload/process/seccomp.c: call ips_limit_recording_for_forbidden_calls
 * before a call that installs a seccomp filter or forbids the time stamp
 * counter. It ends our own system calls, or all recording (IPS_FORBIDS_ALL),
 * and returns whether calls were forbidden already. If the call failed, pass
 * that to ips_undo_limit_for_forbidden_calls. */
enum ips_forbids { IPS_FORBIDS_NOTHING, IPS_FORBIDS_CALLS, IPS_FORBIDS_ALL };
bool ips_limit_recording_for_forbidden_calls(enum ips_forbids what);
void ips_undo_limit_for_forbidden_calls(enum ips_forbids what, bool before);
enum ips_forbids ips_classify_seccomp_operation(unsigned long operation);
/* Whether a new program image must not load our library (seccomp filter). */
bool ips_new_image_must_not_preload(void);
/* Writes an UNSEEN record: from now on this process does things that leave no
 * records. `text` says which. */
void ips_report_unrecorded_activity(const char *text);
void ips_set_vfork_has_seccomp_filter(bool on);

/* --- processes ------------------------------------------------------------ */

/* Identifies descriptors 0, 1 and 2. To be called at the start of an image and
 * in a fork child. */
void ips_wrap_identify_standard_fds(void);

/* Examine the program that exec or posix_spawn is about to execute
 * (preload/process/exec.c), and store in *target whether it can be recorded:
 * TRACED if so, or if recording is off or the path unreadable. */
void ips_exec_inspect(struct ips_target *target, int dir, const char *path);
void ips_exec_find_and_inspect(struct ips_target *target, const char *file);
/* Writes an UNSEEN record: the program `target` runs unrecorded as process
 * `pid`. Writes nothing if it is traced. */
void ips_record_target_if_untraced(const struct ips_target *target,
                                   uint32_t pid);
void ips_report_unrecorded_with_length(const char *text, size_t length);
/* In a vfork child that is about to exec: passes the program to the parent,
 * which records it. */
void ips_vfork_store_target_for_parent(const struct ips_target *target);

/* The environment for a new image. It is the program's own if that has all that
 * the target needs. Otherwise it is a copy, to which our variables and our
 * library are added if they are missing, and from which our library is removed
 * if the target cannot load it. The copy is on the caller's stack, or mapped if
 * it is large: a vfork child must not allocate from its parent's heap. */
struct ips_env {
    char **envp;
    void *map; /* mapped memory of the copy; NULL: not mapped */
    size_t bytes;
};
void ips_env_save_run_variables(void);
/* Returns the bytes that a copy of `envp` needs; 0: use `envp` as it is. */
size_t ips_env_copy_bytes(char *const *envp, const struct ips_target *target);
void ips_env_build(struct ips_env *env, char *const *envp,
                   const struct ips_target *target, size_t bytes, void *room);
/* Frees the copy of the environment; errno stays as it was. */
void ips_env_free(struct ips_env *env);
#define IPS_ENV_STACK 16384u
#define IPS_ENV(env, given, target)                                            \
    struct ips_env env = {NULL, NULL, 0};                                      \
    do {                                                                       \
        size_t need_ = ips_env_copy_bytes(given, target);                      \
        ips_env_build(&env, given, target, need_,                              \
                      need_ &&need_ <= IPS_ENV_STACK ? __builtin_alloca(need_) \
                                                     : NULL);                  \
    } while (0)

/* ips_count_reaped_child_and_get_its_cpu returns the CPU time (ns) of the
 * children reaped since ips_reap_take_snapshot; 0: none; ~0: other threads
 * reaped children meanwhile. For system and pclose, in which the C library
 * waits. */
struct ips_reap {
    uint64_t cpu_ns;
    uint32_t count;
};
struct ips_reap ips_reap_take_snapshot(void);
uint64_t ips_count_reaped_child_and_get_its_cpu(struct ips_reap since);

/* The next three functions are in preload/process/thread.c. */
void ips_thread_store_own_tid(void);       /* stores the caller's tid */
uint32_t ips_thread_tid(pthread_t thread); /* thread id; 0: unknown */
/* notes that the thread is about to be cancelled */
void ips_thread_mark_cancelled(pthread_t thread);

/* preload/io/path.c. Records a read of the inotify descriptor of `io` that
 * returned `bytes` of events: writes an ACQUIRE record for the file name in the
 * first event. False: not inotify's descriptor, or that event has no name or is
 * of another kind. */
bool ips_record_inotify_read(const struct ips_io *io, const void *events,
                             size_t bytes, struct ips_moment ret);

/* preload/io/file.c: to be called before and after a call on a file; `exact`:
 * reads the thread's CPU clock and its number of context switches now, even if
 * the last reading is recent. */
struct ips_moment ips_file_call_take_start_moment(bool exact);
void ips_file_call_count_and_record_if_slow(const struct ips_moment *call,
                                            int64_t result, uint64_t site);
/* Makes and records an fcntl with F_SETLK, F_SETLKW or their OFD forms. `real`
 * is the function that makes the call; returns its result. */
int ips_call_fcntl_lock_and_record(int (*real)(int, int, ...), int fd,
                                   int command, void *arg, uint64_t site);
void ips_record_file_locks_at_exit(void); /* to be called when the process ends,
                                     which releases its file locks */
void ips_record_eventfd_write(const struct ips_io *io);
/* Writes an ACQUIRE record for a read of an eventfd. False: the eventfd's
 * number is unknown. */
bool ips_record_eventfd_read(const struct ips_io *io, struct ips_moment ret);

/* Write a RELEASE record for a write to a pseudo terminal, and an ACQUIRE
 * record for a read. False: it is another kind of terminal, or its other side
 * is not in the run. */
bool ips_record_pty_write(const struct ips_io *io);
bool ips_record_pty_read(const struct ips_io *io, struct ips_moment ret);

/* preload/io/wait.c: returns the fields `ready` and `a`
 * (ips_pack_ready_object_and_events) of a BLOCK record for a descriptor whose
 * poll reported `events`. */
uint64_t ips_pack_ready_events(int fd, uint32_t events);
/* Returns the same for the first ready descriptor of a poll, select or epoll
 * that was made by syscall() and returned `r`. */
uint64_t ips_pack_first_ready_of_syscall(enum ips_op op, const long args[6],
                                         long r);

/* preload/process/notice.c: notes that O_ASYNC was set (`on`) or cleared for
 * `fd`. With O_ASYNC the kernel sends a signal when `fd` becomes ready. */
void ips_store_or_clear_async_fd(int fd, bool on);
/* Notes that mq_notify is about to be called to send `sig` for the queue `q`.
 * If the call fails, ips_restore_queue_of_notify_signal() gets the result. */
uint64_t ips_store_queue_of_notify_signal(int q, int sig);
void ips_restore_queue_of_notify_signal(int sig, uint64_t old);
/* Returns the field `value` of the SIGNAL record for a signal with these fields
 * in its siginfo_t; the parameter `value` is si_value. */
uint64_t ips_choose_signal_value_by_code(int sig, int code, int fd, long band,
                                         uint64_t value);

/* preload/process/signal.c: writes a SIGNAL record for a signal that was taken
 * at `at`; `value` is the result of ips_signal_record_value. */
void ips_record_signal_taken(enum ips_signal_how how, int sig, int code,
                             int32_t pid, uint64_t value, struct ips_moment at);
/* Records system call `n` of syscall() if it sends a signal; makes it if it
 * sets a handler. True: the call was made, *r is its result. */
bool ips_record_kill_or_make_sigaction(long *r, long n, const long args[6],
                                       uint64_t site);

/* Called by preload/start/entry.S. */
void ips_vfork_prepare_record(uint64_t site);
long ips_vfork_record_in_parent(long result);
long ips_syscall_set_errno(long result);
long ips_syscall(long n, long a, long b, long c, long d, long e, long f);

#endif
