#include "analysis/explain/concurrent_activity.h"

#include "analysis/explain/concurrent_changes.h"
#include "analysis/whatif/whatif.h"

#include <stdlib.h>
#include <string.h>

struct wait { /* what a chain waits for; members as in struct change */
    uint32_t from, node;
    bool awaits_space;
};
struct piece { /* a chain arc of the path; times are EST */
    uint64_t from, to;
    uint32_t node, chain;
};
struct link { /* links of a chain in a doubly linked list */
    uint32_t next, before;
};
struct seen { /* the last receive of thread `chain` on connection `site` */
    uint32_t chain, site;
    uint64_t left; /* EST at which the thread next received from another
                      connection */
};
#define SEEN 1024u
struct ended { /* when threads of one role ended, ascending; `last`: the
                  chain that ended last */
    uint64_t *t;
    uint32_t count, capacity, last;
};

struct sweep {
    const struct ips_concurrent_ask *ask;
    struct ips_concurrent_activity *out;
    struct ips_err *err;
    struct change *change;
    size_t changes, change_capacity, next;
    struct piece *piece;
    size_t pieces;
    uint8_t *state;                /* [chains] enum state of each chain */
    struct wait *wait;             /* [chains] what each chain waits for */
    uint64_t *began;               /* [chains] EST at which the chain started */
    struct link *by_state, *alike; /* [chains] links of two lists of waiting
                                      workers: by state, and by role */
    uint32_t head[STATES], *role_head, *asked_head;
    uint32_t workers[STATES]; /* number of workers in each state */
    uint32_t *role_waits; /* [roles] number of waiting workers, without those in
                             WAIT_ASKED */
    uint32_t *role_there; /* [roles] number of workers that have started and not
                             ended */
    uint64_t *works;      /* [chains] total work of each chain, ns */
    bool *take_turns;     /* [roles] its threads rarely work at the same time */
    uint32_t *queue, *sender; /* [chains] number of messages queued for each
                                 chain; sender of the last one */
    struct ended *ended;      /* [roles] ended threads of each role */
    uint32_t *busy; /* [machines] number of busy chains, workers or not */
    uint64_t cores;
};

static int no_memory(struct sweep *s)
{
    return ips_err_set(s->err, IPS_E_NO_MEMORY,
                       "no memory to analyse concurrent activity");
}

/* ---- changes of the chains' states -------------------------------------- */

static const struct wait no_wait = {NO_CHAIN, IPS_NO_NODE, false};

static int append_change(struct sweep *s, uint64_t t, uint32_t chain, int state)
{
    if (s->changes == s->change_capacity) {
        size_t room = s->change_capacity * 2 + 64;
        struct change *more = realloc(s->change, room * sizeof(*more));
        if (!more)
            return no_memory(s);
        s->change = more;
        s->change_capacity = room;
    }
    s->change[s->changes] = (struct change){
        t, s->changes, chain, NO_CHAIN, IPS_NO_NODE, (uint8_t)state, false};
    s->changes++;
    return 0;
}

static bool
is_wait_ended_by_same_or_unknown_role(const struct ips_concurrent_ask *ask,
                                      uint32_t chain, uint32_t i)
{
    uint32_t x = ask->g->xpred[i];
    return x == IPS_NO_NODE ||
           ask->role[ips_chain_of(ask->g, x)] == ask->role[chain];
}

static enum state wait_state_at_node(const struct ips_concurrent_ask *ask,
                                     uint32_t chain, uint32_t i)
{
    bool lock = ask->resource_kind[i] == IPS_THING_LOCK;
    switch ((enum ips_xkind)ask->g->xkind[i]) {
    case IPS_X_NONE:
    case IPS_X_IDLE:
    case IPS_X_EXTERNAL:
        return OUTSIDE;
    case IPS_X_DATA:
    case IPS_X_ROOM:
        return is_wait_ended_by_same_or_unknown_role(ask, chain, i)
                   ? WAIT_PEER
                   : WAIT_ASKED;
    case IPS_X_LIFETIME:
        return WAIT_OTHER;
    case IPS_X_SIGNAL: /* a wait for the notification of new work counts as
                          OUTSIDE */
        return lock ? WAIT_LOCK
               : is_wait_ended_by_same_or_unknown_role(ask, chain, i)
                   ? WAIT_OTHER
                   : OUTSIDE;
    case IPS_X_RESOURCE:
        return lock ? WAIT_LOCK : WAIT_OTHER;
    }
    return OUTSIDE;
}

/* Appends the change by which a chain begins, at `t`, the wait that ends at
 * node i. */
static int append_begin_of_wait(struct sweep *s, uint64_t t, uint32_t chain,
                                uint32_t i)
{
    const struct ips_graph *g = s->ask->g;
    int rc = append_change(s, t, chain, wait_state_at_node(s->ask, chain, i));
    if (rc < 0)
        return rc;
    struct change *last = &s->change[s->changes - 1];
    last->from =
        g->xpred[i] == IPS_NO_NODE ? NO_CHAIN : ips_chain_of(g, g->xpred[i]);
    last->node = i;
    last->awaits_space = g->xkind[i] == IPS_X_ROOM;
    return 0;
}

static int add_state_changes_of_chain(struct sweep *s, uint32_t c)
{
    const struct ips_graph *g = s->ask->g;
    const struct ips_est *e = s->ask->est;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    s->began[c] = e->est[first];
    int rc = append_change(s, e->est[first], c, BUSY);
    for (uint32_t i = first + 1; i < end && rc == 0; i++) {
        uint64_t done = e->est[i - 1] + g->w[i];
        uint64_t slept = ips_min_u64(s->ask->outside[i], g->w[i]);
        if (slept)
            rc = append_change(s, done - slept, c, OUTSIDE);
        if (rc == 0 && done < e->est[i])
            rc = append_begin_of_wait(s, done, c, i);
        if (rc == 0 && (slept || done < e->est[i]))
            rc = append_change(s, e->est[i], c, BUSY);
    }
    return rc == 0 ? append_change(s, e->est[end - 1], c, GONE) : rc;
}

/* Adds the changes QUEUE_MORE and QUEUE_LESS of chain c. A message that arrives
 * while the thread is busy with another connection is in the queue until just
 * before the thread receives it. */
static int add_queue_changes_of_chain(struct sweep *s, uint32_t c,
                                      struct seen *seen)
{
    const struct ips_graph *g = s->ask->g;
    const struct ips_est *e = s->ask->est;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    struct seen *last = NULL;
    int rc = 0;
    for (uint32_t i = first + 1; i < end && rc == 0; i++) {
        bool present;
        uint32_t x = g->xpred[i];
        if (g->xkind[i] != IPS_X_DATA || x == IPS_NO_NODE ||
            g->site[i] == UINT32_MAX)
            continue;
        struct seen *here = &seen[g->site[i] % SEEN];
        bool again = here->chain == c && here->site == g->site[i];
        bool same = here == last && again;
        uint64_t from = ips_add_sat(
            e->est[x], ips_cross_arc_weight(g, i, s->ask->scenario, &present));
        if (last && !same)
            last->left = e->est[i];
        if (again)
            from = ips_max_u64(from, here->left);
        *here = (struct seen){c, g->site[i], e->est[i]};
        last = here;
        if (same || from >= e->est[i - 1])
            continue;
        rc = append_change(s, from, c, QUEUE_MORE);
        if (rc == 0)
            s->change[s->changes - 1].from = ips_chain_of(g, x);
        if (rc == 0)
            rc = append_change(s, e->est[i - 1], c, QUEUE_LESS);
    }
    return rc;
}

static int compare_changes_by_time(const void *a, const void *b)
{
    const struct change *p = a, *q = b;
    if (p->t != q->t)
        return p->t < q->t ? -1 : 1;
    if ((p->state < STATES) != (q->state < STATES))
        return p->state < STATES ? -1 : 1;
    if (p->chain != q->chain)
        return p->chain < q->chain ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

/* Merges the changes of one chain at one moment into one; the last state
 * wins. */
static void merge_simultaneous_changes(struct sweep *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->changes; i++) {
        struct change *last = kept ? &s->change[kept - 1] : NULL;
        if (last && last->chain == s->change[i].chain && last->state < STATES &&
            s->change[i].state < STATES && last->t == s->change[i].t) {
            s->change[i].number = last->number;
            *last = s->change[i];
        } else {
            s->change[kept++] = s->change[i];
        }
    }
    s->changes = kept;
}

/* ---- lists of waiting workers ------------------------------------------- */

static void list_add(uint32_t *head, struct link *l, uint32_t c)
{
    l[c] = (struct link){*head, NO_CHAIN};
    if (*head != NO_CHAIN)
        l[*head].before = c;
    *head = c;
}

static void list_remove(uint32_t *head, struct link *l, uint32_t c)
{
    if (l[c].before != NO_CHAIN)
        l[l[c].before].next = l[c].next;
    else
        *head = l[c].next;
    if (l[c].next != NO_CHAIN)
        l[l[c].next].before = l[c].before;
}

static int append_end_time_to_role_of_thread(struct sweep *s, uint32_t c,
                                             uint64_t t)
{
    struct ended *e = &s->ended[s->ask->role[c]];
    if (e->count == e->capacity) {
        uint32_t room = e->capacity * 2 + 4;
        uint64_t *more = realloc(e->t, room * sizeof(*more));
        if (!more)
            return no_memory(s);
        e->t = more;
        e->capacity = room;
    }
    e->t[e->count++] = t;
    e->last = c;
    return 0;
}

static void update_busy_count_and_peak_of_machine(struct sweep *s, uint32_t c,
                                                  bool now)
{
    uint32_t m = s->ask->g->chains[c].machine;
    s->busy[m] += now ? 1u : -1u;
    if (s->busy[m] > s->out->peak) {
        s->out->peak = s->busy[m];
        s->out->peak_machine = m;
    }
}

static uint32_t *waiting_list_of_role(struct sweep *s, uint32_t role,
                                      enum state state)
{
    return state == WAIT_ASKED ? &s->asked_head[role] : &s->role_head[role];
}

static int apply_chain_state_change(struct sweep *s, const struct change *to)
{
    uint32_t c = to->chain;
    if (to->state >= STATES) {
        s->queue[c] += to->state == QUEUE_MORE ? 1u : -1u;
        if (to->state == QUEUE_MORE)
            s->sender[c] = to->from;
        return 0;
    }
    enum state was = s->state[c], now = to->state;
    s->wait[c] = (struct wait){to->from, to->node, to->awaits_space};
    if (was == now)
        return 0;
    s->state[c] = (uint8_t)now;
    if (was == BUSY || now == BUSY)
        update_busy_count_and_peak_of_machine(s, c, now == BUSY);
    if (!s->ask->worker[c])
        return 0;
    uint32_t r = s->ask->role[c];
    s->workers[was]--;
    s->workers[now]++;
    s->role_there[r] += was == GONE;
    s->role_there[r] -= now == GONE;
    if (was >= WAIT_LOCK) {
        list_remove(&s->head[was], s->by_state, c);
        list_remove(waiting_list_of_role(s, r, was), s->alike, c);
        s->role_waits[r] -= was != WAIT_ASKED;
    }
    if (now >= WAIT_LOCK) {
        list_add(&s->head[now], s->by_state, c);
        list_add(waiting_list_of_role(s, r, now), s->alike, c);
        s->role_waits[r] += now != WAIT_ASKED;
    }
    return now == GONE ? append_end_time_to_role_of_thread(s, c, to->t) : 0;
}

/* ---- pieces of the path ------------------------------------------------- */

static int collect_chain_arcs_of_path(struct sweep *s)
{
    const struct ips_graph *g = s->ask->g;
    const struct ips_est *e = s->ask->est;
    size_t room = 0;
    uint32_t i = e->end;
    while (i != IPS_NO_NODE) {
        uint32_t c = ips_chain_of(g, i), first = g->chains[c].first;
        while (i != first && !e->crossed[i]) {
            if (s->pieces == room) {
                room = room * 2 + 64;
                struct piece *more = realloc(s->piece, room * sizeof(*more));
                if (!more)
                    return no_memory(s);
                s->piece = more;
            }
            s->piece[s->pieces++] =
                (struct piece){e->est[i - 1], e->est[i], i, c};
            i--;
        }
        i = e->crossed[i] ? g->xpred[i] : IPS_NO_NODE;
    }
    for (size_t a = 0, b = s->pieces; a + 1 < b; a++) {
        struct piece keep = s->piece[a];
        s->piece[a] = s->piece[--b];
        s->piece[b] = keep;
    }
    return 0;
}

/* Returns how many threads of a role have ended after `t`. */
static uint32_t count_threads_ended_after(const struct ended *e, uint64_t t)
{
    uint32_t low = 0, high = e->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (e->t[mid] > t)
            high = mid;
        else
            low = mid + 1;
    }
    return e->count - low;
}

struct moment {
    int of; /* enum ips_concurrent_class, or -1: not underused */
    uint32_t waiter, busy, wanted;
};

/* At most this many waiting threads are examined. */
#define WAITERS_LOOKED 8

/* Returns a thread that waits for a message or for buffer space: if possible,
 * one that waits for chain c. */
static uint32_t find_thread_waiting_for_message_or_space(const struct sweep *s,
                                                         uint32_t c)
{
    for (int k = WAIT_PEER; k <= WAIT_ASKED; k++) {
        uint32_t w = s->head[k];
        for (int i = 0; i < WAITERS_LOOKED && w != NO_CHAIN; i++) {
            if (s->wait[w].from == c)
                return w;
            w = s->by_state[w].next;
        }
    }
    return s->head[s->workers[WAIT_PEER] ? WAIT_PEER : WAIT_ASKED];
}

/* Returns a thread of chain c's role that has no work while c works, or
 * NO_CHAIN. `gone`: number of threads of the role that have ended since c
 * began. */
static uint32_t find_thread_without_work_of_same_role(const struct sweep *s,
                                                      uint32_t c, uint32_t gone)
{
    uint32_t r = s->ask->role[c];
    if (s->take_turns[r])
        return NO_CHAIN;
    if (s->role_waits[r])
        return s->role_head[r];
    uint32_t w = s->asked_head[r];
    for (int i = 0; i < WAITERS_LOOKED && w != NO_CHAIN; i++) {
        if (s->works[c] >
            ips_add_sat(s->works[w],
                        ips_scale_by_ppm(s->works[w], IPS_BESIDE_MORE_PPM)))
            return w;
        w = s->alike[w].next;
    }
    return gone ? s->ended[r].last : NO_CHAIN;
}

static struct moment classify_current_core_underuse(const struct sweep *s,
                                                    uint32_t c)
{
    struct moment m = {.of = -1, .waiter = NO_CHAIN};
    uint32_t waits = s->workers[WAIT_LOCK] + s->workers[WAIT_PEER] +
                     s->workers[WAIT_ASKED] + s->workers[WAIT_OTHER];
    uint32_t gone =
        count_threads_ended_after(&s->ended[s->ask->role[c]], s->began[c]);
    if (s->state[c] != BUSY)
        return m;
    m.busy = s->workers[BUSY] + !s->ask->worker[c];
    uint64_t could = (uint64_t)m.busy + waits + gone;
    /* Queued messages count only if the role has no other worker that could
     * receive them. */
    bool one = s->role_there[s->ask->role[c]] <= 1 &&
               (!s->ask->serves || s->ask->serves[c]);
    uint64_t queued = (uint64_t)m.busy + (one ? s->queue[c] : 0);
    m.wanted = (uint32_t)ips_min_u64(ips_max_u64(could, queued), s->cores);
    if (2 * (uint64_t)m.busy > m.wanted) {
        m.wanted = (uint32_t)ips_min_u64(s->cores, UINT32_MAX);
        m.of = 2 * (uint64_t)m.busy > m.wanted ? -1 : IPS_BESIDE_ALONE;
        return m;
    }
    uint32_t alike = find_thread_without_work_of_same_role(s, c, gone);
    if (s->workers[WAIT_LOCK]) {
        m.of = IPS_BESIDE_LOCK;
        m.waiter = s->head[WAIT_LOCK];
    } else if (alike != NO_CHAIN) {
        m.of = IPS_BESIDE_ALIKE;
        m.waiter = alike;
    } else if (one && s->queue[c]) {
        m.of = IPS_BESIDE_QUEUE;
        m.waiter = s->sender[c];
        m.wanted = (uint32_t)ips_min_u64(queued, s->cores);
    } else if (s->workers[WAIT_PEER] || s->workers[WAIT_ASKED]) {
        m.of = IPS_BESIDE_PEER;
        m.waiter = find_thread_waiting_for_message_or_space(s, c);
    } else if (s->workers[WAIT_OTHER]) {
        m.of = IPS_BESIDE_OTHER;
        m.waiter = s->head[WAIT_OTHER];
    }
    return m;
}

static uint64_t scale_ns(uint64_t ns, uint64_t num, uint64_t den)
{
    return den ? (uint64_t)((ips_u128)ns * num / den) : 0;
}

/* How much of the current path arc belongs to one class (enum
 * ips_concurrent_class). */
struct share {
    uint64_t ns, spread_ns, longest_ns;
    uint32_t waiter;
    struct wait wait; /* what `waiter` waits for */
};

static int append_class_shares_of_arc(struct sweep *s, const struct piece *p,
                                      struct share share[IPS_BESIDE_CLASSES])
{
    struct ips_concurrent_activity *out = s->out;
    for (int k = 0; k < IPS_BESIDE_CLASSES; k++) {
        if (share[k].ns == 0)
            continue;
        if (out->count == out->cap) {
            size_t cap = out->cap * 2 + 64;
            struct ips_concurrent_share *more =
                realloc(out->share, cap * sizeof(*more));
            if (!more)
                return no_memory(s);
            out->share = more;
            out->cap = cap;
        }
        out->share[out->count++] = (struct ips_concurrent_share){
            .node = p->node,
            .chain = p->chain,
            .of = (enum ips_concurrent_class)k,
            .waiter = share[k].waiter,
            .wait_node = share[k].wait.node,
            .direct = share[k].wait.from == p->chain,
            .awaits_space = k == IPS_BESIDE_PEER && share[k].wait.awaits_space,
            .ns = share[k].ns,
            .spread_ns = share[k].spread_ns};
    }
    return 0;
}

static int classify_path_arc_and_sum_oversubscription(struct sweep *s,
                                                      const struct piece *p)
{
    struct share share[IPS_BESIDE_CLASSES] = {0};
    uint32_t machine = s->ask->g->chains[p->chain].machine;
    uint64_t now = p->from;
    while (now < p->to) {
        uint64_t until = p->to;
        for (; s->next < s->changes && s->change[s->next].t <= now; s->next++) {
            if (apply_chain_state_change(s, &s->change[s->next]) < 0)
                return s->err->code;
        }
        if (s->next < s->changes)
            until = ips_min_u64(until, s->change[s->next].t);
        uint64_t ns = until - now;
        const struct moment m = classify_current_core_underuse(s, p->chain);
        if (m.of >= 0) {
            struct share *h = &share[m.of];
            h->ns += ns;
            h->spread_ns += scale_ns(ns, m.wanted - m.busy, m.wanted);
            if (ns > h->longest_ns) {
                h->longest_ns = ns;
                h->waiter = m.waiter;
                h->wait = m.waiter == NO_CHAIN ? no_wait : s->wait[m.waiter];
            }
        }
        uint32_t busy = s->busy[machine], cores = s->ask->cores[machine];
        uint64_t crowd = busy > cores ? scale_ns(ns, busy - cores, cores) : 0;
        s->out->oversubscription_ns += crowd;
        s->out->oversubscription[p->chain] += crowd;
        now = until;
    }
    return append_class_shares_of_arc(s, p, share);
}

/* ---- the work of each chain ---- */

static uint64_t work_of_chain_ns(const struct ips_concurrent_ask *ask,
                                 uint32_t c)
{
    const struct ips_chain *chain = &ask->g->chains[c];
    uint64_t ns = 0;
    for (uint32_t i = chain->first + 1; i < chain->first + chain->count; i++)
        ns = ips_add_sat(ns, ips_sub_sat(ask->g->w[i], ask->outside[i]));
    return ns;
}

/* ---- the whole computation ---------------------------------------------- */

static int alloc_sweep(struct sweep *s)
{
    const struct ips_concurrent_ask *ask = s->ask;
    size_t chains = (size_t)ask->g->chain_count + 1;
    size_t roles = (size_t)ask->role_count + 1;
    s->state = calloc(chains, sizeof(*s->state));
    s->wait = calloc(chains, sizeof(*s->wait));
    s->began = calloc(chains, sizeof(*s->began));
    s->by_state = calloc(chains, sizeof(*s->by_state));
    s->alike = calloc(chains, sizeof(*s->alike));
    s->role_head = calloc(roles, sizeof(*s->role_head));
    s->asked_head = calloc(roles, sizeof(*s->asked_head));
    s->role_waits = calloc(roles, sizeof(*s->role_waits));
    s->role_there = calloc(roles, sizeof(*s->role_there));
    s->works = calloc(chains, sizeof(*s->works));
    s->take_turns = calloc(roles, sizeof(*s->take_turns));
    s->queue = calloc(chains, sizeof(*s->queue));
    s->sender = calloc(chains, sizeof(*s->sender));
    s->ended = calloc(roles, sizeof(*s->ended));
    s->busy = calloc((size_t)ask->machine_count + 1, sizeof(*s->busy));
    s->out->oversubscription =
        calloc(chains, sizeof(*s->out->oversubscription));
    if (!s->state || !s->wait || !s->began || !s->by_state || !s->alike ||
        !s->role_head || !s->asked_head || !s->role_waits || !s->role_there ||
        !s->works || !s->take_turns || !s->queue || !s->sender || !s->ended ||
        !s->busy || !s->out->oversubscription)
        return no_memory(s);
    for (int k = 0; k < STATES; k++)
        s->head[k] = NO_CHAIN;
    for (size_t r = 0; r < roles; r++)
        s->role_head[r] = s->asked_head[r] = NO_CHAIN;
    for (uint32_t c = 0; c < ask->g->chain_count; c++) {
        s->workers[GONE] += ask->worker[c];
        s->wait[c] = no_wait;
    }
    for (uint32_t m = 0; m < ask->machine_count; m++)
        s->cores += ask->cores[m];
    return 0;
}

static void release_sweep(struct sweep *s)
{
    for (uint32_t r = 0; s->ended && r < s->ask->role_count; r++)
        free(s->ended[r].t);
    free(s->ended);
    free(s->change);
    free(s->piece);
    free(s->state);
    free(s->wait);
    free(s->began);
    free(s->by_state);
    free(s->alike);
    free(s->role_head);
    free(s->asked_head);
    free(s->role_waits);
    free(s->role_there);
    free(s->works);
    free(s->take_turns);
    free(s->queue);
    free(s->sender);
    free(s->busy);
}

int ips_classify_core_underuse_along_path(const struct ips_concurrent_ask *ask,
                                          struct ips_concurrent_activity *out,
                                          struct ips_err *err)
{
    struct sweep s = {.ask = ask, .out = out, .err = err};
    memset(out, 0, sizeof(*out));
    struct seen *seen = calloc(SEEN, sizeof(*seen));
    int rc = alloc_sweep(&s);
    if (rc == 0 && !seen)
        rc = no_memory(&s);
    for (uint32_t i = 0; rc == 0 && i < SEEN; i++)
        seen[i].chain = NO_CHAIN;
    for (uint32_t c = 0; c < ask->g->chain_count && rc == 0; c++) {
        rc = add_state_changes_of_chain(&s, c);
        if (rc == 0)
            rc = add_queue_changes_of_chain(&s, c, seen);
    }
    free(seen);
    for (uint32_t c = 0; c < ask->g->chain_count && rc == 0; c++)
        s.works[c] = work_of_chain_ns(ask, c);
    if (rc == 0) {
        qsort(s.change, s.changes, sizeof(*s.change), compare_changes_by_time);
        merge_simultaneous_changes(&s);
        rc = ips_find_roles_whose_threads_take_turns(
            ask, s.change, s.changes, s.works, s.take_turns, err);
    }
    if (rc == 0)
        rc = collect_chain_arcs_of_path(&s);
    for (size_t i = 0; i < s.pieces && rc == 0; i++)
        rc = classify_path_arc_and_sum_oversubscription(&s, &s.piece[i]);
    release_sweep(&s);
    if (rc < 0)
        ips_concurrent_release(out);
    return rc;
}

void ips_concurrent_release(struct ips_concurrent_activity *b)
{
    free(b->share);
    free(b->oversubscription);
    memset(b, 0, sizeof(*b));
}
