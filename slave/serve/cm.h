/*
 * Connections between slaves, for the engines cm-async and cm-sync, which
 * compute the critical path by messages between slaves. This module knows the
 * computations in progress, connects to the other slaves of each, and moves
 * messages ("letters") between mailboxes and connections.
 *
 * The slave with the lower number connects to the other slave's address and
 * sends LINK. The other slave replies LINKED once it knows the computation's
 * key. If the connection fails, messages go through the master, and the message
 * RELAY informs the other slave. Messages are held back until the connection or
 * the way through the master is ready. A connection belongs to one computation
 * and ends with it.
 *
 * Runs on the event loop's thread.
 */
#ifndef IPS_SLAVE_SERVE_CM_H
#define IPS_SLAVE_SERVE_CM_H

#include "slave/serve/private.h"

#define SLAVE_CM_KEY_BYTES 16

/* Starts to listen for other slaves. Only logs a failure; all messages then go
 * through the master. */
void slave_cm_start_listening(struct slave_serve *v);
void slave_cm_close(struct slave_serve *v);
/* Address at which other slaves reach this one; "": none. */
const char *slave_cm_get_listen_address(const struct slave_serve *v);

/* Adds the computation of a CmAsk job to the computations in progress. Call
 * slave_cm_remove_computation when the job ends or is cancelled. */
int slave_cm_register_computation(struct slave_serve *v, struct slave_job *job,
                                  const Ips__CmAsk *ask,
                                  struct ips_err *err) IPS_MUST_USE;
void slave_cm_remove_computation(struct slave_serve *v,
                                 const struct slave_job *job);
/* Sends the letters that the worker has put into the job's mailbox. */
void slave_cm_send_outgoing_letters_of_job(struct slave_serve *v,
                                           const struct slave_job *job);
/* Call when the output to the master has been sent: sends the letters held back
 * for links that go through the master. */
void slave_cm_send_letters_held_for_relay(struct slave_serve *v);
/* Handles a message from the master, or from a slave through the master. */
void slave_cm_deliver_message_from_master(struct slave_serve *v,
                                          const Ips__CmMessage *m);
/* Drops incoming connections that are older than 10 s and have not named a
 * computation in progress on this slave. */
void slave_cm_drop_stale_unattached_wires(struct slave_serve *v,
                                          uint64_t now_ns);
/* Returns the number of computations in progress on this slave. */
unsigned slave_cm_count_computations(const struct slave_serve *v);

#endif
