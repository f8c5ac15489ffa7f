/*
 * Checks answers for contradictions before they are sent. If a rule is
 * violated, no figure of the answer is reliable, so the answer is marked
 * incomplete and the rule is given as the reason.
 *
 *  - `why`: the parts of the path add up to the path. Every finding covers a
 *    part of the path, and gains no more than that part.
 *  - `path`: in `wall`, on one machine, the path to the run's command is as
 *    long as the command took. In a weighting with waits, the computing on the
 *    path is at most the path. In `cpu` the path without message times is at
 *    most the elapsed time of the run. An interval contains its figure.
 *  - `predict`: the time is at least that of the longest thread and the CPU
 *    time under any lock, at the speed of the predicted machines. No placement
 *    beats the lower bound of all placements.
 *  - `requests`, `bottleneck`: quantiles ascend. A thread is not busy for
 *    longer than there were requests, so the rate that it allows is not below
 *    the measured one. No station allows less than the rate that all of them
 *    allow. The parts of requests add up to the requests.
 *  - `waits`: the causes add up to the waits. The activities during the waits
 *    of a group add up to the group. The parts of a machine's core time add up
 *    to the core time.
 *  - `whatif`: an edit gains no more than its part of the path. The path with
 *    the edit plus its gain is the path. None of the next longest paths is
 *    longer than the path.
 *  - `metrics`: the parts of the threads' lifetimes add up to the lifetimes,
 *    and the causes to the waits. In the matrices as much is received as sent.
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
/* Checks that the path of a run on one machine is not longer than the run.
 * `computed_ns`: the length of the path if messages take no time;
 * IPS_UNMEASURED: not known. Tolerates an error of the CPU clock of 1% and 1
 * ms, plus the known error of guessed CPU times. */
void self_check_path_not_above_run(struct arena *a, struct certificate *c,
                                   const Ips__PathAnswer *answer,
                                   uint64_t computed_ns);
/* Checks a prediction. `last_ns`: when the last thread ends in it. `least_ns`:
 * the lower bound from predict_compute_makespan_lower_bound(). */
void self_check_predicted_not_below_bound(struct arena *a,
                                          struct certificate *c,
                                          uint64_t last_ns, uint64_t least_ns);
void self_check_search(struct arena *a, struct certificate *c,
                       const Ips__PredictAnswer *answer);
void self_check_requests_answer(struct arena *a, struct certificate *c,
                                const Ips__RequestsAnswer *answer);
/* Checks one group of a `waits` answer. Groups are sent before the rest of the
 * answer. */
void self_check_wait_group(struct arena *a, struct certificate *c,
                           const Ips__WaitGroup *group);
void self_check_waits(struct arena *a, struct certificate *c,
                      const Ips__WaitsAnswer *answer);
void self_check_whatif(struct arena *a, struct certificate *c,
                       const Ips__WhatifAnswer *answer);
/* Only for an answer about the whole run: in a window, some figures of a row
 * are not defined. */
void self_check_metrics(struct arena *a, struct certificate *c,
                        const Ips__MetricsAnswer *answer);

#endif
