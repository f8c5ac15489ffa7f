/*
 * Draws a series of values as one line of characters whose heights show the
 * values (a sparkline): block elements on a UTF-8 terminal, else ASCII. Pure.
 */
#ifndef IPS_CLIENT_BASE_STRIP_H
#define IPS_CLIENT_BASE_STRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPSQ_STRIP_WIDTH 48u
#define IPSQ_STRIP_BYTES (IPSQ_STRIP_WIDTH * 3 + 1)

/* Draws `count` values in as many columns, at most IPSQ_STRIP_WIDTH. A column
 * shows the mean of its values, as a height relative to the greatest column.
 * Only a mean of 0 is drawn as a blank. *top (unless NULL): the greatest mean,
 * rounded up. Returns the number of columns. */
size_t ipsq_draw_sparkline(const uint64_t *v, size_t count, bool utf8,
                           char out[IPSQ_STRIP_BYTES], uint64_t *top);

/* Draws a line to be printed above the sparkline of the same `count` values: a
 * bar where each of `stretches` intervals starts, followed by the number of the
 * interval if there is space. ends[i]: index of the value at which interval i
 * ends. */
void ipsq_draw_interval_numbers(const size_t *ends, size_t stretches,
                                size_t count, char out[IPSQ_STRIP_BYTES]);

#endif
