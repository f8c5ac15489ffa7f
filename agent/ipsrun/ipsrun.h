/*
 * ipsrun: makes or joins a run, sees to it that somebody drains its pool,
 * then *becomes* the command (exec), so that status, signals and terminal are
 * the command's own; on a terminal it stays as the parent. Options
 * (ipsrun/options.c), private daemons (ipsrun/daemons.c), the parent
 * (ipsrun/parent.c), the order of things (ipsrun.c).
 */
#ifndef IPS_AGENT_IPSRUN_IPSRUN_H
#define IPS_AGENT_IPSRUN_IPSRUN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/pool/pool.h"
#include "common/err.h"
#include "common/paths.h"

/* Exit statuses besides the command's own; 126 and 127 as a shell's. */
#define IPSRUN_USAGE 2
#define IPSRUN_FAILED 125

struct ipsrun_options {
    const char *name; /* --name; NULL = made up */
    const char *join; /* --join */
    char tags[256];   /* NUL separated, ends with an empty one */
    char pool[IPS_PATH_BYTES];
    char state[IPS_PATH_BYTES];
    char master[IPS_PATH_BYTES];
    char machine[64];
    uint32_t procedures;  /* enum ips_procedures; --procedures */
    uint32_t sample_us;   /* --rate */
    uint32_t budget_ppm;  /* --budget */
    uint32_t on_full;     /* enum ips_on_full */
    uint64_t quota_bytes; /* 0 = what the pool gives */
    enum ips_cpu_mode cpu_mode;
    enum ips_locks locks;
    bool receive_stamps;
    bool no_delays;
    bool quiet;
    bool no_daemons;
    bool exec;        /* --exec: never stay as the parent */
    bool insecure;    /* --insecure: for the private slave */
    bool state_given; /* --state */
    bool master_set;  /* --master: other machines may report to it */
    char **command;   /* NULL ended; borrowed from argv */
};

/* Fills `o`. Returns -1 to go on, else the exit status to end with (after
 * --help, --version or a message). */
int ipsrun_options_parse(struct ipsrun_options *o, int argc, char **argv);

/* Where standard error is a terminal, forks: -1 in the child, which goes on to
 * become the command, or where there is nothing to stay for; in the parent the
 * exit status to end with, after the command has ended and a line was printed
 * (ipsrun/parent.c). The command's death by a signal kills the parent, too. */
int ipsrun_stay(const struct ipsrun_options *o, const char *name);

/* Says it on standard error; IPSRUN_FAILED. */
int ipsrun_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* --join: is there such a run, here or at the master? -1 to go on, also where
 * that cannot be known (which is said); else the exit status to end with. */
int ipsrun_join_check(const struct ipsrun_options *o);

/* Turns the library's path into one that the loader takes, for every user of
 * the run (ipsrun/library.c): a path with a blank or a colon becomes a link in
 * the pool's root, and for root a library that other users cannot reach a copy
 * there. 0, else the exit status, and it is said. */
int ipsrun_loadable(char library[IPS_PATH_BYTES], const char *pool);

/* Starts what is missing of a private slave and master, detached: they have
 * none of our descriptors, their output goes to STATE/slave.log and
 * master.log. The caller holds pool.lock. What could not be started is said on
 * standard error (not if quiet); never fatal. */
void ipsrun_daemons(const struct ipsrun_options *o);

/* Tries marks and measures the probes (ipsrun/probe.c, then
 * ipsrun/probe_costs.c): some 0.7 s, in children. false = nothing was learnt.
 */
bool ipsrun_measure(const struct ips_clock *clock, struct ips_measured *out);

/* What the interposer as a whole costs, into `m`, which has the costs of the
 * core alone (ipsrun/probe_costs.c). */
void ipsrun_measure_calls(const struct ips_clock *clock,
                          struct ips_measured *m);

/* First thing in main: the exit status where ipsrun was started by
 * ipsrun_measure_calls, `called` so; else -1. */
int ipsrun_subject(const char *called);

#endif
