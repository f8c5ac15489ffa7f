/*
 * The tables of the run that was last asked about, as they came from its
 * slaves: a question about the same run, closed and with nothing new since,
 * takes them and asks nobody. They are lent: a question that has them owns them
 * (as its parts), and gives them back when it has answered.
 *
 * Not used where one of the run's slaves is not connected: then the answer has
 * to say so. Thread: the loop's.
 */
#ifndef IPS_MASTER_KEPT_H
#define IPS_MASTER_KEPT_H

#include "master/query.h"

#define KEPT_BYTES_MOST (64u << 20) /* packed */

/* Gives the question the kept tables as if they had been gathered
 * (GATHER_TABLE | GATHER_PEERS). False: there are none for it. */
bool kept_take(struct query *q);
/* Keeps what the question has gathered (all of it), if that may be kept; it
 * has no parts afterwards. After its last reply. */
void kept_give(struct query *q);
void kept_release(struct master *m);

#endif
