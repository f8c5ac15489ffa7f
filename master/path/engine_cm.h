/* The root of cm-async and cm-sync; private to engine_cm.c and
 * engine_cm_walk.c. */
#ifndef IPS_MASTER_PATH_ENGINE_CM_H
#define IPS_MASTER_PATH_ENGINE_CM_H

#include "analysis/distributed/cm_sync.h"
#include "master/path/engine.h"

#define CM_KEY_BYTES 16
/* Time (ns) between two TELL messages, in which the root asks all slaves for
 * their message counts. */
#define CM_TELL_NS 2000000000ULL

/* state of cm-async or cm-sync at the master; stored in path_data.cm */
struct cm_run {
    uint8_t key[CM_KEY_BYTES];
    bool async;
    uint32_t opened;
    uint64_t links;
    uint32_t scenario; /* number of the scenario being computed, from 1 */
    uint32_t finished;
    uint64_t root_unacked; /* cm-async: unacknowledged messages of the root */
    struct ips_cm_tally tally;
    /* number of slaves that have not answered the last TELL yet */
    uint32_t asked;
    uint64_t progress_ns;
    /* the master has sent OVER to the slaves: the values of this scenario are
     * final */
    bool over;
    /* The members below are the state of the walk back along the path. */
    uint32_t walk_machine;
    /* the walk has just followed the message `cross` back to another machine,
     * whose slave must still name the sending node */
    bool crossing;
    struct path_piece cross;
    uint64_t cross_est, hops;
    /* the slave has announced more answers for the current section of the
     * walk */
    bool walk_more;
    bool next_crosses;
    uint32_t next_machine;
    uint64_t next_link;
    struct path_piece next_cross;
    uint64_t next_est;
};

/* Fills in sender, receiver, key and `kind` of `m` and sends it, as a message
 * of the root, to the slave of `p`. */
void cm_send_message(struct query *q, const struct machine_share *p,
                     Ips__CmMessage *m, Ips__CmMessage__Kind kind);
/* To be called when the values of the scenario are final: walks the path back
 * from END node `node` of machine number `part`, then calls
 * cm_submit_shares_of_walked_scenario(). */
void cm_walk_begin(struct query *q, uint32_t part, uint32_t node);
int cm_push_walk_answer_and_continue(struct query *q, struct machine_share *p,
                                     const Ips__CmAnswer *a,
                                     struct ips_err *err) IPS_MUST_USE;
void cm_submit_shares_of_walked_scenario(struct query *q);

#endif
