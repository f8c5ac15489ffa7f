/*
 * The phases of a run (IPS-16), and phases as windows of other questions. A
 * question that names a phase first waits for an internal question about the
 * run's phases. Then it asks every machine about that phase as a window of the
 * machine's own clock. So a phase is the same period of time for every
 * command. A `why` question that names no phase gets the ends of all phases,
 * and continues without them if the internal question fails.
 */
#ifndef IPS_MASTER_QUERY_PHASES_H
#define IPS_MASTER_QUERY_PHASES_H

#include "master/query/query.h"

#define PHASES_BINS 512u
/* number of top procedures considered per phase and machine */
#define PHASES_TOPS 8u

/* Returns the number of the phase that a client's question names as its window;
 * 0: it names none. */
uint32_t phases_find_phase_in_request(const Ips__Request *request);
/* Whether the question waits for the phases: for the one that it names or, for
 * `why` about the elapsed time, for all. */
bool phases_must_be_asked_before_request(const Ips__Request *request);
/* Makes the internal question about phases, with the id and run of `r`. NULL:
 * no memory. */
Ips__Envelope *phases_make_question_for_request(const Ips__Request *r);
/* Writes the window of a phase, in ns since the start of the run, into the
 * question. */
void phases_write_window_into_request(Ips__Request *request, uint64_t from_ns,
                                      uint64_t to_ns);

#endif
