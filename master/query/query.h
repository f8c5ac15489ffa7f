/*
 * One question of a client while it is being answered: the machines it goes
 * to (`part`), what they were asked and answered, and what comes next.
 *
 * A question is a series of rounds. In a round each part is asked something,
 * replies are taken as they come, and when none is awaited any more `after`
 * goes on with the next round. Nothing blocks.
 *
 *  - Questions about one run's graph go one after the other (`exclusive`): a
 *    slave keeps one graph, one set of peers and one set of values a run.
 *  - A slave that fails, goes away or has a newer graph in the middle: the
 *    question begins again without it, or with the newer graph, at most
 *    QUERY_MAX_RESTARTS times; the answer names who is missing.
 *  - A slave that is silent for QUERY_SILENCE_NS, or that lives but says
 *    nothing about the question for QUERY_LIMIT_NS, has failed. No question
 *    waits for ever.
 *  - A client that went away: its questions end, slaves are told to stop.
 */
#ifndef IPS_MASTER_QUERY_QUERY_H
#define IPS_MASTER_QUERY_QUERY_H

#include <stdatomic.h>

#include "analysis/graph/contract.h"
#include "master/base/master.h"
#include "proto/message.h"

#define QUERY_SILENCE_NS 60000000000ULL
#define QUERY_STOPPED_NS 5000000000ULL /* where it was silent when asked */
#define QUERY_LIMIT_NS 600000000000ULL
#define QUERY_MAX_RESTARTS 3
/* Unsent bytes to a client above which nothing more is made for it. */
#define QUERY_HIGH_BYTES (4u << 20)
#define QUERY_RUN_BYTES 128
/* What one reply may pack to, with room for its envelope. */
#define QUERY_REPLY_BYTES (IPS_FRAME_MAX_BYTES - 65536u)

enum machine_state {
    PART_ACTIVE,
    PART_MISSING, /* known to have the run; its slave is not connected */
    PART_FAILED,  /* answered with an error, or not in time */
};

struct query;

/* Rows of all tables of one slave, borrowed from the kept messages. */
struct machine_tables {
    Ips__ProcessRow **procs; /* [proc_count] by index */
    uint32_t proc_count;
    Ips__ThreadRow **threads; /* [thread_count] by chain */
    uint32_t thread_count;
    Ips__ChannelRow **channels;
    uint32_t channel_count;
    Ips__End **ends;
    uint32_t end_count;
};

struct machine_share {
    char machine[ROSTER_NAME_BYTES];
    struct slave *slave; /* while connected */
    enum machine_state state;
    char why[512];   /* PART_FAILED */
    bool expected;   /* the catalogue says it has the run */
    uint64_t ask_id; /* awaited reply, 0 none */
    uint64_t asked_ns, heard_ns, awake_ns;
    uint64_t round_trip_ns; /* least time to a first reply, 0 none yet */
    bool was_silent;
    uint32_t reply_count; /* replies since the window was last widened */
    uint32_t window;
    Ips__Envelope **messages; /* messages the tables point into */
    uint32_t message_count, message_cap;
    size_t message_bytes;
    Ips__SyncAnswer *sync;
    Ips__PeersAnswer *peers; /* answer to PeersAsk */
    struct machine_tables t;
    struct ips_peer_end *peer; /* [peer_count] by end index */
    uint32_t peer_count;
    uint32_t number; /* among the active parts, machine order */
    void *own;       /* of the kind of question */
    bool borrows;    /* tables, sync, settled, peer: tables/cache.h's */
};

/* A machine left out after an error, and why. */
struct excluded {
    char machine[ROSTER_NAME_BYTES];
    char why[512];
};

/* gather.c: what most questions begin with. */
struct gather {
    unsigned want;
    void (*after)(struct query *q);
    struct machine_share **active; /* [count] machine order; [i]->number is i */
    uint32_t count;
    uint64_t ambiguous; /* by joining ends */
    uint64_t untraced_ends;
    bool calibrated;        /* slaves were told message times (mtimes_plan.h) */
    char mtimes_text[1300]; /* of what, for the certificate */
};

struct query_kind {
    const char *name;
    bool exclusive;
    /* Answers without asking anybody, where that is possible; before its turn
     * has come, no parts are made. May be NULL. */
    bool (*at_once)(struct query *q);
    /* Begins (again); parts are made already. */
    void (*start)(struct query *q);
    /* Frees what `data` and parts' `own` hold. */
    void (*release)(struct query *q);
    /* Makes more of the answer; called while the client's backlog is low. */
    void (*pump)(struct query *q);
    bool keeps; /* query/answer_cache.h */
};

/* A window of time on one machine's clock, since its first event of the run. */
struct query_window {
    char machine[ROSTER_NAME_BYTES];
    uint64_t from_ns, to_ns; /* from <= t < to */
};

struct query {
    struct query *next;
    struct master *m;
    const struct query_kind *kind;
    struct ips_peer *client; /* NULL: gone */
    Ips__Envelope *envelope; /* the question, owned */
    const Ips__Request *request;
    uint64_t id;
    char run[QUERY_RUN_BYTES];
    uint64_t begun_ns, progress_ns; /* the client, how far it is */
    struct machine_share *machines; /* by machine name */
    uint32_t machine_count;
    uint32_t waiting;
    bool running;        /* has its turn */
    bool streaming;      /* pump is wanted */
    bool over;           /* to be freed */
    bool working;        /* a job of the worker still uses it */
    bool released_run;   /* needs the slaves' graph no more: others may */
    bool restart_needed; /* begin again when the round ends */
    bool from_cache;     /* it was answered from copies that were kept */
    bool calibrate; /* wants message times as they were measured, if known */
    bool in_graph;  /* past the first round: failures begin it again */
    bool fail_as_group; /* of a round: when one part fails, all are stopped */
    void (*on_tick)(struct query *q); /* of a round, or NULL */
    void (*on_work)(struct query *q); /* each second of a job, or NULL */
    /* Nobody waits for the answer any more: a long job looks, and ends. */
    atomic_bool unwanted;
    unsigned restarts;
    struct excluded *excluded;
    uint32_t excluded_count;
    int (*take_reply)(struct query *q, struct machine_share *p,
                      const Ips__Reply *reply, struct ips_err *err);
    void (*after)(struct query *q);
    struct gather gather;
    struct cached_tables *table_cache; /* what its parts borrow from, or NULL */
    void (*let_go)(struct query *q);   /* NULL, or: the parts that borrowed are
                                          gone */
    struct cached_answer
        *answer;   /* query/answer_cache.h: what was sent so far, or NULL */
    bool no_cache; /* it is not to be kept */
    void *data;
    /* phases.h: the question of a client that waits for this one of our own,
     * or NULL; what it got. */
    struct query *waiter;
    struct query_window *windows;
    uint32_t window_count;
    uint64_t *phase_ends; /* [phase_count] since the run's begin, rising */
    uint32_t phase_count;
};

/* ---- for session.c ---------------------------------------------------- */

/* A request of a client, already taken from its peer (owned from here on). */
void query_new(struct master *m, struct ips_peer *client, Ips__Envelope *env);
void query_more(struct master *m, struct ips_peer *client, uint64_t id,
                uint32_t replies);
void query_on_reply(struct master *m, struct slave *s, Ips__Reply *reply);
void query_on_slave_gone(struct master *m, const struct slave *s,
                         const char *why);
void query_on_client_gone(struct master *m, const struct ips_peer *client);
void query_on_drain(struct master *m, const struct ips_peer *client);
void query_tick(struct master *m);
/* A question of the master itself, whose answer no client hears; the request
 * names the run and is copied. False: not begun. */
bool query_inside(struct master *m, const struct query_kind *kind,
                  const Ips__Request *request);
/* At the end of the daemon: before the worker's, after it. */
void query_unwant_all(struct master *m);
void query_release_all(struct master *m);

/* ---- for the kinds ----------------------------------------------------- */

/* Opens a round. */
void query_round(struct query *q,
                 int (*take)(struct query *q, struct machine_share *p,
                             const Ips__Reply *reply, struct ips_err *err),
                 void (*after)(struct query *q));
/* Asks a part; sets the request's id and run. The several requests of one ask
 * (`more`) share the id: pass first = false for those after the first. */
void query_ask(struct query *q, struct machine_share *p, Ips__Request *request,
               bool first);
/* Closes the round: where nothing is awaited, `after` comes at once. */
void query_await(struct query *q);

/* Every part is told to stop; nothing is awaited any more. */
void query_stop(struct query *q);

/* Within `take`: keeps the message the reply came in. False: too much. */
bool query_keep_message(struct query *q, struct machine_share *p);

/* Within `take` of an answer with a window: allows as many replies more as
 * were taken, in batches. */
void query_widen(struct query *q, struct machine_share *p);

/* Fails the part (not the question). */
void query_machine_failed(struct query *q, struct machine_share *p,
                          const struct ips_err *why);

/* From the next beginning on the question goes without that machine, and says
 * why. False: no memory. */
bool query_exclude(struct query *q, const char *machine, const char *why);

/* The last reply, and the end. */
void query_answer(struct query *q, Ips__Reply *reply);
void query_fail(struct query *q, const struct ips_err *why);
/* The end, where nothing is to be answered. */
void query_over(struct query *q);
/* The window that the question has on this machine: its own, unless it named a
 * phase. */
void query_window_of(const struct query *q, const struct machine_share *p,
                     uint64_t *from_ns, uint64_t *to_ns);
/* gather.c: does the question want the tables of a window? */
bool query_windowed(const struct query *q);
/* A reply that is not the last. */
void query_send(struct query *q, Ips__Reply *reply);
/* From now on `pump` is called until query_answer or query_fail; the run is
 * free for other questions. */
void query_stream(struct query *q);
bool query_client_full(const struct query *q);

/* Runs `run` in the worker; `done` in the loop afterwards unless the question
 * ended. q->data and parts stay untouched by the loop meanwhile. */
int query_work(struct query *q, void (*run)(struct query *q),
               void (*done)(struct query *q), struct ips_err *err) IPS_MUST_USE;

/* Active parts. */
uint32_t query_active(const struct query *q);
/* Parts missing or failed, or machines left out. */
bool query_incomplete(const struct query *q);
/* Is it `why` about the requests of a service? */
bool query_asks_why_requests(const Ips__Request *r);

/* The kinds, by the case of the request; NULL: no client asks that. */
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
