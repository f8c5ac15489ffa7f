/* Finds the KILL, or the end of a child, that caused each signal that a thread
 * took.
 *
 * A thread takes a signal by a handler, sigwait, a signalfd or EINTR. The
 * SIGNAL record has the sender and the signal. The cause of a SIGCHLD is the
 * END of the child. The cause of other signals is the newest earlier KILL of
 * that signal by the sender that may have been meant for the taker and has the
 * same value. If the sender is not recorded here (a terminal, a timer, an
 * untraced process), the signal gets no arc and no node. If the sender is
 * certainly no process of the run, the wait that the signal ended was idle;
 * otherwise it is not known what ended the wait. A KILL whose signal no thread
 * took gets no node either. */
#include <signal.h>

#include "slave/build/node.h"

/* Limit of the KILLs that are examined for one signal. Between a KILL and the
 * delivery of its signal, a sender hardly sends the same signal to more other
 * processes. */
#define LOOK_BACK 256u

struct index {
    const struct build *b;
    uint32_t *kills; /* indexes, sorted by (pid namespace, sender, signal, t) */
    uint32_t *procs; /* indexes, sorted by (pid namespace, pid, start) */
    bool one_namespace; /* all processes of the run share a pid namespace */
    uint32_t *forked;   /* [forks.n] pids that all forks returned, sorted */
    uint64_t sent;      /* a bit for each signal that a KILL of the run sent */
};

static const struct ips_segment_header *header_of_stream(const struct build *b,
                                                         uint32_t stream)
{
    return &b->streams[stream].in->head;
}

static int compare_kills_by_sender(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_kill *x = &b->kills.v[i], *y = &b->kills.v[k];
    CMP3(header_of_stream(b, x->stream)->pidns,
         header_of_stream(b, y->stream)->pidns);
    CMP3(header_of_stream(b, x->stream)->pid,
         header_of_stream(b, y->stream)->pid);
    CMP3(x->sig, y->sig);
    CMP3(x->t, y->t);
    CMP3(i, k);
    return 0;
}

static int cmp_proc(const void *va, const void *vb, void *arg)
{
    const struct ips_proc *procs = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    CMP3(procs[i].pidns, procs[k].pidns);
    CMP3(procs[i].pid, procs[k].pid);
    CMP3(procs[i].start_ns, procs[k].start_ns);
    CMP3(i, k);
    return 0;
}

/* ---- the KILL that sent a signal ---- */

static bool may_kill_reach_thread(const struct build *b, const struct b_kill *k,
                                  const struct b_signal_taken *y)
{
    const struct ips_segment_header *to = header_of_stream(b, y->stream);
    if (k->tid)
        return k->tid == to->tid && (k->pid == 0 || k->pid == to->pid);
    return k->to_group || k->pid == to->pid;
}

/* Compares kill i with the taken signal `y`, by (pid namespace, sender,
 * signal). < 0: the kill sorts before `y`; 0: sender and signal are equal, and
 * the kill is not later than `y`; > 0: the kill sorts after `y`, or is
 * later. */
static int compare_kill_with_taking(const struct build *b, uint32_t i,
                                    const struct b_signal_taken *y)
{
    const struct b_kill *k = &b->kills.v[i];
    CMP3(header_of_stream(b, k->stream)->pidns,
         header_of_stream(b, y->stream)->pidns);
    CMP3(header_of_stream(b, k->stream)->pid, y->from);
    CMP3(k->sig, y->sig);
    return k->t > y->t ? 1 : 0;
}

static uint32_t find_kill_of_taken_signal(const struct index *x,
                                          const struct b_signal_taken *y)
{
    const struct build *b = x->b;
    uint32_t low = 0, high = b->kills.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (compare_kill_with_taking(b, x->kills[mid], y) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (uint32_t n = 0; n < LOOK_BACK && low > 0; n++) {
        uint32_t i = x->kills[--low];
        const struct b_kill *k = &b->kills.v[i];
        if (compare_kill_with_taking(b, i, y) != 0)
            break;
        bool differs = y->value && k->value && y->value != k->value;
        if (!differs && may_kill_reach_thread(b, k, y))
            return i;
    }
    return IPS_NONE;
}

uint32_t b_find_process_of_pid(const struct build *b, const uint32_t *by_pid,
                               uint64_t pidns, uint32_t pid, uint64_t t)
{
    const struct ips_proc *procs = b->out->procs;
    uint32_t low = 0, high = b->out->proc_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct ips_proc *p = &procs[by_pid[mid]];
        bool before = p->pidns != pidns ? p->pidns < pidns
                      : p->pid != pid   ? p->pid < pid
                                        : p->start_ns <= t;
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return IPS_NONE;
    uint32_t p = by_pid[low - 1];
    return procs[p].pid == pid && procs[p].pidns == pidns ? p : IPS_NONE;
}

/* ---- polls of signalfds ---- */

/* A KILL or the end of a child, which may have made a signal pending. */
struct sent {
    uint64_t t;
    uint32_t kill, child; /* the KILL, or the child that ended; the other one is
                             IPS_NONE */
};
struct sents {
    struct sent *v; /* sorted by time */
    uint32_t n;
};

static int compare_sent_signals_by_time(const void *va, const void *vb)
{
    const struct sent *x = va, *y = vb;
    CMP3(x->t, y->t);
    CMP3(x->kill, y->kill);
    CMP3(x->child, y->child);
    return 0;
}

static int collect_kills_and_child_ends_by_time(const struct build *b,
                                                struct sents *s)
{
    s->v = b_calloc((size_t)b->kills.n + b->out->proc_count, sizeof(*s->v),
                    b->err);
    if (!s->v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->kills.n; i++)
        s->v[s->n++] = (struct sent){b->kills.v[i].t, i, IPS_NONE};
    for (uint32_t i = 0; i < b->out->proc_count; i++)
        if (b->procs[i].end_chain != IPS_NONE && !b->out->procs[i].open)
            s->v[s->n++] = (struct sent){b->out->procs[i].end_ns, IPS_NONE, i};
    qsort(s->v, s->n, sizeof(*s->v), compare_sent_signals_by_time);
    return 0;
}

/* Whether a signalfd for the signals in `set` (IPS_READY_SIGNALFD) reports
 * signal `sig`. */
static bool is_signal_in_set(uint32_t set, uint32_t sig)
{
    return set >> (sig < 28 ? sig : 0) & 1;
}

static bool may_signal_end_poll(const struct build *b, const struct sent *x,
                                const struct b_signal_taken *y)
{
    const uint32_t proc = b->images[b->streams[y->stream].image].proc;
    if (x->kill == IPS_NONE)
        return is_signal_in_set(y->sig, SIGCHLD) &&
               b->out->procs[x->child].parent == proc;
    const struct b_kill *k = &b->kills.v[x->kill];
    return is_signal_in_set(y->sig, k->sig) &&
           header_of_stream(b, k->stream)->pidns ==
               header_of_stream(b, y->stream)->pidns &&
           may_kill_reach_thread(b, k, y);
}

/* limit of the signals that are examined for one poll */
#define LOOK_AHEAD 4096u

/* Finds the event that ended each poll of a signalfd: the first signal, sent to
 * its process during the poll, that the signalfd is for. */
static int find_signals_that_ended_polls(struct build *b)
{
    struct sents s = {0};
    for (uint32_t i = 0; i < b->takings.n; i++) {
        struct b_signal_taken *y = &b->takings.v[i];
        int rc =
            y->polled && !s.v ? collect_kills_and_child_ends_by_time(b, &s) : 0;
        if (rc < 0)
            return rc;
        uint32_t low = 0, high = y->polled ? s.n : 0;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            if (s.v[mid].t < y->asked)
                low = mid + 1;
            else
                high = mid;
        }
        high = s.n - low < LOOK_AHEAD ? s.n : low + LOOK_AHEAD;
        for (; y->polled && low < high && s.v[low].t <= y->t; low++)
            if (may_signal_end_poll(b, &s.v[low], y)) {
                y->kill = s.v[low].kill;
                y->child = s.v[low].child;
                break;
            }
    }
    ips_free_large(s.v);
    return 0;
}

/* Returns the process whose end the SIGCHLD reports, or IPS_NONE. */
static uint32_t find_child_of_sigchld(const struct index *x,
                                      const struct b_signal_taken *y)
{
    const struct build *b = x->b;
    uint32_t p = b_find_process_of_pid(
        b, x->procs, header_of_stream(b, y->stream)->pidns, y->from, y->t);
    return p != IPS_NONE && b->procs[p].end_chain != IPS_NONE ? p : IPS_NONE;
}

static bool is_child_end_signal(const struct b_signal_taken *y)
{
    return y->sig == SIGCHLD &&
           (y->code == CLD_EXITED || y->code == CLD_KILLED ||
            y->code == CLD_DUMPED);
}

static bool was_signal_sent_by_process(const struct b_signal_taken *y)
{
    return y->code == SI_USER || y->code == SI_TKILL || y->code == SI_QUEUE;
}

/* Whether the kernel sent this signal because of a key or a new size of a
 * terminal. */
static bool is_terminal_signal(const struct b_signal_taken *y)
{
    return y->code == SI_KERNEL && (y->sig == SIGINT || y->sig == SIGQUIT ||
                                    y->sig == SIGTSTP || y->sig == SIGWINCH);
}

static bool has_one_pid_namespace(const struct build *b)
{
    const struct ips_proc *procs = b->out->procs;
    for (uint32_t i = 1; i < b->out->proc_count; i++)
        if (procs[i].pidns != procs[0].pidns)
            return false;
    return true;
}

static int cmp_pid(const void *va, const void *vb)
{
    CMP3(*(const uint32_t *)va, *(const uint32_t *)vb);
    return 0;
}

static uint64_t bit_of_signal(uint32_t sig)
{
    return sig - 1 < 64 ? (uint64_t)1 << (sig - 1) : 0;
}

/* Whether a process that does not belong to the run sent the signal. The kernel
 * gives the sender's pid as 0 if the receiver's namespace does not have it. But
 * with SI_QUEUE the pid is what the sender wrote there (rt_sigqueueinfo,
 * pidfd_send_signal), perhaps 0. Any process of the run that ever had the pid
 * may be the sender. A process between vfork and exec records no KILL and has
 * no process of its own in the graph, so the pids of forks count, too. */
static bool is_sender_outside_run(const struct index *x,
                                  const struct b_signal_taken *y)
{
    if (!was_signal_sent_by_process(y))
        return is_terminal_signal(y);
    if (y->from == 0)
        return x->one_namespace &&
               !(y->code == SI_QUEUE && x->sent & bit_of_signal(y->sig));
    return b_find_process_of_pid(x->b, x->procs,
                                 header_of_stream(x->b, y->stream)->pidns,
                                 y->from, UINT64_MAX) == IPS_NONE &&
           !bsearch(&y->from, x->forked, x->b->forks.n, sizeof(*x->forked),
                    cmp_pid);
}

int b_find_signal_causes(struct build *b)
{
    struct index x = {.b = b, .one_namespace = has_one_pid_namespace(b)};
    int rc = IPS_E_NO_MEMORY;
    if (b->takings.n == 0 && b->kills.n == 0)
        return 0;
    x.kills = b_calloc(b->kills.n, sizeof(*x.kills), b->err);
    x.procs = b_calloc(b->out->proc_count, sizeof(*x.procs), b->err);
    x.forked = b_calloc(b->forks.n, sizeof(*x.forked), b->err);
    if (!x.kills || !x.procs || !x.forked)
        goto out;
    for (uint32_t i = 0; i < b->forks.n; i++)
        x.forked[i] = b->forks.v[i].pid;
    qsort(x.forked, b->forks.n, sizeof(*x.forked), cmp_pid);
    for (uint32_t i = 0; i < b->kills.n; i++) {
        x.kills[i] = i;
        x.sent |= bit_of_signal(b->kills.v[i].sig);
    }
    for (uint32_t i = 0; i < b->out->proc_count; i++)
        x.procs[i] = i;
    qsort_r(x.kills, b->kills.n, sizeof(*x.kills), compare_kills_by_sender, b);
    qsort_r(x.procs, b->out->proc_count, sizeof(*x.procs), cmp_proc,
            b->out->procs);
    rc = b_find_killers(b, x.procs);
    rc = rc < 0 ? rc : find_signals_that_ended_polls(b);
    if (rc < 0)
        goto out;
    for (uint32_t i = 0; i < b->takings.n; i++) {
        struct b_signal_taken *y = &b->takings.v[i];
        if (y->from != 0 && is_child_end_signal(y))
            y->child = find_child_of_sigchld(&x, y);
        else if (y->from != 0 && was_signal_sent_by_process(y))
            y->kill = find_kill_of_taken_signal(&x, y);
        y->outside =
            y->kill == IPS_NONE && !y->polled && is_sender_outside_run(&x, y);
        if (y->kill != IPS_NONE)
            b->kills.v[y->kill].is_taken = true;
    }
    rc = b_find_job_stops(b, x.procs);
out:
    ips_free_large(x.kills);
    ips_free_large(x.procs);
    ips_free_large(x.forked);
    return rc;
}

void b_make_signal_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->takings.n; i++) {
        const struct b_signal_taken *y = &b->takings.v[i];
        if (y->kill != IPS_NONE)
            b_set_cross(b, y->node, b->kills.v[y->kill].node, IPS_X_SIGNAL, 0);
        else if (y->child != IPS_NONE)
            b_set_cross(b, y->node,
                        b_get_end_node(b, b->procs[y->child].end_chain),
                        IPS_X_SIGNAL, 0);
    }
}
