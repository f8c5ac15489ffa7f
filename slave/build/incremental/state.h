/* What build_grow*.c keep of a run (build/incremental/grow.h). */
#ifndef IPS_SLAVE_BUILD_INCREMENTAL_STATE_H
#define IPS_SLAVE_BUILD_INCREMENTAL_STATE_H

#include "slave/build/incremental/grow.h"
#include "slave/build/match.h"
#include "slave/build/node.h"

/* Nodes' columns that passes behind `node` change, as that pass left them;
 * with the cross arcs that no later record changes. */
struct g_raw {
    void *memory;
    uint32_t from, n, capacity; /* nodes [from, from + n) */
    uint64_t *w, *off, *wait, *xlen;
    uint32_t *probe, *xpred;
    uint8_t *xkind;
};

/* What the nodes before `node` come to, from the chain's begin. */
struct g_sums {
    uint32_t node; /* 0: not made */
    uint64_t at, cpu_ns, probe_ns, unknown_ns;
    ips_u128 xlen;
};

struct g_chain {
    bool goes_on;       /* else no more records come, and it has its END */
    uint32_t space;     /* places */
    uint32_t nodes;     /* made; where it goes on without END */
    uint32_t had;       /* of them before this call */
    uint32_t need;      /* places that what came takes at most, with END */
    struct maker m;     /* behind its last record */
    struct b_walk walk; /* the same */
    uint64_t bytes;     /* of the chunks before it */
    uint64_t off_ns, probe_ps;
    struct g_raw raw;
    B_ARRAY(struct b_window) windows; /* that began behind the border */
    uint32_t old;                     /* nodes before are old enough */
    struct g_sums sums;               /* of those; b_table_weights */
    uint32_t limit;                   /* the border that is to be */
};

/* A place in the sends of an end: the i-th of its block, IPS_NONE: the begin.
 */
struct g_at {
    uint32_t block, i;
};

/* Where the receives before reads.v[i] stand, and what they counted. */
struct g_mark {
    bool made;
    uint32_t i;
    struct inflow f;
    uint64_t unmatched, pending;
};

struct g_end {
    bool shut; /* used by several threads, or not of bytes: nothing may come */
    uint32_t sends, read_count;   /* before this call */
    B_ARRAY(struct b_read) reads; /* those before reads.v[open] are final */
    uint32_t open;
    uint32_t waits;     /* the first that waits for its send, else reads.n */
    struct g_mark mark; /* at the first that is not old enough; g_match */
    /* Of the receives before reads.v[0]. */
    uint64_t got;
    uint32_t got_last; /* node, or IPS_NO_NODE */
    /* struct inflow behind the final receives. */
    struct g_at at;
    bool at_send; /* `sent` has the send at `at` */
    uint64_t read, sent;
    /* As a sender: its first send that is not final, what went before; the last
     * return of a final send that blocked. */
    struct g_at first;
    uint64_t first_sent, room_ns;
    uint32_t seen;    /* reads before this call */
    uint64_t ext_pos; /* behind all receives from elsewhere */
};

/* A send that blocked, but not for room: its thread's row has less. */
struct g_roomless {
    uint32_t node, chain;
    uint64_t slept;
};

#define G_BENT_MOST (1u << 22) /* more: damaged records */
/* A node that is passed when `by` was: no more final than that one. */
struct g_bent {
    uint32_t node, by;
};

struct b_incremental {
    struct build b;
    struct ips_built built;
    uint64_t lag_ns;
    bool tables; /* alone: what is final goes (build/incremental/slide.c) */
    bool slid;   /* has gone, once */
    /* Columns of nodes in one array, from then on; and another such. */
    void *set, *spare_set;
    size_t set_capacity, spare_capacity; /* nodes */
    struct ips_build_input in; /* of `b`, in the order of the caller's */
    struct ips_control control;
    struct ips_stream_in *streams;
    struct g_chain *chains;
    struct g_end *ends;
    /* Behind the last record, before chains have their END. */
    struct ips_thread_row *rows;
    struct ips_proc *procs;
    struct ips_end *end_rows;
    struct ips_traffic *traffic;
    uint64_t *traffic_last;
    struct ips_build_counts counts;
    uint32_t traffic_count;
    uint64_t *used; /* [traffic_count] last use, when the last call ended */
    uint8_t *names;
    uint8_t *let_go; /* [traffic_count] a close counted on no later use */
    /* What passes from `match` on counted of what is final. */
    struct ips_build_counts matched, before_match, behind_match;
    B_ARRAY(struct ips_spun) spun;
    B_ARRAY(struct g_roomless) roomless;
    B_ARRAY(struct g_bent) bent;
    uint32_t fork_count, event_count, dgram_count, hold_count, ext_count;
    uint32_t unended_count; /* before chains have their END */
};

/* The send at *at, which is moved to it; NULL: none there yet. */
struct b_op *g_send_at(const struct build *b, const struct b_end *e,
                       struct g_at *at);
struct inflow g_inflow(const struct build *b, const struct g_end *k,
                       uint32_t to);
/* a += b or a -= b, count by count. */
void g_counts(struct ips_build_counts *a, const struct ips_build_counts *b,
              bool minus);
/* Nothing of nowhere is no copy. */
static inline void g_memcpy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}
static inline uint32_t g_end_of(const struct b_incremental *k, uint32_t c)
{
    return k->built.g.chains[c].first + k->chains[c].nodes;
}

/* build/incremental/nodes.c: the records that came, the rows as they were
 * behind the last record, the nodes of the records that came. */
int g_scan_more(struct b_incremental *k) IPS_MUST_USE;
void g_take_rows_back(struct b_incremental *k);
int g_more_nodes(struct b_incremental *k) IPS_MUST_USE;
void g_raw_drop(struct g_raw *r, uint32_t n); /* the first n */
int g_match(struct b_incremental *k)
    IPS_MUST_USE; /* build/incremental/match.c */
/* build/incremental/slide.c: where some chain has no room for what came.
 * Tables. */
int g_slide(struct b_incremental *k) IPS_MUST_USE;
void g_slide_release(struct b_incremental *k);
/* build/incremental/tables.c: b_weights() as far as a table has it. */
int g_table_weights(struct b_incremental *k) IPS_MUST_USE;
/* When the newest record of all is from; the first node of a chain that is not
 * old enough to be final. build/incremental/finalize.c */
uint64_t g_newest(const struct b_incremental *k);
uint32_t g_old(const struct b_incremental *k, uint32_t chain, uint64_t newest);
/* build/incremental/finalize.c. b->broken: not to be kept. */
int g_begin(struct b_incremental *k) IPS_MUST_USE;
int g_finalize(struct b_incremental *k) IPS_MUST_USE;
/* build/incremental/copy.c */
int g_copy(struct b_incremental *k, struct ips_built *out) IPS_MUST_USE;

#endif
