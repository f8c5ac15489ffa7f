/* Finds when and how each process ended. Sets the coordinate of END, which
 * includes the CPU that a thread used after its last record. */
#include <stdio.h>

#include "slave/build/match.h"

/* ---- how processes ended ---- */

struct ended {
    bool final, dead;
    uint32_t dead_status;
    uint8_t kind;
    uint64_t end_ns, status, dead_ns;
};

static struct ended collect_process_end(const struct build *b,
                                        const struct b_proc *p)
{
    struct ended e = {0};
    const struct b_image *im = &b->images[p->first_image + p->image_count - 1];
    for (uint32_t k = 0; k < im->stream_count; k++) {
        const struct b_stream *s = &b->streams[im->first_stream + k];
        e.dead |= s->in->dead;
        e.dead_status |= s->in->dead_status;
        e.dead_ns = ips_max_u64(e.dead_ns, s->in->dead_t_ns);
        if (s->end_kind != IPS_END_EXIT && s->end_kind != IPS_END_ABORT &&
            s->end_kind != IPS_END_PROVISIONAL)
            continue;
        e.final |= s->end_kind != IPS_END_PROVISIONAL;
        if (s->end_ns >= e.end_ns) {
            e.kind = s->end_kind;
            e.end_ns = s->end_ns;
            e.status = s->end_status;
        }
    }
    return e;
}

static void set_process_end_text(struct ips_proc *row, const struct ended *e,
                                 const struct b_join *j)
{
    const char *what = "exit";
    unsigned number = (unsigned)(e->status & 0xff);
    if (j || e->dead_status) {
        unsigned status = j ? j->status : e->dead_status & 0xffffu;
        unsigned sig = status & 0x7fu;
        what = sig ? "signal" : "exit";
        number = sig ? sig : status >> 8 & 0xffu;
    } else if (e->kind == IPS_END_ABORT) {
        what = "signal";
        number = 6;
    } else if (!e->kind) {
        snprintf(row->end, sizeof(row->end), "%s",
                 row->open ? "running" : "unknown");
        return;
    }
    if (row->open)
        snprintf(row->end, sizeof(row->end), "running");
    else
        snprintf(row->end, sizeof(row->end), "%s %u", what, number);
}

/* Whether another process got the same pid later. */
static bool was_pid_reused(const struct build *b, const struct b_proc *p)
{
    uint32_t next = p->first_image + p->image_count;
    if (next >= b->image_count)
        return false;
    const struct ips_segment_header *x =
        &b->streams[b->images[next - 1].first_stream].in->head;
    const struct ips_segment_header *y =
        &b->streams[b->images[next].first_stream].in->head;
    return x->pid == y->pid && x->pidns == y->pidns;
}

void b_find_process_ends(struct build *b)
{
    for (uint32_t i = 0; i < b->out->proc_count; i++) {
        const struct b_proc *p = &b->procs[i];
        struct ips_proc *row = &b->out->procs[i];
        const struct b_join *j =
            p->join == IPS_NONE ? NULL : &b->joins.v[p->join];
        struct ended e = collect_process_end(b, p);
        row->recorded_end = e.kind != 0;
        row->open = !e.final && !e.dead && !j && !was_pid_reused(b, p);
        set_process_end_text(row, &e, j);
        b->out->open |= row->open;
        if (row->open)
            continue;
        row->end_ns = p->last_ns;
        if (!e.kind && j) /* killed: no record has the time of its end */
            row->end_ns = ips_max_u64(row->end_ns, j->t_ret);
        else if (!e.kind)
            row->end_ns = ips_max_u64(row->end_ns, e.dead_ns);
    }
}

/* ---- CPU times read by other threads ---- */

static int compare_streams_by_tid(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    const struct b_stream *x = &b->streams[*(const uint32_t *)va];
    const struct b_stream *y = &b->streams[*(const uint32_t *)vb];
    CMP3(x->image, y->image);
    CMP3(x->in->head.tid, y->in->head.tid);
    CMP3(x->stream_ns, y->stream_ns);
    return 0;
}

/* Returns the chain that thread c->tid of the same image had at time c->t, or
 * IPS_NONE. `v`: [n] streams by image, tid and start. */
static uint32_t find_chain_of_tid(const struct build *b, const uint32_t *v,
                                  uint32_t n, const struct b_cpu *c)
{
    uint32_t image = b->streams[c->stream].image, low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct b_stream *s = &b->streams[v[mid]];
        uint32_t tid = s->in->head.tid;
        bool before = s->image != image ? s->image < image
                      : tid != c->tid
                          ? tid < c->tid
                          : ips_min_u64(s->stream_ns, s->first_ns) <= c->t;
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return IPS_NONE;
    const struct b_stream *s = &b->streams[v[low - 1]];
    return s->image == image && s->in->head.tid == c->tid ? s->chain : IPS_NONE;
}

static void apply_thread_cpu_records(struct build *b)
{
    uint32_t n = 0;
    uint32_t *v =
        b->cpus.n ? b_calloc(b->in->stream_count, sizeof(*v), NULL) : NULL;
    if (!v)
        return;
    for (uint32_t i = 0; i < b->in->stream_count; i++)
        if (!b->streams[i].task)
            v[n++] = i;
    qsort_r(v, n, sizeof(*v), compare_streams_by_tid, b);
    for (uint32_t i = 0; i < b->cpus.n; i++) {
        uint32_t c = find_chain_of_tid(b, v, n, &b->cpus.v[i]);
        if (c == IPS_NONE)
            continue;
        b->chains[c].cpu_known =
            ips_max_u64(b->chains[c].cpu_known, b->cpus.v[i].cpu);
        /* The thread was in a call until its process ended. Another thread read
         * its CPU clock at cpus.v[i].t, so it was alive then. */
        if (!b->streams[b->chains[c].last_stream].end_kind)
            b->out->threads[c].end_ns =
                ips_max_u64(b->out->threads[c].end_ns, b->cpus.v[i].t);
    }
    ips_free_large(v);
}

/* ---- rusage ---- */

/* Sets rusage_cpu_ns of each process: the CPU that its parent's wait reported,
 * less the CPU that its own waits reported for its children. Each report
 * includes all descendants. */
static void compute_own_rusage(struct build *b)
{
    for (uint32_t i = 0; i < b->out->proc_count; i++) {
        uint32_t j = b->procs[i].join;
        if (j != IPS_NONE)
            b->out->procs[i].rusage_cpu_ns = b->joins.v[j].child_cpu;
    }
    for (uint32_t k = 0; k < b->joins.n; k++) {
        const struct b_join *j = &b->joins.v[k];
        struct ips_proc *row =
            &b->out->procs[b->images[b->streams[j->stream].image].proc];
        if ((j->kind != IPS_JOIN_WAIT && j->kind != IPS_JOIN_SYSTEM) ||
            !j->ended || row->rusage_cpu_ns == IPS_CPU_UNKNOWN)
            continue;
        if (j->child_cpu == IPS_CPU_UNKNOWN)
            /* it is not known how much of the CPU time was the child's */
            row->rusage_cpu_ns = IPS_CPU_UNKNOWN;
        else
            row->rusage_cpu_ns = ips_sub_sat(row->rusage_cpu_ns, j->child_cpu);
    }
}

/* Charges the CPU of the process that no thread recorded to the end of the main
 * thread, as far as there was time before the parent's wait returned. */
static void charge_unattributed_cpu(struct build *b, uint32_t p)
{
    const struct b_proc *proc = &b->procs[p];
    struct ips_proc *row = &b->out->procs[p];
    if (row->rusage_cpu_ns == IPS_CPU_UNKNOWN || proc->main_chain == IPS_NONE)
        return;
    uint64_t rest = row->rusage_cpu_ns, last_ns = 0;
    struct b_chain *main = &b->chains[proc->main_chain];
    for (uint32_t c = row->first_chain; c < row->first_chain + row->chain_count;
         c++)
        if (c != proc->main_chain &&
            !b->streams[b->chains[c].first_stream].task)
            rest = ips_sub_sat(rest, b->chains[c].cpu_known);
    last_ns = b->out->g.t_ns[b_get_end_node(b, proc->main_chain)];
    uint64_t add = ips_sub_sat(rest, main->cpu_known);
    uint64_t room = ips_sub_sat(b->joins.v[proc->join].t_ret, last_ns);
    uint64_t charged = ips_min_u64(add, room);
    main->cpu_known += charged;
    row->unattributed_ns = add - charged;
    b->out->counts.unattributed_ns =
        ips_add_sat(b->out->counts.unattributed_ns, row->unattributed_ns);
}

void b_set_coords_of_end_nodes(struct build *b)
{
    apply_thread_cpu_records(b);
    compute_own_rusage(b);
    for (uint32_t p = 0; p < b->out->proc_count; p++)
        charge_unattributed_cpu(b, p);
    for (uint32_t c = 0; c < b->out->g.chain_count; c++)
        if (b_get_end_node(b, c) >= b_first_open_node(b, c))
            b->out->g.w[b_get_end_node(b, c)] = b->chains[c].cpu_known;
}
