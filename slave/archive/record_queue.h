/*
 * Hands new records of one run from the ingest to the live tables of the run
 * (graphs/live_tables.h), which then need not unpack the records from the
 * archive. The ingest gives away full buffers and gets used ones back; small
 * batches are appended to the last waiting one. Nothing depends on the queue:
 * records that are missing from it are read from the archive.
 *
 * Invariants: at most `rooms` buffers exist (waiting, in use and free); if none
 * is free, new records are not queued. All waiting batches are of one run, in
 * the order of its archive; each covers the file's bytes [from, until). Batches
 * are contiguous except where records were not queued. A batch that was not
 * committed is never returned, because it ends after the snapshot's end.
 *
 * Threads: the event loop calls put, rollback and seal_last_batch; the worker
 * calls take and recycle_batches.
 */
#ifndef IPS_SLAVE_ARCHIVE_RECORD_QUEUE_H
#define IPS_SLAVE_ARCHIVE_RECORD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slave/archive/pack.h"

/* Maximum bytes of frames in one flush, which becomes one block of the
 * archive. */
#define SLAVE_FRAMES_BYTES SLAVE_PACK_RAW_MAX
/* maximum number of buffers of a queue, each of SLAVE_FRAMES_BYTES */
#define SLAVE_HANDOVER_ROOMS 12u

struct slave_batch {
    struct slave_batch *next;
    uint64_t from, until;
    bool sealed; /* no more frames are appended to this batch */
    size_t len;  /* bytes of frames in `data`, at most SLAVE_FRAMES_BYTES */
    uint8_t *data;
};

struct slave_record_queue;
struct slave_record_queue *
slave_record_queue_new(unsigned rooms); /* NULL: out of memory */
void slave_record_queue_free(struct slave_record_queue *h);

/* Queues `*buffer` (malloc'd, SLAVE_FRAMES_BYTES), whose first `len` bytes are
 * frames: the archive's bytes [from, until), unpacked. Afterwards *buffer is a
 * buffer that the caller may fill: the same or another one. If no buffer is
 * free, the frames are not queued. */
void slave_record_queue_append_if_room(struct slave_record_queue *h,
                                       uint8_t **buffer, size_t len,
                                       uint64_t from, uint64_t until);
/* Call when the archive was cut back to `length` bytes: drops the batches that
 * end after this length. */
void slave_record_queue_drop_batches_after_length(struct slave_record_queue *h,
                                                  uint64_t length);
/* Call when a snapshot of the run is made: seals the last batch, so that the
 * batch ends where the snapshot ends. */
void slave_record_queue_seal_last_batch(struct slave_record_queue *h);
/* Empties the queue and frees its buffers. Call when the live tables change to
 * another run, or when nothing will read the queue. */
void slave_record_queue_clear(struct slave_record_queue *h);

/* Returns the list of batches with the archive's bytes [from, until) if all of
 * these are queued, else NULL. In both cases batches that begin before `until`
 * are removed from the queue. */
struct slave_batch *
slave_record_queue_take_batches_of_range(struct slave_record_queue *h,
                                         uint64_t from, uint64_t until);
void slave_record_queue_recycle_batches(struct slave_record_queue *h,
                                        struct slave_batch *b);

#endif
