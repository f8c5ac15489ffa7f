/* For ipsrun and ipsq: starts a daemon for a user who runs none, and runs code
 * in a child process whose CPU time is not added to the caller's. */
#ifndef IPS_COMMON_DAEMON_H
#define IPS_COMMON_DAEMON_H

#include "common/err.h"

/* Runs run(arg) in a child process and waits until it has ended. The child's
 * CPU time does not appear in getrusage(RUSAGE_CHILDREN), which the program
 * that ipsrun executes may read: SIGCHLD is ignored meanwhile, and then the
 * kernel does not add it. But if this process already has other children (from
 * before it executed this program), SIGCHLD is not ignored, because some code
 * may wait for them. Returns 0; -1 with errno: fork failed. */
int ips_run_outside_child_rusage(void (*run)(void *), void *arg);

/* Runs argv[0] with argv as a daemon: not our child, without a terminal, in /,
 * with none of our descriptors, no signal ignored or blocked, umask 077, and
 * without the environment of a recorded run, so it is not recorded itself. Its
 * output is appended to the file `log`, or discarded if that cannot be opened;
 * so is the message if argv[0] cannot be executed. Returns 0, or < 0 with
 * `err`: fork failed. */
int ips_daemon_start_detached(char *const argv[], const char *log,
                              struct ips_err *err);

#endif
