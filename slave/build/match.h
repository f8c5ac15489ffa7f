/* Finds the sends of receives. Shared by build/match.c, for the receives of a
 * whole run, and build/incremental/match.c, for those of a run that is still
 * being recorded. */
#ifndef IPS_SLAVE_BUILD_MATCH_H
#define IPS_SLAVE_BUILD_MATCH_H

#include "slave/build/internal.h"

/* How far the receives of one end have come in the sends of its peer: `send` is
 * the current send, `sent` the number of bytes up to its end, and `read` the
 * number of bytes received. */
struct match_cursor {
    struct b_send_cursor send;
    uint64_t read, sent;
    bool whole;  /* the peer is closed, so a missing send was never recorded */
    bool open;   /* receives of this end are visited in the order of nodes */
    bool memory; /* bytes arrive through memory: b_is_end_in_memory() */
    /* some receives of this end were matched when they were made
     * (build/plain/early.c) */
    bool early;
    bool late; /* from now on, receives of this end are matched by pass `match`
                  only */
};

/* Returns the state before the first receive of end `to`, without `whole` and
 * `open`, which are not known while nodes are made. */
static inline struct match_cursor b_init_match_cursor(const struct build *b,
                                                      uint32_t to)
{
    const struct b_end *e = &b->ends[b->out->ends[to].peer_end];
    struct match_cursor f = {.send = b_init_send_cursor(b, e),
                             .read = b->ends[to].recv_before,
                             .sent = e->sent_before,
                             .memory = b_is_end_in_memory(b, to)};
    if (f.send.op)
        f.sent = ips_add_sat(f.sent, f.send.op->len);
    return f;
}

/* Advances *f by a receive of `len` bytes. Returns the send that wrote the last
 * of these bytes; NULL: it was not recorded (yet). */
static inline struct b_send *
b_advance_to_send_of_receive(const struct build *b, struct match_cursor *f,
                             uint64_t len)
{
    f->read = ips_add_sat(f->read, len);
    while (f->send.op && b_clamp_pos(f->sent) < b_clamp_pos(f->read)) {
        b_advance_send_cursor(b, &f->send);
        if (f->send.op)
            f->sent = ips_add_sat(f->sent, f->send.op->len);
    }
    struct b_send *op = f->send.op;
    if (op &&
        b_clamp_pos(f->read) > ips_sub_sat(b_clamp_pos(f->sent), op->len)) {
        __builtin_prefetch(op + 4, 1);
        return op;
    }
    return NULL;
}

/* Like b_advance_to_send_of_receive(), and counts a receive without a send as
 * unmatched or pending. */
static inline struct b_send *
advance_to_send_or_count_unmatched(struct build *b, struct match_cursor *f,
                                   uint64_t len)
{
    struct b_send *op = b_advance_to_send_of_receive(b, f, len);
    if (op)
        return op;
    if (f->whole)
        b->out->counts.unmatched++;
    else
        b->out->counts.pending++;
    return NULL;
}

static inline void clear_send_of_receive(struct build *b, uint32_t node)
{
    b->out->g.xlen[node] = 0;
    b->out->g.xpred[node] = IPS_NO_NODE;
}

/* Makes the arc from `send`, the current one of `f`, to receive `v`, and limits
 * the coordinate of the send (build/causal.c has the rule). b_make_weights()
 * limits that of the receive, when all receives of the send are known. */
static inline void
link_receive_and_limit_send_coord(struct build *b, const struct match_cursor *f,
                                  struct b_send *send, uint32_t v)
{
    struct ips_graph *g = &b->out->g;
    uint64_t after = ips_sub_sat(b->cpu_at[v], g->w[v]);
    uint64_t room = ips_sub_sat(ips_sub_sat(g->t_ns[v], send->t), after);
    g->xkind[v] = B_X_SENT;
    g->xpred[v] = f->send.position;
    if (room >= send->past_cpu_ns)
        return;
    if (b_is_final_node(b, send->node)) {
        b->broken = true;
        return;
    }
    send->past_cpu_ns = room;
    g->w[send->node] = b->cpu_at[send->node] + room;
}

/* Values for the graph columns of a receive whose send is known. */
struct b_matched {
    uint64_t coord;
    uint32_t xpred;
    uint8_t xkind;
};

/* Does in a whole build what link_receive_and_limit_send_coord() does, for a
 * receive of `len` bytes at coordinate `coord` that slept for `wait`: limits
 * the coordinate of the send, and returns the columns of the receive. If no
 * other receive depends on `send`, the coordinate of `send` is final now. Then
 * the coordinate of the receive is limited at once, and b_make_weights() need
 * not load the send, whose cache line is loaded here anyway.
 *
 * Because the coordinate of the send is limited first, the receive moves only
 * if its CPU after the arc does not fit into the time between send and receive
 * at all; b_limit_receive_coord() has the general case. */
static inline struct b_matched b_link_receive_and_limit_both_coords(
    struct build *b, const struct match_cursor *f, struct b_send *send,
    uint64_t t_ns, uint64_t cpu_at, uint64_t coord, uint64_t wait, uint64_t len)
{
    uint64_t after = ips_sub_sat(cpu_at, coord);
    uint64_t time = ips_sub_sat(t_ns, send->t), room = ips_sub_sat(time, after);
    if (room < send->past_cpu_ns) {
        send->past_cpu_ns = room;
        b->out->g.w[send->node] = b->cpu_at[send->node] + room;
    }
    if (f->read != f->sent || len < send->len ||
        f->read != b_clamp_pos(f->read))
        return (struct b_matched){coord, f->send.position, B_X_SENT};
    if (after > time) {
        coord = cpu_at - time;
        after = time;
    }
    if (time == 0)
        b->backwards = true;
    uint64_t sent = ips_add_sat(send->t, send->past_cpu_ns);
    uint64_t latest = ips_sub_sat(ips_sub_sat(t_ns, after), wait);
    uint32_t there =
        f->memory & (wait > 0) & ((sent <= latest) | (coord > cpu_at));
    return (struct b_matched){coord, send->node,
                              (uint8_t)(B_X_FOUND + there * B_X_THERE)};
}

/* A value with a bit set at this position or above is negative, or damaged. */
#define B_WHOLE_BITS 60

/* Does what b_link_receive_and_limit_both_coords() does, in the common case:
 * all bytes up to `read`, this receive included, were received as whole
 * messages, and the time between send and receive is more than enough for the
 * CPU of both sides. `after`: CPU of the receive after the arc. Returns the
 * kind of the receive's arc; 0: it is not the common case. Whether a receive
 * slept is unpredictable, so there is no branch on it. */
static inline __attribute__((always_inline)) uint8_t
b_compute_xkind_if_whole_message(const struct b_send *send, uint64_t t_ns,
                                 uint64_t after, uint64_t wait, uint64_t read,
                                 bool memory)
{
    uint64_t sent = send->t + send->past_cpu_ns, latest = t_ns - after;
    uint64_t spare = latest - sent;
    if ((t_ns | wait | send->t | send->past_cpu_ns | after | latest | spare |
         read) >>
            B_WHOLE_BITS ||
        !(spare | after | send->past_cpu_ns))
        return 0;
    uint32_t there = memory & (wait > 0) & (sent <= ips_sub_sat(latest, wait));
    return (uint8_t)(B_X_FOUND + there * B_X_THERE);
}

/* Returns the coordinate of a receive, limited so that its CPU after the arc
 * fits into the time since `send`, whose coordinate is limited already
 * (build/causal.c). */
static inline uint64_t b_limit_receive_coord(const struct b_send *send,
                                             uint64_t coord, uint64_t t_ns,
                                             uint64_t cpu_at)
{
    uint64_t time = ips_sub_sat(t_ns, send->t);
    uint64_t room = ips_sub_sat(time, send->past_cpu_ns);
    return ips_sub_sat(cpu_at, coord) > room ? cpu_at - room : coord;
}

/* Whether the pipe carries tokens (make's jobserver), not data: at least two
 * processes write single bytes to it, and read single bytes from it. Which
 * token a process gets is incidental. */
bool b_does_pipe_carry_tokens(const struct build *b, uint32_t from,
                              uint32_t to);

/* build/shared.c, for a run with processes that are not recorded: returns
 * whether the clock contradicts that `send` wrote the last byte of `r`. `send`
 * NULL: no known send wrote it; `whole`: no send can come later. */
bool b_does_clock_contradict_match(const struct build *b,
                                   const struct b_read *r,
                                   const struct b_send *send, bool whole);
/* b_has_unrecorded_user() returns whether an unrecorded process wrote or read
 * the stream as well; the receives of end `to` must be listed. For such a
 * stream, b_match_receives_of_shared_stream() matches the receives whose
 * sends are certain, and b_link_poll_of_stream_with_unrecorded_user(), called
 * later, makes the arc to a poll. */
bool b_has_unrecorded_user(struct build *b, uint32_t to);
int b_match_receives_of_shared_stream(struct build *b,
                                      uint32_t to) IPS_MUST_USE;
void b_link_poll_of_stream_with_unrecorded_user(struct build *b,
                                                const struct b_poll *p);

/* Input of b_link_blocked_sends_or_mark_preempted(): the sends of one end, and
 * the receives of the other. */
struct b_full_sends {
    struct b_send_cursor send; /* the first send */
    /* number of bytes sent before `send`, and number read before reads[0] */
    uint64_t sent, read;
    const struct b_read *reads; /* in order of return */
    uint32_t count;
    uint32_t last; /* node of the receive before reads[0], or IPS_NO_NODE */
    uint32_t to;   /* the other end; IPS_NONE: its releases are not known yet */
    bool pipe;
    /* A send after which at most this many bytes are unread did not wait for
     * space. */
    uint32_t always;
};
/* A pipe holds at least this many bytes. A send that leaves no more than this
 * unread did not wait for space: it was off the CPU because it was preempted.
 */
#define B_ROOM_ALWAYS_BYTES 4096u
void b_link_blocked_sends_or_mark_preempted(struct build *b,
                                            struct b_full_sends *k);
/* Returns the source of the arc to a wait for space that the receive at `node`
 * ended. `sent`: all bytes sent up to the call that waited; `read`: all bytes
 * received up to the return of the receive. If the receive also got bytes that
 * were sent later, it returned after the wait was over: then the source is the
 * node before `node` (IPS_NO_NODE: there is none). */
uint32_t b_find_node_that_made_space(const struct build *b, uint32_t node,
                                     uint64_t read, uint64_t sent);
/* For a channel whose other end is on another machine: marks the blocked sends
 * of at most B_ROOM_ALWAYS_BYTES as preempted, from `send` on. Only the length
 * decides, because it is not known here how much the other end has read. */
void b_mark_small_blocked_remote_sends_preempted(struct build *b,
                                                 struct b_send_cursor send);

#endif
