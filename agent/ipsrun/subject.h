/* The report of the subject (ipsrun/subject.c, ipsrun/starts.c) to
 * ipsrun/probe_costs.c, sent whole after each step. */
#ifndef IPS_AGENT_IPSRUN_SUBJECT_H
#define IPS_AGENT_IPSRUN_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/ipsrun/ipsrun.h"

#define IPSRUN_SUBJECT "ipsrun: what a call costs"

/* In this order; ps that the interposer adds. Those that wait come last. */
enum ipsrun_step {
    IPSRUN_CALL,
    IPSRUN_COLD, /* after code, too, not of data alone */
    IPSRUN_FILE,
    IPSRUN_OPEN,
    IPSRUN_PASS,
    IPSRUN_POLL,
    IPSRUN_FORK,
    IPSRUN_FORKED_IMAGE,  /* with its fork */
    IPSRUN_SPAWNED_IMAGE, /* with its spawn */
    IPSRUN_SPARE_FORK,
    IPSRUN_STACK,
    IPSRUN_THREE_BLOCKED, /* a write, a wait that blocks, a read */
    IPSRUN_THREAD,
    IPSRUN_LOCK, /* once there was a thread */
    IPSRUN_STEPS
};

struct ipsrun_said {
    int64_t steps; /* so many of them are known */
    int64_t ps[IPSRUN_STEPS];
};

/* For qsort. */
static inline int ipsrun_by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* --- starts: ipsrun/starts.c --------------------------------------------- */

enum ipsrun_child {
    IPSRUN_CHILD_FORK,
    IPSRUN_CHILD_SPAWNED, /* an image that only begins and ends */
    IPSRUN_CHILD_IMAGE,   /* the same of a fork */
};
bool ipsrun_starts_begin(void);
/* ps that the interposer adds to one, both sides of it, beyond what the agent
 * says there itself; *good is cleared where it failed. spared: there are spare
 * segments. */
int64_t ipsrun_start_added(enum ipsrun_child child, bool spared, bool *good);
/* ... to a thread that only begins and ends. */
int64_t ipsrun_thread_added(bool *good);
/* Is the interposer in this process? */
bool ipsrun_recorded(void);
/* The C library's own function, past the interposer; NULL none. */
void *ipsrun_past_us(const char *name);
/* What such an image does: its exit status; -1: it is `called` otherwise. */
int ipsrun_image(const char *called);

#endif
