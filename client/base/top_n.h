/*
 * Which rows of an answer are shown, and in which order: --sort, --top and
 * --per, the same for every command that has them. What is left out is said.
 */
#ifndef IPS_CLIENT_BASE_TOP_N_H
#define IPS_CLIENT_BASE_TOP_N_H

#include "client/base/options.h"

/* By --sort (numbers greatest first, texts in order; -COLUMN the other way
 * round); without it, where there is a --top, by column `fallback`, greatest
 * first. --per machine: each machine's rows for themselves (column `object` or
 * `machine` tells which), machines in the order they come in. IPS_E_USAGE: no
 * such column, or no machines. */
int ipsq_top_n(struct ipsq_table *t, const struct ipsq_options *o,
               size_t fallback, uint64_t *left_out,
               struct ips_err *err) IPS_MUST_USE;

/* The column of --sort `name`, without "-" before it. IPS_E_USAGE: none of
 * these. */
int ipsq_find_column(const struct ipsq_columns *columns, const char *name,
                     size_t *index, struct ips_err *err) IPS_MUST_USE;

/* Says it: the key "NAME_left_out" in JSON and TSV, a line in tables where
 * there are any. After the table was written. */
void ipsq_left_out(struct ipsq_out *out, const char *name, uint64_t count);

/* Asks the master for no more than what is shown of the rows. NULL: all. */
Ips__Select *ipsq_top_n_ask(const struct ipsq_options *o, Ips__Select *s);
/* The same for rows of procedures: NULL also where --sort is by a column that
 * is made here. */
Ips__Select *ipsq_top_n_procedures(const struct ipsq_options *o,
                                   Ips__Select *s);

#endif
