/*
 * Prose on a terminal: a line wider than the terminal is broken between words
 * and continued with an indent. Lines of tables, and lines that do not go to a
 * terminal, are never broken.
 */
#ifndef IPS_CLIENT_BASE_FOLD_H
#define IPS_CLIENT_BASE_FOLD_H

#include <stddef.h>
#include <stdio.h>

/* Returns the number of terminal columns that the first `bytes` bytes of `text`
 * take. Every character counts as one column. */
unsigned ipsq_text_width(const char *text, size_t bytes);

/* Writes `text`, of any number of lines, folded at `columns` (0: not folded);
 * continuation lines are indented by `indent` columns. A word wider than
 * `columns` stays whole. */
void ipsq_print_wrapped_text(FILE *file, const char *text, unsigned columns,
                             unsigned indent);

#endif
