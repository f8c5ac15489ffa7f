/*
 * Predicts how a run would behave on other machines. The whole graph is
 * gathered once (`struct predict_run`). A question becomes a setup (machines,
 * the placement of threads, message times), and a replay answers it
 * (analysis/replay/replay.h). Many setups can be replayed on one run. Runs in
 * the worker; pure except for reading the question's message.
 *
 * Waits that use no CPU are replayed as recorded. Waits for replies of
 * unrecorded peers, for disks and for sleeps take their elapsed time after the
 * event that started them. So do unrequested messages (IDLE), unless the
 * question says otherwise: the replay's scenario has IPS_EXTERNAL_ALL, while
 * the path figures (t_max, P_max) use IPS_EXTERNAL_REPLY. A timed wait that
 * ran out takes its elapsed time if the thread then went on by itself. If a
 * wait for a recorded cause follows, the thread was waiting for that cause all
 * along, and its arc determines the end. The delay between a wake-up and
 * running is not part of a wait: the replay computes its own.
 *
 * A speed is that of one core, relative to the cores on which the run was
 * measured. Source: DPM-6, DPM-7, DPM-9, DPM-10; DRO-5.
 */
#ifndef IPS_MASTER_PREDICT_PREDICT_H
#define IPS_MASTER_PREDICT_PREDICT_H

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "master/base/arena.h"
#include "master/base/message_times_wire.h"
#include "master/path/entities.h"
#include "proto/message.h"

/* in place of a machine's index: several machines, or none */
#define PREDICT_NOWHERE UINT32_MAX
/* delayed_messages.c: a message counts as held back by TCP if it has at most
 * PREDICT_HELD_BYTES and took PREDICT_HELD_NS to PREDICT_HELD_MOST (ns) longer
 * than expected. */
#define PREDICT_HELD_NS                                                        \
    30000000u /* shortest delayed ACK of TCP, 40 ms, less a tick of 10 ms */
#define PREDICT_HELD_MOST 210000000u
#define PREDICT_HELD_BYTES 65536u
#define PREDICT_ASSUMED_MAX 64u
#define PREDICT_MOVES_MAX 1000u

/* ---- the run ---------------------------------------------------------- */

struct predict_recorded_machine { /* one machine of the recorded run */
    const char *name;
    uint32_t cores;    /* number of cores as recorded; 0: not known */
    uint64_t delay_ns; /* time ready to run without a core, over all threads */
    /* Load average while the run was on, without the run's own threads: number
     * of samples (0: not recorded), and average in thousandths. */
    uint64_t load_samples, load_milli;
};
struct predict_thread { /* the thread of a chain; names are borrowed */
    const char *process, *name;
    uint32_t own; /* index of its machine in predict_run.own */
    uint32_t pid, tid;
};
/* A thread runs on another machine from the arc into `node` on. */
struct predict_cut {
    uint32_t node;  /* a node of replay.g */
    uint32_t which; /* index in the question's moves */
};
struct predict_run {
    /* graph of all machines in weighting cpu; borrowed */
    const struct ips_graph *whole;
    const struct entities *t; /* the entities of `whole`; borrowed */
    /* the graph that is replayed; it has the same chains as `whole` */
    struct ips_replay_graph replay;
    /* scenario for t_max and P_max; its goal is a node of replay.g */
    struct ips_scenario scenario;
    struct ips_scenario scenario_then; /* scenario of the replay */
    /* [own_count], indexed by the chains' `machine` */
    struct predict_recorded_machine *own;
    uint32_t own_count;
    struct predict_thread *thread; /* [chain_count] the thread of each chain */
    /* END node of the run's command in replay.g, or IPS_NO_NODE */
    uint32_t command;
    struct predict_cut *cut; /* the question's moves, ordered by node */
    size_t cut_count;
    /* locks whose order the replay decides; it points to the next two arrays */
    struct ips_replay_locks locks;
    uint32_t *lock_units;
    struct ips_replay_lock_event *lock_event;
    /* [replay.g.node_count] time of nodes that take or release a lock, by
     * their machine's clock; NULL: no locks */
    uint64_t *lock_at_ns;
    /* every acquisition is recorded (ipsrun --locks=all) */
    bool all_locks;
    struct ips_queues queues; /* work queues of replay.g */
    /* If this run has reordered queues: the run from which it was made;
     * recorded_of gives for each node of this replay.g the node there,
     * recorded_to the reverse. Otherwise NULL. */
    const struct predict_run *recorded;
    const uint32_t *recorded_of, *recorded_to;
    /* measured message times; NULL: use the scenario's; borrowed */
    const struct message_times *times;
    uint64_t held_back_ns; /* delay of messages that TCP held back
                              (delayed_messages.c) */
    uint64_t held_back_count;
    /* [replay.g.node_count] whether the thread slept until the message into the
     * node came; NULL: not known */
    uint8_t *slept;
    bool outside;    /* some arc is IDLE or comes from something not recorded */
    uint64_t off_ns; /* time off the CPU for no known reason; not replayed */
};
void predict_run_release(struct predict_run *run);
/* Returns the locks whose order the replay decides, or NULL. */
static inline const struct ips_replay_locks *
predict_locks_to_replay(const struct predict_run *run)
{
    return run->locks.event_count && !run->scenario_then.order_dependent_off
               ? &run->locks
               : NULL;
}

/* A run with its work queues in the order that they get in a setup. It borrows
 * everything that does not depend on this order from the original run. */
struct predict_queued {
    struct predict_run run;
    /* whether the replay decided the order; false: the other members are empty,
     * and the order stays as recorded */
    bool is_stable;
    /* Number of pieces of work that a dispatcher hands out or that workers take
     * under a lock. `anew`: how many of them go to another worker than in the
     * recording. */
    uint64_t pieces, anew;
    struct ips_queued_graph made;
    uint32_t *node_of, *node_to;
    uint8_t *node_made;
    struct ips_replay_lock_event *lock_event;
};
/* Finds the run's work queues and sets run->queues. `of_chain`: for each thread
 * the kinds of order on which it depends, as in struct ips_order_dependence. */
int predict_find_queues(struct predict_run *run, const uint32_t *of_chain,
                        struct ips_err *err) IPS_MUST_USE;
static inline bool predict_has_queues(const struct predict_run *run)
{
    return run->queues.queue_count || run->queues.lock_queues.lock_queue_count;
}
/* Replays once with `ask`, letting the queues choose their order, and makes
 * the run in that order. If this replay stalls, because threads also wait for
 * something other than the queues, the recorded order is kept. */
int predict_reorder_queues_by_replay(const struct predict_run *run,
                                     const struct ips_replay_ask *ask,
                                     struct predict_queued *out,
                                     struct ips_err *err) IPS_MUST_USE;
void predict_queued_graph_release(struct predict_queued *q);

/* ---- a setup ---------------------------------------------------------- */

/* Threads and load of other programs take turns on a processor. This is the
 * average time that a thread ran from the end of one turn of the load to the
 * start of the next, measured on Linux 6.18 (EEVDF, base slice 1.4 ms, ticks
 * of 4 ms); docs/papers.md has the figures. */
#define PREDICT_TURN_NS 2600000u

struct predict_machine {
    const char *name; /* name of the machine; borrowed */
    struct ips_replay_machine is;
    /* share of each core's cycles that other programs take; den 0: none */
    struct ips_ratio load;
    bool recorded; /* the recorded run used this machine */
    bool named;    /* --machines names this machine */
    /* The number of cores is not known and taken to be 1. one_core: a new
     * machine without cores=; unknown: a recorded machine. */
    bool one_core, unknown;
};
/* Returns the machine as the replay uses it: slower by the share of its cycles
 * that others take. */
struct ips_replay_machine
predict_make_machine_slowed_by_load(const struct predict_machine *m);
#define PREDICT_NAMES_BYTES 256
struct predict_setup {
    uint32_t machine_count;
    struct predict_machine *machine;
    uint32_t chain_count;
    uint32_t *map; /* [chain_count] machine of each chain */
    bool *placed;  /* [chain_count] whether --map places the chain */
    /* [machine_count^2] message times; NULL: use the scenario's */
    struct ips_message_time *message_time;
    /* [machine_count^2] measured message times; an entry that is not NULL
     * replaces that of `message_time`; borrowed from run->times */
    const struct ips_curve **curve;
    /* moves of threads to other machines, at the nodes in run->cut */
    struct ips_replay_move *move;
    uint32_t move_count;
    /* [machine_count^2] the shared medium of each pair of machines; NULL:
     * there is none */
    uint32_t *medium;
    uint32_t medium_count;
    const char **medium_name; /* [medium_count] names of the media; borrowed */
    /* How long messages occupy the medium, for pairs whose round trips show it
     * (message_times_wire.h): [machine_count^2]; NULL if `medium` is NULL. */
    struct message_time_wire *wire_made;
    const struct ips_curve **wire;
    uint64_t *burst_ns; /* [medium_count] link time that a message saves after a
                           pause: the least of the medium's pairs */
    bool as_recorded;   /* work queues keep their recorded order */
    /* also compute t_max and the path of the predicted run */
    bool path;
};
void predict_setup_release(struct predict_setup *s);
/* Sets `err` to IPS_E_NOT_FOUND and returns it: `what` matches no process of
 * the run. The text begins with `option`, `what` and `rest`, as in "--map a=m2:
 * ...", and suggests the most similar process. */
int predict_set_no_process_error(const struct predict_run *run,
                                 const char *option, const char *what,
                                 const char *rest, struct ips_err *err);
/* Writes "m1, m2": the names of the machines for which `fits` returns true, as
 * many as there is space for. Returns false if there are none. */
bool predict_write_machine_names(const struct predict_setup *s,
                                 bool (*fits)(const struct predict_setup *s,
                                              uint32_t m),
                                 char out[PREDICT_NAMES_BYTES]);

/* Makes the setup of the machines on which the run was measured, with each
 * thread where it was. */
int predict_make_own_setup(const struct predict_run *run,
                           struct predict_setup *out,
                           struct ips_err *err) IPS_MUST_USE;
/* Sentences about what an answer assumes; the texts are in arena `a`. */
struct predict_assumptions {
    struct arena *a;
    char **text;
    size_t count, cap;
};
/* Adds a sentence; does nothing beyond PREDICT_ASSUMED_MAX of them. */
void predict_add_assumption(struct predict_assumptions *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes the setup of the question: its machines together with the run's own,
 * with the threads mapped to them. IPS_E_USAGE or IPS_E_NOT_FOUND: unknown
 * machines, patterns without a match, and machines without threads. For every
 * default that replaces a missing value, a sentence is added to `said`. */
int predict_setup_make(const struct predict_run *run,
                       /* the run's own machines, with fitted loads */
                       const struct predict_setup *own,
                       const Ips__PredictAsk *ask,
                       struct predict_assumptions *said,
                       struct predict_setup *out,
                       struct ips_err *err) IPS_MUST_USE;

#define PREDICT_FIT_EVENTS                                                     \
    1000000u /* for more events, loads are fitted only if needed */
/* Estimates the load of other programs on the run's own machines: the load with
 * which the replay's threads wait for cores as long as the kernels measured
 * (`delay_ns`). Sets is.load of every machine of `own`, to within 0.01. Needs
 * about ten replays. */
int predict_fit_loads(const struct predict_run *run, struct predict_setup *own,
                      struct ips_err *err) IPS_MUST_USE;

/* ---- the answer ------------------------------------------------------- */

struct predict_use {    /* use of one machine */
    uint32_t threads;   /* threads that started on this machine */
    uint64_t cpu_ns;    /* CPU time on its cores */
    uint64_t queued_ns; /* time runnable without a core, summed over threads */
    /* time during which no thread of the run was runnable */
    uint64_t idle_ns;
};
enum predict_row_kind {
    PREDICT_MACHINE,
    PREDICT_PROCESS,
    PREDICT_PROCEDURE,
    PREDICT_MESSAGE,
    PREDICT_EXTERNAL,
    PREDICT_IDLE, /* time of waits that no arc explains */
    PREDICT_ROW_KINDS
};
struct predict_row { /* a row of the path */
    enum predict_row_kind kind;
    /* index by kind: a machine of the setup; a procedure of the entities; else
     * a feature (IDLE: of the process that waited) */
    uint32_t id;
    uint32_t machine; /* for processes: their machine, or PREDICT_NOWHERE */
    uint64_t ns, queued_ns, count;
};
struct predict_answer {
    uint64_t makespan_ns; /* time of the latest END, or of the goal */
    /* when the run's command ends; IPS_UNMEASURED: not known */
    uint64_t command_ns;
    uint64_t cpu_ns, queued_ns;
    uint64_t events;
    /* Figures about the order of locks (struct ips_replay). */
    uint64_t resources, units_taken;
    uint32_t kept_count;
    bool is_stable; /* whether the replay decided the order of work queues */
    uint64_t pieces, anew;
    uint32_t cores;          /* cores of the machines that have threads */
    struct predict_use *use; /* [machine_count] use of each machine */
    uint64_t last_ns;        /* time when the last thread ended */
    /* lower bound from predict_compute_makespan_lower_bound() */
    uint64_t least_ns;
    /* [medium_count] time during which a transfer was under way */
    uint64_t *shared_ns;
    double p, rho;
    /* The members below are set only with setup.path. */
    uint64_t t_max_ns;
    double p_path;
    struct predict_row *row; /* sorted by kind, then by ns, largest first */
    size_t row_count;
};

/* Replays the run on a setup. O((V + E) log); with setup.path about three
 * times as long. */
int predict_replay(const struct predict_run *run,
                   const struct predict_setup *setup,
                   struct predict_answer *out,
                   struct ips_err *err) IPS_MUST_USE;
void predict_answer_release(struct predict_answer *a);
/* Returns the CPU time on machine m for `work` ns at speed 1. */
uint64_t predict_cpu_ns_at_speed(const struct predict_machine *m,
                                 uint64_t work);
/* predict/least.c: sets *least_ns to a lower bound of the end of the last
 * thread, at the speed of the machines. It is the largest of: the CPU time of
 * any thread; the CPU time under any lock divided by the lock's units. A lock
 * that threads release for others is left out. `place`: as for
 * predict_compute_path(). `locks` may be NULL. */
int predict_compute_makespan_lower_bound(const struct predict_run *run,
                                         const struct predict_setup *setup,
                                         const uint32_t *place,
                                         const struct ips_replay_locks *locks,
                                         uint64_t *least_ns,
                                         struct ips_err *err) IPS_MUST_USE;

/* Whether thread t matches a pattern as in --map. */
bool predict_thread_matches(const struct predict_run *run,
                            const struct predict_thread *t,
                            const char *pattern);
/* predict/net.c: sets measured message times (curves) between all machines of
 * the setup, as far as comparable pairs were measured. Assumptions are added
 * to `said`, which may be NULL. */
int predict_set_measured_message_times(const struct predict_run *run,
                                       struct predict_assumptions *said,
                                       struct predict_setup *out,
                                       struct ips_err *err) IPS_MUST_USE;
/* Sets the measured message times (predict_set_measured_message_times), then
 * applies what the question says about message times and media. */
int predict_set_message_times_and_networks(const struct predict_run *run,
                                           const Ips__PredictAsk *ask,
                                           struct predict_assumptions *said,
                                           struct predict_setup *out,
                                           struct ips_err *err) IPS_MUST_USE;
/* predict/cpu.c: changes the weights in run->replay to the CPU time that
 * messages cost their ends in the setup; to be called once. `keep`: changes
 * nothing and only reports how many messages are affected, for a search, whose
 * bound holds for one graph only. */
void predict_adapt_message_cpu_unless_kept(struct predict_run *run,
                                           const struct predict_setup *s,
                                           bool keep,
                                           struct predict_assumptions *said);
/* predict/path.c: computes the rows of the longest path of the graph with the
 * times of `replay`. `place`: [nodes of replay.g] the machine of the arc into
 * each node; NULL: threads do not move, see predict_setup.map. */
int predict_compute_path(const struct predict_run *run,
                         const struct predict_setup *setup,
                         const struct ips_replay *replay, const uint32_t *place,
                         struct predict_answer *out,
                         struct ips_err *err) IPS_MUST_USE;

#endif
