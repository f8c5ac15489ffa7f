#include "master/path/clocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/clock_align.h"
#include "master/path/weighting.h"

/* Maximum number of messages of a pair of machines. When it is reached, every
 * second message is dropped; the others bound the clocks nearly as well. */
#define POINTS_MAX (1u << 20)

struct machine_pair_points {
    struct ips_clock_point *p;
    size_t count, capacity, seen;
};

struct alignment {
    struct query *q;
    uint32_t n;
    /* [n * n] messages between machines i and k (i < k), at index i * n + k;
     * clock A of this pair is that of machine i */
    struct machine_pair_points *pairs;
    struct ips_clock_fit *fit;
    struct ips_clock_map *map;
    uint64_t *bound;
    bool *linked;
};

/* ---- collecting the times of messages ------------------------------------ */

/* Drops every second message of the pair. The fastest messages, which bound the
 * clocks, are as frequent among the others. */
static void drop_every_second_point(struct machine_pair_points *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i += 2)
        p->p[kept++] = p->p[i];
    p->count = kept;
}

static bool add_point(struct machine_pair_points *p,
                      struct ips_clock_point point)
{
    if (p->count == POINTS_MAX)
        drop_every_second_point(p);
    if (p->count == p->capacity) {
        size_t room = p->capacity ? p->capacity * 2 : 64;
        void *more = realloc(p->p, room * sizeof(*p->p));
        if (!more)
            return false;
        p->p = more;
        p->capacity = room;
    }
    p->p[p->count++] = point;
    return true;
}

/* Adds a message that left machine `s` at `sent` and reached machine `r` at
 * `received`, each by the machine's own clock. */
static bool add_message(struct alignment *a, uint32_t s, uint64_t sent,
                        uint32_t r, uint64_t received)
{
    bool up = s < r;
    struct machine_pair_points *p = &a->pairs[up ? s * a->n + r : r * a->n + s];
    return add_point(p, up ? (struct ips_clock_point){sent, received, true}
                           : (struct ips_clock_point){received, sent, false});
}

static bool append_message_times_callback(void *arg, uint32_t s, uint64_t sent,
                                          uint32_t r, uint64_t received)
{
    return add_message(arg, s, sent, r, received);
}

/* ---- fitting the clocks of each pair ------------------------------------- */

/* Returns the fit with the two machines exchanged: it converts clock B to clock
 * A instead of A to B. */
static struct ips_clock_fit invert_clock_fit(const struct ips_clock_fit *f)
{
    struct ips_clock_fit t = *f;
    ips_i128 one = (ips_i128)1 << 40;
    t.from = f->from + (uint64_t)f->offset_ns;
    t.offset_ns = -f->offset_ns;
    t.drift_q40 =
        (int64_t)(-(ips_i128)f->drift_q40 * one / (one + f->drift_q40));
    return t;
}

static uint64_t add_offset_to_clock_time(uint64_t t, int64_t by)
{
    ips_i128 at = (ips_i128)t + by;
    return at < 0 ? 0 : (uint64_t)at;
}

/* Returns the time during which machines i and k both have events, by the clock
 * of i. The critical path may use all of it, including the time before the
 * first message between them and after the last. */
static struct ips_clock_span common_span_of_pair(const struct alignment *a,
                                                 uint32_t i, uint32_t k)
{
    const Ips__SyncAnswer *of_i = a->q->gather.active[i]->sync;
    const Ips__SyncAnswer *of_k = a->q->gather.active[k]->sync;
    const struct ips_clock_point *p = a->pairs[i * a->n + k].p;
    int64_t less = (int64_t)(p->a - p->b);
    return (struct ips_clock_span){
        ips_max_u64(of_i->first_ns,
                    add_offset_to_clock_time(of_k->first_ns, less)),
        ips_min_u64(of_i->last_ns,
                    add_offset_to_clock_time(of_k->last_ns, less))};
}

static int fit_clocks_of_all_pairs(struct alignment *a, struct ips_err *err)
{
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t k = i + 1; k < a->n; k++) {
            struct machine_pair_points *p = &a->pairs[i * a->n + k];
            struct ips_clock_fit *f = &a->fit[i * a->n + k];
            if (p->count == 0)
                continue;
            int rc = ips_clock_compute_fit(
                p->p, p->count, common_span_of_pair(a, i, k), f, err);
            if (rc < 0)
                return rc;
            a->fit[k * a->n + i] = invert_clock_fit(f);
        }
    }
    return 0;
}

/* ---- the certificate's text ------------------------------------------- */

static void write_clock_text(struct alignment *a, uint32_t root)
{
    struct path_data *d = path_data_of(a->q);
    uint64_t worst = 0;
    uint32_t open = 0, apart = 0, stepped = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        open += a->linked[i] && a->bound[i] == UINT64_MAX;
        apart += !a->linked[i];
        if (a->linked[i] && a->bound[i] != UINT64_MAX)
            worst = ips_max_u64(worst, a->bound[i]);
        for (uint32_t k = i + 1; k < a->n; k++)
            stepped += a->fit[i * a->n + k].pieces > 1;
    }
    d->clock_bound_ns = worst;
    char *out = d->clock_text;
    size_t size = sizeof(d->clock_text);
    int n = snprintf(out, size,
                     "of %u machines, aligned to %s within %" PRIu64 " ns",
                     a->n, a->q->gather.active[root]->machine, worst);
    if (open)
        n += snprintf(out + n, size - (size_t)n,
                      "; of %u messages went one way alone: no bound", open);
    if (apart)
        n += snprintf(out + n, size - (size_t)n,
                      "; %u without messages: not aligned", apart);
    if (stepped)
        snprintf(out + n, size - (size_t)n, "; a clock has stepped");
}

/* ---- alignment, in the worker ----------------------------------------- */

static void align_release(struct alignment *a)
{
    for (uint32_t i = 0; a->pairs && i < a->n * a->n; i++)
        free(a->pairs[i].p);
    free(a->pairs);
    free(a->fit);
    free(a->map);
    free(a->bound);
    free(a->linked);
}

static bool allocate_alignment(struct alignment *a)
{
    size_t n = a->n;
    a->pairs = calloc(n * n, sizeof(*a->pairs));
    a->fit = calloc(n * n, sizeof(*a->fit));
    a->map = calloc(n, sizeof(*a->map));
    a->bound = calloc(n, sizeof(*a->bound));
    a->linked = calloc(n, sizeof(*a->linked));
    return a->pairs && a->fit && a->map && a->bound && a->linked;
}

static void compute_clock_alignment(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct alignment a = {.q = q, .n = q->gather.count};
    struct ips_machine_joins *parts = engine_list_received_joins(q);
    uint32_t blame;
    if (!parts)
        return;
    if (!allocate_alignment(&a)) {
        ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory to align clocks");
    } else if (ips_joins_pair_message_times(parts, a.n,
                                            append_message_times_callback, &a,
                                            &blame, &d->err) < 0) {
        d->blame = blame < a.n ? q->gather.active[blame] : NULL;
    } else if (fit_clocks_of_all_pairs(&a, &d->err) == 0) {
        for (uint32_t i = 0; i < a.n; i++) {
            const Ips__SyncAnswer *s = q->gather.active[i]->sync;
            a.map[i] = (struct ips_clock_map){.from = s->first_ns};
        }
        a.map[d->origin_machine] =
            engine_data_of_machine(q->gather.active[d->origin_machine])->clock;
        ips_clock_compute_maps_to_root(a.fit, a.n, d->origin_machine, a.map,
                                       a.bound, a.linked);
        for (uint32_t i = 0; i < a.n; i++)
            engine_data_of_machine(q->gather.active[i])->clock = a.map[i];
        write_clock_text(&a, d->origin_machine);
    }
    align_release(&a);
    free(parts);
}

static void call_after_clocks_or_handle_failure(struct query *q)
{
    struct path_data *d = path_data_of(q);
    engine_release_graphs(q);
    if (d->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        d->after_clocks(q);
}

static void submit_clock_alignment(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, compute_clock_alignment,
                          call_after_clocks_or_handle_failure, &err) < 0)
        query_fail(q, &err);
}

void clocks_align(struct query *q, uint32_t root,
                  void (*after)(struct query *q))
{
    struct path_data *d = path_data_of(q);
    struct ips_scenario cpu = {
        .message_time = {.scale_num = 1, .scale_den = 1}};
    d->origin_machine = root;
    d->after_clocks = after;
    engine_fetch_joins(q, &cpu, true, submit_clock_alignment);
}
