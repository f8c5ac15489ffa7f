/*
 * The order of an answer's rows by a column: numbers greatest first, texts in
 * order, `back` the other way round; what was not measured, and an empty text,
 * is last either way. The client sorts by it, and the master leaves out by it
 * what the client would. Less than 0: the first goes before. Pure.
 */
#ifndef IPS_COMMON_RANK_H
#define IPS_COMMON_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline int ips_rank_real(double a, double b, bool has_a, bool has_b,
                                bool back)
{
    if (has_a != has_b)
        return has_a ? -1 : 1;
    if (!has_a || !(a < b || a > b))
        return 0;
    return (a < b) == back ? -1 : 1;
}

static inline int ips_rank_text(const char *a, const char *b, bool back)
{
    bool has_a = a && *a, has_b = b && *b;
    if (has_a != has_b)
        return has_a ? -1 : 1;
    int c = has_a ? strcmp(a, b) : 0;
    return back ? -c : c;
}

/* All ones: not measured. */
static inline int ips_rank_count(uint64_t a, uint64_t b, bool back)
{
    bool has_a = a != UINT64_MAX, has_b = b != UINT64_MAX;
    if (has_a != has_b)
        return has_a ? -1 : 1;
    if (!has_a || a == b)
        return 0;
    return (a < b) == back ? -1 : 1;
}

static inline int ips_rank_integer(int64_t a, int64_t b, bool back)
{
    return a == b ? 0 : (a < b) == back ? -1 : 1;
}

#endif
