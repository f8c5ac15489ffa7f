/*
 * Which rows of an answer are shown, and in which order: --sort, --top and
 * --per, the same for every command that has them. The answer tells how many
 * rows are left out.
 */
#ifndef IPS_CLIENT_BASE_TOP_N_H
#define IPS_CLIENT_BASE_TOP_N_H

#include "client/base/options.h"

/* Sorts by --sort (numbers greatest first, texts alphabetically; -COLUMN
 * reversed). Without --sort, but with --top: by column `fallback`, greatest
 * first. --per machine: each machine's rows separately (column `object` or
 * `machine` tells the machine), machines in the order in which they first
 * appear. IPS_E_USAGE: no such column, or no column of machines. */
int ipsq_top_n(struct ipsq_table *t, const struct ipsq_options *o,
               size_t fallback, uint64_t *left_out,
               struct ips_err *err) IPS_MUST_USE;

/* Index of the column that --sort names, without the leading "-". IPS_E_USAGE:
 * none of `columns`. */
int ipsq_find_column(const struct ipsq_columns *columns, const char *name,
                     size_t *index, struct ips_err *err) IPS_MUST_USE;

/* Reports `count`: as the key "NAME_left_out" in JSON and TSV, as a line in
 * tables if it is not 0. To be called after the table was written. */
void ipsq_left_out(struct ipsq_out *out, const char *name, uint64_t count);

/* What to ask of the master, so that it sends only the rows that are shown.
 * NULL: all rows. */
Ips__Select *ipsq_top_n_ask(const struct ipsq_options *o, Ips__Select *s);
/* The same for rows of procedures. Also NULL if --sort names a column that ipsq
 * computes itself. */
Ips__Select *ipsq_top_n_procedures(const struct ipsq_options *o,
                                   Ips__Select *s);

#endif
