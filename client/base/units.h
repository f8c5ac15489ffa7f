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

/* Parses a duration: a decimal number with a suffix ns (default), us, ms or s,
 * and no sign. Fractions of a ns are refused. IPS_E_USAGE: the message says
 * what is wrong. */
int ipsq_parse_duration(const char *text, uint64_t *ns,
                        struct ips_err *err) IPS_MUST_USE;

/* Parses a number of bytes: a whole number greater than 0, with a suffix k or m
 * for 1024 or 1024^2. */
int ipsq_parse_bytes(const char *text, uint64_t *bytes,
                     struct ips_err *err) IPS_MUST_USE;
/* Parses a share below 100%, such as 5% or 0.05, into millionths. */
int ipsq_parse_share(const char *text, uint32_t *ppm,
                     struct ips_err *err) IPS_MUST_USE;
/* Parses a message time: "none", "BASE" or "BASE+PER_BYTE" ("," works like
 * "+"). BASE is a duration of at most an hour. PER_BYTE is ns per byte,
 * decimals and a suffix allowed, at most 2^31 ns; the result is a 32.32
 * fixed-point number, rounded to nearest. */
int ipsq_parse_message_time(const char *text, uint64_t *base_ns,
                            uint64_t *per_byte_q32,
                            struct ips_err *err) IPS_MUST_USE;

/* Parses a whole number greater than 0. */
int ipsq_parse_positive_count(const char *text, uint64_t *n,
                              struct ips_err *err) IPS_MUST_USE;

/* Parses a number of at most four digits, such as "1.5", into num / den. */
int ipsq_parse_decimal_as_fraction(const char *text, uint32_t *num,
                                   uint32_t *den,
                                   struct ips_err *err) IPS_MUST_USE;

#define IPSQ_GONE 1000000u
/* Parses how much faster something gets: "30%" (of its time is saved) or "2.5x"
 * (2.5 times as fast). *ppm becomes the share of the time that is saved: 1 to
 * IPSQ_GONE (all of it). Finer digits are truncated. */
int ipsq_parse_speedup_as_saved_share(const char *text, uint32_t *ppm,
                                      struct ips_err *err) IPS_MUST_USE;

/* Formats a time in the greatest unit in which the number is at least 1: "17
 * ns", "1.250 us", "83.21 s". Like the functions below, except
 * ipsq_format_with_commas, it writes "-" for a value that was not measured
 * (UINT64_MAX, NaN). */
void ipsq_format_ns(uint64_t ns, char out[IPSQ_UNIT_BYTES]);
/* Formats a number with commas: "34,298". */
void ipsq_format_with_commas(uint64_t n, char out[IPSQ_UNIT_BYTES]);
/* Formats a size: "512 B", "1.500 KiB". */
void ipsq_format_bytes(uint64_t bytes, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_real(double r, char out[IPSQ_UNIT_BYTES]);
void ipsq_format_share(double fraction, char out[IPSQ_UNIT_BYTES]);

#endif
