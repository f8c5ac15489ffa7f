/*
 * Random programs that are simulated event by event, so that what really
 * happened is known: who woke whom, who had the core and for how long, which
 * bytes came from which send. Their records are written as the agent would.
 *
 * There are two of everything: two pid namespaces whose processes and threads
 * have equal pids, tids and image stamps, and locks at equal addresses;
 * connections one after the other with equal addresses; ends that two threads
 * read or write. Half of the programs have stamps in steps of 1000 ns, so that
 * most are equal to others.
 */
#ifndef IPS_TESTS_UNIT_HELP_MODEL_WORLD_H
#define IPS_TESTS_UNIT_HELP_MODEL_WORLD_H

#include <signal.h>

#include "rec_signal.h"

#define SPACES 2u
#define PROCS (2u * SPACES)
#define THREADS 3u /* of each process; the first is the main thread */
#define ACTORS (PROCS * THREADS)
#define CHANNELS 8u
#define QUEUE 512u
#define ARCS 8192u
#define NOBODY UINT32_MAX
#define LOCK 0x5000u

enum mood { UNBORN, READY, READING, LOCKING, OVER };

struct actor {
    rs s;
    enum mood mood;
    uint32_t on; /* 2 * channel + direction */
    uint64_t born, end, t, cpu, cpu0, queued;
    uint64_t early;    /* CPU of its own before its first record */
    uint64_t since;    /* when the call that it sleeps in was made */
    uint32_t nodes[8]; /* by kind */
    uint64_t wait_ns[IPS_WAIT_COUNT];
    uint32_t wait_count[IPS_WAIT_COUNT];
    uint64_t out, out_bytes, in, in_bytes, events;
};

struct sent {
    uint32_t by, node; /* its SEND, counted in its chain */
    uint64_t until;    /* position behind its bytes */
};
/* What goes from end[k] to end[!k] of a channel. */
struct stream {
    struct sent sent[QUEUE];
    uint32_t count;
    uint64_t pos, read, last_send, last_read;
    uint64_t messages, reads;
    uint64_t from_bytes, from_messages, from_reads; /* of this generation */
    uint64_t from_read;
};
struct line {
    enum ips_chan_kind kind;
    uint32_t process[2], users[2][2]; /* of each side: one thread, or two */
    uint32_t generation;
    struct stream dir[2];
};

struct arc {
    uint32_t actor, node, by, by_node;
    enum ips_node_kind kind, by_kind;
    enum ips_xkind x;
};

struct world {
    uint64_t seed, grain;
    struct recorder *r;
    struct actor a[ACTORS];
    struct line c[CHANNELS];
    uint32_t owner[PROCS]; /* of each process's lock */
    struct arc arc[ARCS];
    uint32_t arcs;
    uint64_t idle, external, any;
    bool spawned[SPACES];
};

static inline uint32_t pick(struct world *w, uint32_t n)
{
    w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return n ? (uint32_t)(w->seed >> 33) % n : 0;
}
/* Some ns, at most `most`; in a coarse world whole grains. */
static inline uint64_t span(struct world *w, uint32_t most)
{
    return pick(w, most + 1) / w->grain * w->grain;
}
static inline uint32_t process_of(uint32_t actor)
{
    return actor / THREADS;
}
static inline uint32_t space_of(uint32_t actor)
{
    return process_of(actor) / 2;
}

static inline void expect(struct world *w, uint32_t actor,
                          enum ips_node_kind kind, enum ips_xkind x,
                          uint32_t by, enum ips_node_kind by_kind,
                          uint32_t by_node)
{
    assert_true(w->arcs < ARCS);
    w->arc[w->arcs++] = (struct arc){.actor = actor,
                                     .node = w->a[actor].nodes[kind] - 1,
                                     .kind = kind,
                                     .x = x,
                                     .by = by,
                                     .by_kind = by_kind,
                                     .by_node = by_node};
}
/* A node of the actor at hand; its number. */
static inline uint32_t node(struct world *w, uint32_t actor,
                            enum ips_node_kind kind)
{
    return w->a[actor].nodes[kind]++;
}

/* A call is over: what it slept is a wait where that is 2 us or more. */
static inline bool slept(struct actor *a, uint64_t t_ret, uint64_t cpu,
                         enum ips_wait_cause cause)
{
    uint64_t ns = t_ret - a->since - cpu;
    a->t = t_ret;
    a->cpu += cpu;
    if (ns < 2000)
        return false;
    a->wait_ns[cause] += ns;
    a->wait_count[cause]++;
    return true;
}

/* ---- channels ---- */

static inline uint32_t chan_id(const struct world *w, uint32_t c, uint32_t k)
{
    return w->c[c].generation * 1000 + 2 * c + k + 1;
}
static inline uint64_t pipe_ino(uint32_t c)
{
    return 5000 + c;
}

/* Process k's side of channel c, in the stream of `actor`. */
static inline void name_side(struct world *w, uint32_t c, uint32_t k,
                             uint32_t actor)
{
    struct actor *a = &w->a[actor];
    struct line *x = &w->c[c];
    uint32_t id = chan_id(w, c, k), port = 4000 + c;
    a->events++;
    if (x->kind == IPS_CHAN_PIPE) {
        rec_pipe(a->s, id, a->t, k ? IPS_SIDE_READ : IPS_SIDE_WRITE,
                 pipe_ino(c));
    } else if (x->kind == IPS_CHAN_UNIX) {
        rec_chan(a->s, id, a->t, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 600 + 2 * c + k)
            ->peer_ino = 600 + 2 * c + !k;
    } else {
        uint64_t cookie = 1 + c + 100 * x->generation + 10000 * k;
        rec_inet(a->s, id, a->t, IPS_CHAN_TCP, cookie, LOOPBACK,
                 (uint16_t)(k ? 80 : port), LOOPBACK,
                 (uint16_t)(k ? port : 80));
    }
}

static inline void do_read(struct world *w, uint32_t actor, uint32_t c,
                           uint32_t k, uint64_t there_ns)
{
    struct stream *d = &w->c[c].dir[!k];
    struct actor *a = &w->a[actor];
    uint64_t cpu = span(w, 200), len = d->pos - d->read, t_ret = a->since + cpu;
    if (pick(w, 3) == 0)
        len = 1 + pick(w, (uint32_t)len);
    if (there_ns > a->since)
        t_ret = ips_max_u64(t_ret, there_ns + span(w, 400));
    if (d->reads)
        t_ret = ips_max_u64(t_ret, d->last_read + w->grain);
    d->last_read = t_ret;
    rec_io(a->s, IPS_REC_RECV, chan_id(w, c, k), a->since, t_ret, a->cpu,
           a->cpu + cpu, (int64_t)len);
    (void)slept(a, t_ret, cpu, IPS_WAIT_PEER);
    a->events++;
    a->in++;
    a->in_bytes += len;
    d->read += len;
    d->reads++;
    (void)node(w, actor, IPS_NODE_RECV);
    const struct sent *s = d->sent;
    while (s->until < d->read)
        s++;
    expect(w, actor, IPS_NODE_RECV, IPS_X_DATA, s->by, IPS_NODE_SEND, s->node);
    a->mood = READY;
}

/* The first that waits for bytes of that direction, NOBODY. */
static inline uint32_t reader_of(const struct world *w, uint32_t c, uint32_t k)
{
    uint32_t best = NOBODY;
    for (uint32_t i = 0; i < ACTORS; i++)
        if (w->a[i].mood == READING && w->a[i].on == 2 * c + k &&
            (best == NOBODY || w->a[i].since < w->a[best].since))
            best = i;
    return best;
}

static inline void do_send(struct world *w, uint32_t actor, uint32_t c,
                           uint32_t k)
{
    struct stream *d = &w->c[c].dir[k];
    struct actor *a = &w->a[actor];
    if (d->count == QUEUE || (d->messages && a->t <= d->last_send))
        return;
    uint64_t cpu = span(w, 1500), len = 1 + pick(w, 900), t = a->t;
    rec_io(a->s, IPS_REC_SEND, chan_id(w, c, k), t, t + cpu, a->cpu,
           a->cpu + cpu, (int64_t)len);
    a->since = t;
    (void)slept(a, t + cpu, cpu, IPS_WAIT_PEER);
    d->last_send = a->t;
    a->events++;
    a->out++;
    a->out_bytes += len;
    d->pos += len;
    d->messages++;
    d->sent[d->count++] =
        (struct sent){actor, node(w, actor, IPS_NODE_SEND), d->pos};
    uint32_t reader = reader_of(w, c, !k);
    if (reader != NOBODY)
        do_read(w, reader, c, !k, t + cpu / 2 / w->grain * w->grain);
}

/* Would it wait for somebody who waits for it, or for its lock? */
static inline bool would_hang(const struct world *w, uint32_t actor, uint32_t c,
                              uint32_t k)
{
    uint32_t by = w->c[c].users[!k][0];
    for (uint32_t n = 0; n < ACTORS && by != actor; n++) {
        if (w->a[by].mood != READING)
            return w->owner[process_of(actor)] == actor;
        uint32_t on = w->a[by].on;
        by = w->c[on / 2].users[!(on % 2)][0];
    }
    return true;
}

static inline void use_channel(struct world *w, uint32_t actor)
{
    uint32_t c = pick(w, CHANNELS), k = pick(w, 2);
    struct line *x = &w->c[c];
    struct actor *a = &w->a[actor];
    bool pipe = x->kind == IPS_CHAN_PIPE;
    if (x->users[k][0] != actor && x->users[k][1] != actor)
        return;
    if (pick(w, 2) ? !pipe || k == 0 : pipe && k == 0) {
        do_send(w, actor, c, k);
        return;
    }
    struct stream *d = &x->dir[!k];
    a->since = a->t;
    if (d->read < d->pos && reader_of(w, c, k) == NOBODY) {
        if (d->reads && a->t <= d->last_read)
            return;
        /* The bytes of the last send were there within its call. */
        if (d->last_send <= a->t)
            do_read(w, actor, c, k, 0);
    } else if (d->read == d->pos && !would_hang(w, actor, c, k)) {
        a->mood = READING;
        a->on = 2 * c + k;
    }
}

/* Both sides close, and connect again with the same addresses. */
static inline void connect_again(struct world *w, uint32_t actor)
{
    uint32_t c = pick(w, CHANNELS), other;
    struct line *x = &w->c[c];
    if (x->kind != IPS_CHAN_TCP || x->users[0][0] != actor ||
        x->generation > 5 || x->dir[0].read < x->dir[0].pos ||
        x->dir[1].read < x->dir[1].pos ||
        x->dir[0].reads == x->dir[0].from_reads)
        return;
    other = x->users[1][0];
    if (w->a[other].mood != READY || reader_of(w, c, 0) != NOBODY ||
        reader_of(w, c, 1) != NOBODY)
        return;
    struct actor *a = &w->a[actor], *b = &w->a[other];
    uint64_t t = a->t;
    for (uint32_t u = 0; u < 4; u++) {
        if (w->a[x->users[u / 2][u % 2]].mood != READY)
            return;
        t = ips_max_u64(t, w->a[x->users[u / 2][u % 2]].t);
    }
    for (uint32_t u = 0; u < 4; u++)
        w->a[x->users[u / 2][u % 2]].t = t;
    rec_close(a->s, chan_id(w, c, 0), a->t, a->cpu, IPS_CLOSE_FD);
    (void)node(w, actor, IPS_NODE_AUX);
    rec_close(b->s, chan_id(w, c, 1), b->t, b->cpu, IPS_CLOSE_FD);
    (void)node(w, other, IPS_NODE_AUX);
    a->events++;
    b->events++;
    x->generation++;
    for (uint32_t u = 0; u < 4; u++)
        w->a[x->users[u / 2][u % 2]].t = t + w->grain;
    for (uint32_t k = 0; k < 2; k++) {
        struct stream *d = &x->dir[k];
        d->from_bytes = d->from_read = d->pos;
        d->from_messages = d->messages;
        d->from_reads = d->reads;
        name_side(w, c, k, k ? other : actor);
    }
}

/* ---- what else they do ---- */

static inline void do_lock(struct world *w, uint32_t actor)
{
    uint32_t *owner = &w->owner[process_of(actor)];
    struct actor *a = &w->a[actor];
    if (*owner == NOBODY) {
        *owner = actor; /* free: no record */
    } else if (*owner != actor) {
        a->mood = LOCKING;
        a->since = a->t;
    } else {
        uint32_t next = NOBODY, process = process_of(actor);
        for (uint32_t i = process * THREADS; i < (process + 1) * THREADS; i++)
            if (w->a[i].mood == LOCKING &&
                (next == NOBODY || w->a[i].since < w->a[next].since))
                next = i;
        *owner = next;
        if (next == NOBODY)
            return;
        struct actor *b = &w->a[next];
        a->t = ips_max_u64(a->t, b->since) + w->grain;
        /* Odd processes have a rwlock, both sides of which are one. */
        bool rw = process % 2;
        rec_sync(a->s, IPS_REC_RELEASE,
                 !rw          ? IPS_SYNC_MUTEX
                 : pick(w, 2) ? IPS_SYNC_RDLOCK
                              : IPS_SYNC_WRLOCK,
                 a->t, a->t, a->cpu, a->cpu, LOCK);
        a->events++;
        uint64_t t_ret = a->t + w->grain + span(w, 300), since = b->since;
        rec_sync(b->s, IPS_REC_ACQUIRE,
                 !rw          ? IPS_SYNC_MUTEX
                 : pick(w, 2) ? IPS_SYNC_RDLOCK
                              : IPS_SYNC_WRLOCK,
                 since, t_ret, b->cpu, b->cpu, LOCK);
        (void)slept(b, t_ret, 0, IPS_WAIT_LOCK);
        b->events++;
        b->mood = READY;
        a->t += w->grain;
        uint32_t release = node(w, actor, IPS_NODE_AUX);
        (void)node(w, next, IPS_NODE_AUX);
        w->any++;
        expect(w, next, IPS_NODE_AUX, IPS_X_RESOURCE, actor, IPS_NODE_AUX,
               release);
    }
}

static inline void do_sleep(struct world *w, uint32_t actor)
{
    struct actor *a = &w->a[actor];
    uint64_t cpu = span(w, 300), t_ret = a->t + cpu + span(w, 9000);
    bool poll = pick(w, 2);
    rec_io(a->s, IPS_REC_BLOCK, 0, a->t, t_ret, a->cpu, a->cpu + cpu, 0)->op =
        poll ? IPS_OP_POLL : IPS_OP_SLEEP;
    a->events++;
    a->since = a->t;
    if (!slept(a, t_ret, cpu, IPS_WAIT_TIMER))
        return;
    w->idle += poll;
    if (poll)
        return;
    w->external++;
    uint32_t first = node(w, actor, IPS_NODE_AUX);
    (void)node(w, actor, IPS_NODE_AUX);
    expect(w, actor, IPS_NODE_AUX, IPS_X_EXTERNAL, actor, IPS_NODE_AUX, first);
}

/* The parent's main thread to the child's, where that one can take it. */
static inline void do_signal(struct world *w, uint32_t actor)
{
    uint32_t to = actor + THREADS;
    if (actor % (2 * THREADS) != 0 || w->a[to].mood != READY)
        return;
    struct actor *a = &w->a[actor], *b = &w->a[to];
    a->t = ips_max_u64(a->t, b->t + w->grain); /* the last one is taken */
    b->t = a->t + w->grain;
    put_kill(a->s, 12, a->t, a->cpu, 8);
    put_taken(b->s, 12, b->t, b->cpu, 7);
    a->events++;
    b->events++;
    uint32_t kill = node(w, actor, IPS_NODE_AUX);
    (void)node(w, to, IPS_NODE_AUX);
    expect(w, to, IPS_NODE_AUX, IPS_X_SIGNAL, actor, IPS_NODE_AUX, kill);
    a->t += w->grain;
}

static inline void compute(struct world *w, uint32_t actor)
{
    struct actor *a = &w->a[actor];
    uint64_t ns = span(w, 4000), gap = pick(w, 6) ? 0 : span(w, 20000);
    a->cpu += ns;
    a->t += ns + gap;
    a->queued += gap / 2;
    if (pick(w, 8) == 0) {
        rec_delay(a->s, a->t, a->queued);
        a->events++;
    }
}

/* ---- births and deaths ---- */

static inline void begin(struct world *w, uint32_t actor,
                         enum ips_start_kind kind, uint64_t t, uint64_t seq)
{
    struct actor *a = &w->a[actor];
    uint32_t pid = 7 + process_of(actor) % 2, k = actor % THREADS;
    a->s = rec_stream(w->r, pid, k ? pid * 10 + k : pid, 1);
    a->s->head.pidns = 100 + space_of(actor);
    a->born = a->t = t;
    a->cpu = kind == IPS_START_IMAGE ? 50 : 0;
    a->cpu0 = pid == 7 ? a->cpu : 0; /* a spawned child's: since its FORK */
    a->early = pid == 8 ? a->cpu : 0;
    a->mood = READY;
    struct ips_rec_start *s = rec_start(a->s, kind, t, a->cpu);
    s->fork_seq = seq;
    if (kind == IPS_START_FORK || (kind == IPS_START_IMAGE && pid == 8))
        s->ppid = 7;
    s->parent_image = kind == IPS_START_FORK ? 1 : 0;
    a->queued = kind == IPS_START_IMAGE ? 700 : 0; /* before its records */
    a->events = 1;
}

/* FORK of `kind`; the child begins meanwhile, or later. */
static inline void make(struct world *w, uint32_t actor, uint32_t child,
                        enum ips_fork_kind kind, uint64_t seq)
{
    struct actor *a = &w->a[actor];
    uint64_t cpu = span(w, 900), t = a->t, from = w->grain + span(w, 3000);
    bool spawn = kind == IPS_FORK_SPAWN;
    rec_fork(a->s, kind, t, t + cpu, a->cpu, a->cpu + cpu,
             kind == IPS_FORK_THREAD ? 0 : 8, seq);
    a->t += cpu;
    a->cpu += cpu;
    a->events++;
    uint32_t fork = node(w, actor, IPS_NODE_FORK);
    begin(w, child,
          spawn                     ? IPS_START_IMAGE
          : kind == IPS_FORK_THREAD ? IPS_START_THREAD
                                    : IPS_START_FORK,
          t + from, spawn ? 0 : seq);
    (void)node(w, child, IPS_NODE_START);
    expect(w, child, IPS_NODE_START, IPS_X_LIFETIME, actor, IPS_NODE_FORK,
           fork);
    if (!spawn)
        return;
    (void)node(w, actor, IPS_NODE_AUX);
    (void)node(w, child, IPS_NODE_AUX); /* its image began */
    expect(w, actor, IPS_NODE_AUX, IPS_X_LIFETIME, child, IPS_NODE_AUX, 0);
}

static inline void name_all(struct world *w, uint32_t process)
{
    for (uint32_t c = 0; c < CHANNELS; c++)
        for (uint32_t k = 0; k < 2; k++)
            if (w->c[c].process[k] == process)
                name_side(w, c, k, process * THREADS);
}

static inline void begin_all(struct world *w)
{
    for (uint32_t space = 0; space < SPACES; space++) {
        uint32_t main = space * 2 * THREADS, child = main + THREADS;
        begin(w, main, IPS_START_IMAGE, 1000 + span(w, 2000), 0);
        (void)node(w, main, IPS_NODE_START);
        name_all(w, 2 * space);
        w->spawned[space] = pick(w, 2);
        make(w, main, child, w->spawned[space] ? IPS_FORK_SPAWN : IPS_FORK_FORK,
             1);
        name_all(w, 2 * space + 1);
        for (uint32_t k = 1; k < THREADS; k++) {
            make(w, main, main + k, IPS_FORK_THREAD, 1 + k);
            make(w, child, child + k, IPS_FORK_THREAD, 1 + k);
        }
    }
}

static inline void end_actor(struct world *w, uint32_t actor, uint64_t status)
{
    struct actor *a = &w->a[actor];
    bool main = actor % THREADS == 0;
    rec_end(a->s, main ? IPS_END_EXIT : IPS_END_THREAD, a->t, a->cpu, status);
    a->events++;
    a->end = a->t;
    a->mood = OVER;
    (void)node(w, actor, IPS_NODE_END);
}

static inline void join(struct world *w, uint32_t actor, uint32_t other,
                        enum ips_join_kind kind, uint64_t seq)
{
    struct actor *a = &w->a[actor];
    uint64_t t = a->t, cpu = 0;
    a->since = t;
    uint64_t t_ret = ips_max_u64(t, w->a[other].end) + w->grain;
    struct ips_rec_join *j = rec_join(a->s, kind, t, t_ret, a->cpu,
                                      kind == IPS_JOIN_WAIT ? 8 : 0, seq);
    for (uint32_t i = 0; kind == IPS_JOIN_WAIT && i < THREADS; i++)
        cpu += w->a[other + i].cpu - w->a[other + i].cpu0;
    if (kind == IPS_JOIN_WAIT) {
        j->child_cpu_ns = cpu;
        j->status = 4 << 8;
    }
    (void)slept(a, t_ret, 0, IPS_WAIT_CHILD);
    a->events++;
    (void)node(w, actor, IPS_NODE_JOIN);
    expect(w, actor, IPS_NODE_JOIN, IPS_X_LIFETIME, other, IPS_NODE_END, 0);
}

/* Nobody may wait for ever: locks are given back, readers get a message. */
static inline bool wake_one(struct world *w)
{
    for (uint32_t p = 0; p < PROCS; p++)
        if (w->owner[p] != NOBODY && w->a[w->owner[p]].mood == READY) {
            do_lock(w, w->owner[p]);
            return true;
        }
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (w->a[i].mood != READING)
            continue;
        uint32_t c = w->a[i].on / 2, k = w->a[i].on % 2;
        uint32_t writer = w->c[c].users[!k][0];
        if (w->a[writer].mood != READY || w->c[c].dir[!k].count == QUEUE)
            continue;
        w->a[writer].t = ips_max_u64(ips_max_u64(w->a[writer].t, w->a[i].since),
                                     w->c[c].dir[!k].last_send) +
                         w->grain;
        do_send(w, writer, c, !k);
        return true;
    }
    return false;
}

static inline void end_all(struct world *w)
{
    while (wake_one(w))
        ;
    for (uint32_t i = 0; i < ACTORS; i++)
        if (w->a[i].mood != READY) /* they wait for each other */
            w->arcs = 0;
    for (uint32_t p = PROCS; p-- > 0 && w->arcs;) {
        uint32_t main = p * THREADS;
        for (uint32_t k = 1; k < THREADS; k++)
            end_actor(w, main + k, 0);
        for (uint32_t k = 1; k < THREADS; k++)
            join(w, main, main + k, IPS_JOIN_THREAD, 1 + k);
        if (p % 2 == 0)
            join(w, main, main + THREADS, IPS_JOIN_WAIT, 0);
        end_actor(w, main, p % 2 ? 4 : 0);
    }
}

static inline void make_world(struct world *w, uint64_t seed)
{
    *w = (struct world){
        .seed = seed * 7919 + 1, .grain = seed % 2 ? 1 : 1000, .r = rec_new()};
    memset(w->owner, 0xff, sizeof(w->owner));
    memcpy(w->r->control.boot_id, "boot", 4);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        struct line *x = &w->c[c];
        static const enum ips_chan_kind kinds[] = {IPS_CHAN_PIPE, IPS_CHAN_UNIX,
                                                   IPS_CHAN_TCP, IPS_CHAN_TCP};
        x->kind = kinds[pick(w, 4)];
        x->process[0] = pick(w, PROCS);
        x->process[1] = (x->process[0] + 1 + pick(w, PROCS - 1)) % PROCS;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t one = pick(w, THREADS);
            bool both = w->grain == 1 && pick(w, 2);
            x->users[k][0] = x->process[k] * THREADS + one;
            x->users[k][1] =
                x->process[k] * THREADS + (both ? (one + 1) % THREADS : one);
        }
    }
    begin_all(w);
    for (uint32_t n = 0; n < 600; n++) {
        uint32_t i = NOBODY;
        for (uint32_t k = 0; k < ACTORS; k++)
            if (w->a[k].mood == READY && (i == NOBODY || w->a[k].t < w->a[i].t))
                i = k;
        if (i == NOBODY)
            break;
        compute(w, i);
        uint32_t what = pick(w, 20);
        if (what < 2)
            do_sleep(w, i);
        else if (what < 5)
            do_lock(w, i);
        else if (what < 7)
            do_signal(w, i);
        else if (what < 9)
            connect_again(w, i);
        else
            use_channel(w, i);
    }
    end_all(w);
}

#endif
