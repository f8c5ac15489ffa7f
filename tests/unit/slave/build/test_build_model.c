/*
 * The build (slave/build/build.h) against a simulation (model_world.h): each
 * arc between threads, each wait, every sum of threads, processes, ends and
 * counts of random programs. Nothing of the truth is taken from the records.
 *
 * Would catch: a child, wait, signal or lock of the other namespace taken;
 * bytes of an earlier connection; a wait counted twice or not at all, or with
 * CPU in it; an arc too many; more CPU, waits and run delay than a thread has
 * lived; sums of parts that are not the whole. IPS_MODEL_SEEDS=n: as many
 * programs; a failure names its seed.
 */
#include "model_world.h"

static uint64_t seed_now;
static const char *const kind_name[] = {"START", "SEND", "RECV", "FORK",
                                        "JOIN",  "END",  "AUX"};
#define same(what, got, want)                                                  \
    do {                                                                       \
        uint64_t got_ = (got), want_ = (want);                                 \
        if (got_ != want_)                                                     \
            fail_msg("seed %llu: %s is %llu, not %llu",                        \
                     (unsigned long long)seed_now, what,                       \
                     (unsigned long long)got_, (unsigned long long)want_);     \
    } while (0)
#define holds(x)                                                               \
    do {                                                                       \
        if (!(x))                                                              \
            fail_msg("seed %llu: %s", (unsigned long long)seed_now, #x);       \
    } while (0)

struct found { /* of each actor */
    uint32_t chain, process;
};

static struct found find(const struct ips_built *b, uint32_t actor)
{
    uint32_t pid = 7 + process_of(actor) % 2, k = actor % THREADS;
    uint32_t tid = k ? pid * 10 + k : pid, n = 0;
    struct found f = {0};
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_proc *p = &b->procs[b->g.chains[c].process];
        if (p->pidns != 100 + space_of(actor) || p->pid != pid ||
            b->g.chains[c].tid != tid)
            continue;
        f = (struct found){c, b->g.chains[c].process};
        n++;
    }
    same("chains of one thread", n, 1);
    return f;
}

static uint32_t nth(const struct ips_built *b, uint32_t chain,
                    enum ips_node_kind kind, uint32_t n)
{
    const struct ips_chain *c = &b->g.chains[chain];
    for (uint32_t i = c->first; i < c->first + c->count; i++)
        if (b->g.kind[i] == kind && n-- == 0)
            return i;
    return IPS_NO_NODE;
}

static void check_arcs(const struct world *w, const struct ips_built *b,
                       const struct found *f)
{
    uint32_t arcs = 0;
    for (uint32_t i = 0; i < w->arcs; i++) {
        const struct arc *x = &w->arc[i];
        uint32_t node = nth(b, f[x->actor].chain, x->kind, x->node);
        holds(node != IPS_NO_NODE);
        uint32_t by = nth(b, f[x->by].chain, x->by_kind, x->by_node);
        if (b->g.xpred[node] != by || b->g.xkind[node] != x->x)
            fail_msg("seed %llu: %s %u of thread %u hangs on node %d (%d), not "
                     "on %d (%d)",
                     (unsigned long long)seed_now, kind_name[x->kind], x->node,
                     x->actor, (int)b->g.xpred[node], b->g.xkind[node], (int)by,
                     x->x);
    }
    for (uint32_t i = 0; i < b->g.node_count; i++)
        arcs += b->g.xpred[i] != IPS_NO_NODE;
    same("arcs between threads", arcs, w->arcs);
}

static void check_thread(const struct actor *a, const struct ips_built *b,
                         uint32_t chain)
{
    const struct ips_thread_row *t = &b->threads[chain];
    const struct ips_chain *c = &b->g.chains[chain];
    uint64_t waits = 0, w = 0, kinds[8] = {0};
    for (uint32_t i = c->first; i < c->first + c->count; i++) {
        w += i > c->first ? b->g.w[i] : 0;
        kinds[b->g.kind[i]]++;
    }
    for (int k = 0; k < 7; k++)
        same(kind_name[k], kinds[k], a->nodes[k]);
    for (int k = 0; k < IPS_WAIT_COUNT; k++) {
        same(ips_wait_name((enum ips_wait_cause)k), t->wait_ns[k],
             a->wait_ns[k]);
        same("waits", t->wait_count[k], a->wait_count[k]);
        waits += t->wait_ns[k];
    }
    same("cpu", t->cpu_ns, a->cpu - a->cpu0);
    same("weights", w, a->cpu - a->cpu0);
    same("start", t->start_ns, a->born);
    same("end", t->end_ns, a->end);
    same("sends", t->messages_out, a->out);
    same("bytes out", t->bytes_out, a->out_bytes);
    same("receives", t->messages_in, a->in);
    same("bytes in", t->bytes_in, a->in_bytes);
    holds(!t->open && t->woken_ns <= t->delay_ns && t->woken_ns <= waits);
    holds(t->cpu_ns + waits + (t->delay_ns - t->woken_ns) + t->unknown_ns <=
          a->end - a->born + a->early);
}

static void check_processes(const struct world *w, const struct ips_built *b,
                            const struct found *f)
{
    uint64_t cpu = 0, events = 0;
    same("processes", b->proc_count, PROCS);
    same("threads", b->g.chain_count, ACTORS);
    for (uint32_t p = 0; p < PROCS; p++) {
        const struct actor *main = &w->a[p * THREADS];
        const struct ips_proc *row = &b->procs[f[p * THREADS].process];
        uint64_t ns = 0, n = 0, out = 0, in = 0;
        for (uint32_t k = 0; k < THREADS; k++) {
            ns += main[k].cpu - main[k].cpu0;
            n += main[k].events;
            out += main[k].out_bytes;
            in += main[k].in_bytes;
            same("process", f[p * THREADS + k].process, f[p * THREADS].process);
        }
        for (uint32_t i = 0; i < b->traffic_count; i++)
            if (b->traffic[i].process == f[p * THREADS].process) {
                out -= b->traffic[i].sent_bytes;
                in -= b->traffic[i].recv_bytes;
            }
        same("bytes beside the traffic", out | in, 0);
        same("threads of it", row->chain_count, THREADS);
        same("cpu of it", row->cpu_ns, ns);
        same("events of it", row->events, n);
        same("its begin", row->start_ns, main->born);
        same("its end", row->end_ns, main->end);
        same("its rusage", row->rusage_cpu_ns, p % 2 ? ns : IPS_CPU_UNKNOWN);
        same("its parent", row->parent,
             p % 2 ? f[(p - 1) * THREADS].process : IPS_NONE);
        assert_string_equal(row->end, p % 2 ? "exit 4" : "exit 0");
        cpu += row->cpu_ns;
        events += row->events;
    }
    same("events", b->counts.events, events);
    for (uint32_t i = 0; i < b->g.chain_count; i++)
        cpu -= b->threads[i].cpu_ns;
    same("cpu of no thread", cpu, 0);
}

/* Is `e` an end of side k of channel c? */
static bool is_side(const struct world *w, uint32_t c, uint32_t k,
                    const struct ips_end *e)
{
    const struct line *x = &w->c[c];
    char name[128];
    if (x->kind == IPS_CHAN_PIPE)
        snprintf(name, sizeof(name), "pipe 13:%llu",
                 (unsigned long long)pipe_ino(c));
    else if (x->kind == IPS_CHAN_UNIX)
        snprintf(name, sizeof(name), "unix %u-%u", 600 + 2 * c + k,
                 600 + 2 * c + !k);
    else
        snprintf(name, sizeof(name), "tcp 127.0.0.1:%u-127.0.0.1:%u",
                 k ? 80 : 4000 + c, k ? 4000 + c : 80);
    return strcmp(e->name, name) == 0 &&
           (x->kind != IPS_CHAN_PIPE ||
            e->side == (k ? IPS_SIDE_READ : IPS_SIDE_WRITE));
}

/* Of each direction of each channel, all its connections together; and what
 * one end sent, the other has got or may get yet. */
static void check_ends(const struct world *w, const struct ips_built *b)
{
    uint64_t ends = 0;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        const struct line *x = &w->c[c];
        for (uint32_t k = 0; k < 2; k++) {
            uint64_t sent = 0, n = 0, got = 0, reads = 0, last = 0;
            for (uint32_t i = 0; i < b->end_count; i++) {
                const struct ips_end *e = &b->ends[i];
                if (!is_side(w, c, k, e))
                    continue;
                ends++;
                holds(e->peer == IPS_PEER_LOCAL);
                const struct ips_end *peer = &b->ends[e->peer_end];
                same("peer's peer", peer->peer_end, i);
                holds(is_side(w, c, !k, peer) && peer->ordinal == e->ordinal);
                holds(e->sent_bytes >= peer->recv_bytes);
                sent += e->sent_bytes;
                n += e->sent_messages;
                got += e->recv_bytes;
                reads += e->recv_messages;
                if (x->kind == IPS_CHAN_TCP && e->ordinal == x->generation)
                    last = e->sent_bytes;
            }
            same("sent", sent, x->dir[k].pos);
            same("messages", n, x->dir[k].messages);
            same("received", got, x->dir[!k].read);
            same("reads", reads, x->dir[!k].reads);
            if (x->kind == IPS_CHAN_TCP)
                same("of the last connection", last,
                     x->dir[k].pos - x->dir[k].from_bytes);
        }
    }
    same("ends", b->end_count, ends);
}

static bool check(struct world *w, uint64_t *shared)
{
    struct found f[ACTORS];
    struct ips_built *b = rec_build(w->r);
    uint64_t unknown = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        f[i] = find(b, i);
        check_thread(&w->a[i], b, f[i].chain);
        unknown += b->threads[f[i].chain].unknown_ns;
    }
    check_arcs(w, b, f);
    check_processes(w, b, f);
    check_ends(w, b);
    const struct ips_build_counts *n = &b->counts;
    same("unknown", n->delay_unknown_ns, unknown);
    same("unmatched", n->unmatched, 0);
    same("pending", n->pending, 0);
    same("untraced", n->untraced, 0);
    same("unattributed", n->unattributed_ns, 0);
    same("idle", n->idle, w->idle);
    same("external", n->external, w->external);
    same("any", n->order_dependent, w->any);
    same("any without a release", n->any_unmatched, 0);
    holds(!b->open);
    *shared += w->arcs;
    return true;
}

static void test_build_model__random(void **state)
{
    (void)state;
    const char *more = getenv("IPS_MODEL_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : 150, done = 0, arcs = 0;
    struct world *w = malloc(sizeof(*w));
    assert_non_null(w);
    for (seed_now = 1; seed_now <= seeds; seed_now++) {
        make_world(w, seed_now);
        if (w->arcs)
            done += check(w, &arcs);
        rec_free(w->r);
    }
    free(w);
    assert_true(done > seeds / 2 && arcs > 50 * done); /* something was seen */
}

/* Would catch: an image of another namespace taken for what an exec went on
 * with. */
static void test_build_model__exec_in_another_namespace(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    for (uint32_t space = 0; space < SPACES; space++) {
        rs s = rec_stream(r, 7, 7, 1 + space);
        s->head.pidns = 100 + space;
        rec_start(s, IPS_START_IMAGE, 1000 + 2000 * space, 0);
        if (space)
            rec_end(s, IPS_END_EXIT, 4000, 10, 0);
        else
            rec_exec(s, 2000, 10, false);
    }
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->proc_count, 2);
    rec_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_model__random),
        cmocka_unit_test(test_build_model__exec_in_another_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
