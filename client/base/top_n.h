/*
 * Selects and sorts the rows of an answer by --sort, --top and --per, in the
 * same way for every command that has these options. The answer says how many
 * rows are left out.
 */
#ifndef IPS_CLIENT_BASE_TOP_N_H
#define IPS_CLIENT_BASE_TOP_N_H

#include "client/base/options.h"

/* Sorts the rows by --sort (numbers greatest first, texts alphabetically;
 * -COLUMN reversed) and keeps the first --top of them. With --top but without
 * --sort, sorts by column `fallback`, greatest first. With --per machine, does
 * this for the rows of each machine separately (the column `object` or
 * `machine` names the machine); the machines stay in the order in which they
 * first appear. *left_out: number of rows removed. IPS_E_USAGE: no such column,
 * or no column of machines. */
int ipsq_sort_and_keep_top(struct ipsq_table *t, const struct ipsq_options *o,
                           size_t fallback, uint64_t *left_out,
                           struct ips_err *err) IPS_MUST_USE;

/* Finds the column that --sort names; `name` comes without the leading "-".
 * IPS_E_USAGE: `name` is none of `columns`. */
int ipsq_find_column(const struct ipsq_columns *columns, const char *name,
                     size_t *index, struct ips_err *err) IPS_MUST_USE;

/* Reports that `count` rows of the table `name` are left out: as the key
 * "NAME_left_out" in JSON and TSV; in the table format as a line, if `count` is
 * not 0. Called after the table was written. */
void ipsq_put_left_out_count(struct ipsq_out *out, const char *name,
                             uint64_t count);

/* Fills `s` so that the master sends only the rows that --sort, --top and --per
 * select, and returns it. NULL: the master has to send all rows. */
Ips__Select *ipsq_top_n_fill_select(const struct ipsq_options *o,
                                    Ips__Select *s);
/* Fills `s` for rows of procedures, as ipsq_top_n_fill_select does for other
 * rows. Also returns NULL if the master cannot select the rows, for example by
 * a column that ipsq computes itself. */
Ips__Select *ipsq_top_n_fill_procedure_request(const struct ipsq_options *o,
                                               Ips__Select *s);

#endif
