/*
 * What the path tells beyond machines and processes: procedures and lines, the
 * most common sequences, the same of the whole graph beside it, and all of that
 * in a window of time. The slaves have the samples: they are asked about the
 * pieces of the path on their machine (ProfileAsk) once it is known.
 *
 * Shares of procedures, what is unsampled, messages and outside waits add up to
 * the path's length exactly; IPS_E_CORRUPT where a slave's sums do not.
 * Source: IPS-12, IPS-13; ALGORITHMS 4 "Shares", "Sequences".
 */
#ifndef IPS_MASTER_PATH_QUERY_PROFILE_H
#define IPS_MASTER_PATH_QUERY_PROFILE_H

#include "master/path/engine.h"
#include "master/query/certificate.h"

/* Is there more in the question than the path itself answers? IPS_E_USAGE: it
 * asks for what is not there. */
int path_profile_check(const Ips__PathAsk *ask,
                       struct ips_err *err) IPS_MUST_USE;
/* The window is known. */
bool path_profile_wanted(const struct query *q);
bool path_profile_by(const Ips__PathAsk *ask, const char *what);

/* Asks the slaves; `after` comes when all is there, or the question ends. The
 * path's pieces are there. */
void path_profile_start(struct query *q, void (*after)(struct query *q));
void path_profile_release(struct query *q);

/* The shares to be shown and what they are shares of, and the pieces: those of
 * the main scenario, or what of them is in the window. */
const struct shares *path_profile_shares(const struct query *q, uint64_t *ns);
/* Of what the path's computing was made, in a window that of the window. */
void path_profile_split(const struct query *q, Ips__PathAnswer *out);
const struct path_piece *path_profile_pieces(const struct query *q,
                                             uint64_t *count);

/* Sends rows while the client takes them; true: all are sent. */
bool path_profile_pump(struct query *q);
/* Into the last reply; what it points to lives in the arena or with `q`. */
void path_profile_fill(struct query *q, struct arena *a, struct certificate *c,
                       Ips__PathAnswer *out);

#endif
