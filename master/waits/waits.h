/*
 * Fetches the waits of a run from the slaves of all machines, places them in
 * the merged graph, groups them, and attributes them to the activity of other
 * threads during the waits (analysis/explain/waits.h). waits/query.c uses these
 * functions to answer `ipsq waits`. Other questions about all chains use them
 * in the same way:
 *  - gather tables and peers;
 *  - weighting_align_clocks_if_needed with SCENARIO_MAIN's weighting `wall`;
 *  - with SCENARIO_MAIN's weighting `cpu`: engine_fetch_subgraphs with detail,
 *    then waits_fetch_rows_and_arc_profiles (WaitRowsAsk and PortionsAsk to
 * every part);
 *  - in the worker engine_make_graphs, engine_merge_graphs,
 * waits_place_on_graph, and waits_make_groups as often as needed;
 *  - waits_release in any case.
 *
 * Memory: WAITS_NODE_BYTES per node, WAITS_ROW_BYTES per wait, plus the arc
 * profile. Source: IPS-15.
 */
#ifndef IPS_MASTER_WAITS_WAITS_H
#define IPS_MASTER_WAITS_WAITS_H

#include "analysis/explain/idle.h"
#include "master/path/arc_profile.h"
#include "master/path/engine.h"

#define WAITS_NODE_BYTES 130u
#define WAITS_ROW_BYTES 80u
#define WAITS_NONE UINT32_MAX
#define WAITS_CAUSES (IPS_IDLE_CAUSES - 1)
/* Limit for the steps that one question takes along chains of waits; they take
 * a few seconds. */
#define WAITS_STEPS 400000000ull

struct waits_lock_row { /* as struct ips_lock_row of the slave: a thread takes
                           or releases a unit of a lock */
    /* CPU time of the arc before the event, plus 1; 0: the event is at `node`
     */
    uint64_t after;
    uint64_t at_ns; /* time by the machine's own clock */
    uint32_t lock, node;
    /* number of units of the lock that are free at the start: this many threads
     * can take one */
    uint32_t units;
    bool gives;
};
/* the rows of one machine as received, ordered by node */
struct waits_rows {
    Ips__WaitPlace **call_site; /* rows are borrowed from kept messages */
    uint32_t call_site_count;
    /* index in `cause` of struct waits, by the slave's number of the cause */
    uint8_t cause[256];
    uint32_t cause_count;
    /* node: index within the machine. of, giver: index in call_site of the
     * wait, and of the release that ended it. */
    uint32_t *node, *of, *giver;
    uint8_t *why, *of_node;
    /* columns with the same names as in WaitRowsAnswer */
    uint64_t *ns, *end_ns, *unended_ns;
    uint64_t count, cap;
    /* lock rows, ordered by node, then by their position in the arc into that
     * node */
    struct waits_lock_row *lock_row;
    uint64_t lock_count, lock_cap;
    Ips__BlockedCall **blocked; /* rows are borrowed from kept messages */
    uint32_t blocked_count;
    /* time of the slave's answer, by the machine's own clock */
    uint64_t now_ns;
};
/* a call site; equal call sites of several machines are merged; texts are
 * borrowed */
struct waits_call_site {
    const char *procedure, *module, *file;
    uint32_t source_line;
};
struct waits {
    struct waits_rows *machine; /* [machines] rows of each machine */
    struct arc_profile *arc_profile;
    /* set before waits_fetch_rows_and_arc_profiles(): fetch the arc profile
     * with callers */
    bool callers;
    /* set before waits_fetch_rows_and_arc_profiles(): fetch only CPU time
     * inside the question's window */
    bool cut;
    uint32_t machine_count;
    const char *cause[WAITS_CAUSES]; /* names of the causes */
    uint32_t cause_count;
    /* The next members are set by waits_place_on_graph(). */
    const struct ips_graph *g; /* the merged graph, with times on one scale */
    const uint32_t *node_base;
    struct ips_wait *wait;  /* [count] the waits of all machines */
    uint32_t *call_site_of; /* [count] index in `call_site` of each wait */
    uint64_t count;
    struct ips_waits laid;
    struct waits_call_site *call_site;
    uint32_t call_site_count;
    /* [machines][call sites of the machine] index in `call_site` */
    uint32_t **call_site_number;
    /* the procedures of all machines; each distinct one is listed once */
    struct entity_symbol *symbol;
    uint32_t symbol_count;
    /* [machines][symbols of the machine] index in `symbol` */
    uint32_t **symbol_number;
    /* [machines + 1] number of the machine's first process, counted through all
     * machines */
    uint32_t *process_base;
    /* on the time scale of `g`: scale_ns: origin of the run's times; begin,
     * finish: start and end of the run */
    uint64_t scale_ns, begin, finish;
};

/* Initialises *w for the machines of q, asks their slaves, then calls `after`.
 * *w must be zero except for `cut` and `callers`. */
void waits_fetch_rows_and_arc_profiles(struct query *q, struct waits *w,
                                       void (*after)(struct query *q));
/* Places all waits in arcs of path_data_of(q)->merged, and converts the times
 * `at` of its nodes to one scale by the machines' clocks. Runs in the worker
 * thread. On an error path_data_of(q)->blame is the machine with wrong rows. */
int waits_place_on_graph(struct query *q, struct waits *w,
                         struct ips_err *err) IPS_MUST_USE;
void waits_release(struct waits *w);

/* ---- grouping waits ----------------------------------------------------- */

enum waits_by {
    WAITS_BY_PLACE, /* by process, call site, cause and peer's process */
    WAITS_BY_CAUSE,
    WAITS_BY_PEER,
    WAITS_BY_PROCESS,
    WAITS_BY_THREAD,
};
struct waits_choice {
    enum waits_by by;
    /* [chains] whether the waits of a chain are chosen; NULL: all */
    const bool *chain;
    /* [call_site_count] whether waits there are chosen; NULL: all */
    const bool *call_site;
    uint64_t from_ns, to_ns; /* since the run's origin; 0 and UINT64_MAX: all */
};
/* A group of waits. Processes are numbered over all machines (process_base).
 * WAITS_NONE in a member: the waits are not grouped by it; in `peer` also: no
 * recorded thread ended the waits. */
struct waits_make_groups {
    uint32_t process, chain, call_site, cause, peer;
    enum ips_lateness late;
    uint64_t count, total_ns, longest_ns;
    uint64_t longest_wait;       /* index in `wait` of the longest wait */
    uint32_t first, blame_count; /* range of the group's entries in `blame`,
                                    largest first */
};
struct waits_blame {
    uint32_t group;
    enum ips_blame_kind kind;
    uint32_t process; /* the process that caused the wait */
    /* index in `symbol` (IPS_BLAME_COMPUTE), or in `cause` of struct waits
     * (IPS_BLAME_WAITED), else WAITS_NONE */
    uint32_t what;
    uint64_t ns;
};
struct waits_groups {
    struct waits_make_groups *group; /* groups in order of first appearance */
    uint32_t count;
    struct waits_blame *blame; /* the causes of all groups, ordered by group */
    uint64_t blame_count;
    uint64_t waits, total_ns;
    uint64_t cause_ns[IPS_IDLE_CAUSES], cause_count[IPS_IDLE_CAUSES];
    uint64_t late_sender_ns, late_receiver_ns, cut_ns;
};
/* Groups the chosen waits. The blame of each group adds up to its total_ns. */
int waits_make_groups(const struct waits *w, const struct waits_choice *choice,
                      struct waits_groups *out,
                      struct ips_err *err) IPS_MUST_USE;
void waits_groups_release(struct waits_groups *g);

static inline uint32_t waits_process_of_chain(const struct waits *w,
                                              uint32_t chain)
{
    const struct ips_chain *c = &w->g->chains[chain];
    return w->process_base[c->machine] + c->process;
}

#endif
