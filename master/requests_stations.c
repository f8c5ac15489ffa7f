/* What a request keeps busy: threads, cores, locks, links; and the clients. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/master.h"
#include "master/matrix.h"
#include "master/part.h"
#include "master/requests.h"

struct filling {
    struct query *q;
    struct requests_data *d;
    struct arena *a;
    Ips__RequestsAnswer *out;
    const Ips__ServiceRow *service;
    size_t cap;
};

/* It can serve nobody else meanwhile. Not waits for locks: a worker without
 * work waits for one as well (a condition). */
static uint64_t busy_of(const Ips__ThreadRow *t)
{
    uint64_t busy = t->cpu_ns;
    for (size_t i = 0; i < t->n_waits; i++) {
        const char *cause = t->waits[i]->cause;
        if (strcmp(cause, "disk") == 0 || strcmp(cause, "file lock") == 0)
            busy = ips_add_sat(busy, t->waits[i]->ns);
    }
    return busy;
}

static void add_station(struct filling *f, char *name, const char *kind,
                        uint64_t busy, double servers)
{
    const Ips__ServiceRow *service = f->service;
    Ips__StationRow *row = arena_alloc(f->a, sizeof(*row));
    if (!row || !arena_grow(f->a, &f->out->stations, f->out->n_stations,
                            &f->cap, sizeof(*f->out->stations)))
        return;
    ips__station_row__init(row);
    double window = (double)(service->to_ns - service->from_ns);
    row->service = service->service;
    row->station = name;
    row->kind = ips_wire_text(kind);
    row->busy_ns = busy;
    row->demand_ns = (double)busy / servers / (double)service->requests;
    row->bound =
        row->demand_ns > 0 ? 1e9 / row->demand_ns : IPS_UNMEASURED_REAL;
    row->use = window > 0 ? (double)busy / servers / window : 0;
    f->out->stations[f->out->n_stations++] = row;
}

static int most_demanding(const void *a, const void *b)
{
    const Ips__StationRow *x = *(Ips__StationRow *const *)a;
    const Ips__StationRow *y = *(Ips__StationRow *const *)b;
    if (x->demand_ns != y->demand_ns)
        return x->demand_ns > y->demand_ns ? -1 : 1;
    return strcmp(x->station, y->station);
}

static void part_stations(struct filling *f, const struct part *p)
{
    uint64_t cpu = 0;
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        const Ips__ThreadRow *t = p->t.threads[i];
        char object[OBJECT_BYTES];
        uint64_t busy = busy_of(t);
        cpu = ips_add_sat(cpu, t->cpu_ns);
        if (!busy || t->process >= p->t.proc_count)
            continue;
        bool client = f->d->client[p->number][t->process] &&
                      !f->d->serving[p->number][t->process];
        part_process_object(p, t->process, object);
        add_station(f, arena_printf(f->a, "%s/%u", object, t->tid),
                    client ? "client" : "thread", busy, 1);
    }
    uint64_t cores = p->sync->cores;
    if (cores)
        add_station(
            f, arena_printf(f->a, "/%s (%" PRIu64 " cores)", p->machine, cores),
            "cores", cpu, (double)cores);
}

static void lock_stations(struct filling *f)
{
    const struct ips_graph *g = &f->d->path.merged;
    for (uint32_t i = 0; i < f->d->held.count; i++) {
        const struct ips_held *h = &f->d->held.lock[i];
        const struct ips_chain *c = &g->chains[h->chain];
        char object[OBJECT_BYTES];
        if (h->ns == 0)
            continue;
        part_process_object(f->q->gather.active[c->machine], c->process,
                            object);
        add_station(f,
                    arena_printf(f->a,
                                 "lock %u (%s, handed on %" PRIu64 " times)",
                                 i + 1, object, h->handed),
                    "lock", h->ns, 1);
    }
}

/* What a byte takes from one machine to another: as it was asked for, else as
 * it was measured. Inside a machine that is CPU time, told already. */
static uint64_t byte_q32(const struct filling *f, const struct part *from,
                         const struct part *to)
{
    const struct ips_lane *lane = &f->d->path.lanes[LANE_MAIN].lane;
    if (!lane->calibrated)
        return lane->mtime.per_byte_q32;
    const struct mtime_pair *pair =
        from == to ? NULL
                   : mtimes_choose(&f->q->m->mtimes, from->machine, to->machine,
                                   MTIME_TCP);
    return pair ? pair->curve.beta_q32 : 0;
}

/* One for each way between two machines, or within one. */
static void link_stations(struct filling *f)
{
    struct part **parts = f->q->gather.active;
    struct matrix by_process = {0}, by_machine = {0};
    struct ips_err err = {0};
    int rc = matrix_make(parts, f->q->gather.count, false, &by_process, &err);
    if (rc == 0)
        rc = matrix_by_machine(&by_process, &by_machine, &err);
    for (size_t i = 0; rc == 0 && i < by_machine.count; i++) {
        const struct matrix_cell *x = &by_machine.cells[i];
        if (x->from >= MATRIX_PENDING || x->to >= MATRIX_PENDING)
            continue;
        const struct part *from = parts[x->from >> 32];
        const struct part *to = parts[x->to >> 32];
        uint64_t ns =
            (uint64_t)((ips_u128)x->bytes * byte_q32(f, from, to) >> 32);
        if (ns)
            add_station(
                f, arena_printf(f->a, "/%s -> /%s", from->machine, to->machine),
                "link", ns, 1);
    }
    matrix_release(&by_process);
    matrix_release(&by_machine);
    f->a->failed = f->a->failed || rc < 0;
}

/* Stations of the service that is asked most: whoever's time it takes is the
 * same whichever of several services of a run is meant only there. */
void requests_stations(struct query *q, struct arena *a,
                       Ips__RequestsAnswer *out, Ips__ServiceRow *service)
{
    struct filling f = {
        .q = q, .d = requests_of(q), .a = a, .out = out, .service = service};
    for (uint32_t i = 0; i < q->gather.count; i++)
        part_stations(&f, q->gather.active[i]);
    lock_stations(&f);
    link_stations(&f);
    if (a->failed || out->n_stations == 0)
        return;
    qsort(out->stations, out->n_stations, sizeof(*out->stations),
          most_demanding);
    for (size_t i = 0; i < out->n_stations; i++) {
        if (strcmp(out->stations[i]->kind, "client") == 0)
            continue;
        service->bound = out->stations[i]->bound;
        break;
    }
    if (out->n_stations > REQUESTS_STATIONS_MAX)
        out->n_stations = REQUESTS_STATIONS_MAX;
}
