/* Makes the run that is replayed from the gathered data: its graph with the
 * waits that no arc explains, its machines, and the names of its threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/predict/query.h"
#include "master/query/machine_share.h"

/* ---- waits that no arc explains --------------------------------------- */

/* Whether a wait without an arc takes time in the replay. A wait for a lock or
 * of a spinning thread does not: it is another thread's computing, which is
 * replayed itself. A wait for a peer or a child does only if it is the node's
 * own (`of_node`): since it has no arc, it was for something not recorded. */
static bool wait_takes_replay_time(const char *cause, bool of_node)
{
    static const char *const never[] = {"lock", "file lock", "spin"};
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        if (strcmp(cause, never[i]) == 0)
            return false;
    return of_node ||
           (strcmp(cause, "peer") != 0 && strcmp(cause, "child") != 0);
}

static bool node_has_cross_arc(const struct ips_graph *g, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE;
}

/* Whether node i waits for something recorded. */
static bool waits_for_recorded_cause(const struct ips_graph *g, uint32_t i)
{
    return node_has_cross_arc(g, i) && g->xkind[i] != IPS_X_EXTERNAL &&
           g->xkind[i] != IPS_X_IDLE;
}

/* Returns the time off the CPU in the arc into node k of a machine's own graph,
 * without the node's own wait if an arc ends that wait (`linked`). The time
 * includes run delay: the kernel's figures are for periods that may be longer
 * than the arc. */
static uint64_t arc_off_cpu_ns(const struct ips_graph *raw, uint32_t k,
                               bool linked)
{
    uint64_t asked = ips_sub_sat(raw->at[k], linked ? raw->wait[k] : 0);
    uint64_t wall = ips_sub_sat(asked, raw->at[k - 1]);
    return ips_sub_sat(wall, raw->w[k]);
}

static void add_unexplained_waits_to_idle(const struct whatif_solving *s,
                                          const struct waits *w, uint32_t part,
                                          uint64_t *idle)
{
    const struct waits_rows *r = &w->machine[part];
    const struct ips_graph *g = s->g;
    uint32_t base = s->d->path.node_base[part];
    for (uint64_t n = 0; n < r->count; n++) {
        uint32_t i = base + r->node[n];
        bool of_node = r->of_node[n] != 0;
        bool own = g->kind[i] == IPS_NODE_RECV || g->kind[i] == IPS_NODE_JOIN ||
                   g->kind[i] == IPS_NODE_POLL;
        if (!wait_takes_replay_time(w->cause[r->why[n]], of_node) ||
            (of_node && (node_has_cross_arc(g, i) || !own)) ||
            (!of_node && waits_for_recorded_cause(g, i)))
            continue;
        idle[i] = ips_add_sat(idle[i], r->ns[n]);
    }
}

/* Sets idle[] to the time that each arc is off the CPU in the replay, and the
 * run's sum off_ns. */
static void compute_idle_times(struct query *q, const struct whatif_solving *s,
                               struct predict_run *run, uint64_t *idle)
{
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw =
            &engine_data_of_machine(q->gather.active[p])->g;
        uint32_t base = s->d->path.node_base[p];
        add_unexplained_waits_to_idle(s, &predict_query_of(q)->waits, p, idle);
        for (uint32_t c = 0; c < raw->chain_count; c++) {
            uint32_t first = raw->chains[c].first;
            idle[base + first] = 0;
            for (uint32_t k = first + 1; k < first + raw->chains[c].count;
                 k++) {
                uint32_t i = base + k;
                uint64_t off =
                    arc_off_cpu_ns(raw, k, node_has_cross_arc(s->g, i));
                idle[i] = ips_min_u64(idle[i], off);
                off = ips_sub_sat(off - idle[i], raw->delay[k]);
                run->off_ns = ips_add_sat(run->off_ns, off);
            }
        }
    }
}

/* Shortens the arcs of waits for the disk or a timer to the wait itself, if the
 * thread waited in its own call: the delay after the wake-up is left out. */
static void shorten_external_arcs_to_their_waits(struct query *q,
                                                 const struct whatif_solving *s,
                                                 struct predict_run *run)
{
    struct ips_replay_graph *r = &run->replay;
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw =
            &engine_data_of_machine(q->gather.active[p])->g;
        uint32_t base = s->d->path.node_base[p];
        for (uint32_t k = 1; k < raw->node_count; k++) {
            uint32_t at = r->to[base + k];
            bool own = raw->xkind[k] == IPS_X_EXTERNAL &&
                       raw->xpred[k] == k - 1 && at != IPS_NO_NODE;
            if (own && raw->wait[k])
                r->g.xlen[at] = ips_min_u64(r->g.xlen[at], raw->wait[k]);
        }
    }
}

static int mark_messages_slept_for(struct query *q,
                                   const struct whatif_solving *s,
                                   struct predict_run *run)
{
    const struct ips_replay_graph *r = &run->replay;
    run->slept = calloc((size_t)r->g.node_count + 1, 1);
    if (!run->slept)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "replay of %u nodes",
                           r->g.node_count);
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw =
            &engine_data_of_machine(q->gather.active[p])->g;
        uint32_t base = s->d->path.node_base[p];
        for (uint32_t k = 0; k < raw->node_count; k++) {
            uint32_t at = r->to[base + k];
            if (raw->wait[k] && at != IPS_NO_NODE &&
                r->g.xkind[at] == IPS_X_DATA && r->g.xpred[at] != IPS_NO_NODE)
                run->slept[at] = 1;
        }
    }
    return 0;
}

/* ---- machines and threads --------------------------------------------- */

static uint32_t command_end_node(const struct query *q,
                                 const struct path_data *d,
                                 const struct ips_replay_graph *r)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        if (s->goal_node && s->goal_node <= s->nodes)
            return r->to[d->node_base[i] + (uint32_t)s->goal_node - 1];
    }
    return IPS_NO_NODE;
}

static void fill_thread(const struct machine_share *p, uint32_t chain,
                        const struct ips_chain *c, struct predict_thread *t)
{
    t->own = c->machine;
    t->pid = c->pid;
    t->tid = c->tid;
    t->process = machine_share_process_name(p, c->process);
    t->name = chain < p->t.thread_count ? p->t.threads[chain]->name : "";
}

static int make_machines_and_threads(struct query *q,
                                     const struct whatif_solving *s,
                                     struct predict_run *run)
{
    uint32_t n = q->gather.count, own = 0, chain = 0;
    run->own_count = n;
    run->all_locks = true;
    run->own = calloc((size_t)n + 1, sizeof(*run->own));
    run->thread = calloc((size_t)s->g->chain_count + 1, sizeof(*run->thread));
    if (!run->own || !run->thread)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "%u threads",
                           s->g->chain_count);
    for (uint32_t i = 0; i < n; i++) {
        const struct machine_share *p = q->gather.active[i];
        run->all_locks = run->all_locks && p->sync->all_locks;
        run->own[i] = (struct predict_recorded_machine){
            p->machine,
            (uint32_t)ips_min_u64(p->sync->cores, IPS_REPLAY_CORES_MAX),
            p->sync->delay_ns, p->sync->load_samples,
            ips_sub_sat(p->sync->load_milli, machine_share_run_load_milli(p))};
    }
    for (uint32_t c = 0; c < s->g->chain_count; c++, chain++) {
        const struct ips_chain *of = &s->g->chains[c];
        if (of->machine != own)
            chain = 0;
        own = of->machine;
        fill_thread(q->gather.active[own], chain, of, &run->thread[c]);
    }
    return 0;
}

/* ---- cuts for moves and lock operations ------------------------------- */

struct planned_cut {
    struct ips_replay_cut cut;
    /* below cuts.moves: index of a move of the question; else cuts.moves plus
     * the index of a lock row */
    uint32_t which;
    bool whole; /* the move is from the chain's first node: nothing is cut */
};
struct cuts {
    struct planned_cut *one;
    size_t count, moves;
    struct predict_lock_rows locks;
};

static int add_cuts_of_move(struct query *q, const struct whatif_solving *s,
                            const struct predict_run *run, uint32_t which,
                            struct cuts *out)
{
    const Ips__PredictMove *m = q->request->predict->moves[which];
    uint32_t chain = 0;
    bool fits = false;
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct machine_share *part = q->gather.active[p];
        const struct ips_graph *raw = &engine_data_of_machine(part)->g;
        uint64_t t = ips_add_sat(part->sync->first_ns, m->at_ns);
        for (uint32_t c = 0; c < raw->chain_count; c++, chain++) {
            struct planned_cut *one = &out->one[out->count];
            if (!predict_thread_matches(run, &run->thread[chain], m->what))
                continue;
            fits = true;
            if (!raw->at || !raw->wait ||
                !ips_replay_find_cut_of_chain_at_time(raw, &raw->chains[c], t,
                                                      &one->cut))
                continue;
            one->whole = one->cut.node == raw->chains[c].first;
            one->cut.node += s->d->path.node_base[p];
            one->which = which;
            out->count++;
        }
    }
    if (fits)
        return 0;
    char rest[100];
    snprintf(rest, sizeof(rest), "@...=%.80s", m->machine);
    return predict_set_no_process_error(run, "--move", m->what, rest, s->err);
}

static int make_cuts_of_moves_and_locks(struct query *q,
                                        const struct whatif_solving *s,
                                        const struct predict_run *run,
                                        struct cuts *out)
{
    size_t moves = q->request->predict->n_moves;
    int rc = predict_lock_rows_make(q, s, &out->locks);
    if (rc < 0)
        return rc;
    out->moves = moves;
    size_t most = moves * s->g->chain_count + out->locks.count + 1;
    if (moves > PREDICT_MOVES_MAX)
        return ips_err_set(s->err, IPS_E_USAGE, "%zu moves: at most %u", moves,
                           PREDICT_MOVES_MAX);
    out->one = calloc(most, sizeof(*out->one));
    if (!out->one)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "%zu moves", most);
    for (uint32_t k = 0; k < moves && rc == 0; k++)
        rc = add_cuts_of_move(q, s, run, k, out);
    for (size_t i = 0; i < out->locks.count && rc == 0; i++) {
        const struct predict_lock_row *row = &out->locks.row[i];
        if (row->after)
            out->one[out->count++] = (struct planned_cut){
                .cut = {.node = row->node, .w = row->after - 1},
                .which = (uint32_t)(moves + i)};
    }
    return rc;
}

/* Orders by the node and the position (w) of the cut in the arc into it, then
 * as in the question. */
static int compare_cuts(const void *va, const void *vb)
{
    const struct planned_cut *a = va, *b = vb;
    if (a->cut.node != b->cut.node)
        return a->cut.node < b->cut.node ? -1 : 1;
    if (a->cut.w != b->cut.w)
        return a->cut.w < b->cut.w ? -1 : 1;
    return (a->which > b->which) - (a->which < b->which);
}

/* Makes the graph of the replay, with the cuts. A move of a whole chain needs
 * no cut: the chain starts on the other machine. A thread moves at the arc that
 * follows its cut; a lock operation happens at the node of its cut. */
static int make_replay_graph_with_cuts(struct cuts *c, struct predict_run *run,
                                       const struct whatif_solving *s,
                                       const uint64_t *idle)
{
    struct ips_replay_cut *real = calloc(c->count + 1, sizeof(*real));
    size_t n = 0;
    run->cut = calloc(c->count + 1, sizeof(*run->cut));
    if (!real || !run->cut) {
        free(real);
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "%zu moves", c->count);
    }
    for (size_t i = 0; i < c->count; i++)
        if (!c->one[i].whole)
            real[n++] = c->one[i].cut;
    int rc = ips_replay_graph_make_reduced(s->g, idle, real, n, &run->replay,
                                           s->err);
    n = 0;
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        uint32_t node =
            c->one[i].whole ? run->replay.to[c->one[i].cut.node] : real[n++].at;
        if (c->one[i].which < c->moves)
            run->cut[run->cut_count++] =
                (struct predict_cut){node, c->one[i].which};
        else
            c->locks.row[c->one[i].which - c->moves].at = node - 1;
    }
    free(real);
    return rc;
}

/* ---- the graph of the replay ------------------------------------------ */

static int make_replay_graph_and_locks(struct query *q,
                                       const struct whatif_solving *s,
                                       struct predict_run *run)
{
    uint64_t *idle = calloc((size_t)s->g->node_count + 1, sizeof(*idle));
    struct cuts cuts = {0};
    bool times = true;
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw =
            &engine_data_of_machine(q->gather.active[p])->g;
        times = times && raw->at && raw->wait && raw->delay;
    }
    if (!idle)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "replay of %u nodes",
                           s->g->node_count);
    if (times)
        compute_idle_times(q, s, run, idle);
    int rc = times ? predict_add_held_back_delays(q, s, run, idle) : 0;
    if (rc == 0)
        rc = make_cuts_of_moves_and_locks(q, s, run, &cuts);
    if (rc == 0) {
        qsort(cuts.one, cuts.count, sizeof(*cuts.one), compare_cuts);
        rc = make_replay_graph_with_cuts(&cuts, run, s, idle);
    }
    if (rc == 0)
        rc = predict_make_replay_lock_events(&cuts.locks, run, s->err);
    if (rc == 0 && times)
        shorten_external_arcs_to_their_waits(q, s, run);
    if (rc == 0 && times)
        rc = mark_messages_slept_for(q, s, run);
    free(idle);
    free(cuts.one);
    free(cuts.locks.row);
    free(cuts.locks.units);
    return rc;
}

int predict_run_make(struct query *q, const struct whatif_solving *s,
                     struct predict_run *run)
{
    memset(run, 0, sizeof(*run));
    run->whole = s->g;
    run->t = &s->d->t;
    run->scenario = s->scenario;
    int rc = make_machines_and_threads(q, s, run);
    if (rc == 0)
        rc = make_replay_graph_and_locks(q, s, run);
    if (rc < 0)
        return rc;
    for (uint32_t k = 0; k < run->replay.g.node_count; k++)
        run->outside = run->outside ||
                       run->replay.g.xkind[k] == IPS_X_EXTERNAL ||
                       run->replay.g.xkind[k] == IPS_X_IDLE;
    run->command = command_end_node(q, &s->d->path, &run->replay);
    if (run->scenario.has_goal && run->scenario.goal != IPS_NO_NODE)
        run->scenario.goal = run->replay.to[run->scenario.goal];
    run->scenario_then = run->scenario;
    if (!q->request->predict->external)
        run->scenario_then.external = IPS_EXTERNAL_ALL;
    return 0;
}
