/* Answers in their formats: one set of rows, three ways to write it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/fold.h"
#include "client/base/out.h"

static const struct ipsq_column columns[] = {
    {"name", "NAME", IPSQ_TEXT}, {"hidden", NULL, IPSQ_COUNT},
    {"ns", "TIME", IPSQ_NS},     {"bytes", "SIZE", IPSQ_BYTES},
    {"delta", "D", IPSQ_INT},    {"ratio", "R", IPSQ_REAL},
    {"share", "S", IPSQ_SHARE},  {"open", "OPEN", IPSQ_BOOL},
    {"list", "LIST", IPSQ_LIST},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

static void add(struct ipsq_table *t, const char *name, uint64_t ns)
{
    static char a[] = "a", b[] = "b\tc";
    static char *list[] = {a, b};
    bool some = ns != UINT64_MAX;
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    *cell++ = ipsq_text_cell(name);
    *cell++ = ipsq_count_cell(7);
    *cell++ = ipsq_count_cell(ns);
    *cell++ = ipsq_count_cell(ns);
    *cell++ = ipsq_int_cell(some ? -1 : IPSQ_NO_INT);
    *cell++ = ipsq_real_cell(some ? 1.5 : (double)NAN);
    *cell++ = ipsq_real_cell(some ? 0.25 : (double)NAN);
    *cell++ = ipsq_bool_cell(some);
    *cell++ = ipsq_list_cell(list, some ? 2 : 0);
}

static char *written(enum ipsq_format format)
{
    char *buffer;
    size_t length;
    struct ipsq_out out;
    struct ipsq_table t;
    FILE *f = open_memstream(&buffer, &length);
    ipsq_table_init(&t, "rows", columns, COLUMNS);
    ipsq_out_begin(&out, f, format, true);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell("r1"));
    ipsq_out_table_begin(&out, &t, "heading");
    add(&t, "x\ty\x1b[31m\\", 1500);
    ipsq_out_write_and_clear_rows(&out, &t);
    add(&t, "", UINT64_MAX);
    ipsq_out_table_end(&out, &t);
    assert_int_equal(0, ipsq_out_end(&out, NULL));
    ipsq_table_release(&t);
    fclose(f);
    return buffer;
}

/* Would catch a terminal escape let through, a missing "-", a hidden column
 * shown, widths that forget. */
static void test_out__table(void **state)
{
    (void)state;
    char *text = written(IPSQ_TABLE);
    assert_string_equal(
        text, "run             r1\n"
              "heading\n"
              "NAME           TIME       SIZE   D     R      S  OPEN  LIST\n"
              "x?y?[31m\\  1.500 us  1.465 KiB  -1  1.50  25.0%  yes   a,b?c\n"
              "-                 -          -   -     -      -  no    -\n");
    free(text);
}

static void test_out__tsv(void **state)
{
    (void)state;
    char *text = written(IPSQ_TSV);
    assert_string_equal(
        text, "#run\tr1\n#rows\n"
              "name\thidden\tns\tbytes\tdelta\tratio\tshare\topen\tlist\n"
              "x\\ty\x1b[31m\\\\\t7\t1500\t1500\t-1\t1.5\t0.25\ttrue\t"
              "a,b\\tc\n"
              "\t7\t\t\t\t\t\tfalse\t\n");
    free(text);
}

static void test_out__json(void **state)
{
    (void)state;
    char *text = written(IPSQ_JSON);
    assert_string_equal(
        text,
        "{\n  \"run\": \"r1\",\n  \"rows\": [\n"
        "    {\"name\": \"x\\ty\\u001b[31m\\\\\", \"hidden\": 7, \"ns\": 1500, "
        "\"bytes\": 1500, \"delta\": -1, \"ratio\": 1.5, \"share\": 0.25, "
        "\"open\": true, \"list\": [\"a\", \"b\\tc\"]},\n"
        "    {\"name\": null, \"hidden\": 7, \"ns\": null, \"bytes\": null, "
        "\"delta\": null, \"ratio\": null, \"share\": null, \"open\": false, "
        "\"list\": []}\n  ]\n}\n");
    free(text);
    text = written(IPSQ_JSONL);
    assert_int_equal(text[0], '{');
    char *line = strchr(text, '\n');
    assert_non_null(line);
    assert_int_equal(line[1], '{');
    assert_string_equal(strchr(line + 1, '\n'), "\n"); /* two lines, no more */
    free(text);
}

static void test_out__top(void **state)
{
    (void)state;
    static const uint64_t values[] = {5, UINT64_MAX, 9, 5, 1};
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct ipsq_table t;
    ipsq_table_init(&t, "rows", columns, COLUMNS);
    for (int i = 0; i < 5; i++)
        add(&t, names[i], values[i]);
    ipsq_table_sort_and_keep_top(&t, 2, 3);
    assert_int_equal(t.row_count, 3);
    assert_string_equal(t.cells[0].text, "c");
    assert_string_equal(t.cells[COLUMNS].text, "a");
    assert_string_equal(t.cells[2 * COLUMNS].text, "d");
    add(&t, "f", 1); /* there is room again */
    assert_int_equal(t.row_count, 4);
    ipsq_table_release(&t);
}

static char *certificate(const Ips__Certificate *c, enum ipsq_format format)
{
    char *buffer;
    size_t length;
    struct ipsq_out out;
    FILE *f = open_memstream(&buffer, &length);
    ipsq_out_begin(&out, f, format, false);
    ipsq_out_set_certificate_write_limitations(&out, c, true);
    assert_int_equal(0, ipsq_out_end(&out, NULL));
    fclose(f);
    return buffer;
}

/* The keys are all there, whatever the certificate says or if there is none;
 * and a missing one is never called complete. */
static void test_out__certificate(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "complete",
        "events",
        "records_read",
        "lost",
        "unmatched",
        "ambiguous",
        "pending",
        "external",
        "idle",
        "machines",
        "missing_machines",
        "untraced_processes",
        "unseen",
        "clock",
        "engine",
        "probe_ns",
        "overhead_ns",
        "probe_arc_ns",
        "dilation",
        "cpu_ns",
        "guessed_cpu_ns",
        "guesses_settled",
        "guess_off_ns",
        "guess_off_max_ns",
        "loads",
        "message_times",
        "lanes",
        "unattributed_cpu_ns",
        "category",
        "plan",
        "took_ns",
        "notes",
    };
    Ips__Certificate some = IPS__CERTIFICATE__INIT;
    Ips__Count lost = IPS__COUNT__INIT, *losses[] = {&lost};
    char cause[] = "quota", note[] = "mind\x1b[2J";
    char *notes[] = {note};
    some.complete = true;
    some.events = 12;
    some.lost = losses;
    some.n_lost = 1;
    lost.name = cause;
    lost.count = 3;
    some.notes = notes;
    some.n_notes = 1;
    const Ips__Certificate *cases[] = {NULL, &some};
    for (int k = 0; k < 2; k++) {
        char *text = certificate(cases[k], IPSQ_JSON);
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
            char quoted[64];
            snprintf(quoted, sizeof(quoted), "\"%s\": ", keys[i]);
            assert_non_null(strstr(text, quoted));
        }
        assert_non_null(
            strstr(text, k ? "\"complete\": true" : "\"complete\": false"));
        free(text);
    }
    char *text = certificate(&some, IPSQ_TABLE);
    assert_non_null(strstr(text, "complete; 12 events\n"));
    assert_non_null(strstr(text, "events lost (quota): 3\n"));
    assert_non_null(strstr(text, "note: mind?[2J\n"));
    free(text);
    text = certificate(NULL, IPSQ_TABLE);
    assert_non_null(strstr(text, "INCOMPLETE"));
    assert_non_null(strstr(text, "without a certificate"));
    free(text);
}

static char *folded(const char *text, unsigned width, unsigned indent)
{
    char *buffer;
    size_t length;
    FILE *f = open_memstream(&buffer, &length);
    ipsq_print_wrapped_text(f, text, width, indent);
    fclose(f);
    return buffer;
}

/* Would catch: a line that passes the edge or ends early, words that are cut,
 * bytes counted for characters, a beginning that loses its blanks, folding
 * where there is no terminal. */
static void test_out__folded(void **state)
{
    static const struct {
        const char *text;
        unsigned columns, indent;
        const char *result;
    } cases[] = {
        {"one two three", 0, 2, "one two three"},
        {"one two three", 13, 2, "one two three"},
        {"one two three", 12, 2, "one two\n  three"},
        {"  a:  one two three\nb\n", 11, 6,
         "  a:  one\n      two\n      three\nb\n"},
        {"\u00e4\u00e4 \u00e4\u00e4 x", 5, 0, "\u00e4\u00e4 \u00e4\u00e4\nx"},
        {"longer-than-all of it", 6, 1, "longer-than-all\n of it"},
        {"\nx  ", 3, 0, "\nx  "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *text = folded(cases[i].text, cases[i].columns, cases[i].indent);
        assert_string_equal(text, cases[i].result);
        free(text);
    }
}

/* A full disk must not pass for an answer. */
static void test_out__write_error(void **state)
{
    (void)state;
    struct ipsq_out out;
    struct ips_err err;
    FILE *f = fopen("/dev/full", "w");
    assert_non_null(f);
    ipsq_out_begin(&out, f, IPSQ_JSON, false);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", NULL,
                                    ipsq_text_cell("r"));
    assert_int_equal(IPS_E_IO, ipsq_out_end(&out, &err));
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out__table),
        cmocka_unit_test(test_out__tsv),
        cmocka_unit_test(test_out__json),
        cmocka_unit_test(test_out__top),
        cmocka_unit_test(test_out__certificate),
        cmocka_unit_test(test_out__folded),
        cmocka_unit_test(test_out__write_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
