/*
 * What a run would do on other machines: the whole graph is gathered once
 * (`struct predict_run`), a question becomes a setup (machines, who is where,
 * message times), and a replay answers it (analysis/replay/replay.h). Many
 * setups may be replayed on one run. Pure but for the question's message; in
 * the worker.
 *
 * What takes no CPU is replayed as it was recorded: waits for replies of what
 * nobody traced, disks and sleeps take their elapsed time after what began
 * them; so do unasked requests (IDLE), unless the question says otherwise: the
 * scenario of the replay has IPS_EXTERNAL_ALL where that of the path figures
 * (t_max, P_max) has IPS_EXTERNAL_REPLY. A timed wait that ran out counts as
 * long as what follows it was the thread's own doing; where a wait for a traced
 * cause follows, that is what was waited for all along, and its arc says when
 * it comes. The delay between a wake-up and running is no part of a wait: the
 * replay makes its own.
 *
 * A speed is that of one core in units of the cores that were measured.
 * Source: DPM-6, DPM-7, DPM-9, DPM-10; DRO-5.
 */
#ifndef IPS_MASTER_PREDICT_PREDICT_H
#define IPS_MASTER_PREDICT_PREDICT_H

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "master/base/arena.h"
#include "master/base/mtimes_wire.h"
#include "master/path/entities.h"
#include "proto/message.h"

#define PREDICT_NOWHERE UINT32_MAX /* a machine: several, or none */
#define PREDICT_HELD_NS                                                        \
    30000000u /* the least that TCP waits: 40 ms less a tick of 10 ms */
#define PREDICT_HELD_MOST 210000000u
#define PREDICT_HELD_BYTES 65536u
#define PREDICT_ASSUMED_MAX 64u
#define PREDICT_MOVES_MAX 1000u

/* ---- the run -------------------------------------------------------------
 */

struct predict_own { /* a machine of the run */
    const char *name;
    uint32_t cores;    /* as recorded; 0 not known */
    uint64_t delay_ns; /* threads were able to run, without a core */
    /* Of others, by the load average while the run was on; in thousandths. */
    uint64_t load_samples, load_milli; /* samples 0: not recorded */
};
struct predict_thread { /* of a chain; names borrowed */
    const char *process, *name;
    uint32_t own; /* its machine */
    uint32_t pid, tid;
};
struct predict_cut { /* a thread moves from that arc on */
    uint32_t node;   /* of replay.g */
    uint32_t which;  /* of the question's moves */
};
struct predict_run {
    const struct ips_graph *whole; /* of all machines, weighting cpu; borrowed*/
    const struct entities *t;      /* of `whole`; borrowed */
    struct ips_replay_graph replay; /* what is replayed: `chain` is of both */
    struct ips_scenario scenario;   /* of t_max and P_max; goal in replay.g */
    struct ips_scenario scenario_then; /* of the replay */
    struct predict_own *own;           /* [own_count] as chains' `machine` */
    uint32_t own_count;
    struct predict_thread *thread; /* [chain_count] */
    uint32_t command;              /* END of the run's command in replay.g, or
                                      IPS_NO_NODE */
    struct predict_cut *cut;       /* of the question's moves; by node */
    size_t cut_count;
    struct ips_replay_locks locks; /* settled anew; its arrays: */
    uint32_t *lock_units;
    struct ips_replay_lock_event *lock_event;
    uint64_t *lock_at_ns; /* [replay.g.node_count] of those that take or give,
                             by the machine's clock; NULL: no locks */
    bool all_locks;       /* every taking is known (ipsrun --locks=all) */
    struct ips_queues queues; /* of replay.g */
    /* Of a run whose queues were settled: where it comes from, and the nodes of
     * its replay.g there, and of the nodes there the ones here; else NULL. */
    const struct predict_run *recorded;
    const uint32_t *recorded_of, *recorded_to;
    const struct mtimes *times; /* measured; NULL: the scenario's; borrowed */
    uint64_t idle_ns; /* timed waits that ran out, of all threads: replayed */
    uint64_t
        held_back_ns; /* messages that TCP held back (predict/lock_holds.c) */
    uint64_t held_back_count;
    uint8_t *slept;  /* [replay.g.node_count] a message comes, and it was slept
                        for; NULL: not known */
    bool outside;    /* some arc is of what is not traced, or idle */
    uint64_t off_ns; /* neither running, runnable nor waiting: left out */
};
void predict_run_release(struct predict_run *run);
/* Those that are settled anew, or NULL. */
static inline const struct ips_replay_locks *
predict_locks(const struct predict_run *run)
{
    return run->locks.event_count && !run->scenario_then.order_dependent_off
               ? &run->locks
               : NULL;
}

/* A run in the order that its queues have in a setup. It borrows what the order
 * does not concern of the run that it was made of. */
struct predict_queued {
    struct predict_run run;
    bool is_stable; /* else all is empty, and the order stays as recorded */
    uint64_t pieces, anew; /* given in turns or taken under locks; of them,
                              those that another worker does now */
    struct ips_queued_graph made;
    uint32_t *node_of, *node_to;
    uint8_t *node_made;
    struct ips_replay_lock_event *lock_event;
};
/* run->queues; `of_chain` as ips_order_dependent has it. */
int predict_queues_make(struct predict_run *run, const uint32_t *of_chain,
                        struct ips_err *err) IPS_MUST_USE;
static inline bool predict_has_queues(const struct predict_run *run)
{
    return run->queues.queue_count || run->queues.lock_queues.lock_queue_count;
}
/* With `ask` but for its order. Where the queues alone would hold up what waits
 * for something else, nothing is settled. */
int predict_queues_iterate(const struct predict_run *run,
                           const struct ips_replay_ask *ask,
                           struct predict_queued *out,
                           struct ips_err *err) IPS_MUST_USE;
void predict_queued_release(struct predict_queued *q);

/* ---- a setup -------------------------------------------------------------
 */

/* Threads and load take turns of a processor: what a thread had of it, on
 * average, from the end of one turn of a load to the next, on Linux 6.18
 * (EEVDF, base slice 1.4 ms, ticks of 4 ms); docs/papers.md has the figures. */
#define PREDICT_TURN_NS 2600000u

struct predict_machine {
    const char *name; /* borrowed */
    struct ips_replay_machine is;
    struct ips_ratio load;  /* of every core's cycles; den 0: none */
    bool recorded;          /* a machine of the run */
    bool named;             /* by --machines */
    bool one_core, unknown; /* its cores were not given; not recorded either */
};
/* As the replay has it: what others take of the cycles makes it slower. */
struct ips_replay_machine predict_replayed(const struct predict_machine *m);
#define PREDICT_NAMES_BYTES 256
struct predict_setup {
    uint32_t machine_count;
    struct predict_machine *machine;
    uint32_t chain_count;
    uint32_t *map;           /* [chain_count] */
    bool *placed;            /* [chain_count] by --map */
    struct ips_mtime *mtime; /* [machine_count^2], or NULL: the scenario's */
    const struct ips_curve **curve; /* the same: instead of mtime's line, where
                                       not NULL; borrowed of run->times */
    struct ips_replay_move *move;   /* of the run's cuts */
    uint32_t move_count;
    /* [machine_count^2] the shared medium of a pair, or NULL: there is none */
    uint32_t *medium;
    uint32_t medium_count;
    const char **medium_name; /* [medium_count] borrowed */
    /* What messages take their media for, of pairs whose round trips tell it
     * (mtimes_wire.h): [machine_count^2], or NULL as `medium`. */
    struct mtime_wire *wire_made;
    const struct ips_curve **wire;
    uint64_t *burst_ns; /* [medium_count] the least of its pairs' */
    bool as_recorded;   /* queues keep their order */
    bool path;          /* also t_max, and where the time would go */
};
void predict_setup_release(struct predict_setup *s);
/* IPS_E_NOT_FOUND: `what` of "OPTION WHATREST" is no process, and which is
 * nearest. */
int predict_no_process(const struct predict_run *run, const char *option,
                       const char *what, const char *rest, struct ips_err *err);
/* "one, two": the machines that fit, as many as have room. False: none. */
bool predict_names(const struct predict_setup *s,
                   bool (*fits)(const struct predict_setup *s, uint32_t m),
                   char out[PREDICT_NAMES_BYTES]);

/* The machines that the run was measured on, each thread where it was. */
int predict_setup_own(const struct predict_run *run, struct predict_setup *out,
                      struct ips_err *err) IPS_MUST_USE;
/* Of the question: its machines beside the run's own, threads mapped. Unknown
 * machines, patterns that fit nothing and machines nobody is on are IPS_E_USAGE
 * or IPS_E_NOT_FOUND. What was not said, and what is taken instead, goes as
 * text to `assumed` (in arena a). */
struct predict_said {
    struct arena *a;
    char **text;
    size_t count, cap;
};
void predict_say(struct predict_said *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int predict_setup_make(const struct predict_run *run,
                       const struct predict_setup *own, /* fitted */
                       const Ips__PredictAsk *ask, struct predict_said *said,
                       struct predict_setup *out,
                       struct ips_err *err) IPS_MUST_USE;

/* What others took of the run's own machines, as load: so much that the
 * replay's threads wait for cores as long as the kernels said they did
 * (`delay_ns`); within 1/100. Sets is.load of every machine of `own`. Some ten
 * replays. */
#define PREDICT_FIT_EVENTS                                                     \
    1000000u /* a longer replay is not tried so often                          \
              */
int predict_fit_loads(const struct predict_run *run, struct predict_setup *own,
                      struct ips_err *err) IPS_MUST_USE;

/* ---- the answer ----------------------------------------------------------
 */

struct predict_use {    /* of a machine */
    uint32_t threads;   /* that began there */
    uint64_t cpu_ns;    /* on its cores */
    uint64_t queued_ns; /* able to run without a core, summed over threads */
    uint64_t idle_ns;   /* no thread of the run was able to */
};
enum predict_row_kind {
    PREDICT_MACHINE,
    PREDICT_PROCESS,
    PREDICT_PROCEDURE,
    PREDICT_MESSAGE,
    PREDICT_EXTERNAL,
    PREDICT_IDLE, /* timed waits that ran out */
    PREDICT_ROW_KINDS
};
struct predict_row { /* of the path */
    enum predict_row_kind kind;
    uint32_t id;      /* machine of the setup; process or message feature;
                         procedure of things; IDLE: process feature */
    uint32_t machine; /* processes: where it is, or PREDICT_NOWHERE */
    uint64_t ns, queued_ns, count;
};
struct predict_answer {
    uint64_t makespan_ns; /* the latest END, or the goal */
    uint64_t command_ns;  /* IPS_UNMEASURED: not known */
    uint64_t cpu_ns, queued_ns;
    uint64_t events;
    /* Of who has a lock next (struct ips_replay). */
    uint64_t resources, units_taken;
    uint32_t kept_count;
    bool is_stable; /* queues' order; struct predict_queued */
    uint64_t pieces, anew;
    uint32_t cores;          /* of the machines that somebody is on */
    struct predict_use *use; /* [machine_count] */
    uint64_t last_ns;        /* when the last thread ended */
    uint64_t least_ns;       /* predict_least() */
    uint64_t *shared_ns;     /* [medium_count] some transfer was under way */
    double p, rho;
    /* with setup.path: */
    uint64_t t_max_ns;
    double p_path;
    struct predict_row *row; /* by kind, greatest first */
    size_t row_count;
};

/* O((V + E) log) and, with setup.path, about three times that. */
int predict_replay(const struct predict_run *run,
                   const struct predict_setup *setup,
                   struct predict_answer *out,
                   struct ips_err *err) IPS_MUST_USE;
void predict_answer_release(struct predict_answer *a);
/* CPU time of `work` ns at speed 1. */
uint64_t predict_at_speed(const struct predict_machine *m, uint64_t work);
/* predict/least.c: what the last thread cannot end before: the CPU time of any
 * thread, and that under any lock by the number of its units, at the speed of
 * the machines. Where some give a lock back that others took, not of that lock.
 * `locks` may be NULL. */
int predict_least(const struct predict_run *run,
                  const struct predict_setup *setup, const uint32_t *place,
                  const struct ips_replay_locks *locks, uint64_t *least_ns,
                  struct ips_err *err) IPS_MUST_USE;

/* Does thread t fit a pattern as of --map? */
bool predict_fits(const struct predict_run *run, const struct predict_thread *t,
                  const char *pattern);
/* predict/net.c: measured message times (their curves) between all machines
 * of the setup, in as far as anything like them was measured; what is assumed
 * goes to `said`, or nowhere where that is NULL. */
int predict_times(const struct predict_run *run, struct predict_said *said,
                  struct predict_setup *out, struct ips_err *err) IPS_MUST_USE;
/* And what the question says of message times and media. */
int predict_nets(const struct predict_run *run, const Ips__PredictAsk *ask,
                 struct predict_said *said, struct predict_setup *out,
                 struct ips_err *err) IPS_MUST_USE;
/* predict/cpu.c: what messages cost their ends where these are now, in the
 * weights of run->replay, once. `keep`: only says of how many it is not done;
 * for a search, whose bound holds for one graph. */
void predict_messages_cpu(struct predict_run *run,
                          const struct predict_setup *s, bool keep,
                          struct predict_said *said);
/* predict/path.c: rows of the longest path of the relabelled graph.
 * `place`: [nodes of replay.g] where each arc is, or NULL: as mapped. */
int predict_path(const struct predict_run *run,
                 const struct predict_setup *setup,
                 const struct ips_replay *replay, const uint32_t *place,
                 struct predict_answer *out, struct ips_err *err) IPS_MUST_USE;

#endif
