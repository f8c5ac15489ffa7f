/* Locks as a replay needs them: where each chain asked for one and where it
 * gave it back. A wait's arc says who had it before; settled anew that may be
 * another, who gives it back where nobody waited then.
 *
 * What the records hold (agent/wrap_sync.h): an ACQUIRE where a thread waited,
 * a RELEASE where somebody may have been waiting - which is always so after a
 * mutex was waited for. So, of what one thread has at a time:
 *
 *  - waited for it, and its next RELEASE of it: from the one to the other;
 *  - a RELEASE that let somebody go, of what was free when it was taken: held
 * at the latest when the first of these asked for it, and so long before is not
 *    known. From then on;
 *  - waited for it, and no RELEASE: nothing is known of how long, and it is
 * left out; so is what was taken free and given back before anybody came, of
 * which there is no record.
 *
 * Semaphores have no owner: a post that let a thread go is one unit, and that
 * thread's wait takes one. What nobody waited for is left out on both sides.
 *
 * Only what one has at a time: mutexes, spin locks, locks of files unless one
 * RELEASE let several go (they read). Not locks for readers and writers, once
 * (all go), barriers and conditions (nobody has one). */
#include "slave/build_internal.h"

#include "analysis/replay_graph.h"
#include "slave/build_waits.h"

struct locks {
    struct build *b;
    struct ips_wait_rows *out;
    uint32_t *order; /* of syncs: by object, chain, time */
    uint64_t *asked; /* [syncs] RELEASE: when the first that it let go asked */
    uint32_t *went;  /* [syncs] how many it let go */
    uint64_t *given; /* [given_count] RELEASEs of the object at hand, sorted */
    uint32_t given_count;
    uint32_t lock;  /* number of the object at hand */
    uint32_t begin; /* its first row, and of the chain at hand */
    uint32_t chain_begin;
};

static uint32_t chain_of(const struct build *b, const struct b_sync *s)
{
    return b->streams[s->stream].chain;
}

/* When it had it, or had it no more. */
static uint64_t moment(const struct b_sync *s)
{
    return s->release ? s->t : s->t_ret;
}

static int in_order(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_sync *x = &b->syncs.v[i], *y = &b->syncs.v[k];
    int c = b_sync_object(x, y);
    if (c)
        return c;
    CMP3(chain_of(b, x), chain_of(b, y));
    CMP3(moment(x), moment(y));
    CMP3(i, k);
    return 0;
}

static bool before(const struct ips_lock_row *x, const struct ips_lock_row *y)
{
    return x->node < y->node || (x->node == y->node && x->w < y->w);
}

/* What comes later in a chain does not come earlier, whatever the stamps say.
 */
static void not_before(const struct ips_lock_row *last,
                       struct ips_lock_row *row)
{
    if (!before(row, last))
        return;
    row->node = last->node + (last->w == IPS_LOCK_AT_NODE);
    row->w = last->w == IPS_LOCK_AT_NODE ? 0 : last->w;
}

static int put(struct locks *l, uint32_t node, uint64_t w, bool gives,
               uint32_t units)
{
    struct ips_wait_rows *o = l->out;
    struct ips_lock_row row = {l->lock, units, node, o->lock_count, w, gives};
    int rc = 0;
    if (o->lock_count == o->lock_room)
        rc = b_grow((void **)&o->lock, o->lock_count, &o->lock_room,
                    sizeof(*o->lock), l->b->err);
    if (rc < 0)
        return rc;
    if (units && o->lock_count > l->chain_begin)
        not_before(&o->lock[o->lock_count - 1], &row);
    o->lock[o->lock_count++] = row;
    return 0;
}

/* At time t of a chain; nothing where it had not begun, or has ended. */
static int put_at(struct locks *l, uint32_t chain, uint64_t t, bool gives)
{
    const struct ips_graph *g = &l->b->out->g;
    struct ips_replay_cut cut;
    uint32_t first = g->chains[chain].first;
    if (!ips_replay_cut_at(g, &g->chains[chain], t, &cut))
        cut.node = first + g->chains[chain].count;
    if (cut.node == first)
        cut = (struct ips_replay_cut){.node = first + 1};
    if (cut.node == first + g->chains[chain].count)
        cut = (struct ips_replay_cut){.node = cut.node - 1,
                                      .w = g->w[cut.node - 1]};
    return put(l, cut.node, cut.w, gives, 1);
}

/* ---- what one has at a time --------------------------------------------- */

/* Where `a` asked. Behind a wait for a condition, and for an owner that died,
 * it asks when that is over. */
static int put_asked(struct locks *l, const struct b_sync *a)
{
    const struct ips_graph *g = &l->b->out->g;
    bool after = b_sync_after_cond(a) || a->dead_owner != IPS_NONE;
    if (a->node != IPS_NO_NODE && g->xkind[a->node] == IPS_X_RESOURCE)
        return put(l, a->node, IPS_LOCK_AT_NODE, false, 1);
    return put_at(l, chain_of(l->b, a), after ? a->t_ret : a->t, false);
}

static int put_given(struct locks *l, const struct b_sync *r)
{
    if (r->node != IPS_NO_NODE)
        return put(l, r->node, IPS_LOCK_AT_NODE, true, 1);
    return put_at(l, chain_of(l->b, r), r->t, true);
}

static int by_time(const void *va, const void *vb)
{
    uint64_t x = *(const uint64_t *)va, y = *(const uint64_t *)vb;
    return (x > y) - (x < y);
}

static void list_given(struct locks *l, const uint32_t *order, uint32_t n)
{
    l->given_count = 0;
    for (uint32_t k = 0; k < n; k++)
        if (l->b->syncs.v[order[k]].release)
            l->given[l->given_count++] = l->b->syncs.v[order[k]].t;
    if (l->given_count)
        qsort(l->given, l->given_count, sizeof(*l->given), by_time);
}

/* Since when somebody had what he gave back at `until`, and what the first that
 * waited asked for at `asked`. */
static uint64_t had_since(const struct locks *l, uint64_t asked, uint64_t until)
{
    uint32_t low = 0, high = l->given_count;
    asked = ips_min_u64(asked, until);
    while (low < high) { /* the first one given back at `asked` or later */
        uint32_t mid = low + (high - low) / 2;
        if (l->given[mid] < asked)
            low = mid + 1;
        else
            high = mid;
    }
    return ips_max_u64(low ? l->given[low - 1] : 0,
                       ips_sub_sat(asked, until - asked));
}

/* One chain's records of the object. */
static int add_chain(struct locks *l, const uint32_t *order, uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v, *had = NULL;
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        if (!s->release) {
            if (b_sync_got(s))
                had = s;
            continue;
        }
        if (had) {
            rc = put_asked(l, had);
        } else if (s->used) {
            rc = put_at(l, chain_of(l->b, s),
                        had_since(l, l->asked[order[k]], s->t), false);
        }
        if (rc == 0 && (had || s->used))
            rc = put_given(l, s);
        had = NULL;
    }
    return rc;
}

static bool owned(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_MUTEX || s->kind == IPS_SYNC_SPIN ||
           s->kind == IPS_SYNC_FLOCK || s->kind == IPS_SYNC_RECORD_LOCK;
}

static bool of_file(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_FLOCK || s->kind == IPS_SYNC_RECORD_LOCK;
}

static int add_owned(struct locks *l, const uint32_t *order, uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    int rc = 0;
    for (uint32_t k = 0; k < n; k++)
        if (of_file(&v[order[k]]) && l->went[order[k]] > 1)
            return 0;
    list_given(l, order, n);
    for (uint32_t k = 0, next; k < n && rc == 0; k = next) {
        uint32_t c = chain_of(l->b, &v[order[k]]);
        for (next = k; next < n && chain_of(l->b, &v[order[next]]) == c;)
            next++;
        l->chain_begin = l->out->lock_count;
        rc = add_chain(l, order + k, next - k);
    }
    return rc;
}

/* ---- semaphores --------------------------------------------------------- */

static int add_counted(struct locks *l, const uint32_t *order, uint32_t n)
{
    const struct b_sync *v = l->b->syncs.v;
    const struct ips_graph *g = &l->b->out->g;
    int rc = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct b_sync *s = &v[order[k]];
        if (s->node == IPS_NO_NODE ||
            (s->release ? l->went[order[k]] != 1
                        : g->xkind[s->node] != IPS_X_RESOURCE ||
                              l->went[s->cause] != 1))
            continue;
        rc = put(l, s->node, IPS_LOCK_AT_NODE, s->release, 0);
    }
    return rc;
}

/* ---- all ---------------------------------------------------------------- */

/* Of rows that are all one chain's nobody waits for another. */
static bool contended(const struct locks *l)
{
    const struct ips_wait_rows *o = l->out;
    for (uint32_t k = l->begin + 1; k < o->lock_count; k++)
        if (ips_chain_of(&l->b->out->g, o->lock[k].node) !=
            ips_chain_of(&l->b->out->g, o->lock[l->begin].node))
            return true;
    return false;
}

static int add_object(struct locks *l, const uint32_t *order, uint32_t n)
{
    const struct b_sync *first = &l->b->syncs.v[order[0]];
    int rc = 0;
    l->begin = l->out->lock_count;
    if (owned(first))
        rc = add_owned(l, order, n);
    else if (first->kind == IPS_SYNC_SEMAPHORE)
        rc = add_counted(l, order, n);
    if (contended(l))
        l->lock++;
    else
        l->out->lock_count = l->begin;
    return rc;
}

static void count_waiters(struct locks *l)
{
    const struct b_sync *v = l->b->syncs.v;
    memset(l->asked, 0xff, (size_t)l->b->syncs.n * sizeof(*l->asked));
    for (uint32_t i = 0; i < l->b->syncs.n; i++) {
        uint32_t r = v[i].cause;
        if (v[i].release || r == IPS_NONE)
            continue;
        l->asked[r] = ips_min_u64(l->asked[r], v[i].t);
        l->went[r]++;
    }
}

static int by_place(const void *va, const void *vb)
{
    const struct ips_lock_row *x = va, *y = vb;
    CMP3(x->node, y->node);
    CMP3(x->w, y->w);
    CMP3(x->lock, y->lock);
    CMP3(x->seq, y->seq);
    return 0;
}

int b_locks(struct build *b)
{
    struct locks l = {.b = b, .out = b->in->waits};
    uint32_t n = b->syncs.n;
    int rc = 0;
    l.order = b_calloc(n, sizeof(*l.order), b->err);
    l.asked = b_calloc(n, sizeof(*l.asked), b->err);
    l.went = b_calloc(n, sizeof(*l.went), b->err);
    l.given = b_calloc(n, sizeof(*l.given), b->err);
    if (!l.order || !l.asked || !l.went || !l.given)
        rc = IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        l.order[i] = i;
    if (rc == 0 && n) {
        count_waiters(&l);
        qsort_r(l.order, n, sizeof(*l.order), in_order, b);
    }
    for (uint32_t i = 0, next; i < n && rc == 0; i = next) {
        for (next = i + 1;
             next < n && b_sync_object(&b->syncs.v[l.order[i]],
                                       &b->syncs.v[l.order[next]]) == 0;)
            next++;
        rc = add_object(&l, l.order + i, next - i);
    }
    if (rc == 0 && l.out->lock_count)
        qsort(l.out->lock, l.out->lock_count, sizeof(*l.out->lock), by_place);
    ips_free_large(l.order);
    ips_free_large(l.asked);
    ips_free_large(l.went);
    ips_free_large(l.given);
    return rc;
}
