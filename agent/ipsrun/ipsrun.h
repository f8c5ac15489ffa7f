/*
 * ipsrun makes or joins a run, makes sure that a slave drains its pool, then
 * *becomes* the command (exec), so that status, signals and terminal are the
 * command's own. On a terminal it stays, as the parent of the command. Options:
 * ipsrun/options.c; private daemons: ipsrun/daemons.c; the parent:
 * ipsrun/parent.c; the order of the steps: ipsrun.c.
 */
#ifndef IPS_AGENT_IPSRUN_IPSRUN_H
#define IPS_AGENT_IPSRUN_IPSRUN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/pool/pool.h"
#include "common/err.h"
#include "common/paths.h"

/* Exit statuses in addition to the command's own; 126 and 127 mean the same as
 * in a shell. */
#define IPSRUN_USAGE 2
#define IPSRUN_FAILED 125

struct ipsrun_options {
    const char *name; /* --name; NULL = generated */
    const char *join; /* --join: the run to join, or NULL */
    char tags[256];   /* each tag ends with NUL; an empty tag ends the list */
    char pool[IPS_PATH_BYTES];
    char state[IPS_PATH_BYTES];
    char master[IPS_PATH_BYTES];
    char machine[64];
    uint32_t procedures;  /* enum ips_procedures; --procedures */
    uint32_t sample_us;   /* --rate: us of CPU time between two samples */
    uint32_t budget_ppm;  /* --budget: ppm of the CPU time */
    uint32_t on_full;     /* enum ips_on_full */
    uint64_t quota_bytes; /* --quota; 0: the pool's own limit */
    enum ips_cpu_mode cpu_mode;
    enum ips_locks locks;
    bool receive_stamps;
    bool no_delays;
    bool quiet;
    bool no_daemons;
    bool exec;        /* --exec: become the command on a terminal, too */
    bool insecure;    /* --insecure: passed on to slave and ipsq */
    bool state_given; /* --state was given */
    bool master_set;  /* --master was given: other machines may report to that
                         master */
    char **command;   /* ends with NULL; points into argv */
};

/* Fills `o`. Returns -1 to continue, else the exit status to end with (after
 * --help, --version or a message). */
int ipsrun_parse_options(struct ipsrun_options *o, int argc, char **argv);

/* If standard error is a terminal, forks: the child gets -1 and becomes the
 * command; the parent waits for its end, prints a line and returns the exit
 * status to end with (ipsrun/parent.c). If the command dies by a signal, the
 * parent dies by it, too. Returns -1 without a new process if standard error is
 * no terminal, with --exec or --quiet, if ipsrun is process 1, or if fork
 * fails. */
int ipsrun_fork_and_wait_if_on_terminal(const struct ipsrun_options *o,
                                        const char *name);

/* Prints a message on standard error; returns IPSRUN_FAILED. */
int ipsrun_print_failure(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* --join: waits for a while until the run exists, on this machine or at the
 * master. Returns -1 to continue: the run exists, or the master did not answer
 * (then a message says so). Else prints a message and returns the exit status
 * to end with. */
int ipsrun_wait_until_run_to_join_exists(const struct ipsrun_options *o);

/* Changes the path in `library` to one that the loader accepts for every user
 * of the run (ipsrun/library.c). A path with a blank or a colon is replaced by
 * the path of a symbolic link in the pool. If root runs ipsrun and other users
 * cannot reach the library but can reach the pool, the path is replaced by that
 * of a copy in the pool. Returns 0, or prints a message and returns the exit
 * status. */
int ipsrun_make_library_loadable(char library[IPS_PATH_BYTES],
                                 const char *pool);

/* Starts a private slave and a private master, unless one is running. They are
 * detached: they have none of our descriptors, and their output goes to
 * STATE/slave.log and STATE/master.log. The caller holds pool.lock. A failure
 * is not fatal; it is printed on standard error (not with --quiet). */
void ipsrun_start_missing_daemons(const struct ipsrun_options *o);

/* Tests whether marks (agent/record/cpu.h) show every thread switch, and
 * measures the probe costs (ipsrun/probe.c, then ipsrun/probe_costs.c). Takes
 * about 0.7 s, in child processes. Returns false if there is no result. */
bool ipsrun_measure_probes(const struct ips_clock *clock,
                           struct ips_probe_measurements *out);

/* Measures the probe costs again, now with the whole interposer, and overwrites
 * the costs in `m`, which cover the recording core alone
 * (ipsrun/probe_costs.c). A cost that cannot be measured again keeps its value.
 */
void ipsrun_measure_interposer_probe_costs(const struct ips_clock *clock,
                                           struct ips_probe_measurements *m);

/* Call this first in main(), with argv[0] as `called`. If
 * ipsrun_measure_interposer_probe_costs started this process as its subject,
 * makes the measurement and returns the exit status; else returns -1. */
int ipsrun_run_if_subject(const char *called);

#endif
