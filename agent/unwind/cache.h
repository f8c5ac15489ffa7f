/*
 * Cache of unwind rules: unwinding a frame whose rule is cached takes about 5
 * ns. Without the cache it takes 100 ns to find the FDE, read it and its CIE,
 * and run their instructions. For unwind.c only.
 *
 * The cache holds the rules that nearly all frames have: the CFA is rsp or rbp
 * plus an offset, the return address is right below it, and each callee-saved
 * register is unchanged or saved within 120 bytes below the CFA. Such a rule
 * has 41 bits, so it fits into one word. Other rules are not cached.
 *
 * Invariants: two tables per process, lock-free, async-signal-safe. A slot
 * holds (rule, pc ^ rule). If two threads wrote it at the same time, or a
 * reader sees half of a write, the values match a given pc only with a chance
 * of one in 2^64. A cached rule is valid while its module is mapped: modules.c
 * calls ips_unwind_clear_rules after an unload. If the C library itself unloads
 * a module, its rules stay in the cache until an address of the new module is
 * seen. Such a stale rule gives wrong frames but never a fault: stacks are read
 * only within their bounds.
 */
#ifndef IPS_AGENT_UNWIND_CACHE_H
#define IPS_AGENT_UNWIND_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/unwind.h"

/* Sizes of the two tables: 1 << N slots. A short process needs only a few
 * rules, so it touches the table of 1 KB and not five new pages. */
#define IPS_KEPT_FEW 6u
#define IPS_KEPT_MANY 10u
#define IPS_KEPT_REGS 6u
#define IPS_KEPT_REACH 15 /* farthest saved register: words below the CFA */

/* Bits of a rule: offset of the CFA (16 bits) | CFA relative to rbp, not rsp (1
 * bit) | for each register, the number of words below the CFA where it is
 * saved, 0 = unchanged (4 bits each) | 1 << 62: the outermost frame, which has
 * no caller | 1 << 63: set in every rule */
#define IPS_KEPT_BY_FP (1ull << 16)
#define IPS_KEPT_PLACES 17u
#define IPS_KEPT_LAST (1ull << 62)
#define IPS_KEPT_RULE (1ull << 63)

static const uint8_t ips_kept_reg[IPS_KEPT_REGS] = {IPS_REG_BX, IPS_REG_FP, 12,
                                                    13,         14,         15};

struct ips_cached_rule {
    _Atomic uint64_t rule, check;
};

/* Returns the slot of `pc` in a table of 1 << bits slots. */
static inline struct ips_cached_rule *
ips_rule_slot(struct ips_cached_rule *table, unsigned bits, uint64_t pc)
{
    return &table[(pc * 0x9e3779b97f4a7c15ull) >> (64 - bits)];
}

/* Returns the cached rule of `pc`, or 0. */
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
