/* The root of cm-async and cm-sync; private to engine_cm.c and
 * engine_cm_walk.c. */
#ifndef IPS_MASTER_PATH_ENGINE_CM_H
#define IPS_MASTER_PATH_ENGINE_CM_H

#include "analysis/distributed/cm_sync.h"
#include "master/path/engine.h"

#define CM_KEY_BYTES 16
#define CM_TELL_NS 2000000000ULL /* between two rounds of TELL */

struct cm_run { /* path_data.cm */
    uint8_t key[CM_KEY_BYTES];
    bool async;
    uint32_t opened;
    uint64_t links, relayed;
    uint32_t scenario; /* number of the LANE that goes on, from 1 */
    uint32_t reported, finished;
    uint64_t root_unacked; /* cm-async */
    struct ips_cm_tally tally;
    uint32_t asked; /* answers to TELL still to come */
    uint64_t progress_ns;
    bool over; /* OVER was said in this scenario */
    /* the walk back */
    uint32_t walk_machine;
    bool crossing; /* a message piece ends where the next walk begins */
    struct path_piece cross;
    uint64_t cross_est, hops;
    bool walk_more; /* in the middle of one machine's pieces */
    bool next_crosses;
    uint32_t next_machine;
    uint64_t next_link;
    struct path_piece next_cross;
    uint64_t next_est;
};

/* Message of the root to a part. */
void cm_say(struct query *q, const struct machine_share *p, Ips__CmMessage *m,
            Ips__CmMessage__Kind kind);
/* The scenario's values are final: walks back from its END; cm_scenario_walked
 * comes.
 */
void cm_walk_begin(struct query *q, uint32_t part, uint32_t node);
int cm_take_walk(struct query *q, struct machine_share *p,
                 const Ips__CmAnswer *a, struct ips_err *err) IPS_MUST_USE;
void cm_scenario_walked(struct query *q);

#endif
