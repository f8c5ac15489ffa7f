/*
 * Answers look at themselves before they are sent. A rule that is broken makes
 * the answer incomplete, with a gap that says which: no figure of it can be
 * relied on.
 *
 * `why`: the parts of the path are all of it; every finding rests on something,
 * gains no more than what it rests on, and no more than there is. `path`: in
 * `wall`, on one machine, the path to the run's command is as long as that
 * took; in a weighting with waits what is computed is no more than the path; in
 * `cpu` the path without message times is no longer than the run lasted; an
 * interval has its figure in it. `predict`: no shorter than its longest thread
 * and the CPU time under any lock, at the predicted machines' speed; no
 * placement beats the bound of all. `requests`: quantiles are in order.
 */
#ifndef IPS_MASTER_QUERY_SELF_CHECK_H
#define IPS_MASTER_QUERY_SELF_CHECK_H

#include "master/query/certificate.h"

void self_check_why(struct arena *a, struct certificate *c,
                    const Ips__WhyAnswer *answer);
/* `command`: the path ends with the run's command, and nothing is cut off. */
void self_check_path(struct arena *a, struct certificate *c,
                     const Ips__PathAnswer *answer, bool command);
/* `computed_ns`: the path of a run on one machine where messages take no time;
 * IPS_UNMEASURED: not known. Readings of the CPU clock may be off by a percent
 * and a millisecond, and by what was guessed. */
void self_check_computed(struct arena *a, struct certificate *c,
                         const Ips__PathAnswer *answer, uint64_t computed_ns);
/* `least_ns`: predict_least(); `last_ns`: when the last thread ended. */
void self_check_predicted(struct arena *a, struct certificate *c,
                          uint64_t last_ns, uint64_t least_ns);
void self_check_search(struct arena *a, struct certificate *c,
                       const Ips__PredictAnswer *answer);
void self_check_requests(struct arena *a, struct certificate *c,
                         const Ips__RequestsAnswer *answer);

#endif
