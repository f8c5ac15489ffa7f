#include "agent/own_table.h"

#include <sys/wait.h>

#include "agent/stream.h"
#include "agent/sys.h"

bool ips_own_table_on;

struct work {
    long (*function)(void *);
    void *arg;
    long result;
};

/* own_table_clone.S: the pid of a child in which run(work) was called, or
 * -errno. */
long ips_own_table_clone(void (*run)(void *), void *work)
    __attribute__((visibility("hidden")));

static void run(void *arg)
{
    struct work *w = arg;
    ips_me.own_table = true;
    w->result = w->function(w->arg);
    ips_me.own_table = false;
}

long ips_with_own_table(long (*function)(void *), void *arg)
{
    if (!ips_own_table_on || ips_me.own_table)
        return function(arg);
    if (ips_sys_quiet)
        return -ENOSYS;
    struct work w = {function, arg, -ECHILD};
    uint64_t signals = ips_sys_block_signals_little();
    long pid = ips_own_table_clone(run, &w);
    if (pid < 0)
        w.result = pid;
    else
        ips_sys6(SYS_wait4, pid, 0, __WALL, 0, 0, 0);
    ips_me.own_table = false; /* it may have been killed */
    ips_sys_restore_signals(signals);
    return w.result;
}
