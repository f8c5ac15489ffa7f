/*
 * In a recorded program, work that needs a descriptor is done by a thread that
 * has a descriptor table of its own.
 *
 * The program owns its descriptor table. It may close any number at any time,
 * and the number that we had opened may be its next file's before we use it: we
 * would write records into that file. A number that we hold for a moment also
 * moves the number that its `open` returns, and closing ours drops its record
 * locks on that file.
 *
 * The thread is a bare clone(): it runs on its maker's stack and with its
 * maker's thread-local variables, while the maker waits with all signals
 * blocked until it is gone. A thread, since the CPU of a child would be told to
 * the program as that of its own children. It begins with the program's table
 * and leaves it at once for an empty one: a copy would hold pipes, locks and
 * ports that another thread closes meanwhile. 30 us beyond the work.
 *
 * Not where the program has forbidden system calls to itself (ips_sys_quiet),
 * nor where the kernel makes no more threads (RLIMIT_NPROC, a pids cgroup,
 * unshare(CLONE_NEWPID) before), nor where the program has asked for a message
 * by mq_notify(): any close of a queue's descriptor by a thread of the process,
 * from whatever table, takes that back. -errno then, and the caller does
 * without. Async-signal-safe.
 */
#ifndef IPS_AGENT_RECORD_OWN_TABLE_H
#define IPS_AGENT_RECORD_OWN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who waits for such a thread waits with this FUTEX_WAIT_BITSET: tests that
 * look whether a thread sleeps know by it that it does not for the program. */
#define IPS_OWN_TABLE_BITSET 0x49505354

/* False while an image begins - its constructor runs before main() - and in
 * programs of ours: ips_with_own_table() calls the function directly then. */
extern bool ips_own_table_on __attribute__((visibility("hidden")));

/* From now on there is none: the program calls mq_notify(). */
void ips_own_table_never(void);

/* Calls function(arg) where no descriptor of the program is in reach, and
 * returns what it returns, or -errno where that cannot be had. Calls within it
 * are direct. */
long ips_with_own_table(long (*function)(void *), void *arg);

/* Reads the beginning of a file so, at most `bytes`: how many were read, or
 * -errno. */
long ips_read_with_own_table(const char *path, void *to, size_t bytes);

/* Is that one of these threads? It may be gone by now. */
bool ips_own_table_has(uint32_t tid);
/* In a fork child: those of the parent are not here. */
void ips_own_table_reset(void);

/* Into out[0..bytes): "/proc/", what the link of that name in /proc says of the
 * caller ("self", "thread-self"; its numbers may be those of another pid
 * namespace), and `after`. false: it does not fit, or there is no /proc. */
bool ips_proc_name(char *out, size_t bytes, const char *link,
                   const char *after);

#endif
