/*
 * State of a thread that is large and that few threads need. It is mapped at
 * its first use and unmapped at the thread's end, because static TLS is scarce
 * (agent/record/thread.h).
 *
 * Invariants:
 *  - `ips_me.extra` changes twice in a thread: set when the state is mapped,
 *    cleared at the thread's end, when no frame of the thread uses it any more.
 *  - a fork child continues with its copy; a vfork child uses its parent's.
 *  - if mapping fails, or the thread's stream has ended, there is no extra
 *    state, and the caller does without it.
 */
#ifndef IPS_AGENT_RECORD_EXTRA_H
#define IPS_AGENT_RECORD_EXTRA_H

#include <time.h>

#include "agent/record/cpu.h"
#include "agent/record/exec_target.h"
#include "agent/record/thread.h"

/* The text of a mark (ips_mark) that was recorded: api/mark.c. */
struct ips_mark_slot {
    const char *text; /* address of the text in the program */
    uint32_t era;
    uint32_t last; /* index of the 8-byte word of `copy` with the NUL */
    uint64_t mask; /* 0xff for each byte of word `last` to compare */
    uint64_t copy[IPS_MARK_PLACE_BYTES / 8];
};
_Static_assert(sizeof(struct ips_mark_slot) == 64, "a shift finds a place");

/* A recently written STACK: its call site and stack pointer
 * (preload/sample/sample.h). */
#define IPS_STACKS_RECENT 16u
struct ips_recent_stack_slot_of_site {
    uint64_t site, sp;
};

/* A series of failed trylock calls on a lock that another thread holds:
 * preload/sync/sync.c. */
struct ips_trylock_series {
    uint64_t first, last, cpu; /* stamps; CPU time at `first` */
    uint32_t count;
};

/* A series of failed tests of one condition with sleeps in between:
 * preload/io/retry.c. */
enum ips_retry_kind {
    IPS_RETRY_CONNECT,
    IPS_RETRY_CHILD,
    IPS_RETRY_FILE_LOCK,
    IPS_RETRY_PATH,
    IPS_RETRY_GONE,    /* tests until a file is gone */
    IPS_RETRY_PROCESS, /* tests until a process is gone */
    IPS_RETRY_KINDS
};
struct ips_retry_series {
    uint64_t key;         /* identifies the condition that is tested */
    uint64_t first, last; /* stamps of the calls that failed */
    uint64_t cpu;         /* CPU time at `first` */
    uint32_t naps;        /* number of the thread's sleeps up to `last` */
    uint32_t count;       /* failed tests; 0: no series */
    uint32_t spaced;      /* failed tests that followed a sleep */
};
/* A thread may test this many conditions of one kind in turn. */
#define IPS_RETRY_SERIES 4u

/* A program file that was examined and found traced: exec_target.c. */
struct ips_traced_file {
    uint64_t dev, ino;
    struct timespec changed; /* ctime: content, name, rights or attributes */
    int64_t size;
    uint32_t uid, euid;
    uint32_t valid, zero;
};
#define IPS_SEEN 4u

struct ips_extra {
    _Alignas(64) struct ips_mark_slot mark_slot[IPS_MARK_PLACES];
    struct ips_cpu_baseline mark_baseline;
    struct ips_recent_stack_slot_of_site stacks[IPS_STACKS_RECENT];
    struct ips_trylock_series tries;
    struct ips_retry_series retry[IPS_RETRY_KINDS][IPS_RETRY_SERIES];
    uint8_t retry_next[IPS_RETRY_KINDS]; /* which series to replace next */
    uint32_t naps;  /* sleeps, and waits that timed out, so far */
    uint32_t joins; /* waits for children so far: each may be a sleep, too */
    struct ips_traced_file seen[IPS_SEEN];
    uint32_t seen_next;
    /* Space for a recvmmsg: preload/io/msg.c. NULL: not mapped. */
    struct ips_mmsg_copies *mmsg;
    size_t mmsg_bytes;
    /* A fork in progress inside the C library: preload/process/fork.c. */
    struct {
        struct ips_moment call;
        uint64_t site;
    } fork;
    /* A vfork in progress: preload/process/fork.c. */
    struct {
        uint64_t seq; /* fork_seq of the vfork; 0: none in progress */
        uint64_t site;
        struct ips_moment call;
        struct ips_target target; /* program that the child wanted to execute */
    } vfork;
};

/* Returns the calling thread's extra state; maps it if there is none yet. NULL:
 * not available, the caller does without. Async-signal-safe. */
struct ips_extra *ips_extra_map(void);
static inline struct ips_extra *ips_extra_get_or_map(void)
{
    struct ips_extra *extra = ips_me.extra;
    return __builtin_expect(extra != NULL, 1) ? extra : ips_extra_map();
}
/* Frees the calling thread's extra state, at its end. */
void ips_extra_free(void);

#endif
