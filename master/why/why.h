/*
 * Turns the facts about a run into a short ranked list, in plain words, that
 * says where its elapsed time goes and what would help. Pure: no graph, no
 * clock, no I/O. why/query.c gathers the data, why/solve.c computes the facts
 * from the graph; docs/why.md has every rule with its reason.
 *
 *  - A finding needs evidence: a gain, confirmed by a what-if, of at least
 *    WHY_LEAST_PPM of the time that the run would have taken without other
 *    programs (why_time_without_other_programs_ns()).
 *  - The list is ranked by gain. Findings of equal gain are in the order of the
 *    enum: the kind that says more about the cause comes first.
 *  - A procedure that another finding names as its location gets no finding.
 *  - An empty list (`why_findings.count` 0) is an answer, too; `nearest` is
 *    then the finding that came closest.
 *
 * Texts are in the arena or borrowed from the facts. Units: ns, ppm. Source:
 * IPS-17; ALGORITHMS 4.
 */
#ifndef IPS_MASTER_WHY_WHY_H
#define IPS_MASTER_WHY_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/base/arena.h"

/* Kinds of findings; those that say most about the cause come first. */
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

/* least gain of a finding, in ppm of the ideal time
 * (why_time_without_other_programs_ns) */
#define WHY_LEAST_PPM 50000u
#define WHY_TOP 10u /* greatest number of findings */
/* PROCEDURE: least share of the path that the procedure takes */
#define WHY_HOT_PPM 250000u
#define WHY_HALF_PPM 500000u /* what-if "twice as fast" */
/* CHATTY: least number of messages on the path between two processes */
#define WHY_CHATTY_COUNT 200u
/* CHATTY: most bytes of a mean message; larger ones are payload */
#define WHY_CHATTY_BYTES 4096u
/* CHATTY: most time of the path per message; a longer time is work */
#define WHY_CHATTY_HOP_NS 100000u
#define WHY_UNEVEN_PPM 150000u /* IMBALANCE: least gain */
#define WHY_CHATTY_PPM 150000u /* CHATTY: least gain */
#define WHY_BATCH_PPM 900000u  /* what-if "ten messages in one" */
/* SERIAL: least number of similar children that run one after another */
#define WHY_SERIAL_CHILDREN 4u
/* SERIAL: least part of the children's path in which no other thread works */
#define WHY_SERIAL_PPM 800000u
/* SPREAD: the largest procedure has less than this share of the path */
#define WHY_SPREAD_PPM 100000u
/* SPREAD: this many procedures together have less than half of the sampled path
 */
#define WHY_SPREAD_TOP 10u
/* SPREAD: least share of the path that samples attribute to procedures */
#define WHY_SPREAD_CPU_PPM 500000u
/* common caller: least share of the sampled path in the caller and its
 * callees */
#define WHY_COMMON_PPM 500000u
/* common caller: least time of the path per request */
#define WHY_REQUEST_NS 1000000u
#define WHY_PHASES 3u         /* greatest number of phases that are examined */
#define WHY_PHASE_PPM 400000u /* PHASE: least share of the path */
/* PHASE: least share of the path in phases with more busy cores */
#define WHY_PHASE_REST_PPM 100000u
/* PHASE: greatest number of busy cores of the phase, relative to the phases
 * with more */
#define WHY_PHASE_BUSY_PPM 666667u
/* A cause counts as explained if other findings explain this share of it. */
#define WHY_NAMED_PPM 600000u
/* Gains that differ by at most 1/WHY_SAME_PARTS count as equal. */
#define WHY_SAME_PARTS 20u
/* LOCK: least share of the samples of a lock site (a procedure that takes or
 * releases locks) that must show contention */
#define WHY_LOCK_PROOF_PPM 100000u
/* LOCK: least number of samples of a lock site that must show contention */
#define WHY_LOCK_PROOF 3u
/* LOCK: least share of an arc's time in locks of the C library */
#define WHY_LOCK_ARC_PPM 50000u
/* confidence is low below this number of samples */
#define WHY_SURE_SAMPLES 30u
/* confidence is low for shorter runs and windows */
#define WHY_SURE_NS 100000000u
/* confidence is lower if recording made the path longer by more than this */
#define WHY_OVERHEAD_PPM 100000u
/* confidence is lower if this share of the path is unattributed */
#define WHY_UNEXPLAINED_PPM 250000u
/* A program that accepted connections and waited for unrecorded causes for this
 * share of the path looks like a service. */
#define WHY_SERVICE_IDLE_PPM 250000u
/* A service has at least this many requests from unrecorded clients. */
#define WHY_SERVICE_ASKED 100u
/* A service has at least this share of its requests from unrecorded clients. */
#define WHY_SERVICE_ASKED_PPM 500000u

/* ---- facts --------------------------------------------------------------- */

struct why_location {   /* borrowed texts; NULL or "": not known */
    const char *object; /* "/m1/a.3" */
    const char *procedure, *module, *file;
    uint32_t source_line;
    uint64_t procedure_ns; /* how much of why_amount.ns is in `procedure` */
};

/* A part of the path that could be improved, for one kind of finding. All zero:
 * the run has no such part. */
struct why_amount {
    uint64_t ns; /* its time on the path */
    /* gain, by the what-if for this kind of finding */
    uint64_t gain_ns;
    uint64_t bound_ns;            /* upper limit of the gain */
    struct why_location location; /* the cause: process and procedure */
    /* OUTSIDE, BUSY: share of the waits that is that process's; 0: not known */
    uint32_t object_ppm;
    /* the process that waits for the one in `location`; or the other end of the
     * messages; or the cause of the waits */
    const char *other;
    uint64_t other_ns; /* sum of the waits of `other` */
    /* number of waits or messages; bytes of messages */
    uint64_t count, bytes;
    uint64_t samples;  /* number of samples behind `ns`; 0: none */
    uint64_t named_ns; /* part of `ns` that other findings explain */
    /* most threads busy at once on one machine; that machine's cores */
    uint32_t threads, cores;
    struct why_location wait_at; /* call site of most of the waits */
    /* cause of the waits at wait_at, as `ipsq waits` names it */
    const char *cause;
    bool awaits_space; /* LATE: `other` waits for buffer space to send */
    /* LATE: `other` waits for threads other than the busy one */
    bool awaits_others;
    /* IMBALANCE: the two threads belong to one process, and the busy one lets
     * the other continue, as a consumer does for a producer */
    bool hands_on;
    /* OUTSIDE: other threads of the process compute during most of the waits */
    bool computes_meanwhile;
    bool chatty; /* TRANSIT: the two processes exchange small messages */
    bool call;   /* the procedure moves messages, like write() */
    /* the procedure calls sched_yield(), in which the time was spent */
    bool yields;
    /* the procedure only reads memory until another thread changes it */
    bool reads_memory;
    /* the procedure belongs to the C library and spends most of its time taking
     * or releasing contended locks */
    bool lock_code;
    /* LOCK: CPU time for contended locks; NULL: not known */
    const struct why_lock_cost *lock;
    /* PHASE: the phase that the finding reports */
    const struct why_phase *phase;
    /* a procedure's time on the path in each phase */
    uint64_t phase_ns[WHY_PHASES];
};

/* CPU time in the C library's procedures that take and release contended locks
 * (why/lock_cost.c). */
struct why_lock_cost {
    /* CPU time on the path, and the number of samples behind it */
    uint64_t ns, samples;
    /* If `library`: time of the wall path off the CPU for no known reason, in
     * arcs that spend at least WHY_LOCK_ARC_PPM on such locks, as far as
     * another thread may have held the lock. */
    uint64_t unknown_ns;
    bool library; /* most of `ns` is for a lock inside the C library */
    /* procedure that takes the lock; if `library`: the library's function that
     * was called */
    struct why_location site;
    struct why_location caller; /* caller of `site`; else the same as `site` */
    /* procedure that releases locks which others wait for */
    struct why_location giver;
};

/* A phase in which fewer cores are busy than in other phases. */
struct why_phase {
    /* the phase's part of the path; amount.phase is this phase */
    struct why_amount amount;
    /* number of this phase in `ipsq phases`; number of phases */
    uint32_t number, phases;
    uint64_t from_ns, to_ns; /* since the run started */
    /* CPU time divided by time on the path: the number of busy cores, in
     * millionths */
    uint64_t busy_ppm;
    /* busy cores, in millionths, of the phases in which more are busy; at most
     * the number of cores */
    uint64_t others_ppm;
    /* time of the path in phases with more busy cores */
    uint64_t others_ns;
    /* time of the phase's path in waits for unrecorded causes */
    uint64_t outside_ns;
    /* part of the phase's path that findings of each kind explain */
    uint64_t named_ns[WHY_KIND_COUNT];
};

/* The procedure that calls, directly or not, most of the sampled path
 * (why/callers.c). */
struct why_common {
    struct why_location location;
    /* time on the path of the caller and its callees; 0: there is none */
    uint64_t ns;
    uint64_t low_ns, high_ns; /* 95% interval of `ns` */
    /* the sampled part of the path; `ns` is a part of it */
    uint64_t of_ns;
    /* the caller with its callees, in the process with the most time; zero if
     * that process receives no requests */
    struct why_amount amount;
};

/* Threads that wait without end (why/hang.c). */
struct why_hang {
    uint64_t ns, since_ns; /* duration (0: no hang), and its start since the run
                              started */
    uint32_t threads;
    bool circle;       /* true: a cycle, each thread waits for the next; false:
                          no cycle, but every thread that exists waits */
    bool alive;        /* the threads still wait */
    const char *waits; /* text: names each thread and what it waits for */
    struct why_location location; /* location of the first thread */
    const char *other;            /* name of the second thread */
};

struct why_facts {
    uint64_t elapsed_ns;    /* elapsed time of the goal */
    uint64_t t_max_wall_ns; /* length of the wall path: usually elapsed_ns */
    uint64_t quiet_ns;      /* length of the quiet path (why/facts.h) */
    /* run delay that the program's own threads cause on an idle machine */
    uint64_t oversubscription_ns;
    uint64_t t_max_sched_ns, t_max_cpu_ns; /* UINT64_MAX: not computed */
    uint64_t total_cpu_ns;
    /* These times add up to t_max_wall_ns. path_before_ns: if the path starts
     * in a command that joined the run later, the time until that command
     * started. */
    uint64_t path_cpu_ns, path_delay_ns, path_outside_ns, path_message_ns,
        path_other_ns, path_before_ns;
    uint64_t unended_ns; /* sleep on the path whose end no arc explains */
    /* the amount for each kind of finding; for PROCEDURE see `procedure` */
    struct why_amount amount[WHY_KIND_COUNT];
    /* also for SERIAL: children that a process runs one after another */
    struct why_amount one_by_one;
    /* [procedures] sorted by the gain if the procedure took half as long */
    const struct why_amount *procedure;
    size_t procedures;
    /* [phases] the examined phases, at most WHY_PHASES */
    const struct why_phase *phase;
    size_t phases;
    /* whether procedures were measured; whether they were measured exactly, not
     * by samples */
    bool sampled, exact;
    uint64_t sample_ns;  /* CPU time between two samples; 0: no sampling */
    uint64_t sampled_ns; /* sampled part of path_cpu_ns */
    uint64_t top_ns;     /* time of the WHY_SPREAD_TOP largest procedures */
    uint32_t half_count; /* number of the largest procedures that together have
                            half of sampled_ns */
    /* time of the path in processes that exchange small messages */
    uint64_t chatty_path_ns;
    struct why_common common;
    /* the procedure in which a thread spends the most time reading memory until
     * it changes, on the path or not; ns is at most t_max_wall_ns; 0: none */
    struct why_amount spinning;
    struct why_hang hang;
    const char *run; /* name of the run, for commands */
    bool windowed;   /* true: all times but elapsed_ns are restricted to the
                        window from_ns..to_ns */
    uint64_t from_ns, to_ns; /* the window, since the run started; to_ns 0: the
                                end of the run */
    uint32_t window_phase;   /* the window is this phase; 0: no phase */
    /* used to rate the confidence */
    uint64_t lost, untraced, events;
    uint64_t lost_for_space; /* part of `lost`: the pool was full */
    /* CPU time of recording on the path; UINT64_MAX: not known */
    uint64_t overhead_ns;
    uint64_t delay_unknown_ns;
    /* greatest known error of the machines' aligned clocks; 0: one machine */
    uint64_t clock_bound_ns;
    bool open, missing_machines;
    uint32_t accepted; /* number of accepted connections */
    /* Number of messages received on accepted connections; number of those that
     * came from unrecorded clients. */
    uint64_t asked, asked_outside;
};

/* ---- findings ------------------------------------------------------------ */

enum why_confidence { WHY_LOW, WHY_FAIR, WHY_HIGH };
const char *why_confidence_name(enum why_confidence sure);

struct why_finding {
    enum why_kind kind;
    const char *text;     /* one or two sentences */
    const char *evidence; /* the figures that support it */
    const char *supposes; /* the assumption behind the gain */
    const char *command;  /* complete command that shows more */
    struct why_location location, wait_at;
    const char *other;
    uint64_t ns, gain_ns, bound_ns;
    uint32_t gain_ppm; /* gain in ppm of t_max_wall_ns */
    bool awaits_space; /* LATE: the process is slow to read, not slow to send */
    uint32_t phase;    /* PHASE: number of the phase; else 0 */
    /* PHASE: its begin and end, since the run started */
    uint64_t from_ns, to_ns;
    enum why_confidence sure;
    const char *sure_why; /* reason for the confidence; "" if `sure` is high */
};
struct why_findings {
    struct why_finding finding[WHY_TOP];
    size_t count;
    /* the finding with the largest gain among those left out because their gain
     * is too small */
    struct why_finding nearest;
    bool has_nearest;
    size_t left_out;          /* number of findings beyond WHY_TOP */
    enum why_confidence sure; /* confidence in the answer as a whole */
    const char *sure_why;
    bool service; /* the program is a service, not a batch program */
    /* text: which question was answered, such as turnaround, and why */
    const char *shape_text;
};

/* Returns `ns`, but in a window at most the length of its path: at the window's
 * borders the placement of an arc's CPU time is approximate, so that a sum may
 * come out a little longer. For a whole run a longer sum is an error, which
 * self_check_why() reports. */
uint64_t why_limit_ns_to_path_in_window(const struct why_facts *f, uint64_t ns);

/* Whether the program serves clients that are not part of the run. Such a
 * program runs until it is stopped, so a breakdown of its elapsed time is not
 * meaningful. Reads only `asked` and `asked_outside`. */
bool why_is_service(const struct why_facts *f);

/* Applies all rules and fills *out. False: no memory (a->failed). */
bool why_apply_rules(const struct why_facts *f, struct arena *a,
                     struct why_findings *out);

/* why/finding_text.c: sets the texts of a finding from its numbers. */
void why_write_texts_of_one_finding(const struct why_facts *f, struct arena *a,
                                    struct why_finding *x,
                                    const struct why_amount *amount);
/* Returns the confidence in a finding, or in the whole answer if x is NULL.
 * Sets *because to the reason. */
enum why_confidence why_rate_confidence(const struct why_facts *f,
                                        struct arena *a,
                                        const struct why_finding *x,
                                        const struct why_amount *amount,
                                        const char **because);
/* Returns a text such as "1.23 s". */
const char *why_format_ns(struct arena *a, uint64_t ns);
/* Returns arguments for commands: the run and, if there is one, the window. */
const char *why_run_and_window_options(const struct why_facts *f,
                                       struct arena *a);
/* Returns a text such as "phase 2, 1.20 s to 3.00 s after the run's start". */
const char *why_window_text(const struct why_facts *f, struct arena *a);
/* Returns `text` quoted for a shell. */
const char *why_quote_for_shell(struct arena *a, const char *text);
/* Returns how long the run would have taken without other programs on its
 * machines. Shares and gains are relative to it. */
uint64_t why_time_without_other_programs_ns(const struct why_facts *f);
/* Returns ns / whole in ppm, at most a million. */
uint32_t why_share_ppm(uint64_t ns, uint64_t whole);

#endif
