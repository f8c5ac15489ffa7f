/*
 * Joins: the part of a slave's subgraph that matters to other machines, for one
 * scenario. The engine `contract` sends them to the master, which solves the
 * joins of all machines together.
 *
 * Let P be the sum of a chain's arcs up to a node, and D = EST - P. Along a
 * chain D never falls, and it rises only where a cross arc wins: there D is
 * max(D before, D of the sender + P of the sender + the arc's weight - P here).
 * So a slave need not send nodes without a cross arc, nor the weights of chain
 * arcs. Successive cross arcs of a chain form one *join* if no other node needs
 * a value of the nodes between them. A join has one D, and a list of candidates
 * for it: each is the D of another join (the source) plus a number (the
 * addend). The slave itself computes all values that do not depend on other
 * machines; for the master they are constants.
 *
 * Ties: the candidates of a join are in the order of their nodes, after the
 * chain's own D, and only a greater one wins. This is the node-by-node rule of
 * path.h.
 *
 * Format. All numbers are varints (varint.h). `~` marks a signed difference
 * from the previous number of the same kind, `step` an unsigned one.
 *  - head: flags, T, number of ends, chains, joins, ins, outs, candidates for
 *    the END
 *  - chains that have joins: number of joins, number of remote receives among
 *    their arcs, bytes of these arcs, pid, tid
 *  - outs, by (end, pos) as in the graph: step of end, step of pos, len; then 0
 *    (depends on nothing) or 1 + ~join; ~P; [ns of len] [~at]
 *  - ins, by node as in the graph: end * 8 + xkind, ~pos of that end [~at,
 *    wait]
 *  - ENDs, by node: node; 0 or 1 + its join; P
 *  - arcs of the chains' joins: (what * 2 + 1 if the arc begins a join),
 *    ~addend of the slot; `what` is 0: the chain's next remote receive, 1: the
 *    constant 0, else 2 + ~join. An arc's slot is its position in the join
 *    modulo IPS_JOIN_SLOTS, because a thread that repeats the same actions then
 *    has small differences.
 *
 * The bytes of ips_joins_encode_send_receive_times() have no joins, candidates
 * and P; outs and ins have ~t_ns instead.
 *
 * Pure: no I/O, no clock. The result equals that of the unreduced graph bit for
 * bit (property 3 of ALGORITHMS 7).
 * Source: IPS-6, IPS-11, ALGORITHMS 3 `contract`.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_JOINS_H
#define IPS_ANALYSIS_DISTRIBUTED_JOINS_H

#include "analysis/graph/contract.h"
#include "analysis/graph/graph.h"

#define IPS_JOIN_SLOTS 4u
/* This many bytes after the encoded joins must be readable (the decoder checks
 * bounds late); their values do not matter. */
#define IPS_JOINS_PAD 64u

/* ---- functions for a slave ---------------------------------------------- */

struct ips_joins_bytes {
    uint8_t *data; /* freed with ips_free_large() */
    size_t len, cap;
};
struct ips_joins {
    /* the encoded joins: first all of head, then all of arcs */
    struct ips_joins_bytes head, arcs;
    uint32_t count, arc_count;
    uint64_t total; /* T of the full graph: the sum of its chain arcs */
};
void ips_joins_release(struct ips_joins *j);

/* Makes the joins of `full`, which must have passed
 * ips_graph_check_invariants(). A cycle is found only when the joins are
 * solved: IPS_E_STALLED. O(nodes). */
int ips_joins_compute_and_encode(const struct ips_graph *full,
                                 const struct ips_scenario *scenario,
                                 struct ips_joins *out,
                                 struct ips_err *err) IPS_MUST_USE;
/* Encodes the times (t_ns) of the remote sends and receives, by the machine's
 * own clock. */
int ips_joins_encode_send_receive_times(const struct ips_graph *full,
                                        struct ips_joins *out,
                                        struct ips_err *err) IPS_MUST_USE;

/* Decodes `count` values that the master sent: *value [count], malloc'd, may
 * contain IPS_IN_ABSENT. */
int ips_joins_decode_receive_values(const uint8_t *data, size_t len,
                                    uint32_t count, uint64_t **value,
                                    struct ips_err *err) IPS_MUST_USE;

/* ---- functions for the master ------------------------------------------- */

struct ips_machine_joins {
    /* [len + IPS_JOINS_PAD] the encoded joins of one machine */
    const uint8_t *data;
    size_t len;
    /* number of nodes of the full graph, to check node numbers */
    uint64_t nodes;
    const struct ips_peer_end *peer; /* [end_count] as in ips_graph_merge() */
    uint32_t end_count;
};

/* The joins of all parts, decoded and solved. Joins, remote receives (ins) and
 * remote sends (outs) are numbered consecutively over all parts. */
struct ips_joined {
    uint32_t machine_count;
    struct ips_joined_machine *machine;
    uint32_t chain_count, join_count, in_count, out_count;
    uint64_t *d;    /* [join_count] D (defined at the top of this file) of each
                       join, plus 1; 0: not known yet */
    uint32_t *won;  /* [join_count] the candidate that determined D, encoded as
                       in joins_solve.c */
    uint8_t *first; /* [join_count / 8 + 1] one bit a join; 1: the join is the
                       first of its chain */
    uint32_t *in_out; /* [in_count] the remote send that wrote the awaited
                         position; IPS_NO_NODE: none did */
    uint32_t *in_src; /* [in_count] copy of out_src of the remote send in_out */
    uint64_t *in_add; /* [in_count] P (defined at the top) of the sending node +
                         the arc's weight */
    /* [in_count] xkind; top bit (IPS_JOIN_ABSENT): no node wrote the position,
     * or the arc is absent in this scenario */
    uint8_t *in_kind;
    uint32_t *out_src; /* [out_count] join that sets D (defined at the top of
                          this file) of the sending node; IPS_NO_NODE: its D is
                          0 */
    uint64_t *out_p;   /* [out_count] P of the sending node: the sum of its
                          chain's arcs up to the node */
    uint64_t t_max;
    uint32_t end_machine, end_node; /* IPS_NO_NODE: there is no END */
    uint32_t end_join; /* join that sets D (defined at the top) of the END;
                          IPS_NO_NODE: its D is 0 */
    uint64_t total;    /* T: the sum of the chain arcs of all parts */
    /* number of remote receives whose position no node wrote */
    uint64_t unmatched;
};
void ips_joined_release(struct ips_joined *j);

/* Decodes and solves the joins. IPS_E_PROTOCOL if they are inconsistent; *blame
 * is then the machine that sent them, and part_count for other errors.
 * IPS_E_STALLED: a cycle; IPS_E_LIMIT: times of 2^62 ns or more. Memory: 12
 * bytes a join, 17 a remote receive, about 36 a remote send. */
int ips_joined_decode_and_solve(const struct ips_machine_joins *parts,
                                uint32_t part_count,
                                const struct ips_scenario *scenario,
                                struct ips_joined *out, uint32_t *blame,
                                struct ips_err *err) IPS_MUST_USE;

/* Returns the value of remote receive k (from 0) of machine p:
 * ips_longest_path_compute_ests() on that machine needs it in in_value. */
uint64_t ips_joined_get_value_of_receive(const struct ips_joined *j, uint32_t p,
                                         uint32_t k);
uint32_t ips_joined_count_receives_of_machine(const struct ips_joined *j,
                                              uint32_t p);
/* Encodes the values of machine p's remote receives, from receive *k on, for
 * FinishAsk.values: at most `cap` bytes, which must be at least
 * IPS_VARINT_BYTES. *last is the value encoded last (0 at the start). Returns
 * the number of bytes. After the last value *k is
 * ips_joined_count_receives_of_machine().
 * */
size_t ips_joined_encode_receive_values(const struct ips_joined *j, uint32_t p,
                                        uint32_t *k, uint64_t *last,
                                        uint8_t *to, size_t cap);

/* A section of the path on one machine. The slave finds the path within it with
 * ips_path_find_between() of its full graph. */
struct ips_path_section {
    uint32_t machine;
    uint32_t in;  /* number, on this machine, of the remote receive by which the
                     path enters; IPS_NO_NODE: the path starts here */
    uint32_t out; /* number, on this machine, of the remote send by which the
                     path leaves; IPS_NO_NODE: the path ends here */
    uint8_t xkind;           /* kind of the arc into `in` */
    uint64_t from_ns, to_ns; /* EST at the section's start and end */
};
/* Lists the sections of the path from its start; *out is malloc'd. */
int ips_joined_list_path_sections(const struct ips_joined *j,
                                  struct ips_path_section **out,
                                  uint64_t *count,
                                  struct ips_err *err) IPS_MUST_USE;

/* Callback for a message: sending machine and time, receiving machine and time,
 * each by that machine's own clock. False: out of memory. */
typedef bool ips_message_times_fn(void *arg, uint32_t from, uint64_t sent_ns,
                                  uint32_t to, uint64_t received_ns);
/* Pairs the results of ips_joins_encode_send_receive_times() of all parts:
 * calls fn for each message received from another machine. If fn returns false,
 * returns IPS_E_NO_MEMORY. */
int ips_joins_pair_message_times(const struct ips_machine_joins *parts,
                                 uint32_t part_count, ips_message_times_fn *fn,
                                 void *arg, uint32_t *blame,
                                 struct ips_err *err) IPS_MUST_USE;

#endif
