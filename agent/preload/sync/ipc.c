/*
 * System V semaphores and message queues, and POSIX message queues, all treated
 * as counted resources. A post (or a sent message) is a RELEASE with the number
 * of units; a wait for a unit (or a message) is an ACQUIRE of kind SEMAPHORE. A
 * sender that waited for space in a queue waited for a receiver. Every post is
 * recorded, because only the kernel knows whether a thread waits. A receive
 * that did not wait, because a message was already in the queue, makes no arc.
 *
 * An object's name is (dev, ino, object). System V: the ipc namespace; the id,
 * with the type of object in the upper half; the semaphore's number. POSIX
 * queue: 0; the number of the queue, from its inode; 0. IPS_SYNC_OF_SPACE in
 * `object`: the space in a queue.
 *
 * A call that may wait is first tried without waiting, so we know whether it
 * waited: a thread that was only preempted gets no ACQUIRE, as with the other
 * locks.
 *
 * System V's calls are never restarted after a signal (signal(7)), so those
 * that only a sample interrupted are made again (preload/sample/sample.h).
 */
#include "agent/preload/at.h"

#include <mqueue.h>
#include <sys/msg.h>
#include <sys/sem.h>

#include "agent/preload/sample/sample.h"
#include "agent/preload/sync.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"

/* type of a System V object, in the upper half of `ino` */
enum { OF_SEM = 1, OF_QUEUE = 2 };
/* in the `object` of an ACQUIRE: the thread waited until the semaphore was 0 */
#define FOR_ZERO (1ull << 32)

static struct ips_sync_object sync_object_of_system_v_ipc(uint64_t what, int id,
                                                          uint64_t object)
{
    /* inode of the ipc namespace; 0: not looked up yet */
    static _Atomic uint64_t names;
    uint64_t space = atomic_load_explicit(&names, memory_order_relaxed);
    if (!space && !ips_sys_quiet) {
        struct stat st;
        bool told = ips_sys_stat("/proc/self/ns/ipc", &st) == 0;
        space = told ? st.st_ino : 1;
        atomic_store_explicit(&names, space, memory_order_relaxed);
    }
    return (struct ips_sync_object){space, what << 32 | (uint32_t)id, object};
}

static bool fill_posix_queue_sync_object(mqd_t q, uint64_t object,
                                         struct ips_sync_object *out)
{
    struct stat st;
    bool known = !ips_sys_quiet && ips_sys_fstat(q, &st) == 0;
    if (known)
        /* records of polls and signals name the queue by the same number */
        *out = (struct ips_sync_object){
            0, IPS_READY_NUMBER(IPS_READY_QUEUE(st.st_ino)), object};
    return known;
}

/* Zero timeout, and a deadline in the past. */
static const struct timespec at_once = {0, 0};

struct wait {
    struct ips_moment call, ret;
    int before;   /* errno before the call */
    bool on;      /* the call is to be recorded */
    bool refused; /* may wait: no try without waiting, or it failed */
    bool blocked;
};

static inline struct wait take_start_moment_of_ipc_wait(void)
{
    struct wait w = {.before = errno,
                     .on = ips_wrap_start_library_and_check_recording() &&
                           ips_sync_init_and_check_recording()};
    if (w.on)
        w.call = ips_take_call_moment();
    else
        w.call.t = ips_core_stamp_now();
    return w;
}

/* Whether the wrapper makes a try without waiting first. Not if the caller gave
 * a timeout: the kernel must check that before it examines the object. Not if a
 * seccomp filter may kill the program for a call that it did not make itself.
 */
static inline bool
decide_whether_to_try_nonblocking(struct wait *w, const struct timespec *given)
{
    bool tries = w->on && !given && !ips_sys_quiet;
    w->refused = !tries;
    return tries;
}

/* To be called after the try without waiting: notes whether it failed because
 * nothing was available (`failed` with errno `would_wait`). True: the real call
 * must be made. */
static inline bool
store_try_result_and_check_refused(struct wait *w, bool failed, int would_wait)
{
    w->refused = failed && errno == would_wait;
    if (w->refused)
        errno = w->before;
    return w->refused;
}

static inline void take_ipc_wait_end_and_check_blocked(struct wait *w)
{
    w->ret = ips_return_moment(&w->call);
    w->blocked = w->refused && ips_was_blocked(&w->call, &w->ret);
}

/* Whether a call with the error number `err` (0: success) may have waited. With
 * any other error it failed at once, and its arguments may be unreadable. */
static bool may_have_waited(int err)
{
    return err == 0 || err == EINTR || err == EAGAIN || err == ETIMEDOUT ||
           err == EIDRM;
}

/* Records a call that asked for a unit of the semaphore (or a message of the
 * queue) `thing`; `err` 0: it got the unit. */
static void record_unit_wait_if_blocked(const struct wait *w,
                                        const struct ips_sync_object *thing,
                                        int err, uint64_t site)
{
    if (w->blocked && may_have_waited(err))
        ips_record_acquire(IPS_SYNC_SEMAPHORE, thing, w->call, w->ret,
                           IPS_GOT_SLEPT, err, site);
    else if (unlikely(ips_sync_all) && err == 0)
        ips_record_acquire(IPS_SYNC_SEMAPHORE, thing, w->ret, w->ret,
                           IPS_GOT_FREE, 0, site);
}

static void record_units_released(struct ips_moment at,
                                  const struct ips_sync_object *thing,
                                  int units, uint64_t site)
{
    ips_record_release(IPS_SYNC_SEMAPHORE, thing, at, units, site);
}

/* --- semaphores ---------------------------------------------------------- */

/* Records a semop that returned with the error number `err` (0: success). One
 * call may take units of some semaphores and post others. If it waited, it
 * posts at its end. */
static void record_semop(const struct wait *w, int id, const struct sembuf *ops,
                         size_t n, int err, uint64_t site)
{
    const struct sembuf *asks = NULL;
    for (size_t i = 0; i < n && !asks; i++)
        if (ops[i].sem_op < 0)
            asks = &ops[i];
    for (size_t i = 0; i < n && !asks; i++)
        if (ops[i].sem_op == 0)
            asks = &ops[i];
    if (asks) {
        struct ips_sync_object thing = sync_object_of_system_v_ipc(
            OF_SEM, id, asks->sem_num | (asks->sem_op ? 0 : FOR_ZERO));
        record_unit_wait_if_blocked(w, &thing, err, site);
    }
    for (size_t i = 0; i < n && !err; i++)
        if (ops[i].sem_op > 0) {
            struct ips_sync_object thing =
                sync_object_of_system_v_ipc(OF_SEM, id, ops[i].sem_num);
            record_units_released(asks && w->blocked ? w->ret : w->call, &thing,
                                  ops[i].sem_op, site);
        }
}

int ips_semtimedop_at(int id, struct sembuf *ops, size_t n,
                      const struct timespec *ts, uint64_t site)
{
    const struct timespec *asked = ts;
    struct timespec room;
    IPS_WAIT_MARK;
    struct wait w = take_start_moment_of_ipc_wait();
    if (w.on)
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, id, 0, site, w.call);
    int r = -1;
    const bool tries = decide_whether_to_try_nonblocking(&w, ts);
    if (tries)
        IPS_REPEAT_AFTER_SAMPLE(r, REAL(semtimedop)(id, ops, n, &at_once),
                                r == -1, errno, (void)0);
    if (!tries || store_try_result_and_check_refused(&w, r == -1, EAGAIN))
        IPS_REPEAT_AFTER_SAMPLE(
            r, ts ? REAL(semtimedop)(id, ops, n, ts) : REAL(semop)(id, ops, n),
            r == -1, errno, ts = ips_timeout_left(asked, &w.call, &room));
    int saved = errno;
    int err = r == 0 ? 0 : saved;
    if (w.on && may_have_waited(err)) {
        take_ipc_wait_end_and_check_blocked(&w);
        record_semop(&w, id, ops, n, err, site);
    }
    errno = saved;
    return r;
}

IPS_EXPORT int semop(int id, struct sembuf *ops, size_t n)
{
    return ips_semtimedop_at(id, ops, n, NULL, IPS_SITE);
}

IPS_EXPORT int semtimedop(int id, struct sembuf *ops, size_t n,
                          const struct timespec *ts)
{
    return ips_semtimedop_at(id, ops, n, ts, IPS_SITE);
}

/* --- message queues ------------------------------------------------------ */

/* Records a call that sent a message (`put`) or received one, with the error
 * number `err` (0: success). */
static void record_message_sent_or_received(
    struct wait *w, const struct ips_sync_object *message,
    const struct ips_sync_object *room, bool put, int err, uint64_t site)
{
    take_ipc_wait_end_and_check_blocked(w);
    if (!put)
        record_unit_wait_if_blocked(w, message, err, site);
    else if (w->blocked)
        record_unit_wait_if_blocked(w, room, err, site);
    if (!err)
        record_units_released(w->call, put ? message : room, 1, site);
}

static void record_system_v_message(struct wait *w, int id, bool put, int err,
                                    uint64_t site)
{
    struct ips_sync_object message =
                               sync_object_of_system_v_ipc(OF_QUEUE, id, 0),
                           room = message;
    room.object = IPS_SYNC_OF_SPACE;
    record_message_sent_or_received(w, &message, &room, put, err, site);
}

int ips_msgsnd_at(int id, const void *message, size_t bytes, int flags,
                  uint64_t site)
{
    IPS_WAIT_MARK;
    struct wait w = take_start_moment_of_ipc_wait();
    if (w.on)
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, id, 0, site, w.call);
    int r;
    const bool tries = decide_whether_to_try_nonblocking(&w, NULL);
    r = tries ? REAL(msgsnd)(id, message, bytes, flags | IPC_NOWAIT) : -1;
    if (!tries || (!(flags & IPC_NOWAIT) &&
                   store_try_result_and_check_refused(&w, r == -1, EAGAIN)))
        IPS_REPEAT_AFTER_SAMPLE(r, REAL(msgsnd)(id, message, bytes, flags),
                                r == -1, errno, (void)0);
    int saved = errno;
    if (w.on)
        record_system_v_message(&w, id, true, r == 0 ? 0 : saved, site);
    errno = saved;
    return r;
}

IPS_EXPORT int msgsnd(int id, const void *message, size_t bytes, int flags)
{
    return ips_msgsnd_at(id, message, bytes, flags, IPS_SITE);
}

ssize_t ips_msgrcv_at(int id, void *message, size_t bytes, long type, int flags,
                      uint64_t site)
{
    IPS_WAIT_MARK;
    struct wait w = take_start_moment_of_ipc_wait();
    if (w.on)
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, id, 0, site, w.call);
    ssize_t r;
    const bool tries = decide_whether_to_try_nonblocking(&w, NULL);
    r = tries ? REAL(msgrcv)(id, message, bytes, type, flags | IPC_NOWAIT) : -1;
    if (!tries || (!(flags & IPC_NOWAIT) &&
                   store_try_result_and_check_refused(&w, r == -1, ENOMSG)))
        IPS_REPEAT_AFTER_SAMPLE(r,
                                REAL(msgrcv)(id, message, bytes, type, flags),
                                r == -1, errno, (void)0);
    int saved = errno;
    /* with MSG_COPY the message stays in the queue */
    if (w.on && !(flags & MSG_COPY))
        record_system_v_message(&w, id, false, r >= 0 ? 0 : saved, site);
    errno = saved;
    return r;
}

IPS_EXPORT ssize_t msgrcv(int id, void *message, size_t bytes, long type,
                          int flags)
{
    return ips_msgrcv_at(id, message, bytes, type, flags, IPS_SITE);
}

static void record_posix_message(struct wait *w, mqd_t q, bool put, int err,
                                 uint64_t site)
{
    struct ips_sync_object message, room;
    if (!fill_posix_queue_sync_object(q, 0, &message))
        return;
    room = message;
    room.object = IPS_SYNC_OF_SPACE;
    record_message_sent_or_received(w, &message, &room, put, err, site);
}

int ips_mq_send_at(mqd_t q, const char *text, size_t bytes, unsigned priority,
                   const struct timespec *until, uint64_t site)
{
    IPS_WAIT_MARK;
    struct wait w = take_start_moment_of_ipc_wait();
    if (w.on)
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, q, 0, site, w.call);
    const bool tries = decide_whether_to_try_nonblocking(&w, until);
    int r = tries ? REAL(mq_timedsend)(q, text, bytes, priority, &at_once) : -1;
    if (!tries || store_try_result_and_check_refused(&w, r == -1, ETIMEDOUT))
        r = until ? REAL(mq_timedsend)(q, text, bytes, priority, until)
                  : REAL(mq_send)(q, text, bytes, priority);
    int saved = errno;
    if (w.on)
        record_posix_message(&w, q, true, r == 0 ? 0 : saved, site);
    errno = saved;
    return r;
}

IPS_EXPORT int mq_send(mqd_t q, const char *text, size_t bytes,
                       unsigned priority)
{
    return ips_mq_send_at(q, text, bytes, priority, NULL, IPS_SITE);
}

IPS_EXPORT int mq_timedsend(mqd_t q, const char *text, size_t bytes,
                            unsigned priority, const struct timespec *until)
{
    return ips_mq_send_at(q, text, bytes, priority, until, IPS_SITE);
}

ssize_t ips_mq_receive_at(mqd_t q, char *text, size_t bytes, unsigned *priority,
                          const struct timespec *until, uint64_t site)
{
    IPS_WAIT_MARK;
    struct wait w = take_start_moment_of_ipc_wait();
    if (w.on)
        IPS_SYNC_BEGINS(IPS_SYNC_SEMAPHORE, q, 0, site, w.call);
    const bool tries = decide_whether_to_try_nonblocking(&w, until);
    ssize_t r =
        tries ? REAL(mq_timedreceive)(q, text, bytes, priority, &at_once) : -1;
    if (!tries || store_try_result_and_check_refused(&w, r == -1, ETIMEDOUT))
        r = until ? REAL(mq_timedreceive)(q, text, bytes, priority, until)
                  : REAL(mq_receive)(q, text, bytes, priority);
    int saved = errno;
    if (w.on)
        record_posix_message(&w, q, false, r >= 0 ? 0 : saved, site);
    errno = saved;
    return r;
}

IPS_EXPORT ssize_t mq_receive(mqd_t q, char *text, size_t bytes,
                              unsigned *priority)
{
    return ips_mq_receive_at(q, text, bytes, priority, NULL, IPS_SITE);
}

IPS_EXPORT ssize_t mq_timedreceive(mqd_t q, char *text, size_t bytes,
                                   unsigned *priority,
                                   const struct timespec *until)
{
    return ips_mq_receive_at(q, text, bytes, priority, until, IPS_SITE);
}

IPS_EXPORT int mq_notify(mqd_t q, const struct sigevent *event)
{
    uint64_t old = 0;
    const bool on = event && ips_wrap_start_library_and_check_recording();
    const int sig =
        on && event->sigev_notify == SIGEV_SIGNAL ? event->sigev_signo : 0;
    if (on)
        ips_own_fd_table_use_process_not_threads();
    if (sig)
        old = ips_store_queue_of_notify_signal(q, sig);
    int r = REAL(mq_notify)(q, event);
    if (r < 0 && sig)
        ips_restore_queue_of_notify_signal(sig, old);
    return r;
}

/* The C library's mq_close closes the descriptor without calling close(). */
IPS_EXPORT int mq_close(mqd_t q)
{
    if (ips_wrap_start_library_and_check_recording())
        ips_fd_clear(q);
    return REAL(mq_close)(q);
}
