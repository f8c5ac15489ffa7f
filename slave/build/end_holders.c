/* Finds which process held which end of a channel, and when. The close after
 * which no process holds the write end causes the end-of-file
 * (docs/design/build.md, "Ends, positions, peers"). Replays all CHANs, closes,
 * forks, execs and process ends in order of time.
 *
 * A process holds an end from the CHAN of its first descriptor, or from its
 * fork if its parent held the end. It holds the end until the CLOSE of its last
 * descriptor with a CHAN, until its exec (the new image writes CHANs for what
 * it inherited), or until it exits. Descriptors that were never used have no
 * CHAN. So a process that closed its last descriptor with a CHAN, but uses the
 * end later, still holds it. */
#include "slave/build/internal.h"

#define INHERIT_MAX                                                            \
    (4u << 20) /* limit of holdings that forks copy, for damaged records */
/* limit of the sleeper's own closes that are skipped for one end-of-file */
#define OWN_CLOSES 64u

struct holding { /* whether and how one process holds one end */
    uint64_t last_op;
    uint32_t proc, end;
    uint32_t next; /* index of the process's next holding */
    /* open descriptors with a CHAN; how many of them stay open at an exec */
    uint32_t named, plain;
    uint32_t traffic; /* index of the traffic row, plus 1; 0: none */
    bool is_held, listed;
};

struct hold_replay {
    struct build *b;
    B_ARRAY(struct holding) all;
    uint32_t *table; /* hash table by (proc, end): index in `all`, plus 1 */
    uint32_t capacity;
    uint32_t *list; /* [proc] index of the first holding of this process */
    uint32_t inherited;
};

static uint32_t find_slot_of_process_and_end(const struct hold_replay *p,
                                             uint32_t proc, uint32_t end)
{
    uint64_t h = ((uint64_t)proc << 32 | end) * 0x9e3779b97f4a7c15ull;
    uint32_t mask = p->capacity - 1, i = (uint32_t)(h >> 32) & mask;
    for (; p->table[i]; i = (i + 1) & mask) {
        const struct holding *h2 = &p->all.v[p->table[i] - 1];
        if (h2->proc == proc && h2->end == end)
            break;
    }
    return i;
}

static int reserve_table(struct hold_replay *p)
{
    if ((p->all.n + 1) * 2 <= p->capacity)
        return 0;
    ips_free_large(p->table);
    p->capacity = p->capacity ? p->capacity * 2 : 1024;
    p->table = b_calloc(p->capacity, sizeof(*p->table), p->b->err);
    if (!p->table)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < p->all.n; i++)
        p->table[find_slot_of_process_and_end(p, p->all.v[i].proc,
                                              p->all.v[i].end)] = i + 1;
    return 0;
}

/* Finds or adds the holding of (proc, end); stores its index in *at. */
static int find_or_add_holding(struct hold_replay *p, uint32_t proc,
                               uint32_t end, uint32_t *at)
{
    int rc = reserve_table(p);
    if (rc < 0)
        return rc;
    uint32_t slot = find_slot_of_process_and_end(p, proc, end);
    if (p->table[slot]) {
        *at = p->table[slot] - 1;
        return 0;
    }
    rc = B_MORE(p->all, p->b->err);
    if (rc < 0)
        return rc;
    *at = p->all.n;
    p->all.v[p->all.n++] =
        (struct holding){.proc = proc, .end = end, .next = IPS_NONE};
    p->table[slot] = p->all.n;
    return 0;
}

static void mark_end_held(struct hold_replay *p, uint32_t at)
{
    struct holding *h = &p->all.v[at];
    if (h->is_held)
        return;
    h->is_held = true;
    p->b->ends[h->end].holders++;
    if (!h->listed) {
        h->listed = true;
        h->next = p->list[h->proc];
        p->list[h->proc] = at;
    }
}

static int release_held_end(struct hold_replay *p, struct holding *h,
                            uint64_t t, uint32_t node)
{
    struct build *b = p->b;
    int rc = B_MORE(b->releases, b->err);
    if (rc < 0)
        return rc;
    b->releases.v[b->releases.n++] =
        (struct b_release_event){.t = t, .end = h->end, .node = node};
    if (h->is_held)
        b->ends[h->end].holders--;
    h->is_held = false;
    h->named = h->plain = 0;
    return 0;
}

/* ---- handling of events ---- */

static bool is_chan_without_cloexec(const struct b_chan *c)
{
    struct ips_rec_chan r;
    memcpy(&r, c->rec, sizeof(r));
    return !(r.flags & IPS_CHAN_CLOEXEC);
}

static int hold_ends_of_opened_channel(struct hold_replay *p,
                                       const struct b_hold_event *e)
{
    struct b_chan *c = &p->b->chans.v[e->arg];
    uint32_t ends[2] = {c->end_recv,
                        c->end_send == c->end_recv ? IPS_NONE : c->end_send};
    c->open = true;
    for (int i = 0; i < 2; i++) {
        uint32_t at;
        if (ends[i] == IPS_NONE)
            continue;
        int rc = find_or_add_holding(p, e->proc, ends[i], &at);
        if (rc < 0)
            return rc;
        mark_end_held(p, at);
        p->all.v[at].named++;
        p->all.v[at].plain += is_chan_without_cloexec(c);
    }
    return 0;
}

static void store_shutdown_if_earliest(struct build *b,
                                       const struct b_hold_event *e,
                                       const struct b_chan *c)
{
    bool sends = e->how != IPS_CLOSE_SHUT_RD && c->end_send != IPS_NONE;
    bool receives = e->how != IPS_CLOSE_SHUT_WR && c->end_recv != IPS_NONE;
    if (sends && e->t < b->ends[c->end_send].shut_ns) {
        b->ends[c->end_send].shut_ns = e->t;
        b->ends[c->end_send].shut_node = e->node;
    }
    if (receives && e->t < b->ends[c->end_recv].deaf_ns) {
        b->ends[c->end_recv].deaf_ns = e->t;
        b->ends[c->end_recv].deaf_node = e->node;
    }
}

static int replay_close_or_shutdown(struct hold_replay *p,
                                    const struct b_hold_event *e)
{
    struct build *b = p->b;
    struct b_chan *c = &b->chans.v[e->arg];
    uint32_t ends[2] = {c->end_recv,
                        c->end_send == c->end_recv ? IPS_NONE : c->end_send};
    if (e->how != IPS_CLOSE_FD) {
        store_shutdown_if_earliest(b, e, c);
        return 0;
    }
    bool was_open = c->open;
    c->open = false;
    for (int i = 0; i < 2; i++) {
        uint32_t at;
        if (ends[i] == IPS_NONE)
            continue;
        int rc = find_or_add_holding(p, e->proc, ends[i], &at);
        if (rc < 0)
            return rc;
        struct holding *h = &p->all.v[at];
        if (was_open && h->named) {
            h->named--;
            h->plain -= is_chan_without_cloexec(c) && h->plain;
        }
        if (h->named == 0 && h->last_op <= e->t) {
            if (b->incremental && h->traffic)
                b_incremental_note_close_of_traffic_end(b, h->traffic - 1);
            rc = release_held_end(p, h, e->t, e->node);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int inherit_ends_at_fork(struct hold_replay *p,
                                const struct b_hold_event *e)
{
    uint32_t child = e->arg;
    for (uint32_t i = p->list[e->proc]; i != IPS_NONE; i = p->all.v[i].next) {
        uint32_t at, end = p->all.v[i].end;
        if (!p->all.v[i].is_held || p->inherited++ >= INHERIT_MAX)
            continue;
        int rc = find_or_add_holding(p, child, end, &at);
        if (rc < 0)
            return rc;
        mark_end_held(p, at);
        /* the child's descriptor has no CHAN, so assume that it stays open at
         * an exec */
        p->all.v[at].plain++;
    }
    return 0;
}

/* Handles an exec or the end of a process: releases the ends that it held,
 * except those that an unrecorded program after the exec may have inherited. */
static int release_ends_at_exec_or_exit(struct hold_replay *p,
                                        const struct b_hold_event *e)
{
    const struct b_proc *proc = &p->b->procs[e->proc];
    bool goes_on = e->kind == B_HOLD_EXEC &&
                   e->arg + 1 == proc->first_image + proc->image_count;
    uint32_t *link = &p->list[e->proc];
    while (*link != IPS_NONE) {
        struct holding *h = &p->all.v[*link];
        if (h->is_held && goes_on && h->plain) {
            link = &h->next; /* the program after the exec recorded nothing, and
                                may have inherited the end */
            continue;
        }
        int rc = h->is_held ? release_held_end(p, h, e->t, e->node) : 0;
        if (rc < 0)
            return rc;
        h->listed = false;
        *link = h->next;
    }
    return 0;
}

/* ---- order of events ---- */

static int append_hold_event(struct build *b, const struct b_hold_event *e)
{
    int rc = B_MORE(b->holds, b->err);
    if (rc < 0)
        return rc;
    b->holds.v[b->holds.n] = *e;
    b->holds.v[b->holds.n].seq = b->holds.n;
    b->holds.n++;
    return 0;
}

static bool is_end_neither_datagram_nor_listening(const struct build *b,
                                                  uint32_t end)
{
    return end != IPS_NONE && !b->ends[end].datagram && !b->ends[end].listen;
}

static int add_hold_events(struct build *b)
{
    int rc = 0;
    for (uint32_t i = 0; i < b->chans.n && rc == 0; i++) {
        const struct b_chan *c = &b->chans.v[i];
        if (is_end_neither_datagram_nor_listening(b, c->end_recv) ||
            is_end_neither_datagram_nor_listening(b, c->end_send))
            rc = append_hold_event(
                b, &(struct b_hold_event){.t = c->t,
                                          .proc = b->images[c->image].proc,
                                          .arg = i,
                                          .kind = B_HOLD_CHAN});
    }
    for (uint32_t p = 0; p < b->out->proc_count && rc == 0; p++) {
        const struct b_proc *proc = &b->procs[p];
        const struct ips_proc *row = &b->out->procs[p];
        /* A spawned image writes CHANs for what it inherited, so only fork
         * children inherit here. */
        if (row->parent != IPS_NONE && !proc->spawned)
            rc = append_hold_event(
                b, &(struct b_hold_event){.t = proc->fork == IPS_NONE
                                                   ? row->start_ns
                                                   : b->forks.v[proc->fork].t,
                                          .proc = row->parent,
                                          .arg = p,
                                          .kind = B_HOLD_FORK});
        if (rc == 0 && !row->open)
            rc = append_hold_event(
                b, &(struct b_hold_event){
                       .t = proc->last_ns,
                       .proc = p,
                       .node = b_get_end_node(b, proc->end_chain),
                       .kind = B_HOLD_END});
    }
    return rc;
}

static int compare_hold_events_by_time(const void *va, const void *vb)
{
    const struct b_hold_event *a = va, *b = vb;
    CMP3(a->t, b->t);
    CMP3(a->kind, b->kind);
    CMP3(a->seq, b->seq);
    return 0;
}

static int compare_releases_by_end_and_time(const void *va, const void *vb)
{
    const struct b_release_event *a = va, *b = vb;
    CMP3(a->end, b->end);
    CMP3(a->t, b->t);
    CMP3(a->node, b->node);
    return 0;
}

static int replay_hold_events(struct hold_replay *p)
{
    struct build *b = p->b;
    int rc = 0;
    for (uint32_t k = 0; k < b->out->traffic_count && rc == 0; k++) {
        const struct ips_traffic *t = &b->out->traffic[k];
        uint32_t at;
        rc = find_or_add_holding(p, t->process, t->end, &at);
        if (rc < 0)
            return rc;
        p->all.v[at].last_op = b->traffic_last.v[k];
        p->all.v[at].traffic = k + 1;
    }
    for (uint32_t i = 0; i < b->holds.n && rc == 0; i++) {
        const struct b_hold_event *e = &b->holds.v[i];
        switch ((enum b_hold_kind)e->kind) {
        case B_HOLD_CHAN:
            rc = hold_ends_of_opened_channel(p, e);
            break;
        case B_HOLD_CLOSE:
            rc = replay_close_or_shutdown(p, e);
            break;
        case B_HOLD_FORK:
            rc = inherit_ends_at_fork(p, e);
            break;
        case B_HOLD_EXEC:
        case B_HOLD_END:
            rc = release_ends_at_exec_or_exit(p, e);
            break;
        }
    }
    return rc;
}

static void index_releases_and_set_closed(struct build *b)
{
    if (b->releases.n)
        qsort(b->releases.v, b->releases.n, sizeof(*b->releases.v),
              compare_releases_by_end_and_time);
    for (uint32_t i = 0; i < b->releases.n; i++) {
        struct b_end *e = &b->ends[b->releases.v[i].end];
        if (e->release_count++ == 0)
            e->first_release = i;
    }
    for (uint32_t i = 0; i < b->out->end_count; i++)
        b->out->ends[i].closed =
            b->ends[i].holders == 0 || b->ends[i].shut_node != IPS_NO_NODE;
}

int b_find_end_releases(struct build *b)
{
    struct hold_replay p = {.b = b};
    int rc = add_hold_events(b);
    if (rc < 0)
        return rc;
    if (b->holds.n)
        qsort(b->holds.v, b->holds.n, sizeof(*b->holds.v),
              compare_hold_events_by_time);
    p.list = b_calloc(b->out->proc_count, sizeof(*p.list), b->err);
    rc = p.list ? 0 : IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < b->out->proc_count; i++)
        p.list[i] = IPS_NONE;
    if (rc == 0)
        rc = replay_hold_events(&p);
    if (rc == 0)
        index_releases_and_set_closed(b);
    ips_free_large(p.all.v);
    ips_free_large(p.table);
    ips_free_large(p.list);
    return rc;
}

uint32_t b_find_close_of_end_before(const struct build *b, uint32_t end,
                                    uint64_t t_ns, uint32_t sleeper, bool eof)
{
    const struct b_end *e = &b->ends[end];
    const struct b_release_event *v = b->releases.v + e->first_release;
    if (eof && e->shut_ns <= t_ns)
        return e->shut_node;
    uint32_t low = 0, high = e->release_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (v[mid].t <= t_ns)
            low = mid + 1;
        else
            high = mid;
    }
    /* A record is stamped before its event: an exec closes descriptors, and a
     * process ends, after the stamp. So a close by the sleeper itself may have
     * a later stamp than the close that woke it. The sleeper's own closes were
     * over before it slept: skip them. */
    for (uint32_t i = low, n = 0; i > 0 && n < OWN_CLOSES; i--, n++)
        if (sleeper == IPS_NONE ||
            ips_chain_of(&b->out->g, v[i - 1].node) != sleeper)
            return v[i - 1].node;
    return low ? v[low - 1].node : IPS_NO_NODE;
}

/* ---- receives of no bytes ---- */

/* Returns the chain of `node` if the thread slept in the node's call, else
 * IPS_NONE. */
static uint32_t chain_if_node_slept(const struct build *b, uint32_t node)
{
    const struct ips_graph *g = &b->out->g;
    return g->wait[node] ? ips_chain_of(g, node) : IPS_NONE;
}

/* A call that returned an end-of-file, and was off the CPU for longer than
 * this, slept; a shorter one may have been preempted. */
#define EOF_SLEPT_NS 100000000u
/* A close that was recorded this long (ns) before a sleep did not end the
 * sleep. An exec or the end of a process may have: they may close descriptors
 * long after their record. */
#define CLOSED_EARLY_NS 1000000000u

/* Whether the thread slept in the call of `e`, but the close at `node` did not
 * end that sleep: the thread itself closed the end, or the close was long
 * before the sleep. In that case something that is not recorded held the end,
 * such as a message that carried a descriptor of it and was lost. */
static bool is_sleep_not_ended_by_close(const struct build *b,
                                        const struct b_event *e, uint32_t node)
{
    const struct ips_graph *g = &b->out->g;
    uint64_t slept = g->wait[e->node];
    return slept >= EOF_SLEPT_NS &&
           (ips_chain_of(g, node) == ips_chain_of(g, e->node) ||
            (g->kind[node] == IPS_NODE_AUX && g->site[node] != IPS_NONE &&
             ips_add_sat(g->t_ns[node], CLOSED_EARLY_NS) <
                 ips_sub_sat(e->t_ret, slept)));
}

bool b_link_own_shutdown(struct build *b, uint32_t node, uint32_t end,
                         uint64_t t_ret, uint32_t other)
{
    const struct b_end *e = &b->ends[end];
    const uint64_t *t = b->out->g.t_ns;
    if (e->deaf_ns > t_ret || (other != IPS_NO_NODE && t[other] < e->deaf_ns))
        return false;
    if (ips_chain_of(&b->out->g, e->deaf_node) !=
        ips_chain_of(&b->out->g, node))
        b_set_cross(b, node, e->deaf_node, IPS_X_LIFETIME, 0);
    return true;
}

static void make_eof_or_accept_arc(struct build *b, const struct b_event *e)
{
    uint32_t from = b->out->ends[e->end].peer_end, node = IPS_NO_NODE;
    const struct b_release_event *first;
    /* for a peer that is not local, ips_built_set_peers_and_remake_arcs() makes
     * the arc */
    if (!b->ends[e->end].local) {
        if (e->kind == B_EOF && e->ext != IPS_NONE &&
            b_link_own_shutdown(b, e->node, e->end, e->t_ret, IPS_NO_NODE))
            b->exts.v[e->ext].is_decided = true;
        return;
    }
    switch ((enum b_event_kind)e->kind) {
    case B_ACCEPT:
        node = b->ends[from].connect_node;
        b_set_cross(b, e->node, node, IPS_X_DATA, 0);
        break;
    case B_EOF:
    case B_BROKEN:
        node = b_find_close_of_end_before(b, from, e->t_ret,
                                          chain_if_node_slept(b, e->node),
                                          e->kind == B_EOF);
        if (node != IPS_NO_NODE && is_sleep_not_ended_by_close(b, e, node))
            node = IPS_NO_NODE;
        if (e->kind == B_EOF &&
            b_link_own_shutdown(b, e->node, e->end, e->t_ret, node))
            return;
        first = b->releases.v + b->ends[from].first_release;
        if (node == IPS_NO_NODE && b->ends[from].release_count &&
            first->t > e->t_ret) {
            /* The peer's close has a later time than the end-of-file that it
             * caused: the clock stepped. */
            node = first->node;
            b->out->counts.ambiguous++;
        }
        b_set_cross(b, e->node, node, IPS_X_LIFETIME, 0);
        break;
    }
    if (node == IPS_NO_NODE) {
        if (b->out->ends[from].closed)
            b->out->counts.unmatched++;
        else
            b->out->counts.pending++;
    }
}

void b_make_eof_and_accept_arcs(struct build *b)
{
    for (uint32_t i = 0; i < b->events.n; i++)
        make_eof_or_accept_arc(b, &b->events.v[i]);
}
