/*
 * The master's data on disk (STATE/master/master.db): the runs, the machines
 * on which each run was seen, and the machine and program rows of the
 * intermediate results tables (IPS-8). So the master knows the runs after a
 * restart, and can name a machine whose slave is not connected.
 *
 * Each function that writes is one transaction, committed before the call
 * returns. Thread: the event loop's.
 */
#ifndef IPS_MASTER_BASE_CATALOGUE_H
#define IPS_MASTER_BASE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/frame.h"

struct catalogue;

int catalogue_open(const char *dir, struct catalogue **out,
                   struct ips_err *err) IPS_MUST_USE;
void catalogue_close(struct catalogue *c);

/* Stores all runs of one report in one transaction. Writes only runs that
 * changed, and skips runs with an invalid name. */
int catalogue_store_changed_runs(struct catalogue *c, const char *machine,
                                 Ips__RunState *const *runs, size_t count,
                                 struct ips_err *err) IPS_MUST_USE;

/* one run on one machine; its strings are valid only during the callback */
struct catalogue_row {
    const char *run, *machine, *command;
    const char *tags; /* one tag per line */
    uint64_t created_real_ns;
    bool open, has_root;
    uint64_t processes, threads, events, lost, untraced, torn;
};
/* Calls `row` for each row of one run, or of all runs if `run` is NULL: the
 * newest run first, machines by name. */
int catalogue_for_each_row(struct catalogue *c, const char *run,
                           void (*row)(const struct catalogue_row *row,
                                       void *arg),
                           void *arg, struct ips_err *err) IPS_MUST_USE;

/* Sums over all machines that have the run, as of their last reports. */
struct catalogue_run_sum {
    uint64_t events;
    /* the latest that a machine reported; it changes if another run is recorded
     * under the same name */
    uint64_t created_real_ns;
    bool open;
};
int catalogue_sum_run(struct catalogue *c, const char *run,
                      struct catalogue_run_sum *out,
                      struct ips_err *err) IPS_MUST_USE;

/* Stores the machine and program rows of a run, packed as one MetricsAnswer,
 * and the number of events from which they were computed. */
int catalogue_store_metrics_answer(struct catalogue *c, const char *run,
                                   uint64_t events,
                                   const Ips__MetricsAnswer *answer,
                                   struct ips_err *err) IPS_MUST_USE;
/* Returns the rows that catalogue_store_metrics_answer() stored, and sets
 * *events to their number of events. NULL: nothing usable is stored, and
 * *events may be unset. Free the result with
 * ips__metrics_answer__free_unpacked. */
Ips__MetricsAnswer *catalogue_load_metrics_answer(struct catalogue *c,
                                                  const char *run,
                                                  uint64_t *events);

#endif
