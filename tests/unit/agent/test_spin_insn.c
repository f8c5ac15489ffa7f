/* What each instruction is read as that a spin loop may have, and the limits of
 * such a loop. Catches: one kind of instruction with a wrong length, so that
 * what follows is read from its middle; a register, an address or a store that
 * is not seen, so that work is taken for waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/unwind/spin_loop.c"

#if defined(__x86_64__)

#define BYTES_MOST 16

static void add_register(char *text, const char *name, unsigned reg)
{
    if (reg != NO_REG)
        sprintf(text + strlen(text), " %s%u", name, reg);
}

/* "LENGTH", and what it does; "-": none of the kinds that are known. */
static const char *describe(const uint8_t *code, size_t length)
{
    static char text[160];
    struct insn i;
    if (!decode_instruction(code, length, 0, &i))
        return "-";
    sprintf(text, "%zu", i.length);
    if (i.memory) {
        strcat(text, i.address ? " lea" : i.stores ? " store" : " load");
        add_register(text, "b", i.base);
        add_register(text, "i", i.index);
        if (i.displacement)
            sprintf(text + strlen(text), "%+d", (int)i.displacement);
    }
    add_register(text, "to", i.to);
    add_register(text, "from", i.from);
    add_register(text, "with", i.with);
    if (i.jumps)
        sprintf(text + strlen(text), " %s%+d", i.conditional ? "jcc" : "jmp",
                (int)i.offset);
    strcat(text, i.pause ? " pause" : i.counts ? " counts" : "");
    return text;
}

struct insn_case {
    uint8_t bytes[BYTES_MOST];
    const char *means;
};

/* Each is also cut at every byte: nothing is read behind the end. */
static void check(const struct insn_case *c, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const char *is = describe(c[k].bytes, BYTES_MOST);
        if (strcmp(is, c[k].means) != 0)
            fail_msg("case %zu: %s, not %s", k, is, c[k].means);
        size_t length = (size_t)(c[k].means[0] - '0');
        for (size_t n = 0; c[k].means[0] != '-' && n <= length; n++)
            assert_true((strcmp(describe(c[k].bytes, n), "-") == 0) ==
                        (n < length));
    }
}

static void test_spin_insn__operands(void **state)
{
    (void)state;
    static const struct insn_case cases[] = {
        {{0x8b, 0x07}, "2 load b7 to0"},
        {{0x8b, 0x47, 0x80}, "3 load b7-128 to0"},
        {{0x8b, 0x4f, 0x7f}, "3 load b7+127 to1"},
        {{0x8b, 0x97, 0, 1, 0, 0}, "6 load b7+256 to2"},
        {{0x8b, 0x97, 0xfe, 0xff, 0xff, 0xff}, "6 load b7-2 to2"},
        {{0x8b, 0xd9}, "2 to3 from1"},
        {{0x8b, 0x05, 4, 3, 0, 0}, "6 load b17+772 to0"}, /* of rip */
        {{0x8b, 0x45, 0xf8}, "3 load b5-8 to0"},
        {{0x41, 0x8b, 0x45, 8}, "4 load b13+8 to0"},
        {{0x44, 0x8b, 0x0f}, "3 load b7 to9"},
        {{0x4d, 0x8b, 0xc8}, "3 to9 from8"},
        {{0x8b, 0x04, 0x24}, "3 load b4 to0"},            /* (%rsp) */
        {{0x8b, 0x44, 0x24, 0x10}, "4 load b4+16 to0"},   /* 16(%rsp) */
        {{0x8b, 0x04, 0x8f}, "3 load b7 i1 to0"},         /* (%rdi,%rcx,4) */
        {{0x42, 0x8b, 0x04, 0x27}, "4 load b7 i12 to0"},  /* (%rdi,%r12) */
        {{0x43, 0x8b, 0x04, 0x0e}, "4 load b14 i9 to0"},  /* (%r14,%r9) */
        {{0x8b, 0x04, 0x25, 8, 0, 0, 0}, "7 load+8 to0"}, /* absolute */
        {{0x8b, 0x04, 0x8d, 8, 0, 0, 0}, "7 load i1+8 to0"},
        {{0x8b, 0x44, 0x8d, 8}, "4 load b5 i1+8 to0"}, /* 8(%rbp,%rcx,4) */
        {{0x41, 0x8b, 0x04, 0x24}, "4 load b12 to0"},  /* (%r12) */
        {{0x64, 0x8b, 0x07}, "3 load b7 to0"},
        {{0x65, 0x8b, 0x07}, "3 load b7 to0"},
        {{0x2e, 0x8b, 0x07}, "3 load b7 to0"},
        {{0x3e, 0x8b, 0x07}, "3 load b7 to0"},
        {{0x66, 0x8b, 0x07}, "3 load b7 to0"},
        {{0xf3, 0x8b, 0x07}, "3 load b7 to0"},
        {{0xf2, 0x8b, 0x07}, "-"},
        {{0x26, 0x8b, 0x07}, "-"},
        {{0x66, 0x41, 0x8b, 0x07}, "4 load b15 to0"},
        {{0x41, 0x66, 0x8b, 0x07}, "-"}, /* REX is the last prefix */
    };
    check(cases, sizeof(cases) / sizeof(*cases));
}

static void test_spin_insn__kinds(void **state)
{
    (void)state;
    static const struct insn_case cases[] = {
        {{0x90}, "1"},
        {{0xf3, 0x90}, "2 pause"},
        {{0xeb, 0xfe}, "2 jmp-2"},
        {{0xe9, 0, 1, 0, 0}, "5 jmp+256"},
        {{0x74, 0x7f}, "2 jcc+127"},
        {{0x7f, 0x80}, "2 jcc-128"},
        {{0x0f, 0x84, 0xff, 0xff, 0xff, 0xff}, "6 jcc-1"},
        {{0x24, 1}, "2"}, /* and $1,%al */
        {{0x3c, 1}, "2"},
        {{0xa8, 1}, "2"},
        {{0x25, 1, 0, 0, 0}, "5"},
        {{0x3d, 1, 0, 0, 0}, "5"},
        {{0xa9, 1, 0, 0, 0}, "5"},
        {{0x66, 0x3d, 1, 0}, "4"},
        {{0x66, 0x25, 1, 0}, "4"},
        {{0x80, 0x3f, 1}, "3 load b7"}, /* cmpb $1,(%rdi) */
        {{0x83, 0x7f, 8, 1}, "4 load b7+8"},
        {{0x81, 0x3f, 1, 0, 0, 0}, "6 load b7"},
        {{0x66, 0x81, 0x3f, 1, 0}, "5 load b7"},
        {{0x83, 0xf8, 1}, "3"},                  /* cmp $1,%eax */
        {{0x83, 0xe1, 1}, "3 to1 from1"},        /* and $1,%ecx */
        {{0x83, 0xc1, 1}, "3 to1 from1 counts"}, /* add $1,%ecx */
        {{0x83, 0xe9, 1}, "3 to1 from1 counts"}, /* sub $1,%ecx */
        {{0x41, 0x83, 0xe9, 1}, "4 to9 from9 counts"},
        {{0x83, 0xc9, 1}, "-"},         /* or */
        {{0x83, 0xf1, 1}, "-"},         /* xor */
        {{0x83, 0xd9, 1}, "-"},         /* sbb */
        {{0x83, 0x27, 1}, "-"},         /* andl $1,(%rdi) */
        {{0xf6, 0x07, 1}, "3 load b7"}, /* testb $1,(%rdi) */
        {{0xf6, 0xc9, 1}, "3"},
        {{0xf7, 0xc1, 1, 0, 0, 0}, "6"},
        {{0x66, 0xf7, 0xc1, 1, 0}, "5"},
        {{0xf6, 0xd1, 1}, "-"}, /* not */
        {{0xf7, 0xd9}, "-"},    /* neg */
        {{0xc6, 0x45, 0xff, 1}, "4 store b5-1"},
        {{0xc7, 0x45, 0xf0, 1, 0, 0, 0}, "7 store b5-16"},
        {{0x66, 0xc7, 0x45, 0xf0, 1, 0}, "6 store b5-16"},
        {{0xc7, 0x04, 0x24, 1, 0, 0, 0}, "7 store b4"},
        {{0xc7, 0x44, 0x24, 0xff, 1, 0, 0, 0}, "-"}, /* below the stack */
        {{0xc7, 0x45, 0, 1, 0, 0, 0}, "-"}, /* where the caller's rbp is */
        {{0xc7, 0x07, 1, 0, 0, 0}, "-"},
        {{0xc7, 0xc1, 1, 0, 0, 0}, "6 to1"},
        {{0xc7, 0xc9, 1, 0, 0, 0}, "-"},
        {{0xff, 0xc1}, "2 to1 from1 counts"}, /* inc %ecx */
        {{0xff, 0xc9}, "2 to1 from1 counts"}, /* dec %ecx */
        {{0xff, 0xd1}, "-"},                  /* call */
        {{0xff, 0x01}, "-"},                  /* incl (%rcx) */
        {{0xb8, 1, 0, 0, 0}, "5 to0"},
        {{0xbf, 1, 0, 0, 0}, "5 to7"},
        {{0x41, 0xb9, 1, 0, 0, 0}, "6 to9"},
        {{0x66, 0xb9, 1, 0}, "4 to1"},
        {{0x48, 0xb9, 1, 0, 0, 0, 0, 0, 0, 0}, "-"},
        {{0x21, 0xf0}, "2 to0 from0 with6"},
        {{0x23, 0xc6}, "2 to0 from0 with6"},
        {{0x23, 0x07}, "2 load b7 to0 from0"},
        {{0x21, 0x07}, "-"},
        {{0x38, 0x07}, "2 load b7"},
        {{0x39, 0xd0}, "2"},
        {{0x3a, 0x07}, "2 load b7"},
        {{0x3b, 0x06}, "2 load b6"},
        {{0x84, 0xc0}, "2"},
        {{0x85, 0xc0}, "2"},
        {{0x8a, 0x07}, "2 load b7 to0"},
        {{0x63, 0xc7}, "2 to0 from7"},
        {{0x88, 0x45, 0xff}, "3 store b5-1 from0"},
        {{0x89, 0x4d, 0xf8}, "3 store b5-8 from1"},
        {{0x89, 0xca}, "2 to2 from1"},
        {{0x89, 0x07}, "-"},
        {{0x48, 0x89, 0x4c, 0x24, 8}, "5 store b4+8 from1"},
        {{0x89, 0x4c, 0x05, 0xf8}, "-"}, /* -8(%rbp,%rax) */
        {{0x48, 0x8d, 0x7f, 1}, "4 lea b7+1 to7"},
        {{0x8d, 0xc0}, "-"},
        {{0x31, 0xc0}, "2 to0"},
        {{0x33, 0xc9}, "2 to1"},
        {{0x31, 0xc8}, "-"},
        {{0x31, 0x00}, "-"},
        {{0x0f, 0xb6, 0x07}, "3 load b7 to0"},
        {{0x0f, 0xb6, 0xc7}, "3 to0 from7"},
        {{0x0f, 0xb7, 0x07}, "3 load b7 to0"},
        {{0x0f, 0xbe, 0xcf}, "3 to1 from7"},
        {{0x48, 0x0f, 0xbf, 0x07}, "4 load b7 to0"},
        {{0x0f, 0x94, 0xc1}, "3 to1"}, /* sete %cl */
        {{0x0f, 0x9f, 0xc1}, "3 to1"},
        {{0x0f, 0x94, 0x07}, "-"},
        {{0x0f, 0x1f, 0x40, 0}, "4"}, /* a nop reads nothing */
        {{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, "8"},
        {{0x0f, 0xa2}, "-"},
    };
    check(cases, sizeof(cases) / sizeof(*cases));
}

/* Every operation code with the operands %ecx, %ecx and (%rax):
 * which are known. */
static void test_spin_insn__no_others(void **state)
{
    (void)state;
    struct insn i;
    char known[2][2][600];
    static const uint8_t operands[2] = {0xc9, 0x00};
    for (int two = 0; two < 2; two++)
        for (int k = 0; k < 2; k++) {
            char *at = known[two][k];
            *at = '\0';
            for (unsigned op = 0; op < 256; op++) {
                uint8_t code[BYTES_MOST] = {0x0f};
                code[two] = (uint8_t)op;
                code[two + 1] = operands[k];
                /* those that are read otherwise: prefixes and 0F */
                if (!two &&
                    (op == 0x0f || (op & 0xf0) == 0x40 || (op & 0xfe) == 0x64 ||
                     op == 0x66 || op == 0x2e || op == 0x3e || op == 0xf3))
                    continue;
                if (decode_instruction(code, sizeof(code), 0, &i))
                    at += sprintf(at, " %02x", op);
            }
        }
    assert_string_equal(
        known[0][0], " 21 23 24 25 31 33 38 39 3a 3b 3c 3d 63 70 71 72 73 74 "
                     "75 76 77 78 79 7a 7b 7c 7d 7e 7f 84 85 88 89 8a 8b 90 a8 "
                     "a9 b8 b9 ba bb bc bd be bf e9 eb f6 f7 ff");
    assert_string_equal(
        known[0][1], " 23 24 25 38 39 3a 3b 3c 3d 63 70 71 72 73 74 75 76 77 "
                     "78 79 7a 7b 7c 7d 7e 7f 84 85 8a 8b 8d 90 a8 a9 b8 b9 ba "
                     "bb bc bd be bf e9 eb f6 f7");
    assert_string_equal(known[1][0],
                        " 1f 80 81 82 83 84 85 86 87 88 89 8a 8b 8c 8d 8e 8f "
                        "90 91 92 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f b6 b7 "
                        "be bf");
    assert_string_equal(known[1][1],
                        " 1f 80 81 82 83 84 85 86 87 88 89 8a 8b 8c 8d 8e 8f "
                        "b6 b7 be bf");
}

/* Room for a loop and what is before and behind it. */
struct loop {
    uint8_t code[400];
    size_t length;
};

static void add(struct loop *l, const char *bytes, size_t n)
{
    memcpy(l->code + l->length, bytes, n);
    l->length += n;
}
#define ADD(l, bytes) add(l, bytes, sizeof(bytes) - 1)

/* Jumps back to `to` if a flag is set. */
static void add_jump(struct loop *l, size_t to)
{
    const int32_t offset = (int32_t)to - (int32_t)(l->length + 6);
    ADD(l, "\x0f\x85");
    memcpy(l->code + l->length, &offset, 4);
    l->length += 4;
}

/* Would catch: a loop that is longer than what is looked at, or shorter but not
 * found; one of which only the end is. */
static void test_spin_insn__longest_loop(void **state)
{
    (void)state;
    for (size_t length = 159; length <= 161; length++) {
        struct loop l = {.length = 8};
        memset(l.code, 0x90, sizeof(l.code));
        ADD(&l, "\x83\x3f\x00"); /* cmpl $0,(%rdi) */
        l.length = 8 + length - 6;
        add_jump(&l, 8);
        bool is = length <= 160;
        assert_int_equal(ips_is_code_in_spin_loop(l.code, l.length, 8), is);
        assert_int_equal(ips_is_code_in_spin_loop(l.code, l.length, 11), is);
        assert_int_equal(
            ips_is_code_in_spin_loop(l.code, l.length, l.length - 6), is);
        assert_false(ips_is_code_in_spin_loop(l.code, l.length - 1, 8));
        assert_false(ips_is_code_in_spin_loop(l.code, l.length, 7) &&
                     length == 160);
        assert_false(ips_is_code_in_spin_loop(l.code, l.length, l.length));
    }
    /* it jumps to before the code */
    struct loop l = {0};
    ADD(&l, "\x83\x3f\x00\x75\xfb");
    assert_true(ips_is_code_in_spin_loop(l.code, l.length, 0));
    assert_false(ips_is_code_in_spin_loop(l.code + 1, l.length - 1, 2));
    /* at is before the loop: its first turn is not */
    struct loop before = {0};
    ADD(&before, "\x90\x83\x3f\x00\x75\xfb");
    assert_true(ips_is_code_in_spin_loop(before.code, before.length, 1));
    assert_false(ips_is_code_in_spin_loop(before.code, before.length, 0));
}

/* Would catch: variables on the stack beyond those that are followed. */
static void test_spin_insn__most_variables(void **state)
{
    (void)state;
    for (unsigned count = 7; count <= 9; count++) {
        struct loop l = {0};
        ADD(&l, "\x8b\x07"); /* mov (%rdi),%eax */
        for (int twice = 0; twice < 2; twice++)
            for (unsigned k = 0; k < count; k++) {
                char store[] = "\x89\x45\xff"; /* mov %eax,-4*k-4(%rbp) */
                store[2] = (char)(-4 * (int)k - 4);
                ADD(&l, store);
            }
        ADD(&l, "\x85\xc0"); /* test %eax,%eax */
        add_jump(&l, 0);
        assert_int_equal(ips_is_code_in_spin_loop(l.code, l.length, 0),
                         count <= 8);
    }
}

/* Each is one turn of a loop that the test closes. */
static void test_spin_insn__what_a_turn_does(void **state)
{
    (void)state;
#define TURN(bytes, waits)                                                     \
    {                                                                          \
        bytes, sizeof(bytes) - 1, waits                                        \
    }
    static const struct {
        const char *bytes;
        size_t length;
        bool waits;
    } cases[] = {
        TURN("\x8b\x07\x8b\x4f\x08\x39\xc8", true),  /* two loads; cmp */
        TURN("\x8b\x07\x8b\x4f\x08\x3b\x06", false), /* three */
        TURN("\x8b\x07\x8b\x45\xf8\x39\xc8", true),  /* one is of the stack */
        TURN("\xf3\x90", true), /* no load: another's turn */
        TURN("\x90", false),
        /* a variable on the stack that the turn does not change */
        TURN("\x8b\x45\xf8", true),
        TURN("\x8b\x44\x24\x08", true),
        TURN("\x8b\x45\xf8\x83\xe9\x01", false),            /* sub */
        TURN("\x8b\x45\xf8\x8b\x4d\xf0\x8b\x55\xe8", true), /* three */
        TURN("\x48\x8d\x45\xf8", false),                    /* lea */
        /* it changes that variable, the ones beside it, or perhaps that one */
        TURN("\x89\x4d\xf8\x8b\x45\xf8", false),
        TURN("\x89\x4d\xf4\x8b\x45\xf8", false),     /* from 4 bytes before */
        TURN("\x89\x4d\xfc\x8b\x45\xf8", false),     /* from 4 bytes behind */
        TURN("\x89\x4d\xf0\x8b\x45\xf8", true),      /* from 8 bytes before */
        TURN("\x89\x4d\xf8\x8b\x45\xf0", true),      /* from 8 bytes behind */
        TURN("\x89\x4c\x24\x08\x8b\x45\xf8", false), /* by rsp */
        TURN("\xf3\x90\x83\xe9\x01", true),          /* pause, sub */
        TURN("\x8b\x07\x83\xe9\x01", false),         /* load, sub */
        /* the address: of a register that the turn changes */
        TURN("\x8b\x07\x83\xc7\x08", false), /* add $8,%edi */
        TURN("\xf3\x90\x8b\x07\x83\xc7\x08", false),
        TURN("\x8b\x04\x8f\xff\xc1", false), /* (%rdi,%rcx,4); inc */
        TURN("\xf3\x90\x8b\x04\x8f\xff\xc1", false),
        TURN("\x89\xf7\x8b\x07", true), /* mov %esi,%edi first */
        TURN("\x8b\x07\x89\xc7\x8b\x0f",
             false),                     /* what was loaded, but before */
        TURN("\x8b\x16\x8b\x0a", true),  /* (%rsi), then (%rdx) */
        TURN("\x8b\x0a\x8b\x16", false), /* the other way round */
        /* and: of two, both must be the same in every turn */
        TURN("\x8b\x07\x21\xf0\x8b\x0c\x07", true),
        TURN("\x8b\x07\x21\xc8\xf3\x90\xff\xc1\x8b\x0c\x07", false),
        /* stored: a variable that is read before it is written, or not */
        TURN("\x8b\x07\x89\x45\xf8\x8b\x45\xf8", true),
        TURN("\x8b\x45\xf8\x8b\x07\x89\x45\xf8", false),
        TURN("\x8b\x07\x89\x45\xf8\x48\x8d\x45\xf8", false), /* its address */
        TURN("\x8b\x07\xf3\x90\xff\xc1\x89\x4d\xf8", false), /* the count */
        TURN("\xc7\x45\xf8\x01\x00\x00\x00\x8b\x07", true),
        TURN("\xc7\x45\xf8\x01\x00\x00\x00\x8b\x07\x8b\x4d\xf8", true),
        /* by rsp it is another one */
        TURN("\x8b\x07\x89\x45\xf8\x8b\x04\x24", true),
        TURN("\x8b\x07\x89\x44\x24\x08\x8b\x44\x24\x08", true),
        TURN("\x8b\x44\x24\x08\x8b\x07\x89\x44\x24\x08", false),
        TURN("\x8b\x44\x24\x10\x8b\x07\x89\x44\x24\x08", true),
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct loop l = {0};
        add(&l, cases[k].bytes, cases[k].length);
        add_jump(&l, 0);
        if (ips_is_code_in_spin_loop(l.code, l.length, 0) != cases[k].waits)
            fail_msg("turn %zu", k);
    }
    /* without a test it never ends: mov (%rdi),%eax; jmp */
    struct loop l = {0};
    ADD(&l, "\x8b\x07\xeb\xfc");
    assert_false(ips_is_code_in_spin_loop(l.code, l.length, 0));
    /* behind a jump that is always taken is other code */
    struct loop other = {0};
    ADD(&other, "\x8b\x07\xeb\x10\x74\xfa");
    assert_false(ips_is_code_in_spin_loop(other.code, other.length, 0));
}

#endif

/* Would catch: bytes read where there are none. */
static void test_spin_insn__nothing(void **state)
{
    (void)state;
    const uint8_t none[1] = {0};
    assert_false(ips_is_code_in_spin_loop(none, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(test_spin_insn__operands),
        cmocka_unit_test(test_spin_insn__kinds),
        cmocka_unit_test(test_spin_insn__no_others),
        cmocka_unit_test(test_spin_insn__longest_loop),
        cmocka_unit_test(test_spin_insn__most_variables),
        cmocka_unit_test(test_spin_insn__what_a_turn_does),
#endif
        cmocka_unit_test(test_spin_insn__nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
