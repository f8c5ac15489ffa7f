/*
 * Two things that `ipsq path` can print besides the longest path: the slack of
 * everything else, and the next longest paths.
 */
#ifndef IPS_CLIENT_BASE_PATH_MORE_H
#define IPS_CLIENT_BASE_PATH_MORE_H

#include "client/base/command.h"

#define IPSQ_PATH_MORE_HELP                                                    \
    "--slack: SLACK is the time by which one piece of an object may "          \
    "grow before the path grows; it is 0 on a longest path. NEAR is "          \
    "the object's time in pieces with a slack of at most a hundredth "         \
    "of the path: these become critical next when the path becomes "           \
    "shorter. --next K: the K longest paths, one for each set of "             \
    "processes (--by procedure: of procedures) on them.\n"

/* Asks the master for slacks (--slack) and the next longest paths (--next), as
 * `o` requests. *answer belongs to the session. */
int ipsq_ask_slacks_and_next_paths(struct ipsq_session *s,
                                   const struct ipsq_options *o,
                                   const Ips__Lane *scenario, char *run,
                                   const Ips__WhatifAnswer **answer,
                                   struct ips_err *err) IPS_MUST_USE;
/* Writes the answer as tables. `top`: greatest number of slacks of each kind;
 * 0: all. */
void ipsq_put_slacks_and_next_paths(struct ipsq_out *out,
                                    const struct ipsq_options *o,
                                    const Ips__WhatifAnswer *a, uint64_t top);

#endif
