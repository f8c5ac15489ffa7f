/*
 * The engines: several ways to compute the critical path of a run, which must
 * all give the same answer bit for bit (ALGORITHMS 3).
 *
 *  - central: fetches every subgraph, merges them, and runs both the kernel
 *    and the paper's label-correcting algorithm, which must agree.
 *  - contract: every slave sends its joins (analysis/distributed/joins.h). The
 *    master solves them and sends each slave the values of its remote arcs.
 *    The slaves send the path.
 *  - cm-async, cm-sync: the slaves compute among themselves
 *    (analysis/distributed/cm.h). The master is the root: it detects the end
 *    and walks the path back.
 *
 * An engine computes the path in every wanted scenario, then calls
 * path_start_answer(). Long computations run in the worker. Source: IPS-6,
 * IPS-11, DPM-5, DPM-8.
 */
#ifndef IPS_MASTER_PATH_ENGINE_H
#define IPS_MASTER_PATH_ENGINE_H

#include "analysis/distributed/joins.h"
#include "analysis/graph/path.h"
#include "master/base/arena.h"
#include "master/path/shares.h"
#include "master/query/query.h"
#include "proto/graph_wire.h"

/* Limit for the nodes of one slave's subgraph; a node takes about 44 bytes in
 * the master. */
#define ENGINE_MAX_NODES (1u << 25)
/* Limit for the bytes of one slave's joins. */
#define ENGINE_MAX_JOINS_BYTES ((size_t)1 << 30)
/* Replies that a slave may have in transit to the master. */
#define ENGINE_WINDOW 16u

enum scenario_id {
    SCENARIO_MAIN,
    /* messages take no time: gives the maximum parallelism P_max (DPM-8) */
    SCENARIO_FREE,
    /* waits whose end no record explains count as work: gives an upper bound of
     * the path's length; not in `wall` */
    SCENARIO_UNENDED,
    SCENARIO_HALF,
    SCENARIO_DOUBLE,
    SCENARIO_NO_EXTERNAL,
    /* without order-dependent arcs, as if no thread had waited for a lock */
    SCENARIO_NO_ANY,
    /* without the probe cost (CPU time of recording); not in `wall` */
    SCENARIO_NO_PROBE,
    SCENARIOS
};

struct scenario_result {
    /* name of the scenario in the certificate; NULL: not shown there */
    const char *name;
    struct ips_scenario scenario;
    /* false: not computed, because the result equals that of SCENARIO_MAIN */
    bool wanted;
    bool with_shares;
    uint64_t t_max;
    struct path_thread begin; /* the thread in which the path starts */
    struct shares shares;
};

/* The part of the path that the question asks for: from < t <= to. In `wall`
 * the times are ns since the run's origin; otherwise, as no clocks are
 * compared, ns since each machine's first event. path/query.c computes the
 * window from whatever the question specifies, once the clocks are known. No
 * other code reads from_ns and to_ns of the question. */
struct path_window {
    /* true: the question gave a window; false: it asks for the whole path */
    bool is_set;
    uint64_t from_ns; /* start of the window; 0: start of the run */
    uint64_t to_ns;   /* end of the window; 0: end of the run */
};

struct path_data { /* stored in query.data of a path question */
    struct scenario_result scenarios[SCENARIOS];
    enum scenario_id now; /* the scenario that is being computed */
    const char *engine;
    char engine_text[320];
    uint64_t nodes; /* number of nodes on all machines */
    uint64_t total_cpu_ns;
    uint64_t unmatched;
    char pdm_note[256];
    struct path_piece *pieces; /* the path of SCENARIO_MAIN */
    uint64_t piece_count;
    /* The next members are data of the worker's job. */
    struct ips_graph merged;
    struct ips_err err;
    /* the machine whose data caused `err`; NULL: none */
    struct machine_share *blame;
    /* pieces of the path of scenario `now` collected so far; if they are added
     * to the shares in batches, those of the current batch */
    struct path_piece *work;
    uint64_t work_count, work_cap;
    struct ips_est est;
    /* [machines] first node of each machine in `merged` */
    uint32_t *node_base;
    /* contract engine: the solved joins of all machines */
    struct ips_joined joined;
    /* contract engine: the path as a list of visits: sections of the path that
     * stay on one machine */
    struct ips_path_section *visit;
    uint64_t visit_count;
    /* number of pieces (for the whole graph: nodes) sent to the client so
     * far */
    uint64_t sent;
    /* the longest pieces, if the client wants only these; NULL: all */
    struct path_piece *top_segments;
    struct cm_run *cm; /* state of cm-async and cm-sync */
    char relay_note[256];
    struct { /* what computing the main scenario cost; see EngineCost */
        uint64_t rounds, values, messages, bytes, relayed;
    } cost;
    struct ips_traffic_count mark;
    /* procedures of the path (query_profile.h); NULL: not requested */
    struct path_profile *profile;
    struct path_window window;
    /* The next members are set by the functions of weighting.h. */
    bool has_goal;
    /* goal_node: number of the node in the graph of goal_machine */
    uint32_t goal_machine, goal_node;
    char goal_text[512];
    /* the certificate's text about the clocks; "": no clocks were compared */
    char clock_text[256];
    /* greatest known error of an aligned clock; 0: none were compared */
    uint64_t clock_bound_ns;
    uint64_t on_cpu_ns, run_delay_ns, other_ns, unended_ns;
    void (*after_split)(struct query *q);
    void (*after_clocks)(struct query *q);
    uint32_t origin_machine; /* the machine whose clock is the reference */
    /* data of master/waits/waits.h, set while the waits of a run are fetched */
    struct waits *waits;
    void (*after_waits)(struct query *q);
};

/* the bytes received from one slave as answer to ReduceAsk (contract engine,
 * alignment of clocks) */
struct engine_joins_buffer {
    uint8_t *data;
    size_t len, cap;
};
/* contract engine: one visit of the path to a machine, as its slave reported
 * it: from the node at which the path enters to the node at which it leaves */
struct engine_visit_pieces {
    uint32_t from, from_chain, to, to_chain;
    /* the pieces of the visit: index of the first one in
     * engine_reported_pieces.piece, and their number */
    uint64_t piece, pieces;
};
struct engine_reported_pieces {
    struct engine_visit_pieces *pair;
    /* number of visits (`pair`) received so far, and number requested */
    uint64_t pair_count, pairs;
    struct path_piece *piece;
    uint64_t piece_count, cap;
    /* total ns of the pieces, for scenarios of which the slave reports only
     * sums */
    uint64_t sum_ns;
    /* while the path is assembled: index in `pair` of the next visit */
    uint64_t next;
};

/* data of the engines about one machine; stored in machine_share.own */
struct engine_machine {
    struct ips_wire_receiver taker;
    struct ips_graph g;
    struct engine_joins_buffer joins;
    struct engine_reported_pieces reported;
    /* number of the machine's first node when the nodes of all machines are
     * numbered */
    uint64_t base;
    uint64_t finished_t_max;
    /* cm-async, cm-sync: state in the scenario that is being computed */
    bool cm_reported, cm_done;
    uint64_t cm_sent, cm_taken, cm_unfinished;
    /* number of the machine's latest END node + 1; 0: it has none */
    uint64_t cm_end;
    char cm_stalled[600];
    /* conversion of the machine's clock to the run's common scale */
    struct ips_clock_map clock;
};

void engine_start_central(struct query *q);
void engine_start_contraction(struct query *q);
void engine_start_cm(struct query *q, bool async);
/* Relays a message between two slaves that cannot reach each other. */
void engine_cm_relay_message(struct master *m, const struct slave *s,
                             Ips__CmMessage *message);
/* path/query.c: to be called when all scenarios are computed. Starts the
 * answer, or refuses the question if the path is empty. */
void path_start_answer(struct query *q);
/* path/answer.c: sends more of the answer while the client reads it. */
void path_send_answer_until_backlog(struct query *q);

/* These three serve all questions about the graph. path_convert_scenario
 * converts the scenario of a request (IPS_E_USAGE: invalid).
 * path_message_times_text returns what the certificate says about message
 * times. path_command_elapsed_ns returns the elapsed time of the run's command;
 * IPS_UNMEASURED: not known. */
int path_convert_scenario(const Ips__Lane *in, struct ips_scenario *out,
                          struct ips_err *err) IPS_MUST_USE;
char *path_message_times_text(const struct query *q, struct arena *a,
                              const struct ips_scenario *scenario);
uint64_t path_command_elapsed_ns(const struct query *q);

/* ---- shared by the engines --------------------------------------------- */

static inline struct path_data *path_data_of(struct query *q)
{
    return q->data;
}
static inline struct engine_machine *
engine_data_of_machine(const struct machine_share *p)
{
    return p->own;
}

/* Measures the traffic between the slaves and the master, including heartbeats.
 * `mark` true: remembers the current counts. False: sets the cost of the main
 * scenario to the traffic since that call. */
void engine_mark_or_count_traffic(struct query *q, bool mark);

/* Returns the next wanted scenario after `at`, or SCENARIOS if there is none.
 */
enum scenario_id engine_find_next_wanted_scenario(const struct path_data *d,
                                                  enum scenario_id at);

/* Sends ReduceAsk to all machines: fetches their joins in `scenario` or, with
 * `moments`, the times of their remote sends and receives. Then calls
 * `after`. */
void engine_fetch_joins(struct query *q, const struct ips_scenario *scenario,
                        bool moments, void (*after)(struct query *q));
/* In the worker: returns the received joins of all machines as the input of
 * ips_joined_decode_and_solve, malloc'd; NULL: d->err has the reason. */
struct ips_machine_joins *engine_list_received_joins(struct query *q);
/* To be called once when the machines have answered: sets `own` of each of them
 * and numbers the nodes of all machines (`base`, and `nodes` of the question).
 * Errors: IPS_E_INCOMPLETE: the graph has no nodes, so it has no `what` (such
 * as "path"); the message says which machines are missing or have trouble.
 * IPS_E_LIMIT: more nodes than a graph may have. IPS_E_NO_MEMORY. */
int engine_init_machines_and_number_nodes(struct query *q, const char *what,
                                          struct ips_err *err) IPS_MUST_USE;

/* Asks every machine of the run for its whole subgraph (SubgraphAsk), then
 * calls `after`. */
void engine_fetch_subgraphs(struct query *q, bool detail,
                            void (*after)(struct query *q));

/* In the worker: engine_make_graphs turns the arrays received from all machines
 * into checked graphs; engine_merge_graphs merges these into d->merged. If they
 * return false, d->err has the reason, and d->blame the machine whose data was
 * wrong.
 */
bool engine_make_graphs(struct query *q);
bool engine_merge_graphs(struct query *q);
/* Releases the machines' graphs and receive buffers, and what was computed from
 * them: d->merged, d->node_base, d->est, d->joined and d->visit. */
void engine_release_graphs(struct query *q);
/* Releases the buffers for the pieces of the path that the slaves send. To be
 * called after the last scenario. */
void engine_release_path_piece_buffers(struct query *q);

/* Appends to d->work a piece that starts in thread `came`. If it continues the
 * last piece (both COMPUTE, in the same thread, and adjacent), merges the two.
 * In scenarios other than the main one, pieces that are produced in forward
 * order are added to the shares in batches and then dropped. Returns false with
 * the reason in d->err. */
bool engine_append_or_merge_piece(struct path_data *d, struct path_thread came,
                                  const struct path_piece *piece);
struct path_thread engine_thread_of_node(const struct ips_graph *g,
                                         uint32_t node);

/* To be called when all pieces of scenario `now` were pushed, in the worker or
 * the loop: computes its shares, and keeps the pieces of the main scenario.
 * Returns false with the reason in d->err. */
bool engine_finish_shares_and_pieces(struct path_data *d);

/* To be called when a job failed: excludes the slave whose data was wrong and
 * restarts the question, or refuses the question. */
void engine_exclude_blamed_machine_or_fail(struct query *q);

void engine_release_path_data(struct query *q);

#endif
