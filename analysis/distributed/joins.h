/*
 * What of a slave's subgraph matters to the rest of a run, for one scenario:
 * its joins. `contract` sends them to the master, which solves all machines'
 * joins together.
 *
 * With P the sum of a chain's arcs up to a node, and D = EST - P, a chain's D
 * never falls, and rises only where a cross arc wins: D of such a node is
 * max(D before, D of the sender + P of the sender + the arc's weight - P here).
 * So nodes without a cross arc need not be sent at all, nor weights of chain
 * arcs; and cross arcs that follow each other in a chain, nobody awaiting a
 * value between them, are one *join*: a D, and a list of (whose D, what is
 * added to it). What depends on nothing remote is computed by the slave: a
 * constant.
 *
 * Ties: a join's candidates are in the order of their nodes, after the chain's
 * own D, and only a greater one wins: just the node-by-node rule of path.h.
 *
 * Bytes, all numbers as in varint.h, `~` a step from the value said last of
 * that kind:
 *   head    flags, T, ends, chains, joins, ins, outs, candidates for the END
 *   chains  of those with joins: joins, remote ins among their arcs, bytes of
 *           these, pid, tid
 *   outs    as in the graph, by (end, pos): step of end, step of pos, len;
 *           0: P (it depends on nothing), or 1 + ~join, P; [ns of len] [~at]
 *   ins     as in the graph, by node: end * 8 + xkind, ~pos of that end [~at,
 *           wait]
 *   ENDs    by node: node; 0, or 1 + its join; P
 *   arcs    of the chains' joins: (what * 2 + it begins a join), ~added of that
 *           slot; `what` 0: the chain's next remote in, 1: the constant 0, else
 *           2 + ~join. An arc's slot is its place in the join modulo
 *           IPS_JOIN_SLOTS: threads that do the same again and again have small
 *           steps.
 * A moment's bytes (ips_joins_moments) have no joins, candidates and P: outs
 * and ins have ~t_ns instead.
 *
 * Pure: no I/O, no clock. Equal to the unreduced graph bit for bit (property 3
 * of ALGORITHMS 7). Source: IPS-6, IPS-11, ALGORITHMS 3 `contract`.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_JOINS_H
#define IPS_ANALYSIS_DISTRIBUTED_JOINS_H

#include "analysis/graph/contract.h"
#include "analysis/graph/graph.h"

#define IPS_JOIN_SLOTS 4u
/* So many bytes behind `len` of what is solved must be readable; they count for
 * nothing. */
#define IPS_JOINS_PAD 64u

/* ---- a slave ------------------------------------------------------------- */

struct ips_joins_bytes {
    uint8_t *data; /* common/large.h */
    size_t len, cap;
};
struct ips_joins {
    struct ips_joins_bytes head, arcs; /* the one behind the other */
    uint32_t count, arc_count;
    uint64_t total; /* T of the full graph */
};
void ips_joins_release(struct ips_joins *j);

/* `full` must have passed ips_graph_check(); a cycle in it shows when it is
 * solved, as IPS_E_STALLED. O(nodes). */
int ips_joins_make(const struct ips_graph *full,
                   const struct ips_scenario *scenario, struct ips_joins *out,
                   struct ips_err *err) IPS_MUST_USE;
/* When its remote sends and receives were, by the machine's own clock. */
int ips_joins_moments(const struct ips_graph *full, struct ips_joins *out,
                      struct ips_err *err) IPS_MUST_USE;

/* `count` values as they were sent: *value [count], malloc'd, with
 * IPS_IN_ABSENT. */
int ips_joins_values(const uint8_t *data, size_t len, uint32_t count,
                     uint64_t **value, struct ips_err *err) IPS_MUST_USE;

/* ---- the master ---------------------------------------------------------- */

struct ips_machine_joins {
    const uint8_t *data; /* [len + IPS_JOINS_PAD] */
    size_t len;
    uint64_t nodes; /* of the full graph: what it names is below */
    const struct ips_peer_end *peer; /* as for ips_graph_merge */
    uint32_t end_count;
};

/* All parts' joins, decoded and solved. Numbers of joins, ins and outs go on
 * from part to part. */
struct ips_joined {
    uint32_t machine_count;
    struct ips_joined_machine *machine;
    uint32_t chain_count, join_count, in_count, out_count;
    uint64_t *d;       /* [join_count] D + 1 */
    uint32_t *won;     /* [join_count] see joins_solve.c */
    uint8_t *first;    /* [join_count / 8 + 1] bits: first of its chain */
    uint32_t *in_out;  /* [in_count] out, IPS_NO_NODE: nobody wrote it */
    uint32_t *in_src;  /* [in_count] its out_src */
    uint64_t *in_add;  /* [in_count] P of the sender + the arc's weight */
    uint8_t *in_kind;  /* [in_count] xkind; the top bit: nobody wrote it, or
                          absent in this scenario */
    uint32_t *out_src; /* [out_count] join, or IPS_NO_NODE: D is 0 */
    uint64_t *out_p;   /* [out_count] */
    uint64_t t_max;
    uint32_t end_machine, end_node; /* IPS_NO_NODE: there is no END */
    uint32_t end_join;              /* IPS_NO_NODE: D is 0 */
    uint64_t total;                 /* T */
    uint64_t unmatched;             /* remote ins that nobody wrote */
};
void ips_joined_release(struct ips_joined *j);

/* What does not fit together is IPS_E_PROTOCOL with the part in *blame, else
 * part_count; a cycle IPS_E_STALLED, times of 2^62 ns IPS_E_LIMIT. Memory: 12
 * bytes a join, 17 an in, some 36 an out. */
int ips_joined_solve(const struct ips_machine_joins *parts, uint32_t part_count,
                     const struct ips_scenario *scenario,
                     struct ips_joined *out, uint32_t *blame,
                     struct ips_err *err) IPS_MUST_USE;

/* For ips_longest_path of part p: what its in k (from 0) is given. */
uint64_t ips_joined_in_value(const struct ips_joined *j, uint32_t p,
                             uint32_t k);
uint32_t ips_joined_ins(const struct ips_joined *j, uint32_t p);
/* Those of part p from *k on as they are sent back (FinishAsk.values), at most
 * `cap` bytes, at least IPS_VARINT_BYTES; *last is that of the one before, 0 to
 * begin. Returns how many bytes; *k is ips_joined_ins() at the end. */
size_t ips_joined_put_values(const struct ips_joined *j, uint32_t p,
                             uint32_t *k, uint64_t *last, uint8_t *to,
                             size_t cap);

/* A piece of the path that lies on one machine: the slave tells the rest by
 * ips_path_between() of its full graph. */
struct ips_visit {
    uint32_t machine;
    uint32_t in; /* of the part; the remote in by which it comes, or
                    IPS_NO_NODE: it begins there */
    uint32_t
        out; /* of the part; by which it goes on, IPS_NO_NODE: at the END */
    uint8_t xkind;           /* of the in's arc */
    uint64_t from_ns, to_ns; /* EST there */
};
/* The path, from its beginning; malloc'd. */
int ips_joined_walk(const struct ips_joined *j, struct ips_visit **out,
                    uint64_t *count, struct ips_err *err) IPS_MUST_USE;

/* Moments of parts, and what was sent when and received when. */
typedef bool ips_moment_fn(void *arg, uint32_t from, uint64_t sent_ns,
                           uint32_t to, uint64_t received_ns);
/* Calls fn for each message that was received; false of it is IPS_E_NO_MEMORY.
 */
int ips_joins_pair(const struct ips_machine_joins *parts, uint32_t part_count,
                   ips_moment_fn *fn, void *arg, uint32_t *blame,
                   struct ips_err *err) IPS_MUST_USE;

#endif
