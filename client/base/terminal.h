/*
 * Finds out what the terminal can show: its width, colours, UTF-8. A pipe or a
 * file is not a terminal: output to it has no width limit and no colour.
 */
#ifndef IPS_CLIENT_BASE_TERMINAL_H
#define IPS_CLIENT_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Returns the width of the terminal `file` in columns; 0 if it is not a
 * terminal. */
unsigned ipsq_terminal_width(FILE *file);
/* Makes every file count as a terminal of this width from now on. Used when the
 * output goes through a pager. */
void ipsq_set_terminal_width(unsigned columns);

/* Escape sequences for terminals that show colours. */
#define IPSQ_YELLOW "\033[33m"
#define IPSQ_BOLD "\033[1m"
#define IPSQ_PLAIN "\033[0m"

/* Whether `file` is a terminal that shows colours and the user wants them
 * (NO_COLOR is not set). */
bool ipsq_has_color(FILE *file);

/* Whether the environment selects UTF-8 (LC_ALL, LC_CTYPE, LANG). */
bool ipsq_is_utf8(void);

#endif
