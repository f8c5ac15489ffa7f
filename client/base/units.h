/*
 * Times and sizes as people write and read them. Nothing here goes through
 * floating point on the way in: "1.5ms" is exactly 1500000 ns.
 */
#ifndef IPS_CLIENT_BASE_UNITS_H
#define IPS_CLIENT_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define IPSQ_UNIT_BYTES 32

/* A duration: decimals and a suffix ns (default), us, ms or s; no sign. Digits
 * below one ns are refused. IPS_E_USAGE says what is wrong. */
int ipsq_parse_duration(const char *text, uint64_t *ns,
                        struct ips_err *err) IPS_MUST_USE;

/* "BASE" or "BASE+PER_BYTE" (a comma does as well): BASE a duration of at most
 * an hour, PER_BYTE ns a byte with decimals, or with a suffix, at most 2^31
 * ns, as a 32.32 fixed-point number rounded to nearest. */
/* Bytes: a whole number, with k or m behind for 1024 or 1024^2. */
int ipsq_parse_bytes(const char *text, uint64_t *bytes,
                     struct ips_err *err) IPS_MUST_USE;
/* A share of less than all: 5% or 0.05; in millionths. */
int ipsq_parse_share(const char *text, uint32_t *ppm,
                     struct ips_err *err) IPS_MUST_USE;
int ipsq_parse_mtime(const char *text, uint64_t *base_ns,
                     uint64_t *per_byte_q32, struct ips_err *err) IPS_MUST_USE;

/* A positive decimal number. */
int ipsq_parse_count(const char *text, uint64_t *n,
                     struct ips_err *err) IPS_MUST_USE;

/* "1.5": a number of at most four digits, as num / den. */
int ipsq_parse_ratio(const char *text, uint32_t *num, uint32_t *den,
                     struct ips_err *err) IPS_MUST_USE;

/* "30%" or "2.5x" (twice and a half as fast), as millionths of the time saved:
 * more than nothing, at most all of it. Finer digits are cut off. */
#define IPSQ_GONE 1000000u
int ipsq_parse_faster(const char *text, uint32_t *ppm,
                      struct ips_err *err) IPS_MUST_USE;

/* "-" where not measured (all ones, NaN). Widest unit in which the number has
 * at least one digit before the point: "17 ns", "1.250 us", "83.21 s". */
void ipsq_format_ns(uint64_t ns, char out[IPSQ_UNIT_BYTES]);
/* "34,298" */
void ipsq_format_count(uint64_t n, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_bytes(uint64_t bytes, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_real(double r, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_share(double fraction, char out[IPSQ_UNIT_BYTES]);

#endif
