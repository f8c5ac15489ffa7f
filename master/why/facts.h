/*
 * What why/query.c gathers and its worker computes (why/solve.c, why/path.c):
 * the facts that why.h's rules are about, on the graph of all machines.
 *
 * Two graphs are made of what comes. `wall` says what the elapsed time was:
 * the sums of its path. The *quiet* one says what the program itself would have
 * taken with a core for each thread and nothing else on its machines: chain
 * arcs weigh CPU, messages as long as they were measured under way where
 * somebody waited, waits for outside what they took. Findings and gains are
 * those of the quiet graph, so that they are the program's own and the same on
 * a loaded machine; what `wall` has beyond it is crowding, by its own threads
 * or by others.
 *
 * A gain is always that of ips_whatif on the whole graph with the named
 * portions taken away, never a sum of shares: what another path takes over is
 * no gain. Locks' is bounded by the work there is for the cores, and too few
 * cores' by what the machines' kernels say.
 */
#ifndef IPS_MASTER_WHY_FACTS_H
#define IPS_MASTER_WHY_FACTS_H

#include "analysis/explain/concurrent_activity.h"
#include "master/waits/waits.h"
#include "master/whatif/whatif.h"
#include "master/why/why.h"

/* A node: what a what-if takes, the graph as it came, and two merged ones. */
#define WHY_NODE_BYTES (WHATIF_NODE_BYTES + 228u)

/* What is mended at once: features of a graph of its own. */
enum why_feature {
    WHY_F_LOCK, /* as enum ips_concurrent_class */
    WHY_F_ALIKE,
    WHY_F_QUEUE,
    WHY_F_PEER,
    WHY_F_OTHER,
    WHY_F_ALONE,   /* one child after another */
    WHY_F_DELAY,   /* runnable, but not running */
    WHY_F_OUTSIDE, /* waits that nobody traced ended */
    WHY_FEATURES
};

struct why_data {
    struct whatif_data w; /* first */
    Ips__WhatifAsk ask;
    Ips__Lane scenario;
    struct waits waits; /* fetched, not laid */
    struct arena a;     /* names in `facts` */
    struct why_facts facts;
};

/* why/hang.c: facts.hang. */
void why_find_hang(struct query *q);

static inline struct why_data *why_of(struct query *q)
{
    return q->data;
}

/* Of a machine, at a place of its rows, for a cause: waited. */
struct why_wait {
    uint32_t share_ns, of, why;
    uint64_t ns;
};
struct why_ballot { /* zeroed to begin with; `wait` to be freed */
    struct why_wait *wait;
    size_t count, cap;
};

/* ns by process feature, by procedure and by who waited; of one kind. */
struct why_votes {
    uint64_t *process, *waiter; /* [processes] */
    uint64_t *procedure;        /* [procedures] */
};

struct why_solving {
    struct whatif_solving s; /* first */
    struct why_data *d;
    uint32_t processes, procedures; /* of all machines; of things.procedure */
    uint32_t *process_base;         /* [parts] */
    /* Of the merged graph, [node_count]. */
    uint8_t *resource_kind;
    uint64_t *cpu, *delay, *bytes;
    uint64_t *all_cpu; /* cpu of the whole run, where a window is asked about */
    struct ips_est wall; /* when nodes were passed, ns since the run began */
    uint64_t *outside; /* of a chain arc's end: slept, nobody traced ended it */
    uint64_t *unknown; /* of a chain arc's end, on the wall path: off the CPU
                          for no known reason */
    /* why/lock_cost.c: what contended locks cost; NULL: nothing. */
    uint32_t *lock_ppm; /* [procedures] of its samples: taking or giving one */
    uint64_t *lock_cpu; /* of a chain arc's end: so much of its CPU time */
    /* [procedures] who calls one that yields the core; or NULL */
    const struct entity_symbol **yields;
    bool chats;   /* they are the matter: nobody of them is called late */
    bool *chatty; /* [processes] ends of small messages of the path */
    uint32_t *process_of; /* [chain_count] process feature */
    uint32_t *role;       /* [chain_count] */
    bool *worker;         /* [chain_count] */
    bool *serves;         /* [chain_count] of those that were asked by
                             connections which they accepted */
    uint32_t role_count;
    uint32_t begins, begun, children; /* who begins one after another; one of
                                         them; how many */
    struct ips_concurrent concurrent;
    struct ips_features f; /* WHY_FEATURES, into: */
    uint64_t *first;
    struct ips_arc_share *arc_share;
    uint32_t *chain_none, *cross;
    uint64_t ns[WHY_FEATURES]; /* on the path */
    struct why_votes votes[WHY_FEATURES];
    struct why_votes phase[WHY_PHASES]; /* of the path in each looked at */
};

/* In the worker. */
void why_solve(struct query *q);

/* why/window.c: a question about a window is one about a graph in which nothing
 * outside of it takes any time. why_cut() makes these columns and the waits of
 * the merged graph of it, why_within() tells what of the ns that end at `end`
 * lies in the window (all, where there is none), why_holds() whether a moment
 * does, why_clip() cuts a stretch. Times are those of `wall`. */
int why_cut(struct why_solving *y) IPS_MUST_USE;
/* Its length and CPU time, of the facts; an error where nothing of the path is
 * in it. */
int why_window_sums(struct why_solving *y) IPS_MUST_USE;
uint64_t why_within(const struct why_solving *y, uint64_t end, uint64_t ns);
bool why_holds(const struct why_solving *y, uint64_t at);
void why_clip(const struct why_solving *y, uint64_t *from, uint64_t *to);
/* CPU of the chain arc into `node`, of the whole run. */
static inline uint64_t why_whole_cpu(const struct why_solving *y, uint32_t node)
{
    return y->all_cpu ? y->all_cpu[node] : y->cpu[node];
}
/* why/path.c: the columns above but `beside`; the sums of the wall path, and
 * the quiet graph in place of it; what crosses the quiet path. */
int why_remake(struct whatif_solving *s) IPS_MUST_USE;
/* why/roles.c: role, worker; waits for one alike become waits for a lock; only
 * those moments with nobody else at work are kept in which one process begins
 * alike ones, one after another. */
int why_roles(struct why_solving *y) IPS_MUST_USE;
void why_mark_shared_waits(struct why_solving *y);
int why_one_by_one(struct why_solving *y) IPS_MUST_USE;
int why_crossings(struct why_solving *y) IPS_MUST_USE;
/* ns of the arc into `node` go to the procedures that have it. */
void why_vote_procedures(const struct why_solving *y, uint32_t node,
                         uint64_t ns, uint64_t *procedure);
/* Is it a procedure that moves messages, as write()? */
bool why_is_call(const char *name);
void why_put_procedure(struct why_solving *y, uint32_t procedure, uint64_t ns,
                       struct why_location *out);
/* why/phase.c: facts.phase, and what procedures have in it. */
int why_phases(struct why_solving *y) IPS_MUST_USE;
/* why/callers.c: facts.common, after the procedures. */
int why_callers(struct why_solving *y) IPS_MUST_USE;
/* why/lock_cost.c: which procedures' time is that of contended locks, before
 * the procedures; of which procedure of the program or the C library. */
int why_lock_cost(struct why_solving *y) IPS_MUST_USE;
/* why/locks.c: facts.amount[WHY_LOCK]. */
int why_locks(struct why_solving *y) IPS_MUST_USE;
uint32_t why_most_votes(const uint64_t *votes, uint32_t count);
/* why/weightings.c: t_max_cpu_ns, t_max_sched_ns, total_cpu_ns. */
int why_other_weightings(struct why_solving *y) IPS_MUST_USE;
/* why/procs.c: facts.procedure, and how the cost is spread. */
int why_procedures(struct why_solving *y) IPS_MUST_USE;
const char *why_process_name(struct why_solving *y, uint32_t process);
/* Is it our own code in the program? It is never named as a cause. */
bool why_is_recording(const struct why_solving *y, uint32_t procedure);
/* Place with the most votes; *ns of it. */
void why_place_of(struct why_solving *y, const struct why_votes *v,
                  struct why_location *out);
/* why/call_sites.c: what the wait in the arc into `node` was, for ns; the place
 * and the cause (a name, "" none) that has the most. */
/* ns of the arc into `node` slept for what left no arc. */
uint64_t why_unended(const struct why_solving *y, uint32_t node);
/* ns of the arc into `node` slept for what has its own time, as a timer. */
uint64_t why_slept_alone(const struct why_solving *y, uint32_t node);
/* ... for a signal or a child that nobody traced sent or was, or in naps
 * between tries: in the sums it is outside, and of no finding (the end of a
 * service, which is told to end; the naps of who waits for what has an arc). */
uint64_t why_slept_untraced(const struct why_solving *y, uint32_t node);
int why_vote_wait(const struct why_solving *y, struct why_ballot *b,
                  uint32_t node, uint64_t ns) IPS_MUST_USE;
/* ... where who let it go gave the lock back. */
int why_vote_giver(const struct why_solving *y, struct why_ballot *b,
                   uint32_t node, uint64_t ns) IPS_MUST_USE;
const char *why_wait_place(const struct why_solving *y, struct why_ballot *b,
                           struct why_location *out);
int why_gain(struct why_solving *y, const struct ips_whatif_base *base,
             const struct ips_edit *edit, uint32_t count, uint64_t *gain,
             uint64_t *bound) IPS_MUST_USE;

#endif
