/* `ipsq requests`: the requests to the services of a run, and what limits their
 * rate. */
#include <string.h>

#include "client/base/command.h"
#include "client/base/top_n.h"
#include "client/base/units.h"

/* number of slowest requests, or of stations, that are shown without --top */
#define TABLE_TOP 10

static const struct ipsq_column services[] = {
    {"service", "SERVICE", IPSQ_TEXT},
    {"process", NULL, IPSQ_TEXT},
    {"processes", "PROCESSES", IPSQ_COUNT},
    {"connections", "CONNECTIONS", IPSQ_COUNT},
    {"pipelined", "LEFT OUT", IPSQ_COUNT},
    {"requests", "REQUESTS", IPSQ_COUNT},
    {"from_ns", NULL, IPSQ_NS},
    {"to_ns", NULL, IPSQ_NS},
    {"rate", "/S", IPSQ_REAL},
    {"mean_ns", NULL, IPSQ_NS},
    {"p50_ns", "MEDIAN", IPSQ_NS},
    {"p90_ns", "90%", IPSQ_NS},
    {"p99_ns", "99%", IPSQ_NS},
    {"max_ns", "LONGEST", IPSQ_NS},
    {"untraced_clients", NULL, IPSQ_COUNT},
    {"bound", "AT MOST /S", IPSQ_REAL},
};
static const struct ipsq_column parts[] = {
    {"service", "SERVICE", IPSQ_TEXT},
    {"which", "REQUESTS", IPSQ_TEXT},
    {"requests", "COUNT", IPSQ_COUNT},
    {"mean_ns", "MEAN", IPSQ_NS},
    {"queued_ns", "QUEUED", IPSQ_NS},
    {"untaken_ns", "ACCEPT DELAY", IPSQ_NS},
    {"own_ns", "SERVED", IPSQ_NS},
    {"elsewhere_ns", "BACK ENDS", IPSQ_NS},
    {"message_ns", "MESSAGES", IPSQ_NS},
    {"external_ns", "NOT RECORDED", IPSQ_NS},
    {"most", "MOST OF IT IN", IPSQ_TEXT},
    {"most_ns", NULL, IPSQ_NS},
};
static const struct ipsq_column more[] = {
    {"service", "SERVICE", IPSQ_TEXT},    {"slow_ns", "SLOWEST 1%", IPSQ_NS},
    {"median_ns", "40% TO 60%", IPSQ_NS}, {"cause", "WAITING FOR", IPSQ_TEXT},
    {"procedure", "IN", IPSQ_TEXT},       {"module", NULL, IPSQ_TEXT},
    {"file", "FILE", IPSQ_TEXT},          {"line", "LINE", IPSQ_COUNT},
};
static const struct ipsq_column typical[] = {
    {"service", NULL, IPSQ_TEXT}, {"ns", NULL, IPSQ_NS},
    {"cause", NULL, IPSQ_TEXT},   {"procedure", NULL, IPSQ_TEXT},
    {"module", NULL, IPSQ_TEXT},  {"file", NULL, IPSQ_TEXT},
    {"line", NULL, IPSQ_COUNT},
};
static const struct ipsq_column slowest[] = {
    {"service", NULL, IPSQ_TEXT},
    {"process", "PROCESS", IPSQ_TEXT},
    {"arrival_ns", "ARRIVED", IPSQ_NS},
    {"ns", "TOOK", IPSQ_NS},
    {"queued_ns", "QUEUED", IPSQ_NS},
    {"untaken_ns", "ACCEPT DELAY", IPSQ_NS},
    {"own_ns", "SERVED", IPSQ_NS},
    {"elsewhere_ns", "BACK ENDS", IPSQ_NS},
    {"message_ns", "MESSAGES", IPSQ_NS},
    {"external_ns", "NOT RECORDED", IPSQ_NS},
    {"most", "MOST OF IT IN", IPSQ_TEXT},
    {"behind", NULL, IPSQ_TEXT},
    {"behind_ns", NULL, IPSQ_NS},
    {"behind_arrival_ns", "BEHIND THE ONE OF", IPSQ_NS},
    {"behind_took_ns", "THAT TOOK", IPSQ_NS},
};
static const struct ipsq_column stations[] = {
    {"service", NULL, IPSQ_TEXT},        {"station", "STATION", IPSQ_TEXT},
    {"kind", "KIND", IPSQ_TEXT},         {"busy_ns", "BUSY", IPSQ_NS},
    {"demand_ns", "A REQUEST", IPSQ_NS}, {"bound", "AT MOST /S", IPSQ_REAL},
    {"use", "IN USE", IPSQ_SHARE},
};

/* Fills cells with the parts of a request's time, on average over `n` requests.
 * Returns the next cell. */
static struct ipsq_cell *fill_time_cells(struct ipsq_cell *cell,
                                         const Ips__RequestParts *p, uint64_t n)
{
    const uint64_t ns[] = {p->ns,         p->queued_ns,    p->untaken_ns,
                           p->own_ns,     p->elsewhere_ns, p->message_ns,
                           p->external_ns};
    for (size_t i = 0; i < IPSQ_COUNT_OF(ns); i++)
        *cell++ = ipsq_count_cell(ns[i] / n);
    return cell;
}

static void put_request_time_parts_row(struct ipsq_table *t,
                                       const char *service, const char *which,
                                       const Ips__RequestParts *p)
{
    if (!p || !p->requests)
        return;
    struct ipsq_cell *cell = ipsq_table_add_row(t);
    uint64_t n = p->requests;
    *cell++ = ipsq_text_cell(service);
    *cell++ = ipsq_text_cell(which);
    *cell++ = ipsq_count_cell(n);
    cell = fill_time_cells(cell, p, n);
    *cell++ = ipsq_text_cell(p->most);
    *cell++ = ipsq_count_cell(p->most_ns / n);
}

static void put_services(struct ipsq_out *out, const Ips__RequestsAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "services", services, IPSQ_COUNT_OF(services));
    t.spare_columns = "pipelined connections p90_ns processes";
    for (size_t i = 0; i < a->n_services; i++) {
        const Ips__ServiceRow *r = a->services[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->service);
        *cell++ = ipsq_text_cell(r->process);
        *cell++ = ipsq_count_cell(r->processes);
        *cell++ = ipsq_count_cell(r->connections);
        *cell++ = ipsq_count_cell(r->pipelined);
        *cell++ = ipsq_count_cell(r->requests);
        *cell++ = ipsq_count_cell(r->requests ? r->from_ns : IPS_UNMEASURED);
        *cell++ = ipsq_count_cell(r->requests ? r->to_ns : IPS_UNMEASURED);
        *cell++ = ipsq_real_cell(r->requests ? r->rate : IPS_UNMEASURED_REAL);
        *cell++ = ipsq_count_cell(r->mean_ns);
        *cell++ = ipsq_count_cell(r->p50_ns);
        *cell++ = ipsq_count_cell(r->p90_ns);
        *cell++ = ipsq_count_cell(r->p99_ns);
        *cell++ = ipsq_count_cell(r->max_ns);
        *cell++ = ipsq_count_cell(r->untraced_clients);
        *cell++ = ipsq_real_cell(r->bound);
    }
    ipsq_out_write_table(out, &t, "");
    ipsq_table_release(&t);
}

static void put_request_time_parts(struct ipsq_out *out,
                                   const Ips__RequestsAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "parts", parts, IPSQ_COUNT_OF(parts));
    t.spare_columns = "external_ns requests untaken_ns message_ns";
    for (size_t i = 0; i < a->n_services; i++) {
        const Ips__ServiceRow *r = a->services[i];
        put_request_time_parts_row(&t, r->service, "all", r->all);
        put_request_time_parts_row(&t, r->service, "40% to 60%", r->median);
        put_request_time_parts_row(&t, r->service, "slowest 1%", r->slowest);
    }
    if (t.row_count || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t,
                             "what the time of a request was, on average");
    ipsq_table_release(&t);
}

static void fill_cause_and_location_cells(struct ipsq_cell *cell,
                                          const Ips__RequestMore *m)
{
    *cell++ = ipsq_text_cell(*m->cause ? m->cause : NULL);
    *cell++ = ipsq_text_cell(m->procedure);
    *cell++ = ipsq_text_cell(m->module);
    *cell++ = ipsq_text_cell(*m->file ? m->file : NULL);
    *cell++ = ipsq_count_cell(m->line ? m->line : IPS_UNMEASURED);
}

/* Writes what typical requests wait for. Writes nothing in the table format,
 * because `ipsq why` describes it in words. */
static void put_typical_causes(struct ipsq_out *out,
                               const Ips__RequestsAnswer *a)
{
    struct ipsq_table t;
    if (out->format == IPSQ_TABLE)
        return;
    ipsq_table_init(&t, "typical", typical, IPSQ_COUNT_OF(typical));
    for (size_t i = 0; i < a->n_services; i++) {
        for (size_t k = 0; k < a->services[i]->n_typical; k++) {
            const Ips__RequestMore *m = a->services[i]->typical[k];
            struct ipsq_cell *cell = ipsq_table_add_row(&t);
            *cell++ = ipsq_text_cell(a->services[i]->service);
            *cell++ = ipsq_count_cell(m->median_ns);
            fill_cause_and_location_cells(cell, m);
        }
    }
    ipsq_out_write_table(out, &t, NULL);
    ipsq_table_release(&t);
}

/* Writes in which parts of their time the slowest requests exceed the median
 * ones. */
static void put_excess_of_slowest(struct ipsq_out *out,
                                  const Ips__RequestsAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "more", more, IPSQ_COUNT_OF(more));
    for (size_t i = 0; i < a->n_services; i++) {
        for (size_t k = 0; k < a->services[i]->n_more; k++) {
            const Ips__RequestMore *m = a->services[i]->more[k];
            struct ipsq_cell *cell = ipsq_table_add_row(&t);
            *cell++ = ipsq_text_cell(a->services[i]->service);
            *cell++ = ipsq_count_cell(m->slow_ns);
            *cell++ = ipsq_count_cell(m->median_ns);
            fill_cause_and_location_cells(cell, m);
        }
    }
    if (t.row_count || out->format != IPSQ_TABLE)
        ipsq_out_write_table(
            out, &t, "what the slowest requests have more of than the median");
    ipsq_table_release(&t);
}

static uint64_t count_requests(const Ips__RequestsAnswer *a)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a->n_services; i++)
        n += a->services[i]->requests;
    return n;
}

static void put_slowest(struct ipsq_out *out, const Ips__RequestsAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "slowest", slowest, IPSQ_COUNT_OF(slowest));
    t.spare_columns =
        "behind_arrival_ns external_ns untaken_ns message_ns arrival_ns";
    for (size_t i = 0; i < a->n_slowest; i++) {
        const Ips__RequestRow *r = a->slowest[i];
        const Ips__RequestParts *p = r->parts;
        bool queued = *r->behind;
        if (!p)
            continue;
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->service);
        *cell++ = ipsq_text_cell(r->process);
        *cell++ = ipsq_count_cell(r->arrival_ns);
        cell = fill_time_cells(cell, p, 1);
        *cell++ = ipsq_text_cell(p->most);
        *cell++ = ipsq_text_cell(queued ? r->behind : NULL);
        *cell++ = ipsq_count_cell(queued ? r->behind_ns : IPS_UNMEASURED);
        *cell++ =
            ipsq_count_cell(queued ? r->behind_arrival_ns : IPS_UNMEASURED);
        *cell++ = ipsq_count_cell(queued ? r->behind_took_ns : IPS_UNMEASURED);
    }
    if (t.row_count || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t, "the slowest");
    ipsq_table_release(&t);
    ipsq_put_left_out_count(out, "slowest", count_requests(a) - a->n_slowest);
}

static void put_stations(struct ipsq_out *out, const Ips__RequestsAnswer *a,
                         uint64_t top)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "stations", stations, IPSQ_COUNT_OF(stations));
    for (size_t i = 0; i < a->n_stations && (!top || i < top); i++) {
        const Ips__StationRow *r = a->stations[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->service);
        *cell++ = ipsq_text_cell(r->station);
        *cell++ = ipsq_text_cell(r->kind);
        *cell++ = ipsq_count_cell(r->busy_ns);
        *cell++ = ipsq_count_cell_of_double(r->demand_ns);
        *cell++ = ipsq_real_cell(r->bound);
        *cell++ = ipsq_real_cell(r->use);
    }
    ipsq_out_write_table(out, &t, "");
    ipsq_table_release(&t);
    ipsq_put_left_out_count(
        out, "stations", top && a->n_stations > top ? a->n_stations - top : 0);
}

static int print_requests(const struct ipsq_options *o, const char *run_name,
                          bool bottleneck, const Ips__RequestsAnswer *a,
                          uint64_t top, struct ips_err *err)
{
    struct ipsq_out out;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_set_certificate_write_limitations(&out, a->certificate,
                                               o->verbose);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", "run",
                                    ipsq_text_cell(run_name));
    ipsq_out_write_or_collect_value(&out, IPSQ_BOOL, "open",
                                    a->open ? "still open" : NULL,
                                    ipsq_bool_cell(a->open));
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "category", NULL,
                                    ipsq_text_cell(a->category));
    ipsq_out_write_or_collect_value(&out, IPSQ_NS, "took_ns", NULL,
                                    ipsq_count_cell(a->took_ns));
    if (bottleneck) {
        const Ips__ServiceRow *r =
            a->n_stations && a->n_services ? a->services[0] : NULL;
        ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "service", "service",
                                        ipsq_text_cell(r ? r->service : NULL));
        ipsq_out_write_or_collect_value(
            &out, IPSQ_REAL, "rate", "requests /s",
            ipsq_real_cell(r ? r->rate : IPS_UNMEASURED_REAL));
        ipsq_out_write_or_collect_value(
            &out, IPSQ_REAL, "bound", "at most /s",
            ipsq_real_cell(r ? r->bound : IPS_UNMEASURED_REAL));
        put_stations(&out, a, top);
    } else {
        put_services(&out, a);
        put_request_time_parts(&out, a);
        put_typical_causes(&out, a);
        put_excess_of_slowest(&out, a);
        put_slowest(&out, a);
    }
    int rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(a->certificate);
}

static int run_requests(const struct ipsq_command *self,
                        const struct ipsq_options *o, struct ipsq_session *s,
                        struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__RequestsAsk ask = IPS__REQUESTS_ASK__INIT;
    Ips__Lane scenario = IPS__LANE__INIT;
    const Ips__Reply *last = NULL;
    bool bottleneck = self == &ipsq_cmd_bottleneck;
    uint64_t top = o->top;
    ipsq_fill_scenario(o, &scenario);
    ask.lane = &scenario;
    if (!top && (!bottleneck || o->format == IPSQ_TABLE))
        top = TABLE_TOP;
    ask.top = bottleneck ? 0 : (uint32_t)(top < UINT32_MAX ? top : UINT32_MAX);
    ask.from_ns = o->from_ns;
    ask.to_ns = o->to_ns;
    ask.phase = o->phase;
    ask.by = ips_unconst_text(o->by ? o->by : "");
    rq.ask_case = IPS__REQUEST__ASK_REQUESTS;
    rq.requests = &ask;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_REQUESTS, err);
    return rc < 0 ? rc
                  : print_requests(o, rq.run, bottleneck, last->requests, top,
                                   err);
}

const struct ipsq_command ipsq_cmd_requests = {
    .name = "requests",
    .usage = "[RUN] [--by WHAT] [--top N] [--mtime SPEC]\n"
             "                     [--external WHICH] [--from TIME] [--to "
             "TIME] [--phase N]",
    .summary = "requests to a service: rate, latency, the slowest",
    .group = IPSQ_ASK,
    .examples = "  ipsq requests run3\n"
                "  ipsq requests run3 --by mark --top 20\n",
    .help = "A request is one turn of a connection that a recorded process "
            "accepted: received, then answered. Its time is the sum of: QUEUED "
            "behind other requests of the service; ACCEPT DELAY, although the "
            "serving thread had no other request; SERVED by threads of the "
            "service; waiting for threads of BACK ENDS; MESSAGES in transit; "
            "and waiting for something NOT RECORDED. Connections that send a "
            "request before the last answer "
            "are LEFT OUT. If no process accepted a connection, or with --by "
            "mark, a request is what a thread does between ips_mark(\"begin "
            "NAME\") and \"end NAME\". --top: the number of slowest requests "
            "to list (10).\n",
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(BY) | IPSQ_HAS(TOP) |
               IPSQ_HAS(MTIME) | IPSQ_HAS(EXTERNAL) | IPSQ_HAS(FROM) |
               IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .bys = IPSQ_IS_BY(CONNECTION) | IPSQ_IS_BY(MARK) | IPSQ_IS_BY(TASK),
    .max_args = 1,
    .run = run_requests,
};

const struct ipsq_command ipsq_cmd_bottleneck = {
    .name = "bottleneck",
    .usage = "[RUN] [--by WHAT] [--top N] [--mtime SPEC]\n"
             "                       [--external WHICH] [--from TIME] [--to "
             "TIME] [--phase N]",
    .summary = "what limits the rate of requests",
    .group = IPSQ_ASK,
    .examples = "  ipsq bottleneck run3\n"
                "  ipsq bottleneck run3 --by task\n",
    .help = "Covers the service with the most requests. A station is a thread, "
            "the cores of a machine, a lock or a link. Its demand is how long "
            "one request keeps it busy: CPU time, for a thread also waits for "
            "disk; for a lock the time it was held while other threads waited "
            "for it; for a link the time for its bytes, from --mtime or `ipsq "
            "calibrate`. The station with the greatest demand limits the "
            "rate: if a request needs it for 2 ms, to 500 requests a second. "
            "Threads of clients are shown but do "
            "not limit the service.\n",
    .options = IPSQ_HAS(FRESH) | IPSQ_HAS(BY) | IPSQ_HAS(TOP) |
               IPSQ_HAS(MTIME) | IPSQ_HAS(EXTERNAL) | IPSQ_HAS(FROM) |
               IPSQ_HAS(TO) | IPSQ_HAS(PHASE),
    .formats = IPSQ_FORMATS_USUAL,
    .bys = IPSQ_IS_BY(CONNECTION) | IPSQ_IS_BY(MARK) | IPSQ_IS_BY(TASK),
    .max_args = 1,
    .run = run_requests,
};
