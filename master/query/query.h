/*
 * One question of a client while it is being answered: the machines to which it
 * goes (machine_share), what they were asked and answered, and the next step.
 *
 * A question is a series of rounds. In a round the master sends a request to
 * each machine and processes the replies as they arrive. When no more replies
 * are expected, `after` starts the next round. Nothing blocks.
 *
 *  - Questions about the graph of one run go one after the other (`exclusive`),
 *    because a slave keeps one graph, one set of peers and one set of values
 *    per run.
 *  - If a slave fails, disconnects or gets a newer graph during the question,
 *    the question restarts without the slave, or with the newer graph, at most
 *    QUERY_MAX_RESTARTS times. The answer names the missing machines.
 *  - A slave has failed if it is silent for QUERY_SILENCE_NS, or if it is alive
 *    but sends nothing about the question for QUERY_LIMIT_NS. So no question
 *    waits for ever.
 *  - If a client disconnects, its questions end and the master tells the slaves
 *    to stop.
 */
#ifndef IPS_MASTER_QUERY_QUERY_H
#define IPS_MASTER_QUERY_QUERY_H

#include <stdatomic.h>

#include "analysis/graph/contract.h"
#include "master/base/master.h"
#include "proto/message.h"

#define QUERY_SILENCE_NS 60000000000ULL
/* silence limit for a slave that was already silent when it was asked */
#define QUERY_STOPPED_NS 5000000000ULL
#define QUERY_LIMIT_NS 600000000000ULL
#define QUERY_MAX_RESTARTS 3
/* While more bytes than this are unsent to a client, the master does not
 * produce the next reply of its answer. */
#define QUERY_HIGH_BYTES (4u << 20)
#define QUERY_RUN_BYTES 128
/* Largest packed size of one reply; leaves space for its envelope. */
#define QUERY_REPLY_BYTES (IPS_FRAME_MAX_BYTES - 65536u)

enum machine_state {
    MACHINE_ACTIVE,
    MACHINE_MISSING, /* known to have the run, but its slave is not connected */
    MACHINE_FAILED,  /* its slave answered with an error, or not in time */
};

struct query;

/* Rows of all tables of one slave. They point into the messages kept for the
 * slave. */
struct machine_tables {
    Ips__ProcessRow **procs; /* [proc_count] indexed by process */
    uint32_t proc_count;
    Ips__ThreadRow **threads; /* [thread_count] indexed by chain */
    uint32_t thread_count;
    Ips__ChannelRow **channels;
    uint32_t channel_count;
    Ips__End **ends;
    uint32_t end_count;
};

struct machine_share {
    char machine[ROSTER_NAME_BYTES];
    struct slave *slave; /* the machine's slave, while it is connected */
    enum machine_state state;
    char why[512];   /* reason of MACHINE_FAILED */
    bool expected;   /* the machine is known to have the run */
    uint64_t ask_id; /* id of the request whose reply is awaited; 0: none */
    uint64_t asked_ns, heard_ns, awake_ns;
    /* shortest time from a request to a reply; 0: none yet */
    uint64_t round_trip_ns;
    bool was_silent;
    /* replies since the slave was last allowed to send more */
    uint32_t reply_count;
    uint32_t window;
    /* replies of the slave; kept, because the tables point into them */
    Ips__Envelope **messages;
    uint32_t message_count, message_cap;
    size_t message_bytes;
    Ips__SyncAnswer *sync;
    Ips__PeersAnswer *peers; /* the slave's answer to PeersAsk */
    struct machine_tables t;
    /* [peer_count] the other side of each channel end */
    struct ips_peer_end *peer;
    uint32_t peer_count;
    /* index among the question's active machines, in order of their names */
    uint32_t number;
    /* data of the question's kind; query_kind.release frees it */
    void *own;
    /* t, sync, peers and peer belong to the table cache */
    bool borrows;
};

/* A machine that was excluded after an error, and the reason. */
struct excluded {
    char machine[ROSTER_NAME_BYTES];
    char why[512];
};

/* State of gather.c: the rounds with which most questions start. */
struct gather {
    unsigned want;
    void (*after)(struct query *q);
    /* [count] the machines that answer, by name; active[i]->number is i */
    struct machine_share **active;
    uint32_t count;
    uint64_t ambiguous; /* number of ambiguous joins of ends */
    uint64_t untraced_ends;
    /* measured message times were sent to the slaves (message_times_plan.h) */
    bool calibrated;
    /* where the message times come from, for the certificate */
    char message_times_text[1300];
};

struct query_kind {
    const char *name;
    bool exclusive;
    /* Answers without asking the slaves, where possible; returns whether it
     * did. It is called before the question gets its turn, when q->machines is
     * still empty. May be NULL. */
    bool (*at_once)(struct query *q);
    /* Starts or restarts the question, after q->machines was made. */
    void (*start)(struct query *q);
    /* Frees what q->data and the `own` of each machine_share hold. */
    void (*release)(struct query *q);
    /* Produces and sends the next replies of the answer; called while few bytes
     * are unsent to the client. */
    void (*pump)(struct query *q);
    bool keeps; /* its answers may be cached (query/answer_cache.h) */
};

/* A time window in ns since the run's first event on `machine`, by that
 * machine's clock. */
struct query_window {
    char machine[ROSTER_NAME_BYTES];
    /* from_ns 0: from the start; to_ns 0: to the end. Events and traffic
     * count if from <= t < to, the path if from < t <= to. */
    uint64_t from_ns, to_ns;
};

struct query {
    struct query *next;
    struct master *m;
    const struct query_kind *kind;
    /* NULL: the client disconnected, or the question is internal */
    struct ips_peer *client;
    Ips__Envelope *envelope; /* the client's question; owned by this query */
    const Ips__Request *request;
    uint64_t id;
    char run[QUERY_RUN_BYTES];
    /* when the question started; when the client last got a progress message */
    uint64_t begun_ns, progress_ns;
    struct machine_share *machines; /* sorted by machine name */
    uint32_t machine_count;
    uint32_t waiting;
    bool running;   /* the question has its turn (query_kind.exclusive) */
    bool streaming; /* query_kind.pump is called to produce the next replies */
    bool over;      /* the question ended and is to be freed */
    bool working;   /* a job of the worker still uses the question */
    /* the question no longer needs the slaves' graph, so others may use it */
    bool released_run;
    bool restart_needed; /* the question restarts when the round ends */
    bool from_cache;     /* answered from cached tables alone */
    /* the question wants measured message times, if there are any */
    bool calibrate;
    /* the first round is over: from now on a slave's failure restarts the
     * question */
    bool in_graph;
    bool fail_as_group; /* in this round: if one slave fails, all are stopped */
    /* called every second during a round; or NULL */
    void (*on_tick)(struct query *q);
    /* called every second while the worker runs a job of the question; or NULL
     */
    void (*on_work)(struct query *q);
    /* Set when no client waits for the answer any more; a long job checks this
     * flag and ends. */
    atomic_bool unwanted;
    unsigned restarts;
    struct excluded *excluded;
    uint32_t excluded_count;
    int (*take_reply)(struct query *q, struct machine_share *p,
                      const Ips__Reply *reply, struct ips_err *err);
    void (*after)(struct query *q);
    /* In this round: sends the rest of a long request to `p`, as soon as
     * everything sent before has been written. NULL: requests are sent whole.
     */
    void (*ask_more)(struct query *q, struct machine_share *p);
    struct gather gather;
    /* the cache from which the machine_shares borrow their tables, or NULL */
    struct cached_tables *table_cache;
    /* called after the machine_shares were released, to give back
     * `table_cache`, from which they borrowed; or NULL */
    void (*let_go)(struct query *q);
    /* copy of the replies sent so far, to be cached (query/answer_cache.h); or
     * NULL */
    struct cached_answer *answer;
    bool no_cache; /* the answer must not be cached */
    void *data;
    /* In an internal question about phases (phases.h): the client's question
     * that waits for it, or NULL. */
    struct query *waiter;
    /* in a question that names a phase: that phase on each machine */
    struct query_window *windows;
    uint32_t window_count;
    /* in a `why` question: [phase_count] the ends of all phases, ascending, in
     * ns since the start of the run */
    uint64_t *phase_ends;
    uint32_t phase_count;
};

/* ---- called by session.c ---------------------------------------------- */

/* Starts a client's request, already read from its peer; takes ownership of
 * it. */
void query_accept_from_client(struct master *m, struct ips_peer *client,
                              Ips__Envelope *env);
void query_stop_if_zero_replies(struct master *m, struct ips_peer *client,
                                uint64_t id, uint32_t replies);
void query_on_reply(struct master *m, struct slave *s, Ips__Reply *reply);
void query_fail_machines_of_lost_slave(struct master *m, const struct slave *s,
                                       const char *why);
void query_on_client_gone(struct master *m, const struct ips_peer *client);
void query_on_client_drain(struct master *m, const struct ips_peer *client);
void query_send_rest_of_requests_to_slave(struct master *m,
                                          const struct ips_peer *slave);
void query_tick(struct master *m);
/* Starts a question of the master itself, whose answer goes to no client.
 * `request` names the run and is copied. Returns false if it did not start. */
bool query_start_internal(struct master *m, const struct query_kind *kind,
                          const Ips__Request *request);
/* At the shutdown of the daemon: query_mark_all_unwanted before the worker is
 * freed, query_release_all after. */
void query_mark_all_unwanted(struct master *m);
void query_release_all(struct master *m);

/* ---- called by the kinds of questions ----------------------------------- */

/* Opens a round of requests to the slaves: `take` is called for each reply,
 * `after` when no more replies are expected. */
void query_open_round(struct query *q,
                      int (*take)(struct query *q, struct machine_share *p,
                                  const Ips__Reply *reply, struct ips_err *err),
                      void (*after)(struct query *q));
/* Sends a request to the slave of `p`, after setting its id and run. A long
 * request is sent in several pieces with the same id; all but the last have
 * `more` set. Pass first = false for all but the first. */
void query_send_request_to_slave(struct query *q, struct machine_share *p,
                                 Ips__Request *request, bool first);
/* Whether so much is unsent to the slave of `p` that the rest of a long request
 * has to wait for query.ask_more. */
bool query_is_slave_backlogged(const struct machine_share *p);
/* To be called when the requests of the round were sent. Calls `after` at once
 * if no reply is expected. */
void query_close_round(struct query *q);

/* Tells every slave that still owes a reply to stop; no reply is expected any
 * more. */
void query_stop_slaves(struct query *q);

/* To be called within the `take` function of a round: keeps the message that
 * holds the reply until the question ends. Returns false if the memory limit is
 * exceeded or there is no memory. */
bool query_keep_message(struct query *q, struct machine_share *p);

/* To be called within the `take` function of a round, if the slave may send
 * only so many replies (`window`) before it is allowed more: allows it as many
 * more as were processed, in batches. */
void query_widen_reply_window(struct query *q, struct machine_share *p);

/* Marks the machine `p` as failed, without failing the question. If this
 * happens after the first round, the question restarts. */
void query_mark_machine_failed(struct query *q, struct machine_share *p,
                               const struct ips_err *why);

/* Excludes the machine, for the reason `why`, from the next restart onwards.
 * Returns false if there is no memory. */
bool query_exclude(struct query *q, const char *machine, const char *why);

/* Sends the last reply and ends the question. */
void query_answer(struct query *q, Ips__Reply *reply);
void query_fail(struct query *q, const struct ips_err *why);
void query_end_without_reply(struct query *q);
/* If the question named a phase, sets *from_ns and *to_ns to that phase by the
 * machine's own clock. Else leaves in them the window that the question gave.
 */
void query_get_machine_window(const struct query *q,
                              const struct machine_share *p, uint64_t *from_ns,
                              uint64_t *to_ns);
/* gather.c: whether the question (`ls` or `metrics`) wants the tables of a time
 * window. */
bool query_wants_windowed_tables(const struct query *q);
/* Sends a reply that is not the last. */
void query_send_partial_reply(struct query *q, Ips__Reply *reply);
/* From now on `pump` is called until query_answer or query_fail; other
 * questions may use the run. */
void query_start_streaming(struct query *q);
bool query_is_client_backlogged(const struct query *q);

/* Calls `run` in the worker and then, unless the question ended, `done` in the
 * loop. Meanwhile the loop does not touch q->data and q->machines. */
int query_submit_work(struct query *q, void (*run)(struct query *q),
                      void (*done)(struct query *q),
                      struct ips_err *err) IPS_MUST_USE;

/* Returns the number of machines in state MACHINE_ACTIVE. */
uint32_t query_count_active_machines(const struct query *q);
/* Whether a machine that is known to have the run is missing or failed, so that
 * the answer is incomplete. */
bool query_is_missing_a_machine(const struct query *q);
/* Whether the question is `why` about the requests of a service. */
bool query_is_why_about_requests(const Ips__Request *r);

/* Returns the kind of question that the request asks; NULL: not a question of
 * clients. */
const struct query_kind *query_kind_of(const Ips__Request *r);
extern const struct query_kind query_runs;
extern const struct query_kind query_status;
extern const struct query_kind query_ls;
extern const struct query_kind query_metrics;
extern const struct query_kind query_path;
extern const struct query_kind query_events;
extern const struct query_kind query_graph;
extern const struct query_kind query_procedures;
extern const struct query_kind query_whatif;
extern const struct query_kind query_requests;
extern const struct query_kind query_waits;
extern const struct query_kind query_why;
extern const struct query_kind query_sql;
extern const struct query_kind query_phases;
extern const struct query_kind query_predict;
extern const struct query_kind query_calibrate;
extern const struct query_kind query_estimate;

#endif
