/*
 * What query_why.c gathers and its worker computes (why_solve.c, why_path.c):
 * the facts that why.h's rules are about. Everything is of the weighting
 * `wall`, on the graphs of all machines at the master, as for a what-if.
 *
 * A gain is always that of ips_whatif on the whole graph with the named
 * portions taken away, never a sum of shares: what another path takes over is
 * no gain. Two are bounded further, by the work there is for the cores.
 */
#ifndef IPS_MASTER_WHY_FACTS_H
#define IPS_MASTER_WHY_FACTS_H

#include "analysis/beside.h"
#include "master/whatif.h"
#include "master/why.h"

/* A node: what a what-if takes, the graph as it came, and two merged ones. */
#define WHY_NODE_BYTES (WHATIF_NODE_BYTES + 180u)

/* What is mended at once: features of a graph of its own. */
enum why_feature {
    WHY_F_LOCK, /* as enum ips_beside_class */
    WHY_F_ALIKE,
    WHY_F_PEER,
    WHY_F_OTHER,
    WHY_F_DELAY,   /* runnable, but not running */
    WHY_F_OUTSIDE, /* waits that nobody traced ended */
    WHY_FEATURES
};

struct why_data {
    struct whatif_data w; /* first */
    Ips__WhatifAsk ask;
    Ips__Lane lane;
    struct arena a; /* names in `facts` */
    struct why_facts facts;
};

static inline struct why_data *why_of(struct query *q)
{
    return q->data;
}

/* ns by process feature, by procedure and by who waited; of one kind. */
struct why_votes {
    uint64_t *process, *waiter; /* [processes] */
    uint64_t *procedure;        /* [procedures] */
};

struct why_solving {
    struct whatif_solving s; /* first */
    struct why_data *d;
    uint32_t processes, procedures; /* process features; of things.procedure */
    /* Of the merged graph, [node_count]. */
    uint8_t *thing;
    uint64_t *cpu, *delay, *bytes;
    uint32_t *process_of; /* [chain_count] process feature */
    uint32_t *role;       /* [chain_count] */
    bool *worker;         /* [chain_count] */
    uint32_t role_count;
    struct ips_beside beside;
    struct ips_features f; /* WHY_FEATURES, into: */
    uint64_t *first;
    struct ips_portion *portion;
    uint32_t *chain_none, *cross;
    uint64_t ns[WHY_FEATURES]; /* on the path */
    struct why_votes votes[WHY_FEATURES];
};

/* In the worker. */
void why_solve(struct query *q);

/* why_path.c: the columns above but `beside`; what crosses the path. */
int why_columns(struct why_solving *y) IPS_MUST_USE;
int why_roles(struct why_solving *y) IPS_MUST_USE;
int why_crossings(struct why_solving *y) IPS_MUST_USE;
/* ns of the arc into `node` go to the procedures that have it. */
void why_vote_procedures(const struct why_solving *y, uint32_t node,
                         uint64_t ns, uint64_t *procedure);
/* Is it a procedure that moves messages, as write()? */
bool why_is_call(const char *name);
const char *why_process_name(struct why_solving *y, uint32_t process);
/* Place with the most votes; *ns of it. */
void why_place_of(struct why_solving *y, const struct why_votes *v,
                  struct why_place *out);
int why_gain(struct why_solving *y, const struct ips_whatif_base *base,
             const struct ips_edit *edit, uint32_t count, uint64_t *gain,
             uint64_t *bound) IPS_MUST_USE;

#endif
