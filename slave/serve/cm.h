/*
 * Connections between slaves, for cm-async and cm-sync: which computations go
 * on here, who is reached how, and the letters between mailboxes and wires.
 *
 * Of a pair of slaves the one with the lower number connects to the other's
 * address and says LINK; the other answers LINKED when it knows the key. What
 * cannot be connected goes through the master, which the other is told by
 * RELAY. Until then letters for it are held. A connection belongs to one
 * computation and ends with it.
 *
 * Thread: the loop's.
 */
#ifndef IPS_SLAVE_SERVE_CM_H
#define IPS_SLAVE_SERVE_CM_H

#include "slave/serve/private.h"

#define SLAVE_CM_KEY_BYTES 16

/* Listens for other slaves; where that is not possible, says so in the log and
 * all goes through the master. */
void slave_cm_open(struct slave_serve *v);
void slave_cm_close(struct slave_serve *v);
/* Address that others reach us at, "" none. */
const char *slave_cm_address(const struct slave_serve *v);

/* A job of CmAsk begins, ends (or is cancelled). 0 or an error. */
int slave_cm_begin(struct slave_serve *v, struct slave_job *job,
                   const Ips__CmAsk *ask, struct ips_err *err) IPS_MUST_USE;
void slave_cm_end(struct slave_serve *v, const struct slave_job *job);
/* The worker has put letters into its box. */
void slave_cm_flush(struct slave_serve *v, const struct slave_job *job);
/* The connection to the master is empty again. */
void slave_cm_drained(struct slave_serve *v);
/* A message through or of the master. */
void slave_cm_from_master(struct slave_serve *v, const Ips__CmMessage *m);
/* Connections that nobody knows, and have been for too long. */
void slave_cm_tick(struct slave_serve *v, uint64_t now_ns);
/* Computations in hand. */
unsigned slave_cm_count(const struct slave_serve *v);

#endif
