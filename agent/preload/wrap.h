/*
 * What every interposed function shares: the real functions behind us, and
 * the few lines around a call that record it.
 *
 * Law of a wrapper: the real function is called exactly once with the same
 * arguments, its result and errno reach the caller, and where nothing is
 * recorded (no run, vfork child, not a channel) nothing else happens. Where a
 * wrapper departs from that, it says so. A wrapper holds nothing over the real
 * call that a cancellation, a longjmp or a signal handler could leave behind.
 *
 * No wrapper calls another wrapped function by its own name except in the tail,
 * instead of the real one (aliases).
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
/* To call it. No timer of ours runs while it does. */
#define REAL(name)                                                             \
    (ips_sample_leave((uint64_t)(uintptr_t)ips_real.name), ips_real.name)

/* Samples by the clock (preload/sample/pace.h). First in `sample_watch`: the
 * timer that could wake a thread runs; a sample is near. */
#define IPS_SAMPLE_SET 1u
#define IPS_SAMPLE_CLOSE 2u
void ips_sample_before(uint64_t real) IPS_HIDDEN __attribute__((cold));
static inline void ips_sample_leave(uint64_t real)
{
    if (unlikely(ips_me.sample_watch))
        ips_sample_before(real);
}
void ips_sample_returned_slow(const struct ips_moment *call,
                              const struct ips_moment *ret) IPS_HIDDEN
    __attribute__((cold));
static inline void ips_sample_returned(const struct ips_moment *call,
                                       const struct ips_moment *ret)
{
    if (unlikely(ret->t >= ~ips_me.sample_off))
        ips_sample_returned_slow(call, ret);
}
/* A handler of the program's begins at `context`. */
void ips_sample_handler(const void *context);
/* Before any of REAL or SREAL: fills them with stubs that find the function
 * when it is called first. Idempotent, async-signal-safe. */
void ips_find_begin(void);
/* The next definition of `name` behind us, or NULL. */
void *ips_find_real(const char *name);
/* Its old version, which programs linked long ago ask for. */
void *ips_find_old(const char *name);
#if defined(__x86_64__)
#define IPS_OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define IPS_OLD_VERSION "GLIBC_2.17"
#endif
/* Ours for the old version of a function that differs from the new one
 * (preload-*.map): `before`, then that one. */
#define IPS_OLD(type, name, parameters, arguments, before)                     \
    IPS_EXPORT type ips_old_##name parameters;                                 \
    __asm__(".symver ips_old_" #name "," #name "@" IPS_OLD_VERSION);           \
    IPS_EXPORT type ips_old_##name parameters                                  \
    {                                                                          \
        static type(*_Atomic real) parameters;                                 \
        before;                                                                \
        if (unlikely(!real))                                                   \
            real = (type(*) parameters)(uintptr_t)ips_find_old(#name);         \
        return real arguments;                                                 \
    }
/* Is that the C library's own, as far as is known? A sanitizer's stands before
 * it. */
bool ips_find_in_libc(const char *name);
/* Where the memory ends that the loader write-protected in the library that has
 * `at` there; 0 where that is not known. */
uint64_t ips_find_protected_end(const void *at);
#define IPS_STUBS 256u /* in preload/start/stub.S */
void *ips_find_real_slot(uint32_t index);

enum ips_wrap_state {                   /* ips_core.wrap_state */
                      IPS_WRAP_NEW = 0, /* called before our constructor */
                      IPS_WRAP_OFF,     /* no run: everything passes through */
                      IPS_WRAP_ON,
};
void ips_wrap_init(void);
/* What the beginning of an image or a fork child took, since the thread's CPU
 * clock was `from`: it differs by more than what it is called for (a cold
 * library, a segment of its own), so it has no price, and is said at once
 * (CALLS). */
void ips_wrap_begun(uint64_t from);
/* Exported, for who measures prices (ipsrun/starts.c): ns that this thread has
 * said or will say beyond prices, its beginning included. */
uint32_t ips_preload_said_ns(void);
/* The process ends: its locks, and its records. */
void ips_wrap_ends(enum ips_end_kind kind, int status);

/* First thing in every wrapper: finds the real functions if our constructor
 * has not run yet (another library's ran first); true where we record. */
static inline bool ips_wrap_on(void)
{
    if (unlikely(ips_core.wrap_state == IPS_WRAP_NEW))
        ips_wrap_init();
    return ips_core.wrap_state == IPS_WRAP_ON && !ips_me.in_vfork;
}

/* 2 us in stamps: a shorter call cannot count as blocked. */
extern uint64_t ips_wrap_blocked IPS_HIDDEN;
extern uint64_t ips_wrap_mult IPS_HIDDEN; /* stamps to ns, Q32 */
static inline uint64_t ips_wrap_ns(uint64_t stamps)
{
    return ips_mul_q32(stamps, ips_wrap_mult);
}

/* --- moments ---------------------------------------------------------------
 */

/* Around a call (agent/record/cpu.h): the stamp and the thread's CPU time at
 * it. */
static inline struct ips_moment ips_at_call(void)
{
    return ips_moment_now();
}
static inline struct ips_moment ips_at_return(const struct ips_moment *call)
{
    struct ips_moment ret = ips_moment_after(call);
    ips_sample_returned(call, &ret);
    return ret;
}
static inline struct ips_moment ips_at_wakeup(const struct ips_moment *call)
{
    struct ips_moment ret = ips_moment_waited(call);
    ips_sample_returned(call, &ret);
    return ret;
}
/* The definition of docs/design/build.md. */
static inline bool ips_was_blocked(const struct ips_moment *call,
                                   const struct ips_moment *ret)
{
    uint64_t stamps = ips_sub_sat(ret->t, call->t);
    return unlikely(stamps >= ips_wrap_blocked) &&
           ips_sub_sat(ips_wrap_ns(stamps), ret->cpu - call->cpu) >=
               IPS_BLOCKED_NS;
}

/* --- calls under way (preload/process/jump.c)
 * ------------------------------------------
 *
 * A signal handler that leaves by longjmp takes with it the call that it
 * interrupted: nobody sees its result, and there is no record. So every thread
 * knows the frames of its calls under way, and longjmp counts those it leaves
 * behind (NESTED). So does a thread whose handler ends the process, of those
 * that may have moved something: `flags` is IPS_OPEN_WAIT for one that never
 * does, and a handler's stub notes (IPS_OPEN_IDLE) where it finds one waiting.
 * Two stores a call; a scope's end closes what it opened. */
static inline struct ips_open *ips_open_at(struct ips_thread *me,
                                           uint32_t depth)
{
    uint32_t n = depth % IPS_OPEN_MAX;
    return unlikely(n) ? &me->nested[n - 1] : &me->outermost;
}
static inline void ips_call_open(struct ips_thread *me, const void *frame,
                                 uint64_t flags)
{
    uint32_t at = me->open_depth;
    me->open_depth = at + 1; /* first: a handler in between takes the next */
    atomic_signal_fence(memory_order_seq_cst);
    struct ips_open *open = ips_open_at(me, at);
    open->frame = (uint64_t)(uintptr_t)frame;
    open->recs = me->recs_open | flags;
}
/* The segment's note of the call that the thread is in (agent/pool/begun.h);
 * NULL where there is none, or what is mapped there is a parent's. */
static inline struct ips_begun *ips_begun_at(const struct ips_thread *me)
{
    uint64_t base = me->stream.seg.base;
    if (unlikely(!base || *ips_core.alive != IPS_ALIVE))
        return NULL;
    return &((struct ips_segment_header *)(uintptr_t)base)->begun;
}
/* The call that was opened at `mark` is about to be made. */
static inline void ips_call_begins(const struct ips_thread *me, uint32_t mark,
                                   uint64_t what, uint64_t site,
                                   const struct ips_moment *call)
{
    struct ips_begun *begun = likely(mark == 0) ? ips_begun_at(me) : NULL;
    if (unlikely(!begun))
        return;
    if (likely(site != 0))
        ips_module_note(site); /* its record may never come */
    begun->cpu = call->cpu;
    begun->site = site;
    begun->what = what;
    atomic_store_explicit(&begun->t, call->t, memory_order_release);
}
/* It is over, and recorded. */
static inline void ips_call_ends(struct ips_thread *me, uint32_t mark)
{
    struct ips_begun *begun = likely(mark == 0) ? ips_begun_at(me) : NULL;
    if (likely(begun != NULL))
        atomic_store_explicit(&begun->t, 0, memory_order_relaxed);
    me->open_depth = mark;
}
static inline void ips_call_close(const uint32_t *mark)
{
    ips_call_ends(&ips_me, *mark);
}
/* At the head of the scope of a call. */
#define IPS_CALL_MARK_AS(flags)                                                \
    const uint32_t mark_ __attribute__((cleanup(ips_call_close))) =            \
        ips_me.open_depth;                                                     \
    ips_call_open(&ips_me, &mark_, flags)
#define IPS_CALL_MARK IPS_CALL_MARK_AS(0)
#define IPS_WAIT_MARK IPS_CALL_MARK_AS(IPS_OPEN_WAIT)
/* Comes after one of these marks and before the call. */
#define IPS_CALL_BEGINS(what, site, call)                                      \
    ips_call_begins(&ips_me, mark_, what, site, &(call))
/* A handler begins that found the thread as `context` says. */
void ips_calls_interrupted(const void *context);
/* The process ends here. */
void ips_calls_end(void);
/* The call that the thread is in is left while it waits: its record, as of one
 * that a signal ended. */
void ips_call_left(void);

/* The same of a wait for a process (`pid`, 0 any), or for the thread of the
 * FORK `seq`. */
#define IPS_JOIN_BEGINS(pid, seq, site, call)                                  \
    do {                                                                       \
        struct ips_begun *begun_ = ips_begun_at(&ips_me);                      \
        if (mark_ == 0 && begun_)                                              \
            begun_->object = seq;                                              \
        IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_JOIN, 0, pid), site, call);          \
    } while (0)

/* --- bytes (preload/io/record.c)
 * --------------------------------------------------
 */

struct ips_io {
    uint32_t mark; /* see ips_open */
    struct ips_moment call;
    /* Of preload/io/stream.h alone: the line that `call` is on is of this
     * stamp; 0: it is on none. */
    uint64_t baseline_t;
    uint64_t site;
    int fd;
    uint32_t chan;
    enum ips_fd_class klass;
    /* Of datagrams alone: the kernel's time of arrival is another one's; the
     * bytes of each but the last of several (preload/io/segments.c), 0 where
     * the call did not say; it said that nothing was cut off. */
    bool not_last, whole;
    uint32_t segment;
};

static inline void ips_io_close(const struct ips_io *io)
{
    ips_call_ends(&ips_me, io->mark);
}
/* Declares a struct ips_io for ips_io_begin. */
#define IPS_IO(io)                                                             \
    struct ips_io io __attribute__((cleanup(ips_io_close)));                   \
    io.mark = ips_me.open_depth

bool ips_io_begin_slow(struct ips_io *io, enum ips_rec_type type, int fd,
                       uint64_t word, uint64_t site);

/* `type`: SEND or RECV. false: nothing to record for this call. One load for
 * what is no channel. */
static inline bool ips_io_begin(struct ips_io *io, enum ips_rec_type type,
                                int fd, uint64_t site)
{
    if (!ips_wrap_on())
        return false;
    uint64_t word = ips_fd_get(fd);
    if (ips_fd_class(word) == IPS_FD_NONE && (unsigned)fd < IPS_FD_MAX) {
        ips_me.passes++;
        return false;
    }
    if (unlikely(ips_fd_class(word) != IPS_FD_STREAM))
        return ips_io_begin_slow(io, type, fd, word, site);
    io->klass = IPS_FD_STREAM;
    io->fd = fd;
    io->chan = ips_fd_chan(word);
    io->site = site;
    ips_call_open(&ips_me, io, 0);
    io->call = ips_at_call();
    ips_call_begins(&ips_me, io->mark, IPS_BEGUN(type, IPS_OP_DATA, io->chan),
                    site, &io->call);
    return true;
}

/* Record the return, `result` as the call gave it (errno is read where it is
 * -1 and kept); return `result`. `iov` is the payload, `name` a datagram's
 * peer or NULL for the connected one. */
ssize_t ips_io_sent(const struct ips_io *io, enum ips_op op, ssize_t result,
                    const struct iovec *iov, size_t iovcnt,
                    const struct sockaddr *name, socklen_t name_len);
ssize_t ips_io_received(const struct ips_io *io, enum ips_op op, ssize_t result,
                        const struct iovec *iov, size_t iovcnt,
                        const struct sockaddr *name, socklen_t name_len);

#define IPS_HOT __attribute__((hot, aligned(64)))

/* --- polls (preload/io/stream.c)
 * --------------------------------------------------
 */

/* false: not recorded. *mark: see ips_open. */
static inline __attribute__((always_inline)) bool
ips_wait_begin(struct ips_moment *call, uint32_t *mark, enum ips_op op,
               uint64_t site)
{
    if (unlikely(!ips_wrap_on()))
        return false;
    struct ips_thread *me = ips_here_on();
    *mark = me->open_depth;
    ips_call_open(me, call, IPS_OPEN_WAIT);
    ips_moment_take(me, call);
    ips_call_begins(me, *mark, IPS_BEGUN(IPS_REC_BLOCK, op, 0), site, call);
    return true;
}
/* The `ready` and, above it, the `a` of a poll's BLOCK (pool/format.h). */
static inline uint64_t ips_ready(uint32_t what, uint32_t why)
{
    return what | (uint64_t)why << 32;
}
/* A wait of `op` that returned `result` > 0: its BLOCK. Returns `result`. */
int ips_wait_got(const struct ips_moment *call, uint32_t mark, enum ips_op op,
                 int result, uint64_t site, uint64_t ready);

/* preload/io/receive_stamps.c: QUEUE of the datagram of `io`, where the kernel
 * tells. For a receive that did not block, not in the quiet mode. */
void ips_arrival_note(const struct ips_io *io);

/* preload/io/segments.c: the bytes of each datagram but the last that the call
 * of `io` sent; 0: it was one. */
uint32_t ips_segment_sent(const struct ips_io *io);
/* What the control data of a message says of it. */
uint32_t ips_segment_in(const struct msghdr *m, int type);
/* Does a receive from it have to be asked about that? */
bool ips_segments_joined(const struct ips_io *io);
#define IPS_CONTROL_ROOM 512u

#define IPS_IOV(buffer, length)                                                \
    &(const struct iovec){(void *)(uintptr_t)(buffer), (length)}, 1

/* One SEND, RECV, RECVCALL or BLOCK record. */
void ips_record_io(enum ips_rec_type type, uint32_t chan, enum ips_op op,
                   struct ips_moment call, struct ips_moment ret,
                   int64_t result, int err, uint64_t site, uint32_t ready);

/* A wait of `op` that is over now; `result` < 0: errno `err`. Recorded where it
 * returned something or lasted. Returns its return. */
struct ips_moment ips_record_wait(enum ips_op op, struct ips_moment call,
                                  int64_t result, int err, uint64_t site,
                                  uint64_t ready);

/* The same of a poll, select or epoll; `no_wait`: its timeout was 0. */
void ips_record_poll(enum ips_op op, struct ips_moment call, int64_t result,
                     int err, uint64_t site, uint64_t ready, bool no_wait);
bool ips_did_not_wait(int fd, const struct ips_moment *call,
                      const struct ips_moment *ret);
/* What is left of a time that was asked for at `call`, for a call made again
 * (preload/io/wait.c): milliseconds, negative = for ever; a timespec, in
 * `room`, NULL = for ever. */
int ips_wait_left_ms(int asked, const struct ips_moment *call);
const struct timespec *ips_wait_left(const struct timespec *asked,
                                     const struct ips_moment *call,
                                     struct timespec *room);

/* FORK; err 0 = it was made. */
void ips_record_fork(enum ips_fork_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, int err, uint64_t site);
/* JOIN; child_cpu_ns ~0 = unknown. */
void ips_record_join(enum ips_join_kind kind, uint32_t pid, uint64_t seq,
                     struct ips_moment call, uint64_t child_cpu_ns,
                     uint32_t status, uint64_t site);

/* preload/process/seccomp.c: around a call that installs a filter, or forbids
 * the time stamp counter. `undo`: it failed. */
enum ips_forbids { IPS_FORBIDS_NOTHING, IPS_FORBIDS_CALLS, IPS_FORBIDS_ALL };
void ips_forbid(enum ips_forbids what);
void ips_forbid_undo(enum ips_forbids what);
enum ips_forbids ips_seccomp_forbids(unsigned long operation);
/* true: a new image must not have us in it. */
bool ips_forbidden(void);
/* From here on the process does what leaves no record (UNSEEN). */
void ips_report_unrecorded(const char *text);
void ips_forbidden_in_vfork(bool on);

/* --- processes ------------------------------------------------------------ */

/* Names 0, 1 and 2: at the beginning of an image and in a fork child. */
void ips_wrap_name_standard(void);

/* What is about to be executed, as exec and posix_spawn see it; traced where
 * nothing is recorded here (preload/process/exec.c). */
void ips_exec_inspect(struct ips_target *target, int dir, const char *path);
void ips_exec_find(struct ips_target *target, const char *file);
/* UNSEEN: process `pid` goes on, or is, untraced. Nothing where it is not. */
void ips_record_untraced(const struct ips_target *target, uint32_t pid);
void ips_record_unrecorded(const char *text, size_t length);
/* In a vfork child that is about to exec: its parent records it. */
void ips_vfork_target(const struct ips_target *target);

/* The environment for a new image: `envp` itself where it has all that the
 * target needs, else a copy: with our names and our library where they are
 * missing, without our library where the target cannot bear it. The copy lies
 * on the caller's stack, or mapped where it is large: a vfork child allocates
 * nothing of its parent's. */
struct ips_env {
    char **envp;
    void *map; /* NULL = not mapped */
    size_t bytes;
};
void ips_env_init(void);
/* 0 = take it as it is */
size_t ips_env_bytes(char *const *envp, const struct ips_target *target);
void ips_env_fill(struct ips_env *env, char *const *envp,
                  const struct ips_target *target, size_t bytes, void *room);
void ips_env_done(struct ips_env *env); /* errno kept */
#define IPS_ENV_STACK 16384u
#define IPS_ENV(env, given, target)                                            \
    struct ips_env env = {NULL, NULL, 0};                                      \
    do {                                                                       \
        size_t need_ = ips_env_bytes(given, target);                           \
        ips_env_fill(&env, given, target, need_,                               \
                     need_ &&need_ <= IPS_ENV_STACK ? __builtin_alloca(need_)  \
                                                    : NULL);                   \
    } while (0)

/* CPU that children reaped since `since` took, or ~0 where others were reaped
 * too (system, pclose: the C library waits inside). */
struct ips_reap {
    uint64_t cpu_ns;
    uint32_t count;
};
struct ips_reap ips_reap_begin(void);
uint64_t ips_reap_end(struct ips_reap since);

/* preload/process/thread.c */
void ips_thread_here(void);                /* notes the calling thread's tid */
uint32_t ips_thread_tid(pthread_t thread); /* 0 = not known */
void ips_thread_cancels(pthread_t thread); /* it is about to be cancelled */

/* preload/io/spin.c. A fruitless attempt: true where it goes on with others and
 * needs no record; else it is to be recorded, and `recorded` called. */
bool ips_spin_failed(const struct ips_moment *call,
                     const struct ips_moment *ret, uint32_t chan,
                     uint64_t site);
void ips_spin_recorded(void);
struct ips_spin {
    uint64_t t, cpu;   /* of the first attempt's call */
    uint64_t last_cpu; /* at the last one's return */
    uint64_t site;
    int32_t saved; /* CPU that gaps may take beyond what one may */
    uint32_t chan;
};
extern __thread struct ips_spin ips_spin IPS_IE;
/* ips_spin_failed where it is known to be the first; recorded next. */
static inline void ips_spin_first(struct ips_thread *me,
                                  const struct ips_moment *call,
                                  const struct ips_moment *ret, uint32_t chan,
                                  uint64_t site)
{
    ips_spin = (struct ips_spin){call->t, call->cpu, ret->cpu, site, 0, chan};
    me->spin_count = 1;
}
/* The attempt of `call` got something: to be called before its record. Fewer
 * than these before it are no run. */
#define IPS_SPIN_LEAST 3u
void ips_spin_ended_slow(const struct ips_moment *call);
static inline void ips_spin_ended(struct ips_thread *me,
                                  const struct ips_moment *call)
{
    if (unlikely(me->spin_count >= IPS_SPIN_LEAST))
        ips_spin_ended_slow(call);
    me->spin_count = 0;
}
/* Something else was recorded. */
static inline void ips_spin_over(void)
{
    ips_me.spin_count = 0;
}

/* preload/io/retry.c. The try of `call` for what `key` names failed. */
void ips_retry_failed(enum ips_retry_kind kind, uint64_t key,
                      struct ips_moment call);
/* The thread has slept, by its own wish or for a child. */
static inline void ips_napped(void)
{
    if (unlikely(ips_me.extra != NULL))
        ips_me.extra->naps++;
}
static inline void ips_joined_child(void)
{
    if (unlikely(ips_me.extra != NULL))
        ips_me.extra->joins++;
}
/* The try for `key` succeeded. True: others failed before it, with naps
 * between, as *run says. */
bool ips_retry_ended_slow(enum ips_retry_kind kind, uint64_t key,
                          struct ips_retry *run);
static inline bool ips_retry_ended(enum ips_retry_kind kind, uint64_t key,
                                   struct ips_retry *run)
{
    return unlikely(ips_me.extra && ips_me.extra->retry[kind].count) &&
           ips_retry_ended_slow(kind, key, run);
}
/* BLOCK op RETRY, before the record of the try of `call`. */
void ips_retry_record(const struct ips_retry *run, struct ips_moment call,
                      uint64_t site);

/* preload/io/path.c. A call that needs something at `path` (of directory `at`)
 * gave `r`, -1 with errno where it is not there; returns `r`. */
int ips_path_tried(int at, const char *path, int r, uint64_t site);
/* An open of `call` gave `fd`. */
void ips_path_opened(int fd, int flags, struct ips_moment call, uint64_t site);

/* preload/io/file.c: the two ends of a call on a file; `exact` reads the
 * thread's clocks now. */
struct ips_moment ips_file_call(bool exact);
void ips_file_done(const struct ips_moment *call, int64_t result,
                   uint64_t site);
/* fcntl's F_SETLK and its like, made by `real`. */
int ips_fcntl_lock(int (*real)(int, int, ...), int fd, int command, void *arg,
                   uint64_t site);
void ips_locks_end(void); /* the process ends, and with it its locks */
void ips_eventfd_written(const struct ips_io *io);
/* ACQUIRE of a read; false: its number is not known. */
bool ips_eventfd_taken(const struct ips_io *io, struct ips_moment ret);

/* preload/process/signal.c: SIGNAL of what a wait or a signalfd gave, `at` its
 * return. */
void ips_record_taken(enum ips_signal_how how, int sig, int code, int32_t pid,
                      uint64_t value, struct ips_moment at);
/* The raw system calls that send signals or set handlers; true: done. */
bool ips_signal_syscall(long *r, long n, const long args[6], uint64_t site);

/* preload/start/entry.S calls these. */
void ips_vfork_before(uint64_t site);
long ips_vfork_after(long result);
long ips_syscall_failed(long result);
long ips_syscall(long n, long a, long b, long c, long d, long e, long f);

/* atfork handlers' part of fork (preload/process/fork.c) */

#endif
