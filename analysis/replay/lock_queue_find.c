/* Finds threads that take pieces of work under a lock: see
 * replay/lock_queue.h. */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/replay.h"
#include "common/large.h"

/* greatest number of locks whose pieces are examined, in O(nodes) each */
#define TRIES 16u
#define TAIL 4u /* a tail has at most 1/TAIL of the mean work of a piece */

struct unit_acquisition {
    uint64_t when;
    uint32_t lock, node, chain;
};
struct finding {
    const struct ips_graph *g;
    const struct ips_replay_locks *locks;
    struct unit_acquisition
        *t; /* [count] all acquisitions, sorted by lock and time */
    uint32_t count;
    uint32_t *span;  /* [lock_count + 1] index in `t` of each lock's first
                        acquisition */
    uint32_t *order; /* [lock_count] locks, most acquisitions first */
    uint8_t *does;   /* [nodes] 1: the node takes a unit of a lock, 2: it gives
                        one back, else 0 */
    /* [nodes] the lock, for nodes that take or give back a unit */
    uint32_t *lock_of;
    uint32_t *of;  /* [nodes] 0, or 1 + the piece that contains the node */
    bool *busy;    /* [chains] true: the chain is in another queue already */
    uint32_t *all; /* [chains] number of acquisitions of all locks */
    uint32_t *taken_unit; /* [chains] number of acquisitions of the current
                             lock; in append_pieces_until_invalid() the node
                             where the chain's next piece has to begin */
    uint32_t *number; /* [chains] index in out->worker; UINT32_MAX: the chain is
                         no worker */
    uint32_t *who;    /* [who_count] chains that took the current lock,
                         ascending */
    uint32_t who_count;
    uint32_t tried;
    struct ips_lock_queues *out;
};

static int by_lock_and_time(const void *va, const void *vb)
{
    const struct unit_acquisition *a = va, *b = vb;
    if (a->lock != b->lock)
        return a->lock < b->lock ? -1 : 1;
    if (a->when != b->when)
        return a->when < b->when ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static _Thread_local const uint32_t
    *spans; /* `span` for compare_locks_by_acquisitions() while
               sorting */

static int compare_locks_by_acquisitions(const void *va, const void *vb)
{
    uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
    uint32_t x = spans[a + 1] - spans[a], y = spans[b + 1] - spans[b];
    if (x != y)
        return x > y ? -1 : 1;
    return (a > b) - (a < b);
}

static void list_and_sort_lock_acquisitions(struct finding *f,
                                            const uint64_t *when)
{
    for (uint32_t k = 0; k < f->locks->event_count; k++) {
        const struct ips_replay_lock_event *e = &f->locks->event[k];
        f->does[e->node] = e->gives ? 2 : 1;
        f->lock_of[e->node] = e->lock;
        if (e->gives)
            continue;
        uint32_t c = ips_chain_of(f->g, e->node);
        f->t[f->count++] =
            (struct unit_acquisition){when[e->node], e->lock, e->node, c};
        f->all[c]++;
    }
    qsort(f->t, f->count, sizeof(*f->t), by_lock_and_time);
    for (uint32_t k = 0; k < f->count; k++)
        f->span[f->t[k].lock + 1] = k + 1;
    for (uint32_t l = 0; l < f->locks->lock_count; l++) {
        f->span[l + 1] = ips_max_u32(f->span[l + 1], f->span[l]);
        f->order[l] = l;
    }
    spans = f->span;
    qsort(f->order, f->locks->lock_count, sizeof(*f->order),
          compare_locks_by_acquisitions);
}

/* Returns the chain that created chain c, or UINT32_MAX. */
static uint32_t creator_of_chain(const struct ips_graph *g, uint32_t c)
{
    uint32_t first = g->chains[c].first;
    return g->xkind[first] == IPS_X_LIFETIME && g->xpred[first] != IPS_NO_NODE
               ? ips_chain_of(g, g->xpred[first])
               : UINT32_MAX;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int compare_chains_by_number(const void *va, const void *vb)
{
    uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
    return (a > b) - (a < b);
}

/* Lists in `who` the chains that took the lock, and counts how often each did;
 * `t` has the lock's `n` acquisitions. */
static void count_acquisitions_of_lock_by_chain(
    struct finding *f, const struct unit_acquisition *t, uint32_t n)
{
    for (uint32_t k = 0; k < f->who_count; k++)
        f->taken_unit[f->who[k]] = 0;
    f->who_count = 0;
    for (uint32_t k = 0; k < n; k++)
        if (f->taken_unit[t[k].chain]++ == 0)
            f->who[f->who_count++] = t[k].chain;
    qsort(f->who, f->who_count, sizeof(*f->who), compare_chains_by_number);
}

struct range {
    uint32_t least, most;
};

static void extend_range(struct range *r, uint32_t x)
{
    r->least = ips_min_u32(r->least, x);
    r->most = ips_max_u32(r->most, x);
}

/* Returns the number of chains that took the lock more than once, if they are
 * threads with one creator and did not divide the work evenly; else 0. */
static uint32_t count_workers_if_uneven(const struct finding *f)
{
    const struct ips_graph *g = f->g;
    struct range own = {UINT32_MAX, 0}, all = {UINT32_MAX, 0};
    uint32_t workers = 0, common = 0, by = UINT32_MAX;
    for (uint32_t k = 0; k < f->who_count; k++) {
        uint32_t c = f->who[k], pieces = f->taken_unit[c] - 1;
        if (pieces == 0)
            continue;
        if (f->busy[c] || creator_of_chain(g, c) == UINT32_MAX ||
            (workers && creator_of_chain(g, c) != by))
            return 0;
        by = creator_of_chain(g, c);
        extend_range(&own, pieces);
        extend_range(&all, f->all[c]);
        common = common_divisor(common, pieces);
        workers++;
    }
    if (workers < 2 || common != 1 || f->taken_unit[by] > 1)
        return 0;
    return own.most - own.least < 2 || all.most - all.least < 2 ? 0 : workers;
}

/* Adds the workers to the result. Returns false, and adds none, if a worker
 * took the lock for the last time before all pieces were taken. */
static bool append_workers_if_each_has_tail(struct finding *f,
                                            const struct unit_acquisition *t,
                                            uint32_t n, uint32_t workers)
{
    struct ips_lock_queues *o = f->out;
    uint32_t first = o->worker_count, ended = 0;
    for (uint32_t k = 0; k < f->who_count; k++) {
        uint32_t c = f->who[k];
        f->number[c] = UINT32_MAX;
        if (f->taken_unit[c] < 2)
            continue;
        f->number[c] = o->worker_count;
        o->worker[o->worker_count++] = (struct ips_lock_queue_worker){
            c, o->lock_queue_count, IPS_NO_NODE, IPS_NO_NODE};
    }
    for (uint32_t k = n; k-- > 0 && ended < workers;) {
        uint32_t w = f->number[t[k].chain];
        if (w == UINT32_MAX)
            continue;
        if (o->worker[w].tail != IPS_NO_NODE)
            break;
        o->worker[w].tail = t[k].node;
        ended++;
    }
    if (ended == workers)
        return true;
    o->worker_count = first;
    return false;
}

/* Returns one past the last node of the piece that begins at node i: the node
 * that takes the lock next, or `tail`. Sets *given to whether the piece gives
 * the lock back. */
static uint32_t find_end_of_piece(const struct finding *f, uint32_t i,
                                  uint32_t tail, bool *given)
{
    uint32_t lock = f->lock_of[i];
    *given = false;
    while (++i < tail && !(f->does[i] == 1 && f->lock_of[i] == lock))
        *given = *given || (f->does[i] == 2 && f->lock_of[i] == lock);
    return i;
}

static bool append_pieces_until_invalid(struct finding *f,
                                        const struct unit_acquisition *t,
                                        uint32_t n)
{
    struct ips_lock_queues *o = f->out;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t w = f->number[t[k].chain];
        if (w == UINT32_MAX || o->worker[w].tail == t[k].node)
            continue;
        struct ips_lock_queue_worker *is = &o->worker[w];
        bool given;
        if (is->begin == IPS_NO_NODE)
            is->begin = t[k].node;
        else if (t[k].node != f->taken_unit[is->chain])
            return false; /* the times contradict the chain's node order
                           */
        uint32_t end = find_end_of_piece(f, t[k].node, is->tail, &given);
        if (!given || t[k].node > is->tail)
            return false;
        /* the node where the worker's next piece has to begin */
        f->taken_unit[is->chain] = end;
        o->piece[o->piece_count++] =
            (struct ips_lock_queue_piece){t[k].node, end, w};
    }
    return true;
}

static void set_or_clear_piece_of_nodes(struct finding *f, uint32_t from,
                                        bool is)
{
    for (uint32_t p = from; p < f->out->piece_count; p++)
        for (uint32_t i = f->out->piece[p].first; i < f->out->piece[p].end; i++)
            f->of[i] = is ? p + 1 : 0;
}

/* Whether the pieces from number `from` on have cross arcs to and from other
 * nodes only by locks. */
static bool pieces_exchange_only_locks(const struct finding *f, uint32_t from)
{
    const struct ips_graph *g = f->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t x = g->xpred[i];
        if (x == IPS_NO_NODE || f->of[i] == f->of[x] ||
            (f->does[i] == 1 && g->xkind[i] == IPS_X_RESOURCE))
            continue;
        if (f->of[i] > from || f->of[x] > from)
            return false;
    }
    return true;
}

/* Returns the work, in ns, of the arcs after node `from` up to node `to`. */
static uint64_t work_between(const struct ips_graph *g, uint32_t from,
                             uint32_t to)
{
    uint64_t w = 0;
    while (from++ < to)
        w = ips_add_sat(w, g->w[from]);
    return w;
}

/* Whether each worker's tail (after it took the lock for the last time) has at
 * most 1/TAIL of the mean work of a piece. */
static bool tails_are_short(const struct finding *f, uint32_t piece,
                            uint32_t worker)
{
    const struct ips_lock_queues *o = f->out;
    uint64_t all = 0, most = 0;
    for (uint32_t p = piece; p < o->piece_count; p++)
        all = ips_add_sat(
            all, work_between(f->g, o->piece[p].first, o->piece[p].end));
    for (uint32_t w = worker; w < o->worker_count; w++) {
        const struct ips_chain *c = &f->g->chains[o->worker[w].chain];
        most = ips_max_u64(most, work_between(f->g, o->worker[w].tail,
                                              c->first + c->count - 1));
    }
    return (ips_u128)most * TAIL * (o->piece_count - piece) <= all;
}

static void add_lock_queue_if_valid(struct finding *f, uint32_t lock)
{
    struct ips_lock_queues *o = f->out;
    const struct unit_acquisition *t = f->t + f->span[lock];
    uint32_t n = f->span[lock + 1] - f->span[lock];
    uint32_t piece = o->piece_count, worker = o->worker_count;
    if (f->locks->units[lock] != 1)
        return;
    count_acquisitions_of_lock_by_chain(f, t, n);
    uint32_t workers = count_workers_if_uneven(f);
    if (!workers || !append_workers_if_each_has_tail(f, t, n, workers))
        return;
    f->tried++;
    bool is = append_pieces_until_invalid(f, t, n);
    set_or_clear_piece_of_nodes(f, piece, true);
    if (is && tails_are_short(f, piece, worker) &&
        pieces_exchange_only_locks(f, piece)) {
        for (uint32_t w = worker; w < o->worker_count; w++)
            f->busy[o->worker[w].chain] = true;
        o->lock_queue[o->lock_queue_count++] = (struct ips_lock_queue){
            lock, piece, o->piece_count, worker, o->worker_count};
        return;
    }
    set_or_clear_piece_of_nodes(f, piece, false);
    o->piece_count = piece;
    o->worker_count = worker;
}

static int alloc_lock_queue_arrays(struct finding *f, const bool *busy,
                                   struct ips_err *err)
{
    size_t nodes = (size_t)f->g->node_count + 1;
    size_t chains = (size_t)f->g->chain_count + 1;
    size_t events = (size_t)f->locks->event_count + 1;
    size_t locks = (size_t)f->locks->lock_count + 1;
    f->t = malloc(events * sizeof(*f->t));
    f->span = calloc(locks, sizeof(*f->span));
    f->order = calloc(locks, sizeof(*f->order));
    f->does = ips_calloc_large(nodes, sizeof(*f->does));
    f->lock_of = ips_calloc_large(nodes, sizeof(*f->lock_of));
    f->of = ips_calloc_large(nodes, sizeof(*f->of));
    f->busy = calloc(chains, sizeof(*f->busy));
    f->taken_unit = calloc(chains, sizeof(*f->taken_unit));
    f->all = calloc(chains, sizeof(*f->all));
    f->number = calloc(chains, sizeof(*f->number));
    f->who = calloc(chains, sizeof(*f->who));
    f->out->lock_queue = calloc(locks, sizeof(*f->out->lock_queue));
    f->out->worker = calloc(chains, sizeof(*f->out->worker));
    f->out->piece = calloc(events, sizeof(*f->out->piece));
    if (!f->t || !f->span || !f->order || !f->does || !f->lock_of || !f->of ||
        !f->busy || !f->taken_unit || !f->all || !f->number || !f->who ||
        !f->out->lock_queue || !f->out->worker || !f->out->piece)
        return ips_err_set(err, IPS_E_NO_MEMORY, "queues of %u nodes",
                           f->g->node_count);
    if (busy)
        memcpy(f->busy, busy, f->g->chain_count * sizeof(*busy));
    return 0;
}

int ips_lock_queues_find(const struct ips_graph *g,
                         const struct ips_replay_locks *locks,
                         const uint64_t *when, const bool *busy,
                         struct ips_lock_queues *out, struct ips_err *err)
{
    struct finding f = {.g = g, .locks = locks, .out = out};
    memset(out, 0, sizeof(*out));
    int rc = alloc_lock_queue_arrays(&f, busy, err);
    if (rc == 0) {
        list_and_sort_lock_acquisitions(&f, when);
        for (uint32_t k = 0; k < locks->lock_count && f.tried < TRIES; k++)
            add_lock_queue_if_valid(&f, f.order[k]);
    } else {
        ips_lock_queues_release(out);
    }
    free(f.t);
    free(f.span);
    free(f.order);
    ips_free_large(f.does);
    ips_free_large(f.lock_of);
    ips_free_large(f.of);
    free(f.busy);
    free(f.taken_unit);
    free(f.all);
    free(f.number);
    free(f.who);
    return rc;
}

void ips_lock_queues_release(struct ips_lock_queues *p)
{
    free(p->lock_queue);
    free(p->worker);
    free(p->piece);
    memset(p, 0, sizeof(*p));
}
