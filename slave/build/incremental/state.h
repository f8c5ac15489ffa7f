/* The state that an incremental build keeps between its calls
 * (build/incremental/grow.h). */
#ifndef IPS_SLAVE_BUILD_INCREMENTAL_STATE_H
#define IPS_SLAVE_BUILD_INCREMENTAL_STATE_H

#include "slave/build/incremental/grow.h"
#include "slave/build/match.h"
#include "slave/build/node.h"

/* Copies of the columns that later passes change, as pass `node` left them; and
 * the cross arcs that no later record changes. */
struct g_raw {
    void *memory;
    uint32_t from, n, capacity; /* the copies are of nodes [from, from + n) */
    uint64_t *w, *off, *wait, *xlen;
    uint32_t *probe, *xpred;
    uint8_t *xkind;
};

/* Sums over the nodes of a chain before `node`. */
struct g_sums {
    uint32_t node; /* the number of that node; 0: the sums are not computed */
    uint64_t at, cpu_ns, probe_ns, unknown_ns;
    ips_u128 xlen;
};

struct g_chain {
    /* more records may come; false: no more records can come, and the chain has
     * its END */
    bool goes_on;
    uint32_t space; /* number of node numbers reserved for the chain */
    uint32_t nodes; /* number of nodes made; END is not counted while goes_on is
                       true */
    uint32_t had;   /* number of nodes of the chain before this call */
    /* upper limit of the nodes that the new records need, with END */
    uint32_t need;
    struct maker m;     /* state of pass `node` after the chain's last record */
    struct b_walk walk; /* position after the chain's last record */
    uint64_t bytes;     /* total length of the chunks before the current one */
    uint64_t off_ns, probe_ps;
    struct g_raw raw;
    /* windows (times between two readings of the run delay) that began after
     * the border */
    B_ARRAY(struct b_delay_span) windows;
    /* nodes with lower numbers than this are old enough to be final */
    uint32_t old;
    /* sums over the nodes before `old`, from g_make_table_weights() */
    struct g_sums sums;
    /* the chain's border (build/incremental/grow.h), while
     * g_finalize_nodes_before_borders() moves it */
    uint32_t limit;
};

/* A position in the sends of an end: index `i` in `block`; block IPS_NONE:
 * before the first send. */
struct g_send_position {
    uint32_t block, i;
};

/* The matching state before reads.v[i], and how many receives before it were
 * unmatched or pending. */
struct g_mark {
    bool made;
    uint32_t i;
    struct match_cursor f;
    uint64_t unmatched, pending;
};

struct g_end {
    /* several threads use the end, or it is no stream: a new send or receive
     * here forces a whole build */
    bool shut;
    uint32_t sends, read_count; /* number of sends and of receives at the start
                                   of this call */
    /* the receives on this end; those before reads.v[open] are final */
    B_ARRAY(struct b_read) reads;
    uint32_t open;
    /* index of the first receive whose send is not known yet; reads.n: there is
     * none */
    uint32_t waits;
    /* the matching state, from g_match_open_sends_and_receives(), before the
     * first receive that is not old enough to be final */
    struct g_mark mark;
    /* bytes of the receives that were dropped: those before reads.v[0] */
    uint64_t got;
    uint32_t got_last; /* node of the last dropped receive, or IPS_NO_NODE */
    /* The state of struct match_cursor after the final receives on this
     * end; the send at `at` is the peer's. */
    struct g_send_position at;
    bool at_send; /* `sent` includes the send at `at` */
    uint64_t read, sent;
    /* For the sends on this end: the first that is not final, the bytes sent
     * before it, and the latest return of a final send that blocked. */
    struct g_send_position first;
    uint64_t first_sent, room_ns;
    uint32_t seen;    /* reads.n at the start of this call */
    uint64_t ext_pos; /* position after all receives, if the peer may be on
                         another machine */
};

/* A send that did not wait for space but was preempted: `slept` ns are not
 * counted as a wait of its thread. */
struct g_preempted_send {
    uint32_t node, chain;
    uint64_t slept;
};

#define G_BENT_MOST (1u << 22) /* limit, for damaged records */
/* The time of node `node` was lowered to that of node `by`, which depends on
 * it. So `node` can be final only if `by` is. */
struct g_bent {
    uint32_t node, by;
};

struct b_incremental {
    struct build b;
    struct ips_built built;
    uint64_t lag_ns;
    /* only tables are wanted, so final nodes are dropped
     * (build/incremental/slide.c) */
    bool tables;
    bool slid; /* nodes were dropped at least once */
    /* After the first drop: the array that has all columns of the nodes, and a
     * spare one for the next drop. */
    void *set, *spare_set;
    size_t set_capacity, spare_capacity; /* in nodes */
    /* input of `b`, with the streams in the caller's order */
    struct ips_build_input in;
    struct ips_control control;
    struct ips_stream_in *streams;
    struct g_chain *chains;
    struct g_end *ends;
    /* The rows as they were after the last record, before chains got their END.
     */
    struct ips_thread_row *rows;
    struct ips_proc *procs;
    struct ips_end *end_rows;
    struct ips_traffic *traffic;
    uint64_t *traffic_last;
    struct ips_build_counts counts;
    uint32_t traffic_count;
    /* [traffic_count] when each row was last used, as of the end of the last
     * call */
    uint64_t *used;
    uint8_t *names;
    /* [traffic_count] 1: a close counted as the end's release, because the
     * process did not use the end later */
    uint8_t *let_go;
    /* `matched`: counts of pass `match` and later passes, for final nodes only.
     * `before_match` and `behind_match`: all counts before and after the passes
     * that make arcs. */
    struct ips_build_counts matched, before_match, behind_match;
    B_ARRAY(struct ips_spun) spun;
    B_ARRAY(struct g_preempted_send) roomless;
    B_ARRAY(struct g_bent) bent;
    uint32_t fork_count, event_count, dgram_count, hold_count, ext_count;
    uint32_t unended_count; /* number of entries of b.unended before chains got
                               their END */
};

/* Returns the send at *at, and moves *at to the next block if it is at the end
 * of one; NULL: the send does not exist yet. */
struct b_send *g_get_send_at_position(const struct build *b,
                                      const struct b_end *e,
                                      struct g_send_position *at);
struct match_cursor g_resume_match_cursor(const struct build *b,
                                          const struct g_end *k, uint32_t to);
/* Adds each count of *b to *a, or subtracts it if `minus`. */
void g_add_or_subtract_counts(struct ips_build_counts *a,
                              const struct ips_build_counts *b, bool minus);
/* memcpy() must not get NULL, not even for 0 bytes. */
static inline void g_memcpy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}
static inline uint32_t g_node_after_chain(const struct b_incremental *k,
                                          uint32_t c)
{
    return k->built.g.chains[c].first + k->chains[c].nodes;
}

/* build/incremental/nodes.c: g_scan_new_records() scans the new records,
 * g_restore_saved_rows_and_counts() restores rows and counts as they were after
 * the last record, and g_make_nodes_of_new_records() makes the nodes of the new
 * records.
 */
int g_scan_new_records(struct b_incremental *k) IPS_MUST_USE;
void g_restore_saved_rows_and_counts(struct b_incremental *k);
int g_make_nodes_of_new_records(struct b_incremental *k) IPS_MUST_USE;
/* drops the first n nodes of *r */
void g_drop_first_raw_nodes(struct g_raw *r, uint32_t n);
int g_match_open_sends_and_receives(struct b_incremental *k)
    IPS_MUST_USE; /* build/incremental/match.c */
/* build/incremental/slide.c, for tables alone: if some chain has too little
 * space for its new records, drops final nodes to make space. */
int g_drop_final_nodes_if_full(struct b_incremental *k) IPS_MUST_USE;
void g_free_columns(struct b_incremental *k);
/* build/incremental/tables.c: the part of b_make_weights() that tables need. */
int g_make_table_weights(struct b_incremental *k) IPS_MUST_USE;
/* build/incremental/finalize.c: g_newest_record_ns() returns the time of the
 * newest record, in ns. g_first_young_node() returns the first node of a chain
 * that is less than lag_ns older than `newest`, or the number after the chain's
 * last node. */
uint64_t g_newest_record_ns(const struct b_incremental *k);
uint32_t g_first_young_node(const struct b_incremental *k, uint32_t chain,
                            uint64_t newest);
/* build/incremental/finalize.c: both set b->broken if the state cannot be kept.
 * g_init_state() runs after the first call, g_finalize_nodes_before_borders()
 * moves the borders after each call. */
int g_init_state(struct b_incremental *k) IPS_MUST_USE;
int g_finalize_nodes_before_borders(struct b_incremental *k) IPS_MUST_USE;
/* build/incremental/copy.c */
int g_copy_result(struct b_incremental *k, struct ips_built *out) IPS_MUST_USE;

#endif
