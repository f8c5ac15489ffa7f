/*
 * State of the second reading of the records, which makes the nodes. Shared by
 * build/node.c (chains, processes, closes), build/io.c (sends, receives,
 * waits) and the other files that handle records.
 */
#ifndef IPS_SLAVE_BUILD_NODE_H
#define IPS_SLAVE_BUILD_NODE_H

#include "slave/build/internal.h"

/* Spinning: failed attempts before a success (build/spin.c). If elapsed_ns is
 * 0, the thread did not spin. */
struct spin {
    uint64_t ended; /* start of the successful attempt */
    uint64_t elapsed_ns;
    uint64_t cpu, burnt; /* CPU time at the first attempt; CPU time used from
                            there to the success */
    uint64_t awake_ns;   /* part of elapsed_ns in which the thread did not
                            sleep; build.off_ns does not contain it yet */
};

/* A poll, select or epoll that blocked, or was repeated in a spin, and whose
 * cause is not known yet. */
struct pending {
    bool pending;
    bool fresh; /* the current record began the wait (for build/waits.c) */
    uint64_t cpu, blocked_ns;
    uint32_t ready; /* what the poll reported as ready: a channel id, or
                       IPS_READY_EPOLL; 0: not known */
    uint32_t arc;   /* the wait is in the arc into this node */
    struct spin spin;
    /* `node`: the node of the poll's return, if the poll waited for a stream
     * (build/poll.c); else IPS_NO_NODE. t, t_ret, cpu_ret: call and return of
     * the poll. off_ns, gaps: values in struct build before that node was made.
     */
    uint32_t node, end, why;
    bool merged; /* the current record removed the poll's node */
    uint64_t t, t_ret, cpu_ret, off_ns;
    struct b_gaps gaps;
};

/* The last TAKEN_KEPT signals that the thread took outside of the calls
 * recorded so far. If a call slept, the first signal taken during the call
 * ended the sleep. After each call, the signals taken since its start are
 * removed. Earlier ones are kept, because the call may belong to the handler of
 * one of them. */
#define TAKEN_KEPT 8u
struct taken_signal {
    uint64_t t;
    /* the signal's node; IPS_NO_NODE: it has none, because no recorded event
     * caused it */
    uint32_t node;
    bool no_arc; /* a timer or a process outside of the run sent the signal */
};

/* The last CHOSEN_KEPT call sites of polls, and for each the channel that ended
 * the last poll there. */
#define CHOSEN_KEPT 8u
struct last_poll_choice {
    uint64_t site;
    uint32_t ready;
};

/* The job-control stops (SIGSTOP to SIGCONT) of the thread's process
 * (build/job_control.c). */
struct maker_job_stop {
    uint32_t next, end; /* indexes into job_stops[] */
    /* time and CPU time up to which the stops are handled: those of the last
     * recorded call, or the end of a later stop; t 0: no record yet */
    uint64_t t, cpu;
    const struct b_job_stop *in; /* the stop that ended during the current call
                                    and has no node yet; or NULL */
    uint64_t slept; /* time from the call until SIGCONT, ns: the wait of the
                       stop's node */
    uint64_t stopped_ns; /* how long the process was stopped within the call, ns
                            (for b_decode_interval_and_count_sleep) */
};

/* The thread's consecutive operations on one end in one direction. They are
 * added to the tables when the thread uses another end. */
struct traffic_tally {
    uint32_t end, row; /* row: index in out->traffic */
    uint64_t messages, bytes, t, t_ret;
};

/* A call has at most this many DGRAM records: the kernel cuts a send into at
 * most 128 datagrams, and one record holds more than a hundred. */
#define B_DGRAMS_OF_CALL 2u

struct maker {
    struct build *b;
    struct b_stream *s;
    struct ips_thread_row *row;
    uint32_t chain, proc;
    /* return of the last call; a later call counts as returning at this time or
     * later */
    uint64_t last_ret;
    struct pending wait;
    /* the spinning in the record directly before (a BLOCK with op SPIN); else
     * zero */
    struct spin spin;
    uint32_t next_fork, next_join, next_kill, next_taking, next_sync;
    uint32_t next_retry, next_made, next_nap_run;
    struct taken_signal taken_signal[TAKEN_KEPT];
    uint32_t taken_count;
    struct maker_job_stop job_stop;
    struct last_poll_choice chosen[CHOSEN_KEPT];
    uint32_t chosen_next;
    uint32_t signal_node; /* node of the signal that ended the current call */
    bool killed; /* the signal that ended the process has a node before END */
    struct run_delay {
        const struct b_stream *stream;
        uint32_t next;    /* number of readings processed so far */
        uint64_t left_ns; /* run delay in these readings that no page fault has
                             used yet */
    } run_delay;      /* run delay during page faults: consume_run_delay() in
                         build/node.c */
    uint64_t lost_ns; /* time of the newest LOST record, ns */
    /* The last call that may have waited for a signal: its return, the CPU time
     * at its call, and how long it slept, ns. */
    uint64_t sigwait_ret, sigwait_cpu, sigwait_slept;
    bool have_dgram;
    struct ips_rec_dgram dgram;
    /* If a call moved several datagrams: all its DGRAM records, unchanged. */
    const uint8_t *dgrams[B_DGRAMS_OF_CALL];
    uint32_t dgram_bytes[B_DGRAMS_OF_CALL], dgram_count;
    struct traffic_tally tally[2]; /* by enum b_dir */
};

/* An interval record (one with call and return) with corrected times. */
struct interval {
    uint64_t t, t_ret, cpu, cpu_ret, blocked_ns;
    bool blocked;
    bool by_signal; /* a signal from a recorded sender ended the call */
    /* A signal that needs no arc (taken_signal.no_arc) ended the call. */
    bool by_timer_or_outside;
    /* when the thread began to sleep in the call, or in the poll before it; 0:
     * it did not sleep */
    uint64_t empty_t;
    struct b_chan *chan;
    uint32_t end;
};

/* build/waits.c; to be called only if rows of single waits are wanted
 * (b->notes). b_waits_add_row() adds a wait of `ns` that ended at end_ns.
 * b_waits_add_row_of_pending_poll() adds the wait of the pending poll; `taken`:
 * the current record takes over this wait. b_reset_wait_notes_for_stream()
 * prepares for the records of a stream. b_complete_wait_rows_after_record() is
 * called after every record, with the number of nodes before the record. */
void b_waits_add_row(struct maker *m, enum ips_wait_cause cause, uint64_t ns,
                     uint64_t end_ns);
void b_waits_add_row_of_pending_poll(struct maker *m, enum ips_wait_cause cause,
                                     uint64_t ns, bool taken);
/* Notes the call site `site` at which the thread released a lock that another
 * thread waited for. */
void b_add_lock_release_row(struct maker *m, uint32_t node, uint64_t site,
                            uint64_t t_ns);
void b_reset_wait_notes_for_stream(struct maker *m);
int b_complete_wait_rows_after_record(struct maker *m, uint32_t type,
                                      const uint8_t *p, uint32_t len,
                                      uint32_t nodes_before) IPS_MUST_USE;

static inline void b_add_wait_to_sums(struct maker *m,
                                      enum ips_wait_cause cause, uint64_t ns)
{
    m->row->wait_ns[cause] += ns;
    m->row->wait_count[cause]++;
}
static inline void b_add_wait_to_sums_and_rows(struct maker *m,
                                               enum ips_wait_cause cause,
                                               uint64_t ns)
{
    b_add_wait_to_sums(m, cause, ns);
    if (m->b->notes)
        b_waits_add_row(m, cause, ns, m->last_ret);
}

/* build/dgram.c: adds the datagrams that a send or a receive moved. */
int b_append_datagrams_of_call(struct maker *m, const struct ips_rec_io *r,
                               const struct interval *v, uint32_t node,
                               uint8_t dir, uint32_t ext) IPS_MUST_USE;

/* build/node.c: b_make_chain_nodes_except_end() makes the nodes of a chain,
 * except END; b_make_stream_nodes() makes those of a stream's records from
 * `walk` on; b_make_chain_end() makes END. */
void b_init_chain_maker(struct build *b, uint32_t chain, struct maker *m);
int b_make_chain_nodes_except_end(struct maker *m,
                                  struct b_walk *walk) IPS_MUST_USE;
int b_make_stream_nodes(struct maker *m, struct b_walk *walk) IPS_MUST_USE;
int b_make_chain_end(struct maker *m) IPS_MUST_USE;

/* If a signal ended the sleep of call `v`: notes this in *v, and gives the node
 * of the signal the coordinate and the wait of the sleep. */
void b_attribute_sleep_if_signal_ended_it(struct maker *m, struct interval *v);

/* build/job_control.c, for processes that were stopped:
 * b_make_stop_nodes_before_record() and b_make_stop_node_at_return_if_pending()
 * are called around each record, b_make_node_of_stop_within_call() between the
 * two nodes of a sleep. They add the node of a stop that ended there.
 * b_subtract_job_stop() subtracts the stop from the call's wait. */
int b_make_stop_nodes_before_record(struct maker *m, uint32_t type,
                                    const uint8_t *p) IPS_MUST_USE;
int b_make_stop_node_at_return_if_pending(struct maker *m, uint32_t type,
                                          const uint8_t *p) IPS_MUST_USE;
int b_make_node_of_stop_within_call(struct maker *m) IPS_MUST_USE;
void b_subtract_job_stop(struct maker *m, struct interval *v);
/* Functions of build/process_ends.c. */
/* Finds the KILL that ended each process that a signal ended. `by_pid`: all
 * processes, sorted by (pid namespace, pid, start). */
int b_find_killers(struct build *b, const uint32_t *by_pid) IPS_MUST_USE;
/* Returns the KILL that ended the thread whose last stream is `s`, or IPS_NONE.
 */
uint32_t b_find_kill_that_ended_thread(const struct build *b,
                                       const struct b_stream *s);
/* Whether a process that is not recorded may have sent the signal that ended
 * the process of stream `s`. */
bool b_may_unrecorded_process_have_killed(const struct build *b,
                                          const struct b_stream *s);
/* build/job_control.c: notes that node `node` gets a SIGNAL arc from KILL
 * `kill`; b_make_job_stop_arcs() makes it. */
int b_store_kill_arc_for_later(struct build *b, uint32_t node,
                               uint32_t kill) IPS_MUST_USE;
/* Returns how long call `v` slept, ns. The time that the process was stopped
 * counts only if the thread slept on after the stop. To be called before
 * b_make_node_of_stop_within_call(). */
uint64_t b_get_sleep_ns_incl_stop_if_call_went_on(const struct maker *m,
                                                  const struct interval *v);

/* Stores in *v the corrected times of a record with a call and a return. Adds
 * the time slept to off_ns, subtracts a stop of the process, and finds the
 * signal that ended the call. Inline and with the result by pointer, because
 * this runs for nearly every record: a returned struct would be copied, which
 * stalls on pending stores. */
static inline void
b_decode_interval_and_count_sleep(struct maker *m, uint32_t word, uint64_t t,
                                  uint64_t t_ret, uint64_t cpu,
                                  uint64_t cpu_ret, struct interval *v)
{
    v->t_ret =
        ips_max_u64(b_stamp_to_ns(&m->s->clock, word, t_ret), m->last_ret);
    v->t = ips_min_u64(b_stamp_to_ns(&m->s->clock, word, t), v->t_ret);
    v->cpu = cpu;
    v->cpu_ret = ips_max_u64(cpu_ret, cpu);
    v->blocked_ns = b_blocked_ns(v->t, v->t_ret, v->cpu, v->cpu_ret);
    v->blocked = v->blocked_ns >= B_BLOCKED_NS;
    v->by_signal = v->by_timer_or_outside = false;
    v->empty_t = v->blocked ? v->t : 0;
    v->chan = NULL;
    v->end = IPS_NONE;
    m->last_ret = v->t_ret;
    if (v->blocked)
        m->b->off_ns = ips_add_sat(m->b->off_ns, v->blocked_ns);
    if (m->job_stop.stopped_ns)
        b_subtract_job_stop(m, v);
    if (m->taken_count)
        b_attribute_sleep_if_signal_ended_it(m, v);
}

/* Returns the part of a call, in ns, that b_decode_interval_and_count_sleep()
 * did not add to off_ns. */
static inline uint64_t b_get_not_blocked_ns_of_call(const struct interval *v)
{
    return v->t_ret - v->t - (v->blocked ? v->blocked_ns : 0);
}

/* build/table.c: b_flush_tallies() adds both tallies to the tables, and
 * b_add_tally_to_traffic_sums() adds one. b_flush_and_restart_tally() adds the
 * tally of a direction, and starts the next. b_find_or_add_traffic_row() finds
 * or adds the row of the maker's process on `end`.
 * b_add_message_to_window_traffic() adds one operation, if a time window is
 * wanted. */
void b_flush_tallies(struct maker *m);
void b_add_tally_to_traffic_sums(struct maker *m, const struct traffic_tally *y,
                                 enum b_dir dir);
int b_flush_and_restart_tally(struct maker *m, uint32_t end,
                              enum b_dir dir) IPS_MUST_USE;
int b_find_or_add_traffic_row(struct maker *m, uint32_t end,
                              uint32_t *index) IPS_MUST_USE;
void b_add_message_to_window_traffic(struct ips_traffic_window *w, uint32_t row,
                                     const struct interval *v, uint64_t len,
                                     bool send);
/* build/io.c: adds a struct b_external for a receive of bytes, if the
 * sender may be on another machine. */
int b_add_receive_if_sender_may_be_remote(struct maker *m,
                                          const struct interval *v,
                                          uint32_t node, uint64_t len,
                                          uint64_t slept) IPS_MUST_USE;
/* build/io.c: these make the nodes and count the waits of one record of type
 * SEND, RECV, RECVCALL or BLOCK. */
int b_on_send(struct maker *m, const uint8_t *p) IPS_MUST_USE;
/* Makes the node at which the call `v` learned that its stream is broken. */
int b_add_broken_channel_node(struct maker *m,
                              const struct interval *v) IPS_MUST_USE;
int b_on_recv(struct maker *m, const uint8_t *p) IPS_MUST_USE;
int b_add_wait_of_failed_receive(struct maker *m,
                                 const uint8_t *p) IPS_MUST_USE;
int b_make_nodes_of_blocking_call(struct maker *m,
                                  const uint8_t *p) IPS_MUST_USE;
/* build/node.c: if `r` is a poll of a signalfd that no read followed, returns
 * its entry of takings[] and advances m->next_taking past the entry; else
 * returns NULL. b_add_wait_and_node_of_polled_signal() counts the poll's wait,
 * and makes its node if the cause is known. */
struct b_signal_taken *
b_pop_signal_of_signalfd_poll(struct maker *m, const struct ips_rec_io *r);
void b_add_wait_and_node_of_polled_signal(struct maker *m,
                                          const struct interval *v,
                                          struct b_signal_taken *y);
/* build/poll.c: makes the node of signal `y`, which the kernel sent because a
 * channel was ready, and returns it. The node is at coordinate `coord`; the
 * thread slept for `slept` ns. IPS_NO_NODE: the signal names no end of a
 * stream. */
uint32_t b_make_node_of_descriptor_ready_signal(struct maker *m,
                                                const struct b_signal_taken *y,
                                                uint64_t coord, uint64_t slept);
/* Whether the kernel sent the signal because a descriptor was ready. */
static inline bool
b_was_signal_sent_for_ready_descriptor(const struct b_signal_taken *y)
{
    return y->value && ((y->code >= POLL_IN && y->code <= POLL_HUP) ||
                        y->code == SI_KERNEL);
}
/* build/spin.c: notes that the thread slept `ns` in the arc into node `arc` and
 * that the event that woke it left no arc; see struct ips_unended. */
void b_add_wait_without_waker(struct maker *m, uint32_t arc, uint64_t ns,
                              bool by_node);
/* Adds the sleep of call `v` like b_add_wait_without_waker(), unless a signal
 * from a recorded sender, from a timer or from outside of the run, or the
 * call's own timeout, ended it. `err`: error of the call; 0: none. */
void b_add_sleep_of_call_if_unexplained(struct maker *m,
                                        const struct interval *v, uint32_t err);
/* Ends the pending wait, if there is one. The poll's node keeps the wait;
 * without a node, the wait counts as a poll after which nothing was read. */
void b_end_pending_wait_as_idle(struct maker *m);

/* build/poll.c: counts a choice if another channel ended this poll than the
 * previous poll at the same call site, or if several channels were ready. */
void b_count_poll_if_channels_vary(struct maker *m, const struct ips_rec_io *r);
/* build/poll.c: handles the record of a poll, select or epoll. */
int b_on_poll(struct maker *m, const struct ips_rec_io *r,
              struct interval *v) IPS_MUST_USE;
/* build/poll.c: called when the poll `r` reports what the pending wait waited
 * for. If that is an end of a stream, the wait gets a node. */
void b_make_pending_poll_node_if_of_stream(struct maker *m,
                                           const struct ips_rec_io *r);
/* Called when the receive `v` from the channel of the pending poll follows.
 * True: the receive takes over the wait, and the poll's node is removed. False:
 * the poll's node keeps the wait. */
bool b_merge_poll_into_receive_if_adjacent(struct maker *m,
                                           const struct interval *v);
/* If the pending poll has a node: the node keeps the wait, which is no longer
 * pending. */
void b_end_wait_at_poll_node(struct maker *m);

/* Whether the pending wait was for an epoll nested in the one that slept. */
static inline bool b_is_nested_epoll_pending(const struct maker *m)
{
    return m->wait.pending && m->wait.ready == IPS_READY_EPOLL;
}

/* build/retry.c: b_make_file_event_node_if_needed() makes the nodes of BLOCKs
 * with op MADE or FOUND. b_count_if_nap() returns whether the sleep `v` is a
 * nap between tries: either a recorded thread let the last try succeed, or the
 * tries test a condition that no record shows. It counts such a nap. */
void b_make_file_event_node_if_needed(struct maker *m,
                                      const struct ips_rec_io *r);
bool b_count_if_nap(struct maker *m, const struct interval *v);
/* If a thread tries several conditions in turn, with naps between, at most this
 * many are followed. */
#define B_TURNS 8u
/* Returns the process whose event let the last try of `y` succeed; IPS_NONE:
 * not known, or the tries are receives. */
uint32_t b_find_process_that_ended_retry(const struct build *b,
                                         const struct b_retry *y);
/* build/child_tries.c: like b_count_if_nap(), for a nap between tries that
 * children make. */
bool b_count_if_nap_between_child_tries(struct maker *m,
                                        const struct interval *v);

/* Functions of build/spin.c. */
int b_append_spin_cpu_of_node(struct maker *m, uint32_t node,
                              uint64_t ns) IPS_MUST_USE;
void b_store_pending_spin(struct maker *m, const struct interval *v);
/* Returns and counts the spinning that ended with the success `v`; sets v->cpu
 * to the CPU time at the first attempt. */
struct spin b_pop_and_count_spin_before_call(struct maker *m,
                                             struct interval *v);
/* Makes the call `v` take over the pending wait of a poll: counts the wait
 * under `cause`, lowers v->cpu to the coordinate of the poll, and adds the
 * poll's spinning to *spin. */
void b_count_pending_wait_as_wait_of_call(struct maker *m, struct interval *v,
                                          enum ips_wait_cause cause,
                                          struct spin *spin);
/* Records that the spinning `s` ended with node `node`, and subtracts its CPU
 * time from cpu_at of that node. Returns 0 or a negative IPS_E_ code. */
int b_append_spin_and_lower_node_cpu(struct maker *m, uint32_t node,
                                     const struct spin *s) IPS_MUST_USE;

/* build/unfinished.c: handles the call that the thread was in when the stream
 * ended, if it was in one: adds its wait, and a node if it was a send. */
int b_add_wait_and_node_of_unfinished_call(struct maker *m,
                                           uint32_t stream) IPS_MUST_USE;

/* build/io.c, build/sync_node.c: return the cause of the wait of a BLOCK with
 * this op, or of an ACQUIRE of this kind. */
enum ips_wait_cause b_get_wait_cause_of_op(uint32_t op);
enum ips_wait_cause b_get_wait_cause_of_sync(uint32_t kind);

/* Functions of build/sync_node.c. */
int b_make_sync_nodes(struct maker *m, const uint8_t *p) IPS_MUST_USE;
void b_make_short_lock_node_if_used(struct maker *m, const uint8_t *p);
int b_count_event_wait_and_make_node(struct maker *m, struct b_sync *s,
                                     struct interval *v) IPS_MUST_USE;

#endif
