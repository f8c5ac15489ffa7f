/* A computation on the worker: what serve/cm_step.c and serve/cm_walk.c share.
 */
#ifndef IPS_SLAVE_SERVE_CM_PRIVATE_H
#define IPS_SLAVE_SERVE_CM_PRIVATE_H

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"
#include "slave/serve/cm_box.h"
#include "slave/serve/graph.h"

struct slave_cm {
    struct slave_box box;
    struct slave_letters mail; /* read, not yet acted on */
    bool begun, opened;        /* links asked for; OPENED was said */
    struct ips_graph linked;   /* the graph; with message times where asked */
    struct ips_cm_links links;
    bool has_links;
    struct ips_cm_bytes
        *letter_parts; /* [links.peer_count] lists in several letters */
    uint64_t match_bytes;
    uint32_t scenario_number;
    struct ips_scenario scenario;
    struct ips_view view; /* of the graph in that scenario */
    struct ips_cm_sync *sync;
    struct ips_cm_async *async;
    uint64_t root_acks;
    uint32_t blamed; /* a machine sent what cannot be: number, or NONE */
    bool gave_up;    /* said so: waits to be stopped */
    bool reported;   /* cm-sync: that no chain is unfinished, and */
    uint64_t reported_batches; /* how many batches were taken then */
    char relayed_why[sizeof(((struct slave_box *)0)->relayed_why)];
    char stalled[600];
    /* the walk that is being told */
    struct ips_path path;
    bool has_path;
    uint64_t path_left;
};

/* The job's reply, begun. */
Ips__CmAnswer *slave_cm_answer(struct slave_graph_ask *j,
                               Ips__CmAnswer__Kind kind);
/* Answers a letter of kind WALK: the first pieces; the others follow by
 * slave_cm_pieces while j->cm->has_path. */
int slave_cm_walk(struct slave_graph_ask *j,
                  const struct slave_letter *l) IPS_MUST_USE;
int slave_cm_pieces(struct slave_graph_ask *j, Ips__CmAnswer *a) IPS_MUST_USE;

#endif
