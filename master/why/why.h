/*
 * Guidance: from facts about a run a short ranked list of what its elapsed time
 * goes to and what would help, in plain words. Pure: facts in, findings out; no
 * graph, no clock, no I/O. why/query.c gathers the facts, why/solve.c computes
 * them from the graph; docs/why.md has every rule with its reason.
 *
 *  - A finding is only said with its evidence: a gain that the what-if of the
 *    wall path confirms, at least WHY_LEAST_PPM of the elapsed time.
 *  - The list is ranked by gain; of equal gains the kind that says more about
 *    the cause stands first (enum order).
 *  - A procedure that a stronger finding names as its place is not said twice.
 *  - Nothing found is an answer: `why_findings.count` 0, and what came nearest.
 *
 * Texts live in the arena or are borrowed from the facts. Units: ns, ppm.
 * Source: IPS-17; ALGORITHMS 4.
 */
#ifndef IPS_MASTER_WHY_WHY_H
#define IPS_MASTER_WHY_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/base/arena.h"

/* In order of what a finding tells about the cause. */
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
#define WHY_LATE_RECEIVER "late-receiver" /* LATE, where `room` */

/* ---- thresholds; reasons in docs/why.md ---------------------------------- */

#define WHY_LEAST_PPM 50000u       /* of elapsed: gains below are not said */
#define WHY_TOP 10u                /* findings kept */
#define WHY_HOT_PPM 250000u        /* of the path, for one procedure */
#define WHY_HALF_PPM 500000u       /* "twice as fast" */
#define WHY_CHATTY_COUNT 200u      /* crossings of the path by one pair */
#define WHY_CHATTY_BYTES 4096u     /* mean; more is payload */
#define WHY_CHATTY_HOP_NS 100000u  /* of path per crossing; more is work */
#define WHY_UNEVEN_PPM 150000u     /* uneven work: what it gains */
#define WHY_CHATTY_PPM 250000u     /* of the path, what ten in one gain */
#define WHY_BATCH_PPM 900000u      /* ten messages in one */
#define WHY_SERIAL_CHILDREN 4u     /* alike, begun one after another */
#define WHY_SERIAL_PPM 800000u     /* of their path nobody else is at work */
#define WHY_SPREAD_PPM 100000u     /* the greatest procedure has less */
#define WHY_SPREAD_TOP 10u         /* so many have together less than half */
#define WHY_SPREAD_CPU_PPM 500000u /* of the path is CPU time in procedures */
#define WHY_COMMON_PPM 500000u  /* of the sampled path, under one procedure */
#define WHY_REQUEST_NS 1000000u /* of path, one that is work in itself */
#define WHY_PHASES 3u           /* looked at */
#define WHY_PHASE_PPM 400000u   /* of the path, a phase that dominates */
#define WHY_PHASE_REST_PPM 100000u /* and those with more cores busy */
#define WHY_PHASE_BUSY_PPM 666667u /* of their busy cores, at most */
#define WHY_NAMED_PPM 600000u /* of a procedure's path that a finding names */
#define WHY_LOCK_PROOF_PPM 100000u /* of a place's lock code: contended */
#define WHY_LOCK_PROOF 3u          /* samples of that */
#define WHY_LOCK_ARC_PPM 50000u    /* of an arc, locks inside the library */
#define WHY_SURE_SAMPLES 30u
#define WHY_SURE_NS 100000000u      /* elapsed */
#define WHY_OVERHEAD_PPM 100000u    /* of the path without it, recording */
#define WHY_UNEXPLAINED_PPM 250000u /* of the path */
#define WHY_SERVICE_IDLE_PPM 250000u
#define WHY_SERVICE_ASKED 100u        /* by who is not traced, and */
#define WHY_SERVICE_ASKED_PPM 500000u /* so much of what it was asked */

/* ---- facts --------------------------------------------------------------- */

struct why_location {   /* borrowed; NULL or "" where it is not known */
    const char *object; /* "/m1/a.3" */
    const char *procedure, *module, *file;
    uint32_t source_line;
    uint64_t procedure_ns; /* of `ns` below, in that procedure */
};

/* Something on the path that might be mended. All zero: it is not there. */
struct why_amount {
    uint64_t ns;                  /* of the path */
    uint64_t gain_ns;             /* what-if, as the kind supposes */
    uint64_t bound_ns;            /* it cannot gain more */
    struct why_location location; /* who does it */
    const char *other;       /* who waits for it; the messages' other end; what
                                is waited for */
    uint64_t other_ns;       /* waited, by all of them together */
    uint64_t count, bytes;   /* waits, messages */
    uint64_t samples;        /* that `ns` rests on, 0: no sampling */
    uint64_t named_ns;       /* of `ns`, what other findings name as theirs */
    uint32_t threads, cores; /* at most busy at once; that there are */
    struct why_location wait_at; /* where they wait for it, most of the time */
    const char *cause;           /* of waits there, as `ipsq waits` names it */
    bool awaits_space;           /* LATE: the other waits for room to send */
    bool chatty;                 /* of those that small messages go between */
    bool call;      /* a procedure that moves messages, as write() */
    bool yields;    /* a procedure that calls sched_yield(): this is its time */
    bool lock_code; /* a procedure of the C library that takes or gives
                       contended locks, most of the time */
    const struct why_lock_cost *lock; /* LOCK: NULL: nothing is known */
    const struct why_phase *phase;    /* PHASE: which */
    uint64_t phase_ns[WHY_PHASES]; /* a procedure: of `ns`, in each of them */
};

/* CPU time in the C library's procedures that take and give contended locks
 * (why/lock_cost.c). */
struct why_lock_cost {
    uint64_t ns, samples; /* of the path; that it rests on */
    uint64_t unknown_ns; /* of the wall path: off the CPU in arcs that have most
                            of it, with a lock inside the C library */
    bool library;        /* most is of a lock inside the C library: */
    struct why_location site;   /* that takes it; the library's own function */
    struct why_location caller; /* of that; else the same */
    struct why_location giver;  /* that gives back locks that are waited for */
};

/* A phase in which fewer cores are busy than in others. */
struct why_phase {
    struct why_amount amount; /* of the path; `phase` is this one */
    uint32_t number, phases;  /* as `ipsq phases` counts; how many there are */
    uint64_t from_ns, to_ns;  /* since the run began */
    uint64_t busy_ppm;        /* CPU time over path, a million is one core */
    uint64_t others_ppm;      /* of those with more, at most the cores */
    uint64_t others_ns;       /* their path */
    uint64_t outside_ns;      /* of its path */
    uint64_t named_ns[WHY_KIND_COUNT]; /* of its path, by other findings */
};

/* What the sampled part of the path has in common (why/callers.c). */
struct why_common {
    struct why_location location;
    uint64_t ns;              /* of the path, with what it called; 0: nothing */
    uint64_t low_ns, high_ns; /* 95% interval */
    uint64_t of_ns;           /* sampled, of the path */
    struct why_amount amount; /* with what it calls, at the process with most;
                                 zero where nobody asks that one */
};

/* Threads that wait without end (why/hang.c). */
struct why_hang {
    uint64_t ns, since_ns; /* how long; 0: none. Since the run began */
    uint32_t threads;
    bool circle;       /* each for the next; else all that there are wait */
    bool alive;        /* they still do */
    const char *waits; /* one by one, in words */
    struct why_location location; /* of the first of them */
    const char *other;            /* the next one */
};

struct why_facts {
    uint64_t elapsed_ns;    /* of the goal */
    uint64_t t_max_wall_ns; /* the path's length: the same, as a rule */
    uint64_t quiet_ns;      /* with a core for each thread, and all of it */
    uint64_t
        oversubscription_ns; /* and what its own threads then crowd the cores */
    uint64_t t_max_sched_ns, t_max_cpu_ns; /* UINT64_MAX: not computed */
    uint64_t total_cpu_ns;
    /* They add up to t_max_wall_ns; `before`: until a command that was joined
     * to the run began, which the path begins with. */
    uint64_t path_cpu_ns, path_delay_ns, path_outside_ns, path_message_ns,
        path_other_ns, path_before_ns;
    uint64_t unended_ns; /* of the path: slept for what left no arc */
    struct why_amount amount[WHY_KIND_COUNT]; /* PROCEDURE: below */
    struct why_amount one_by_one; /* SERIAL, too: one child after another */
    const struct why_amount *procedure; /* [procedures] by gain if halved */
    size_t procedures;
    const struct why_phase *phase; /* [phases] at most WHY_PHASES */
    size_t phases;
    bool sampled, exact; /* what is known of procedures */
    uint64_t sample_ns;  /* CPU time between two samples, 0: none were taken */
    uint64_t sampled_ns; /* of path_cpu_ns */
    uint64_t top_ns;     /* of the WHY_SPREAD_TOP greatest procedures */
    uint32_t half_count; /* procedures that have half of sampled_ns */
    uint64_t chatty_path_ns; /* of the path, of those that chat */
    struct why_common common;
    struct why_hang hang;
    const char *run;         /* for commands */
    bool windowed;           /* all times but elapsed_ns are of a window: */
    uint64_t from_ns, to_ns; /* since the run began; to_ns 0: its end */
    uint32_t window_phase;   /* which is this phase; 0: none */
    /* for how sure */
    uint64_t lost, unmatched, ambiguous, untraced, events;
    uint64_t lost_for_space; /* of lost: there was no room for them */
    uint64_t overhead_ns;    /* of the path: recording; UINT64_MAX: not known */
    uint64_t delay_unknown_ns;
    uint64_t clock_bound_ns; /* 0: one machine */
    uint64_t any_on_path;
    bool open, missing_machines;
    uint32_t accepted; /* connections that somebody accepted */
    /* Messages that came by these; of them by clients that are not traced. */
    uint64_t asked, asked_outside;
};

/* ---- findings ------------------------------------------------------------ */

enum why_sure { WHY_LOW, WHY_FAIR, WHY_HIGH };
const char *why_sure_name(enum why_sure sure);

struct why_finding {
    enum why_kind kind;
    const char *text;     /* one sentence or two */
    const char *evidence; /* figures */
    const char *supposes; /* what the gain supposes */
    const char *command;  /* shows more; works as it stands */
    struct why_location location, wait_at;
    const char *other;
    uint64_t ns, gain_ns, bound_ns;
    uint32_t gain_ppm;       /* of the elapsed time */
    bool awaits_space;       /* LATE: to read, not to send */
    uint32_t phase;          /* 0: none */
    uint64_t from_ns, to_ns; /* its window */
    enum why_sure sure;
    const char *sure_why; /* "" where it is high */
};
struct why_findings {
    struct why_finding finding[WHY_TOP];
    size_t count;
    struct why_finding nearest; /* the greatest gain that was not said */
    bool has_nearest;
    size_t left_out;    /* found, but beyond WHY_TOP */
    enum why_sure sure; /* of the answer as a whole */
    const char *sure_why;
    bool service;           /* the program's shape */
    const char *shape_text; /* what was answered, and why */
};

/* Is it run for clients that are no part of the run? Then it ends when it is
 * told to, and what its elapsed time went to says nothing. Of facts `asked` and
 * `asked_outside` alone. */
bool why_serves(const struct why_facts *f);

/* False: no memory (a->failed). */
bool why_find(const struct why_facts *f, struct arena *a,
              struct why_findings *out);

/* why/finding_text.c: the words of a finding whose numbers are set. */
void why_say(const struct why_facts *f, struct arena *a, struct why_finding *x,
             const struct why_amount *amount);
/* How sure one finding is, or (x NULL) the answer as a whole. */
enum why_sure why_how_sure(const struct why_facts *f, struct arena *a,
                           const struct why_finding *x,
                           const struct why_amount *amount,
                           const char **because);
/* "1.23 s" */
const char *why_ns(struct arena *a, uint64_t ns);
/* As commands name it: what they tell is of the same window. */
const char *why_run_and_window(const struct why_facts *f, struct arena *a);
/* "phase 2, 1.20 s to 3.00 s since the run began" */
const char *why_window_text(const struct why_facts *f, struct arena *a);
/* 'as a shell takes it' */
const char *why_quoted(struct arena *a, const char *text);
/* What the run would have taken with its machines to itself: shares are of it.
 */
uint64_t why_own_ns(const struct why_facts *f);
/* ns of the whole in millionths, at most a million. */
uint32_t why_ppm(uint64_t ns, uint64_t whole);

#endif
