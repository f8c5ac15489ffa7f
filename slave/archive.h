/*
 * A run's archive: STATE/slave-MACHINE/runs/RUN/archive, one append-only file
 * of frames. A frame is records of one stream in the order they were written;
 * frames of one stream follow each other in the order of the stream.
 *
 * Invariants:
 *  - the file's length that counts is the one committed to SQLite together
 *    with the cursors (store.h); what lies behind it is a torn append and is
 *    cut off at the next start. So records and cursors move as one.
 *  - payloads are whole checked records (ips_rec_check), so readers need no
 *    check but the frame's own.
 *  - frames are multiples of 8 bytes and the file begins with one: a mapping
 *    of the file gives aligned records.
 *
 * Thread: one appender (the event loop's); any number of readers of the
 * committed length, each with its own mapping.
 */
#ifndef IPS_SLAVE_ARCHIVE_H
#define IPS_SLAVE_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define SLAVE_FRAME_MAGIC 0x31465350u /* "PSF1" */
#define SLAVE_FRAME_MAX_BYTES (64u << 20)

struct slave_frame { /* 24 bytes, then `bytes` of records */
    uint32_t magic;
    uint32_t stream; /* number within the run */
    uint32_t bytes;  /* of payload, a multiple of 8 */
    uint32_t records;
    uint64_t check; /* slave_wordhash over the above and the payload */
};

struct slave_archive {
    int fd;          /* -1 closed */
    uint64_t length; /* committed */
    uint64_t staged; /* written behind it, not yet committed */
};

/* Opens (makes, 0600) DIR/archive and cuts it to `committed` bytes. A file
 * shorter than that (the machine lost power) is no failure: *missing says how
 * many bytes are gone, and the caller tells the user. */
int slave_archive_open(struct slave_archive *a, const char *dir,
                       uint64_t committed, uint64_t *missing,
                       struct ips_err *err) IPS_MUST_USE;
void slave_archive_close(struct slave_archive *a);

/* Fills the frame's header before `bytes` of payload at frame + 1. */
void slave_frame_seal(struct slave_frame *frame, uint32_t stream,
                      uint32_t bytes, uint32_t records);

/* Writes sealed frames (`len` bytes in all) behind what is staged. On failure
 * nothing is staged by this call. */
int slave_archive_stage(struct slave_archive *a, const void *frames, size_t len,
                        struct ips_err *err) IPS_MUST_USE;
/* After SQLite has committed `length + staged`; or after it has not. */
void slave_archive_commit(struct slave_archive *a);
void slave_archive_rollback(struct slave_archive *a);
int slave_archive_sync(struct slave_archive *a,
                       struct ips_err *err) IPS_MUST_USE;

/* A reader's mapping of the committed part. */
struct slave_archive_map {
    const uint8_t *data; /* NULL where empty */
    size_t length;
};
int slave_archive_map(const char *dir, uint64_t committed,
                      struct slave_archive_map *out,
                      struct ips_err *err) IPS_MUST_USE;
void slave_archive_unmap(struct slave_archive_map *m);

/* The frame at *at; moves *at behind it. 1 a frame, 0 the end, negative:
 * damaged there (IPS_E_CORRUPT, message with the offset). */
int slave_archive_next(const struct slave_archive_map *m, size_t *at,
                       const struct slave_frame **frame,
                       struct ips_err *err) IPS_MUST_USE;

#endif
