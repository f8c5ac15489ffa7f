/* The run that is replayed, of what was gathered: its graph with the waits that
 * no arc explains, its machines, and who its threads are. */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/part.h"
#include "master/predict_query.h"

/* ---- waits that no arc explains ------------------------------------------
 */

/* Locks' and spinners' waits without an arc are somebody's computing, which is
 * replayed itself; a peer's that was traced has an arc. */
static bool takes_time(const char *cause, bool of_node)
{
    static const char *const never[] = {"lock", "file lock", "spin"};
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        if (strcmp(cause, never[i]) == 0)
            return false;
    return of_node ||
           (strcmp(cause, "peer") != 0 && strcmp(cause, "child") != 0);
}

static bool has_arc(const struct ips_graph *g, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE;
}

/* Does node i wait for something traced? */
static bool waits_traced(const struct ips_graph *g, uint32_t i)
{
    return has_arc(g, i) && g->xkind[i] != IPS_X_EXTERNAL &&
           g->xkind[i] != IPS_X_IDLE;
}

/* Of the arc into raw node k: off the CPU, not runnable, not in the node's own
 * wait. */
static uint64_t off_cpu(const struct ips_graph *raw, uint32_t k, bool linked)
{
    uint64_t asked = ips_sub_sat(raw->at[k], linked ? raw->wait[k] : 0);
    uint64_t wall = ips_sub_sat(asked, raw->at[k - 1]);
    return ips_sub_sat(wall, ips_add_sat(raw->w[k], raw->delay[k]));
}

static void add_rows(const struct whatif_solving *s, const struct waits *w,
                     uint32_t part, uint64_t *idle)
{
    const struct waits_rows *r = &w->part[part];
    const struct ips_graph *g = s->g;
    uint32_t base = s->d->path.node_base[part];
    for (uint64_t n = 0; n < r->count; n++) {
        uint32_t i = base + r->node[n];
        bool of_node = r->of_node[n] != 0;
        bool own = g->kind[i] == IPS_NODE_RECV || g->kind[i] == IPS_NODE_JOIN;
        if (!takes_time(w->cause[r->why[n]], of_node) ||
            (of_node && (has_arc(g, i) || !own)) ||
            (!of_node && waits_traced(g, i)))
            continue;
        idle[i] = ips_add_sat(idle[i], r->ns[n]);
    }
}

/* Of every arc; sets run's sums. */
static void sum_idle(struct query *q, const struct whatif_solving *s,
                     struct predict_run *run, uint64_t *idle)
{
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw = &engine_part_of(q->gather.active[p])->g;
        uint32_t base = s->d->path.node_base[p];
        add_rows(s, &predict_of(q)->waits, p, idle);
        for (uint32_t c = 0; c < raw->chain_count; c++) {
            uint32_t first = raw->chains[c].first;
            idle[base + first] = 0;
            for (uint32_t k = first + 1; k < first + raw->chains[c].count;
                 k++) {
                uint32_t i = base + k;
                uint64_t off = off_cpu(raw, k, has_arc(s->g, i));
                idle[i] = ips_min_u64(idle[i], off);
                run->idle_ns = ips_add_sat(run->idle_ns, idle[i]);
                run->off_ns = ips_add_sat(run->off_ns, off - idle[i]);
            }
        }
    }
}

/* A wait of its own call for disk or timer: without the delay after it. */
static void trim_outside(struct query *q, const struct whatif_solving *s,
                         struct predict_run *run)
{
    struct ips_replay_graph *r = &run->replay;
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw = &engine_part_of(q->gather.active[p])->g;
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

static int make_graph(struct query *q, const struct whatif_solving *s,
                      struct predict_run *run)
{
    uint64_t *idle = calloc((size_t)s->g->node_count + 1, sizeof(*idle));
    bool times = true;
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct ips_graph *raw = &engine_part_of(q->gather.active[p])->g;
        times = times && raw->at && raw->wait && raw->delay;
    }
    if (!idle)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "replay of %u nodes",
                           s->g->node_count);
    if (times)
        sum_idle(q, s, run, idle);
    int rc = ips_replay_graph_make(s->g, idle, &run->replay, s->err);
    if (rc == 0 && times)
        trim_outside(q, s, run);
    free(idle);
    return rc;
}

/* ---- machines and threads ------------------------------------------------
 */

static uint32_t command_end(const struct query *q, const struct path_data *d,
                            const struct ips_replay_graph *r)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__SyncAnswer *s = q->gather.active[i]->sync;
        if (s->goal_node && s->goal_node <= s->nodes)
            return r->to[d->node_base[i] + (uint32_t)s->goal_node - 1];
    }
    return IPS_NO_NODE;
}

static void fill_thread(const struct part *p, uint32_t chain,
                        const struct ips_chain *c, struct predict_thread *t)
{
    t->own = c->machine;
    t->pid = c->pid;
    t->tid = c->tid;
    t->process = part_process_name(p, c->process);
    t->name = chain < p->t.thread_count ? p->t.threads[chain]->name : "";
}

static int make_names(struct query *q, const struct whatif_solving *s,
                      struct predict_run *run)
{
    uint32_t n = q->gather.count, own = 0, chain = 0;
    run->own_count = n;
    run->own = calloc((size_t)n + 1, sizeof(*run->own));
    run->thread = calloc((size_t)s->g->chain_count + 1, sizeof(*run->thread));
    if (!run->own || !run->thread)
        return ips_err_set(s->err, IPS_E_NO_MEMORY, "%u threads",
                           s->g->chain_count);
    for (uint32_t i = 0; i < n; i++) {
        const struct part *p = q->gather.active[i];
        run->own[i] = (struct predict_own){
            p->machine,
            (uint32_t)ips_min_u64(p->sync->cores, IPS_REPLAY_CORES_MAX)};
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

int predict_run_make(struct query *q, const struct whatif_solving *s,
                     struct predict_run *run)
{
    memset(run, 0, sizeof(*run));
    run->whole = s->g;
    run->t = &s->d->t;
    run->lane = s->lane;
    int rc = make_graph(q, s, run);
    if (rc == 0)
        rc = make_names(q, s, run);
    if (rc < 0)
        return rc;
    run->command = command_end(q, &s->d->path, &run->replay);
    if (run->lane.has_goal && run->lane.goal != IPS_NO_NODE)
        run->lane.goal = run->replay.to[run->lane.goal];
    run->lane_then = run->lane;
    if (!q->request->predict->external)
        run->lane_then.external = IPS_EXTERNAL_ALL;
    return 0;
}
