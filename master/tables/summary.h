/*
 * The rows of a run and its machines: the master's own intermediate results
 * table (IPS-8), made from the slaves' tables and kept in the catalogue.
 */
#ifndef IPS_MASTER_TABLES_SUMMARY_H
#define IPS_MASTER_TABLES_SUMMARY_H

#include "master/base/arena.h"
#include "master/query/certificate.h"
#include "master/query/query.h"

/* Pairs of processes, and processes, with the most bytes; no more is summary.
 */
#define SUMMARY_PAIRS 1024

struct summary {
    struct arena a;
    struct certificate certificate;
    Ips__MetricsAnswer answer; /* points to the certificate */
};

/* From what was gathered (GATHER_TABLE | GATHER_PEERS). Release it whatever is
 * returned. */
int summary_make(struct query *q, struct summary *s,
                 struct ips_err *err) IPS_MUST_USE;
/* Into the catalogue, where no machine is missing. */
int summary_keep(struct query *q, const struct summary *s,
                 struct ips_err *err) IPS_MUST_USE;
void summary_release(struct summary *s);

#endif
