/* `why --for latency|throughput`, word for word, and its rules just
 * where they hold and one step beyond (docs/why.md, "Of a service"). Catches: a
 * part of a request's time under another's name, a mean taken for a sum, a
 * threshold that is off by one, a doubt that is not said.
 *
 * EVIDENCE-OF: IPS-17 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "master/why/service.h"

#define SAME(a, b) assert_string_equal(a, b)

static struct made {
    struct arena arena;
    Ips__RequestsAnswer from;
    Ips__ServiceRow service, *services[1];
    Ips__RequestParts all, median, slowest;
    Ips__RequestMore more, *mores[1];
    Ips__StationRow station[3], *stations[3];
    Ips__Certificate certificate;
    Ips__WhyAnswer to;
} m;

/* Parts of `requests` that take 1000 us each: queueing, not taken, served, back
 * end, messages, outside. */
static Ips__RequestParts parts(uint64_t requests, const uint64_t us[6])
{
    Ips__RequestParts p = IPS__REQUEST_PARTS__INIT;
    uint64_t *to[] = {&p.queued_ns,    &p.untaken_ns, &p.own_ns,
                      &p.elsewhere_ns, &p.message_ns, &p.external_ns};
    p.requests = requests;
    p.most = ips_unconst_text("/m1/server.1/1");
    for (int i = 0; i < 6; i++) {
        *to[i] = us[i] * 1000 * requests;
        p.ns += *to[i];
    }
    return p;
}

static void make(uint64_t requests)
{
    static const uint64_t us[6] = {300, 50, 250, 200, 100, 100};
    arena_release(&m.arena);
    memset(&m, 0, sizeof(m));
    ips__requests_answer__init(&m.from);
    ips__service_row__init(&m.service);
    ips__certificate__init(&m.certificate);
    ips__why_answer__init(&m.to);
    m.certificate.complete = true;
    m.service.service = ips_unconst_text("/m1 tcp 1.2.3.4:80");
    m.service.process = ips_unconst_text("/m1/server.1");
    m.service.requests = requests;
    m.service.rate = 123.4;
    m.service.mean_ns = 1000000;
    m.service.p50_ns = 900000;
    m.service.p99_ns = 2000000;
    m.all = m.median = m.slowest = parts(requests, us);
    m.service.all = &m.all;
    m.service.median = &m.median;
    m.service.slowest = &m.slowest;
    m.services[0] = &m.service;
    m.from.services = m.services;
    m.from.n_services = 1;
    m.from.certificate = &m.certificate;
}

static const Ips__WhyAnswer *say(const char *asked)
{
    ips__why_answer__init(&m.to);
    why_explain_service(&m.from, "r1", asked, &m.arena, &m.to);
    assert_false(m.arena.failed);
    return &m.to;
}

/* ---- latency ---- */

static void test_service__parts(void **state)
{
    static const struct {
        const char *kind, *says, *supposes, *command;
        uint32_t ppm;
    } want[] = {
        {"queueing",
         "Requests spend 300.00 us of 1.00 ms (30%) queued behind other "
         "requests",
         "enough threads or processes serve that none queues",
         "ipsq requests r1", 300000},
        {"service-time",
         "Requests spend 250.00 us of 1.00 ms (25%) in the service's own "
         "threads",
         "the service's threads take no time",
         "ipsq procedures r1 --object /m1/server.1", 250000},
        {"back-end",
         "Requests spend 200.00 us of 1.00 ms (20%) waiting on back ends",
         "the back ends take no time", "ipsq requests r1", 200000},
        {"outside",
         "Requests spend 100.00 us of 1.00 ms (10%) waiting for something not "
         "recorded (disk, timer, unrecorded peer)",
         "these waits end at once", "ipsq requests r1", 100000},
        {"slow-messages",
         "Requests spend 100.00 us of 1.00 ms (10%) in messages between "
         "threads",
         "messages take no time", "ipsq requests r1", 100000},
        {"not-taken",
         "Requests spend 50.00 us of 1.00 ms (5%) until an idle thread accepts "
         "them",
         "they are accepted at once", "ipsq requests r1", 50000}};
    const size_t n = sizeof(want) / sizeof(*want);
    (void)state;
    make(200);
    const Ips__WhyAnswer *a = say("latency");
    assert_int_equal(a->n_findings, n);
    for (size_t i = 0; i < n; i++) {
        const Ips__WhyRow *x = a->findings[i];
        SAME(x->kind, want[i].kind);
        SAME(x->says, want[i].says);
        SAME(x->supposes, want[i].supposes);
        SAME(x->command, want[i].command);
        SAME(x->evidence, "200 requests of /m1 tcp 1.2.3.4:80; most of their "
                          "time in /m1/server.1/1");
        SAME(x->object, "/m1/server.1/1");
        SAME(x->sure, "high");
        SAME(x->sure_why, "");
        assert_int_equal(x->gain_ppm, want[i].ppm);
        assert_int_equal(x->gain_ns, want[i].ppm); /* of a million ns */
        assert_int_equal(x->bound_ns, want[i].ppm);
        assert_int_equal(x->path_ns, 1000000);
    }
    SAME(a->shape_says, "latency of /m1 tcp 1.2.3.4:80: 200 requests, 123 a "
                        "second, median 900.00 us, 99% 2.00 ms");
    assert_int_equal(a->wall_ns, 1000000);
    m.all.untaken_ns -= 200; /* a ns of each: less than a twentieth */
    assert_int_equal(say("latency")->n_findings, n - 1);
}

/* ---- the slowest ---- */

static void test_service__the_slowest(void **state)
{
    static const uint64_t median[6] = {100, 0, 900, 0, 0, 0};
    static const uint64_t slow[6] = {1700, 0, 1300, 0, 0, 0};
    (void)state;
    make(100);
    m.median = parts(20, median);
    m.slowest = parts(1, slow); /* 3 times as long */
    m.mores[0] = &m.more;
    ips__request_more__init(&m.more);
    m.more.cause = ips_unconst_text("timer");
    m.more.procedure = ips_unconst_text("f");
    m.more.file = ips_unconst_text("a.c");
    m.more.line = 3;
    m.more.slow_ns = 1600000;
    m.more.median_ns = 100000;
    m.service.more = m.mores;
    m.service.n_more = 1;
    const Ips__WhyAnswer *a = say("latency");
    assert_int_equal(a->n_findings, 7);
    /* (3000 - 1000) us of one in a hundred. */
    const Ips__WhyRow *x = a->findings[6];
    SAME(x->kind, "slow-requests");
    SAME(x->says, "The slowest 1% (1) take 3.00 ms, 3 times the median of 1.00 "
                  "ms: 1.60 ms more queued behind other requests");
    SAME(x->evidence, "most of their time in /m1/server.1/1; 1.50 ms more than "
                      "the median waiting (timer) in f (a.c:3)");
    SAME(x->supposes, "they take as long as the median");
    SAME(x->other, "queueing");
    SAME(x->command, "ipsq requests r1 --top 1");
    SAME(x->wait_procedure, "f");
    assert_int_equal(x->wait_line, 3);
    SAME(x->procedure, "");
    assert_int_equal(x->gain_ns, 20000);
    assert_int_equal(x->gain_ppm, 20000);
    assert_int_equal(x->path_ns, 3000000);
    m.more.cause = ips_unconst_text("");
    x = say("latency")->findings[6];
    SAME(x->evidence, "most of their time in /m1/server.1/1; 1.50 ms more than "
                      "the median computing in f (a.c:3)");
    SAME(x->procedure, "f");
    SAME(x->wait_procedure, "");
    m.slowest.ns--;
    assert_int_equal(say("latency")->n_findings, 6);
    m.slowest.ns++;
    m.slowest.requests = 0;
    assert_int_equal(say("latency")->n_findings, 6);
    m.slowest.requests = 1;
    m.median.requests = 0;
    assert_int_equal(say("latency")->n_findings, 6);
    m.median.requests = 20;
    m.service.requests = 99;
    a = say("latency");
    assert_int_equal(a->n_findings, 6);
    SAME(a->sure, "low");
    SAME(a->sure_why, "few requests");
    m.service.requests = 100;
    m.certificate.complete = false;
    a = say("latency");
    SAME(a->sure, "fair");
    SAME(a->sure_why, "the answer is incomplete");
    SAME(a->findings[0]->sure, "fair");
}

/* ---- throughput ---- */

static void set_station(size_t i, const char *name, const char *kind,
                        uint64_t demand_us)
{
    Ips__StationRow *s = &m.station[i];
    ips__station_row__init(s);
    s->station = ips_unconst_text(name);
    s->kind = ips_unconst_text(kind);
    s->demand_ns = (double)demand_us * 1e3;
    s->bound = 1e6 / (double)demand_us;
    s->busy_ns = demand_us * 1000 * 200;
    s->use = 0.25;
    m.stations[i] = s;
    m.from.stations = m.stations;
    m.from.n_stations = i + 1;
}

static void test_service__throughput(void **state)
{
    (void)state;
    make(200);
    set_station(0, "/m1/server.1/1", "thread", 500);
    const Ips__WhyAnswer *a = say("throughput");
    assert_int_equal(a->n_findings, 1);
    SAME(a->findings[0]->says,
         "/m1/server.1/1 is busy for 500.00 us a request, so at most 2000 "
         "requests a second can be served");
    SAME(a->findings[0]->evidence, "busy 100.00 ms in 200 requests; 123 a "
                                   "second arrived, 25% utilisation");
    SAME(a->findings[0]->command, "ipsq bottleneck r1");
    set_station(1, "/m1/load.9/9", "client", 500);
    set_station(2, "/m1 (2 cores)", "cores", 400);
    a = say("throughput"); /* the client is as busy, and no busier */
    assert_int_equal(a->n_findings, 1);
    assert_non_null(
        strstr(a->findings[0]->evidence,
               "the next limit is /m1 (2 cores) with 2500 a second"));
    set_station(1, "/m1/load.9/9", "client", 501);
    m.from.n_stations = 3;
    a = say("throughput");
    assert_int_equal(a->n_findings, 2);
    SAME(a->findings[1]->kind, "slow-clients");
    SAME(a->findings[1]->says,
         "The client /m1/load.9/9 is busier than the service (501.00 us a "
         "request) and sends at most 1996 requests a second");
    SAME(a->findings[1]->evidence, "busy 100.20 ms");
    SAME(a->findings[1]->object, "/m1/load.9/9");
    m.station[0].demand_ns = 0; /* nothing bounds it */
    assert_int_equal(say("throughput")->n_findings, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_service__parts),
        cmocka_unit_test(test_service__the_slowest),
        cmocka_unit_test(test_service__throughput),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&m.arena);
    return rc;
}
