/*
 * Guidance: turns the facts about a run into a short ranked list, in plain
 * words, of what its elapsed time goes to and what would help. Pure: no graph,
 * no clock, no I/O. why/query.c gathers the data, why/solve.c computes the
 * facts from the graph; docs/why.md has every rule with its reason.
 *
 *  - A finding needs evidence: a gain, confirmed by a what-if, of at least
 *    WHY_LEAST_PPM of the elapsed time.
 *  - The list is ranked by gain. Findings of equal gain are in the order of
 *    the enum: the kind that tells more about the cause comes first.
 *  - A procedure that another finding names as its location gets no finding.
 *  - An empty list (`why_findings.count` 0) is an answer, too; `nearest` is
 * then the finding that came closest.
 *
 * Texts lie in the arena or are borrowed from the facts. Units: ns, ppm.
 * Source: IPS-17; ALGORITHMS 4.
 */
#ifndef IPS_MASTER_WHY_WHY_H
#define IPS_MASTER_WHY_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/base/arena.h"

/* Kinds of findings; those that tell most about the cause come first. */
#define WHY_KINDS(X)                                                           \
    X(HANG, "hang")                                                            \
    X(LOCK, "lock-contention")                                                 \
    X(CHATTY, "chatty-messages")                                               \
    X(IMBALANCE, "load-imbalance")                                             \
    X(LATE, "late-sender")                                                     \
    X(SERIAL, "serial-section")                                                \
    X(PHASE, "phase")                                                          \
    X(QUEUE, "one-server")                                                     \
    X(CORES, "too-few-cores")                                                  \
    X(BUSY, "busy-machine")                                                    \
    X(OUTSIDE, "outside")                                                      \
    X(TRANSIT, "slow-messages")                                                \
    X(PROCEDURE, "procedure")                                                  \
    X(SPREAD, "spread")
enum why_kind {
#define X(name, text) WHY_##name,
    WHY_KINDS(X)
#undef X
        WHY_KIND_COUNT
};
const char *why_kind_name(enum why_kind kind);
#define WHY_LATE_RECEIVER "late-receiver" /* name of LATE if `awaits_space` */

/* ---- thresholds; reasons in docs/why.md ---------------------------------- */

#define WHY_LEAST_PPM 50000u       /* least gain, of the elapsed time */
#define WHY_TOP 10u                /* most findings */
#define WHY_HOT_PPM 250000u        /* least share of the path of a procedure */
#define WHY_HALF_PPM 500000u       /* what-if "twice as fast" */
#define WHY_CHATTY_COUNT 200u      /* least messages of one pair on the path */
#define WHY_CHATTY_BYTES 4096u     /* most mean bytes; larger is payload */
#define WHY_CHATTY_HOP_NS 100000u  /* most path per message; longer is work */
#define WHY_UNEVEN_PPM 150000u     /* least gain of IMBALANCE */
#define WHY_CHATTY_PPM 250000u     /* least gain of merging ten messages */
#define WHY_BATCH_PPM 900000u      /* what-if "ten messages in one" */
#define WHY_SERIAL_CHILDREN 4u     /* least similar children in sequence */
#define WHY_SERIAL_PPM 800000u     /* of their path no other thread works */
#define WHY_SPREAD_PPM 100000u     /* the largest procedure has less */
#define WHY_SPREAD_TOP 10u         /* the largest ten have less than half */
#define WHY_SPREAD_CPU_PPM 500000u /* least CPU time in procedures, of path */
#define WHY_COMMON_PPM 500000u     /* least sampled path under a caller */
#define WHY_REQUEST_NS 1000000u /* least path per request that is much work */
#define WHY_PHASES 3u           /* phases that are examined */
#define WHY_PHASE_PPM 400000u   /* least share of the path of a phase */
#define WHY_PHASE_REST_PPM 100000u /* ... of the busier phases */
#define WHY_PHASE_BUSY_PPM 666667u /* its busy cores, at most, of theirs */
#define WHY_NAMED_PPM 600000u      /* share that counts as named */
#define WHY_LOCK_PROOF_PPM 100000u /* least contended share of a lock site */
#define WHY_LOCK_PROOF 3u          /* least samples that show contention */
#define WHY_LOCK_ARC_PPM 50000u    /* least share of an arc in library locks */
#define WHY_SURE_SAMPLES 30u
#define WHY_SURE_NS 100000000u      /* elapsed time */
#define WHY_OVERHEAD_PPM 100000u    /* recording, of the path without it */
#define WHY_UNEXPLAINED_PPM 250000u /* of the path */
#define WHY_SERVICE_IDLE_PPM 250000u
#define WHY_SERVICE_ASKED 100u        /* least unrecorded requests */
#define WHY_SERVICE_ASKED_PPM 500000u /* ... and of all requests */

/* ---- facts --------------------------------------------------------------- */

struct why_location {   /* borrowed texts; NULL or "": not known */
    const char *object; /* "/m1/a.3" */
    const char *procedure, *module, *file;
    uint32_t source_line;
    uint64_t procedure_ns; /* of `ns` below, in that procedure */
};

/* Something on the path that could be improved. All zero: it does not occur. */
struct why_amount {
    uint64_t ns;                  /* its part of the path */
    uint64_t gain_ns;             /* result of the kind's what-if */
    uint64_t bound_ns;            /* upper limit of the gain */
    struct why_location location; /* the cause: process and procedure */
    const char *other;            /* process that waits for it; or the messages'
                                     other end; or what is waited for */
    uint64_t other_ns;            /* sum of those waits */
    uint64_t count, bytes;        /* of waits or messages */
    uint64_t samples;             /* samples that `ns` is based on; 0: none */
    uint64_t named_ns;            /* part of `ns` that other findings explain */
    uint32_t threads, cores;      /* most threads busy at once; cores */
    struct why_location wait_at;  /* call site of most of those waits */
    const char *cause;            /* of waits there, as `ipsq waits` names it */
    bool awaits_space;            /* LATE: the other waits for space to send */
    bool chatty;    /* TRANSIT: the pair exchanges small messages */
    bool call;      /* a procedure that moves messages, such as write() */
    bool yields;    /* the time is that of sched_yield(), called from here */
    bool lock_code; /* a procedure of the C library that spends most of its time
                       taking or releasing contended locks */
    const struct why_lock_cost *lock; /* LOCK; NULL: not known */
    const struct why_phase *phase;    /* PHASE: which one */
    uint64_t phase_ns[WHY_PHASES];    /* a procedure: its part of each phase */
};

/* CPU time in the C library's procedures that take and release contended locks
 * (why/lock_cost.c). */
struct why_lock_cost {
    uint64_t ns, samples; /* of the path; samples that it is based on */
    /* Of the wall path: off the CPU in arcs that spend at least
     * WHY_LOCK_ARC_PPM on such locks, if `library`. */
    uint64_t unknown_ns;
    bool library; /* most of it is for a lock inside the C library */
    struct why_location site;   /* takes the lock; if `library`: the library's
                                   function that was called */
    struct why_location caller; /* caller of that; else the same as `site` */
    struct why_location giver;  /* releases locks that others wait for */
};

/* A phase in which fewer cores are busy than in others. */
struct why_phase {
    struct why_amount amount; /* its part of the path; `phase`: this phase */
    uint32_t number, phases;  /* as `ipsq phases` counts; number of phases */
    uint64_t from_ns, to_ns;  /* since the run started */
    uint64_t busy_ppm;        /* CPU time over path; a million is one core */
    uint64_t others_ppm;      /* the same of phases with more busy cores; at
                                 most the number of cores */
    uint64_t others_ns;       /* path in those phases */
    uint64_t outside_ns;      /* of its path: waits for unrecorded causes */
    uint64_t named_ns[WHY_KIND_COUNT]; /* of its path: other findings' time */
};

/* The caller that most of the sampled path runs under (why/callers.c). */
struct why_common {
    struct why_location location;
    uint64_t ns;              /* of the path, including its callees; 0: there is
                                 no such caller */
    uint64_t low_ns, high_ns; /* 95% interval */
    uint64_t of_ns;           /* sampled part of the path */
    struct why_amount amount; /* the caller with its callees, at the process
                                 with the most time; zero if that process
                                 receives no requests */
};

/* Threads that wait without end (why/hang.c). */
struct why_hang {
    uint64_t ns, since_ns; /* duration, 0: no hang; its start, since the run
                              started */
    uint32_t threads;
    bool circle;       /* true: a cycle, each thread waits for the next; false:
                          no cycle, but every thread that exists waits */
    bool alive;        /* the threads still wait */
    const char *waits; /* text: each thread and what it waits for */
    struct why_location location; /* of the first thread */
    const char *other;            /* the second thread */
};

struct why_facts {
    uint64_t elapsed_ns;    /* of the goal */
    uint64_t t_max_wall_ns; /* length of the wall path: usually elapsed_ns */
    uint64_t quiet_ns;      /* length of the quiet path (why/facts.h) */
    uint64_t
        oversubscription_ns; /* run delay that its own threads then cause */
    uint64_t t_max_sched_ns, t_max_cpu_ns; /* UINT64_MAX: not computed */
    uint64_t total_cpu_ns;
    /* These add up to t_max_wall_ns. `before`: if the path starts in a command
     * that joined the run later, the time until that command started. */
    uint64_t path_cpu_ns, path_delay_ns, path_outside_ns, path_message_ns,
        path_other_ns, path_before_ns;
    uint64_t unended_ns; /* of the path: sleeps whose end left no arc */
    struct why_amount amount[WHY_KIND_COUNT]; /* not PROCEDURE: see below */
    struct why_amount one_by_one; /* SERIAL as well: children in sequence */
    const struct why_amount *procedure; /* [procedures] by gain if halved */
    size_t procedures;
    const struct why_phase *phase; /* [phases] at most WHY_PHASES */
    size_t phases;
    bool sampled, exact; /* how procedures were measured */
    uint64_t sample_ns;  /* CPU time between two samples; 0: no sampling */
    uint64_t sampled_ns; /* sampled part of path_cpu_ns */
    uint64_t top_ns;     /* time of the WHY_SPREAD_TOP largest procedures */
    uint32_t half_count; /* number of the largest procedures that together have
                            half of sampled_ns */
    uint64_t chatty_path_ns; /* path of processes with small messages */
    struct why_common common;
    struct why_hang hang;
    const char *run;         /* for commands */
    bool windowed;           /* all times but elapsed_ns are of this window: */
    uint64_t from_ns, to_ns; /* since the run started; to_ns 0: its end */
    uint32_t window_phase;   /* the window is this phase; 0: no phase */
    /* used to rate the confidence */
    uint64_t lost, unmatched, ambiguous, untraced, events;
    uint64_t lost_for_space; /* part of `lost`: the pool was full */
    uint64_t overhead_ns;    /* of the path: recording; UINT64_MAX: not known */
    uint64_t delay_unknown_ns;
    uint64_t clock_bound_ns; /* 0: one machine */
    uint64_t any_on_path;    /* order-dependent arcs on the path */
    bool open, missing_machines;
    uint32_t accepted; /* number of accepted connections */
    /* Messages received on them; those from unrecorded clients. */
    uint64_t asked, asked_outside;
};

/* ---- findings ------------------------------------------------------------ */

enum why_sure { WHY_LOW, WHY_FAIR, WHY_HIGH };
const char *why_sure_name(enum why_sure sure);

struct why_finding {
    enum why_kind kind;
    const char *text;     /* one sentence or two */
    const char *evidence; /* figures */
    const char *supposes; /* the assumption behind the gain */
    const char *command;  /* complete command that shows more */
    struct why_location location, wait_at;
    const char *other;
    uint64_t ns, gain_ns, bound_ns;
    uint32_t gain_ppm;       /* of the elapsed time */
    bool awaits_space;       /* LATE: slow to read, not to send */
    uint32_t phase;          /* PHASE: its number; else 0 */
    uint64_t from_ns, to_ns; /* PHASE: its window */
    enum why_sure sure;
    const char *sure_why; /* reason; "" if `sure` is high */
};
struct why_findings {
    struct why_finding finding[WHY_TOP];
    size_t count;
    struct why_finding nearest; /* largest gain too small for a finding */
    bool has_nearest;
    size_t left_out;    /* number of findings beyond WHY_TOP */
    enum why_sure sure; /* of the answer as a whole */
    const char *sure_why;
    bool service;           /* the program is a service, not a batch program */
    const char *shape_text; /* which question was answered, and why */
};

/* Whether the program serves clients that are not part of the run. Such a
 * program runs until it is stopped, so a breakdown of its elapsed time is not
 * meaningful. Reads only `asked` and `asked_outside`. */
bool why_serves(const struct why_facts *f);

/* False: no memory (a->failed). */
bool why_find(const struct why_facts *f, struct arena *a,
              struct why_findings *out);

/* why/finding_text.c: sets the texts of a finding from its numbers. */
void why_say(const struct why_facts *f, struct arena *a, struct why_finding *x,
             const struct why_amount *amount);
/* Confidence of one finding, or (x NULL) of the answer; *because: reason. */
enum why_sure why_how_sure(const struct why_facts *f, struct arena *a,
                           const struct why_finding *x,
                           const struct why_amount *amount,
                           const char **because);
/* "1.23 s" */
const char *why_ns(struct arena *a, uint64_t ns);
/* Arguments for commands: the run and, if there is one, the window. */
const char *why_run_and_window(const struct why_facts *f, struct arena *a);
/* "phase 2, 1.20 s to 3.00 s since the run began" */
const char *why_window_text(const struct why_facts *f, struct arena *a);
/* `text` quoted for a shell */
const char *why_quoted(struct arena *a, const char *text);
/* What the run would have taken without other programs on its machines. Shares
 * and gains are relative to it. */
uint64_t why_own_ns(const struct why_facts *f);
/* ns / whole in ppm, at most a million. */
uint32_t why_ppm(uint64_t ns, uint64_t whole);

#endif
