/*
 * Chooses the measured message times of a question: a curve for every pair of
 * its machines that exchange messages, and for messages within each machine.
 * For an unmeasured pair the curve of another pair is assumed
 * (message_times_find_pair_or_substitute) and the answer says so. If none of
 * the pairs was measured, the question uses no measured times.
 *
 * Source: DPM-3.
 */
#ifndef IPS_MASTER_QUERY_MTIMES_PLAN_H
#define IPS_MASTER_QUERY_MTIMES_PLAN_H

#include "master/query/query.h"

/* To be called when the ends are joined: sets q->gather.calibrated, whether
 * measured times are used, and q->gather.message_times_text. Fails if the
 * question needs message times and their file is damaged. */
int message_times_plan_describe_and_set_calibrated(
    struct query *q, struct ips_err *err) IPS_MUST_USE;

/* The curves of message times that are sent to one slave (PeersAsk); none
 * unless q->gather.calibrated. They point into the master's table, so they must
 * be sent at once. */
struct message_times_curves {
    Ips__MessageTimeCurve *row, **list;
    size_t count;
};
int message_times_plan_make_curves(struct query *q,
                                   const struct machine_share *p,
                                   struct message_times_curves *out,
                                   struct ips_err *err) IPS_MUST_USE;
void message_times_curves_release(struct message_times_curves *c);

/* To be called after the gathering. If the slaves got measured times
 * (q->gather.calibrated), a `calibrated` scenario uses these, multiplied only
 * by its own scale; otherwise it becomes uncalibrated. */
void message_times_plan_replace_formula_if_measured(
    const struct query *q, struct ips_scenario *scenario);

#endif
