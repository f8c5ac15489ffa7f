/*
 * Cache of unwind rules: a walk up a stack through callers that were met before
 * costs about 5 ns a frame; without the cache, the search, the CIE, the FDE and
 * its instructions take 100 ns. For unwind.c only.
 *
 * The cache holds the rules that nearly all frames have: the CFA is rsp or rbp
 * plus an offset, the return address is right below it, and each callee-saved
 * register is unchanged or saved within 120 bytes below the CFA. Other rules
 * are read anew each time. Such a rule has 41 bits, so it fits one word.
 *
 * Invariants: two tables per process, lock-free, async-signal-safe. A slot
 * holds (rule, pc ^ rule): if two threads wrote at once, or a reader saw half
 * of a write, the value matches some pc only with a chance of one in 2^64. A
 * cached rule is true while its module is mapped: modules.c calls
 * ips_unwind_clear_rules after an unload. A rule can still be stale (after the
 * C library's own dlclose, until an address of the new module is seen). It then
 * gives wrong frames, never a fault: stacks are read within their bounds.
 */
#ifndef IPS_AGENT_UNWIND_CACHE_H
#define IPS_AGENT_UNWIND_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/unwind.h"

/* Slots, as a power of two. A short process needs a few rules: it then touches
 * a table of 1 KB, not five new pages. */
#define IPS_KEPT_FEW 6u
#define IPS_KEPT_MANY 10u
#define IPS_KEPT_REGS 6u
#define IPS_KEPT_REACH 15 /* words below the CFA */

/* word: offset of the CFA (16 bits) | CFA by rbp (1) | for each register, words
 * below the CFA where it is saved, 0 = unchanged (4 each) | 1 << 62: the
 * outermost frame, which has no caller | 1 << 63: a rule */
#define IPS_KEPT_BY_FP (1ull << 16)
#define IPS_KEPT_PLACES 17u
#define IPS_KEPT_LAST (1ull << 62)
#define IPS_KEPT_RULE (1ull << 63)

static const uint8_t ips_kept_reg[IPS_KEPT_REGS] = {IPS_REG_BX, IPS_REG_FP, 12,
                                                    13,         14,         15};

struct ips_cached_rule {
    _Atomic uint64_t rule, check;
};

/* The table has 1 << bits slots. */
static inline struct ips_cached_rule *
ips_rule_slot(struct ips_cached_rule *table, unsigned bits, uint64_t pc)
{
    return &table[(pc * 0x9e3779b97f4a7c15ull) >> (64 - bits)];
}

/* Returns 0 if the rule is not cached. */
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
