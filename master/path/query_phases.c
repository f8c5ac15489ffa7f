/*
 * Answers PhasesAsk: adds up the machines' series of CPU, messages and waits
 * on one time scale and cuts them into phases (analysis/explain/phases.h).
 * Then it finds the processes and procedures with the most CPU time in each
 * phase. Category 3 of IPS-9: the slaves read the records.
 *
 * Each slave gets the bins as edges on its own clock, so it need not know any
 * other clock. With several machines the clocks are aligned first (clocks.h),
 * and the certificate states how accurately. Source: IPS-16.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/phases.h"
#include "common/types.h"
#include "master/path/clocks.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/phases.h"

#define BIN_LEAST_NS 1000u
enum series { CPU, MESSAGES, BYTES, WAITS, SERIES };

struct phase_top {
    uint32_t phase;
    bool of_process;
    /* name of the procedure; belongs to a message kept by query_keep_message()
     */
    const char *name;
    const char *module; /* module of the procedure */
    uint32_t machine, process;
    uint64_t ns;
};

struct phases_data { /* stored in query.data */
    /* must be first: clocks_align() uses it as path_data */
    struct path_data path;
    uint64_t begin, end, bin_ns;
    uint32_t bins;
    /* true: `begin` and `end` are those of the phase that was asked for */
    bool zoomed;
    uint64_t *v;     /* [SERIES][bins] values of each series by bin */
    uint64_t *edges; /* bin edges by the clock of the machine being asked */
    struct ips_phases both, cpu, messages;
    struct phase_top *tops;
    uint32_t top_count;
    struct ips_err err;
};

static struct phases_data *phases_data_of(struct query *q)
{
    return q->data;
}

static void fail_phases(struct query *q, int code, const char *what)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "run %s: %s", q->run, what);
    query_fail(q, &err);
}

static const uint64_t *bin_values_of_series(const struct phases_data *d,
                                            enum series s)
{
    return d->v + (size_t)s * d->bins;
}

/* ---- clocks and bins ----------------------------------------------------- */

/* Returns the smallest local time that `map` converts to `x` or later. */
static uint64_t to_local_clock_ns(const struct ips_clock_map *map, uint64_t x)
{
    uint64_t low = 0, high = INT64_MAX;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (ips_clock_map_ns(map, mid) >= x)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static const struct ips_clock_map *machine_clock_map(const struct query *q,
                                                     uint32_t i)
{
    return &engine_data_of_machine(q->gather.active[i])->clock;
}

static void compute_run_span(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    d->begin = UINT64_MAX;
    d->end = 0;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        uint64_t last = ips_max_u64(s->last_ns, s->first_ns);
        d->begin = ips_min_u64(
            d->begin, ips_clock_map_ns(machine_clock_map(q, i), s->first_ns));
        d->end = ips_max_u64(
            d->end,
            ips_add_sat(ips_clock_map_ns(machine_clock_map(q, i), last), 1));
    }
}

static int make_bins(struct phases_data *d)
{
    uint64_t length = d->end - d->begin;
    d->bin_ns =
        ips_max_u64((length + PHASES_BINS - 1) / PHASES_BINS, BIN_LEAST_NS);
    d->bins = (uint32_t)((length + d->bin_ns - 1) / d->bin_ns);
    free(d->v);
    d->v = calloc((size_t)SERIES * d->bins + 1, sizeof(*d->v));
    free(d->edges);
    d->edges = calloc((size_t)IPS_PHASES_BINS + 1, sizeof(*d->edges));
    return d->v && d->edges ? 0 : IPS_E_NO_MEMORY;
}

static uint64_t bin_begin(const struct phases_data *d, uint32_t bin)
{
    uint64_t at = ips_add_sat(d->begin, d->bin_ns * bin);
    return ips_min_u64(at, d->end);
}

static uint64_t phase_begin(const struct phases_data *d, uint32_t phase)
{
    return phase ? bin_begin(d, d->both.end[phase - 1]) : d->begin;
}
static uint64_t phase_end(const struct phases_data *d, uint32_t phase)
{
    return bin_begin(d, d->both.end[phase]);
}

/* Makes the bin edges strictly ascending: two times of the run may be the same
 * ns on a slower machine's clock. */
static void make_edges_ascending(uint64_t *edges, uint32_t bins)
{
    for (uint32_t i = 1; i <= bins; i++)
        edges[i] = ips_max_u64(edges[i], ips_add_sat(edges[i - 1], 1));
}

/* ---- asking the machines for series -------------------------------------- */

static void ask_series(struct query *q, uint32_t bins, uint32_t tops,
                       uint64_t (*begin)(const struct phases_data *d,
                                         uint32_t bin))
{
    struct phases_data *d = phases_data_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__SeriesAsk ask = IPS__SERIES_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        for (uint32_t k = 0; k <= bins; k++)
            d->edges[k] =
                to_local_clock_ns(machine_clock_map(q, i), begin(d, k));
        make_edges_ascending(d->edges, bins);
        ask.generation = p->sync->generation;
        ask.edge = d->edges;
        ask.n_edge = (size_t)bins + 1;
        ask.tops = tops;
        request.ask_case = IPS__REQUEST__ASK_SERIES;
        request.series = &ask;
        query_send_request_to_slave(q, p, &request, true);
    }
    query_close_round(q);
}

static int check_series(const Ips__Reply *reply, uint32_t bins,
                        struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_SERIES)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to SeriesAsk");
    const Ips__SeriesAnswer *a = reply->series;
    if (a->n_cpu_ns != bins || a->n_messages != bins || a->n_bytes != bins ||
        a->n_wait_ns != bins)
        return ips_err_set(err, IPS_E_PROTOCOL, "%zu bins, %u were asked for",
                           a->n_cpu_ns, bins);
    return 0;
}

static int add_series_reply_to_bins(struct query *q, struct machine_share *p,
                                    const Ips__Reply *reply,
                                    struct ips_err *err)
{
    struct phases_data *d = phases_data_of(q);
    (void)p;
    int rc = check_series(reply, d->bins, err);
    if (rc < 0)
        return rc;
    const Ips__SeriesAnswer *a = reply->series;
    const uint64_t *from[] = {a->cpu_ns, a->messages, a->bytes, a->wait_ns};
    for (int s = 0; s < SERIES; s++)
        for (uint32_t i = 0; i < d->bins; i++) {
            uint64_t *v = &d->v[(size_t)s * d->bins + i];
            /* The limit keeps sums over all bins from overflowing. */
            *v = ips_min_u64(ips_add_sat(*v, from[s][i]),
                             INT64_MAX / IPS_PHASES_BINS);
        }
    return 0;
}

/* ---- finding the phases -------------------------------------------------- */

static int compare_bin_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns the value that 95% of the bins do not exceed; 0 if there is no
 * memory. */
static uint64_t percentile_95(const uint64_t *v, uint32_t n)
{
    uint64_t *copy = malloc(((size_t)n + 1) * sizeof(*copy));
    if (!copy)
        return 0;
    memcpy(copy, v, n * sizeof(*copy));
    qsort(copy, n, sizeof(*copy), compare_bin_values);
    uint64_t high = n ? copy[(size_t)n * 19 / 20] : 0;
    free(copy);
    return high;
}

/* In the worker: finds the phases. A difference below 5% of a core is not a
 * change of CPU use, because other programs may use the machine too. */
static void find_phases(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    const uint64_t *cpu = bin_values_of_series(d, CPU);
    const uint64_t *messages = bin_values_of_series(d, MESSAGES);
    const struct ips_phase_series s[] = {
        {cpu, ips_max_u64(percentile_95(cpu, d->bins) / 32, d->bin_ns / 20)},
        {messages, percentile_95(messages, d->bins) / 256}};
    int rc = ips_phases_find_in_series(s, 2, d->bins, &d->both, &d->err);
    if (rc == 0)
        rc = ips_phases_find_in_series(s, 1, d->bins, &d->cpu, &d->err);
    if (rc == 0)
        rc =
            ips_phases_find_in_series(s + 1, 1, d->bins, &d->messages, &d->err);
    (void)rc; /* the error is in d->err */
}

static void zoom_or_pass_to_waiter_or_fetch_tops(struct query *q);

static void submit_finding_phases_to_worker(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, find_phases, zoom_or_pass_to_waiter_or_fetch_tops,
                          &err) < 0)
        query_fail(q, &err);
}

static void fetch_series(struct query *q)
{
    if (make_bins(phases_data_of(q)) < 0) {
        fail_phases(q, IPS_E_NO_MEMORY, "no memory");
        return;
    }
    query_open_round(q, add_series_reply_to_bins,
                     submit_finding_phases_to_worker);
    ask_series(q, phases_data_of(q)->bins, 0, bin_begin);
}

/* ---- a phase as a window ------------------------------------------------- */

static void fail_with_no_such_phase(struct query *q, uint32_t phase)
{
    char what[120];
    snprintf(what, sizeof(what),
             "no phase %u: the run has %u; `ipsq phases` lists them", phase,
             phases_data_of(q)->both.count);
    fail_phases(q, IPS_E_NOT_FOUND, what);
}

/* For another question that waits for this one (q->waiter): sets its window to
 * the phase, converted to every machine's clock, and ends this question. */
static void pass_phase_window_to_waiter_and_end(struct query *q, uint32_t phase)
{
    struct phases_data *d = phases_data_of(q);
    struct query *to = q->waiter;
    uint64_t begin = phase_begin(d, phase), end = phase_end(d, phase);
    struct query_window *w = calloc(q->gather.count + 1u, sizeof(*w));
    if (!w) {
        fail_phases(q, IPS_E_NO_MEMORY, "no memory");
        return;
    }
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        uint64_t first = p->sync->first_ns;
        snprintf(w[i].machine, sizeof(w[i].machine), "%s", p->machine);
        w[i].from_ns = ips_sub_sat(
            to_local_clock_ns(machine_clock_map(q, i), begin), first);
        w[i].to_ns =
            ips_sub_sat(to_local_clock_ns(machine_clock_map(q, i), end), first);
        /* to_ns 0 would mean a window without end; use an empty window
         * instead */
        if (w[i].to_ns == 0)
            w[i] = (struct query_window){.from_ns = UINT64_MAX - 1,
                                         .to_ns = UINT64_MAX};
        snprintf(w[i].machine, sizeof(w[i].machine), "%s", p->machine);
    }
    for (uint32_t i = 0; i < q->machine_count; i++) {
        const struct machine_share *p = &q->machines[i];
        if (p->state != MACHINE_ACTIVE && p->expected &&
            !query_exclude(to, p->machine,
                           "the phases were computed without it")) {
            free(w);
            fail_phases(q, IPS_E_NO_MEMORY, "no memory");
            return;
        }
    }
    free(to->windows);
    to->windows = w;
    to->window_count = q->gather.count;
    phases_write_window_into_request(to->envelope->request, begin, end);
    query_end_without_reply(q);
}

/* For another question that waits for this one (q->waiter): gives it the end
 * times of all phases, and ends this question. */
static void pass_phase_ends_to_waiter_and_end(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    struct query *to = q->waiter;
    uint64_t *ends = calloc(d->both.count + 1u, sizeof(*ends));
    if (!ends) {
        fail_phases(q, IPS_E_NO_MEMORY, "no memory");
        return;
    }
    for (uint32_t i = 0; i < d->both.count; i++)
        ends[i] = phase_end(d, i);
    free(to->phase_ends);
    to->phase_ends = ends;
    to->phase_count = d->both.count;
    query_end_without_reply(q);
}

/* ---- making the answer --------------------------------------------------- */

static uint64_t sum_series_in_phase(const struct phases_data *d, enum series s,
                                    uint32_t phase)
{
    uint64_t sum = 0;
    for (uint32_t i = phase ? d->both.end[phase - 1] : 0;
         i < d->both.end[phase]; i++)
        sum += bin_values_of_series(d, s)[i];
    return sum;
}

static bool is_same_procedure(const struct phase_top *a,
                              const struct phase_top *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->module, b->module) == 0;
}

/* Returns true if `a` has more CPU time than `b`. Breaks ties by machine and
 * process, or by name, so that the order of the machines' replies has no
 * influence. */
static bool phase_top_uses_more_cpu(const struct phase_top *a,
                                    const struct phase_top *b)
{
    if (a->ns != b->ns)
        return a->ns > b->ns;
    if (a->of_process)
        return a->machine != b->machine ? a->machine < b->machine
                                        : a->process < b->process;
    int order = strcmp(a->name, b->name);
    return (order ? order : strcmp(a->module, b->module)) < 0;
}

/* Returns the process with the most CPU time in the phase or, with of_process
 * false, the procedure with the most CPU time summed over all machines. NULL:
 * none. */
static struct phase_top *
merge_and_find_top_consumer_of_phase(struct phases_data *d, uint32_t phase,
                                     bool of_process)
{
    struct phase_top *best = NULL;
    for (uint32_t i = 0; i < d->top_count; i++) {
        struct phase_top *t = &d->tops[i];
        if (t->phase != phase || t->of_process != of_process)
            continue;
        for (uint32_t k = i + 1; !of_process && k < d->top_count; k++) {
            struct phase_top *more = &d->tops[k];
            if (more->phase != phase || more->of_process ||
                !is_same_procedure(t, more))
                continue;
            t->ns = ips_add_sat(t->ns, more->ns);
            more->phase = UINT32_MAX;
        }
        if (!best || phase_top_uses_more_cpu(t, best))
            best = t;
    }
    return best;
}

static void fill_phase_row(struct query *q, struct arena *a, uint32_t phase,
                           Ips__PhaseRow *r)
{
    struct phases_data *d = phases_data_of(q);
    ips__phase_row__init(r);
    r->number = phase + 1;
    r->from_ns = phase_begin(d, phase);
    r->to_ns = phase_end(d, phase);
    r->cpu_ns = sum_series_in_phase(d, CPU, phase);
    r->messages = sum_series_in_phase(d, MESSAGES, phase);
    r->bytes = sum_series_in_phase(d, BYTES, phase);
    r->wait_ns = sum_series_in_phase(d, WAITS, phase);
    const struct phase_top *t =
        merge_and_find_top_consumer_of_phase(d, phase, true);
    if (t) {
        char object[OBJECT_BYTES];
        machine_share_write_process_object_name(q->gather.active[t->machine],
                                                t->process, object);
        r->process = arena_printf(a, "%s", object);
        r->process_ns = t->ns;
    }
    t = merge_and_find_top_consumer_of_phase(d, phase, false);
    if (t) {
        r->procedure = ips_unconst_text(t->name);
        r->module = ips_unconst_text(t->module);
        r->procedure_ns = t->ns;
    }
}

static uint64_t *make_phase_end_times(const struct phases_data *d,
                                      struct arena *a,
                                      const struct ips_phases *p)
{
    uint64_t *ends = arena_alloc(a, (p->count + 1u) * sizeof(*ends));
    for (uint32_t i = 0; ends && i < p->count; i++)
        ends[i] = bin_begin(d, p->end[i]);
    return ends;
}

static void fill_series(struct phases_data *d, Ips__PhasesAnswer *out)
{
    out->n_cpu_ns = out->n_messages = out->n_bytes = out->n_wait_ns = d->bins;
    out->cpu_ns = d->v;
    out->messages = d->v + (size_t)MESSAGES * d->bins;
    out->bytes = d->v + (size_t)BYTES * d->bins;
    out->wait_ns = d->v + (size_t)WAITS * d->bins;
}

static void answer_phases(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    struct arena a = {0};
    struct certificate c;
    Ips__PhasesAnswer out = IPS__PHASES_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    uint32_t n = d->both.count;
    Ips__PhaseRow *rows = arena_alloc(&a, (n + 1u) * sizeof(*rows));
    out.phases = arena_alloc(&a, (n + 1u) * sizeof(Ips__PhaseRow *));
    for (uint32_t i = 0; rows && out.phases && i < n; i++) {
        fill_phase_row(q, &a, i, &rows[i]);
        out.phases[out.n_phases++] = &rows[i];
    }
    out.from_ns = d->begin;
    out.to_ns = d->end;
    out.bin_ns = d->bin_ns;
    fill_series(d, &out);
    out.cpu_phase_ends = make_phase_end_times(d, &a, &d->cpu);
    out.n_cpu_phase_ends = d->cpu.count;
    out.message_phase_ends = make_phase_end_times(d, &a, &d->messages);
    out.n_message_phase_ends = d->messages.count;
    for (uint32_t i = 0; i < q->gather.count; i++)
        out.cores += q->gather.active[i]->sync->cores;
    certificate_fill(q, &a, &c);
    if (*d->path.clock_text)
        c.msg.clock = arena_printf(&a, "%s", d->path.clock_text);
    out.certificate = &c.msg;
    out.category = ips_unconst_text("3");
    certificate_set_category_and_source(q, &a, &c, 3, "the slaves' records");
    out.took_ns = c.msg.took_ns;
    out.open = certificate_run_is_open(q);
    reply.answer_case = IPS__REPLY__ANSWER_PHASES;
    reply.phases = &out;
    if (a.failed)
        fail_phases(q, IPS_E_NO_MEMORY, "no memory for the answer");
    else
        query_answer(q, &reply);
    arena_release(&a);
}

static int append_tops_of_reply(struct query *q, struct machine_share *p,
                                const Ips__Reply *reply, struct ips_err *err)
{
    struct phases_data *d = phases_data_of(q);
    int rc = check_series(reply, d->both.count, err);
    if (rc < 0)
        return rc;
    const Ips__SeriesAnswer *a = reply->series;
    struct phase_top *more =
        realloc(d->tops, (d->top_count + a->n_tops + 1) * sizeof(*more));
    if (more)
        d->tops = more;
    if (!more || !query_keep_message(q, p))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    for (size_t i = 0; i < a->n_tops; i++) {
        const Ips__SeriesTop *t = a->tops[i];
        if (t->bin >= d->both.count ||
            (t->of_process && t->process >= p->t.proc_count))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "row %zu names no phase or no process", i);
        d->tops[d->top_count++] =
            (struct phase_top){.phase = t->bin,
                               .of_process = t->of_process,
                               .name = t->procedure,
                               .module = t->module,
                               .machine = p->number,
                               .process = t->process,
                               .ns = t->ns};
    }
    return 0;
}

static uint64_t phase_begin_or_run_end(const struct phases_data *d,
                                       uint32_t phase)
{
    return phase < d->both.count ? phase_begin(d, phase) : d->end;
}

static void zoom_or_pass_to_waiter_or_fetch_tops(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    const Ips__PhasesAsk *ask = q->request->phases;
    if (d->err.code) {
        query_fail(q, &d->err);
    } else if (ask->phase > d->both.count && !d->zoomed) {
        fail_with_no_such_phase(q, ask->phase);
    } else if (q->waiter && ask->phase) {
        pass_phase_window_to_waiter_and_end(q, ask->phase - 1);
    } else if (q->waiter) {
        pass_phase_ends_to_waiter_and_end(q);
    } else if (ask->phase && !d->zoomed) {
        uint64_t begin = phase_begin(d, ask->phase - 1);
        d->end = phase_end(d, ask->phase - 1);
        d->begin = begin;
        d->zoomed = true;
        fetch_series(q);
    } else {
        query_open_round(q, append_tops_of_reply, answer_phases);
        ask_series(q, d->both.count, PHASES_TOPS, phase_begin_or_run_end);
    }
}

/* ---- start of the question -------------------------------------------- */

static void set_time_span_and_fetch_series(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    const Ips__PhasesAsk *ask = q->request->phases;
    compute_run_span(q);
    if (ask->from_ns || ask->to_ns) {
        d->begin = ips_max_u64(d->begin, ask->from_ns);
        if (ask->to_ns)
            d->end = ips_min_u64(d->end, ask->to_ns);
    }
    if (d->begin >= d->end)
        fail_phases(q, IPS_E_NOT_FOUND, "nothing was recorded in that time");
    else
        fetch_series(q);
}

static void set_origin_clock_and_align_clocks(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct engine_machine *e = calloc(1, sizeof(*e));
        if (!e) {
            fail_phases(q, IPS_E_NO_MEMORY, "no memory");
            return;
        }
        q->gather.active[i]->own = e;
    }
    const struct machine_share *origin = weighting_set_origin_clock(q);
    if (!origin) {
        fail_phases(q, IPS_E_INCOMPLETE, "none of its machines is connected");
        return;
    }
    /* Time 0 is the first event of the origin, as in events, metrics and
     * procedures. */
    engine_data_of_machine(origin)->clock =
        (struct ips_clock_map){.from = origin->sync->first_ns};
    d->path.scenarios[SCENARIO_MAIN].scenario.weighting = IPS_WEIGH_WALL;
    if (q->gather.count == 1)
        set_time_span_and_fetch_series(q);
    else
        clocks_align(q, origin->number, set_time_span_and_fetch_series);
}

/* Whether the question that waits for the phases will ask for waits. */
static bool does_waiter_need_waits(const struct query *q)
{
    const Ips__Request *r = q->waiter ? q->waiter->request : NULL;
    return r && (r->ask_case == IPS__REQUEST__ASK_WHY ||
                 r->ask_case == IPS__REQUEST__ASK_WAITS ||
                 r->ask_case == IPS__REQUEST__ASK_REQUESTS);
}

static void check_phases_ask_and_gather(struct query *q)
{
    const Ips__PhasesAsk *ask = q->request->phases;
    struct phases_data *d = calloc(1, sizeof(*d));
    q->data = d;
    if (!d)
        fail_phases(q, IPS_E_NO_MEMORY, "no memory");
    else if ((ask->to_ns && ask->from_ns >= ask->to_ns) ||
             (ask->phase && (ask->from_ns || ask->to_ns)))
        fail_phases(q, IPS_E_USAGE, "the window is empty, or there are two");
    else
        gather_start(q,
                     GATHER_TABLE | GATHER_PEERS |
                         (does_waiter_need_waits(q) ? GATHER_WAITS : 0u),
                     set_origin_clock_and_align_clocks);
}

static void release_phases(struct query *q)
{
    struct phases_data *d = phases_data_of(q);
    if (d) {
        free(d->v);
        free(d->edges);
        free(d->tops);
    }
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_phases = {.name = "phases",
                                        .exclusive = true,
                                        .start = check_phases_ask_and_gather,
                                        .release = release_phases};
