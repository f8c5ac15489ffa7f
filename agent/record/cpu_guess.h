/*
 * Guesses the CPU time of *blocks* (calls in which the thread blocked) between
 * two readings of the thread's CPU clock, and corrects the error gradually.
 *
 * Reported CPU time differs from the clock by the errors of the guesses. A
 * reading shows the difference, `off`. Adding it to the next arc would be
 * wrong: the time was spent in blocks, and that arc may be too short for it.
 * The arc would then have more CPU time than elapsed time, and the longest path
 * would stay in it. So each of the following blocks gets a part of `off`, as
 * far as the block lasted long enough.
 *
 * Invariants of the CPU time reported between readings:
 *  - a block costs no more than it lasted; a block that is long enough to be
 *    recognised as one (IPS_BLOCKED_NS) stays recognisable.
 *  - time without a switch counts as CPU time, exactly: only blocks have
 *    errors. If the clock is behind by more than guesses can explain (the
 *    hypervisor took the core), the reported CPU time does not advance until
 *    the clock has caught up (record/cpu.c).
 *  - `off` is measured anew at each reading, so errors do not add up. The last
 *    `off` is applied at the thread's end, where the clock counts.
 *
 * Units: ns. No side effects, async-signal-safe: a handler in between only
 * makes a guess worse.
 */
#ifndef IPS_AGENT_RECORD_CPU_GUESS_H
#define IPS_AGENT_RECORD_CPU_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"

/* A call counts as blocked if elapsed time exceeds CPU time by this much. */
#define IPS_BLOCKED_NS 2000u

struct ips_guess {
    uint64_t block_ns; /* usual CPU time of a block; 0: not known */
    uint64_t given_ns; /* CPU time guessed since the last clock reading */
    uint32_t blocks;   /* number of blocks guessed since then */
    uint32_t window;   /* number of blocks after which the clock is read at the
                          latest; 0: not set yet */
    int64_t off; /* clock minus reported CPU time: the part not yet corrected */
    int64_t off_read; /* value of `off` at the last reading */
    /* Known number of voluntary switches of the thread: the kernel's count when
     * page faults were last looked for, plus one for each block since. */
    uint32_t switches;
    uint32_t corrected_ns; /* number of clock readings that corrected guesses */
    /* Totals of the guesses: struct ips_rec_guessed. */
    uint64_t all_ns, off_sum_ns, off_max_ns;
};

/* The CPU time of each block is corrected by 1 / IPS_GUESS_PART of the error
 * `off`. */
#define IPS_GUESS_PART 8
/* Limits of a window (the time between two clock readings), in blocks. The
 * window grows while guesses are good: the error is at most 1 / IPS_GUESS_GOOD
 * of the guessed time. */
#define IPS_GUESS_WINDOW_MIN 16u
#define IPS_GUESS_WINDOW_MAX 64u
#define IPS_GUESS_GOOD 8u
/* After the first 16 blocks a window ends when this much (ns) was guessed. */
#define IPS_GUESS_GIVEN_NS 100000u
/* Guesses cause no larger error (ns) than this. Of a larger one, the excess is
 * reported at once. */
#define IPS_GUESS_OFF_MAX 1000000

/* Returns `cost`, the CPU time of a call in which the thread was switched out,
 * limited so that the call looks like a block if it lasted long enough. */
static inline uint64_t ips_guess_cap_cpu_of_block(uint64_t cost,
                                                  uint64_t elapsed)
{
    return __builtin_expect(elapsed > IPS_BLOCKED_NS + 2, 1)
               ? ips_min_u64(cost, elapsed - IPS_BLOCKED_NS - 2)
               : elapsed;
}

/* Returns the CPU time to report for a block that lasted `elapsed` ns and took
 * `cost` ns of CPU time: `cost` plus a part of `off`. */
static inline uint64_t
ips_guess_add_error_share(struct ips_guess *g, uint64_t cost, uint64_t elapsed)
{
    cost = ips_min_u64(cost, elapsed);
    /* If `cost` is so high that the call does not look like a block, add
     * nothing. */
    uint64_t most =
        ips_max_u64(ips_guess_cap_cpu_of_block(elapsed, elapsed), cost);
    int64_t part = g->off / IPS_GUESS_PART;
    if (part == 0)
        part = (g->off > 0) - (g->off < 0);
    int64_t give = (int64_t)cost + part;
    give = give < 1 ? elapsed > 0 : give;
    give = give > (int64_t)most ? (int64_t)most : give;
    g->off += (int64_t)cost - give;
    return (uint64_t)give;
}

/* Returns a guess of the CPU time (ns) of a block that lasted `elapsed` ns. */
static inline uint64_t ips_guess_and_account_cpu_of_block(struct ips_guess *g,
                                                          uint64_t elapsed)
{
    uint64_t cost = ips_guess_cap_cpu_of_block(g->block_ns, elapsed);
    cost = ips_guess_add_error_share(g, cost, elapsed);
    g->blocks++;
    g->switches++;
    g->given_ns += cost;
    return cost;
}

/* Adapts the usual CPU time of a block to `blocks` blocks that took `ns` in
 * all; returns their mean. An increase is adopted slowly, since one disturbed
 * block says little. */
static inline uint64_t ips_guess_learn_cpu_of_block(struct ips_guess *g,
                                                    uint32_t blocks, int64_t ns)
{
    uint64_t each = ns > 0 ? (uint64_t)ns / blocks : 0;
    uint64_t known = g->block_ns;
    if (!known)
        known = each;
    else if (each < known)
        known -= (known - each) / 2;
    else
        known += ips_min_u64(each - known, known) / 4 + 1;
    g->block_ns = ips_max_u64(known, 1);
    return each;
}

/* Must the clock be read at the next block? */
static inline bool ips_guess_reading_is_due(const struct ips_guess *g)
{
    uint32_t next = g->blocks + 1;
    return next >= IPS_GUESS_WINDOW_MIN &&
           (next >= g->window || g->given_ns >= IPS_GUESS_GIVEN_NS);
}

static inline void ips_guess_adjust_window_length(struct ips_guess *g,
                                                  int64_t off)
{
    uint64_t wrong = (uint64_t)(off < 0 ? -off : off);
    uint64_t is = ips_max_u64(g->window, IPS_GUESS_WINDOW_MIN);
    if (wrong > g->given_ns / IPS_GUESS_GOOD)
        g->window = IPS_GUESS_WINDOW_MIN;
    else if (g->blocks >= is / 2)
        g->window = (uint32_t)ips_min_u64(2 * is, IPS_GUESS_WINDOW_MAX);
}

/* Adds the error `off` of the guesses since the last reading to the totals. */
static inline void ips_guess_add_error_to_totals(struct ips_guess *g,
                                                 int64_t off)
{
    uint64_t wrong = (uint64_t)(off < 0 ? -off : off);
    g->all_ns += g->given_ns;
    g->off_sum_ns += wrong;
    g->off_max_ns = ips_max_u64(g->off_max_ns, wrong);
    g->corrected_ns++;
}

/* Ends a window of guesses, and starts the next, at a reading of the clock that
 * is `off` ns ahead of the reported CPU time. Returns the part of `off` that
 * guesses can explain, which later blocks will get; the caller corrects the
 * rest at once. */
static inline int64_t
ips_guess_start_next_window_and_cap_error(struct ips_guess *g, int64_t off)
{
    /* If too much CPU time was reported (`off` < 0), limit `off` to the guessed
     * time and to the time that the blocks of one window can give back. */
    uint64_t given =
        g->given_ns + (g->off_read < 0 ? (uint64_t)-g->off_read : 0);
    int64_t least =
        -(int64_t)ips_min_u64(given, IPS_GUESS_WINDOW_MIN * g->block_ns);
    int64_t most = g->blocks || g->off_read > 0 ? IPS_GUESS_OFF_MAX : 0;
    off = off < least ? least : off;
    off = off > most ? most : off;
    if (g->blocks) {
        ips_guess_adjust_window_length(g, off);
        ips_guess_add_error_to_totals(g, off);
    }
    g->off = g->off_read = off;
    g->blocks = 0;
    g->given_ns = 0;
    return off;
}

#endif
