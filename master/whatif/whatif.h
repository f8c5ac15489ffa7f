/*
 * Slack, next paths and what-if for one question. The worker computes them on
 * the merged graph of all machines (whatif/solve.c), the loop makes the answer
 * (whatif/answer.c), and whatif/query.c asks and gathers.
 *
 * The master fetches all nodes, so it needs WHATIF_NODE_BYTES of memory per
 * node and WHATIF_PORTION_BYTES per procedure's share of an arc. A graph that
 * does not fit in the available memory is refused before it is fetched.
 * Source: ALGORITHMS 4, IPS-12.
 */
#ifndef IPS_MASTER_WHATIF_WHATIF_H
#define IPS_MASTER_WHATIF_WHATIF_H

#include "analysis/whatif/next.h"
#include "analysis/whatif/oversubscription.h"
#include "analysis/whatif/slack.h"
#include "analysis/whatif/whatif.h"
#include "master/path/arc_profile.h"
#include "master/path/engine.h"
#include "master/waits/waits.h"

#define WHATIF_NODE_BYTES 130u
#define WHATIF_PORTION_BYTES 40u
#define WHATIF_WINDOW_BYTES                                                    \
    70u /* additional memory per node if only a window is edited */
#define WHATIF_EDITS_MAX 64u
#define WHATIF_NEXT_MAX 1000u
#define WHATIF_ROWS_MAX 10000u /* limit for the rows of one list */

struct whatif_row {  /* the result for one entity or edit */
    uint32_t entity; /* ranking: index in t.entity; edits: number of the edit */
    uint64_t share_ns, total_ns;
    uint64_t features;
    struct ips_whatif r;
};
struct whatif_slack {
    uint32_t entity;
    struct ips_slack s;
};

struct whatif_solving;
struct whatif_data {       /* stored in query.data */
    struct path_data path; /* must be first: the engine's helpers work on it */
    const Ips__WhatifAsk *ask;
    /* Whether the subgraphs are fetched with the data for all weightings. The
     * master then computes the arcs' lengths in `weighting` (graph/view.h) and
     * merges the results. */
    bool raw;
    /* with `raw`: the weighting of the merged graph */
    enum ips_weighting weighting;
    uint32_t node_bytes; /* memory per node at the master */
    /* With `raw`: called to change the merged graph and scenario; or NULL. */
    int (*remake)(struct whatif_solving *s);
    /* Called when tables and peers were gathered; returns true if it has
     * answered. Or NULL. */
    bool (*gathered)(struct query *q);
    void (*solve)(struct query *q);  /* computes; runs in the worker */
    void (*answer)(struct query *q); /* sends the answer; runs in the loop */
    struct arc_profile *arc_profile; /* [machines] arc profiles */
    /* waits to fetch with the graph; waits_place_on_graph() is not called for
     * them. NULL: none */
    struct waits *waits;
    /* The members below are the results. */
    /* [machines] names, nodes and arc profile of each machine */
    struct machine_entities *machine;
    struct entities t;
    /* length of the critical path; number of its arcs of locks and other
     * resources */
    uint64_t t_max_ns, resources;
    uint64_t window_ns; /* the part of t_max_ns inside path.window */
    /* [nodes] time of cross arcs inside path.window */
    uint64_t *cross_ns;
    /* all: result of all edits together; edits: [edits] result of each */
    struct whatif_row all, *edits;
    struct whatif_row *ranking;
    size_t ranking_count, candidates, computed;
    struct whatif_slack *slacks;
    size_t slack_count;
    size_t slack_left; /* number of slack rows that are not shown */
    uint64_t near_ns;
    struct ips_next_paths next;
    /* [machines] most threads busy at once, and the time with more busy
     * threads than cores */
    struct ips_oversubscription *oversubscription;
    bool procedures; /* arc profiles were requested and are not empty */
};

static inline struct whatif_data *whatif_data_of(struct query *q)
{
    return q->data;
}

/* Gathers what d->ask needs, calls d->solve in the worker and then d->answer.
 * The caller must zero the fields of whatif_data that it does not set. */
void whatif_check_ask_and_gather(struct query *q);
/* Frees whatif_data and everything in it. */
void whatif_release(struct query *q);

/* In the worker: computes what the member `ask` of q's whatif_data asks for. On
 * failure its path.err has the reason, and path.blame the machine whose data
 * was wrong. */
void whatif_solve(struct query *q);

struct whatif_solving {
    struct query *q;
    struct whatif_data *d;
    const Ips__WhatifAsk *ask;
    struct ips_scenario scenario; /* scenario for the merged graph */
    const struct ips_graph *g;
    struct ips_computation_order order;
    uint64_t *tail;
    uint64_t *share;         /* [features] time of each feature on the path */
    struct ips_slack *slack; /* [features] slack of each feature */
    struct ips_whatif_base base;
    struct ips_err *err;
};
/* The steps with which every computation starts: merges the graph and makes
 * entities and shares (d->path.est, d->t). whatif_release_solving() must
 * follow, also after a failure. */
int whatif_prepare_graph_and_shares(struct query *q,
                                    struct whatif_solving *s) IPS_MUST_USE;
void whatif_release_solving(struct whatif_solving *s);
/* Limits the features to their time inside the window; sets d->window_ns. */
int whatif_limit_to_window(struct whatif_solving *s) IPS_MUST_USE;
/* In the loop: sends the reply. */
void whatif_send_answer(struct query *q);

#endif
