/*
 * Shared by build*.c: the state of one ips_build(). Flat arrays indexed by
 * uint32_t; nothing is allocated per record. Source: docs/HACKING.md "From
 * records to the graph".
 *
 * The passes, in order (build.c):
 *   scan     reads every record once: streams, and the rare records apart
 *   process  images -> processes, threads -> chains, forks and joins linked
 *   signal   which KILL or child's end a SIGNAL hangs on
 *   untraced what was seen to begin and never spoke
 *   channel  CHAN records -> ends, peers by name
 *   sync     which release let whom go, of locks and their like
 *   node     reads every record again, chain by chain: nodes and operations
 *            (build_node.c, build_io.c, build_sync_node.c)
 *   hold     who held which end when: the closes that end-of-file waits for
 *   match    sends and receives of two ends -> cross arcs
 *   settle   END coordinates
 *   causal   no local arc is quicker than the clock
 *   far      whose peer may be on another machine
 *   weights  what match found -> cross arcs, coordinates -> weights, and when
 *            each node was passed
 *   order    no cycle is left
 *   wall     what `sched` and `wall` need of every node besides
 *   table    names and rows
 *
 * While building, g.w holds absolute coordinates (CPU ns of the chain).
 * Times are ns of CLOCK_MONOTONIC_RAW. Input is untrusted: whatever the
 * records say, indices found here are in range or IPS_NONE.
 */
#ifndef IPS_SLAVE_BUILD_INTERNAL_H
#define IPS_SLAVE_BUILD_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/types.h"
#include "slave/build.h"
#include "slave/channel.h"
#include "slave/proc_line.h"

#define B_BLOCKED_NS 2000u

/* In a comparison function: decides where the two differ. */
#define CMP3(p, q)                                                             \
    do {                                                                       \
        if ((p) != (q))                                                        \
            return (p) < (q) ? -1 : 1;                                         \
    } while (0)

/* ---- growing arrays ---- */

/* Declares an array type with its count and room. */
#define B_ARRAY(type)                                                          \
    struct {                                                                   \
        type *v;                                                               \
        uint32_t n, room;                                                      \
    }

/* Room for one more of `size` bytes in (*v)[n]; 0 or IPS_E_NO_MEMORY / LIMIT.
 */
int b_grow(void **v, uint32_t n, uint32_t *room, size_t size,
           struct ips_err *err) IPS_MUST_USE;
#define B_MORE(array, err)                                                     \
    ((array).n < (array).room                                                  \
         ? 0                                                                   \
         : b_grow((void **)&(array).v, (array).n, &(array).room,               \
                  sizeof(*(array).v), (err)))
/* ips_calloc_large of at least one element, with the message: what a build
 * allocates is released by ips_free_large. */
void *b_calloc(size_t count, size_t size, struct ips_err *err);

/* ---- records ---- */

/* Where a walk over one stream's records stands. */
struct b_walk {
    const struct ips_stream_in *in;
    uint32_t chunk;
    size_t at;
    struct slave_proc_line line;
};
/* The smallest size of a record of each type, 0 for unknown types. */
extern const uint16_t b_rec_min[256];

/* May there be records of this type? */
static inline bool b_may_have(const struct ips_stream_in *in, uint8_t type)
{
    return !in->types || in->types[type / 64] >> type % 64 & 1;
}

/* The next record (NULL at the end), its type and length. What does not look
 * like a record ends its chunk. Short entries and exits come as long ones,
 * which stay until the next call. */
static inline const uint8_t *b_next(struct b_walk *w, uint32_t *type,
                                    uint32_t *len)
{
    while (w->chunk < w->in->chunk_count) {
        const struct ips_chunk *c = &w->in->chunks[w->chunk];
        if (w->at + sizeof(struct ips_rec_head) <= c->len) {
            uint32_t word;
            const uint8_t *p = c->data + w->at;
            memcpy(&word, p, sizeof(word));
            uint32_t bytes = (word >> 8 & 0xffu) * 8;
            *type = word & 0xffu;
            if (bytes >= sizeof(struct ips_rec_head) &&
                bytes <= c->len - w->at && bytes >= b_rec_min[*type]) {
                w->at += bytes;
                *len = bytes;
                p = slave_proc_whole(&w->line, &w->in->head.clock, p, type,
                                     len);
                if (!p)
                    continue;
                return p;
            }
        }
        w->chunk++;
        w->at = 0;
    }
    return NULL;
}

static inline uint64_t b_clock_ns(const struct ips_clock *c, uint64_t stamp)
{
    if (c->kind == IPS_CLOCK_RAW)
        return stamp;
    if (stamp >= c->counter0)
        return ips_add_sat(c->raw0_ns,
                           ips_mul_q32(stamp - c->counter0, c->mult_q32));
    return ips_sub_sat(c->raw0_ns,
                       ips_mul_q32(c->counter0 - stamp, c->mult_q32));
}
static inline uint64_t b_time(const struct ips_clock *c, uint32_t word,
                              uint64_t stamp)
{
    return word >> 16 & IPS_REC_F_NS ? stamp : b_clock_ns(c, stamp);
}
/* (t_ret - t) - (cpu_ret - cpu), never negative. */
static inline uint64_t b_blocked_ns(uint64_t t, uint64_t t_ret, uint64_t cpu,
                                    uint64_t cpu_ret)
{
    return ips_sub_sat(ips_sub_sat(t_ret, t), ips_sub_sat(cpu_ret, cpu));
}

/* ---- what the passes make ---- */

struct b_stream {
    const struct ips_stream_in *in;
    struct ips_clock clock;
    uint64_t image_ns, stream_ns; /* its header's stamps */
    uint32_t image, chain;
    uint32_t next; /* stream that continues the chain */
    bool task, empty;
    uint64_t first_ns, last_ns; /* of its records */
    uint64_t first_cpu, last_cpu;
    uint64_t events, node_room;
    uint64_t read_cpu_ns;      /* b_cost: the agent read the CPU clock last */
    uint64_t blocks_unread_ns; /* what they cost */
    uint32_t blocks_unread;
    /* START */
    uint8_t start_kind; /* 0 none */
    uint32_t ppid;
    uint64_t start_ns, start_cpu, fork_seq, parent_image;
    bool exec_last; /* ends in EXEC without EXECFAIL */
    uint64_t exec_ns;
    const uint8_t *exec; /* path of its last EXEC, or NULL */
    bool named_exec;     /* untraced: it is said where it went */
    uint8_t end_kind;    /* of the last END, 0 none */
    uint64_t end_ns, end_status;
    const uint8_t *name; /* text of its last NAME, or NULL */
    uint32_t name_len;
    /* into forks, joins, kills, takings, syncs, in stream order */
    uint32_t first_fork, first_join, first_kill, first_taking, first_sync;
    uint32_t first_delay, delay_count;
};

struct b_image {
    uint32_t first_stream, stream_count;
    uint32_t task_count; /* of its streams; they are the last */
    uint32_t main;       /* stream of the main thread or IPS_NONE */
    uint32_t proc;
    uint32_t first_chan, chan_count;
    bool continues; /* of the process of the image before it */
};

struct b_proc { /* beside struct ips_proc of the same index */
    uint32_t first_image, image_count;
    uint32_t main_chain; /* survives exec; or IPS_NONE */
    uint32_t end_chain;  /* whose END is the process's end */
    uint32_t fork;       /* FORK that made it, or IPS_NONE */
    uint32_t join;       /* JOIN that took its end, or IPS_NONE */
    uint64_t last_ns;    /* its last record */
    uint32_t order_next; /* links: its next fork that may be a popen's */
    bool spawned;        /* began with IMAGE: vfork, spawn, popen, system */
};

struct b_chain { /* beside g.chains */
    uint32_t first_stream, last_stream;
    uint32_t fork;      /* FORK its START hangs on, or IPS_NONE */
    uint64_t base;      /* coordinate of START */
    uint64_t limit;     /* settled CPU may not be later than... see settle */
    uint64_t settled;   /* greatest CPU known for it */
    uint32_t image_aux; /* node "its image began", or IPS_NO_NODE */
    int64_t end_shift;  /* of END: its coordinate less cpu_at */
    uint64_t unknown_ns; /* off the core outside of calls, all of it */
    bool read_delays;    /* somebody read its run delay: `off` is in use */
};

struct b_fork {
    uint64_t t, t_ret, cpu, cpu_ret, seq;
    uint64_t done_ns; /* popen, system: its JOIN's return; UINT64_MAX none */
    uint32_t pid, stream;
    uint32_t child;      /* chain, or IPS_NONE */
    uint32_t child_proc; /* for processes */
    uint32_t node;
    uint8_t kind;
    bool failed;
    bool named; /* untraced: it is said what the child is */
};

struct b_join {
    uint64_t t_ret, seq, child_cpu;
    uint32_t pid, status, stream;
    uint32_t child;      /* chain whose END it takes, or IPS_NONE */
    uint32_t child_proc; /* or IPS_NONE */
    uint32_t node;
    uint8_t kind;
    bool ended; /* not a stop: the child is gone */
};

struct b_sync { /* ACQUIRE, RELEASE */
    uint64_t t, t_ret;
    uint64_t dev, ino, object;
    uint32_t stream;
    uint32_t image; /* IPS_NONE: in memory that processes share */
    uint32_t cause; /* ACQUIRE: what let it go, index in syncs, or IPS_NONE */
    uint32_t arrived_before; /* BARRIER: the arrival before it of its round */
    uint32_t dead_owner;     /* ACQUIRE of a robust mutex: chain, or IPS_NONE */
    uint32_t node;
    int32_t value, left; /* RELEASE: how many it may let go yet */
    uint32_t err;
    uint8_t kind; /* enum ips_sync */
    bool release;
    bool used;  /* RELEASE: it let somebody go */
    bool ready; /* ACQUIRE of an eventfd: nobody waited for it */
};
struct b_spin { /* CPU burnt between a node and the next of its chain */
    uint32_t node;
    uint64_t ns;
};

struct b_delay { /* RUNDELAY */
    uint64_t t, ns;
};

struct b_cpu { /* THREADCPU */
    uint64_t t, cpu;
    uint32_t stream, tid;
};

struct b_kill { /* KILL */
    uint64_t t, cpu, value;
    uint32_t stream, node;
    uint32_t pid, tid, sig; /* whom; tid 0 = any thread */
    bool to_group, taken;
};
struct b_taking { /* SIGNAL */
    uint64_t t, cpu, value;
    uint32_t stream, node;
    uint32_t from, sig; /* sender's pid, 0 none */
    int32_t code;
    uint32_t kill, child; /* kills[], process; or IPS_NONE */
};
struct b_unseen { /* UNSEEN */
    uint64_t t;
    const uint8_t *text;
    uint32_t len, stream;
    uint32_t fork; /* the FORK before it in the stream, or IPS_NONE */
};

struct b_chan {
    uint64_t t;
    const uint8_t *rec;
    uint32_t image, id, stream;
    uint32_t end_recv, end_send; /* equal but for pipes; or IPS_NONE */
    bool open;                   /* hold pass */
};

/* Bytes of a stream sent, and what pass `match` needs of the node: it is read
 * end by end, where the node's columns would be a cache miss each. Positions
 * are sums of `len`. A receive has none: its node has its end (g.site), and
 * until its sender is found, where that is here,
 *   g.xlen   the bytes,
 *   g.xpred  how long the call took, ns; IPS_NO_NODE: see long_reads;
 * afterwards, until b_weights,
 *   g.xkind  B_X_SENT,
 *   g.xpred  index of the send in its peer's `sends`. */
struct b_op {
    uint64_t t, t_ret, len;
    uint64_t cpu, w; /* cpu_at and coordinate of the node */
    uint32_t node;
    uint32_t chain : 31, blocked : 1;
};
#define B_X_SENT 0x80u
struct b_read { /* a receive of bytes, of an end where they are listed */
    uint64_t t, t_ret, len;
    uint32_t node, chain;
    uint32_t ext; /* where the peer is not here: index of its b_ext */
};
struct b_long_read { /* a receive that took too long for its column */
    uint64_t t;
    uint32_t node;
};
/* Beside struct ips_end of the same index. */
struct b_end {
    bool listen, datagram;
    bool local; /* peer is here: `peer_end` */
    uint64_t netns, dev, ino, peer_ino, name_hash;
    uint64_t sent_before, recv_before;
    uint32_t namer_pid, peer_pid;
    struct ips_addr laddr, raddr;
    uint32_t connect_node;
    uint32_t socket; /* datagrams: the end that this flow is one of */
    /* pass `node`: this chain's last SEND here, this process's traffic row */
    uint32_t send_chain, send_node, traffic_proc, traffic;
    uint64_t send_t;
    /* pass `hold` */
    uint32_t first_release, release_count;
    uint64_t shut_ns; /* first shutdown(WR), UINT64_MAX none */
    uint32_t shut_node;
    uint32_t holders;
    /* pass `node`: sends and receives of bytes; the chain of the first, and
     * whether others have some; whether a send blocked */
    B_ARRAY(struct b_op) sends; /* from pass `match` on in order of return */
    uint32_t send_op_chain, read_chain, read_count;
    bool send_many, read_many, send_blocked;
    /* pass `match`: its receives are in reads[], in order of return */
    bool listed;
    uint32_t first_read;
};

enum b_dir { B_SEND = 0, B_RECV = 1 };
/* The position behind `len` more bytes, and as it is written in the graph. */
static inline uint64_t b_pos(uint64_t pos)
{
    return ips_min_u64(pos, IPS_POS_EXACT - 1);
}
struct b_dgram { /* a datagram moved */
    uint64_t t, t_ret, len, hash, path_hash, pos;
    uint32_t node, end, ext;
    uint32_t twin; /* the datagram at the other end, or IPS_NONE */
    struct ips_addr local, remote;
    uint8_t dir;
};
enum b_event_kind { B_EOF, B_BROKEN, B_ACCEPT };
struct b_event { /* a receive of no bytes, a failed send */
    uint64_t t_ret;
    uint32_t node, end, ext;
    uint8_t kind;
};
/* A receive whose sender may not be on this machine: what DPM-4 needs. */
struct b_ext {
    uint64_t pos, len, t_ns;
    uint64_t reply_ns; /* t_ret less the last SEND's t; with last_send */
    uint64_t blocked_ns;
    uint32_t node, end;
    uint32_t last_send; /* node, or IPS_NO_NODE */
    bool blocked;       /* it slept, or took a pending wait */
    bool settled;       /* has a sender here: nothing to decide */
};
enum b_hold_kind {
    B_HOLD_CHAN,
    B_HOLD_FORK,
    B_HOLD_CLOSE,
    B_HOLD_EXEC,
    B_HOLD_END
};
struct b_hold {
    uint64_t t;
    uint32_t proc, arg, node, seq;
    uint8_t kind, how;
};
struct b_release {
    uint64_t t;
    uint32_t end, node;
};

struct build {
    const struct ips_build_input *in;
    struct ips_built *out;
    struct ips_err *err;
    struct b_stream *streams;
    struct b_image *images;
    uint32_t image_count;
    struct b_proc *procs;
    struct b_chain *chains;
    B_ARRAY(struct b_fork) forks;
    B_ARRAY(struct b_join) joins;
    B_ARRAY(struct b_sync) syncs;
    B_ARRAY(struct b_spin) spins;
    B_ARRAY(struct b_cpu) cpus;
    B_ARRAY(struct b_unseen) unseens;
    B_ARRAY(struct b_chan) chans;
    B_ARRAY(struct b_kill) kills;
    B_ARRAY(struct b_taking) takings;
    struct b_end *ends;
    uint32_t end_room;
    B_ARRAY(struct b_long_read) long_reads;
    struct b_read *reads;
    B_ARRAY(struct b_dgram) dgrams;
    B_ARRAY(struct b_event) events;
    uint64_t cost_ps;  /* of recording */
    uint64_t probe_ps; /* ... since the last node, not yet in g.probe */
    B_ARRAY(struct b_ext) exts;
    B_ARRAY(struct b_hold) holds;
    B_ARRAY(struct b_release) releases;
    B_ARRAY(struct ips_remote_out) outs;
    B_ARRAY(uint64_t) traffic_last; /* beside out->traffic: last operation */
    uint32_t traffic_room;
    uint32_t *flows; /* hash table: flow of (socket, remote) + 1 */
    uint32_t flow_room, flow_count;
    uint64_t node_room;
    uint32_t nodes;   /* made so far */
    uint64_t *cpu_at; /* [node_room] CPU of the node's thread at g.t_ns */
    /* For build_wall.c. g.wait: asleep in the call (and the wait) that the node
     * ends. [node_room]: asleep in calls since the node before, with g.wait;
     * behind b_delays the delay after the wake-up. */
    uint64_t *off;
    uint64_t off_ns; /* so far, since the last node */
    uint8_t *far;    /* [end_count] its peer may be on another machine; NULL
                        where none is */
    bool backwards;  /* a node is before what it comes from: no order yet */
    B_ARRAY(struct b_delay) delays;
    struct b_wait_notes *notes; /* build_waits.c; NULL: not wanted */
};

/* What ips_built_set_peers needs again. */
struct ips_build_more {
    struct b_ext *exts;
    uint32_t ext_count;
    struct ips_remote_out *outs; /* of ends without local peer, by (end, pos) */
    uint32_t out_count;
    uint8_t *base_peer; /* [end_count] enum ips_end_peer as built */
    struct ips_build_counts base;
};

/* ---- passes ---- */

int b_scan(struct build *b) IPS_MUST_USE;       /* build_scan.c */
int b_processes(struct build *b) IPS_MUST_USE;  /* build_process.c */
int b_links(struct build *b) IPS_MUST_USE;      /* build_link.c */
int b_signals(struct build *b) IPS_MUST_USE;    /* build_signal.c */
void b_signal_arcs(struct build *b);            /* build_signal.c */
int b_untraced(struct build *b) IPS_MUST_USE;   /* build_untraced.c */
int b_ends(struct build *b) IPS_MUST_USE;       /* build_channel.c */
int b_peers(struct build *b) IPS_MUST_USE;      /* build_peer.c */
int b_sync_match(struct build *b) IPS_MUST_USE; /* build_sync.c */
int b_nodes(struct build *b) IPS_MUST_USE;      /* build_node.c */
void b_sync_arcs(struct build *b);              /* build_sync.c */
void b_states(struct build *b);                 /* build_settle.c */
int b_holders(struct build *b) IPS_MUST_USE;    /* build_hold.c */
int b_match(struct build *b) IPS_MUST_USE;      /* build_match.c */
void b_cost(struct build *b, uint32_t chain, struct b_stream *s, uint32_t type,
            const uint8_t *p);                    /* build_cost.c */
void b_cost_limit(struct build *b);               /* build_cost.c */
void b_events(struct build *b);                   /* build_match.c */
int b_datagrams(struct build *b) IPS_MUST_USE;    /* build_dgram.c */
void b_lifetimes(struct build *b);                /* build_match.c */
void b_settle(struct build *b);                   /* build_settle.c */
void b_causal(struct build *b);                   /* build_causal.c */
int b_weights(struct build *b) IPS_MUST_USE;      /* build_settle.c */
int b_sync_spins(struct build *b) IPS_MUST_USE;   /* build_sync_node.c */
int b_break_cycles(struct build *b) IPS_MUST_USE; /* build_order.c */
int b_wall(struct build *b) IPS_MUST_USE;         /* build_wall.c */
void b_delays(struct build *b);                   /* build_delay.c */
int b_tables(struct build *b) IPS_MUST_USE;       /* build_table.c */
int b_far_ends(struct build *b) IPS_MUST_USE;     /* build_peer.c */
int b_more(struct build *b) IPS_MUST_USE;         /* build_remote.c */
/* build_waits.c: where single waits are wanted. */
int b_waits_begin(struct build *b) IPS_MUST_USE;
int b_waits_finish(struct build *b) IPS_MUST_USE;
void b_waits_drop(struct build *b, uint32_t arc);

/* ---- shared helpers ---- */

/* The channel bound to `id` in `image`, or NULL. */
struct b_chan *b_chan_search(const struct build *b, uint32_t image,
                             uint32_t id);
static inline struct b_chan *b_chan_find(const struct build *b, uint32_t image,
                                         uint32_t id)
{
    const struct b_image *im = &b->images[image];
    if (id - 1 < im->chan_count) { /* the rule: ids count from 1 */
        struct b_chan *c = &b->chans.v[im->first_chan + id - 1];
        if (c->id == id)
            return c;
    }
    return b_chan_search(b, image, id);
}
/* A new end (zeroed, no peer); its index in *end. */
int b_end_new(struct build *b, uint32_t *end) IPS_MUST_USE;
/* The flow of socket end `end` to `remote`. */
int b_flow(struct build *b, uint32_t end, const struct ips_addr *remote,
           uint32_t *flow) IPS_MUST_USE;
bool b_addr_loopback(const struct ips_addr *a);
bool b_addr_any(const struct ips_addr *a);
/* One more node at the end of the graph: its coordinate, and the moment and
 * CPU its thread's clocks showed together (at the call of a send or fork, at
 * the return of a receive or wait). Room was counted by the scan. */
static inline uint32_t b_node(struct build *b, enum ips_node_kind kind,
                              uint64_t coord, uint64_t t_ns, uint64_t cpu_at,
                              uint32_t site)
{
    struct ips_graph *g = &b->out->g;
    uint32_t i = b->nodes++;
    g->kind[i] = (uint8_t)kind;
    g->w[i] = coord;
    g->t_ns[i] = t_ns;
    b->cpu_at[i] = cpu_at;
    b->off[i] = b->off_ns;
    b->off_ns = 0;
    g->probe[i] = (uint32_t)ips_min_u64(b->probe_ps / 1000, UINT32_MAX);
    b->probe_ps %= 1000;
    g->site[i] = site;
    g->xpred[i] = IPS_NO_NODE;
    return i;
}
/* The same for a node at the call of something that then slept so long. */
static inline uint32_t b_node_at_call(struct build *b, enum ips_node_kind kind,
                                      uint64_t coord, uint64_t t_ns,
                                      uint64_t slept, uint32_t site)
{
    b->off_ns = ips_sub_sat(b->off_ns, slept);
    uint32_t i = b_node(b, kind, coord, t_ns, coord, site);
    b->off_ns = slept;
    return i;
}
static inline void b_cross(struct build *b, uint32_t node, uint32_t xpred,
                           enum ips_xkind kind, uint64_t xlen)
{
    struct ips_graph *g = &b->out->g;
    if (node == IPS_NO_NODE || xpred == IPS_NO_NODE || node == xpred)
        return;
    g->xpred[node] = xpred;
    g->xkind[node] = (uint8_t)kind;
    g->xlen[node] = xlen;
}
/* May the other side of node i's channel be on another machine? Then its
 * moment is all that the two clocks can be compared by. */
static inline bool b_far(const struct build *b, uint32_t i)
{
    uint32_t end = b->out->g.site[i];
    return b->far && end != UINT32_MAX && b->far[end];
}
/* Damaged stamps: no time here reaches this. */
#define B_LATEST (1ULL << 61)
static inline uint64_t b_moved(uint64_t t, int64_t by)
{
    uint64_t at =
        by < 0 ? ips_sub_sat(t, (uint64_t)-by) : ips_add_sat(t, (uint64_t)by);
    return ips_min_u64(at, B_LATEST);
}
/* Off the core from (t0, cpu0) to (t, cpu), `off` of it in calls that slept. */
static inline uint64_t b_free_ns(uint64_t t, uint64_t t0, uint64_t cpu,
                                 uint64_t cpu0, uint64_t off)
{
    return ips_sub_sat(ips_sub_sat(ips_sub_sat(t, t0), ips_sub_sat(cpu, cpu0)),
                       off);
}
static inline uint32_t b_end_node(const struct build *b, uint32_t chain)
{
    const struct ips_chain *c = &b->out->g.chains[chain];
    return c->first + c->count - 1;
}
/* The release of `end` that an end-of-file seen at t_ns waited for, or
 * IPS_NO_NODE. */
uint32_t b_release_before(const struct build *b, uint32_t end, uint64_t t_ns,
                          bool eof);

#endif
