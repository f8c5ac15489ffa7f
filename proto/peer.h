/*
 * A connection that speaks frames, over libevent; used by all three daemons
 * and, blocking, by the client. Addresses: "unix:PATH", "tcp:HOST:PORT" on
 * loopback (elsewhere with --insecure), or "tls:HOST:PORT" (proto/tls.h).
 *
 * Invariants:
 *  - the first message of either side is a Hello of our protocol version; a
 *    peer of another version gets a Hello with `error`, then the end. Until it
 *    said Hello its frames are limited to IPS_HELLO_MAX_BYTES and its time to
 *    IPS_HELLO_WAIT_S; after that it may be silent for as long as it lives.
 *  - over TLS the certificate of the other side must let it be the role, and
 *    the machine, that its Hello says; else it is refused like a wrong version.
 *  - callbacks come from the loop, never from within a call into this module.
 *  - one turn of the loop takes a bounded amount from each peer.
 *  - a peer is freed after the turn, never inside its own callback; after
 *    on_close it frees itself, so the owner only forgets it.
 *
 * Thread: the event loop's.
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
    /* `env` is borrowed. The Hello comes through here as well, checked. After
     * a bad Hello or frame the peer is closed and on_close says why. */
    void (*on_message)(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg);
    void (*on_close)(struct ips_peer *peer, const char *why, void *arg);
};

int ips_listener_new(struct event_base *base, const char *address,
                     void (*on_accept)(struct ips_peer *peer, void *arg),
                     void *arg, struct ips_listener **out,
                     struct ips_err *err) IPS_MUST_USE;
/* Removes the socket it made. Peers accepted from it live on. */
void ips_listener_free(struct ips_listener *l);
/* The address as bound: tells the port where 0 was asked for. */
const char *ips_listener_address(const struct ips_listener *l);

/* Connects (asynchronously); on_close tells of failure. */
int ips_peer_connect(struct event_base *base, const char *address,
                     struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;
void ips_peer_set_ops(struct ips_peer *peer, const struct ips_peer_ops *ops,
                      void *arg);
/* Packs and queues; a peer that does not read is closed past
 * IPS_OUT_BUFFER_BYTES (senders of long answers watch ips_peer_backlog and
 * go on from on_drain, which comes whenever all is written). Never fails
 * towards the caller: a reply that fits no frame becomes an error reply. */
void ips_peer_send(struct ips_peer *peer, const Ips__Envelope *env);
size_t ips_peer_backlog(const struct ips_peer *peer);
/* What came and went on this connection until now. */
struct ips_traffic_count {
    uint64_t frames, bytes;
};
struct ips_traffic_count ips_peer_traffic(const struct ips_peer *peer);
void ips_peer_on_drain(struct ips_peer *peer,
                       void (*on_drain)(struct ips_peer *peer, void *arg));
/* Within on_message: the message becomes the caller's to keep (free with
 * ips__envelope__free_unpacked). Once a message. */
Ips__Envelope *ips_peer_take(struct ips_peer *peer);
/* For the log: "peer 3" until set; copied. */
const char *ips_peer_name(const struct ips_peer *peer);
void ips_peer_set_name(struct ips_peer *peer, const char *name);
/* The other side is known to have closed, also where on_close has not come
 * yet: its end of the connection may arrive after its next connection. */
bool ips_peer_over(const struct ips_peer *peer);
/* Sends what is queued, then closes; on_close comes with `why`. */
void ips_peer_finish(struct ips_peer *peer, const char *why);
/* Before our own Hello was sent: sends one with the error `why`, logs it (of
 * many in a minute the first ones), then the same. The side that connected,
 * which spoke first, sends and logs nothing. */
void ips_peer_refuse(struct ips_peer *peer, const char *why);
/* After the current turn of the loop. on_close is not called. */
void ips_peer_free(struct ips_peer *peer);
/* Frees now what waits for the end of the turn: after the loop ended. */
void ips_peer_reap(void);

/* Blocking client connection, to a master. connect says Hello as a client and
 * takes the other side's; timeout_ms bounds both together. */
struct ips_client;
int ips_client_connect(const char *address, unsigned timeout_ms,
                       struct ips_client **out,
                       struct ips_err *err) IPS_MUST_USE;
int ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                    struct ips_err *err) IPS_MUST_USE;
/* Next envelope (free with ips__envelope__free_unpacked); timeout_ms 0 waits
 * as long as the connection lives. */
int ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                    Ips__Envelope **out, struct ips_err *err) IPS_MUST_USE;
void ips_client_free(struct ips_client *c);

#endif
