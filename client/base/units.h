/*
 * Times and sizes as people write and read them. Parsing uses no floating
 * point: "1.5ms" is exactly 1500000 ns.
 */
#ifndef IPS_CLIENT_BASE_UNITS_H
#define IPS_CLIENT_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define IPSQ_UNIT_BYTES 32

/* A duration: a decimal number with a suffix ns (default), us, ms or s, and no
 * sign. Fractions of a ns are refused. IPS_E_USAGE: the message says what is
 * wrong. */
int ipsq_parse_duration(const char *text, uint64_t *ns,
                        struct ips_err *err) IPS_MUST_USE;

/* ipsq_parse_mtime: "BASE" or "BASE+PER_BYTE" ("," works like "+"). BASE is a
 * duration of at most an hour. PER_BYTE is ns per byte, decimals and a suffix
 * allowed, at most 2^31 ns; the result is a 32.32 fixed-point number, rounded
 * to nearest. */
/* Bytes: a whole number, with a suffix k or m for 1024 or 1024^2. */
int ipsq_parse_bytes(const char *text, uint64_t *bytes,
                     struct ips_err *err) IPS_MUST_USE;
/* A share below 100%, such as 5% or 0.05; the result is in millionths. */
int ipsq_parse_share(const char *text, uint32_t *ppm,
                     struct ips_err *err) IPS_MUST_USE;
int ipsq_parse_mtime(const char *text, uint64_t *base_ns,
                     uint64_t *per_byte_q32, struct ips_err *err) IPS_MUST_USE;

/* A whole number greater than 0. */
int ipsq_parse_count(const char *text, uint64_t *n,
                     struct ips_err *err) IPS_MUST_USE;

/* A number of at most four digits, such as "1.5", as num / den. */
int ipsq_parse_ratio(const char *text, uint32_t *num, uint32_t *den,
                     struct ips_err *err) IPS_MUST_USE;

/* "30%" or "2.5x" (2.5 times as fast), in millionths of the time saved: more
 * than 0, at most all of it. Finer digits are truncated. */
#define IPSQ_GONE 1000000u
int ipsq_parse_faster(const char *text, uint32_t *ppm,
                      struct ips_err *err) IPS_MUST_USE;

/* "-" if not measured (UINT64_MAX, NaN). Uses the greatest unit in which the
 * number is at least 1: "17 ns", "1.250 us", "83.21 s". */
void ipsq_format_ns(uint64_t ns, char out[IPSQ_UNIT_BYTES]);
/* Formats a number with commas: "34,298". */
void ipsq_format_count(uint64_t n, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_bytes(uint64_t bytes, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_real(double r, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_share(double fraction, char out[IPSQ_UNIT_BYTES]);

#endif
