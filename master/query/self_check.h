/*
 * Checks answers for contradictions before they are sent. A violated rule
 * makes the answer incomplete, with a gap that names the rule, because then no
 * figure of the answer is reliable.
 *
 *  - `why`: the parts of the path add up to the whole. Every finding rests on
 *    something, and gains no more than that and no more than the total.
 *  - `path`: in `wall`, on one machine, the path to the run's command is as
 *    long as the command took. In a weighting with waits, computing is at most
 *    the path. In `cpu` the path without message times is at most the elapsed
 *    time of the run. An interval contains its figure.
 *  - `predict`: the time is at least that of the longest thread and the CPU
 *    time under any lock, at the speed of the predicted machines. No placement
 *    beats the lower bound of all placements.
 *  - `requests`: quantiles ascend.
 */
#ifndef IPS_MASTER_QUERY_SELF_CHECK_H
#define IPS_MASTER_QUERY_SELF_CHECK_H

#include "master/query/certificate.h"

void self_check_why(struct arena *a, struct certificate *c,
                    const Ips__WhyAnswer *answer);
/* Checks a `path` answer. `command`: the path covers all of the time that the
 * run's command took, so the two must be equal. */
void self_check_path(struct arena *a, struct certificate *c,
                     const Ips__PathAnswer *answer, bool command);
/* `computed_ns`: the length of the path of a run on one machine if messages
 * take no time; IPS_UNMEASURED: not known. Tolerates an error of the CPU clock
 * of 1% and 1 ms, plus the known error of guessed CPU times. */
void self_check_computed(struct arena *a, struct certificate *c,
                         const Ips__PathAnswer *answer, uint64_t computed_ns);
/* Checks a prediction. `last_ns`: when the last thread ends in it. `least_ns`:
 * the lower bound from predict_lower_bound(). */
void self_check_predicted(struct arena *a, struct certificate *c,
                          uint64_t last_ns, uint64_t least_ns);
void self_check_search(struct arena *a, struct certificate *c,
                       const Ips__PredictAnswer *answer);
void self_check_requests(struct arena *a, struct certificate *c,
                         const Ips__RequestsAnswer *answer);

#endif
