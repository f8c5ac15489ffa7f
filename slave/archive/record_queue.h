/*
 * Records on their way from the ingest to the tables of the run that is
 * followed (graphs/live_tables.h), so that nobody unpacks what was just packed.
 * The ingest gives whole buffers away and gets others that were used before;
 * what is small is copied behind what waits. Nothing depends on it: who finds a
 * part missing reads the archive.
 *
 * Invariants: `rooms` buffers at the most, waiting, in use and free together;
 * where all wait, what comes is not taken. What waits is of one run, in the
 * order of its archive, each batch a part [from, until) of it in bytes of the
 * file; parts follow each other but where something was not taken. A batch that
 * was not committed is never shown: its end lies behind the snapshot's.
 *
 * Threads: put, rollback, seal: the loop's; take, give_back: the worker's.
 */
#ifndef IPS_SLAVE_ARCHIVE_RECORD_QUEUE_H
#define IPS_SLAVE_ARCHIVE_RECORD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slave/archive/pack.h"

/* Frames of one flush, which is one block of the archive. */
#define SLAVE_FRAMES_BYTES SLAVE_PACK_RAW_MAX
#define SLAVE_HANDOVER_ROOMS 12u /* of SLAVE_FRAMES_BYTES */

struct slave_batch {
    struct slave_batch *next;
    uint64_t from, until;
    bool sealed; /* nothing is put behind it any more */
    size_t len;  /* of data: frames, SLAVE_FRAMES_BYTES at most */
    uint8_t *data;
};

struct slave_record_queue;
struct slave_record_queue *
slave_record_queue_new(unsigned rooms); /* NULL: no memory */
void slave_record_queue_free(struct slave_record_queue *h);

/* `*buffer` (malloc, SLAVE_FRAMES_BYTES, `len` of frames in it) is the part
 * [from, until); afterwards *buffer is one to write to, that one or another. */
void slave_record_queue_put(struct slave_record_queue *h, uint8_t **buffer,
                            size_t len, uint64_t from, uint64_t until);
/* The archive has `length` bytes again. */
void slave_record_queue_rollback(struct slave_record_queue *h, uint64_t length);
/* A snapshot was taken, which ends here. */
void slave_record_queue_seal(struct slave_record_queue *h);
/* Another run from now on: nothing waits. Gives the memory back. */
void slave_record_queue_clear(struct slave_record_queue *h);

/* The part [from, until) if all of it is there, else NULL; what lies before
 * `until` is no longer there in either case. */
struct slave_batch *slave_record_queue_take(struct slave_record_queue *h,
                                            uint64_t from, uint64_t until);
void slave_record_queue_give_back(struct slave_record_queue *h,
                                  struct slave_batch *b);

#endif
