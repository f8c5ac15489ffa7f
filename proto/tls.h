/*
 * TLS of the connections at "tls:" addresses: OpenSSL's, version 1.3, both
 * sides verified. A process has one set of keys, a directory with
 *   ca.pem    who signs the certificates of this installation
 *   cert.pem  this machine's, for the addresses that it is reached at
 *   key.pem   its private key, readable by its owner alone
 * as deploy/keys makes them. Whoever accepts takes every certificate of that
 * ca.pem; whoever connects also wants it to be for the address it connects to.
 * The subject of a certificate says what its owner may be: OU is "ips-master",
 * "ips-slave" or "ips-client", CN the name of the machine or person. The side
 * that reads a Hello compares it with that.
 *
 * Thread: the one that connects and accepts. Source: docs/protocol.md.
 */
#ifndef IPS_PROTO_TLS_H
#define IPS_PROTO_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/address.h"
#include "proto/frame.h"

struct ssl_st;

/* What a certificate says of its owner. */
struct ips_tls_owner {
    Ips__Hello__Role role; /* UNKNOWN: it has none */
    char name[80];         /* CN, printable; "" none */
};

/* Reads the keys in `dir`. IPS_E_IO: a file cannot be read; IPS_E_REFUSED: it
 * is no certificate or key, the key is not the certificate's or can be read by
 * others, or the certificate is out of date. */
int ips_tls_use(const char *dir, struct ips_err *err) IPS_MUST_USE;

/* 0 where keys are there: those of ips_tls_use, else those in $IPS_TLS, which
 * are read now. IPS_E_USAGE, with what to do, where neither was given. */
int ips_tls_ready(struct ips_err *err) IPS_MUST_USE;

/* A connection about to be made to `to`, or (NULL) one that was accepted.
 * *out is freed by whoever gets it (SSL_free). */
int ips_tls_new(const struct ips_address *to, struct ssl_st **out,
                struct ips_err *err) IPS_MUST_USE;

/* The other side's. Before the handshake has ended well the certificate is not
 * verified: for messages only. Both UNKNOWN and "" where there is none. */
void ips_tls_other(const struct ssl_st *tls, struct ips_tls_owner *out);

/* 0 where the certificate of `owner` lets it be `need` and, for a slave, the
 * machine of that name; else IPS_E_REFUSED, with what to do. Every role may be
 * a client; a master may also be the slave of its machine. */
int ips_tls_may(const struct ips_tls_owner *owner, Ips__Hello__Role need,
                const char *machine, struct ips_err *err) IPS_MUST_USE;

/* The same of this process' own keys, before it uses `address`; 0 where that
 * is no tls: address. Reads the keys if nothing has done so. */
int ips_tls_own_may(const char *address, Ips__Hello__Role need,
                    const char *machine, struct ips_err *err) IPS_MUST_USE;

/* In words why it failed; `error` of OpenSSL's queue, 0: not known. */
void ips_tls_why(struct ssl_st *tls, unsigned long error, char *out,
                 size_t bytes);

#endif
