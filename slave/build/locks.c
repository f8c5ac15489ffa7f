/* Makes the lock rows for a replay: where each chain asked for a lock and
 * where it released it. The arcs of the graph are not enough, because the arc
 * of a wait leads only from the previous holder. In a replay another chain may
 * hold the lock, and release it where no thread waited in the recorded run.
 *
 * There is an ACQUIRE record where a thread waited, and a RELEASE record where
 * another thread may have been waiting; the release after a wait for a mutex
 * always has one (agent/preload/sync.h). So, for locks with one holder at a
 * time:
 *
 * - An ACQUIRE that waited, and the thread's next RELEASE: the thread held the
 *   lock between the two.
 * - A RELEASE that woke a waiter, of a lock that was taken without a wait: the
 *   thread held the lock when the first waiter asked for it; since when is
 *   unknown, and estimated as described below.
 * - An ACQUIRE that waited, without a RELEASE: the hold has no known end and
 *   is left out. A lock that was free when taken, and released before another
 *   thread asked for it, has records only with ipsrun --locks=all; without
 *   them that hold is left out, too.
 *
 * Semaphores have no owner: a post that woke a thread gives one unit, and the
 * wait of that thread takes one. Posts and waits that were not matched are
 * left out. With --locks=all they have rows, too; then as many units are free
 * at the start as were taken before there was a post for them.
 *
 * The order of the thread's records decides in which arc a row is, and the
 * thread's CPU time decides the position in the arc. The times of nodes cannot
 * be used: build/wall.c moves them until no arc runs against the clock, so a
 * release before a wait could end up after it. The start of a hold without an
 * ACQUIRE is an estimate, by time, as if the thread had computed evenly. It is
 * not before the end of the thread's last wait before the first waiter asked,
 * because the thread that ended that wait may have held the lock until then.
 *
 * Rows are made for locks with one holder: mutexes, spin locks, and file locks
 * unless one RELEASE woke several waiters (then they were shared locks) or the
 * bytes that threads lock and unlock differ.
 * Reader-writer locks have rows only with --locks=all. pthread_once, barriers
 * and conditions have no rows, because they have no holder. */
#include "slave/build/internal.h"

#include "analysis/replay/graph.h"
#include "slave/build/waits.h"

struct locks {
    struct build *b;
    struct ips_wait_rows *out;
    bool all;        /* ipsrun --locks=all */
    uint32_t *order; /* indexes of syncs, by object, chain, time */
    uint32_t *sorted;
    /* [syncs] RELEASE: when the first of the waiters that it woke had asked for
     * the lock, ns */
    uint64_t *asked;
    /* [syncs] RELEASE: number of waiters that it woke. NOT_ONE_LOCK: a record
     * lock whose wait an unlock of other, overlapping bytes ended, or that
     * unlock */
    uint32_t *went;
    uint64_t *release_ns; /* [given_count] times of the RELEASEs of the
                               current object, sorted */
    uint32_t given_count;
    uint64_t *cpu; /* [nodes] CPU time of the thread at the node */
    uint32_t lock; /* lock number of the current object */
    /* added to `lock`: 1 for the second of the two locks that a reader-writer
     * lock becomes, else 0 */
    uint32_t lock_number;
    uint32_t begin; /* first row of the current object; first row of its current
                       chain */
    uint32_t chain_begin;
};

#define UNITS_MAX (1u << 30)
#define NOT_ONE_LOCK 2u

static uint32_t chain_of_sync(const struct build *b, const struct b_sync *s)
{
    return b->streams[s->stream].chain;
}

/* Returns the time at which the thread had obtained the lock, or released
 * it. */
static uint64_t time_of_acquire_or_release(const struct b_sync *s)
{
    return s->release ? s->t : s->t_ret;
}

static int compare_syncs_by_object(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_sync *x = &b->syncs.v[i], *y = &b->syncs.v[k];
    int c = b_compare_sync_objects(x, y);
    if (c)
        return c;
    CMP3(chain_of_sync(b, x), chain_of_sync(b, y));
    CMP3(time_of_acquire_or_release(x), time_of_acquire_or_release(y));
    CMP3(i, k);
    return 0;
}

static bool is_lock_row_before(const struct ips_lock_row *x,
                               const struct ips_lock_row *y)
{
    return x->node < y->node || (x->node == y->node && x->w < y->w);
}

/* Moves *row to the position of `last`, the chain's previous row, if it would
 * be before: rows of a chain stay in the order of its records, even if their
 * stamps are wrong. */
static void move_row_after_previous_if_before(const struct ips_lock_row *last,
                                              struct ips_lock_row *row)
{
    row->t = ips_max_u64(row->t, last->t);
    if (!is_lock_row_before(row, last))
        return;
    row->node = last->node + (last->w == IPS_LOCK_AT_NODE);
    row->w = last->w == IPS_LOCK_AT_NODE ? 0 : last->w;
}

static int append_lock_row(struct locks *l, uint64_t t, uint32_t node,
                           uint64_t w, bool gives, uint32_t units)
{
    struct ips_wait_rows *o = l->out;
    struct ips_lock_row row = {
        l->lock + l->lock_number, units, node, o->lock_count, t, w, gives};
    int rc = 0;
    if (o->lock_count == o->lock_capacity)
        rc = b_array_reserve((void **)&o->lock, o->lock_count,
                             &o->lock_capacity, sizeof(*o->lock), l->b->err);
    if (rc < 0)
        return rc;
    if (units && o->lock_count > l->chain_begin)
        move_row_after_previous_if_before(&o->lock[o->lock_count - 1], &row);
    o->lock[o->lock_count++] = row;
    return 0;
}

/* Adds the row of `s` at the record's position within an arc of its chain. */
static int append_lock_row_within_arc(struct locks *l, const struct b_sync *s,
                                      uint32_t units)
{
    const struct ips_graph *g = &l->b->out->g;
    const struct ips_chain *c = &g->chains[chain_of_sync(l->b, s)];
    /* A chain begins with START and ends with END. The row must be between
     * them, even if records are damaged. */
    uint32_t last = c->first + c->count - 1;
    uint32_t i = s->next < last ? ips_max_u32(s->next, c->first + 1) : last;
    uint64_t w = ips_min_u64(ips_sub_sat(s->cpu, l->cpu[i - 1]), g->w[i]);
    return append_lock_row(l, time_of_acquire_or_release(s), i, w, s->release,
                           units);
}

/* Adds the row of an acquire without a record: at time t or, if that is later,
 * at the end of the chain's last wait before `asked`. If the chain began after
 * t, the row is at its start. */
static int append_estimated_hold_start(struct locks *l, uint32_t chain,
                                       uint64_t t, uint64_t asked)
{
    const struct ips_graph *g = &l->b->out->g;
    const struct ips_chain *c = &g->chains[chain];
    struct ips_replay_cut cut, last;
    uint32_t end = c->first + c->count - 1;
    if (!ips_replay_find_cut_of_chain_at_time(g, c, t, &cut))
        cut = (struct ips_replay_cut){.node = end, .w = g->w[end]};
    if (!ips_replay_find_cut_of_chain_at_time(g, c, asked, &last))
        last.node = end;
    if (cut.node == c->first)
        cut = (struct ips_replay_cut){.node = c->first + 1};
    for (uint32_t i = last.node; i-- > cut.node;) {
        if (g->xpred[i] == IPS_NO_NODE)
            continue;
        cut = (struct ips_replay_cut){.node = i + 1};
        break;
    }
    return append_lock_row(l, t, cut.node, cut.w, false, 1);
}

/* Whether the record has a node at which its row can be: nothing but the lock
 * may decide the time of that node. */
static bool does_only_lock_decide_node_time(const struct locks *l,
                                            const struct b_sync *s)
{
    return s->node != IPS_NO_NODE &&
           (s->release || l->b->out->g.xkind[s->node] == IPS_X_RESOURCE);
}

/* --- locks with one holder ------------------------------------------------ */

/* Adds the row of `s`: at its node or within an arc. After a wait for a
 * condition, or for an owner that died, the thread asks for the lock when that
 * wait is over. */
static int append_lock_row_of_record(struct locks *l, const struct b_sync *s,
                                     uint32_t units)
{
    if (does_only_lock_decide_node_time(l, s))
        return append_lock_row(l, time_of_acquire_or_release(s), s->node,
                               IPS_LOCK_AT_NODE, s->release, units);
    return append_lock_row_within_arc(l, s, units);
}

static int compare_release_times(const void *va, const void *vb)
{
    uint64_t x = *(const uint64_t *)va, y = *(const uint64_t *)vb;
    return (x > y) - (x < y);
}

static void list_release_times(struct locks *l, const uint32_t *order,
                               uint32_t n)
{
    l->given_count = 0;
    for (uint32_t k = 0; k < n; k++)
        if (l->b->syncs.v[order[k]].release)
            l->release_ns[l->given_count++] = l->b->syncs.v[order[k]].t;
    if (l->given_count)
        qsort(l->release_ns, l->given_count, sizeof(*l->release_ns),
              compare_release_times);
}

/* Estimates when a thread obtained the lock that it released at `until` and for
 * which the first waiter asked at `asked`: as long before `asked` as the
 * release came after it, but not before an earlier release of the lock. */
static uint64_t estimate_hold_start(const struct locks *l, uint64_t asked,
                                    uint64_t until)
{
    uint32_t low = 0, high = l->given_count;
    asked = ips_min_u64(asked, until);
    while (low < high) { /* the first release at `asked` or later */
        uint32_t mid = low + (high - low) / 2;
        if (l->release_ns[mid] < asked)
            low = mid + 1;
        else
            high = mid;
    }
    return ips_max_u64(low ? l->release_ns[low - 1] : 0,
                       ips_sub_sat(asked, until - asked));
}

/* Whether record `index` takes a mutex again after a wait for a condition that
 * timed out. No hold may begin at such a record: a replay puts the wait of an
 * arc after its work, so the lock would seem to be held during the wait. */
static bool is_retaken_after_timeout(const struct locks *l, uint32_t index)
{
    const struct b_sync *s = &l->b->syncs.v[index], *cond = index ? s - 1 : s;
    return cond->kind == IPS_SYNC_COND && !cond->release && cond->err &&
           cond->cause == IPS_NONE && cond->stream == s->stream &&
           cond->t_ret == s->t_ret;
}

/* Adds the rows of one chain for the object. */
static int add_holder_rows_of_chain(struct locks *l, const uint32_t *order,
                                    uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v, *had = NULL;
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        if (!s->release) {
            if (b_has_obtained_lock(s))
                had = is_retaken_after_timeout(l, order[k]) ? NULL : s;
            continue;
        }
        if (had) {
            rc = append_lock_row_of_record(l, had, 1);
        } else if (s->used) {
            uint64_t asked = ips_min_u64(l->asked[order[k]], s->t);
            rc = append_estimated_hold_start(
                l, chain_of_sync(l->b, s), estimate_hold_start(l, asked, s->t),
                asked);
        }
        if (rc == 0 && (had || s->used))
            rc = append_lock_row_of_record(l, s, 1);
        had = NULL;
    }
    return rc;
}

static bool has_single_holder(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_MUTEX || s->kind == IPS_SYNC_SPIN ||
           s->kind == IPS_SYNC_FLOCK || s->kind == IPS_SYNC_RECORD_LOCK;
}

static bool is_file_lock(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_FLOCK || s->kind == IPS_SYNC_RECORD_LOCK;
}

/* Returns the index after the records from order[k] on that belong to one
 * chain. */
static uint32_t find_index_after_chain_records(const struct locks *l,
                                               const uint32_t *order,
                                               uint32_t k, uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    uint32_t c = chain_of_sync(l->b, &v[order[k]]);
    while (k < n && chain_of_sync(l->b, &v[order[k]]) == c)
        k++;
    return k;
}

static int add_single_holder_rows(struct locks *l, const uint32_t *order,
                                  uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    int rc = 0;
    for (uint32_t k = 0; k < n; k++)
        if (is_file_lock(&v[order[k]]) && l->went[order[k]] > 1)
            return 0;
    list_release_times(l, order, n);
    for (uint32_t k = 0, next; k < n && rc == 0; k = next) {
        next = find_index_after_chain_records(l, order, k, n);
        l->chain_begin = l->out->lock_count;
        rc = add_holder_rows_of_chain(l, order + k, next - k);
    }
    return rc;
}

/* ---- semaphores --------------------------------------------------------- */

static int compare_syncs_by_moment(const void *va, const void *vb, void *arg)
{
    const struct b_sync *v = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(time_of_acquire_or_release(&v[i]), time_of_acquire_or_release(&v[k]));
    CMP3(v[k].release, v[i].release);
    CMP3(i, k);
    return 0;
}

/* Returns the least number of units that were free at the start: those that
 * were taken before there were posts for them. */
static uint32_t count_free_semaphore_units_at_start(const struct locks *l,
                                                    const uint32_t *order,
                                                    uint32_t n)
{
    struct b_sync *v = l->b->syncs.v;
    uint32_t *sorted = l->sorted, units = 0, have = 0;
    memcpy(sorted, order, (size_t)n * sizeof(*sorted));
    qsort_r(sorted, n, sizeof(*sorted), compare_syncs_by_moment, v);
    for (uint32_t k = 0; k < n; k++) {
        const struct b_sync *s = &v[sorted[k]];
        if (s->release)
            have++;
        else if (!b_has_obtained_lock(s) || s->polled || s->notified)
            continue;
        else if (have)
            have--;
        else
            units++;
    }
    return units < UNITS_MAX ? units : UNITS_MAX;
}

/* Adds a row for every unit that was taken or posted (--locks=all). */
static int add_all_semaphore_rows(struct locks *l, const uint32_t *order,
                                  uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    uint32_t units = count_free_semaphore_units_at_start(l, order, n);
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        if (!k ||
            chain_of_sync(l->b, s) != chain_of_sync(l->b, &v[order[k - 1]]))
            l->chain_begin = l->out->lock_count;
        if (!s->release &&
            (!b_has_obtained_lock(s) || s->polled || s->notified))
            continue;
        rc = append_lock_row_of_record(l, s, units);
    }
    return rc;
}

static int add_semaphore_rows(struct locks *l, const uint32_t *order,
                              uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    const struct ips_graph *g = &l->b->out->g;
    int rc = 0;
    if (l->all)
        return add_all_semaphore_rows(l, order, n);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        if (s->node == IPS_NO_NODE ||
            (s->release ? l->went[order[k]] != 1
                        : g->xkind[s->node] != IPS_X_RESOURCE ||
                              l->went[s->cause] != 1))
            continue;
        rc = append_lock_row(l, time_of_acquire_or_release(s), s->node,
                             IPS_LOCK_AT_NODE, s->release, 0);
    }
    return rc;
}

/* ---- readers and writers (--locks=all) --------------------------------- */

/* A reader-writer lock becomes two locks in the replay: a gate, and units. A
 * thread takes the gate, then its units (a reader one, a writer as many as
 * there can be readers), and releases the gate. So threads get the lock in the
 * order in which they ask for it, and no two threads can each hold some units
 * and wait for the rest. */
enum { GATE = 0, UNITS = 1 };
/* limit of the readers at once, because a writer needs a row for each */
#define READERS_MAX 64u

static bool is_read_lock(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_RDLOCK;
}

/* Returns the most readers at once: the number of threads that read, or the
 * most read locks held at once if that is more (a thread may hold several). */
static uint32_t count_readers_at_once(const struct locks *l,
                                      const uint32_t *order, uint32_t n)
{
    struct b_sync *v = l->b->syncs.v;
    uint32_t threads = 0, now = 0, most = 0, last = IPS_NONE;
    for (uint32_t k = 0; k < n; k++) {
        const struct b_sync *s = &v[order[k]];
        if (!is_read_lock(s) || s->release || chain_of_sync(l->b, s) == last)
            continue;
        last = chain_of_sync(l->b, s);
        threads++;
    }
    memcpy(l->sorted, order, (size_t)n * sizeof(*l->sorted));
    qsort_r(l->sorted, n, sizeof(*l->sorted), compare_syncs_by_moment, v);
    for (uint32_t k = 0; k < n; k++) {
        const struct b_sync *s = &v[l->sorted[k]];
        if (!is_read_lock(s) || (!s->release && !b_has_obtained_lock(s)))
            continue;
        now = s->release ? now - (now > 0) : now + 1;
        most = ips_max_u32(most, now);
    }
    return ips_max_u32(ips_max_u32(threads, most), 1);
}

/* Adds a row directly after the previous one. */
static int append_lock_row_after_previous(struct locks *l, uint64_t t,
                                          bool gives, uint32_t units)
{
    const struct ips_lock_row *last = &l->out->lock[l->out->lock_count - 1];
    bool at_node = last->w == IPS_LOCK_AT_NODE;
    return append_lock_row(l, t, last->node + at_node, at_node ? 0 : last->w,
                           gives, units);
}

static int append_rwlock_rows_of_record(struct locks *l, const struct b_sync *s,
                                        uint32_t readers)
{
    uint32_t count = is_read_lock(s) ? 1 : readers;
    uint64_t t = time_of_acquire_or_release(s);
    l->lock_number = s->release ? UNITS : GATE;
    int rc = append_lock_row_of_record(l, s, s->release ? readers : 1);
    l->lock_number = UNITS;
    for (uint32_t i = s->release; i < count && rc == 0; i++)
        rc = append_lock_row_after_previous(l, t, s->release, readers);
    l->lock_number = GATE;
    if (rc == 0 && !s->release)
        rc = append_lock_row_after_previous(l, t, true, 1);
    return rc;
}

/* Adds the rows of one chain for a reader-writer lock. Leaves out acquires that
 * the chain does not release later; read and write locks are counted
 * separately. */
static int add_rwlock_rows_of_chain(struct locks *l, const uint32_t *order,
                                    uint32_t n, uint32_t readers)
{
    const struct b_sync *v = l->b->syncs.v;
    uint32_t left[2] = {0, 0}, has[2] = {0, 0};
    int rc = 0;
    for (uint32_t k = 0; k < n; k++)
        left[is_read_lock(&v[order[k]])] += v[order[k]].release;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        bool kind = is_read_lock(s);
        if (s->release) {
            left[kind]--;
            if (!has[kind])
                continue; /* the lock was taken before the chain's first record
                           */
            has[kind]--;
        } else {
            if (!b_has_obtained_lock(s) || has[kind] >= left[kind])
                continue;
            has[kind]++;
        }
        rc = append_rwlock_rows_of_record(l, s, readers);
    }
    return rc;
}

static int add_rwlock_rows(struct locks *l, const uint32_t *order, uint32_t n)
{
    uint32_t readers = count_readers_at_once(l, order, n);
    int rc = 0;
    for (uint32_t k = 0, next;
         k < n && rc == 0 && readers <= READERS_MAX && l->all; k = next) {
        next = find_index_after_chain_records(l, order, k, n);
        l->chain_begin = l->out->lock_count;
        rc = add_rwlock_rows_of_chain(l, order + k, next - k, readers);
    }
    return rc;
}

/* ---- all objects -------------------------------------------------------- */

/* Whether several chains use the object. If only one does, no thread waits for
 * another, and the rows of the object are dropped. */
static bool is_lock_used_by_several_chains(const struct locks *l)
{
    const struct ips_wait_rows *o = l->out;
    for (uint32_t k = l->begin + 1; k < o->lock_count; k++)
        if (ips_chain_of(&l->b->out->g, o->lock[k].node) !=
            ips_chain_of(&l->b->out->g, o->lock[l->begin].node))
            return true;
    return false;
}

static int add_rows_of_object_used_by_several_chains(struct locks *l,
                                                     const uint32_t *order,
                                                     uint32_t n)
{
    const struct b_sync *first = &l->b->syncs.v[order[0]];
    int rc = 0;
    l->begin = l->out->lock_count;
    if (has_single_holder(first))
        rc = add_single_holder_rows(l, order, n);
    else if (first->kind == IPS_SYNC_SEMAPHORE)
        rc = add_semaphore_rows(l, order, n);
    else if (first->kind == IPS_SYNC_RDLOCK || first->kind == IPS_SYNC_WRLOCK)
        rc = add_rwlock_rows(l, order, n);
    if (is_lock_used_by_several_chains(l))
        l->lock +=
            first->kind == IPS_SYNC_RDLOCK || first->kind == IPS_SYNC_WRLOCK
                ? 2
                : 1;
    else
        l->out->lock_count = l->begin;
    return rc;
}

/* Returns when the thread of v[i] asked for the lock. After a wait for a
 * condition, that is when the signal came: before the signal, other threads
 * needed the mutex to send it. */
static uint64_t lock_request_ns(const struct b_sync *v, uint32_t i)
{
    if (!b_is_mutex_after_cond_wait(&v[i]) || !i || v[i - 1].cause == IPS_NONE)
        return v[i].t;
    return ips_max_u64(v[i].t, v[v[i - 1].cause].t);
}

static void count_waiters_and_first_request_by_release(struct locks *l)
{
    const struct b_sync *v = l->b->syncs.v;
    memset(l->asked, 0xff, (size_t)l->b->syncs.n * sizeof(*l->asked));
    for (uint32_t i = 0; i < l->b->syncs.n; i++) {
        uint32_t r = v[i].cause;
        if (v[i].release || r == IPS_NONE)
            continue;
        l->asked[r] = ips_min_u64(l->asked[r], lock_request_ns(v, i));
        l->went[r]++;
        if (v[i].kind == IPS_SYNC_RECORD_LOCK && v[i].object != v[r].object)
            l->went[i] = l->went[r] = NOT_ONE_LOCK;
    }
}

static int compare_lock_rows_by_position(const void *va, const void *vb)
{
    const struct ips_lock_row *x = va, *y = vb;
    CMP3(x->node, y->node);
    CMP3(x->w, y->w);
    CMP3(x->t, y->t);
    CMP3(x->seq, y->seq);
    return 0;
}

/* Sets cpu[i] to the CPU time of the thread at node i: the coordinate of the
 * node, before it became a weight. */
static void fill_thread_cpu_at_each_node(const struct build *b, uint64_t *cpu)
{
    const struct ips_built *o = b->out;
    uint32_t spin = 0;
    for (uint32_t c = 0; c < o->g.chain_count; c++) {
        const struct ips_chain *is = &o->g.chains[c];
        uint64_t at = b->chains[c].base;
        for (uint32_t i = is->first; i < is->first + is->count; i++) {
            at += o->g.w[i];
            for (; spin < o->spun_count && o->spun[spin].node <= i; spin++)
                at += o->spun[spin].node == i ? o->spun[spin].ns : 0;
            cpu[i] = at;
        }
    }
}

int b_make_lock_rows(struct build *b)
{
    struct locks l = {.b = b,
                      .out = b->in->waits,
                      .all = b->in->control &&
                             b->in->control->locks == IPS_LOCKS_ALL};
    uint32_t n = b->syncs.n;
    int rc = 0;
    l.order = b_calloc(n, sizeof(*l.order), b->err);
    l.asked = b_calloc(n, sizeof(*l.asked), b->err);
    l.sorted = b_calloc(n, sizeof(*l.sorted), b->err);
    l.cpu = b_calloc(b->out->g.node_count, sizeof(*l.cpu), b->err);
    l.went = b_calloc(n, sizeof(*l.went), b->err);
    l.release_ns = b_calloc(n, sizeof(*l.release_ns), b->err);
    if (!l.order || !l.sorted || !l.cpu || !l.asked || !l.went || !l.release_ns)
        rc = IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        l.order[i] = i;
    if (rc == 0 && n) {
        fill_thread_cpu_at_each_node(b, l.cpu);
        count_waiters_and_first_request_by_release(&l);
        qsort_r(l.order, n, sizeof(*l.order), compare_syncs_by_object, b);
    }
    for (uint32_t i = 0, next; i < n && rc == 0; i = next) {
        for (next = i + 1; next < n && b_compare_sync_objects(
                                           &b->syncs.v[l.order[i]],
                                           &b->syncs.v[l.order[next]]) == 0;)
            next++;
        rc = add_rows_of_object_used_by_several_chains(&l, l.order + i,
                                                       next - i);
    }
    if (rc == 0 && l.out->lock_count)
        qsort(l.out->lock, l.out->lock_count, sizeof(*l.out->lock),
              compare_lock_rows_by_position);
    ips_free_large(l.order);
    ips_free_large(l.sorted);
    ips_free_large(l.cpu);
    ips_free_large(l.asked);
    ips_free_large(l.went);
    ips_free_large(l.release_ns);
    return rc;
}
