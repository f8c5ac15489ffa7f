/* Makes the answer about requests: services, how their time was spent,
 * stations. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/machine_share.h"
#include "master/query/self_check.h"
#include "master/requests/requests.h"
#include "master/why/service.h"
#include "master/why/why.h"

struct filling {
    struct query *q;
    struct requests_data *d;
    struct arena *a;
    struct certificate *c;
    Ips__RequestsAnswer *out;
};

static char *service_name(const struct filling *f, uint32_t s)
{
    const struct request_service *v = &f->d->service[s];
    const struct machine_share *p = f->q->gather.active[v->machine];
    if (f->d->reported)
        return arena_printf(
            f->a, "/%s %s %s", p->machine,
            f->d->reported_by == REQUESTS_BY_TASK ? "task" : "mark", v->name);
    if (strncmp(v->name, "tcp ", 4) == 0)
        return arena_printf(f->a, "/%s %.*s", p->machine, (int)v->name_len,
                            v->name);
    return arena_printf(f->a, "/%s unix of %s", p->machine,
                        machine_share_process_name(p, v->family));
}

static char *process_object_name(const struct filling *f, uint32_t part,
                                 uint32_t process)
{
    char object[OBJECT_BYTES];
    machine_share_write_process_object_name(f->q->gather.active[part], process,
                                            object);
    return arena_printf(f->a, "%s", object);
}

static char *thread_object_name(const struct filling *f, uint32_t chain)
{
    const struct ips_chain *c = &f->d->path.merged.chains[chain];
    char object[OBJECT_BYTES];
    machine_share_write_process_object_name(f->q->gather.active[c->machine],
                                            c->process, object);
    return arena_printf(f->a, "%s/%u", object, c->tid);
}

/* ---- how time was spent ----------------------------------------------- */

static void add_times_of_request_to_sums(Ips__RequestParts *to,
                                         const struct ips_request *r)
{
    to->requests++;
    to->ns += ips_request_ns(r);
    to->queued_ns += r->queued;
    to->untaken_ns += r->untaken;
    to->own_ns += r->own;
    to->elsewhere_ns += r->elsewhere;
    to->message_ns += r->message;
    to->external_ns += r->external;
}

/* Sets the thread with the most time in the requests index[0..count). */
static void set_busiest_thread(const struct filling *f, Ips__RequestParts *to,
                               const uint32_t *index, uint32_t count)
{
    struct requests_data *d = f->d;
    const struct ips_graph *g = &d->path.merged;
    uint32_t most = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        ips_request_add_ns_by_chain(g, &d->path.est, &d->result.r[index[i]],
                                    d->chain_ns);
    for (uint32_t c = 0; c < g->chain_count; c++) {
        if (d->chain_ns[c] &&
            (most == UINT32_MAX || d->chain_ns[c] > d->chain_ns[most]))
            most = c;
    }
    to->most = ips_unconst_text("");
    if (most != UINT32_MAX) {
        to->most = thread_object_name(f, most);
        to->most_ns = d->chain_ns[most];
    }
    memset(d->chain_ns, 0, (size_t)g->chain_count * sizeof(*d->chain_ns));
}

static Ips__RequestParts *sum_times_of_requests(const struct filling *f,
                                                const uint32_t *index,
                                                uint32_t count)
{
    Ips__RequestParts *to = arena_alloc(f->a, sizeof(*to));
    if (!to)
        return NULL;
    ips__request_parts__init(to);
    for (uint32_t i = 0; i < count; i++)
        add_times_of_request_to_sums(to, &f->d->result.r[index[i]]);
    set_busiest_thread(f, to, index, count);
    return to;
}

/* ---- services --------------------------------------------------------- */

static void fill_times(const struct filling *f, Ips__ServiceRow *row,
                       const struct request_service *v)
{
    const struct ips_request *r = f->d->result.r;
    const struct ips_graph *g = &f->d->path.merged;
    const uint32_t *index = f->d->by_service + v->first;
    uint32_t n = v->count;
    uint64_t sum = 0;
    row->from_ns = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct ips_request *x = &r[index[i]];
        row->from_ns = ips_min_u64(row->from_ns, x->arrived_ns);
        row->to_ns = ips_max_u64(row->to_ns, x->finished_ns);
        row->untraced_clients +=
            !f->d->reported && g->xkind[x->first] != IPS_X_DATA;
        sum += ips_request_ns(x);
    }
    uint64_t window = row->to_ns - row->from_ns;
    row->rate = window ? (double)n * 1e9 / (double)window : 0;
    row->mean_ns = sum / n;
    row->p50_ns = ips_request_ns(&r[index[requests_percentile_index(n, 50)]]);
    row->p90_ns = ips_request_ns(&r[index[requests_percentile_index(n, 90)]]);
    row->p99_ns = ips_request_ns(&r[index[requests_percentile_index(n, 99)]]);
    row->max_ns = ips_request_ns(&r[index[n - 1]]);
    row->all = sum_times_of_requests(f, index, n);
    uint32_t low = requests_percentile_index(n, 40),
             high = requests_percentile_index(n, 60);
    row->median = sum_times_of_requests(f, index + low, high - low + 1);
    uint32_t tail = requests_tail_count(n);
    row->slowest = sum_times_of_requests(f, index + n - tail, tail);
}

static Ips__RequestMore *make_difference_row(const struct filling *f,
                                             const struct request_difference *m)
{
    Ips__RequestMore *to = arena_alloc(f->a, sizeof(*to));
    if (!to)
        return NULL;
    ips__request_more__init(to);
    to->cause = ips_unconst_text(m->cause);
    to->procedure = ips_unconst_text(m->procedure);
    to->module = ips_unconst_text(m->module ? m->module : "");
    to->file = ips_unconst_text(m->file ? m->file : "");
    to->line = m->source_line;
    to->slow_ns = m->slow_ns;
    to->median_ns = m->median_ns;
    return to;
}

static void fill_differences_and_typical_sites(const struct filling *f,
                                               Ips__ServiceRow *row, uint32_t s)
{
    const struct request_difference *m = &f->d->more[(size_t)s * REQUESTS_MORE];
    const struct request_difference *t = &f->d->typical[(size_t)s * 2];
    row->more = arena_alloc(f->a, REQUESTS_MORE * sizeof(*row->more));
    row->typical = arena_alloc(f->a, 2 * sizeof(*row->typical));
    for (size_t i = 0; row->more && i < REQUESTS_MORE && m[i].procedure; i++) {
        if (m[i].slow_ns <= m[i].median_ns)
            break;
        row->more[row->n_more++] = make_difference_row(f, &m[i]);
    }
    for (size_t i = 0; row->typical && i < 2; i++) {
        if (t[i].procedure)
            row->typical[row->n_typical++] = make_difference_row(f, &t[i]);
    }
}

static void fill_service(const struct filling *f, uint32_t s)
{
    const struct request_service *v = &f->d->service[s];
    Ips__ServiceRow *row = arena_alloc(f->a, sizeof(*row));
    if (!row)
        return;
    ips__service_row__init(row);
    row->service = service_name(f, s);
    row->process = process_object_name(f, v->machine, v->process);
    row->processes = v->processes;
    row->connections = v->connections;
    row->requests = v->count;
    row->mean_ns = row->p50_ns = row->p90_ns = row->p99_ns = row->max_ns =
        IPS_UNMEASURED;
    row->bound = IPS_UNMEASURED_REAL;
    for (uint32_t i = 0; i < f->d->end_count; i++)
        row->pipelined +=
            f->d->ends[i].service == s && f->d->result.pipelined_end[i];
    if (v->count) {
        fill_times(f, row, v);
        fill_differences_and_typical_sites(f, row, s);
    }
    f->out->services[f->out->n_services++] = row;
}

static int compare_services_by_requests(const void *a, const void *b)
{
    const Ips__ServiceRow *x = *(Ips__ServiceRow *const *)a;
    const Ips__ServiceRow *y = *(Ips__ServiceRow *const *)b;
    if (x->requests != y->requests)
        return x->requests > y->requests ? -1 : 1;
    return strcmp(x->service, y->service);
}

/* Sorts the services by their number of requests, but puts the busiest service
 * first, because the stations are shown for it. */
static void sort_services_busiest_first(Ips__RequestsAnswer *out,
                                        Ips__ServiceRow *busiest)
{
    size_t at = 0;
    if (out->n_services == 0)
        return;
    qsort(out->services, out->n_services, sizeof(*out->services),
          compare_services_by_requests);
    while (out->services[at] != busiest)
        at++;
    memmove(&out->services[1], out->services, at * sizeof(*out->services));
    out->services[0] = busiest;
}

/* ---- the slowest requests, one by one --------------------------------- */

static Ips__RequestRow *make_request_row(const struct filling *f, uint32_t i)
{
    const struct ips_request *x = &f->d->result.r[i];
    Ips__RequestRow *row = arena_alloc(f->a, sizeof(*row));
    if (!row)
        return NULL;
    ips__request_row__init(row);
    const struct ips_served_end *e = &f->d->ends[x->end];
    row->service = service_name(f, e->service);
    row->process =
        process_object_name(f, e->machine, f->d->end_process[x->end]);
    row->arrival_ns = x->arrived_ns;
    row->parts = sum_times_of_requests(f, &i, 1);
    row->behind = ips_unconst_text("");
    row->behind_ns = x->behind_ns;
    if (x->behind != IPS_NO_REQUEST) {
        const struct ips_request *b = &f->d->result.r[x->behind];
        row->behind = process_object_name(f, f->d->ends[b->end].machine,
                                          f->d->end_process[b->end]);
        row->behind_arrival_ns = b->arrived_ns;
        row->behind_took_ns = ips_request_ns(b);
    }
    return row;
}

static void fill_slowest(const struct filling *f, uint32_t top)
{
    const struct ips_requests *found = &f->d->result;
    const struct ips_request *r = found->r;
    uint32_t *end = calloc((size_t)f->d->service_count + 1, sizeof(*end));
    f->out->slowest = arena_alloc(f->a, ((size_t)top + 1) * sizeof(void *));
    for (uint32_t s = 0; end && s < f->d->service_count; s++)
        end[s] = f->d->service[s].first + f->d->service[s].count;
    for (uint32_t n = 0; end && f->out->slowest && n < top; n++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t s = 0; s < f->d->service_count; s++) {
            if (end[s] == f->d->service[s].first)
                continue;
            if (best == UINT32_MAX ||
                ips_request_ns(&r[f->d->by_service[end[s] - 1]]) >
                    ips_request_ns(&r[f->d->by_service[end[best] - 1]]))
                best = s;
        }
        Ips__RequestRow *row =
            best == UINT32_MAX
                ? NULL
                : make_request_row(f, f->d->by_service[--end[best]]);
        if (!row)
            break;
        f->out->slowest[f->out->n_slowest++] = row;
    }
    free(end);
}

/* ---- the answer ------------------------------------------------------- */

/* Returns the station that limits the service; NULL: only clients are known. */
static const Ips__StationRow *limiting_station(const struct filling *f)
{
    for (size_t i = 0; i < f->out->n_stations; i++) {
        if (strcmp(f->out->stations[i]->kind, "client") != 0)
            return f->out->stations[i];
    }
    return NULL;
}

/* Returns the utilisation, in ppm, of the station that limits the service, if
 * that is a thread; else 10^6. */
static uint32_t limiting_thread_use_ppm(const struct filling *f)
{
    const Ips__StationRow *s = limiting_station(f);
    if (!s || strcmp(s->kind, "thread") != 0 || s->use >= 1)
        return 1000000;
    return (uint32_t)(s->use * 1e6);
}

static void add_notes(const struct filling *f)
{
    const struct ips_requests *found = &f->d->result;
    uint64_t outside = 0;
    for (size_t i = 0; i < f->out->n_services; i++)
        outside += f->out->services[i]->untraced_clients;
    if (!f->out->n_services)
        certificate_add_note(f->a, f->c,
                             "no requests: no process answered on a connection "
                             "that it had accepted, and none marked any "
                             "(ips_mark(\"begin NAME\"))");
    if (f->out->n_stations && limiting_thread_use_ppm(f) < REQUESTS_ALONE_PPM)
        certificate_add_note(
            f->a, f->c,
            arena_printf(f->a,
                         "the limit applies to the recorded load: %s was busy "
                         "%.0f%% of the time. Under more load a wake-up serves "
                         "several requests, and each may cost less",
                         limiting_station(f)->station,
                         (double)limiting_thread_use_ppm(f) / 1e4));
    if (found->pipelined)
        certificate_add_note(
            f->a, f->c,
            arena_printf(
                f->a,
                "%u connections on which requests were sent before the "
                "last answer (pipelined or multiplexed) are left out",
                found->pipelined));
    if (outside)
        certificate_add_note(
            f->a, f->c,
            arena_printf(
                f->a,
                "%" PRIu64 " requests came from unrecorded clients: their time "
                "begins with the receive; what they waited before is not known",
                outside));
    if (found->unanswered)
        certificate_add_note(f->a, f->c,
                             arena_printf(f->a,
                                          f->d->reported
                                              ? "%u requests did not end"
                                              : "%u requests had no answer yet",
                                          found->unanswered));
}

static void fill_answer(struct filling *f, const Ips__RequestsAsk *ask)
{
    Ips__RequestsAnswer *out = f->out;
    out->services = arena_alloc(f->a, ((size_t)f->d->service_count + 1) *
                                          sizeof(*out->services));
    for (uint32_t s = 0; out->services && s < f->d->service_count; s++)
        fill_service(f, s);
    if (f->a->failed)
        return;
    if (out->n_services)
        sort_services_busiest_first(out, out->services[f->d->busiest]);
    fill_slowest(f, ask->top);
    if (out->n_services && out->services[0]->requests)
        requests_add_stations_and_set_bound(f->q, f->a, out, out->services[0]);
    add_notes(f);
}

/* Sends the reply, or the reason why it cannot be sent. */
static void send_reply_or_error(struct query *q, const struct arena *a,
                                Ips__Reply *reply)
{
    struct ips_err err = {0};
    if (a->failed)
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
    else if (ips__reply__get_packed_size(reply) > QUERY_REPLY_BYTES)
        ips_err_set(&err, IPS_E_LIMIT,
                    "the answer does not fit a message: ask for less (--top)");
    if (err.code)
        query_fail(q, &err);
    else
        query_answer(q, reply);
}

static void answer_why(struct query *q, struct arena *a,
                       const Ips__RequestsAnswer *from)
{
    const Ips__WhyAsk *ask = q->request->why;
    Ips__Reply reply = IPS__REPLY__INIT;
    Ips__WhyAnswer answer = IPS__WHY_ANSWER__INIT;
    answer.own_ns = answer.wall_ns = answer.sched_ns = answer.cpu_ns =
        IPS_UNMEASURED;
    answer.total_cpu_ns = answer.on_cpu_ns = answer.run_delay_ns =
        IPS_UNMEASURED;
    answer.outside_ns = answer.crossing_ns = answer.other_ns = IPS_UNMEASURED;
    answer.quiet_ns = IPS_UNMEASURED;
    const struct why_facts f = {.run = q->run,
                                .windowed = ask->from_ns || ask->to_ns,
                                .from_ns = ask->from_ns,
                                .to_ns = ask->to_ns,
                                .window_phase = ask->phase};
    why_explain_service(from, why_run_and_window_options(&f, a), ask->answer, a,
                        &answer);
    answer.from_ns = ask->from_ns;
    answer.to_ns = ask->to_ns;
    if (ask->top && answer.n_findings > ask->top) {
        answer.left_out = answer.n_findings - ask->top;
        answer.n_findings = ask->top;
    }
    answer.elapsed_ns = from->elapsed_ns;
    answer.open = from->open;
    answer.category = from->category;
    answer.certificate = from->certificate;
    answer.took_ns = master_now_ns() - q->begun_ns;
    reply.answer_case = IPS__REPLY__ANSWER_WHY;
    reply.why = &answer;
    send_reply_or_error(q, a, &reply);
}

void requests_send_requests_or_why_answer(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    const Ips__RequestsAsk none = IPS__REQUESTS_ASK__INIT;
    struct arena a = {0};
    struct certificate c;
    Ips__RequestsAnswer answer = IPS__REQUESTS_ANSWER__INIT;
    struct filling f = {q, d, &a, &c, &answer};
    certificate_fill(q, &a, &c);
    c.msg.unmatched += d->path.unmatched;
    c.msg.engine =
        ips_unconst_text("central (requests: all events at the master)");
    c.msg.message_times = path_message_times_text(
        q, &a, &d->path.scenarios[SCENARIO_MAIN].scenario);
    if (weighting_clock_alignment_text(&d->path))
        c.msg.clock =
            ips_unconst_text(weighting_clock_alignment_text(&d->path));
    answer.category = ips_unconst_text("3");
    answer.elapsed_ns = path_command_elapsed_ns(q);
    answer.open = certificate_run_is_open(q);
    bool why = query_is_why_about_requests(q->request);
    fill_answer(&f, why ? &none : q->request->requests);
    self_check_requests_answer(&a, &c, &answer);
    answer.certificate = &c.msg;
    certificate_set_category_and_source(q, &a, &c, 3, "the slaves' graphs");
    answer.took_ns = c.msg.took_ns;
    if (why) {
        answer_why(q, &a, &answer);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_REQUESTS;
        reply.requests = &answer;
        send_reply_or_error(q, &a, &reply);
    }
    arena_release(&a);
}
