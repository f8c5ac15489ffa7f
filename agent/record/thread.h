/*
 * What the agent knows of the calling thread, in one place: after a system call
 * that slept little of it is in the caches, and what a recorded call costs is
 * the lines of 64 bytes that it touches. Each part says which of them it is in.
 *
 * Invariants:
 *  - the thread itself alone looks at it; its signal handlers do, too, so each
 *    part says in what order it is stored;
 *  - it is thread-local with a place that is known when the program begins: the
 *    kernel follows pointers into it (agent/record/cpu.h);
 *  - it is small: with LD_AUDIT set the loader has some 1600 bytes for all
 *    libraries that want such a place, and ours takes 1024 at most
 *    (tests/system/recording/test_static_tls.py). Large state that few threads
 *    need is in agent/record/extra.h.
 */
#ifndef IPS_AGENT_RECORD_THREAD_H
#define IPS_AGENT_RECORD_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "agent/record/cpu_guess.h"

#define IPS_IE __attribute__((tls_model("initial-exec"), visibility("hidden")))

enum ips_stream_state {
    IPS_STREAM_NEW = 0, /* no START yet */
    IPS_STREAM_BEGUN,
    IPS_STREAM_ENDED, /* records are refused */
};

struct ips_segment_map { /* a segment as mapped here; base 0 = none */
    uint64_t base;
    uint64_t limit; /* end of what is populated */
    uint64_t end;
    uint64_t used_end; /* of a closed one: where its records end at most */
};

/* Closed segments before `prev`, oldest first: used again once DRAINED. None is
 * kept while more than half of the run's quota is in use. */
#define IPS_KEPT_MAX 7u
struct ips_kept_segments {
    uint32_t count;
    struct ips_segment_map map[IPS_KEPT_MAX];
};

struct ips_stream {
    uint64_t cur;
    uint64_t tail;  /* up to here every place has its head: see ips_mend */
    uint64_t limit; /* equal to seg.limit; here for the fast path */
    uint64_t lo;    /* address of the first record place, 0 = no segment */
    struct ips_segment_map seg;
    struct ips_segment_map prev; /* closed, kept to be used again; with a ring
                                    one of its segments */
    struct ips_kept_segments
        *kept_segments;    /* those before it, of a fast writer */
    struct ips_ring *ring; /* --on-full=ring (record/ring.c) */
    uint64_t stamp;        /* when the stream began */
    uint64_t retry_at;     /* no attempt to make room before, 0 = now */
    uint32_t generation;   /* of the process state it belongs to */
    uint32_t tid;
    uint32_t seq; /* of the next segment */
    uint32_t flags;
    uint8_t state;       /* enum ips_stream_state */
    uint8_t retry_cause; /* enum ips_lost_cause */
    bool parked;         /* `seg` is CLOSED and waits here to be DRAINED */
    bool gave_up; /* waited for room in vain: no more before there is some */
    uint8_t start_kind;            /* START will say these, and those below */
    uint8_t start_flags;           /* IPS_REC_F_NS */
    uint32_t lost[IPS_LOST_COUNT]; /* not yet said by a LOST record */
    uint64_t waits_at; /* stack address where it waits for room, 0 does not */
    uint32_t ppid;
    uint32_t ptid;
    uint64_t fork_seq;
    uint64_t parent_image;
    uint64_t start_cpu;
    uint64_t start_t;
};

/* --- CPU time: agent/record/cpu.h ----------------------------------------- */

struct ips_cpu_slot {
    /* struct rseq_cs of the kernel. */
    _Alignas(64) uint32_t version;
    uint32_t flags;
    uint64_t start_ip;
    uint64_t post_commit_offset;
    uint64_t abort_ip;
    uint32_t reserved;
    uint32_t signature; /* right before abort_ip, where the kernel looks */
    /* CPU at stamp t: cpu0 + (t - t0), and cpu0 before t0 (what was handed out
     * was too much: stands still until the clock has caught up). */
    uint64_t t0;
    uint64_t cpu0;
};

/* Two: a handler's reading takes another one than what it interrupted. */
#define IPS_CPU_SLOTS 2u
struct ips_cpu {
    /* A line: what a guess needs. */
    uint64_t read_t, read_cpu; /* the clock was read last */
    struct ips_guess guess;
    uint64_t no_mark; /* always 0: where there is no rseq area */
    /* The run delay was read last at this stamp, with so much CPU; 0 never. */
    uint64_t delay_t, delay_cpu;
    uint64_t delay_ns;     /* and was so much */
    uint32_t delay_wait;   /* ns until it is worth while again */
    uint32_t delay_cost;   /* ns that a reading takes here; 0: not learnt */
    uint32_t guessed_said; /* so many settlings in the newest GUESSED */
    uint64_t guessed_t;    /* and its stamp; 0 none */
};

/* Where a short record's CPU time comes from: agent/record/proc_event.h. */
struct ips_cpu_baseline {
    uint64_t t, cpu; /* of the long record */
    uint64_t span;   /* stamps after t for which it may be used, 0: none */
    uint64_t mark;
    uint32_t high; /* of its procedure, 0 of a MARK */
    uint32_t era;
};

/* A call under way: agent/preload/wrap.h. */
struct ips_open {
    uint64_t frame;
    uint64_t recs; /* recs_open when it began, and flags; one store */
};
#define IPS_OPEN_WAIT (1ull << 32) /* it moves nothing */
#define IPS_OPEN_IDLE (2ull << 32) /* the newest handler found it waiting */
#define IPS_OPEN_MAX 8u /* deeper ones take the place of the outermost */

/* --- all of it -------------------------------------------------------------
 */

struct ips_thread {
    /* Two lines that every record needs, within 127 bytes of the first's end:
     * so an instruction has one byte for the distance (ips_here). */
    struct ips_open outermost;
    struct ips_cpu_baseline io_baseline;
    uint64_t site_page;         /* the newest site's: agent/unwind/modules.h */
    uint64_t cpu_last;          /* CPU handed out last */
    volatile uint32_t cpu_next; /* slots taken, ever */
    /* Another after every mark that is left, and at each segment: a short
     * record refers to one of the same era (agent/record/proc_event.h). */
    uint32_t era;
    /* Reservations begun and not published in this thread (with those that a
     * longjmp dropped). */
    uint32_t recs_open;
    uint32_t open_depth; /* calls under way */
    uint32_t spin_count; /* fruitless attempts in a row: preload/io/spin.c */
    bool in_vfork;       /* a vfork child (it runs in its parent's memory):
                            record nothing */
    bool own_table;      /* a thread of agent/record/own_table.h runs for it */
    bool vfork_filter;   /* a vfork child has a seccomp filter, not we */
    /* Samples (preload/sample/pace.h): whether calls have to look; ~ of the
     * stamp from which on returns have to. */
    volatile uint8_t sample_watch;
    uint64_t sample_off;
    struct ips_stream stream;
    uint32_t vfork_depth;  /* 2 and more: a vfork child's own vfork */
    uint32_t file_calls;   /* that left no record: record/guessed_cpu.c */
    uint32_t beyond_ns;    /* that things took beyond their prices: there */
    uint32_t said_ns;      /* ever, by records that say what they took */
    uint32_t opens;        /* of files; both are priced there */
    uint32_t passes;       /* reads and writes of what is nothing to record */
    uint32_t handlers_run; /* of the program's: whoever calls them counts */
    uint64_t locks;        /* free locks taken, priced there, too */
    /* Calls that are never restarted: agent/preload/sample/sample.h. */
    uint64_t sample_eintr;
    struct ips_cpu_slot slot[IPS_CPU_SLOTS];
    struct ips_cpu cpu;
    struct ips_cpu_baseline proc_baseline;
    /* Without system calls: the CPU time was `quiet_cpu` at this stamp. */
    uint64_t quiet_cpu, quiet_t;
    struct ips_open nested[IPS_OPEN_MAX - 1]; /* calls within the outermost */
    struct ips_extra *extra; /* agent/record/extra.h; NULL: none yet */
};
_Static_assert(offsetof(struct ips_thread, cpu) % 64 == 0 &&
                   offsetof(struct ips_cpu, read_t) == 0 &&
                   offsetof(struct ips_cpu, guess.all_ns) <= 64,
               "a guess is one line");
_Static_assert(offsetof(struct ips_thread, cpu_last) == 64 &&
                   offsetof(struct ips_thread, stream.limit) == 120,
               "two lines");
extern __thread struct ips_thread ips_me IPS_IE;

/* Its address in a register, and the compiler made to use that: instructions
 * that go by the thread's own register are twice as long. */
static inline struct ips_thread *ips_here(void)
{
    struct ips_thread *me = &ips_me;
    __asm__("" : "+r"(me));
    return me;
}

#endif
