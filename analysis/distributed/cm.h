/*
 * What the two distributed engines (cm_async.h, cm_sync.h) share: the links
 * between the subgraphs of two machines, the batches that travel over them,
 * and what is counted.
 *
 * A *link* is one message that crosses from one machine to another and is
 * awaited there: an out of the sender's graph and the ins of the receiver's
 * that it serves (one send may serve many receives of a byte stream). Both
 * sides number the links of a direction alike, in channel order: by the
 * sender's channel end, then by position. So a value needs no name on the
 * wire, only the step from the link before it. The numbering is agreed once a
 * graph, whatever the scenario:
 *
 *   wants    the receiver tells the sender the positions it awaits
 *   matches  the sender tells which of them are one link, how long the message
 *            was (for MTIME), and which positions nobody wrote
 *
 * A match obeys the rules of ips_graph_merge(): same links, same unmatched.
 *
 * Messages are strings of varints (7 bits a byte, low first) and a checksum of
 * 4 bytes. Whatever comes from a peer is checked before it is believed: what
 * is damaged, has bytes left over, names an unknown link, repeats one, or
 * comes twice or out of order is IPS_E_PROTOCOL with the fact in the message.
 *
 * Pure: no I/O, no clock. Parts are numbered 0..part_count-1 in order of
 * machine name; a peer is named by its part.
 * Source: IPS-11, ALGORITHMS 3; Chandy & Misra 1982.
 */
#ifndef IPS_ANALYSIS_DISTRIBUTED_CM_H
#define IPS_ANALYSIS_DISTRIBUTED_CM_H

#include "analysis/graph/contract.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/path.h"

/* Who a message comes from or goes to, beside the parts. */
#define IPS_CM_ROOT (UINT32_MAX - 1)
#define IPS_CM_NONE UINT32_MAX

/* ---- bytes --------------------------------------------------------------- */

struct ips_cm_bytes {
    uint8_t *data; /* malloc'd */
    size_t len, cap;
    bool failed; /* no memory: some of it is missing */
};
void ips_cm_bytes_release(struct ips_cm_bytes *b);
void ips_cm_put(struct ips_cm_bytes *b, uint64_t v);
/* The step from `from` to `to`, either way. */
void ips_cm_put_step(struct ips_cm_bytes *b, uint64_t from, uint64_t to);

struct ips_cm_reader {
    const uint8_t *at, *end;
    bool bad; /* cut short or no varint: what was read since is 0 */
};
/* Puts the checksum of all of `b` behind it. */
int ips_cm_seal(struct ips_cm_bytes *b, struct ips_err *err) IPS_MUST_USE;
/* Checks it; *r reads what is before it. */
int ips_cm_open(struct ips_cm_reader *r, const uint8_t *data, size_t len,
                struct ips_err *err) IPS_MUST_USE;
uint64_t ips_cm_get(struct ips_cm_reader *r);
uint64_t ips_cm_get_step(struct ips_cm_reader *r, uint64_t from);

/* ---- links --------------------------------------------------------------- */

struct ips_cm_peer {
    uint32_t machine;
    /* awaited of it */
    uint32_t want_count;
    uint32_t *want;      /* [want_count] index in g->in, in channel order */
    bool matched;        /* its matches came */
    uint32_t in_count;   /* links */
    uint32_t *in_first;  /* [in_count] first of the link's ins in `want` */
    uint32_t *in_served; /* [in_count] how many ins it serves */
    uint64_t *in_len;    /* [in_count] bytes of the message, or ns */
    /* awaited of us */
    bool asked; /* its wants came */
    uint32_t out_count;
    uint32_t *out_node; /* [out_count] */
};

struct ips_cm_links {
    const struct ips_graph *g; /* borrowed */
    const struct ips_peer_end *end;
    uint32_t end_count;
    struct ips_cm_peer *peer; /* [peer_count] by part */
    uint32_t peer_count;
    uint32_t *in_peer; /* [g->in_count] index in `peer`, IPS_CM_NONE: nobody
                          wrote what it awaits (once all have matched) */
    uint32_t *in_link; /* [g->in_count] */
};

/* Finds the peers: machines that a channel end of ours is joined to. `g` must
 * have passed ips_graph_check(); it and `end` ([end_count], as for
 * ips_graph_merge) are borrowed while the links live. */
int ips_cm_links_init(struct ips_cm_links *l, const struct ips_graph *g,
                      uint32_t self, uint32_t part_count,
                      const struct ips_peer_end *end, uint32_t end_count,
                      struct ips_err *err) IPS_MUST_USE;
void ips_cm_links_release(struct ips_cm_links *l);
/* Index in l->peer of that part, or IPS_CM_NONE. */
uint32_t ips_cm_peer_of(const struct ips_cm_links *l, uint32_t part);

/* What peer p (an index) is told to send us, put into `out`, which is empty. */
int ips_cm_wants(const struct ips_cm_links *l, uint32_t p,
                 struct ips_cm_bytes *out, struct ips_err *err) IPS_MUST_USE;
/* Its wants came: fixes the links to it and puts our matches into `matches`,
 * which is empty. Once. */
int ips_cm_take_wants(struct ips_cm_links *l, uint32_t p, const uint8_t *data,
                      size_t len, struct ips_cm_bytes *matches,
                      struct ips_err *err) IPS_MUST_USE;
/* Its matches came: fixes the links from it. Once. */
int ips_cm_take_matches(struct ips_cm_links *l, uint32_t p, const uint8_t *data,
                        size_t len, struct ips_err *err) IPS_MUST_USE;
/* All wants and matches came, of every peer. */
bool ips_cm_links_ready(const struct ips_cm_links *l);
/* Ins whose position nobody wrote. */
uint64_t ips_cm_unmatched(const struct ips_cm_links *l);
/* Links to this part. */
uint64_t ips_cm_links_in(const struct ips_cm_links *l);

/* The in (index in g->in) that a path came back to: who sent it. */
struct ips_cm_hop {
    uint32_t peer; /* index */
    uint32_t link; /* ask that peer for its out_node of this number */
};
int ips_cm_hop(const struct ips_cm_links *l, uint32_t node,
               struct ips_cm_hop *out, struct ips_err *err) IPS_MUST_USE;

/* ---- what is counted ----------------------------------------------------- */

struct ips_cm_counts {
    uint64_t values;   /* sent to other machines */
    uint64_t batches;  /* messages with values, sent */
    uint64_t received; /* such messages taken */
    uint64_t acks;     /* sent; cm-async */
    uint64_t bytes;    /* of batches sent, as this module makes them */
    uint64_t passes;   /* times the slave ran */
    uint64_t computed; /* nodes given a value, again and again in cm-async */
};

/* A message to be sent; `data` is borrowed until the next call. */
enum ips_cm_kind { IPS_CM_BATCH, IPS_CM_ACK };
struct ips_cm_message {
    enum ips_cm_kind kind;
    uint32_t to;    /* index of a peer, or IPS_CM_ROOT */
    uint64_t count; /* ACK: messages acknowledged */
    const uint8_t *data;
    size_t len;
};

/* At most so many values in one batch where the caller does not say. */
#define IPS_CM_BATCH_VALUES 65536u

/* ---- shared by the two engines ------------------------------------------- */

/* Links to peers by node, so that a run along a chain meets them in order. */
struct ips_cm_outs {
    uint32_t count;
    struct ips_cm_out {
        uint32_t node, peer, link;
    } * at; /* by node */
};
int ips_cm_outs_make(const struct ips_cm_links *l, struct ips_cm_outs *out,
                     struct ips_err *err) IPS_MUST_USE;

/* What the arc into in k of `g` (a view of the scenario) weighs: a link of
 * `len` bytes, whose sender was passed at `at` (in `wall`; else it does not
 * matter). As ips_graph_merge() and the kernel weigh it. */
struct ips_arcs;
uint64_t ips_cm_xweight(const struct ips_graph *g, uint32_t k,
                        const struct ips_scenario *scenario,
                        const struct ips_arcs *arcs, uint64_t len, uint64_t at);
/* A view of that scenario? IPS_E_USAGE where `wall` has no times. */
int ips_cm_check_view(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      struct ips_err *err) IPS_MUST_USE;
/* In `wall` each value is followed by the step from it to when its node was
 * passed, by the aligned clock; 0 in most, for there EST is that time. */
void ips_cm_put_at(struct ips_cm_bytes *b, const struct ips_graph *g,
                   const struct ips_scenario *scenario, uint32_t node,
                   uint64_t est);
int ips_cm_get_at(struct ips_cm_reader *r, const struct ips_scenario *scenario,
                  uint64_t est, uint64_t *at, struct ips_err *err) IPS_MUST_USE;

/* Refuses a batch that is not the next of its sender. Reads the head. */
int ips_cm_batch_head(struct ips_cm_reader *r, uint64_t *next_seq,
                      uint32_t link_count, uint32_t *values,
                      struct ips_err *err) IPS_MUST_USE;
/* The link of the next value: `*link` is the last one's, + 1 (0 before the
 * first), and becomes this one's + 1. */
int ips_cm_batch_link(struct ips_cm_reader *r, uint32_t link_count,
                      uint32_t *link, struct ips_err *err) IPS_MUST_USE;
/* The batch must be over here. */
int ips_cm_batch_end(const struct ips_cm_reader *r,
                     struct ips_err *err) IPS_MUST_USE;

#endif
