/*
 * The order in which an answer's rows are sorted by a column: numbers from
 * greatest to least, texts alphabetically; `back` reverses that. Values that
 * were not measured, and empty texts, come last in both orders. The client
 * sorts rows with these functions; the master uses them to leave out the rows
 * that the client would leave out (--top). They return less than 0 if a comes
 * before b, and have no side effects.
 */
#ifndef IPS_COMMON_RANK_H
#define IPS_COMMON_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline int ips_rank_compare_reals(double a, double b, bool has_a,
                                         bool has_b, bool back)
{
    if (has_a != has_b)
        return has_a ? -1 : 1;
    if (!has_a || !(a < b || a > b))
        return 0;
    return (a < b) == back ? -1 : 1;
}

static inline int ips_rank_compare_texts(const char *a, const char *b,
                                         bool back)
{
    bool has_a = a && *a, has_b = b && *b;
    if (has_a != has_b)
        return has_a ? -1 : 1;
    int c = has_a ? strcmp(a, b) : 0;
    return back ? -c : c;
}

/* Compares counts; UINT64_MAX means not measured. */
static inline int ips_rank_compare_counts(uint64_t a, uint64_t b, bool back)
{
    bool has_a = a != UINT64_MAX, has_b = b != UINT64_MAX;
    if (has_a != has_b)
        return has_a ? -1 : 1;
    if (!has_a || a == b)
        return 0;
    return (a < b) == back ? -1 : 1;
}

static inline int ips_rank_compare_integers(int64_t a, int64_t b, bool back)
{
    return a == b ? 0 : (a < b) == back ? -1 : 1;
}

#endif
