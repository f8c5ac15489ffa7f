/*
 * Encodes numbers with 7 bits in each byte, low bits first, and signed
 * differences of numbers, for arrays of millions of numbers. There are no
 * bounds checks: a writer needs room for IPS_VARINT_BYTES a number; a reader
 * needs as many readable bytes after the last number, and checks afterwards
 * whether it read too far.
 */
#ifndef IPS_ANALYSIS_GRAPH_VARINT_H
#define IPS_ANALYSIS_GRAPH_VARINT_H

#include <stdint.h>

#define IPS_VARINT_BYTES 10

static inline uint8_t *ips_varint_write(uint8_t *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    return at;
}

static inline const uint8_t *ips_varint_read(const uint8_t *at, uint64_t *v)
{
    uint64_t byte = *at++, sum = byte & 0x7f;
    for (unsigned shift = 7; byte >= 0x80 && shift < 70; shift += 7) {
        byte = *at++;
        sum |= (byte & 0x7f) << shift;
    }
    *v = sum;
    return at;
}

/* Returns the difference to - from (modulo 2^64) in zigzag form: a number that
 * is small if the difference is small in either direction. */
static inline uint64_t ips_varint_zigzag_difference(uint64_t from, uint64_t to)
{
    uint64_t d = to - from;
    return (d << 1) ^ (0 - (d >> 63));
}

static inline uint64_t ips_add_zigzag_difference(uint64_t from, uint64_t step)
{
    return from + ((step >> 1) ^ (0 - (step & 1)));
}

#endif
