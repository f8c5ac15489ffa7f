/*
 * A connection that carries frames, over libevent; used by the daemons and,
 * blocking, by the client. Addresses: "unix:PATH", "tcp:HOST:PORT" on loopback
 * (on other machines with --insecure), or "tls:HOST:PORT" (proto/tls.h).
 *
 * Invariants:
 * - The first message of either side is a Hello of our protocol version. A peer
 *   of another version gets a Hello with `error`, then the connection ends.
 *   Before its Hello a peer may send frames of at most IPS_HELLO_MAX_BYTES and
 *   has IPS_HELLO_WAIT_S; after it, a peer may be silent for any time.
 * - Over TLS, the certificate of the other side must allow the role, and the
 *   machine, that its Hello claims; else it is refused like a wrong version.
 * - Callbacks come from the event loop, never from within a call into this
 *   module.
 * - One turn of the loop reads a bounded amount from each peer.
 * - A peer is freed after the turn, never inside its own callback. After
 *   on_close it frees itself, so the owner need only drop its pointer.
 *
 * All functions but ips_client_* run in the thread of the event loop.
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
    /* `env` is borrowed. The Hello is passed on as well, after it was checked.
     * After a bad Hello or frame the peer is closed, and on_close gets the
     * reason. */
    void (*on_message)(struct ips_peer *peer, const Ips__Envelope *env,
                       void *arg);
    void (*on_close)(struct ips_peer *peer, const char *why, void *arg);
};

int ips_listener_new(struct event_base *base, const char *address,
                     void (*on_accept)(struct ips_peer *peer, void *arg),
                     void *arg, struct ips_listener **out,
                     struct ips_err *err) IPS_MUST_USE;
/* Stops listening and removes the socket file that the listener made.
 * Accepted peers stay open. */
void ips_listener_free(struct ips_listener *l);
/* Returns the address at which the listener accepts. If port 0 was asked for,
 * it has the port that was bound. */
const char *ips_listener_address(const struct ips_listener *l);

/* Starts to connect. Returns an error only if the address or the keys are
 * invalid or memory is short; if the connection cannot be made, on_close
 * reports that later. */
int ips_peer_connect(struct event_base *base, const char *address,
                     struct ips_peer **out, struct ips_err *err) IPS_MUST_USE;
void ips_peer_set_ops(struct ips_peer *peer, const struct ips_peer_ops *ops,
                      void *arg);
/* Packs and queues a message. A peer that does not read is closed when more
 * than IPS_OUT_BUFFER_BYTES are queued. Senders of long answers therefore check
 * ips_peer_backlog and continue in on_drain, which is called whenever all is
 * written. The caller sees no error: a reply that is too long for a frame
 * becomes an error reply. */
void ips_peer_send(struct ips_peer *peer, const Ips__Envelope *env);
size_t ips_peer_backlog(const struct ips_peer *peer);
/* Number of frames, and of bytes, that were sent or received on a connection
 * so far. */
struct ips_traffic_count {
    uint64_t frames, bytes;
};
struct ips_traffic_count ips_peer_traffic(const struct ips_peer *peer);
void ips_peer_set_on_drain(struct ips_peer *peer,
                           void (*on_drain)(struct ips_peer *peer, void *arg));
/* Call it within on_message, at most once per message: the caller becomes the
 * owner of the message (free it with ips__envelope__free_unpacked). */
Ips__Envelope *ips_peer_take_current_message(struct ips_peer *peer);
/* Returns the name for the log: "peer 3" until ips_peer_set_name sets another,
 * which it copies. */
const char *ips_peer_name(const struct ips_peer *peer);
void ips_peer_set_name(struct ips_peer *peer, const char *name);
/* Has the other side closed the connection? May be true before on_close is
 * called: a peer may connect again before the end of its old connection is
 * reported here. */
bool ips_peer_other_side_closed(const struct ips_peer *peer);
/* Sends what is queued, then closes; on_close gets `why`. */
void ips_peer_close_after_send(struct ips_peer *peer, const char *why);
/* Refuses a peer to which no Hello was sent yet: sends a Hello with the error
 * `why`, logs it (only the first few a minute), then does
 * ips_peer_close_after_send. On the side that connected, which sent its Hello
 * first, nothing is sent or logged. */
void ips_peer_refuse(struct ips_peer *peer, const char *why);
/* Frees the peer after the current turn of the loop. on_close is not called. */
void ips_peer_close_and_free_later(struct ips_peer *peer);
/* Frees at once the peers that wait for the end of the turn; for use after the
 * loop has ended. */
void ips_free_reaped_peers(void);

/* A blocking connection of a client to a master. ips_client_connect also
 * exchanges Hellos; connecting, the TLS handshake and the wait for the Hello
 * together may take timeout_ms (0: no limit). */
struct ips_client;
int ips_client_connect(const char *address, unsigned timeout_ms,
                       struct ips_client **out,
                       struct ips_err *err) IPS_MUST_USE;
int ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                    struct ips_err *err) IPS_MUST_USE;
/* Receives the next envelope (free it with ips__envelope__free_unpacked).
 * timeout_ms 0: waits as long as the connection lives. */
int ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                    Ips__Envelope **out, struct ips_err *err) IPS_MUST_USE;
void ips_client_free(struct ips_client *c);

#endif
