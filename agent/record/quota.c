/*
 * Space in the pool: the run's quota, and the wait of a thread for space
 * (--on-full=block).
 *
 * The counters that all processes of a run share are in the mapped control
 * file. A process that may write that file may also truncate it, and touching a
 * truncated page raises SIGBUS. So a system call touches the page first; it
 * returns an error instead. Only slow paths use this: a growth step, a lost
 * record.
 *
 * --on-full=block: the thread closes its segment, so that the slave can drain
 * and return it, and sleeps in steps of a millisecond with the program's signal
 * mask. If the pool has no slave, or after waiting IPS_ROOM_WAIT_NS, the thread
 * gives up and counts its records as lost until there is space again.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/file.h>

#include "agent/record/extra.h"
#include "agent/record/own_table.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"
#include "common/types.h"

#define STEP_NS 1000000
/* A thread that has waited for this long (ns) checks whether the pool has a
 * slave. */
#define LOOK_NS 1000000000ull
#define IPS_ROOM_WAIT_NS 10000000000ull

struct ips_control *ips_get_or_map_shared_control(void)
{
    struct ips_control *c =
        atomic_load_explicit(&ips_core.shared, memory_order_acquire);
    if (!c && !(c = ips_core_get_or_map_counters()))
        return NULL;
    /* If another process has truncated the file, our access would raise SIGBUS.
     * So the kernel touches the page first, by a futex wait that ends at once
     * because the word differs from the given value. The wait also maps the
     * page for writing, in a third of the time of MADV_POPULATE_WRITE. */
    const struct timespec none = {0, 0};
    const uint32_t other = ~(uint32_t)IPS_CONTROL_MAGIC;
    long rc =
        ips_sys6(SYS_futex, (long)&c->magic, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
                 (long)other, (long)&none, 0, 0);
    if (rc != -EFAULT)
        return c;
    ips_core.shared = NULL;
    return NULL;
}

bool ips_quota_take(uint64_t bytes)
{
    struct ips_control *c = ips_get_or_map_shared_control();
    if (!c)
        return false;
    atomic_fetch_add_explicit(&c->used_bytes, bytes, memory_order_relaxed);
    if (ips_control_bytes_in_use(c) <= ips_core.control->quota_bytes)
        return true;
    atomic_fetch_sub_explicit(&c->used_bytes, bytes, memory_order_relaxed);
    return false;
}

bool ips_quota_is_half_free(void)
{
    const struct ips_control *c = ips_get_or_map_shared_control();
    return c && ips_control_bytes_in_use(c) < ips_core.control->quota_bytes / 2;
}

void ips_quota_give_back(uint64_t bytes)
{
    struct ips_control *c = ips_get_or_map_shared_control();
    if (c)
        atomic_fetch_sub_explicit(&c->used_bytes, bytes, memory_order_relaxed);
}

/* Opens the lock file of the pool's slave; returns a descriptor or -errno. Call
 * it inside ips_run_with_own_fd_table(). */
static int open_slave_lock(void)
{
    static const char name[] = "slave.lock";
    char path[sizeof(ips_core.dir) + sizeof(name)];
    const char *run = strrchr(ips_core.dir, '/');
    if (!run)
        return -EINVAL;
    size_t n = (size_t)(run + 1 - ips_core.dir);
    memcpy(path, ips_core.dir, n);
    memcpy(path + n, name, sizeof(name));
    return ips_sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
}

/* Returns 0 if the slave's lock was free, -ENOENT if there is no lock file,
 * another -errno if the lock is held or cannot be tested. */
static long try_slave_lock(void *unused)
{
    (void)unused;
    int fd = open_slave_lock();
    if (fd < 0)
        return fd;
    long rc = ips_sys3(SYS_flock, fd, LOCK_SH | LOCK_NB, 0);
    ips_sys_close(fd);
    return rc;
}

/* Does a slave hold the pool's lock? Also true if the lock cannot be tested.
 * The test itself holds the lock for a moment; slaves allow for that
 * (slave/base/lock.c). */
static bool slave_is_alive(void)
{
    long rc = ips_run_with_own_fd_table(try_slave_lock, NULL);
    return rc < 0 && rc != -ENOENT;
}

/* Returns 1 if a process that is visible in our pid namespace holds the slave's
 * POSIX lock; 0 or -errno if not. */
static long is_slave_lock_holder_in_our_pidns(void *unused)
{
    (void)unused;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open_slave_lock();
    if (fd < 0)
        return fd;
    long rc = ips_sys3(SYS_fcntl, fd, F_GETLK, (long)&lock);
    ips_sys_close(fd);
    return rc == 0 && lock.l_type == F_WRLCK && lock.l_pid > 0;
}

/* Is the process with the pid `slave_pid` in our pid namespace the slave? It is
 * if its robust list has the right address: that address is randomised like the
 * address space, so no other process has the same. */
static bool is_slave_in_our_pidns(const struct ips_control *c)
{
    uint64_t list = 0, bytes = 0;
    return c->slave_pid && c->slave_list &&
           ips_sys3(SYS_get_robust_list, c->slave_pid, (long)&list,
                    (long)&bytes) == 0 &&
           list == c->slave_list;
}

/* Most processes are in the initial pid namespace, and two tests confirm that
 * faster than reading /proc. First, a slave in the initial namespace writes its
 * identity into `control`, and one system call checks it. If that call is not
 * permitted (another user's slave), a file lock helps, which such a slave holds
 * (slave/base/lock.c): the kernel reports the pid of the holder in our
 * namespace, or 0 if the holder is not visible there. This takes a third of the
 * time of reading /proc. */
uint64_t ips_pid_namespace_inode(void)
{
    struct stat st;
    if (is_slave_in_our_pidns(ips_core.control))
        return IPS_PIDNS_INITIAL;
    if (ips_run_with_own_fd_table(is_slave_lock_holder_in_our_pidns, NULL) == 1)
        return IPS_PIDNS_INITIAL;
    return ips_sys_stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* This process found no slave at its last check; the next time it checks
 * without delay. */
static _Atomic bool no_slave;

bool ips_quota_wait_one_step(struct ips_stream *s, enum ips_lost_cause cause,
                             uint64_t *since_ns, uint64_t *signals)
{
    if (ips_core.control->on_full != IPS_ON_FULL_BLOCK || s->gave_up ||
        !ips_get_or_map_shared_control() ||
        (cause != IPS_LOST_QUOTA && cause != IPS_LOST_POOL_FULL))
        return false;
    uint64_t now = ips_sys_clock_ns(CLOCK_MONOTONIC);
    if (!*since_ns)
        *since_ns = now;
    uint64_t waited = now - *since_ns;
    bool alone = false;
    if (waited >= LOOK_NS || no_slave)
        no_slave = alone = !slave_is_alive();
    if (waited >= IPS_ROOM_WAIT_NS || alone) {
        s->gave_up = true;
        return false;
    }
    if (s->seg.base && !s->parked)
        ips_segment_close_if_complete_and_park(s);
    struct timespec step = {0, STEP_NS};
    /* A signal handler that runs while we sleep may wait for space as well. It
     * waits with signals blocked, so that handlers do not pile up on the stack.
     */
    uint64_t here = (uint64_t)(uintptr_t)&step;
    bool nested = s->waits_at > here;
    if (!nested) {
        s->waits_at = here;
        ips_sys_restore_signals(*signals);
    }
    ips_sys3(SYS_nanosleep, (long)&step, 0, 0);
    if (!nested) {
        *signals = ips_sys_block_signals();
        s->waits_at = 0;
    }
    return true;
}

/* --- quiet mode: without system calls ---------------------------------------
 */

bool ips_sys_quiet;
uint64_t ips_store_cpu_for_quiet_mode(uint64_t cpu)
{
    ips_me.quiet_cpu = cpu;
    ips_me.quiet_t = ips_core_stamp_now();
    return cpu;
}

uint64_t ips_cpu_now_without_syscalls(void)
{
    uint64_t now = ips_core_stamp_now();
    if (!ips_me.quiet_t)
        ips_me.quiet_t = now;
    return ips_me.quiet_cpu + ips_mul_q32(ips_sub_sat(now, ips_me.quiet_t),
                                          ips_core.control->clock.mult_q32);
}

void ips_core_prepare_and_set_syscalls_forbidden(bool on)
{
    if (!ips_core_is_recording())
        return;
    if (on && ips_core.clock_kind == IPS_CLOCK_RAW) {
        ips_core_stop_recording(); /* reading this clock is a system call */
        return;
    }
    if (on) {
        struct ips_stream *s = &ips_me.stream;
        uint64_t signals = ips_sys_block_signals();
        /* Extend the segment as far as the quota and the pool allow. */
        for (uint64_t want = s->seg.end - s->limit;
             s->lo && want >= IPS_GROW_STEP_BYTES; want /= 2)
            if (ips_stream_populate_segment_up_to(s, s->limit + want) == 0)
                break;
        ips_sys_restore_signals(signals);
        ips_store_cpu_for_quiet_mode(ips_core_thread_cpu_ns());
        (void)ips_extra_get_or_map();
    }
    ips_sys_quiet = on;
    ips_core.guesses = ips_core.control->cpu_mode == IPS_CPU_FAST && !on;
}

void ips_core_stop_recording(void)
{
    ips_core.main_stream = false;
    if (*ips_core.alive)
        *(volatile uint64_t *)(uintptr_t)ips_core.alive = IPS_ALIVE_STOPPED;
    /* `control` stays mapped: other threads may be using it */
    ips_core.stopped = true;
}
