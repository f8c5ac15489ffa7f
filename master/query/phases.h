/*
 * The phases of a run (IPS-16), and phases as windows of other questions: a
 * question that names a phase waits for a question of our own about the run's
 * phases, and then asks every machine about that phase as a window of its own
 * clock. So a phase is the same stretch of time for every command. A `why` that
 * names none gets the ends of all, and does without where that question fails.
 */
#ifndef IPS_MASTER_QUERY_PHASES_H
#define IPS_MASTER_QUERY_PHASES_H

#include "master/query/query.h"

#define PHASES_BINS 512u
#define PHASES_TOPS 8u /* procedures of each phase and machine looked at */

/* The phase that a question of a client names as its window; 0 none. */
uint32_t phases_named(const Ips__Request *request);
/* Does it wait for the phases: of one that it names, or of all, as far as they
 * are known (why)? */
bool phases_wanted(const Ips__Request *request);
/* The question of our own that it waits for: a copy of its id and run. NULL: no
 * memory. */
Ips__Envelope *phases_envelope(const Ips__Request *r);
/* Its window, since the run's begin, into the question itself. */
void phases_set_window(Ips__Request *request, uint64_t from_ns, uint64_t to_ns);

#endif
