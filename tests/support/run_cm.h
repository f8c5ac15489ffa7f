/*
 * cm-async and cm-sync over a whole cluster in one process: every machine's
 * subgraph, links between all of them, a root, and a network that delivers as
 * late and in as odd an order as a seed says (each link keeps its own order,
 * as TCP does), or that does worse. The same seed gives the same run.
 */
#ifndef IPS_TESTS_RUN_CM_H
#define IPS_TESTS_RUN_CM_H

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"

enum cm_fault {
    CM_FAULT_NONE,
    CM_FAULT_CORRUPT,   /* one byte of a message between slaves */
    CM_FAULT_CUT,       /* its end */
    CM_FAULT_DUPLICATE, /* it comes twice */
    CM_FAULT_DROP,
    CM_FAULT_STRAY, /* it comes from somebody else */
    CM_FAULT_LOSE,  /* the slave it is for is gone */
    CM_FAULTS
};

struct cm_options {
    uint64_t seed;
    bool async;
    bool lockstep; /* rounds: all is delivered, then all run; else by chance */
    uint32_t batch_values; /* 0: as many as there are */
    enum cm_fault fault;
    uint32_t fault_at; /* at this message between slaves, from 0 */
    /* [count] the lane as each machine is told it (its clock, its goal), or
     * NULL: the same for all. */
    const struct ips_scenario *lanes;
};

struct cm_answer {
    uint32_t parts;
    struct ips_est *est; /* [parts] */
    uint32_t *node_base; /* [parts + 1] in the merged numbering */
    uint32_t *chain_base;
    uint64_t t_max, total, unmatched;
    uint32_t end;                /* merged number, IPS_NO_NODE */
    struct ips_path path;        /* merged numbers */
    struct ips_cm_counts counts; /* of all parts */
    uint64_t links;
    uint64_t match_bytes;   /* wants and matches */
    uint64_t rounds;        /* lockstep: of the network; else deliveries */
    uint64_t root_messages; /* to and from the root */
    uint64_t hops;          /* machine changes of the walk back */
    bool fault_met;         /* the fault happened */
};

/* 0 and *out, or an error: nothing is left behind in either case. */
int cm_cluster_run(const struct ips_machine_graph *parts, uint32_t count,
                   const struct ips_scenario *lane,
                   const struct cm_options *opt, struct cm_answer *out,
                   struct ips_err *err) IPS_MUST_USE;
void cm_answer_release(struct cm_answer *a);

/* NULL, or in what it differs from what the kernel says of the merged graph
 * (of views, where the lane is not of `cpu`). */
const char *cm_answer_differs(const struct cm_answer *a,
                              const struct ips_graph *merged,
                              const struct ips_scenario *lane,
                              uint64_t unmatched);

#endif
