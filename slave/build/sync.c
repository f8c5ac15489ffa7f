/* Locks and other synchronisation objects: finds the RELEASE that ended the
 * wait of each ACQUIRE.
 *
 * This runs before the nodes are made, because a RELEASE gets a node only if
 * it ended a wait: a program may release a contended lock a million times.
 *
 * The match is the newest release of the object by another thread that began
 * before the waiter returned and did not end before the waiter asked. A
 * semaphore post or a signal of a condition wakes one thread. Waiters are
 * matched with these from the last return backwards, so the first to return
 * gets the first post. If the calls of two releasers overlap, either may have
 * ended the wait: this counts as ambiguous. If there is no such release (an
 * untraced process made it, or the waiter came in the few ns after the
 * releaser looked for waiters), the wait gets no arc and counts in
 * any_unmatched.
 *
 * A release may have ended a wait for a condition or futex although the wait
 * timed out: a thread that waits with short limits and tests its predicate
 * after each wait (for the GIL of Python) may find it true just when a limit is
 * over. If the thread waited several times in a row and then no more, the
 * newest release during its last wait counts as the end. After a single wait,
 * only a release just before the return does.
 *
 * A robust mutex whose owner died was released by the end of the owner.
 *
 * A wait for a condition has a second record, for its mutex. That record gets
 * a cause only if the mutex was released after the signal.
 *
 * The last thread that arrives at a barrier ends the waits of the others.
 * Rounds are separated by time: a thread that arrives after another thread
 * returned belongs to the next round. */
#include <errno.h>

#include "slave/build/internal.h"

/* `value` of an ACQUIRE after a wait for a condition (agent/preload/sync.h). */
#define VALUE_AFTER_COND 1
/* At most so many releases are tried for one waiter: enough for a burst of
 * posts. */
#define LOOK_BACK 512u
/* At most so many releases of other parts of the object (other bytes of a file,
 * other names in a directory) are skipped for one waiter. */
#define LOOK_BACK_AT_PARTS 8192u
/* A thread that waits again after less CPU time (ns) than this only tested its
 * condition in between. */
#define TEST_CPU_NS 100000u
/* A release counts as the end of a single wait that timed out only if it came
 * at most this long (ns) before the return. */
#define JUST_BEFORE_NS 1000000u
/* find_adjacent_wait() searches at most this many records of the thread. */
#define RECORDS_BETWEEN 6u

/* Read locks and write locks of a rwlock are of one class: they use one object.
 */
static uint8_t lock_class_of_kind(uint32_t kind)
{
    return (uint8_t)(kind == IPS_SYNC_RDLOCK ? IPS_SYNC_WRLOCK : kind);
}

bool b_has_obtained_lock(const struct b_sync *s)
{
    return s->err == 0 || s->err == EOWNERDEAD;
}

bool b_is_mutex_after_cond_wait(const struct b_sync *s)
{
    return !s->release && s->kind == IPS_SYNC_MUTEX &&
           s->value == VALUE_AFTER_COND;
}

static uint32_t chain_of_sync(const struct build *b, const struct b_sync *s)
{
    return b->streams[s->stream].chain;
}

/* ---- order of the records ---- */

int b_compare_sync_objects(const struct b_sync *x, const struct b_sync *y)
{
    CMP3(x->image, y->image);
    CMP3(x->dev, y->dev);
    CMP3(x->ino, y->ino);
    CMP3(x->object, y->object);
    CMP3(lock_class_of_kind(x->kind), lock_class_of_kind(y->kind));
    return 0;
}

/* Whether `object` is only a part of the file or directory (dev, ino).
 * RECORD_LOCK: a range of bytes; an unlock may cover other bytes than the lock
 * for which a thread waits. WATCH: a name in the directory; 0: not known. */
static bool is_file_range_or_dir_entry(const struct b_sync *s)
{
    return s->kind == IPS_SYNC_RECORD_LOCK || s->kind == IPS_SYNC_WATCH;
}

/* Like b_compare_sync_objects(), but all parts of a file or directory count as
 * one object. */
static int compare_sync_objects_ignoring_range(const struct b_sync *x,
                                               const struct b_sync *y)
{
    CMP3(x->image, y->image);
    CMP3(x->dev, y->dev);
    CMP3(x->ino, y->ino);
    CMP3(is_file_range_or_dir_entry(x) ? 0 : x->object,
         is_file_range_or_dir_entry(y) ? 0 : y->object);
    CMP3(lock_class_of_kind(x->kind), lock_class_of_kind(y->kind));
    return 0;
}

/* Whether the release `x` and the acquire `y` of one file or directory are
 * about the same part of it: overlapping bytes, or the same name. A thread that
 * tries until a name is free waits only for releases that free the name. */
static bool concerns_same_range_or_entry(const struct b_sync *x,
                                         const struct b_sync *y)
{
    if (x->kind == IPS_SYNC_WATCH)
        return (!x->object || !y->object || x->object == y->object) &&
               (y->value != B_SYNC_TRIED || x->value == B_NAME_FREED);
    if (x->kind != IPS_SYNC_RECORD_LOCK || x->object == y->object)
        return true;
    return x->object < y->object ? y->object - x->object < x->length
                                 : x->object - y->object < y->length;
}

/* Sorts by object; within an object the releases come first, in order of
 * call. */
static int compare_syncs_by_object_and_time(const void *va, const void *vb,
                                            void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_sync *x = &b->syncs.v[i], *y = &b->syncs.v[k];
    int c = compare_sync_objects_ignoring_range(x, y);
    if (c)
        return c;
    CMP3(y->release, x->release);
    CMP3(x->t, y->t);
    CMP3(i, k);
    return 0;
}

static int compare_syncs_latest_return_first(const void *va, const void *vb,
                                             void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(b->syncs.v[k].t_ret, b->syncs.v[i].t_ret); /* latest first */
    CMP3(k, i);
    return 0;
}

/* ---- one object ---- */

struct object {
    struct build *b;
    /* indexes of the object's RELEASE and ACQUIRE records, ordered by t;
     * match_acquires_of_object() sorts ACQUIREs by return */
    uint32_t *release, releases;
    uint32_t *acquire, acquires;
};

/* Whether the release can end another wait. Releases of some kinds can end at
 * most `left` more waits, those of other kinds any number. */
static bool has_release_wakeups_left(const struct b_sync *r)
{
    bool counts = r->kind == IPS_SYNC_SEMAPHORE || r->kind == IPS_SYNC_COND ||
                  r->kind == IPS_SYNC_FUTEX;
    return !counts || r->value < 0 || r->left > 0;
}

/* Whether this ACQUIRE uses up a unit of a semaphore's or queue's RELEASE. A
 * poll, or a signal that a message came, does not. */
static bool consumes_semaphore_unit(const struct b_sync *a)
{
    return !a->polled && !a->notified;
}

/* Whether the release before or after release `at` overlaps with it in time and
 * so may have ended the wait as well. Releases by the same thread, or by the
 * acquirer, do not count. */
static bool overlaps_adjacent_release(const struct object *o, uint32_t at,
                                      const struct b_sync *a)
{
    const uint32_t acquirer = chain_of_sync(o->b, a);
    const struct b_sync *v = o->b->syncs.v, *r = &v[o->release[at]];
    for (uint32_t k = at ? at - 1 : 0; k <= at + 1 && k < o->releases; k++) {
        const struct b_sync *x = &v[o->release[k]];
        uint32_t c = chain_of_sync(o->b, x);
        if (k != at && c != chain_of_sync(o->b, r) && c != acquirer &&
            concerns_same_range_or_entry(x, a) && x->t < r->t_ret &&
            r->t < x->t_ret)
            return true;
    }
    return false;
}

/* Returns how many of the object's releases, which are sorted by call, were
 * called at `t` or before. */
static uint32_t count_releases_until(const struct object *o, uint64_t t)
{
    uint32_t low = 0, high = o->releases;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (o->b->syncs.v[o->release[mid]].t <= t)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the release, at `earliest` or later, that ended the wait of `a`; or
 * IPS_NONE. For a poll of an eventfd that is the first write after the poll's
 * call. Sets *doubtful if another release may have ended the wait as well. */
static uint32_t find_release_that_ended_wait(const struct object *o,
                                             const struct b_sync *a,
                                             uint64_t earliest, bool *doubtful)
{
    struct b_sync *v = o->b->syncs.v;
    uint32_t low = count_releases_until(o, a->t_ret),
             mine = chain_of_sync(o->b, a);
    uint32_t found = IPS_NONE;
    for (uint32_t n = 0, others = 0;
         low > 0 && n < LOOK_BACK && others < LOOK_BACK_AT_PARTS;) {
        const struct b_sync *r = &v[o->release[--low]];
        if (r->t < earliest)
            break;
        if (!concerns_same_range_or_entry(r, a)) {
            others++;
            continue;
        }
        n++;
        if (chain_of_sync(o->b, r) == mine || r->t_ret < a->t ||
            (consumes_semaphore_unit(a) && !has_release_wakeups_left(r)))
            continue;
        if (found != IPS_NONE && r->t < a->t)
            break;
        *doubtful = overlaps_adjacent_release(o, low, a);
        found = o->release[low];
        if (!a->polled)
            break;
    }
    return found;
}

/* Whether programs wait for this kind of object in a loop and test their
 * condition after each wait. */
static bool is_kind_waited_for_in_a_loop(const struct b_sync *a)
{
    return a->kind == IPS_SYNC_COND || a->kind == IPS_SYNC_FUTEX;
}

/* Returns the wait of the same thread for the same object that directly
 * follows the wait at `index` (step 1) or precedes it (step -1), with nothing
 * but a test between; or NULL. */
static const struct b_sync *find_adjacent_wait(const struct build *b,
                                               uint32_t index, int step)
{
    const struct b_sync *v = b->syncs.v, *a = &v[index];
    for (uint32_t n = 1; n <= RECORDS_BETWEEN; n++) {
        const uint32_t k = step > 0 ? index + n : index - n;
        if (k >= b->syncs.n || v[k].stream != a->stream)
            return NULL;
        if (v[k].release || v[k].ready || b_is_mutex_after_cond_wait(&v[k]))
            continue; /* no wait for the object: a release, or a record of the
                         condition's mutex */
        const struct b_sync *first = step > 0 ? a : &v[k],
                            *second = step > 0 ? &v[k] : a;
        return b_compare_sync_objects(a, &v[k]) == 0 &&
                       ips_sub_sat(second->cpu, first->cpu) < TEST_CPU_NS
                   ? &v[k]
                   : NULL;
    }
    return NULL;
}

/* Whether the thread, after the wait at `index`, did nothing but a test and now
 * waits for the same object again, in an unfinished call. */
static bool waits_again_in_unfinished_call(const struct build *b,
                                           uint32_t index)
{
    const struct b_sync *v = b->syncs.v, *a = &v[index];
    const struct ips_current_call *begun = &b->streams[a->stream].in->begun;
    for (uint32_t k = index + 1; k < b->syncs.n && v[k].stream == a->stream;
         k++)
        if (!v[k].release && !v[k].ready && !b_is_mutex_after_cond_wait(&v[k]))
            return false;
    /* the unfinished call has no inode to compare */
    return begun->t && IPS_BEGUN_TYPE(begun->what) == IPS_REC_ACQUIRE &&
           IPS_BEGUN_NUMBER(begun->what) == a->kind &&
           (a->dev || a->ino || begun->object == a->object) &&
           ips_sub_sat(begun->cpu, a->cpu) < TEST_CPU_NS;
}

/* Whether a thread may have ended this wait although the wait timed out. If so,
 * sets *earliest to the earliest time of the release that may have done so. */
static bool may_wait_have_ended_before_timeout(const struct build *b,
                                               uint32_t index,
                                               uint64_t *earliest)
{
    const struct b_sync *a = &b->syncs.v[index];
    if (!is_kind_waited_for_in_a_loop(a) || a->err != ETIMEDOUT ||
        find_adjacent_wait(b, index, 1) ||
        waits_again_in_unfinished_call(b, index))
        return false;
    const struct b_sync *before = find_adjacent_wait(b, index, -1);
    *earliest = before && before->err == ETIMEDOUT
                    ? a->t
                    : ips_max_u64(a->t, ips_sub_sat(a->t_ret, JUST_BEFORE_NS));
    return true;
}

/* The wait `a` timed out, but a release just before may have ended it all the
 * same. Finds the newest release by another thread from `earliest` to the
 * return of `a`. A release that woke all waiters, or that woke another thread,
 * counts only if it came just before the return: an earlier one of the first
 * kind would have woken `a`, too, and one of the second kind was not for it. */
static void match_timed_out_wait(const struct object *o, struct b_sync *a,
                                 uint64_t earliest)
{
    struct b_sync *v = o->b->syncs.v;
    const uint64_t just = ips_sub_sat(a->t_ret, JUST_BEFORE_NS);
    for (uint32_t k = count_releases_until(o, a->t_ret); k-- > 0;) {
        struct b_sync *r = &v[o->release[k]];
        if (r->t < earliest)
            break;
        if (chain_of_sync(o->b, r) == chain_of_sync(o->b, a) ||
            (r->t < just && r->left <= 0))
            continue;
        a->cause = o->release[k];
        r->used = true;
        o->b->out->counts.ambiguous += r->left <= 0;
        r->left -= r->left > 0;
        break;
    }
}

/* Returns the chain of the thread that died while it owned the robust mutex:
 * the last thread with the tid in a->value that began before `a` returned; of
 * the same image, or of any image if the mutex is shared. IPS_NONE: not found.
 */
static uint32_t find_dead_owner_chain(const struct build *b,
                                      const struct b_sync *a)
{
    uint32_t best = IPS_NONE;
    uint64_t begun = 0;
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        const struct b_stream *s = &b->streams[i];
        if (s->in->head.tid != (uint32_t)a->value || s->task ||
            (a->image != IPS_NONE && s->image != a->image) ||
            s->first_ns > a->t_ret || s->first_ns < begun ||
            s->chain == chain_of_sync(b, a))
            continue;
        begun = s->first_ns;
        best = s->chain;
    }
    return best;
}

static void match_acquire(const struct object *o, uint32_t index, bool after)
{
    struct build *b = o->b;
    struct b_sync *a = &b->syncs.v[index];
    uint64_t earliest = 0;
    bool doubtful = false;
    if (!b_has_obtained_lock(a) || a->ready ||
        b_is_mutex_after_cond_wait(a) != after)
        return;
    if (a->err == EOWNERDEAD && a->value > 2) {
        a->dead_owner = find_dead_owner_chain(b, a);
        b->out->counts.any_unmatched += a->dead_owner == IPS_NONE;
        return;
    }
    if (after) {
        const struct b_sync *cond = index ? a - 1 : a;
        if (cond->kind != IPS_SYNC_COND || cond->stream != a->stream ||
            cond->t != a->t || cond->cause == IPS_NONE)
            return;
        earliest = b->syncs.v[cond->cause].t;
    }
    a->cause = find_release_that_ended_wait(o, a, earliest, &doubtful);
    if (a->cause == IPS_NONE) {
        b->out->counts.any_unmatched +=
            !after && !b_may_wait_lack_release(a->kind);
        return;
    }
    struct b_sync *r = &b->syncs.v[a->cause];
    r->used = true;
    r->left -= consumes_semaphore_unit(a) && r->left > 0;
    b->out->counts.ambiguous += doubtful;
}

/* ---- barriers ---- */

/* Matches one round of a barrier: all threads wait for the one that arrives
 * last. Each arrival also refers to the one before it (arrived_before). */
static void match_barrier_round(const struct object *o, uint32_t first,
                                uint32_t n)
{
    struct b_sync *v = o->b->syncs.v;
    uint32_t serial = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct b_sync *a = &v[o->acquire[first + i]];
        serial += a->value == 1;
        a->arrived_before = i ? o->acquire[first + i - 1] : IPS_NONE;
        a->cause = i + 1 < n ? o->acquire[first + n - 1] : IPS_NONE;
        a->used = true;
    }
    o->b->out->counts.ambiguous += serial != 1;
}

static void match_barrier(const struct object *o)
{
    const struct b_sync *v = o->b->syncs.v;
    for (uint32_t at = 0; at < o->acquires;) {
        uint32_t n = 0;
        uint64_t left = UINT64_MAX; /* earliest return of the round */
        for (; at + n < o->acquires; n++) {
            const struct b_sync *a = &v[o->acquire[at + n]];
            if (a->t > left)
                break;
            left = ips_min_u64(left, a->t_ret);
        }
        match_barrier_round(o, at, n);
        at += n;
    }
}

/* ---- all objects ---- */

static void match_acquires_of_object(struct object *o, bool after)
{
    const struct b_sync *first = &o->b->syncs.v[o->acquire[0]];
    if (first->kind == IPS_SYNC_BARRIER) {
        if (!after)
            match_barrier(o);
        return;
    }
    if (!after)
        qsort_r(o->acquire, o->acquires, sizeof(*o->acquire),
                compare_syncs_latest_return_first, o->b);
    for (uint32_t i = 0; i < o->acquires; i++)
        match_acquire(o, o->acquire[i], after);
    /* Waits that timed out come last, because the other waits may have used up
     * the releases. */
    for (uint32_t i = 0; i < o->acquires && !after; i++) {
        uint64_t earliest;
        if (may_wait_have_ended_before_timeout(o->b, o->acquire[i], &earliest))
            match_timed_out_wait(o, &o->b->syncs.v[o->acquire[i]], earliest);
    }
}

static void match_acquires_of_all_objects(struct build *b, uint32_t *order,
                                          bool after)
{
    for (uint32_t i = 0; i < b->syncs.n;) {
        struct object o = {.b = b, .release = order + i};
        const struct b_sync *first = &b->syncs.v[order[i]];
        for (; i < b->syncs.n && b->syncs.v[order[i]].release &&
               compare_sync_objects_ignoring_range(first,
                                                   &b->syncs.v[order[i]]) == 0;
             i++)
            o.releases++;
        o.acquire = order + i;
        for (; i < b->syncs.n && !b->syncs.v[order[i]].release &&
               compare_sync_objects_ignoring_range(first,
                                                   &b->syncs.v[order[i]]) == 0;
             i++)
            o.acquires++;
        if (o.acquires)
            match_acquires_of_object(&o, after);
    }
}

int b_match_sync_records(struct build *b)
{
    uint32_t *order = b_calloc(b->syncs.n, sizeof(*order), b->err);
    if (!order)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->syncs.n; i++) {
        struct b_sync *s = &b->syncs.v[i];
        order[i] = i;
        s->cause = s->arrived_before = s->dead_owner = IPS_NONE;
        s->node = IPS_NO_NODE;
        s->left = s->value > 0 ? s->value : 0;
        s->image = s->dev || s->ino ? IPS_NONE : b->streams[s->stream].image;
    }
    qsort_r(order, b->syncs.n, sizeof(*order), compare_syncs_by_object_and_time,
            b);
    match_acquires_of_all_objects(b, order, false);
    match_acquires_of_all_objects(b, order, true);
    ips_free_large(order);
    return 0;
}

static uint64_t resource_kind_of(uint8_t kind)
{
    switch ((enum ips_sync)kind) {
    case IPS_SYNC_MUTEX:
    case IPS_SYNC_RDLOCK:
    case IPS_SYNC_WRLOCK:
    case IPS_SYNC_SPIN:
    case IPS_SYNC_ONCE:
    case IPS_SYNC_FLOCK:
    case IPS_SYNC_RECORD_LOCK:
        return IPS_THING_LOCK;
    case IPS_SYNC_COND:
        return IPS_THING_CONDITION;
    case IPS_SYNC_BARRIER:
        return IPS_THING_BARRIER;
    case IPS_SYNC_SEMAPHORE:
        return IPS_THING_SEMAPHORE;
    case IPS_SYNC_EVENTFD:
    case IPS_SYNC_WATCH:
    case IPS_SYNC_TERMINAL:
        return IPS_THING_EVENT;
    case IPS_SYNC_FUTEX:
        return IPS_THING_FUTEX;
    case IPS_SYNC_FIFO:
    case IPS_SYNC_LISTEN:
        return IPS_THING_UNKNOWN;
    }
    return IPS_THING_UNKNOWN;
}

void b_make_sync_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->syncs.n; i++) {
        const struct b_sync *s = &b->syncs.v[i];
        uint32_t node = s->node;
        if (s->release || node == IPS_NO_NODE)
            continue;
        if (s->arrived_before != IPS_NONE) {
            b_set_cross(b, node, b->syncs.v[s->arrived_before].node,
                        IPS_X_RESOURCE, IPS_THING_BARRIER);
            b->out->counts.order_dependent++;
        }
        if (s->dead_owner != IPS_NONE)
            b_set_cross(b, node, b_get_end_node(b, s->dead_owner),
                        IPS_X_LIFETIME, 0);
        if (s->cause == IPS_NONE)
            continue;
        /* the listener had to exist before the connect: no other order is
         * possible */
        if (s->kind == IPS_SYNC_LISTEN) {
            b_set_cross(b, node, b->syncs.v[s->cause].node, IPS_X_LIFETIME, 0);
            continue;
        }
        /* The node of a barrier wait is the arrival; its return is the next
         * node. */
        b_set_cross(b, node + (s->kind == IPS_SYNC_BARRIER),
                    b->syncs.v[s->cause].node, IPS_X_RESOURCE,
                    resource_kind_of(s->kind));
        b->out->counts.order_dependent++;
    }
}
