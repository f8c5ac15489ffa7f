/*
 * In a recorded program, work that needs a descriptor is done by a thread that
 * has a descriptor table of its own.
 *
 * The program owns its descriptor table. It may close any number at any time,
 * and a number that we opened may refer to its next file before we use it: we
 * would write records into that file. A number that we hold for a moment also
 * changes the number that the program's `open` returns, and closing ours drops
 * the program's record locks on that file.
 *
 * The thread is a bare clone(): it runs on its creator's stack with its
 * creator's thread-local variables, while the creator waits with all signals
 * blocked until it is gone. It is a thread, since the program would see the CPU
 * time of a child as that of its own children. It starts with the program's
 * table and at once replaces it by an empty one: a copy would hold open pipes,
 * locks and ports that another thread closes meanwhile. Cost: 30 us beyond the
 * work.
 *
 * In a program that has called mq_notify() a process with the same memory takes
 * the place of the thread: when a thread of the program closes a descriptor of
 * the queue, in whatever table, the kernel cancels that registration. The
 * program then sees the CPU time of that process as that of children.
 *
 * Returns -errno if the program has forbidden itself system calls
 * (ips_sys_quiet), or if the kernel makes no more threads (RLIMIT_NPROC, a pids
 * cgroup, an earlier unshare(CLONE_NEWPID)). The caller then does without.
 * Async-signal-safe.
 */
#ifndef IPS_AGENT_RECORD_OWN_TABLE_H
#define IPS_AGENT_RECORD_OWN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The creator waits for the thread by FUTEX_WAIT_BITSET with this bit set: so
 * tests see that it does not sleep on behalf of the program. */
#define IPS_OWN_TABLE_BITSET 0x49505354

/* False while an image starts (its constructor runs before main()) and in our
 * own programs: ips_with_own_table() then calls the function directly. */
extern bool ips_own_table_on __attribute__((visibility("hidden")));

/* The program is about to call mq_notify(): from now on a process does the
 * work. Returns when no thread does it any more. */
void ips_own_table_by_process(void);

/* Calls function(arg) in a thread that cannot reach the program's descriptors.
 * Returns its result, or -errno if there is no such thread. Nested uses call
 * the function directly. */
long ips_with_own_table(long (*function)(void *), void *arg);

/* Reads at most `bytes` bytes from the start of a file, by
 * ips_with_own_table(). Returns the number of bytes read, or -errno. */
long ips_read_with_own_table(const char *path, void *to, size_t bytes);

/* Is `tid` a thread that ips_with_own_table() made? It may have ended by now.
 */
bool ips_own_table_has(uint32_t tid);
/* In a fork child: forgets the parent's threads. */
void ips_own_table_reset(void);

/* Writes into out[0..bytes): "/proc/", the target of the link /proc/`link`
 * ("self", "thread-self": the caller's own numbers, which may be those of
 * another pid namespace), and `after`. false: it does not fit, or there is no
 * /proc. */
bool ips_build_proc_path(char *out, size_t bytes, const char *link,
                         const char *after);

#endif
