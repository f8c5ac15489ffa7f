/* Walks up the stack. Follows the DWARF 5 standard, section 6.4, and the LSB's
 * "Exception Frames" for .eh_frame and .eh_frame_hdr. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "agent/record/core.h"
#include "agent/unwind/cache.h"
#include "agent/unwind/table.h"

/* Reads one word of the stack; returns false if it is not aligned or not within
 * [low, end). */
static bool load_word(const struct ips_unwind_stack *u, uint64_t at,
                      uint64_t *out)
{
    if (at < u->low || at % 8 || u->end < 8 || at > u->end - 8)
        return false;
    *out = *(const uint64_t *)at;
    return true;
}

static bool has_register(const struct ips_unwind_stack *u, unsigned reg)
{
    return reg < IPS_REGS && (u->known >> reg & 1u);
}

static void set_register(struct ips_unwind_stack *u, unsigned reg,
                         uint64_t value)
{
    u->reg[reg] = value;
    u->known |= 1u << reg;
}

/* Steps to the caller's frame by the frame pointer: pc = [fp + 8], fp = [fp],
 * sp = fp + 16. Returns false if fp does not point up the stack or the frame
 * cannot be read. */
static bool step_by_frame_pointer(struct ips_unwind_stack *u)
{
    uint64_t fp, pc, at = u->reg[IPS_REG_FP];
    if (!has_register(u, IPS_REG_FP) || at < u->reg[IPS_REG_SP] ||
        !load_word(u, at, &fp) || !load_word(u, at + 8, &pc))
        return false;
    u->known = 0; /* the other registers are unknown */
    set_register(u, IPS_REG_FP, fp);
    set_register(u, IPS_REG_SP, at + 16);
    set_register(u, IPS_REG_PC, pc);
    return true;
}

#if IPS_UNWIND_TABLES

#define STEPS_MAX 512u
#define ROWS_KEPT 3u

enum rule {
    RULE_SAME = 0,
    RULE_UNDEFINED,
    RULE_AT,  /* saved at address CFA + value */
    RULE_IS,  /* its value is CFA + value */
    RULE_REG, /* its value is in register `value` */
    RULE_XAT, /* saved at the address that the expression at `value` computes */
    RULE_XIS, /* its value is what the expression at `value` computes */
};
struct cfi_row {
    uint32_t named; /* one bit for each register that has a rule */
    uint8_t kind[IPS_REGS];
    uint8_t cfa_kind; /* RULE_IS: reg + offset; RULE_XIS: expression */
    uint8_t cfa_reg;
    int32_t cfa;             /* offset, or offset of an expression from `lo` */
    int32_t value[IPS_REGS]; /* offset, register number, or offset of an
                                expression from `lo`, by kind */
};

/* --- the rules -------------------------------------------------------- */

static bool store_as_int32(int64_t v, int32_t *out)
{
    *out = (int32_t)v;
    return *out == v;
}

static bool set_register_rule(struct cfi_row *row, uint64_t reg, enum rule kind,
                              int64_t value)
{
    if (reg >= IPS_REGS) /* vector registers: not needed */
        return true;
    row->named |= 1u << reg;
    row->kind[reg] = (uint8_t)kind;
    return store_as_int32(value, &row->value[reg]);
}

/* Skips a DWARF expression; returns its offset from `lo`. */
static int64_t skip_expression(const struct fde *f, struct table_reader *r)
{
    int64_t place = r->p - f->lo;
    uint64_t bytes = read_uleb128(r);
    if (r->bad || bytes > (uint64_t)(r->end - r->p))
        r->bad = true;
    else
        r->p += bytes;
    return place;
}

static bool set_cfa_rule(struct cfi_row *row, uint64_t reg, int64_t offset)
{
    if (reg >= IPS_REGS)
        return false;
    row->cfa_kind = RULE_IS;
    row->cfa_reg = (uint8_t)reg;
    return store_as_int32(offset, &row->cfa);
}

struct cfi_machine {
    const struct fde *f;
    struct cfi_row row, initial, saved[ROWS_KEPT];
    uint32_t depth;
    uint64_t loc;
};

/* Runs a CFI instruction whose upper two bits are 0 (DW_CFA_*): all but
 * advance_loc, offset and restore. Returns false if it is unknown or invalid.
 */
static bool run_extended_cfi(struct cfi_machine *m, struct table_reader *r,
                             uint8_t op)
{
    const int64_t da = m->f->data_align;
    uint64_t reg;
    switch (op) {
    case 0x00: /* nop */
        return true;
    case 0x01: /* set_loc */
        m->loc = read_encoded_pointer(r, m->f->pointer, true);
        return true;
    case 0x02: /* advance_loc1, 2, 4 */
        m->loc += read_int_of_bytes(r, 1) * m->f->code_align;
        return true;
    case 0x03:
        m->loc += read_int_of_bytes(r, 2) * m->f->code_align;
        return true;
    case 0x04:
        m->loc += read_int_of_bytes(r, 4) * m->f->code_align;
        return true;
    case 0x05: /* offset_extended */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_AT,
                                 (int64_t)read_uleb128(r) * da);
    case 0x06: /* restore_extended */
        reg = read_uleb128(r);
        return reg >= IPS_REGS ||
               set_register_rule(&m->row, reg, m->initial.kind[reg],
                                 m->initial.value[reg]);
    case 0x07: /* undefined */
        return set_register_rule(&m->row, read_uleb128(r), RULE_UNDEFINED, 0);
    case 0x08: /* same_value */
        return set_register_rule(&m->row, read_uleb128(r), RULE_SAME, 0);
    case 0x09: /* register */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_REG,
                                 (int64_t)read_uleb128(r));
    case 0x0a: /* remember_state */
        if (m->depth == ROWS_KEPT)
            return false;
        m->saved[m->depth++] = m->row;
        return true;
    case 0x0b: /* restore_state */
        if (!m->depth)
            return false;
        m->row = m->saved[--m->depth];
        return true;
    case 0x0c: /* def_cfa */
        reg = read_uleb128(r);
        return set_cfa_rule(&m->row, reg, (int64_t)read_uleb128(r));
    case 0x0d: /* def_cfa_register */
        return set_cfa_rule(&m->row, read_uleb128(r), m->row.cfa);
    case 0x0e: /* def_cfa_offset */
        return set_cfa_rule(&m->row, m->row.cfa_reg, (int64_t)read_uleb128(r));
    case 0x0f: /* def_cfa_expression */
        m->row.cfa_kind = RULE_XIS;
        return store_as_int32(skip_expression(m->f, r), &m->row.cfa);
    case 0x10: /* expression */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_XAT,
                                 skip_expression(m->f, r));
    case 0x11: /* offset_extended_sf */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_AT, read_sleb128(r) * da);
    case 0x12: /* def_cfa_sf */
        reg = read_uleb128(r);
        return set_cfa_rule(&m->row, reg, read_sleb128(r) * da);
    case 0x13: /* def_cfa_offset_sf */
        return set_cfa_rule(&m->row, m->row.cfa_reg, read_sleb128(r) * da);
    case 0x14: /* val_offset */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_IS,
                                 (int64_t)read_uleb128(r) * da);
    case 0x15: /* val_offset_sf */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_IS, read_sleb128(r) * da);
    case 0x16: /* val_expression */
        reg = read_uleb128(r);
        return set_register_rule(&m->row, reg, RULE_XIS,
                                 skip_expression(m->f, r));
    case 0x2e: /* GNU_args_size */
        read_uleb128(r);
        return true;
    default:
        return false;
    }
}

/* Runs CFI instructions up to those for `pc`. Returns false if one is unknown
 * or invalid. */
static bool run_cfi_until_pc(struct cfi_machine *m, const uint8_t *at,
                             const uint8_t *end, uint64_t pc)
{
    struct table_reader r = {at, end, false};
    for (unsigned steps = 0; r.p < r.end; steps++) {
        uint8_t op = (uint8_t)read_int_of_bytes(&r, 1), low = op & 0x3f;
        bool good = true;
        if (op >> 6 == 1)
            m->loc += low * m->f->code_align;
        else if (op >> 6 == 2)
            good =
                set_register_rule(&m->row, low, RULE_AT,
                                  (int64_t)read_uleb128(&r) * m->f->data_align);
        else if (op >> 6 == 3)
            good = low >= IPS_REGS ||
                   set_register_rule(&m->row, low, m->initial.kind[low],
                                     m->initial.value[low]);
        else
            good = run_extended_cfi(m, &r, low);
        if (!good || r.bad || steps == STEPS_MAX)
            return false;
        if (m->loc > pc)
            return true;
    }
    return true;
}

/* --- DWARF expressions: PLTs and functions that align the stack use them ---
 */

#define DEEP 8u

static bool apply_binary_operation(uint8_t op, uint64_t a, uint64_t b,
                                   uint64_t *out)
{
    switch (op) {
    case 0x1a:
        *out = a & b;
        return true;
    case 0x1c:
        *out = a - b;
        return true;
    case 0x21:
        *out = a | b;
        return true;
    case 0x22:
        *out = a + b;
        return true;
    case 0x24:
        *out = b < 64 ? a << b : 0;
        return true;
    case 0x2a:
        *out = (int64_t)a >= (int64_t)b;
        return true;
    default:
        return false;
    }
}

static bool push_value(uint64_t *stack, unsigned *n, uint64_t v)
{
    if (*n == DEEP)
        return false;
    stack[(*n)++] = v;
    return true;
}

/* Applies the operation `op` of a DWARF expression to the `*n` values on
 * `stack`. Returns false if the operation is unknown or fails. */
static bool apply_dwarf_operation(const struct ips_unwind_stack *u,
                                  struct table_reader *r, uint8_t op,
                                  uint64_t *stack, unsigned *n)
{
    if (op >= 0x30 && op <= 0x4f) /* lit */
        return push_value(stack, n, op - 0x30u);
    if (op >= 0x70 && op < 0x70 + IPS_REGS) /* breg */
        return has_register(u, op - 0x70u) &&
               push_value(stack, n,
                          u->reg[op - 0x70u] + (uint64_t)read_sleb128(r));
    if (op == 0x08) /* const1u, 1s, uleb, sleb */
        return push_value(stack, n, read_int_of_bytes(r, 1));
    if (op == 0x09)
        return push_value(stack, n,
                          (uint64_t)(int64_t)(int8_t)read_int_of_bytes(r, 1));
    if (op == 0x10)
        return push_value(stack, n, read_uleb128(r));
    if (op == 0x11)
        return push_value(stack, n, (uint64_t)read_sleb128(r));
    if (op == 0x06) /* deref */
        return *n && load_word(u, stack[*n - 1], &stack[*n - 1]);
    if (op == 0x23 && *n) { /* plus_uconst */
        stack[*n - 1] += read_uleb128(r);
        return true;
    }
    if (*n < 2)
        return false;
    (*n)--;
    return apply_binary_operation(op, stack[*n - 1], stack[*n], &stack[*n - 1]);
}

/* Evaluates the DWARF expression at offset `place` from f->lo and stores its
 * value in *out. The evaluation stack starts with *start, or empty if `start`
 * is NULL. Returns false if the expression is not supported or fails. */
static bool evaluate_expression(const struct ips_unwind_stack *u,
                                const struct fde *f, int32_t place,
                                const uint64_t *start, uint64_t *out)
{
    uint64_t stack[DEEP];
    unsigned n = 0;
    struct table_reader r = {f->lo + place, f->hi, false};
    uint64_t bytes = read_uleb128(&r);
    if (r.bad || bytes > (uint64_t)(r.end - r.p))
        return false;
    r.end = r.p + bytes;
    if (start)
        stack[n++] = *start;
    for (unsigned steps = 0; r.p < r.end; steps++)
        if (!apply_dwarf_operation(u, &r, (uint8_t)read_int_of_bytes(&r, 1),
                                   stack, &n) ||
            r.bad || steps == STEPS_MAX)
            return false;
    *out = n ? stack[n - 1] : 0;
    return n > 0;
}

/* --- one frame ---------------------------------------------------------- */

#define CALLER_SAVED 0x0f37u /* rax rdx rcx rsi rdi r8-r11: lost in a call */

static bool restore_register(const struct ips_unwind_stack *u,
                             const struct cfi_machine *m, uint64_t at,
                             unsigned reg, struct ips_unwind_stack *up)
{
    const struct cfi_row *row = &m->row;
    int32_t value = row->value[reg];
    uint64_t v = 0;
    switch ((enum rule)row->kind[reg]) {
    case RULE_SAME:
        return true;
    case RULE_UNDEFINED:
        break;
    case RULE_AT:
        v = at + (uint64_t)(int64_t)value;
        /* Unwind tables often do not show that an epilogue has already popped a
         * register: if it was saved below sp, it has its old value again. */
        if (v < u->reg[IPS_REG_SP] && reg != IPS_REG_PC)
            return true;
        if (!load_word(u, v, &v))
            break;
        set_register(up, reg, v);
        return true;
    case RULE_IS:
        set_register(up, reg, at + (uint64_t)(int64_t)value);
        return true;
    case RULE_REG:
        if (value < 0 || !has_register(u, (unsigned)value))
            break;
        set_register(up, reg, u->reg[value]);
        return true;
    case RULE_XAT:
    case RULE_XIS:
        if (!evaluate_expression(u, m->f, value, &at, &v) ||
            (row->kind[reg] == RULE_XAT && !load_word(u, v, &v)))
            break;
        set_register(up, reg, v);
        return true;
    }
    up->known &= ~(1u << reg);
    return reg != IPS_REG_PC;
}

/* Unwinds the frame of a signal handler, whose sp points at the ucontext: takes
 * all registers from the ucontext. */
static bool step_over_signal_frame(struct ips_unwind_stack *u)
{
    static const struct {
        uint8_t reg, greg;
    } map[] = {{3, REG_RBX},  {6, REG_RBP},  {7, REG_RSP},
               {10, REG_R10}, {12, REG_R12}, {13, REG_R13},
               {14, REG_R14}, {15, REG_R15}, {16, REG_RIP}};
    struct ips_unwind_stack up = {.low = u->low, .end = u->end};
    uint64_t gregs =
                 u->reg[IPS_REG_SP] + offsetof(ucontext_t, uc_mcontext.gregs),
             v;
    for (unsigned i = 0; i < sizeof(map) / sizeof(map[0]); i++) {
        if (!load_word(u, gregs + map[i].greg * 8u, &v))
            return false;
        set_register(&up, map[i].reg, v);
    }
    *u = up;
    return true;
}

/* --- the cache of rules -----------------------------------------------------
 */

/* A rule is in `few` or, if another rule has its slot there, in `many`. */
static struct ips_cached_rule few[1 << IPS_KEPT_FEW];
static struct ips_cached_rule many[1 << IPS_KEPT_MANY] IPS_TABLE;
static _Atomic bool many_used;

static void clear_rule_cache_table(struct ips_cached_rule *table, unsigned bits)
{
    for (unsigned i = 0; i < 1u << bits; i++)
        atomic_store_explicit(&table[i].rule, 0, memory_order_relaxed);
}

void ips_unwind_clear_rules(void)
{
    clear_rule_cache_table(few, IPS_KEPT_FEW);
    if (atomic_load_explicit(&many_used, memory_order_relaxed))
        clear_rule_cache_table(many, IPS_KEPT_MANY);
}

static uint64_t find_cached_rule(uint64_t pc)
{
    uint64_t rule = ips_rule_find(few, IPS_KEPT_FEW, pc);
    if (!rule && atomic_load_explicit(&many_used, memory_order_relaxed))
        rule = ips_rule_find(many, IPS_KEPT_MANY, pc);
    return rule;
}

static void cache_rule(uint64_t pc, uint64_t rule)
{
    struct ips_cached_rule *k = ips_rule_slot(few, IPS_KEPT_FEW, pc);
    if (atomic_load_explicit(&k->rule, memory_order_relaxed) == 0) {
        ips_rule_add(few, IPS_KEPT_FEW, pc, rule);
        return;
    }
    atomic_store_explicit(&many_used, true, memory_order_relaxed);
    ips_rule_add(many, IPS_KEPT_MANY, pc, rule);
}

/* Returns the row packed into one word (unwind/cache.h); 0 if it does not fit.
 */
static uint64_t pack_rule(const struct cfi_row *row)
{
    uint32_t others = row->named & ~(1u << IPS_REG_PC);
    uint64_t word = (uint64_t)row->cfa & 0xffff;
    if (row->kind[IPS_REG_PC] == RULE_UNDEFINED)
        return IPS_KEPT_RULE | IPS_KEPT_LAST;
    if (row->cfa_kind != RULE_IS || row->cfa < 0 || row->cfa > 0xffff ||
        row->kind[IPS_REG_PC] != RULE_AT || row->value[IPS_REG_PC] != -8)
        return 0;
    if (row->cfa_reg == IPS_REG_FP)
        word |= IPS_KEPT_BY_FP;
    else if (row->cfa_reg != IPS_REG_SP)
        return 0;
    for (unsigned i = 0; i < IPS_KEPT_REGS; i++) {
        unsigned reg = ips_kept_reg[i];
        int32_t value = row->value[reg];
        others &= ~(1u << reg);
        if (row->kind[reg] == RULE_SAME)
            continue;
        if (row->kind[reg] != RULE_AT || value >= 0 || value % 8 ||
            value < -8 * IPS_KEPT_REACH)
            return 0;
        word |= (uint64_t)(-value / 8) << (IPS_KEPT_PLACES + 4 * i);
    }
    return others ? 0 : word | IPS_KEPT_RULE;
}

/* Unwinds one frame by the row that is packed in `rule`. Returns 1, or -1 at
 * the end of the walk. */
static int step_by_packed_rule(struct ips_unwind_stack *u, uint64_t rule)
{
    unsigned from = rule & IPS_KEPT_BY_FP ? IPS_REG_FP : IPS_REG_SP;
    uint64_t sp = u->reg[IPS_REG_SP], pc, v;
    uint64_t at = u->reg[from] + (rule & 0xffff);
    if (rule & IPS_KEPT_LAST || !has_register(u, from) ||
        !load_word(u, at - 8, &pc))
        return -1;
    u->known &= ~CALLER_SAVED;
    for (unsigned i = 0; i < IPS_KEPT_REGS; i++) {
        uint64_t words = rule >> (IPS_KEPT_PLACES + 4 * i) & 0xf;
        if (!words || at - 8 * words < sp) /* already popped */
            continue;
        if (load_word(u, at - 8 * words, &v))
            set_register(u, ips_kept_reg[i], v);
        else
            u->known &= ~(1u << ips_kept_reg[i]);
    }
    set_register(u, IPS_REG_SP, at);
    set_register(u, IPS_REG_PC, pc);
    return 1;
}

/* Unwinds one frame by its FDE. *called: pc is a return address, so the call
 * instruction precedes it; set to false if a signal interrupted the next frame
 * up. Returns 1, or -1 at the end of the walk, or 0 if there is no FDE. */
static __attribute__((noinline)) int step_by_fde(struct ips_unwind_stack *u,
                                                 bool *called)
{
    struct fde f;
    struct cfi_machine m;
    uint64_t pc = u->reg[IPS_REG_PC] - (*called ? 1 : 0), at, rule;
    if (!ips_unwind_find_fde(&f, pc))
        return 0;
    *called = !f.signal_frame;
    if (f.signal_frame)
        return step_over_signal_frame(u) ? 1 : -1;
    memset(&m.row, 0, sizeof(m.row));
    m.f = &f;
    m.depth = 0;
    m.loc = f.pc_begin;
    m.initial = m.row;
    if (!run_cfi_until_pc(&m, f.cie_at, f.cie_end, ~(uint64_t)0))
        return -1;
    m.initial = m.row;
    m.loc = f.pc_begin;
    if (!run_cfi_until_pc(&m, f.at, f.end, pc))
        return -1;
    rule = pack_rule(&m.row);
    if (rule) {
        cache_rule(pc, rule);
        return step_by_packed_rule(u, rule);
    }
    if (m.row.cfa_kind == RULE_XIS) {
        if (!evaluate_expression(u, &f, m.row.cfa, NULL, &at))
            return -1;
    } else if (m.row.cfa_kind == RULE_IS && has_register(u, m.row.cfa_reg)) {
        at = u->reg[m.row.cfa_reg] + (uint64_t)(int64_t)m.row.cfa;
    } else {
        return -1;
    }
    struct ips_unwind_stack up = *u;
    up.known &= ~CALLER_SAVED;
    set_register(&up, IPS_REG_SP, at);
    for (uint32_t left = m.row.named; left; left &= left - 1)
        if (!restore_register(u, &m, at, (unsigned)__builtin_ctz(left), &up))
            return -1;
    if (m.row.kind[IPS_REG_PC] == RULE_SAME)
        return -1;
    *u = up;
    return 1;
}

static int step_by_cache_or_fde(struct ips_unwind_stack *u, bool *called)
{
    uint64_t pc = u->reg[IPS_REG_PC] - (*called ? 1 : 0);
    uint64_t rule = find_cached_rule(pc);
    if (!rule)
        return step_by_fde(u, called);
    *called = true;
    return step_by_packed_rule(u, rule);
}
#else
void ips_unwind_clear_rules(void)
{
}

static int step_by_cache_or_fde(struct ips_unwind_stack *u, bool *called)
{
    (void)u;
    *called = true;
    return 0;
}
#endif

/* --- the walk ------------------------------------------------------------- */

void ips_unwind_load_context(struct ips_unwind_stack *u, const ucontext_t *uc)
{
#if defined(__x86_64__)
    static const uint8_t order[IPS_REGS] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
        REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
        REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (unsigned i = 0; i < IPS_REGS; i++)
        u->reg[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
    u->known = (1u << IPS_REGS) - 1;
#elif defined(__aarch64__)
    u->known = 0;
    set_register(u, IPS_REG_FP, uc->uc_mcontext.regs[29]);
    set_register(u, IPS_REG_SP, uc->uc_mcontext.sp);
    set_register(u, IPS_REG_PC, uc->uc_mcontext.pc);
#endif
    u->low = u->end = 0;
}

uint32_t ips_unwind_stack(struct ips_unwind_stack *u, uint64_t *frames,
                          uint32_t max)
{
    bool called = false;
    uint32_t n = 0;
    while (n < max) {
        uint64_t pc = u->reg[IPS_REG_PC], sp = u->reg[IPS_REG_SP];
        if (n && (!pc || !has_register(u, IPS_REG_PC)))
            break;
        frames[n++] = pc;
        if (sp < u->low || sp >= u->end)
            /* The frame is not in [low, end), the only stack that may be read.
             */
            break;
        int by_table = step_by_cache_or_fde(u, &called);
        if (by_table < 0)
            break;
        if (by_table == 0) {
            called = true;
            if (!step_by_frame_pointer(u))
                break;
        }
        /* A signal handler's own stack may be above or below the interrupted
         * stack. */
        bool up = called ? u->reg[IPS_REG_SP] > sp : true;
        if (!has_register(u, IPS_REG_SP) || !up)
            break;
    }
    return n;
}
