/*
 * The load of this machine while a run goes on, from /proc/loadavg: the number
 * of threads that are runnable now (the fourth field, minus the reading thread;
 * the measured program's threads are included), and the one-minute load
 * average. Read ten times a second for the first two seconds in which a process
 * of the run lives, then once a second. Sums over time are stored in the
 * database (table load), so an answer has them after a restart, too. A run that
 * was recorded without a slave has no load data.
 *
 * Thread: the event loop's.
 */
#ifndef IPS_SLAVE_DRAIN_LOAD_H
#define IPS_SLAVE_DRAIN_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct slave_drain;

struct slave_load {
    /* number of runnable threads, without the reading thread */
    uint64_t runnable;
    /* load average of the last minute, in thousandths */
    uint64_t average_milli;
};
/* Parses a line like "0.52 0.58 0.59 2/613 12345"; false: malformed. */
bool slave_load_parse(const char *text, struct slave_load *out);

/* Does nothing before slave_load_time_of_next_measurement_ns(). Measures the
 * machine's load and stores it for all runs with a living process. */
void slave_load_sample_for_live_runs(struct slave_drain *d, uint64_t now_ns);
/* Returns the monotonic time of the next measurement; UINT64_MAX: no run has a
 * living process. */
uint64_t slave_load_time_of_next_measurement_ns(const struct slave_drain *d);

#endif
