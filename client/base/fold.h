/*
 * Prose on a terminal: a line that is wider than it is broken between words,
 * and goes on below its own beginning. Anywhere else, and of tables, lines stay
 * as long as they are.
 */
#ifndef IPS_CLIENT_BASE_FOLD_H
#define IPS_CLIENT_BASE_FOLD_H

#include <stddef.h>
#include <stdio.h>

/* Columns that `bytes` of `text` take: characters, of whatever width. */
unsigned ipsq_width(const char *text, size_t bytes);

/* Writes `text`, of any number of lines, folded at `columns` (0: not at all);
 * what goes on stands `indent` columns to the right. A word that is wider than
 * all columns stays whole. */
void ipsq_fold(FILE *file, const char *text, unsigned columns, unsigned indent);

#endif
