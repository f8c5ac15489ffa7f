/* Shared by path/query_profile.c (asks the slaves), path/profile.c (combines
 * the replies) and path/profile_answer.c (sends the result): what was asked
 * and received. */
#ifndef IPS_MASTER_PATH_PROFILE_H
#define IPS_MASTER_PATH_PROFILE_H

#include "analysis/whatif/sequences.h"
#include "master/path/query_profile.h"

enum profile_side { PROFILE_PATH, PROFILE_WHOLE, PROFILE_SIDES };
enum profile_list { PROFILE_PROCEDURE, PROFILE_LINE, PROFILE_LISTS };

#define PROFILE_SEQUENCES 100u
/* In graphs with more nodes than this, sequences are computed only for the
 * path, not for the whole graph. */
#define PROFILE_WHOLE_NODES 4000000u

/* one step of a piece: CPU time in one procedure, as a slave sent it */
struct profile_step {
    uint32_t piece, code;
    uint64_t ns;
};
/* The columns that one machine sent for the path or for the whole graph.
 * PROFILE_PATH: an entry for each piece of the path on the machine;
 * PROFILE_WHOLE: for each chain. */
struct profile_columns {
    /* [count] PROFILE_PATH only: index of the piece in the path */
    uint32_t *piece;
    uint32_t *from, *to;
    /* [count] CPU time of the piece (with a window: of its part inside the
     * window); for a piece without arcs: 1 if its end is inside the window,
     * else 0 */
    uint64_t *ns;
    /* [count] weight of the piece inside the window; used only with a window */
    uint64_t *weight_ns;
    /* [count] PROFILE_PATH only: length of the whole piece in ns, the maximum
     * of `ns` */
    uint64_t *most;
    /* `count`: number of pieces; `asked`: how many of them were requested so
     * far in this round; `got`: how many were received */
    uint32_t count, asked, got;
    struct profile_step *steps;
    size_t step_count, step_capacity;
    Ips__Code **codes; /* point into messages kept by query_keep_message() */
    uint32_t code_count;
    Ips__ProcedureTotals totals[PROFILE_LISTS];
    uint64_t alike_ns, delay_ns;
};
struct profile_rows {
    /* point into messages kept by query_keep_message() */
    Ips__ProcedureRow **rows;
    uint32_t count;
    size_t sent;
    Ips__ProcedureTotals totals;
};
struct profile_sequences {
    /* the steps in order; `what` of a step is an index into `whats` */
    struct ips_step *steps;
    uint32_t step_count;
    struct profile_step_key {
        uint32_t machine, process, code;
    } * whats;
    struct ips_sequence result[PROFILE_SEQUENCES];
    uint32_t count;
};
/* CPU time of one machine, process or thread in the whole graph */
struct profile_chain_sum {
    uint64_t a, b; /* key, like that of struct share_row */
    uint64_t ns, count, path_ns;
};

struct path_profile { /* stored in path_data.profile */
    void (*after)(struct query *q);
    unsigned round;
    uint32_t machine_count;
    /* for the path and for the whole graph: [machine_count] what each machine
     * sent */
    struct profile_columns *face[PROFILE_SIDES];
    struct profile_rows rows[PROFILE_SIDES][PROFILE_LISTS];
    struct profile_sequences sequences[PROFILE_SIDES];
    bool windowed, no_whole_steps;
    bool cpu; /* the weighting is `cpu`: a piece is CPU time and nothing else */
    uint64_t window_ns, on_cpu_ns, off_cpu_ns;
    /* ns of off_cpu_ns spent waiting for a CPU; set only with a window */
    uint64_t delay_ns;
    struct shares shares; /* shares of the path, limited to the window */
    struct path_piece *pieces;
    uint64_t piece_count;
    /* sums of the whole graph: by machine, by process, by thread */
    struct profile_chain_sum *whole[3];
    size_t whole_count[3];
    uint64_t whole_ns, alike_ns;
};

static inline struct path_profile *path_profile_of(const struct query *q)
{
    const struct path_data *d = q->data;
    return d ? d->profile : NULL;
}

/* Called in the worker when everything was received: combines it to rows,
 * sequences, sums and, with a window, shares. Returns 0, or an error in *err.
 */
int path_profile_make(struct query *q, struct ips_err *err) IPS_MUST_USE;

#endif
