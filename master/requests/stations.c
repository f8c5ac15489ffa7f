/* The stations that a request keeps busy: threads, cores, locks, links; and
 * the clients. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/base/master.h"
#include "master/query/machine_share.h"
#include "master/requests/requests.h"
#include "master/tables/matrix.h"

struct filling {
    struct query *q;
    struct requests_data *d;
    struct arena *a;
    Ips__RequestsAnswer *out;
    const Ips__ServiceRow *service;
    size_t cap;
};

/* Whether a thread that waits for this cause is busy with its request, so that
 * it cannot serve another. Waits for locks do not count: an idle worker may
 * wait for one too (a condition). */
static bool cause_keeps_thread_busy(const char *cause)
{
    return strcmp(cause, "disk") == 0 || strcmp(cause, "file lock") == 0;
}

static uint64_t sum_waits_that_keep_thread_busy(const Ips__ThreadRow *t)
{
    uint64_t busy = 0;
    for (size_t i = 0; i < t->n_waits; i++) {
        if (cause_keeps_thread_busy(t->waits[i]->cause))
            busy = ips_add_sat(busy, t->waits[i]->ns);
    }
    return busy;
}

/* ---- activity outside of requests ------------------------------------- */

static void store_span_of_busiest_service(struct requests_data *d)
{
    const struct request_service *v = &d->service[d->busiest];
    d->first_ns = UINT64_MAX;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct ips_request *r = &d->result.r[d->by_service[v->first + i]];
        d->first_ns = ips_min_u64(d->first_ns, r->arrived_ns);
        d->last_ns = ips_max_u64(d->last_ns, r->finished_ns);
    }
}

/* Returns the part of `ns`, spread evenly over [begin, begin + length), that is
 * outside the service's requests. */
static uint64_t share_of_ns_outside_requests(const struct requests_data *d,
                                             uint64_t ns, uint64_t begin,
                                             uint64_t length)
{
    uint64_t end = ips_add_sat(begin, length);
    if (length == 0)
        return requests_busiest_span_contains_time(d, begin) ? 0 : ns;
    uint64_t in = ips_sub_sat(ips_min_u64(end, d->last_ns),
                              ips_max_u64(begin, d->first_ns));
    return ns - (uint64_t)((ips_u128)ns * in / length);
}

/* Returns the index of the machine's first chain in the merged graph. */
static uint32_t first_chain_of_machine(const struct requests_data *d,
                                       const struct machine_share *p)
{
    const struct ips_graph *g = &d->path.merged;
    uint32_t c = 0;
    while (c < g->chain_count && g->chains[c].machine != p->number)
        c++;
    return c;
}

static void sum_time_outside_requests(struct requests_data *d,
                                      const struct machine_share *p)
{
    const struct ips_graph *g = &d->path.merged;
    const struct engine_machine *e = engine_data_of_machine(p);
    const struct waits_rows *rows = &d->waits.machine[p->number];
    const uint64_t *est = d->path.est.est;
    uint64_t row = 0; /* rows are ordered by node */
    for (uint32_t k = first_chain_of_machine(d, p);
         k < g->chain_count && g->chains[k].machine == p->number; k++) {
        const struct ips_chain *c = &g->chains[k];
        /* The arc's `wall` weight leaves out the sleep at its end. So its CPU
         * time is within the first g->w[at] ns. */
        for (uint32_t at = c->first + 1; at < c->first + c->count; at++)
            d->outside_cpu[k] += share_of_ns_outside_requests(
                d, e->g.w[at - e->base], est[at - 1], g->w[at]);
        for (; row < rows->count; row++) {
            uint32_t at = (uint32_t)e->base + rows->node[row];
            if (at >= c->first + c->count)
                break;
            if (cause_keeps_thread_busy(d->waits.cause[rows->why[row]]))
                d->outside_wait[k] += share_of_ns_outside_requests(
                    d, rows->ns[row], ips_sub_sat(est[at], rows->ns[row]),
                    rows->ns[row]);
        }
    }
}

int requests_find_busiest_service_and_outside_ns(struct query *q,
                                                 struct ips_err *err)
{
    struct requests_data *d = requests_data_of(q);
    size_t room = (size_t)d->path.merged.chain_count + 1;
    d->outside_cpu = calloc(room, sizeof(*d->outside_cpu));
    d->outside_wait = calloc(room, sizeof(*d->outside_wait));
    if (!d->outside_cpu || !d->outside_wait)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    for (uint32_t s = 1; s < d->service_count; s++) {
        if (d->service[s].count > d->service[d->busiest].count)
            d->busiest = s;
    }
    if (d->service_count == 0)
        return 0;
    store_span_of_busiest_service(d);
    for (uint32_t i = 0; i < q->gather.count; i++)
        sum_time_outside_requests(d, q->gather.active[i]);
    return 0;
}

/* ---- making the stations ------------------------------------------------- */

static void add_station(struct filling *f, char *name, const char *kind,
                        uint64_t busy, double servers)
{
    const Ips__ServiceRow *service = f->service;
    Ips__StationRow *row = arena_alloc(f->a, sizeof(*row));
    if (!row ||
        !arena_reserve_array_slot(f->a, &f->out->stations, f->out->n_stations,
                                  &f->cap, sizeof(*f->out->stations)))
        return;
    ips__station_row__init(row);
    double window = (double)(service->to_ns - service->from_ns);
    row->service = service->service;
    row->station = name;
    row->kind = ips_unconst_text(kind);
    row->busy_ns = busy;
    row->demand_ns = (double)busy / servers / (double)service->requests;
    row->bound =
        row->demand_ns > 0 ? 1e9 / row->demand_ns : IPS_UNMEASURED_REAL;
    row->use = window > 0 ? (double)busy / servers / window : 0;
    f->out->stations[f->out->n_stations++] = row;
}

static int compare_stations_by_demand(const void *a, const void *b)
{
    const Ips__StationRow *x = *(Ips__StationRow *const *)a;
    const Ips__StationRow *y = *(Ips__StationRow *const *)b;
    if (x->demand_ns != y->demand_ns)
        return x->demand_ns > y->demand_ns ? -1 : 1;
    return strcmp(x->station, y->station);
}

static void append_thread_and_core_stations(struct filling *f,
                                            const struct machine_share *p)
{
    uint64_t all_cpu = 0;
    uint32_t base = first_chain_of_machine(f->d, p);
    const struct ips_graph *g = &f->d->path.merged;
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        if (base + i >= g->chain_count ||
            g->chains[base + i].machine != p->number)
            break; /* a thread without a chain of the graph has no requests */
        const Ips__ThreadRow *t = p->t.threads[i];
        char object[OBJECT_BYTES];
        uint64_t cpu = ips_sub_sat(t->cpu_ns, f->d->outside_cpu[base + i]);
        uint64_t busy =
            ips_add_sat(cpu, ips_sub_sat(sum_waits_that_keep_thread_busy(t),
                                         f->d->outside_wait[base + i]));
        all_cpu = ips_add_sat(all_cpu, cpu);
        if (!busy || t->process >= p->t.proc_count)
            continue;
        bool client = f->d->client[p->number][t->process] &&
                      !f->d->serving[p->number][t->process];
        machine_share_write_process_object_name(p, t->process, object);
        add_station(f, arena_printf(f->a, "%s/%u", object, t->tid),
                    client ? "client" : "thread", busy, 1);
    }
    uint64_t cores = p->sync->cores;
    if (cores)
        add_station(
            f, arena_printf(f->a, "/%s (%" PRIu64 " cores)", p->machine, cores),
            "cores", all_cpu, (double)cores);
}

static void add_lock_stations(struct filling *f)
{
    const struct ips_graph *g = &f->d->path.merged;
    for (uint32_t i = 0; i < f->d->lock_holds.count; i++) {
        const struct ips_lock_hold *h = &f->d->lock_holds.lock[i];
        const struct ips_chain *c = &g->chains[h->chain];
        char object[OBJECT_BYTES];
        if (h->ns == 0)
            continue;
        machine_share_write_process_object_name(f->q->gather.active[c->machine],
                                                c->process, object);
        add_station(f,
                    arena_printf(f->a,
                                 "lock %u (%s, handed on %" PRIu64 " times)",
                                 i + 1, object, h->handed_on),
                    "lock", h->ns, 1);
    }
}

/* Returns the link time per byte between two machines: as measured if the
 * scenario is calibrated, else as the question gives it. If it is measured,
 * messages within a machine take 0, because their time is CPU time, which is
 * counted already. */
static uint64_t link_ns_per_byte_q32(const struct filling *f,
                                     const struct machine_share *from,
                                     const struct machine_share *to)
{
    const struct ips_scenario *scenario =
        &f->d->path.scenarios[SCENARIO_MAIN].scenario;
    if (!scenario->calibrated)
        return scenario->message_time.per_byte_q32;
    const struct message_time_pair *pair =
        from == to
            ? NULL
            : message_times_find_pair_or_substitute(&f->q->m->message_times,
                                                    from->machine, to->machine,
                                                    MTIME_TCP);
    return pair ? pair->curve.beta_q32 : 0;
}

static void append_link_station_if_used(struct filling *f, uint32_t of,
                                        uint32_t at, uint64_t bytes)
{
    const struct machine_share *from = f->q->gather.active[of];
    const struct machine_share *to = f->q->gather.active[at];
    uint64_t ns =
        (uint64_t)((ips_u128)bytes * link_ns_per_byte_q32(f, from, to) >> 32);
    if (ns)
        add_station(
            f, arena_printf(f->a, "/%s -> /%s", from->machine, to->machine),
            "link", ns, 1);
}

/* Returns when the request that arrives first was sent, in ns since the run
 * started. */
static uint64_t first_request_sent_ns(const struct requests_data *d)
{
    const struct ips_graph *g = &d->path.merged;
    const uint64_t *est = d->path.est.est;
    uint64_t first = d->first_ns;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (est[i] == d->first_ns && g->xkind[i] == IPS_X_DATA &&
            g->xpred[i] != IPS_NO_NODE)
            first = ips_min_u64(first, est[g->xpred[i]]);
    }
    return first;
}

/* Adds one link station for each direction between two machines, for the
 * messages sent from the first request that arrives in the window to the last
 * answer. */
static void add_link_stations_of_window(struct filling *f)
{
    const uint64_t *est = f->d->path.est.est;
    uint64_t begin = first_request_sent_ns(f->d);
    uint32_t parts = f->q->gather.count;
    uint64_t *bytes = arena_alloc(f->a, (size_t)parts * parts * sizeof(*bytes));
    for (uint32_t of = 0; bytes && of < parts; of++) {
        const struct machine_share *p = f->q->gather.active[of];
        const struct engine_machine *e = engine_data_of_machine(p);
        for (uint32_t k = 0; k < e->g.out_count; k++) {
            const struct ips_remote_out *o = &e->g.out[k];
            uint64_t at = est[e->base + o->node];
            if (o->end >= p->peer_count || p->peer[o->end].machine >= parts ||
                at < begin || at > f->d->last_ns)
                continue;
            uint64_t *sum =
                &bytes[(size_t)of * parts + p->peer[o->end].machine];
            *sum = ips_add_sat(*sum, o->len);
        }
    }
    for (uint32_t from = 0; bytes && from < parts; from++) {
        for (uint32_t to = 0; to < parts; to++)
            append_link_station_if_used(f, from, to,
                                        bytes[(size_t)from * parts + to]);
    }
}

/* Adds one link station for each direction between two machines, and one for
 * messages within each machine. */
static void append_link_stations_of_whole_run(struct filling *f)
{
    struct machine_share **parts = f->q->gather.active;
    struct matrix by_process = {0}, by_machine = {0};
    struct ips_err err = {0};
    int rc = matrix_make(parts, f->q->gather.count, false, &by_process, &err);
    if (rc == 0)
        rc = matrix_sum_by_machine(&by_process, &by_machine, &err);
    for (size_t i = 0; rc == 0 && i < by_machine.count; i++) {
        const struct matrix_cell *x = &by_machine.cells[i];
        if (x->from >= MATRIX_PENDING || x->to >= MATRIX_PENDING)
            continue;
        append_link_station_if_used(f, (uint32_t)(x->from >> 32),
                                    (uint32_t)(x->to >> 32), x->bytes);
    }
    matrix_release(&by_process);
    matrix_release(&by_machine);
    f->a->failed = f->a->failed || rc < 0;
}

/* Adds the stations of the service with the most requests, and sets the limit
 * of its rate. If a run has several services, time that a thread spends for
 * another service counts here too. */
void requests_add_stations_and_set_bound(struct query *q, struct arena *a,
                                         Ips__RequestsAnswer *out,
                                         Ips__ServiceRow *service)
{
    struct filling f = {.q = q,
                        .d = requests_data_of(q),
                        .a = a,
                        .out = out,
                        .service = service};
    for (uint32_t i = 0; i < q->gather.count; i++)
        append_thread_and_core_stations(&f, q->gather.active[i]);
    add_lock_stations(&f);
    if (f.d->path.window.is_set)
        add_link_stations_of_window(&f);
    else
        append_link_stations_of_whole_run(&f);
    if (a->failed || out->n_stations == 0)
        return;
    qsort(out->stations, out->n_stations, sizeof(*out->stations),
          compare_stations_by_demand);
    for (size_t i = 0; i < out->n_stations; i++) {
        if (strcmp(out->stations[i]->kind, "client") == 0)
            continue;
        service->bound = out->stations[i]->bound;
        break;
    }
    if (out->n_stations > REQUESTS_STATIONS_MAX)
        out->n_stations = REQUESTS_STATIONS_MAX;
}
