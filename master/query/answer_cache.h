/*
 * A cache of complete answers about closed runs, as they were sent to the
 * client. The same question about an unchanged run is answered from the cache,
 * without asking the slaves. So the slaves read a whole run only for the first
 * answer (ALGORITHMS 3, streaming). The master computes the answer of `ipsq
 * path RUN` before any client asks for it
 * (answer_cache_start_path_precomputation), so that even the first client need
 * not wait.
 *
 *  - query_kind.keeps marks the kinds whose answers may be cached: those that
 *    need the whole graph and whose answers are small.
 *  - Only complete answers about runs that are closed on all machines are
 *    cached. A cached answer is valid while the catalogue reports the same
 *    number of events, every machine of the run is connected, and the file of
 *    message times is the one that was used.
 *  - A question with `fresh` set is computed again, and its answer replaces
 *    the cached one. The certificate of a cached answer says that it is
 *    cached.
 *  - The least recently used answers are evicted first.
 *
 * Thread: the event loop's.
 */
#ifndef IPS_MASTER_QUERY_ANSWER_CACHE_H
#define IPS_MASTER_QUERY_ANSWER_CACHE_H

#include "master/query/query.h"

/* limit for the packed size of all answers and questions */
#define ANSWERS_BYTES_MOST (16u << 20)
/* limit for one answer; a larger one is not cached */
#define ANSWER_BYTES_MOST (2u << 20)
/* number of path segments in the precomputed answer */
#define ANSWERS_TOP 10u

/* Answers the question from the cache and ends it. Returns false, and sends
 * nothing, if the cache has no valid answer. */
bool answer_cache_answer_query(struct query *q);

/* Records a reply that is sent to the client. A reply with `last` set completes
 * the answer, which is then cached if allowed. */
void answer_cache_record_reply(struct query *q, const Ips__Reply *reply);
/* Discards the replies that were recorded so far. To be called when the
 * question ends or restarts. */
void answer_cache_discard_recording(struct query *q);

/* Asks the question of `ipsq path RUN` without a client, so that its answer is
 * in the cache. */
void answer_cache_start_path_precomputation(struct master *m, const char *run);
/* Ends the precomputation of another answer about the run of `q`, so that `q`
 * need not wait for it. Does nothing if the kind of `q` is not `exclusive`. */
void answer_cache_stop_other_precomputation(struct master *m,
                                            const struct query *q);

uint64_t answer_cache_count(const struct master *m);
void answer_cache_release(struct master *m);

#endif
