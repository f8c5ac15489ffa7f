/* The blocking side of a connection, for ipsq and tests. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/address.h"
#include "proto/message.h"
#include "proto/tls.h"

#define READ_STEP_BYTES (64u << 10)
#define CONNECT_AGAIN_MS 10

struct ips_client {
    int fd;
    SSL *tls;       /* TLS state, which owns both BIOs; NULL: no TLS */
    BIO *came, *go; /* came: encrypted bytes for `tls` to read; go: encrypted
                       bytes that it wants to send */
    bool greeted;
    uint8_t *in; /* [cap]; in[at..have) is received but not decoded yet */
    size_t at, have, cap;
};

/* Returns milliseconds of CLOCK_MONOTONIC. A deadline of 0 means no deadline.
 */
static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t compute_deadline_ms(unsigned timeout_ms)
{
    return timeout_ms ? now_ms() + timeout_ms : 0;
}

static int wait_for_socket(int fd, short events, uint64_t deadline,
                           struct ips_err *err)
{
    for (;;) {
        int wait = -1;
        if (deadline) {
            uint64_t now = now_ms();
            wait = now >= deadline ? 0 : (int)(deadline - now);
        }
        struct pollfd p = {.fd = fd, .events = events};
        int rc = poll(&p, 1, wait);
        if (rc > 0)
            return 0;
        if (rc == 0)
            return ips_err_set(err, IPS_E_UNREACHABLE, "no answer in time");
        if (errno != EINTR)
            return ips_err_errno(err, "poll");
    }
}

/* Returns 0, or the errno of connect(). */
static int start_connect(int fd, const struct ips_address *to)
{
    int rc = connect(fd, (const struct sockaddr *)&to->addr, to->len);
    return rc < 0 ? errno : 0;
}

static int open_connection(const struct ips_address *to, uint64_t deadline,
                           int *out, struct ips_err *err)
{
    int fd = socket(to->addr.ss_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ips_err_errno(err, "socket");
    int error = start_connect(fd, to);
    /* EAGAIN: the queue of a Unix socket is full. poll() does not report when
     * the queue has room again. */
    while (error == EAGAIN && (!deadline || now_ms() < deadline)) {
        poll(NULL, 0, CONNECT_AGAIN_MS);
        error = start_connect(fd, to);
    }
    if (error == EINPROGRESS) {
        socklen_t len = sizeof(error);
        int rc = wait_for_socket(fd, POLLOUT, deadline, err);
        if (rc < 0) {
            close(fd);
            return rc;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
            error = errno;
    }
    if (error) {
        close(fd);
        return ips_err_set(err, IPS_E_UNREACHABLE, "%s",
                           error == EAGAIN ? "no answer in time"
                                           : strerror(error));
    }
    *out = fd;
    return 0;
}

static int send_all(int fd, const uint8_t *data, size_t len,
                    struct ips_err *err)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            int rc = wait_for_socket(fd, POLLOUT, 0, err);
            if (rc < 0)
                return rc;
        } else if (n < 0 && errno != EINTR) {
            return ips_err_set(err, IPS_E_UNREACHABLE, "send: %s",
                               strerror(errno));
        } else if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* Reads 1 to `len` bytes from the socket, and sets *taken to their number. */
static int read_bytes(int fd, uint8_t *to, size_t len, uint64_t deadline,
                      size_t *taken, struct ips_err *err)
{
    for (;;) {
        ssize_t n = recv(fd, to, len, 0);
        if (n > 0) {
            *taken = (size_t)n;
            return 0;
        }
        if (n == 0)
            return ips_err_set(err, IPS_E_UNREACHABLE,
                               "closed by the other side");
        if (errno == EAGAIN) {
            int rc = wait_for_socket(fd, POLLIN, deadline, err);
            if (rc < 0)
                return rc;
        } else if (errno != EINTR) {
            return ips_err_set(err, IPS_E_UNREACHABLE, "receive: %s",
                               strerror(errno));
        }
    }
}

/* ---- TLS -------------------------------------------------------------- */

static int tls_flush(struct ips_client *c, struct ips_err *err)
{
    uint8_t data[READ_STEP_BYTES / 4];
    int n;
    while ((n = BIO_read(c->go, data, sizeof(data))) > 0) {
        int rc = send_all(c->fd, data, (size_t)n, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Handles the failure `result` of a call on c->tls: sends what TLS wants to
 * send, and receives if it needs more bytes. Returns 0 if the call must be made
 * again. */
static int send_or_receive_before_tls_retry(struct ips_client *c, int result,
                                            uint64_t deadline,
                                            struct ips_err *err)
{
    char why[256];
    uint8_t data[READ_STEP_BYTES / 4];
    size_t n;
    int what = SSL_get_error(c->tls, result);
    /* This also sends the TLS alert from which the other side learns why the
     * connection fails. */
    int rc = tls_flush(c, err);
    if (rc == 0 && what == SSL_ERROR_WANT_READ) {
        rc = read_bytes(c->fd, data, sizeof(data), deadline, &n, err);
        return rc < 0 ? rc
               : BIO_write(c->came, data, (int)n) > 0
                   ? 0
                   : ips_err_set(err, IPS_E_NO_MEMORY, "TLS: no memory");
    }
    if (rc == 0 && what == SSL_ERROR_ZERO_RETURN)
        return ips_err_set(err, IPS_E_UNREACHABLE, "closed by the other side");
    ips_tls_describe_failure(c->tls, ERR_get_error(), why, sizeof(why));
    return rc < 0 ? rc : ips_err_set(err, IPS_E_REFUSED, "%s", why);
}

static int create_tls_and_do_handshake(struct ips_client *c,
                                       const struct ips_address *to,
                                       uint64_t deadline, struct ips_err *err)
{
    int rc = ips_tls_new(to, &c->tls, err);
    if (rc < 0)
        return rc;
    BIO *came = BIO_new(BIO_s_mem()), *go = BIO_new(BIO_s_mem());
    if (!came || !go) {
        BIO_free(came);
        BIO_free(go);
        return ips_err_set(err, IPS_E_NO_MEMORY, "TLS: no memory");
    }
    SSL_set_bio(c->tls, came, go);
    c->came = came;
    c->go = go;
    for (int done; rc == 0 && (done = SSL_do_handshake(c->tls)) != 1;)
        rc = send_or_receive_before_tls_retry(c, done, deadline, err);
    return rc < 0 ? rc : tls_flush(c, err);
}

/* ---- sending and receiving frames --------------------------------------- */

int ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                    struct ips_err *err)
{
    uint8_t *data;
    size_t len;
    int rc = ips_frame_encode(env, &data, &len, err);
    if (rc < 0)
        return rc;
    if (!c->tls)
        rc = send_all(c->fd, data, len, err);
    else if (SSL_write(c->tls, data, (int)len) == (int)len)
        rc = tls_flush(c, err);
    else
        rc = ips_err_set(err, IPS_E_UNREACHABLE, "TLS: cannot be sent");
    free(data);
    return rc;
}

static int receive_more_bytes(struct ips_client *c, uint64_t deadline,
                              struct ips_err *err)
{
    if (c->at > 0) {
        memmove(c->in, c->in + c->at, c->have - c->at);
        c->have -= c->at;
        c->at = 0;
    }
    if (c->cap - c->have < READ_STEP_BYTES) {
        size_t cap = c->cap * 2 + READ_STEP_BYTES;
        uint8_t *bigger = realloc(c->in, cap);
        if (!bigger)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        c->in = bigger;
        c->cap = cap;
    }
    size_t n = 0;
    int rc = 0;
    if (!c->tls)
        rc = read_bytes(c->fd, c->in + c->have, c->cap - c->have, deadline, &n,
                        err);
    for (int got; c->tls && rc == 0 && n == 0;) {
        got = SSL_read(c->tls, c->in + c->have, (int)READ_STEP_BYTES);
        if (got > 0)
            n = (size_t)got;
        else
            rc = send_or_receive_before_tls_retry(c, got, deadline, err);
    }
    c->have += n;
    return rc;
}

static int receive_envelope(struct ips_client *c, uint64_t deadline,
                            Ips__Envelope **out, struct ips_err *err)
{
    size_t max = c->greeted ? IPS_FRAME_MAX_BYTES : IPS_HELLO_MAX_BYTES;
    for (;;) {
        size_t have = c->have - c->at;
        int64_t whole =
            have ? ips_frame_length_if_complete(c->in + c->at, have, max, err)
                 : 0;
        if (whole < 0)
            return (int)whole;
        if (whole > 0) {
            size_t len = (size_t)whole;
            *out = ips_frame_decode(c->in + c->at, len, err);
            c->at += len;
            return *out ? 0 : IPS_E_PROTOCOL;
        }
        int rc = receive_more_bytes(c, deadline, err);
        if (rc < 0)
            return rc;
    }
}

int ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                    Ips__Envelope **out, struct ips_err *err)
{
    return receive_envelope(c, compute_deadline_ms(timeout_ms), out, err);
}

/* Returns 0 if the other side is a master by its Hello and its certificate,
 * else an error. */
static int check_hello_is_from_master(const struct ips_client *c,
                                      const Ips__Hello *hello,
                                      struct ips_err *err)
{
    struct ips_tls_owner owner;
    if (hello->role != IPS__HELLO__ROLE__MASTER)
        return ips_err_set(
            err, IPS_E_PROTOCOL,
            "not an IPS master: give the address on which ips-master "
            "listens (--master)");
    if (!c->tls)
        return 0;
    ips_tls_get_peer_certificate_owner(c->tls, &owner);
    return ips_tls_check_role(&owner, IPS__HELLO__ROLE__MASTER, "", err);
}

static int exchange_hellos(struct ips_client *c, uint64_t deadline,
                           struct ips_err *err)
{
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    Ips__Envelope env = IPS__ENVELOPE__INIT, *answer = NULL;
    env.body_case = IPS__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    int rc = ips_client_send(c, &env, err);
    if (rc == 0)
        rc = receive_envelope(c, deadline, &answer, err);
    if (rc < 0)
        return rc;
    if (answer->body_case != IPS__ENVELOPE__BODY_HELLO)
        rc = ips_err_set(err, IPS_E_PROTOCOL,
                         "the other side sent data before Hello");
    else if (answer->hello->error && *answer->hello->error)
        rc =
            ips_err_set(err,
                        answer->hello->protocol == IPS_PROTOCOL ? IPS_E_REFUSED
                                                                : IPS_E_VERSION,
                        "refused: %s", answer->hello->error);
    else if (answer->hello->protocol != IPS_PROTOCOL)
        rc = ips_err_set(
            err, IPS_E_VERSION,
            "the other side uses protocol version %u, this program %d: "
            "install the same version of IPS",
            answer->hello->protocol, IPS_PROTOCOL);
    else
        rc = check_hello_is_from_master(c, answer->hello, err);
    ips__envelope__free_unpacked(answer, NULL);
    c->greeted = rc == 0;
    return rc;
}

int ips_client_connect(const char *address, unsigned timeout_ms,
                       struct ips_client **out, struct ips_err *err)
{
    struct ips_address to;
    struct ips_client *c = NULL;
    const uint64_t deadline = compute_deadline_ms(timeout_ms);
    int fd = -1;
    int rc = ips_address_parse(address, &to, err);
    if (rc < 0)
        return rc;
    rc = open_connection(&to, deadline, &fd, err);
    if (rc < 0)
        goto out;
    c = calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        goto out;
    }
    c->fd = fd;
    if (to.tls)
        rc = create_tls_and_do_handshake(c, &to, deadline, err);
    if (rc == 0)
        rc = exchange_hellos(c, deadline, err);
    if (rc == 0) {
        *out = c;
        return 0;
    }
out:
    ips_err_wrap(err, rc, "%s", address);
    ips_client_free(c);
    return rc;
}

void ips_client_free(struct ips_client *c)
{
    if (!c)
        return;
    SSL_free(c->tls);
    close(c->fd);
    free(c->in);
    free(c);
}
