/*
 * Addresses: "unix:PATH", "tcp:HOST:PORT" ("tcp:[::1]:PORT") or
 * "tls:HOST:PORT". Without TLS, only addresses on this machine are accepted:
 * Unix sockets, and TCP on loopback. With --insecure any TCP address is
 * accepted. HOST is a numeric address or "localhost": names are never looked
 * up. Pure functions, except for the --insecure switch. This is in `common`
 * because ipsrun, which does not use `proto`, checks addresses, too. Source:
 * docs/protocol.md.
 */
#ifndef IPS_COMMON_ADDRESS_H
#define IPS_COMMON_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/err.h"

struct ips_address {
    struct sockaddr_storage addr;
    socklen_t len;
    bool is_unix, tls;
    /* the address is on another machine and without TLS */
    bool insecure;
    /* host in numeric form, without port; TCP and TLS only */
    char host[INET6_ADDRSTRLEN];
    /* path of a Unix socket */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* If `allow` (--insecure was given), ips_address_parse accepts addresses on
 * other machines without TLS from now on. Call it before threads exist. */
void ips_address_allow_insecure(bool allow);

/* Parses an address. Returns 0, IPS_E_USAGE (unparseable, a host name, path too
 * long for the kernel) or IPS_E_REFUSED (not loopback, and without TLS; the
 * message says what to do). */
int ips_address_parse(const char *text, struct ips_address *out,
                      struct ips_err *err) IPS_MUST_USE;

/* Checks an address as ips_address_parse does, without storing it. */
int ips_address_check(const char *address, struct ips_err *err) IPS_MUST_USE;

#endif
