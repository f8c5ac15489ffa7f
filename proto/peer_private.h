/* What listener.c and peer.c need of each other. */
#ifndef IPS_PROTO_PEER_PRIVATE_H
#define IPS_PROTO_PEER_PRIVATE_H

#include "proto/peer.h"

#define IPS_LISTENER_ADDRESS_BYTES 160

struct ssl_st;

/* Takes fd (-1: none yet) on success, and `tls` (NULL: without) always. */
int ips_peer_new(struct event_base *base, int fd, struct ssl_st *tls,
                 struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;

/* Logs that the connection of `peer` was refused, and the name in its
 * certificate (tls NULL: there is none). IPS_REFUSALS_SHOWN of a minute are
 * logged one by one, the others as a number when the minute is over. */
#define IPS_REFUSALS_SHOWN 10
void ips_refusal_log(struct event_base *base, const struct ips_peer *peer,
                     const struct ssl_st *tls, const char *why);

#endif
