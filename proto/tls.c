#include "proto/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/paths.h"

static SSL_CTX *keys;

static int set_key_file_error(struct ips_err *err, const char *path,
                              const char *what)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    ERR_clear_error();
    return ips_err_set(err, IPS_E_REFUSED, "%s: %s%s%s", path, what,
                       reason ? ": " : "", reason ? reason : "");
}

/* Writes dir/name into path, and checks that the file is readable and, if it is
 * the key, not by others. */
static int check_key_file(const char *dir, const char *name,
                          char path[IPS_PATH_BYTES], struct ips_err *err)
{
    struct stat st;
    if (snprintf(path, IPS_PATH_BYTES, "%s/%s", dir, name) >= IPS_PATH_BYTES)
        return ips_err_set(err, IPS_E_USAGE, "%.80s...: path too long", dir);
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        return ips_err_errno(err, "keys for TLS: %s", path);
    if (strcmp(name, "key.pem") == 0 && (st.st_mode & 077))
        return ips_err_set(
            err, IPS_E_REFUSED,
            "%s is readable by others: chmod 600 it, and make new keys "
            "(deploy/keys) if others may have read it",
            path);
    return 0;
}

static int check_expiry(SSL_CTX *ctx, const char *path, struct ips_err *err)
{
    const X509 *cert = SSL_CTX_get0_certificate(ctx);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return ips_err_set(err, IPS_E_REFUSED,
                           "%s has expired: make new keys (deploy/keys)", path);
    return 0;
}

static int load_key_files(SSL_CTX *ctx, const char *dir, struct ips_err *err)
{
    char ca[IPS_PATH_BYTES], cert[IPS_PATH_BYTES], key[IPS_PATH_BYTES];
    int rc = check_key_file(dir, "ca.pem", ca, err);
    if (rc == 0)
        rc = check_key_file(dir, "cert.pem", cert, err);
    if (rc == 0)
        rc = check_key_file(dir, "key.pem", key, err);
    if (rc < 0)
        return rc;
    if (SSL_CTX_load_verify_file(ctx, ca) != 1)
        return set_key_file_error(err, ca, "no certificate");
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return set_key_file_error(err, cert, "no certificate");
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return set_key_file_error(err, key,
                                  "no private key, or not the certificate's");
    return check_expiry(ctx, cert, err);
}

int ips_tls_load_keys(const char *dir, struct ips_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    if (!ctx)
        return ips_err_set(err, IPS_E_NO_MEMORY, "TLS: no memory");
    SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    /* Frames carry their length, so a connection that ends without a TLS close
     * cannot truncate a message unnoticed. */
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* Connections last for days, so sessions are not resumed. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    int rc = load_key_files(ctx, dir, err);
    if (rc < 0) {
        SSL_CTX_free(ctx);
        return rc;
    }
    SSL_CTX_free(keys);
    keys = ctx;
    return 0;
}

int ips_tls_load_keys_if_not_loaded(struct ips_err *err)
{
    const char *dir = getenv("IPS_TLS");
    if (keys)
        return 0;
    if (!dir || !*dir)
        return ips_err_set(
            err, IPS_E_USAGE,
            "a tls: address needs keys: --tls DIR, or IPS_TLS with the "
            "absolute path of DIR; deploy/keys makes them");
    if (*dir != '/')
        return ips_err_set(
            err, IPS_E_USAGE,
            "IPS_TLS=%s: must be the absolute path of the directory", dir);
    return ips_tls_load_keys(dir, err);
}

int ips_tls_new(const struct ips_address *to, struct ssl_st **out,
                struct ips_err *err)
{
    int rc = ips_tls_load_keys_if_not_loaded(err);
    if (rc < 0)
        return rc;
    SSL *tls = SSL_new(keys);
    if (tls && to &&
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), to->host) != 1) {
        SSL_free(tls);
        tls = NULL;
    }
    if (!tls)
        return ips_err_set(err, IPS_E_NO_MEMORY, "TLS: no memory");
    if (to)
        SSL_set_connect_state(tls);
    else
        SSL_set_accept_state(tls);
    *out = tls;
    return 0;
}

/* ---- roles in certificates ------------------------------------------ */

static const struct {
    const char *unit, *word, *keys;
    Ips__Hello__Role role;
} roles[] = {
    {"ips-client", "client", "use the keys that deploy/keys makes for a NAME",
     IPS__HELLO__ROLE__CLIENT},
    {"ips-slave", "slave",
     "use the keys that deploy/keys makes for a machine, NAME=ADDRESS",
     IPS__HELLO__ROLE__SLAVE},
    {"ips-master", "master",
     "use the keys that deploy/keys makes for --master NAME=ADDRESS",
     IPS__HELLO__ROLE__MASTER},
};
#define ROLES (sizeof(roles) / sizeof(*roles))

/* Stores the field as printable ASCII, with '?' for every other byte; "" if the
 * certificate has no such field. */
static void get_subject_field(const X509 *cert, int nid, char *out, int bytes)
{
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(cert), nid, out,
                                  bytes) < 0)
        *out = '\0';
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static void read_certificate_owner(const X509 *cert, struct ips_tls_owner *out)
{
    char unit[32];
    *out = (struct ips_tls_owner){.role = IPS__HELLO__ROLE__UNKNOWN};
    if (!cert)
        return;
    get_subject_field(cert, NID_commonName, out->name, (int)sizeof(out->name));
    get_subject_field(cert, NID_organizationalUnitName, unit,
                      (int)sizeof(unit));
    for (size_t i = 0; i < ROLES; i++)
        if (strcmp(unit, roles[i].unit) == 0)
            out->role = roles[i].role;
}

void ips_tls_get_peer_certificate_owner(const struct ssl_st *tls,
                                        struct ips_tls_owner *out)
{
    const X509 *cert = SSL_get0_peer_certificate(tls);
    STACK_OF(X509) *chain = cert ? NULL : SSL_get0_verified_chain(tls);
    if (chain && sk_X509_num(chain) > 0)
        cert = sk_X509_value(chain, 0);
    read_certificate_owner(cert, out);
}

static size_t role_index(Ips__Hello__Role role)
{
    size_t i = 0;
    while (i < ROLES - 1 && roles[i].role != role)
        i++;
    return i;
}

int ips_tls_check_role(const struct ips_tls_owner *owner, Ips__Hello__Role need,
                       const char *machine, struct ips_err *err)
{
    if (need == IPS__HELLO__ROLE__UNKNOWN)
        /* a Hello without a role needs no more than a client */
        need = IPS__HELLO__ROLE__CLIENT;
    const char *wanted = roles[role_index(need)].word;
    if (owner->role == IPS__HELLO__ROLE__UNKNOWN)
        return ips_err_set(err, IPS_E_REFUSED,
                           "the certificate of \"%s\" has no role, role %s is "
                           "needed: an older deploy/keys made it; remove its "
                           "directory and make it anew (deploy/keys --help)",
                           owner->name, wanted);
    const char *has = roles[role_index(owner->role)].word;
    bool master = owner->role == IPS__HELLO__ROLE__MASTER;
    if (need != IPS__HELLO__ROLE__CLIENT && need != owner->role && !master)
        return ips_err_set(err, IPS_E_REFUSED,
                           "the certificate of \"%s\" has role %s, role %s is "
                           "needed: %s",
                           owner->name, has, wanted,
                           roles[role_index(need)].keys);
    if (need == IPS__HELLO__ROLE__SLAVE && strcmp(owner->name, machine) != 0)
        return ips_err_set(err, IPS_E_REFUSED,
                           "the certificate of \"%s\" (role %s) is for machine "
                           "%s, not for machine %.80s: start ips-slave with "
                           "--machine %s, or with the keys of %.80s",
                           owner->name, has, owner->name, machine, owner->name,
                           machine);
    return 0;
}

int ips_tls_check_own_role(const char *address, Ips__Hello__Role need,
                           const char *machine, struct ips_err *err)
{
    struct ips_address to;
    struct ips_tls_owner owner;
    int rc = ips_address_parse(address, &to, err);
    if (rc < 0 || !to.tls)
        return rc;
    rc = ips_tls_load_keys_if_not_loaded(err);
    if (rc < 0)
        return rc;
    read_certificate_owner(SSL_CTX_get0_certificate(keys), &owner);
    return ips_tls_check_role(&owner, need, machine, err);
}

void ips_tls_describe_failure(struct ssl_st *tls, unsigned long error,
                              char *out, size_t bytes)
{
    long verdict = tls ? SSL_get_verify_result(tls) : X509_V_OK;
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    if (verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(out, bytes,
                 "TLS: the certificate of the other side is not for this "
                 "address: give the address to deploy/keys");
    else if (verdict != X509_V_OK)
        snprintf(out, bytes,
                 "TLS: the certificate of the other side is invalid: %s "
                 "(both sides need keys of the same ca.pem)",
                 X509_verify_cert_error_string(verdict));
    else if (error && (ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ||
                       ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST))
        snprintf(out, bytes,
                 "TLS: the other side does not use TLS: is its address a "
                 "tls: address, too?");
    else
        snprintf(out, bytes, "TLS: %s%s", reason ? reason : "failed",
                 error && ERR_GET_LIB(error) == ERR_LIB_SSL &&
                         ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET
                     ? " (said by the other side, of our certificate: both "
                       "need keys of the same ca.pem)"
                     : "");
}
