/*
 * The waits of a run on all its machines: fetched from the slaves, laid on the
 * merged graph, grouped, and attributed to what other threads did in the
 * meantime (analysis/explain/waits.h). waits/query.c answers `ipsq waits` with
 * it. Other questions about all chains use it in the same way:
 *  - gather tables and peers;
 *  - weighting_clocks with SCENARIO_MAIN's weighting `wall`;
 *  - with SCENARIO_MAIN's weighting `cpu`: engine_fetch with detail, then
 *    waits_fetch (WaitRowsAsk and PortionsAsk to every part);
 *  - in the worker engine_make_graphs, engine_merge, waits_lay, and
 *    waits_group as often as needed;
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
/* Limit for the steps that one question takes along chains of waits: some
 * seconds. */
#define WAITS_STEPS 400000000ull

struct waits_lock_row { /* as struct ips_lock_row of the slave */
    /* work of the arc before the event + 1; 0: at the node */
    uint64_t after;
    uint64_t at_ns; /* time of the machine's own clock */
    uint32_t lock, node;
    uint32_t units; /* units of the lock that are free at the start */
    bool gives;
};
/* rows of a part as received, ordered by node */
struct waits_rows {
    Ips__WaitPlace **call_site; /* rows are borrowed from kept messages */
    uint32_t call_site_count;
    uint8_t cause[256]; /* the run's cause for each cause number of the slave */
    uint32_t cause_count;
    /* node numbers of this machine; indices of call_site (of, giver) */
    uint32_t *node, *of, *giver;
    uint8_t *why, *of_node;
    uint64_t *ns, *end_ns, *unended_ns; /* columns of WaitRowsAnswer */
    uint64_t count, cap;
    /* lock rows by node, then by position in its arc */
    struct waits_lock_row *lock_row;
    uint64_t lock_count, lock_cap;
    Ips__BlockedCall **blocked; /* rows are borrowed from kept messages */
    uint32_t blocked_count;
    uint64_t now_ns; /* when it was asked, by the machine's own clock */
};
/* equal call sites of all machines are one; borrowed */
struct waits_call_site {
    const char *procedure, *module, *file;
    uint32_t source_line;
};
struct waits {
    struct waits_rows *machine; /* [parts] rows of each machine */
    struct arc_profile *arc_profile;
    bool callers; /* to be set before: fetch the arc profile with callers */
    /* to be set before: fetch only CPU time inside the question's window */
    bool cut;
    uint32_t machine_count;
    const char *cause[WAITS_CAUSES]; /* names of the causes */
    uint32_t cause_count;
    /* set by waits_lay: */
    const struct ips_graph *g; /* the merged graph, with times on one scale */
    const uint32_t *node_base;
    struct ips_wait *wait;  /* [count] the waits of all machines */
    uint32_t *call_site_of; /* [count] index of `call_site` */
    uint64_t count;
    struct ips_waits laid;
    struct waits_call_site *call_site;
    uint32_t call_site_count;
    /* [parts][call sites of the part] index of the call site in `w` */
    uint32_t **call_site_number;
    /* the procedures of all machines, each once */
    struct entity_symbol *symbol;
    uint32_t symbol_count;
    /* [parts][symbols of the part] index in `symbol` */
    uint32_t **symbol_number;
    /* [parts + 1] numbering of processes through all parts */
    uint32_t *process_base;
    /* scale_ns: `at` of the run's origin; start and end of the run */
    uint64_t scale_ns, begin, finish;
};

/* Initialises *w for the parts of q, asks them, then calls `after`. *w must be
 * zero except for `cut` and `callers`. */
void waits_fetch(struct query *q, struct waits *w,
                 void (*after)(struct query *q));
/* In the worker: lays all waits on d->merged, and converts its `at` to one
 * scale by the parts' clocks. On an error path_of(q)->blame is the part with
 * wrong rows. */
int waits_lay(struct query *q, struct waits *w,
              struct ips_err *err) IPS_MUST_USE;
void waits_release(struct waits *w);

/* ---- groups ------------------------------------------------------------- */

enum waits_by {
    WAITS_BY_PLACE, /* process, call site, cause, peer's process */
    WAITS_BY_CAUSE,
    WAITS_BY_PEER,
    WAITS_BY_PROCESS,
    WAITS_BY_THREAD,
};
struct waits_choice {
    enum waits_by by;
    /* [chains] chains of the chosen waiters; NULL: all */
    const bool *chain;
    const bool *call_site;   /* [call_site_count]; NULL: all */
    uint64_t from_ns, to_ns; /* since the run's origin; 0 and UINT64_MAX: all */
};
/* Process numbers run through all parts (process_base). WAITS_NONE: not a
 * single one, or not distinguished by this grouping; for a peer: no recorded
 * thread. */
struct waits_group {
    uint32_t process, chain, call_site, cause, peer;
    enum ips_lateness late;
    uint64_t count, total_ns, longest_ns;
    uint64_t longest_wait_ns;    /* index in `wait` of the longest */
    uint32_t first, blame_count; /* range in `blame`, largest first */
};
struct waits_blame {
    uint32_t group;
    enum ips_blame_kind kind;
    uint32_t process; /* the process that caused the wait */
    /* COMPUTE: index in `symbol`; WAITED: cause; or WAITS_NONE */
    uint32_t what;
    uint64_t ns;
};
struct waits_groups {
    struct waits_group *group; /* groups in order of first appearance */
    uint32_t count;
    struct waits_blame *blame; /* the causes of all groups, ordered by group */
    uint64_t blame_count;
    uint64_t waits, total_ns;
    uint64_t cause_ns[IPS_IDLE_CAUSES], cause_count[IPS_IDLE_CAUSES];
    uint64_t late_sender_ns, late_receiver_ns, cut_ns;
};
/* Groups the chosen waits. The blame of each group adds up to its total_ns. */
int waits_group(const struct waits *w, const struct waits_choice *choice,
                struct waits_groups *out, struct ips_err *err) IPS_MUST_USE;
void waits_groups_release(struct waits_groups *g);

static inline uint32_t waits_process(const struct waits *w, uint32_t chain)
{
    const struct ips_chain *c = &w->g->chains[chain];
    return w->process_base[c->machine] + c->process;
}

#endif
