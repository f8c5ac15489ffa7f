/*
 * Private to the replay: its state, the event loop (replay/run.c), cores with
 * turns (replay/core.c), and what
 * replay.c sets up for it and reads from it. Times `_t` are in units of
 * 2^-bits ns, virtual times `_v` in units of 2^-bits ns of work at speed 1.
 */
#ifndef IPS_ANALYSIS_REPLAY_RUN_H
#define IPS_ANALYSIS_REPLAY_RUN_H

#include "analysis/graph/kernel.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/tree.h"

#define RP_NO_CHAIN UINT32_MAX
/* A node that is not reached yet: at or above this; the low half is the first
 * of the chains that wait for it, or RP_NO_CHAIN. */
#define RP_UNKNOWN (1ULL << 63)
#define RP_NO_CORE UINT32_MAX
#define RP_BITS_MIN 8u
#define RP_BITS_MAX 24u

struct rp_chain {
    uint32_t pos; /* the node whose arc runs, or that is awaited */
    uint32_t end; /* one past the last node */
    uint32_t first;
    uint32_t machine;
    uint32_t core;       /* replay/core.c: in rp.machine; or RP_NO_CORE */
    uint32_t move;       /* index of the next move, */
    uint32_t move_node;  /* and its node, or IPS_NO_NODE */
    uint32_t next;       /* chain that waits for the same node */
    uint64_t done_t;     /* when the arc's work was done */
    uint64_t ran_t;      /* when it last had work to do; on a core with turns */
    uint64_t want_w;     /* work that awaits a core, in ns */
    uint64_t work_ns;    /* done on `machine`, not yet in run_ns */
    uint64_t blocked_ns; /* waited for cross arcs */
};

/* The virtual clock advances by dv units while the time advances by
 * dv * num / den, exactly: t0 + rem / den is when the clock stood at v0. */
struct rp_machine {
    struct rp_tree active; /* chains by (completion in _v, chain); of a
                              medium: the receiving nodes of its transfers */
    uint32_t count;        /* k, the hole included */
    bool hole; /* the first has completed: to be replaced or removed */
    struct ips_replay_machine is; /* ratios in lowest terms */
    uint64_t num, den;            /* num is of the k of now, den constant */
    unsigned shift;               /* den == 1 << shift, or RP_NO_SHIFT */
    uint64_t v0, t0, rem;
    uint64_t label_t;            /* the event it was last advanced to, >= t0 */
    uint64_t next_t0, next_rem;  /* of the next completion */
    uint64_t idle_t, idle_since; /* no chain active */
    /* Of a core (replay/core.c), whose `is.cores` is 1, at `den` as without its
     * load; else turn_v is RP_NEVER. */
    uint64_t turn_v;      /* where the chains' turn ends; RP_NEVER: never */
    uint64_t resume_t;    /* stopped: when the loads' turn ends */
    uint64_t empty_since; /* without chain; RP_NEVER: has looked */
    uint32_t of;          /* its machine */
    bool is_stopped;
};

/* Chains in line are linked by `next`, in order of (done_t, chain). */
struct rp_lock {
    uint32_t free;
    uint32_t first, last; /* in line, or RP_NO_CHAIN */
    uint32_t giver;       /* the last node that gave a unit */
    bool due;             /* in rp.due */
};

/* What a medium has saved: saved_t at at_t, and more since, while it is idle.
 */
struct rp_bucket {
    uint64_t saved_t, at_t;
};

struct rp {
    const struct ips_graph *g;
    const struct ips_replay_ask *ask;
    struct ips_replay *out;
    struct ips_arcs arcs;
    unsigned bits;
    uint32_t machines;
    uint32_t chains;
    uint64_t *reach;      /* [nodes] _t, or RP_UNKNOWN and who waits */
    uint64_t *weight;     /* out's */
    uint16_t *at_machine; /* [nodes] where it was reached; NULL: one machine */
    struct rp_chain *chain;
    struct rp_machine *machine;
    /* What comes next, by (time, chain): arrivals for blocked chains; by (time,
     * machine): the next completion of each, which is its leaf. */
    struct rp_tree pending_arrivals;
    struct rp_tree completions;
    uint32_t arrived; /* leaf of the arrival at hand, to be replaced or
                         removed, or RP_NO_LEAF */
    uint32_t *ready;  /* chains whose node is reached now */
    uint32_t ready_count;
    uint32_t busy; /* machine whose completion is at hand, or UINT32_MAX */
    uint32_t load_next;
    /* replay/medium.c; all NULL where there is none. */
    uint32_t media;           /* machines behind `machines` in `machine` */
    struct rp_bucket *bucket; /* [media] NULL: none has any */
    uint64_t *arrive;     /* [nodes] when what a medium brings is there, in _t;
                             RP_UNKNOWN, or its low bit: a chain waits for it */
    uint32_t *sends_next; /* [nodes] the next receive of the same sender */
    uint32_t *sends;      /* [nodes] a sender's first receive, or IPS_NO_NODE */
    bool no_memory;       /* the replay is given up */
    /* replay/lock.c; all NULL where there are none. */
    uint32_t *lock_at; /* [nodes] 0, or 2 * lock + 1: takes, + 2: gives */
    struct rp_lock *lock;
    const bool *order_kept; /* [locks] those of which nothing is in lock_at */
    uint32_t *due;          /* locks that are free and waited for */
    uint32_t *had_unit;     /* room for the chains of a round of rp_grant */
    uint32_t due_count;
    struct rp_queues *queues; /* replay/queue.c; NULL: none */
    uint32_t queue_due;       /* not 0: some dispatcher may take a result */
    /* replay/core.c. Cores are behind the media in `machine`. */
    uint32_t first_core, end_core; /* equal: no machine has any */
    uint32_t *core_of; /* [machines] its first core, or RP_NO_CORE; or NULL */
    uint32_t *placing; /* chains that come to a core when this moment is over */
    uint32_t place_count;
    uint64_t now; /* of the event at hand, or the last one */
};

#define RP_NO_SHIFT 64u
static inline unsigned rp_shift(uint64_t den)
{
    return den & (den - 1) ? RP_NO_SHIFT : (unsigned)__builtin_ctzll(den);
}
/* num and den of machine m with k chains. */
static inline uint64_t rp_num(const struct ips_replay_machine *m, uint64_t k)
{
    uint64_t want = k * m->load.den + m->load.num;
    uint64_t have = (uint64_t)m->cores * m->load.den;
    return ips_max_u64(want, have) * m->speed.den;
}
static inline uint64_t rp_den(const struct ips_replay_machine *m)
{
    return (uint64_t)m->cores * m->load.den * m->speed.num;
}

/* Rounded up, but for what is less than 1/256 ns above. */
static inline uint64_t rp_ns(const struct rp *r, uint64_t t)
{
    uint64_t up = (1ULL << r->bits) - 1 - (1ULL << (r->bits - 8));
    return (t + up) >> r->bits;
}

/* In `to`'s lowest terms. */
struct ips_ratio rp_ratio(struct ips_ratio from, uint32_t otherwise);

/* Moves chain c's account of work to run_ns. */
void rp_flush_work(struct rp *r, uint32_t c);

/* From where node x was reached to where chain c is. */
static inline size_t rp_pair(const struct rp *r, uint32_t x, uint32_t c)
{
    size_t from = r->at_machine ? r->at_machine[x] : 0;
    return from * r->machines + r->chain[c].machine;
}
static inline uint64_t rp_mtime_ns(const struct rp *r, size_t pair,
                                   uint64_t bytes)
{
    return r->ask->mtime ? ips_replay_mtime_ns(r->ask, pair, bytes)
                         : ips_mtime_ns(&r->arcs.mtime, bytes);
}

/* ---- replay/medium.c ---- */

int rp_media_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_media_release(struct rp *r);
/* Node x is reached: its messages that go by a medium are on their way. */
void rp_send(struct rp *r, uint32_t x, uint64_t now);
/* Does node i's message, that chain c waits for, go by a medium? */
static inline bool rp_by_medium(const struct rp *r, uint32_t i)
{
    return r->media && r->arrive[i] != 0;
}
/* When what a medium brings node i is there, RP_UNKNOWN or more: not known. 1
 * stands for the begin, as 0 says that no medium does. */
static inline uint64_t rp_arrives(const struct rp *r, uint32_t i)
{
    uint64_t t = r->arrive[i];
    return t == 1 ? 0 : t;
}
/* The transfer that medium `m` has done is that of node `i`. */
void rp_transferred(struct rp *r, uint32_t i, uint64_t now);

/* ---- replay/lock.c ---- */

int rp_locks_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_locks_release(struct rp *r);
/* Does node i take (give back) a unit? */
static inline bool rp_takes(const struct rp *r, uint32_t i)
{
    return r->lock_at && (r->lock_at[i] & 1);
}
static inline bool rp_gives(const struct rp *r, uint32_t i)
{
    return r->lock_at && r->lock_at[i] && !(r->lock_at[i] & 1);
}
/* Chain c, at its `done_t`, is in line for what its `pos` takes. */
void rp_ask(struct rp *r, uint32_t c);
void rp_give(struct rp *r, uint32_t i);
/* One round: what is free now goes to those in line, who go on. */
void rp_grant(struct rp *r);
/* Marks in `kept` the locks that somebody is in line for; how many. */
uint32_t rp_locks_awaited(const struct rp *r, bool *kept);

/* ---- replay/queue.c ---- */

int rp_queues_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_queues_release(struct rp *r);
void rp_queues_set(struct rp *r);
/* Does a piece begin with node i, as recorded? */
bool rp_queue_bound(const struct rp *r, uint32_t i);
/* Chain c, of a queue, is at the end of a piece: where it goes on, or
 * IPS_NO_NODE: it waits. */
uint32_t rp_queue_next(struct rp *r, uint32_t c);
/* Who receives at node i, when that is sent. */
uint32_t rp_queue_receiver(const struct rp *r, uint32_t i);
/* The block whose result comes first with what node i sends, or IPS_QUEUE_NONE.
 */
uint32_t rp_queue_result(const struct rp *r, uint32_t i);
/* Node i is reached. */
void rp_queue_sent(struct rp *r, uint32_t i, uint64_t now);
/* The result of block b will be there at t. */
void rp_queue_due(struct rp *r, uint32_t b, uint64_t t);
/* ... is there. */
void rp_queue_come(struct rp *r, uint32_t b, uint64_t now);
/* One round: each dispatcher that may takes a result. */
void rp_queue_take(struct rp *r);
/* Chain c, at the next taking of `lock` in its chain or behind its piece, has
 * it: goes on with the piece that is next, if it is of a crew of that. */
void rp_lock_queue_granted(struct rp *r, uint32_t c, uint32_t lock);
static inline uint32_t rp_receiver(const struct rp *r, uint32_t i)
{
    return r->queues ? rp_queue_receiver(r, i) : ips_chain_of(r->g, i);
}

/* ---- replay/core.c ---- */

/* Machines that have turns get their cores in `core_of`, first_core and
 * end_core are set; before `machine` is there. */
int rp_cores_count(struct rp *r, struct ips_err *err) IPS_MUST_USE;
int rp_cores_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_cores_release(struct rp *r);
/* Cores as their machines are; all empty. */
void rp_cores_set(struct rp *r);
/* When `bits` is known: their first turns begin. */
void rp_cores_begin(struct rp *r);
/* The longest that `total` ns of work may take on machine m's cores. */
ips_u128 rp_cores_slowest(const struct rp *r, uint32_t m, uint64_t total);
/* Chain c, on a machine with cores, has work of w ns. */
void rp_cores_work(struct rp *r, uint32_t c, uint64_t w, uint64_t now);
/* A chain has left core i, that has `count` now. */
void rp_cores_left(struct rp *r, uint32_t i, uint64_t now);
/* What comes next on core i, which has changed. */
void rp_cores_changed(struct rp *r, uint32_t i);
/* Core i's next is no completion: is done, and true. */
bool rp_cores_event(struct rp *r, uint32_t i, uint64_t now);
/* Chains in `placing` come to their cores. */
void rp_cores_place(struct rp *r);
void rp_cores_load(struct rp *r, uint32_t m, uint64_t now);

/* ---- of replay/run.c ---- */

void rp_advance(struct rp_machine *m, uint64_t t);
/* When machine m's virtual clock will have moved by dv. */
void rp_time_of(const struct rp_machine *m, uint64_t dv, uint64_t *t0,
                uint64_t *rem);

/* Has what node `pos` of chain c awaits come? If not, it is waited for. */
bool rp_ready(struct rp *r, uint32_t c, uint64_t now);
/* Node `pos` of chain c is reached: goes on to the next that takes time. */
void rp_go_on(struct rp *r, uint32_t c, uint64_t now);
/* And all that are ready by it. */
void rp_go_on_all(struct rp *r, uint64_t now);

/* Chain c goes on at t, when what it waits for is there. */
void rp_schedule(struct rp *r, uint32_t c, uint64_t t);
/* Work of w_v (in _v) for `id` on machine i from now on. */
void rp_put_work_v(struct rp *r, uint32_t i, uint32_t id, uint64_t w_v,
                   uint64_t now);

/* Runs until nothing more can happen: all chains are at their ends, or a cycle
 * holds some up. */
void rp_run(struct rp *r);

#endif
