/* Which code only reads memory until it changes. Each case says what it would
 * catch. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/unwind/spin_loop.h"

/* Is every instruction of the loop, at these offsets, found to be in a spin
 * loop, or none? `code` begins 16 bytes into a page. */
static bool spins(const uint8_t *code, size_t length, const uint8_t *starts)
{
    uint8_t page[4096];
    memset(page, 0xcc, sizeof(page));
    memcpy(page + 16, code, length);
    bool all = true, none = true;
    for (size_t i = 0; i == 0 || starts[i]; i++) {
        bool is = ips_is_code_in_spin_loop(page, sizeof(page), 16u + starts[i]);
        all = all && is;
        none = none && !is;
    }
    assert_true(all || none);
    return all;
}

#define SPINS(starts, ...)                                                     \
    spins((const uint8_t[]){__VA_ARGS__},                                      \
          sizeof((const uint8_t[]){__VA_ARGS__}), (const uint8_t *)(starts))

#if defined(__x86_64__)

/* Would catch: one form of a waiting loop taken for work. */
static void test_spin_loop__loops_that_wait(void **state)
{
    (void)state;
    /* mov flag(%rip),%eax; test %eax,%eax; je */
    assert_true(
        SPINS("\0\6\10", 0x8b, 5, 1, 2, 3, 0, 0x85, 0xc0, 0x74, 0xf6, 0xc3));
    /* pause; mov; test; je back to the pause */
    assert_true(SPINS("\0\2\10\12", 0xf3, 0x90, 0x8b, 5, 1, 2, 3, 0, 0x85, 0xc0,
                      0x74, 0xf4, 0xc3));
    /* cmpb $0,(%rdi); jne, with a jump of 32 bits */
    assert_true(
        SPINS("\0\3", 0x80, 0x3f, 0, 0x0f, 0x85, 0xf7, 0xff, 0xff, 0xff));
    /* without optimisation: the address is kept on the stack */
    assert_true(SPINS("\0\7\13\17\21\24\27\31", 0x48, 0x8d, 5, 1, 2, 3, 0, 0x48,
                      0x89, 0x45, 0xf8, 0x48, 0x8b, 0x45, 0xf8, 0x8b, 0, 0x89,
                      0x45, 0xf4, 0x8b, 0x45, 0xf4, 0x85, 0xc0, 0x74, 0xe5));
    /* of 16 bits: cmpw $0,(%rdi); jne */
    assert_true(SPINS("\0\4", 0x66, 0x83, 0x3f, 0, 0x75, 0xfa));
    /* mov (%rdi),%eax; and %esi,%eax; je */
    assert_true(SPINS("\0\2\4", 0x8b, 7, 0x21, 0xf0, 0x74, 0xfa));
    /* a flag on the stack: mov 12(%rsp),%eax; test %eax,%eax; je */
    assert_true(SPINS("\0\4\6", 0x8b, 0x44, 0x24, 12, 0x85, 0xc0, 0x74, 0xf8));
    /* movzbl 15(%rsp),%eax; test %al,%al; je */
    assert_true(
        SPINS("\0\5\7", 0x0f, 0xb6, 0x44, 0x24, 15, 0x84, 0xc0, 0x74, 0xf7));
    /* without optimisation: cmpl $0,-4(%rbp); je */
    assert_true(SPINS("\0\4", 0x83, 0x7d, 0xfc, 0, 0x74, 0xfa));
    /* the same, and what it read is kept: mov -4(%rbp),%eax; mov
     * %eax,-16(%rbp); cmpl $0,-16(%rbp); je */
    assert_true(SPINS("\0\3\6\12", 0x8b, 0x45, 0xfc, 0x89, 0x45, 0xf0, 0x83,
                      0x7d, 0xf0, 0, 0x74, 0xf4));
    /* the second jump is that of the loop: pause; cmpl $0,(%rdi); jg back to
     * before; jmp to the pause */
    assert_true(SPINS("\2\4\7\11", 0xff, 0xff, 0xf3, 0x90, 0x83, 0x3f, 0, 0x7f,
                      0xf7, 0xeb, 0xf7));
    /* so many times with pause: mov (%rdi),%edx; cmp; jne out; pause; sub; jne
     */
    assert_true(SPINS("\0\2\4\6\10\14", 0x8b, 0x17, 0x39, 0xf2, 0x75, 0x20,
                      0xf3, 0x90, 0x48, 0x83, 0xe8, 1, 0x75, 0xf2));
}

/* Would catch: work taken for waiting. */
static void test_spin_loop__loops_that_work(void **state)
{
    (void)state;
    /* along a list: mov 8(%rax),%rax; test %rax,%rax; jne */
    assert_false(
        SPINS("\0\4\7", 0x48, 0x8b, 0x40, 8, 0x48, 0x85, 0xc0, 0x75, 0xf7));
    /* the same with the pointer on the stack */
    assert_false(SPINS("\0\4\10\14\20\23", 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x8b,
                       0x40, 8, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x45, 0xf8,
                       0x48, 0x85, 0xc0, 0x75, 0xeb));
    /* along a text: cmpb $0,(%rdi); lea 1(%rdi),%rdi; jne */
    assert_false(
        SPINS("\0\3\7", 0x80, 0x3f, 0, 0x48, 0x8d, 0x7f, 1, 0x75, 0xf7));
    /* add (%rdi),%eax: it sums up; jne */
    assert_false(SPINS("\0\2", 3, 7, 0x75, 0xfc));
    /* counts without a pause: mov (%rdi),%edx; sub $1,%eax; jne */
    assert_false(SPINS("\0\2\5", 0x8b, 0x17, 0x83, 0xe8, 1, 0x75, 0xf9));
    /* stores: mov %eax,(%rdi); cmp (%rsi),%eax; jne */
    assert_false(SPINS("\0\2\4", 0x89, 7, 0x3b, 6, 0x75, 0xfa));
    /* an atomic operation: lock cmpxchg %ecx,(%rdi); jne */
    assert_false(SPINS("\0\4", 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xfa));
    /* xchg %eax,(%rdi); test; jne */
    assert_false(SPINS("\0\2\4", 0x87, 7, 0x85, 0xc0, 0x75, 0xfa));
    /* a seqlock: three loads; cmp; jne */
    assert_false(SPINS("\0\2\5\7\11", 0x8b, 7, 0x8b, 0x4f, 8, 0x8b, 0x17, 0x39,
                       0xd0, 0x75, 0xf5));
    /* calls something: call; test; je */
    assert_false(SPINS("\0\5\7", 0xe8, 1, 2, 3, 0, 0x85, 0xc0, 0x74, 0xf7));
    /* reads no memory: test %eax,%eax; jne */
    assert_false(SPINS("\0\2", 0x85, 0xc0, 0x75, 0xfc));
    /* without optimisation, a counter on the stack: addl $1,-4(%rbp); cmpl
     * $99,-4(%rbp); jle */
    assert_false(SPINS("\0\4\10", 0x83, 0x45, 0xfc, 1, 0x83, 0x7d, 0xfc, 99,
                       0x7e, 0xf6));
    /* the same by a register: mov -4(%rbp),%eax; add $1,%eax; mov
     * %eax,-4(%rbp); mov -4(%rbp),%eax; cmp %eax,-20(%rbp); jg */
    assert_false(SPINS("\0\3\6\11\14\17", 0x8b, 0x45, 0xfc, 0x83, 0xc0, 1, 0x89,
                       0x45, 0xfc, 0x8b, 0x45, 0xfc, 0x39, 0x45, 0xec, 0x7f,
                       0xef));
    /* while (n--): mov -4(%rbp),%eax; lea -1(%rax),%edx; mov %edx,-4(%rbp);
     * test %eax,%eax; jne */
    assert_false(SPINS("\0\3\6\11\13", 0x8b, 0x45, 0xfc, 0x8d, 0x50, 0xff, 0x89,
                       0x55, 0xfc, 0x85, 0xc0, 0x75, 0xf3));
    /* a counter in a register and a limit on the stack: add $1,%eax; cmp
     * %eax,12(%rsp); jg */
    assert_false(
        SPINS("\0\3\7", 0x83, 0xc0, 1, 0x39, 0x44, 0x24, 12, 0x7f, 0xf7));
    /* sums up an array on the stack: mov -8(%rbp),%eax; add
     * -0x1a0(%rbp,%rax,4),%ecx; addl $1,-8(%rbp); cmpl $99,-8(%rbp); jle */
    assert_false(SPINS("\0\3\12\16\22", 0x8b, 0x45, 0xf8, 3, 0x8c, 0x85, 0x60,
                       0xfe, 0xff, 0xff, 0x83, 0x45, 0xf8, 1, 0x83, 0x7d, 0xf8,
                       99, 0x7e, 0xec));
    /* follows indices in an array on the stack: mov -8(%rbp),%eax; mov
     * -0x40(%rbp,%rax,4),%eax; mov %eax,-8(%rbp); cmpl $0,-8(%rbp); jne */
    assert_false(SPINS("\0\3\7\12\16", 0x8b, 0x45, 0xf8, 0x8b, 0x44, 0x85, 0xc0,
                       0x89, 0x45, 0xf8, 0x83, 0x7d, 0xf8, 0, 0x75, 0xf0));
    /* walks along a text by a pointer on the stack: mov -8(%rbp),%rax; add
     * $1,%rax; mov %rax,-8(%rbp); mov -8(%rbp),%rax; cmpb $0,(%rax); jne */
    assert_false(SPINS("\0\4\10\14\20\23", 0x48, 0x8b, 0x45, 0xf8, 0x48, 0x83,
                       0xc0, 1, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x45, 0xf8,
                       0x80, 0x38, 0, 0x75, 0xeb));
    /* no loop, but a jump back to code that leaves: xor %eax,%eax; jmp out; mov
     * 12(%rsp),%eax; test %eax,%eax; je back to the xor */
    assert_false(SPINS("\0\4\10\12", 0x31, 0xc0, 0xeb, 0x40, 0x8b, 0x44, 0x24,
                       12, 0x85, 0xc0, 0x74, 0xf4));
    /* no loop: it jumps forward, and code ends */
    assert_false(
        SPINS("\0\6\10", 0x8b, 5, 1, 2, 3, 0, 0x85, 0xc0, 0x74, 0x10, 0xc3));
}

#elif defined(__aarch64__)

/* Would catch: a loop with YIELD taken for work, one without for waiting. */
static void test_spin_loop__loops_that_wait(void **state)
{
    (void)state;
    /* yield; ldr w1,[x0]; cbz w1, back */
    assert_true(SPINS("\0\4\10", 0x3f, 0x20, 3, 0xd5, 1, 0, 0x40, 0xb9, 0xc1,
                      0xff, 0xff, 0x34));
}
static void test_spin_loop__loops_that_work(void **state)
{
    (void)state;
    /* nop; ldr w1,[x0]; cbz w1, back */
    assert_false(SPINS("\0\4\10", 0x1f, 0x20, 3, 0xd5, 1, 0, 0x40, 0xb9, 0xc1,
                       0xff, 0xff, 0x34));
}

#endif

/* Would catch: a read outside of the bytes that are given, at every place and
 * with every length. */
static void test_spin_loop__any_bytes(void **state)
{
    (void)state;
    uint64_t x = 1;
    for (int turn = 0; turn < 20000; turn++) {
        uint8_t code[64];
        for (size_t i = 0; i < sizeof(code); i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            code[i] = (uint8_t)(x >> 56);
        }
        const size_t length = x >> 40 & 63;
        uint8_t *exact = test_malloc(length + 1);
        memcpy(exact, code, length);
        (void)ips_is_code_in_spin_loop(exact, length, x >> 20 & 63);
        test_free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spin_loop__loops_that_wait),
        cmocka_unit_test(test_spin_loop__loops_that_work),
        cmocka_unit_test(test_spin_loop__any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
