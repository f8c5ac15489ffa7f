/*
 * The facts to which the rules of why.h are applied. why/query.c gathers the
 * data; its worker computes the facts on the graph of all machines
 * (why/solve.c, why/path.c).
 *
 * Two graphs are made of the data. The path of the `wall` graph explains the
 * elapsed time. The *quiet* graph shows how long the program itself would have
 * taken with a core for each thread and nothing else on its machines: chain
 * arcs weigh their CPU time, messages their measured transit time if a thread
 * waited for them, and waits for unrecorded causes their duration. Findings and
 * gains come from the quiet graph, so a load on the machine does not change
 * them. The time by which the `wall` path is longer is oversubscription, by the
 * program's own threads or by other programs.
 *
 * A gain is never a sum of shares, because another path may become the longest.
 * It is always the result of ips_whatif on the whole graph without these
 * shares. The gain of locks is limited by the work for the cores, and that of
 * more cores by the run delay that the kernels report.
 */
#ifndef IPS_MASTER_WHY_FACTS_H
#define IPS_MASTER_WHY_FACTS_H

#include "analysis/explain/concurrent_activity.h"
#include "master/waits/waits.h"
#include "master/whatif/whatif.h"
#include "master/why/why.h"

/* Memory per node: for a what-if, the received graph and two merged graphs. */
#define WHY_NODE_BYTES (WHATIF_NODE_BYTES + 228u)

/* A second set of features (shares of arcs that a what-if can shorten together)
 * of the quiet graph: causes of waiting. All time of a cause is one feature, so
 * that a what-if can remove it as a whole. */
enum why_feature {
    /* WHY_F_LOCK to WHY_F_ALONE have the values of enum ips_concurrent_class */
    WHY_F_LOCK,
    WHY_F_ALIKE,
    WHY_F_QUEUE,
    WHY_F_PEER,
    WHY_F_OTHER,
    WHY_F_ALONE,   /* a process runs its children one after another */
    WHY_F_DELAY,   /* time runnable but not running */
    WHY_F_OUTSIDE, /* waits that no recorded thread ended */
    WHY_FEATURES
};

struct why_data {
    struct whatif_data w; /* must be first: the what-if works on it */
    Ips__WhatifAsk ask;
    Ips__Lane scenario;
    struct waits waits; /* as waits_fetch_rows_and_arc_profiles() fetched them;
                           waits_place_on_graph() is not called */
    /* owns the names in `facts` and the texts of the answer */
    struct arena a;
    struct why_facts facts;
};

/* why/hang.c: sets facts.hang. */
void why_find_hang(struct query *q);

static inline struct why_data *why_data_of(struct query *q)
{
    return q->data;
}

/* A wait of `ns`. machine: index of its machine; of: its call site; why: its
 * cause. */
struct why_wait {
    uint32_t machine, of, why;
    uint64_t ns;
};
struct why_ballot { /* adds up the ns of waits by call site and cause, to find
                       the largest sum; zeroed before use; the owner frees
                       `wait` */
    struct why_wait *wait;
    size_t count, cap;
};

/* Time (ns) of one why_feature, divided by process, by waiting process and by
 * procedure. The entry with the most time wins. */
struct why_votes {
    /* time by process; time by the process that waits, while the process with
     * the most time works */
    uint64_t *process, *waiter;
    uint64_t *procedure; /* by procedure */
};

struct why_solving {
    struct whatif_solving s; /* must be first: the what-if works on it */
    struct why_data *d;
    /* number of processes and procedures on all machines */
    uint32_t processes, procedures;
    /* [machines] number of the machine's first process */
    uint32_t *process_base;
    /* Columns of the merged graph, [node_count]. */
    uint8_t *resource_kind;
    uint64_t *cpu, *delay, *bytes;
    /* if the query has a window: CPU time, also outside the window */
    uint64_t *all_cpu;
    /* `wall` path; its est[]: when each node was passed, in ns since the run
     * started */
    struct ips_est wall;
    /* ns of sleep, in the chain arc into each node, that no recorded thread
     * ended */
    uint64_t *outside;
    /* ns off the CPU for no known reason in the chain arc into each node; 0 if
     * the arc is not on the wall path */
    uint64_t *unknown;
    /* The next two are the cost of contended locks (why/lock_cost.c); NULL:
     * none. */
    /* [procedures] ppm of the procedure's samples that take or release a
     * contended lock */
    uint32_t *lock_ppm;
    /* by node: CPU time for contended locks in the chain arc into it */
    uint64_t *lock_cpu;
    /* [procedures] if the procedure yields the CPU: the caller under which most
     * of its samples are, or itself if no caller is known; else NULL */
    const struct entity_symbol **yields;
    /* [procedures] the procedure is mostly in a loop that only reads memory
     * until another thread changes it */
    bool *reads_memory;
    uint64_t *spins; /* [procedures] ns of samples in loops that read memory */
    bool chats;      /* small messages are the main problem, so processes that
                        exchange them are not reported as late senders */
    /* [processes] whether the process exchanges small messages on the path */
    bool *chatty;
    uint32_t *process_of; /* [chain_count] number of the chain's process */
    /* [chain_count] number of the chain's role; threads with the same role are
     * alike */
    uint32_t *role;
    /* [chain_count] whether the chain uses enough CPU time to be one of its
     * role's workers */
    bool *worker;
    /* [chain_count] whether the chain's process received requests on
     * connections that it accepted */
    bool *serves;
    uint32_t role_count;
    /* the process that starts similar children one after another; one of these
     * children; their number */
    uint32_t begins, begun, children;
    struct ips_concurrent_activity concurrent;
    /* the features of enum why_feature; its pointers point to the next four
     * arrays */
    struct ips_features f;
    uint64_t *first;
    struct ips_arc_share *arc_share;
    uint32_t *chain_none, *cross;
    uint64_t ns[WHY_FEATURES]; /* time of each feature on the path */
    struct why_votes votes[WHY_FEATURES];
    /* time of the path in each examined phase, by process and procedure */
    struct why_votes phase[WHY_PHASES];
};

/* Computes the facts. Runs in the worker thread. On failure w.path.err has the
 * reason. */
void why_compute_facts(struct query *q);

/* why/window.c: for a query about a window, everything outside the window takes
 * no time. why_cut_arcs_and_waits_to_window() reduces the columns above and the
 * waits of the merged graph to the window. why_ns_in_window() returns how many
 * of the `ns` that end at `end` are in the window (all, if there is no window).
 * why_is_in_window() returns whether a moment is in it. why_clip_to_window()
 * cuts an interval to it. Times are those of `wall`. */
int why_cut_arcs_and_waits_to_window(struct why_solving *y) IPS_MUST_USE;
/* Sets the facts about the window's length and CPU time; an error if no part of
 * the path is in the window. */
int why_set_window_sums(struct why_solving *y) IPS_MUST_USE;
uint64_t why_ns_in_window(const struct why_solving *y, uint64_t end,
                          uint64_t ns);
bool why_is_in_window(const struct why_solving *y, uint64_t at);
void why_clip_to_window(const struct why_solving *y, uint64_t *from,
                        uint64_t *to);
/* Returns the CPU time of the chain arc into `node`, also outside the
 * window. */
static inline uint64_t
why_arc_cpu_regardless_of_window(const struct why_solving *y, uint32_t node)
{
    return y->all_cpu ? y->all_cpu[node] : y->cpu[node];
}
/* why/path.c: why_make_quiet_graph_and_path_sums() fills the columns above and
 * the sums of the wall path, then replaces the merged graph by the quiet one;
 * why_fill_message_amounts_of_path() evaluates the messages on the quiet path.
 */
int why_make_quiet_graph_and_path_sums(struct whatif_solving *s) IPS_MUST_USE;
/* why/roles.c: why_find_roles_and_workers() sets role, worker and serves;
 * why_mark_waits_within_role_as_locks() turns waits for a thread of the same
 * role into waits for a lock; why_find_serial_children_and_filter_shares()
 * looks at the moments in which only one process works, and keeps those in
 * which a process starts similar children one after another. */
int why_find_roles_and_workers(struct why_solving *y) IPS_MUST_USE;
void why_mark_waits_within_role_as_locks(struct why_solving *y);
int why_find_serial_children_and_filter_shares(struct why_solving *y)
    IPS_MUST_USE;
int why_fill_message_amounts_of_path(struct why_solving *y) IPS_MUST_USE;
/* Distributes `ns` over the procedures of the arc into `node`, in proportion to
 * their time in it, and adds it to procedure[]. */
void why_vote_procedures(const struct why_solving *y, uint32_t node,
                         uint64_t ns, uint64_t *procedure);
/* Whether `name` is a C library function that moves messages or waits for them,
 * such as write() or poll(). */
bool why_is_io_function(const char *name);
void why_set_procedure_location(struct why_solving *y, uint32_t procedure,
                                uint64_t ns, struct why_location *out);
/* why/phase.c: sets facts.phase and each procedure's time in each phase. */
int why_find_least_parallel_phases(struct why_solving *y) IPS_MUST_USE;
/* why/callers.c: sets facts.common; call it after why_find_procedures(). */
int why_find_common_caller(struct why_solving *y) IPS_MUST_USE;
/* why/lock_cost.c: sets facts.amount[WHY_LOCK].lock, lock_ppm, lock_cpu and
 * yields; call it before why_find_procedures(). */
int why_estimate_lock_cost_and_spinning(struct why_solving *y) IPS_MUST_USE;
/* why/locks.c: sets facts.amount[WHY_LOCK], the costs of lock contention. */
int why_fill_lock_amount(struct why_solving *y) IPS_MUST_USE;
uint32_t why_index_of_most_votes(const uint64_t *votes, uint32_t count);
/* why/weightings.c: sets the facts t_max_cpu_ns, t_max_sched_ns and
 * total_cpu_ns. */
int why_compute_lengths_in_other_weightings(struct why_solving *y) IPS_MUST_USE;
/* why/procs.c: sets facts.procedure and the facts about how CPU time is spread
 * over procedures. */
int why_find_procedures(struct why_solving *y) IPS_MUST_USE;
const char *why_process_name(struct why_solving *y, uint32_t process);
/* Whether the procedure belongs to the recording library. Such a procedure is
 * never reported as a cause. */
bool why_is_recording_library(const struct why_solving *y, uint32_t procedure);
/* Sets *out to the process with the most votes and to the procedure of this
 * process with the most votes. */
void why_set_most_voted_location(struct why_solving *y,
                                 const struct why_votes *v,
                                 struct why_location *out);
/* why/call_sites.c: causes and call sites of waits. */
/* Returns the ns of sleep in the arc into `node` whose end no arc explains. */
uint64_t why_sleep_ns_with_unexplained_end(const struct why_solving *y,
                                           uint32_t node);
/* Returns the ns of sleep in the arc into `node` for an event outside the
 * program, such as a timer. */
uint64_t why_arc_sleep_ns_for_outside_events(const struct why_solving *y,
                                             uint32_t node);
/* Returns the ns of sleep in the arc into `node` for a signal, for the end of
 * an unrecorded process, or in the naps of a spinning thread. Sums count this
 * sleep as outside, but no finding names it: it may be the end of a service by
 * a signal, or naps of a thread whose wait has an arc. */
uint64_t why_sleep_ns_for_signal_child_or_spin(const struct why_solving *y,
                                               uint32_t node);
/* Adds `ns` to the ballot, for the call site and cause of the wait in the arc
 * into `node`. */
int why_vote_for_wait_call_site(const struct why_solving *y,
                                struct why_ballot *b, uint32_t node,
                                uint64_t ns) IPS_MUST_USE;
/* Adds `ns` to the ballot, for the call site that released the lock for which
 * the thread waited in the arc into `node`. */
int why_vote_lock_releaser(const struct why_solving *y, struct why_ballot *b,
                           uint32_t node, uint64_t ns) IPS_MUST_USE;
/* Sets *out to the call site with the most votes; returns the cause of the
 * waits there ("": there are no votes). */
const char *why_set_most_voted_wait(const struct why_solving *y,
                                    struct why_ballot *b,
                                    struct why_location *out);
int why_compute_gain(struct why_solving *y, const struct ips_whatif_base *base,
                     const struct ips_edit *edit, uint32_t count,
                     uint64_t *gain, uint64_t *bound) IPS_MUST_USE;

#endif
