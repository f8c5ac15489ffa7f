#include "agent/unwind/spin_loop.h"

#include <string.h>

#define LOOP_BYTES                                                             \
    160u /* from the loop's start to the end of its last jump                  \
          */

#if defined(__x86_64__)

#define NO_REG 16u
#define RSP 4u
#define RBP 5u
#define RIP 17u /* base register of an address relative to the instruction */

/* One instruction of the kinds that a spin loop may have. */
struct insn {
    size_t length;
    bool memory;        /* it has a memory operand */
    bool pause, counts; /* counts: it adds or subtracts a constant */
    bool conditional;   /* a conditional jump */
    bool jumps;
    int64_t offset;       /* from the next instruction to the jump target */
    unsigned base, index; /* registers of the memory operand, or NO_REG */
    unsigned to;          /* register that the instruction sets, or NO_REG */
    unsigned from, with;  /* registers from which `to` is computed, or NO_REG */
    int64_t displacement; /* constant offset in the memory operand */
    bool stores;          /* it stores `from` to memory */
    bool address;         /* `to` gets the operand's address, not its value */
};

/* The bytes of an instruction that are not yet decoded, and its prefixes. */
struct reader {
    const uint8_t *p, *end;
    uint8_t rex;
    bool word, repeat; /* prefixes 66 and F3 */
};

static int64_t read_signed(struct reader *r, size_t bytes)
{
    int8_t b = 0;
    int32_t d = 0;
    if ((size_t)(r->end - r->p) < bytes) {
        r->p = NULL;
        return 0;
    }
    memcpy(bytes == 1 ? (void *)&b : (void *)&d, r->p, bytes);
    r->p += bytes;
    return bytes == 1 ? b : d;
}

/* Skips an immediate operand: one byte, or of the instruction's operand size.
 */
static void skip_immediate_operand(struct reader *r, bool byte)
{
    if (r->p)
        (void)read_signed(r, byte ? 1 : r->word ? 2 : 4);
}

struct modrm {
    unsigned mod, reg, rm;
};

/* Reads the ModRM byte and what follows from it (SIB, displacement). Sets the
 * memory operand of *i, if there is one. */
static struct modrm read_modrm_operands(struct reader *r, struct insn *i)
{
    struct modrm m = {0};
    if (r->p >= r->end) {
        r->p = NULL;
        return m;
    }
    const unsigned byte = *r->p++;
    m.mod = byte >> 6;
    m.reg = (byte >> 3 & 7) | (r->rex & 4u) << 1;
    m.rm = (byte & 7) | (r->rex & 1u) << 3;
    if (m.mod == 3)
        return m;
    i->memory = true;
    i->base = m.rm;
    size_t bytes = m.mod == 1 ? 1 : m.mod == 2 ? 4 : 0;
    if ((byte & 7) == 4) {
        if (r->p >= r->end) {
            r->p = NULL;
            return m;
        }
        const unsigned sib = *r->p++;
        const unsigned index = (sib >> 3 & 7) | (r->rex & 2u) << 2;
        i->index = index == 4 ? NO_REG : index;
        i->base = (sib & 7) | (r->rex & 1u) << 3;
        if ((sib & 7) == 5 && m.mod == 0) {
            i->base = NO_REG;
            bytes = 4;
        }
    } else if ((byte & 7) == 5 && m.mod == 0) {
        i->base = RIP;
        bytes = 4;
    }
    if (bytes)
        i->displacement = read_signed(r, bytes);
    return m;
}

static void read_prefixes(struct reader *r)
{
    for (; r->p < r->end; r->p++) {
        const uint8_t b = *r->p;
        r->word |= b == 0x66;
        r->repeat |= b == 0xf3;
        if (b != 0x66 && b != 0xf3 && b != 0x64 && b != 0x65 && b != 0x2e &&
            b != 0x3e)
            break;
    }
    if (r->p < r->end && (*r->p & 0xf0) == 0x40)
        r->rex = *r->p++;
}

/* Is the memory operand a variable on the stack: below the frame pointer (code
 * compiled without optimisation) or above the stack pointer? */
static bool is_operand_on_stack(const struct insn *i)
{
    return i->index == NO_REG && ((i->base == RBP && i->displacement < 0) ||
                                  (i->base == RSP && i->displacement >= 0));
}

/* Decodes the instructions with two-byte opcodes, 0F xx. */
static bool decode_two_byte_opcode(struct reader *r, struct insn *i)
{
    if (r->p >= r->end)
        return false;
    const uint8_t op = *r->p++;
    if ((op & 0xf0) == 0x80) { /* jcc */
        i->conditional = i->jumps = true;
        i->offset = read_signed(r, 4);
        return true;
    }
    const struct modrm m = read_modrm_operands(r, i);
    if (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf) { /* movzx ... */
        i->to = m.reg;
        i->from = m.mod == 3 ? m.rm : NO_REG;
        return true;
    }
    if ((op & 0xf0) == 0x90) { /* setcc */
        i->to = m.rm;
        return m.mod == 3;
    }
    i->memory &= op != 0x1f;
    return op == 0x1f; /* nop */
}

/* Decodes arithmetic with an immediate operand: opcodes 80, 81 and 83, where
 * the ModRM byte selects the operation. */
static bool decode_arithmetic_with_immediate(struct reader *r, struct insn *i,
                                             uint8_t op)
{
    const struct modrm m = read_modrm_operands(r, i);
    const unsigned what = m.reg & 7;
    skip_immediate_operand(r, op != 0x81);
    if (what == 7) /* cmp */
        return true;
    i->to = m.rm;
    i->from = m.rm;
    i->counts = what != 4; /* and */
    return m.mod == 3 && (what == 0 || what == 4 || what == 5);
}

static bool decode_one_byte_opcode(struct reader *r, struct insn *i, uint8_t op)
{
    struct modrm m;
    switch (op) {
    case 0x90: /* nop, pause */
        i->pause = r->repeat;
        return true;
    case 0xeb:
    case 0xe9:
        i->jumps = true;
        i->offset = read_signed(r, op == 0xeb ? 1 : 4);
        return true;
    case 0x24: /* and, cmp, test with a constant and rax */
    case 0x3c:
    case 0xa8:
        skip_immediate_operand(r, true);
        return true;
    case 0x25:
    case 0x3d:
    case 0xa9:
        skip_immediate_operand(r, false);
        return true;
    case 0x80:
    case 0x81:
    case 0x83:
        return decode_arithmetic_with_immediate(r, i, op);
    case 0xf6:
    case 0xf7: /* test */
        m = read_modrm_operands(r, i);
        skip_immediate_operand(r, op == 0xf6);
        return (m.reg & 7) < 2;
    case 0xc6:
    case 0xc7: /* mov of a constant */
        m = read_modrm_operands(r, i);
        skip_immediate_operand(r, op == 0xc6);
        i->stores = m.mod != 3;
        i->to = i->stores ? NO_REG : m.rm;
        return (m.reg & 7) == 0 && (!i->stores || is_operand_on_stack(i));
    case 0xff: /* inc, dec */
        m = read_modrm_operands(r, i);
        i->counts = true;
        i->to = i->from = m.rm;
        return m.mod == 3 && (m.reg & 7) < 2;
    default:
        break;
    }
    if ((op & 0xf0) == 0x70) { /* jcc */
        i->conditional = i->jumps = true;
        i->offset = read_signed(r, 1);
        return true;
    }
    if ((op & 0xf8) == 0xb8) { /* mov of a constant to a register */
        skip_immediate_operand(r, false);
        i->to = (op & 7) | (r->rex & 1u) << 3;
        return !(r->rex & 8u); /* no 64-bit constants */
    }
    m = read_modrm_operands(r, i);
    switch (op) {
    case 0x21: /* and */
    case 0x23:
        i->to = op == 0x21 ? m.rm : m.reg;
        i->from = i->to;
        i->with = op == 0x23 && m.mod != 3 ? NO_REG : op == 0x21 ? m.reg : m.rm;
        return op == 0x23 || m.mod == 3;
    case 0x38: /* cmp */
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x84: /* test */
    case 0x85:
        return true;
    case 0x8a: /* mov to a register */
    case 0x8b:
    case 0x63:
        i->to = m.reg;
        i->from = m.mod == 3 ? m.rm : NO_REG;
        return true;
    case 0x88: /* mov from a register */
    case 0x89:
        i->stores = m.mod != 3;
        i->to = i->stores ? NO_REG : m.rm;
        i->from = m.reg;
        return !i->stores || is_operand_on_stack(i);
    case 0x8d: /* lea */
        i->to = m.reg;
        i->address = true;
        return m.mod != 3;
    case 0x31: /* xor of a register with itself */
    case 0x33:
        i->to = m.reg;
        return m.mod == 3 && m.reg == m.rm;
    default:
        return false;
    }
}

/* Decodes the instruction at code[at] into *i. Returns false if it is of a kind
 * that spin loops do not have. */
static bool decode_instruction(const uint8_t *code, size_t length, size_t at,
                               struct insn *i)
{
    struct reader r = {.p = code + at, .end = code + length};
    *i = (struct insn){.base = NO_REG,
                       .index = NO_REG,
                       .to = NO_REG,
                       .from = NO_REG,
                       .with = NO_REG};
    read_prefixes(&r);
    if (r.p >= r.end)
        return false;
    const uint8_t op = *r.p++;
    bool good = op == 0x0f ? decode_two_byte_opcode(&r, i)
                           : decode_one_byte_opcode(&r, i, op);
    if (!r.p || !good)
        return false;
    i->length = (size_t)(r.p - (code + at));
    return true;
}

/* Variables on the stack to which the loop stores: code that was compiled
 * without optimisation keeps its variables there. */
#define SLOTS 8u
struct slots {
    int64_t at[SLOTS];
    unsigned base[SLOTS];
    bool written[SLOTS]; /* stored to in this turn of the loop */
    unsigned count;
};

/* Returns the index in *p of the stack variable that the instruction `i` uses;
 * p->count if there is none. */
static unsigned find_stack_variable(const struct slots *p, const struct insn *i)
{
    unsigned k = 0;
    while (k < p->count && !(is_operand_on_stack(i) && p->base[k] == i->base &&
                             p->at[k] == i->displacement))
        k++;
    return k;
}

#define SLOT_BYTES 8

/* Is the memory operand a variable on the stack that the loop does not change?
 * (Another thread that has its address may change it.) False also if the loop
 * stores to a part of the variable, or to the stack by another base register:
 * that may change the variable. */
static bool is_unchanged_stack_variable(const struct slots *p,
                                        const struct insn *i)
{
    bool is = is_operand_on_stack(i);
    for (unsigned k = 0; k < p->count && is; k++)
        is = p->base[k] == i->base &&
             (p->at[k] >= i->displacement + SLOT_BYTES ||
              p->at[k] + SLOT_BYTES <= i->displacement);
    return is;
}

/* Summary of one turn of the loop. */
struct loop_turn {
    /* registers that have the same value in every turn, unless memory changes
     */
    uint32_t stable;
    struct slots slots;
    unsigned reads;  /* number of loads that are not from the stack */
    bool reads_slot; /* it loads a variable on the stack that it does not
                        change */
    bool pauses, counts, tests;
};

static bool is_register_stable(const struct loop_turn *t, unsigned reg)
{
    return reg >= NO_REG || t->stable >> reg & 1;
}

/* Adds the instruction to the summary of the loop's turn. Returns false if it
 * uses a value that an earlier turn computed: then the loop does not merely
 * wait. */
static bool add_insn_and_check_not_loop_carried(struct loop_turn *t,
                                                const struct insn *i)
{
    const unsigned slot = find_stack_variable(&t->slots, i);
    const bool kept = slot < t->slots.count;
    const bool load = i->memory && !i->address && !i->stores;
    t->reads += load && !is_operand_on_stack(i);
    t->reads_slot |= load && is_unchanged_stack_variable(&t->slots, i);
    t->pauses |= i->pause;
    t->counts |= i->counts;
    t->tests |= i->conditional;
    if (i->memory &&
        (!is_register_stable(t, i->base) || !is_register_stable(t, i->index)))
        return false;
    if (kept && i->stores)
        t->slots.written[slot] = true;
    else if (kept && (!t->slots.written[slot] || i->address))
        return false;
    if (i->stores && !is_register_stable(t, i->from))
        return false;
    if (i->to < NO_REG && !i->counts && is_register_stable(t, i->from) &&
        is_register_stable(t, i->with))
        t->stable |= 1u << i->to;
    else if (i->to < NO_REG)
        t->stable &= ~(1u << i->to);
    return true;
}

/* A loop with more loads than this reads data, for example in a seqlock's retry
 * loop. */
#define LOADS_MOST 2u

/* Does the loop code[first, end) only wait for memory to change? */
static bool loop_only_waits(const uint8_t *code, size_t first, size_t end)
{
    struct insn i;
    struct loop_turn t = {.stable = ~0u};
    for (size_t next = first; next < end; next += i.length) {
        if (!decode_instruction(code, end, next, &i))
            return false;
        const size_t after = next + i.length;
        const int64_t target = (int64_t)after + i.offset;
        /* Code behind an unconditional jump out of the loop does not run in
         * every turn. */
        if (i.jumps && !i.conditional && after < end &&
            (target < (int64_t)first || target >= (int64_t)end))
            return false;
        if (i.to < NO_REG)
            t.stable &= ~(1u << i.to);
        if (i.stores && find_stack_variable(&t.slots, &i) == t.slots.count) {
            if (t.slots.count == SLOTS)
                return false;
            t.slots.base[t.slots.count] = i.base;
            t.slots.at[t.slots.count++] = i.displacement;
        }
    }
    for (size_t next = first; next < end; next += i.length) {
        (void)decode_instruction(code, end, next, &i);
        if (!add_insn_and_check_not_loop_carried(&t, &i))
            return false;
    }
    return t.tests && t.reads <= LOADS_MOST &&
           (t.pauses || ((t.reads || t.reads_slot) && !t.counts));
}

bool ips_is_code_in_spin_loop(const uint8_t *code, size_t length, size_t at)
{
    struct insn i;
    for (size_t next = at; next < at + LOOP_BYTES; next += i.length) {
        if (!decode_instruction(code, length, next, &i))
            return false;
        const size_t end = next + i.length;
        const int64_t to = (int64_t)end + i.offset;
        if (i.jumps && to >= 0 && to <= (int64_t)at &&
            end - (size_t)to <= LOOP_BYTES &&
            loop_only_waits(code, (size_t)to, end))
            return true;
        if (i.jumps && !i.conditional)
            return false;
    }
    return false;
}

#elif defined(__aarch64__)

/* Is the instruction a jump back? Sets *back to the number of instructions that
 * it goes back. */
static bool decode_backward_jump(uint32_t insn, uint32_t *back)
{
    uint32_t field, bits;
    if ((insn & 0xfc000000u) == 0x14000000u) { /* b */
        field = insn;
        bits = 26;
    } else if ((insn & 0xff000010u) == 0x54000000u || /* b.cond */
               (insn & 0x7e000000u) == 0x34000000u) { /* cbz, cbnz */
        field = insn >> 5;
        bits = 19;
    } else if ((insn & 0x7e000000u) == 0x36000000u) { /* tbz, tbnz */
        field = insn >> 5;
        bits = 14;
    } else {
        return false;
    }
    const uint32_t mask = (1u << bits) - 1;
    *back = (1u << bits) - (field & mask);
    return field & 1u << (bits - 1);
}

static bool is_hint_to_wait(uint32_t insn)
{
    return insn == 0xd503203fu || insn == 0xd5033fdfu || insn == 0xd503205fu;
}

static uint32_t load_instruction(const uint8_t *code, size_t at)
{
    uint32_t insn;
    memcpy(&insn, code + at, sizeof(insn));
    return insn;
}

bool ips_is_code_in_spin_loop(const uint8_t *code, size_t length, size_t at)
{
    uint32_t back;
    for (size_t next = at & ~(size_t)3;
         next + 4 <= length && next < at + LOOP_BYTES; next += 4) {
        const uint32_t insn = load_instruction(code, next);
        if ((insn & 0xfc000000u) == 0x94000000u) /* bl */
            return false;
        if (!decode_backward_jump(insn, &back) || back * (size_t)4 > next)
            continue;
        const size_t first = next - back * (size_t)4;
        if (first > at)
            continue;
        if (next - first > LOOP_BYTES)
            return false;
        for (size_t k = first; k < next; k += 4)
            if (is_hint_to_wait(load_instruction(code, k)))
                return true;
        return false;
    }
    return false;
}

#else

bool ips_is_code_in_spin_loop(const uint8_t *code, size_t length, size_t at)
{
    (void)code;
    (void)length;
    (void)at;
    return false;
}

#endif
