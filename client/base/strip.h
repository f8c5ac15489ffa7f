/*
 * A series of values as one line of characters, each as high as its values are:
 * block elements on a terminal that has UTF-8, else ASCII. Pure but for
 * ipsq_strip_utf8.
 */
#ifndef IPS_CLIENT_BASE_STRIP_H
#define IPS_CLIENT_BASE_STRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPSQ_STRIP_WIDTH 48u
#define IPSQ_STRIP_BYTES (IPSQ_STRIP_WIDTH * 3 + 1)

/* `count` values in as many columns, at most IPSQ_STRIP_WIDTH: a column is the
 * mean of its values, its height that mean's share of the greatest column's. 0
 * is a blank, and nothing else is. *top (or NULL): the greatest mean, rounded
 * up. Returns the columns. */
size_t ipsq_strip(const uint64_t *v, size_t count, bool utf8,
                  char out[IPSQ_STRIP_BYTES], uint64_t *top);

/* The same columns: a bar where each stretch begins and its number behind it,
 * as far as there is room. ends[i]: the value at which stretch i ends. */
void ipsq_strip_numbers(const size_t *ends, size_t stretches, size_t count,
                        char out[IPSQ_STRIP_BYTES]);

#endif
