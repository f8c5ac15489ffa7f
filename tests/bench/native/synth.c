/* The walk: patterns, and the time and path of each thread as it goes. */
#include "tests/bench/native/synth.h"

#include <stdlib.h>
#include <string.h>

#include "tests/bench/native/synth_private.h"

const char *const synth_pattern_names[SYNTH_PATTERN_COUNT] = {
#define X(name, word, text) [SYNTH_##name] = (word),
    SYNTH_PATTERNS(X)
#undef X
};

struct synth_options synth_default(enum synth_pattern pattern)
{
    return (struct synth_options){.pattern = pattern,
                                  .seed = 1,
                                  .nodes = 1000000,
                                  .slaves = 1,
                                  .threads = 64,
                                  .len_min = 1,
                                  .len_max = 1000,
                                  .work_min = 500,
                                  .work_max = 20000};
}

uint32_t synth_slave_of(const struct synth_options *opt, uint32_t thread)
{
    if (opt->cyclic)
        return thread % opt->slaves;
    return (uint32_t)((uint64_t)thread * opt->slaves / opt->threads);
}

int synth_check(const struct synth_options *o, struct ips_err *err)
{
    if (o->pattern >= SYNTH_PATTERN_COUNT || o->threads < 2 ||
        o->threads > SYNTH_THREADS_MAX || o->slaves < 1 ||
        o->slaves > o->threads || o->len_min < 1 || o->len_max < o->len_min ||
        o->work_min < 400 || o->work_max < o->work_min ||
        o->nodes > UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_USAGE, "options of a synthetic run");
    return 0;
}

/* What is on its way from one thread to another: rounds read a message at most
 * LAG - 1 rounds later, so no queue is longer than that. */
enum { LAG = 4 };
struct message {
    uint32_t index, len;
    uint64_t pos, t_ret, est;
};
struct way {
    struct message queue[LAG];
    uint32_t head, count;
    uint64_t pos;
};
struct thread {
    uint32_t nodes;
    uint64_t cpu; /* coordinate of the last node */
    uint64_t run; /* CPU clock: the coordinate and the rest of a receive */
    uint64_t t, est;
};
struct due { /* RANDOM: receives that are to come */
    uint32_t to, from;
};
struct walk {
    const struct synth_options *opt;
    synth_sink *sink;
    void *arg;
    uint64_t rng;
    uint64_t nodes;
    struct thread *thread;
    uint32_t *way_of; /* [from * threads + to]: index + 1 */
    struct way *way;
    uint32_t way_count, way_room;
    uint32_t *order; /* [threads] scratch */
    struct due *due[LAG];
    uint32_t due_count[LAG];
    bool failed;
};

/* splitmix64 */
static uint64_t draw(struct walk *w)
{
    uint64_t z = w->rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(struct walk *w, uint32_t limit)
{
    return (uint32_t)((draw(w) >> 32) * limit >> 32);
}

static struct way *way_of(struct walk *w, uint32_t from, uint32_t to)
{
    uint32_t *at = &w->way_of[(size_t)from * w->opt->threads + to];
    if (*at == 0) {
        if (w->way_count == w->way_room) {
            uint32_t room = w->way_room ? w->way_room * 2 : 256;
            struct way *grown = realloc(w->way, room * sizeof(*grown));
            if (!grown) {
                w->failed = true;
                return NULL;
            }
            w->way = grown;
            w->way_room = room;
        }
        memset(&w->way[w->way_count], 0, sizeof(*w->way));
        *at = ++w->way_count;
    }
    return &w->way[*at - 1];
}

/* Fills what every node has, and moves the thread on by some work. */
static struct synth_op step(struct walk *w, uint32_t thread,
                            enum synth_kind kind)
{
    struct thread *th = &w->thread[thread];
    const struct synth_options *o = w->opt;
    struct synth_op op = {.kind = kind, .thread = thread, .index = th->nodes};
    th->nodes++;
    w->nodes++;
    op.work_ns = kind == SYNTH_START
                     ? 0
                     : o->work_min + below(w, o->work_max - o->work_min + 1);
    th->cpu += op.work_ns;
    th->est += op.work_ns;
    op.cpu = th->cpu;
    op.est = th->est;
    return op;
}

static void send_to(struct walk *w, uint32_t from, uint32_t to)
{
    struct way *way = way_of(w, from, to);
    if (!way)
        return;
    struct thread *th = &w->thread[from];
    struct synth_op op = step(w, from, SYNTH_SEND);
    op.peer = to;
    op.len = w->opt->len_min + below(w, w->opt->len_max - w->opt->len_min + 1);
    op.pos = way->pos += op.len;
    op.t = th->t + (op.cpu - SYNTH_SEND_NS - th->run);
    op.t_ret = op.t + SYNTH_SEND_NS;
    th->run = op.cpu;
    th->t = op.t_ret;
    way->queue[(way->head + way->count++) % LAG] =
        (struct message){op.index, op.len, op.pos, op.t_ret, op.est};
    w->sink(w->arg, &op);
}

static void receive(struct walk *w, uint32_t to, uint32_t from)
{
    struct way *way = way_of(w, from, to);
    if (!way)
        return;
    struct message m = way->queue[way->head];
    way->head = (way->head + 1) % LAG;
    way->count--;
    struct thread *th = &w->thread[to];
    struct synth_op op = step(w, to, SYNTH_RECV);
    if (m.est > th->est)
        op.est = th->est = m.est;
    op.peer = from;
    op.from_index = m.index;
    op.len = m.len;
    op.pos = m.pos;
    op.t = th->t + (op.cpu - th->run);
    uint64_t there = m.t_ret + SYNTH_WAY_NS + below(w, 500);
    op.t_ret = (op.t > there ? op.t : there) + SYNTH_RECV_NS;
    th->run = op.cpu + SYNTH_RECV_NS;
    th->t = op.t_ret;
    w->sink(w->arg, &op);
}

/* ---- one round of each pattern --------------------------------------- */

static void shuffle(struct walk *w, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w->order[i] = first + i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = below(w, i), swap = w->order[i - 1];
        w->order[i - 1] = w->order[k];
        w->order[k] = swap;
    }
}

static void round_pingpong(struct walk *w)
{
    for (uint32_t a = 0; a + 1 < w->opt->threads; a += 2) {
        send_to(w, a, a + 1);
        receive(w, a + 1, a);
        send_to(w, a + 1, a);
        receive(w, a, a + 1);
    }
}

static void round_ring(struct walk *w)
{
    uint32_t n = w->opt->threads;
    for (uint32_t a = 0; a < n; a++)
        send_to(w, a, (a + 1) % n);
    for (uint32_t a = 0; a < n; a++)
        receive(w, (a + 1) % n, a);
}

static void round_master(struct walk *w)
{
    uint32_t workers = w->opt->threads - 1;
    for (uint32_t a = 1; a <= workers; a++)
        send_to(w, 0, a);
    for (uint32_t a = 1; a <= workers; a++) {
        receive(w, a, 0);
        send_to(w, a, 0);
    }
    shuffle(w, 1, workers);
    for (uint32_t i = 0; i < workers; i++)
        receive(w, 0, w->order[i]);
}

static void take_due(struct walk *w, uint32_t slot)
{
    for (uint32_t i = 0; i < w->due_count[slot]; i++)
        receive(w, w->due[slot][i].to, w->due[slot][i].from);
    w->due_count[slot] = 0;
}

/* due[0] is this round's. A slot may take all threads of LAG rounds. */
static void round_random(struct walk *w)
{
    uint32_t n = w->opt->threads;
    shuffle(w, 0, n);
    for (uint32_t a = 0; a < n; a++) {
        uint32_t to = w->order[a], slot = below(w, LAG);
        if (to == a)
            continue;
        send_to(w, a, to);
        w->due[slot][w->due_count[slot]++] = (struct due){to, a};
    }
    take_due(w, 0);
    struct due *mine = w->due[0];
    for (int i = 0; i + 1 < LAG; i++) {
        w->due[i] = w->due[i + 1];
        w->due_count[i] = w->due_count[i + 1];
    }
    w->due[LAG - 1] = mine;
    w->due_count[LAG - 1] = 0;
}

static void round_all(struct walk *w)
{
    uint32_t n = w->opt->threads;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t k = 1; k < n; k++)
            send_to(w, a, (a + k) % n);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t k = 1; k < n; k++)
            receive(w, a, (a + n - k) % n);
}

/* The widest grid whose width divides the threads; no edges wrap round. */
static void round_stencil(struct walk *w)
{
    uint32_t n = w->opt->threads, width = 1;
    for (uint32_t k = 2; k * k <= n; k++)
        width = n % k == 0 ? k : width;
    for (int receives = 0; receives < 2; receives++)
        for (uint32_t a = 0; a < n; a++) {
            uint32_t x = a % width;
            uint32_t near[4] = {x > 0 ? a - 1 : a, x + 1 < width ? a + 1 : a,
                                a >= width ? a - width : a,
                                a + width < n ? a + width : a};
            for (int k = 0; k < 4; k++) {
                if (near[k] == a)
                    continue;
                if (receives)
                    receive(w, a, near[k]);
                else
                    send_to(w, a, near[k]);
            }
        }
}

static void round_pipeline(struct walk *w)
{
    uint32_t n = w->opt->threads;
    for (uint32_t a = 0; a + 1 < n; a++) {
        send_to(w, a, a + 1);
        receive(w, a + 1, a);
    }
}

static void one_round(struct walk *w)
{
    switch (w->opt->pattern) {
    case SYNTH_PINGPONG:
        round_pingpong(w);
        break;
    case SYNTH_RING:
        round_ring(w);
        break;
    case SYNTH_MASTER:
        round_master(w);
        break;
    case SYNTH_RANDOM:
        round_random(w);
        break;
    case SYNTH_ALL:
        round_all(w);
        break;
    case SYNTH_STENCIL:
        round_stencil(w);
        break;
    case SYNTH_PIPELINE:
        round_pipeline(w);
        break;
    case SYNTH_PATTERN_COUNT:
        break;
    }
}

/* ---- all -------------------------------------------------------------- */

static void begin_or_end(struct walk *w, enum synth_kind kind)
{
    for (uint32_t a = 0; a < w->opt->threads; a++) {
        struct thread *th = &w->thread[a];
        struct synth_op op = step(w, a, kind);
        if (kind == SYNTH_START)
            th->t = 1000;
        th->t += op.cpu - th->run;
        th->run = op.cpu;
        op.t = op.t_ret = th->t;
        w->sink(w->arg, &op);
    }
}

static int walk_alloc(struct walk *w, struct ips_err *err)
{
    uint32_t n = w->opt->threads;
    w->thread = calloc(n, sizeof(*w->thread));
    w->way_of = calloc((size_t)n * n, sizeof(*w->way_of));
    w->order = calloc(n, sizeof(*w->order));
    bool fine = w->thread && w->way_of && w->order;
    for (int i = 0; i < LAG; i++) {
        w->due[i] = calloc((size_t)n * LAG, sizeof(*w->due[i]));
        fine = fine && w->due[i];
    }
    return fine ? 0
                : ips_err_set(err, IPS_E_NO_MEMORY, "a run of %u threads", n);
}

int synth_walk(const struct synth_options *opt, synth_sink *sink, void *arg,
               struct ips_err *err)
{
    struct walk w = {.opt = opt, .sink = sink, .arg = arg, .rng = opt->seed};
    int rc = synth_check(opt, err);
    if (rc < 0)
        return rc;
    rc = walk_alloc(&w, err);
    if (rc == 0) {
        begin_or_end(&w, SYNTH_START);
        while (w.nodes + opt->threads < opt->nodes && !w.failed)
            one_round(&w);
        for (uint32_t slot = 0; slot < LAG; slot++)
            take_due(&w, slot);
        begin_or_end(&w, SYNTH_END);
        if (w.failed)
            rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u channels", w.way_count);
    }
    free(w.thread);
    free(w.way_of);
    free(w.way);
    free(w.order);
    for (int i = 0; i < LAG; i++)
        free(w.due[i]);
    return rc;
}
