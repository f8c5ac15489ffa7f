/* Repeated tries of one condition with naps (short sleeps) between. If a
 * recorded thread let the last try succeed, the napping thread waited for that
 * thread and not for a timer. The naps then count as idle time, and the arc of
 * the successful try leads from the event that the thread waited for.
 *
 * The first reading finds the tries. A BLOCK with op RETRY has the tries of a
 * connect or of a wait for a child, an ACQUIRE those for a lock. A receive
 * that finds nothing has a record each time (RECVCALL); this file combines
 * these records, and a sleep directly after one is a nap. The second reading
 * calls b_count_if_nap() for each sleep.
 *
 * Tests of a flag in memory have no record, nor has the write of the flag by
 * another thread. Several sleeps at one call site, with no record and no work
 * between, count as naps between such tests; so do waits for a condition, a
 * semaphore or a futex that reached their time limit. They are idle time as
 * well, and answers report that the event that ended them is not known. */
#include <errno.h>

#include "slave/build/node.h"

/* ---- first reading ---- */

/* Adds tries from (t, cpu) to (to, cpu_to). The caller adds to **made which
 * record has the successful try. *made is NULL if the tries were not added: a
 * thread that computes for more than half of the time works between its tries,
 * so its sleeps are not naps. */
static int add_retry_unless_thread_computed(struct build *b,
                                            const struct b_stream *s,
                                            uint64_t t, uint64_t to,
                                            uint64_t cpu, uint64_t cpu_to,
                                            struct b_retry **made)
{
    *made = NULL;
    if (b_blocked_ns(t, to, cpu, cpu_to) < ips_sub_sat(cpu_to, cpu))
        return 0;
    int rc = B_MORE(b->retries, b->err);
    if (rc < 0)
        return rc;
    *made = &b->retries.v[b->retries.n++];
    **made = (struct b_retry){.from = t,
                              .to = to,
                              .stream = (uint32_t)(s - b->streams),
                              .sync = IPS_NONE,
                              .join = IPS_NONE,
                              .chan = IPS_NONE,
                              .made = IPS_NONE,
                              .node = IPS_NO_NODE};
    return 0;
}

static int append_created_file(struct build *b, const struct b_stream *s,
                               const struct ips_rec_io *r, uint64_t t)
{
    int rc = b->nodes ? 0 : B_MORE(b->mades, b->err);
    if (rc < 0 || b->nodes) /* b->nodes is not 0: an incremental build adds
                               records, and does not use later MADEs */
        return rc;
    b->mades.v[b->mades.n++] =
        (struct b_created_file){.t = t,
                                .cpu = r->cpu,
                                .ino = (uint64_t)r->result,
                                .dev = r->h.a,
                                .stream = (uint32_t)(s - b->streams),
                                .node = IPS_NO_NODE};
    return 0;
}

static int add_retry_of_found_file(struct build *b, const struct b_stream *s,
                                   const struct ips_rec_io *r, uint64_t t,
                                   uint64_t t_ret)
{
    struct b_retry *made;
    int rc = add_retry_unless_thread_computed(b, s, t, t_ret, r->cpu,
                                              r->cpu_ret, &made);
    if (made) {
        made->of_file = true;
        made->dev = r->h.a;
        made->ino = (uint64_t)r->result;
    }
    return rc;
}

static bool find_tries_of_channel(const struct b_tries *v, uint32_t n,
                                  uint32_t chan, uint32_t *at)
{
    for (*at = 0; *at < n && v[*at].chan != chan; ++*at)
        ;
    return *at < n;
}

static void add_tries_of_channel_if_absent(struct b_tries *v, uint32_t *n,
                                           const struct b_tries *y)
{
    uint32_t at;
    if (*n < B_TRIES_KEPT && !find_tries_of_channel(v, *n, y->chan, &at))
        v[(*n)++] = *y;
}

/* Whether the record is a sleep, or a poll that timed out. */
static bool is_sleep_or_poll_timeout(uint32_t type, const struct ips_rec_io *r)
{
    return type == IPS_REC_BLOCK && !r->err && r->result == 0 &&
           r->op >= IPS_OP_POLL && r->op <= IPS_OP_SLEEP;
}

int b_scan_retry_record(struct build *b, struct b_stream *s, uint32_t type,
                        const struct ips_rec_io *r, uint64_t t, uint64_t t_ret)
{
    struct b_retry *made = NULL;
    struct b_tries y = {r->op == IPS_OP_ACCEPT ? 0 : r->h.a, t, r->cpu};
    uint32_t at;
    int rc = 0;
    if (type == IPS_REC_BLOCK && r->op == IPS_OP_RETRY)
        return add_retry_unless_thread_computed(b, s, t, t_ret, r->cpu,
                                                r->cpu_ret, &made);
    if (type == IPS_REC_BLOCK && r->op == IPS_OP_MADE)
        return append_created_file(b, s, r, t);
    if (type == IPS_REC_BLOCK && r->op == IPS_OP_FOUND)
        return add_retry_of_found_file(b, s, r, t, t_ret);
    if (type == IPS_REC_RECVCALL && r->err == EAGAIN) {
        add_tries_of_channel_if_absent(s->tries, &s->try_count, &y);
        return 0;
    }
    if (is_sleep_or_poll_timeout(type, r)) {
        for (at = 0; at < s->try_count; at++)
            add_tries_of_channel_if_absent(s->napped, &s->napped_count,
                                           &s->tries[at]);
        s->nap_ret_ns = t_ret;
        s->slept_ns = ips_add_sat(s->slept_ns, ips_sub_sat(t_ret, t));
    }
    s->try_count = 0;
    if (type == IPS_REC_RECV && !r->err && r->result >= 0 &&
        find_tries_of_channel(s->napped, s->napped_count, y.chan, &at)) {
        const struct b_tries *first = &s->napped[at];
        rc = add_retry_unless_thread_computed(b, s, first->t, t, first->cpu,
                                              r->cpu, &made);
        s->napped[at] = s->napped[--s->napped_count];
    }
    if (made)
        made->chan = r->h.a;
    return rc;
}

/* Returns the last b_retry of the stream if its successful try was called at t,
 * else NULL. */
static struct b_retry *get_last_retry_if_succeeded_at(const struct build *b,
                                                      const struct b_stream *s,
                                                      uint64_t t)
{
    uint32_t n = b->retries.n;
    return n > s->first_retry && b->retries.v[n - 1].to == t
               ? &b->retries.v[n - 1]
               : NULL;
}

void b_link_retry_to_next_join(struct build *b, const struct b_stream *s,
                               uint64_t t)
{
    struct b_retry *made = get_last_retry_if_succeeded_at(b, s, t);
    if (made)
        made->join = b->joins.n;
}

int b_link_or_append_retry_of_acquire(struct build *b, const struct b_stream *s,
                                      const struct ips_rec_sync *r, uint64_t t,
                                      uint64_t t_ret)
{
    struct b_retry *made = NULL;
    int rc = 0;
    const bool apart = b_is_connect_or_file_test_after_tries(r->h.a, r->value);
    if (apart)
        made = get_last_retry_if_succeeded_at(b, s, t_ret);
    else if (r->value == B_SYNC_TRIED && !r->err)
        rc = add_retry_unless_thread_computed(b, s, t, t_ret, r->cpu,
                                              r->cpu_ret, &made);
    if (made) {
        made->sync = b->syncs.n;
        made->whole = !apart;
    }
    return rc;
}

/* ---- naps without a record between ---- */

/* Least number of similar sleeps that count as naps between tries. */
#define NAPS_MIN 3u
/* CPU time that a thread needs between two naps to test a flag: at most a
 * fiftieth of a nap, within these limits. The work of a periodic task takes
 * more. */
#define LOOK_PARTS 50u
#define LOOK_MIN_NS 5000u
#define LOOK_MAX_NS 50000u
/* The longer of two successive naps may take twice as long as the other plus
 * this (ns), because the thread may have to wait for a CPU. */
#define NAP_LATE_NS 50000000u
/* A sleep longer than twice the last nap plus this (ns) ends the run of naps: a
 * busy machine does not explain it. */
#define NAP_ODD_NS 1000000000u
/* At most one nap in this many may be odd. On a busy machine a nap may take
 * much longer, and the agent only estimates the CPU time between two readings
 * of the clock. But LOOK_LONG_NS of CPU time or more is always work, because by
 * then the agent has read the clock. */
#define NAPS_OF_ONE_ODD 8u
#define LOOK_LONG_NS (2u * B_READ_NS)

struct nap {
    uint64_t t, t_ret, cpu, cpu_ret, site;
    uint64_t object; /* hash of what was waited for; 0: a sleep */
};

/* Sets *n if the record is a sleep, or a wait that reached its time limit. */
static bool read_nap_if_sleep_or_timeout(const struct b_stream *s,
                                         uint32_t type, const uint8_t *p,
                                         struct nap *n)
{
    struct ips_rec_io r;
    struct ips_rec_sync a;
    if (type == IPS_REC_BLOCK) {
        memcpy(&r, p, sizeof(r));
        *n = (struct nap){b_stamp_to_ns(&s->clock, r.h.word, r.h.t),
                          b_stamp_to_ns(&s->clock, r.h.word, r.t_ret),
                          r.cpu,
                          r.cpu_ret,
                          r.site,
                          0};
        return r.op == IPS_OP_SLEEP && !r.err && !r.result;
    }
    if (type != IPS_REC_ACQUIRE)
        return false;
    memcpy(&a, p, sizeof(a));
    *n = (struct nap){b_stamp_to_ns(&s->clock, a.h.word, a.h.t),
                      b_stamp_to_ns(&s->clock, a.h.word, a.t_ret),
                      a.cpu,
                      a.cpu_ret,
                      a.site,
                      a.h.a + a.dev + a.ino + a.object};
    return a.err == ETIMEDOUT &&
           (a.h.a == IPS_SYNC_COND || a.h.a == IPS_SYNC_SEMAPHORE ||
            a.h.a == IPS_SYNC_FUTEX);
}

/* Whether the record shows that the thread worked between naps at call site
 * `site`. */
static bool is_record_of_work(uint32_t type, const uint8_t *p, uint64_t site)
{
    struct ips_rec_sync a;
    switch (type) {
    case IPS_REC_SAMPLE:
    case IPS_REC_STACK:
    case IPS_REC_COUNT:
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
    case IPS_REC_NAME:
    case IPS_REC_MODULE:
    case IPS_REC_THREADCPU:
    case IPS_REC_RUNDELAY:
    case IPS_REC_GUESSED:
    case IPS_REC_CALLS:
    case IPS_REC_PAGEFAULT:
    case IPS_REC_ACQUIRE_SHORT: /* a lock may protect the flag */
    case IPS_REC_RELEASE_SHORT:
        return false;
    case IPS_REC_RELEASE: /* a wait for a condition releases its mutex */
        memcpy(&a, p, sizeof(a));
        return a.h.a != IPS_SYNC_MUTEX || a.site != site;
    default:
        return true;
    }
}

static bool is_nap_of_similar_length(const struct b_naps *y, uint64_t ns)
{
    uint64_t shorter = ips_min_u64(y->ns, ns), longer = ips_max_u64(y->ns, ns);
    return longer <= ips_add_sat(ips_add_sat(shorter, shorter), NAP_LATE_NS);
}

static bool continues_nap_run(const struct b_naps *y, const struct nap *n,
                              uint64_t ns)
{
    return y->count && n->site && y->site == n->site &&
           y->object == n->object &&
           ns <= ips_add_sat(ips_add_sat(y->ns, y->ns), NAP_ODD_NS) &&
           y->odd <= y->count / NAPS_OF_ONE_ODD &&
           ips_sub_sat(n->cpu, y->cpu_ret) < LOOK_LONG_NS;
}

static int append_or_extend_nap_run(struct build *b, struct b_stream *s,
                                    uint64_t t_ret)
{
    struct b_naps *y = &s->naps;
    if (y->count < NAPS_MIN)
        return 0;
    if (y->count > NAPS_MIN) {
        b->nap_runs.v[y->run].to = t_ret;
        return 0;
    }
    int rc = B_MORE(b->nap_runs, b->err);
    y->run = b->nap_runs.n;
    if (rc == 0)
        b->nap_runs.v[b->nap_runs.n++] = (struct b_nap_run){
            .from = y->from, .to = t_ret, .stream = (uint32_t)(s - b->streams)};
    return rc;
}

int b_update_nap_run_with_record(struct build *b, struct b_stream *s,
                                 uint32_t type, const uint8_t *p)
{
    struct b_naps *y = &s->naps;
    struct nap n;
    if (!read_nap_if_sleep_or_timeout(s, type, p, &n)) {
        if (is_record_of_work(type, p, y->site))
            y->count = 0;
        return 0;
    }
    uint64_t ns = ips_sub_sat(n.t_ret, n.t);
    uint64_t look =
        ips_max_u64(LOOK_MIN_NS, ips_min_u64(LOOK_MAX_NS, y->ns / LOOK_PARTS));
    bool like = is_nap_of_similar_length(y, ns);
    y->odd += !like || ips_sub_sat(n.cpu, y->cpu_ret) > look;
    if (!continues_nap_run(y, &n, ns)) {
        *y = (struct b_naps){.site = n.site, .object = n.object, .from = n.t};
        like = true;
    }
    y->count++;
    y->cpu_ret = n.cpu_ret;
    y->ns = like ? ns : y->ns;
    return append_or_extend_nap_run(b, s, n.t_ret);
}

/* ---- files that were found, and who made them ---- */

static int compare_file_ids(uint64_t ino, uint32_t dev,
                            const struct b_created_file *x)
{
    CMP3(ino, x->ino);
    CMP3(dev, x->dev);
    return 0;
}

static int compare_created_files(const void *va, const void *vb, void *arg)
{
    const struct build *b = arg;
    uint32_t i = *(const uint32_t *)va, k = *(const uint32_t *)vb;
    const struct b_created_file *x = &b->mades.v[i], *y = &b->mades.v[k];
    int c = compare_file_ids(x->ino, x->dev, y);
    if (c)
        return c;
    CMP3(x->t, y->t);
    CMP3(i, k);
    return 0;
}

/* Finds the last MADE record, by another stream, of the file that the tries `y`
 * were for, between the first failed try and the successful one. `order`:
 * indexes of mades, sorted by file and time. */
static void link_retry_to_creator_of_file(struct build *b,
                                          const uint32_t *order,
                                          struct b_retry *y)
{
    uint32_t low = 0, high = b->mades.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct b_created_file *x = &b->mades.v[order[mid]];
        int c = compare_file_ids(y->ino, y->dev, x);
        if (c > 0 || (c == 0 && x->t <= y->to))
            low = mid + 1;
        else
            high = mid;
    }
    struct b_created_file *x = low ? &b->mades.v[order[low - 1]] : NULL;
    if (!x || compare_file_ids(y->ino, y->dev, x) || x->t < y->from ||
        x->stream == y->stream)
        return;
    y->made = order[low - 1];
    x->used = true;
}

int b_match_awaited_files(struct build *b)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < b->retries.n; i++)
        found += b->retries.v[i].of_file;
    if (!found || !b->mades.n)
        return 0;
    uint32_t *order = b_calloc(b->mades.n, sizeof(*order), b->err);
    if (!order)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->mades.n; i++)
        order[i] = i;
    qsort_r(order, b->mades.n, sizeof(*order), compare_created_files, b);
    for (uint32_t i = 0; i < b->retries.n; i++)
        if (b->retries.v[i].of_file)
            link_retry_to_creator_of_file(b, order, &b->retries.v[i]);
    ips_free_large(order);
    return 0;
}

/* ---- second reading ---- */

static uint32_t append_file_event_node(struct maker *m, uint64_t t,
                                       uint64_t cpu)
{
    m->last_ret = ips_max_u64(t, m->last_ret);
    return b_add_node(m->b, IPS_NODE_AUX, cpu, m->last_ret, cpu, IPS_NONE);
}

static void make_file_created_node_if_awaited(struct maker *m)
{
    struct build *b = m->b;
    struct b_created_file *x = &b->mades.v[m->next_made];
    if (m->next_made >= b->mades.n || x->stream != m->s - b->streams)
        return; /* an incremental build does not store later MADEs
                   (append_created_file) */
    m->next_made++;
    if (x->used)
        x->node = append_file_event_node(m, x->t, x->cpu);
}

static void make_file_found_node_if_creator_known(struct maker *m,
                                                  uint64_t t_ret, uint64_t cpu)
{
    struct build *b = m->b;
    uint32_t at = m->next_retry;
    for (; at < b->retries.n && b->retries.v[at].to <= t_ret; at++) {
        struct b_retry *y = &b->retries.v[at];
        if (y->stream != m->s - b->streams)
            return;
        if (y->of_file && y->to == t_ret && y->made != IPS_NONE)
            y->node = append_file_event_node(m, t_ret, cpu);
    }
}

/* Makes nodes for MADE and FOUND. A RETRY needs no node, because its naps have
 * records. */
void b_make_file_event_node_if_needed(struct maker *m,
                                      const struct ips_rec_io *r)
{
    if (r->op == IPS_OP_MADE)
        make_file_created_node_if_awaited(m);
    else if (r->op == IPS_OP_FOUND)
        make_file_found_node_if_creator_known(
            m, b_stamp_to_ns(&m->s->clock, r->h.word, r->t_ret), r->cpu_ret);
}

void b_make_awaited_file_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->retries.n; i++) {
        const struct b_retry *y = &b->retries.v[i];
        if (y->of_file && y->made != IPS_NONE)
            b_set_cross(b, y->node, b->mades.v[y->made].node, IPS_X_LIFETIME,
                        0);
    }
}

/* Whether a recorded thread let the last try of `y` succeed. */
static bool has_recorded_cause(const struct build *b, const struct b_retry *y)
{
    if (y->of_file)
        return y->made != IPS_NONE;
    if (y->sync != IPS_NONE)
        return b->syncs.v[y->sync].cause != IPS_NONE;
    if (y->join != IPS_NONE)
        return b->joins.v[y->join].child_proc != IPS_NONE &&
               (b->joins.v[y->join].kind != IPS_JOIN_GONE ||
                !b->out->procs[b->joins.v[y->join].child_proc].open);
    const struct b_chan *c =
        b_find_chan(b, b->streams[y->stream].image, y->chan);
    return c && c->end_recv != IPS_NONE && b->ends[c->end_recv].local;
}

uint32_t b_find_process_that_ended_retry(const struct build *b,
                                         const struct b_retry *y)
{
    uint32_t stream;
    if (y->join != IPS_NONE)
        return b->joins.v[y->join].child_proc;
    if (y->of_file && y->made != IPS_NONE)
        stream = b->mades.v[y->made].stream;
    else if (y->sync != IPS_NONE && b->syncs.v[y->sync].cause != IPS_NONE)
        stream = b->syncs.v[b->syncs.v[y->sync].cause].stream;
    else
        return IPS_NONE;
    return b->images[b->streams[stream].image].proc;
}

/* A shell naps by running a child that sleeps. Returns whether the process is
 * such a child: its parent started it and waited for it between two tries. */
static bool is_child_that_naps_for_parent(const struct build *b, uint32_t proc)
{
    const struct b_proc *p = &b->procs[proc];
    if (p->join == IPS_NONE || p->fork == IPS_NONE)
        return false;
    const struct b_join *j = &b->joins.v[p->join];
    uint64_t begun = b->forks.v[p->fork].t;
    uint32_t low = b->streams[j->stream].first_retry;
    uint32_t high = j->stream + 1 < b->in->stream_count
                        ? b->streams[j->stream + 1].first_retry
                        : b->retries.n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (b->retries.v[mid].to < j->t_ret)
            low = mid + 1;
        else
            high = mid;
    }
    const struct b_retry *y = &b->retries.v[low];
    return low < b->retries.n && y->stream == j->stream && y->from <= begun &&
           has_recorded_cause(b, y) &&
           b_find_process_that_ended_retry(b, y) != proc;
}

static bool count_if_nap_between_tries(struct maker *m,
                                       const struct interval *v)
{
    struct build *b = m->b;
    uint32_t stream = (uint32_t)(m->s - b->streams), at = m->next_retry;
    while (at < b->retries.n && b->retries.v[at].stream == stream &&
           b->retries.v[at].to <= v->t)
        at++;
    m->next_retry = at;
    for (uint32_t n = 0; n < B_TURNS && at + n < b->retries.n; n++) {
        const struct b_retry *y = &b->retries.v[at + n];
        if (y->stream != stream)
            break;
        if (y->from > v->t || v->t_ret > y->to || !has_recorded_cause(b, y))
            continue;
        if (y->whole) /* the ACQUIRE's wait contains the nap */
            b->off_ns = ips_sub_sat(b->off_ns, v->blocked_ns);
        else
            b_add_wait_to_sums_and_rows(m, IPS_WAIT_SPIN, v->blocked_ns);
        b->out->counts.idle += !y->whole;
        return true;
    }
    if (!is_child_that_naps_for_parent(b, m->proc))
        return false;
    b_add_wait_to_sums_and_rows(m, IPS_WAIT_SPIN, v->blocked_ns);
    b->out->counts.idle++;
    return true;
}

/* Whether another thread or process can write to the stream's memory: another
 * thread of its image, a forked child, or the parent that forked it. Otherwise
 * no flag in memory can change while the thread naps. */
static bool can_others_write_memory_of_stream(const struct build *b,
                                              const struct b_stream *s)
{
    const struct b_image *im = &b->images[s->image];
    const uint32_t made_by = b->procs[im->proc].fork;
    if (im->stream_count - im->task_count > 1)
        return true;
    if (made_by != IPS_NONE && !im->continues && !b->procs[im->proc].spawned)
        return true;
    for (uint32_t i = 0; i < b->forks.n; i++) {
        const struct b_fork *f = &b->forks.v[i];
        const bool is_here = f->child != IPS_NONE && f->child_proc != IPS_NONE;
        if (b->streams[f->stream].image == s->image && is_here &&
            b->procs[f->child_proc].image_count == 1 &&
            !b->procs[f->child_proc].spawned)
            return true;
    }
    return false;
}

/* Whether another thread, or the parent, waits for the end of this chain. */
static bool is_end_of_chain_awaited(const struct build *b, uint32_t chain)
{
    const struct b_proc *p =
        &b->procs[b->images[b->streams[b->chains[chain].first_stream].image]
                      .proc];
    bool awaited = p->end_chain == chain;
    for (uint32_t i = 0; i < b->joins.n && !awaited; i++)
        awaited = b->joins.v[i].child == chain;
    return awaited;
}

/* A thread may nap until its process ends, as a timer thread does. It does not
 * matter what ended such naps. Records up to this long (ns) after the naps do
 * not count as work. */
#define NOTHING_AFTER_NS 1000000u
static bool is_nap_run_without_effect(const struct build *b,
                                      const struct b_stream *s,
                                      const struct b_nap_run *y)
{
    return s->next == IPS_NONE &&
           s->last_ns <= ips_add_sat(y->to, NOTHING_AFTER_NS) &&
           !b->out->procs[b->images[s->image].proc].open &&
           !is_end_of_chain_awaited(b, s->chain);
}

static bool advance_to_nap_run_and_check_if_shared(struct maker *m,
                                                   const struct interval *v)
{
    const struct build *b = m->b;
    uint32_t stream = (uint32_t)(m->s - b->streams);
    struct b_nap_run *y;
    for (;; m->next_nap_run++) {
        y = &b->nap_runs.v[m->next_nap_run];
        if (m->next_nap_run >= b->nap_runs.n || y->stream != stream)
            return false;
        if (v->t >= y->to)
            continue;
        if (y->from <= v->t && !y->known)
            *y = (struct b_nap_run){y->from,
                                    y->to,
                                    stream,
                                    true,
                                    can_others_write_memory_of_stream(b, m->s),
                                    is_nap_run_without_effect(b, m->s, y)};
        return y->from <= v->t && y->shared;
    }
}

bool b_count_if_nap(struct maker *m, const struct interval *v)
{
    if (count_if_nap_between_tries(m, v) ||
        b_count_if_nap_between_child_tries(m, v))
        return true;
    if (!advance_to_nap_run_and_check_if_shared(m, v))
        return false;
    if (!m->b->nap_runs.v[m->next_nap_run].in_vain)
        b_add_wait_without_waker(m, m->b->nodes, v->blocked_ns, false);
    b_add_wait_to_sums_and_rows(m, IPS_WAIT_TIMER, v->blocked_ns);
    m->b->out->counts.idle++;
    return true;
}
