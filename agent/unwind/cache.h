/*
 * Rules of frames that were read before: a walk up a stack that goes through
 * the same callers again costs some 5 ns a frame, where the search, the CIE,
 * the FDE and its instructions take 100. For unwind.c alone.
 *
 * Kept are the rules that nearly all frames have: the CFA is rsp or rbp and an
 * offset, the return address lies right below it, and of the registers that a
 * callee saves each is as it was or lies within 120 bytes below the CFA. All
 * else is read anew each time. That is 41 bits, so a rule is one word.
 *
 * Invariants: two tables of the process, lock-free, async-signal-safe. A place
 * holds (rule, pc ^ rule): what two threads wrote at once, or a reader saw half
 * of, is not the rule of any pc but by a chance of one in 2^64. What is kept is
 * true while its module is mapped: modules.c calls ips_unwind_reset when one
 * went. A rule that is stale all the same (the C library's own dlclose, until
 * an address of the new module is seen) gives wrong frames, never a fault:
 * stacks are read within their bounds.
 */
#ifndef IPS_AGENT_UNWIND_CACHE_H
#define IPS_AGENT_UNWIND_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/unwind.h"

/* Places, as a power of two. A short process needs a few rules: its own table
 * is 1 KB beside what else it touches, not five pages to be made. */
#define IPS_KEPT_FEW 6u
#define IPS_KEPT_MANY 10u
#define IPS_KEPT_REGS 6u
#define IPS_KEPT_REACH 15 /* words below the CFA */

/* word: offset of the CFA (16) | by rbp (1) | a register's place, in words
 * below the CFA, 0 = as it was (4 each) | 1 << 62: the outermost frame, which
 * nobody called | 1 << 63: a rule */
#define IPS_KEPT_BY_FP (1ull << 16)
#define IPS_KEPT_PLACES 17u
#define IPS_KEPT_LAST (1ull << 62)
#define IPS_KEPT_RULE (1ull << 63)

static const uint8_t ips_kept_reg[IPS_KEPT_REGS] = {IPS_REG_BX, IPS_REG_FP, 12,
                                                    13,         14,         15};

struct ips_cached_rule {
    _Atomic uint64_t rule, check;
};

/* `bits`: the table has 1 << bits places. */
static inline struct ips_cached_rule *
ips_rule_slot(struct ips_cached_rule *table, unsigned bits, uint64_t pc)
{
    return &table[(pc * 0x9e3779b97f4a7c15ull) >> (64 - bits)];
}

/* 0: not kept. */
static inline uint64_t ips_rule_find(struct ips_cached_rule *table,
                                     unsigned bits, uint64_t pc)
{
    struct ips_cached_rule *k = ips_rule_slot(table, bits, pc);
    uint64_t rule = atomic_load_explicit(&k->rule, memory_order_relaxed);
    uint64_t check = atomic_load_explicit(&k->check, memory_order_relaxed);
    return (check ^ rule) == pc ? rule : 0;
}

static inline void ips_rule_add(struct ips_cached_rule *table, unsigned bits,
                                uint64_t pc, uint64_t rule)
{
    struct ips_cached_rule *k = ips_rule_slot(table, bits, pc);
    atomic_store_explicit(&k->rule, rule, memory_order_relaxed);
    atomic_store_explicit(&k->check, pc ^ rule, memory_order_relaxed);
}

#endif
