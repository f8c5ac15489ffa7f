/* The locks of the replayed run: converts the slaves' records of acquisitions
 * and releases (slave/build/locks.c) to events of the replay's graph. */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/predict/query.h"

static int set_err_no_memory(size_t rows, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "%zu events of locks", rows);
}

/* Adds the lock rows of one machine; locks of different machines are distinct.
 */
static void add_lock_rows_of_machine(const struct whatif_solving *s,
                                     const struct waits_rows *r, uint32_t base,
                                     struct predict_lock_rows *out)
{
    uint32_t first = out->lock_count;
    for (uint64_t n = 0; n < r->lock_count; n++) {
        const struct waits_lock_row *from = &r->lock_row[n];
        uint32_t node = base + from->node;
        if (s->g->kind[node] == IPS_NODE_START)
            continue; /* no arc leads to a START node */
        out->row[out->count++] =
            (struct predict_lock_row){.after = from->after,
                                      .at_ns = from->at_ns,
                                      .node = node,
                                      .lock = first + from->lock,
                                      .at = IPS_NO_NODE,
                                      .gives = from->gives};
        out->units[first + from->lock] = from->units;
        if (first + from->lock >= out->lock_count)
            out->lock_count = first + from->lock + 1;
    }
}

int predict_lock_rows_make(struct query *q, const struct whatif_solving *s,
                           struct predict_lock_rows *out)
{
    const struct waits *w = &predict_query_of(q)->waits;
    size_t rows = 0, locks = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t p = 0; p < w->machine_count; p++) {
        uint32_t most = 0;
        for (uint64_t n = 0; n < w->machine[p].lock_count; n++)
            most = w->machine[p].lock_row[n].lock < most
                       ? most
                       : w->machine[p].lock_row[n].lock + 1;
        rows += w->machine[p].lock_count;
        locks += most;
    }
    if (locks > IPS_REPLAY_LOCKS_MAX / 2)
        return ips_err_set(s->err, IPS_E_LIMIT, "%zu locks", locks);
    out->row = calloc(rows + 1, sizeof(*out->row));
    out->units = calloc(locks + 1, sizeof(*out->units));
    if (!out->row || !out->units)
        return set_err_no_memory(rows, s->err);
    for (uint32_t p = 0; p < w->machine_count; p++)
        add_lock_rows_of_machine(s, &w->machine[p], s->d->path.node_base[p],
                                 out);
    return 0;
}

static int compare_lock_events_by_node_and_lock(const void *va, const void *vb)
{
    const struct ips_replay_lock_event *a = va, *b = vb;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (a->lock > b->lock) - (a->lock < b->lock);
}

/* Whether a thread can take a unit of a lock at node k. */
static bool is_node_where_lock_may_be_taken(const struct ips_graph *g,
                                            uint32_t k)
{
    return g->xkind[k] == IPS_X_NONE || g->xkind[k] == IPS_X_RESOURCE;
}

/* Marks the locks with an event that has no node in the replay, or whose node
 * cannot take a unit. Such a lock keeps its recorded order, so none of its
 * events is used. */
static void
mark_locks_with_unusable_event_node(const struct predict_lock_rows *rows,
                                    const struct predict_run *run, bool *bad)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct predict_lock_row *row = &rows->row[i];
        bool fine = row->at != IPS_NO_NODE &&
                    (row->gives ||
                     is_node_where_lock_may_be_taken(&run->replay.g, row->at));
        bad[row->lock] = bad[row->lock] || !fine;
    }
}

/* Marks the locks that have an event at the same node as another event: the
 * replay allows one event per node. */
static void mark_locks_that_share_node(struct ips_replay_lock_event *e,
                                       uint32_t count, bool *bad)
{
    for (uint32_t k = 1; k < count; k++)
        if (e[k].node == e[k - 1].node)
            bad[e[k].lock] = bad[e[k - 1].lock] = true;
}

int predict_make_replay_lock_events(struct predict_lock_rows *rows,
                                    struct predict_run *run,
                                    struct ips_err *err)
{
    bool *bad = calloc((size_t)rows->lock_count + 1, sizeof(*bad));
    struct ips_replay_lock_event *e = calloc(rows->count + 1, sizeof(*e));
    uint32_t count = 0, kept = 0;
    run->lock_event = e;
    run->lock_units = rows->units;
    rows->units = NULL;
    run->lock_at_ns =
        calloc((size_t)run->replay.g.node_count + 1, sizeof(*run->lock_at_ns));
    if (!bad || !e || !run->lock_at_ns) {
        free(bad);
        return set_err_no_memory(rows->count, err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        struct predict_lock_row *row = &rows->row[i];
        if (row->after == 0)
            row->at = run->replay.to[row->node];
    }
    mark_locks_with_unusable_event_node(rows, run, bad);
    for (size_t i = 0; i < rows->count; i++) {
        const struct predict_lock_row *row = &rows->row[i];
        if (bad[row->lock])
            continue;
        e[count++] =
            (struct ips_replay_lock_event){row->at, row->lock, row->gives};
        run->lock_at_ns[row->at] = row->at_ns;
    }
    qsort(e, count, sizeof(*e), compare_lock_events_by_node_and_lock);
    mark_locks_that_share_node(e, count, bad);
    for (uint32_t k = 0; k < count; k++)
        if (!bad[e[k].lock])
            e[kept++] = e[k];
    free(bad);
    run->locks = (struct ips_replay_locks){.lock_count = rows->lock_count,
                                           .units = run->lock_units,
                                           .event_count = kept,
                                           .event = e};
    return 0;
}
