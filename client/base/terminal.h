/*
 * What the terminal that an answer is printed on can do. A pipe or a file is
 * none: it gets everything, and no colour.
 */
#ifndef IPS_CLIENT_BASE_TERMINAL_H
#define IPS_CLIENT_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Columns of the terminal that `file` is, 0 where it is none. */
unsigned ipsq_columns(FILE *file);
/* From now on every file has so many: what is written passes a pager. */
void ipsq_columns_are(unsigned columns);

/* Escape sequences for terminals that show colours. */
#define IPSQ_YELLOW "\033[33m"
#define IPSQ_BOLD "\033[1m"
#define IPSQ_PLAIN "\033[0m"

/* Is `file` a terminal that shows colours, and does the user want them
 * (NO_COLOR is not set)? */
bool ipsq_has_color(FILE *file);

/* Does the environment say that text is UTF-8 (LC_ALL, LC_CTYPE, LANG)? */
bool ipsq_is_utf8(void);

#endif
