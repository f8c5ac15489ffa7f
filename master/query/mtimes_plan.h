/*
 * Which measured message times a question uses: a curve for every pair of its
 * machines that messages cross, and for the inside of each. Where a pair was
 * not measured, another is assumed (mtimes_choose), and said; where none of the
 * pairs was, the question goes without, as if nothing had been measured.
 *
 * Source: DPM-3.
 */
#ifndef IPS_MASTER_QUERY_MTIMES_PLAN_H
#define IPS_MASTER_QUERY_MTIMES_PLAN_H

#include "master/query/query.h"

/* Ends are joined: sets q->gather.calibrated and its text. Fails where the
 * question wants message times and the file of them is damaged. */
int mtimes_plan(struct query *q, struct ips_err *err) IPS_MUST_USE;

/* What part p is told (PeersAsk): nothing unless q->gather.calibrated. Points
 * into the master's table: to be sent at once. */
struct mtimes_curves {
    Ips__MtimeCurve *row, **list;
    size_t count;
};
int mtimes_plan_curves(struct query *q, const struct machine_share *p,
                       struct mtimes_curves *out,
                       struct ips_err *err) IPS_MUST_USE;
void mtimes_curves_release(struct mtimes_curves *c);

/* After the gathering: the message time of a scenario that is `calibrated`, or
 * it is not where nothing is known. */
void mtimes_plan_scenario(const struct query *q, struct ips_scenario *scenario);

#endif
