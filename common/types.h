/*
 * Shared helpers in a header: times and checked arithmetic. No state, no I/O.
 * This is the only header of `common` that agent code inside a recorded program
 * may include.
 */
#ifndef IPS_COMMON_TYPES_H
#define IPS_COMMON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unless its name or comment says otherwise, a time is a uint64_t in ns. Times
 * of events (`t_ns`) are read from one machine's CLOCK_MONOTONIC_RAW, the
 * slave's own timers (slave_now_ns) from CLOCK_MONOTONIC. */

/* a - b, or 0 if b is greater: two clocks or counters may differ by a few ns,
 * and a length is never negative. */
static inline uint64_t ips_sub_sat(uint64_t a, uint64_t b)
{
    uint64_t left;
    return __builtin_sub_overflow(a, b, &left) ? 0 : left;
}

static inline uint64_t ips_add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t ips_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
static inline int64_t ips_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t ips_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint32_t ips_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static inline uint32_t ips_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* For products of two 64-bit values; not ISO C, but supported by every compiler
 * that we use. */
__extension__ typedef __int128 ips_i128;
__extension__ typedef unsigned __int128 ips_u128;

/* Returns x * mult / 2^32 without losing high bits; UINT64_MAX if it does not
 * fit. */
static inline uint64_t ips_mul_q32(uint64_t x, uint64_t mult)
{
    ips_u128 wide = (ips_u128)x * mult >> 32;
    return wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
}

/* Returns the FNV-1a hash of `data`; `seed` is IPS_FNV_SEED, or the hash of the
 * data before it. */
#define IPS_FNV_SEED 0xcbf29ce484222325ULL
static inline uint64_t ips_fnv1a(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < len; i++)
        seed = (seed ^ p[i]) * 0x100000001b3ULL;
    return seed;
}

#endif
