/* What listener.c needs of peer.c. */
#ifndef IPS_PROTO_PEER_PRIVATE_H
#define IPS_PROTO_PEER_PRIVATE_H

#include "proto/peer.h"

#define IPS_LISTENER_ADDRESS_BYTES 160

struct ssl_st;

/* Takes fd (-1: none yet) on success, and `tls` (NULL: without) always. */
int ips_peer_new(struct event_base *base, int fd, struct ssl_st *tls,
                 struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;

#endif
