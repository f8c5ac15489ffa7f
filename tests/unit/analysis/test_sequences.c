/*
 * The most common sequences of a path (analysis/whatif/sequences.h), counted by
 * hand, and on random paths against counting by trying everything. EVIDENCE-OF:
 * IPS-12
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/whatif/sequences.h"

#define MOST 4096u

struct path {
    struct ips_step steps[MOST];
    uint32_t n;
    struct ips_sequence out[64];
    uint32_t count;
};

/* A step a letter, of 10 ns, behind a gap of 1. */
static void letters(struct path *p, const char *text)
{
    memset(p, 0, sizeof(*p));
    for (; *text; text++)
        p->steps[p->n++] = (struct ips_step){(uint32_t)*text, 10, 1};
}

static void look(struct path *p, uint32_t longest, uint32_t top)
{
    struct ips_err err = {0};
    assert_int_equal(ips_find_costliest_step_sequences(
                         p->steps, p->n, longest, top, p->out, &p->count, &err),
                     0);
}

static const char *text_of(const struct path *p, uint32_t i)
{
    static char text[16];
    uint32_t n = p->out[i].length;
    for (uint32_t k = 0; k < n; k++)
        text[k] = (char)p->steps[p->out[i].first + k].what;
    text[n] = '\0';
    return text;
}

/* Catches: the turns of a loop listed in every rotation, and its parts and
 * doubles; the gap before a sequence counted as its own. */
static void test_sequences__a_loop_is_one(void **state)
{
    (void)state;
    static struct path p;
    letters(&p, "xabcabcabcabcabcy");
    look(&p, 5, 10);
    assert_int_equal(p.count, 1);
    assert_string_equal(text_of(&p, 0), "abc");
    assert_int_equal(p.out[0].count, 5);
    assert_int_equal(p.out[0].ns, 5 * (30 + 2));
    letters(&p, "abababababab"); /* gaps between them belong to abab alone */
    look(&p, 5, 10);
    assert_int_equal(p.count, 1);
    assert_string_equal(text_of(&p, 0), "ab");
}

/* Catches: occurrences that overlap (aba in ababa counted twice would have more
 * time than there is); a sequence that occurs once; what is not there. */
static void test_sequences__do_not_overlap(void **state)
{
    (void)state;
    static struct path p;
    letters(&p, "ababa");
    look(&p, 3, 10);
    assert_string_equal(text_of(&p, 0), "ab");
    assert_int_equal(p.out[0].count, 2);
    letters(&p, "abcdefg");
    look(&p, 5, 10);
    assert_int_equal(p.count, 0);
    letters(&p, "a");
    look(&p, 5, 10);
    assert_int_equal(p.count, 0);
}

/* Catches: a part that is common in itself put aside for a longer one that is
 * rarer. */
static void test_sequences__a_part_may_be_commoner(void **state)
{
    (void)state;
    static struct path p;
    letters(&p, "abcxabyabzabcxabuabvab");
    look(&p, 5, 10);
    bool ab = false, abcxab = false;
    for (uint32_t i = 0; i < p.count; i++) {
        ab = ab || (strcmp(text_of(&p, i), "ab") == 0 && p.out[i].count == 7);
        abcxab = abcxab || strcmp(text_of(&p, i), "abcxa") == 0;
    }
    assert_true(ab);
    assert_true(abcxab);
}

/* By trying: the greatest time of any sequence that occurs twice. */
static uint64_t greatest(const struct path *p, uint32_t longest)
{
    uint64_t best = 0;
    for (uint32_t len = 2; len <= longest; len++)
        for (uint32_t i = 0; i + len <= p->n; i++) {
            uint64_t ns = 0, count = 0;
            for (uint32_t k = 0; k + len <= p->n;) {
                uint32_t same = 0;
                while (same < len &&
                       p->steps[k + same].what == p->steps[i + same].what)
                    same++;
                if (same < len) {
                    k++;
                    continue;
                }
                for (uint32_t s = 0; s < len; s++)
                    ns += p->steps[k + s].ns + (s ? p->steps[k + s].gap_ns : 0);
                count++;
                k += len;
            }
            for (uint32_t q = 1; 2 * q <= len; q++) { /* repeats a shorter */
                uint32_t same = q;
                while (same < len &&
                       p->steps[i + same].what == p->steps[i + same - q].what)
                    same++;
                if (same == len)
                    count = 0;
            }
            if (count > 1 && ns > best)
                best = ns;
        }
    return best;
}

/* Catches: any error of counting or of time; lists out of order, longer than
 * asked for, or with a sequence that has more time than the path. */
static void test_sequences__random_paths(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2000; seed++) {
        static struct path p;
        uint64_t whole = 0;
        srand(seed);
        memset(&p, 0, sizeof(p));
        uint32_t n = (uint32_t)rand() % 60;
        for (uint32_t i = 0; i < n; i++) {
            p.steps[p.n++] =
                (struct ips_step){(uint32_t)rand() % 4, (uint64_t)rand() % 100,
                                  (uint64_t)rand() % 10};
            whole += p.steps[i].ns + p.steps[i].gap_ns;
        }
        look(&p, 5, 7);
        assert_true(p.count <= 7);
        assert_int_equal(p.count ? p.out[0].ns : 0, greatest(&p, 5));
        for (uint32_t i = 0; i < p.count; i++) {
            assert_true(p.out[i].ns <= whole);
            assert_true(p.out[i].count >= 2);
            assert_true(i == 0 || p.out[i].ns <= p.out[i - 1].ns);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences__a_loop_is_one),
        cmocka_unit_test(test_sequences__do_not_overlap),
        cmocka_unit_test(test_sequences__a_part_may_be_commoner),
        cmocka_unit_test(test_sequences__random_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
