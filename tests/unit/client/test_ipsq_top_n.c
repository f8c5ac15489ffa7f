/*
 * --sort, --top and --per machine of tables (client/base/top_n.h), for each
 * kind of column. Would catch: an order that is another one, what was not
 * measured in front, equal rows in another order than before, rows of one
 * machine counted as another's, a number of rows left out that is not theirs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/out.h"
#include "client/base/top_n.h"

static const struct ipsq_column columns[] = {
    {"letter", "LETTER", IPSQ_TEXT}, {"object", "OBJECT", IPSQ_TEXT},
    {"count", "COUNT", IPSQ_COUNT},  {"ns", "NS", IPSQ_NS},
    {"bytes", "BYTES", IPSQ_BYTES},  {"int", "INT", IPSQ_INT},
    {"real", "REAL", IPSQ_REAL},     {"share", "SHARE", IPSQ_SHARE},
    {"bool", "BOOL", IPSQ_BOOL},     {"list", "LIST", IPSQ_LIST},
    {"value", "VALUE", IPSQ_VALUE},  {"figure", "FIGURE", IPSQ_FIGURE},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns), ROWS = 6 };

static struct ipsq_cell sql(char type, int64_t i, double r, const char *text)
{
    struct ipsq_cell cell = {.value = {.type = type}};
    if (type == 'i')
        cell.value.i = i;
    else if (type == 'r')
        cell.value.r = r;
    else
        cell.value.text = text;
    return cell;
}

static void fill(struct ipsq_table *t)
{
    static const char *const object[ROWS] = {"/m1/a", "/m2",  "/m1",
                                             "m2/b",  "/m10", "/m1/c"};
    static const uint64_t n[ROWS] = {5, UINT64_MAX, 7, 5, 0, 9};
    static const int64_t i[ROWS] = {-3, 4, 0, -3, 9, -8};
    static const double r[ROWS] = {1.5, -2, (double)NAN, 1.5, 8, 0};
    static const char *const figure[ROWS] = {"b", "", "a", "b", "c", "aa"};
    const struct ipsq_cell value[ROWS] = {
        sql('t', 0, 0, "x"),    sql(0, 0, 0, NULL),  sql('i', 3, 0, NULL),
        sql('r', 0, 2.5, NULL), sql('t', 0, 0, "y"), sql('i', -4, 0, NULL)};
    static const char *const letter[ROWS] = {"a", "b", "c", "d", "e", "f"};
    ipsq_table_init(t, "rows", columns, COLUMNS);
    for (size_t k = 0; k < ROWS; k++) {
        struct ipsq_cell *cell = ipsq_table_add_row(t);
        *cell++ = ipsq_text_cell(letter[k]);
        *cell++ = ipsq_text_cell(object[k]);
        *cell++ = ipsq_count_cell(n[k]);
        *cell++ = ipsq_count_cell(n[k]);
        *cell++ = ipsq_count_cell(n[k]);
        *cell++ = ipsq_int_cell(i[k]);
        *cell++ = ipsq_real_cell(r[k]);
        *cell++ = ipsq_real_cell(r[k]);
        *cell++ = ipsq_bool_cell(n[k] == 5);
        *cell++ = ipsq_list_cell(NULL, 0);
        *cell++ = value[k];
        *cell++ = ipsq_text_cell(figure[k]);
    }
}

/* "" no --sort; `want`: the letters of the rows in their order. */
static void sorts(const char *sort, uint64_t top, bool per_machine,
                  const char *want)
{
    struct ipsq_options o = {
        .sort = *sort ? sort : NULL, .top = top, .per_machine = per_machine};
    struct ips_err err = {0};
    struct ipsq_table t;
    uint64_t left_out = 77;
    char got[ROWS + 1] = "";
    fill(&t);
    if (ipsq_sort_and_keep_top(&t, &o, 2, &left_out, &err) < 0)
        fail_msg("%s: %s", sort, err.msg);
    for (size_t k = 0; k < t.row_count; k++)
        got[k] = *t.cells[k * COLUMNS].text;
    if (strcmp(got, want) != 0)
        fail_msg("'%s', %llu: %s, not %s", sort, (unsigned long long)top, got,
                 want);
    assert_int_equal(left_out, ROWS - strlen(want));
    ipsq_table_release(&t);
}

static void test_top_n__each_kind(void **state)
{
    static const char *const counts[] = {"count", "ns", "bytes"};
    char back[20];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sorts(counts[i], 0, false, "fcadeb");
        snprintf(back, sizeof(back), "-%s", counts[i]);
        sorts(back, 0, false, "eadcfb");
    }
    sorts("int", 0, false, "ebcadf");
    sorts("-int", 0, false, "fadcbe");
    sorts("real", 0, false, "eadfbc");
    sorts("-real", 0, false, "bfadec");
    sorts("share", 0, false, "eadfbc");
    sorts("bool", 0, false, "adbcef");
    sorts("-bool", 0, false, "bcefad");
    sorts("list", 0, false, "abcdef");
    sorts("letter", 0, false, "abcdef");
    sorts("-letter", 0, false, "fedcba");
    sorts("figure", 0, false, "cfadeb");
    sorts("-figure", 0, false, "eadfcb");
    /* Numbers, greatest first, then texts, then NULL. */
    sorts("value", 0, false, "cdfaeb");
    sorts("-value", 0, false, "fdceab");
}

static void test_top_n__so_many(void **state)
{
    (void)state;
    sorts("", 0, false, "abcdef"); /* as they were */
    sorts("", 1, false, "f");      /* by the column that the command gives */
    sorts("", 3, false, "fca");
    sorts("", 6, false, "fcadeb");
    sorts("", 7, false, "fcadeb");
    sorts("-int", 2, false, "fa");
    /* m1: a c f, m2: b d, m10: e. */
    sorts("", 0, true, "acfbde");
    sorts("", 1, true, "fde");
    sorts("", 2, true, "fcdbe");
    sorts("-count", 1, true, "ade");
}

static void test_top_n__refused(void **state)
{
    struct ipsq_options o = {.sort = "-coumt"};
    struct ips_err err = {0};
    struct ipsq_table t;
    uint64_t left_out = 5;
    size_t at = 99;
    const struct ipsq_columns some = {columns, 3}, none = {columns, 0};
    (void)state;
    assert_int_equal(ipsq_find_column(&some, "count", &at, &err), 0);
    assert_int_equal(at, 2);
    assert_int_equal(ipsq_find_column(&some, "coumt", &at, &err), IPS_E_USAGE);
    assert_string_equal(err.msg, "--sort 'coumt' is not one of letter, object, "
                                 "count; did you mean 'count'?");
    assert_int_equal(ipsq_find_column(&none, "x", &at, &err), IPS_E_USAGE);
    fill(&t);
    assert_int_equal(ipsq_sort_and_keep_top(&t, &o, 2, &left_out, &err),
                     IPS_E_USAGE);
    assert_int_equal(left_out, 0);
    assert_int_equal(t.row_count, ROWS);
    ipsq_table_release(&t);
    ipsq_table_init(&t, "figures", columns + 2, 1);
    o = (struct ipsq_options){.per_machine = true};
    assert_int_equal(ipsq_sort_and_keep_top(&t, &o, 0, &left_out, &err),
                     IPS_E_USAGE);
    assert_string_equal(
        err.msg,
        "--per machine: the rows of figures do not belong to machines");
    ipsq_table_release(&t);
}

/* What the master is asked for: it selects only what this table would show. */
static void test_top_n__asked_of_the_master(void **state)
{
    static const struct {
        const char *sort;
        uint64_t top;
        bool per_machine;
        const char *plain, *procedures; /* NULL: nothing is selected */
    } t[] = {
        {NULL, 0, false, NULL, NULL},
        {"cpu_ns", 0, false, NULL, NULL},
        {NULL, 3, false, " 3", "self_ns 3"},
        {"cpu_ns", 3, false, "cpu_ns 3", "self_ns 3"},
        {"-cpu_ns", 3, false, "cpu_ns 3 back", "self_ns 3 back"},
        {"self_ns", 2, true, "self_ns 2 per", "self_ns 2 per"},
        {"-self_ns", 2, true, "self_ns 2 back per", NULL},
        {"total_ns", 2, true, "total_ns 2 per", NULL},
        {"total_ns", 2, false, "total_ns 2", "total_ns 2"},
        {"samples", 2, false, "samples 2", "samples 2"},
        {"calls", 2, false, "calls 2", "calls 2"},
        {"exact", 2, false, "exact 2", "exact 2"},
        {"procedure", 2, false, "procedure 2", "procedure 2"},
        {"process", 2, false, "process 2", "object 2"},
        {"module", 2, false, "module 2", "module 2"},
        {"file", 2, false, "file 2", "file 2"},
        {"line", 2, false, "line 2", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        struct ipsq_options o = {.sort = t[i].sort,
                                 .top = t[i].top,
                                 .per_machine = t[i].per_machine};
        for (int k = 0; k < 2; k++) {
            Ips__Select select;
            char got[100] = "";
            const char *want = k ? t[i].procedures : t[i].plain;
            const Ips__Select *s =
                k ? ipsq_top_n_fill_procedure_request(&o, &select)
                  : ipsq_top_n_fill_select(&o, &select);
            assert_int_equal(s != NULL, want != NULL);
            if (s)
                snprintf(got, sizeof(got), "%s %llu%s%s", s->sort,
                         (unsigned long long)s->top, s->back ? " back" : "",
                         s->per_machine ? " per" : "");
            assert_string_equal(got, want ? want : "");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_n__each_kind),
        cmocka_unit_test(test_top_n__so_many),
        cmocka_unit_test(test_top_n__refused),
        cmocka_unit_test(test_top_n__asked_of_the_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
