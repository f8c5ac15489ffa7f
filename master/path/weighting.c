#include "master/path/weighting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/view.h"
#include "master/path/clocks.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"

static const char *const names[] = {"cpu", "sched", "wall"};

const char *weighting_name(enum ips_weighting w)
{
    return names[w];
}

int weighting_parse(const char *text, enum ips_weighting *out,
                    struct ips_err *err)
{
    *out = IPS_WEIGH_CPU;
    if (!*text)
        return 0;
    for (int w = IPS_WEIGH_CPU; w <= IPS_WEIGH_LAST; w++) {
        if (strcmp(text, names[w]) == 0) {
            *out = (enum ips_weighting)w;
            return 0;
        }
    }
    return ips_err_set(err, IPS_E_USAGE, "weighting %.40s: cpu, sched or wall",
                       text);
}

/* ---- the goal ----------------------------------------------------------- */

static void set_goal(struct path_data *d, const struct machine_share *p,
                     uint64_t node)
{
    d->has_goal = true;
    d->goal_machine = p->number;
    d->goal_node = (uint32_t)node;
}

/* Returns the thread of `process` that ended last; if `tid` is not "", only
 * threads with that number count. */
static const Ips__ThreadRow *last_ended_thread(const struct machine_share *p,
                                               uint32_t process,
                                               const char *tid)
{
    const Ips__ThreadRow *best = NULL;
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        const Ips__ThreadRow *t = p->t.threads[i];
        char text[16];
        snprintf(text, sizeof(text), "%u", t->tid);
        if (t->process != process || (*tid && strcmp(tid, text) != 0))
            continue;
        if (!best || t->end_ns > best->end_ns)
            best = t;
    }
    return best;
}

/* Returns true if `object` is process i of machine p, or a thread of this
 * process. Sets *tid to the thread's number, or to "" for a process. */
static bool object_names_process(const struct machine_share *p, uint32_t i,
                                 const char *object, const char **tid)
{
    char name[OBJECT_BYTES];
    machine_share_write_process_object_name(p, i, name);
    size_t n = strlen(name);
    if (strncmp(object, name, n) != 0 ||
        (object[n] != '\0' && object[n] != '/'))
        return false;
    *tid = object[n] ? object + n + 1 : "";
    return true;
}

static int set_goal_to_object_end(struct query *q, const char *object,
                                  struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        for (uint32_t k = 0; k < p->t.proc_count; k++) {
            const char *tid;
            if (!object_names_process(p, k, object, &tid))
                continue;
            const Ips__ThreadRow *t = last_ended_thread(p, k, tid);
            if (!t || t->end_node >= p->sync->nodes)
                continue;
            set_goal(d, p, t->end_node);
            snprintf(d->goal_text, sizeof(d->goal_text), "%s", object);
            return 0;
        }
    }
    return ips_err_wrap(err, gather_set_no_object_error(q, object, err),
                        "--goal");
}

int weighting_set_goal(struct query *q, const char *object, struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    d->has_goal = false;
    d->goal_text[0] = '\0';
    if (*object)
        return set_goal_to_object_end(q, object, err);
    if (d->scenarios[SCENARIO_MAIN].scenario.weighting != IPS_WEIGH_WALL)
        return 0;
    for (uint32_t i = 0; i < q->gather.count && !d->has_goal; i++) {
        const struct machine_share *p = q->gather.active[i];
        if (!p->sync->goal_node || p->sync->goal_node > p->sync->nodes)
            continue;
        set_goal(d, p, p->sync->goal_node - 1);
        for (uint32_t k = 0; k < p->t.proc_count; k++) {
            if (p->t.procs[k]->root)
                machine_share_write_process_object_name(p, k, d->goal_text);
        }
    }
    return 0;
}

/* ---- sending scenarios ------------------------------------------------ */

void weighting_write_scenario(const struct query *q,
                              const struct machine_share *p,
                              const struct ips_scenario *scenario,
                              Ips__Lane *to)
{
    const struct path_data *d = path_data_of((struct query *)(uintptr_t)q);
    const struct ips_clock_map *clock = &engine_data_of_machine(p)->clock;
    ips__lane__init(to);
    to->message_time_base_ns = scenario->message_time.base_ns;
    to->message_time_per_byte_q32 = scenario->message_time.per_byte_q32;
    to->scale_num = scenario->message_time.scale_num;
    to->scale_den = scenario->message_time.scale_den;
    to->external = (uint32_t)scenario->external;
    to->calibrated = scenario->calibrated;
    to->any_off = scenario->order_dependent_off;
    to->probe_off = scenario->probe_off;
    to->unended = scenario->unended;
    to->weighting = (uint32_t)scenario->weighting;
    to->clock_from_ns = clock->from;
    to->clock_drift_q40 = clock->drift_q40;
    to->clock_shift_ns = clock->shift_ns;
    if (d->has_goal)
        to->goal =
            d->goal_machine == p->number ? (uint64_t)d->goal_node + 2 : 1;
}

struct ips_scenario
weighting_scenario_with_merged_goal(const struct query *q,
                                    const struct ips_scenario *scenario)
{
    const struct path_data *d = path_data_of((struct query *)(uintptr_t)q);
    struct ips_scenario out = *scenario;
    out.has_goal = d->has_goal;
    out.goal = d->has_goal ? d->node_base[d->goal_machine] + d->goal_node
                           : IPS_NO_NODE;
    return out;
}

/* ---- reference clock ---------------------------------------------------- */

/* Returns the machine on which the run starts: that of its command. If the
 * command was not recorded, the run starts with the first event of the first
 * machine. */
static const struct machine_share *
machine_where_run_starts(const struct query *q)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        if (q->gather.active[i]->sync->root_start_ns)
            return q->gather.active[i];
    }
    return q->gather.count ? q->gather.active[0] : NULL;
}

const struct machine_share *weighting_set_origin_clock(struct query *q)
{
    const struct machine_share *p = machine_where_run_starts(q);
    if (!p)
        return NULL;
    const Ips__SyncAnswer *s = p->sync;
    engine_data_of_machine(p)->clock = (struct ips_clock_map){
        .from = s->root_start_ns ? s->root_start_ns : s->first_ns};
    return p;
}

void weighting_align_clocks_if_needed(struct query *q,
                                      void (*after)(struct query *q))
{
    struct path_data *d = path_data_of(q);
    const struct machine_share *origin = NULL;
    if (d->scenarios[SCENARIO_MAIN].scenario.weighting == IPS_WEIGH_WALL)
        origin = weighting_set_origin_clock(q);
    if (!origin || q->gather.count == 1)
        after(q);
    else
        clocks_align(q, origin->number, after);
}

const char *weighting_clock_alignment_text(const struct path_data *d)
{
    return *d->clock_text ? d->clock_text : NULL;
}

uint64_t weighting_unattributed_delay_ns(const struct query *q)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        sum = ips_add_sat(sum, q->gather.active[i]->sync->delay_unknown_ns);
    return sum;
}

/* ---- running and waiting for a CPU -------------------------------------- */

static int add_cpu_split_of_reply(struct query *q, struct machine_share *p,
                                  const Ips__Reply *reply, struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    (void)p;
    if (reply->answer_case != IPS__REPLY__ANSWER_SPLIT)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to SplitAsk");
    d->on_cpu_ns = ips_add_sat(d->on_cpu_ns, reply->split->cpu_ns);
    d->run_delay_ns = ips_add_sat(d->run_delay_ns, reply->split->delay_ns);
    d->unended_ns = ips_add_sat(d->unended_ns, reply->split->unended_ns);
    return 0;
}

static bool is_piece_computing_on_machine(const struct path_piece *piece,
                                          const struct machine_share *p)
{
    return piece->kind == IPS_SEG_COMPUTE && piece->at.machine == p->number &&
           piece->from != IPS_NO_NODE;
}

static int send_split_request(struct query *q, struct machine_share *p,
                              struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    uint64_t base = engine_data_of_machine(p)->base, at = 0;
    uint32_t *from = malloc(IPS_PIECE_ITEMS * sizeof(*from));
    uint32_t *to = malloc(IPS_PIECE_ITEMS * sizeof(*to));
    bool first = true;
    int rc = 0;
    if (!from || !to)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    while (rc == 0 && (first || at < d->piece_count)) {
        Ips__SplitAsk ask = IPS__SPLIT_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        size_t n = 0;
        for (; at < d->piece_count && n < IPS_PIECE_ITEMS; at++) {
            if (!is_piece_computing_on_machine(&d->pieces[at], p))
                continue;
            from[n] = (uint32_t)(d->pieces[at].from - base);
            to[n++] = (uint32_t)(d->pieces[at].to - base);
        }
        ask.generation = p->sync->generation;
        ask.n_from = ask.n_to = n;
        ask.from = from;
        ask.to = to;
        ask.more = at < d->piece_count;
        request.ask_case = IPS__REQUEST__ASK_SPLIT;
        request.split = &ask;
        query_send_request_to_slave(q, p, &request, first);
        first = false;
    }
    free(from);
    free(to);
    return rc;
}

static void clamp_cpu_split_and_call_after(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t compute = 0;
    for (uint64_t i = 0; i < d->piece_count; i++) {
        if (d->pieces[i].kind == IPS_SEG_COMPUTE)
            compute = ips_add_sat(compute, d->pieces[i].ns);
    }
    /* The slaves may report more CPU time than the pieces have, because CPU
     * time after a thread's last record has no position in time. */
    d->on_cpu_ns = ips_min_u64(d->on_cpu_ns, compute);
    d->run_delay_ns = ips_min_u64(d->run_delay_ns, compute - d->on_cpu_ns);
    d->other_ns = compute - d->on_cpu_ns - d->run_delay_ns;
    d->after_split(q);
}

void weighting_fetch_computing_split(struct query *q,
                                     void (*after)(struct query *q))
{
    struct path_data *d = path_data_of(q);
    struct ips_err err = {0};
    int rc = 0;
    d->on_cpu_ns = d->run_delay_ns = d->other_ns = IPS_UNMEASURED;
    if (d->scenarios[SCENARIO_MAIN].scenario.weighting == IPS_WEIGH_CPU) {
        after(q);
        return;
    }
    d->on_cpu_ns = d->run_delay_ns = d->unended_ns = 0;
    d->after_split = after;
    query_open_round(q, add_cpu_split_of_reply, clamp_cpu_split_and_call_after);
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++)
        rc = send_split_request(q, q->gather.active[i], &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        query_close_round(q);
}

int weighting_switch_and_merge_views(struct query *q, enum ips_weighting w)
{
    struct path_data *d = path_data_of(q);
    uint32_t n = q->gather.count;
    struct ips_view *view = calloc((size_t)n + 1, sizeof(*view));
    struct ips_machine_graph *parts = calloc((size_t)n + 1, sizeof(*parts));
    int rc = 0;
    d->scenarios[SCENARIO_MAIN].scenario.weighting = w;
    free(d->node_base);
    d->node_base = calloc((size_t)n + 1, sizeof(*d->node_base));
    if (!view || !parts || !d->node_base)
        rc = ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory for the graph");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const struct machine_share *p = q->gather.active[i];
        struct ips_scenario scenario = d->scenarios[SCENARIO_MAIN].scenario;
        scenario.clock = engine_data_of_machine(p)->clock;
        rc = ips_graph_make_view(&engine_data_of_machine(p)->g, &scenario,
                                 &view[i], &d->err);
        /* A view in `wall` has no run delays. Set them, because without them
         * the merged graph would have no node times. */
        if (scenario.weighting == IPS_WEIGH_WALL)
            view[i].g.delay = engine_data_of_machine(p)->g.delay;
        parts[i] = (struct ips_machine_graph){
            .g = &view[i].g, .peer = p->peer, .end_count = p->peer_count};
    }
    if (rc == 0)
        rc = ips_graph_merge(parts, n, &d->scenarios[SCENARIO_MAIN].scenario,
                             &d->merged, d->node_base, &d->unmatched, &d->err);
    for (uint32_t i = 0; i < n && view; i++)
        ips_view_release(&view[i]);
    free(view);
    free(parts);
    return rc;
}

/* ---- windows ------------------------------------------------------------- */

void weighting_shift_window_to_run_start(struct query *q, struct path_window *w)
{
    const struct path_data *d = path_data_of(q);
    if (!w->is_set)
        return;
    /* The origin is the start of the command, not the machine's first event. */
    const Ips__SyncAnswer *s = q->gather.active[d->origin_machine]->sync;
    uint64_t late =
        s->root_start_ns ? ips_sub_sat(s->root_start_ns, s->first_ns) : 0;
    w->from_ns = ips_sub_sat(w->from_ns, late);
    /* 0 means no end; a window that ends before the origin becomes (0, 1 ns] */
    if (w->to_ns)
        w->to_ns = ips_max_u64(ips_sub_sat(w->to_ns, late), 1);
}

void weighting_set_window(struct query *q, uint64_t from_ns, uint64_t to_ns)
{
    struct path_data *d = path_data_of(q);
    d->window = (struct path_window){
        .is_set = from_ns || to_ns, .from_ns = from_ns, .to_ns = to_ns};
    if (d->scenarios[SCENARIO_MAIN].scenario.weighting == IPS_WEIGH_WALL)
        weighting_shift_window_to_run_start(q, &d->window);
}
