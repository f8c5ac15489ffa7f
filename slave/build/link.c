/* Links forks to the processes and threads that they made, and joins (waits for
 * a child or thread) to those whose end they returned.
 *
 * A fork child or a thread recorded which FORK made it (image and fork_seq). A
 * vforked or spawned child recorded nothing before its image began: it belongs
 * to the latest earlier FORK with its pid. The FORKs of popen and system have
 * no pid: their child belongs to the next such FORK of the parent that has no
 * child yet.
 *
 * When all nodes are made, this file also makes the cross arcs of forks and
 * joins. */
#include "slave/build/internal.h"

struct links {
    struct build *b;
    uint32_t *by_seq;    /* indexes of forks, sorted by (image, seq) */
    uint32_t *by_pid;    /* indexes of forks, sorted by (pid, t) */
    uint32_t *by_proc;   /* indexes of forks, sorted by (process, t) */
    uint32_t *images;    /* indexes of images, sorted by (stamp, pid) */
    uint32_t *procs;     /* indexes of processes, sorted by (pid, start) */
    uint32_t *fork_proc; /* process of each fork */
};

static uint32_t image_of_fork(const struct build *b, uint32_t f)
{
    return b->streams[b->forks.v[f].stream].image;
}

static int compare_forks_by_seq(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(image_of_fork(b, i), image_of_fork(b, k));
    CMP3(b->forks.v[i].seq, b->forks.v[k].seq);
    CMP3(i, k);
    return 0;
}

static int compare_forks_by_pid(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(b->forks.v[i].pid, b->forks.v[k].pid);
    CMP3(b->forks.v[i].t, b->forks.v[k].t);
    CMP3(i, k);
    return 0;
}

static int cmp_forks_by_process(const void *va, const void *vb, void *arg)
{
    const struct links *l = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(l->fork_proc[i], l->fork_proc[k]);
    CMP3(l->b->forks.v[i].t, l->b->forks.v[k].t);
    CMP3(i, k);
    return 0;
}

static const struct ips_segment_header *header_of_image(const struct build *b,
                                                        uint32_t image)
{
    return &b->streams[b->images[image].first_stream].in->head;
}

static int compare_images_by_stamp_and_pid(const void *va, const void *vb,
                                           void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct ips_segment_header *x = header_of_image(b, i),
                                    *y = header_of_image(b, k);
    CMP3(x->image_stamp, y->image_stamp);
    CMP3(x->pid, y->pid);
    CMP3(i, k);
    return 0;
}

static int compare_processes_by_pid(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(b->out->procs[i].pid, b->out->procs[k].pid);
    CMP3(i, k); /* processes are numbered in order of start */
    return 0;
}

/* ---- look-ups ---- */

/* Returns the FORK of `image` with number `seq`, or IPS_NONE. */
static uint32_t find_fork_by_seq(const struct links *l, uint32_t image,
                                 uint64_t seq)
{
    const struct build *b = l->b;
    uint32_t low = 0, high = b->forks.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2, f = l->by_seq[mid];
        uint32_t im = image_of_fork(b, f);
        if (im < image || (im == image && b->forks.v[f].seq < seq))
            low = mid + 1;
        else
            high = mid;
    }
    if (low == b->forks.n)
        return IPS_NONE;
    uint32_t f = l->by_seq[low];
    return image_of_fork(b, f) == image && b->forks.v[f].seq == seq ? f
                                                                    : IPS_NONE;
}

/* Returns the image that began at raw stamp `stamp`, or IPS_NONE. If several
 * did, prefers one with `pid` and `pidns`, then one with `pid`. */
static uint32_t find_image_by_stamp(const struct links *l, uint64_t stamp,
                                    uint32_t pid, uint64_t pidns)
{
    const struct build *b = l->b;
    uint32_t low = 0, high = b->image_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (header_of_image(b, l->images[mid])->image_stamp < stamp)
            low = mid + 1;
        else
            high = mid;
    }
    uint32_t best = IPS_NONE;
    bool is_pid = false;
    for (; low < b->image_count; low++) {
        const struct ips_segment_header *h = header_of_image(b, l->images[low]);
        if (h->image_stamp != stamp || (best != IPS_NONE && h->pid > pid))
            break;
        if (h->pid == pid && h->pidns == pidns)
            return l->images[low];
        if (best == IPS_NONE || (h->pid == pid && !is_pid))
            best = l->images[low];
        is_pid |= h->pid == pid;
    }
    return best;
}

/* Returns the index in by_pid after the last fork of `pid` that was called at t
 * or before. */
static uint32_t find_fork_index_after_pid_and_time(const struct links *l,
                                                   uint32_t pid, uint64_t t)
{
    const struct build *b = l->b;
    uint32_t low = 0, high = b->forks.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct b_fork *f = &b->forks.v[l->by_pid[mid]];
        if (f->pid < pid || (f->pid == pid && f->t <= t))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_successful_process_fork(const struct b_fork *f)
{
    return !f->failed && f->kind != IPS_FORK_THREAD && f->kind != IPS_FORK_TASK;
}

/* Returns the latest FORK at t or before whose child had `pid`, if it is not
 * linked to a child yet; else IPS_NONE. */
static uint32_t find_unlinked_fork_by_pid(const struct links *l, uint32_t pid,
                                          uint64_t pidns, uint64_t t)
{
    const struct build *b = l->b;
    for (uint32_t k = find_fork_index_after_pid_and_time(l, pid, t), tried = 0;
         k > 0 && tried < 4096; k--, tried++) {
        uint32_t i = l->by_pid[k - 1];
        const struct b_fork *f = &b->forks.v[i];
        if (f->pid != pid)
            break;
        if (b->streams[f->stream].in->head.pidns != pidns)
            continue;
        if (is_successful_process_fork(f) && f->child == IPS_NONE)
            return i;
        if (f->child != IPS_NONE)
            break; /* This fork's child had the pid, so the children of older
                      forks ended before. */
    }
    return IPS_NONE;
}

/* Returns the process that had `pid` at t, the latest that began at t or
 * before; or IPS_NONE. */
static uint32_t find_process_by_pid(const struct links *l, uint32_t pid,
                                    uint64_t pidns, uint64_t t)
{
    const struct build *b = l->b;
    uint32_t low = 0, high = b->out->proc_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct ips_proc *p = &b->out->procs[l->procs[mid]];
        if (p->pid < pid || (p->pid == pid && p->start_ns <= t))
            low = mid + 1;
        else
            high = mid;
    }
    for (; low > 0; low--) {
        const struct ips_proc *p = &b->out->procs[l->procs[low - 1]];
        if (p->pid != pid)
            break;
        if (p->pidns == pidns)
            return l->procs[low - 1];
    }
    return IPS_NONE;
}

/* ---- linking children to FORKs ---- */

static void link_child_to_fork(struct build *b, uint32_t f, uint32_t chain)
{
    uint32_t p = b->out->g.chains[chain].process;
    b->forks.v[f].child = chain;
    b->chains[chain].fork = f;
    if (is_successful_process_fork(&b->forks.v[f])) {
        b->forks.v[f].child_proc = p;
        b->procs[p].fork = f;
    }
}

/* For popen and system: returns the first FORK of `parent` without a pid whose
 * call had not returned at time t, when the child started; or IPS_NONE.
 * Children come in order of start. So a fork that cannot match (another kind,
 * with a child, or returned before t) is never tried again. */
static uint32_t find_unreturned_popen_or_system_fork(const struct links *l,
                                                     uint32_t parent,
                                                     uint64_t t)
{
    struct build *b = l->b;
    uint32_t *next = &b->procs[parent].order_next;
    for (uint32_t k = *next, tried = 0; k < b->forks.n && tried < 1024; k++) {
        uint32_t i = l->by_proc[k];
        const struct b_fork *f = &b->forks.v[i];
        if (l->fork_proc[i] != parent || f->t > t)
            break;
        bool open = is_successful_process_fork(f) && f->pid == 0 &&
                    f->child == IPS_NONE &&
                    (f->kind == IPS_FORK_POPEN || f->kind == IPS_FORK_SYSTEM) &&
                    f->done_ns >= t;
        if (open)
            return i;
        if (k == *next)
            ++*next;
        else
            tried++;
    }
    return IPS_NONE;
}

/* Prepares find_unreturned_popen_or_system_fork(): sets where the forks of each
 * process begin in by_proc, and when calls of popen and system returned. */
static void prepare_popen_search(struct links *l)
{
    struct build *b = l->b;
    for (uint32_t p = 0; p < b->out->proc_count; p++)
        b->procs[p].order_next = b->forks.n;
    for (uint32_t k = b->forks.n; k > 0; k--)
        b->procs[l->fork_proc[l->by_proc[k - 1]]].order_next = k - 1;
    for (uint32_t j = 0; j < b->joins.n; j++) {
        const struct b_join *join = &b->joins.v[j];
        if (join->kind != IPS_JOIN_SYSTEM)
            continue;
        uint32_t f =
            find_fork_by_seq(l, b->streams[join->stream].image, join->seq);
        if (f != IPS_NONE)
            b->forks.v[f].done_ns = join->t_ret;
    }
}

static void link_thread_to_its_fork(struct links *l, uint32_t chain)
{
    struct build *b = l->b;
    const struct b_stream *s = &b->streams[b->chains[chain].first_stream];
    if (s->fork_seq == 0)
        return;
    uint32_t f = find_fork_by_seq(l, s->image, s->fork_seq);
    if (f == IPS_NONE || b->forks.v[f].failed ||
        b->forks.v[f].child != IPS_NONE ||
        is_successful_process_fork(&b->forks.v[f]))
        return;
    link_child_to_fork(b, f, chain);
}

static uint32_t find_fork_and_parent(struct links *l,
                                     const struct ips_proc *row,
                                     const struct b_stream *s, uint32_t *parent)
{
    struct build *b = l->b;
    uint32_t f = IPS_NONE;
    if (s->start_kind == IPS_START_FORK) {
        uint32_t image =
            find_image_by_stamp(l, s->parent_image, s->ppid, row->pidns);
        if (image != IPS_NONE) {
            *parent = b->images[image].proc;
            if (s->fork_seq)
                f = find_fork_by_seq(l, image, s->fork_seq);
            if (f != IPS_NONE && (!is_successful_process_fork(&b->forks.v[f]) ||
                                  b->forks.v[f].child != IPS_NONE))
                f = IPS_NONE;
        }
    }
    if (f == IPS_NONE)
        f = find_unlinked_fork_by_pid(l, row->pid, row->pidns, row->start_ns);
    if (f == IPS_NONE && *parent == IPS_NONE && s->ppid)
        *parent = find_process_by_pid(l, s->ppid, row->pidns, row->start_ns);
    if (f == IPS_NONE && s->start_kind == IPS_START_IMAGE &&
        *parent != IPS_NONE)
        f = find_unreturned_popen_or_system_fork(l, *parent, row->start_ns);
    return f;
}

static void link_process(struct links *l, uint32_t p)
{
    struct build *b = l->b;
    struct ips_proc *row = &b->out->procs[p];
    const struct b_image *first = &b->images[b->procs[p].first_image];
    if (first->main == IPS_NONE || row->root)
        return;
    const struct b_stream *s = &b->streams[first->main];
    uint32_t parent = IPS_NONE, f = find_fork_and_parent(l, row, s, &parent);
    if (f != IPS_NONE) {
        parent = l->fork_proc[f];
        link_child_to_fork(b, f, s->chain);
    }
    /* A process whose parent is untraced becomes the child of the process that
     * forked that parent. */
    if (parent == IPS_NONE && s->ppid) {
        uint32_t g =
            find_unlinked_fork_by_pid(l, s->ppid, row->pidns, row->start_ns);
        parent = g == IPS_NONE ? IPS_NONE : l->fork_proc[g];
    }
    /* Processes are numbered in order of start, so this leaves no cycle. */
    if (parent != IPS_NONE && parent < p)
        row->parent = parent;
}

/* ---- linking JOINs to children ---- */

/* Returns the latest FORK by process `proc`, at t or before, whose child had
 * `pid`; or IPS_NONE. */
static uint32_t find_fork_of_waited_child(const struct links *l, uint32_t proc,
                                          uint32_t pid, uint64_t t)
{
    const struct build *b = l->b;
    for (uint32_t k = find_fork_index_after_pid_and_time(l, pid, t), tried = 0;
         k > 0 && tried < 4096; k--, tried++) {
        uint32_t i = l->by_pid[k - 1];
        const struct b_fork *f = &b->forks.v[i];
        if (f->pid != pid)
            break;
        if (is_successful_process_fork(f) && l->fork_proc[i] == proc)
            return i;
    }
    return IPS_NONE;
}

/* Returns the chain of the task with this number, for a task without a FORK; or
 * IPS_NONE. Tasks are the last streams of an image, in order of start. That is
 * nearly the order of their numbers, so the search tries only a few streams
 * near `number`. */
static uint32_t find_task_chain(const struct build *b, uint32_t image,
                                uint32_t number)
{
    const struct b_image *im = &b->images[image];
    uint32_t tasks = im->task_count;
    uint32_t end = im->first_stream + im->stream_count;
    uint32_t low = number > 64 ? number - 64 : 0;
    for (uint32_t k = low; k < tasks && k < low + 128; k++) {
        const struct b_stream *s = &b->streams[end - tasks + k];
        if (s->in->head.tid == number)
            return s->chain;
    }
    return IPS_NONE;
}

static void link_join_to_awaited_child(struct links *l, struct b_join *j)
{
    struct build *b = l->b;
    const struct b_stream *s = &b->streams[j->stream];
    uint32_t proc = b->images[s->image].proc, f = IPS_NONE;
    switch (j->kind) {
    case IPS_JOIN_WAIT:
        f = j->pid ? find_fork_of_waited_child(l, proc, j->pid, j->t_ret)
                   : IPS_NONE;
        if (f != IPS_NONE)
            j->child_proc = b->forks.v[f].child_proc;
        else if (j->pid)
            j->child_proc =
                find_process_by_pid(l, j->pid, s->in->head.pidns, j->t_ret);
        break;
    case IPS_JOIN_GONE:
        j->child_proc =
            find_process_by_pid(l, j->pid, s->in->head.pidns, j->t_ret);
        break;
    case IPS_JOIN_SYSTEM:
        f = find_fork_by_seq(l, s->image, j->seq);
        if (f != IPS_NONE)
            j->child_proc = b->forks.v[f].child_proc;
        break;
    case IPS_JOIN_THREAD:
    case IPS_JOIN_TASK:
        f = j->seq ? find_fork_by_seq(l, s->image, j->seq) : IPS_NONE;
        if (f != IPS_NONE && !is_successful_process_fork(&b->forks.v[f])) {
            j->child = b->forks.v[f].child;
            j->unrecorded = !b->forks.v[f].failed && j->child == IPS_NONE;
        } else if (j->kind == IPS_JOIN_TASK)
            j->child = find_task_chain(b, s->image, j->pid);
        break;
    default:
        break;
    }
    if (j->child_proc == proc)
        /* damaged records: no process waits for itself */
        j->child_proc = IPS_NONE;
    if (j->kind == IPS_JOIN_GONE && j->child_proc != IPS_NONE &&
        b->procs[j->child_proc].last_ns > j->t_ret)
        j->child_proc = IPS_NONE; /* another process had the pid before */
    if (j->child_proc == IPS_NONE || !j->ended)
        return;
    struct b_proc *child = &b->procs[j->child_proc];
    if (child->join == IPS_NONE && j->kind != IPS_JOIN_GONE)
        child->join = (uint32_t)(j - b->joins.v);
    j->child = child->end_chain;
}

/* ---- the pass ---- */

static uint32_t *make_index_array(uint32_t n, struct ips_err *err)
{
    uint32_t *v = b_calloc(n, sizeof(*v), err);
    for (uint32_t i = 0; v && i < n; i++)
        v[i] = i;
    return v;
}

static int make_link_indexes(struct links *l)
{
    struct build *b = l->b;
    uint32_t n = b->forks.n;
    l->by_seq = make_index_array(n, b->err);
    l->by_pid = make_index_array(n, b->err);
    l->by_proc = make_index_array(n, b->err);
    l->fork_proc = make_index_array(n, b->err);
    l->images = make_index_array(b->image_count, b->err);
    l->procs = make_index_array(b->out->proc_count, b->err);
    if (!l->by_seq || !l->by_pid || !l->by_proc || !l->fork_proc ||
        !l->images || !l->procs)
        return IPS_E_NO_MEMORY;
    for (uint32_t f = 0; f < n; f++)
        l->fork_proc[f] = b->images[image_of_fork(b, f)].proc;
    qsort_r(l->by_seq, n, sizeof(uint32_t), compare_forks_by_seq, b);
    qsort_r(l->by_pid, n, sizeof(uint32_t), compare_forks_by_pid, b);
    qsort_r(l->by_proc, n, sizeof(uint32_t), cmp_forks_by_process, l);
    qsort_r(l->images, b->image_count, sizeof(uint32_t),
            compare_images_by_stamp_and_pid, b);
    qsort_r(l->procs, b->out->proc_count, sizeof(uint32_t),
            compare_processes_by_pid, b);
    return 0;
}

int b_link_forks_and_joins(struct build *b)
{
    struct links l = {.b = b};
    int rc = make_link_indexes(&l);
    if (rc == 0) {
        prepare_popen_search(&l);
        for (uint32_t c = 0; c < b->out->g.chain_count; c++) {
            uint8_t kind = b->streams[b->chains[c].first_stream].start_kind;
            if (kind == IPS_START_THREAD || kind == IPS_START_TASK)
                link_thread_to_its_fork(&l, c);
        }
        for (uint32_t p = 0; p < b->out->proc_count; p++)
            link_process(&l, p);
        for (uint32_t j = 0; j < b->joins.n; j++)
            link_join_to_awaited_child(&l, &b->joins.v[j]);
    }
    ips_free_large(l.by_seq);
    ips_free_large(l.by_pid);
    ips_free_large(l.by_proc);
    ips_free_large(l.fork_proc);
    ips_free_large(l.images);
    ips_free_large(l.procs);
    return rc;
}

/* ---- arcs ---- */

static void make_fork_arc_and_arc_of_vfork_return(struct build *b,
                                                  const struct b_fork *f)
{
    if (f->child == IPS_NONE || f->node == IPS_NO_NODE)
        return;
    const struct b_chain *c = &b->chains[f->child];
    b_set_cross(b, b->out->g.chains[f->child].first, f->node, IPS_X_LIFETIME,
                0);
    if (f->kind != IPS_FORK_VFORK && f->kind != IPS_FORK_SPAWN &&
        f->kind != IPS_FORK_POPEN)
        return;
    if (c->image_aux != IPS_NO_NODE)
        b_set_cross(b, f->node + 1, c->image_aux, IPS_X_LIFETIME, 0);
    else if (b->procs[f->child_proc].last_ns <= f->t_ret)
        b_set_cross(b, f->node + 1,
                    b_get_end_node(b, b->procs[f->child_proc].end_chain),
                    IPS_X_LIFETIME, 0);
}

/* Makes the arc of a wait for children that failed with ECHILD: from the child
 * that ended last before the wait returned. */
static void make_arc_of_failed_child_wait(struct build *b,
                                          const struct b_failed_child_wait *x)
{
    uint32_t last = IPS_NONE;
    for (uint32_t i = 0; i < b->out->proc_count; i++) {
        const struct ips_proc *row = &b->out->procs[i];
        bool child = row->parent == x->proc && !row->open &&
                     b->procs[i].join == IPS_NONE && /* was never waited for */
                     (!x->pid || row->pid == x->pid);
        if (child && b->procs[i].last_ns <= x->t_ret &&
            (last == IPS_NONE || b->procs[i].last_ns > b->procs[last].last_ns))
            last = i;
    }
    if (last != IPS_NONE)
        b_set_cross(b, x->node, b_get_end_node(b, b->procs[last].end_chain),
                    IPS_X_LIFETIME, 0);
}

/* Returns the node that let the join return: the END of the awaited thread or
 * process. A JOIN of kind GONE waited until a process did not exist any more:
 * that is when its parent's join returned. */
static uint32_t find_node_that_let_join_return(const struct build *b,
                                               const struct b_join *j)
{
    uint32_t by =
        j->kind == IPS_JOIN_GONE ? b->procs[j->child_proc].join : IPS_NONE;
    const struct b_join *parent = by == IPS_NONE ? NULL : &b->joins.v[by];
    return parent && parent->node != IPS_NO_NODE && parent->t_ret <= j->t_ret
               ? parent->node
               : b_get_end_node(b, j->child);
}

void b_make_lifetime_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->vains.n; i++)
        make_arc_of_failed_child_wait(b, &b->vains.v[i]);
    for (uint32_t i = 0; i < b->forks.n; i++)
        make_fork_arc_and_arc_of_vfork_return(b, &b->forks.v[i]);
    for (uint32_t i = 0; i < b->joins.n; i++) {
        const struct b_join *j = &b->joins.v[i];
        if (j->child == IPS_NONE || !j->ended || j->node == IPS_NO_NODE ||
            (j->kind == IPS_JOIN_GONE && b->out->procs[j->child_proc].open))
            continue;
        uint32_t node = find_node_that_let_join_return(b, j);
        if (ips_chain_of(&b->out->g, node) != ips_chain_of(&b->out->g, j->node))
            b_set_cross(b, j->node, node, IPS_X_LIFETIME, 0);
    }
}
