/*
 * Sets the data that a weighting needs in addition to the scenario of a
 * question: where the path ends (the goal), every machine's clock relative to
 * the run's origin, and how the computing on the path divides into running and
 * waiting for a CPU. Source: ALGORITHMS 1 (weightings, the goal), 6; IPS-14.
 */
#ifndef IPS_MASTER_PATH_WEIGHTING_H
#define IPS_MASTER_PATH_WEIGHTING_H

#include "master/path/engine.h"

/* Parses the name of a weighting: "cpu", "sched" or "wall"; "" means cpu. */
int weighting_parse(const char *text, enum ips_weighting *out,
                    struct ips_err *err) IPS_MUST_USE;
const char *weighting_name(enum ips_weighting w);

/* Sets d->goal*: the end of `object` (a process or a thread). If `object` is
 * "" and the weighting is `wall`, the goal is the run's command; a joined run
 * may have none. */
int weighting_set_goal(struct query *q, const char *object,
                       struct ips_err *err) IPS_MUST_USE;

/* Returns the machine whose clock defines the start of the run, and sets that
 * machine's clock. NULL: no machine is left. */
const struct machine_share *weighting_set_origin_clock(struct query *q);
/* Sets the clock of every machine if the weighting needs the clocks, then calls
 * `after`. With several machines this takes a round of questions. */
void weighting_align_clocks_if_needed(struct query *q,
                                      void (*after)(struct query *q));
/* Returns the certificate's text about the alignment of clocks; NULL: no clocks
 * were aligned. */
const char *weighting_clock_alignment_text(const struct path_data *d);

/* Writes `scenario` in the form that is sent to the slave of `p`. */
void weighting_write_scenario(const struct query *q,
                              const struct machine_share *p,
                              const struct ips_scenario *scenario,
                              Ips__Lane *out);
/* Returns `scenario` with the goal as a node of d->merged. */
struct ips_scenario
weighting_scenario_with_merged_goal(const struct query *q,
                                    const struct ips_scenario *scenario);

/* In the worker, for graphs that were fetched raw (SCENARIO_MAIN has the
 * weighting `cpu`, with detail). Switches SCENARIO_MAIN to the weighting `w`,
 * and makes d->merged and d->node_base from views of all machines' graphs in
 * that weighting. The machines' graphs stay unchanged. On failure d->err has
 * the reason. */
int weighting_switch_and_merge_views(struct query *q,
                                     enum ips_weighting w) IPS_MUST_USE;

/* Returns the time in ns, summed over all machines, for which threads were off
 * the CPU outside recorded waits and the kernel's run delay is not known. */
uint64_t weighting_unattributed_delay_ns(const struct query *q);

/* Asks the slaves how the computing of the main scenario's pieces divides into
 * running and waiting for a CPU, and sets d->on_cpu_ns and the related sums;
 * then calls `after`. In the weighting `cpu` it only calls `after`. */
void weighting_fetch_computing_split(struct query *q,
                                     void (*after)(struct query *q));

/* Sets d->window to (from_ns, to_ns] as the question gives it (both 0: no
 * window); in `wall` converts it to times since the run's origin. To be called
 * when the clocks are known. */
void weighting_set_window(struct query *q, uint64_t from_ns, uint64_t to_ns);
/* Converts a window relative to the first event of the run's first machine to
 * one relative to the run's origin, which `wall` needs. To be called when the
 * clocks are known. */
void weighting_shift_window_to_run_start(struct query *q,
                                         struct path_window *w);

#endif
