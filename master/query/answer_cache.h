/*
 * Whole answers about closed runs, as they were sent to the client: the same
 * question about a run that has nothing new since is answered by them, at once
 * and without a word to the slaves. So what took a pass through all of a run
 * costs that once (ALGORITHMS 3, streaming), and where the default question
 * was put ahead (answer_cache_precompute), not even the first client waits for
 * it.
 *
 *  - Kinds say whether their answers may be kept (query_kind.keeps): those that
 *    need the whole graph, whose answers are small.
 *  - Kept is what was complete, of a run that is closed everywhere. It is given
 *    while the catalogue knows of as many events, every machine of it is
 *    connected, and the file of message times is the one that was used.
 *  - A question that is `fresh` is computed again, and its answer replaces the
 *    kept one. The certificate of a kept answer says so.
 *  - The least recently used make room.
 *
 * Thread: the loop's.
 */
#ifndef IPS_MASTER_QUERY_ANSWER_CACHE_H
#define IPS_MASTER_QUERY_ANSWER_CACHE_H

#include "master/query/query.h"

#define ANSWERS_BYTES_MOST (16u << 20) /* packed, with the questions */
#define ANSWER_BYTES_MOST (2u << 20)   /* of one; else it is not kept */
#define ANSWERS_TOP 10u                /* pieces of the question put ahead */

/* Answers the question if that answer is kept: it is over then. */
bool answers_replay(struct query *q);

/* A reply of the question goes to its client; `last` closes the answer, which
 * is kept if it may be. */
void answers_note(struct query *q, const Ips__Reply *reply);
/* The question ends, whatever became of it. */
void answer_cache_remove(struct query *q);

/* Puts the question that `ipsq path RUN` puts, with no client to hear the
 * answer. A question of a client does not wait for it unless it is the same
 * one: answers_give_way ends what is put ahead about that run. */
void answer_cache_precompute(struct master *m, const char *run);
void answers_give_way(struct master *m, const struct query *q);

uint64_t answers_count(const struct master *m);
void answer_cache_release(struct master *m);

#endif
