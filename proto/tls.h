/*
 * TLS of the connections at "tls:" addresses: OpenSSL's, version 1.3, both
 * sides verified. A process has one set of keys, a directory with
 *   ca.pem    who signs the certificates of this installation
 *   cert.pem  this machine's, for the addresses that it is reached at
 *   key.pem   its private key, readable by its owner alone
 * as deploy/keys makes them. Whoever accepts takes every certificate of that
 * ca.pem; whoever connects also wants it to be for the address it connects to.
 *
 * Thread: the one that connects and accepts. Source: docs/protocol.md.
 */
#ifndef IPS_PROTO_TLS_H
#define IPS_PROTO_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/address.h"

struct ssl_st;

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

/* In words why it failed; `error` of OpenSSL's queue, 0: not known. */
void ips_tls_why(struct ssl_st *tls, unsigned long error, char *out,
                 size_t bytes);

#endif
