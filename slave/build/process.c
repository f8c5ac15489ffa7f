/* Groups images into processes and threads into chains (docs/design/pool.md,
 * "Processes"). */
#include "slave/build/internal.h"

/* ---- images ---- */

static bool are_streams_of_same_image(const struct b_stream *a,
                                      const struct b_stream *b)
{
    const struct ips_segment_header *x = &a->in->head, *y = &b->in->head;
    return x->pidns == y->pidns && x->pid == y->pid &&
           x->image_stamp == y->image_stamp;
}

static int group_streams_into_images(struct build *b)
{
    uint32_t n = b->in->stream_count;
    b->images = b_calloc(n, sizeof(*b->images), b->err);
    if (!b->images)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct b_stream *s = &b->streams[i];
        if (i == 0 || !are_streams_of_same_image(&b->streams[i - 1], s))
            b->images[b->image_count++] =
                (struct b_image){.first_stream = i, .main = IPS_NONE};
        struct b_image *im = &b->images[b->image_count - 1];
        s->image = b->image_count - 1;
        im->stream_count++;
        im->task_count += s->task;
        bool leader = s->in->head.tid == s->in->head.pid ||
                      s->start_kind == IPS_START_ROOT ||
                      s->start_kind == IPS_START_FORK ||
                      s->start_kind == IPS_START_IMAGE;
        if (!s->task && leader && im->main == IPS_NONE)
            im->main = i;
    }
    return 0;
}

/* Returns the stream of the thread that executed another program at the end of
 * the image, or IPS_NONE. */
static uint32_t find_stream_whose_exec_ended_image(const struct build *b,
                                                   const struct b_image *im)
{
    uint32_t best = IPS_NONE;
    for (uint32_t i = 0; i < im->stream_count; i++) {
        uint32_t k = im->first_stream + i;
        const struct b_stream *s = &b->streams[k];
        if (!s->task && s->exec_last &&
            (best == IPS_NONE || s->exec_ns > b->streams[best].exec_ns))
            best = k;
    }
    return best;
}

/* Whether image i is the same process as image i - 1 after an exec. */
static bool is_image_after_exec(const struct build *b, uint32_t i)
{
    if (i == 0)
        return false;
    const struct b_image *im = &b->images[i], *before = &b->images[i - 1];
    const struct b_stream *s = &b->streams[im->first_stream];
    const struct b_stream *old = &b->streams[before->first_stream];
    if (s->in->head.pidns != old->in->head.pidns ||
        s->in->head.pid != old->in->head.pid)
        return false;
    uint32_t from = find_stream_whose_exec_ended_image(b, before);
    if (from == IPS_NONE || im->main == IPS_NONE)
        return false;
    const struct b_stream *first = &b->streams[im->main];
    return first->start_kind == IPS_START_IMAGE &&
           first->start_ns >= b->streams[from].exec_ns;
}

/* ---- processes ---- */

struct process_key { /* data of one process, for sorting the processes */
    uint64_t start_ns;
    uint32_t pid, first_image, image_count;
};

static int compare_process_keys(const void *va, const void *vb)
{
    const struct process_key *a = va, *b = vb;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return a->first_image < b->first_image ? -1 : 1;
}

static uint64_t get_image_start_ns(const struct build *b,
                                   const struct b_image *im)
{
    if (im->main != IPS_NONE && b->streams[im->main].start_kind)
        return b->streams[im->main].start_ns;
    uint64_t t = UINT64_MAX;
    for (uint32_t i = 0; i < im->stream_count; i++)
        t = ips_min_u64(t, b->streams[im->first_stream + i].first_ns);
    return t;
}

static int find_processes(struct build *b, struct process_key *found,
                          uint32_t *count)
{
    for (uint32_t i = 0; i < b->image_count; i++) {
        struct b_image *im = &b->images[i];
        im->continues = is_image_after_exec(b, i);
        if (im->continues) {
            found[*count - 1].image_count++;
            continue;
        }
        found[(*count)++] = (struct process_key){
            .start_ns = get_image_start_ns(b, im),
            .pid = b->streams[im->first_stream].in->head.pid,
            .first_image = i,
            .image_count = 1};
    }
    qsort(found, *count, sizeof(*found), compare_process_keys);
    b->procs = b_calloc(*count, sizeof(*b->procs), b->err);
    b->out->procs = b_calloc(*count, sizeof(*b->out->procs), b->err);
    return b->procs && b->out->procs ? 0 : IPS_E_NO_MEMORY;
}

static void init_process_and_its_row(struct build *b, uint32_t p,
                                     const struct process_key *f)
{
    struct b_proc *proc = &b->procs[p];
    struct ips_proc *row = &b->out->procs[p];
    const struct b_image *first = &b->images[f->first_image];
    *proc = (struct b_proc){.first_image = f->first_image,
                            .image_count = f->image_count,
                            .main_chain = IPS_NONE,
                            .end_chain = IPS_NONE,
                            .fork = IPS_NONE,
                            .join = IPS_NONE};
    row->pid = f->pid;
    row->pidns = b->streams[first->first_stream].in->head.pidns;
    row->parent = IPS_NONE;
    row->start_ns = f->start_ns;
    row->rusage_cpu_ns = IPS_CPU_UNKNOWN;
    const struct b_stream *main =
        first->main == IPS_NONE ? NULL : &b->streams[first->main];
    row->root = main && main->start_kind == IPS_START_ROOT;
    proc->spawned = main && main->start_kind == IPS_START_IMAGE;
    for (uint32_t i = 0; i < f->image_count; i++) {
        struct b_image *im = &b->images[f->first_image + i];
        im->proc = p;
        for (uint32_t k = 0; k < im->stream_count; k++) {
            const struct b_stream *s = &b->streams[im->first_stream + k];
            row->events += s->events;
            proc->last_ns = ips_max_u64(proc->last_ns, s->last_ns);
            row->image_stamp = s->in->head.image_stamp;
            row->left_image = (k > 0 && row->left_image) || s->exec_last;
        }
    }
}

/* ---- chains ---- */

struct thread { /* data of one chain, for sorting the chains */
    uint64_t start_ns;
    uint32_t first, last; /* indexes of streams */
    uint32_t process;
    bool main;
};

static int compare_threads(const void *va, const void *vb)
{
    const struct thread *a = va, *b = vb;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->main != b->main)
        return a->main ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

/* Makes threads of the streams of one image. `from`: the thread that did the
 * exec before the image; it continues in the image's main stream. IPS_NONE:
 * there was no exec. Returns the thread of the main stream, or IPS_NONE. */
static uint32_t make_image_threads(struct build *b, uint32_t image,
                                   struct thread *threads, uint32_t *count,
                                   uint32_t from)
{
    const struct b_image *im = &b->images[image];
    uint32_t main = IPS_NONE;
    for (uint32_t k = 0; k < im->stream_count; k++) {
        uint32_t i = im->first_stream + k;
        struct b_stream *s = &b->streams[i];
        uint32_t t = IPS_NONE;
        if (i == im->main)
            t = from;
        else if (!s->task && s->in->head.tid == s->in->head.pid)
            t = main; /* another stream of the main thread */
        if (t != IPS_NONE) {
            b->streams[threads[t].last].next = i;
            threads[t].last = i;
        } else {
            t = (*count)++;
            threads[t] = (struct thread){
                .start_ns = s->start_kind ? s->start_ns : s->first_ns,
                .first = i,
                .last = i,
                .process = im->proc};
        }
        /* index of the thread; make_chains() replaces it by the chain */
        s->chain = t;
        if (i == im->main)
            main = t;
    }
    return main;
}

/* Finds the threads of all processes and marks the one that survives the execs
 * of its process. */
static void group_streams_into_threads(struct build *b, struct thread *threads,
                                       uint32_t *count)
{
    for (uint32_t p = 0; p < b->out->proc_count; p++) {
        const struct b_proc *proc = &b->procs[p];
        uint32_t main = IPS_NONE;
        for (uint32_t k = 0; k < proc->image_count; k++) {
            uint32_t image = proc->first_image + k, from = IPS_NONE;
            if (k > 0) {
                uint32_t s = find_stream_whose_exec_ended_image(
                    b, &b->images[image - 1]);
                from = s == IPS_NONE ? IPS_NONE : b->streams[s].chain;
            }
            uint32_t t = make_image_threads(b, image, threads, count, from);
            if (t != IPS_NONE)
                main = t;
        }
        if (main != IPS_NONE)
            threads[main].main = true;
    }
}

static int make_chains(struct build *b, struct thread *threads, uint32_t count)
{
    qsort(threads, count, sizeof(*threads), compare_threads);
    b->chains = b_calloc(count, sizeof(*b->chains), b->err);
    b->out->threads = b_calloc(count, sizeof(*b->out->threads), b->err);
    if (!b->chains || !b->out->threads)
        return IPS_E_NO_MEMORY;
    /* In a stream that continues a chain, a send may seem to have slept,
     * because the last call of the previous stream returned after the send was
     * called. Then the send needs a second node. */
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = b->streams[threads[c].first].next; i != IPS_NONE;
             i = b->streams[i].next)
            b->node_capacity += b->streams[i].one_node;
    /* spare space after each chain (build/incremental/grow.h) */
    if (b->incremental)
        b->node_capacity +=
            b->node_capacity / 2 + (uint64_t)count * B_GROW_ROOM;
    if (b->node_capacity >= IPS_NO_NODE)
        return ips_err_set(b->err, IPS_E_LIMIT, "%llu nodes in one run here",
                           (unsigned long long)b->node_capacity);
    int rc = ips_graph_alloc_uncleared(&b->out->g, (uint32_t)b->node_capacity,
                                       count, b->err);
    if (rc < 0)
        return rc;
    for (uint32_t c = 0; c < count; c++) {
        const struct thread *t = &threads[c];
        struct ips_proc *row = &b->out->procs[t->process];
        b->chains[c] = (struct b_chain){.first_stream = t->first,
                                        .last_stream = t->last,
                                        .fork = IPS_NONE,
                                        .image_aux = IPS_NO_NODE};
        for (uint32_t s = t->first; s != IPS_NONE; s = b->streams[s].next)
            b->streams[s].chain = c;
        if (row->chain_count == 0)
            row->first_chain = c;
        if (t->main)
            b->procs[t->process].main_chain = c;
        b->out->g.chains[c] =
            (struct ips_chain){.machine = b->in->machine,
                               .process = t->process,
                               .pid = row->pid,
                               .tid = b->streams[t->last].in->head.tid,
                               .thread = row->chain_count++};
    }
    return 0;
}

/* Chooses the chain whose END is the end of the process: the thread that called
 * exit, else the main thread; if the main thread ended only itself, the thread
 * with the last record. */
static void choose_end_chain(struct build *b, uint32_t p)
{
    struct b_proc *proc = &b->procs[p];
    const struct ips_proc *row = &b->out->procs[p];
    uint32_t final = IPS_NONE, last = IPS_NONE;
    uint64_t final_ns = 0, last_ns = 0;
    for (uint32_t c = row->first_chain; c < row->first_chain + row->chain_count;
         c++) {
        const struct b_stream *s = &b->streams[b->chains[c].last_stream];
        if ((s->end_kind == IPS_END_EXIT || s->end_kind == IPS_END_ABORT ||
             s->end_kind == IPS_END_PROVISIONAL) &&
            (final == IPS_NONE || s->end_ns > final_ns)) {
            final = c;
            final_ns = s->end_ns;
        }
        if (last == IPS_NONE || s->last_ns > last_ns) {
            last = c;
            last_ns = s->last_ns;
        }
    }
    proc->end_chain = proc->main_chain != IPS_NONE ? proc->main_chain : last;
    if (final != IPS_NONE)
        proc->end_chain = final;
    else if (proc->main_chain != IPS_NONE &&
             b->streams[b->chains[proc->main_chain].last_stream].end_kind ==
                 IPS_END_THREAD)
        proc->end_chain = last;
}

int b_make_processes_and_chains(struct build *b)
{
    uint32_t n = b->in->stream_count, count = 0;
    struct process_key *found = b_calloc(n, sizeof(*found), b->err);
    struct thread *threads = b_calloc(n, sizeof(*threads), b->err);
    int rc = found && threads ? group_streams_into_images(b) : IPS_E_NO_MEMORY;
    if (rc < 0)
        goto out;
    rc = find_processes(b, found, &count);
    if (rc < 0)
        goto out;
    b->out->proc_count = count;
    for (uint32_t p = 0; p < count; p++)
        init_process_and_its_row(b, p, &found[p]);
    uint32_t thread_count = 0;
    group_streams_into_threads(b, threads, &thread_count);
    rc = make_chains(b, threads, thread_count);
    if (rc < 0)
        goto out;
    for (uint32_t p = 0; p < count; p++)
        choose_end_chain(b, p);
out:
    ips_free_large(found);
    ips_free_large(threads);
    return rc;
}
