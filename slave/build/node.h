/*
 * Shared by build/node.c (chains: processes, closes) and build/io.c (sends,
 * receives, waits): the state of the second reading of the records.
 */
#ifndef IPS_SLAVE_BUILD_NODE_H
#define IPS_SLAVE_BUILD_NODE_H

#include "slave/build/internal.h"

/* Spinning: failed attempts before a success (build/spin.c). elapsed_ns 0: the
 * thread did not spin. */
struct spin {
    uint64_t ended; /* start of the successful attempt */
    uint64_t elapsed_ns;
    uint64_t cpu, burnt; /* CPU time at the first attempt; CPU time used from
                            there to the success */
    uint64_t awake_ns;   /* part of elapsed_ns that the thread did not sleep,
                            and that off_ns does not contain yet */
};

/* A poll, select or epoll that blocked, or was repeated in a spin, and whose
 * cause is not known yet. */
struct wait {
    bool pending;
    bool fresh; /* set by the current record, for build/waits.c */
    uint64_t cpu, blocked_ns;
    uint32_t ready; /* channel id; 0: any */
    uint32_t arc;   /* the wait lies in the arc into this node */
    struct spin spin;
    /* `node`: the poll's return if it waited for a stream (build/poll.c), else
     * IPS_NO_NODE. t, t_ret, cpu_ret: of the call. off_ns, gaps: their values
     * before that node was made. */
    uint32_t node, end, why;
    bool merged; /* the current record removed the node */
    uint64_t t, t_ret, cpu_ret, off_ns;
    struct b_gaps gaps;
};

/* The last signals taken since an interval record. If a call blocked when the
 * first of them came, that signal ended the call. */
#define TAKEN_KEPT 8u
struct taken_signal {
    uint64_t t;
    uint32_t node; /* or IPS_NO_NODE: not matched */
    bool no_arc;   /* a timer sent the signal, or somebody outside of the run */
};

/* For each of the last CHOSEN_KEPT call sites: the channel that ended the last
 * poll there. */
#define CHOSEN_KEPT 8u
struct chosen {
    uint64_t site;
    uint32_t ready;
};

/* The stops of the thread's process (build/job_control.c). */
struct maker_job_stop {
    uint32_t next, end;          /* indexes into job_stops[] */
    uint64_t t, cpu;             /* at the return of the thread's last record */
    const struct b_job_stop *in; /* stop that ended during the current call and
                                    has no node yet */
    uint64_t slept;      /* the node's wait: from the call until SIGCONT */
    uint64_t stopped_ns; /* part of the call that the process was stopped, for
                            b_interval */
};

/* The thread's consecutive operations on one end in one direction. They are
 * added to the tables when the thread uses another end. */
struct tally {
    uint32_t end, row; /* in out->traffic */
    uint64_t messages, bytes, t, t_ret;
};

/* DGRAM records of one call: the kernel cuts a send into at most 128 datagrams,
 * and one record holds more than a hundred. */
#define B_DGRAMS_OF_CALL 2u

struct maker {
    struct build *b;
    struct b_stream *s;
    struct ips_thread_row *row;
    uint32_t chain, proc;
    uint64_t last_ret; /* last return; the next one may not be earlier */
    struct wait wait;
    struct spin spin; /* from the BLOCK with op SPIN just before */
    uint32_t next_fork, next_join, next_kill, next_taking, next_sync;
    uint32_t next_retry, next_made, next_nap_run;
    struct taken_signal taken_signal[TAKEN_KEPT];
    uint32_t taken_count;
    struct maker_job_stop job_stop;
    struct chosen chosen[CHOSEN_KEPT];
    uint32_t chosen_next;
    uint32_t signal_node; /* node of the signal that ended the current call */
    /* The last wait for a signal (sigwait, or a read of a signalfd). */
    uint64_t sigwait_ret, sigwait_cpu, sigwait_slept;
    bool have_dgram;
    struct ips_rec_dgram dgram;
    /* If a call moved several datagrams: all its DGRAM records, unchanged. */
    const uint8_t *dgrams[B_DGRAMS_OF_CALL];
    uint32_t dgram_bytes[B_DGRAMS_OF_CALL], dgram_count;
    struct tally tally[2]; /* by enum b_dir */
};

/* An interval record (one with call and return) with corrected times. */
struct interval {
    uint64_t t, t_ret, cpu, cpu_ret, blocked_ns;
    bool blocked;
    bool by_signal; /* a signal from a recorded sender ended it */
    /* A signal ended it that needs no arc (taken_signal.no_arc). */
    bool by_timer_or_outside;
    struct b_chan *chan;
    uint32_t end;
};

/* build/waits.c: rows of single waits, if they are wanted. b_waits_record() is
 * called after every record, with the number of nodes before it. */
void b_waits_count(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                   uint64_t end_ns);
void b_waits_pending(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                     bool taken);
/* Notes the call site `site` at which the thread released a lock that another
 * thread waited for. */
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

/* build/dgram.c: adds the datagrams that a send or a receive moved. */
int b_add_dgram(struct maker *m, const struct ips_rec_io *r,
                const struct interval *v, uint32_t node, uint8_t dir,
                uint32_t ext) IPS_MUST_USE;

/* build/node.c: b_chain_nodes() makes a chain's nodes except END, up to the end
 * of its last stream; b_stream_nodes() does so for records that were added
 * later; b_chain_end() makes END. */
void b_chain_maker(struct build *b, uint32_t chain, struct maker *m);
int b_chain_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
int b_stream_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
int b_chain_end(struct maker *m) IPS_MUST_USE;

/* Notes which signal ended the sleep of the call, if one did. */
void b_take_signal(struct maker *m, struct interval *v);

/* build/job_control.c, for processes that were stopped: b_stop_before() and
 * b_stop_after() are called around each record, b_stop_within() between the
 * nodes of a sleep; b_stop_out_of() subtracts the stop from the call's wait. */
int b_stop_before(struct maker *m, uint32_t type,
                  const uint8_t *p) IPS_MUST_USE;
int b_stop_after(struct maker *m, uint32_t type, const uint8_t *p) IPS_MUST_USE;
int b_stop_within(struct maker *m) IPS_MUST_USE;
void b_stop_out_of(struct maker *m, struct interval *v);
/* Returns how long a sleep was. The time that the process was stopped counts if
 * the thread went on sleeping afterwards. Call before b_stop_within(). */
uint64_t b_stop_asleep(const struct maker *m, const struct interval *v);

/* Inline, and the result by pointer: this runs for nearly every record, and a
 * returned struct would be copied, which stalls on pending stores. */
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
    v->by_signal = v->by_timer_or_outside = false;
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

/* The part of an interval that b_interval() did not add to off_ns. */
static inline uint64_t b_awake_ns(const struct interval *v)
{
    return v->t_ret - v->t - (v->blocked ? v->blocked_ns : 0);
}

/* build/traffic.c: b_flush_tallies() adds both tallies to the tables, and
 * b_add_tally() adds one; b_next_tally() starts the next tally of a direction;
 * b_traffic_row() finds the row of the maker's process on `end`;
 * b_add_window_traffic() adds one operation if a time window is wanted. */
void b_flush_tallies(struct maker *m);
void b_add_tally(struct maker *m, const struct tally *y, enum b_dir dir);
int b_next_tally(struct maker *m, uint32_t end, enum b_dir dir) IPS_MUST_USE;
int b_traffic_row(struct maker *m, uint32_t end, uint32_t *index) IPS_MUST_USE;
void b_add_window_traffic(struct ips_traffic_window *w, uint32_t row,
                          const struct interval *v, uint64_t len, bool send);
/* build/io.c: adds the data that DPM-4 needs for a receive of bytes whose
 * sender may be on another machine. */
int b_add_ext(struct maker *m, const struct interval *v, uint32_t node,
              uint64_t len, uint64_t slept) IPS_MUST_USE;
/* build/io.c: each processes one record. */
int b_on_send(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_recv(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_recvcall(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_on_block(struct maker *m, const uint8_t *p) IPS_MUST_USE;
/* build/poll.c: the node of a signal that the kernel sent because a channel was
 * ready, at coordinate `coord`, for which the thread slept for `slept` ns; or
 * IPS_NO_NODE. */
uint32_t b_signal_poll(struct maker *m, const struct b_signal_taken *y,
                       uint64_t coord, uint64_t slept);
/* Whether the kernel sent the signal because a descriptor was ready. */
static inline bool b_is_ready_signal(const struct b_signal_taken *y)
{
    return y->value && ((y->code >= POLL_IN && y->code <= POLL_HUP) ||
                        y->code == SI_KERNEL);
}
/* build/spin.c: notes that the thread slept `ns` in the arc into node `arc` and
 * that the event that woke it left no arc; see struct ips_unended. */
void b_unended(struct maker *m, uint32_t arc, uint64_t ns, bool by_node);
/* The same for a call that failed with `err`, unless a recorded signal or its
 * own timeout ended it. */
void b_unended_call(struct maker *m, const struct interval *v, uint32_t err);
/* The pending wait, if there is one, has no recorded cause. */
void b_wait_idle(struct maker *m);

/* build/poll.c: `r` tells what the pending wait waited for. If that is an end
 * of a stream, the wait gets a node. */
void b_poll_node(struct maker *m, const struct ips_rec_io *r);
/* A receive `v` from that channel follows. True: the receive takes over the
 * wait, and the poll's node is removed. False: the node keeps the wait. */
bool b_poll_merges(struct maker *m, const struct interval *v);
/* Keeps the poll's node, if there is one. */
void b_poll_stays(struct maker *m);

/* Whether the pending wait was for an epoll nested in the one that slept. */
static inline bool b_polled_epoll(const struct maker *m)
{
    return m->wait.pending && m->wait.ready == IPS_READY_EPOLL;
}

/* build/retry.c */
/* b_is_nap(): whether the sleep `v` is a nap between tries, which either a
 * recorded thread let succeed or which test a condition that no record shows.
 * If so, the nap is counted. */
void b_on_tries(struct maker *m, const struct ips_rec_io *r);
bool b_is_nap(struct maker *m, const struct interval *v);

/* build/spin.c */
int b_add_spin(struct maker *m, uint32_t node, uint64_t ns) IPS_MUST_USE;
void b_on_spin(struct maker *m, const struct interval *v);
/* Returns and counts the spinning that ended with the success `v`; sets v->cpu
 * to the CPU time at the first attempt. */
struct spin b_spin_before(struct maker *m, struct interval *v);
/* `v` takes over the pending wait, with its coordinate and its spinning. */
void b_take_wait(struct maker *m, struct interval *v, enum ips_wait_cause cause,
                 struct spin *spin);
/* Records that the spinning `s` ended with node `node`. */
int b_spun_until(struct maker *m, uint32_t node,
                 const struct spin *s) IPS_MUST_USE;

/* build/unfinished.c: adds the call that the thread was in when the stream
 * ended, if it was in a call. */
int b_unfinished_call(struct maker *m, uint32_t stream) IPS_MUST_USE;

/* build/io.c, build/sync_node.c: what a BLOCK of this op, or an ACQUIRE of this
 * kind, waits for. */
enum ips_wait_cause b_cause_of_op(uint32_t op);
enum ips_wait_cause b_cause_of_sync(uint32_t kind);

/* build/sync_node.c */
int b_on_sync(struct maker *m, const uint8_t *p) IPS_MUST_USE;
void b_on_lock(struct maker *m, const uint8_t *p);
int b_on_eventfd(struct maker *m, struct b_sync *s,
                 struct interval *v) IPS_MUST_USE;

#endif
