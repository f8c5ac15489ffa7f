/*
 * Addresses: "unix:PATH", "tcp:HOST:PORT" ("tcp:[::1]:PORT") or
 * "tls:HOST:PORT". Without TLS only what stays on this machine is taken: Unix
 * sockets, and TCP on loopback; any TCP where the user says --insecure. HOST is
 * a number or "localhost": no name is ever looked up. Pure; here because
 * ipsrun, which knows no messages, judges them too. Source: docs/protocol.md.
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
    bool insecure;               /* leaves this machine without TLS */
    char host[INET6_ADDRSTRLEN]; /* the number alone; TCP and TLS */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* Unix */
};

/* --insecure was given (true): addresses that leave this machine without TLS
 * are taken from now on. Before threads. */
void ips_address_allow_insecure(bool allow);

/* 0, IPS_E_USAGE (unparseable, a name, path too long for the kernel) or
 * IPS_E_REFUSED (not loopback, without TLS; the text says what to do). */
int ips_address_parse(const char *text, struct ips_address *out,
                      struct ips_err *err) IPS_MUST_USE;

/* The same, where only the verdict is wanted. */
int ips_address_check(const char *address, struct ips_err *err) IPS_MUST_USE;

#endif
