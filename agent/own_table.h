/*
 * What needs a descriptor, in a recorded program: done by a child that shares
 * our memory and has a descriptor table of its own.
 *
 * The program owns its descriptor table. It may close any number at any time,
 * and the number that we had opened may be its next file's before we use it: we
 * would write records into that file. A number that we hold for a moment also
 * moves the number that its `open` returns, and closing ours drops its record
 * locks on that file.
 *
 * The child is a clone with CLONE_VM and CLONE_VFORK: the caller's thread
 * stands still meanwhile, and the child runs on the same stack and with the
 * same thread-local variables. It has no exit signal, so the program's wait
 * does not see it. It begins with the program's table and leaves it at once for
 * an empty one: a copy would hold pipes, locks and ports that another thread
 * closes meanwhile. 50 to 100 us.
 *
 * Not where the program has forbidden system calls to itself (ips_sys_quiet),
 * or where the kernel makes no more processes (RLIMIT_NPROC, a pids cgroup):
 * -errno then, and the caller does without. Async-signal-safe; blocks all
 * signals meanwhile.
 */
#ifndef IPS_AGENT_OWN_TABLE_H
#define IPS_AGENT_OWN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False while an image begins - its constructor runs before main() - and in
 * programs of ours: ips_with_own_table() calls the function directly then. */
extern bool ips_own_table_on __attribute__((visibility("hidden")));

/* Calls function(arg) where no descriptor of the program is in reach, and
 * returns what it returns, or -errno where that cannot be had (-ECHILD: the
 * child was ended before it had returned). Calls within it are direct. */
long ips_with_own_table(long (*function)(void *), void *arg);

/* The CPU of the children since the last call: who waits for this process is
 * told it as this one's. */
uint64_t ips_own_table_take_ns(void);

/* Into out[0..bytes): "/proc/", what the link of that name in /proc says of the
 * caller ("self", "thread-self"; its numbers may be those of another pid
 * namespace), and `after`. false: it does not fit, or there is no /proc. */
bool ips_proc_name(char *out, size_t bytes, const char *link,
                   const char *after);

#endif
