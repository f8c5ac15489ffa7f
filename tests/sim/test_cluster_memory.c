/* Questions while memory lacks, in the master and in the slaves: each answer
 * is an error in words, one that names the machine it lacks, or exactly the
 * right one; and the same question asked again is answered as before. No
 * failure leaves a block of memory behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/real_questions.h"
#include "tests/support/live_blocks.h"

/* Each failure so often: what one leaves adds up, other than the buffers of a
 * connection, which may grow by a block or two. */
#define FAILED 4

/* A few questions that nothing fails: blocks that there are behind them. */
static long blocks_at_rest(Ips__Request *request,
                           const struct real_answer *want, const char *what)
{
    struct real_answer got;
    forget_all();
    for (int i = 0; i < 3; i++) {
        real_ask(&real, request, &got);
        real_check_same(&got, want, what, 0);
        free(got.data);
        real_settle(&real);
    }
    return live_blocks();
}

/* The nth allocation fails, so many times that it is asked; how often that was
 * reached. Then all is well again. */
static size_t fail_at(uint64_t nth, int times, Ips__Request *request,
                      const struct real_answer *want, const char *what,
                      size_t *whole)
{
    struct real_answer got;
    size_t struck = 0;
    for (int i = 0; i < times; i++) {
        forget_all();
        fault_arm(FAULT_ALLOC, nth);
        real_ask(&real, request, &got);
        struck += fault_end();
        real_check_honest(&got, want, what, nth);
        *whole += !got.error && !got.closed && !got.incomplete;
        free(got.data);
    }
    real_settle(&real);
    real_ask(&real, request, &got);
    real_check_same(&got, want, what, nth);
    free(got.data);
    return struck;
}

/* Connections between slaves that were lost come back after a while only; a
 * reader of the database is kept for a while. */
static bool keeps_blocks(const char *what)
{
    return strcmp(what, "path_cm") == 0 || strcmp(what, "sql") == 0;
}

#define MOST 8

/* The question without a failure, and then with one of each way to an
 * allocation, MOST at most: of those that each fail once only, all of them (a
 * single letter between slaves that was lost made a question wait for ever). */
static void try_question(const char *what, Ips__Request *request)
{
    struct real_answer want, got;
    size_t count, struck = 0, whole = 0;
    int again = keeps_blocks(what) ? 0 : FAILED;
    real_ask(&real, request, &want);
    if (want.error || want.closed)
        fail_msg("%s: %s", what, want.message);
    assert_true(want.len > 20);
    forget_all();
    fault_watch(FAULT_ALLOC);
    real_ask(&real, request, &got);
    uint64_t calls = fault_end();
    real_check_same(&got, &want, what, 0);
    free(got.data);
    uint64_t *pick = fault_pick(again ? MOST : SIZE_MAX, &count);
    assert_non_null(pick);
    for (size_t i = 0; i < count; i++) /* what grows once has grown */
        struck += fail_at(pick[i], 1, request, &want, what, &whole);
    assert_true(count > 5 && struck > count / 2);
    long before = blocks_at_rest(request, &want, what);
    for (size_t i = 0; i < count; i++)
        fail_at(pick[i], again, request, &want, what, &whole);
    long more = blocks_at_rest(request, &want, what) - before;
    print_message("%s: %zu of %llu allocations failed, %zu answers were whole, "
                  "%ld blocks more\n",
                  what, struck, (unsigned long long)calls, whole, more);
    assert_true(again == 0 || more < FAILED);
    free(pick);
    free(want.data);
}

QUESTIONS_MAIN
