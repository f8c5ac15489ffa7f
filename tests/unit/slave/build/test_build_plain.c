/* Plain records in the loops made for them (slave/build/plain.h) against
 * the general way, record by record: random threads that send and receive, long
 * and short records, over more channels than are kept at hand, with all between
 * that such a loop must stop for. Would catch: a node, operation, count, cost
 * or row that the quick way makes otherwise, or leaves out, or makes twice.
 * Every other test that builds with tests/unit/help/recorder.h compares the two
 * as well. IPS_PLAIN_SEEDS=n: as many programs; a failure names its seed. */
#include <errno.h>

#include "tests/unit/help/recorder.h"

#define THREADS 6u
#define CHUNKS 40u
#define ENDS 300u

struct program {
    uint64_t seed;
    struct recorder *r;
    rs s[THREADS];
    uint64_t t[THREADS], cpu[THREADS];
    uint32_t ends, odd; /* one of so many records is not plain */
    bool delays, damaged;
    bool twice;       /* each end goes by two channels */
    bool clean;       /* no arc against the clock */
    bool calm;        /* one machine, long stretches of nothing to decide */
    bool near;        /* all ends are sockets whose other one is here, so a
                         receive may be matched when it is made */
    bool back;        /* calm: odd threads send, whose nodes are made first */
    bool on[THREADS]; /* on its core since its last long record */
    /* Of what even and odd threads sent to an end: messages, the last one's
     * return. Who receives, if nothing is damaged, does it later. */
    uint32_t sent[2][ENDS];
    uint64_t sent_t[2][ENDS];
};

static uint32_t pick(struct program *p, uint32_t n)
{
    p->seed = p->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return n ? (uint32_t)(p->seed >> 33) % n : 0;
}

/* Threads of even and odd numbers are two processes; end e of one is the peer
 * of end e of the other, or of another machine, a pipe, a socket without one.
 */
static void name_end(struct program *p, uint32_t thread, uint32_t id)
{
    uint32_t e = (id - 1) % p->ends, side = thread % 2;
    uint64_t t = p->t[thread];
    switch ((p->calm && e % 16 == 0) || p->near ? 3 : e % 16) {
    case 0:
        rec_inet(p->s[thread], id, t, IPS_CHAN_TCP, 9 + 2 * e + side,
                 0x0a000001, (uint16_t)(2000 + e), 0x0a000002,
                 (uint16_t)(3000 + 2 * e + side));
        break;
    case 1:
        rec_pipe(p->s[thread], id, t, side ? IPS_SIDE_READ : IPS_SIDE_WRITE,
                 5000 + e);
        break;
    case 2:
        rec_inet(p->s[thread], id, t, IPS_CHAN_UDP, 9 + 2 * e + side, LOOPBACK,
                 (uint16_t)(2000 + 2 * e + side), LOOPBACK,
                 (uint16_t)(2000 + 2 * e + !side));
        break;
    default:
        rec_chan(p->s[thread], id, t, IPS_CHAN_UNIX, IPS_SIDE_BOTH,
                 10 + 2 * e + side)
            ->peer_ino = 10 + 2 * e + !side;
        break;
    }
}

static void short_one(struct program *p, uint32_t i, bool send, uint32_t id)
{
    if (!p->clean && pick(p, 300) == 0) /* long after its line began */
        p->cpu[i] += 5ULL << 32, p->t[i] += 5ULL << 32;
    struct ips_rec_io_short *r =
        rec_put(p->s[i], send ? IPS_REC_SEND_SHORT : IPS_REC_RECV_SHORT,
                sizeof(*r), id, p->t[i]);
    r->took = pick(p, 900);
    r->result = p->clean || pick(p, 40) ? 20 : 0;
    if (!p->clean && pick(p, 60) == 0)
        r->h.word |= (uint32_t)pick(p, 4) << (16 + IPS_REC_F_OP);
    p->t[i] += r->took;
    p->cpu[i] += r->took;
}

static void long_one(struct program *p, uint32_t i, bool send, uint32_t id,
                     uint64_t ready)
{
    bool awake = p->calm ? pick(p, 200) : pick(p, 4);
    uint64_t asleep = awake ? 0 : pick(p, send ? 6000 : 60000);
    if (ready > p->t[i])
        asleep = ips_max_u64(asleep, ready - p->t[i]);
    uint64_t ran = 50 + pick(p, 900);
    /* Begun before the one before has returned. */
    uint64_t early = p->calm && !p->clean && pick(p, 40) == 0 ? 2000 : 0;
    early = ips_min_u64(early, p->t[i]);
    struct ips_rec_io *r =
        rec_io(p->s[i], send ? IPS_REC_SEND : IPS_REC_RECV, id, p->t[i] - early,
               p->t[i] + ran + asleep, p->cpu[i], p->cpu[i] + ran,
               send         ? 20
               : p->damaged ? 10 + pick(p, 20)
                            : 20);
    p->t[i] += ran + asleep;
    p->cpu[i] += ran;
    p->on[i] = true;
    if (pick(p, p->odd))
        return;
    switch (p->clean ? 7 : pick(p, 8)) { /* what a plain one does not have */
    case 0:
        r->op = (uint16_t)pick(p, 4);
        break;
    case 1:
        r->err = pick(p, 2) ? EAGAIN : EPIPE;
        break;
    case 2:
        r->result = (int64_t)pick(p, 3) - 1;
        break;
    case 3:
        if (p->damaged || p->s[i]->head.clock.kind == IPS_CLOCK_RAW)
            r->h.word |= IPS_REC_F_NS << 16;
        break;
    case 4: /* against the clocks */
        if (!p->damaged)
            break;
        r->t_ret = pick(p, 2) ? r->h.t - pick(p, 9) : r->t_ret / 2;
        break;
    case 5:
        if (p->damaged)
            r->cpu_ret = r->cpu / 2;
        break;
    case 6:
        if (p->damaged)
            r->result = INT64_MAX - pick(p, 2);
        break;
    default:
        r->t_ret += 5000000000ull; /* longer than its column */
        p->t[i] = r->t_ret;
        break;
    }
}

static void odd_one(struct program *p, uint32_t i, uint32_t id)
{
    static const uint16_t ops[] = {IPS_OP_EPOLL, IPS_OP_POLL,    IPS_OP_SPIN,
                                   IPS_OP_SLEEP, IPS_OP_TIMERFD, IPS_OP_DISK};
    uint64_t t = p->t[i], cpu = p->cpu[i];
    p->on[i] = false;
    struct ips_rec_signal *g;
    struct ips_rec_io *r;
    switch (pick(p, 10)) {
    case 0:
        name_end(p, i, 1 + pick(p, p->ends));
        break;
    case 1:
        if (!p->clean)
            rec_close(p->s[i], id, t, cpu,
                      (enum ips_close_how)(1 + pick(p, 3)));
        break;
    case 2:
        if (p->clean)
            break;
        g = rec_put(p->s[i], pick(p, 2) ? IPS_REC_KILL : IPS_REC_SIGNAL,
                    sizeof(*g), 10, t + pick(p, 3000));
        g->cpu = cpu;
        g->pid = pick(p, 2) ? 100 : 200;
        g->code = -6;
        break;
    case 3:
        rec_dgram(p->s[i], id, t, pick(p, 5), rec_addr(LOOPBACK, 2004),
                  rec_addr(LOOPBACK, 2005));
        break;
    case 4:
        if (p->delays)
            rec_delay(p->s[i], t, t / 50);
        break;
    case 5:
        rec_name(p->s[i], t, "it");
        break;
    case 6:
        rec_sync(p->s[i], pick(p, 2) ? IPS_REC_ACQUIRE : IPS_REC_RELEASE,
                 IPS_SYNC_EVENTFD, t, t + 200, cpu, cpu + 100, 7);
        p->t[i] += 200;
        p->cpu[i] += 100;
        break;
    default:
        r = rec_io(p->s[i], IPS_REC_BLOCK, id, t, t + 300 + pick(p, 9000), cpu,
                   cpu + 300, (int64_t)pick(p, 3));
        r->op = ops[pick(p, 6)];
        if (p->calm && r->op == IPS_OP_SPIN)
            r->op = IPS_OP_SLEEP;
        r->ready = pick(p, 2) ? id : 0;
        p->t[i] = r->t_ret;
        p->cpu[i] += 300;
        break;
    }
}

static void one_step(struct program *p, uint32_t i)
{
    uint32_t k = pick(p, p->ends), id = k + 1;
    bool send = pick(p, 2);
    if (p->calm && p->back)
        send = i % 2 == 1;
    else if (k % 16 == 1 || p->calm)
        send = i % 2 == 0;
    uint64_t work = pick(p, 2000), ready = 0;
    if (pick(p, p->odd) == 0) {
        odd_one(p, i, pick(p, 30) ? id : 0);
        return;
    }
    if (p->twice && pick(p, 2))
        id += p->ends;
    if (p->damaged && pick(p, 100) == 0)
        id = pick(p, 2) ? 0 : UINT32_MAX - pick(p, 300);
    uint32_t *sent = &p->sent[send ? i % 2 : !(i % 2)][k];
    if (!p->damaged && !send &&
        (p->near || (k % 16 != 0 && (p->clean || k % 16 != 2)))) {
        if (!*sent)
            return;
        --*sent;
        ready = p->sent_t[!(i % 2)][k];
    }
    uint64_t off = pick(p, p->calm ? 300 : 9) ? 0 : 3000;
    if (p->calm && !p->clean && pick(p, 200) == 0 && p->t[i] > 9000)
        p->t[i] -= pick(p, 9000); /* the clock steps back */
    p->t[i] += work + off;
    p->cpu[i] += work;
    p->on[i] &= !off || p->damaged;
    if (p->on[i] && pick(p, 2) && p->t[i] >= ready)
        short_one(p, i, send, id);
    else
        long_one(p, i, send, id, ready);
    if (send) {
        ++*sent;
        p->sent_t[i % 2][k] = p->t[i];
    }
}

/* Who is behind goes on. */
static uint32_t next_of(struct program *p, uint32_t threads)
{
    uint32_t next = pick(p, threads);
    for (uint32_t i = 0; i < threads && !p->damaged; i++)
        if (p->t[i] < p->t[next])
            next = i;
    return next;
}

static void make_program(struct program *p, uint64_t seed)
{
    *p = (struct program){.seed = seed * 7919 + 3, .r = rec_new()};
    uint32_t threads = 2 + pick(p, THREADS - 2), steps = 100 + pick(p, 4000);
    bool counter = pick(p, 3) == 0, shared = pick(p, 3) == 0;
    p->ends = 1 + pick(p, pick(p, 3) ? 20 : ENDS);
    p->odd = 2 + pick(p, pick(p, 3) ? 60 : 3000);
    p->damaged = pick(p, 3) == 0;
    p->twice = pick(p, 3) == 0;
    p->clean = !p->damaged && pick(p, 3);
    p->calm = pick(p, 3) == 0;
    p->delays = !p->calm && pick(p, 3) == 0;
    p->near = pick(p, 2);
    p->back = p->near && pick(p, 2);
    p->r->control.cpu_mode = pick(p, 3) ? IPS_CPU_FAST : IPS_CPU_EXACT;
    for (uint32_t i = 0; i < IPS_PROBE_FIRST && seed % 3; i++)
        p->r->control.probe_cost_ps[i] = pick(p, 300000);
    p->r->control.probe_late_ps[IPS_PROBE_COLD - IPS_PROBE_LATE] =
        pick(p, 90000);
    uint64_t mult = pick(p, 2) ? 3ULL << 31 : 0xb5a3c917;
    for (uint32_t i = 0; i < threads; i++) {
        uint32_t pid = i % 2 ? 100 : 200;
        p->s[i] = rec_stream(p->r, pid, pid + i / 2, 1);
        if (counter)
            p->s[i]->head.clock =
                (struct ips_clock){IPS_CLOCK_TSC, 0, 500, 77, mult};
        p->t[i] = 1000 + i;
        struct ips_rec_start *st = rec_start(
            p->s[i], i < 2 ? IPS_START_IMAGE : IPS_START_THREAD, p->t[i], 0);
        st->parent_image = i < 2 ? 0 : 1;
        for (uint32_t id = 1; id <= p->ends * (p->twice ? 2 : 1) && i < 2; id++)
            name_end(p, i, id);
    }
    for (uint32_t n = 0; n < steps; n++)
        one_step(p, next_of(p, shared ? threads : 2));
    for (uint32_t i = 0; i < threads && pick(p, 2); i++)
        rec_end(p->s[i], i < 2 ? IPS_END_EXIT : IPS_END_THREAD, p->t[i],
                p->cpu[i], 0);
}

/* Every stream in chunks, cut at records. */
static uint32_t cut(struct program *p, rs s, struct ips_chunk *v)
{
    uint32_t n = 0, to = 1 + pick(p, CHUNKS - 1);
    for (size_t at = 0, from = 0; at < s->len;) {
        uint32_t word;
        memcpy(&word, s->data + at, sizeof(word));
        at += (word >> 8 & 0xffu) * 8;
        if (at < s->len && (n + 1 == to || pick(p, 30)))
            continue;
        v[n++] = (struct ips_chunk){s->data + from, at - from};
        from = at;
    }
    return n;
}

static void one_program(uint64_t seed)
{
    static struct ips_chunk chunks[THREADS][CHUNKS];
    struct ips_stream_in in[THREADS] = {0};
    struct program p;
    struct ips_built a, b;
    struct ips_err err = {0};
    make_program(&p, seed);
    struct ips_build_input input = {
        .control = &p.r->control, .streams = in, .stream_count = p.r->count};
    for (uint32_t i = 0; i < p.r->count; i++) {
        memcpy(&in[i].head, &p.r->s[i].head, sizeof(in[i].head));
        in[i].chunks = chunks[i];
        in[i].chunk_count = cut(&p, &p.r->s[i], chunks[i]);
        in[i].dead = seed % 2;
    }
    int rc = ips_build(&input, &a, &err);
    input.general = true;
    if (rc < 0 || ips_build(&input, &b, &err) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    const char *what = built_differs(&a, &b);
    if (what)
        fail_msg("seed %llu: %s differs", (unsigned long long)seed, what);
    ips_built_release(&a);
    ips_built_release(&b);
    rec_free(p.r);
}

static void test_build_plain__as_general(void **state)
{
    const char *n = getenv("IPS_PLAIN_SEEDS");
    uint64_t count = n ? strtoull(n, NULL, 10) : 400;
    (void)state;
    for (uint64_t seed = 0; seed < count; seed++)
        one_program(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_plain__as_general),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
