/* Every rule of an unwind table that the agent's walk reads, one at a time: a
 * function that is never run has the rule, the stack and the registers are made
 * here, and the caller's registers are computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent/unwind/table.h"
#include "agent/unwind/unwind.h"

#if IPS_UNWIND_TABLES
#define WORDS 64
#define SP_AT 20          /* the stack pointer is the address of this word */
#define NOWHERE 0x1234567 /* no code: there the walk ends */
#define AX 0u
#define BX 3u
#define FP 6u
#define SP 7u
#define R12 12u
#define PC 16u

static uint64_t stack[WORDS];

/* `rules` hold at code_NAME and the 700 bytes behind it, where they do not say
 * otherwise. Before them the CFA is rsp + 8, and the return address below it.
 */
#define CODE(name, rules)                                                      \
    __asm__(".text\n.p2align 4\n.globl code_" #name "\ncode_" #name            \
            ":\n.cfi_startproc\n" rules "\n.skip 700, 0x90\n.cfi_endproc\n");  \
    extern const char code_##name[] __attribute__((visibility("hidden")));
#define RULES(name, bytes) CODE(name, ".cfi_escape " bytes)
/* The same, and the caller's rbx is what the expression of `length` computes.
 */
#define VALUE(name, length, bytes) RULES(name, "0x16, 3, " #length ", " bytes)

static uint64_t word(unsigned n)
{
    return (uint64_t)(uintptr_t)&stack[n];
}
extern const char code_def_cfa_rbp[] __attribute__((visibility("hidden")));
static struct ips_unwind_stack begin(const char *code, uint64_t offset)
{
    struct ips_unwind_stack u = {.known = (1u << IPS_REGS) - 1};
    for (unsigned i = 0; i < WORDS; i++)
        stack[i] = 0x10000000 + i;
    for (unsigned i = 0; i < IPS_REGS; i++)
        u.reg[i] = 0x20000000 + i;
    u.reg[SP] = word(SP_AT);
    /* No frame pointer: where there is no table the walk ends. */
    u.reg[FP] = code == code_def_cfa_rbp ? word(30) : 0x20000000 + FP;
    u.reg[BX] = word(40);
    u.reg[PC] = (uint64_t)(uintptr_t)code + offset;
    u.low = word(0);
    u.end = word(WORDS);
    return u;
}

/* One frame up; false: the walk ends before. Then `u` is of the caller. */
static bool step(struct ips_unwind_stack *u)
{
    uint64_t frames[2] = {0, 0}, pc = u->reg[PC];
    uint32_t n = ips_unwind_stack(u, frames, 2);
    assert_int_equal(frames[0], pc);
    assert_true(n == 1 || n == 2);
    if (n == 2)
        assert_int_equal(frames[1], u->reg[PC]);
    return n == 2;
}

/* --- where the CFA is --- */
CODE(plain, "")
RULES(def_cfa, "0x0c, 7, 40")
RULES(def_cfa_rbx, "0x0c, 3, 16")
RULES(def_cfa_rbp, "0x0c, 6, 16")
RULES(def_cfa_register, "0x0d, 3")
RULES(def_cfa_offset, "0x0e, 48")
RULES(def_cfa_offset_long, "0x0e, 0x80, 0x01")
RULES(def_cfa_sf, "0x12, 7, 0x7d")
RULES(def_cfa_offset_sf, "0x13, 0x7a")
RULES(twice, "0x0e, 48, 0x0e, 32")
RULES(advance, "0x40 | 5, 0x0e, 48")
RULES(advance1, "0x02, 200, 0x0e, 48")
RULES(advance2, "0x03, 0x2c, 0x01, 0x0e, 48")
RULES(advance4, "0x04, 0x2c, 0x01, 0, 0, 0x0e, 48")
RULES(nothing, "0, 0x2e, 0x85, 0x01, 0x0e, 48")
RULES(remember, "0x0a, 0x0e, 48, 0x0b")
RULES(remember3, "0x0a, 0x0e, 48, 0x0a, 0x0e, 56, 0x0a, 0x0e, 64, 0x0b, 0x0b")

/* Would catch: a wrong register, offset or factor of the CFA; a rule that
 * begins one byte early or late; a state that is remembered in the wrong order.
 */
static void test_unwind_rules__where_the_frame_ends(void **state)
{
    const struct {
        const char *code;
        uint64_t offset, cfa;
    } cases[] = {
        {code_plain, 0, word(SP_AT + 1)},
        {code_plain, 699, word(SP_AT + 1)},
        {code_def_cfa, 0, word(SP_AT + 5)},
        {code_def_cfa_rbx, 0, word(42)},
        {code_def_cfa_rbp, 0, word(32)},
        {code_def_cfa_register, 0, word(41)},
        {code_def_cfa_offset, 0, word(SP_AT + 6)},
        {code_def_cfa_offset_long, 0, word(SP_AT + 16)},
        {code_def_cfa_sf, 0, word(SP_AT + 3)},
        {code_def_cfa_offset_sf, 0, word(SP_AT + 6)},
        {code_twice, 0, word(SP_AT + 4)},
        {code_advance, 4, word(SP_AT + 1)},
        {code_advance, 5, word(SP_AT + 6)},
        {code_advance1, 199, word(SP_AT + 1)},
        {code_advance1, 200, word(SP_AT + 6)},
        {code_advance2, 299, word(SP_AT + 1)},
        {code_advance2, 300, word(SP_AT + 6)},
        {code_advance4, 299, word(SP_AT + 1)},
        {code_advance4, 300, word(SP_AT + 6)},
        {code_nothing, 0, word(SP_AT + 6)},
        {code_remember, 0, word(SP_AT + 1)},
        {code_remember3, 0, word(SP_AT + 6)},
    };
    (void)state;
    for (unsigned again = 0; again < 3; again++) { /* by rule, kept, by rule */
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct ips_unwind_stack u = begin(cases[i].code, cases[i].offset);
            assert_true(step(&u));
            assert_int_equal(u.reg[SP], cases[i].cfa);
            unsigned at = (unsigned)((cases[i].cfa - word(0)) / 8);
            assert_int_equal(u.reg[PC], 0x10000000 + at - 1);
            /* lost in a call: rax rdx rcx rsi rdi r8-r11 */
            assert_int_equal(u.known, ((1u << IPS_REGS) - 1) & ~0x0f37u);
            assert_int_equal(u.reg[BX], word(40));
            if (cases[i].code != code_def_cfa_rbp)
                assert_int_equal(u.reg[FP], 0x20000000 + FP);
            for (unsigned r = R12; r < PC; r++)
                assert_int_equal(u.reg[r], 0x20000000 + r);
        }
        if (again)
            ips_unwind_clear_rules();
    }
}

/* --- where a register is: the CFA is 80 bytes up, at word 30 --- */
#define UP "0x0e, 80, "
RULES(offset, UP "0x80 | 3, 4")
RULES(offset_far, UP "0x80 | 3, 10")
RULES(offset_extended, UP "0x05, 3, 5")
RULES(offset_extended_sf, UP "0x11, 3, 6")
RULES(offset_above, UP "0x11, 3, 0x7e")
RULES(offset_below, UP "0x80 | 3, 11")
RULES(offset_r15, UP "0x80 | 15, 9, 0x80 | 14, 8, 0x80 | 13, 7, 0x80 | 12, 6")
RULES(offset_rax, UP "0x80 | 0, 4")
RULES(val_offset, UP "0x14, 3, 5")
RULES(val_offset_sf, UP "0x15, 3, 0x7d")
RULES(same, UP "0x80 | 3, 4, 0x08, 3")
RULES(restore, UP "0x80 | 3, 4, 0xc0 | 3")
RULES(restore_extended, UP "0x80 | 3, 4, 0x06, 3")
RULES(in_register, UP "0x09, 3, 12")
RULES(vector, UP "0x05, 20, 4, 0x09, 21, 3, 0xc0 | 22, 0x06, 23, 0x80 | 3, 4")
RULES(at_expression, UP "0x10, 3, 2, 0x23, 16")
RULES(undefined, UP "0x07, 3")
RULES(below_known, UP "0x07, 12, 0x09, 3, 12")
RULES(expression_fails, UP "0x16, 3, 1, 0x22")
RULES(out_of_stack, UP "0x11, 3, 0x80, 0x7f")

/* Would catch: a register from another place than its rule says, one believed
 * known that is not, a register's rule applied to another one. */
static void test_unwind_rules__where_a_register_is(void **state)
{
    const struct {
        const char *code;
        unsigned reg;
        uint64_t value; /* 0: unknown */
    } cases[] = {
        {code_offset, BX, 0x10000000 + 26},
        {code_offset_far, BX, 0x10000000 + 20},
        {code_offset_extended, BX, 0x10000000 + 25},
        {code_offset_extended_sf, BX, 0x10000000 + 24},
        {code_offset_above, BX, 0x10000000 + 32},
        {code_offset_below, BX, word(40)}, /* popped already */
        {code_offset_r15, 15, 0x10000000 + 21},
        {code_offset_r15, 14, 0x10000000 + 22},
        {code_offset_r15, 13, 0x10000000 + 23},
        {code_offset_r15, 12, 0x10000000 + 24},
        {code_offset_r15, BX, word(40)},
        {code_offset_rax, AX, 0x10000000 + 26},
        {code_val_offset, BX, word(25)},
        {code_val_offset_sf, BX, word(33)},
        {code_same, BX, word(40)},
        {code_restore, BX, word(40)},
        {code_restore_extended, BX, word(40)},
        {code_in_register, BX, 0x20000000 + 12},
        {code_vector, BX, 0x10000000 + 26},
        {code_vector, R12, 0x20000000 + 12},
        {code_at_expression, BX, 0x10000000 + 32},
        {code_undefined, BX, 0},
        {code_undefined, AX, 0},
        {code_undefined, R12, 0x20000000 + 12},
        {code_below_known, R12, 0},
        {code_below_known, BX, 0x20000000 + 12},
        {code_expression_fails, BX, 0},
        {code_out_of_stack, BX, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned again = 0; again < 2; again++) {
            struct ips_unwind_stack u = begin(cases[i].code, 0);
            unsigned reg = cases[i].reg;
            assert_true(step(&u));
            assert_int_equal(u.reg[SP], word(30));
            assert_int_equal(u.reg[PC], 0x10000000 + 29);
            assert_int_equal(u.known >> reg & 1, cases[i].value != 0);
            if (cases[i].value)
                assert_int_equal(u.reg[reg], cases[i].value);
        }
}

/* A register that is not known, in a rule that needs it. */
static void test_unwind_rules__of_unknown_registers(void **state)
{
    (void)state;
    struct ips_unwind_stack u = begin(code_in_register, 0);
    u.known &= ~(1u << R12);
    assert_true(step(&u));
    assert_int_equal(u.known >> BX & 1, 0);
    u = begin(code_def_cfa_rbx, 0);
    u.known &= ~(1u << BX);
    assert_false(step(&u));
    for (int again = 0; again < 2; again++) {
        u = begin(code_def_cfa_rbp, 0);
        u.known &= ~(1u << FP);
        assert_false(step(&u));
        u = begin(code_def_cfa_rbp, 0);
        assert_true(step(&u));
    }
}

/* --- the return address elsewhere; no caller; what is not understood --- */
RULES(pc_lower, UP "0x80 | 16, 3")
RULES(pc_restored, UP "0x80 | 16, 3, 0xc0 | 16")
RULES(pc_restored_extended, UP "0x80 | 16, 3, 0x06, 16")
RULES(pc_in_rax, UP "0x09, 16, 0")
RULES(pc_is, UP "0x14, 16, 2")
RULES(outermost, UP "0x07, 16")
RULES(pc_same, UP "0x08, 16")
RULES(no_operation, UP "0x2d") /* of another architecture */
RULES(too_deep, UP "0x0a, 0x0a, 0x0a, 0x0a")
RULES(deep_enough, UP "0x0a, 0x0a, 0x0a")
RULES(nothing_to_restore, UP "0x0b")
RULES(one_to_restore, UP "0x0a, 0x0b, 0x0b")
RULES(cfa_of_vector, UP "0x0d, 17")
RULES(cfa_too_far, "0x0e, 0x80, 0x80, 0x80, 0x80, 0x10")
RULES(pc_by_bad_expression, UP "0x16, 16, 1, 0x22")
RULES(pc_out_of_stack, "0x0e, 0x80, 0x10")
RULES(cfa_by_bad_expression, "0x0f, 1, 0x22")

static void test_unwind_rules__return_addresses_and_ends(void **state)
{
    const struct {
        const char *code;
        uint64_t pc; /* 0: the walk ends */
    } cases[] = {
        {code_pc_lower, 0x10000000 + 27},
        {code_pc_restored, 0x10000000 + 29},
        {code_pc_restored_extended, 0x10000000 + 29},
        {code_pc_in_rax, 0x20000000},
        {code_pc_is, word(28)},
        {code_deep_enough, 0x10000000 + 29},
        {code_outermost, 0},
        {code_pc_same, 0},
        {code_no_operation, 0},
        {code_too_deep, 0},
        {code_nothing_to_restore, 0},
        {code_one_to_restore, 0},
        {code_cfa_of_vector, 0},
        {code_cfa_too_far, 0},
        {code_pc_by_bad_expression, 0},
        {code_pc_out_of_stack, 0},
        {code_cfa_by_bad_expression, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned again = 0; again < 2; again++) {
            struct ips_unwind_stack u = begin(cases[i].code, 0);
            if (!cases[i].pc) /* there is a table: it is not asked */
                u.reg[FP] = word(40);
            assert_int_equal(step(&u), cases[i].pc != 0);
            if (cases[i].pc)
                assert_int_equal(u.reg[PC], cases[i].pc);
        }
}

/* --- expressions: what is computed is rbx; the CFA is there to begin with ---
 */
VALUE(lit0, 1, "0x30")
VALUE(lit31, 1, "0x4f")
VALUE(breg, 2, "0x7c, 0x78")
VALUE(const1u, 2, "0x08, 0xfe")
VALUE(const1s, 2, "0x09, 0xfe")
VALUE(constu, 3, "0x10, 0xfe, 0x01")
VALUE(consts, 3, "0x11, 0xfe, 0x7e")
VALUE(deref, 3, "0x77, 24, 0x06")
VALUE(plus_const, 3, "0x39, 0x23, 5")
VALUE(bits_and, 3, "0x4e, 0x3b, 0x1a")
VALUE(bits_or, 3, "0x3c, 0x31, 0x21")
VALUE(minus, 3, "0x3c, 0x32, 0x1c")
VALUE(plus, 3, "0x3c, 0x32, 0x22")
VALUE(shift, 3, "0x3c, 0x33, 0x24")
VALUE(shift63, 4, "0x31, 0x08, 63, 0x24")
VALUE(shift64, 4, "0x31, 0x08, 64, 0x24")
VALUE(more, 3, "0x3c, 0x33, 0x2a")
VALUE(as_much, 3, "0x33, 0x33, 0x2a")
VALUE(less, 4, "0x09, 0xff, 0x33, 0x2a")
VALUE(with_cfa, 2, "0x38, 0x22")
VALUE(deep, 7, "0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37")
VALUE(deeper, 8, "0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38")
VALUE(shallow, 1, "0x22")
VALUE(no_such, 3, "0x31, 0x31, 0x96")
VALUE(deref_outside, 2, "0x30, 0x06")
VALUE(cut_short, 1, "0x08")
RULES(plt,
      "0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22")

static void test_unwind_rules__expressions(void **state)
{
    const struct {
        const char *code;
        uint64_t value;
        bool fails;
    } cases[] = {
        {code_lit0, 0, false},
        {code_lit31, 31, false},
        {code_breg, 0x20000000 + 12 - 8, false},
        {code_const1u, 254, false},
        {code_const1s, (uint64_t)-2, false},
        {code_constu, 254, false},
        {code_consts, (uint64_t)-130, false},
        {code_deref, 0x10000000 + SP_AT + 3, false},
        {code_plus_const, 14, false},
        {code_bits_and, 30 & 11, false},
        {code_bits_or, 13, false},
        {code_minus, 10, false},
        {code_plus, 14, false},
        {code_shift, 96, false},
        {code_shift63, 1ull << 63, false},
        {code_shift64, 0, false},
        {code_more, 1, false},
        {code_as_much, 1, false},
        {code_less, 0, false},
        {code_with_cfa, word(SP_AT + 1) + 8, false},
        {code_deep, 7, false},
        {code_deeper, 0, true},
        {code_shallow, 0, true},
        {code_no_such, 0, true},
        {code_deref_outside, 0, true},
        {code_cut_short, 0, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ips_unwind_stack u = begin(cases[i].code, 0);
        assert_true(step(&u));
        assert_int_equal(u.known >> BX & 1, !cases[i].fails);
        if (!cases[i].fails)
            assert_int_equal(u.reg[BX], cases[i].value);
    }
    struct ips_unwind_stack u = begin(code_breg, 0);
    u.known &= ~(1u << R12);
    assert_true(step(&u));
    assert_int_equal(u.known >> BX & 1, 0);
    /* A PLT's: one word more from the 11th byte of 16 on. */
    for (unsigned at = 0; at < 32; at++) {
        u = begin(code_plt, at);
        assert_true(step(&u));
        assert_int_equal(u.reg[SP], word(SP_AT + 1 + (at % 16 >= 11)));
    }
}

/* --- tables with other heads --- */
CODE(personality, ".cfi_personality 0x1b, code_plain\n"
                  ".cfi_lsda 0x1b, code_plain\n.cfi_escape 0x0e, 48")
CODE(wide_personality,
     ".cfi_personality 0x1c, code_plain\n.cfi_escape 0x0e, 48")
CODE(signal, ".cfi_signal_frame")
CODE(other_column, ".cfi_return_column 12")
__asm__(".text\n.p2align 4\n.globl code_between\n.hidden code_between\n"
        "code_between: .skip 64, 0x90\n");
extern const char code_between[] __attribute__((visibility("hidden")));

static void test_unwind_rules__heads_of_tables(void **state)
{
    (void)state;
    struct ips_unwind_stack u = begin(code_personality, 0);
    assert_true(step(&u));
    assert_int_equal(u.reg[SP], word(SP_AT + 6));
    u = begin(code_wide_personality, 0);
    assert_true(step(&u));
    assert_int_equal(u.reg[SP], word(SP_AT + 6));
    struct fde f;
    assert_true(ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)code_plain));
    assert_int_equal(f.pc_begin, (uint64_t)(uintptr_t)code_plain);
    assert_int_equal(f.pc_end, (uint64_t)(uintptr_t)code_plain + 700);
    assert_int_equal(f.code_align, 1);
    assert_int_equal(f.data_align, -8);
    assert_false(f.signal_frame);
    assert_true(ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)code_plain + 699));
    assert_false(
        ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)code_between + 32));
    assert_false(
        ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)code_other_column));
    assert_false(ips_unwind_find_fde(&f, NOWHERE));
    assert_false(ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)stack));
    assert_true(ips_unwind_find_fde(&f, (uint64_t)(uintptr_t)code_signal));
    assert_true(f.signal_frame);
}

/* A handler's return: the registers are those of the ucontext at rsp. Would
 * catch: one register taken for another, one that is not there believed known.
 */
static void test_unwind_rules__over_a_signal(void **state)
{
    static const uint8_t greg[IPS_REGS] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
        REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
        REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    static ucontext_t uc[2];
    (void)state;
    struct ips_unwind_stack u = begin(code_signal, 0);
    for (unsigned i = 0; i < IPS_REGS; i++)
        uc[0].uc_mcontext.gregs[greg[i]] = 0x30000000 + (long)i;
    u.reg[SP] = (uint64_t)(uintptr_t)&uc[0];
    u.low = (uint64_t)(uintptr_t)&uc[0];
    u.end = (uint64_t)(uintptr_t)&uc[1];
    assert_true(step(&u));
    const uint32_t known =
        1u << BX | 1u << FP | 1u << SP | 1u << 10 | 0xfu << 12 | 1u << PC;
    assert_int_equal(u.known, known);
    for (unsigned i = 0; i < IPS_REGS; i++)
        if (known >> i & 1)
            assert_int_equal(u.reg[i], 0x30000000 + i);
    /* not in the readable stack */
    u = begin(code_signal, 0);
    u.reg[SP] = (uint64_t)(uintptr_t)&uc[0];
    u.low = (uint64_t)(uintptr_t)&uc[0];
    u.end = u.low + 64;
    assert_false(step(&u));
    /* the registers that a handler's context has */
    ips_unwind_load_context(&u, &uc[0]);
    assert_int_equal(u.known, (1u << IPS_REGS) - 1);
    assert_int_equal(u.low | u.end, 0);
    for (unsigned i = 0; i < IPS_REGS; i++)
        assert_int_equal(u.reg[i], 0x30000000 + i);
}

/* --- by frame pointer: code without a table --- */
static void test_unwind_rules__by_frame_pointer(void **state)
{
    const struct {
        uint64_t fp;
        bool good;
    } cases[] = {{word(30), true},         {word(SP_AT), true},
                 {word(SP_AT - 1), false}, {word(30) + 4, false},
                 {word(WORDS - 2), true},  {word(WORDS - 1), false},
                 {word(WORDS), false},     {0, false},
                 {UINT64_MAX - 7, false}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ips_unwind_stack u = begin(code_plain, 0);
        u.reg[PC] = NOWHERE;
        u.reg[FP] = cases[i].fp;
        assert_int_equal(step(&u), cases[i].good);
        if (!cases[i].good)
            continue;
        unsigned at = (unsigned)((cases[i].fp - word(0)) / 8);
        assert_int_equal(u.reg[FP], 0x10000000 + at);
        assert_int_equal(u.reg[PC], 0x10000000 + at + 1);
        assert_int_equal(u.reg[SP], word(at + 2));
        assert_int_equal(u.known, 1u << FP | 1u << PC | 1u << SP);
    }
    struct ips_unwind_stack u = begin(code_plain, 0);
    u.reg[PC] = NOWHERE;
    u.known &= ~(1u << FP);
    assert_false(step(&u));
}

/* Would catch: a read one word beyond the stack, or one word of it not read. */
static void test_unwind_rules__edges_of_the_stack(void **state)
{
    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        struct ips_unwind_stack u = begin(code_plain, 0);
        u.low = word(SP_AT);
        u.end = word(SP_AT + 1);
        assert_true(step(&u));
        u = begin(code_plain, 0);
        u.end = word(SP_AT + 1) - 1;
        assert_false(step(&u));
        u = begin(code_plain, 0);
        u.low = word(SP_AT + 1);
        assert_false(step(&u));
        u = begin(code_plain, 0);
        u.end = word(SP_AT);
        assert_false(step(&u));
        u = begin(code_plain, 0);
        u.reg[SP] += 4;
        assert_false(step(&u));
        /* a return address of 0 ends the walk */
        u = begin(code_plain, 0);
        stack[SP_AT] = 0;
        uint64_t frames[3];
        assert_int_equal(ips_unwind_stack(&u, frames, 3), 1);
    }
}

/* A return address is that of the next function where the call was its caller's
 * last instruction. */
static void test_unwind_rules__the_call_precedes_its_return(void **state)
{
    uint64_t frames[4];
    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        struct ips_unwind_stack u = begin(code_plain, 0);
        stack[SP_AT] = (uint64_t)(uintptr_t)code_def_cfa_offset + 700;
        stack[SP_AT + 6] = NOWHERE;
        assert_int_equal(ips_unwind_stack(&u, frames, 4), 3);
        assert_int_equal(frames[1], stack[SP_AT]);
        assert_int_equal(frames[2], NOWHERE);
        /* After a signal the pc is where it was interrupted: code_advance's
         * rule begins there. */
        static ucontext_t uc[2];
        u = begin(code_signal, 0);
        memset(uc, 0, sizeof(uc));
        u.reg[SP] = (uint64_t)(uintptr_t)&uc[0];
        u.low = (uint64_t)(uintptr_t)&uc[0];
        u.end = (uint64_t)(uintptr_t)&uc[2];
        uint64_t *at = (uint64_t *)(void *)&uc[1];
        uc[0].uc_mcontext.gregs[REG_RSP] = (long)(uintptr_t)at;
        uc[0].uc_mcontext.gregs[REG_RIP] = (long)(uintptr_t)code_advance + 5;
        at[0] = 1;
        at[5] = NOWHERE;
        assert_int_equal(ips_unwind_stack(&u, frames, 3), 3);
        assert_int_equal(frames[2], NOWHERE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind_rules__where_the_frame_ends),
        cmocka_unit_test(test_unwind_rules__where_a_register_is),
        cmocka_unit_test(test_unwind_rules__of_unknown_registers),
        cmocka_unit_test(test_unwind_rules__return_addresses_and_ends),
        cmocka_unit_test(test_unwind_rules__expressions),
        cmocka_unit_test(test_unwind_rules__heads_of_tables),
        cmocka_unit_test(test_unwind_rules__over_a_signal),
        cmocka_unit_test(test_unwind_rules__by_frame_pointer),
        cmocka_unit_test(test_unwind_rules__edges_of_the_stack),
        cmocka_unit_test(test_unwind_rules__the_call_precedes_its_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0; /* frame pointers alone are followed here */
}
#endif
