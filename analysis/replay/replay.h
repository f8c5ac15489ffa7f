/*
 * Replay with processor sharing (ALGORITHMS 5): what the measured program would
 * do on other machines. Chains run on machines of n cores, speed sigma and
 * background load b; with k chains active on a machine each proceeds at
 *     r = sigma * min(1, n / (k + b))
 * A chain arc needs its `w` ns at speed 1; a node is reached when that is done
 * and its cross arc has come: reach(xpred) + the arc's time. A chain that waits
 * for its cross arc is not active.
 *
 * Turns (`turn_ns` above 0): what a time-sharing kernel does instead on a
 * machine with load. It has n cores in line of their own, each with its part of
 * b (whole loads in turn, from the first core on; what is left of b on the
 * next). Of a core's chains each proceeds at sigma / k, as if there were no
 * load, for a turn: until each that were there all the time has had turn_ns of
 * the core; then the core's loads have theirs, turn_ns each, and its chains
 * stand still. While a core with at most one load has no chain, the turn grows
 * again by a fourth of that time, to turn_ns at most. A chain keeps its core as
 * long as it has work. One that waited comes to the core it had if that has
 * neither chain nor load, else to the first such core; else to the one with the
 * least chains and load: of equals the one it had, or with the least chains, or
 * the first. All that happens at a moment comes first; then chains get cores,
 * by number. A core takes, when it has had no chain for turn_ns, the first
 * chain of the core with most chains and load (of equals the first) that has a
 * chain, if that has more of both than its own load and one. A turn of loads
 * that has begun ends as it would have, whatever the load becomes. The turn of
 * chains is a whole number of ns of work, floor(turn_ns * sigma), and at least
 * one; that of loads floor(turn_ns * the core's load) ns. Machines that never
 * have load are shared as above.
 *
 * Exactness: times within are fixed-point fractions of a ns (as many bits as
 * the longest possible replay leaves room for, 8..24). A machine's virtual
 * clock and its time move together by whole units, so no work is lost or made,
 * and no error adds up, but for turns beside load, each of which may end a unit
 * late. With one core (or no more chains than cores), speed 1
 * and whole loads there is none at all but where a chain comes in between: it
 * is then a few units early. Times told are rounded up to ns; what is less than
 * 1/256 ns above a whole ns counts as whole.
 *
 * Deterministic. Ties: load changes, then arrivals by chain, then completions
 * by machine and in it by chain; none of it changes a time by more than the
 * units above, because what depends on order is in the graph.
 *
 * Locks (`locks`): who has a resource next is settled anew. It has so many
 * units; a chain that comes to a node that takes one waits in line for it, and
 * a node that gives one back does so when it is reached. First come, first
 * served: by the moment of asking, then by chain. At one moment all that takes
 * no time is done first; then what is free is given to those in line; and so
 * on until nothing changes. The RESOURCE arc into a node that takes does not
 * count. Where the threads would wait for each other so, which they did not in
 * the order that was seen, the locks that were waited for keep that order (are
 * `kept`): their events do not count, their arcs do; and it is replayed again.
 *
 * Work queues (`queues`, analysis/replay/queue.h): a dispatcher that is done
 * with a turn takes the result that came first; of those that came at the same
 * moment the one that the first chain sent. It does so when all else that takes
 * no time is done, and free locks are given; then chains get cores. The blocks
 * that a worker was given it does as they were given, and its own end when
 * there is no turn left or it was told to stop. What follows a piece in its
 * chain as recorded, up to the next, is done behind it wherever it goes.
 *
 * Crews (`queues->lock_queues`, analysis/replay/lock_queue.h): a worker that
 * has its crew's lock next goes on with the next piece, in the order in which
 * they were taken as recorded; with its own end when there is none left. Of a
 * lock that is `kept` the pieces are, too.
 *
 * RESOURCE arcs into other nodes stay dependencies, as recorded (or absent:
 * scenario.order_dependent_off). They are counted, so that whoever tells the
 * answer can say so.
 *
 * A shared medium (DRO-5): what a message's bytes take of it, MTIME(len) less
 * MTIME(0), is work that all transfers at hand divide among them, from the
 * moment its sender sends; MTIME(0) follows. Whose medium it takes is settled
 * at the send.
 *
 * Only the weighting `cpu`, of full graphs without remote references that have
 * passed ips_graph_check(). Scheduling anomalies are real: a faster machine or
 * network may lengthen the makespan.
 *
 * Cost: O((V + E) log(chains + machines)) time, with turns as often as a chain
 * has waited the cores of its machine more; 8 bytes a node, 2 more where
 * there are several machines, 8 more for the new weights, 16 more with a medium
 * and 32 a transfer at hand; 8 more with locks; about 200 bytes a chain and
 * machine (or core, with turns). No recursion.
 * Source: DPM-6, DPM-7, DPM-9; DRO-5.
 */
#ifndef IPS_ANALYSIS_REPLAY_REPLAY_H
#define IPS_ANALYSIS_REPLAY_REPLAY_H

#include "analysis/graph/mtime.h"
#include "analysis/replay/queue.h"

#define IPS_REPLAY_MACHINES_MAX 65535u
#define IPS_REPLAY_CORES_MAX 65536u
#define IPS_REPLAY_RATIO_MAX 10000u /* of a ratio's parts */
#define IPS_REPLAY_LOCKS_MAX 0x7ffffffeu
#define IPS_REPLAY_TURN_MAX 10000000000ull /* ns */
/* Of all machines with load together, where there are turns. */
#define IPS_REPLAY_LINES_MAX 1048576u

/* num / den; den 0 = never set: the default that the field names. */
struct ips_ratio {
    uint32_t num;
    uint32_t den;
};

struct ips_replay_machine {
    uint32_t cores;         /* at least 1 */
    struct ips_ratio speed; /* above 0; default 1 */
    struct ips_ratio load;  /* b: other threads that want a core; default 0 */
    uint64_t turn_ns;       /* 0: these share evenly, at all times */
};

/* From the arc into `node` on, the chain runs elsewhere. Sorted by node; at
 * most one a node. On a chain's first node it takes the place of the map. */
struct ips_replay_move {
    uint32_t node;
    uint32_t machine;
};

/* From at_ns on the machine's load is another. Sorted by time. */
struct ips_replay_load {
    uint64_t at_ns;
    uint32_t machine;
    struct ips_ratio load;
};

/* Node `node`, which is no chain's first and, if it takes, has no cross arc but
 * RESOURCE, takes a unit of a lock, or gives one back. Sorted by node; at most
 * one a node. */
struct ips_replay_lock_event {
    uint32_t node;
    uint32_t lock; /* below lock_count */
    bool gives;
};
struct ips_replay_locks {
    uint32_t lock_count;
    const uint32_t *units; /* [lock_count] free at the begin: 1 of a mutex */
    uint32_t event_count;
    const struct ips_replay_lock_event *event;
};

struct ips_replay_ask {
    uint32_t machine_count; /* at least 1 */
    const struct ips_replay_machine *machine;
    const uint32_t *map; /* [chain_count] machine of each chain; NULL: all 0 */
    uint32_t move_count;
    const struct ips_replay_move *move;
    uint32_t load_count;
    const struct ips_replay_load *load;
    /* [machine_count * machine_count] time of a message from machine f to t at
     * f * machine_count + t (f is where the sender is when it sends, t where
     * the receiver is when it receives); NULL: the scenario's for all. */
    const struct ips_mtime *mtime;
    /* [machine_count * machine_count] or NULL, with mtime: where a pair has a
     * curve, its times are the curve's, scaled as mtime's. */
    const struct ips_curve *const *curve;
    /* [machine_count * machine_count] the medium that messages of a pair share,
     * below medium_count, or IPS_REPLAY_NO_MEDIUM; medium_count 0: none. */
    uint32_t medium_count;
    const uint32_t *medium;
    /* [machine_count * machine_count] or NULL, with media: where a pair has a
     * curve, a message takes its medium for so long, scaled as mtime's; else
     * for its time less that of 0 bytes. */
    const struct ips_curve *const *wire;
    /* [medium_count] or NULL: a token bucket. While the medium is idle it saves
     * up to so much of its time, and what comes then has that at once. */
    const uint64_t *burst_ns;
    const struct ips_replay_locks *locks; /* NULL: none */
    /* NULL: none. Their order is settled anew: gives `took`; without moves and
     * `relabel`. The times are those of a replay of ips_queued_graph_make(). */
    const struct ips_queues *queues;
    bool relabel; /* gives `weight` */
};
#define IPS_REPLAY_NO_MEDIUM UINT32_MAX

/* What a message of so many bytes takes between a pair; ask.mtime is there. */
static inline uint64_t ips_replay_mtime_ns(const struct ips_replay_ask *ask,
                                           size_t pair, uint64_t bytes)
{
    const struct ips_mtime *m = &ask->mtime[pair];
    const struct ips_curve *c = ask->curve ? ask->curve[pair] : NULL;
    if (!c)
        return ips_mtime_ns(m, bytes);
    struct ips_mtime one = {ips_curve_ns(c, bytes), 0, m->scale_num,
                            m->scale_den};
    return ips_mtime_ns(&one, 0);
}

/* For how long a message takes its medium. */
static inline uint64_t ips_replay_wire_ns(const struct ips_replay_ask *ask,
                                          size_t pair, uint64_t bytes)
{
    const struct ips_mtime *m = &ask->mtime[pair];
    struct ips_mtime one = {ips_curve_ns(ask->wire[pair], bytes), 0,
                            m->scale_num, m->scale_den};
    return ips_mtime_ns(&one, 0);
}

/* end_ns - start_ns = run_ns + queued_ns + blocked_ns. */
struct ips_replay_chain {
    uint64_t start_ns;   /* its first node */
    uint64_t end_ns;     /* its last node */
    uint64_t run_ns;     /* its work, each machine's at that machine's speed */
    uint64_t queued_ns;  /* active, without a core: sharing's cost */
    uint64_t blocked_ns; /* waited for a cross arc */
};

struct ips_replay {
    uint64_t makespan_ns; /* the greatest END, or the scenario's goal */
    uint32_t end;         /* that END; IPS_NO_NODE in an empty graph */
    uint64_t last_ns;     /* when the last chain ended */
    uint64_t *reach;      /* [node_count] ns */
    /* [node_count], NULL unless asked for: the arc from the chain predecessor,
     * from its start to its work's end, without the block that followed. The
     * longest path of the graph so labelled is `reach`, so the makespan. */
    uint64_t *weight;
    struct ips_replay_chain *chain; /* [chain_count] */
    /* [machine_count + medium_count] no chain active, no transfer, until
     * last_ns */
    uint64_t *idle_ns;
    /* [node_count], NULL without locks: of a node that took a unit and waited
     * for it the node that gave it back, else IPS_NO_NODE. With these as
     * RESOURCE arcs (and without that into any other node that takes) `reach`
     * is the longest path. */
    uint32_t *giver;
    uint32_t *taken_block; /* [turns], NULL without queues: the block whose
                       result each took */
    uint32_t *had;         /* [pieces of crews], likewise: the worker of each */
    uint32_t kept_count;   /* locks that kept their order */
    unsigned bits;         /* times within were whole multiples of 2^-bits ns */
    uint64_t units_taken;  /* units of the others */
    uint64_t events;    /* completions of work and arrivals that were awaited,
                           and units taken */
    uint64_t resources; /* RESOURCE arcs replayed as recorded, which are of
                           who comes first: not barriers */
};

/* IPS_E_USAGE: the question is wrong, and how; IPS_E_LIMIT: too long a replay,
 * or numbers out of range; IPS_E_STALLED: a cycle, with up to ten of the nodes
 * that are awaited. */
int ips_replay(const struct ips_graph *g, const struct ips_scenario *scenario,
               const struct ips_replay_ask *ask, struct ips_replay *out,
               struct ips_err *err) IPS_MUST_USE;
void ips_replay_release(struct ips_replay *r);

#endif
