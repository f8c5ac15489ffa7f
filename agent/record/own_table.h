/*
 * In a recorded program, the agent does work that needs a file descriptor in a
 * helper thread that has its own descriptor table.
 *
 * The program owns its descriptor table. It may close any number at any time,
 * also one that we just opened, and open a file of its own under that number:
 * we would then write records into that file. A number that we use for a moment
 * also changes the number that the program's `open` returns. And closing a
 * descriptor drops the program's record locks on that file.
 *
 * The helper is a bare clone(). It runs on a small stack of its own (if more
 * helpers exist than stacks: on its creator's) with its creator's thread-local
 * variables, while the creator waits, with all signals blocked, until the
 * helper is gone. It is a thread and not a process, because the program would
 * see a process's CPU time as that of its own children. The helper starts with
 * the program's table and at once replaces it by an empty one: a copy would
 * keep pipes, locks and ports open that another thread closes meanwhile. Cost:
 * 30 us in addition to the work.
 *
 * In a program that has called mq_notify(), the helper is a process that shares
 * the program's memory: the kernel cancels the registration when a thread of
 * the program closes a descriptor of the queue, even in another table. Such a
 * program sees the helper's CPU time as that of its children.
 *
 * The functions return -errno if the program has forbidden itself system calls
 * (ips_sys_quiet), or if the kernel creates no more threads (RLIMIT_NPROC, a
 * pids cgroup, an earlier unshare(CLONE_NEWPID)). The caller then does without
 * the result. Async-signal-safe.
 */
#ifndef IPS_AGENT_RECORD_OWN_TABLE_H
#define IPS_AGENT_RECORD_OWN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The creator waits for the helper by FUTEX_WAIT_BITSET with this bit set, by
 * which tests recognise that it does not sleep on behalf of the program. */
#define IPS_OWN_TABLE_BITSET 0x49505354

/* False while an image starts (its constructor runs before main()) and in our
 * own programs: ips_run_with_own_fd_table() then calls the function directly.
 */
extern bool ips_own_table_on __attribute__((visibility("hidden")));

/* Call this before the program calls mq_notify(): from now on the helper is a
 * process. Returns when no helper thread is left. */
void ips_own_fd_table_use_process_not_threads(void);

/* Calls function(arg) in a helper, which cannot reach the program's
 * descriptors. Returns the function's result, or -errno if no helper can be
 * created. A nested use calls the function directly. */
long ips_run_with_own_fd_table(long (*function)(void *), void *arg);

/* Reads at most `bytes` bytes from the start of a file, by
 * ips_run_with_own_fd_table(). Returns the number of bytes read, or -errno. */
long ips_read_file_with_own_fd_table(const char *path, void *to, size_t bytes);

/* Is `tid` a helper thread of ips_run_with_own_fd_table()? It may have ended by
 * now.
 */
bool ips_own_fd_table_is_helper_tid(uint32_t tid);
/* Call it in a fork child: discards the parent's helpers. */
void ips_own_fd_table_reset_after_fork(void);

/* Writes into out[0..bytes): "/proc/", the target of the link /proc/`link`
 * ("self" or "thread-self"; it names the caller by the numbers of the pid
 * namespace that /proc shows), and `after`. Returns false if the path does not
 * fit or there is no /proc. */
bool ips_build_proc_path_resolving_link(char *out, size_t bytes,
                                        const char *link, const char *after);

#endif
