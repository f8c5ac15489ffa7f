#include "proto/peer.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/address.h"
#include "proto/message.h"
#include "proto/peer_private.h"
#include "proto/tls.h"

/* Limits of what one turn of the event loop reads from one peer. */
#define TURN_BYTES (256u << 10)
#define TURN_FRAMES 256
#define FAREWELL_WAIT_S 5

enum peer_state {
    PEER_OPENING, /* connecting, or connected without a Hello from the other
                     side yet */
    PEER_TALKING,
    PEER_FINISHING, /* queued messages are sent, nothing is read */
    PEER_FAILED,    /* the connection failed, and on_close will be called */
    PEER_REAPED,    /* on the list of peers to free */
};

struct ips_peer {
    enum peer_state state;
    struct event_base *base;
    struct bufferevent *bev;
    /* event that handles frames still buffered or, after a failure, calls
     * on_close */
    struct event *later;
    /* time limit for the Hello, or for sending the queue before closing */
    struct event *limit;
    const struct ips_peer_ops *ops;
    void *arg;
    void (*on_drain)(struct ips_peer *peer, void *arg);
    struct ips_peer *next_reap;
    bool accepted; /* true: the other side connected to us */
    /* the other side closed the connection, or it broke without a TLS error:
     * before the Hello, that is not logged as a refusal */
    bool left;
    struct ips_traffic_count traffic;
    /* the message that on_message handles now; NULL once
     * ips_peer_take_current_message has taken it */
    Ips__Envelope *current;
    char name[96];
    char why[512];
};

static struct ips_peer *reap_list;

static void peer_destroy(struct ips_peer *p)
{
    if (p->bev)
        bufferevent_free(p->bev);
    if (p->later)
        event_free(p->later);
    if (p->limit)
        event_free(p->limit);
    free(p);
}

void ips_free_reaped_peers(void)
{
    while (reap_list) {
        struct ips_peer *p = reap_list;
        reap_list = p->next_reap;
        peer_destroy(p);
    }
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    ips_free_reaped_peers();
}

static void disable_peer_io(struct ips_peer *p)
{
    if (p->bev)
        bufferevent_disable(p->bev, EV_READ | EV_WRITE);
    event_del(p->limit);
}

void ips_peer_close_and_free_later(struct ips_peer *p)
{
    if (!p || p->state == PEER_REAPED)
        return;
    disable_peer_io(p);
    event_del(p->later);
    p->state = PEER_REAPED;
    p->ops = NULL;
    p->on_drain = NULL;
    p->next_reap = reap_list;
    reap_list = p;
    const struct timeval now = {0, 0};
    event_base_once(p->base, -1, EV_TIMEOUT, on_reap, NULL, &now);
}

static void log_refusal_if_accepted(const struct ips_peer *p, const char *why)
{
    if (p->accepted)
        ips_refusal_log(p->base, p, bufferevent_openssl_get_ssl(p->bev), why);
}

/* Stops all reading and writing; on_close follows in a later callback. */
static void peer_fail(struct ips_peer *p, const char *why)
{
    if (p->state == PEER_FAILED || p->state == PEER_REAPED)
        return;
    if (p->state == PEER_OPENING && !p->left)
        log_refusal_if_accepted(p, why);
    disable_peer_io(p);
    if (p->state != PEER_FINISHING)
        snprintf(p->why, sizeof(p->why), "%s", why);
    p->state = PEER_FAILED;
    event_active(p->later, EV_TIMEOUT, 0);
}

void ips_peer_close_after_send(struct ips_peer *p, const char *why)
{
    if (p->state == PEER_FINISHING || p->state == PEER_FAILED ||
        p->state == PEER_REAPED)
        return;
    p->state = PEER_FINISHING;
    snprintf(p->why, sizeof(p->why), "%s", why);
    bufferevent_disable(p->bev, EV_READ);
    if (ips_peer_backlog(p) == 0) {
        peer_fail(p, why);
        return;
    }
    const struct timeval wait = {FAREWELL_WAIT_S, 0};
    event_add(p->limit, &wait);
}

void ips_peer_refuse(struct ips_peer *p, const char *why)
{
    Ips__Hello answer = ips_make_hello(IPS__HELLO__ROLE__UNKNOWN);
    answer.error = ips_unconst_text(why);
    if (p->accepted)
        ips_send_hello(p, &answer);
    log_refusal_if_accepted(p, why);
    ips_peer_close_after_send(p, why);
}

/* ---- incoming frames ------------------------------------------------ */

/* Checks the role in a Hello against the certificate. Without TLS every role is
 * accepted. */
static int check_role(const struct ips_peer *p, const Ips__Hello *hello,
                      struct ips_err *err)
{
    const SSL *tls = bufferevent_openssl_get_ssl(p->bev);
    struct ips_tls_owner owner;
    if (!tls)
        return 0;
    ips_tls_get_peer_certificate_owner(tls, &owner);
    int rc = ips_tls_check_role(&owner, hello->role, hello->machine, err);
    return rc < 0 ? ips_err_wrap(err, rc, "%s", p->name) : 0;
}

/* Checks the first message. False: the peer was closed. */
static bool check_hello_or_refuse_peer(struct ips_peer *p,
                                       const Ips__Envelope *env)
{
    char why[512];
    if (env->body_case != IPS__ENVELOPE__BODY_HELLO) {
        peer_fail(p, "sent data before Hello");
        return false;
    }
    const Ips__Hello *hello = env->hello;
    if (hello->error && *hello->error) {
        snprintf(why, sizeof(why), "refused by the other side: %s",
                 hello->error);
        peer_fail(p, why);
        return false;
    }
    if (hello->protocol != IPS_PROTOCOL) {
        snprintf(why, sizeof(why),
                 "protocol version %u (IPS %.32s) is not spoken here, only %d "
                 "(IPS %s): install the same version on both sides",
                 hello->protocol, hello->version, IPS_PROTOCOL, IPS_VERSION);
        ips_peer_refuse(p, why);
        return false;
    }
    struct ips_err err = {0};
    if (check_role(p, hello, &err) < 0) {
        ips_peer_refuse(p, err.msg);
        return false;
    }
    event_del(p->limit);
    p->state = PEER_TALKING;
    return true;
}

static void check_hello_and_pass_message(struct ips_peer *p,
                                         const Ips__Envelope *env)
{
    if (p->state == PEER_OPENING) {
        if (!check_hello_or_refuse_peer(p, env))
            return;
    } else if (env->body_case == IPS__ENVELOPE__BODY_HELLO) {
        peer_fail(p, "sent Hello twice");
        return;
    }
    if (p->ops)
        p->ops->on_message(p, env, p->arg);
}

/* Handles one received frame. Returns false if no whole frame is there, or the
 * peer is closed. */
static bool decode_and_dispatch_next_frame(struct ips_peer *p)
{
    struct evbuffer *in = bufferevent_get_input(p->bev);
    size_t have = evbuffer_get_length(in);
    size_t max =
        p->state == PEER_OPENING ? IPS_HELLO_MAX_BYTES : IPS_FRAME_MAX_BYTES;
    uint8_t head[4];
    struct ips_err err = {0};
    if (evbuffer_copyout(in, head, sizeof(head)) < (ssize_t)sizeof(head))
        return false;
    /* The length is checked first, so that no bytes are collected for a refused
     * frame. */
    if (ips_frame_length_if_complete(head, sizeof(head), max, &err) < 0) {
        peer_fail(p, err.msg);
        return false;
    }
    size_t whole = 4 + ((size_t)head[0] | (size_t)head[1] << 8 |
                        (size_t)head[2] << 16 | (size_t)head[3] << 24);
    if (have < whole)
        return false;
    uint8_t *data = evbuffer_pullup(in, (ssize_t)whole);
    if (!data) {
        peer_fail(p, "no memory for its frame");
        return false;
    }
    Ips__Envelope *env = ips_frame_decode(data, whole, &err);
    evbuffer_drain(in, whole);
    if (!env) {
        peer_fail(p, err.msg);
        return false;
    }
    p->traffic.frames++;
    p->traffic.bytes += whole;
    p->current = env;
    check_hello_and_pass_message(p, env);
    if (p->current)
        ips__envelope__free_unpacked(p->current, NULL);
    p->current = NULL;
    return p->state == PEER_OPENING || p->state == PEER_TALKING;
}

static void dispatch_buffered_frames(struct ips_peer *p)
{
    for (int i = 0; i < TURN_FRAMES; i++) {
        if (!decode_and_dispatch_next_frame(p))
            return;
    }
    /* More frames are buffered than one turn handles: other peers come
     * first. */
    event_active(p->later, EV_READ, 0);
}

static void dispatch_frames_on_read(struct bufferevent *bev, void *arg)
{
    (void)bev;
    struct ips_peer *p = arg;
    if (p->state == PEER_OPENING || p->state == PEER_TALKING)
        dispatch_buffered_frames(p);
}

/* ---- other events of a connection ----------------------------------- */

static void on_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    struct ips_peer *p = arg;
    if (p->state == PEER_FINISHING && ips_peer_backlog(p) == 0)
        peer_fail(p, p->why);
    else if (p->state == PEER_TALKING && p->on_drain)
        p->on_drain(p, p->arg);
}

static void read_rest_and_fail_on_disconnect(struct bufferevent *bev,
                                             short what, void *arg)
{
    struct ips_peer *p = arg;
    char why[256];
    if (what & BEV_EVENT_CONNECTED)
        return;
    int error = EVUTIL_SOCKET_ERROR();
    /* Frames that came before the end of the connection still count, for
     * example a refusal. */
    if ((p->state == PEER_OPENING || p->state == PEER_TALKING) &&
        evbuffer_get_length(bufferevent_get_input(bev)) > 0)
        while (decode_and_dispatch_next_frame(p))
            ;
    struct ssl_st *tls = bufferevent_openssl_get_ssl(bev);
    unsigned long tls_error = tls ? bufferevent_get_openssl_error(bev) : 0;
    p->left = (what & BEV_EVENT_EOF) != 0 || tls_error == 0;
    if (what & BEV_EVENT_EOF)
        snprintf(why, sizeof(why), "closed by the other side");
    else if (tls_error)
        ips_tls_describe_failure(tls, tls_error, why, sizeof(why));
    else
        snprintf(why, sizeof(why), "%s",
                 error ? evutil_socket_error_to_string(error)
                       : "connection failed");
    peer_fail(p, why);
}

static void report_close_or_dispatch_frames(evutil_socket_t fd, short what,
                                            void *arg)
{
    (void)fd;
    (void)what;
    struct ips_peer *p = arg;
    if (p->state == PEER_FAILED) {
        const struct ips_peer_ops *ops = p->ops;
        void *ops_arg = p->arg;
        p->ops = NULL;
        if (ops)
            ops->on_close(p, p->why, ops_arg);
        ips_peer_close_and_free_later(p);
    } else if (p->state == PEER_OPENING || p->state == PEER_TALKING) {
        dispatch_buffered_frames(p);
    }
}

static void fail_peer_on_time_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct ips_peer *p = arg;
    peer_fail(p, "sent no Hello in time");
}

/* ---- making peers, and sending -------------------------------------- */

/* Opens a bufferevent for the connection; NULL: out of memory. Takes ownership
 * of `tls` even on failure. */
static struct bufferevent *open_bufferevent(struct event_base *base, int fd,
                                            SSL *tls)
{
    const int how = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    if (!tls)
        return bufferevent_socket_new(base, fd, how);
    struct bufferevent *bev = bufferevent_openssl_socket_new(
        base, fd, tls,
        SSL_is_server(tls) ? BUFFEREVENT_SSL_ACCEPTING
                           : BUFFEREVENT_SSL_CONNECTING,
        how);
    if (!bev)
        SSL_free(tls);
    return bev;
}

int ips_peer_new(struct event_base *base, int fd, struct ssl_st *tls,
                 struct ips_peer **out, struct ips_err *err)
{
    static unsigned counter;
    struct ips_peer *p = calloc(1, sizeof(*p));
    if (!p) {
        SSL_free(tls);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a connection");
    }
    /* Ignore SIGPIPE: writing to a closed connection then fails instead of
     * ending this process. */
    if (counter == 0)
        signal(SIGPIPE, SIG_IGN);
    p->base = base;
    p->accepted = fd >= 0;
    snprintf(p->name, sizeof(p->name), "peer %u", ++counter);
    p->later = event_new(base, -1, 0, report_close_or_dispatch_frames, p);
    p->limit = event_new(base, -1, 0, fail_peer_on_time_limit, p);
    if (p->later && p->limit)
        p->bev = open_bufferevent(base, fd, tls);
    else
        SSL_free(tls);
    if (!p->bev) {
        peer_destroy(p);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a connection");
    }
    bufferevent_setcb(p->bev, dispatch_frames_on_read, on_written,
                      read_rest_and_fail_on_disconnect, p);
    bufferevent_set_max_single_read(p->bev, TURN_BYTES);
    bufferevent_setwatermark(p->bev, EV_READ, 0,
                             IPS_FRAME_MAX_BYTES + TURN_BYTES);
    const struct timeval wait = {IPS_HELLO_WAIT_S, 0};
    event_add(p->limit, &wait);
    bufferevent_enable(p->bev, EV_READ | EV_WRITE);
    *out = p;
    return 0;
}

int ips_peer_connect(struct event_base *base, const char *address,
                     struct ips_peer **out, struct ips_err *err)
{
    struct ips_address to;
    struct ips_peer *p = NULL;
    struct ssl_st *tls = NULL;
    int rc = ips_address_parse(address, &to, err);
    if (rc == 0 && to.tls)
        rc = ips_tls_new(&to, &tls, err);
    if (rc == 0)
        rc = ips_peer_new(base, -1, tls, &p, err);
    if (rc < 0)
        return rc;
    ips_peer_set_name(p, address);
    if (bufferevent_socket_connect(p->bev, (struct sockaddr *)&to.addr,
                                   (int)to.len) < 0)
        peer_fail(p, strerror(errno));
    *out = p;
    return 0;
}

void ips_peer_set_ops(struct ips_peer *p, const struct ips_peer_ops *ops,
                      void *arg)
{
    p->ops = ops;
    p->arg = arg;
}

/* Handles a message that cannot be packed. A reply that is too long for a
 * frame exceeds our own limit, so the requester gets an error reply instead;
 * with any other message the peer is closed. */
static void send_error_or_fail_peer(struct ips_peer *p,
                                    const Ips__Envelope *env,
                                    const struct ips_err *why)
{
    if (env->body_case == IPS__ENVELOPE__BODY_REPLY && !env->reply->error)
        ips_send_error(p, env->reply->id, why);
    else
        peer_fail(p, why->msg);
}

void ips_peer_send(struct ips_peer *p, const Ips__Envelope *env)
{
    if (p->state != PEER_OPENING && p->state != PEER_TALKING)
        return;
    struct evbuffer *queue = bufferevent_get_output(p->bev);
    uint8_t *data;
    size_t len;
    struct ips_err err = {0};
    if (ips_frame_encode(env, &data, &len, &err) < 0) {
        send_error_or_fail_peer(p, env, &err);
        return;
    }
    if (evbuffer_get_length(queue) + len > IPS_OUT_BUFFER_BYTES)
        peer_fail(p, "does not read the data sent to it");
    else if (evbuffer_add(queue, data, len) < 0)
        peer_fail(p, "no memory for its answer");
    p->traffic.frames++;
    p->traffic.bytes += len;
    free(data);
}

struct ips_traffic_count ips_peer_traffic(const struct ips_peer *p)
{
    return p->traffic;
}

size_t ips_peer_backlog(const struct ips_peer *p)
{
    return evbuffer_get_length(bufferevent_get_output(p->bev));
}

void ips_peer_set_on_drain(struct ips_peer *p,
                           void (*on_drain)(struct ips_peer *peer, void *arg))
{
    p->on_drain = on_drain;
}

Ips__Envelope *ips_peer_take_current_message(struct ips_peer *p)
{
    Ips__Envelope *env = p->current;
    p->current = NULL;
    return env;
}

const char *ips_peer_name(const struct ips_peer *p)
{
    return p->name;
}

bool ips_peer_other_side_closed(const struct ips_peer *p)
{
    char byte;
    if (p->state != PEER_OPENING && p->state != PEER_TALKING)
        return true;
    return recv(bufferevent_getfd(p->bev), &byte, 1, MSG_PEEK | MSG_DONTWAIT) ==
           0;
}

void ips_peer_set_name(struct ips_peer *p, const char *name)
{
    snprintf(p->name, sizeof(p->name), "%s", name);
}
