/* The report that the subject (ipsrun/subject.c, ipsrun/starts.c) sends to
 * ipsrun/probe_costs.c. It sends the whole report again after each step. */
#ifndef IPS_AGENT_IPSRUN_SUBJECT_H
#define IPS_AGENT_IPSRUN_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/ipsrun/ipsrun.h"

#define IPSRUN_SUBJECT "ipsrun: what a call costs"

/* The steps in the order in which they are made. Each measures the ps that the
 * interposer adds to a call or start. Steps that wait come last. */
enum ipsrun_step {
    IPSRUN_CALL,
    IPSRUN_COLD, /* a call after other code and data filled the caches
                    (IPSRUN_CALL: other data only) */
    IPSRUN_FILE,
    IPSRUN_OPEN,
    IPSRUN_PASS,
    IPSRUN_POLL,
    IPSRUN_FORK,
    IPSRUN_FORKED_IMAGE,  /* a fork child that execs, fork included */
    IPSRUN_SPAWNED_IMAGE, /* a spawned program, spawn included */
    IPSRUN_SPARE_FORK,
    IPSRUN_STACK,
    IPSRUN_THREE_BLOCKED, /* a write, a wait that blocks, a read */
    IPSRUN_THREAD,
    IPSRUN_LOCK, /* measured after a thread was created */
    IPSRUN_STEPS
};

struct ipsrun_step_costs {
    int64_t steps; /* number of steps that are complete */
    int64_t ps[IPSRUN_STEPS];
};

/* Compares two int64_t, for qsort. */
static inline int ipsrun_compare_i64(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* --- starts: ipsrun/starts.c --------------------------------------------- */

enum ipsrun_start_kind {
    IPSRUN_CHILD_FORK,
    IPSRUN_CHILD_SPAWNED, /* a spawned image that ends at once */
    IPSRUN_CHILD_IMAGE,   /* a fork child execs an image that ends at once */
};
bool ipsrun_prepare_start_measuring(void);
/* Returns the ps that the interposer adds to one start, in parent and child
 * together, beyond what the agent itself reports for it; clears *good on
 * failure. `spared`: the starts use spare segments. */
int64_t ipsrun_measure_start_added_ps(enum ipsrun_start_kind child, bool spared,
                                      bool *good);
/* Returns the ps that the interposer adds to a thread, from its creation to its
 * end; clears *good on failure. */
int64_t ipsrun_measure_thread_added_ps(bool *good);
/* Is the interposer loaded in this process? */
bool ipsrun_is_itself_recorded(void);
/* Returns the C library's own function `name`, not the interposer's; NULL if it
 * is not found. */
void *ipsrun_find_real_libc_function(const char *name);
/* If `called` (argv[0]) shows that this process is the empty program whose
 * start is measured, does what a small program does at its end and returns its
 * exit status, which encodes the overhead that its agent reported
 * (ipsrun/starts.c). Else returns -1. */
int ipsrun_run_if_called_as_empty_program(const char *called);

#endif
