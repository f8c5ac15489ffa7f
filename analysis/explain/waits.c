#include "analysis/explain/waits.h"

#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/types.h"

void ips_waits_release(struct ips_waits *w)
{
    ips_free_large(w->at);
    ips_free_large(w->first);
    memset(w, 0, sizeof(*w));
}

/* ---- placing waits on the clock ------------------------------------------ */

static bool has_node_wait_ended_by_cross_arc(const struct ips_waits *w,
                                             uint32_t i)
{
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++)
        if (w->wait[k].of_node)
            return true;
    return false;
}

uint64_t ips_waits_sleep_begin_ns(const struct ips_waits *w, uint32_t i)
{
    /* The node has neither a cross arc nor a wait: the thread was off the CPU
     * during a call because it was preempted, not because it waited. */
    if (w->g->xkind[i] == IPS_X_NONE && !has_node_wait_ended_by_cross_arc(w, i))
        return w->at[i];
    uint64_t from = ips_sub_sat(w->at[i], w->g->wait[i]);
    bool first = i == 0 || w->g->kind[i] == IPS_NODE_START;
    return first ? from : ips_max_u64(from, w->at[i - 1]);
}

/* Places the waits of the arc into node i. Waits that the node's cross arc
 * ended share the time that the thread slept at the end of the arc, the last
 * wait last. The other waits keep their moments before that sleep, in order. */
static void place_waits_of_arc(struct ips_waits *w, uint32_t i, bool first_node)
{
    uint64_t asleep = ips_waits_sleep_begin_ns(w, i), to = w->at[i];
    uint64_t begin = first_node ? asleep : w->at[i - 1];
    for (uint64_t k = w->first[i + 1]; k-- > w->first[i];) {
        struct ips_wait *x = &w->wait[k];
        if (!x->of_node)
            continue;
        x->to = to;
        x->from = to - ips_min_u64(x->ns, to - asleep);
        to = x->from;
    }
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
        struct ips_wait *x = &w->wait[k];
        if (x->of_node)
            continue;
        x->from = ips_max_u64(ips_sub_sat(x->end_ns, x->ns), begin);
        x->from = ips_min_u64(x->from, asleep);
        x->to = ips_max_u64(ips_min_u64(x->end_ns, asleep), x->from);
        x->to = x->from + ips_min_u64(x->to - x->from, x->ns);
        begin = x->to;
    }
}

int ips_waits_set_begin_and_end_times(const struct ips_graph *g,
                                      struct ips_wait *wait, uint64_t count,
                                      struct ips_waits *out,
                                      struct ips_err *err)
{
    size_t n = (size_t)g->node_count + 1;
    uint64_t k = 0;
    memset(out, 0, sizeof(*out));
    if (g->node_count && (!g->at || !g->wait || !g->delay))
        return ips_err_set(err, IPS_E_USAGE, "a graph without times");
    out->g = g;
    out->wait = wait;
    out->count = count;
    out->at = ips_calloc_large(n, sizeof(*out->at));
    out->first = ips_calloc_large(n + 1, sizeof(*out->first));
    if (!out->at || !out->first) {
        ips_waits_release(out);
        return ips_err_set(err, IPS_E_NO_MEMORY, "waits of %u nodes",
                           g->node_count);
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first; i < first + g->chains[c].count; i++) {
            uint64_t before = i == first ? 0 : out->at[i - 1];
            out->at[i] = ips_max_u64(g->at[i], before);
            out->first[i] = k;
            for (; k < count && wait[k].arc == i; k++)
                wait[k].from = wait[k].to = 0;
            out->first[i + 1] = k;
            /* place_waits_of_arc() places nothing before the previous node,
             * even if the input is damaged. */
            place_waits_of_arc(out, i, i == first);
        }
    }
    if (k == count)
        return 0;
    ips_waits_release(out);
    return ips_err_set(err, IPS_E_USAGE, "wait %llu is out of order",
                       (unsigned long long)k);
}

struct ips_arc_time ips_waits_active_time_of_arc(const struct ips_waits *w,
                                                 uint32_t i)
{
    const struct ips_graph *g = w->g;
    struct ips_arc_time t;
    t.length = ips_waits_sleep_begin_ns(w, i) - w->at[i - 1];
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++)
        if (!w->wait[k].of_node)
            t.length -= w->wait[k].to - w->wait[k].from;
    t.cpu = ips_min_u64(g->w[i], t.length);
    t.delay = ips_min_u64(g->delay[i], t.length - t.cpu);
    return t;
}

/* ---- blaming waits on other threads ------------------------------------- */

/* A task of ips_blame_wait(): blame what the chain of `node` did from `lo` to
 * `hi`, looking only at its nodes up to `node`. */
struct ips_blame_task {
    uint32_t node;
    uint64_t lo, hi;
};

void ips_blamer_release(struct ips_blamer *b)
{
    free(b->task);
    b->task = NULL;
    b->task_count = b->task_capacity = 0;
}

static int push_task(struct ips_blamer *b, uint32_t node, uint64_t lo,
                     uint64_t hi, struct ips_err *err)
{
    if (b->task_count == b->task_capacity) {
        uint32_t room = b->task_capacity * 2 + 64;
        void *more = realloc(b->task, room * sizeof(*b->task));
        if (!more)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for waits");
        b->task = more;
        b->task_capacity = room;
    }
    b->task[b->task_count++] = (struct ips_blame_task){node, lo, hi};
    return 0;
}

static void report_blame(struct ips_blamer *b, enum ips_blame_kind kind,
                         uint32_t node, uint32_t cause, uint64_t ns)
{
    struct ips_blame part = {kind, b->chain, node, cause, ns};
    if (ns)
        b->put(b->arg, &part);
}

static void switch_to_chain_of_node(struct ips_blamer *b, uint32_t node)
{
    const struct ips_chain *c = &b->w->g->chains[b->chain];
    if (node - c->first >= c->count)
        b->chain = ips_chain_of(b->w->g, node);
}

/* Whether a recorded thread ended node i's wait, so that the activity of
 * that thread is blamed. */
static bool ended_by_recorded_thread(const struct ips_graph *g, uint32_t i)
{
    return g->xpred[i] != IPS_NO_NODE && g->xkind[i] != IPS_X_NONE &&
           g->xkind[i] != IPS_X_EXTERNAL && g->xkind[i] != IPS_X_IDLE;
}

static uint32_t cause_of_wait_at_node(const struct ips_waits *w, uint32_t i)
{
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++)
        if (w->wait[k].of_node)
            return w->wait[k].cause;
    return IPS_WAITS_NO_CAUSE;
}

/* Blames the part from lo to hi of the sleep that ended at node i: on the
 * recorded thread that ended the sleep, else on the cause of the wait. */
static int blame_sleep(struct ips_blamer *b, uint32_t i, uint32_t cause,
                       uint64_t lo, uint64_t hi, struct ips_err *err)
{
    if (ended_by_recorded_thread(b->w->g, i))
        return push_task(b, b->w->g->xpred[i], lo, hi, err);
    report_blame(b, IPS_BLAME_WAITED, i, cause, hi - lo);
    return 0;
}

/* Splits `ns` of the active time of the arc into i into computing, runnable and
 * off the CPU, in the arc's proportions. */
static void split_and_report_active_time(struct ips_blamer *b, uint32_t i,
                                         uint64_t ns)
{
    struct ips_arc_time t = ips_waits_active_time_of_arc(b->w, i);
    if (!ns || !t.length)
        return;
    uint64_t cpu = (uint64_t)((ips_u128)t.cpu * ns / t.length);
    uint64_t delay = (uint64_t)((ips_u128)t.delay * ns / t.length);
    report_blame(b, IPS_BLAME_COMPUTE, i, 0, cpu);
    report_blame(b, IPS_BLAME_RUNNABLE, i, 0, delay);
    report_blame(b, IPS_BLAME_OFF_CPU, i, 0, ns - cpu - delay);
}

/* Blames the part [lo, hi] of the arc into i, which is not its chain's first
 * node. */
static int blame_arc(struct ips_blamer *b, uint32_t i, uint64_t lo, uint64_t hi,
                     struct ips_err *err)
{
    const struct ips_waits *w = b->w;
    uint64_t from = ips_waits_sleep_begin_ns(w, i);
    if (hi > from) {
        uint64_t begin = ips_max_u64(lo, from);
        int rc = blame_sleep(b, i, cause_of_wait_at_node(w, i), begin, hi, err);
        if (rc < 0)
            return rc;
        hi = begin;
    }
    uint64_t left = hi - lo;
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
        const struct ips_wait *x = &w->wait[k];
        uint64_t f = ips_max_u64(x->from, lo), t = ips_min_u64(x->to, hi);
        if (x->of_node || f >= t)
            continue;
        report_blame(b, IPS_BLAME_WAITED, i, x->cause, t - f);
        left -= t - f;
    }
    split_and_report_active_time(b, i, left);
    return 0;
}

/* Returns the first node of b's chain whose time is t or later. `node` must be
 * such a node. */
static uint32_t first_node_at_or_after(const struct ips_blamer *b,
                                       uint32_t node, uint64_t t)
{
    uint32_t low = b->w->g->chains[b->chain].first, high = node;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (b->w->at[mid] < t)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int run_blame_task_back_along_chain(struct ips_blamer *b,
                                           struct ips_blame_task t,
                                           struct ips_err *err)
{
    const struct ips_waits *w = b->w;
    switch_to_chain_of_node(b, t.node);
    uint32_t first = w->g->chains[b->chain].first;
    if (t.hi > w->at[t.node]) {
        uint64_t came = ips_max_u64(w->at[t.node], t.lo);
        report_blame(b, IPS_BLAME_DELIVERY, t.node, 0, t.hi - came);
        t.hi = came;
    }
    if (t.hi <= t.lo)
        return 0;
    for (uint32_t i = first_node_at_or_after(b, t.node, t.hi); t.hi > t.lo;
         i--) {
        if (b->budget == 0) {
            report_blame(b, IPS_BLAME_CUT, i, 0, t.hi - t.lo);
            return 0;
        }
        b->budget--;
        if (i == first) {
            if (ended_by_recorded_thread(w->g, i))
                return push_task(b, w->g->xpred[i], t.lo, t.hi, err);
            report_blame(b, IPS_BLAME_NOT_BEGUN, i, 0, t.hi - t.lo);
            return 0;
        }
        uint64_t from = ips_max_u64(w->at[i - 1], t.lo);
        int rc = from < t.hi ? blame_arc(b, i, from, t.hi, err) : 0;
        if (rc < 0)
            return rc;
        t.hi = ips_min_u64(t.hi, from);
    }
    return 0;
}

int ips_blame_wait(struct ips_blamer *b, const struct ips_wait *wait,
                   uint64_t from_ns, uint64_t to_ns, uint64_t *ns,
                   struct ips_err *err)
{
    uint64_t laid = wait->to - wait->from;
    uint64_t lo = ips_max_u64(wait->from, from_ns);
    uint64_t hi = ips_min_u64(wait->to, to_ns);
    uint64_t end = wait->of_node ? b->w->at[wait->arc] : wait->to;
    bool whole = from_ns == 0 && to_ns == UINT64_MAX;
    int rc = 0;
    *ns = 0;
    switch_to_chain_of_node(b, wait->arc);
    if (whole || (end >= from_ns && end < to_ns)) {
        report_blame(b, IPS_BLAME_WOKEN, wait->arc, 0, wait->ns - laid);
        *ns = wait->ns - laid;
    }
    if (lo >= hi)
        return 0;
    *ns += hi - lo;
    if (wait->of_node)
        rc = blame_sleep(b, wait->arc, wait->cause, lo, hi, err);
    else
        report_blame(b, IPS_BLAME_WAITED, wait->arc, wait->cause, hi - lo);
    while (rc == 0 && b->task_count)
        rc = run_blame_task_back_along_chain(b, b->task[--b->task_count], err);
    b->task_count = 0;
    return rc;
}

enum ips_lateness ips_wait_late_side(const struct ips_graph *g,
                                     const struct ips_wait *wait)
{
    uint32_t i = wait->arc;
    if (!wait->of_node || !ended_by_recorded_thread(g, i))
        return IPS_LATE_NONE;
    if (g->xkind[i] == IPS_X_ROOM)
        return IPS_LATE_RECEIVER;
    bool gets = g->kind[i] == IPS_NODE_RECV || g->kind[i] == IPS_NODE_POLL;
    return gets ? IPS_LATE_SENDER : IPS_LATE_NONE;
}
