/* The job for a request about a run's graph; shared by serve/graph.c,
 * serve/table.c, serve/path.c and others. Steps and the functions they call run
 * on the worker. */
#ifndef IPS_SLAVE_SERVE_GRAPH_H
#define IPS_SLAVE_SERVE_GRAPH_H

#include "analysis/distributed/joins.h"
#include "analysis/graph/view.h"
#include "proto/graph_wire.h"
#include "proto/message.h"
#include "slave/graphs/table_window.h"
#include "slave/graphs/traffic_window.h"
#include "slave/serve/path_sums.h"
#include "slave/serve/slave.h"

struct slave_graph_ask {
    struct slave_job job;
    Ips__Envelope *ask; /* our own copy of the request */
    struct slave_snapshot *snap;
    Ips__RunState *state; /* for SyncAsk: our own copy of the run's state */
    /* for TableAsk: [channel ends] the process that uses the end; negative: no
     * process, or several */
    int64_t *user;
    /* for TableAsk: times of processes and threads in the window, if one was
     * asked for */
    struct slave_table_window window;
    /* for TableAsk: traffic of the channels in the window, if that was asked
     * for */
    struct ips_traffic_window traffic;
    struct slave_graph *graph;
    bool begun;
    uint32_t at; /* next row, channel end or pair to send */
    /* Memory of the rows of one reply and of pointers to them; the reply points
     * into it. */
    void *rows;
    void **ptrs;
    union {
        Ips__SyncAnswer sync;
        Ips__TableAnswer table;
        Ips__EndsAnswer ends;
        Ips__PeersAnswer peers;
        Ips__Joins joins;
        Ips__FinishAnswer finish;
        Ips__ExpandAnswer expand;
        Ips__SplitAnswer split;
        Ips__ProceduresAnswer procedures;
        Ips__CmAnswer cm;
        Ips__ProfileAnswer profile;
        Ips__PortionsAnswer arc_profile;
        Ips__WaitRowsAnswer wait_rows;
        Ips__SqlAnswer sql;
        Ips__SeriesAnswer series;
        Ips__BracketsAnswer marked_spans;
    } answer;
    struct ips_view view; /* for SubgraphAsk: the view that is being sent */
    /* for ReduceAsk: points to the graph's cached joins (then `shared` is true)
     * or to `joins` */
    const struct ips_joins *reduced_joins;
    bool shared;
    struct ips_joins joins;
    size_t joins_at;
    struct ips_wire_graph wire;
    uint64_t *unended; /* for SubgraphAsk: [nodes] unended wait in ns
                          (docs/glossary.md), if asked for */
    struct ips_wire_cursor cursor;
    struct ips_wire_piece piece;
    /* for ExpandAsk: path between the current pair of nodes */
    struct ips_path path;
    bool has_path;
    /* for ExpandAsk: sums over segments, if asked for instead of segments */
    struct slave_path_sums sums;
    uint32_t sums_sent;
    uint64_t path_at;
    /* for ExpandAsk: ten columns of IPS_PIECE_ITEMS entries each. Six describe
     * the segments: kind, xkind, chain, from, to, pair. Four describe the
     * pairs: from, its chain, to, its chain. */
    uint32_t *columns;
    uint64_t *ns;
    /* for ProceduresAsk and ProfileAsk: state, see serve/procs.h */
    struct proc_answer *procs;
    struct profile *profile; /* for ProfileAsk: state, see serve/profile.c */
    /* for PortionsAsk: state, see serve/arc_profile.c */
    struct arc_profile *arc_profile;
    struct wait_rows *wait_rows; /* for WaitRowsAsk: state, see serve/waits.c */
    struct sql_ask *sql;         /* for SqlAsk: state, see serve/sql.c */
    struct series_answer *series; /* for SeriesAsk: state, see serve/series.c */
    /* for BracketsAsk: state, see serve/marked_spans.c */
    struct marked_spans_answer *marked_spans;
    /* for SyncAsk: rows of unrecorded activity, from the snapshot */
    struct slave_unrecorded_row *unrecorded;
    uint32_t unrecorded_rows;
    /* for SyncAsk: the machine's load, copied because the build takes ownership
     * of the snapshot */
    struct slave_load_row load;
    char **unrecorded_lines; /* for SyncAsk: unrecorded activity, as text */
    uint32_t line_count;
    struct slave_cm *cm; /* for CmAsk: state, see serve/cm_step.c */
};

static inline const Ips__Request *
slave_graph_get_request(const struct slave_graph_ask *j)
{
    return j->ask->request;
}
static inline struct slave_graph_ask *
slave_graph_ask_of_job(struct slave_job *job)
{
    return (struct slave_graph_ask *)(void *)job;
}

/* Sets j->graph if it is not set yet: for SyncAsk to a graph of all records,
 * for other requests to the newest graph of the run. Builds the graph if there
 * is none. */
int slave_graph_get_or_build_newest_and_verify(
    struct slave_graph_ask *j, struct slave_graphs *gs) IPS_MUST_USE;
/* Sets j->graph to the run's graph with this generation number. IPS_E_BUSY:
 * that graph was dropped. */
int slave_graph_use_generation_and_verify(struct slave_graph_ask *j,
                                          struct slave_graphs *gs,
                                          uint64_t generation) IPS_MUST_USE;
/* Allocates `n` messages of `size` bytes, and pointers to them in j->ptrs.
 * Frees the previous ones. NULL: out of memory, with the job's error set. */
void *slave_graph_reallocate_answer_rows(struct slave_graph_ask *j, size_t n,
                                         size_t size);

void slave_answer_table_request(struct slave_job *job, struct slave_graphs *gs);
void slave_answer_reduce_request(struct slave_job *job,
                                 struct slave_graphs *gs);
void slave_answer_subgraph_request(struct slave_job *job,
                                   struct slave_graphs *gs);
void slave_answer_longest_path_request(struct slave_job *job,
                                       struct slave_graphs *gs);
void slave_answer_path_expansion_request(struct slave_job *job,
                                         struct slave_graphs *gs);
void slave_answer_piece_time_sums_request(struct slave_job *job,
                                          struct slave_graphs *gs);
void slave_answer_procedures_request(struct slave_job *job,
                                     struct slave_graphs *gs);
void slave_answer_profile_request(struct slave_job *job,
                                  struct slave_graphs *gs);
void slave_answer_sql_request(struct slave_job *job, struct slave_graphs *gs);
void slave_sql_kill_helper_and_release(struct slave_graph_ask *j,
                                       struct slave_graphs *gs);
void slave_answer_arc_profile_request(struct slave_job *job,
                                      struct slave_graphs *gs);
void slave_answer_series_request(struct slave_job *job,
                                 struct slave_graphs *gs);
void slave_series_answer_release(struct slave_graph_ask *j);
void slave_answer_marked_spans_request(struct slave_job *job,
                                       struct slave_graphs *gs);
void slave_marked_spans_answer_release(struct slave_graph_ask *j);
void slave_arc_profile_release(struct slave_graph_ask *j);
void slave_answer_wait_rows_request(struct slave_job *job,
                                    struct slave_graphs *gs);
void slave_wait_rows_release(struct slave_graph_ask *j);
void slave_profile_release(struct slave_graph_ask *j);
void slave_procs_release(struct slave_graph_ask *j);
void slave_cm_handle_mail_and_compute(struct slave_job *job,
                                      struct slave_graphs *gs);
void slave_cm_release(struct slave_graph_ask *j);
/* Makes j->cm and its mailbox. False: out of memory. */
bool slave_cm_allocate_state(struct slave_graph_ask *j);
void slave_graph_wire_release(struct slave_graph_ask *j);

#endif
