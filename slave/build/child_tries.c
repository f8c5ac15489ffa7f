/* Tries that are made by children, with naps (short sleeps) between: the loop
 * `until COMMAND; do sleep 1; done` of a shell, and the same in a program that
 * runs commands.
 *
 * All children that one thread waits for between two naps are one round. If a
 * command has another result than in the round before, the loop may have waited
 * for that: the naps count as idle time, because the thread waited for whatever
 * changed the result. A loop whose results never change is periodic work, and
 * its sleeps count as sleeps.
 *
 * What changed the result is known if the last round created a file whose name
 * another process freed after the round before had begun (a directory or file
 * that serves as a lock). The arc leads from the removal to the creation.
 * Otherwise answers report that the event that ended the naps is not known. */
#include <stdlib.h>

#include "slave/base/wordhash.h"
#include "slave/build/node.h"

/* ---- rounds ---- */

/* At most so many changes in a directory are examined for one creation of a
 * file. */
#define LOOK_BACK 512u

/* At most so many children of a round are compared. */
#define ROUND_MAX 16u

struct round {
    uint32_t children;
    struct {
        uint64_t command;
        uint32_t status;
    } child[ROUND_MAX];
    uint64_t from;                   /* when the first child was forked */
    uint32_t first_join, final_join; /* indexes in joins */
};

/* A loop of one stream that may not have ended yet. `last`: the round before
 * the last nap; `from`: start of the first round after which every round
 * repeated a result of the round before it. */
struct loop {
    struct round last;
    uint64_t from, nap_ret_ns;
    /* Hash of the command whose changed result ended the previous loop; 0:
     * none. If this command runs again after a nap, that loop did not end. */
    uint64_t changed;
    bool napped;
    struct round ended; /* the round before the one with that result */
};

/* Returns a hash of the command line that the process ran last; 0 if it went on
 * with the program of its parent. */
static uint64_t hash_last_command_of_process(const struct build *b,
                                             uint32_t proc)
{
    const struct b_proc *p = &b->procs[proc];
    uint64_t hash = 0;
    for (uint32_t k = 0; k < p->image_count; k++) {
        const struct b_image *im = &b->images[p->first_image + k];
        const struct b_stream *s =
            &b->streams[im->main == IPS_NONE ? im->first_stream : im->main];
        if (s->name && !s->task)
            hash = slave_hash_bytes(0, s->name, s->name_len);
    }
    return hash;
}

/* Whether the child slept for longer than it computed. */
static bool is_nap_child(const struct build *b, const struct b_join *j)
{
    const struct b_proc *p = &b->procs[j->child_proc];
    uint64_t slept = 0, cpu = 0;
    for (uint32_t k = 0; k < p->image_count; k++) {
        const struct b_image *im = &b->images[p->first_image + k];
        for (uint32_t i = 0; i < im->stream_count; i++) {
            const struct b_stream *s = &b->streams[im->first_stream + i];
            slept = ips_add_sat(slept, s->slept_ns);
            cpu = ips_add_sat(cpu, ips_sub_sat(s->last_cpu, s->first_cpu));
        }
    }
    return j->status == 0 && slept > cpu;
}

static void add_joined_child_to_round(const struct build *b, struct round *r,
                                      uint32_t join)
{
    const struct b_join *j = &b->joins.v[join];
    if (r->children == 0) {
        r->from = b->forks.v[b->procs[j->child_proc].fork].t;
        r->first_join = join;
    }
    r->final_join = join;
    if (r->children == ROUND_MAX)
        return;
    r->child[r->children].command =
        hash_last_command_of_process(b, j->child_proc);
    r->child[r->children++].status = j->status;
}

enum result { OTHER_COMMAND, SAME_RESULT, OTHER_RESULT };

/* Compares child `i` of `r` with those of the round before it that ran the same
 * command. */
static enum result compare_child_with_last_round(const struct loop *y,
                                                 const struct round *r,
                                                 uint32_t i)
{
    enum result result = OTHER_COMMAND;
    for (uint32_t k = 0; k < y->last.children; k++) {
        if (y->last.child[k].command != r->child[i].command)
            continue;
        if (y->last.child[k].status == r->child[i].status)
            return SAME_RESULT;
        result = OTHER_RESULT;
    }
    return result;
}

/* Ends round `r` of loop `y`, because a nap follows, which ended at `t_ret`:
 * `r` becomes the loop's last round. */
static void end_round(struct loop *y, struct round *r, uint64_t t_ret)
{
    bool same = false;
    y->nap_ret_ns = t_ret;
    y->napped = true;
    if (r->children == 0)
        return;
    for (uint32_t i = 0; i < r->children && !same; i++)
        same = compare_child_with_last_round(y, r, i) == SAME_RESULT;
    if (!same)
        y->from = r->from;
    y->last = *r;
    r->children = 0;
}

/* Whether the last child of `r` shows that the loop before goes on: it runs the
 * same command after a nap, and no command that is not of the loop came before.
 */
static bool update_and_check_if_loop_continues(struct loop *y,
                                               const struct round *r)
{
    const uint64_t command = r->child[r->children - 1].command;
    bool of_loop = false;
    for (uint32_t k = 0; k < y->ended.children; k++)
        of_loop |= y->ended.child[k].command == command;
    bool again = y->changed && command == y->changed;
    if (again || !of_loop)
        y->changed = 0;
    return again && y->napped;
}

static int add_loop(struct build *b, const struct loop *y,
                    const struct round *r)
{
    int rc = B_MORE(b->child_tries, b->err);
    if (rc < 0)
        return rc;
    b->child_tries.v[b->child_tries.n++] =
        (struct b_child_tries){.from = y->from,
                               .last_from = y->last.from,
                               .to = r->from,
                               .stream = b->joins.v[r->final_join].stream,
                               .first_join = r->first_join,
                               .final_join = r->final_join,
                               .named = r->child[r->children - 1].command != 0,
                               .taken = IPS_NONE,
                               .freed = IPS_NONE};
    return 0;
}

static int find_loops_of_stream(struct build *b, uint32_t stream)
{
    struct loop y = {.nap_ret_ns = 0};
    struct round r = {.children = 0};
    int rc = 0;
    for (uint32_t i = b->streams[stream].first_join;
         rc == 0 && i < b->joins.n && b->joins.v[i].stream == stream; i++) {
        const struct b_join *j = &b->joins.v[i];
        if (j->child_proc == IPS_NONE || !j->ended ||
            b->procs[j->child_proc].join != i ||
            b->procs[j->child_proc].fork == IPS_NONE)
            continue;
        if (j->nap_ret_ns > y.nap_ret_ns)
            end_round(&y, &r, j->nap_ret_ns);
        if (b->forks.v[b->procs[j->child_proc].fork].t < y.nap_ret_ns)
            continue; /* the child runs at the same time as the loop */
        if (is_nap_child(b, j)) {
            end_round(&y, &r, j->t_ret);
            continue;
        }
        add_joined_child_to_round(b, &r, i);
        if (update_and_check_if_loop_continues(&y, &r))
            b->child_tries.n--; /* the loop did not end: it is periodic work */
        if (compare_child_with_last_round(&y, &r, r.children - 1) !=
            OTHER_RESULT)
            continue;
        rc = add_loop(b, &y, &r);
        y.changed = r.child[r.children - 1].command;
        y.napped = false;
        y.ended = y.last;
        y.last.children = r.children = 0;
    }
    return rc;
}

/* ---- names that others freed ---- */

static int compare_directory_changes_by_name(const void *va, const void *vb,
                                             void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_sync *x = &b->syncs.v[i], *y = &b->syncs.v[k];
    CMP3(x->ino, y->ino);
    CMP3(x->t, y->t);
    CMP3(i, k);
    return 0;
}

static uint32_t process_of_sync(const struct build *b, const struct b_sync *s)
{
    return b->images[b->streams[s->stream].image].proc;
}

static bool is_directory_change_record(const struct b_sync *s)
{
    return s->release && s->kind == IPS_SYNC_WATCH;
}

/* Returns the last release, at `from` or later, by which another process freed
 * the name that release `taken` used for a new file; or IPS_NONE. `order`: `n`
 * releases of names, sorted by name and time. */
static uint32_t find_release_that_freed_name(struct build *b,
                                             const uint32_t *order, uint32_t n,
                                             uint32_t taken, uint64_t from)
{
    const struct b_sync *a = &b->syncs.v[taken];
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (compare_directory_changes_by_name(&order[mid], &taken, b) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (uint32_t k = 0; k < LOOK_BACK && low-- > 0; k++) {
        const struct b_sync *r = &b->syncs.v[order[low]];
        if (r->ino != a->ino || r->t < from)
            break;
        if (r->value == B_NAME_FREED && r->object == a->object &&
            process_of_sync(b, r) != process_of_sync(b, a))
            return order[low];
    }
    return IPS_NONE;
}

/* Whether the thread of the loop itself forked the process, after the start of
 * the last round without a changed result. */
static bool was_process_forked_by_loop(const struct build *b,
                                       const struct b_child_tries *y,
                                       uint32_t proc)
{
    uint32_t fork = b->procs[proc].fork;
    return fork != IPS_NONE && b->forks.v[fork].stream == y->stream &&
           b->forks.v[fork].t >= y->last_from;
}

/* Looks for a file that the stream, of a child of the loop, created after
 * another process had freed the file's name. */
static void link_loop_to_name_freed_for_stream(struct build *b,
                                               const uint32_t *order,
                                               uint32_t n, uint32_t stream,
                                               struct b_child_tries *y)
{
    for (uint32_t i = b->streams[stream].first_sync;
         i < b->syncs.n && b->syncs.v[i].stream == stream; i++) {
        const struct b_sync *s = &b->syncs.v[i];
        if (!is_directory_change_record(s) || s->value == B_NAME_FREED)
            continue;
        y->taken = i;
        y->freed = find_release_that_freed_name(b, order, n, i, y->last_from);
        if (y->freed == IPS_NONE)
            continue;
        if (was_process_forked_by_loop(
                b, y, process_of_sync(b, &b->syncs.v[y->freed]))) {
            y->freed = IPS_NONE;
            y->named = false; /* the loop itself freed the name: it waited for
                                 no other process */
            return;
        }
        b->syncs.v[i].used = b->syncs.v[y->freed].used = true;
        return;
    }
}

/* Looks for a file that a child of the last round created after another process
 * had freed the file's name. */
static void find_freed_name(struct build *b, const uint32_t *order, uint32_t n,
                            struct b_child_tries *y)
{
    for (uint32_t i = y->first_join; i <= y->final_join; i++) {
        if (b->joins.v[i].child_proc == IPS_NONE)
            continue;
        const struct b_proc *p = &b->procs[b->joins.v[i].child_proc];
        for (uint32_t k = 0; k < p->image_count; k++) {
            const struct b_image *im = &b->images[p->first_image + k];
            for (uint32_t m = 0; m < im->stream_count; m++)
                if (y->freed == IPS_NONE)
                    link_loop_to_name_freed_for_stream(b, order, n,
                                                       im->first_stream + m, y);
        }
    }
}

static int find_freed_names(struct build *b)
{
    uint32_t n = 0, *order = b_calloc(b->syncs.n, sizeof(*order), b->err);
    if (!order)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->syncs.n; i++)
        if (is_directory_change_record(&b->syncs.v[i]))
            order[n++] = i;
    qsort_r(order, n, sizeof(*order), compare_directory_changes_by_name, b);
    for (uint32_t i = 0; i < b->child_tries.n; i++)
        find_freed_name(b, order, n, &b->child_tries.v[i]);
    ips_free_large(order);
    return 0;
}

int b_find_child_tries(struct build *b)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < b->in->stream_count; i++)
        rc = find_loops_of_stream(b, i);
    return rc == 0 && b->child_tries.n ? find_freed_names(b) : rc;
}

/* ---- nodes and arcs ---- */

/* Returns the loop of `stream` that was under way from `from` to `to`; or NULL.
 */
static const struct b_child_tries *
find_loop_covering_time(const struct build *b, uint32_t stream, uint64_t from,
                        uint64_t to)
{
    uint32_t low = 0, high = b->child_tries.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct b_child_tries *y = &b->child_tries.v[mid];
        if (y->stream < stream || (y->stream == stream && y->to < to))
            low = mid + 1;
        else
            high = mid;
    }
    const struct b_child_tries *y = &b->child_tries.v[low];
    return low < b->child_tries.n && y->stream == stream && y->from <= from &&
                   (y->named || y->freed != IPS_NONE)
               ? y
               : NULL;
}

bool b_count_if_nap_between_child_tries(struct maker *m,
                                        const struct interval *v)
{
    struct build *b = m->b;
    const struct b_child_tries *y = NULL;
    if (!b->child_tries.n)
        return false;
    y = find_loop_covering_time(b, (uint32_t)(m->s - b->streams), v->t,
                                v->t_ret);
    const struct b_proc *p = &b->procs[m->proc];
    if (!y && p->join != IPS_NONE && p->fork != IPS_NONE) {
        const struct b_join *j = &b->joins.v[p->join];
        y = find_loop_covering_time(b, j->stream, b->forks.v[p->fork].t,
                                    j->t_ret);
    }
    if (!y)
        return false;
    if (y->freed == IPS_NONE)
        b_add_wait_without_waker(m, b->nodes, v->blocked_ns, false);
    b_add_wait_to_sums_and_rows(
        m, y->freed == IPS_NONE ? IPS_WAIT_TIMER : IPS_WAIT_SPIN,
        v->blocked_ns);
    b->out->counts.idle++;
    return true;
}

void b_make_child_try_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->child_tries.n; i++) {
        const struct b_child_tries *y = &b->child_tries.v[i];
        if (y->freed == IPS_NONE)
            continue;
        b_set_cross(b, b->syncs.v[y->taken].node, b->syncs.v[y->freed].node,
                    IPS_X_RESOURCE, IPS_THING_EVENT);
        b->out->counts.order_dependent++;
    }
}
