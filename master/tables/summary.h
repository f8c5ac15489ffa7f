/*
 * The rows of a run and its machines: the master's own intermediate results
 * table (IPS-8). It is made from the slaves' tables and stored in the
 * catalogue.
 */
#ifndef IPS_MASTER_TABLES_SUMMARY_H
#define IPS_MASTER_TABLES_SUMMARY_H

#include "master/base/arena.h"
#include "master/query/certificate.h"
#include "master/query/query.h"

/* At most so many pairs of processes, and so many processes, are kept: those
 * with the most bytes. */
#define SUMMARY_PAIRS 1024

struct summary {
    struct arena a;
    struct certificate certificate;
    /* answer.certificate points to certificate.msg */
    Ips__MetricsAnswer answer;
};

/* Makes the summary from gathered data (GATHER_TABLE | GATHER_PEERS). The
 * caller must release it whatever is returned. */
int summary_make(struct query *q, struct summary *s,
                 struct ips_err *err) IPS_MUST_USE;
/* Stores the summary in the catalogue, unless a machine is missing. */
int summary_store_unless_machines_missing(struct query *q,
                                          const struct summary *s,
                                          struct ips_err *err) IPS_MUST_USE;
void summary_release(struct summary *s);

#endif
