/*
 * What blocks cost a thread, guessed between two readings of its CPU clock, and
 * settled without a jump.
 *
 * Time handed out differs from the clock's by the guesses' errors. A reading
 * tells how much that is, `off`. It would be wrong to add it at once: it was
 * spent in blocks, and what comes next may be an arc in which there was no time
 * for it - then the thread would have more CPU than time went by, and the
 * longest path would stay where the error came to lie. So the blocks that come
 * get it, a part each, as far as they lasted long enough.
 *
 * Invariants, of time handed out between readings:
 *  - a block costs no more than it lasted; one that can have been a block by
 *    its length (IPS_BLOCKED_NS) stays one.
 *  - what ran without a switch has all of its time, no more: errors are in
 *    blocks alone. But what the clock is short of by more than guesses can
 *    explain (the hypervisor took the core) is not theirs: then the thread's
 *    time stands still (record/cpu.c).
 *  - `off` is measured anew at each reading, so errors do not add up. Its last
 *    is given out at the thread's end, where the clock is what counts.
 *
 * Units: ns. No side effects, async-signal-safe: a handler in between makes a
 * guess worse, nothing else.
 */
#ifndef IPS_AGENT_RECORD_CPU_GUESS_H
#define IPS_AGENT_RECORD_CPU_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"

/* A call is blocked where elapsed time and CPU time differ by so much. */
#define IPS_BLOCKED_NS 2000u

struct ips_guess {
    uint64_t block_ns; /* what a block costs in this thread; 0 not known yet */
    uint64_t given_ns; /* guessed since the clock was read */
    uint32_t blocks;   /* ... for so many */
    uint32_t window;   /* ... of so many at most, and one that is read; 0 new */
    int64_t off; /* the clock less what was handed out, as far as is known */
    int64_t off_read; /* and at the reading */
    /* How well they did, ever: struct ips_rec_guessed. */
    uint64_t all_ns, off_sum_ns, off_max_ns;
    uint32_t corrected_ns;
};

/* One block gets so much of what is off. */
#define IPS_GUESS_PART 8
/* A window is as long as guesses have been good: within one part in so many. */
#define IPS_GUESS_WINDOW_MIN 16u
#define IPS_GUESS_WINDOW_MAX 64u
#define IPS_GUESS_GOOD 8u
/* ... but for the first 16, no longer than for so much. */
#define IPS_GUESS_GIVEN_NS 100000u
/* More is no guess's error: it is handed out at once. */
#define IPS_GUESS_OFF_MAX 1000000

/* What a call that was switched out may have cost, so that it looks like a
 * block if it can have been one. */
static inline uint64_t ips_guess_as_block(uint64_t cost, uint64_t elapsed)
{
    return __builtin_expect(elapsed > IPS_BLOCKED_NS + 2, 1)
               ? ips_min_u64(cost, elapsed - IPS_BLOCKED_NS - 2)
               : elapsed;
}

/* What a block that lasted `elapsed` ns is given, if `cost` is what it took. */
static inline uint64_t ips_guess_give(struct ips_guess *g, uint64_t cost,
                                      uint64_t elapsed)
{
    cost = ips_min_u64(cost, elapsed);
    /* As measured it may be no block; then it has no room for more. */
    uint64_t most = ips_max_u64(ips_guess_as_block(elapsed, elapsed), cost);
    int64_t part = g->off / IPS_GUESS_PART;
    if (part == 0)
        part = (g->off > 0) - (g->off < 0);
    int64_t give = (int64_t)cost + part;
    give = give < 1 ? elapsed > 0 : give;
    give = give > (int64_t)most ? (int64_t)most : give;
    g->off += (int64_t)cost - give;
    return (uint64_t)give;
}

/* A block of which nothing is known but that it was one. */
static inline uint64_t ips_guess_block(struct ips_guess *g, uint64_t elapsed)
{
    uint64_t cost = ips_guess_as_block(g->block_ns, elapsed);
    cost = ips_guess_give(g, cost, elapsed);
    g->blocks++;
    g->given_ns += cost;
    return cost;
}

/* `blocks` took `ns` together. Returns one's. One that was disturbed is no
 * measure: learnt slowly. */
static inline uint64_t ips_guess_learn(struct ips_guess *g, uint32_t blocks,
                                       int64_t ns)
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

/* Has the next block to be read? */
static inline bool ips_guess_due(const struct ips_guess *g)
{
    uint32_t next = g->blocks + 1;
    return next >= IPS_GUESS_WINDOW_MIN &&
           (next >= g->window || g->given_ns >= IPS_GUESS_GIVEN_NS);
}

static inline void ips_guess_judge(struct ips_guess *g, int64_t off)
{
    uint64_t wrong = (uint64_t)(off < 0 ? -off : off);
    uint64_t is = ips_max_u64(g->window, IPS_GUESS_WINDOW_MIN);
    if (wrong > g->given_ns / IPS_GUESS_GOOD)
        g->window = IPS_GUESS_WINDOW_MIN;
    else if (g->blocks >= is / 2)
        g->window = (uint32_t)ips_min_u64(2 * is, IPS_GUESS_WINDOW_MAX);
}

/* A reading found the guesses since the last one `off`. */
static inline void ips_guess_account(struct ips_guess *g, int64_t off)
{
    uint64_t wrong = (uint64_t)(off < 0 ? -off : off);
    g->all_ns += g->given_ns;
    g->off_sum_ns += wrong;
    g->off_max_ns = ips_max_u64(g->off_max_ns, wrong);
    g->corrected_ns++;
}

/* The clock is `off` ns ahead of what has been handed out. Returns how much of
 * it is the guesses' and stays; the rest is the caller's to mend. */
static inline int64_t ips_guess_correct(struct ips_guess *g, int64_t off)
{
    /* Too much: what the blocks of a window can give back, and was guessed. */
    uint64_t given =
        g->given_ns + (g->off_read < 0 ? (uint64_t)-g->off_read : 0);
    int64_t least =
        -(int64_t)ips_min_u64(given, IPS_GUESS_WINDOW_MIN * g->block_ns);
    int64_t most = g->blocks || g->off_read > 0 ? IPS_GUESS_OFF_MAX : 0;
    off = off < least ? least : off;
    off = off > most ? most : off;
    if (g->blocks) {
        ips_guess_judge(g, off);
        ips_guess_account(g, off);
    }
    g->off = g->off_read = off;
    g->blocks = 0;
    g->given_ns = 0;
    return off;
}

#endif
