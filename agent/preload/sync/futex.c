/*
 * Futexes that programs and runtimes (Rust's, for example) use by syscall(). A
 * wait that slept is recorded as ACQUIRE, a call that woke a thread as RELEASE:
 * the kernel returns the number of threads that it woke. Futex calls by a
 * syscall instruction in the program itself are not recorded.
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "agent/preload/sync.h"

static bool is_wait_op(int op)
{
    return op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET || op == FUTEX_LOCK_PI ||
           op == FUTEX_WAIT_REQUEUE_PI;
}

static bool is_wake_op(int op)
{
    return op == FUTEX_WAKE || op == FUTEX_WAKE_BITSET || op == FUTEX_REQUEUE ||
           op == FUTEX_CMP_REQUEUE || op == FUTEX_WAKE_OP ||
           op == FUTEX_UNLOCK_PI || op == FUTEX_CMP_REQUEUE_PI;
}

#define REAL_CALL                                                              \
    REAL(syscall)(n, args[0], args[1], args[2], args[3], args[4], args[5])

long ips_call_futex_and_record(long n, const long args[6], uint64_t site)
{
    const volatile void *at = (const volatile void *)(uintptr_t)args[0];
    int op = (int)args[1] & FUTEX_CMD_MASK;
    bool shared = !((int)args[1] & FUTEX_PRIVATE_FLAG);
    if (!is_wait_op(op) && !is_wake_op(op))
        return REAL_CALL;
    int saved = errno;
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    if (is_wait_op(op))
        IPS_SYNC_BEGINS(IPS_SYNC_FUTEX, at, 0, site, call);
    errno = saved;
    long r = REAL_CALL;
    saved = errno;
    if (is_wait_op(op)) {
        struct ips_moment ret = ips_return_moment(&call);
        if (ips_was_blocked(&call, &ret)) {
            struct ips_sync_object thing =
                ips_compute_sync_object_name(at, shared);
            ips_record_acquire(IPS_SYNC_FUTEX, &thing, call, ret, 0,
                               r < 0 ? saved : 0, site);
        }
    } else if (r > 0 || (r == 0 && op == FUTEX_UNLOCK_PI)) {
        struct ips_sync_object thing = ips_compute_sync_object_name(at, shared);
        ips_record_release(IPS_SYNC_FUTEX, &thing, call, r > 0 ? (int)r : 1,
                           site);
    }
    errno = saved;
    return r;
}
