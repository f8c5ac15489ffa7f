/*
 * The critical path of a run, computed in ways that must give the same answer
 * bit for bit (ALGORITHMS 3):
 *
 *  central   fetches every subgraph, merges them, and runs the kernel and the
 *            paper's label correcting, which must agree
 *  contract  every slave sends its joins (analysis/distributed/joins.h); the
 *            master solves them and hands each slave its remote values; the
 *            slaves send the path
 *  cm-async, cm-sync  the slaves compute among themselves
 *            (analysis/distributed/cm.h); the master is the root, notices the
 *            end, and walks the path back
 *
 * An engine computes every wanted scenario, then calls path_done(). Long work
 * runs in the worker. Source: IPS-6, IPS-11, DPM-5, DPM-8.
 */
#ifndef IPS_MASTER_PATH_ENGINE_H
#define IPS_MASTER_PATH_ENGINE_H

#include "analysis/distributed/joins.h"
#include "analysis/graph/path.h"
#include "master/base/arena.h"
#include "master/path/shares.h"
#include "master/query/query.h"
#include "proto/graph_wire.h"

/* Nodes of one slave's subgraph; what it takes here is some 44 bytes each. */
#define ENGINE_MAX_NODES (1u << 25)
/* Bytes of one slave's joins. */
#define ENGINE_MAX_JOINS_BYTES ((size_t)1 << 30)
/* Replies of a slave on the way to us. */
#define ENGINE_WINDOW 16u

enum scenario_id {
    SCENARIO_MAIN,
    SCENARIO_FREE,    /* messages cost nothing: P_max (DPM-8) */
    SCENARIO_UNENDED, /* as long as the path may be; not of `wall` */
    SCENARIO_HALF,
    SCENARIO_DOUBLE,
    SCENARIO_NO_EXTERNAL,
    SCENARIO_NO_ANY,   /* as if no lock had made anybody wait */
    SCENARIO_NO_PROBE, /* without what recording cost; not of `wall` */
    SCENARIOS
};

struct scenario_result {
    const char *name; /* for the certificate; NULL: not shown there */
    struct ips_scenario scenario;
    bool wanted; /* else equal to LANE_MAIN */
    bool with_shares;
    uint64_t t_max;
    struct path_thread begin; /* of its path */
    struct shares shares;
};

/* The part of a path that is asked for: from < t <= to, in `wall` ns since the
 * run's origin, else since each machine's first event (no clocks are compared
 * there). path/query.c makes it, once the clocks are known, of whatever the
 * question names it by; nobody else reads from_ns and to_ns of the question. */
struct path_window {
    bool is_set;      /* else all of the path */
    uint64_t from_ns; /* 0: from the very beginning */
    uint64_t to_ns;   /* 0: no end */
};

struct path_data { /* query.data of a path question */
    struct scenario_result scenarios[SCENARIOS];
    enum scenario_id now; /* being computed */
    const char *engine;
    char engine_text[320];
    uint64_t nodes; /* of all machines */
    uint64_t total_cpu_ns;
    uint64_t unmatched;
    char pdm_note[256];
    struct path_piece *pieces; /* of LANE_MAIN */
    uint64_t piece_count;
    /* of the worker's job */
    struct ips_graph merged;
    struct ips_err err;
    struct machine_share *blame; /* whose data was wrong, else NULL */
    struct path_piece *work;     /* the path of scenario `now`, or its end */
    uint64_t work_count, work_cap;
    struct ips_est est;
    uint32_t *node_base;      /* in `merged`, [parts] */
    struct ips_joined joined; /* contract */
    struct ips_visit *visit;  /* contract: the path, machine by machine */
    uint64_t visit_count;
    uint64_t sent;                   /* pieces given to the client */
    struct path_piece *top_segments; /* what of them it wants, NULL: all */
    struct cm_run *cm;               /* cm-async, cm-sync */
    char relay_note[256];
    struct { /* of the main scenario; see EngineCost */
        uint64_t rounds, values, messages, bytes, relayed;
    } cost;
    struct ips_traffic_count mark;
    struct path_profile *profile; /* path/query_profile.h; NULL: not wanted */
    struct path_window window;
    /* weighting.h */
    bool has_goal;
    uint32_t goal_machine, goal_node; /* of the full graph */
    char goal_text[512];
    char clock_text[256]; /* "": no clocks were compared */
    uint64_t on_cpu_ns, run_delay_ns, other_ns, unended_ns;
    void (*after_split)(struct query *q);
    void (*after_clocks)(struct query *q);
    uint32_t origin_machine; /* whose clock is the reference */
    struct waits *waits;     /* waits.h, while it is fetched */
    void (*after_waits)(struct query *q);
};

struct engine_joins { /* contract, clocks: a slave's joins as they came */
    uint8_t *data;
    size_t len, cap;
};
/* contract: what a slave tells of the visits of the path there */
struct engine_pair {
    uint32_t from, from_chain, to, to_chain;
    uint64_t piece, pieces; /* in `told.piece` */
};
struct engine_reported {
    struct engine_pair *pair;
    uint64_t pair_count, pairs; /* that it told; that were asked for */
    struct path_piece *piece;
    uint64_t piece_count, cap;
    uint64_t sum_ns; /* where it told sums */
    uint64_t next;   /* pair, while the path is put together */
};

struct engine_machine { /* part.own */
    struct ips_wire_taker taker;
    struct ips_graph g;
    struct engine_joins joins;
    struct engine_reported reported;
    uint64_t base; /* of its nodes in the numbering through all machines */
    uint64_t finished_t_max;
    /* cm-async, cm-sync, of the scenario that goes on */
    bool cm_reported, cm_done;
    uint64_t cm_sent, cm_taken, cm_unfinished;
    uint64_t cm_end; /* node + 1 */
    char cm_stalled[600];
    struct ips_clock_map clock; /* wall */
};

void engine_central(struct query *q);
void engine_contract(struct query *q);
void engine_cm(struct query *q, bool async);
/* A message between two slaves that do not reach each other. */
void engine_cm_relay(struct master *m, const struct slave *s,
                     Ips__CmMessage *message);
/* path/query.c: all scenarios are computed, or the question cannot be answered.
 */
void path_done(struct query *q);
/* path/answer.c: sends more of the answer while the client takes it. */
void path_pump(struct query *q);

/* For other questions about the graph: the scenario of a request, IPS_E_USAGE;
 * what the certificate says of message times; the command's elapsed time, or
 * IPS_UNMEASURED. */
int path_check_scenario(const Ips__Lane *in, struct ips_scenario *out,
                        struct ips_err *err) IPS_MUST_USE;
char *path_mtime_text(const struct query *q, struct arena *a,
                      const struct ips_scenario *scenario);
uint64_t path_goal_elapsed(const struct query *q);

/* ---- shared by the engines --------------------------------------------- */

static inline struct path_data *path_of(struct query *q)
{
    return q->data;
}
static inline struct engine_machine *
engine_machine_of(const struct machine_share *p)
{
    return p->own;
}

/* What went between the slaves and us since the last call is the cost of the
 * main scenario; the first call sets the mark. Heartbeats are in it. */
void engine_traffic(struct query *q, bool mark);

/* The next wanted scenario after `at`, or LANES. */
enum scenario_id engine_next_scenario(const struct path_data *d,
                                      enum scenario_id at);

/* The round of ReduceAsk: all parts' joins in `scenario`, or (`moments`) when
 * their remote sends and receives were. */
void engine_fetch_joins(struct query *q, const struct ips_scenario *scenario,
                        bool moments, void (*after)(struct query *q));
/* In the worker: what came as ips_joined_solve wants it; NULL: d->err says why.
 * Malloc'd. */
struct ips_machine_joins *engine_joins(struct query *q);
/* The round of SubgraphAsk: whole subgraphs of all parts. */
void engine_fetch(struct query *q, bool detail, void (*after)(struct query *q));

/* In the worker: the taken arrays of all parts become graphs, checked; then
 * d->merged. False: d->err (and d->blame) say why. */
bool engine_make_graphs(struct query *q);
bool engine_merge(struct query *q);
/* Releases graphs and takers of the parts, and d->merged, d->est. */
void engine_drop_graphs(struct query *q);
/* Releases the parts' pieces of the path; they are told of no scenario any
 * more. */
void engine_drop_pieces(struct query *q);

/* Appends to d->work a piece that begins at `came`; a COMPUTE that goes on in
 * the same thread where the last one ended is joined to it. Of scenarios but
 * the main one, what is walked forwards is added to the shares bit by bit and
 * not kept. */
bool engine_push(struct path_data *d, struct path_thread came,
                 const struct path_piece *piece);
struct path_thread engine_locate(const struct ips_graph *g, uint32_t node);

/* The path of scenario `now` was pushed: makes its shares, keeps the main one.
 * In the worker or the loop. */
bool engine_scenario_done(struct path_data *d);

/* The job failed: the slave to blame is left out, or the question refused. */
void engine_failed(struct query *q);

void engine_release(struct query *q);

#endif
