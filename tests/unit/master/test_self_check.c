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
    w.from_ns = 5; /* windows are checked, too */
    w.to_ns = 105;
    row.path_ns = 101;
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
    self_check_path_not_above_run(&arena, &c, &p, 102000000);
    found(0);
    self_check_path_not_above_run(&arena, &c, &p, 102000001);
    found(1);
    c.msg.guess_off_ns = 5;
    self_check_path_not_above_run(&arena, &c, &p, 102000005);
    self_check_path_not_above_run(&arena, &c, &p, IPS_UNMEASURED);
    p.lasted_ns = IPS_UNMEASURED;
    self_check_path_not_above_run(&arena, &c, &p, 102000006);
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
    self_check_predicted_not_below_bound(&arena, &c, 1000000, 1001001);
    self_check_search(&arena, &c, &p);
    found(0);
    self_check_predicted_not_below_bound(&arena, &c, 1000000, 1001002);
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
        self_check_requests_answer(&arena, &c, &r);
        found(planted[i].at != NULL);
    }
    begin();
    row.mean_ns = IPS_UNMEASURED; /* none was answered */
    self_check_requests_answer(&arena, &c, &r);
    found(0);
    arena_release(&arena);
}

/* In an answer that `make` makes, `check` finds nothing; with each value at its
 * place it does. */
struct planted {
    uint64_t *at, value;
};
static void plant(const struct planted *p, size_t count, void (*make)(void),
                  void (*check)(void))
{
    begin();
    make();
    check();
    found(0);
    for (size_t i = 0; i < count; i++) {
        begin();
        make();
        *p[i].at = p[i].value;
        check();
        assert_true(c.msg.n_gaps >= 1);
        assert_false(c.msg.complete);
        assert_non_null(strstr(c.msg.gaps[0], "contradicts itself"));
    }
    arena_release(&arena);
}
#define PLANT(planted, make, check)                                            \
    plant(planted, sizeof(planted) / sizeof(*(planted)), make, check)

static Ips__WaitsAnswer waits;
static Ips__WaitGroup group;
static Ips__WaitCause cause, *causes = &cause;
static Ips__BlameRow blame, *blames = &blame;
static Ips__IdleRow idle, *idles = &idle;

static void make_waits(void)
{
    ips__waits_answer__init(&waits);
    ips__wait_group__init(&group);
    ips__wait_cause__init(&cause);
    ips__blame_row__init(&blame);
    ips__idle_row__init(&idle);
    cause.ns = waits.total_ns = blame.ns = group.total_ns = 100;
    waits.late_sender_ns = 40;
    waits.late_receiver_ns = 60;
    waits.left_out_ns = waits.cut_ns = group.longest_ns = 100;
    idle.cores = 2;
    idle.elapsed_ns = 150;
    idle.running_ns = 40;
    idle.spun_ns = 10;
    idle.others_ns = idle.unknown_ns = idle.nobody_ns = 40;
    idle.before_ns = idle.after_ns = 15;
    waits.causes = idle.waiting = &causes;
    waits.n_causes = idle.n_waiting = 1;
    waits.idle = &idles;
    waits.n_idle = 1;
    group.blame = &blames;
    group.n_blame = 1;
}

static void check_waits(void)
{
    self_check_wait_group(&arena, &c, &group);
    self_check_waits(&arena, &c, &waits);
}

static void test_self_check__waits(void **state)
{
    const struct planted p[] = {
        {&cause.ns, 101},          {&waits.late_sender_ns, 41},
        {&waits.left_out_ns, 101}, {&waits.cut_ns, 101},
        {&blame.ns, 99},           {&group.longest_ns, 101},
        {&idle.running_ns, 41},    {&idle.others_ns, 39},
        {&idle.unknown_ns, 0},     {&idle.nobody_ns, 41},
        {&idle.before_ns, 16},     {&idle.after_ns, 14},
        {&idle.cores, 3},          {&idle.spun_ns, 9},
    };
    (void)state;
    PLANT(p, make_waits, check_waits);
}

static Ips__WhatifAnswer whatif;
static Ips__WhatifRow edit, ranked, *edits = &edit, *ranking = &ranked;
static Ips__NextPath next, *nexts = &next;

static void make_whatif(void)
{
    ips__whatif_answer__init(&whatif);
    ips__whatif_row__init(&edit);
    ips__next_path__init(&next);
    whatif.t_max_ns = next.ns = 100;
    edit.bound_ns = edit.gain_ns = 30;
    edit.t_max_ns = 70;
    ranked = edit;
    whatif.edits = &edits;
    whatif.ranking = &ranking;
    whatif.next = &nexts;
    whatif.n_edits = whatif.n_ranking = whatif.n_next = 1;
}

static void check_whatif(void)
{
    self_check_whatif(&arena, &c, &whatif);
}

static void test_self_check__whatif(void **state)
{
    const struct planted p[] = {
        {&edit.gain_ns, 31},   {&edit.bound_ns, 29},   {&edit.t_max_ns, 71},
        {&ranked.gain_ns, 29}, {&ranked.bound_ns, 29}, {&next.ns, 101},
    };
    (void)state;
    PLANT(p, make_whatif, check_whatif);
}

static Ips__MetricsAnswer metrics;
static Ips__MetricsRow row_of_metrics, *metrics_rows = &row_of_metrics;
static Ips__MatrixTotal total, *totals = &total;
static char nobody[] = "";

static void make_metrics(void)
{
    Ips__MetricsRow *r = &row_of_metrics;
    ips__metrics_answer__init(&metrics);
    ips__metrics_row__init(r);
    ips__wait_cause__init(&cause);
    ips__matrix_total__init(&total);
    r->cpu_ns = 50;
    r->blocked_ns = 40;
    r->wait_cpu_ns = 20;
    r->other_ns = -10;
    r->lifetimes_ns = 100;
    r->wait_ns = cause.ns = 45;
    r->waits = &causes;
    r->n_waits = 1;
    total.object = nobody;
    total.messages_in = total.messages_out = 7;
    total.bytes_in = total.bytes_out = 700;
    metrics.rows = &metrics_rows;
    metrics.machine_totals = &totals;
    metrics.n_rows = metrics.n_machine_totals = 1;
}

static void check_metrics(void)
{
    self_check_metrics(&arena, &c, &metrics);
}

static void test_self_check__metrics(void **state)
{
    Ips__MetricsRow *r = &row_of_metrics;
    const struct planted p[] = {
        {&r->cpu_ns, 51},       {&r->blocked_ns, 39},     {&r->wait_cpu_ns, 0},
        {&r->lifetimes_ns, 99}, {&cause.ns, 44},          {&r->wait_ns, 46},
        {&total.bytes_in, 699}, {&total.messages_out, 6},
    };
    (void)state;
    PLANT(p, make_metrics, check_metrics);
    begin();
    make_metrics();
    r->cpu_ns = r->wait_ns = IPS_UNMEASURED; /* nothing to add up */
    check_metrics();
    found(0);
    make_metrics();
    r->wait_cpu_ns = IPS_UNMEASURED; /* counts as nothing */
    r->other_ns = 10;
    check_metrics();
    found(0);
    arena_release(&arena);
}

static Ips__RequestsAnswer requests;
static Ips__ServiceRow service, *services = &service;
static Ips__StationRow station, *stations = &station;
static Ips__RequestParts parts;
static char service_name[] = "/m1 tcp", thread_kind[] = "thread",
            cores_kind[] = "cores";

static void make_bottleneck(void)
{
    ips__requests_answer__init(&requests);
    ips__service_row__init(&service);
    ips__station_row__init(&station);
    service.mean_ns = IPS_UNMEASURED;
    service.service = station.service = service_name;
    service.from_ns = 1000000000;
    service.to_ns = 2000000000;
    station.kind = thread_kind;
    station.busy_ns = 1060000000;
    station.demand_ns = 2000000.5;
    service.bound = 500;
    ips__request_parts__init(&parts);
    parts.ns = 21;
    parts.queued_ns = 1;
    parts.untaken_ns = 2;
    parts.own_ns = 3;
    parts.elsewhere_ns = 4;
    parts.message_ns = 5;
    parts.external_ns = 6;
    service.all = &parts;
    requests.services = &services;
    requests.stations = &stations;
    requests.n_services = requests.n_stations = 1;
}

static void check_bottleneck(void)
{
    self_check_requests_answer(&arena, &c, &requests);
}

static void test_self_check__bottleneck(void **state)
{
    const struct planted p[] = {
        {&station.busy_ns, 1060000001},
        {&service.from_ns, 1000000001},
        {&parts.queued_ns, 2},
        {&parts.external_ns, 5},
        {&parts.ns, 20},
    };
    (void)state;
    PLANT(p, make_bottleneck, check_bottleneck);
    begin();
    make_bottleneck();
    service.bound = 501; /* more than the station allows */
    check_bottleneck();
    found(1);
    begin();
    make_bottleneck();
    station.kind = cores_kind; /* several threads may use them at once */
    station.busy_ns *= 2;
    check_bottleneck();
    found(0);
    begin();
    make_bottleneck();
    station.demand_ns = 0; /* it allows any rate */
    station.busy_ns = 0;
    service.bound = IPS_UNMEASURED_REAL;
    check_bottleneck();
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
        cmocka_unit_test(test_self_check__waits),
        cmocka_unit_test(test_self_check__whatif),
        cmocka_unit_test(test_self_check__metrics),
        cmocka_unit_test(test_self_check__bottleneck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
