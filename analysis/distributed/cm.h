/*
 * Shared by the two distributed engines (cm_async.h, cm_sync.h): the links
 * between the subgraphs of two machines, the batches that travel over them, and
 * the counters.
 *
 * A *link* is one message between two machines that the receiver's graph
 * awaits: a remote send ("out") of the sender's graph, and the remote receives
 * ("ins") of the receiver's graph that get its data (one send may serve many
 * receives of a byte stream). Both sides number the links of a direction in the
 * same way, in channel order: by the sender's channel end, then by position. So
 * a value is sent with only the difference between its link's number and the
 * previous link's. The two sides agree on the numbering once for all scenarios
 * of a graph:
 *  - wants: the receiver sends the positions that it awaits.
 *  - matches: the sender answers which of them belong to one link, how long the
 *    message was (for MTIME), and which positions no node wrote.
 *
 * Matching obeys the rules of ips_graph_merge(): same links, same unmatched
 * receives.
 *
 * Messages are strings of varints (7 bits a byte, low first) and a checksum of
 * 4 bytes. Everything that a peer sends is checked. A message that is damaged,
 * has bytes left over, names an unknown link, repeats a link, or comes twice or
 * out of order returns IPS_E_PROTOCOL, with the reason in the error text.
 *
 * Pure: no I/O, no clock. Parts (machines) are numbered 0..part_count-1 in
 * order of machine name; `peer` is an index into the list of parts to which
 * this one is connected.
 * Source: IPS-11, ALGORITHMS 3; Chandy & Misra 1982.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_H

#include "analysis/graph/contract.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/path.h"

/* Special values of a sender or receiver, which is otherwise a number of a
 * machine: the root (the master), and none. */
#define IPS_CM_ROOT (UINT32_MAX - 1)
#define IPS_CM_NONE UINT32_MAX

/* ---- reading and writing messages --------------------------------------- */

struct ips_cm_bytes {
    uint8_t *data; /* allocated with malloc() */
    size_t len, cap;
    bool failed; /* true: out of memory, so some bytes are missing */
};
void ips_cm_bytes_release(struct ips_cm_bytes *b);
void ips_cm_append_varint(struct ips_cm_bytes *b, uint64_t v);
/* Appends the signed difference to - from. */
void ips_cm_append_signed_difference(struct ips_cm_bytes *b, uint64_t from,
                                     uint64_t to);

struct ips_cm_reader {
    const uint8_t *at, *end;
    bool bad; /* true: the bytes ended too early or were no varint; all later
                 reads return 0 */
};
/* Appends the checksum of all bytes of `b`. */
int ips_cm_append_checksum(struct ips_cm_bytes *b,
                           struct ips_err *err) IPS_MUST_USE;
/* Verifies the checksum at the end of `data`, and sets *r to read the bytes
 * before it. */
int ips_cm_verify_checksum_and_init_reader(struct ips_cm_reader *r,
                                           const uint8_t *data, size_t len,
                                           struct ips_err *err) IPS_MUST_USE;
uint64_t ips_cm_read_varint(struct ips_cm_reader *r);
uint64_t ips_cm_read_and_add_signed_difference(struct ips_cm_reader *r,
                                               uint64_t from);

/* ---- links --------------------------------------------------------------- */

struct ips_cm_peer {
    uint32_t machine;
    /* The next members describe the messages that this machine awaits from the
     * peer. */
    uint32_t want_count;
    uint32_t *want; /* [want_count] indices into g->in of the awaited receives,
                       in channel order */
    bool matched;   /* the peer's matches (see top) have arrived */
    uint32_t in_count;  /* number of links from the peer */
    uint32_t *in_first; /* [in_count] index in `want` of the first receive that
                           the link serves */
    /* [in_count] number of receives that the link serves */
    uint32_t *in_served;
    uint64_t *in_len; /* [in_count] length of each link's message in bytes; with
                         calibrated message times, its message time in ns */
    /* The next members describe the messages that the peer awaits from this
     * machine. */
    bool asked; /* the peer's wants (see top) have arrived */
    uint32_t out_count;
    uint32_t *out_node; /* [out_count] sending node of each link to the peer */
};

struct ips_cm_links {
    const struct ips_graph *g; /* borrowed */
    const struct ips_peer_end *end;
    uint32_t end_count;
    struct ips_cm_peer *peer; /* [peer_count] sorted by part */
    uint32_t peer_count;
    /* [g->in_count] index into `peer`; IPS_CM_NONE: no node wrote the awaited
     * position (known once all peers' matches have arrived) */
    uint32_t *in_peer;
    uint32_t *in_link; /* [g->in_count] number of the link from peer in_peer[k]
                          that serves the receive */
};

/* Finds the peers: the machines to which one of our channel ends is connected.
 * `g` must have passed ips_graph_check_invariants(). `g` and `end`
 * ([end_count], see ips_graph_merge) are borrowed until the links are released.
 */
int ips_cm_links_init(struct ips_cm_links *l, const struct ips_graph *g,
                      uint32_t self, uint32_t part_count,
                      const struct ips_peer_end *end, uint32_t end_count,
                      struct ips_err *err) IPS_MUST_USE;
void ips_cm_links_release(struct ips_cm_links *l);
/* Returns the index into l->peer of a part, or IPS_CM_NONE. */
uint32_t ips_cm_find_peer_index_of_machine(const struct ips_cm_links *l,
                                           uint32_t part);

/* Writes the message to peer p (an index) that lists the positions that we
 * await from that peer. `out` must be empty. */
int ips_cm_write_awaited_positions(const struct ips_cm_links *l, uint32_t p,
                                   struct ips_cm_bytes *out,
                                   struct ips_err *err) IPS_MUST_USE;
/* Reads the wants of peer p (the positions that it awaits): determines the
 * links to that peer and writes our matches into `matches`, which must be
 * empty. Called once for each peer. */
int ips_cm_read_awaited_and_write_matches(struct ips_cm_links *l, uint32_t p,
                                          const uint8_t *data, size_t len,
                                          struct ips_cm_bytes *matches,
                                          struct ips_err *err) IPS_MUST_USE;
/* Reads the matches of peer p (its answer to our wants): determines the links
 * from that peer. Called once for each peer. */
int ips_cm_read_matches_and_store_links(struct ips_cm_links *l, uint32_t p,
                                        const uint8_t *data, size_t len,
                                        struct ips_err *err) IPS_MUST_USE;
/* Whether the wants and matches of every peer have arrived. */
bool ips_cm_is_link_exchange_complete(const struct ips_cm_links *l);
/* Returns the number of remote receives whose position no node wrote. */
uint64_t ips_cm_count_unmatched_receives(const struct ips_cm_links *l);
/* Returns the number of links from all peers to this machine. */
uint64_t ips_cm_count_incoming_links(const struct ips_cm_links *l);

/* Where the message of a remote receive was sent, to follow a path back to the
 * sender's machine. */
struct ips_cm_sender {
    uint32_t peer; /* index into l->peer */
    uint32_t link; /* number of the link; the path continues at the peer, at the
                      link's out_node */
};
int ips_cm_find_peer_and_link_of_node(const struct ips_cm_links *l,
                                      uint32_t node, struct ips_cm_sender *out,
                                      struct ips_err *err) IPS_MUST_USE;

/* ---- counters ------------------------------------------------------------ */

struct ips_cm_counts {
    uint64_t values;   /* values sent to other machines */
    uint64_t batches;  /* batches sent */
    uint64_t received; /* batches received */
    uint64_t acks;     /* acknowledgements sent; only cm-async */
    uint64_t bytes;    /* bytes of the batches sent */
    uint64_t passes;   /* number of times that the slave computed values */
    uint64_t computed; /* number of nodes computed; cm-async may compute a node
                          several times */
};

enum ips_cm_kind { IPS_CM_BATCH, IPS_CM_ACK };
/* A message to be sent. `data` stays valid until the next call of
 * ips_cm_sync_make_next_batch() or ips_cm_async_make_next_message() for the
 * same state.
 */
struct ips_cm_message {
    enum ips_cm_kind kind;
    uint32_t to;    /* index into l->peer, or IPS_CM_ROOT */
    uint64_t count; /* ACK: number of messages that it acknowledges */
    const uint8_t *data;
    size_t len;
};

/* Default limit for the number of values in a batch. */
#define IPS_CM_BATCH_VALUES 65536u

/* ---- functions shared by the two engines -------------------------------- */

/* Links to peers, sorted by sending node. A walk along a chain meets them in
 * this order. */
struct ips_cm_outgoing_links {
    uint32_t count;
    struct ips_cm_out {
        uint32_t node, peer, link;
    } * at; /* sorted by node */
};
int ips_cm_list_outgoing_links_by_node(const struct ips_cm_links *l,
                                       struct ips_cm_outgoing_links *out,
                                       struct ips_err *err) IPS_MUST_USE;

struct ips_cross_arc_weighting;
/* Returns the weight of the arc into remote receive k of `g` (a view of the
 * scenario). The link has `len` bytes; `at` is the time at which its sending
 * node was passed, used only in `wall`. The result equals the weight in
 * ips_graph_merge() and in path.c. */
uint64_t ips_cm_cross_arc_weight(const struct ips_graph *g, uint32_t k,
                                 const struct ips_scenario *scenario,
                                 const struct ips_cross_arc_weighting *arcs,
                                 uint64_t len, uint64_t at);
/* Checks that `g` can be a view of the scenario: IPS_E_USAGE if the scenario
 * has the weighting `wall` and `g` has no times. */
int ips_cm_check_wall_graph_has_times(const struct ips_graph *g,
                                      const struct ips_scenario *scenario,
                                      struct ips_err *err) IPS_MUST_USE;
/* In `wall` each value in a batch is followed by a difference: the time at
 * which its node was passed, by the aligned clock, minus the value. The
 * difference is mostly 0, because in `wall` a node's EST is that time. */
void ips_cm_append_node_time_if_wall(struct ips_cm_bytes *b,
                                     const struct ips_graph *g,
                                     const struct ips_scenario *scenario,
                                     uint32_t node, uint64_t est);
int ips_cm_read_node_time_if_wall(struct ips_cm_reader *r,
                                  const struct ips_scenario *scenario,
                                  uint64_t est, uint64_t *at,
                                  struct ips_err *err) IPS_MUST_USE;

/* Reads the head of a batch; refuses the batch if its number is not *next_seq,
 * else increments *next_seq. Sets *values to the number of values. */
int ips_cm_read_batch_head_and_check_order(struct ips_cm_reader *r,
                                           uint64_t *next_seq,
                                           uint32_t link_count,
                                           uint32_t *values,
                                           struct ips_err *err) IPS_MUST_USE;
/* Reads the number of the next value's link. *link is 1 + the previous value's
 * link (0 before the first value), and becomes 1 + this value's link. */
int ips_cm_read_link_number_of_next_value(struct ips_cm_reader *r,
                                          uint32_t link_count, uint32_t *link,
                                          struct ips_err *err) IPS_MUST_USE;
/* Checks that the batch ends here. */
int ips_cm_check_all_bytes_read(const struct ips_cm_reader *r,
                                struct ips_err *err) IPS_MUST_USE;

#endif
