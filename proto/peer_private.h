/* Functions that listener.c and peer.c share. */
#ifndef IPS_PROTO_PEER_PRIVATE_H
#define IPS_PROTO_PEER_PRIVATE_H

#include "proto/peer.h"

#define IPS_LISTENER_ADDRESS_BYTES 160

struct ssl_st;

/* Makes a peer for the connection `fd` (-1: not connected yet). On success the
 * peer owns fd. It owns `tls` (NULL: no TLS) in any case. */
int ips_peer_new(struct event_base *base, int fd, struct ssl_st *tls,
                 struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;

#define IPS_REFUSALS_SHOWN 10
/* Logs that the connection of `peer` was refused, with the name in its
 * certificate (tls NULL: none). The first IPS_REFUSALS_SHOWN of a minute are
 * logged one by one; the number of the others is logged when the minute is
 * over. */
void ips_refusal_log(struct event_base *base, const struct ips_peer *peer,
                     const struct ssl_st *tls, const char *why);

#endif
