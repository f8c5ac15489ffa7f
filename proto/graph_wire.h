/*
 * A subgraph on the wire: cuts plain arrays into pieces of at most
 * IPS_PIECE_ITEMS items, and joins pieces into arrays. It does not know the
 * analysis: the slave points these arrays into its graph, the master makes a
 * graph from them.
 *
 * Received pieces are untrusted: counts are limited before any array grows, and
 * parallel arrays must have equal lengths. Nothing else is checked here;
 * ips_graph_check_invariants does that.
 */
#ifndef IPS_PROTO_GRAPH_WIRE_H
#define IPS_PROTO_GRAPH_WIRE_H

#include "proto/peer.h"

#define IPS_WIRE_NO_NODE UINT32_MAX

/* The arrays of analysis/graph/graph.h, each field in an array of its own.
 * `t_ns` and `site` may be NULL (absent). */
struct ips_wire_graph {
    uint32_t chain_count;
    uint32_t *chain_nodes, *chain_process, *chain_pid, *chain_tid,
        *chain_thread;
    uint32_t node_count;
    uint8_t *kind, *xkind;
    uint64_t *w, *xlen, *t_ns;
    uint64_t *bytes;             /* message bytes of each node; NULL: absent */
    uint64_t *at, *wait, *delay; /* ns (graph.h); each may be NULL: absent */
    uint32_t *probe;             /* recording's share of `w`, ns, or NULL */
    uint64_t *unended;           /* ns of unended waits; NULL: absent */
    /* node at which each node's cross arc starts; IPS_WIRE_NO_NODE: no cross
     * arc on this machine */
    uint32_t *xpred;
    uint32_t
        *site; /* index of the node's channel end; IPS_WIRE_NO_NODE: none */
    uint32_t in_count;
    uint32_t *in_node, *in_end;
    uint64_t *in_pos;
    uint32_t out_count;
    uint32_t *out_node, *out_end, *out_len;
    uint64_t *out_pos;
    uint64_t *out_ns; /* message times of remote sends, ns; NULL: absent */
    uint64_t total_cpu_ns;
    uint32_t end_count;
};

/* ---- cutting a graph into pieces ------------------------------------ */

/* Numbers of chains, nodes, remote receives and remote sends that were sent so
 * far; zero it to start. */
struct ips_wire_cursor {
    uint32_t chain, node, in, out;
};
/* A piece of a graph, and storage that it points into; valid until the next
 * ips_wire_fill_next_piece or the release. */
struct ips_wire_piece {
    Ips__Subgraph msg;
    uint64_t *xpred;
    uint32_t *site;
};
/* Makes the next piece; *last is set to whether it is the final one. A piece
 * fits a frame. An empty graph is sent as one empty piece, which is the
 * last. */
int ips_wire_fill_next_piece(const struct ips_wire_graph *g,
                             struct ips_wire_cursor *at,
                             struct ips_wire_piece *piece, bool *last,
                             struct ips_err *err) IPS_MUST_USE;
void ips_wire_piece_release(struct ips_wire_piece *piece);

/* ---- joining received pieces ---------------------------------------- */

/* Collects pieces into arrays that it owns. */
struct ips_wire_receiver {
    struct ips_wire_graph g;
    uint32_t max_nodes;
    uint32_t chain_cap, node_cap, in_cap, out_cap;
    bool detail; /* the receiver expects t_ns and site */
    /* the first piece has `at` and `wait`, so all must have them */
    bool times;
    bool delay; /* the first piece has `delay`, so all must have it */
    bool probe; /* the first piece has `probe`, so all must have it */
    bool unended;
    bool sized; /* the first piece has `bytes`, so all must have it */
    bool timed; /* the first piece has out_ns, so all must have it */
};
void ips_wire_receiver_init(struct ips_wire_receiver *t, uint32_t max_nodes,
                            bool detail);
/* Appends a piece. IPS_E_PROTOCOL: arrays of unequal length; IPS_E_LIMIT: more
 * than max_nodes nodes, chains, remote receives or remote sends. */
int ips_wire_append_received_piece(struct ips_wire_receiver *t,
                                   const Ips__Subgraph *piece,
                                   struct ips_err *err) IPS_MUST_USE;
void ips_wire_receiver_release(struct ips_wire_receiver *t);

#endif
