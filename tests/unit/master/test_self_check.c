/* Answers with planted errors, one for each rule of master/query/self_check.h.
 * Would catch: an answer that contradicts itself and is called complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/types.h"
#include "master/query/self_check.h"

static struct arena arena;
static struct certificate c;

static void begin(void)
{
    arena_release(&arena);
    memset(&arena, 0, sizeof(arena));
    memset(&c, 0, sizeof(c));
    ips__certificate__init(&c.msg);
    c.msg.complete = true;
}

/* A path of 100, one finding of 60 that gains 30. */
static void sound(Ips__WhyAnswer *w, Ips__WhyRow *row, Ips__WhyRow **rows)
{
    begin();
    ips__why_answer__init(w);
    ips__why_row__init(row);
    w->wall_ns = 100;
    w->on_cpu_ns = 50;
    w->run_delay_ns = 20;
    w->outside_ns = 15;
    w->crossing_ns = 10;
    w->other_ns = 5;
    w->quiet_ns = 80;
    w->own_ns = 90;
    row->path_ns = 60;
    row->gain_ns = 30;
    row->gain_ppm = 300000;
    *rows = row;
    w->findings = rows;
    w->n_findings = 1;
}

static void found(uint32_t count)
{
    assert_false(arena.failed);
    assert_int_equal(c.msg.n_gaps, count);
    assert_int_equal(c.msg.complete, count == 0);
}

static void test_self_check__why(void **state)
{
    Ips__WhyAnswer w;
    Ips__WhyRow row, *rows;
    struct {
        uint64_t *at, value;
    } planted[] = {
        {&w.on_cpu_ns, 51},   {&w.run_delay_ns, 19}, {&w.outside_ns, 0},
        {&w.crossing_ns, 11}, {&w.other_ns, 6},      {&row.gain_ns, 61},
        {&row.path_ns, 101},  {&w.quiet_ns, 91},     {&w.own_ns, 101},
    };
    (void)state;
    sound(&w, &row, &rows);
    self_check_why(&arena, &c, &w);
    found(0);
    for (size_t i = 0; i < sizeof(planted) / sizeof(*planted); i++) {
        sound(&w, &row, &rows);
        *planted[i].at = planted[i].value;
        row.gain_ppm = (uint32_t)row.gain_ns * 10000;
        self_check_why(&arena, &c, &w);
        found(1);
        assert_non_null(strstr(c.msg.gaps[0], "contradicts itself"));
    }
    sound(&w, &row, &rows);
    row.gain_ppm = 300001;
    self_check_why(&arena, &c, &w);
    found(1);
    sound(&w, &row, &rows);
    row.path_ns = row.gain_ns = row.gain_ppm = 0;
    self_check_why(&arena, &c, &w);
    found(1);
    sound(&w, &row, &rows);
    w.on_cpu_ns = IPS_UNMEASURED; /* not known: nothing to add up */
    self_check_why(&arena, &c, &w);
    found(0);
    arena_release(&arena);
}

static void path(Ips__PathAnswer *p, Ips__ProcedureRow *row,
                 Ips__ProcedureRow **rows)
{
    begin();
    ips__path_answer__init(p);
    ips__procedure_row__init(row);
    p->t_max_ns = p->elapsed_ns = 100;
    p->on_cpu_ns = 50;
    p->run_delay_ns = 30;
    p->other_ns = 20;
    row->self_low_ns = 10;
    row->self_ns = 15;
    row->self_high_ns = 20;
    *rows = row;
    p->by_procedure = rows;
    p->n_by_procedure = 1;
}

static void test_self_check__path(void **state)
{
    Ips__PathAnswer p;
    Ips__ProcedureRow row, *rows;
    struct {
        uint64_t *at, value;
    } planted[] = {
        {&p.on_cpu_ns, 51},      {&p.run_delay_ns, 31}, {&p.other_ns, 21},
        {&p.elapsed_ns, 99},     {&p.elapsed_ns, 101},  {&row.self_low_ns, 16},
        {&row.self_high_ns, 14},
    };
    (void)state;
    path(&p, &row, &rows);
    self_check_path(&arena, &c, &p, true);
    found(0);
    for (size_t i = 0; i < sizeof(planted) / sizeof(*planted); i++) {
        path(&p, &row, &rows);
        *planted[i].at = planted[i].value;
        self_check_path(&arena, &c, &p, true);
        found(1);
    }
    path(&p, &row, &rows);
    p.elapsed_ns = 7; /* the path ends with another process */
    self_check_path(&arena, &c, &p, false);
    found(0);
    p.lasted_ns = 100000000;
    self_check_computed(&arena, &c, &p, 102000000);
    found(0);
    self_check_computed(&arena, &c, &p, 102000001);
    found(1);
    c.msg.guess_off_ns = 5;
    self_check_computed(&arena, &c, &p, 102000005);
    self_check_computed(&arena, &c, &p, IPS_UNMEASURED);
    p.lasted_ns = IPS_UNMEASURED;
    self_check_computed(&arena, &c, &p, 102000006);
    found(1);
    arena_release(&arena);
}

static void test_self_check__predicted(void **state)
{
    Ips__PredictAnswer p = IPS__PREDICT_ANSWER__INIT;
    Ips__PredictFound f = IPS__PREDICT_FOUND__INIT;
    Ips__PredictMap map = IPS__PREDICT_MAP__INIT, *maps = &map;
    (void)state;
    begin();
    self_check_predicted(&arena, &c, 1000000, 1001001);
    self_check_search(&arena, &c, &p);
    found(0);
    self_check_predicted(&arena, &c, 1000000, 1001002);
    found(1);
    begin();
    p.found = &f;
    f.maps = &maps;
    f.n_maps = 1;
    f.bound_ns = map.makespan_ns = 100;
    self_check_search(&arena, &c, &p);
    found(0);
    map.makespan_ns = 99;
    self_check_search(&arena, &c, &p);
    found(1);
    arena_release(&arena);
}

static void test_self_check__requests(void **state)
{
    Ips__RequestsAnswer r = IPS__REQUESTS_ANSWER__INIT;
    Ips__ServiceRow row, *rows = &row;
    struct {
        uint64_t *at, value;
    } planted[] = {
        {NULL, 0},         {&row.p50_ns, 21},  {&row.p90_ns, 31},
        {&row.p99_ns, 41}, {&row.mean_ns, 41},
    };
    (void)state;
    r.services = &rows;
    r.n_services = 1;
    for (size_t i = 0; i < sizeof(planted) / sizeof(*planted); i++) {
        begin();
        ips__service_row__init(&row);
        row.p50_ns = 10;
        row.p90_ns = 20;
        row.p99_ns = 30;
        row.max_ns = 40;
        row.mean_ns = 15;
        if (planted[i].at)
            *planted[i].at = planted[i].value;
        self_check_requests(&arena, &c, &r);
        found(planted[i].at != NULL);
    }
    begin();
    row.mean_ns = IPS_UNMEASURED; /* none was answered */
    self_check_requests(&arena, &c, &r);
    found(0);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_check__why),
        cmocka_unit_test(test_self_check__path),
        cmocka_unit_test(test_self_check__predicted),
        cmocka_unit_test(test_self_check__requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
