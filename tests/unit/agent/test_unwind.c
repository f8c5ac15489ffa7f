/* The agent's walk up the stack, against chains of calls that are known. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/unwind/cache.h"
#include "agent/unwind/unwind.h"
#include "tests/unit/help/unwind_chain.h"

#define FRAMES 64

static uint64_t stack_low, stack_end;

static int find_stack(void **state)
{
    pthread_attr_t attr;
    void *at;
    size_t size;
    (void)state;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return -1;
    pthread_attr_getstack(&attr, &at, &size);
    pthread_attr_destroy(&attr);
    stack_low = (uint64_t)(uintptr_t)at;
    stack_end = stack_low + size;
    return 0;
}

/* --- known chains ------------------------------------------------------------
 */

static uint64_t noted[16], frames[FRAMES];
static unsigned notes;
static uint32_t count;

void chain_note(void *return_address)
{
    noted[notes++] = (uint64_t)(uintptr_t)return_address;
}

void chain_said(void)
{
    struct ips_unwind_stack u;
    IPS_UNWIND_HERE(&u);
    u.low = u.reg[IPS_REG_SP];
    u.end = stack_end;
    count = ips_unwind_stack(&u, frames, FRAMES);
}

/* Frame 0 is in chain_said, 1 its return address; then each function's, the
 * innermost first. */
static void check_exact(void (*run)(int))
{
    notes = 0;
    run(0);
    assert_int_equal(notes, 5);
    assert_true(count > 2 + notes);
    for (unsigned i = 0; i < notes; i++)
        assert_int_equal(frames[2 + i], noted[notes - 1 - i]);
}

#if defined(__x86_64__) /* elsewhere frame pointers alone are followed */
/* Through the C library, whose frames are not known: in this order. */
static void check_in_order(void (*run)(int))
{
    notes = 0;
    run(1);
    assert_true(notes >= 5);
    unsigned want = notes;
    /* A sanitizer's qsort compares once more than the library's: the last four,
     * and then who called it. */
    for (uint32_t i = 0; i < count && want; i++)
        if (frames[i] == noted[want - 1])
            want = want == notes - 3 ? 1 : want - 1;
    assert_int_equal(want, 0);
}
#endif

/* Catches wrong rules for alloca, realigned frames, saved registers. */
static void test_unwind__every_caller_in_order(void **state)
{
    (void)state;
    check_exact(with_fp_run);
    check_exact(debug_run);
#if defined(__x86_64__)
    check_exact(without_fp_run);
#endif
}

static void test_unwind__through_the_c_library(void **state)
{
    (void)state;
#if defined(__x86_64__)
    check_in_order(with_fp_run);
    check_in_order(without_fp_run);
    check_in_order(debug_run);
#endif
}

static void test_unwind__no_more_than_asked_for(void **state)
{
    struct ips_unwind_stack u;
    uint64_t few[3] = {0, 0, 77};
    (void)state;
    IPS_UNWIND_HERE(&u);
    struct ips_unwind_stack without = u;
    u.low = u.reg[IPS_REG_SP];
    u.end = stack_end;
    assert_int_equal(ips_unwind_stack(&u, few, 2), 2);
    assert_int_equal(few[2], 77);
    /* No stack is known: the program counter alone. */
    assert_int_equal(ips_unwind_stack(&without, few, 3), 1);
}

/* Catches a rule kept by the first walk that gives other frames than the table
 * did, and one that outlives ips_unwind_clear_rules. */
static void test_unwind__again_as_the_first_time(void **state)
{
    void (*const runs[])(int) = {
        with_fp_run,
        debug_run,
#if defined(__x86_64__)
        without_fp_run,
#endif
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        uint64_t first[FRAMES];
        ips_unwind_clear_rules();
        for (unsigned walk = 0; walk < 3; walk++) {
            check_exact(runs[i]); /* up to main and beyond: */
            uint32_t inner = notes + 2;
            if (walk == 0)
                memcpy(first, frames, sizeof(first));
            for (uint32_t f = inner + 1; f < count; f++)
                assert_int_equal(frames[f], first[f]);
        }
    }
}

#if defined(__x86_64__)
/* Code whose unwinding is told to the kept rules alone: one place holds one pc,
 * and what was half written is none. */
static void test_unwind__a_kept_rule_is_of_one_pc(void **state)
{
    static struct ips_cached_rule table[1 << IPS_KEPT_FEW];
    const uint64_t pc = 0x401234, rule = IPS_KEPT_RULE | 64;
    (void)state;
    assert_int_equal(ips_rule_find(table, IPS_KEPT_FEW, pc), 0);
    ips_rule_add(table, IPS_KEPT_FEW, pc, rule);
    assert_int_equal(ips_rule_find(table, IPS_KEPT_FEW, pc), rule);
    for (uint64_t other = pc + 1; other < pc + 5000; other++)
        assert_int_equal(ips_rule_find(table, IPS_KEPT_FEW, other), 0);
    /* another thread wrote its rule between our two loads */
    atomic_store(&ips_rule_slot(table, IPS_KEPT_FEW, pc)->rule, rule + 8);
    assert_int_equal(ips_rule_find(table, IPS_KEPT_FEW, pc), 0);
    atomic_store(&ips_rule_slot(table, IPS_KEPT_FEW, pc)->rule, 0);
    assert_int_equal(ips_rule_find(table, IPS_KEPT_FEW, pc), 0);
}
#endif

/* --- at every instruction ------------------------------------------------- */

#if defined(__x86_64__)
static uint64_t steps, wrong, wrong_pc;
static uint64_t want_frame;

static void on_step(int sig, siginfo_t *info, void *context)
{
    struct ips_unwind_stack u;
    uint64_t got[FRAMES];
    (void)sig;
    (void)info;
    ips_unwind_load_context(&u, (const ucontext_t *)context);
    u.low = u.reg[IPS_REG_SP];
    u.end = stack_end;
    uint32_t n = ips_unwind_stack(&u, got, FRAMES);
    steps++;
    for (uint32_t i = 0; i < n; i++)
        if (got[i] == want_frame)
            return;
    wrong++;
    wrong_pc = got[0];
}

/* All that `fn` does, one instruction at a time. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void
stepped(void (*fn)(void))
{
    want_frame = (uint64_t)(uintptr_t)__builtin_return_address(0);
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory");
    fn();
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory");
}

static void on_usr1(int sig)
{
    (void)sig;
    notes = 0;
    without_fp_run(0);
}

static void work(void)
{
    struct timespec ts;
    char text[64];
    notes = 0;
    without_fp_run(0);
    notes = 0;
    with_fp_run(0);
    notes = 0;
    debug_run(0);
    /* PLT, lazy binding, hand-written assembly, the vdso, a system call */
    snprintf(text, sizeof(text), "%s %d %.3f", "x", 12, 3.5);
    clock_gettime(CLOCK_MONOTONIC, &ts);
    snprintf(text, sizeof(text), "%g %d", strtod("1.5e3", NULL), getppid());
    free(malloc(100));
    /* inside a handler, over the kernel's frame */
    raise(SIGUSR1);
}

/* Catches a rule that holds in a function's body but not in its prologue, its
 * epilogue or a PLT entry, and a handler's frame that is not seen through. */
static void test_unwind__at_every_instruction(void **state)
{
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct sigaction usr1 = {.sa_handler = on_usr1}, old[2];
    (void)state;
    sigaction(SIGTRAP, &step, &old[0]);
    sigaction(SIGUSR1, &usr1, &old[1]);
    stepped(work);
    sigaction(SIGTRAP, &old[0], NULL);
    sigaction(SIGUSR1, &old[1], NULL);
    assert_true(steps > 1000);
    if (wrong)
        print_message("%lu of %lu, last at %lx\n", (unsigned long)wrong,
                      (unsigned long)steps, (unsigned long)wrong_pc);
    assert_int_equal(wrong, 0);
}
#endif

/* --- hostile -------------------------------------------------------------- */

static uint64_t seed;
static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Anything: small, wild, in a stack, in code. */
static uint64_t any(const uint64_t *stack, size_t words)
{
    static const uintptr_t codes[] = {
        (uintptr_t)qsort, (uintptr_t)test_unwind__every_caller_in_order,
        (uintptr_t)ips_unwind_stack, (uintptr_t)snprintf};
    switch (draw() % 5) {
    case 0:
        return draw();
    case 1:
        return draw() % 4096;
    case 2:
        return (uint64_t)(uintptr_t)(stack + draw() % (words + 4) - 2) +
               draw() % 3;
    case 3:
        return ~draw() % 4096;
    default:
        return codes[draw() % 4] + draw() % 4096;
    }
}

/* A stack of two pages between two that nobody may touch. */
static void hostile_batch(uint64_t from)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), words = 2 * page / 8;
    char *map =
        mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *stack = (uint64_t *)(void *)(map + page), got[FRAMES];
    if (map == MAP_FAILED || mprotect(stack, 2 * page, PROT_READ | PROT_WRITE))
        _exit(2);
    seed = from * 0x9e3779b97f4a7c15u | 1;
    for (unsigned round = 0; round < 2000; round++) {
        struct ips_unwind_stack u = {.known = (1u << IPS_REGS) - 1};
        for (size_t i = 0; i < words; i++)
            stack[i] = any(stack, words);
        for (unsigned i = 0; i < IPS_REGS; i++)
            u.reg[i] = any(stack, words);
        u.low = (uint64_t)(uintptr_t)stack;
        u.end = (uint64_t)(uintptr_t)(stack + words);
        if (draw() % 4)
            u.reg[IPS_REG_SP] = u.low + draw() % (2 * page) / 8 * 8;
        uint32_t n = ips_unwind_stack(&u, got, FRAMES);
        if (n < 1 || n > FRAMES)
            _exit(3);
    }
    _exit(0);
}

/* Catches a read outside the stack that was named, and a walk without end. */
static void test_unwind__nothing_faults(void **state)
{
    (void)state;
    for (uint64_t batch = 1; batch <= 20; batch++) {
        int status = -1;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            hostile_batch(batch);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind__every_caller_in_order),
        cmocka_unit_test(test_unwind__through_the_c_library),
        cmocka_unit_test(test_unwind__no_more_than_asked_for),
        cmocka_unit_test(test_unwind__again_as_the_first_time),
#if defined(__x86_64__)
        cmocka_unit_test(test_unwind__a_kept_rule_is_of_one_pc),
        cmocka_unit_test(test_unwind__at_every_instruction),
#endif
        cmocka_unit_test(test_unwind__nothing_faults),
    };
    return cmocka_run_group_tests(tests, find_stack, NULL);
}
