/* A build that goes on (slave/build/incremental/grow.h) against the whole build
 * of the same records: random programs of threads that send, receive in pieces,
 * wait, poll, spin, are preempted and have their run delay read, now and then
 * begin or end something, cut at random places into turns, the streams each as
 * late as they please. Would catch: a graph, table, count or EST that is not,
 * bit for bit, that of the whole build, after any turn; and a turn that reads
 * again what it has read. IPS_GROW_SEEDS=n: as many programs; a failure names
 * its seed. */
#include <errno.h>

#include "slave/build/incremental/grow.h"
#include "tests/unit/help/recorder.h"

#define THREADS_MAX 8u
#define CHANNELS_MAX 12u
#define QUEUE 64u

struct dir { /* one direction of a channel: what lies in it unread */
    uint32_t len[QUEUE];
    uint64_t at[QUEUE];
    uint32_t head, tail;
};
struct channel {
    uint32_t end[2]; /* threads; THREADS_MAX: another machine */
    struct dir dir[2];
};
struct thread {
    rs s;
    uint64_t t, cpu, queued;
    bool over;
};
struct program {
    uint64_t seed;
    struct recorder *r;
    struct thread th[THREADS_MAX];
    struct channel ch[CHANNELS_MAX];
    uint32_t threads, channels, rare; /* one of so many records; 0 never */
    uint32_t next_channel, seq;
    bool shared; /* channels that several threads use */
    /* Somebody who is not recorded sends (1) and receives (2) on channels. */
    uint32_t outsider;
};

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return n ? (uint32_t)(*seed >> 33) % n : 0;
}
static uint32_t pick(struct program *p, uint32_t n)
{
    return below(&p->seed, n);
}

/* ---- a program ---- */

static void name_channel(struct program *p, uint32_t c, uint64_t t)
{
    struct channel *x = &p->ch[c];
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t id = 2 * c + k + 1;
        if (x->end[k] == THREADS_MAX)
            continue;
        if (x->end[!k] == THREADS_MAX) {
            rec_inet(p->th[x->end[k]].s, id, t, IPS_CHAN_TCP, id, 0x0a000001,
                     (uint16_t)(2000 + id), 0x0a000002, (uint16_t)(3000 + id));
            continue;
        }
        struct ips_rec_chan *r = rec_chan(
            p->th[x->end[k]].s, id, t, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 100 + id);
        r->peer_ino = 100 + (id - 1) / 2 * 2 + (k ? 1 : 2);
    }
}

static void work(struct program *p, struct thread *th)
{
    uint64_t ns = 100 + pick(p, 3000);
    th->cpu += ns;
    th->t += pick(p, 8) ? ns : ns / 2; /* CPU times may be guesses */
    if (pick(p, 8) == 0) {             /* somebody else ran meanwhile */
        uint64_t gap = pick(p, 20000);
        th->t += gap;
        th->queued += gap / (1 + pick(p, 3));
        if (pick(p, 60) == 0)
            rec_page_faults(th->s, th->t, 1 + pick(p, 3), th->cpu);
    }
}

static struct ips_rec_io *call(struct thread *th, enum ips_rec_type type,
                               uint32_t id, uint64_t cpu, uint64_t asleep,
                               int64_t result)
{
    uint64_t ran = th->cpu % 7 ? cpu : cpu / 2; /* more CPU than time */
    if (asleep % 5 == 4) /* read when it came back, told before the call */
        rec_delay(th->s, th->t + cpu + asleep / 2, th->queued);
    struct ips_rec_io *r = rec_io(th->s, type, id, th->t, th->t + ran + asleep,
                                  th->cpu, th->cpu + cpu, result);
    th->t += ran + asleep;
    th->cpu += cpu;
    return r;
}

static void send_some(struct program *p, struct thread *th, uint32_t c,
                      uint32_t k)
{
    struct dir *d = &p->ch[c].dir[k];
    uint32_t len = 1 + pick(p, pick(p, 3) ? 500 : 9000);
    bool blocked = pick(p, 6) == 0;
    if (d->tail - d->head == QUEUE)
        return;
    uint64_t t = th->t;
    if (!(p->outsider & 1) || pick(p, 20))
        call(th, IPS_REC_SEND, 2 * c + k + 1, 100 + pick(p, 400),
             blocked ? 1000 + pick(p, 80000) : 0, len);
    d->len[d->tail % QUEUE] = len;
    d->at[d->tail++ % QUEUE] =
        t + pick(p, 2) * 100 + pick(p, (uint32_t)(th->t - t));
}

/* Some of what lies there, or will: it waits for that. */
static void receive_some(struct program *p, struct thread *th, uint32_t c,
                         uint32_t k)
{
    struct dir *d = &p->ch[c].dir[!k];
    bool far = p->ch[c].end[!k] == THREADS_MAX;
    uint32_t id = 2 * c + k + 1, len = 1 + pick(p, 700), how = pick(p, 6);
    uint64_t at = th->t + pick(p, 3) * pick(p, 40000);
    if (!far) {
        if (d->head == d->tail)
            return;
        at = d->at[d->head % QUEUE];
        len = 0;
        for (uint32_t n = 1 + pick(p, 3); n && d->head < d->tail; n--) {
            if (d->at[d->head % QUEUE] > at && d->at[d->head % QUEUE] > th->t)
                break;
            uint32_t part = d->len[d->head % QUEUE];
            if (pick(p, 3) == 0) {
                part = 1 + pick(p, part);
                n = 1;
            }
            len += part;
            d->len[d->head % QUEUE] -= part;
            if (!d->len[d->head % QUEUE])
                d->head++;
        }
    }
    uint64_t asleep = at > th->t ? at - th->t : 0;
    if (p->outsider & 2 && pick(p, 20) == 0)
        return;
    if (how == 0) { /* a poll waits, and the receive does not */
        call(th, IPS_REC_BLOCK, 0, 300, asleep, 1 + pick(p, 2))->op =
            IPS_OP_EPOLL;
        asleep = 0;
        th->cpu += 100;
        th->t += 100;
    } else if (how == 1 && asleep > 500) {
        call(th, IPS_REC_BLOCK, id, asleep - 200, 200, 0)->op = IPS_OP_SPIN;
        asleep = 0;
    } else if (how == 2 && asleep > 500) { /* tries, and naps between */
        call(th, IPS_REC_RECVCALL, id, 100, 0, -1)->err = EAGAIN;
        call(th, IPS_REC_BLOCK, 0, 50, asleep / 2, 0)->op = IPS_OP_SLEEP;
        call(th, IPS_REC_BLOCK, 0, 50, asleep / 2, 0)->op = IPS_OP_POLL;
        asleep = 0;
    }
    call(th, IPS_REC_RECV, id, 100 + pick(p, 300), asleep, len);
}

static void other(struct program *p, struct thread *th)
{
    static const uint16_t ops[] = {IPS_OP_SLEEP, IPS_OP_DISK,
                                   IPS_OP_POLL,  IPS_OP_TIMERFD,
                                   IPS_OP_OTHER, IPS_OP_TERMINAL};
    struct ips_rec_io *r;
    switch (pick(p, 6)) {
    case 0:
        rec_delay(th->s, th->t, th->queued);
        break;
    case 1:
        rec_guessed(th->s, th->t, (uint32_t)th->s->len, th->cpu / 2,
                    th->cpu / 9, 70);
        break;
    case 2:
        r = call(th, IPS_REC_RECVCALL, 1, 100, pick(p, 2) * 5000, -1);
        r->err = EAGAIN;
        break;
    case 3: /* makes or removes a file */
        rec_sync(th->s, IPS_REC_RELEASE, IPS_SYNC_WATCH, th->t, th->t + 50,
                 th->cpu, th->cpu + 50, 1 + pick(p, 3));
        th->t += 50;
        th->cpu += 50;
        break;
    default:
        r = call(th, IPS_REC_BLOCK, 0, 200, pick(p, 30000), pick(p, 2));
        r->op = ops[pick(p, 6)];
        break;
    }
}

static void begin_thread(struct program *p, uint32_t i, struct thread *by)
{
    struct thread *th = &p->th[i];
    uint32_t process = i % 2 ? 100 : 200;
    th->s = rec_stream(p->r, process, process + i / 2, 1);
    th->t = by ? by->t + 500 : 1000 + i;
    bool main = i < 2;
    struct ips_rec_start *st =
        rec_start(th->s, main ? IPS_START_ROOT : IPS_START_THREAD, th->t, 0);
    st->parent_image = main ? 0 : 1;
    if (by) {
        rec_fork(by->s, IPS_FORK_THREAD, by->t, by->t + 900, by->cpu,
                 by->cpu + 800, 0, i);
        by->t += 900;
        by->cpu += 800;
        st->fork_seq = i;
    }
}

/* What names, begins, ends, or decides for the past. */
static void rare(struct program *p, struct thread *th, uint32_t i)
{
    struct ips_rec_sync *r;
    switch (pick(p, 6)) {
    case 0:
        if (i > 1 && p->threads > 3 && pick(p, 3) == 0) {
            rec_end(th->s, IPS_END_THREAD, th->t, th->cpu, 0);
            th->over = true;
        }
        break;
    case 1:
        if (p->next_channel < p->channels)
            name_channel(p, p->next_channel++, th->t);
        break;
    case 2:
        rec_sync(th->s, IPS_REC_RELEASE, IPS_SYNC_MUTEX, th->t, th->t + 50,
                 th->cpu, th->cpu + 50, 7);
        break;
    case 3:
    case 4: /* a lock; a read of a watched directory */
        r = pick(p, 2) ? rec_sync(th->s, IPS_REC_ACQUIRE, IPS_SYNC_MUTEX, th->t,
                                  th->t + 9000, th->cpu, th->cpu + 100, 7)
                       : rec_sync(th->s, IPS_REC_ACQUIRE, IPS_SYNC_WATCH, th->t,
                                  th->t + 9000, th->cpu, th->cpu + 100,
                                  1 + pick(p, 3));
        r->value = 0;
        th->t += 9000;
        th->cpu += 100;
        break;
    default:
        if (p->threads < THREADS_MAX && p->seq++ % 4 == 0)
            begin_thread(p, p->threads++, th);
        break;
    }
}

static void one_step(struct program *p)
{
    uint32_t i = IPS_NONE;
    for (uint32_t k = 0; k < p->threads; k++)
        if (!p->th[k].over && (i == IPS_NONE || p->th[k].t < p->th[i].t))
            i = k;
    struct thread *th = &p->th[i];
    work(p, th);
    if (p->rare && pick(p, p->rare) == 0) {
        rare(p, th, i);
        return;
    }
    if (pick(p, 6) == 0) {
        other(p, th);
        return;
    }
    uint32_t c = pick(p, p->next_channel), k = pick(p, 2);
    uint32_t of = p->ch[c].end[k];
    if (of != i &&
        !(p->shared && c == 0 && of != THREADS_MAX && of % 2 == i % 2))
        return;
    if (pick(p, 2))
        send_some(p, th, c, k);
    else
        receive_some(p, th, c, k);
}

static void make_program(struct program *p, uint64_t seed, uint32_t steps)
{
    *p = (struct program){.seed = seed * 7919 + 1, .r = rec_new()};
    p->threads = 2 + pick(p, THREADS_MAX - 2);
    p->channels = 2 + pick(p, CHANNELS_MAX - 2);
    p->rare = pick(p, 2) ? 0 : 100 + pick(p, 1500);
    p->shared = pick(p, 5) == 0;
    p->next_channel = p->rare ? 1 + pick(p, p->channels) : p->channels;
    memcpy(p->r->control.boot_id, "boot", 4);
    p->r->control.cpu_mode = IPS_CPU_FAST;
    for (uint32_t i = 0; i < IPS_PROBE_COUNT && pick(p, 3); i++)
        p->r->control.probe_cost_ps[i] = pick(p, 300000);
    p->r->control.probe_late_ps[IPS_PROBE_COLD - IPS_PROBE_LATE] =
        pick(p, 90000);
    for (uint32_t i = 0; i < p->threads; i++)
        begin_thread(p, i, NULL);
    for (uint32_t c = 0; c < p->channels; c++) {
        p->ch[c].end[0] = pick(p, p->threads);
        p->ch[c].end[1] =
            (p->ch[c].end[0] + 1 + pick(p, p->threads - 1)) % p->threads;
        if (pick(p, 4) == 0)
            p->ch[c].end[1] = THREADS_MAX;
        if (c < p->next_channel)
            name_channel(p, c, 2000);
    }
    if (seed % 4 == 3) {
        struct thread *th = &p->th[0];
        p->outsider = 1 + (uint32_t)(seed / 4 % 3);
        rec_fork(th->s, IPS_FORK_SPAWN, th->t, th->t + 900, th->cpu,
                 th->cpu + 800, 999, 999);
        th->t += 900;
        th->cpu += 800;
    }
    for (uint32_t n = 0; n < steps; n++)
        one_step(p);
}

/* ---- the comparison ---- */

static const char *est_differs(const struct ips_built *a,
                               const struct ips_built *b)
{
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    struct ips_est x, y;
    struct ips_err err;
    int rc = ips_longest_path_compute_ests(&a->g, &lane, NULL, &x, &err);
    if (rc != ips_longest_path_compute_ests(&b->g, &lane, NULL, &y, &err))
        return "rc of the path";
    if (rc < 0)
        return NULL;
    bool same = x.t_max == y.t_max && x.end == y.end && x.total == y.total &&
                (a->g.node_count == 0 ||
                 memcmp(x.est, y.est, a->g.node_count * sizeof(*x.est)) == 0);
    ips_est_release(&x);
    ips_est_release(&y);
    return same ? NULL : "EST";
}

/* The same after the master has said who the peers are. */
static const char *peers_differ(struct ips_built *a, struct ips_built *b,
                                uint64_t *seed)
{
    struct ips_peer_row rows[64];
    struct ips_err err;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->end_count && n < 64; i++)
        if (a->ends[i].peer == IPS_PEER_UNKNOWN && below(seed, 3))
            rows[n++] =
                (struct ips_peer_row){.end = i,
                                      .traced = below(seed, 2),
                                      .peer_sent_bytes = below(seed, 20000)};
    if (ips_built_set_peers_and_remake_arcs(a, rows, n, &err) < 0 ||
        ips_built_set_peers_and_remake_arcs(b, rows, n, &err) < 0)
        return "peers";
    return built_differs(a, b);
}

/* ---- turns ---- */

struct turns {
    struct recorder *r;
    uint64_t seed, lag_ns;
    struct b_incremental *kept;
    size_t at[REC_STREAMS]; /* bytes of each stream that are there */
    struct ips_chunk chunks[REC_STREAMS][64];
    uint32_t count[REC_STREAMS], before[REC_STREAMS]; /* ... this turn */
    uint64_t fresh;                                   /* records of this turn */
    bool tables;                                      /* alone */
    uint32_t whole, further;                          /* turns */
};

static void add_records(struct turns *t, uint32_t i, uint64_t until)
{
    rs s = &t->r->s[i];
    size_t from = t->at[i];
    t->before[i] = t->count[i];
    while (t->at[i] < s->len) {
        struct ips_rec_head h;
        memcpy(&h, s->data + t->at[i], sizeof(h));
        if (h.t > until || (until != UINT64_MAX && !below(&t->seed, 2000)))
            break;
        t->at[i] += (h.word >> 8 & 0xffu) * 8;
        t->fresh++;
    }
    if (t->at[i] > from)
        t->chunks[i][t->count[i]++] =
            (struct ips_chunk){s->data + from, t->at[i] - from};
}

/* All records that are there, or those alone that came now. */
static struct ips_build_input input_of(struct turns *t,
                                       struct ips_stream_in *in, bool fresh)
{
    struct ips_build_input input = {.control = &t->r->control, .streams = in};
    for (uint32_t i = 0; i < t->r->count; i++) {
        if (!t->count[i])
            continue;
        struct ips_stream_in *s = &in[input.stream_count++];
        uint32_t from = fresh ? t->before[i] : 0;
        memcpy(&s->head, &t->r->s[i].head, sizeof(s->head));
        s->chunks = t->chunks[i] + from;
        s->chunk_count = t->count[i] - from;
        s->dead = t->r->s[i].dead;
    }
    return input;
}

static const char *tables_differ(const struct ips_built *a,
                                 const struct ips_built *b)
{
    if (a->proc_count != b->proc_count || a->end_count != b->end_count ||
        a->traffic_count != b->traffic_count ||
        a->g.chain_count != b->g.chain_count)
        return "rows";
#define ALL(v, count)                                                          \
    if (count && memcmp(a->v, b->v, (count) * sizeof(*a->v)) != 0)             \
    return #v
    ALL(procs, a->proc_count);
    ALL(threads, a->g.chain_count);
    ALL(ends, a->end_count);
    ALL(traffic, a->traffic_count);
#undef ALL
    return a->first_ns == b->first_ns ? NULL : "first_ns";
}

/* Tables alone. What is read is a copy, which goes: nobody looks at it later.
 */
static const char *one_turn_of_tables(struct turns *t,
                                      struct ips_build_effort *took)
{
    struct ips_stream_in in[REC_STREAMS] = {0}, all[REC_STREAMS] = {0};
    struct ips_build_input input = input_of(t, in, t->kept != NULL);
    const struct ips_build_input whole = input_of(t, all, false);
    struct ips_chunk copies[REC_STREAMS][64];
    struct ips_built b;
    struct ips_err err = {0};
    bool done = true;
    for (uint32_t i = 0; i < input.stream_count; i++) {
        for (uint32_t n = 0; n < in[i].chunk_count; n++) {
            size_t len = in[i].chunks[n].len;
            uint8_t *copy = malloc(len);
            assert_non_null(copy);
            memcpy(copy, in[i].chunks[n].data, len);
            copies[i][n] = (struct ips_chunk){copy, len};
        }
        in[i].chunks = copies[i];
    }
    bool further = t->kept != NULL;
    int rc = further ? ips_add_new_records_to_tables(&t->kept, &input, took,
                                                     &done, &err)
                     : ips_build_tables_of_whole_run(&t->kept, &input,
                                                     t->lag_ns, took, &err);
    for (uint32_t i = 0; i < input.stream_count; i++)
        for (uint32_t n = 0; n < in[i].chunk_count; n++)
            free((void *)(uintptr_t)copies[i][n].data);
    if (rc < 0 || (further && done != (t->kept != NULL)))
        return "return code";
    const char *what = NULL;
    if (t->kept) {
        if (ips_build(&whole, &b, &err) < 0)
            return "return code of the whole build";
        what = tables_differ(ips_get_incremental_tables(t->kept), &b);
        if (!what && further && took->records != t->fresh)
            what = "records read";
        ips_built_release(&b);
    }
    t->whole += !further;
    t->further += further && done;
    t->fresh = 0;
    return what;
}

static const char *one_turn(struct turns *t, struct ips_build_effort *took)
{
    struct ips_stream_in in[REC_STREAMS] = {0};
    struct ips_build_input input = input_of(t, in, false);
    struct ips_built a, b;
    struct ips_err err = {0};
    int rc = ips_build_new_records_or_whole_run(&t->kept, &input, t->lag_ns, &a,
                                                took, &err);
    int other = ips_build(&input, &b, &err);
    if (rc < 0 || other < 0)
        return rc == other ? NULL : "return codes";
    const char *what = built_differs(&a, &b);
    if (!what)
        what = est_differs(&a, &b);
    if (!what)
        what = peers_differ(&a, &b, &t->seed);
    if (!what && !took->whole && took->records != t->fresh)
        what = "records read";
    t->whole += took->whole;
    t->further += !took->whole;
    t->fresh = 0;
    ips_built_release(&a);
    ips_built_release(&b);
    return what;
}

static uint64_t last_t(const struct recorder *r)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < r->count; i++)
        for (size_t at = 0; at < r->s[i].len;) {
            struct ips_rec_head h;
            memcpy(&h, r->s[i].data + at, sizeof(h));
            last = ips_max_u64(last, h.t);
            at += (h.word >> 8 & 0xffu) * 8;
        }
    return last;
}

static void one_program(uint64_t seed, bool tables, uint32_t *whole,
                        uint32_t *further)
{
    static const uint64_t lags[] = {0, 1000, 20000, 300000, 5000000};
    struct program p;
    struct turns t = {.seed = seed, .tables = tables};
    make_program(&p, seed, 200 + below(&t.seed, 4000));
    t.r = p.r;
    t.lag_ns = lags[below(&t.seed, 5)];
    uint64_t end = last_t(p.r);
    uint32_t turns = 2 + below(&t.seed, 30);
    for (uint32_t k = 1; k <= turns + 1; k++) {
        struct ips_build_effort took;
        p.r->control.used_bytes += 2; /* counted on while a run goes on */
        p.r->control.spare_bytes += 3;
        p.r->control.released_bytes += 1;
        for (uint32_t i = 0; i < p.r->count; i++) {
            uint64_t late = below(&t.seed, 3) ? 0 : below(&t.seed, 200000);
            add_records(&t, i,
                        k > turns ? UINT64_MAX
                                  : ips_sub_sat(end * k / turns, late));
        }
        for (uint32_t i = 0; k > turns && i < p.r->count; i++)
            p.r->s[i].dead = seed % 2;
        const char *what =
            tables ? one_turn_of_tables(&t, &took) : one_turn(&t, &took);
        if (what)
            fail_msg("seed %llu, turn %u of %u, lag %llu: %s differs",
                     (unsigned long long)seed, k, turns,
                     (unsigned long long)t.lag_ns, what);
    }
    *whole += t.whole;
    *further += t.further;
    ips_build_incremental_free(t.kept);
    rec_free(p.r);
}

static void all_programs(bool tables)
{
    const char *n = getenv("IPS_GROW_SEEDS"), *first = getenv("IPS_GROW_SEED");
    uint64_t from = first ? strtoull(first, NULL, 10) : 0;
    uint64_t count = n ? strtoull(n, NULL, 10) : first ? 1 : 150;
    uint32_t whole = 0, further = 0;
    for (uint64_t seed = from; seed < from + count; seed++)
        one_program(seed, tables, &whole, &further);
    print_message("%u turns whole, %u with what came alone\n", whole, further);
    if (!first)
        assert_true(further > count); /* the input is fixed */
}

/* Would catch, too: that what a pool counts ends what goes on. */
static void test_build_grow__as_whole(void **state)
{
    (void)state;
    all_programs(false);
}

/* Would catch: a row that is not that of the whole build, or a record looked
 * at after it was read, where what is final goes. */
static void test_build_grow__tables_as_whole(void **state)
{
    (void)state;
    all_programs(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_grow__as_whole),
        cmocka_unit_test(test_build_grow__tables_as_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
