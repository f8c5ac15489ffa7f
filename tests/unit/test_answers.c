/*
 * A slave's answers do not depend on what it was asked before. Some runs are
 * asked about in any order, with refused and impossible questions in between,
 * while their graphs come from records, from memory and from files, and are
 * dropped because there are too many of them, or too little memory. Each answer
 * must be, byte for byte, that of a slave that was just started.
 *
 * Would catch: a refused question that changes what comes after it, or that is
 * answered as if it were none; a graph from a file that is another one; an
 * answer about a graph that is gone; a graph that is dropped while a question
 * needs it, or never.
 */
#include <sys/syscall.h>
#include <time.h>

#include "answer_help.h"
#include "model_world.h"

#define RUNS 11u /* more than SLAVE_GRAPHS_MAX */
#define SKIP " id generation memory_limit memory_bytes file_bytes records_read "

/* The clock that graphs are kept by. */
static uint64_t later_ns;
int clock_gettime(clockid_t id, struct timespec *t);
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && id == CLOCK_MONOTONIC)
        t->tv_sec += (time_t)(later_ns / 1000000000u);
    return rc;
}

/* ---- what is asked ---- */

enum what {
    SYNC,
    TABLE,
    WINDOW,
    ENDS,
    REDUCE,
    MOMENTS,
    FINISH,
    EXPAND,
    SUBGRAPH,
    SPLIT,
    PROCEDURES,
    PROFILE,
    PORTIONS,
    WAITS,
    SQL,
    SERIES,
    EVENTS,
    GOOD, /* how many */
    /* must be refused */
    STALE = GOOD,
    EMPTY_WINDOW,
    NO_END,
    NO_VALUES,
    NO_NODE,
    NO_ARC,
    NO_PIECE,
    NO_BINS,
    NO_TIME,
    NO_SQL,
    ALL
};

struct ask {
    Ips__Request q;
    Ips__SyncAsk sync;
    Ips__TableAsk table;
    Ips__EndsAsk ends;
    Ips__PeersAsk peers;
    Ips__Peer peer[16], *peer_at[16];
    Ips__ReduceAsk reduce;
    Ips__FinishAsk finish;
    Ips__ExpandAsk expand;
    Ips__SubgraphAsk subgraph;
    Ips__SplitAsk split;
    Ips__ProceduresAsk procedures;
    Ips__ProfileAsk profile;
    Ips__PortionsAsk portions;
    Ips__WaitRowsAsk waits;
    Ips__SqlAsk sql;
    Ips__SeriesAsk series;
    Ips__EventsAsk events;
    Ips__Lane lane;
    uint32_t from[1], to[1];
    uint64_t edge[3], first_ns;
    char text[64], by[16], process[16];
};

/* As the one of this slave was last called; nodes of it. */
struct run {
    struct archived v;
    uint64_t generation, first_ns;
    uint32_t nodes;
    bool known; /* Sync and Peers were asked */
};

#define TAKE(name, NAME)                                                       \
    (k->q.ask_case = IPS__REQUEST__ASK_##NAME, k->q.name = &k->name)

static void begin_ask(struct ask *k)
{
    memset(k, 0, sizeof(*k));
    ips__request__init(&k->q);
    ips__sync_ask__init(&k->sync);
    ips__table_ask__init(&k->table);
    ips__ends_ask__init(&k->ends);
    ips__peers_ask__init(&k->peers);
    ips__reduce_ask__init(&k->reduce);
    ips__finish_ask__init(&k->finish);
    ips__expand_ask__init(&k->expand);
    ips__subgraph_ask__init(&k->subgraph);
    ips__split_ask__init(&k->split);
    ips__procedures_ask__init(&k->procedures);
    ips__profile_ask__init(&k->profile);
    ips__portions_ask__init(&k->portions);
    ips__wait_rows_ask__init(&k->waits);
    ips__sql_ask__init(&k->sql);
    ips__series_ask__init(&k->series);
    ips__events_ask__init(&k->events);
    ips__lane__init(&k->lane);
    k->lane.scale_num = k->lane.scale_den = 1;
    k->lane.mtime_base_ns = 5;
    snprintf(k->by, sizeof(k->by), "procedure");
    snprintf(k->process, sizeof(k->process), "process");
    k->portions.lane = k->subgraph.lane = k->finish.lane = k->reduce.lane =
        &k->lane;
}

/* Nodes of the middle of the run's first chain: the arcs between. */
static void some_arcs(struct ask *k, uint32_t from, uint32_t to)
{
    k->from[0] = from;
    k->to[0] = to;
    k->split.from = k->expand.from = k->profile.from = k->from;
    k->split.to = k->expand.to = k->profile.to = k->to;
    k->split.n_from = k->expand.n_from = k->profile.n_from = 1;
    k->split.n_to = k->expand.n_to = k->profile.n_to = 1;
}

static void make_good(struct ask *k, const struct run *r, enum what what)
{
    some_arcs(k, 1, 4);
    if (what == SYNC) {
        TAKE(sync, SYNC);
    } else if (what == TABLE || what == WINDOW) {
        TAKE(table, TABLE);
        k->table.from_ns = what == WINDOW ? 20000 : 0;
        k->table.to_ns = what == WINDOW ? 90000 : 0;
        k->table.traffic = what == WINDOW;
    } else if (what == ENDS) {
        TAKE(ends, ENDS);
    } else if (what == REDUCE || what == MOMENTS) {
        TAKE(reduce, REDUCE);
        k->reduce.detail = what == MOMENTS;
    } else if (what == FINISH) {
        TAKE(finish, FINISH);
    } else if (what == EXPAND) {
        TAKE(expand, EXPAND);
        k->from[0] = UINT32_MAX;
        k->to[0] = r->nodes - 1;
    } else if (what == SUBGRAPH) {
        TAKE(subgraph, SUBGRAPH);
        k->subgraph.detail = k->subgraph.probe = true;
        k->lane.weighting = IPS_WEIGH_WALL;
    } else if (what == SPLIT) {
        TAKE(split, SPLIT);
    } else if (what == PROCEDURES) {
        TAKE(procedures, PROCEDURES);
        k->procedures.by = k->process;
    } else if (what == PROFILE) {
        TAKE(profile, PROFILE);
        k->profile.by = k->by;
        k->profile.steps = true;
    } else if (what == PORTIONS) {
        TAKE(portions, PORTIONS);
    } else if (what == WAITS) {
        k->q.ask_case = IPS__REQUEST__ASK_WAIT_ROWS;
        k->q.wait_rows = &k->waits;
    } else if (what == SQL) {
        TAKE(sql, SQL);
        k->sql.text = k->text;
        k->sql.rows = 50;
        k->sql.time_ns = UINT64_MAX;
        snprintf(k->text, sizeof(k->text), "SELECT * FROM threads");
    } else if (what == SERIES) {
        TAKE(series, SERIES);
        for (uint32_t i = 0; i < 3; i++)
            k->edge[i] = r->first_ns + 40000 * (uint64_t)i;
        k->series.edge = k->edge;
        k->series.n_edge = 3;
        k->series.tops = 2;
    } else {
        TAKE(events, EVENTS);
        k->events.limit = 300;
        k->events.from_ns = 10000;
    }
}

/* The code that it is refused with. */
static int make_bad(struct ask *k, const struct run *r, enum what what,
                    uint32_t which)
{
    static const enum what with_generation[] = {
        REDUCE,   FINISH, EXPAND, SUBGRAPH, SPLIT,
        PORTIONS, SERIES, WAITS,  PROFILE,  PROCEDURES};
    if (what == STALE) {
        make_good(k, r, with_generation[which % 10]);
        return IPS_E_BUSY;
    }
    if (what == EMPTY_WINDOW) {
        make_good(k, r, WINDOW);
        k->table.from_ns = k->table.to_ns;
    } else if (what == NO_END) {
        TAKE(peers, PEERS);
        ips__peer__init(&k->peer[0]);
        k->peer_at[0] = &k->peer[0];
        k->peer[0].end = 100000;
        k->peers.peers = k->peer_at;
        k->peers.n_peers = 1;
    } else if (what == NO_VALUES) {
        make_good(k, r, FINISH);
        k->finish.value_count = 3;
    } else if (what == NO_NODE) {
        make_good(k, r, EXPAND);
        k->to[0] = r->nodes;
    } else if (what == NO_ARC) {
        make_good(k, r, SPLIT);
        k->to[0] = r->nodes;
    } else if (what == NO_PIECE) {
        make_good(k, r, PROFILE);
        k->from[0] = r->nodes - 1;
        k->to[0] = 1;
    } else if (what == NO_BINS) {
        make_good(k, r, SERIES);
        k->edge[1] = k->edge[2];
    } else if (what == NO_TIME) {
        make_good(k, r, PROCEDURES);
        k->procedures.from_ns = k->procedures.to_ns = 7;
    } else {
        make_good(k, r, SQL);
        snprintf(k->text, sizeof(k->text), "SELECT x FROM nowhere");
        return 0;
    }
    return IPS_E_PROTOCOL;
}

static void set_generation(struct ask *k, uint64_t generation)
{
    k->peers.generation = k->reduce.generation = k->finish.generation =
        k->expand.generation = k->subgraph.generation = k->split.generation =
            k->procedures.generation = k->profile.generation =
                k->portions.generation = k->waits.generation =
                    k->series.generation = generation;
}

/* ---- asking ---- */

static int put_ask(struct answerer *a, struct run *r, struct ask *k,
                   struct answer_text *t)
{
    struct answer x = answerer_ask(a, &r->v, &k->q);
    int error = x.reply[x.count - 1]->error;
    if (error)
        assert_true(x.reply[x.count - 1]->message[0] != '\0');
    for (uint32_t i = 0; t && i < x.count; i++)
        answer_dump(t, &x.reply[i]->base, SKIP);
    answer_free(&x);
    return error;
}

/* What the master asks first: Sync, Ends, and says who the peers are. */
static void get_known(struct answerer *a, struct run *r)
{
    struct ask k;
    begin_ask(&k);
    make_good(&k, r, SYNC);
    struct answer x = answerer_ask(a, &r->v, &k.q);
    assert_int_equal(x.reply[0]->error, 0);
    r->generation = x.reply[0]->sync->generation;
    r->first_ns = x.reply[0]->sync->first_ns;
    r->nodes = (uint32_t)x.reply[0]->sync->nodes;
    answer_free(&x);
    make_good(&k, r, ENDS);
    x = answerer_ask(a, &r->v, &k.q);
    size_t n = x.reply[0]->ends->n_ends;
    assert_true(n >= 1 && n <= 16);
    for (size_t i = 0; i < n; i++) {
        ips__peer__init(&k.peer[i]);
        k.peer[i].end = x.reply[0]->ends->ends[i]->index;
        k.peer_at[i] = &k.peer[i];
    }
    answer_free(&x);
    k.q.ask_case = IPS__REQUEST__ASK_PEERS;
    k.q.peers = &k.peers;
    k.peers.peers = k.peer_at;
    k.peers.n_peers = n;
    set_generation(&k, r->generation);
    assert_int_equal(put_ask(a, r, &k, NULL), 0);
    r->known = true;
}

/* Asked as the master does: again from the start, where the graph is gone. */
static unsigned good(struct answerer *a, struct run *r, enum what what,
                     struct answer_text *t)
{
    unsigned again = 0;
    for (;;) {
        struct ask k;
        if (!r->known)
            get_known(a, r);
        t->len = 0;
        int error = 0;
        if (what == EXPAND) { /* of what the last FINISH found */
            begin_ask(&k);
            make_good(&k, r, FINISH);
            set_generation(&k, r->generation);
            error = put_ask(a, r, &k, NULL);
        }
        begin_ask(&k);
        make_good(&k, r, what);
        set_generation(&k, r->generation);
        error = error ? error : put_ask(a, r, &k, t);
        if (!error)
            return again;
        if (error != IPS_E_BUSY || again++)
            fail_msg("question %d: error %d: %s", what, error, t->v);
        r->known = false;
    }
}

static void bad(struct answerer *a, struct run *r, enum what what,
                uint32_t which)
{
    struct answer_text *t = calloc(1, sizeof(*t));
    struct ask k;
    assert_non_null(t);
    if (!r->known)
        get_known(a, r);
    begin_ask(&k);
    int want = make_bad(&k, r, what, which);
    set_generation(&k, r->generation + (what == STALE ? 1000000 : 0));
    int error = put_ask(a, r, &k, t);
    if (error != want && error != IPS_E_BUSY)
        fail_msg("question %d (%u): error %d, not %d", what, which, error,
                 want);
    if (what == NO_SQL)
        if (!strstr(t->v, "nowhere"))
            fail_msg("error %d: %s", error, t->v);
    free(t);
    if (error == IPS_E_BUSY && what != STALE)
        r->known = false;
}

/* ---- runs ---- */

/* A world, and a process that talks with who was not traced, and has code. */
static struct recorder *make_run(struct world *w, uint64_t seed)
{
    make_world(w, seed);
    rs s = rec_stream(w->r, 9, 9, 1);
    uint64_t address = 0x400000;
    rec_start(s, IPS_START_IMAGE, 500, 0);
    rec_inet(s, 1, 600, IPS_CHAN_TCP, 9999, 0x0a000001, 4000, 0x0a000002, 80)
        ->flags = IPS_CHAN_CONNECTED;
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t t = 1000 + 20000 * i, cpu = 100 + 5000 * i;
        rec_io(s, IPS_REC_SEND, 1, t, t + 50, cpu, cpu + 50, 30 + (int64_t)i)
            ->site = 0x400100 + 16 * i;
        rec_io(s, IPS_REC_RECV, 1, t + 1000, t + 9000 + seed, cpu + 100,
               cpu + 200, 10);
        struct ips_rec_sample *p =
            rec_put(s, IPS_REC_SAMPLE, sizeof(*p) + 8, 1, t + 9500 + seed);
        p->cpu = cpu + 700;
        p->period_ns = 1000;
        memcpy(p->frames, &address, sizeof(address));
        address += 0x1000 * (i % 3);
    }
    rec_end(s, IPS_END_EXIT, 200000, 30000, 0);
    return w->r;
}

struct scene {
    struct answerer a;
    struct run run[RUNS];
    struct recorder *r[RUNS];
    char *want[RUNS][GOOD];
    struct answer_text text;
};

static struct scene *begin_scene(void)
{
    struct scene *s = calloc(1, sizeof(*s));
    struct world *w = malloc(sizeof(*w));
    struct answerer fresh;
    char name[16];
    assert_true(s && w);
    answerer_open(&s->a);
    for (uint32_t i = 0; i < RUNS; i++) {
        struct run alone = {.known = false};
        s->r[i] = make_run(w, 100 + i);
        snprintf(name, sizeof(name), "run%u", i);
        answerer_open(&fresh);
        archived_make(&alone.v, &fresh, s->r[i], name);
        for (int k = 0; k < GOOD; k++) {
            (void)good(&fresh, &alone, (enum what)k, &s->text);
            if (s->text.len <= 20) /* it says nothing */
                fail_msg("question %d: %s", k, s->text.v);
            s->want[i][k] = strdup(s->text.v);
        }
        answerer_close(&fresh);
        archived_make(&s->run[i].v, &s->a, s->r[i], name);
    }
    free(w);
    return s;
}

static void end_scene(struct scene *s)
{
    answerer_close(&s->a);
    for (uint32_t i = 0; i < RUNS; i++) {
        rec_free(s->r[i]);
        for (int k = 0; k < GOOD; k++)
            free(s->want[i][k]);
    }
    free(s);
}

static unsigned check_good(struct scene *s, uint32_t run, enum what what)
{
    unsigned again = good(&s->a, &s->run[run], what, &s->text);
    if (strcmp(s->text.v, s->want[run][what]) != 0)
        fail_msg("run %u, question %d:\n%.500s\nbut alone\n%.500s", run, what,
                 s->text.v, s->want[run][what]);
    return again;
}

/* Questions in any order, refused ones among them. */
static void test_answers__any_order(void **state)
{
    (void)state;
    struct scene *s = begin_scene();
    uint64_t seed = 1, builds = 0;
    unsigned gone = 0, refused = 0;
    for (uint32_t n = 0; n < 900; n++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t x = (uint32_t)(seed >> 33), run = x / 64 % RUNS;
        if (n < 300) /* few runs: nothing is dropped */
            run %= 3;
        if (x % 3 == 0) {
            bad(&s->a, &s->run[run],
                (enum what)(GOOD + x / 1024 % (ALL - GOOD)), x / 65536);
            refused++;
        } else {
            gone += check_good(s, run, (enum what)(x / 1024 % GOOD));
        }
        if (n == 299)
            builds = s->a.gs.builds;
        later_ns += n > 300 ? 1000000000u : 0;
    }
    assert_true(refused > 200 && gone > 20);
    /* Of closed runs whose peers are known: three and the others, once each. */
    assert_int_equal(builds, 3);
    assert_int_equal(s->a.gs.builds, RUNS);
    end_scene(s);
}

static bool is_here(struct scene *s, uint32_t run)
{
    struct slave_graph *g;
    if (slave_graphs_find(&s->a.gs, s->run[run].v.name, s->run[run].generation,
                          &g, NULL) < 0)
        return false;
    g->refs--; /* as it was, but used last */
    return true;
}

/* Too little memory for any: the three used last stay for 20 s, and only then,
 * and what a question has in its hands stays as long as it has it. */
static void test_answers__little_memory(void **state)
{
    (void)state;
    struct scene *s = begin_scene();
    struct slave_graph *mine;
    ips_large_limit(4u << 20, s->a.top);
    void *in_memory = ips_calloc_large(3, 1u << 20);
    void *in_file = ips_calloc_large(3, 1u << 20);
    assert_true(ips_large_use().memory && ips_large_use().files);
    later_ns += 100 * 1000000000ull;
    for (uint32_t i = 0; i < 4; i++)
        (void)check_good(s, i, SYNC);
    assert_false(is_here(s, 0));
    for (uint32_t i = 1; i < 4; i++)
        assert_true(is_here(s, i));
    assert_int_equal(
        slave_graphs_find(&s->a.gs, "run1", s->run[1].generation, &mine, NULL),
        0);
    later_ns += 21 * 1000000000ull;
    (void)check_good(s, 4, SYNC);
    (void)check_good(s, 5, SYNC);
    assert_false(is_here(s, 2) || is_here(s, 3));
    assert_true(is_here(s, 1) && is_here(s, 4) && is_here(s, 5));
    slave_graphs_put(&s->a.gs, mine);
    for (uint32_t n = 0; n < 100; n++)
        (void)check_good(s, n % 7, (enum what)(n % GOOD));
    ips_free_large(in_memory);
    ips_free_large(in_file);
    ips_large_limit(UINT64_MAX, s->a.top);
    end_scene(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers__any_order),
        cmocka_unit_test(test_answers__little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
