/*
 * Replay with processor sharing (ALGORITHMS 5): predicts how the recorded
 * program would run on other machines. Chains run on machines of n cores, speed
 * sigma and background load b. With k active chains on a machine each proceeds
 * at r = sigma * min(1, n / (k + b)). A chain arc needs its `w` ns at speed 1.
 * A node is reached when that work is done and its cross arc has arrived:
 * reach(xpred) + the arc's time. A chain that waits for its cross arc is not
 * active.
 *
 * Turns (`turn_ns` above 0) model what a time-sharing kernel does on a machine
 * with load. Each of the n cores has its own run queue and its own share of b:
 * whole loads are dealt out in turn from the first core on, and the fraction of
 * b that remains goes to the next core. During the chains' turn each of a
 * core's k chains proceeds at sigma / k, as if there were no load, until every
 * chain that stayed on the core has had it for turn_ns. Then the core's loads
 * have their turn, turn_ns each, and its chains stop. While a core with at most
 * one load has no chain, the chains' current turn becomes longer by a fourth of
 * that time, up to turn_ns.
 *
 * A chain keeps its core as long as it has work. A chain that waited goes to
 * its last core if that core has neither chain nor load, else to the first such
 * core, else to the core with the least chains plus load. Among equal cores it
 * prefers its last one, then the one with the fewest chains, then the first.
 * Chains get cores in order of their numbers, after all other events of the
 * same time. A core that has had no chain for turn_ns pulls the first chain of
 * the core with the most chains plus load (of equals the first) that has a
 * chain, if that sum exceeds its own load by more than one. A turn of loads
 * that has begun is not changed by a change of load. The chains' turn is a
 * whole number of ns of work, floor(turn_ns * sigma) but at least one; the
 * loads' turn is floor(turn_ns * the core's load) ns. Machines that never have
 * load share their cores evenly, as described in the first paragraph.
 *
 * Exactness: internal times are fixed-point fractions of a ns, with as many
 * bits as the longest possible replay leaves room for, 8..24. A machine's
 * virtual clock and its time advance together by whole units, so no work is
 * lost or gained and no error accumulates. Turns of loads are the exception:
 * each may end one unit late. With one core (or no more chains than cores),
 * speed 1 and whole loads there is no error, except that a chain that arrives
 * in the middle of a unit is a few units early. Results are rounded up to ns;
 * less than 1/256 ns above a whole ns counts as whole.
 *
 * Deterministic. Order of simultaneous events: load changes, then arrivals by
 * chain, then completions by machine and by chain within it. This order changes
 * no time by more than the units above, because all that depends on order is in
 * the graph.
 *
 * Locks (`locks`): the replay decides anew which chain gets a resource next. A
 * resource has a number of units. A chain that comes to a node that takes a
 * unit waits in line for it; a node that gives a unit back does so when it is
 * reached. Waiters are served in the order in which they began to wait, then by
 * chain. At each time the replay first does everything that takes no time, then
 * grants free units, and repeats both until nothing changes. The RESOURCE arc
 * into a node that takes a unit does not count. If the threads deadlock in the
 * new order (in the recorded order they did not), the replay starts again, and
 * the locks that threads waited for keep the recorded order. Such a lock is
 * `kept`: its lock events are ignored, and its RESOURCE arcs count.
 *
 * Work queues (`queues`, analysis/replay/queue.h): a dispatcher that has
 * finished a turn takes the result that arrived first; of results that arrived
 * at the same moment the one of the lowest chain. It does so after everything
 * else at that time that takes no time, and after free locks are granted; then
 * chains get cores. A worker does its blocks in the order in which it was given
 * them, and the end of its own chain when no turn is left or the dispatcher has
 * told it to stop. Work that followed a piece in the recorded chain, up to the
 * next piece, belongs to that piece, whichever worker does it.
 *
 * Lock-protected work queues (`queues->lock_queues`,
 * analysis/replay/lock_queue.h): a worker that gets the queue's lock continues
 * with the next piece, in the order in which the pieces were taken as recorded,
 * or with the end of its own chain if none is left. If the lock is `kept`, its
 * pieces keep their workers too.
 *
 * RESOURCE arcs into other nodes remain dependencies, as recorded (or absent:
 * scenario.order_dependent_off). They are counted, so that the caller can
 * report them.
 *
 * A shared medium (DRO-5): the time for which a message's bytes take the
 * medium, MTIME(len) less MTIME(0), is work. All current transfers share the
 * medium evenly, each from the moment of its send; MTIME(0) follows. The medium
 * of a message is determined when it is sent.
 *
 * Only for the weighting `cpu` and for full graphs without remote references
 * that have passed ips_graph_check_invariants(). Scheduling anomalies are real:
 * a faster machine or network may lengthen the makespan.
 *
 * Time: O((V + E) log(chains + machines)); with turns, each time a chain has
 * waited costs O(cores of its machine) more. Memory: 8 bytes a node; 2 more
 * with several machines, 8 more for new weights, 8 more with locks, 16 more
 * with a medium and 32 for each transfer in progress; about 200 bytes a chain
 * and machine (or core, with turns). No recursion.
 * Source: DPM-6, DPM-7, DPM-9; DRO-5.
 */
#ifndef IPS_ANALYSIS_REPLAY_REPLAY_H
#define IPS_ANALYSIS_REPLAY_REPLAY_H

#include "analysis/graph/message_time.h"
#include "analysis/replay/queue.h"

#define IPS_REPLAY_MACHINES_MAX 65535u
#define IPS_REPLAY_CORES_MAX 65536u
#define IPS_REPLAY_RATIO_MAX 10000u /* limit of num and den of a ratio */
#define IPS_REPLAY_LOCKS_MAX 0x7ffffffeu
#define IPS_REPLAY_TURN_MAX 10000000000ull /* greatest turn_ns */
/* Limit of the total number of cores of all machines that have turns and load.
 */
#define IPS_REPLAY_LINES_MAX 1048576u

/* The ratio num / den. den 0: not set, use the default named at the member. */
struct ips_ratio {
    uint32_t num;
    uint32_t den;
};

struct ips_replay_machine {
    uint32_t cores;         /* number of cores, at least 1 */
    struct ips_ratio speed; /* sigma, above 0; default 1 */
    /* b: number of other threads that want a core; default 0 */
    struct ips_ratio load;
    uint64_t turn_ns; /* length of a turn; 0: chains and load share the
                         cores evenly at every moment */
};

/* From the arc into `node` on, the node's chain runs on `machine`. Moves are
 * sorted by node, at most one move a node. A move at a chain's first node
 * replaces the chain's entry in the map. */
struct ips_replay_move {
    uint32_t node;
    uint32_t machine;
};

/* From at_ns on, the machine has this load. Load changes are sorted by time. */
struct ips_replay_load {
    uint64_t at_ns;
    uint32_t machine;
    struct ips_ratio load;
};

/* Node `node` takes a unit of a lock or gives one back. The node is no chain's
 * first; if it takes a unit, its cross arc is RESOURCE or none. Events are
 * sorted by node, at most one event a node. */
struct ips_replay_lock_event {
    uint32_t node;
    uint32_t lock; /* number of the lock, below lock_count */
    bool gives;
};
struct ips_replay_locks {
    uint32_t lock_count;
    const uint32_t *units; /* [lock_count] units that are free at the start; a
                              mutex has 1 */
    uint32_t event_count;
    const struct ips_replay_lock_event *event;
};

struct ips_replay_ask {
    uint32_t machine_count; /* number of machines, at least 1 */
    const struct ips_replay_machine *machine;
    const uint32_t *map; /* [chain_count] machine of each chain; NULL: all 0 */
    uint32_t move_count;
    const struct ips_replay_move *move;
    uint32_t load_count;
    const struct ips_replay_load *load;
    /* [machine_count * machine_count] message time from machine f to machine t
     * at index f * machine_count + t, where f is the sender's machine when it
     * sends and t the receiver's when it receives. NULL: the scenario's message
     * time, for all pairs. */
    const struct ips_message_time *message_time;
    /* [machine_count * machine_count] or NULL; needs `message_time`. For a pair
     * with a curve the times are those of the curve, with message_time's scale.
     */
    const struct ips_curve *const *curve;
    /* [machine_count * machine_count] the medium shared by messages of a pair,
     * below medium_count, or IPS_REPLAY_NO_MEDIUM. medium_count 0: no media. */
    uint32_t medium_count;
    const uint32_t *medium;
    /* [machine_count * machine_count] or NULL; needs media. For a pair with a
     * curve a message occupies its medium for the curve's time, with
     * message_time's scale; else for its message time less that of 0 bytes. */
    const struct ips_curve *const *wire;
    /* [medium_count] or NULL: a token bucket: while idle, a medium saves up to
     * this much transfer time. The next transfer is shorter by the saved time.
     */
    const uint64_t *burst_ns;
    /* NULL: all RESOURCE arcs stay as recorded */
    const struct ips_replay_locks *locks;
    /* The program's work queues, or NULL. The replay decides anew which worker
     * does which piece of work, and sets `taken_block` and `piece_worker`. Not
     * allowed with moves or `relabel`. The times equal those of a replay of the
     * graph that ips_queued_graph_make_reordered() makes for the new order. */
    const struct ips_queues *queues;
    bool relabel; /* true: the replay also computes `weight` */
};
#define IPS_REPLAY_NO_MEDIUM UINT32_MAX

/* Returns the time of a message of `bytes` bytes for a pair of machines (an
 * index in ask->message_time, which must be set). */
static inline uint64_t
ips_replay_compute_message_ns(const struct ips_replay_ask *ask, size_t pair,
                              uint64_t bytes)
{
    const struct ips_message_time *m = &ask->message_time[pair];
    const struct ips_curve *c = ask->curve ? ask->curve[pair] : NULL;
    if (!c)
        return ips_message_time_compute_message_ns(m, bytes);
    struct ips_message_time one = {ips_curve_compute_message_ns(c, bytes), 0,
                                   m->scale_num, m->scale_den};
    return ips_message_time_compute_message_ns(&one, 0);
}

/* Returns how long a message of `bytes` bytes occupies the medium of a pair of
 * machines; ask->wire[pair] must be set. */
static inline uint64_t
ips_replay_medium_occupancy_ns(const struct ips_replay_ask *ask, size_t pair,
                               uint64_t bytes)
{
    const struct ips_message_time *m = &ask->message_time[pair];
    struct ips_message_time one = {
        ips_curve_compute_message_ns(ask->wire[pair], bytes), 0, m->scale_num,
        m->scale_den};
    return ips_message_time_compute_message_ns(&one, 0);
}

/* end_ns - start_ns = run_ns + queued_ns + blocked_ns. */
struct ips_replay_chain {
    uint64_t start_ns; /* time of the chain's first node */
    uint64_t end_ns;   /* time of the chain's last node */
    uint64_t run_ns;   /* time of the chain's work, at the speed of each machine
                          it ran on */
    uint64_t queued_ns;  /* time that the chain was active but had no core: the
                            cost of sharing */
    uint64_t blocked_ns; /* time that the chain waited for cross arcs */
};

struct ips_replay {
    uint64_t makespan_ns; /* when the last END, or the scenario's goal, is
                             reached */
    uint32_t end; /* the END of makespan_ns; IPS_NO_NODE in an empty graph */
    uint64_t last_ns; /* when the last chain ended */
    uint64_t *reach;  /* [node_count] when each node is reached, ns */
    /* [node_count], NULL unless `relabel`: new length of the arc from the chain
     * predecessor, from its start to the end of its work, without the wait that
     * follows. In the graph with these weights the longest path is `reach`,
     * hence the makespan. */
    uint64_t *weight;
    struct ips_replay_chain *chain; /* [chain_count] times of each chain */
    /* [machine_count + medium_count] for each machine, then each medium: time
     * before last_ns without an active chain (a transfer) */
    uint64_t *idle_ns;
    /* [node_count], NULL without locks: for a node that waited for a unit of a
     * lock, the node that gave the unit back; else IPS_NO_NODE. If the RESOURCE
     * arcs into all nodes that take units are replaced by these, `reach` is the
     * longest path. */
    uint32_t *giver;
    /* Work queues (replay/queue.h); NULL without queues. taken_block [turns]:
     * the block whose result each turn took. piece_worker [pieces of
     * lock_queues]: the worker that did each piece.
     */
    uint32_t *taken_block, *piece_worker;
    uint32_t kept_count;  /* number of locks that kept the recorded order */
    unsigned bits;        /* internal times were multiples of 2^-bits ns */
    uint64_t units_taken; /* units taken of locks, without those that kept the
                             recorded order */
    uint64_t events;      /* completions of work, arrivals that a chain waited
                             for, and units taken */
    uint64_t resources;   /* RESOURCE arcs replayed as recorded although another
                             order was possible (so without barriers) */
};

/* Replays the graph. IPS_E_USAGE: an invalid request; the message says why.
 * IPS_E_LIMIT: the replay would be too long, or a number is out of range.
 * IPS_E_STALLED: a cycle; the message names up to ten awaited nodes. */
int ips_replay(const struct ips_graph *g, const struct ips_scenario *scenario,
               const struct ips_replay_ask *ask, struct ips_replay *out,
               struct ips_err *err) IPS_MUST_USE;
void ips_replay_release(struct ips_replay *r);

#endif
