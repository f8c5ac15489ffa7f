/*
 * What a question's weighting needs beyond its scenario: where the path ends
 * (the goal), every machine's clock seen from the run's origin, and of what
 * the path's computing was made.
 * Source: ALGORITHMS 1 (weightings, the goal), 6; IPS-14.
 */
#ifndef IPS_MASTER_PATH_WEIGHTING_H
#define IPS_MASTER_PATH_WEIGHTING_H

#include "master/path/engine.h"

/* "" is cpu. */
int weighting_of(const char *text, enum ips_weighting *out,
                 struct ips_err *err) IPS_MUST_USE;
const char *weighting_name(enum ips_weighting w);

/* Sets d->goal*: `object` (a process, or a thread), or where it is "" and the
 * weighting is `wall` the run's command; there may be none (joined runs). */
int weighting_goal(struct query *q, const char *object,
                   struct ips_err *err) IPS_MUST_USE;

/* The machine on whose clock the run begins; sets that part's clock. NULL: no
 * machine is left. */
const struct machine_share *weighting_origin(struct query *q);
/* Sets the clock of every part, where the weighting needs them, with a round
 * of questions where there are several machines; then `after`. */
void weighting_clocks(struct query *q, void (*after)(struct query *q));
/* What the certificate says of them; NULL: none was used. */
const char *weighting_clock_text(const struct path_data *d);

/* Lane `scenario` as part p is asked. */
void weighting_scenario(const struct query *q, const struct machine_share *p,
                        const struct ips_scenario *scenario, Ips__Lane *out);
/* ... and as it is in d->merged. */
struct ips_scenario weighting_merged(const struct query *q,
                                     const struct ips_scenario *scenario);

/* In the worker, of graphs that were fetched raw (LANE_MAIN's weighting `cpu`,
 * with detail): LANE_MAIN is of `w` from now on, d->merged of the views by it
 * of all parts, which stay as they are, d->node_base. d->err says what failed.
 */
int weighting_merge_views(struct query *q, enum ips_weighting w) IPS_MUST_USE;

/* Time off the CPU, between waits, of which no machine's kernel told whether
 * the thread was runnable. */
uint64_t weighting_unknown(const struct query *q);

/* Sets d->on_cpu_ns and its like from the pieces of the main scenario, with a
 * round of questions; then `after`. */
void weighting_split(struct query *q, void (*after)(struct query *q));

/* Sets d->window, when the clocks are known: (from_ns, to_ns] as a question
 * tells it; two times 0: none. */
void weighting_set_window(struct query *q, uint64_t from_ns, uint64_t to_ns);
/* A window since the first event of the machine that the run began on becomes
 * one since the run's origin, as `wall` has it; when the clocks are known. */
void weighting_window(struct query *q, struct path_window *w);

#endif
