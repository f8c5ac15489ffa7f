#include "master/why/service.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "master/why/why.h"

struct service_explanation {
    const Ips__ServiceRow *s;
    const char *run;
    struct arena *a;
    Ips__WhyAnswer *to;
    size_t cap;
    const char *sure, *sure_why;
};

static Ips__WhyRow *add_finding(struct service_explanation *y, const char *kind,
                                char *says)
{
    Ips__WhyRow *row = arena_alloc(y->a, sizeof(*row));
    if (!row ||
        !arena_reserve_array_slot(y->a, &y->to->findings, y->to->n_findings,
                                  &y->cap, sizeof(*y->to->findings)))
        return NULL;
    ips__why_row__init(row);
    row->kind = ips_unconst_text(kind);
    row->says = says;
    row->sure = ips_unconst_text(y->sure);
    row->sure_why = ips_unconst_text(y->sure_why);
    y->to->findings[y->to->n_findings++] = row;
    return row;
}

static char *format_ipsq_command(const struct service_explanation *y,
                                 const char *what)
{
    return arena_printf(y->a, "ipsq %s %s", what, y->run);
}

/* ---- latency ---------------------------------------------------------- */

enum latency_part { QUEUED, UNTAKEN, OWN, ELSEWHERE, MESSAGE, EXTERNAL, PARTS };

static const struct {
    const char *kind, *what, *supposes;
} words[PARTS] = {
    [QUEUED] = {"queueing", "queued behind other requests",
                "enough threads or processes serve that none queues"},
    [UNTAKEN] = {"not-taken", "until an idle thread accepts them",
                 "they are accepted at once"},
    [OWN] = {"service-time", "in the service's own threads",
             "the service's threads take no time"},
    [ELSEWHERE] = {"back-end", "waiting on back ends",
                   "the back ends take no time"},
    [MESSAGE] = {"slow-messages", "in messages between threads",
                 "messages take no time"},
    [EXTERNAL] = {"outside",
                  "waiting for something not recorded (disk, timer, unrecorded "
                  "peer)",
                  "these waits end at once"},
};

static void compute_mean_parts(const Ips__RequestParts *p, uint64_t out[PARTS])
{
    uint64_t n = p && p->requests ? p->requests : 1;
    const uint64_t sum[PARTS] = {p ? p->queued_ns : 0,  p ? p->untaken_ns : 0,
                                 p ? p->own_ns : 0,     p ? p->elsewhere_ns : 0,
                                 p ? p->message_ns : 0, p ? p->external_ns : 0};
    for (int i = 0; i < PARTS; i++)
        out[i] = sum[i] / n;
}

/* Returns " in f (a.c:3)", or "" if it is not known. */
static const char *request_site_text(struct arena *a, const Ips__RequestMore *m)
{
    if (!*m->procedure)
        return "";
    if (*m->file && m->line)
        return arena_printf(a, " in %s (%s:%u)", m->procedure, m->file,
                            m->line);
    return arena_printf(a, " in %s (%s)", m->procedure, m->module);
}

/* Returns the call site where requests around the median compute most
 * (`computing`) or wait most; never NULL. */
static const Ips__RequestMore *typical_call_site(const Ips__ServiceRow *s,
                                                 bool computing)
{
    static const Ips__RequestMore none = IPS__REQUEST_MORE__INIT;
    for (size_t i = 0; i < s->n_typical; i++) {
        if (!*s->typical[i]->cause == computing)
            return s->typical[i];
    }
    return &none;
}

static void set_computing_site(Ips__WhyRow *row, const Ips__RequestMore *m)
{
    row->file = m->file;
    row->procedure = m->procedure;
    row->module = m->module;
    row->line = m->line;
}

static void set_waiting_site(Ips__WhyRow *row, const Ips__RequestMore *m)
{
    row->wait_procedure = m->procedure;
    row->wait_file = m->file;
    row->wait_line = m->line;
}

/* Returns a text for the call site of a part of the time, and sets the site in
 * `row`. The site of CPU time is shown with OWN or ELSEWHERE, whichever is
 * larger. */
static const char *
set_call_site_and_return_its_text(struct service_explanation *y,
                                  Ips__WhyRow *row, int part,
                                  const uint64_t ns[PARTS])
{
    const Ips__RequestMore *m = typical_call_site(y->s, part != EXTERNAL);
    bool mine = part == OWN         ? ns[OWN] >= ns[ELSEWHERE]
                : part == ELSEWHERE ? ns[OWN] < ns[ELSEWHERE]
                                    : part == EXTERNAL;
    if (!mine || !*m->procedure)
        return "";
    if (part == EXTERNAL) {
        set_waiting_site(row, m);
        return arena_printf(y->a, "; median requests wait most (%s)%s",
                            m->cause, request_site_text(y->a, m));
    }
    set_computing_site(row, m);
    return arena_printf(y->a, "; median requests compute most%s: %s",
                        request_site_text(y->a, m),
                        why_format_ns(y->a, m->median_ns));
}

static void add_findings_of_parts(struct service_explanation *y)
{
    const Ips__RequestParts *all = y->s->all;
    uint64_t ns[PARTS], mean = all->ns / all->requests;
    compute_mean_parts(all, ns);
    for (int i = 0; i < PARTS; i++) {
        uint32_t ppm = why_share_ppm(ns[i], mean);
        if (ppm < WHY_SERVICE_PART_PPM)
            continue;
        Ips__WhyRow *row = add_finding(
            y, words[i].kind,
            arena_printf(y->a, "Requests spend %s of %s (%.0f%%) %s",
                         why_format_ns(y->a, ns[i]), why_format_ns(y->a, mean),
                         (double)ppm / 1e4, words[i].what));
        if (!row)
            return;
        row->evidence = arena_printf(
            y->a, "%" PRIu64 " requests of %s; most of their time in %s%s",
            y->s->requests, y->s->service, all->most,
            set_call_site_and_return_its_text(y, row, i, ns));
        row->supposes = ips_unconst_text(words[i].supposes);
        row->gain_ns = row->bound_ns = ns[i];
        row->gain_ppm = ppm;
        row->path_ns = mean;
        row->object = all->most;
        row->command =
            i == OWN ? arena_printf(y->a, "ipsq procedures %s --object %s",
                                    y->run, y->s->process)
                     : format_ipsq_command(y, "requests");
    }
}

/* Returns "; 98 ms more than the median waiting (timer) in f (a.c:3)", or ""
 * if it is not known. */
static const char *
set_site_and_return_difference_text(struct service_explanation *y,
                                    Ips__WhyRow *row)
{
    if (y->s->n_more == 0)
        return "";
    const Ips__RequestMore *m = y->s->more[0];
    const char *ns = why_format_ns(y->a, m->slow_ns - m->median_ns);
    if (!*m->cause) {
        set_computing_site(row, m);
        return arena_printf(y->a, "; %s more than the median computing%s", ns,
                            request_site_text(y->a, m));
    }
    set_waiting_site(row, m);
    return arena_printf(y->a, "; %s more than the median waiting (%s)%s", ns,
                        m->cause, request_site_text(y->a, m));
}

/* Reports where the slowest requests spend more time than those around the
 * median. */
static void add_finding_if_slowest_are_far_slower(struct service_explanation *y)
{
    const Ips__RequestParts *slow = y->s->slowest, *mid = y->s->median;
    if (y->s->requests < WHY_SERVICE_MANY || !slow->requests || !mid->requests)
        return;
    uint64_t slow_ns[PARTS], mid_ns[PARTS];
    uint64_t slowest = slow->ns / slow->requests,
             median = mid->ns / mid->requests;
    if (slowest < WHY_SERVICE_TAIL * median || slowest == median)
        return;
    compute_mean_parts(slow, slow_ns);
    compute_mean_parts(mid, mid_ns);
    int most = 0;
    uint64_t more[PARTS];
    for (int i = 0; i < PARTS; i++) {
        more[i] = slow_ns[i] > mid_ns[i] ? slow_ns[i] - mid_ns[i] : 0;
        most = more[i] > more[most] ? i : most;
    }
    Ips__WhyRow *row = add_finding(
        y, "slow-requests",
        arena_printf(y->a,
                     "The slowest 1%% (%" PRIu64 ") take %s, %.0f times the "
                     "median of %s: %s more %s",
                     slow->requests, why_format_ns(y->a, slowest),
                     median ? (double)slowest / (double)median : 0,
                     why_format_ns(y->a, median),
                     why_format_ns(y->a, more[most]), words[most].what));
    if (!row)
        return;
    row->evidence = arena_printf(y->a, "most of their time in %s%s", slow->most,
                                 set_site_and_return_difference_text(y, row));
    row->supposes = ips_unconst_text("they take as long as the median");
    /* The gain per mean request: only the slowest 1% get faster. */
    row->gain_ns = row->bound_ns =
        (slowest - median) * slow->requests / y->s->requests;
    row->gain_ppm = why_share_ppm(row->gain_ns, y->s->mean_ns);
    row->path_ns = slowest;
    row->object = slow->most;
    row->other = ips_unconst_text(words[most].kind);
    row->command = arena_printf(y->a, "ipsq requests %s --top %" PRIu64, y->run,
                                slow->requests);
}

static int compare_service_findings_by_gain(const void *a, const void *b)
{
    const Ips__WhyRow *x = *(Ips__WhyRow *const *)a;
    const Ips__WhyRow *y = *(Ips__WhyRow *const *)b;
    if (x->gain_ns != y->gain_ns)
        return x->gain_ns > y->gain_ns ? -1 : 1;
    return strcmp(x->kind, y->kind);
}

static void add_latency_findings(struct service_explanation *y)
{
    add_findings_of_parts(y);
    add_finding_if_slowest_are_far_slower(y);
    if (y->to->n_findings)
        qsort(y->to->findings, y->to->n_findings, sizeof(*y->to->findings),
              compare_service_findings_by_gain);
}

/* ---- throughput ------------------------------------------------------- */

static const Ips__StationRow *find_nth_station(const Ips__RequestsAnswer *from,
                                               bool client, unsigned skip)
{
    for (size_t i = 0; i < from->n_stations; i++) {
        const Ips__StationRow *s = from->stations[i];
        if ((strcmp(s->kind, "client") == 0) == client && skip-- == 0)
            return s;
    }
    return NULL;
}

static void add_throughput_findings(struct service_explanation *y,
                                    const Ips__RequestsAnswer *from)
{
    const Ips__StationRow *first = find_nth_station(from, false, 0);
    const Ips__StationRow *next = find_nth_station(from, false, 1);
    const Ips__StationRow *client = find_nth_station(from, true, 0);
    if (!first || first->demand_ns <= 0)
        return;
    Ips__WhyRow *row = add_finding(
        y, "bottleneck",
        arena_printf(y->a,
                     "%s is busy for %s a request, so at most %.0f requests a "
                     "second can be served",
                     first->station,
                     why_format_ns(y->a, (uint64_t)first->demand_ns),
                     first->bound));
    if (!row)
        return;
    const char *limit =
        next ? arena_printf(y->a, "; the next limit is %s with %.0f a second",
                            next->station, next->bound)
             : "";
    row->evidence = arena_printf(
        y->a,
        "busy %s in %" PRIu64 " requests; %.0f a second arrived, %.0f%% "
        "utilisation%s",
        why_format_ns(y->a, first->busy_ns), y->s->requests, y->s->rate,
        100 * first->use, limit);
    row->object = first->station;
    row->command = format_ipsq_command(y, "bottleneck");
    if (!client || client->demand_ns <= first->demand_ns)
        return;
    row = add_finding(
        y, "slow-clients",
        arena_printf(y->a,
                     "The client %s is busier than the service (%s a "
                     "request) and sends at most %.0f requests a second",
                     client->station,
                     why_format_ns(y->a, (uint64_t)client->demand_ns),
                     client->bound));
    if (!row)
        return;
    row->evidence =
        arena_printf(y->a, "busy %s", why_format_ns(y->a, client->busy_ns));
    row->object = client->station;
    row->command = format_ipsq_command(y, "bottleneck");
}

/* ---- the whole answer --------------------------------------------------- */

static const char *explain_absence_of_requests(const Ips__ServiceRow *s,
                                               struct arena *a)
{
    if (s && s->pipelined)
        return arena_printf(
            a,
            "no requests to %s: %" PRIu64 " of its %" PRIu64 " connections are "
            "pipelined or multiplexed (a request was sent before the last was "
            "answered), which IPS does not count",
            s->service, s->pipelined, s->connections);
    return "no requests: no recorded process accepted a connection and "
           "answered on it, or marked requests with ips_mark()";
}

void why_explain_service(const Ips__RequestsAnswer *from, const char *run,
                         const char *asked, struct arena *a, Ips__WhyAnswer *to)
{
    const Ips__ServiceRow *s = from->n_services ? from->services[0] : NULL;
    struct service_explanation y = {.s = s, .run = run, .a = a, .to = to};
    bool any = s && s->requests;
    bool many = any && s->requests >= WHY_SERVICE_MANY;
    bool complete = from->certificate && from->certificate->complete;
    bool both = strcmp(asked, "requests") == 0;
    to->answers = ips_unconst_text(asked);
    to->shape = ips_unconst_text(any ? "service" : "batch");
    y.sure = many && complete ? "high" : many ? "fair" : "low";
    y.sure_why = !complete ? "the answer is incomplete"
                 : many    ? ""
                           : "few requests";
    to->sure = ips_unconst_text(y.sure);
    to->sure_why = ips_unconst_text(y.sure_why);
    to->wall_ns = any ? s->mean_ns : 0;
    if (!any) {
        to->shape_says = ips_unconst_text(explain_absence_of_requests(s, a));
        return;
    }
    to->shape_says = arena_printf(
        a,
        "%s of %s: %" PRIu64 " requests, %.0f a second, median %s, 99%% %s%s",
        both ? "latency and throughput" : asked, s->service, s->requests,
        s->rate, why_format_ns(a, s->p50_ns), why_format_ns(a, s->p99_ns),
        both ? " (a service with unrecorded clients; --for turnaround shows "
               "where its elapsed time went)"
             : "");
    if (strcmp(asked, "throughput") != 0)
        add_latency_findings(&y);
    if (strcmp(asked, "latency") != 0)
        add_throughput_findings(&y, from);
}
