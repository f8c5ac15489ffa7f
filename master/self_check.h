/*
 * Answers look at themselves before they are sent. A rule that is broken makes
 * the answer incomplete, with a gap that says which: no figure of it can be
 * relied on.
 *
 * `why`: the parts of the path are all of it; every finding rests on something,
 * gains no more than what it rests on, and no more than there is. `path`: in
 * `wall`, on one machine, the path to the run's command is as long as that
 * took; in a weighting with waits what is computed is no more than the path; an
 * interval has its figure in it.
 *
 * Not looked at: whether the quiet path is longer than the one that was. It is
 * in some runs, by message times and clocks, and by more CPU time than elapsed
 * time in a record.
 */
#ifndef IPS_MASTER_SELF_CHECK_H
#define IPS_MASTER_SELF_CHECK_H

#include "master/certificate.h"

void self_check_why(struct arena *a, struct certificate *c,
                    const Ips__WhyAnswer *answer);
/* `command`: the path ends with the run's command, and nothing is cut off. */
void self_check_path(struct arena *a, struct certificate *c,
                     const Ips__PathAnswer *answer, bool command);

#endif
