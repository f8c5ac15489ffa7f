/* Starting a daemon for whoever runs none, as ipsrun and ipsq do; and children
 * that nobody learns of. */
#ifndef IPS_COMMON_DAEMON_H
#define IPS_COMMON_DAEMON_H

#include "common/err.h"

/* Runs run(arg) in a child, and waits until it has ended. What it took is not
 * in getrusage(RUSAGE_CHILDREN), which the program that ipsrun becomes may ask:
 * SIGCHLD is ignored meanwhile, when the kernel adds up nothing. It is not
 * where there are children already, from before this process executed us: they
 * are waited for by somebody. -1 with errno: no process could be made. */
int ips_run_uncounted(void (*run)(void *), void *arg);

/* Runs argv[0] with argv in the background: not our child, of no terminal, in
 * /, with no descriptor of ours, no signal ignored or blocked, umask 077, and
 * without the environment of a measured run, so that it is not measured itself.
 * What it prints goes behind `log`, or nowhere if that cannot be written; so
 * does that argv[0] could not be run. 0, or < 0 with `err`: no process could be
 * made. */
int ips_daemon_start(char *const argv[], const char *log, struct ips_err *err);

#endif
