/*
 * What the master keeps on disk (STATE/master/master.db): the runs, the
 * machines each was seen on, and the machine and program rows of the
 * intermediate results tables (IPS-8). After a restart the runs are known, and
 * a machine whose slave is not there can be named.
 *
 * Every put is one transaction, committed when it returns. Thread: the loop's.
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

/* All runs of one report, in one transaction; only what changed is written. */
int catalogue_put(struct catalogue *c, const char *machine,
                  Ips__RunState *const *runs, size_t count,
                  struct ips_err *err) IPS_MUST_USE;

struct catalogue_row { /* one run on one machine; strings borrowed */
    const char *run, *machine, *command;
    const char *tags; /* one a line */
    uint64_t created_real_ns;
    bool open, has_root;
    uint64_t processes, threads, events, lost, untraced, torn;
};
/* Rows of one run, or of all where run is NULL, newest run first, machines by
 * name. */
int catalogue_each(struct catalogue *c, const char *run,
                   void (*row)(const struct catalogue_row *row, void *arg),
                   void *arg, struct ips_err *err) IPS_MUST_USE;

/* Of all machines that have the run, as far as they have told. */
struct catalogue_known {
    uint64_t events;
    uint64_t created_real_ns; /* the latest: another run of that name differs */
    bool open;
};
int catalogue_known(struct catalogue *c, const char *run,
                    struct catalogue_known *out,
                    struct ips_err *err) IPS_MUST_USE;

/* Machine and program rows of a run, packed as one MetricsAnswer, and the
 * events they were computed from (0 rows where the run has none). */
int catalogue_put_irt(struct catalogue *c, const char *run, uint64_t events,
                      const Ips__MetricsAnswer *answer,
                      struct ips_err *err) IPS_MUST_USE;
/* NULL where there is none; free with ips__metrics_answer__free_unpacked. */
Ips__MetricsAnswer *catalogue_get_irt(struct catalogue *c, const char *run,
                                      uint64_t *events);

#endif
