/*
 * Inside of the agent's core: one stream = one writer's place in the pool.
 * The calling thread's stream is thread-local (agent/record/core.h); an API
 * task has one of its own (agent/api/ips.c). record/segment.c makes, grows and
 * changes segments; record/threads.c knows the threads; record/start.c begins a
 * stream; core.c records.
 *
 * Invariants:
 *  - `cur` is an absolute address, taken with one xadd: whatever a signal
 *    handler does before or after, an address names one segment, so a
 *    reservation never mixes the base of one with the offset of another.
 *  - [lo, limit) is populated: stores there cannot raise SIGBUS.
 *  - a reservation without a head (a handler that jumped away, between the
 *    xadd and the store of the head) is found by the next one, which does not
 *    start at `tail`, and made one that a reader can step over.
 *  - everything but the xadd is changed with all signals blocked.
 *  - a segment with an unpublished reservation below us on the stack is never
 *    unmapped (`ips_me.recs_open`).
 */
#ifndef IPS_AGENT_RECORD_STREAM_H
#define IPS_AGENT_RECORD_STREAM_H

#include <stdatomic.h>

#include "agent/record/core.h"
#include "agent/record/thread.h"

typedef _Atomic(uint64_t) ips_fd_word; /* agent/preload/fd_table.h */

/* The process as the core knows it. One per library. What a recorded call looks
 * at is its first line. */
struct ips_core {
    /* A page that the kernel empties in every fork child; points at a static
     * zero while there is none. */
    _Alignas(64) const volatile uint64_t *alive;
    int32_t mark_offset;        /* thread pointer to the mark */
    int32_t here_offset;        /* and to ips_me */
    uint64_t mult;              /* stamps to ns, Q32 */
    uint64_t cpu_limit;         /* stamps */
    _Atomic(ips_fd_word *) fds; /* of the first descriptors, or NULL */
    /* Stamps: a call of more is looked at once more, for its stack and for what
     * of it was CPU time. At most cpu_limit. */
    uint64_t long_call;
    /* Another after modules went: agent/unwind/modules.h. */
    _Atomic uint64_t modules_era;
    uint32_t wrap_state; /* enum ips_wrap_state */
    bool cpu_marks;      /* CPU time by marks: agent/record/cpu.h */
    bool guesses;        /* of blocks (cpu_mode FAST), and not quiet */
    bool ring;           /* --on-full=ring */
    bool main_stream; /* threads have streams (false: libips without preload) */
    /* A copy, made once: whoever may write the file may also cut it off, and a
     * mapping would then be a SIGBUS. NULL = not recording. */
    _Alignas(64) const struct ips_control *control;
    /* The file itself, for the counters; only through ips_shared(). */
    _Atomic(struct ips_control *) shared;
    _Atomic bool share_later;     /* not mapped yet: nobody has asked for it */
    struct ips_segment_map spare; /* taken, for the first stream to begin in */
    void *wiped;                  /* behind `alive`: ips_core_wiped */
    uint64_t pidns;
    uint64_t image_stamp;
    uint64_t retry_ticks;
    _Atomic uint64_t fork_seq;
    uint32_t pid;
    uint32_t generation; /* +1 in every fork child */
    uint32_t clock_kind;
    bool test_clock;
    bool stopped;
    char dir[600];                           /* POOL/RUN */
    void (*begun)(enum ips_start_kind kind); /* or NULL */
    void (*ending)(void);
    void (*flush)(void);
};
extern struct ips_core ips_core __attribute__((visibility("hidden")));

/* ips_here where a run is recorded: from a line that is needed anyway. */
static inline struct ips_thread *ips_here_on(void)
{
    char *tp = (char *)__builtin_thread_pointer();
    return (struct ips_thread *)(void *)(tp + ips_core.here_offset);
}

/* What `alive` says of an image that lives; with the latter every record takes
 * the slow way. */
#define IPS_ALIVE 1u
#define IPS_ALIVE_AND_BURNS 2u
#define IPS_ALIVE_STOPPED 3u

/* Maps control and learns the process; no stream is begun. */
bool ips_core_attach(void);

/* Maps the counters, of a process that began without. NULL: not possible. */
struct ips_control *ips_core_share(void);

/* ips_rec_begin for any stream. */
void *ips_stream_begin(struct ips_stream *s, enum ips_rec_type type,
                       size_t bytes, uint64_t stamp);
/* The same where [at, at + bytes) was taken and is not as it should be. */
void *ips_stream_begin_slow(struct ips_stream *s, uint64_t at, uint64_t bytes,
                            enum ips_rec_type type, uint64_t stamp)
    __attribute__((cold));
/* Adds flags (IPS_REC_F_NS) to a record that is not published yet. */
static inline void ips_rec_add_flags(void *rec, uint32_t flags)
{
    struct ips_rec_head *h = rec;
    uint32_t word = atomic_load_explicit(&h->word, memory_order_relaxed);
    atomic_store_explicit(&h->word, word | flags << 24, memory_order_relaxed);
}
/* Counts in the stream's header, or in control where it has no segment. */
void ips_stream_lost(struct ips_stream *s, enum ips_lost_cause cause,
                     uint64_t count);
/* CLOSED and abandoned; unmaps. The stream takes no more records. */
void ips_stream_end(struct ips_stream *s);

/* --- record/quota.c ----------------------------------------------------------
 */

/* `control` as everybody sees it; NULL where somebody has cut the file off. */
struct ips_control *ips_shared(void);
/* Is there room for `bytes` more in the run's quota? Then it is taken. */
bool ips_quota_take(uint64_t bytes);
void ips_quota_give(uint64_t bytes);
/* The pid namespace of this process, 0 unknown. */
uint64_t ips_pidns(void);
/* Is less than half of it in use? */
bool ips_quota_ample(void);
/* --on-full=block: there was no room, for `cause`. Waits a moment with the
 * signals of before (*signals) and returns with all blocked again. false: it
 * does not wait, or no longer. Handlers may have recorded meanwhile. */
bool ips_quota_wait(struct ips_stream *s, enum ips_lost_cause cause,
                    uint64_t *since_ns, uint64_t *signals);

uint64_t ips_quiet_cpu(void);
uint64_t ips_quiet_cpu_after(uint64_t cpu);

/* --- record/spare_segments.c ---------------------------------------------- */

/* Address space behind each segment that belongs to nobody: record/segment.c.
 */
#define IPS_GAP_BYTES 65536u

/* Takes the spare segment that is meant for `id`. With `copy` it is filled with
 * what the spare says `control` to be, else the spare is to be of the size that
 * ips_core.control says. false: there is none, or it is not what it should be;
 * nothing is left behind. */
bool ips_spare_take(uint32_t id, struct ips_control *copy,
                    struct ips_segment_map *out);
/* Is it a `control` that this agent understands? */
bool ips_control_good(const struct ips_control *c);

/* --- record/start.c --------------------------------------------------------
 */

/* START, and NAME of an image; then the hook for streams. */
void ips_start_write(struct ips_stream *s);
/* Writes who made the thread of a stream that has begun already. */
void ips_start_known(const struct ips_stream *s);
/* A thread nobody announced begins with its first record. */
void ips_start_defaults(struct ips_stream *s, uint64_t stamp);

/* --- record/segment.c; callers have blocked all signals ------------------ */

/* Makes [.., need_end) of the current segment writable. 0 or a negative
 * -1 - cause. */
int ips_segment_extend(struct ips_stream *s, uint64_t need_end);
/* Gives a RESERVED head to every place in [tail, upto) that has none. */
void ips_mend(struct ips_stream *s, uint64_t upto);
/* Goes on in an earlier segment if one is DRAINED, else in a new file. */
int ips_segment_next(struct ips_stream *s);
/* Closes the current segment, to go on in it once the slave has drained it:
 * there is no room for another. false: a frame below us still writes to it. */
bool ips_segment_park(struct ips_stream *s);
/* Makes a segment file; for record/ring.c, as the following. */
int ips_segment_make(const struct ips_stream *s, struct ips_segment_map *out);
/* Gives `m` the header of the stream's next segment. */
void ips_segment_begin(struct ips_stream *s, const struct ips_segment_map *m);
/* The call that the thread is in goes with it to another segment. */
void ips_segment_carry(const struct ips_segment_map *from,
                       const struct ips_segment_map *to);
void ips_segment_close(struct ips_stream *s);
/* Does a frame below us on the stack still write to it? */
bool ips_segment_in_use(const struct ips_segment_map *m);
void ips_segment_drop(struct ips_segment_map *m);
/* Is [at, at + bytes) a place in a closed segment that is still mapped? */
bool ips_segment_is_kept(const struct ips_stream *s, uint64_t at,
                         uint64_t bytes);
/* In a fork child: the parent's are not ours. */
void ips_segment_drop_kept(struct ips_stream *s);
static inline struct ips_segment_header *
ips_segment_head(const struct ips_segment_map *m)
{
    return (struct ips_segment_header *)m->base;
}
/* A negative answer that carries a cause of loss. */
static inline int ips_refused(enum ips_lost_cause cause)
{
    return -1 - (int)cause;
}

/* --- record/ring.c: the newest are kept; callers have blocked all signals ---
 */
static inline bool ips_ring_on(void)
{
    return ips_core.ring;
}
/* ips_segment_next and ips_segment_leave for such a run. */
int ips_ring_next(struct ips_stream *s);
void ips_ring_leave(struct ips_stream *s);
/* In a fork child: the parent's ring is not ours. */
void ips_ring_reset(struct ips_stream *s);

/* Closes both mappings. */
void ips_segment_leave(struct ips_stream *s);

/* --- record/threads.c ------------------------------------------------------
 */

void ips_threads_add(uint32_t tid);
void ips_threads_remove(uint32_t tid);
void ips_threads_reset(void); /* in a fork child */
/* THREADCPU of every thread but `except` into the calling thread's stream. */
void ips_threads_record_cpu(uint32_t except);
/* At the end of the process: a stream with START and END for every thread that
 * lives and never recorded anything. */
void ips_threads_speak_for_silent(void);

/* Writes `value` in base 10 or 16; returns the end. */
char *ips_put_number(char *out, uint64_t value, unsigned base);

/* The word behind a record of `bytes` that was begun with room for it
 * (IPS_REC_SITE_BYTES). */
static inline void ips_rec_put_site(void *rec, size_t bytes, uint64_t site)
{
    *(uint64_t *)(void *)((unsigned char *)rec + bytes) = site;
}

#endif
