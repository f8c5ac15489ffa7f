/*
 * Private to the replay: its state, shared by the event loop (replay/run.c),
 * cores with turns (replay/core.c), and replay.c, which sets it up and reads
 * the results. Times `_t` are in units of 2^-bits ns, virtual times `_v` in
 * units of 2^-bits ns of work at speed 1.
 */
#ifndef IPS_ANALYSIS_REPLAY_RUN_H
#define IPS_ANALYSIS_REPLAY_RUN_H

#include "analysis/graph/kernel.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/tree.h"

#define RP_NO_CHAIN UINT32_MAX
/* In rp.reach a value of at least this means that the node is not reached
 * yet. The low half is the first chain that waits for the node, or
 * RP_NO_CHAIN. */
#define RP_UNKNOWN (1ULL << 63)
#define RP_NO_CORE UINT32_MAX
#define RP_BITS_MIN 8u
#define RP_BITS_MAX 24u

struct rp_chain {
    uint32_t pos; /* the node whose arc is being worked on, or for which the
                     chain waits */
    uint32_t end; /* one past the last node */
    uint32_t first;
    uint32_t machine;
    uint32_t core;      /* index into rp.machine (replay/core.c), or
                           RP_NO_CORE */
    uint32_t move;      /* index of the chain's next move */
    uint32_t move_node; /* node of the chain's next move, or IPS_NO_NODE */
    uint32_t next;      /* next chain that waits for the same node */
    uint64_t done_t;    /* when the work of the current arc was done */
    uint64_t ran_t; /* when the chain last finished work on a core with turns */
    uint64_t want_w; /* ns of work that the chain will do when it gets a core */
    /* ns of work on `machine` that is not yet added to run_ns */
    uint64_t work_ns;
    uint64_t blocked_ns; /* time that the chain waited for cross arcs */
};

/* A machine, medium or core. The virtual clock advances by dv units while the
 * time advances by exactly dv * num / den; t0 + rem / den is the time (_t) at
 * which the virtual clock was v0. */
struct rp_machine {
    struct rp_tree
        active; /* active chains by (virtual time of completion, chain); for a
                   medium the receiving nodes of its transfers */
    uint32_t count; /* number of active chains, including the entry that `hole`
                       marks */
    bool hole; /* the first entry of `active` has completed; new work replaces
                  it, else it is removed */
    /* the machine as given in the request, ratios in lowest terms */
    struct ips_replay_machine is;
    uint64_t num, den; /* num depends on the current `count`; den only on the
                          machine and its load */
    unsigned shift;    /* den == 1 << shift, or RP_NO_SHIFT */
    uint64_t v0, t0, rem;
    uint64_t label_t; /* time of the event to which the machine was last
                         advanced; >= t0 */
    uint64_t next_t0, next_rem;  /* time of the next completion: next_t0 +
                                    next_rem / den */
    uint64_t idle_t, idle_since; /* total time without an active chain; start of
                                    the current idle time */
    /* The next members are only for a core (replay/core.c), which has
     * `is.cores` 1 and a `den` that ignores its load. Machines and media
     * have turn_v RP_NEVER. */
    uint64_t turn_v;      /* virtual time at which the chains' turn ends, or
                             RP_NEVER */
    uint64_t resume_t;    /* if stopped: when the loads' turn ends */
    uint64_t empty_since; /* since when the core has had no chain; RP_NEVER if
                             it has already tried to pull one */
    uint32_t of;          /* number of the machine to which this core belongs */
    bool is_stopped;
};

/* A lock. The chains that wait for it are linked by rp_chain.next, in order of
 * (done_t, chain). */
struct rp_lock {
    uint32_t free;
    uint32_t first, last; /* first and last waiting chain, or RP_NO_CHAIN */
    uint32_t giver;       /* the last node that gave a unit back */
    bool due;             /* true: the lock is listed in rp.due */
};

/* The token bucket of a medium: saved_t is the transfer time that the medium
 * had saved up at time at_t. The medium saves more as long as it is idle. */
struct rp_bucket {
    uint64_t saved_t, at_t;
};

struct rp {
    const struct ips_graph *g;
    const struct ips_replay_ask *ask;
    struct ips_replay *out;
    struct ips_cross_arc_weighting arcs;
    unsigned bits;
    uint32_t machines;
    uint32_t chains;
    uint64_t *reach;      /* [nodes] when each node was reached, in units of _t;
                             before that RP_UNKNOWN | the first waiting chain */
    uint64_t *weight;     /* the same array as out->weight */
    uint16_t *at_machine; /* [nodes] machine on which the node was reached;
                             NULL: there is only one */
    struct rp_chain *chain;
    struct rp_machine *machine;
    /* The next events. pending_arrivals: arrivals for which blocked chains
     * wait, by (time, chain). completions: the next completion of each
     * machine, by (time, machine); its leaf is the machine's number. */
    struct rp_tree pending_arrivals;
    struct rp_tree completions;
    uint32_t arrived; /* leaf in pending_arrivals of the arrival being
                         processed, for reuse or removal; RP_NO_LEAF: none */
    uint32_t *ready;  /* chains whose node can be reached now */
    uint32_t ready_count;
    uint32_t busy; /* machine whose completion is being processed, or
                      UINT32_MAX */
    uint32_t load_next;
    /* The next members are for replay/medium.c; the pointers are NULL without
     * media. */
    uint32_t media;           /* number of media; they follow the machines in
                                 `machine` */
    struct rp_bucket *bucket; /* [media]; NULL: no medium has a token bucket */
    /* [nodes] when the message to the node arrives if a medium carries it, in
     * _t; RP_UNKNOWN until this is known, with the low bit set if a chain waits
     * for the message; 0: no medium carries it */
    uint64_t *arrive;
    /* [nodes] next node that receives from the same send */
    uint32_t *sends_next;
    uint32_t *sends; /* [nodes] first node that receives from this send, or
                        IPS_NO_NODE */
    bool no_memory;  /* out of memory: the replay is given up */
    /* The next members are for replay/lock.c; the pointers are NULL without
     * locks. */
    uint32_t *lock_at; /* [nodes] 0: no lock event; 2 * lock + 1: takes a unit;
                          2 * lock + 2: gives a unit back */
    struct rp_lock *lock;
    const bool *order_kept; /* [locks] true: the lock keeps the recorded order
                               and is not in lock_at */
    uint32_t *due;          /* locks that have both free units and waiters */
    uint32_t *had_unit;     /* scratch: chains that got a unit in this call of
                               rp_grant_free_units_and_continue_chains() */
    uint32_t due_count;
    struct rp_queues *queues; /* state of replay/queue.c; NULL: no queues */
    uint32_t queue_due;       /* number of dispatchers that may take a result */
    /* The next members are for replay/core.c. Cores follow the media in
     * `machine`. */
    uint32_t first_core, end_core; /* first_core == end_core: no machine has
                                      turns */
    uint32_t *core_of; /* [machines] first core of each, or RP_NO_CORE; NULL if
                          none has turns */
    uint32_t *placing; /* chains that get a core after all other events of the
                          current time */
    uint32_t place_count;
    uint64_t now; /* time of the current or the last event */
};

#define RP_NO_SHIFT 64u
static inline unsigned rp_shift_for_power_of_two(uint64_t den)
{
    return den & (den - 1) ? RP_NO_SHIFT : (unsigned)__builtin_ctzll(den);
}
/* Returns rp_machine.num of machine m with k active chains.
 * rp_time_per_work_den() returns rp_machine.den. */
static inline uint64_t rp_time_per_work_num(const struct ips_replay_machine *m,
                                            uint64_t k)
{
    uint64_t want = k * m->load.den + m->load.num;
    uint64_t have = (uint64_t)m->cores * m->load.den;
    return ips_max_u64(want, have) * m->speed.den;
}
static inline uint64_t rp_time_per_work_den(const struct ips_replay_machine *m)
{
    return (uint64_t)m->cores * m->load.den * m->speed.num;
}

/* Converts internal time to ns, rounding up; less than 1/256 ns above a whole
 * ns counts as whole. */
static inline uint64_t rp_internal_time_to_ns(const struct rp *r, uint64_t t)
{
    uint64_t up = (1ULL << r->bits) - 1 - (1ULL << (r->bits - 8));
    return (t + up) >> r->bits;
}

/* Reduces a ratio to lowest terms; returns `otherwise` / 1 if the ratio is not
 * set. */
struct ips_ratio rp_ratio_in_lowest_terms(struct ips_ratio from,
                                          uint32_t otherwise);

/* Moves the work in chain c's work_ns to its run_ns, as time at its
 * machine's speed. */
void rp_add_work_of_chain_to_run_time(struct rp *r, uint32_t c);

/* Returns the index of a pair of machines: from the machine on which node x was
 * reached to the machine of chain c. */
static inline size_t rp_machine_pair_index(const struct rp *r, uint32_t x,
                                           uint32_t c)
{
    size_t from = r->at_machine ? r->at_machine[x] : 0;
    return from * r->machines + r->chain[c].machine;
}
static inline uint64_t rp_compute_message_ns(const struct rp *r, size_t pair,
                                             uint64_t bytes)
{
    return r->ask->message_time
               ? ips_replay_compute_message_ns(r->ask, pair, bytes)
               : ips_message_time_compute_message_ns(&r->arcs.message_time,
                                                     bytes);
}

/* ---- replay/medium.c ---- */

int rp_media_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_media_release(struct rp *r);
/* Starts the transfers of the messages that node x sends, when x is reached. */
void rp_start_transfers_of_node(struct rp *r, uint32_t x, uint64_t now);
/* Whether a medium carries the message that node i receives. */
static inline bool rp_arrives_through_medium(const struct rp *r, uint32_t i)
{
    return r->media && r->arrive[i] != 0;
}
/* Returns when the message that a medium carries to node i arrives; RP_UNKNOWN
 * or more: not known yet. In arrive[] a 1 means time 0, because a 0 means that
 * no medium carries the message. */
static inline uint64_t rp_medium_arrival_time(const struct rp *r, uint32_t i)
{
    uint64_t t = r->arrive[i];
    return t == 1 ? 0 : t;
}
/* Handles the end of a transfer over medium `m`: schedules the arrival of the
 * message at node i. Its receiver may have moved to another machine since the
 * send. */
void rp_schedule_arrival_after_transfer(struct rp *r, uint32_t i, uint32_t m,
                                        uint64_t now);

/* ---- replay/lock.c ---- */

int rp_locks_alloc_and_init(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_locks_release(struct rp *r);
/* Whether node i takes a unit of a lock; rp_gives_lock_unit(): whether it gives
 * a unit back. */
static inline bool rp_takes_lock_unit(const struct rp *r, uint32_t i)
{
    return r->lock_at && (r->lock_at[i] & 1);
}
static inline bool rp_gives_lock_unit(const struct rp *r, uint32_t i)
{
    return r->lock_at && r->lock_at[i] && !(r->lock_at[i] & 1);
}
/* Adds chain c to the waiters of the lock that its node `pos` takes. Waiters
 * are sorted by the time at which their work was done (`done_t`). */
void rp_insert_chain_into_lock_waiters(struct rp *r, uint32_t c);
void rp_return_lock_unit(struct rp *r, uint32_t i);
/* Grants the free units of all locks in rp.due to their waiters, and continues
 * those chains. They may free units again, so the event loop repeats this. */
void rp_grant_free_units_and_continue_chains(struct rp *r);
/* Marks in `kept` (locks that keep the recorded order) the locks that have
 * waiters. Returns how many were newly marked. */
uint32_t rp_mark_and_count_awaited_locks(const struct rp *r, bool *kept);

/* ---- replay/queue.c ---- */

int rp_queues_alloc(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_queues_release(struct rp *r);
void rp_queues_init_state(struct rp *r);
/* Whether a piece of work (of a work queue) begins at node i in the recorded
 * chain. */
bool rp_queue_is_piece_start(const struct rp *r, uint32_t i);
/* Called when chain c, a dispatcher or worker of a work queue, has finished a
 * piece. Returns the node where the chain continues, or IPS_NO_NODE if it has
 * to wait. */
uint32_t rp_queue_choose_next_node_or_wait(struct rp *r, uint32_t c);
/* Returns the chain that executes the receive node i in the replay. Valid from
 * the time the message is sent: before, the worker may not be chosen yet. */
uint32_t rp_queue_find_chain_that_runs_node(const struct rp *r, uint32_t i);
/* Returns the block whose result begins to arrive with the message that node i
 * sends, or IPS_QUEUE_NONE. */
uint32_t rp_queue_block_whose_result_node_sends(const struct rp *r, uint32_t i);
/* If node i sends a result, schedules the result's arrival at the
 * dispatcher; called when i is reached. */
void rp_schedule_result_if_node_sends_it(struct rp *r, uint32_t i,
                                         uint64_t now);
/* Schedules the arrival of block b's result at t. */
void rp_schedule_arrival_of_result(struct rp *r, uint32_t b, uint64_t t);
/* Adds block b's result, which has arrived, to the results that the dispatcher
 * can take. */
void rp_insert_arrived_result(struct rp *r, uint32_t b, uint64_t now);
/* Lets each dispatcher that may take a result take one. */
void rp_queue_let_dispatchers_take_results(struct rp *r);
/* Called when chain c got `lock`. If c is a worker of that lock's queue, it
 * continues with the queue's next piece. */
void rp_lock_queue_assign_piece_if_worker(struct rp *r, uint32_t c,
                                          uint32_t lock);
static inline uint32_t rp_find_chain_that_runs_node(const struct rp *r,
                                                    uint32_t i)
{
    return r->queues ? rp_queue_find_chain_that_runs_node(r, i)
                     : ips_chain_of(r->g, i);
}

/* ---- replay/core.c ---- */

/* Gives numbers to the cores of machines that have turns: sets core_of,
 * first_core and end_core. Called before `machine` is allocated. */
int rp_cores_assign_numbers(struct rp *r, struct ips_err *err) IPS_MUST_USE;
int rp_cores_alloc_placing_list(struct rp *r, struct ips_err *err) IPS_MUST_USE;
void rp_cores_release(struct rp *r);
/* Initialises the cores from their machines; no core has a chain yet. */
void rp_cores_init_from_machines(struct rp *r);
/* Starts the cores' first turns; `bits` must be known. */
void rp_cores_start_first_turns(struct rp *r);
/* Returns the longest time in ns that `total` ns of work may take on machine
 * m's cores; 0 if machine m has no turns. */
ips_u128 rp_cores_upper_bound_of_work_time(const struct rp *r, uint32_t m,
                                           uint64_t total);
/* Gives w ns of work to chain c, which is on a machine with turns: at once if
 * it keeps its core, else when it gets a core (`placing`). */
void rp_cores_add_work_or_place_later(struct rp *r, uint32_t c, uint64_t w,
                                      uint64_t now);
/* Updates core i and its machine after a chain has left the core: count of
 * chains, start of idle time. */
void rp_cores_update_after_chain_left(struct rp *r, uint32_t i, uint64_t now);
/* Recomputes the next event of core i after its chains, load or turn changed.
 */
void rp_cores_update_next_event(struct rp *r, uint32_t i);
/* If the next event of core i is the end of a turn or another event that is no
 * completion, handles it and returns true. */
bool rp_cores_switch_turn_or_pull_chain(struct rp *r, uint32_t i, uint64_t now);
/* Assigns cores to the chains in rp.placing. */
void rp_cores_place_waiting_chains(struct rp *r);
void rp_cores_apply_changed_machine_load(struct rp *r, uint32_t m,
                                         uint64_t now);

/* ---- replay/run.c ---- */

void rp_advance_virtual_clock_of_machine(struct rp_machine *m, uint64_t t);
/* Computes when machine m's virtual clock will have advanced by dv: at the time
 * *t0 + *rem / m->den. */
void rp_time_after_virtual_step(const struct rp_machine *m, uint64_t dv,
                                uint64_t *t0, uint64_t *rem);

/* Whether the cross arc of node `pos` of chain c has arrived. If not, the chain
 * now waits for it. */
bool rp_cross_arc_arrived_or_wait(struct rp *r, uint32_t c, uint64_t now);
/* Lets chain c reach its node `pos` and continue up to the next arc that takes
 * time. */
void rp_continue_chain(struct rp *r, uint32_t c, uint64_t now);
/* Continues all chains in rp.ready, and all chains that thereby become
 * ready. */
void rp_continue_ready_chains(struct rp *r, uint64_t now);

/* Schedules chain c to continue at time t, when the message or other arc for
 * which it waits arrives. */
void rp_schedule_arrival_at_chain(struct rp *r, uint32_t c, uint64_t t);
/* Adds w_v units of work, from now on, to machine (medium, core) i, for chain
 * (or receiving node) `id`. */
void rp_add_virtual_work(struct rp *r, uint32_t i, uint32_t id, uint64_t w_v,
                         uint64_t now);

/* Runs the replay until all chains have ended, or until waits that nothing can
 * end stall the rest. */
void rp_run_event_loop(struct rp *r);

#endif
