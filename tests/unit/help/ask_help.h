/*
 * Asks of the master to one slave, each with something sound in it, and runs to
 * ask about: a simulated program (model_world.h), and a process that talks with
 * who is not traced and has code.
 */
#ifndef IPS_TESTS_UNIT_HELP_ASK_HELP_H
#define IPS_TESTS_UNIT_HELP_ASK_HELP_H

#include "answer_help.h"
#include "model_world.h"

#define SKIP " id generation memory_limit memory_bytes file_bytes records_read "

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

static inline void begin_ask(struct ask *k)
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
    k->lane.message_time_base_ns = 5;
    snprintf(k->by, sizeof(k->by), "procedure");
    snprintf(k->process, sizeof(k->process), "process");
    k->portions.lane = k->subgraph.lane = k->finish.lane = k->reduce.lane =
        &k->lane;
}

/* Nodes of the middle of the run's first chain: the arcs between. */
static inline void some_arcs(struct ask *k, uint32_t from, uint32_t to)
{
    k->from[0] = from;
    k->to[0] = to;
    k->split.from = k->expand.from = k->profile.from = k->from;
    k->split.to = k->expand.to = k->profile.to = k->to;
    k->split.n_from = k->expand.n_from = k->profile.n_from = 1;
    k->split.n_to = k->expand.n_to = k->profile.n_to = 1;
}

static inline void make_good(struct ask *k, const struct run *r, enum what what)
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

static inline void set_generation(struct ask *k, uint64_t generation)
{
    k->peers.generation = k->reduce.generation = k->finish.generation =
        k->expand.generation = k->subgraph.generation = k->split.generation =
            k->procedures.generation = k->profile.generation =
                k->portions.generation = k->waits.generation =
                    k->series.generation = generation;
}

/* ---- asking ---- */

static inline int put_ask(struct answerer *a, struct run *r, struct ask *k,
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
static inline void get_known(struct answerer *a, struct run *r)
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

/* ---- runs ---- */

/* A world, and a process that talks with who was not traced, and has code. */
static inline struct recorder *make_run(struct world *w, uint64_t seed)
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

#endif
