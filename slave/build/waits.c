/* Makes the rows of single waits (build/waits.h). A wait is added where it is
 * counted. Its row is completed after the record, when it is known which node
 * the record made. */
#include "slave/build/waits.h"

#include "agent/pool/pool.h"
#include "common/large.h"
#include "slave/build/node.h"

/* limit of the call sites in one stream whose last stack is kept; a new one
 * replaces the oldest */
#define KEPT 512u
/* The agent records stacks only of waits that are longer than this (ns); see
 * agent/pool/format.h. */
#define STACK_AFTER_NS 50000u

/* The last stack of a call site in the current stream. Later waits of the site
 * have the same stack, because the agent leaves out a stack that the site had
 * before. */
struct recent_stack {
    uint64_t site;
    uint32_t stack;
};
struct b_wait_notes {
    struct ips_wait_rows *out;
    uint32_t first; /* first row that the current record added */
    /* The last record of a type that a STACK record may follow: its rows
     * [last_from, last_to), its stamp, its call site, and whether it is a poll
     * whose wait is pending. */
    uint32_t last_from, last_to;
    uint64_t last_t;
    bool last_pending;
    uint64_t last_site;
    struct recent_stack recent[KEPT];
    uint32_t recent_count, recent_next;
    /* Data for the row of the pending poll's wait (struct pending). */
    uint64_t end_ns, site;
    uint32_t arc, stack, spin_row;
    int rc;
};

void ips_wait_rows_release(struct ips_wait_rows *w)
{
    ips_free_large(w->row);
    ips_free_large(w->stack);
    ips_free_large(w->frame);
    ips_free_large(w->dropped);
    ips_free_large(w->release);
    ips_free_large(w->lock);
    ips_free_large(w->blocked);
    memset(w, 0, sizeof(*w));
}

int b_init_wait_notes_if_wanted(struct build *b)
{
    if (!b->in->waits)
        return 0;
    b->notes = b_calloc(1, sizeof(*b->notes), b->err);
    if (!b->notes)
        return IPS_E_NO_MEMORY;
    b->notes->out = b->in->waits;
    return 0;
}

void b_reset_wait_notes_for_stream(struct maker *m)
{
    struct b_wait_notes *n = m->b->notes;
    n->recent_count = n->recent_next = 0;
    n->spin_row = IPS_NONE;
    n->first = n->last_from = n->last_to = n->out->count;
    n->last_t = 0;
    n->last_pending = false;
    m->signal_node = IPS_NO_NODE;
}

/* ---- adding rows -------------------------------------------------------- */

static struct ips_wait_row *add_wait_row(struct maker *m,
                                         enum ips_wait_cause cause, uint64_t ns)
{
    struct b_wait_notes *n = m->b->notes;
    struct ips_wait_rows *o = n->out;
    if (n->rc == 0 && o->count == o->capacity)
        n->rc = b_array_reserve((void **)&o->row, o->count, &o->capacity,
                                sizeof(*o->row), m->b->err);
    if (n->rc < 0)
        return NULL;
    o->row[o->count] = (struct ips_wait_row){
        .end_ns = m->last_ret,
        .ns = ns,
        .arc = IPS_NO_NODE,
        .stream = (uint32_t)(m->s->in - m->b->in->streams),
        .stack = IPS_NONE,
        .cause = (uint8_t)cause};
    return &o->row[o->count++];
}

void b_waits_add_row(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                     uint64_t end_ns)
{
    struct ips_wait_row *r = add_wait_row(m, cause, ns);
    if (r)
        r->end_ns = end_ns;
}

/* Adds the row of the pending wait. `taken`: the current record takes over the
 * wait; else the wait ends at the poll itself. */
void b_waits_add_row_of_pending_poll(struct maker *m, enum ips_wait_cause cause,
                                     uint64_t ns, bool taken)
{
    struct b_wait_notes *n = m->b->notes;
    struct ips_wait_row *r = ns ? add_wait_row(m, cause, ns) : NULL;
    if (r) {
        r->end_ns = n->end_ns;
        r->site = n->site;
        r->stack = n->stack;
        bool node = m->wait.node != IPS_NO_NODE;
        r->arc = taken ? IPS_NO_NODE : node ? m->wait.node : n->arc;
        r->of_node = !taken && node;
        r->call = r->arc;
    }
    /* A spin before the pending wait ends at the same node. */
    if (taken && n->spin_row != IPS_NONE)
        n->out->row[n->spin_row].arc = IPS_NO_NODE;
    if (!taken)
        n->spin_row = IPS_NONE;
}

void b_store_node_of_dropped_wait_rows(struct build *b, uint32_t arc)
{
    struct b_wait_notes *n = b->notes;
    struct ips_wait_rows *o = n->out;
    if (n->rc == 0 && o->dropped_count == o->dropped_capacity)
        n->rc =
            b_array_reserve((void **)&o->dropped, o->dropped_count,
                            &o->dropped_capacity, sizeof(*o->dropped), b->err);
    if (n->rc == 0)
        o->dropped[o->dropped_count++] = arc;
}

void b_add_lock_release_row(struct maker *m, uint32_t node, uint64_t site,
                            uint64_t t_ns)
{
    struct b_wait_notes *n = m->b->notes;
    struct ips_wait_rows *o = n->out;
    if (n->rc == 0 && o->release_count == o->release_capacity)
        n->rc = b_array_reserve((void **)&o->release, o->release_count,
                                &o->release_capacity, sizeof(*o->release),
                                m->b->err);
    if (n->rc == 0)
        o->release[o->release_count++] = (struct ips_release_row){
            site, t_ns, node, (uint32_t)(m->s->in - m->b->in->streams)};
}

/* ---- stacks ------------------------------------------------------------- */

static struct recent_stack *
find_recent_wait_stack_of_site(struct b_wait_notes *n, uint64_t site)
{
    for (uint32_t i = 0; i < n->recent_count; i++)
        if (n->recent[i].site == site)
            return &n->recent[i];
    return NULL;
}

static uint32_t get_recent_stack_index_of_long_wait(struct b_wait_notes *n,
                                                    uint64_t site, uint64_t ns)
{
    struct recent_stack *k = site && ns > STACK_AFTER_NS
                                 ? find_recent_wait_stack_of_site(n, site)
                                 : NULL;
    return k ? k->stack : IPS_NONE;
}

static int add_stack(struct maker *m, const uint64_t *frame, uint32_t count,
                     uint64_t t_ns, uint32_t *out)
{
    struct b_wait_notes *n = m->b->notes;
    struct ips_wait_rows *o = n->out;
    int rc = 0;
    if (o->stack_count == o->stack_capacity)
        rc = b_array_reserve((void **)&o->stack, o->stack_count,
                             &o->stack_capacity, sizeof(*o->stack), m->b->err);
    struct ips_wait_stack s = {.first = o->frame_count,
                               .count = count,
                               .stream =
                                   (uint32_t)(m->s->in - m->b->in->streams),
                               .t_ns = t_ns};
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        if (o->frame_count == o->frame_capacity)
            rc = b_array_reserve((void **)&o->frame, o->frame_count,
                                 &o->frame_capacity, sizeof(*o->frame),
                                 m->b->err);
        if (rc == 0)
            o->frame[o->frame_count++] = frame[i];
    }
    *out = o->stack_count;
    if (rc == 0)
        o->stack[o->stack_count++] = s;
    return rc;
}

/* Whether stack `k` of the site has the same frames, so that they need not be
 * stored again. */
static bool is_same_stack(const struct ips_wait_rows *o,
                          const struct recent_stack *k, const uint64_t *frame,
                          uint32_t count)
{
    const struct ips_wait_stack *s = &o->stack[k->stack];
    return s->count == count &&
           memcmp(&o->frame[s->first], frame, count * sizeof(*frame)) == 0;
}

static int store_stack_and_set_it_in_wait_rows(struct maker *m,
                                               const uint8_t *p, uint32_t len)
{
    struct b_wait_notes *n = m->b->notes;
    struct ips_rec_stack r;
    uint64_t frame[IPS_WAIT_FRAMES];
    memcpy(&r, p, sizeof(r));
    uint32_t room = (len - (uint32_t)sizeof(r)) / 8;
    uint32_t count = r.h.a < room ? r.h.a : room, stack;
    if (count > IPS_WAIT_FRAMES)
        count = IPS_WAIT_FRAMES;
    if (count == 0)
        return 0;
    memcpy(frame, p + sizeof(r), count * sizeof(*frame));
    struct recent_stack *k = find_recent_wait_stack_of_site(n, frame[0]);
    if (k && is_same_stack(n->out, k, frame, count)) {
        stack = k->stack;
    } else {
        int rc =
            add_stack(m, frame, count,
                      b_stamp_to_ns(&m->s->clock, r.h.word, r.h.t), &stack);
        if (rc < 0)
            return rc;
    }
    if (!k) {
        k = &n->recent[n->recent_next];
        n->recent_next = (n->recent_next + 1) % KEPT;
        n->recent_count += n->recent_count < KEPT;
    }
    *k = (struct recent_stack){frame[0], stack};
    if (r.h.t != n->last_t)
        return 0;
    for (uint32_t i = n->last_from; i < n->last_to; i++)
        if (!n->out->row[i].site || n->out->row[i].site == n->last_site)
            n->out->row[i].stack = stack;
    if (n->last_pending)
        n->stack = stack;
    return 0;
}

/* ---- completing the rows of a record ------------------------------------ */

/* Returns the last node from `from` on at which the thread slept, and sets
 * *of_node. If the record made no such node (connect, for example, makes one
 * only at its call), *of_node is false and the result is the next node. */
static uint32_t find_slept_node(const struct build *b, uint32_t from,
                                bool *of_node)
{
    for (uint32_t i = b->nodes; i-- > from;) {
        if (b->out->g.wait[i]) {
            *of_node = true;
            return i;
        }
    }
    *of_node = false;
    return b->nodes;
}

static uint64_t call_site_of_record(uint32_t type, const uint8_t *p)
{
    struct ips_rec_io io;
    struct ips_rec_sync sync;
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
    case IPS_REC_BLOCK:
        memcpy(&io, p, sizeof(io));
        return io.site;
    case IPS_REC_ACQUIRE:
        memcpy(&sync, p, sizeof(sync));
        return sync.site;
    case IPS_REC_JOIN:
        return ips_rec_site((const struct ips_rec_head *)(const void *)p,
                            sizeof(struct ips_rec_join));
    case IPS_REC_PAGEFAULT:
        return B_SITE_PAGE_FAULTS;
    default:
        return 0;
    }
}

/* Handles a SIGNAL record: sets the arc of the rows of the record before it (a
 * sigwait, or a read of a signalfd), and of the poll before that read, to
 * `node`. */
static void set_arc_of_sigwait_rows(struct maker *m, uint32_t node)
{
    struct b_wait_notes *n = m->b->notes;
    if (!m->b->out->g.wait[node] || m->last_ret != m->sigwait_ret)
        return;
    for (uint32_t i = n->last_from; i < n->last_to; i++) {
        n->out->row[i].arc = node;
        n->out->row[i].of_node = true;
    }
}

static bool may_record_type_have_stack(uint32_t type)
{
    return type == IPS_REC_SEND || type == IPS_REC_RECV ||
           type == IPS_REC_RECVCALL || type == IPS_REC_BLOCK ||
           type == IPS_REC_JOIN || type == IPS_REC_ACQUIRE;
}

/* Called after a poll whose wait is pending: saves the data for the row that is
 * added when it is known which record takes over the wait. */
static void save_row_data_of_pending_poll_wait(struct maker *m, uint64_t site)
{
    struct b_wait_notes *n = m->b->notes;
    uint32_t last = n->out->count - 1;
    bool span =
        n->out->count > n->first && n->out->row[last].cause == IPS_WAIT_SPIN;
    n->end_ns = m->last_ret;
    n->site = site;
    n->stack = get_recent_stack_index_of_long_wait(n, site, m->wait.blocked_ns);
    n->arc = m->b->nodes;
    n->spin_row = span ? last : IPS_NONE;
}

int b_complete_wait_rows_after_record(struct maker *m, uint32_t type,
                                      const uint8_t *p, uint32_t len,
                                      uint32_t nodes_before)
{
    struct build *b = m->b;
    struct b_wait_notes *n = b->notes;
    if (n->rc < 0)
        return n->rc;
    if (type == IPS_REC_STACK)
        return store_stack_and_set_it_in_wait_rows(m, p, len);
    bool of_node;
    uint32_t node = find_slept_node(b, nodes_before, &of_node);
    if (type == IPS_REC_SIGNAL) {
        if (of_node)
            set_arc_of_sigwait_rows(m, node);
        return 0;
    }
    uint64_t site = p ? call_site_of_record(type, p) : 0;
    if (of_node && n->spin_row != IPS_NONE &&
        n->out->row[n->spin_row].arc == IPS_NO_NODE) {
        n->out->row[n->spin_row].arc = node;
        n->out->row[n->spin_row].of_node = true;
        n->spin_row = IPS_NONE;
    }
    for (uint32_t i = n->first; i < n->out->count; i++) {
        struct ips_wait_row *r = &n->out->row[i];
        if (r->of_node && r->arc != IPS_NO_NODE)
            continue; /* the row of a poll that keeps its node is complete */
        r->call = node;
        if (!r->site) {
            r->site = site;
            r->stack = get_recent_stack_index_of_long_wait(n, site, r->ns);
        }
        if (r->arc != IPS_NO_NODE)
            continue;
        /* if a signal ended the sleep (b_attribute_sleep_if_signal_ended_it),
         * the signal's node is the end of the wait */
        bool by_signal = m->signal_node != IPS_NO_NODE;
        r->arc = by_signal ? m->signal_node : node;
        r->of_node = by_signal || of_node;
    }
    if (m->wait.fresh)
        save_row_data_of_pending_poll_wait(m, site);
    if (may_record_type_have_stack(type)) {
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        n->last_t = h.t;
        n->last_from = n->first;
        n->last_to = n->out->count;
        n->last_site = site;
        n->last_pending = m->wait.fresh;
        m->wait.fresh = false;
    }
    m->signal_node = IPS_NO_NODE;
    n->first = n->out->count;
    return 0;
}

/* ---- sorting all rows --------------------------------------------------- */

static int compare_waits_by_arc(const void *va, const void *vb)
{
    const struct ips_wait_row *x = va, *y = vb;
    CMP3(x->arc, y->arc);
    CMP3(x->end_ns, y->end_ns);
    CMP3(x->ns, y->ns);
    CMP3(x->cause, y->cause);
    return 0;
}

static int compare_dropped_nodes(const void *va, const void *vb)
{
    uint32_t x = *(const uint32_t *)va, y = *(const uint32_t *)vb;
    return (x > y) - (x < y);
}

static int compare_releases_by_node(const void *va, const void *vb)
{
    const struct ips_release_row *x = va, *y = vb;
    CMP3(x->node, y->node);
    return 0;
}

static bool is_wait_row_dropped(const struct ips_wait_rows *o,
                                const struct ips_wait_row *r)
{
    return r->cause == IPS_WAIT_PEER && o->dropped_count &&
           bsearch(&r->call, o->dropped, o->dropped_count, sizeof(*o->dropped),
                   compare_dropped_nodes);
}

int b_drop_and_sort_wait_rows(struct build *b)
{
    struct b_wait_notes *n = b->notes;
    if (!n)
        return 0;
    struct ips_wait_rows *o = n->out;
    uint32_t kept = 0;
    if (o->dropped_count)
        qsort(o->dropped, o->dropped_count, sizeof(*o->dropped),
              compare_dropped_nodes);
    for (uint32_t i = 0; i < o->count; i++)
        if (!is_wait_row_dropped(o, &o->row[i]))
            o->row[kept++] = o->row[i];
    o->count = kept;
    if (o->release_count)
        qsort(o->release, o->release_count, sizeof(*o->release),
              compare_releases_by_node);
    if (kept)
        qsort(o->row, kept, sizeof(*o->row), compare_waits_by_arc);
    return n->rc;
}
