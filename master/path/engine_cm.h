/* The root of cm-async and cm-sync; private to engine_cm.c and
 * engine_cm_walk.c. */
#ifndef IPS_MASTER_PATH_ENGINE_CM_H
#define IPS_MASTER_PATH_ENGINE_CM_H

#include "analysis/distributed/cm_sync.h"
#include "master/path/engine.h"

#define CM_KEY_BYTES 16
/* Time between two rounds of TELL, in which the root asks the slaves for their
 * counts. */
#define CM_TELL_NS 2000000000ULL

struct cm_run { /* stored in path_data.cm */
    uint8_t key[CM_KEY_BYTES];
    bool async;
    uint32_t opened;
    uint64_t links;
    uint32_t scenario; /* number of the scenario being computed, from 1 */
    uint32_t finished;
    uint64_t root_unacked; /* cm-async: unacknowledged messages of the root */
    struct ips_cm_tally tally;
    uint32_t asked; /* number of answers to TELL still expected */
    uint64_t progress_ns;
    /* the master has sent OVER to the slaves: this scenario is finished */
    bool over;
    /* The members below are the state of the walk back along the path. */
    uint32_t walk_machine;
    /* the walk has just gone back over the message `cross` to another machine,
     * whose slave will name the sending node */
    bool crossing;
    struct path_piece cross;
    uint64_t cross_est, hops;
    bool walk_more; /* more pieces of this machine's walk follow */
    bool next_crosses;
    uint32_t next_machine;
    uint64_t next_link;
    struct path_piece next_cross;
    uint64_t next_est;
};

/* Sends `m` as a message of the root, of the given kind, to the slave of `p`.
 */
void cm_send_message(struct query *q, const struct machine_share *p,
                     Ips__CmMessage *m, Ips__CmMessage__Kind kind);
/* To be called when the values of the scenario are final: walks the path back
 * from END node `node` of part `part`, then calls cm_finish_walked_scenario. */
void cm_walk_begin(struct query *q, uint32_t part, uint32_t node);
int cm_handle_walk_answer(struct query *q, struct machine_share *p,
                          const Ips__CmAnswer *a,
                          struct ips_err *err) IPS_MUST_USE;
void cm_submit_shares_of_walked_scenario(struct query *q);

#endif
