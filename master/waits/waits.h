/*
 * The waits of a run over all its machines: fetched from the slaves, laid on
 * the merged graph, grouped, and blamed on what the others did meanwhile
 * (analysis/explain/waits.h). waits/query.c answers `ipsq waits` from it; other
 * questions about all chains may use it in the same way:
 *
 *   gather (tables, peers); weighting_clocks with LANE_MAIN's weighting `wall`;
 *   LANE_MAIN's weighting `cpu`; engine_fetch with detail; waits_fetch
 *   (WaitRowsAsk and PortionsAsk to every part); then in the worker
 *   engine_make_graphs, engine_merge, waits_lay, waits_group, as often as
 *   wanted. waits_release in any case.
 *
 * Memory: WAITS_NODE_BYTES a node, WAITS_ROW_BYTES a wait, besides what
 * portions take. Source: IPS-15.
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
/* Steps of following chains of waits in one question: some seconds. */
#define WAITS_STEPS 400000000ull

struct waits_lock_row { /* struct ips_lock_row of the slave */
    uint64_t after;     /* work of the arc + 1; 0: at the node */
    uint64_t at_ns;     /* local raw */
    uint32_t lock, node;
    uint32_t units; /* of it that are free at the begin */
    bool gives;
};
struct waits_rows {             /* of a part, as they come; by node */
    Ips__WaitPlace **call_site; /* borrowed from kept messages */
    uint32_t call_site_count;
    uint8_t cause[256]; /* of the run's causes, by the slave's numbers */
    uint32_t cause_count;
    uint32_t *node, *of, *giver; /* own nodes; places; WaitRowsAnswer */
    uint8_t *why, *of_node;
    uint64_t *ns, *end_ns, *unended_ns; /* WaitRowsAnswer */
    uint64_t count, cap;
    struct waits_lock_row *lock_row; /* by node and place in its arc */
    uint64_t lock_count, lock_cap;
    Ips__BlockedCall **blocked; /* borrowed from kept messages */
    uint32_t blocked_count;
    uint64_t now_ns; /* local raw, when it was asked */
};
struct waits_call_site { /* one for equal ones of all machines; borrowed */
    const char *procedure, *module, *file;
    uint32_t source_line;
};
struct waits {
    struct waits_rows *machine; /* [parts] */
    struct arc_profile *arc_profile;
    bool callers; /* to be set before: portions come with callers */
    bool cut; /* to be set before: portions of CPU in the question's window */
    uint32_t machine_count;
    const char *cause[WAITS_CAUSES]; /* names */
    uint32_t cause_count;
    /* waits_lay */
    const struct ips_graph *g; /* the merged one, its times on one scale */
    const uint32_t *node_base;
    struct ips_wait *wait;  /* [count] of all machines */
    uint32_t *call_site_of; /* [count] of `place` */
    uint64_t count;
    struct ips_waits laid;
    struct waits_call_site *call_site;
    uint32_t call_site_count;
    uint32_t **call_site_number;  /* [parts][places of it] */
    struct entity_symbol *symbol; /* procedures, one for equal ones */
    uint32_t symbol_count;
    uint32_t **symbol_number;         /* [parts][symbols of it] */
    uint32_t *process_base;           /* [parts + 1] processes of all parts */
    uint64_t scale_ns, begin, finish; /* `at` of the run's origin; of all */
};

/* Makes *w (zeroed, but for `cut` and `callers`) for the parts of q and asks
 * them; then `after`. */
void waits_fetch(struct query *q, struct waits *w,
                 void (*after)(struct query *q));
/* In the worker: lays all waits on d->merged, whose `at` it puts on one scale,
 * by the parts' clocks. path_of(q)->blame: whose rows are wrong. */
int waits_lay(struct query *q, struct waits *w,
              struct ips_err *err) IPS_MUST_USE;
void waits_release(struct waits *w);

/* ---- groups ------------------------------------------------------------- */

enum waits_by {
    WAITS_BY_PLACE, /* process, place, cause, peer's process */
    WAITS_BY_CAUSE,
    WAITS_BY_PEER,
    WAITS_BY_PROCESS,
    WAITS_BY_THREAD,
};
struct waits_choice {
    enum waits_by by;
    const bool *chain;       /* [chains] of the waiters; NULL: all */
    const bool *call_site;   /* [place_count]; NULL: all */
    uint64_t from_ns, to_ns; /* since the run's origin; 0, UINT64_MAX: all */
};
/* Processes are numbers through all parts (process_base). WAITS_NONE: not one,
 * or not told by this grouping; of a peer: nobody that was traced. */
struct waits_group {
    uint32_t process, chain, call_site, cause, peer;
    enum ips_lateness late;
    uint64_t count, total_ns, longest_ns;
    uint64_t longest_wait_ns;    /* a wait, of `wait` */
    uint32_t first, blame_count; /* of `blame`, the greatest first */
};
struct waits_blame {
    uint32_t group;
    enum ips_blame_kind kind;
    uint32_t process; /* whose doing */
    uint32_t what;    /* COMPUTE: of `symbol`, WAITED: cause; or WAITS_NONE */
    uint64_t ns;
};
struct waits_groups {
    struct waits_group *group; /* in the order they came */
    uint32_t count;
    struct waits_blame *blame; /* by group */
    uint64_t blame_count;
    uint64_t waits, total_ns;
    uint64_t cause_ns[IPS_IDLE_CAUSES], cause_count[IPS_IDLE_CAUSES];
    uint64_t late_sender_ns, late_receiver_ns, cut_ns;
};
/* The blame of a group adds up to its total_ns. */
int waits_group(const struct waits *w, const struct waits_choice *choice,
                struct waits_groups *out, struct ips_err *err) IPS_MUST_USE;
void waits_groups_release(struct waits_groups *g);

static inline uint32_t waits_process(const struct waits *w, uint32_t chain)
{
    const struct ips_chain *c = &w->g->chains[chain];
    return w->process_base[c->machine] + c->process;
}

#endif
