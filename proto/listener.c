/*
 * The listening side. A Unix socket must be in a directory that only its owner
 * can write; it has mode 0600 and a lock file next to it. A socket left by a
 * dead daemon is removed; one on which a daemon still answers is not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/address.h"
#include "common/log.h"
#include "proto/peer_private.h"
#include "proto/tls.h"

#define BACKLOG 128
#define MINUTE_S 60
#define NUMBER_BYTES (INET6_ADDRSTRLEN + 8)

struct ips_listener {
    struct event_base *base;
    struct evconnlistener *ev;
    struct event *retry; /* timer that accepts again after a failed accept */
    void (*on_accept)(struct ips_peer *peer, void *arg);
    void *arg;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char address[IPS_LISTENER_ADDRESS_BYTES];
    int lock_fd;
    bool tls;
};

/* ---- logging of refused connections ------------------------------------- */

static struct {
    uint64_t since_ns; /* start of the minute; 0: nothing was refused yet */
    unsigned shown, more;
} refusals;

static void log_suppressed_refusals(void)
{
    if (refusals.more)
        ips_log_warn("%u more connections refused within a minute",
                     refusals.more);
    refusals.more = 0;
}

/* Counts a refusal at now_ns. Returns true if the caller must log it; of the
 * other refusals only the number is logged. */
static bool count_refusal_and_check_log_limit(uint64_t now_ns)
{
    if (!refusals.since_ns ||
        now_ns - refusals.since_ns >= MINUTE_S * UINT64_C(1000000000)) {
        log_suppressed_refusals();
        refusals.since_ns = now_ns;
        refusals.shown = 0;
    }
    if (refusals.shown < IPS_REFUSALS_SHOWN) {
        refusals.shown++;
        return true;
    }
    refusals.more++;
    return false;
}

static void log_suppressed_after_minute(evutil_socket_t fd, short what,
                                        void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    log_suppressed_refusals();
}

void ips_refusal_log(struct event_base *base, const struct ips_peer *peer,
                     const struct ssl_st *tls, const char *why)
{
    struct ips_tls_owner owner = {.role = IPS__HELLO__ROLE__UNKNOWN};
    const char *name = ips_peer_name(peer);
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    if (!count_refusal_and_check_log_limit((uint64_t)ts.tv_sec * 1000000000 +
                                           (uint64_t)ts.tv_nsec)) {
        const struct timeval wait = {MINUTE_S, 0};
        /* The first refusal that is not shown: log the number of such refusals
         * after a minute, even if no further one comes. */
        if (refusals.more == 1)
            event_base_once(base, -1, EV_TIMEOUT, log_suppressed_after_minute,
                            NULL, &wait);
        return;
    }
    if (tls)
        ips_tls_get_peer_certificate_owner(tls, &owner);
    /* If a role was refused, `why` already names the owner. */
    char quoted[sizeof(owner.name) + 4];
    snprintf(quoted, sizeof(quoted), "\"%s\"", owner.name);
    bool named = *owner.name && !strstr(why, quoted);
    bool placed = strncmp(why, name, strlen(name)) == 0;
    ips_log_warn("connection refused: %s%s%s%s%s%s", placed ? "" : name,
                 named ? " (certificate " : "", named ? quoted : "",
                 named ? ")" : "", placed ? "" : ": ", why);
}

/* ---- connections ----------------------------------------------------- */

/* Formats "10.0.0.5:7070" or "[fd00::5]:7070". False: not a network address. */
static bool format_socket_address(const struct sockaddr *sa, int len, char *out,
                                  size_t bytes)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (sa->sa_family == AF_INET && len >= (int)sizeof(v4)) {
        memcpy(&v4, sa, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
        snprintf(out, bytes, "%s:%u", host, ntohs(v4.sin_port));
        return true;
    }
    if (sa->sa_family == AF_INET6 && len >= (int)sizeof(v6)) {
        memcpy(&v6, sa, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        snprintf(out, bytes, "[%s]:%u", host, ntohs(v6.sin6_port));
        return true;
    }
    return false;
}

static void on_connection(struct evconnlistener *ev, evutil_socket_t fd,
                          struct sockaddr *sa, int len, void *arg)
{
    (void)ev;
    struct ips_listener *l = arg;
    struct ips_peer *peer;
    char from[NUMBER_BYTES];
    struct ips_err err = {0};
    struct ssl_st *tls = NULL;
    int rc = l->tls ? ips_tls_new(NULL, &tls, &err) : 0;
    if (rc == 0)
        rc = ips_peer_new(l->base, fd, tls, &peer, &err);
    if (rc < 0) {
        ips_log_warn("connection not accepted: %s", err.msg);
        close(fd);
        return;
    }
    if (format_socket_address(sa, len, from, sizeof(from)))
        ips_peer_set_name(peer, from);
    l->on_accept(peer, l->arg);
}

/* Usually the process has run out of descriptors: accept again after a second
 * instead of looping. */
static void pause_accepting_after_error(struct evconnlistener *ev, void *arg)
{
    struct ips_listener *l = arg;
    ips_log_warn("%s: accept: %s", l->address, strerror(errno));
    evconnlistener_disable(ev);
    const struct timeval wait = {1, 0};
    event_add(l->retry, &wait);
}

static void resume_accepting(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct ips_listener *l = arg;
    evconnlistener_enable(l->ev);
}

static int check_socket_directory(const char *path, struct ips_err *err)
{
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (*path != '/' || !slash)
        return ips_err_set(err, IPS_E_USAGE, "socket path %s: must be absolute",
                           path);
    *slash = '\0';
    struct stat st;
    if (stat(*dir ? dir : "/", &st) < 0)
        return ips_err_errno(err, "directory of the socket %s", path);
    if ((st.st_mode & 0022) || (st.st_uid != geteuid() && st.st_uid != 0))
        return ips_err_set(
            err, IPS_E_REFUSED,
            "directory %s of the socket is writable by others: use a "
            "directory of your own with mode 0700",
            dir);
    return 0;
}

/* Whether a daemon of an older version, or a program that is not ours, still
 * answers on the path, although this process has the lock. */
static bool daemon_answers(const struct ips_address *to)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    int rc = connect(fd, (const struct sockaddr *)&to->addr, to->len);
    bool answers = rc == 0 || errno == EAGAIN || errno == EINPROGRESS;
    close(fd);
    return answers;
}

static int lock_socket_path_and_remove_stale(struct ips_listener *l,
                                             const struct ips_address *to,
                                             struct ips_err *err)
{
    char lock[sizeof(to->path) + 8];
    snprintf(lock, sizeof(lock), "%s.lock", to->path);
    l->lock_fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->lock_fd < 0)
        return ips_err_errno(err, "%s", lock);
    if (flock(l->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return ips_err_set(err, IPS_E_BUSY,
                           "another daemon already listens on %s", to->path);
    struct stat st;
    if (lstat(to->path, &st) < 0)
        return errno == ENOENT ? 0 : ips_err_errno(err, "%s", to->path);
    if (!S_ISSOCK(st.st_mode))
        return ips_err_set(err, IPS_E_REFUSED,
                           "%s exists and is not a socket: left unchanged",
                           to->path);
    if (daemon_answers(to))
        return ips_err_set(err, IPS_E_BUSY,
                           "another daemon already listens on %s", to->path);
    if (unlink(to->path) < 0)
        return ips_err_errno(err, "remove the stale socket %s", to->path);
    return 0;
}

static int open_listening_socket(const struct ips_address *to, int *out,
                                 struct ips_err *err)
{
    int fd = socket(to->addr.ss_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ips_err_errno(err, "socket");
    int on = 1;
    if (!to->is_unix)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* bind creates the socket with mode 0600, so others can never connect. */
    mode_t mask = umask(0177);
    int rc = bind(fd, (const struct sockaddr *)&to->addr, to->len);
    umask(mask);
    if (rc < 0 || listen(fd, BACKLOG) < 0) {
        ips_err_errno(err, "listen");
        if (rc == 0 && to->is_unix)
            unlink(to->path);
        close(fd);
        return IPS_E_IO;
    }
    *out = fd;
    return 0;
}

static void store_bound_address(struct ips_listener *l, const char *asked,
                                int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    char at[NUMBER_BYTES];
    snprintf(l->address, sizeof(l->address), "%s", asked);
    if (!*l->path && getsockname(fd, (struct sockaddr *)&ss, &len) == 0 &&
        format_socket_address((struct sockaddr *)&ss, (int)len, at, sizeof(at)))
        snprintf(l->address, sizeof(l->address), "%.4s%s", asked, at);
}

static int listener_start(struct ips_listener *l, const char *address,
                          struct ips_err *err)
{
    struct ips_address to;
    int fd = -1;
    int rc = ips_address_parse(address, &to, err);
    if (rc == 0 && to.is_unix) {
        rc = check_socket_directory(to.path, err);
        if (rc == 0)
            rc = lock_socket_path_and_remove_stale(l, &to, err);
    }
    if (rc == 0 && to.tls)
        rc = ips_tls_load_keys_if_not_loaded(err);
    if (rc == 0)
        rc = open_listening_socket(&to, &fd, err);
    if (rc < 0)
        return rc;
    if (to.is_unix)
        memcpy(l->path, to.path, sizeof(l->path));
    l->tls = to.tls;
    store_bound_address(l, address, fd);
    if (to.insecure)
        ips_log_warn("%s: no TLS (--insecure): whoever reaches it can read and "
                     "change everything, and pose as any machine or client",
                     l->address);
    l->retry = event_new(l->base, -1, 0, resume_accepting, l);
    if (l->retry)
        l->ev = evconnlistener_new(
            l->base, on_connection, l,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!l->ev) {
        close(fd);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    }
    evconnlistener_set_error_cb(l->ev, pause_accepting_after_error);
    return 0;
}

int ips_listener_new(struct event_base *base, const char *address,
                     void (*on_accept)(struct ips_peer *peer, void *arg),
                     void *arg, struct ips_listener **out, struct ips_err *err)
{
    struct ips_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    l->base = base;
    l->on_accept = on_accept;
    l->arg = arg;
    l->lock_fd = -1;
    int rc = listener_start(l, address, err);
    if (rc < 0) {
        ips_err_wrap(err, rc, "%s", address);
        ips_listener_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

const char *ips_listener_address(const struct ips_listener *l)
{
    return l->address;
}

void ips_listener_free(struct ips_listener *l)
{
    if (!l)
        return;
    if (l->ev)
        evconnlistener_free(l->ev);
    if (l->retry)
        event_free(l->retry);
    if (*l->path)
        unlink(l->path);
    if (l->lock_fd >= 0)
        close(l->lock_fd);
    free(l);
}
