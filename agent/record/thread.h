/*
 * The agent's whole state of the calling thread. After a system call that
 * slept, little of it is still in the caches, so the cost of a recorded call
 * depends on the number of 64-byte cache lines that it touches. Comments say
 * which members share a line.
 *
 * Invariants:
 *  - only the thread itself and its signal handlers access the state. Where the
 *    order of stores matters to a handler, a comment at the member or at its
 *    writer states it;
 *  - the state is at a fixed offset from the thread pointer (initial-exec TLS),
 *    because the kernel follows pointers into it (agent/record/cpu.h);
 *  - the state has at most 1024 bytes: with LD_AUDIT set the loader has about
 *    1600 bytes of static TLS for all libraries
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
    IPS_STREAM_NEW = 0, /* no START record was written yet */
    IPS_STREAM_BEGUN,
    IPS_STREAM_ENDED, /* records are refused */
};

struct ips_segment_map { /* a segment mapped here; base 0 = none */
    uint64_t base;
    uint64_t limit; /* end of the populated part */
    uint64_t end;
    uint64_t used_end; /* of a closed segment: its records end before here */
};

/* Closed segments older than `prev`, oldest first. The stream uses them again
 * once they are DRAINED. None is kept while more than half of the run's quota
 * is in use. */
#define IPS_KEPT_MAX 7u
struct ips_kept_segments {
    uint32_t count;
    struct ips_segment_map map[IPS_KEPT_MAX];
};

struct ips_stream {
    uint64_t cur;
    /* Every reservation before this address has a record head: see
     * ips_write_missing_heads. */
    uint64_t tail;
    uint64_t limit; /* equal to seg.limit; here for the fast path */
    uint64_t lo;    /* address of the first record, 0 = no segment */
    struct ips_segment_map seg;
    /* The last closed segment, for reuse; also set in a ring. */
    struct ips_segment_map prev;
    struct ips_kept_segments *kept_segments; /* older closed segments */
    struct ips_ring *ring; /* --on-full=ring (record/ring.c) */
    uint64_t stamp;        /* stamp at which the stream began */
    uint64_t retry_at; /* stamp before which the stream does not look for space
                          again; 0 = now */
    uint32_t generation; /* ips_core.generation at its start */
    uint32_t tid;
    uint32_t seq; /* number of the next segment */
    uint32_t flags;
    uint8_t state;       /* enum ips_stream_state */
    uint8_t retry_cause; /* enum ips_lost_cause */
    bool parked;  /* `seg` is CLOSED and will be used again once DRAINED */
    bool gave_up; /* waited for space in vain; does not wait again until there
                     was space */
    uint8_t start_kind;  /* START will contain this and the fields below, except
                            `lost` and `waits_at` */
    uint8_t start_flags; /* flags of START: IPS_REC_F_NS or 0 */
    uint32_t lost[IPS_LOST_COUNT]; /* no LOST record reports these yet */
    uint64_t waits_at; /* stack address of the function that waits for space; 0:
                          none waits */
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
    uint32_t signature; /* the kernel requires it right before abort_ip */
    /* The baseline: the CPU time at stamp t is cpu0 + (t - t0), or cpu0 before
     * t0. (If too much CPU time was reported, t0 is in the future: the reported
     * time does not advance until the clock has caught up.) */
    uint64_t t0;
    uint64_t cpu0;
};

/* Two: a handler's reading uses another slot than the code it interrupted. */
#define IPS_CPU_SLOTS 2u
struct ips_cpu {
    /* One cache line holds all that a guess needs. */
    uint64_t read_t, read_cpu; /* last reading of the CPU clock */
    struct ips_guess guess;
    uint64_t no_mark; /* always 0; read as the mark if marks are not used */
    /* Stamp and CPU time of the last reading of the run delay; 0 never. */
    uint64_t delay_t, delay_cpu;
    uint64_t delay_ns;     /* the run delay at its last reading */
    uint32_t delay_wait;   /* ns until the next reading is worthwhile */
    uint32_t delay_cost;   /* ns that a reading takes; 0: not measured */
    uint32_t guessed_said; /* guess.corrected_ns in the newest GUESSED */
    uint32_t faults_seen;  /* major page faults at the last check */
    uint64_t guessed_t;    /* stamp of the newest GUESSED; 0 none */
};

/* The long record from which short records take their CPU time:
 * agent/record/proc_event.h. */
struct ips_cpu_baseline {
    uint64_t t, cpu; /* stamp and CPU time of the long record */
    uint64_t span;   /* for how many stamps after t it is valid; 0: invalid */
    uint64_t mark;
    uint32_t high; /* upper half of the procedure address of that record; 0 for
                      a MARK */
    uint32_t era;
};

/* A call in progress: agent/preload/wrap.h. */
struct ips_open_call {
    uint64_t frame;
    uint64_t recs; /* recs_open at the call, and IPS_OPEN flags: one word, so
                      that one store sets both */
};
#define IPS_OPEN_WAIT (1ull << 32) /* the call moves no bytes */
/* The newest signal handler interrupted the call while it was in its system
 * call, so the call moved no bytes. */
#define IPS_OPEN_IDLE (2ull << 32)
/* Most calls in progress that are kept; a deeper call replaces the outermost
 * one. */
#define IPS_OPEN_MAX 8u

/* --- the whole state -------------------------------------------------------
 */

struct ips_thread {
    /* Two cache lines that every record needs. They are within 127 bytes of the
     * start, so that an instruction needs only one byte for a member's offset
     * (ips_this_thread). */
    struct ips_open_call outermost;
    struct ips_cpu_baseline io_baseline;
    uint64_t site_page; /* page of the last call site: agent/unwind/modules.h */
    uint64_t cpu_last;  /* CPU time reported last */
    volatile uint32_t cpu_next; /* number of CPU slots (marks) taken so far */
    /* Incremented when a mark is set and when a segment begins: a short record
     * refers to a long one of the same era (agent/record/proc_event.h). */
    uint32_t era;
    /* Reservations of this thread that are not published (including those that
     * a longjmp dropped). */
    uint32_t recs_open;
    uint32_t open_depth; /* number of recorded calls in progress */
    uint32_t spin_count; /* failed attempts in a row: preload/io/spin.c */
    bool in_vfork; /* a vfork child runs in this thread's memory: record nothing
                    */
    bool own_table;    /* a helper of own_table.h runs with this state */
    bool vfork_filter; /* a vfork child, not the parent, has a seccomp filter */
    /* preload/sample/pace.h. sample_watch: bits that are set while calls must
     * check for a sample; sample_off: complement of the stamp from which
     * returns must check. */
    volatile uint8_t sample_watch;
    uint64_t sample_off;
    struct ips_stream stream;
    uint32_t vfork_depth; /* nested vforks: 2 if a vfork child called vfork */
    uint32_t file_calls;  /* file calls without a record: guessed_cpu.c */
    uint32_t beyond_ns;   /* unreported agent work beyond probe costs */
    uint32_t said_ns;     /* total ns that records report as their own cost */
    uint32_t opens;       /* opens of files; costed in guessed_cpu.c */
    uint32_t passes;      /* reads and writes without a record; guessed_cpu.c */
    uint32_t handlers_run; /* runs of the program's signal handlers */
    uint64_t locks;        /* free locks taken; costed in guessed_cpu.c */
    /* Stack pointer of a call that a sampling signal made fail with EINTR; 0:
     * none (agent/preload/sample/sample.h). */
    uint64_t sample_eintr;
    struct ips_cpu_slot slot[IPS_CPU_SLOTS];
    struct ips_cpu cpu;
    struct ips_cpu_baseline proc_baseline;
    /* Quiet mode (sys.h): the CPU time was `quiet_cpu` at stamp `quiet_t`. */
    uint64_t quiet_cpu, quiet_t;
    struct ips_open_call
        nested[IPS_OPEN_MAX - 1]; /* open calls within the outermost */
    struct ips_extra *extra;      /* agent/record/extra.h; NULL: none yet */
};
_Static_assert(offsetof(struct ips_thread, cpu) % 64 == 0 &&
                   offsetof(struct ips_cpu, read_t) == 0 &&
                   offsetof(struct ips_cpu, guess.all_ns) <= 64,
               "a guess is one line");
_Static_assert(offsetof(struct ips_thread, cpu_last) == 64 &&
                   offsetof(struct ips_thread, stream.limit) == 120,
               "two lines");
extern __thread struct ips_thread ips_me IPS_IE;

/* Returns the address of ips_me in a general register. The compiler then
 * addresses members through that register: instructions that address them
 * through %fs are twice as long. */
static inline struct ips_thread *ips_this_thread(void)
{
    struct ips_thread *me = &ips_me;
    __asm__("" : "+r"(me));
    return me;
}

#endif
