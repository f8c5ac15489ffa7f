/*
 * Slack, next paths and what-if of one question: computed in the worker on the
 * merged graph of all machines (whatif/solve.c), made an answer in the loop
 * (whatif/answer.c), asked for and gathered by whatif/query.c.
 *
 * All nodes come here, so this needs memory at the master: WHATIF_NODE_BYTES a
 * node and WHATIF_PORTION_BYTES for each portion of an arc that a procedure
 * has. What would not fit into what the machine has available is refused
 * before it is fetched.
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
    70u /* more a node where only a window is edited                           \
         */
#define WHATIF_EDITS_MAX 64u
#define WHATIF_NEXT_MAX 1000u
#define WHATIF_ROWS_MAX 10000u /* of one list */

struct whatif_row {  /* one question answered */
    uint32_t entity; /* ranking: of things.thing; edits: their number */
    uint64_t share_ns, total_ns;
    uint64_t features;
    struct ips_whatif r;
};
struct whatif_slack {
    uint32_t entity;
    struct ips_slack s;
};

struct whatif_solving;
struct whatif_data {       /* query.data */
    struct path_data path; /* first: the engine's helpers work on it */
    const Ips__WhatifAsk *ask;
    /* Subgraphs come as they are, with all times; views of them are merged. */
    bool raw;
    enum ips_weighting weighting; /* raw: of the views */
    uint32_t node_bytes;          /* for each node at the master */
    /* Raw: makes what it wants of the merged graph and of the scenario, or
     * NULL. */
    int (*remake)(struct whatif_solving *s);
    /* When tables and peers have come; true: it has answered. Or NULL. */
    bool (*gathered)(struct query *q);
    void (*solve)(struct query *q);  /* in the worker */
    void (*answer)(struct query *q); /* in the loop */
    struct arc_profile *arc_profile; /* [parts] */
    struct waits *waits; /* to be fetched as well, not laid; NULL: none */
    /* results */
    struct machine_entities *machine; /* [parts] */
    struct entities t;
    uint64_t t_max_ns, resources;  /* of the path as it is */
    uint64_t window_ns;            /* of it, in path.window */
    uint64_t *cross_ns;            /* [nodes] of cross arcs, in path.window */
    struct whatif_row all, *edits; /* [edits] */
    struct whatif_row *ranking;
    size_t ranking_count, candidates, computed;
    struct whatif_slack *slacks;
    size_t slack_count;
    size_t slack_left; /* not shown */
    uint64_t near_ns;
    struct ips_next next;
    struct ips_oversubscription *oversubscription; /* [parts] */
    bool procedures; /* portions were asked for and there are some */
};

static inline struct whatif_data *whatif_of(struct query *q)
{
    return q->data;
}

/* Gathers what d->ask needs, lets d->solve compute and d->answer answer. The
 * rest of whatif_data is zero. */
void whatif_begin(struct query *q);
/* Frees what whatif_data holds, and itself. */
void whatif_release(struct query *q);

/* In the worker: d->path.err says what failed, d->path.blame who. */
void whatif_solve(struct query *q);

struct whatif_solving {
    struct query *q;
    struct whatif_data *d;
    const Ips__WhatifAsk *ask;
    struct ips_scenario scenario; /* of the merged graph */
    const struct ips_graph *g;
    struct ips_order order;
    uint64_t *tail;
    uint64_t *share;         /* [features] */
    struct ips_slack *slack; /* [features] */
    struct ips_whatif_base base;
    struct ips_err *err;
};
/* The steps all begin with: graph, things, shares; d->path.est, d->t. */
int whatif_prepare(struct query *q, struct whatif_solving *s) IPS_MUST_USE;
void whatif_finish(struct whatif_solving *s);
/* Of a window: leaves the features what they have in it; d->window_ns. */
int whatif_window(struct whatif_solving *s) IPS_MUST_USE;
/* In the loop: the reply. */
void whatif_answer(struct query *q);

#endif
