/* State of a computation on the worker, shared by serve/cm_step.c and
 * serve/cm_walk.c. */
#ifndef IPS_SLAVE_SERVE_CM_PRIVATE_H
#define IPS_SLAVE_SERVE_CM_PRIVATE_H

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"
#include "slave/serve/cm_box.h"
#include "slave/serve/graph.h"

struct slave_cm {
    struct slave_mailbox box;
    struct slave_letters mail; /* letters read but not handled yet */
    /* begun: the WANTS letters were sent to the peers; opened: OPENED (the
     * links are agreed on) was reported to the root, the master */
    bool begun, opened;
    /* the graph of the job (borrowed); out_ns is set, and owned, if the request
     * wants message times */
    struct ips_graph linked;
    /* copy of the graph's `joined`, which the next PeersAsk frees */
    struct ips_peer_end *joined;
    struct ips_cm_links links;
    bool has_links;
    /* [links.peer_count] list that each peer is sending, as far as it has come:
     * a list may come in several letters */
    struct ips_cm_bytes *letter_parts;
    uint64_t match_bytes;
    uint32_t scenario_number;
    struct ips_scenario scenario;
    struct ips_view view; /* the graph with the arc lengths of `scenario` */
    struct ips_cm_sync *sync;
    struct ips_cm_async *async;
    uint64_t root_acks;
    /* number of the machine that sent an invalid message, or IPS_CM_NONE */
    uint32_t blamed;
    bool gave_up; /* true: the failure was reported; the job waits to be
                     cancelled */
    /* only with cm-sync: it was reported to the root that no chain is
     * unfinished */
    bool reported;
    /* number of batches received when `reported` was set */
    uint64_t reported_batches;
    char relayed_why[sizeof(((struct slave_mailbox *)0)->relayed_why)];
    char stalled[600];
    /* path for the answer to a WALK letter, which is being sent in several
     * replies */
    struct ips_path path;
    bool has_path;
    uint64_t path_left;
};

/* Makes the job's reply an answer of kind `kind`, and returns it to be filled.
 */
Ips__CmAnswer *slave_cm_init_answer_of_job(struct slave_graph_ask *j,
                                           Ips__CmAnswer__Kind kind);
/* Answers a WALK letter with the first segments of the path; while
 * j->cm->has_path is set, later replies get the next segments from
 * slave_cm_fill_path_piece. */
int slave_cm_walk_back_and_answer(struct slave_graph_ask *j,
                                  const struct slave_letter *l) IPS_MUST_USE;
int slave_cm_fill_next_path_segments(struct slave_graph_ask *j,
                                     Ips__CmAnswer *a) IPS_MUST_USE;

#endif
