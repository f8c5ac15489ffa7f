#include "agent/record/own_table.h"

#include <errno.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/record/core.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"

/* How often to check whether a helper thread is gone after the kernel cleared
 * its word `gone`. A limit is needed, because a debugger may have stopped the
 * thread before its end. */
#define LOOKS 1000

#define THREADS 16u
/* Twice what the deepest function of a helper takes (exec_target.c). */
#define STACK_BYTES 8192u
/* Placeholder for a tid that is not known yet; no thread of the program has
 * this tid. */
#define COMING 1u

bool ips_own_table_on;
static atomic_bool by_process; /* the helper is a process, not a thread */
/* The helper threads that exist now. A slot holds COMING before its thread
 * exists, then the thread's tid until it is gone; 0: free. */
static _Atomic uint32_t threads[THREADS];
/* The helper threads' stacks: the creator's stack may be too small. Unused
 * stacks take no memory. */
static struct {
    _Alignas(16) char bytes[STACK_BYTES];
} stacks[THREADS] IPS_TABLE;

struct helper_work {
    long (*function)(void *);
    void *arg;
    long result;
};

/* An emulator (qemu-user) accepts these flags as those of a thread, too. */
#define AS_THREAD                                                              \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |        \
     CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
/* A helper process with these flags sends no signal at its end, and wait()
 * without __WALL does not see it. */
#define AS_PROCESS                                                             \
    (CLONE_VM | CLONE_FILES | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* Starts a thread or process that calls run(work); returns its tid, or -errno
 * (own_table_clone.S). The kernel stores the tid in *tid, and 0 in *gone at the
 * end. `stack`: the upper end of its stack; NULL: it uses the caller's. */
long ips_own_table_clone(void (*run)(void *), void *work, uint32_t *gone,
                         _Atomic uint32_t *tid, unsigned flags, void *stack)
    __attribute__((visibility("hidden")));

/* Replaces the descriptor table by an empty one, or by a copy if the kernel has
 * no close_range (before Linux 5.9). */
static long switch_to_empty_descriptor_table(void)
{
    long rc =
        ips_sys3(SYS_close_range, 0, (long)~0u, (long)CLOSE_RANGE_UNSHARE);
    return rc == -ENOSYS ? ips_sys3(SYS_unshare, CLONE_FILES, 0, 0) : rc;
}

static void unshare_fd_table_and_run_work(void *arg)
{
    struct helper_work *w = arg;
    w->result = switch_to_empty_descriptor_table();
    if (w->result < 0)
        return;
    ips_me.own_table = true;
    w->result = w->function(w->arg);
    ips_me.own_table = false;
}

/* Waits until the helper thread is no longer among the threads of the process.
 * The kernel sets *gone to 0 a little earlier, when the thread no longer uses
 * our memory. But until the thread is gone, an unshare() of the program may
 * fail because the process has two threads. */
static void wait_until_helper_gone(long tid, const uint32_t *gone)
{
    uint32_t v;
    while ((v = __atomic_load_n(gone, __ATOMIC_ACQUIRE)) != 0) {
        ips_me.cpu.guess.switches++;
        ips_sys6(SYS_futex, (long)gone, FUTEX_WAIT_BITSET, v, 0, 0,
                 IPS_OWN_TABLE_BITSET);
    }
    long pid = ips_sys3(SYS_getpid, 0, 0, 0);
    const struct timespec nap = {.tv_nsec = 100000};
    for (int i = 0; i < LOOKS && ips_sys3(SYS_tgkill, pid, tid, 0) == 0; i++)
        if (i > 100) /* a debugger has stopped the helper, or it gets no CPU */
            ips_sys3(SYS_nanosleep, (long)&nap, 0, 0);
        else if (i > 8)
            ips_sys3(SYS_sched_yield, 0, 0, 0);
}

/* Do children of the caller get a new pid namespace (after
 * unshare(CLONE_NEWPID))? Our process would then be the init of that namespace,
 * which would end with it. */
static bool forks_into_other_pidns(void)
{
    struct stat own, next;
    return ips_sys_stat("/proc/thread-self/ns/pid", &own) != 0 ||
           ips_sys_stat("/proc/thread-self/ns/pid_for_children", &next) != 0 ||
           own.st_ino != next.st_ino;
}

/* Claims a free slot in `threads`. If all are taken, returns `spare`:
 * ips_own_fd_table_is_helper_tid() then does not know the thread. */
static _Atomic uint32_t *claim_helper_slot(_Atomic uint32_t *spare)
{
    for (unsigned i = 0; i < THREADS; i++) {
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&threads[i], &none, COMING))
            return &threads[i];
    }
    return spare;
}

bool ips_own_fd_table_is_helper_tid(uint32_t tid)
{
    for (unsigned i = 0; i < THREADS; i++) {
        uint32_t there;
        for (int looks = 0;
             (there = atomic_load(&threads[i])) == COMING && looks < LOOKS;
             looks++)
            ips_sys3(SYS_sched_yield, 0, 0, 0);
        if (there == tid)
            return true;
    }
    return false;
}

void ips_own_fd_table_reset_after_fork(void)
{
    /* The child does not inherit the parent's mq_notify registration. */
    atomic_store(&by_process, false);
    for (unsigned i = 0; i < THREADS; i++)
        if (atomic_load_explicit(&threads[i], memory_order_relaxed))
            atomic_store(&threads[i], 0);
}

void ips_own_fd_table_use_process_not_threads(void)
{
    atomic_store(&by_process, true);
    /* Wait until the helper threads that began before are gone. */
    for (unsigned i = 0; i < THREADS; i++)
        for (int looks = 0; atomic_load(&threads[i]) && looks < 100 * LOOKS;
             looks++)
            ips_sys3(SYS_sched_yield, 0, 0, 0);
}

long ips_run_with_own_fd_table(long (*function)(void *), void *arg)
{
    if (!ips_own_table_on || ips_me.own_table)
        return function(arg);
    if (ips_sys_quiet)
        return -ENOSYS;
    struct helper_work w = {function, arg, -EAGAIN};
    uint32_t gone = 1;
    _Atomic uint32_t unknown;
    uint64_t signals = ips_sys_block_signals_small_stack();
    _Atomic uint32_t *place = claim_helper_slot(&unknown);
    /* Read by_process only after claiming the slot:
     * ips_own_fd_table_use_process_not_threads() sets it and then waits
     * until all claimed slots are free. */
    const bool process = atomic_load(&by_process);
    void *stack = place == &unknown ? NULL : &stacks[place - threads + 1];
    long tid = process && forks_into_other_pidns()
                   ? -EINVAL
                   : ips_own_table_clone(
                         unshare_fd_table_and_run_work, &w, &gone, place,
                         process ? AS_PROCESS : AS_THREAD, stack);
    if (tid < 0)
        w.result = tid;
    else
        wait_until_helper_gone(tid, &gone);
    while (tid > 0 && process &&
           ips_sys6(SYS_wait4, tid, 0, __WALL, 0, 0, 0) == -EINTR)
        ;
    atomic_store(place, 0);
    ips_sys_restore_signals(signals);
    return w.result;
}

struct file_reading {
    const char *path;
    void *to;
    size_t bytes;
};

static long read_file(void *arg)
{
    const struct file_reading *r = arg;
    int fd = ips_sys_open(r->path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long got = ips_sys_read(fd, r->to, r->bytes);
    ips_sys_close(fd);
    return got;
}

long ips_read_file_with_own_fd_table(const char *path, void *to, size_t bytes)
{
    struct file_reading r = {path, to, bytes};
    return ips_run_with_own_fd_table(read_file, &r);
}

bool ips_build_proc_path_resolving_link(char *out, size_t bytes,
                                        const char *link, const char *after)
{
    static const char proc[] = "/proc/";
    const size_t head = sizeof(proc) - 1, tail = strlen(after) + 1;
    char path[32];
    if (head + strlen(link) >= sizeof(path) || head + tail + 2 > bytes)
        return false;
    memcpy(path, proc, head);
    memcpy(path + head, link, strlen(link) + 1);
    memcpy(out, proc, head);
    const size_t room = bytes - head - tail;
    long n = ips_sys6(SYS_readlinkat, AT_FDCWD, (long)path, (long)(out + head),
                      (long)room, 0, 0);
    if (n <= 0 || (size_t)n >= room) /* perhaps truncated */
        return false;
    memcpy(out + head + n, after, tail);
    return true;
}
