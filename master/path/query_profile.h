/*
 * The details of the path below the level of processes: procedures and source
 * lines, the most common sequences, the same for the whole graph for
 * comparison, and all of these within a time window. The slaves have the
 * samples. Once the path is known, the master asks each slave about the pieces
 * of the path on its machine (ProfileAsk).
 *
 * The shares of procedures, of unsampled time, of messages and of waits for
 * something not recorded add up exactly to the path's length. IPS_E_CORRUPT:
 * the sums of a slave do not. Source: IPS-12, IPS-13; ALGORITHMS 4 "Shares",
 * "Sequences".
 */
#ifndef IPS_MASTER_PATH_QUERY_PROFILE_H
#define IPS_MASTER_PATH_QUERY_PROFILE_H

#include "master/path/engine.h"
#include "master/query/certificate.h"

/* Checks the words by which the question asks for shares (`by`). IPS_E_USAGE:
 * an unknown word. */
int path_profile_check_by_words(const Ips__PathAsk *ask,
                                struct ips_err *err) IPS_MUST_USE;
/* path_profile_wanted: returns true if the slaves must be asked for a profile;
 * to be called when the window is known. path_profile_asks_shares_by: returns
 * true if the question asks for shares by `what`, such as "thread". */
bool path_profile_wanted(const struct query *q);
bool path_profile_asks_shares_by(const Ips__PathAsk *ask, const char *what);

/* Asks the slaves about the path's pieces, which must be known. Calls `after`
 * when everything was received; on an error fails the question. */
void path_profile_start(struct query *q, void (*after)(struct query *q));
void path_profile_release(struct query *q);

/* Returns the shares to show: those of the main scenario or, with a window, of
 * the parts of the path inside it. Sets *ns to the total of which they are
 * shares. */
const struct shares *path_profile_shares(const struct query *q, uint64_t *ns);
/* Fills in how the computing on the path divides into running and waiting for
 * a CPU; only inside the window, if there is one. */
void path_profile_fill_cpu_time_split(const struct query *q,
                                      Ips__PathAnswer *out);
/* Returns the pieces to show, limited to the window like the shares, and sets
 * *count to their number. */
const struct path_piece *path_profile_pieces(const struct query *q,
                                             uint64_t *count);

/* Sends rows of procedures while the client reads them. Returns true when all
 * are sent. */
bool path_profile_send_rows_until_backlog(struct query *q);
/* Fills in what the last reply says about procedures, sequences and the whole
 * graph. The pointers in it point into the arena or `q`. */
void path_profile_fill_last_reply(struct query *q, struct arena *a,
                                  struct certificate *c, Ips__PathAnswer *out);

#endif
