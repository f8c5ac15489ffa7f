/*
 * State of a thread that is large and that few threads need: mapped when it is
 * needed first, unmapped at the thread's end. Static TLS is scarce
 * (agent/record/thread.h).
 *
 * Invariants:
 *  - `ips_me.extra` changes twice in a thread: set when it is mapped, cleared
 * at the thread's end, when none of its frames comes back to what it read
 * there.
 *  - a fork child goes on with its copy; a vfork child uses its parent's.
 *  - where the map fails, or the thread's stream has ended, there is none: the
 *    caller does without.
 */
#ifndef IPS_AGENT_RECORD_EXTRA_H
#define IPS_AGENT_RECORD_EXTRA_H

#include <time.h>

#include "agent/record/cpu.h"
#include "agent/record/exec_target.h"
#include "agent/record/thread.h"

/* A text that was recorded: api/mark.c. */
struct ips_mark_slot {
    const char *text; /* the program's */
    uint32_t era;
    uint32_t last; /* number of the word with its NUL */
    uint64_t mask; /* what counts of that word */
    uint64_t copy[IPS_MARK_PLACE_BYTES / 8];
};
_Static_assert(sizeof(struct ips_mark_slot) == 64, "a shift finds a place");

/* Stacks written last: where the calls were, and how deep
 * (preload/sample/sample.h). */
#define IPS_STACKS_RECENT 16u
struct ips_stack_recent {
    uint64_t site, sp;
};

/* Attempts in a row at a lock that another thread has: preload/sync/sync.c. */
struct ips_try {
    uint64_t first, last, cpu; /* stamps; CPU at `first` */
    uint32_t count;
};

/* Tries of one condition, with naps between: preload/io/retry.c. */
enum ips_retry_kind {
    IPS_RETRY_CONNECT,
    IPS_RETRY_CHILD,
    IPS_RETRY_FILE_LOCK,
    IPS_RETRY_PATH,
    IPS_RETRY_KINDS
};
struct ips_retry {
    uint64_t key;         /* of the condition */
    uint64_t first, last; /* stamps of the calls that failed */
    uint64_t cpu;         /* at the first */
    uint32_t naps;        /* ips_extra.naps at the first */
    uint32_t count;       /* failed; 0: there is no run */
};

/* A program file that was looked at: exec_target.c. */
struct ips_seen {
    uint64_t dev, ino;
    struct timespec changed; /* of its content, name, rights or attributes */
    int64_t size;
    uint32_t uid, euid;
    uint32_t valid, zero;
};
#define IPS_SEEN 4u

struct ips_extra {
    _Alignas(64) struct ips_mark_slot mark_slot[IPS_MARK_PLACES];
    struct ips_cpu_baseline mark_baseline;
    struct ips_stack_recent stacks[IPS_STACKS_RECENT];
    struct ips_try tries;
    struct ips_retry retry[IPS_RETRY_KINDS];
    uint32_t naps;  /* sleeps and other waits that may be naps, so far */
    uint32_t joins; /* waits for children, which may have been naps */
    struct ips_seen seen[IPS_SEEN];
    uint32_t seen_next;
    /* A fork inside the C library that is under way: preload/process/fork.c. */
    struct {
        struct ips_moment call;
        uint64_t site;
    } fork;
    /* A vfork that is under way: there, too. */
    struct {
        uint64_t seq; /* 0: none is */
        uint64_t site;
        struct ips_moment call;
        struct ips_target target; /* what the child was about to become */
    } vfork;
};

/* The calling thread's, made where it has none; NULL: it does without.
 * Async-signal-safe. */
struct ips_extra *ips_extra_make(void);
static inline struct ips_extra *ips_extra(void)
{
    struct ips_extra *extra = ips_me.extra;
    return __builtin_expect(extra != NULL, 1) ? extra : ips_extra_make();
}
/* At the thread's end. */
void ips_extra_free(void);

#endif
