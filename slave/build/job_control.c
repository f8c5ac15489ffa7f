/* Stopped processes: finds the KILL that let their threads continue, and makes
 * the nodes and arcs of these stops.
 *
 * A process that SIGSTOP stopped continues when another process sends it
 * SIGCONT. All its threads wait for that, whatever they are doing, and none of
 * them has a record of it. So the KILL records decide: a process is stopped
 * from a SIGSTOP, or from the moment that its parent was notified of the stop
 * (CLD_STOPPED: also after a Ctrl-Z at the terminal), up to the next SIGCONT
 * for it. Each thread that was off the CPU during the stop gets a node at its
 * end, with a SIGNAL arc from the KILL that sent SIGCONT: the stop caused the
 * sleep before that node, but none of its CPU. If the thread was in a call,
 * the node of the call comes after that node, because the call may wait
 * longer. A parent that is notified of a stop or of a continue (wait with
 * WUNTRACED or WCONTINUED, SIGCHLD) depends on the KILL that caused it.
 *
 * Only the leader of a process group is known to be a member. So a SIGSTOP to
 * a group stops its leader, and a SIGCONT to a group continues all stopped
 * processes. */
#include <signal.h>

#include "slave/build/node.h"

/* An event within this time (ns) after a SIGCONT may be due to that SIGCONT. */
#define WOKEN_NS 1000000u

/* ---- when processes were stopped ---- */

/* ASKED: a signal that may stop the process; STOPPED: SIGSTOP; GOES_ON:
 * SIGCONT; SEEN: its parent was notified of a stop or a continue. */
enum change_kind { ASKED, STOPPED, GOES_ON, SEEN };
struct change {
    uint64_t t;
    uint32_t proc; /* the process that stops or continues; IPS_NONE: all stopped
                      processes */
    uint32_t which; /* index in kills[]; for SEEN, in takings[] */
    uint8_t kind;
};
struct sweep {
    struct build *b;
    const uint32_t *by_pid;
    B_ARRAY(struct change) changes;
    struct state { /* the stop of one process */
        /* start of the current stop; UINT64_MAX: the process is not stopped */
        uint64_t since_ns;
        /* the last KILL that sent a stop signal, and the last that sent
         * SIGCONT */
        uint32_t stop_kill, cont;
    } * state;
    uint32_t *stopped_process; /* processes that are stopped now */
    uint32_t stopped_count;
};

static int compare_stop_changes(const void *va, const void *vb)
{
    const struct change *x = va, *y = vb;
    CMP3(x->t, y->t);
    CMP3(x->kind, y->kind);
    CMP3(x->which, y->which);
    return 0;
}

static int compare_job_stops(const void *va, const void *vb)
{
    const struct b_job_stop *x = va, *y = vb;
    CMP3(x->proc, y->proc);
    CMP3(x->until, y->until);
    return 0;
}

static int append_stop_change(struct sweep *s, const struct change *c)
{
    int rc = B_MORE(s->changes, s->b->err);
    if (rc == 0)
        s->changes.v[s->changes.n++] = *c;
    return rc;
}

static int append_stop_change_of_kill(struct sweep *s, uint32_t i)
{
    const struct b_kill *k = &s->b->kills.v[i];
    bool cont = k->sig == SIGCONT, stop = k->sig == SIGSTOP;
    if (!cont && !stop && k->sig != SIGTSTP && k->sig != SIGTTIN &&
        k->sig != SIGTTOU)
        return 0;
    uint64_t pidns = s->b->streams[k->stream].in->head.pidns;
    struct change c = {.t = k->t,
                       .proc = b_find_process_of_pid(s->b, s->by_pid, pidns,
                                                     k->pid ? k->pid : k->group,
                                                     k->t),
                       .which = i,
                       .kind = cont   ? GOES_ON
                               : stop ? STOPPED
                                      : ASKED};
    bool all = cont && k->to_group;
    if (all)
        c.proc = IPS_NONE;
    return all || c.proc != IPS_NONE ? append_stop_change(s, &c) : 0;
}

static int append_stop_change_of_taken_sigchld(struct sweep *s, uint32_t i)
{
    const struct b_signal_taken *y = &s->b->takings.v[i];
    if (y->sig != SIGCHLD ||
        (y->code != CLD_STOPPED && y->code != CLD_CONTINUED))
        return 0;
    struct change c = {
        .t = y->t,
        .proc = b_find_process_of_pid(s->b, s->by_pid,
                                      s->b->streams[y->stream].in->head.pidns,
                                      y->from, y->t),
        .which = i,
        .kind = SEEN};
    return c.proc != IPS_NONE ? append_stop_change(s, &c) : 0;
}

static void mark_process_stopped(struct sweep *s, uint32_t proc, uint64_t t)
{
    if (s->state[proc].since_ns != UINT64_MAX)
        return;
    s->state[proc].since_ns = t;
    s->stopped_process[s->stopped_count++] = proc;
}

/* Adds a b_job_stop for the stop of stopped_process[k], which `c` ended, and
 * removes the process from the list. */
static int append_job_stop_and_mark_process_running(struct sweep *s, uint32_t k,
                                                    const struct change *c)
{
    struct build *b = s->b;
    uint32_t proc = s->stopped_process[k];
    struct state *st = &s->state[proc];
    int rc = B_MORE(b->job_stops, b->err);
    if (rc < 0)
        return rc;
    b->job_stops.v[b->job_stops.n++] = (struct b_job_stop){
        .from = st->since_ns, .until = c->t, .proc = proc, .kill = c->which};
    st->since_ns = UINT64_MAX;
    s->stopped_process[k] = s->stopped_process[--s->stopped_count];
    return 0;
}

static int end_stops_by_sigcont(struct sweep *s, const struct change *c)
{
    int rc = 0;
    for (uint32_t k = s->stopped_count; k-- > 0 && rc == 0;) {
        uint32_t proc = s->stopped_process[k];
        if (c->proc != IPS_NONE && c->proc != proc)
            continue;
        s->state[proc].cont = c->which;
        s->state[proc].stop_kill = IPS_NONE;
        rc = append_job_stop_and_mark_process_running(s, k, c);
    }
    return rc;
}

static void apply_sigchld_of_stop_or_continue(struct sweep *s,
                                              const struct change *c)
{
    struct b_signal_taken *y = &s->b->takings.v[c->which];
    struct state *st = &s->state[c->proc];
    bool stop = y->code == CLD_STOPPED;
    /* The parent's handler may run late, when the stop is over already. */
    if (stop &&
        (st->cont == IPS_NONE || c->t > s->b->kills.v[st->cont].t + WOKEN_NS))
        mark_process_stopped(s, c->proc, c->t);
    y->kill = stop ? st->stop_kill : st->cont;
    if (y->kill != IPS_NONE)
        s->b->kills.v[y->kill].is_taken = true;
}

static int apply_stop_changes(struct sweep *s)
{
    int rc = 0;
    if (s->changes.n)
        qsort(s->changes.v, s->changes.n, sizeof(*s->changes.v),
              compare_stop_changes);
    for (uint32_t i = 0; i < s->changes.n && rc == 0; i++) {
        const struct change *c = &s->changes.v[i];
        switch ((enum change_kind)c->kind) {
        case STOPPED:
            mark_process_stopped(s, c->proc, c->t);
            s->state[c->proc].stop_kill = c->which;
            break;
        case ASKED:
            s->state[c->proc].stop_kill = c->which;
            break;
        case GOES_ON:
            rc = end_stops_by_sigcont(s, c);
            break;
        case SEEN:
            apply_sigchld_of_stop_or_continue(s, c);
            break;
        }
    }
    return rc;
}

/* Sorts the stops by process, marks the KILLs that need a node, and reserves
 * nodes for the threads that were stopped. */
static void sort_stops_and_reserve_nodes(struct build *b)
{
    struct b_job_stop *v = b->job_stops.v;
    if (b->job_stops.n)
        qsort(v, b->job_stops.n, sizeof(*v), compare_job_stops);
    for (uint32_t i = 0; i < b->job_stops.n; i++) {
        struct b_proc *p = &b->procs[v[i].proc];
        if (p->stop_count++ == 0)
            p->first_stop = i;
    }
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        struct b_stream *s = &b->streams[i];
        const struct b_proc *p = &b->procs[b->images[s->image].proc];
        for (uint32_t k = 0; k < p->stop_count; k++) {
            const struct b_job_stop *stop = &v[p->first_stop + k];
            if (stop->until <= s->first_ns || stop->until > s->last_ns)
                continue;
            b->kills.v[stop->kill].is_taken = true;
            s->node_capacity++;
            b->node_capacity++;
        }
    }
}

int b_find_job_stops(struct build *b, const uint32_t *by_pid)
{
    struct sweep s = {.b = b, .by_pid = by_pid};
    int rc = 0;
    for (uint32_t i = 0; i < b->kills.n && rc == 0; i++)
        rc = append_stop_change_of_kill(&s, i);
    for (uint32_t i = 0; i < b->takings.n && rc == 0; i++)
        rc = append_stop_change_of_taken_sigchld(&s, i);
    if (rc < 0 || s.changes.n == 0)
        goto out;
    uint32_t n = b->out->proc_count;
    s.state = b_calloc(n, sizeof(*s.state), b->err);
    s.stopped_process = b_calloc(n, sizeof(*s.stopped_process), b->err);
    if (!s.state || !s.stopped_process) {
        rc = IPS_E_NO_MEMORY;
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        s.state[i] = (struct state){UINT64_MAX, IPS_NONE, IPS_NONE};
    rc = apply_stop_changes(&s);
    if (rc == 0)
        sort_stops_and_reserve_nodes(b);
out:
    ips_free_large(s.changes.v);
    ips_free_large(s.state);
    ips_free_large(s.stopped_process);
    return rc;
}

/* ---- nodes ---- */

/* Reads the times and CPU times of a record; false: it has no CPU time. */
static bool read_times_and_cpu_times_of_record(const struct maker *m,
                                               uint32_t type, const uint8_t *p,
                                               struct interval *v)
{
    struct ips_rec_head h;
    uint64_t t_ret;
    memcpy(&h, p, sizeof(h));
    v->t = v->t_ret = b_stamp_to_ns(&m->s->clock, h.word, h.t);
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
    case IPS_REC_BLOCK:
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
    case IPS_REC_FORK:
    case IPS_REC_JOIN:
        memcpy(&t_ret, p + 16, 8);
        memcpy(&v->cpu, p + 24, 8);
        memcpy(&v->cpu_ret, p + 32, 8);
        v->t_ret =
            ips_max_u64(v->t, b_stamp_to_ns(&m->s->clock, h.word, t_ret));
        v->cpu_ret = ips_max_u64(v->cpu, v->cpu_ret);
        return true;
    case IPS_REC_START:
    case IPS_REC_END:
    case IPS_REC_KILL:
    case IPS_REC_CLOSE:
    case IPS_REC_EXEC:
    case IPS_REC_MARK:
    case IPS_REC_NAME:
    case IPS_REC_PAGEFAULT:
        memcpy(&v->cpu, p + 16, 8);
        v->cpu_ret = v->cpu;
        return true;
    /* records of signal handlers, samples: they are written within the call
     * whose record follows */
    default:
        return false;
    }
}

/* The position of the stop's node among the nodes of a call that slept through
 * the stop. */
enum where { BEFORE, WITHIN, BEHIND };
static enum where choose_position_of_stop_node_in_call(uint32_t type,
                                                       const uint8_t *p)
{
    struct ips_rec_io io;
    struct ips_rec_head h;
    switch (type) {
    case IPS_REC_SEND: /* the call moved its bytes before the stop */
    case IPS_REC_FORK:
        return BEHIND;
    case IPS_REC_BLOCK:
        memcpy(&io, p, sizeof(io));
        return io.op == IPS_OP_SLEEP || io.op == IPS_OP_DISK ? WITHIN : BEFORE;
    case IPS_REC_ACQUIRE:
        memcpy(&h, p, sizeof(h));
        return h.a == IPS_SYNC_BARRIER ? BEHIND : BEFORE;
    default:
        return BEFORE;
    }
}

int b_store_kill_arc_for_later(struct build *b, uint32_t node, uint32_t kill)
{
    int rc = B_MORE(b->job_stopped, b->err);
    if (rc == 0)
        b->job_stopped.v[b->job_stopped.n++] =
            (struct b_job_stopped){node, kill};
    return rc;
}

/* Adds the node of a stop at time t: until `stop` ended, the thread was off the
 * CPU for `slept` ns. Of these, `ns` count as a wait for a signal. */
static int make_stop_node_and_count_wait(struct maker *m,
                                         const struct b_job_stop *stop,
                                         uint64_t t, uint64_t cpu,
                                         uint64_t slept, uint64_t ns)
{
    struct build *b = m->b;
    /* An incremental build cannot make the arcs of stops, so the whole run has
     * to be built again. */
    b->broken |= b->from != NULL;
    uint64_t others = b->off_ns;
    b->off_ns = slept;
    uint32_t node = b_add_node(b, IPS_NODE_AUX, cpu, t, cpu, IPS_NONE);
    b->off_ns = others;
    b->out->g.wait[node] = slept;
    int rc = b_store_kill_arc_for_later(b, node, stop->kill);
    if (rc < 0 || ns == 0)
        return rc;
    b_add_wait_to_sums(m, IPS_WAIT_SIGNAL, ns);
    if (!b->notes)
        return 0;
    /* signal_node belongs to the current call, not to the stop */
    uint32_t signal_node = m->signal_node;
    m->signal_node = IPS_NO_NODE;
    b_waits_add_row(m, IPS_WAIT_SIGNAL, ns, stop->until);
    rc = b_complete_wait_rows_after_record(m, 0, NULL, 0, node);
    m->signal_node = signal_node;
    return rc;
}

/* Adds the node of a stop that ended between the previous record and the call
 * `v`. */
static int make_node_of_stop_before_call(struct maker *m,
                                         const struct b_job_stop *stop,
                                         const struct interval *v)
{
    struct maker_job_stop *s = &m->job_stop;
    uint64_t from = ips_max_u64(stop->from, s->t);
    uint64_t off = b_blocked_ns(s->t, v->t, s->cpu, v->cpu);
    uint64_t slept = ips_min_u64(off, ips_sub_sat(stop->until, from));
    if (slept < B_BLOCKED_NS)
        return 0;
    s->cpu = ips_max_u64(s->cpu,
                         ips_min_u64(v->cpu, ips_add_sat(s->cpu, from - s->t)));
    s->t = stop->until;
    m->last_ret = ips_max_u64(m->last_ret, stop->until);
    return make_stop_node_and_count_wait(m, stop, stop->until + 1, s->cpu,
                                         slept, slept);
}

/* For a stop that ended within the call `v`: notes it in m->job_stop, so that
 * its node is made later. */
static void store_stop_within_call(struct maker *m,
                                   const struct b_job_stop *stop,
                                   const struct interval *v)
{
    struct maker_job_stop *s = &m->job_stop;
    uint64_t blocked = b_blocked_ns(v->t, v->t_ret, v->cpu, v->cpu_ret);
    uint64_t from = ips_max_u64(stop->from, v->t);
    if (blocked < B_BLOCKED_NS || stop->until < from + B_BLOCKED_NS)
        return;
    s->in = stop;
    s->slept = ips_min_u64(blocked, stop->until - v->t);
    s->stopped_ns = ips_min_u64(s->slept, s->stopped_ns + (stop->until - from));
}

int b_make_node_of_stop_within_call(struct maker *m)
{
    struct maker_job_stop *s = &m->job_stop;
    const struct b_job_stop *in = s->in;
    if (!in)
        return 0;
    s->in = NULL;
    return make_stop_node_and_count_wait(m, in, in->until + 1, s->cpu, s->slept,
                                         s->stopped_ns);
}

uint64_t b_get_sleep_ns_incl_stop_if_call_went_on(const struct maker *m,
                                                  const struct interval *v)
{
    const struct b_job_stop *in = m->job_stop.in;
    bool longer = in && v->t_ret - in->until > WOKEN_NS;
    return longer ? b_blocked_ns(v->t, v->t_ret, v->cpu, v->cpu_ret)
                  : v->blocked_ns;
}

int b_make_stop_nodes_before_record(struct maker *m, uint32_t type,
                                    const uint8_t *p)
{
    struct maker_job_stop *s = &m->job_stop;
    struct interval v;
    int rc = 0;
    if (!read_times_and_cpu_times_of_record(m, type, p, &v))
        return 0;
    for (; s->next < s->end && rc == 0; s->next++) {
        const struct b_job_stop *stop = &m->b->job_stops.v[s->next];
        if (stop->until >= v.t_ret)
            break;
        /* the stop ended before the thread's first record, or was handled
         * already */
        if (s->t == 0 || stop->until <= s->t)
            continue;
        if (stop->until >= v.t)
            store_stop_within_call(m, stop, &v);
        else
            rc = make_node_of_stop_before_call(m, stop, &v);
    }
    if (rc < 0 || !s->in)
        return rc;
    s->cpu = v.cpu;
    enum where where = choose_position_of_stop_node_in_call(type, p);
    if (where == BEHIND)
        /* the whole sleep counts as a wait of the call itself */
        s->stopped_ns = 0;
    return where == BEFORE ? b_make_node_of_stop_within_call(m) : 0;
}

int b_make_stop_node_at_return_if_pending(struct maker *m, uint32_t type,
                                          const uint8_t *p)
{
    struct maker_job_stop *s = &m->job_stop;
    struct interval v;
    int rc = 0;
    if (!read_times_and_cpu_times_of_record(m, type, p, &v))
        return 0;
    if (s->in)
        rc = make_stop_node_and_count_wait(m, s->in, v.t_ret, v.cpu_ret, 0,
                                           s->stopped_ns);
    s->in = NULL;
    s->stopped_ns = 0;
    s->t = v.t_ret;
    s->cpu = v.cpu_ret;
    return rc;
}

void b_subtract_job_stop(struct maker *m, struct interval *v)
{
    uint64_t stopped = ips_min_u64(m->job_stop.stopped_ns, v->blocked_ns);
    v->blocked_ns -= stopped;
    v->blocked = v->blocked_ns >= B_BLOCKED_NS;
    m->b->off_ns = ips_sub_sat(m->b->off_ns, m->job_stop.slept);
}

void b_make_job_stop_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->job_stopped.n; i++)
        b_set_cross(b, b->job_stopped.v[i].node,
                    b->kills.v[b->job_stopped.v[i].kill].node, IPS_X_SIGNAL, 0);
}
