/* How receives find their sends: between build_match.c, which has all of them,
 * and build_grow_match.c, which has those of a run that goes on. */
#ifndef IPS_SLAVE_BUILD_MATCH_H
#define IPS_SLAVE_BUILD_MATCH_H

#include "slave/build_internal.h"

/* Where the receives of one end stand in the sends of its peer. */
struct inflow {
    struct b_sending send;
    uint64_t read, sent;
    bool whole;  /* the peer is closed: what is missing was never recorded */
    bool open;   /* its receives come in the order of nodes */
    bool memory; /* b_by_memory() */
};

/* The send that wrote the last of the next `len` bytes read; NULL: not here,
 * and counted. */
static inline struct b_op *sender_of(struct build *b, struct inflow *f,
                                     uint64_t len)
{
    f->read = ips_add_sat(f->read, len);
    while (f->send.op && b_pos(f->sent) < b_pos(f->read)) {
        b_next_send(b, &f->send);
        if (f->send.op)
            f->sent = ips_add_sat(f->sent, f->send.op->len);
    }
    struct b_op *op = f->send.op;
    if (op && b_pos(f->read) > ips_sub_sat(b_pos(f->sent), op->len)) {
        __builtin_prefetch(op + 4, 1);
        return op;
    }
    if (f->whole)
        b->out->counts.unmatched++;
    else
        b->out->counts.pending++;
    return NULL;
}

static inline void not_sent(struct build *b, uint32_t node)
{
    b->out->g.xlen[node] = 0;
    b->out->g.xpred[node] = IPS_NO_NODE;
}

/* The arc, and what it says of the send: build_causal.c has the rule. That of
 * the receive is b_weights', when all receives of the send are known. */
static inline void sent_by(struct build *b, const struct inflow *f,
                           struct b_op *send, uint32_t v)
{
    struct ips_graph *g = &b->out->g;
    uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
    uint64_t room = ips_sub_sat(ips_sub_sat(g->t_ns[v], send->t), after);
    g->xkind[v] = B_X_SENT;
    g->xpred[v] = f->send.place;
    if (room >= send->past)
        return;
    if (b_final(b, send->node)) {
        b->broken = true;
        return;
    }
    send->past = room;
    g->w[send->node] = b->cpu_at[send->node] + room;
}

/* The coordinate of a receive at t_ns that knows its send, which has given way:
 * now it does the same (build_causal.c). */
static inline uint64_t b_gives_way(const struct b_op *send, uint64_t coord,
                                   uint64_t t_ns, uint64_t cpu_at)
{
    uint64_t time = ips_sub_sat(t_ns, send->t);
    uint64_t room = ips_sub_sat(time, send->past);
    return ips_sub_sat(cpu_at, coord) > room ? cpu_at - room : coord;
}

/* Sends of one end that blocked, and the receives of the other. */
struct b_room {
    struct b_sending send;      /* the first */
    uint64_t sent, read;        /* before it, and before reads[0] */
    const struct b_read *reads; /* in order of return */
    uint32_t count;
    uint32_t last; /* receive before reads[0], or IPS_NO_NODE */
};
void b_match_room(struct build *b, struct b_room *k);
/* The other end is elsewhere: what it has read is not known here. */
void b_room_of_far_end(struct build *b, struct b_sending send);

#endif
