/* Searches for the best placement of a run's processes on given machines, by
 * replays (analysis/replay/search.h). */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/predict/query.h"
#include "master/query/machine_share.h"

/* Limit for the nodes replayed in all tries together, if the question gives no
 * number of tries. They take some tens of seconds. */
#define NODES_REPLAYED 200000000ULL
#define TRIES_LEAST 64u
#define TRIES_MOST 20000u
#define TOP_USUAL 1u

void predict_search_release(struct predict_search_result *f)
{
    ips_search_release(&f->s);
    free(f->item);
    memset(f, 0, sizeof(*f));
}

/* State of a search. Arrays are by machine; `fixed` and `weight` by item. */
struct placement_search {
    struct query *q;
    struct predict_query *d;
    struct predict_answer answer;
    struct ips_replay_machine *machine;
    bool *closed;
    uint32_t *alike, *fixed;
    uint64_t *capacity, *weight;
};

/* ---- items of the search ---------------------------------------------- */

/* Numbers the free processes, which --map does not place, as items; the chains
 * of a process are adjacent. */
static void number_free_processes_as_items(struct predict_query *d)
{
    const struct ips_graph *g = &d->run.replay.g;
    uint32_t count = 0, item = IPS_SEARCH_FREE;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        if (c && (is->machine != g->chains[c - 1].machine ||
                  is->process != g->chains[c - 1].process))
            item = IPS_SEARCH_FREE;
        if (d->setup.placed[c])
            continue;
        if (item == IPS_SEARCH_FREE)
            item = count++;
        d->search_result.item[c] = item;
    }
    d->search_result.free_count = d->search_result.item_count = count;
}

/* Makes the items that the search places as a whole: one for each free process,
 * and one for all placed chains of each machine. */
static int make_items(struct placement_search *s, struct ips_err *err)
{
    struct predict_query *d = s->d;
    const struct ips_graph *g = &d->run.replay.g;
    uint32_t machines = d->setup.machine_count;
    uint32_t *item_of = malloc(machines * sizeof(*item_of));
    d->search_result.item =
        calloc((size_t)g->chain_count + 1, sizeof(*d->search_result.item));
    if (!item_of || !d->search_result.item) {
        free(item_of);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u threads", g->chain_count);
    }
    number_free_processes_as_items(d);
    memset(item_of, 0xff, machines * sizeof(*item_of));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        if (!d->setup.placed[c])
            continue;
        uint32_t *item = &item_of[d->setup.map[c]];
        if (*item == UINT32_MAX)
            *item = d->search_result.item_count++;
        d->search_result.item[c] = *item;
    }
    free(item_of);
    if (d->search_result.free_count == 0)
        return ips_err_set(
            err, IPS_E_USAGE,
            "--map names every process: nothing is left to place");
    return 0;
}

static int allocate_search_arrays(struct placement_search *s,
                                  struct ips_err *err)
{
    size_t machines = s->d->setup.machine_count;
    size_t items = s->d->search_result.item_count;
    s->machine = calloc(machines, sizeof(*s->machine));
    s->closed = calloc(machines, sizeof(*s->closed));
    s->alike = calloc(machines, sizeof(*s->alike));
    s->capacity = calloc(machines, sizeof(*s->capacity));
    s->fixed = malloc(items * sizeof(*s->fixed));
    s->weight = calloc(items, sizeof(*s->weight));
    if (!s->machine || !s->closed || !s->alike || !s->capacity || !s->fixed ||
        !s->weight)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu processes", items);
    return 0;
}

static void fill_search_machines_and_item_weights(struct placement_search *s)
{
    struct predict_query *d = s->d;
    const struct ips_graph *g = &d->run.replay.g;
    bool named = false;
    for (uint32_t m = 0; m < d->setup.machine_count; m++)
        named = named || d->setup.machine[m].named;
    for (uint32_t m = 0; m < d->setup.machine_count; m++) {
        const struct ips_replay_machine is =
            predict_make_machine_slowed_by_load(&d->setup.machine[m]);
        s->machine[m] = is;
        s->closed[m] = named && !d->setup.machine[m].named;
        s->capacity[m] = is.speed.den
                             ? 1000ULL * is.cores * is.speed.num / is.speed.den
                             : 1000ULL * is.cores;
    }
    memset(s->fixed, 0xff, d->search_result.item_count * sizeof(*s->fixed));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t item = d->search_result.item[c], first = g->chains[c].first;
        if (item >= d->search_result.free_count)
            s->fixed[item] = d->setup.map[c];
        for (uint32_t i = first + 1; i < first + g->chains[c].count; i++)
            s->weight[item] = ips_add_sat(s->weight[item], g->w[i]);
    }
}

/* ---- trying placements ------------------------------------------------ */

static void apply_map_to_setup(struct predict_query *d, const uint32_t *map)
{
    for (uint32_t c = 0; c < d->run.replay.g.chain_count; c++)
        d->setup.map[c] = map[d->search_result.item[c]];
}

static int replay_and_value_map(void *ctx, const uint32_t *map,
                                struct ips_placement_value *out,
                                struct ips_err *err)
{
    struct placement_search *s = ctx;
    apply_map_to_setup(s->d, map);
    int rc = predict_replay(&s->d->run, &s->d->setup, &s->answer, err);
    if (rc < 0)
        return rc;
    out->makespan_ns = s->answer.makespan_ns;
    out->second = s->answer.queued_ns;
    predict_answer_release(&s->answer);
    return 0;
}

/* Stores the progress. Returns false if no client waits for the answer. */
static bool store_search_progress_and_check_wanted(void *ctx,
                                                   uint64_t evaluations,
                                                   uint64_t best_ns)
{
    struct placement_search *s = ctx;
    s->d->tries = evaluations;
    s->d->best_ns = best_ns;
    return !s->q->unwanted;
}

static uint64_t number_of_tries(const Ips__PredictSearch *ask, uint32_t nodes)
{
    uint64_t usual = NODES_REPLAYED / (nodes + 1000ULL);
    if (ask->tries)
        return ask->tries;
    return ips_max_u64(TRIES_LEAST, ips_min_u64(TRIES_MOST, usual));
}

static int search_placements_and_apply_best(struct placement_search *s,
                                            struct ips_err *err)
{
    struct predict_query *d = s->d;
    const Ips__PredictSearch *from = s->q->request->predict->search;
    const struct ips_graph *g = &d->run.replay.g;
    struct ips_scenario scenario = d->run.scenario_then;
    /* the bound must also hold for another, faster order of the locks */
    if (predict_locks_to_replay(&d->run))
        scenario.order_dependent_off = true;
    struct ips_replay_ask machines = {.machine_count = d->setup.machine_count,
                                      .machine = s->machine,
                                      .message_time = d->setup.message_time,
                                      .curve = d->setup.curve,
                                      .medium_count = d->setup.medium_count,
                                      .medium = d->setup.medium,
                                      .wire = d->setup.wire,
                                      .burst_ns = d->setup.burst_ns};
    struct ips_search_ask ask = {
        .item_count = d->search_result.item_count,
        .machine_count = d->setup.machine_count,
        .fixed = s->fixed,
        .closed = s->closed,
        .alike = s->alike,
        .weight = s->weight,
        .capacity = s->capacity,
        .evaluations = number_of_tries(from, g->node_count),
        .seed = from->seed,
        .top = (uint32_t)(from->top ? ips_min_u64(from->top, UINT32_MAX)
                                    : TOP_USUAL),
        .value = replay_and_value_map,
        .progress = store_search_progress_and_check_wanted,
        .ctx = s};
    d->search_result.tries_most = ask.evaluations;
    ips_search_find_alike_machines(&machines, &ask, s->alike);
    int rc =
        ips_search_compute_bound(g, &scenario, &machines, d->search_result.item,
                                 &ask, &d->search_result.bound, err);
    ask.bound_ns = d->search_result.bound.ns;
    d->setup.path = false;
    d->setup.as_recorded = true; /* the bound holds for the recorded order */
    if (rc == 0)
        rc = ips_placement_search(&ask, &d->search_result.s, err);
    if (rc == 0)
        apply_map_to_setup(d, d->search_result.s.best[0].machine);
    return rc < 0 ? ips_err_wrap(err, rc, "--search") : 0;
}

int predict_search(struct query *q, struct ips_err *err)
{
    struct placement_search s = {.q = q, .d = predict_query_of(q)};
    if (q->request->predict->n_moves)
        return ips_err_set(
            err, IPS_E_USAGE,
            "--search finds one machine for each process: it cannot be "
            "combined with --move");
    int rc = make_items(&s, err);
    if (rc == 0)
        rc = allocate_search_arrays(&s, err);
    if (rc == 0) {
        fill_search_machines_and_item_weights(&s);
        rc = search_placements_and_apply_best(&s, err);
    }
    free(s.machine);
    free(s.closed);
    free(s.alike);
    free(s.capacity);
    free(s.fixed);
    free(s.weight);
    return rc;
}

void predict_send_search_progress(struct query *q)
{
    struct predict_query *d = predict_query_of(q);
    Ips__PredictProgress at = IPS__PREDICT_PROGRESS__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    at.tries = d->tries;
    at.best_ns = d->best_ns;
    if (at.tries == 0 || query_is_client_backlogged(q))
        return;
    reply.answer_case = IPS__REPLY__ANSWER_PREDICT_PROGRESS;
    reply.predict_progress = &at;
    query_send_partial_reply(q, &reply);
}

/* ---- the answer ------------------------------------------------------- */

static char *object_path_of_process(const struct predict_query *d,
                                    struct arena *a, uint32_t c)
{
    const struct predict_thread *t = &d->run.thread[c];
    return arena_printf(a, "/%s/%s", d->run.own[t->own].name, t->process);
}

/* Lists the free processes that a map places on machine m; false: none, or no
 * memory. */
static bool fill_processes_placed_on_machine(const struct predict_query *d,
                                             struct arena *a,
                                             const uint32_t *map, uint32_t m,
                                             Ips__PredictGroup *to)
{
    uint32_t chains = d->run.replay.g.chain_count, told = IPS_SEARCH_FREE;
    size_t cap = 0;
    ips__predict_group__init(to);
    for (uint32_t c = 0; c < chains; c++) {
        uint32_t item = d->search_result.item[c];
        if (item >= d->search_result.free_count || map[item] != m ||
            item == told)
            continue;
        if (!arena_reserve_array_slot(a, &to->processes, to->n_processes, &cap,
                                      sizeof(*to->processes)))
            return false;
        to->processes[to->n_processes++] = object_path_of_process(d, a, c);
        told = item;
    }
    to->machine = arena_printf(a, "%s", d->setup.machine[m].name);
    return to->n_processes > 0;
}

static Ips__PredictMap *
make_placement_message(const struct predict_query *d, struct arena *a,
                       const struct ips_search_map *from)
{
    uint32_t machines = d->setup.machine_count;
    Ips__PredictMap *to = arena_alloc(a, sizeof(*to));
    Ips__PredictGroup *rows = arena_alloc(a, machines * sizeof(*rows));
    Ips__PredictGroup **list = arena_alloc(a, machines * sizeof(*list));
    if (!to || !rows || !list)
        return NULL;
    ips__predict_map__init(to);
    to->makespan_ns = from->makespan_ns;
    to->machines = from->used;
    to->groups = list;
    for (uint32_t m = 0; m < machines; m++)
        if (fill_processes_placed_on_machine(d, a, from->machine, m, &rows[m]))
            list[to->n_groups++] = &rows[m];
    return to;
}

static void fill_search_bound(const struct predict_query *d, struct arena *a,
                              Ips__PredictFound *to)
{
    const struct ips_search_compute_bound *b = &d->search_result.bound;
    to->bound_ns = b->ns;
    to->path_bound_ns = b->path_ns;
    to->capacity_bound_ns = b->capacity_ns;
    if (b->item >= d->search_result.free_count)
        return;
    to->process_bound_ns = b->item_ns;
    for (uint32_t c = 0; c < d->run.replay.g.chain_count; c++)
        if (d->search_result.item[c] == b->item) {
            to->bound_process = object_path_of_process(d, a, c);
            return;
        }
}

void predict_fill_answer_with_search(struct query *q, struct arena *a,
                                     Ips__PredictAnswer *out)
{
    static const char *const ends[] = {[IPS_SEARCH_ALL] = "all",
                                       [IPS_SEARCH_BOUND] = "bound",
                                       [IPS_SEARCH_SETTLED] = "settled",
                                       [IPS_SEARCH_BUDGET] = "tries",
                                       [IPS_SEARCH_STOPPED] = "stopped"};
    const struct predict_query *d = predict_query_of(q);
    const struct ips_placement_search *s = &d->search_result.s;
    Ips__PredictFound *to = arena_alloc(a, sizeof(*to));
    Ips__PredictMap **list = arena_alloc(a, (s->count + 1) * sizeof(*list));
    if (!to || !list)
        return;
    ips__predict_found__init(to);
    to->maps = list;
    for (uint32_t k = 0; k < s->count; k++) {
        list[k] = make_placement_message(d, a, &s->best[k]);
        if (!list[k])
            return;
        to->n_maps++;
    }
    fill_search_bound(d, a, to);
    to->tries = s->evaluations;
    to->tries_most = d->search_result.tries_most;
    to->starts = s->starts;
    to->end = ips_unconst_text(ends[s->end]);
    to->seed = q->request->predict->search->seed;
    to->best =
        s->end == IPS_SEARCH_ALL ||
        (s->count && s->best[0].makespan_ns <= d->search_result.bound.ns);
    to->free_processes = d->search_result.free_count;
    out->found = to;
}
