/*
 * Finds the sequences of steps on a path that take the most time in all:
 * n-grams of 2 to `longest` steps that occur at least twice. Pure.
 *  - Occurrences of one sequence do not overlap: they are counted from the
 *    start of the path, each after the end of the previous one. So no sequence
 *    has more time than the path.
 *  - The time of an occurrence includes the gaps between its steps.
 *  - In a loop a, b, c, a, b, c the sequences abc, bca, cab, ab and abca show
 *    the same thing, and abab shows no more than ab. A sequence that repeats a
 *    shorter one is not listed. If a sequence is part of a more expensive
 *    repeated sequence in the list, it is listed only if it occurs clearly more
 *    often.
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
    /* number that identifies what the step does; two successive steps have
     * different numbers */
    uint32_t what;
    uint64_t ns;     /* duration of the step */
    uint64_t gap_ns; /* ns between the previous step and this one */
};
struct ips_sequence {
    uint32_t first; /* index of the first step of its first occurrence */
    uint32_t length;
    uint64_t ns, count;
};

/* Fills out[top] with the sequences that take most time, in descending order,
 * and sets *count to their number. Sums must stay below 2^63. O(longest * n log
 * n). */
int ips_find_costliest_step_sequences(const struct ips_step *steps, uint32_t n,
                                      uint32_t longest, uint32_t top,
                                      struct ips_sequence *out, uint32_t *count,
                                      struct ips_err *err) IPS_MUST_USE;

#endif
