/* What the subject (ipsrun_subject.c) says to who started it (ipsrun_calls.c):
 * the whole of it again after each step. */
#ifndef IPS_AGENT_IPSRUN_SUBJECT_H
#define IPS_AGENT_IPSRUN_SUBJECT_H

#include <stdint.h>

#include "agent/ipsrun.h"

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

#endif
