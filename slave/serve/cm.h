/*
 * Connections between slaves, for cm-async and cm-sync: knows the computations
 * in progress, connects to the other slaves of each, and moves messages
 * ("letters") between mailboxes and connections.
 *
 * Of two slaves the one with the lower number connects to the other's address
 * and sends LINK; the other replies LINKED once it knows the computation's key.
 * If the connection fails, messages go through the master, and RELAY tells the
 * other slave so. Messages are held back until one of the two ways is open. A
 * connection belongs to one computation and ends with it.
 *
 * Thread: the loop's.
 */
#ifndef IPS_SLAVE_SERVE_CM_H
#define IPS_SLAVE_SERVE_CM_H

#include "slave/serve/private.h"

#define SLAVE_CM_KEY_BYTES 16

/* Listens for other slaves. Only logs a failure; all messages then go through
 * the master. */
void slave_cm_open(struct slave_serve *v);
void slave_cm_close(struct slave_serve *v);
/* Address at which other slaves reach this one; "": none. */
const char *slave_cm_address(const struct slave_serve *v);

/* slave_cm_begin registers the computation of a CmAsk job. slave_cm_end removes
 * it; call it when the job ends or is cancelled. */
int slave_cm_begin(struct slave_serve *v, struct slave_job *job,
                   const Ips__CmAsk *ask, struct ips_err *err) IPS_MUST_USE;
void slave_cm_end(struct slave_serve *v, const struct slave_job *job);
/* Sends the letters that the worker has put into the job's mailbox. */
void slave_cm_flush(struct slave_serve *v, const struct slave_job *job);
/* Call when the connection to the master has drained: sends the letters held
 * back for links that go through the master. */
void slave_cm_on_master_drain(struct slave_serve *v);
/* Handles a message from the master, or from a slave through the master. */
void slave_cm_on_master_message(struct slave_serve *v, const Ips__CmMessage *m);
/* Drops incoming connections that in 10 s have not named a computation known
 * here. */
void slave_cm_drop_unattached_wires(struct slave_serve *v, uint64_t now_ns);
/* Number of computations in progress. */
unsigned slave_cm_count(const struct slave_serve *v);

#endif
