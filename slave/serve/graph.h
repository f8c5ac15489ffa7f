/* What serve/graph.c, serve/table.c and serve/path.c share: the job of an ask
 * about a run's graph. Steps and what they call run on the worker. */
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
    Ips__Envelope *ask; /* our own copy */
    struct slave_snapshot *snap;
    Ips__RunState *state; /* sync: our own copy */
    int64_t *user;        /* table: the one process of each end, or < 0 */
    struct slave_table_window window;  /* table: made where one is asked for */
    struct ips_traffic_window traffic; /* the same */
    struct slave_graph *graph;
    uint64_t revision;
    bool begun;
    uint32_t at; /* next row, end or part */
    /* One reply's worth of storage; what the reply points into. */
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
    struct ips_view view; /* subgraph, while it is sent */
    const struct ips_joins
        *reduced_joins; /* reduce: the graph's (`shared`), or ours */
    bool shared;
    struct ips_joins joins;
    size_t joins_at;
    struct ips_wire_graph wire;
    uint64_t *unended; /* subgraph: the column, where it is asked for */
    struct ips_wire_cursor cursor;
    struct ips_wire_piece piece;
    struct ips_path path; /* of one asked pair */
    bool has_path;
    struct slave_path_sums sums; /* expand: instead of pieces */
    uint32_t sums_sent;
    uint64_t path_at;
    uint32_t *columns; /* expand: kind, xkind, chain, from, to, part, and of
                          pairs: from, its chain, to, its chain */
    uint64_t *ns;
    struct proc_answer *procs;       /* procedures, profile: serve/procs.h */
    struct profile *profile;         /* serve/profile.c */
    struct arc_profile *arc_profile; /* serve/arc_profile.c */
    struct wait_rows *wait_rows;     /* serve/waits.c */
    struct sql_ask *sql;             /* serve/sql.c */
    struct series_answer *series;    /* serve/series.c */
    struct marked_spans_answer *marked_spans; /* serve/marked_spans.c */
    struct slave_unrecorded_row *unrecorded;  /* sync: of the snapshot */
    uint32_t unrecorded_rows;
    struct slave_load_row load; /* of the snapshot, which is given away */
    char **unrecorded_lines;    /* sync: what is unseen, in words */
    uint32_t line_count;
    struct slave_cm *cm; /* cm: serve/cm_step.c */
};

static inline const Ips__Request *
slave_graph_request(const struct slave_graph_ask *j)
{
    return j->ask->request;
}
static inline struct slave_graph_ask *slave_graph_of(struct slave_job *job)
{
    return (struct slave_graph_ask *)(void *)job;
}

/* The graph the ask means, once per job: for Table and Ends the newest. */
int slave_graph_newest(struct slave_graph_ask *j,
                       struct slave_graphs *gs) IPS_MUST_USE;
/* The graph of a generation; the same one, unchanged, from step to step. */
int slave_graph_same(struct slave_graph_ask *j, struct slave_graphs *gs,
                     uint64_t generation) IPS_MUST_USE;
/* Storage for `n` messages of `size` bytes, and in j->ptrs the pointers to
 * them; NULL with the job's error set. Replaces what was there. */
void *slave_graph_rows(struct slave_graph_ask *j, size_t n, size_t size);

void slave_step_table(struct slave_job *job, struct slave_graphs *gs);
void slave_step_reduce(struct slave_job *job, struct slave_graphs *gs);
void slave_step_subgraph(struct slave_job *job, struct slave_graphs *gs);
void slave_step_finish(struct slave_job *job, struct slave_graphs *gs);
void slave_step_expand(struct slave_job *job, struct slave_graphs *gs);
void slave_step_split(struct slave_job *job, struct slave_graphs *gs);
void slave_step_procedures(struct slave_job *job, struct slave_graphs *gs);
void slave_step_profile(struct slave_job *job, struct slave_graphs *gs);
void slave_step_sql(struct slave_job *job, struct slave_graphs *gs);
void slave_sql_release(struct slave_graph_ask *j, struct slave_graphs *gs);
void slave_step_arc_profile(struct slave_job *job, struct slave_graphs *gs);
void slave_step_series(struct slave_job *job, struct slave_graphs *gs);
void slave_series_answer_release(struct slave_graph_ask *j);
void slave_step_marked_spans(struct slave_job *job, struct slave_graphs *gs);
void slave_marked_spans_answer_release(struct slave_graph_ask *j);
void slave_arc_profile_release(struct slave_graph_ask *j);
void slave_step_wait_rows(struct slave_job *job, struct slave_graphs *gs);
void slave_wait_rows_release(struct slave_graph_ask *j);
void slave_profile_release(struct slave_graph_ask *j);
void slave_procs_release(struct slave_graph_ask *j);
void slave_step_cm(struct slave_job *job, struct slave_graphs *gs);
void slave_cm_release(struct slave_graph_ask *j);
/* Makes j->cm and its mailbox. False: out of memory. */
bool slave_cm_prepare(struct slave_graph_ask *j);
void slave_graph_wire_release(struct slave_graph_ask *j);

#endif
