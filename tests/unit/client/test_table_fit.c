/* Tables on narrow terminals: what is left out and what is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/out.h"
#include "client/base/table_fit.h"

static const struct ipsq_column columns[] = {
    {"name", "NAME", IPSQ_TEXT},  {"inner", NULL, IPSQ_COUNT},
    {"low", "LOW", IPSQ_COUNT},   {"high", "HIGH", IPSQ_COUNT},
    {"none", "NONE", IPSQ_COUNT}, {"figure", "FIGURE", IPSQ_FIGURE},
    {"more", "MORE", IPSQ_COUNT}, {"what", "WHAT", IPSQ_VALUE},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

/* Whole it takes 20 + 6 + 7 + 4 + 12 + 6 + 22 and 6 gaps: 89 columns. */
static char *written(unsigned width, const char *spare, const char *what)
{
    char *buffer;
    size_t length;
    struct ipsq_table t;
    FILE *f = open_memstream(&buffer, &length);
    ipsq_table_init(&t, "rows", columns, COLUMNS);
    t.spare_columns = spare;
    struct ipsq_cell *cell = ipsq_table_add_row(&t);
    *cell++ = ipsq_text_cell("abcdefghijklmnopqrst");
    *cell++ = ipsq_count_cell(1);
    *cell++ = ipsq_count_cell(111111);
    *cell++ = ipsq_count_cell(2222222);
    *cell++ = ipsq_count_cell(UINT64_MAX);
    *cell++ = ipsq_text_cell("+1 to +99999");
    *cell++ = ipsq_count_cell(333333);
    cell->value.type = what ? 't' : 'r';
    if (what)
        cell->value.text = what;
    else
        cell->value.r = 1.23456e300;
    ipsq_table_write_text(f, &t, width, false);
    ipsq_table_print_hidden_columns(f, &t);
    ipsq_table_release(&t);
    fclose(f);
    return buffer;
}

static void check(unsigned width, const char *spare, const char *what,
                  const char *expected)
{
    char *got = written(width, spare, what);
    assert_string_equal(got, expected);
    free(got);
}

#define WHAT "uvwxyzuvwxyzuvwxyz1234"

/* Would catch: a table that fits and is changed; an empty column that stays
 * while others go; another order than the table's own; half of a pair. */
static void columns_are_left_out(void **state)
{
    (void)state;
    check(0, NULL, WHAT,
          "NAME                     LOW     HIGH  NONE  FIGURE          MORE   "
          "                 WHAT\n"
          "abcdefghijklmnopqrst  111111  2222222     -  +1 to +99999  333333  "
          "uvwxyzuvwxyzuvwxyz1234\n");
    check(89, NULL, WHAT,
          "NAME                     LOW     HIGH  NONE  FIGURE          MORE   "
          "                 WHAT\n"
          "abcdefghijklmnopqrst  111111  2222222     -  +1 to +99999  333333  "
          "uvwxyzuvwxyzuvwxyz1234\n");
    /* With texts of 16 columns it takes 79, without NONE 73. */
    check(78, NULL, WHAT,
          "NAME                   LOW     HIGH  FIGURE          MORE           "
          "      WHAT\nabcdefgh..mnopqrst  111111  2222222  +1 to +99999  "
          "333333  uvwxyzuvw..wxyz1234\n(--wide also shows: NONE)\n");
    check(72, "low+high", WHAT,
          "NAME                  FIGURE          MORE                    WHAT\n"
          "abcdefghijklmnopqrst  +1 to +99999  333333  "
          "uvwxyzuvwxyzuvwxyz1234\n"
          "(--wide also shows: LOW, HIGH, NONE)\n");
    check(72, NULL, WHAT,
          "NAME                    LOW     HIGH  FIGURE                        "
          "WHAT\nabcdefghi..mnopqrst  111111  2222222  +1 to +99999  "
          "uvwxyzuvw..vwxyz1234\n(--wide also shows: NONE, MORE)\n");
}

/* Would catch a number that is cut. */
static void numbers_stay_whole(void **state)
{
    (void)state;
    char *got = written(50, "low+high more figure", NULL);
    assert_non_null(strstr(got, "1.23456e+300"));
    free(got);
    got = written(10, "what", WHAT);
    assert_null(strstr(got, "11111 "));
    assert_non_null(strstr(got, "NAME"));
    free(got);
}

static void cut(const char *text, unsigned width, bool utf8,
                const char *expected)
{
    char *got = ipsq_shorten_text(strdup(text), width, utf8);
    assert_string_equal(got, expected);
    free(got);
}

/* Would catch: a cut within a character or a number; a text that fits and is
 * cut; one column too many. */
static void texts_are_cut(void **state)
{
    (void)state;
    cut("abcdef", 6, false, "abcdef");
    cut("abcdefg", 6, false, "ab..fg");
    cut("abcdefg", 6, true,
        "abc\xe2\x80\xa6"
        "fg");
    cut("abcdefg", 2, false, "abcdefg");
    cut("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xc3\xa4", 4, true,
        "\xc3\xa4\xc3\xb6\xe2\x80\xa6\xc3\xa4");
    cut("server.12345678/9999", 12, false, "serve../9999");
    cut("in sum 12.345 ms", 11, false, "..12.345 ms");
    cut("for lock sum 12.345 ms, ...", 20, true,
        "for l\xe2\x80\xa6"
        "12.345 ms, ...");
    cut("for lock 12.345 ms", 8, false, "for.. ms");
    cut("x.1234567 for 1.50 ms", 13, false, "x..1.50 ms");
    cut("copies 5%, then something long", 12, false, "copie.. long");
    cut("/m1/server.77/12", 13, false, "/m1/se../12");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_left_out),
        cmocka_unit_test(numbers_stay_whole),
        cmocka_unit_test(texts_are_cut),
    };
    setenv("LC_ALL", "C", 1); /* the mark of a cut */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
