/*
 * A connection that speaks frames, over libevent; used by all three daemons
 * and, blocking, by the client. Addresses: "unix:PATH" or "tcp:HOST:PORT";
 * a TCP address that is not loopback is refused until TLS exists
 * (ips_address_check says so in words).
 *
 * Thread: the event loop's. A peer is freed after the turn, never inside its
 * own callback.
 */
#ifndef IPS_PROTO_PEER_H
#define IPS_PROTO_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/frame.h"

struct event_base;
struct ips_peer;
struct ips_listener;

struct ips_peer_ops {
    /* `env` is borrowed. After a bad Hello or frame the peer is closed and
     * on_close says why. */
    void (*on_message)(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg);
    void (*on_close)(struct ips_peer *peer, const char *why, void *arg);
};

/* 0, or IPS_E_USAGE (unparseable), IPS_E_REFUSED (not loopback: TLS). */
int ips_address_check(const char *address, struct ips_err *err) IPS_MUST_USE;

int ips_listener_new(struct event_base *base, const char *address,
                     void (*on_accept)(struct ips_peer *peer, void *arg),
                     void *arg, struct ips_listener **out, struct ips_err *err)
    IPS_MUST_USE;
void ips_listener_free(struct ips_listener *l);

/* Connects (asynchronously); on_close tells of failure. */
int ips_peer_connect(struct event_base *base, const char *address,
                     struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;
void ips_peer_set_ops(struct ips_peer *peer, const struct ips_peer_ops *ops,
                      void *arg);
/* Packs and queues; a peer that does not read is closed past
 * IPS_OUT_BUFFER_BYTES (senders of long answers watch ips_peer_backlog and
 * go on from on_drain). Never fails towards the caller. */
void ips_peer_send(struct ips_peer *peer, const Ips__Envelope *env);
size_t ips_peer_backlog(const struct ips_peer *peer);
void ips_peer_on_drain(struct ips_peer *peer,
                       void (*on_drain)(struct ips_peer *peer, void *arg));
const char *ips_peer_name(const struct ips_peer *peer);
/* After the current turn of the loop. on_close is not called. */
void ips_peer_free(struct ips_peer *peer);

/* Blocking client connection. */
struct ips_client;
int ips_client_connect(const char *address, unsigned timeout_ms,
                       struct ips_client **out, struct ips_err *err)
    IPS_MUST_USE;
int ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                    struct ips_err *err) IPS_MUST_USE;
/* Next envelope (free with ips__envelope__free_unpacked); timeout_ms 0 waits
 * as long as the connection lives. */
int ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                    Ips__Envelope **out, struct ips_err *err) IPS_MUST_USE;
void ips_client_free(struct ips_client *c);

#endif
