/*
 * Addresses: "unix:PATH" or "tcp:HOST:PORT" ("tcp:[::1]:PORT"). Only what
 * stays on this machine is taken until TLS exists: Unix sockets, and TCP on
 * loopback given as a number or as "localhost". No name is ever looked up.
 * Pure; here because ipsrun, which knows no messages, judges them too. Source:
 * docs/protocol.md.
 */
#ifndef IPS_COMMON_ADDRESS_H
#define IPS_COMMON_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/err.h"

struct ips_address {
    struct sockaddr_storage addr;
    socklen_t len;
    bool is_unix;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* Unix */
};

/* 0, IPS_E_USAGE (unparseable, path too long for the kernel) or
 * IPS_E_REFUSED (not loopback; the text says what to do). */
int ips_address_parse(const char *text, struct ips_address *out,
                      struct ips_err *err) IPS_MUST_USE;

/* The same, where only the verdict is wanted. */
int ips_address_check(const char *address, struct ips_err *err) IPS_MUST_USE;

#endif
