/*
 * A table that is wider than the terminal: columns that can be spared are left
 * out, then long texts are cut in the middle. Numbers are never cut. Pure.
 */
#ifndef IPS_CLIENT_BASE_TABLE_FIT_H
#define IPS_CLIENT_BASE_TABLE_FIT_H

#include <stdbool.h>

#include "client/base/table.h"

#define IPSQ_GAP 2       /* blanks between two columns */
#define IPSQ_TEXT_MIN 16 /* columns that a cut text has at least */

/* Reduces t->widths to at most `columns` in all, and says in t->hidden what is
 * left out. t->cuts[c]: the texts of column c may be cut;
 * `empty[c]`: no row has anything there. Columns go in this
 * order: empty ones, those of t->spare, then numbers from the right; the
 * first one and texts stay. Where even that is too wide, texts get half
 * of IPSQ_TEXT_MIN, and the table may be wider than the terminal. */
void ipsq_table_fit(struct ipsq_table *t, const bool *empty, unsigned columns);

/* `text` in at most `width` columns, cut in the middle but never within a
 * number; malloc'd, and `text` is freed. `utf8`: the mark is one character,
 * else two points. */
char *ipsq_cut(char *text, unsigned width, bool utf8);

#endif
