#include "common/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool allow_insecure;

void ips_address_allow_insecure(bool allow)
{
    allow_insecure = allow;
}

static int parse_unix_socket_path(const char *path, struct ips_address *out,
                                  struct ips_err *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0)
        return ips_err_set(err, IPS_E_USAGE,
                           "address \"unix:\" has no socket path");
    if (len >= sizeof(sun.sun_path))
        return ips_err_set(
            err, IPS_E_USAGE,
            "the socket path has %zu bytes, more than the %zu that the "
            "kernel allows: %s: choose a shorter state directory "
            "(--state DIR or IPS_STATE)",
            len, sizeof(sun.sun_path) - 1, path);
    memcpy(sun.sun_path, path, len + 1);
    memcpy(out->path, path, len + 1);
    memcpy(&out->addr, &sun, sizeof(sun));
    out->len = sizeof(sun);
    out->is_unix = true;
    return 0;
}

static int parse_port(const char *text, const char *address, uint16_t *port,
                      struct ips_err *err)
{
    char *end = NULL;
    unsigned long value = 0;
    if (*text >= '0' && *text <= '9')
        value = strtoul(text, &end, 10);
    if (!end || *end || value > 65535)
        return ips_err_set(err, IPS_E_USAGE,
                           "address %s: the port must be a number up to 65535",
                           address);
    *port = (uint16_t)value;
    return 0;
}

static int set_insecure_address_error(const char *address, struct ips_err *err)
{
    return ips_err_set(
        err, IPS_E_REFUSED,
        "address %s is not loopback: without TLS others on the "
        "network could read and change everything. Use "
        "tls:HOST:PORT with keys (--tls DIR; deploy/keys makes "
        "them), or a Unix socket or loopback forwarded through "
        "ssh, for example \"ssh -L 7070:127.0.0.1:7070 HOST\"; "
        "--insecure permits it if you trust every machine of the "
        "network",
        address);
}

/* Parses `host` and stores it with `port` in *out. Accepts loopback; other
 * hosts only with TLS or --insecure. */
static int parse_and_check_numeric_host(const char *host, uint16_t port,
                                        const char *address,
                                        struct ips_address *out,
                                        struct ips_err *err)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &v4) == 1) {
        out->insecure = !out->tls && ntohl(v4.s_addr) >> 24 != 127;
        struct sockaddr_in sin = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = v4};
        memcpy(&out->addr, &sin, sizeof(sin));
        out->len = sizeof(sin);
    } else if (inet_pton(AF_INET6, host, &v6) == 1) {
        out->insecure = !out->tls && !IN6_IS_ADDR_LOOPBACK(&v6);
        struct sockaddr_in6 sin6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = v6};
        memcpy(&out->addr, &sin6, sizeof(sin6));
        out->len = sizeof(sin6);
    } else {
        return ips_err_set(err, IPS_E_USAGE,
                           "address %s: HOST must be a numeric address such as "
                           "10.0.0.5 or [fd00::5]; names are not looked up",
                           address);
    }
    if (out->insecure && !allow_insecure)
        return set_insecure_address_error(address, err);
    /* `host` is numeric here, so it fits */
    snprintf(out->host, sizeof(out->host), "%.45s", host);
    return 0;
}

/* Parses `rest`, the HOST:PORT of `address`. */
static int parse_host_and_port(const char *rest, const char *address,
                               struct ips_address *out, struct ips_err *err)
{
    char host[256];
    const char *colon = strrchr(rest, ':');
    size_t len = colon ? (size_t)(colon - rest) : 0;
    if (!colon || len == 0 || len >= sizeof(host))
        return ips_err_set(err, IPS_E_USAGE,
                           "address %s: expected %.4sHOST:PORT", address,
                           address);
    if (rest[0] == '[' && rest[len - 1] == ']') {
        rest++;
        len -= 2;
    }
    memcpy(host, rest, len);
    host[len] = '\0';
    uint16_t port = 0;
    int rc = parse_port(colon + 1, address, &port, err);
    if (rc < 0)
        return rc;
    return parse_and_check_numeric_host(host, port, address, out, err);
}

int ips_address_parse(const char *text, struct ips_address *out,
                      struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix_socket_path(text + 5, out, err);
    out->tls = strncmp(text, "tls:", 4) == 0;
    if (out->tls || strncmp(text, "tcp:", 4) == 0)
        return parse_host_and_port(text + 4, text, out, err);
    return ips_err_set(err, IPS_E_USAGE,
                       "address %s: expected unix:PATH, tcp:HOST:PORT or "
                       "tls:HOST:PORT",
                       text);
}

int ips_address_check(const char *address, struct ips_err *err)
{
    struct ips_address parsed;
    return ips_address_parse(address, &parsed, err);
}
