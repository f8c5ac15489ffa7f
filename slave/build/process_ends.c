/* Finds when and how each process ended, and who killed it. Sets the coordinate
 * of END, which includes the CPU that a thread used after its last record. */
#include <signal.h>
#include <stdio.h>

#include "slave/build/match.h"
#include "slave/build/node.h"

/* ---- how processes ended ---- */

struct ended {
    bool final, dead;
    uint32_t dead_status;
    uint8_t kind;
    uint64_t end_ns, status, dead_ns;
};

static struct ended merge_end_records_of_process(const struct build *b,
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
        struct ended e = merge_end_records_of_process(b, p);
        row->recorded_end = e.kind != 0;
        row->open = !e.final && !e.dead && !j && !was_pid_reused(b, p);
        set_process_end_text(row, &e, j);
        b->procs[i].killer = IPS_NONE;
        if (!e.kind && !row->open)
            b->procs[i].death_signal =
                (j ? j->status : e.dead_status & 0xffffu) & 0x7fu;
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

/* ---- who killed a process ----
 *
 * Finds the KILL whose signal ended each process that died of a signal.
 *
 * A process that a signal ends writes no record of it. Its exit status, which
 * its parent or the slave got from the kernel, has the signal, but not the
 * sender. The cause is the first KILL of this signal to the process, or to its
 * group, after the last sign of life of the process: its last record, or the
 * call in which it was. Then the time of that KILL is also the end of the
 * process. If there is no such KILL, the signal was blocked at first, and the
 * cause is the newest KILL before the last sign of life; when the process ended
 * is then not known.
 *
 * A thread that was in a call depends on the KILL at a node before its END, so
 * that the CPU time of the exit comes after the signal. Every other thread that
 * was alive depends on the KILL at its END. */

/* A KILL is stamped before its call. So the victim's last sign of life may be
 * up to this long (ns) after the stamp. */
#define STAMPED_BEFORE_NS 1000000u
/* limit of the KILLs to groups that are examined for one process */
#define GROUPS_TRIED 256u

struct death_search {
    struct build *b;
    const uint32_t *by_pid;
    uint32_t *kills; /* indexes, sorted by (pid namespace, signal, pid, t) */
};
struct target { /* the receiver of a signal; pid 0: a group */
    uint64_t pidns;
    uint32_t sig, pid;
};
struct fitting {            /* indexes of kills[], or IPS_NONE */
    uint32_t after, before; /* the first KILL after, the last KILL before the
                               last sign of life */
};

static struct target target_of_kill(const struct build *b, uint32_t i)
{
    const struct b_kill *k = &b->kills.v[i];
    /* a tkill() names only the tid; for a main thread, that is also the pid */
    return (struct target){.pidns = b->streams[k->stream].in->head.pidns,
                           .sig = k->sig,
                           .pid = k->pid ? k->pid : k->tid};
}

static int compare_targets(const struct target *x, const struct target *y)
{
    CMP3(x->pidns, y->pidns);
    CMP3(x->sig, y->sig);
    CMP3(x->pid, y->pid);
    return 0;
}

static int compare_kills_by_target(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    struct target x = target_of_kill(b, i), y = target_of_kill(b, k);
    int order = compare_targets(&x, &y);
    if (order)
        return order;
    CMP3(b->kills.v[i].t, b->kills.v[k].t);
    CMP3(i, k);
    return 0;
}

/* Returns the index in s->kills of the first KILL of `to` at time t or later.
 */
static uint32_t
find_first_kill_of_target_from_time(const struct death_search *s,
                                    const struct target *to, uint64_t t)
{
    const struct build *b = s->b;
    uint32_t low = 0, high = b->kills.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2, i = s->kills[mid];
        struct target x = target_of_kill(b, i);
        int order = compare_targets(&x, to);
        if (order < 0 || (order == 0 && b->kills.v[i].t < t))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Whether process p is likely to be in the process group that KILL `k` was sent
 * to: p or an ancestor leads the group. If `k` was sent to the sender's own
 * group, or to all processes: p or an ancestor is the sender. Other members are
 * not known, since groups are not recorded. */
static bool may_process_be_in_killed_group(const struct death_search *s,
                                           uint32_t p, const struct b_kill *k,
                                           uint64_t pidns)
{
    const struct build *b = s->b;
    uint32_t leader =
        k->group ? b_find_process_of_pid(b, s->by_pid, pidns, k->group, k->t)
                 : b->images[b->streams[k->stream].image].proc;
    while (leader != IPS_NONE && p != IPS_NONE && p != leader)
        p = b->out->procs[p].parent;
    return leader != IPS_NONE && p == leader;
}

/* Finds the KILLs sent to target `to` that may have ended process p.
 * `alive_ns`: last sign of life of p. */
static struct fitting find_fitting_kills(const struct death_search *s,
                                         uint32_t p, const struct target *to,
                                         uint64_t alive_ns)
{
    const struct build *b = s->b;
    const struct ips_proc *row = &b->out->procs[p];
    const uint32_t at = find_first_kill_of_target_from_time(s, to, alive_ns);
    struct fitting f = {IPS_NONE, IPS_NONE};
    for (uint32_t k = at; k < b->kills.n && k - at < GROUPS_TRIED; k++) {
        const struct b_kill *kill = &b->kills.v[s->kills[k]];
        struct target x = target_of_kill(b, s->kills[k]);
        if (compare_targets(&x, to) || kill->t >= row->end_ns)
            break;
        if (to->pid || may_process_be_in_killed_group(s, p, kill, to->pidns)) {
            f.after = s->kills[k];
            break;
        }
    }
    for (uint32_t k = at; k > 0 && at - k < GROUPS_TRIED; k--) {
        const struct b_kill *kill = &b->kills.v[s->kills[k - 1]];
        struct target x = target_of_kill(b, s->kills[k - 1]);
        if (compare_targets(&x, to) || kill->t < row->start_ns)
            break;
        if (to->pid || may_process_be_in_killed_group(s, p, kill, to->pidns)) {
            f.before = s->kills[k - 1];
            break;
        }
    }
    return f;
}

/* Returns the time of the last record of process p, or of the last call that it
 * began. */
static uint64_t last_sign_of_life_ns(const struct build *b, uint32_t p)
{
    const struct b_proc *proc = &b->procs[p];
    const struct b_image *im =
        &b->images[proc->first_image + proc->image_count - 1];
    uint64_t t = proc->last_ns;
    for (uint32_t k = 0; k < im->stream_count; k++) {
        const struct b_stream *s = &b->streams[im->first_stream + k];
        if (s->in->begun.t && !s->end_kind)
            t = ips_max_u64(t, b_stamp_to_ns(&s->clock, 0, s->in->begun.t));
    }
    return t;
}

/* Returns the earlier of two KILLs; either may be IPS_NONE. */
static uint32_t earlier_of_two_kills(const struct build *b, uint32_t x,
                                     uint32_t y)
{
    if (x == IPS_NONE || y == IPS_NONE)
        return x == IPS_NONE ? y : x;
    return b->kills.v[x].t <= b->kills.v[y].t ? x : y;
}

static void find_and_store_killer(const struct death_search *s, uint32_t p)
{
    struct build *b = s->b;
    struct b_proc *proc = &b->procs[p];
    struct ips_proc *row = &b->out->procs[p];
    const uint64_t alive_ns = last_sign_of_life_ns(b, p);
    const uint64_t from = ips_sub_sat(alive_ns, STAMPED_BEFORE_NS);
    struct target to = {row->pidns, proc->death_signal, row->pid};
    struct fitting own = find_fitting_kills(s, p, &to, from);
    to.pid = 0;
    struct fitting group = find_fitting_kills(s, p, &to, from);
    proc->killer = earlier_of_two_kills(b, own.after, group.after);
    proc->died_at_kill = proc->killer != IPS_NONE;
    if (!proc->died_at_kill) {
        bool newer =
            earlier_of_two_kills(b, own.before, group.before) == own.before;
        proc->killer = newer && group.before != IPS_NONE ? group.before
                       : own.before != IPS_NONE          ? own.before
                                                         : group.before;
    }
    if (proc->killer == IPS_NONE)
        return;
    b->kills.v[proc->killer].is_taken = true;
    if (!proc->died_at_kill)
        return;
    row->end_ns = ips_max_u64(alive_ns, b->kills.v[proc->killer].t + 1);
    proc->last_ns = ips_max_u64(proc->last_ns, row->end_ns);
}

int b_find_killers(struct build *b, const uint32_t *by_pid)
{
    struct death_search s = {.b = b, .by_pid = by_pid};
    bool any = false;
    for (uint32_t p = 0; p < b->out->proc_count && !any; p++)
        any = b->procs[p].death_signal;
    if (!any || !b->kills.n)
        return 0;
    s.kills = b_calloc(b->kills.n, sizeof(*s.kills), b->err);
    if (!s.kills)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->kills.n; i++)
        s.kills[i] = i;
    qsort_r(s.kills, b->kills.n, sizeof(*s.kills), compare_kills_by_target, b);
    for (uint32_t p = 0; p < b->out->proc_count; p++)
        if (b->procs[p].death_signal)
            find_and_store_killer(&s, p);
    ips_free_large(s.kills);
    return 0;
}

uint32_t b_find_kill_that_ended_thread(const struct build *b,
                                       const struct b_stream *s)
{
    const uint32_t p = b->images[s->image].proc;
    const struct b_proc *proc = &b->procs[p];
    const bool alive = s->image + 1 == proc->first_image + proc->image_count &&
                       !s->end_kind && !s->task && s->next == IPS_NONE &&
                       proc->death_signal;
    if (!alive || proc->killer == IPS_NONE)
        return IPS_NONE;
    /* a thread that sent the signal to its own process did not wait for it */
    return b->streams[b->kills.v[proc->killer].stream].chain == s->chain
               ? IPS_NONE
               : proc->killer;
}

bool b_may_unrecorded_process_have_killed(const struct build *b,
                                          const struct b_stream *s)
{
    const struct b_proc *proc = &b->procs[b->images[s->image].proc];
    const bool last = s->image + 1 == proc->first_image + proc->image_count;
    switch (last && proc->killer == IPS_NONE ? proc->death_signal : 0) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGKILL:
    case SIGTERM:
    case SIGUSR1:
    case SIGUSR2:
        return b->careful;
    default:
        return false;
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
    uint64_t rest = row->rusage_cpu_ns;
    struct b_chain *main = &b->chains[proc->main_chain];
    for (uint32_t c = row->first_chain; c < row->first_chain + row->chain_count;
         c++)
        if (c != proc->main_chain &&
            !b->streams[b->chains[c].first_stream].task)
            rest = ips_sub_sat(rest, b->chains[c].cpu_known);
    uint64_t last_ns = b->out->g.t_ns[b_get_end_node(b, proc->main_chain)];
    if (proc->killer != IPS_NONE) /* it may have computed until it was killed */
        last_ns = b->streams[main->last_stream].last_ns;
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
