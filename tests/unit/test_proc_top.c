/* The first rows of a slave's table of procedures, beside what the master would
 * choose of all of them. Would catch a slave that orders rows in another way
 * than the master, in ties above all: few values, many rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "master/procs.h"
#include "master/select.h"
#include "slave/proc_top.h"

#define PROCS 5u
#define SYMBOLS 60u
#define ROWS (PROCS * SYMBOLS)

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(seed >> 33) % n;
}

static struct ips_proc procs[PROCS];
static const struct ips_built built = {.procs = procs, .proc_count = PROCS};
static struct slave_proc_symbol symbols[SYMBOLS];
static char objects[PROCS][80];
/* With their ends, as the master gets them. */
static char names[SYMBOLS][8], files[SYMBOLS][8], modules[SYMBOLS][8];

/* No two symbols are equal: the line is the last to tell them apart. */
static void make_texts(void)
{
    for (uint32_t i = 0; i < PROCS; i++) {
        snprintf(procs[i].name, sizeof(procs[i].name), "p.%u", (i * 7) % 11);
        snprintf(objects[i], sizeof(objects[i]), "/m/%s", procs[i].name);
    }
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        snprintf(names[i], sizeof(names[i]), "%.*s", (int)below(4), "fgh");
        snprintf(files[i], sizeof(files[i]), "%.*s", (int)below(3), "ab");
        snprintf(modules[i], sizeof(modules[i]), "%s", below(2) ? "" : "m");
        symbols[i] =
            (struct slave_proc_symbol){.name = names[i],
                                       .file = files[i],
                                       .module = modules[i],
                                       .name_len = (uint32_t)strlen(names[i]),
                                       .file_len = (uint32_t)strlen(files[i]),
                                       .line = (i * 37) % SYMBOLS};
    }
}

/* Every symbol in every process, in a drawn order. */
static void make_table(struct slave_proc_table *t)
{
    *t = (struct slave_proc_table){
        .row_count = ROWS,
        .row_room = ROWS,
        .names = {.symbols = symbols, .symbol_count = SYMBOLS}};
    t->rows = ips_calloc_large(ROWS, sizeof(*t->rows));
    assert_non_null(t->rows);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t at = below(i + 1);
        t->rows[i] = t->rows[at];
        t->rows[at] = (struct slave_proc_row){
            .process = i / SYMBOLS,
            .symbol = i % SYMBOLS,
            .self_ns = below(3),
            .total_ns = below(3),
            .samples = below(3),
            .calls = below(3) ? below(3) : IPS_CPU_UNKNOWN,
            .exact = below(2)};
    }
}

static void as_told(const struct slave_proc_row *from, Ips__ProcedureRow *to)
{
    ips__procedure_row__init(to);
    to->object = objects[from->process];
    to->procedure = names[from->symbol];
    to->file = files[from->symbol];
    to->module = modules[from->symbol];
    to->line = symbols[from->symbol].line;
    to->self_ns = from->self_ns;
    to->total_ns = from->total_ns;
    to->samples = from->samples;
    to->calls = from->calls;
    to->exact = from->exact;
}

static bool same(const Ips__ProcedureRow *a, const Ips__ProcedureRow *b)
{
    return strcmp(a->object, b->object) == 0 && a->line == b->line &&
           strcmp(a->procedure, b->procedure) == 0 &&
           strcmp(a->file, b->file) == 0 && strcmp(a->module, b->module) == 0;
}

/* The rows that the master chooses, in its order; how many. */
static size_t chosen(const Ips__Select *how, struct arena *a,
                     Ips__ProcedureRow **rows, size_t count, void ***list)
{
    uint64_t left_out[SELECT_LEVELS] = {0};
    struct select s;
    count = procs_merge(rows, count);
    assert_true(
        select_init(&s, how, &ips__procedure_row__descriptor, NULL, "self_ns"));
    return select_rows(&s, a, (void *const *)rows, count, list, left_out);
}

static void check(const char *sort, bool back, uint64_t top)
{
    static Ips__ProcedureRow all[ROWS], some[ROWS];
    Ips__ProcedureRow *ptrs[ROWS], *told[ROWS];
    struct slave_proc_table t;
    struct arena arena = {0};
    void **want, **got;
    Ips__Select how = IPS__SELECT__INIT;
    how.sort = ips_wire_text(sort);
    how.back = back;
    how.top = top;
    make_table(&t);
    for (uint32_t i = 0; i < ROWS; i++) {
        as_told(&t.rows[i], &all[i]);
        ptrs[i] = &all[i];
    }
    size_t n = chosen(&how, &arena, ptrs, ROWS, &want);
    const struct slave_proc_top first = {
        .top = top, .sort = sort, .back = back, .by_process = true};
    assert_int_equal(slave_proc_table_top(&t, &built, &first, NULL), 0);
    assert_int_equal(t.row_count, top < ROWS ? top : ROWS);
    for (uint32_t i = 0; i < t.row_count; i++) {
        as_told(&t.rows[i], &some[i]);
        told[i] = &some[i];
    }
    assert_int_equal(chosen(&how, &arena, told, t.row_count, &got), n);
    for (size_t i = 0; i < n; i++)
        if (!same(want[i], got[i]))
            fail_msg("%s%s, %llu: row %zu is another one", back ? "-" : "",
                     sort, (unsigned long long)top, i);
    arena_release(&arena);
    ips_free_large(t.rows);
}

static void test_proc_top__as_the_master(void **state)
{
    (void)state;
    static const char *const sorts[] = {
        "",      "self_ns", "total_ns", "samples",   "calls",
        "exact", "object",  "module",   "procedure", "file"};
    for (seed = 1; seed < 30; seed++) {
        make_texts();
        for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
            for (int back = 0; back < 2; back++)
                check(sorts[i], back, 1 + below(ROWS + 9));
    }
}

/* Would catch a column that a later client asks for answered by another one. */
static void test_proc_top__an_unknown_column_keeps_all(void **state)
{
    (void)state;
    struct slave_proc_table t;
    make_table(&t);
    const struct slave_proc_top how = {.top = 3, .sort = "colour"};
    assert_int_equal(slave_proc_table_top(&t, &built, &how, NULL), 0);
    assert_int_equal(t.row_count, ROWS);
    ips_free_large(t.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proc_top__as_the_master),
        cmocka_unit_test(test_proc_top__an_unknown_column_keeps_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
