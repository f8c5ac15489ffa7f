/*
 * Procedures of two machines that never ran: the slaves' answers get the rows
 * that the test wants (told.h). Would catch: rows of another machine or
 * process, or in another order than was asked for; totals of one machine alone;
 * a long answer of which a piece is missing; a row that is believed whatever it
 * names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "master/query/query.h"
#include "tests/sim/told.h"

#define TEXT(t) ips_unconst_text(t)

static Ips__ProceduresAsk ask;
static Ips__Request request;
static uint32_t count, process; /* rows of a machine; of this process of it */
static size_t name_bytes;       /* of each, filled up with 'x' */

static struct {
    char rows[400];
    uint64_t count, sum, replies;
    size_t largest;
    Ips__ProcedureTotals totals;
} got;

/* ---- rows that nobody sampled -------------------------------------------- */

/* p00, p01 ... of 10, 20 ... us, 1 ns more on the second machine. */
static Ips__ProcedureRow *make_row(uint32_t i)
{
    Ips__ProcedureRow *row = malloc(sizeof(*row));
    char *name = malloc(name_bytes + 12);
    assert_true(row && name);
    ips__procedure_row__init(row);
    int n = snprintf(name, 12, "p%02u", i);
    memset(name + n, 'x', name_bytes);
    name[(size_t)n + name_bytes] = '\0';
    row->procedure = name;
    row->process = process;
    row->samples = i + 1;
    row->self_ns = row->total_ns = 10000 * (uint64_t)(i + 1) + told.struck;
    return row;
}

static bool put_rows(Ips__Reply *r)
{
    Ips__ProceduresAnswer *a = r->procedures;
    if (!r->last)
        return false;
    assert_true(a->n_rows == 0 && a->totals);
    a->rows = malloc((count + 1) * sizeof(*a->rows));
    assert_non_null(a->rows);
    for (; a->n_rows < count; a->n_rows++)
        a->rows[a->n_rows] = make_row((uint32_t)a->n_rows);
    a->totals->threads = 2;
    a->totals->cpu_ns = 1000000;
    a->totals->sampled_ns = 900000;
    a->totals->unsampled_ns = 100000;
    a->totals->samples = 90;
    a->totals->asked_ns = 90 * 10000;
    a->totals->squares = 9e9;
    return true;
}

static void listen_to(const Ips__Reply *r)
{
    size_t size = ips__reply__get_packed_size(r);
    const Ips__ProceduresAnswer *a =
        r->answer_case == IPS__REPLY__ANSWER_PROCEDURES ? r->procedures : NULL;
    got.replies++;
    got.largest = size > got.largest ? size : got.largest;
    for (size_t i = 0; a && i < a->n_rows; i++, got.count++) {
        size_t at = strlen(got.rows);
        snprintf(got.rows + at, sizeof(got.rows) - at, "%s%s%.3s ",
                 a->rows[i]->object, *a->rows[i]->object ? ":" : "",
                 a->rows[i]->procedure);
        got.sum += a->rows[i]->self_ns;
    }
    if (a && a->totals)
        got.totals = *a->totals;
}

static void put_and_ask(void)
{
    memset(&got, 0, sizeof(got));
    request.ask_case = IPS__REQUEST__ASK_PROCEDURES;
    request.procedures = &ask;
    told.all = true;
    told.listen = listen_to;
    told_ask(&request, IPS__REPLY__ANSWER_PROCEDURES, put_rows);
    told.listen = NULL;
}

static void begin(uint32_t rows)
{
    ips__procedures_ask__init(&ask);
    ips__request__init(&request);
    count = rows;
    process = 0;
    name_bytes = 0;
}

static void rows_are(const char *want)
{
    put_and_ask();
    if (told.code || strcmp(got.rows, want) != 0)
        fail_msg("%s\"%s\"", told.heard, got.rows);
}

/* ---- tests --------------------------------------------------------------- */

static void test_told_procs__merged(void **state)
{
    (void)state;
    begin(3);
    rows_are("p02 p01 p00 "); /* of both machines each */
    assert_int_equal(told.struck, 2);
    assert_int_equal(got.sum, 2 * (10000 + 20000 + 30000) + 3);
    assert_int_equal(got.totals.rows, 3);
    assert_int_equal(got.totals.threads, 4);
    assert_int_equal(got.totals.cpu_ns, 2000000);
    assert_int_equal(got.totals.sampled_ns, 1800000);
    assert_int_equal(got.totals.samples, 180);
    assert_true(told.complete);
    ask.by = TEXT("machine");
    put_and_ask();
    if (got.totals.rows != 6)
        fail_msg("%d %s", told.code, told.heard);
    assert_non_null(strstr(got.rows, "/m0:p02 "));
    assert_non_null(strstr(got.rows, "/m1:p00 "));
    ask.by = TEXT("process");

    put_and_ask();
    assert_int_equal(got.totals.rows, 6);
    for (const char *at = got.rows; *at; at = strchr(at, ' ') + 1)
        assert_true(at[0] == '/' && at[1] == 'm' && at[3] == '/');
}

static void test_told_procs__chosen(void **state)
{
    Ips__Select select = IPS__SELECT__INIT;
    (void)state;
    begin(5);
    ask.top = 2;
    rows_are("p04 p03 ");
    assert_int_equal(got.totals.rows, 5);
    ask.top = 5;
    rows_are("p04 p03 p02 p01 p00 ");
    ask.top = 0;
    ask.select = &select;
    select.top = 3;
    rows_are("p04 p03 p02 ");
    select.sort = TEXT("samples");
    select.back = true;
    rows_are("p02 p01 p00 "); /* chosen; the client puts them in order */
    assert_int_equal(got.totals.rows, 5);
}

static void test_told_procs__long(void **state)
{
    (void)state;
    begin(3000);
    name_bytes = 3000;
    ask.by = TEXT("machine");
    put_and_ask();
    assert_int_equal(told.code, 0);
    assert_int_equal(got.count, 6000);
    assert_int_equal(got.replies, 3);
    assert_true(got.largest <= QUERY_REPLY_BYTES);
}

static void test_told_procs__refused(void **state)
{
    (void)state;
    begin(2);
    process = 1u << 20;
    put_and_ask();
    assert_non_null(strstr(told.heard, "procedure row 0 names no process"));
    begin(0); /* two threads, and no sample of them */
    put_and_ask();
    assert_int_equal(told.code, IPS_E_NOT_FOUND);
    assert_int_equal(strncmp(told.heard, "no procedures in run r: ", 24), 0);
    ask.object = TEXT("/m0");
    ask.to_ns = 1000000000;
    put_and_ask();
    assert_int_equal(
        strncmp(told.heard,
                "no procedures in run r, /m0, in that window: ", 45),
        0);
}

#define CASE(name) cmocka_unit_test(test_told_procs__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(merged),
        CASE(chosen),
        CASE(long),
        CASE(refused),
    };
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
