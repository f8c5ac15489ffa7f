/*
 * Fits a table to the terminal: first leaves out columns that can be spared,
 * then cuts long texts in the middle. Numbers are never cut. Pure.
 */
#ifndef IPS_CLIENT_BASE_TABLE_FIT_H
#define IPS_CLIENT_BASE_TABLE_FIT_H

#include <stdbool.h>

#include "client/base/table.h"

#define IPSQ_GAP 2 /* blanks between two columns */

#define IPSQ_MARK 2 /* columns of the mark of a cut, at most */

/* Texts are cut to no less than this width, or to half of it if the table
 * is still too wide. */
#define IPSQ_TEXT_MIN 16

/* Reduces t->widths until the table is at most `columns` characters wide, and
 * marks in t->hidden the columns left out. t->cuts[c]: the texts of column c
 * may be cut; `empty[c]`: column c has no value in any row. Columns are left
 * out in this order: empty ones, those in t->spare_columns, then number columns
 * from the right. The first column and text columns stay. If that is still too
 * wide, texts are cut to half of IPSQ_TEXT_MIN. The table may then still be
 * wider than the terminal. */
void ipsq_table_fit(struct ipsq_table *t, const bool *empty, unsigned columns);

/* Returns the columns that a text which ends with a figure and its unit ("for a
 * lock 1.5 ms") needs so that the figure stays; 0: it ends with none. */
unsigned ipsq_width_of_last_figure(const char *text);

/* Cuts `text` in the middle to at most `width` columns, but never within a
 * number, nor into the figure with which it ends. Frees `text` and returns a
 * malloc'd result, or returns `text` itself. The cut is marked by an ellipsis
 * character if `utf8`, else by two dots. */
char *ipsq_shorten_text(char *text, unsigned width, bool utf8);

#endif
