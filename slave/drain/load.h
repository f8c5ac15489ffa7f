/*
 * The load of this machine while a run is on: how many threads wanted a core,
 * by /proc/loadavg, whose fourth field says how many are runnable just now
 * (ourselves left out; the program's own are in it), and its average of a
 * minute. Looked at ten times a second for the first two seconds that any
 * process of a run lives, then once a second; kept as sums over time in the
 * database (table load), so an answer has them after a restart, too. A run that
 * was recorded without a slave has none.
 *
 * Thread: the event loop's.
 */
#ifndef IPS_SLAVE_DRAIN_LOAD_H
#define IPS_SLAVE_DRAIN_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct slave_drain;

struct slave_load {
    uint64_t runnable;      /* without the one that reads it */
    uint64_t average_milli; /* thousandths, of the last minute */
};
/* "0.52 0.58 0.59 2/613 12345"; false: it is not so. */
bool slave_load_parse(const char *text, struct slave_load *out);

/* Looks, if it is time, for all runs that are on. */
void slave_load_read(struct slave_drain *d, uint64_t now_ns);
/* When it is to look again; UINT64_MAX: nothing is on. */
uint64_t slave_load_next_ns(const struct slave_drain *d);

#endif
