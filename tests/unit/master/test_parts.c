/*
 * Parts add up to the whole, whatever the run: of random programs a slave is
 * asked for the whole, for windows side by side, for bins, for pieces of every
 * thread and for single waits. Would catch: time, a wait or a message at the
 * edge of a window that is in none, or in both; a figure that is cut to a
 * window in one column and not in the next; a sum over threads that is not its
 * process's, or the machine's; a path whose pieces are not as long as it is.
 * EVIDENCE-OF: IPS-3
 */
#include "ask_help.h"

#define PROGRAMS 12u
#define WINDOWS 6u

struct whole {
    struct answerer a;
    struct run run;
    struct recorder *r;
    struct answer sync, table[WINDOWS + 1]; /* the last: all of it */
    uint64_t edge[WINDOWS + 1];             /* since the first event */
    uint64_t last_ns;
    const Ips__ProcessRow *const *process;
    const Ips__ThreadRow *const *thread;
    const Ips__ChannelRow *const *channel;
    size_t processes, threads, channels;
};

static struct answer sound(struct whole *w, struct ask *k)
{
    set_generation(k, w->run.generation);
    struct answer x = answerer_ask(&w->a, &w->run.v, &k->q);
    const Ips__Reply *last = x.reply[x.count - 1];
    if (last->error)
        fail_msg("%s", last->message);
    return x;
}

/* Of a table: its pieces come one kind each. */
static const Ips__TableAnswer *kind(const struct answer *x, int which)
{
    for (uint32_t i = 0; i < x->count; i++) {
        const Ips__TableAnswer *t = x->reply[i]->table;
        if ((which == 0 && t->n_processes) || (which == 1 && t->n_threads) ||
            (which == 2 && t->n_channels))
            return t;
    }
    fail_msg("a table without rows of kind %d", which);
    return NULL;
}

/* One where a process begins, and a window of 1 ns. */
static void set_edges(struct whole *w, uint64_t life)
{
    w->edge[1] =
        kind(&w->table[WINDOWS], 0)->processes[1]->start_ns - w->run.first_ns;
    assert_true(w->edge[1] > 0 && w->edge[1] < life / 3);
    w->edge[2] = life / 3;
    w->edge[3] = w->edge[2] + 1;
    for (uint32_t i = 4; i < WINDOWS; i++)
        w->edge[i] = w->edge[i - 1] + life / (i + 2);
}

static void begin_whole(struct whole *w, struct world *world, uint64_t seed)
{
    struct ask k;
    *w = (struct whole){.r = make_run(world, seed)};
    answerer_open(&w->a);
    archived_make(&w->run.v, &w->a, w->r, "run");
    get_known(&w->a, &w->run);
    begin_ask(&k);
    make_good(&k, &w->run, SYNC);
    w->sync = sound(w, &k);
    w->last_ns = w->sync.reply[0]->sync->last_ns;
    uint64_t life = w->last_ns - w->run.first_ns;
    for (uint32_t n = 0; n <= WINDOWS; n++) { /* all of it first */
        uint32_t i = n ? n - 1 : WINDOWS;
        begin_ask(&k);
        make_good(&k, &w->run, TABLE);
        k.table.traffic = i < WINDOWS;
        k.table.from_ns = i < WINDOWS ? w->edge[i] : 0;
        k.table.to_ns = i + 1 < WINDOWS ? w->edge[i + 1] : 0;
        w->table[i] = sound(w, &k);
        if (n == 0)
            set_edges(w, life);
    }
    const struct answer *all = &w->table[WINDOWS];
    w->process = (const void *)kind(all, 0)->processes;
    w->processes = kind(all, 0)->n_processes;
    w->thread = (const void *)kind(all, 1)->threads;
    w->threads = kind(all, 1)->n_threads;
    w->channel = (const void *)kind(all, 2)->channels;
    w->channels = kind(all, 2)->n_channels;
}

static void end_whole(struct whole *w)
{
    answer_free(&w->sync);
    for (uint32_t i = 0; i <= WINDOWS; i++)
        answer_free(&w->table[i]);
    answerer_close(&w->a);
    rec_free(w->r);
}

static void add_wait(const Ips__ThreadRow *t, const char *cause, uint64_t *ns,
                     uint64_t *count)
{
    for (size_t i = 0; i < t->n_waits; i++)
        if (strcmp(t->waits[i]->cause, cause) == 0) {
            *ns += t->waits[i]->ns;
            *count += t->waits[i]->count;
        }
}

/* A life in windows side by side is the life. */
static void check_lives(const struct whole *w)
{
    for (size_t p = 0; p < w->processes; p++) {
        const Ips__ProcessRow *all = w->process[p];
        uint64_t life = 0, cpu = 0;
        for (uint32_t i = 0; i < WINDOWS; i++) {
            const Ips__ProcessRow *x = kind(&w->table[i], 0)->processes[p];
            uint64_t from = w->run.first_ns + w->edge[i];
            assert_int_equal(x->earlier, all->start_ns < from && i > 0);
            assert_true(x->cpu_ns == 0 || !x->outside);
            life += x->end_ns - x->start_ns;
            cpu += x->cpu_ns;
        }
        assert_int_equal(life, all->end_ns - all->start_ns);
        assert_int_equal(cpu, all->cpu_ns);
    }
}

static void check_threads(const struct whole *w)
{
    uint64_t cpu = 0;
    for (size_t c = 0; c < w->threads; c++) {
        const Ips__ThreadRow *all = w->thread[c];
        uint64_t life = 0, ns = 0, waits = 0, of_causes = 0;
        for (uint32_t i = 0; i < WINDOWS; i++) {
            const Ips__ThreadRow *x = kind(&w->table[i], 1)->threads[c];
            life += x->end_ns - x->start_ns;
            ns += x->cpu_ns;
            waits += x->wait_ns;
        }
        assert_int_equal(life, all->end_ns - all->start_ns);
        assert_int_equal(ns, all->cpu_ns);
        assert_int_equal(waits, all->wait_ns);
        for (size_t k = 0; k < all->n_waits; k++) {
            const Ips__WaitCause *want = all->waits[k];
            uint64_t of = 0, count = 0;
            for (uint32_t i = 0; i < WINDOWS; i++)
                add_wait(kind(&w->table[i], 1)->threads[c], want->cause, &of,
                         &count);
            assert_int_equal(of, want->ns);
            assert_int_equal(count, want->count);
            of_causes += want->ns;
        }
        assert_int_equal(of_causes, all->wait_ns);
        cpu += all->cpu_ns;
    }
    for (size_t p = 0; p < w->processes; p++)
        cpu -= w->process[p]->cpu_ns;
    assert_int_equal(cpu, 0);
}

static void check_channels(const struct whole *w)
{
    uint64_t out = 0, in = 0;
    for (size_t c = 0; c < w->channels; c++) {
        const Ips__ChannelRow *all = w->channel[c];
        uint64_t sent = 0, bytes = 0, got = 0, got_bytes = 0;
        for (uint32_t i = 0; i < WINDOWS; i++) {
            const Ips__ChannelRow *x = kind(&w->table[i], 2)->channels[c];
            assert_true(x->windowed);
            assert_int_equal(x->sent_messages_before, sent);
            assert_int_equal(x->sent_bytes_before, bytes);
            assert_int_equal(x->recv_messages, all->recv_messages);
            assert_int_equal(x->recv_bytes, all->recv_bytes);
            sent += x->sent_messages;
            bytes += x->sent_bytes;
            got += x->recv_messages_in;
            got_bytes += x->recv_bytes_in;
        }
        assert_int_equal(sent, all->sent_messages);
        assert_int_equal(bytes, all->sent_bytes);
        assert_int_equal(got, all->recv_messages);
        assert_int_equal(got_bytes, all->recv_bytes);
        out += bytes;
        in += got_bytes;
    }
    for (size_t c = 0; c < w->threads; c++) {
        out -= w->thread[c]->bytes_out;
        in -= w->thread[c]->bytes_in;
    }
    assert_true(out == 0 && in == 0);
}

/* The bins of a series, and the same of each chain piece by piece. */
static void check_series_and_pieces(struct whole *w)
{
    struct ask k;
    uint64_t cpu = 0, sent = 0, bytes = 0, waits = 0, delay = 0;
    uint64_t edge[WINDOWS + 1];
    begin_ask(&k);
    make_good(&k, &w->run, SERIES);
    for (uint32_t i = 0; i < WINDOWS; i++)
        edge[i] = w->run.first_ns + w->edge[i];
    edge[WINDOWS] = w->last_ns + 1;
    k.series.edge = edge;
    k.series.n_edge = WINDOWS + 1;
    struct answer x = sound(w, &k);
    const Ips__SeriesAnswer *s = x.reply[0]->series;
    assert_int_equal(s->n_cpu_ns, WINDOWS);
    for (uint32_t i = 0; i < WINDOWS; i++) {
        cpu += s->cpu_ns[i];
        sent += s->messages[i];
        bytes += s->bytes[i];
        waits += s->wait_ns[i];
    }
    answer_free(&x);
    for (uint32_t c = 0, first = 0; c < w->threads; c++) {
        const Ips__ThreadRow *t = w->thread[c];
        cpu -= t->cpu_ns;
        sent -= t->messages_out;
        bytes -= t->bytes_out;
        waits -= t->wait_ns;
        begin_ask(&k);
        make_good(&k, &w->run, SPLIT);
        some_arcs(&k, first, (uint32_t)t->end_node);
        first = (uint32_t)t->end_node + 1;
        x = sound(w, &k);
        assert_int_equal(x.reply[0]->split->cpu_ns, t->cpu_ns);
        delay += x.reply[0]->split->delay_ns; /* before its life as well */
        answer_free(&x);
    }
    /* Not recorded: CPU before a spawned child's first record. */
    assert_true(cpu == 0 || -cpu <= 50 * PROCS);
    assert_true(sent == 0 && bytes == 0);
    assert_int_equal(waits, 0);
    assert_true(delay && delay <= w->sync.reply[0]->sync->delay_ns);
}

static void check_single_waits(struct whole *w)
{
    struct ask k;
    uint64_t rows = 0, count = 0;
    begin_ask(&k);
    make_good(&k, &w->run, WAITS);
    struct answer x = sound(w, &k);
    uint64_t *ns = calloc(w->threads, sizeof(*ns));
    assert_non_null(ns);
    for (uint32_t i = 0; i < x.count; i++) {
        const Ips__WaitRowsAnswer *a = x.reply[i]->wait_rows;
        for (size_t n = 0; n < a->n_node; n++, rows++) {
            uint32_t c = 0;
            while (w->thread[c]->end_node < a->node[n])
                c++;
            ns[c] += a->ns[n];
        }
    }
    for (size_t c = 0; c < w->threads; c++) {
        assert_int_equal(ns[c], w->thread[c]->wait_ns);
        for (size_t i = 0; i < w->thread[c]->n_waits; i++)
            count += w->thread[c]->waits[i]->count;
    }
    assert_int_equal(rows, count);
    assert_true(rows > 10);
    free(ns);
    answer_free(&x);
}

/* All chains as a profile; the longest path as its pieces. */
static void check_profile_and_path(struct whole *w)
{
    struct ask k;
    uint64_t cpu = 0, sum = 0;
    size_t c = 0;
    begin_ask(&k);
    make_good(&k, &w->run, PROFILE);
    k.profile.n_from = k.profile.n_to = 0;
    k.profile.whole = true;
    struct answer x = sound(w, &k);
    for (uint32_t i = 0; i < x.count; i++)
        for (size_t n = 0; n < x.reply[i]->profile->n_piece_ns; n++) {
            assert_int_equal(x.reply[i]->profile->piece_ns[n],
                             w->thread[c]->cpu_ns);
            cpu += w->thread[c++]->cpu_ns;
        }
    assert_int_equal(c, w->threads);
    const Ips__ProcedureTotals *t = x.reply[x.count - 1]->profile->totals;
    assert_int_equal(t->cpu_ns, cpu);
    assert_int_equal(t->sampled_ns + t->unsampled_ns, cpu);
    assert_int_equal(t->samples, 5);
    assert_int_equal(w->sync.reply[0]->sync->cpu_ns, cpu);
    answer_free(&x);
    begin_ask(&k);
    make_good(&k, &w->run, FINISH);
    x = sound(w, &k);
    uint64_t t_max = x.reply[0]->finish->t_max_ns, best = 0;
    answer_free(&x);
    for (size_t i = 0; i < w->threads; i++) { /* to each END; one is t_max */
        begin_ask(&k);
        make_good(&k, &w->run, EXPAND);
        k.to[0] = (uint32_t)w->thread[i]->end_node;
        x = sound(w, &k);
        sum = 0;
        for (uint32_t r = 0; r < x.count; r++)
            for (size_t n = 0; n < x.reply[r]->expand->n_ns; n++)
                sum += x.reply[r]->expand->ns[n];
        best = ips_max_u64(best, sum);
        answer_free(&x);
    }
    assert_int_equal(best, t_max);
}

/* Bytes that the events of a type say moved, in a process (and a thread of it;
 * 0 all) and on a channel of that name (NULL: any). */
static uint64_t moved(const struct answer *x, const char *type,
                      const char *process, uint32_t tid, const char *channel)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < x->count; i++)
        for (size_t n = 0; n < x->reply[i]->events->n_events; n++) {
            const Ips__EventRow *e = x->reply[i]->events->events[n];
            if (strcmp(e->type, type) == 0 &&
                strcmp(e->process, process) == 0 && (!tid || e->tid == tid) &&
                (!channel || strcmp(e->channel, channel) == 0))
                sum += (uint64_t)e->bytes;
        }
    return sum;
}

/* Events are of the right process of two with equal pids, and the right channel
 * of several with equal numbers. */
static void check_events(struct whole *w)
{
    struct ask k;
    begin_ask(&k);
    make_good(&k, &w->run, EVENTS);
    k.events.limit = k.events.from_ns = 0;
    struct answer x = sound(w, &k);
    for (size_t c = 0; c < w->threads; c++) {
        const Ips__ThreadRow *t = w->thread[c];
        const char *process = w->process[t->process]->name;
        assert_int_equal(moved(&x, "send", process, t->tid, NULL),
                         t->bytes_out);
        assert_int_equal(moved(&x, "receive", process, t->tid, NULL),
                         t->bytes_in);
    }
    for (size_t c = 0; c < w->channels; c++) {
        const Ips__ChannelRow *row = w->channel[c];
        const char *process = w->process[row->process]->name;
        uint64_t out = 0, in = 0;
        if (strncmp(row->name, "unix", 4) == 0)
            continue;                            /* events say one inode */
        for (size_t d = 0; d < w->channels; d++) /* one after the other */
            if (w->channel[d]->process == row->process &&
                strcmp(w->channel[d]->name, row->name) == 0) {
                out += w->channel[d]->sent_bytes;
                in += w->channel[d]->recv_bytes;
            }
        assert_int_equal(moved(&x, "send", process, 0, row->name), out);
        assert_int_equal(moved(&x, "receive", process, 0, row->name), in);
    }
    answer_free(&x);
}

static void test_parts__of_random_programs(void **state)
{
    (void)state;
    struct world *world = malloc(sizeof(*world));
    struct whole *w = malloc(sizeof(*w));
    assert_true(world && w);
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        begin_whole(w, world, seed);
        check_lives(w);
        check_threads(w);
        check_channels(w);
        check_series_and_pieces(w);
        check_single_waits(w);
        check_profile_and_path(w);
        check_events(w);
        end_whole(w);
    }
    free(world);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts__of_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
