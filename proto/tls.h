/*
 * TLS of the connections at "tls:" addresses: OpenSSL, version 1.3, both sides
 * verified. A process has one set of keys, a directory made by deploy/keys with
 * - ca.pem: the authority that signs the certificates of this installation
 * - cert.pem: this machine's certificate, for the addresses at which it is
 *   reached
 * - key.pem: its private key, readable by its owner only
 *
 * The accepting side accepts every certificate signed by its ca.pem. The
 * connecting side also requires that the certificate is for the address it
 * connects to. The subject of a certificate says what its owner may be: OU is
 * "ips-master", "ips-slave" or "ips-client", CN the name of the machine or
 * person. The side that reads a Hello compares it with the subject.
 *
 * Used by the thread that connects and accepts. Source: docs/protocol.md.
 */
#ifndef IPS_PROTO_TLS_H
#define IPS_PROTO_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/address.h"
#include "proto/frame.h"

struct ssl_st;

/* The owner of a certificate, as its subject names it. */
struct ips_tls_owner {
    /* role of the owner; UNKNOWN: the certificate names none */
    Ips__Hello__Role role;
    char name[80]; /* name of the owner (CN), printable; "": none */
};

/* Loads the keys in `dir`. IPS_E_IO: a file cannot be read. IPS_E_REFUSED: a
 * file is not a certificate or key, the key does not belong to the certificate
 * or is readable by others, or the certificate has expired. */
int ips_tls_load_keys(const char *dir, struct ips_err *err) IPS_MUST_USE;

/* Returns 0 if keys are loaded. If ips_tls_load_keys has loaded none, loads
 * those in the directory $IPS_TLS now. IPS_E_USAGE: neither directory was
 * given; the message says what to do. */
int ips_tls_load_keys_if_not_loaded(struct ips_err *err) IPS_MUST_USE;

/* Makes the TLS state for a connection to `to`, or for an accepted one if
 * `to` is NULL. Loads the keys if they are not loaded yet. The caller owns
 * *out (SSL_free). */
int ips_tls_new(const struct ips_address *to, struct ssl_st **out,
                struct ips_err *err) IPS_MUST_USE;

/* Sets *out to the owner of the other side's certificate; UNKNOWN and "" if it
 * has none. Until the handshake has succeeded the certificate is not verified,
 * so use the owner in messages only. */
void ips_tls_get_peer_certificate_owner(const struct ssl_st *tls,
                                        struct ips_tls_owner *out);

/* Returns 0 if the certificate of `owner` allows the role `need` and, for a
 * slave, the machine `machine`; else IPS_E_REFUSED with what to do. Every
 * role may be a client; a master may also be the slave of its machine. */
int ips_tls_check_role(const struct ips_tls_owner *owner, Ips__Hello__Role need,
                       const char *machine, struct ips_err *err) IPS_MUST_USE;

/* Checks this process's own certificate in the same way as ips_tls_check_role,
 * before the process uses `address`. Loads the keys if they are not loaded yet.
 * Returns 0 without a check if `address` is not a tls: address. */
int ips_tls_check_own_role(const char *address, Ips__Hello__Role need,
                           const char *machine,
                           struct ips_err *err) IPS_MUST_USE;

/* Describes why TLS failed; `error` is from OpenSSL's queue, 0: unknown. */
void ips_tls_describe_failure(struct ssl_st *tls, unsigned long error,
                              char *out, size_t bytes);

#endif
