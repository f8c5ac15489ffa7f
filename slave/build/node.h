/*
 * Between build/node.c (chains: processes, closes) and build/io.c (sends,
 * receives, waits): where the second reading of the records stands.
 */
#ifndef IPS_SLAVE_BUILD_NODE_H
#define IPS_SLAVE_BUILD_NODE_H

#include "slave/build/internal.h"

/* Fruitless attempts up to a success (build/spin.c); elapsed_ns 0: none. */
struct spin {
    uint64_t ended; /* when the success was asked for */
    uint64_t elapsed_ns;
    uint64_t cpu, burnt; /* at the first attempt; until the success */
    uint64_t awake_ns;   /* of elapsed_ns: not asleep, so not in off_ns yet */
};

/* A poll, select or epoll that blocked, or span, and whose cause is not known
 * yet. */
struct wait {
    bool pending;
    bool fresh; /* by the record at hand, for build/waits.c */
    uint64_t cpu, blocked_ns;
    uint32_t ready; /* channel id, 0 any */
    uint32_t arc;   /* the arc into that node has the wait */
    struct spin spin;
    /* The node of its return if it was for a stream (build/poll.c), else
     * IPS_NO_NODE; the
     * call; and what was there before that node. */
    uint32_t node, end, why;
    bool merged; /* by the record at hand: the node is gone */
    uint64_t t, t_ret, cpu_ret, off_ns;
    struct b_gaps gaps;
};

/* The last signals taken since an interval record: a call that blocked around
 * the first of them was ended by it. */
#define TAKEN_KEPT 8u
struct taken_signal {
    uint64_t t;
    uint32_t node; /* or IPS_NO_NODE: not matched */
    bool timer;    /* it came from one */
};

/* What ended the last poll of a place; the oldest place goes. */
#define CHOSEN_KEPT 8u
struct chosen {
    uint64_t site;
    uint32_t ready;
};

/* Where its process was stopped (build/job_control.c). */
struct maker_job_stop {
    uint32_t next, end; /* of stops[] */
    uint64_t t, cpu;    /* of its last record, at its return */
    const struct b_job_stop
        *in;             /* that the call at hand slept through, no node yet */
    uint64_t slept;      /* the node's wait: from the call until it went on */
    uint64_t stopped_ns; /* ... of it stopped, for b_interval */
};

/* What the thread moved through one end in one direction, one operation after
 * the other: added to the tables when it turns to another end. */
struct tally {
    uint32_t end, row; /* in out->traffic */
    uint64_t messages, bytes, t, t_ret;
};

/* The kernel cuts a send into 128 datagrams at most, of which one record has
 * more than a hundred. */
#define B_DGRAMS_OF_CALL 2u

struct maker {
    struct build *b;
    struct b_stream *s;
    struct ips_thread_row *row;
    uint32_t chain, proc;
    uint64_t last_ret; /* returns are in order */
    struct wait wait;
    struct spin spin; /* of the BLOCK op SPIN just before */
    uint32_t next_fork, next_join, next_kill, next_taking, next_sync;
    uint32_t next_retry, next_made, next_nap_run;
    struct taken_signal taken_signal[TAKEN_KEPT];
    uint32_t taken_count;
    struct maker_job_stop job_stop;
    struct chosen chosen[CHOSEN_KEPT];
    uint32_t chosen_next;
    uint32_t signal_node; /* of the signal that ended the call at hand */
    /* Of the signal wait or read before. */
    uint64_t sigwait_ret, sigwait_cpu, sigwait_slept;
    bool have_dgram;
    struct ips_rec_dgram dgram;
    /* Of a call that moved several: all its DGRAMs, as they lie in the
     * stream. */
    const uint8_t *dgrams[B_DGRAMS_OF_CALL];
    uint32_t dgram_bytes[B_DGRAMS_OF_CALL], dgram_count;
    struct tally tally[2]; /* by enum b_dir */
};

/* An interval record with its times put right. */
struct interval {
    uint64_t t, t_ret, cpu, cpu_ret, blocked_ns;
    bool blocked;
    bool by_signal; /* one that is traced was taken in it */
    bool by_timer;  /* a timer's was */
    struct b_chan *chan;
    uint32_t end;
};

/* build/waits.c: each one by itself, where they are wanted; and after every
 * record, with the number of nodes before it. */
void b_waits_count(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                   uint64_t end_ns);
void b_waits_pending(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                     bool taken);
/* A lock that another thread waited for was given back: from where. */
void b_waits_release(struct maker *m, uint32_t node, uint64_t site,
                     uint64_t t_ns);
void b_waits_stream(struct maker *m);
int b_waits_record(struct maker *m, uint32_t type, const uint8_t *p,
                   uint32_t len, uint32_t nodes_before) IPS_MUST_USE;

static inline void b_add_wait(struct maker *m, enum ips_wait_cause cause,
                              uint64_t ns)
{
    m->row->wait_ns[cause] += ns;
    m->row->wait_count[cause]++;
}
static inline void b_count_wait(struct maker *m, enum ips_wait_cause cause,
                                uint64_t ns)
{
    b_add_wait(m, cause, ns);
    if (m->b->notes)
        b_waits_count(m, cause, ns, m->last_ret);
}

/* build/dgram.c: what a send or a receive moved, one datagram or several. */
int b_add_dgram(struct maker *m, const struct ips_rec_io *r,
                const struct interval *v, uint32_t node, uint8_t dir,
                uint32_t ext) IPS_MUST_USE;

/* build/node.c: a chain's nodes but for END, up to the end of what its last
 * stream has; the same of records that came later; END. */
void b_chain_maker(struct build *b, uint32_t chain, struct maker *m);
int b_chain_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
int b_stream_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
int b_chain_end(struct maker *m) IPS_MUST_USE;

/* A signal that came while the call slept ended that sleep. */
void b_take_signal(struct maker *m, struct interval *v);

/* build/job_control.c: around each record of a process that was stopped;
 * between the nodes of a sleep; the stop is taken out of the call's wait. */
int b_stop_before(struct maker *m, uint32_t type,
                  const uint8_t *p) IPS_MUST_USE;
int b_stop_after(struct maker *m, uint32_t type, const uint8_t *p) IPS_MUST_USE;
int b_stop_within(struct maker *m) IPS_MUST_USE;
void b_stop_out_of(struct maker *m, struct interval *v);
/* How long a sleep was: what it slept while its process was stopped is part of
 * it where it went on sleeping afterwards. Before b_stop_within(). */
uint64_t b_stop_asleep(const struct maker *m, const struct interval *v);

/* By pointer and in line: it is done for nearly every record, and a struct that
 * is returned is copied, which stalls on stores not yet done. */
static inline void b_interval(struct maker *m, uint32_t word, uint64_t t,
                              uint64_t t_ret, uint64_t cpu, uint64_t cpu_ret,
                              struct interval *v)
{
    v->t_ret = ips_max_u64(b_time(&m->s->clock, word, t_ret), m->last_ret);
    v->t = ips_min_u64(b_time(&m->s->clock, word, t), v->t_ret);
    v->cpu = cpu;
    v->cpu_ret = ips_max_u64(cpu_ret, cpu);
    v->blocked_ns = b_blocked_ns(v->t, v->t_ret, v->cpu, v->cpu_ret);
    v->blocked = v->blocked_ns >= B_BLOCKED_NS;
    v->by_signal = v->by_timer = false;
    v->chan = NULL;
    v->end = IPS_NONE;
    m->last_ret = v->t_ret;
    if (v->blocked)
        m->b->off_ns = ips_add_sat(m->b->off_ns, v->blocked_ns);
    if (m->job_stop.stopped_ns)
        b_stop_out_of(m, v);
    if (m->taken_count)
        b_take_signal(m, v);
}

/* Of an interval what off_ns has nothing of. */
static inline uint64_t b_awake_ns(const struct interval *v)
{
    return v->t_ret - v->t - (v->blocked ? v->blocked_ns : 0);
}

/* build/traffic.c: what has been tallied goes to the tables; the next tally of
 * that direction; the row of the maker's process on `end`; one operation, where
 * a window of time is wanted. */
void b_flush_tallies(struct maker *m);
void b_add_tally(struct maker *m, const struct tally *y, enum b_dir dir);
int b_next_tally(struct maker *m, uint32_t end, enum b_dir dir) IPS_MUST_USE;
int b_traffic_row(struct maker *m, uint32_t end, uint32_t *index) IPS_MUST_USE;
void b_add_window_traffic(struct ips_traffic_window *w, uint32_t row,
                          const struct interval *v, uint64_t len, bool send);
/* build/io.c: what DPM-4 needs of a receive of bytes whose sender may not be
 * here. */
int b_add_ext(struct maker *m, const struct interval *v, uint32_t node,
              uint64_t len, uint64_t slept) IPS_MUST_USE;
/* build/io.c: one record each. */
int b_on_send(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_recv(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_recvcall(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_block(struct maker *m, const uint8_t *p) IPS_MUST_USE;
/* build/spin.c: in the arc into node `arc` the thread slept so long, and what
 * ended that left no arc; see struct ips_unended. */
void b_unended(struct maker *m, uint32_t arc, uint64_t ns, bool by_node);
/* The same of a call that failed so: not where a signal that is known ended it,
 * or its own time limit. */
void b_unended_call(struct maker *m, const struct interval *v, uint32_t err);
/* The pending wait, if there is one, was for nothing we saw. */
void b_wait_idle(struct maker *m);

/* build/poll.c: the pending wait was for what `r` found ready: it gets a node
 * where that is the end of a stream. */
void b_poll_node(struct maker *m, const struct ips_rec_io *r);
/* A receive of that channel follows, called at `v`. True: it takes the wait,
 * and the node is gone. False: it has none, as the node keeps it. */
bool b_poll_merges(struct maker *m, const struct interval *v);
/* The node stays, if there is one. */
void b_poll_stays(struct maker *m);

/* The pending wait was for an epoll within the one that slept. */
static inline bool b_polled_epoll(const struct maker *m)
{
    return m->wait.pending && m->wait.ready == IPS_READY_EPOLL;
}

/* build/retry.c */
/* Is `v`, a sleep, a nap between tries that a recorded thread ended, or of a
 * condition that no record shows? Then it is counted. */
void b_on_tries(struct maker *m, const struct ips_rec_io *r);
bool b_is_nap(struct maker *m, const struct interval *v);

/* build/spin.c */
int b_add_spin(struct maker *m, uint32_t node, uint64_t ns) IPS_MUST_USE;
void b_on_spin(struct maker *m, const struct interval *v);
/* The spinning that `v` was the success of, counted; v->cpu becomes that of the
 * first attempt. */
struct spin b_spin_before(struct maker *m, struct interval *v);
/* `v` takes the pending wait, its coordinate and its spinning. */
void b_take_wait(struct maker *m, struct interval *v, enum ips_wait_cause cause,
                 struct spin *spin);
/* Node `node` is what `s` ended with. */
int b_spun_until(struct maker *m, uint32_t node,
                 const struct spin *s) IPS_MUST_USE;

/* build/unfinished.c: the call that the thread was in when that stream came to
 * its end, if it was in one. */
int b_unfinished_call(struct maker *m, uint32_t stream) IPS_MUST_USE;

/* build/io.c, build/sync_node.c: what such a BLOCK or ACQUIRE waits for. */
enum ips_wait_cause b_cause_of_op(uint32_t op);
enum ips_wait_cause b_cause_of_sync(uint32_t kind);

/* build/sync_node.c */
int b_on_sync(struct maker *m, const uint8_t *p) IPS_MUST_USE;
void b_on_lock(struct maker *m, const uint8_t *p);
int b_on_eventfd(struct maker *m, struct b_sync *s,
                 struct interval *v) IPS_MUST_USE;

#endif
