/*
 * The state of one ips_build(), shared by all its passes
 * (docs/design/build.md). Flat arrays are indexed by uint32_t; nothing is
 * allocated per record.
 *
 * The passes, in order (build.c):
 *   scan     reads every record once: fills the streams, and puts the rare
 *            records into arrays of their own
 *   process  groups images into processes and threads into chains; links
 *            forks and joins to children. An image is one program that a
 *            process executes: an exec starts the next one.
 *   signal   finds the KILL or the child's end that caused each SIGNAL, and
 *            when processes were stopped (build/job_control.c)
 *   untraced lists processes whose start was recorded, but nothing else
 *   channel  turns CHAN records into ends of channels, and joins the two ends
 *            of each channel
 *   sync     finds the RELEASE that ended each wait (locks, conditions,
 *            semaphores)
 *   node     reads every record again, chain by chain: makes the nodes, and
 *            lists sends and receives (build/node.c, build/io.c,
 *            build/sync_node.c; plain sends and receives:
 *            build/plain/plain.c, in the scan build/plain/scan.c; receives
 *            whose sends have a node already: build/plain/early.c)
 *   hold     finds which process held which end when, and so which close
 *            caused an end-of-file
 *   match    makes the cross arcs from sends to receives; if an unrecorded
 *            process also writes or reads: build/shared.c
 *   finish   sets the coordinates of END nodes (b_set_coords_of_end_nodes)
 *   causal   moves coordinates until no local arc needs more time than the
 *            clock allows
 *   far      finds the ends whose peer may be on another machine
 *   weights  turns coordinates into weights, finishes the arcs of pass
 *            `match`, and computes when each node was passed
 *   order    breaks cycles
 *   wall     computes the other columns that the weightings `sched` and
 *            `wall` need
 *   table    makes the names and rows of processes, threads and ends
 *
 * Before pass `weights`, g.w holds coordinates: the position of each node on
 * the CPU clock of its chain, ns. Times are ns of CLOCK_MONOTONIC_RAW. Input is
 * untrusted: with any records, every index here is in range or IPS_NONE.
 */
#ifndef IPS_SLAVE_BUILD_INTERNAL_H
#define IPS_SLAVE_BUILD_INTERNAL_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/types.h"
#include "slave/build/build.h"
#include "slave/build/channel.h"
#include "slave/build/proc_line.h"
#include "slave/build/types.h"

#define B_BLOCKED_NS 2000u
/* At a call that does not block, the agent reads the thread's CPU clock only if
 * the thread, since the last reading, used this much CPU time (ns) or blocked
 * in this many calls. The whole rule is in build/cost.c. */
#define B_READ_NS 500000u
#define B_READ_BLOCKS_MIN 16u

/* For comparison functions: returns -1 or 1 from the function if p and q
 * differ. */
#define CMP3(p, q)                                                             \
    do {                                                                       \
        if ((p) != (q))                                                        \
            return (p) < (q) ? -1 : 1;                                         \
    } while (0)

/* ---- growing arrays ---- */

/* Makes room for element n, of `size` bytes, in array *v; *room is its capacity
 * in elements. Returns 0, IPS_E_NO_MEMORY or IPS_E_LIMIT. */
int b_array_reserve(void **v, uint32_t n, uint32_t *room, size_t size,
                    struct ips_err *err) IPS_MUST_USE;
#define B_MORE(array, err)                                                     \
    ((array).n < (array).capacity                                              \
         ? 0                                                                   \
         : b_array_reserve((void **)&(array).v, (array).n, &(array).capacity,  \
                           sizeof(*(array).v), (err)))
/* Allocates at least one zeroed element; on failure returns NULL and sets *err.
 * Everything that a build allocates is released with ips_free_large. */
void *b_calloc(size_t count, size_t size, struct ips_err *err);

/* ---- records ---- */

/* Prefetch distance in bytes. Records are read in order, but the hardware
 * prefetcher does not cross a page boundary. */
#define B_READ_AHEAD 1024u

/* Position of a walk over one stream's records. */
struct b_walk {
    const struct ips_stream_in *in;
    uint32_t chunk;
    size_t at;
    struct slave_record_expander proc_line;
};
/* The smallest size (bytes) of a record of each type; 0 for unknown types. */
extern const uint16_t b_rec_min[256];

/* Whether the stream may have records of this type. */
static inline bool b_may_hold_type(const struct ips_stream_in *in, uint8_t type)
{
    return !in->types || in->types[type / 64] >> type % 64 & 1;
}

/* Returns the next record (NULL at the end), its type and its length in bytes.
 * At an invalid record, skips the rest of the chunk. Expands short records
 * (build/proc_line.h); an expanded record stays valid until the next call. */
static inline const uint8_t *b_next_record(struct b_walk *w, uint32_t *type,
                                           uint32_t *len)
{
    while (w->chunk < w->in->chunk_count) {
        const struct ips_chunk *c = &w->in->chunks[w->chunk];
        if (w->at + sizeof(struct ips_rec_head) <= c->len) {
            uint32_t word;
            const uint8_t *p = c->data + w->at;
            memcpy(&word, p, sizeof(word));
            __builtin_prefetch(p + B_READ_AHEAD);
            uint32_t bytes = (word >> 8 & 0xffu) * 8;
            *type = word & 0xffu;
            if (bytes >= sizeof(struct ips_rec_head) &&
                bytes <= c->len - w->at && bytes >= b_rec_min[*type]) {
                w->at += bytes;
                *len = bytes;
                p = slave_expand_record_if_short(
                    &w->proc_line, &w->in->head.clock, p, type, len);
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

static inline __attribute__((always_inline)) uint64_t
b_ticks_to_ns(const struct ips_clock *c, uint64_t stamp)
{
    if (c->kind == IPS_CLOCK_RAW)
        return stamp;
    if (stamp >= c->counter0)
        return ips_add_sat(c->raw0_ns,
                           ips_mul_q32(stamp - c->counter0, c->mult_q32));
    return ips_sub_sat(c->raw0_ns,
                       ips_mul_q32(c->counter0 - stamp, c->mult_q32));
}
static inline __attribute__((always_inline)) uint64_t
b_stamp_to_ns(const struct ips_clock *c, uint32_t word, uint64_t stamp)
{
    return word >> 16 & IPS_REC_F_NS ? stamp : b_ticks_to_ns(c, stamp);
}
/* The time that a call slept: (t_ret - t) - (cpu_ret - cpu), never negative. */
static inline uint64_t b_blocked_ns(uint64_t t, uint64_t t_ret, uint64_t cpu,
                                    uint64_t cpu_ret)
{
    return ips_sub_sat(ips_sub_sat(t_ret, t), ips_sub_sat(cpu_ret, cpu));
}

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
    B_ARRAY(struct b_retry) retries;
    B_ARRAY(struct b_child_tries) child_tries;
    B_ARRAY(struct b_created_file) mades;
    B_ARRAY(struct b_nap_run) nap_runs;
    B_ARRAY(struct ips_unended) unended; /* in order of creation */
    bool unended_failed;
    B_ARRAY(struct b_failed_child_wait) vains;
    B_ARRAY(struct b_unfinished_send) unfinished_sends;
    B_ARRAY(struct b_packet) packets;
    /* in order of creation; b_make_poll_arcs() sorts them by end and time of
     * call */
    B_ARRAY(struct b_poll) polls;
    bool poll_failed;
    B_ARRAY(struct b_cpu) cpus;
    B_ARRAY(struct b_unrecorded) unseens;
    B_ARRAY(struct b_chan) chans;
    /* In pass `scan`: [2 * B_USED_IDS], indexed by 2 * channel id, plus 1 for
     * receives; 1 if the current stream sends on (receives from) that channel.
     * `used_top` is the greatest id in use. `uses` collects the channels that
     * each stream uses. */
    uint8_t *used;
    B_ARRAY(struct b_channel_use) uses;
    /* [early_count], by end: state of the receives that are matched while nodes
     * are made (build/plain/early.c) */
    struct match_cursor *early;
    uint32_t used_top, early_count;
    B_ARRAY(struct b_kill) kills;
    B_ARRAY(struct b_signal_taken) takings;
    B_ARRAY(struct b_job_stop) job_stops;
    B_ARRAY(struct b_job_stopped) job_stopped;
    struct b_end *ends;
    uint32_t end_capacity;
    B_ARRAY(struct b_block) blocks;
    /* slabs for sends, B_SLAB_OPS slots each; the last has slab_ops slots */
    B_ARRAY(struct b_send *) slabs;
    uint32_t slab_ops, slab_used; /* the last slab's slots; its slots in use */
    B_ARRAY(struct b_long_read) long_reads;
    struct b_read *reads;
    B_ARRAY(struct b_dgram) dgrams;
    B_ARRAY(struct b_event) events;
    uint64_t cost_ps;  /* overhead of all threads, ps */
    uint64_t probe_ps; /* overhead since the last node, not yet in g.probe */
    B_ARRAY(struct b_external) exts;
    B_ARRAY(struct b_hold_event) holds;
    B_ARRAY(struct b_release_event) releases;
    B_ARRAY(struct ips_remote_out) outs;
    /* For each row of out->traffic: time of the last operation. */
    B_ARRAY(uint64_t) traffic_last;
    uint32_t traffic_capacity;
    uint32_t *flows; /* hash table, by (socket end, remote address): the end of
                        the flow, plus 1; 0: free slot */
    uint32_t flow_capacity, flow_count;
    uint64_t node_capacity, send_capacity;
    uint32_t nodes;   /* number of nodes made so far */
    uint64_t *cpu_at; /* [node_capacity] CPU time of the thread at g.t_ns */
    /* For build/wall.c, [node_capacity]: ns that the thread slept in calls
     * since its previous node, including g.wait (the sleep in the call that the
     * node ends). b_distribute_run_delays() replaces it by the delay after the
     * wake-up. NULL in a whole build if no thread read its run delay and none
     * spun: then the sum of the chain in `gaps` is enough. */
    uint64_t *off;
    uint64_t off_ns; /* time asleep in calls since the last node, ns */
    struct b_gaps gaps;
    bool careful;   /* some processes are not recorded (build/shared.c) */
    bool doubtful;  /* an unrecorded process may have read from a stream */
    bool spun;      /* some thread spun: cpu_at of a node may change later */
    uint8_t *far;   /* [end_count] 1: the peer may be on another machine; NULL:
                       this holds for no end */
    bool backwards; /* some node precedes its cause in time, so the nodes are
                       not yet in a topological order */
    /* For build/wall.c: `bends`: some node may have an earlier time than its
     * predecessor; `arcs`: nodes whose cross arcs pass `match` did not make. */
    bool bends;
    B_ARRAY(uint32_t) arcs;
    B_ARRAY(struct b_corrected_wait) fitted;
    /* [end_count], by sending end: how far find_send_time() (build/weights.c)
     * has walked the sends */
    struct b_send_cursor *asked;
    B_ARRAY(struct b_delay) delays;
    /* slots of the fast path (build/plain.h); NULL: not used here */
    struct b_plain_slots *plain;
    /* build/waits.c; NULL: no rows of single waits are wanted */
    struct b_wait_notes *notes;
    /* NULL unless the build continues later (build/incremental/grow.h) */
    struct b_incremental *incremental;
    /* [chain_count] where passes after `node` start; NULL: at the first node */
    struct b_resume_point *from;
    uint64_t *coord; /* [node_capacity] coordinates, before they became weights;
                        only in an incremental build */
    bool tables;     /* only tables are wanted, no graph */
    bool broken;     /* a final node would have to change, so the run has to be
                        built again from its start */
    ips_u128 gone;   /* sum of len, reply_ns and blocked_ns of the entries of
                        `exts` that were dropped */
};

static inline void b_set_progress(const struct build *b, unsigned permille)
{
    if (b->in->permille)
        atomic_store_explicit(b->in->permille, permille, memory_order_relaxed);
}

/* Data that the build keeps for ips_built_set_peers_and_remake_arcs(). */
struct ips_built_peer_data {
    struct b_external *exts;
    uint32_t ext_count;
    struct ips_remote_out *outs; /* connects, sends and closes of ends without
                                    a local peer, sorted by (end, pos) */
    uint32_t out_count;
    uint8_t *base_peer; /* [end_count] enum ips_end_peer, before other machines
                           were asked */
    struct ips_build_counts base;
};

/* ---- sends of an end ---- */

static inline struct b_send *b_send_at(const struct build *b, uint32_t place)
{
    return b->slabs.v[place / B_SLAB_OPS] + place % B_SLAB_OPS;
}
/* Iterates over the sends of an end, in order; op is NULL at the end. */
struct b_send_cursor {
    struct b_send *op, *end;  /* current send; end of its block */
    uint32_t position, block; /* slot of the send (b_send_at); the next block */
    uint32_t now;             /* the block of `op` */
};
void b_move_to_next_send_block(const struct build *b, struct b_send_cursor *s);
static inline struct b_send_cursor b_init_send_cursor(const struct build *b,
                                                      const struct b_end *e)
{
    struct b_send_cursor s = {.block = e->sends.first};
    b_move_to_next_send_block(b, &s);
    return s;
}
static inline void b_advance_send_cursor(const struct build *b,
                                         struct b_send_cursor *s)
{
    s->position++;
    if (++s->op == s->end)
        b_move_to_next_send_block(b, s);
}
/* Makes room for a send; b_append_empty_send_slot() adds one: *op. */
int b_add_send_block(struct build *b, struct b_end *e) IPS_MUST_USE;
static inline int b_append_empty_send_slot(struct build *b, struct b_end *e,
                                           struct b_send **op)
{
    int rc = e->sends.capacity ? 0 : b_add_send_block(b, e);
    if (rc < 0)
        return rc;
    struct b_block *k = &b->blocks.v[e->sends.last];
    *op = b_send_at(b, k->at + k->n++);
    e->sends.n++;
    e->sends.capacity--;
    return 0;
}

/* ---- passes ---- */

void b_free_build(struct build *b); /* build.c */
int b_run_passes(struct build *b) IPS_MUST_USE;
/* build/scan.c: scans the records after `walk` of a stream that was scanned
 * before. Sets b->broken if a record is of a kind that cannot be added later
 * (build/incremental/grow.h) or the stream has ended. Adds new readings of the
 * run delay to b->delays. */
int b_scan_new_records(struct build *b, uint32_t stream,
                       struct b_walk *walk) IPS_MUST_USE;
void b_sum_guesses_and_lost_records(struct build *b); /* build/cost.c */
bool b_scan_if_common_call(struct b_stream *s, uint32_t type,
                           const uint8_t *p); /* build/incremental/tables.c */
/* build/incremental/tables.c: whether an incremental build can add this record:
 * it must not name, start or end anything, nor change an earlier decision. */
bool b_can_add_incrementally(uint32_t type, const uint8_t *p, uint32_t len);
/* least number of spare nodes after each chain of an incremental build */
#define B_GROW_ROOM 256u
/* build/incremental/: for incremental builds;
 * b_incremental_get_final_spins() also works in other builds. */
int b_incremental_make_nodes(struct build *b) IPS_MUST_USE;
/* Saves the counts before (`done` false) and after (true) the passes that make
 * arcs; then also saves the arcs that no later record changes. */
void b_incremental_save_counts_and_arcs(struct build *b, bool done);
void b_incremental_add_delay_window(struct build *b, uint32_t chain,
                                    const struct b_delay_span *w);
void b_incremental_add_lowered(struct build *b, uint32_t node, uint32_t by);
void b_incremental_note_close_of_traffic_end(struct build *b, uint32_t traffic);
void b_incremental_add_preempted(struct build *b, const struct b_send *send,
                                 uint64_t slept);
struct b_read *b_incremental_append_receive_slot(struct build *b,
                                                 uint32_t end) IPS_MUST_USE;
/* Sets *row to the traffic row of (end, process); false: there is none. */
bool b_incremental_find_traffic_row(const struct build *b, uint32_t end,
                                    uint32_t proc, uint32_t *row);
/* Whether the incremental build makes tables only, without arcs. */
bool b_incremental_makes_only_tables(const struct build *b);
/* Returns the spinning of final nodes, *count elements. */
const struct ips_spun *b_incremental_get_final_spins(const struct build *b,
                                                     uint32_t *count);

/* Channel ids from B_USED_IDS - 1 on count as used by several chains. B_USERS:
 * `writer` or `reader` of a b_end that several chains use. */
#define B_USED_IDS 65536u
#define B_USERS UINT32_MAX
/* build/plain/early.c: adds a stream's channels to b->uses, clears b->used. */
int b_collect_channel_uses(struct build *b, uint32_t stream) IPS_MUST_USE;
int b_init_early_match(struct build *b) IPS_MUST_USE; /* before pass `node` */
/* Returns the sends that the receives of chain `c` at end `to` are matched with
 * while their nodes are made; NULL if pass `match` has to match them. */
struct match_cursor *b_get_early_match_cursor(struct build *b, uint32_t to,
                                              uint32_t c);
/* From now on, receives at end `to` are left to pass `match`. */
void b_stop_early_match_of_end(struct build *b, uint32_t to);

/* build/retry.c: these functions collect repeated tries in b->retries.
 * b_scan_retry_record() is for a record that moves bytes or waits, from `t` to
 * `t_ret`; the others are for the JOIN or ACQUIRE that is added next. */
int b_scan_retry_record(struct build *b, struct b_stream *s, uint32_t type,
                        const struct ips_rec_io *r, uint64_t t,
                        uint64_t t_ret) IPS_MUST_USE;
/* Adds naps to b->nap_runs. Call it at BLOCK, ACQUIRE, and after a nap. */
int b_update_nap_run_with_record(struct build *b, struct b_stream *s,
                                 uint32_t type, const uint8_t *p) IPS_MUST_USE;
int b_match_awaited_files(struct build *b) IPS_MUST_USE; /* before `node` */
void b_make_awaited_file_arcs(struct build *b);
int b_find_child_tries(struct build *b) IPS_MUST_USE;    /* child_tries.c */
void b_exclude_naps_before_own_trigger(struct build *b); /* own_part.c */
void b_make_child_try_arcs(struct build *b);
void b_link_retry_to_next_join(struct build *b, const struct b_stream *s,
                               uint64_t t);
int b_link_or_append_retry_of_acquire(struct build *b, const struct b_stream *s,
                                      const struct ips_rec_sync *r, uint64_t t,
                                      uint64_t t_ret) IPS_MUST_USE;

int b_scan_all_streams(struct build *b) IPS_MUST_USE; /* build/scan.c */
int b_make_processes_and_chains(struct build *b)
    IPS_MUST_USE;                                         /* build/process.c */
int b_link_forks_and_joins(struct build *b) IPS_MUST_USE; /* build/link.c */
int b_find_signal_causes(struct build *b) IPS_MUST_USE;   /* build/signal.c */
void b_make_signal_arcs(struct build *b);                 /* build/signal.c */
/* build/signal.c: returns the process that had this pid at time t, or IPS_NONE.
 * `by_pid`: all processes, sorted by (pid namespace, pid, start). */
uint32_t b_find_process_of_pid(const struct build *b, const uint32_t *by_pid,
                               uint64_t pidns, uint32_t pid, uint64_t t);
int b_find_job_stops(struct build *b, const uint32_t *by_pid)
    IPS_MUST_USE;                           /* build/job_control.c */
void b_make_job_stop_arcs(struct build *b); /* build/job_control.c */
int b_list_unrecorded_processes(struct build *b)
    IPS_MUST_USE; /* build/untraced.c */
/* build/untraced.c: b_scan_unrecorded() adds an UNSEEN record to b->unseens;
 * b_scan_runtime_module() adds a MODULE record only if it is of
 * a runtime whose waits have no records. GCC's OpenMP makes futex system calls
 * directly, that of LLVM and Intel mostly spins on memory, and Go makes all
 * system calls directly. */
int b_scan_unrecorded(struct build *b, uint32_t stream, uint64_t t,
                      const uint8_t *p, uint32_t len) IPS_MUST_USE;
int b_scan_runtime_module(struct build *b, uint32_t stream, uint64_t t,
                          const uint8_t *p, uint32_t len) IPS_MUST_USE;
/* Returns the name of the runtime of a MODULE record; NULL: no such runtime. */
const char *b_runtime_of_module(const uint8_t *p, uint32_t len);
int b_make_channel_ends(struct build *b) IPS_MUST_USE;  /* build/channel.c */
int b_join_local_peers(struct build *b) IPS_MUST_USE;   /* build/peer.c */
int b_match_sync_records(struct build *b) IPS_MUST_USE; /* build/sync.c */
int b_make_nodes(struct build *b) IPS_MUST_USE;         /* build/node.c */
/* Compares the objects of two records, as for qsort. Read and write locks of
 * one rwlock are the same object. */
int b_compare_sync_objects(const struct b_sync *x, const struct b_sync *y);
bool b_has_obtained_lock(const struct b_sync *s);
/* Whether `s` records that a wait for a condition took its mutex again. */
bool b_is_mutex_after_cond_wait(const struct b_sync *s);
void b_make_sync_arcs(struct build *b);    /* build/sync.c */
void b_find_process_ends(struct build *b); /* build/process_ends.c */
int b_find_end_releases(struct build *b) IPS_MUST_USE; /* build/end_holders.c */
/* build/unfinished.c */
int b_append_unfinished_sends_that_arrived(struct build *b) IPS_MUST_USE;
int b_match_streams(struct build *b) IPS_MUST_USE; /* build/match.c */
void b_add_record_cost(struct build *b, uint32_t chain, struct b_stream *s,
                       uint32_t type, const uint8_t *p); /* build/cost.c */
/* Returns the recording overhead, in ps, of a plain send or receive. */
uint64_t b_simulate_io_cost_ps(const struct build *b, struct b_stream *s,
                               uint64_t t, uint64_t t_ret, uint64_t cpu,
                               uint64_t cpu_ret);
/* Whether so much time passed since the stream's previous call that the agent's
 * code and data have left the L1 caches. To be called once for each recorded
 * call, in order, because it stores the return of this call. */
static inline bool b_check_cold_caches_and_note_call(struct b_stream *s,
                                                     uint64_t t, uint64_t t_ret)
{
    bool cold = ips_sub_sat(t, s->cost_ret_ns) >= IPS_COLD_NS;
    s->cost_ret_ns = t_ret;
    return cold;
}
void b_limit_probe_costs_to_arc_weights(struct build *b); /* build/cost.c */
void b_make_eof_and_accept_arcs(struct build *b); /* build/end_holders.c */
/* For node `node`, which read an end-of-file at end `end`: returns true if this
 * side had shut down receiving there before node `other` closed the peer's end
 * (IPS_NO_NODE: no node closed it). Then also makes the arc from the shutdown,
 * unless the node's own thread made it. */
bool b_link_own_shutdown(struct build *b, uint32_t node, uint32_t end,
                         uint64_t t_ret, uint32_t other);
int b_match_datagrams(struct build *b) IPS_MUST_USE; /* build/dgram.c */
int b_make_poll_arcs(struct build *b) IPS_MUST_USE;  /* build/poll.c */
void b_restore_packet_bytes(struct build *b);        /* build/match.c */
void b_make_lifetime_arcs(struct build *b);          /* build/link.c */
void b_set_coords_of_end_nodes(struct build *b);     /* build/process_ends.c */
void b_limit_coords_by_clock(struct build *b);       /* build/causal.c */
int b_make_weights(struct build *b) IPS_MUST_USE;    /* build/weights.c */
/* After all chains have weights: adds up the CPU time of each process. If `sum`
 * (CPU times with spinning, lengths of cross arcs) is too large for the path
 * algorithms, clamps the weights; an incremental build sets b->broken. */
void b_bound_weights_and_sum_cpu(struct build *b, ips_u128 sum);
int b_subtract_spin_cpu(struct build *b) IPS_MUST_USE; /* build/sync_node.c */
int b_list_waits_without_waker(struct build *b) IPS_MUST_USE; /* build/spin.c */
int b_break_cycles(struct build *b) IPS_MUST_USE;        /* build/causal.c */
int b_make_times_fit_arcs(struct build *b) IPS_MUST_USE; /* build/wall.c */
void b_distribute_run_delays(struct build *b);           /* build/delay.c */
struct b_delay_span b_make_first_delay_window_of_chain(const struct build *b,
                                                       uint32_t chain);
int b_fill_names_and_root(struct build *b) IPS_MUST_USE; /* build/table.c */
int b_mark_ends_with_remote_peers(struct build *b)
    IPS_MUST_USE; /* build/peer.c */
/* build/remote.c: fills out->more; copies the data that an incremental build
 * still needs itself. */
int b_store_remote_data(struct build *b, struct ips_built *out) IPS_MUST_USE;
/* build/waits.c; call b_store_node_of_dropped_wait_rows() only if b->notes is
 * set. */
int b_init_wait_notes_if_wanted(struct build *b) IPS_MUST_USE;
int b_make_lock_rows(struct build *b) IPS_MUST_USE; /* build/locks.c */
int b_drop_and_sort_wait_rows(struct build *b) IPS_MUST_USE;
void b_store_node_of_dropped_wait_rows(struct build *b, uint32_t arc);

/* ---- shared helpers ---- */

/* Whether this BLOCK is a poll that found something. */
static inline bool b_is_poll_with_result(const struct ips_rec_io *r)
{
    return r->op >= IPS_OP_POLL && r->op <= IPS_OP_EPOLL && r->result > 0 &&
           !r->err;
}
/* Whether this BLOCK is a poll that an eventfd or a message queue ended. */
static inline bool b_is_poll_ended_by_object(const struct ips_rec_io *r)
{
    return b_is_poll_with_result(r) && (ips_ready_is_eventfd(r->ready) ||
                                        ips_ready_is_message_queue(r->ready));
}
/* Whether this SIGNAL is a notification by mq_notify() for a queue. */
static inline bool b_is_mq_notify_signal(int32_t code, uint64_t value)
{
    return code == SI_MESGQ && value;
}
/* Whether an incremental build leaves a poll with this `ready` to a whole
 * build, which searches for the event that ended it before making nodes. */
static inline bool b_is_poll_left_to_whole_build(uint32_t ready)
{
    return IPS_READY_KIND(ready) == IPS_READY_EVENTFD ||
           ips_ready_is_message_queue(ready) || ips_ready_is_signalfd(ready);
}
/* Whether a BLOCK with this `op` describes repeated tries, or the event that
 * lets them succeed. Such a BLOCK is no wait itself. */
static inline bool b_is_retry_record(uint16_t op)
{
    return op == IPS_OP_RETRY || op == IPS_OP_FOUND || op == IPS_OP_MADE;
}
/* Returns the channel bound to `id` in `image`, or NULL. */
struct b_chan *b_search_chan(const struct build *b, uint32_t image,
                             uint32_t id);
static inline struct b_chan *b_find_chan(const struct build *b, uint32_t image,
                                         uint32_t id)
{
    const struct b_image *im = &b->images[image];
    if (id - 1 < im->chan_count) { /* usual case: ids are 1, 2, 3 ... */
        struct b_chan *c = &b->chans.v[im->first_chan + id - 1];
        if (c->id == id)
            return c;
    }
    return b_search_chan(b, image, id);
}
/* Sets *flow to the end that represents the datagrams between socket end `end`
 * and address `remote`. Adds that end if there is none. */
int b_find_or_add_flow(struct build *b, uint32_t end,
                       const struct ips_addr *remote,
                       uint32_t *flow) IPS_MUST_USE;
bool b_is_loopback_addr(const struct ips_addr *a);
/* Whether traffic between the two addresses stays in one network namespace.
 * This holds if one is a loopback address, or if both are equal. Other
 * addresses may be routed between namespaces, or exist in several namespaces by
 * chance. */
bool b_stay_within_netns(const struct ips_addr *a, const struct ips_addr *b);
bool b_is_wildcard_addr(const struct ips_addr *a);
/* Returns how long the thread was off the CPU between the readings (t0, cpu0)
 * and (t, cpu), less the `off` ns that it slept in calls. All in ns. */
static inline __attribute__((always_inline)) uint64_t
b_off_cpu_between_calls_ns(uint64_t t, uint64_t t0, uint64_t cpu, uint64_t cpu0,
                           uint64_t off)
{
    return ips_sub_sat(ips_sub_sat(ips_sub_sat(t, t0), ips_sub_sat(cpu, cpu0)),
                       off);
}
static inline __attribute__((always_inline)) void
b_add_unknown_gap(struct b_gaps *gaps, uint64_t t, uint64_t cpu, uint64_t off)
{
    gaps->unknown_ns = ips_add_sat(
        gaps->unknown_ns,
        b_off_cpu_between_calls_ns(t, gaps->t, cpu, gaps->cpu, off));
    gaps->t = t;
    gaps->cpu = cpu;
}
/* Appends a node to the graph. `coord` is its coordinate; `t_ns` and `cpu_at`
 * are the time and the CPU time of its thread at the same moment (the call of a
 * send or fork, the return of a receive or wait). The scan counted the nodes,
 * so there is space. */
static inline uint32_t b_add_node(struct build *b, enum ips_node_kind kind,
                                  uint64_t coord, uint64_t t_ns,
                                  uint64_t cpu_at, uint32_t site)
{
    const struct ips_graph *g = &b->out->g;
    uint8_t *kinds = g->kind,
            *xkinds =
                g->xkind; /* written last: a store of a byte may alias all
                             pointers, which would have to be read again */
    uint64_t *w = g->w, *t = g->t_ns, *at = b->cpu_at, *off = b->off;
    uint64_t *wait = g->wait, *xlen = g->xlen;
    uint32_t *probe = g->probe, *sites = g->site, *xpred = g->xpred;
    uint32_t i = b->nodes;
    uint64_t ps = b->probe_ps;
    w[i] = coord;
    t[i] = t_ns;
    at[i] = cpu_at;
    if (off)
        off[i] = b->off_ns;
    else
        b_add_unknown_gap(&b->gaps, t_ns, cpu_at, b->off_ns);
    wait[i] = xlen[i] = 0;
    probe[i] = 0;
    sites[i] = site;
    xpred[i] = IPS_NO_NODE;
    kinds[i] = (uint8_t)kind;
    xkinds[i] = IPS_X_NONE;
    b->off_ns = 0;
    if (ps >= 1000) {
        probe[i] = (uint32_t)ips_min_u64(ps / 1000, UINT32_MAX);
        b->probe_ps = ps % 1000;
    }
    b->nodes = i + 1;
    return i;
}
/* Like b_add_node(), for a node at the call of an operation that then slept
 * `slept` ns: that sleep belongs to the next node. */
static inline uint32_t b_add_call_node(struct build *b, enum ips_node_kind kind,
                                       uint64_t coord, uint64_t t_ns,
                                       uint64_t slept, uint32_t site)
{
    b->off_ns = ips_sub_sat(b->off_ns, slept);
    uint32_t i = b_add_node(b, kind, coord, t_ns, coord, site);
    b->off_ns = slept;
    return i;
}
static inline void b_set_cross(struct build *b, uint32_t node, uint32_t xpred,
                               enum ips_xkind kind, uint64_t xlen)
{
    struct ips_graph *g = &b->out->g;
    if (node == IPS_NO_NODE || xpred == IPS_NO_NODE || node == xpred)
        return;
    g->xpred[node] = xpred;
    g->xkind[node] = (uint8_t)kind;
    g->xlen[node] = xlen;
}
/* Whether the peer of node i's channel may be on another machine. Then the
 * node's time must not be moved, because the two clocks are aligned by such
 * times. */
static inline bool b_may_peer_be_remote(const struct build *b, uint32_t i)
{
    uint32_t end = b->out->g.site[i];
    return b->far && end != UINT32_MAX && b->far[end];
}
/* Upper limit of times, ns: only damaged stamps exceed it. */
#define B_LATEST (1ULL << 61)
static inline uint64_t b_shift_time(uint64_t t, int64_t by)
{
    /* No branch on the sign of `by`: it changes too often to be predicted. A
     * sum in range did not wrap around. */
    uint64_t sum = t + (uint64_t)by;
    if (sum <= B_LATEST && t <= INT64_MAX)
        return sum;
    uint64_t at =
        by < 0 ? ips_sub_sat(t, -(uint64_t)by) : ips_add_sat(t, (uint64_t)by);
    return ips_min_u64(at, B_LATEST);
}
/* Whether data for `end` arrives when it is sent, because it passes through
 * memory and no network can delay it. */
static inline bool b_is_end_in_memory(const struct build *b, uint32_t end)
{
    return end == UINT32_MAX || (b->out->ends[end].kind != IPS_CHAN_TCP &&
                                 b->out->ends[end].kind != IPS_CHAN_UDP);
}
/* Whether b_make_weights() also corrects the waits (g.wait). It cannot if a
 * later pass still moves times; then pass `wall` corrects them. */
static inline bool b_weights_pass_corrects_waits(const struct build *b)
{
    return !b->delays.n && !b->incremental && !b->in->general;
}
/* Returns the first node of a chain that passes after pass `node` process. */
static inline uint32_t b_first_open_node(const struct build *b, uint32_t chain)
{
    return b->from ? b->from[chain].node : b->out->g.chains[chain].first;
}
static inline bool b_is_final_node(const struct build *b, uint32_t node)
{
    return b->from && node < b->from[ips_chain_of(&b->out->g, node)].node;
}
/* Returns a node's coordinate. In a final node g.w is the weight already. */
static inline uint64_t b_get_coord(const struct build *b, uint32_t node)
{
    return b_is_final_node(b, node) ? b->coord[node] : b->out->g.w[node];
}
static inline uint32_t b_get_end_node(const struct build *b, uint32_t chain)
{
    const struct ips_chain *c = &b->out->g.chains[chain];
    return c->first + c->count - 1;
}
/* Returns the node that released `end` and so caused the end-of-file at t_ns,
 * or IPS_NO_NODE. `sleeper`: the chain that slept until then, IPS_NONE: none
 * did. `eof`: a shutdown of `end` counts as its release, too. */
uint32_t b_find_close_of_end_before(const struct build *b, uint32_t end,
                                    uint64_t t_ns, uint32_t sleeper, bool eof);

#endif
