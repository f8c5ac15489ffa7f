#include "agent/own_table.h"

#include <linux/close_range.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "agent/stream.h"
#include "agent/sys.h"

bool ips_own_table_on;
static _Atomic uint64_t children_ns;

struct work {
    long (*function)(void *);
    void *arg;
    long result;
};

/* own_table_clone.S: the pid of a child in which run(work) was called, or
 * -errno. */
long ips_own_table_clone(void (*run)(void *), void *work)
    __attribute__((visibility("hidden")));

/* For an empty one; where the kernel has no close_range (before Linux 5.9), for
 * a copy. */
static long leave_table(void)
{
    long rc =
        ips_sys3(SYS_close_range, 0, (long)~0u, (long)CLOSE_RANGE_UNSHARE);
    return rc == -ENOSYS ? ips_sys3(SYS_unshare, CLONE_FILES, 0, 0) : rc;
}

static void run(void *arg)
{
    struct work *w = arg;
    w->result = leave_table();
    if (w->result < 0)
        return;
    ips_me.own_table = true;
    w->result = w->function(w->arg);
    ips_me.own_table = false;
}

static uint64_t time_ns(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

uint64_t ips_own_table_take_ns(void)
{
    return atomic_load_explicit(&children_ns, memory_order_relaxed)
               ? atomic_exchange(&children_ns, 0)
               : 0;
}

long ips_with_own_table(long (*function)(void *), void *arg)
{
    if (!ips_own_table_on || ips_me.own_table)
        return function(arg);
    if (ips_sys_quiet)
        return -ENOSYS;
    struct work w = {function, arg, -ECHILD};
    int status = -1;
    struct rusage ru;
    uint64_t signals = ips_sys_block_signals_little();
    long pid = ips_own_table_clone(run, &w);
    if (pid < 0)
        w.result = pid;
    else if (ips_sys6(SYS_wait4, pid, (long)&status, __WALL, (long)&ru, 0, 0) ==
                 pid &&
             !ips_me.in_vfork) /* else it is not this process's */
        atomic_fetch_add(&children_ns,
                         time_ns(&ru.ru_utime) + time_ns(&ru.ru_stime));
    ips_me.own_table = false; /* it may have been killed */
    ips_sys_restore_signals(signals);
    if (pid == -EINVAL || (w.result == -ECHILD && status == 0)) {
        /* An emulator: no kernel refuses these flags, and none has a child that
         * ends well and has memory of its own. */
        ips_own_table_on = false;
        return function(arg);
    }
    return w.result;
}

bool ips_proc_name(char *out, size_t bytes, const char *link, const char *after)
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
    if (n <= 0 || (size_t)n >= room) /* perhaps cut */
        return false;
    memcpy(out + head + n, after, tail);
    return true;
}
