/* What `why` says of a service's requests, from answers made by hand.
 * EVIDENCE-OF: IPS-17 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/why/service.h"

/* `requests` in all, each of so many ns of each part. */
static Ips__RequestParts parts(uint64_t requests, uint64_t queued, uint64_t own,
                               uint64_t elsewhere, uint64_t message)
{
    Ips__RequestParts p = IPS__REQUEST_PARTS__INIT;
    p.requests = requests;
    p.queued_ns = queued * requests;
    p.own_ns = own * requests;
    p.elsewhere_ns = elsewhere * requests;
    p.message_ns = message * requests;
    p.ns = p.queued_ns + p.own_ns + p.elsewhere_ns + p.message_ns;
    p.most = ips_unconst_text("/m1/server.1/1");
    return p;
}

struct made {
    Ips__RequestsAnswer from;
    Ips__ServiceRow service, *services[1];
    Ips__RequestParts all, median, slowest;
    Ips__StationRow station[3], *stations[3];
    Ips__Certificate certificate;
};

static void make(struct made *m, uint64_t requests)
{
    ips__requests_answer__init(&m->from);
    ips__service_row__init(&m->service);
    ips__certificate__init(&m->certificate);
    m->certificate.complete = true;
    m->service.service = ips_unconst_text("/m1 tcp 127.0.0.1:80");
    m->service.process = ips_unconst_text("/m1/server.1");
    m->service.requests = requests;
    m->service.all = &m->all;
    m->service.median = &m->median;
    m->service.slowest = &m->slowest;
    m->services[0] = &m->service;
    m->from.services = m->services;
    m->from.n_services = 1;
    m->from.certificate = &m->certificate;
}

static void set_station(struct made *m, const char *name, const char *kind,
                        double demand_ns)
{
    size_t n = m->from.n_stations++;
    ips__station_row__init(&m->station[n]);
    m->station[n].station = ips_unconst_text(name);
    m->station[n].kind = ips_unconst_text(kind);
    m->station[n].demand_ns = demand_ns;
    m->station[n].bound = 1e9 / demand_ns;
    m->stations[n] = &m->station[n];
    m->from.stations = m->stations;
}

/* Catches: parts under the threshold said, gains that are sums instead of
 * means, findings not in order, a tail that is none. */
static void latency(void **state)
{
    struct arena a = {0};
    struct made m;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    (void)state;
    make(&m, 1000);
    m.all = parts(1000, 300, 600, 60, 40);
    m.median = parts(200, 300, 600, 60, 40);
    m.slowest = parts(10, 300, 600, 60, 40);
    m.service.mean_ns = 1000;
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_false(a.failed);
    assert_string_equal(to.answers, "latency");
    assert_string_equal(to.shape, "service");
    assert_string_equal(to.sure, "high");
    assert_int_equal(to.n_findings, 3); /* 40 of 1000 is below 5% */
    static const char *const kinds[] = {"service-time", "queueing", "back-end"};
    static const uint64_t gains[] = {600, 300, 60};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(to.findings[i]->kind, kinds[i]);
        assert_int_equal(to.findings[i]->gain_ns, gains[i]);
        assert_int_equal(to.findings[i]->gain_ppm, gains[i] * 1000);
    }
    assert_string_equal(to.findings[0]->command,
                        "ipsq procedures r1 --object /m1/server.1");
    assert_string_equal(to.findings[1]->command, "ipsq requests r1");
    arena_release(&a);
}

/* Catches: a tail blamed on what the median has as well, or said of few. */
static void tail(void **state)
{
    struct arena a = {0};
    struct made m;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    (void)state;
    make(&m, 100);
    m.all = parts(100, 0, 1000, 0, 0);
    m.median = parts(20, 0, 1000, 0, 0);
    m.slowest = parts(1, 7000, 2000, 0, 0);
    m.service.mean_ns = 1080;
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_int_equal(to.n_findings, 2);
    const Ips__WhyRow *row = to.findings[1];
    assert_string_equal(row->kind, "slow-requests");
    assert_string_equal(row->other, "queueing");
    assert_int_equal(row->gain_ns, 80); /* 8000 of one in a hundred */
    assert_non_null(strstr(row->says, "9 times"));
    assert_string_equal(row->command, "ipsq requests r1 --top 1");
    m.service.requests = m.all.requests = 99;
    to = (Ips__WhyAnswer)IPS__WHY_ANSWER__INIT;
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_int_equal(to.n_findings, 1);
    assert_string_equal(to.sure, "low");
    arena_release(&a);
}

/* Catches: a client taken for the service's bound, or not said to be slow. */
static void throughput(void **state)
{
    struct arena a = {0};
    struct made m;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    (void)state;
    make(&m, 1000);
    set_station(&m, "/m1/load.9/9", "client", 50000);
    set_station(&m, "/m1/server.1/1", "thread", 20000);
    set_station(&m, "/m1 (2 cores)", "cores", 15000);
    why_explain_service(&m.from, "r1", "throughput", &a, &to);
    assert_string_equal(to.answers, "throughput");
    assert_int_equal(to.n_findings, 2);
    assert_string_equal(to.findings[0]->kind, "bottleneck");
    assert_string_equal(to.findings[0]->object, "/m1/server.1/1");
    assert_non_null(strstr(to.findings[0]->says, "50000 requests a second"));
    assert_non_null(strstr(to.findings[0]->evidence, "(2 cores)"));
    assert_string_equal(to.findings[1]->kind, "slow-clients");
    m.station[0].demand_ns = 10000;
    to = (Ips__WhyAnswer)IPS__WHY_ANSWER__INIT;
    why_explain_service(&m.from, "r1", "throughput", &a, &to);
    assert_int_equal(to.n_findings, 1);
    arena_release(&a);
}

/* Catches: one of the two answers missing or before the other; a default that
 * is not stated. */
static void both(void **state)
{
    struct arena a = {0};
    struct made m;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    (void)state;
    make(&m, 1000);
    m.all = m.median = m.slowest = parts(1000, 300, 700, 0, 0);
    set_station(&m, "/m1/server.1/1", "thread", 20000);
    why_explain_service(&m.from, "r1", "requests", &a, &to);
    assert_string_equal(to.answers, "requests");
    assert_int_equal(to.n_findings, 3);
    assert_string_equal(to.findings[0]->kind, "service-time");
    assert_string_equal(to.findings[2]->kind, "bottleneck");
    assert_non_null(strstr(to.shape_says, "latency and throughput"));
    assert_non_null(strstr(to.shape_says, "--for turnaround"));
    arena_release(&a);
}

/* Catches: the back end's procedure called the service's own, or the other way
 * round; a place that is not said, or not put in its columns. */
static void places(void **state)
{
    struct arena a = {0};
    struct made m;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    Ips__RequestMore at[2] = {IPS__REQUEST_MORE__INIT, IPS__REQUEST_MORE__INIT};
    Ips__RequestMore *rows[2] = {&at[0], &at[1]};
    (void)state;
    at[0].procedure = ips_unconst_text("lookup");
    at[0].file = ips_unconst_text("table.c");
    at[0].line = 12;
    at[0].median_ns = 500;
    at[1].cause = ips_unconst_text("disk");
    at[1].procedure = ips_unconst_text("sync_it");
    at[1].module = ips_unconst_text("/bin/server");
    make(&m, 1000);
    m.service.typical = rows;
    m.service.n_typical = 2;
    m.all = m.median = m.slowest = parts(1000, 0, 600, 200, 0);
    m.all.external_ns = 300 * 1000;
    m.all.ns += m.all.external_ns;
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_int_equal(to.n_findings, 3);
    const Ips__WhyRow *own = to.findings[0], *out = to.findings[1];
    assert_string_equal(own->kind, "service-time");
    assert_string_equal(own->procedure, "lookup");
    assert_int_equal(own->line, 12);
    assert_non_null(strstr(own->evidence, "in lookup (table.c:12)"));
    assert_string_equal(out->kind, "outside");
    assert_string_equal(out->wait_procedure, "sync_it");
    assert_non_null(strstr(out->evidence, "(disk) in sync_it (/bin/server)"));
    assert_string_equal(to.findings[2]->kind, "back-end");
    assert_string_equal(to.findings[2]->procedure, "");
    to = (Ips__WhyAnswer)IPS__WHY_ANSWER__INIT;
    m.all = m.median = m.slowest = parts(1000, 0, 200, 600, 0);
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_string_equal(to.findings[0]->kind, "back-end");
    assert_string_equal(to.findings[0]->procedure, "lookup");
    assert_string_equal(to.findings[1]->procedure, "");
    arena_release(&a);
}

/* Catches: a run without services that is an error, or finds something. */
static void none(void **state)
{
    struct arena a = {0};
    Ips__RequestsAnswer from = IPS__REQUESTS_ANSWER__INIT;
    Ips__WhyAnswer to = IPS__WHY_ANSWER__INIT;
    (void)state;
    why_explain_service(&from, "r1", "latency", &a, &to);
    assert_int_equal(to.n_findings, 0);
    assert_string_equal(to.shape, "batch");
    assert_string_equal(to.sure, "low");
    assert_non_null(strstr(to.shape_says, "ips_mark"));
    struct made m;
    make(&m, 0);
    m.service.connections = m.service.pipelined = 2;
    to = (Ips__WhyAnswer)IPS__WHY_ANSWER__INIT;
    why_explain_service(&m.from, "r1", "latency", &a, &to);
    assert_string_equal(to.shape, "batch");
    assert_non_null(strstr(to.shape_says, "2 of its 2 connections"));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency),    cmocka_unit_test(tail),
        cmocka_unit_test(throughput), cmocka_unit_test(both),
        cmocka_unit_test(places),     cmocka_unit_test(none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
