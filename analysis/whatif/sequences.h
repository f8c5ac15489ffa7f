/*
 * The most common sequences of steps on a path, by the time they take: the
 * n-grams of 2 to `longest` steps that occur at least twice. Pure.
 *
 *  - Occurrences of one sequence do not overlap: they are counted from the
 *    path's begin on, each where the one before has ended. So no sequence has
 *    more time than the path.
 *  - Its time is that of its steps and of what lies between them.
 *  - Of a loop a, b, c, a, b, c the sequences abc, bca, cab, ab, abca say the
 *    same, and abab what ab says. None that repeats a shorter one is listed,
 *    and of those that go along with a greater one of the list and occur hardly
 *    more often, only that one.
 *
 * Source: IPS-12 "most common sequences of nodes".
 */
#ifndef IPS_ANALYSIS_WHATIF_SEQUENCES_H
#define IPS_ANALYSIS_WHATIF_SEQUENCES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define IPS_SEQUENCE_LONGEST 8u

struct ips_step {
    uint32_t what;   /* neighbours differ */
    uint64_t ns;     /* of it */
    uint64_t gap_ns; /* between the step before and it */
};
struct ips_sequence {
    uint32_t first; /* index of the first step of its first occurrence */
    uint32_t length;
    uint64_t ns, count;
};

/* Fills out[top] with the greatest, greatest first; returns how many in
 * *count. Sums must stay below 2^63. O(longest * n log n). */
int ips_sequences(const struct ips_step *steps, uint32_t n, uint32_t longest,
                  uint32_t top, struct ips_sequence *out, uint32_t *count,
                  struct ips_err *err) IPS_MUST_USE;

#endif
