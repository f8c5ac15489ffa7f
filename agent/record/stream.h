/*
 * Internals of the agent's core. A *stream* is the state of one writer of
 * segments. Each thread has a stream in its thread-local state
 * (agent/record/core.h); each API task has its own (agent/api/task.c).
 * record/segment.c makes, extends and changes segments; record/threads.c keeps
 * the list of threads; record/start.c starts a stream; core.c records.
 *
 * Invariants:
 *  - `cur` is an absolute address, advanced with one xadd. An address
 *    identifies one segment, so even if a signal handler changes the segment, a
 *    reservation never combines the base of one segment with the offset in
 *    another.
 *  - [lo, limit) is populated: stores there cannot raise SIGBUS.
 *  - a reservation may lack a head, if a signal handler left by longjmp between
 *    the xadd and the store of the head. The next reservation notices this,
 *    since it does not start at `tail`, and writes a head that a reader can
 *    skip.
 *  - all other changes are made with all signals blocked.
 *  - a segment is never unmapped while an interrupted frame of this thread has
 *    an unpublished reservation in it (`ips_me.recs_open`).
 */
#ifndef IPS_AGENT_RECORD_STREAM_H
#define IPS_AGENT_RECORD_STREAM_H

#include <stdatomic.h>

#include "agent/record/core.h"
#include "agent/record/thread.h"

typedef _Atomic(uint64_t) ips_fd_word; /* see agent/preload/fd_table.h */

/* State of the process; libips and the preload library each have one. The first
 * cache line holds the members that a recorded call reads. */
struct ips_core {
    /* Points to the first word of a page that the kernel zeroes in every fork
     * child (since Linux 4.14), or to a static 0 if there is no such page. */
    _Alignas(64) const volatile uint64_t *alive;
    int32_t mark_offset; /* address of the CPU mark minus thread pointer */
    int32_t here_offset; /* address of ips_me minus thread pointer */
    uint64_t mult;       /* ns per stamp unit, times 2^32 */
    uint64_t cpu_limit;  /* longest use of a CPU baseline, in stamps */
    _Atomic(ips_fd_word *) fds; /* state of the first descriptors, or NULL */
    /* Length in stamps from which a call's stack is recorded and its record is
     * written in full. At most cpu_limit, from which the CPU clock is read,
     * too.
     */
    uint64_t long_call;
    /* Increases when a module is unloaded: agent/unwind/modules.h. */
    _Atomic uint64_t modules_era;
    uint32_t wrap_state; /* enum ips_wrap_state */
    bool cpu_marks;      /* CPU time by marks: agent/record/cpu.h */
    bool guesses; /* CPU time of blocking calls is guessed (cpu_mode FAST, not
                     in quiet mode) */
    bool ring;    /* --on-full=ring */
    bool main_stream; /* threads have streams (false: libips without preload) */
    /* A copy of the control file. It is no mapping, because any process of the
     * run may truncate the file, and a mapping would then raise SIGBUS. NULL =
     * not recording. */
    _Alignas(64) const struct ips_control *control;
    /* A mapping of the control file, for the counters; access it only through
     * ips_get_or_map_shared_control(). */
    _Atomic(struct ips_control *) shared;
    _Atomic bool share_later;     /* `shared` will be mapped at its first use */
    struct ips_segment_map spare; /* spare segment taken for the first stream */
    void *wiped; /* memory after `alive`: ips_core_get_memory_wiped_on_fork */
    uint64_t pidns;
    uint64_t image_stamp;
    uint64_t retry_ticks;
    _Atomic uint64_t fork_seq;
    uint32_t pid;
    uint32_t generation; /* +1 in every fork child */
    uint32_t clock_kind;
    bool test_clock;
    bool stopped;
    char dir[600];                           /* the run's directory, POOL/RUN */
    void (*begun)(enum ips_start_kind kind); /* hooks (core.h) or NULL */
    void (*ending)(void);
    void (*flush)(void);
};
extern struct ips_core ips_core __attribute__((visibility("hidden")));

/* Like ips_this_thread, for a process that is being recorded. Reads only the
 * first cache line of ips_core, which a recorded call uses anyway. */
static inline struct ips_thread *ips_this_thread_of_recorded_process(void)
{
    char *tp = (char *)__builtin_thread_pointer();
    return (struct ips_thread *)(void *)(tp + ips_core.here_offset);
}

/* Values of *ips_core.alive; 0 in the child of a fork that was not announced.
 * With any value but IPS_ALIVE every record takes the slow path. */
#define IPS_ALIVE 1u
#define IPS_ALIVE_AND_BURNS 2u
#define IPS_ALIVE_STOPPED 3u

/* Attaches the process to the run that its environment names, at the first
 * call; starts no stream. Returns false if the process is not recorded. */
bool ips_core_attach_to_run_once(void);

/* Maps the shared counters, if the process started without them. NULL: not
 * possible. */
struct ips_control *ips_core_get_or_map_counters(void);

/* Like ips_rec_begin_at, for any stream. */
void *ips_stream_begin_record(struct ips_stream *s, enum ips_rec_type type,
                              size_t bytes, uint64_t stamp);
/* The slow path of ips_stream_begin_record. The bytes [at, at + bytes) are
 * reserved already but cannot simply be used: they end beyond the limit, a
 * signal handler wrote in between, or the process is not IPS_ALIVE. */
void *ips_stream_begin_record_slow(struct ips_stream *s, uint64_t at,
                                   uint64_t bytes, enum ips_rec_type type,
                                   uint64_t stamp) __attribute__((cold));
/* Adds flags (IPS_REC_F_NS) to a record that is not published yet. */
static inline void ips_rec_add_flags(void *rec, uint32_t flags)
{
    struct ips_rec_head *h = rec;
    uint32_t word = atomic_load_explicit(&h->word, memory_order_relaxed);
    atomic_store_explicit(&h->word, word | flags << 24, memory_order_relaxed);
}
/* Counts lost records in the stream's segment header, or in control if it has
 * no segment. */
void ips_stream_count_and_write_lost(struct ips_stream *s,
                                     enum ips_lost_cause cause, uint64_t count);
/* Closes the stream's segments, marks them abandoned and unmaps them. The
 * stream takes no more records. */
void ips_stream_close_segments_and_mark_ended(struct ips_stream *s);

/* --- record/quota.c ----------------------------------------------------------
 */

/* Returns the shared mapping of `control`; NULL if the file cannot be mapped or
 * another process has truncated it. */
struct ips_control *ips_get_or_map_shared_control(void);
/* Takes `bytes` of the run's quota. Returns false, and takes none, if less is
 * left. */
bool ips_quota_take(uint64_t bytes);
void ips_quota_give_back(uint64_t bytes);
/* Returns the inode of this process's pid namespace; 0: unknown. */
uint64_t ips_pid_namespace_inode(void);
/* Is less than half of the quota in use? */
bool ips_quota_is_half_free(void);
/* --on-full=block: waits for space after a record found none, for `cause`.
 * Sleeps for a millisecond with the caller's original signal mask (*signals),
 * and returns true with all signals blocked again; signal handlers may have
 * recorded meanwhile. *since_ns: when the thread began to wait; 0 at the first
 * call. Returns false if the thread does not wait, or gives up. */
bool ips_quota_wait_one_step(struct ips_stream *s, enum ips_lost_cause cause,
                             uint64_t *since_ns, uint64_t *signals);

uint64_t ips_cpu_now_without_syscalls(void);
uint64_t ips_store_cpu_for_quiet_mode(uint64_t cpu);

/* --- record/spare_segments.c ---------------------------------------------- */

/* Size of the unused address space after each segment. A reservation that does
 * not fit may start beyond the segment's end, and farther with every signal
 * handler that interrupts it there. Without the gap its address might be in the
 * segment that is mapped next. */
#define IPS_GAP_BYTES 65536u

/* Takes the spare segment number `id` % IPS_SPARES and maps it. If `copy` is
 * not NULL, it receives the spare's copy of `control`; else the spare must have
 * the size that ips_core.control gives. Returns false, with nothing mapped, if
 * there is no such spare or it is unusable. */
bool ips_spare_segment_take(uint32_t id, struct ips_control *copy,
                            struct ips_segment_map *out);
/* Is *c a valid `control` of a version that the agent understands? */
bool ips_control_is_valid(const struct ips_control *c);

/* --- record/start.c --------------------------------------------------------
 */

/* Writes START and, for an image, NAME; then calls the hook `begun`. */
void ips_write_start_records_and_call_hook(struct ips_stream *s);
/* Writes START of kind KNOWN, which names the creator of a thread whose stream
 * has already started. */
void ips_write_start_with_creator(const struct ips_stream *s);
/* Sets the missing members of a starting thread's stream (generation, tid,
 * stamps; the kind, if the agent did not see the thread's creation), and adds
 * the thread to the list of threads. */
void ips_fill_stream_and_register_thread(struct ips_stream *s, uint64_t stamp);

/* --- record/segment.c; callers have blocked all signals ------------------ */

/* Makes *m writable up to the end of the page of `target`, at most to its own
 * end. Returns 0, or the cause of failure by ips_encode_lost_cause(). */
int ips_segment_populate(struct ips_segment_map *m, uint64_t target);
/* Makes the current segment writable up to need_end. Returns 0, or the cause of
 * failure by ips_encode_lost_cause(). */
int ips_stream_populate_segment_up_to(struct ips_stream *s, uint64_t need_end);
/* Writes a RESERVED head for every reservation in [tail, upto) that has none.
 */
void ips_write_missing_heads(struct ips_stream *s, uint64_t upto);
/* Continues the stream in an earlier segment if the slave has drained one, else
 * in a new file. Returns 0, or the cause of failure by ips_encode_lost_cause().
 */
int ips_segment_change_to_next(struct ips_stream *s);
/* Closes the current segment, so that the slave drains it and the thread can
 * then continue in it; used if there is no space for another segment. Returns
 * false if an interrupted frame will still write to the segment. */
bool ips_segment_close_if_complete_and_park(struct ips_stream *s);
/* Keeps the new mapping of a segment of `bytes`, with its gap, out of fork
 * children, which do not need it. */
void ips_segment_hide_from_forks(uint64_t base, uint64_t bytes);
/* Takes a spare segment, or makes a segment file, and maps it. Returns 0, or
 * the cause of failure by ips_encode_lost_cause(). This and the next functions
 * also serve record/ring.c. */
int ips_segment_take_spare_or_make(const struct ips_stream *s,
                                   struct ips_segment_map *out);
/* Writes the header of the stream's next segment into `m`; increments `seq` and
 * the thread's era. */
void ips_segment_write_header(struct ips_stream *s,
                              const struct ips_segment_map *m);
/* Moves the thread's current call (struct ips_current_call) to another segment.
 */
void ips_segment_move_current_call(const struct ips_segment_map *from,
                                   const struct ips_segment_map *to);
void ips_segment_mark_closed(struct ips_stream *s);
/* Will an interrupted frame of this thread still write to the segment? */
bool ips_segment_has_unpublished_record(const struct ips_segment_map *m);
void ips_segment_abandon_and_unmap(struct ips_segment_map *m);
/* Is [at, at + bytes) in `prev` or in a kept segment, which are closed but
 * still mapped? */
bool ips_segment_is_range_in_closed(const struct ips_stream *s, uint64_t at,
                                    uint64_t bytes);
/* Frees the list of kept segments, not the segments themselves: a fork child
 * has none of them mapped. */
void ips_segment_free_kept_list(struct ips_stream *s);
static inline struct ips_segment_header *
ips_segment_head(const struct ips_segment_map *m)
{
    return (struct ips_segment_header *)m->base;
}
/* Encodes `cause` as a negative result of a function, -1 - cause. */
static inline int ips_encode_lost_cause(enum ips_lost_cause cause)
{
    return -1 - (int)cause;
}

/* --- record/ring.c: keeps the newest records; all signals are blocked -------
 */
static inline bool ips_ring_on(void)
{
    return ips_core.ring;
}
/* ips_segment_change_to_next and ips_segments_close_and_unmap_all for
 * --on-full=ring. */
int ips_ring_change_to_next(struct ips_stream *s);
void ips_ring_close_all(struct ips_stream *s);
/* Call it in a fork child: drops the parent's ring. */
void ips_ring_unmap_state(struct ips_stream *s);

/* Closes and unmaps all segments of the stream. */
void ips_segments_close_and_unmap_all(struct ips_stream *s);

/* --- record/threads.c ------------------------------------------------------
 */

void ips_threads_add(uint32_t tid);
void ips_threads_move_to_ended(uint32_t tid);
void ips_threads_clear_lists_after_fork(void); /* call it in a fork child */
/* Writes THREADCPU of every thread but `except` into the calling thread's
 * stream. */
void ips_threads_record_cpu_of_others(uint32_t except);
/* At the end of the process: writes a stream with START and END for every
 * living thread that never recorded anything. */
void ips_threads_record_silent_threads_at_end(void);

/* Writes the digits of `value` in base 10 or 16, without a NUL; returns their
 * end. */
char *ips_format_number(char *out, uint64_t value, unsigned base);

/* Stores the call's return address in the word after a record of `bytes` that
 * was begun with space for it (IPS_REC_SITE_BYTES). */
static inline void ips_rec_put_site(void *rec, size_t bytes, uint64_t site)
{
    *(uint64_t *)(void *)((unsigned char *)rec + bytes) = site;
}

#endif
