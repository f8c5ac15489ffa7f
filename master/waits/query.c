/*
 * Answers `ipsq waits`: where threads waited, for what, and what caused the
 * waits. Checks the question and gathers tables, peers, clocks, whole
 * subgraphs, all waits and arc profiles. The worker computes the groups.
 * Category 3 of IPS-9.
 */
#include "master/waits/query.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"

static void fail_waits_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

/* ---- checking the question ---------------------------------------------- */

static const char *const bys[] = {"place", "cause", "peer", "process",
                                  "thread"};
static const char *const orders[] = {"total_ns", "count", "longest_ns",
                                     "mean_ns"};

static int parse_choice(const char *what, const char *text,
                        const char *const *words, uint32_t n, uint32_t *out,
                        struct ips_err *err)
{
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (*text && strcmp(text, words[i]) != 0)
            continue;
        *out = i;
        return 0;
    }
    return ips_err_set(err, IPS_E_USAGE, "waits: no %s '%.40s'", what, text);
}

static int check_and_read_waits_ask(const Ips__WaitsAsk *a,
                                    struct waits_data *d, struct ips_err *err)
{
    uint32_t by, order;
    int rc = parse_choice("such thing", a->by, bys, 5, &by, err);
    if (rc == 0)
        rc = parse_choice("order", a->order + (*a->order == '-'), orders, 4,
                          &order, err);
    if (rc == 0 && a->to_ns && a->from_ns >= a->to_ns)
        rc = ips_err_set(err, IPS_E_USAGE, "the window ends before it starts");
    if (rc == 0 && *a->object && *a->object != '/')
        rc = ips_err_set(err, IPS_E_USAGE,
                         "object '%.80s' does not begin with /", a->object);
    if (rc == 0)
        d->by = (enum waits_by)by;
    return rc;
}

/* ---- selecting objects ------------------------------------------------ */

/* The components of an object's pattern; "" matches everything. */
struct pattern {
    char text[512];
    const char *word[4]; /* patterns for machine, process, thread, procedure */
};

static void split_object_pattern(const char *object, struct pattern *p)
{
    snprintf(p->text, sizeof(p->text), "%s", object);
    char *at = p->text;
    for (int i = 0; i < 4; i++)
        p->word[i] = "";
    for (int i = 0; i < 4 && at && *object; i++) {
        p->word[i] = at + 1; /* the word starts after the slash */
        at = strchr(at + 1, '/');
        if (at && i < 3)
            *at = '\0';
    }
}

static bool matches_pattern(const char *pattern, const char *text)
{
    return !*pattern || fnmatch(pattern, text, 0) == 0;
}

/* Whether the pattern matches the name of a process, such as "a.3", or of its
 * program, "a". */
static bool process_matches_pattern(const char *pattern, const char *name)
{
    char program[128];
    snprintf(program, sizeof(program), "%.*s",
             (int)machine_share_program_len(name), name);
    return matches_pattern(pattern, name) || matches_pattern(pattern, program);
}

static bool thread_matches_pattern(const struct machine_share *p,
                                   const char *pattern,
                                   const struct ips_chain *c)
{
    char tid[16];
    snprintf(tid, sizeof(tid), "%u", c->tid);
    if (matches_pattern(pattern, tid))
        return true;
    for (uint32_t i = 0; i < p->t.thread_count; i++)
        if (p->t.threads[i]->tid == c->tid &&
            p->t.threads[i]->process == c->process)
            return matches_pattern(pattern, p->t.threads[i]->name);
    return false;
}

static int select_chains_and_call_sites(struct query *q, const struct waits *w,
                                        const char *object, bool *chain,
                                        bool *place, struct ips_err *err)
{
    struct pattern o;
    bool some = false;
    split_object_pattern(object, &o);
    for (uint32_t c = 0; c < w->g->chain_count; c++) {
        const struct ips_chain *ch = &w->g->chains[c];
        const struct machine_share *p = q->gather.active[ch->machine];
        chain[c] = matches_pattern(o.word[0], p->machine) &&
                   process_matches_pattern(
                       o.word[1], machine_share_process_name(p, ch->process)) &&
                   (!*o.word[2] || thread_matches_pattern(p, o.word[2], ch));
        some |= chain[c];
    }
    /* whether the call site of some wait is in a procedure that word[3]
     * matches */
    bool waited = !*o.word[3];
    for (uint32_t i = 0; i < w->call_site_count; i++) {
        place[i] = matches_pattern(o.word[3], w->call_site[i].procedure);
        waited |= place[i];
    }
    if (!some)
        gather_set_no_object_error(q, object, err);
    else if (!waited)
        ips_err_set(err, IPS_E_NOT_FOUND,
                    "object %.200s: run %s has no wait in procedure %.200s; "
                    "`ipsq waits` lists them",
                    object, q->run, o.word[3]);
    return some && waited ? 0 : err->code;
}

/* ---- sorting the groups ------------------------------------------------- */

struct ordering {
    const struct waits_make_groups *group;
    uint32_t by; /* index of the sort key in `orders` */
    bool turned; /* whether the smallest values come first */
};

static uint64_t sort_key_of_group(const struct waits_make_groups *g,
                                  uint32_t by)
{
    switch (by) {
    case 1:
        return g->count;
    case 2:
        return g->longest_ns;
    case 3:
        return g->count ? g->total_ns / g->count : 0;
    default:
        return g->total_ns;
    }
}

static int compare_groups_by_sort_key(const void *va, const void *vb, void *arg)
{
    const struct ordering *o = arg;
    uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
    uint64_t x = sort_key_of_group(&o->group[a], o->by),
             y = sort_key_of_group(&o->group[b], o->by);
    if (x != y)
        return (x > y) != o->turned ? -1 : 1;
    return (a > b) - (a < b);
}

static int sort_groups(struct query *q, struct ips_err *err)
{
    struct waits_data *d = waits_data_of(q);
    const char *order = q->request->waits->order;
    struct ordering o = {d->groups.group, 0, *order == '-'};
    int rc = parse_choice("order", order + o.turned, orders, 4, &o.by, err);
    d->order = malloc(((size_t)d->groups.count + 1) * sizeof(*d->order));
    if (rc == 0 && !d->order)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; rc == 0 && i < d->groups.count; i++)
        d->order[i] = i;
    if (rc == 0 && d->groups.count)
        qsort_r(d->order, d->groups.count, sizeof(*d->order),
                compare_groups_by_sort_key, &o);
    return rc;
}

/* ---- computing in the worker thread ------------------------------------- */

static int select_and_group_waits(struct query *q, struct ips_err *err)
{
    struct waits_data *d = waits_data_of(q);
    const Ips__WaitsAsk *ask = q->request->waits;
    bool *chain = calloc((size_t)d->w.g->chain_count + 1, sizeof(*chain));
    bool *place = calloc((size_t)d->w.call_site_count + 1, sizeof(*place));
    struct waits_choice c = {.by = d->by,
                             .chain = chain,
                             .call_site = place,
                             .from_ns = ask->from_ns,
                             .to_ns = ask->to_ns ? ask->to_ns : UINT64_MAX};
    int rc = 0;
    if (!chain || !place)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (rc == 0)
        rc = select_chains_and_call_sites(q, &d->w, ask->object, chain, place,
                                          err);
    if (rc == 0)
        rc = waits_make_groups(&d->w, &c, &d->groups, err);
    free(chain);
    free(place);
    return rc;
}

static int account_core_time_of_machines(struct query *q, struct ips_err *err)
{
    struct waits_data *d = waits_data_of(q);
    const Ips__WaitsAsk *ask = q->request->waits;
    uint32_t n = q->gather.count, spinning = 0;
    uint64_t from = d->w.begin, to = d->w.finish;
    int rc = 0;
    if (ask->from_ns)
        from = ips_max_u64(from, ips_add_sat(ask->from_ns, d->w.scale_ns));
    if (ask->to_ns)
        to = ips_min_u64(to, ips_add_sat(ask->to_ns, d->w.scale_ns));
    d->w.begin = ips_min_u64(from, to);
    d->w.finish = to;
    d->idle = calloc((size_t)n + 1, sizeof(*d->idle));
    if (!d->idle)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < d->w.cause_count; i++)
        spinning |= (uint32_t)(strcmp(d->w.cause[i], "spin") == 0) << i;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        uint64_t cores = q->gather.active[i]->sync->cores;
        rc = ips_idle_account_core_time(
            &d->w.laid, i, (uint32_t)ips_min_u64(cores, 1u << 20), d->w.begin,
            d->w.finish, spinning, &d->idle[i], err);
    }
    return rc;
}

static void merge_graphs_and_group_waits(struct query *q)
{
    struct waits_data *d = waits_data_of(q);
    struct ips_err *err = &d->path.err;
    if (!engine_make_graphs(q))
        return;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        uint32_t sent = engine_data_of_machine(p)->g.node_count;
        if (sent == p->sync->nodes)
            continue;
        d->path.blame = p;
        ips_err_set(err, IPS_E_PROTOCOL,
                    "promised %" PRIu64 " nodes and sent %u", p->sync->nodes,
                    sent);
        return;
    }
    if (!engine_merge_graphs(q))
        return;
    int rc = waits_place_on_graph(q, &d->w, err);
    if (rc == 0)
        rc = select_and_group_waits(q, err);
    if (rc == 0)
        rc = sort_groups(q, err);
    if (rc == 0)
        rc = account_core_time_of_machines(q, err);
    if (rc < 0 && !err->code)
        err->code = rc;
}

static void send_waits_answer_or_error(struct query *q)
{
    if (path_data_of(q)->err.code)
        engine_exclude_blamed_machine_or_fail(q);
    else
        waits_send_answer(q);
}

/* ---- rounds of requests to the slaves ----------------------------------- */

static void start_computing_waits(struct query *q)
{
    struct waits *w = &waits_data_of(q)->w;
    struct ips_err err = {0};
    uint64_t waits = 0;
    for (uint32_t i = 0; i < w->machine_count; i++)
        waits += w->machine[i].count;
    int rc = path_check_master_memory(q, waits * WAITS_ROW_BYTES, &err);
    if (rc == 0)
        rc = query_submit_work(q, merge_graphs_and_group_waits,
                               send_waits_answer_or_error, &err);
    if (rc < 0)
        query_fail(q, &err);
}

static void fetch_waits_and_arc_profiles(struct query *q)
{
    waits_fetch_rows_and_arc_profiles(q, &waits_data_of(q)->w,
                                      start_computing_waits);
}

static void fetch_graphs_then_waits(struct query *q)
{
    waits_data_of(q)->path.scenarios[SCENARIO_MAIN].scenario.weighting =
        IPS_WEIGH_CPU;
    engine_fetch_subgraphs(q, true, fetch_waits_and_arc_profiles);
}

static void check_memory_and_align_waits_clocks(struct query *q)
{
    struct waits_data *d = waits_data_of(q);
    struct ips_err err = {0};
    int rc = engine_init_machines_and_number_nodes(q, "waits", &err);
    if (rc == 0)
        rc =
            path_check_master_memory(q, d->path.nodes * WAITS_NODE_BYTES, &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        weighting_align_clocks_if_needed(q, fetch_graphs_then_waits);
}

static void start_waits(struct query *q)
{
    struct ips_err err = {0};
    struct waits_data *d = calloc(1, sizeof(*d));
    if (!d) {
        fail_waits_no_memory(q);
        return;
    }
    q->data = d;
    struct ips_scenario *scenario = &d->path.scenarios[SCENARIO_MAIN].scenario;
    *scenario =
        (struct ips_scenario){.message_time = {.scale_num = 1, .scale_den = 1},
                              .weighting = IPS_WEIGH_WALL};
    if (check_and_read_waits_ask(q->request->waits, d, &err) < 0)
        query_fail(q, &err);
    else
        gather_start(q, GATHER_TABLE | GATHER_PEERS | GATHER_WAITS,
                     check_memory_and_align_waits_clocks);
}

static void release_waits(struct query *q)
{
    struct waits_data *d = waits_data_of(q);
    if (d) {
        waits_release(&d->w);
        waits_groups_release(&d->groups);
        free(d->order);
        free(d->idle);
    }
    engine_release_path_data(q);
    gather_release(q);
}

const struct query_kind query_waits = {.name = "waits",
                                       .exclusive = true,
                                       .start = start_waits,
                                       .release = release_waits,
                                       .keeps = true};
