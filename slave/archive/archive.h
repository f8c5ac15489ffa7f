/*
 * A run's archive: STATE/slave-MACHINE/runs/RUN/archive, one append-only file
 * of blocks. A block is frames - records of one stream in the order they were
 * written - packed together (pack.h); frames of one stream follow each other
 * in the order of the stream.
 *
 * Invariants:
 *  - the file's length that counts is the one committed to SQLite together
 *    with the cursors (store.h); what lies behind it is a torn append and is
 *    cut off at the next start. So records and cursors move as one.
 *  - a block holds SLAVE_PACK_RAW_MAX bytes of frames at most.
 *  - a reader's frames are whole checked records (ips_rec_check) and lie at
 *    multiples of 8 bytes.
 *
 * Thread: one appender (the event loop's); any number of readers of the
 * committed length, each with its own mapping.
 */
#ifndef IPS_SLAVE_ARCHIVE_ARCHIVE_H
#define IPS_SLAVE_ARCHIVE_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "slave/archive/pack.h"

#define SLAVE_BLOCK_MAGIC 0x32425350u /* "PSB2" */

struct slave_block { /* 24 bytes, then `bytes` of payload, see slave_packed */
    uint32_t magic;
    uint32_t bytes;
    uint32_t plain_bytes;
    uint32_t raw_bytes;
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

/* Packs frames (`len` bytes in all, each with its header at most
 * SLAVE_PACK_RAW_MAX) and writes them behind what is staged. On failure nothing
 * is staged by this call. */
int slave_archive_stage(struct slave_archive *a, struct slave_pack *pack,
                        uint64_t mult_q32, const void *frames, size_t len,
                        struct ips_err *err) IPS_MUST_USE;
/* After SQLite has committed `length + staged`; or after it has not. */
void slave_archive_commit(struct slave_archive *a);
void slave_archive_rollback(struct slave_archive *a);
int slave_archive_sync(struct slave_archive *a,
                       struct ips_err *err) IPS_MUST_USE;

/* The payload of the block at `at`, read into `to` (SLAVE_PACK_OUT_MAX). Looked
 * at with its check; the end is the caller's to know. */
int slave_archive_block(const struct slave_archive *a, uint64_t at, uint8_t *to,
                        struct slave_packed *out,
                        struct ips_err *err) IPS_MUST_USE;

/*
 * repack.c: blocks are as large as what one turn found, so a slow program's
 * are small and take many bytes an event. When a run has come to rest its
 * archive is packed into full blocks, in archive.new, step by step; then its
 * length is committed with the run's closing, and the file is renamed. It is
 * taken only if it is smaller: so archive.new has the committed length if, and
 * only if, the commit was made, and a start after a crash between the two knows
 * what to do (slave_repack_recover).
 */
struct slave_repack;
struct slave_repack *slave_repack_new(const struct slave_archive *a,
                                      const char *dir, struct ips_err *err);
void slave_repack_free(struct slave_repack *r); /* and its file */
/* 1 done and on disk, 0 call again, negative: leave it. */
int slave_repack_step(struct slave_repack *r, const struct slave_archive *a,
                      struct slave_pack *pack, uint64_t mult_q32,
                      struct ips_err *err) IPS_MUST_USE;
uint64_t slave_repack_length(const struct slave_repack *r);
/* After the commit: `a` is the new file. Frees `r`. */
int slave_repack_take(struct slave_repack *r, struct slave_archive *a,
                      struct ips_err *err) IPS_MUST_USE;
/* At a start, and before the archive is opened for writing. An error: the
 * committed file could not be given its name; the other one must stay. */
int slave_repack_recover(const char *dir, uint64_t committed,
                         struct ips_err *err) IPS_MUST_USE;

/* The committed part as frames, unpacked (common/large.h). */
struct slave_archive_map {
    const uint8_t *data; /* NULL where empty */
    size_t length;
};
/* Reads, checks and unpacks all of it, from `fd` or, -1, from DIR/archive;
 * about 20 ns a record. Damage is IPS_E_CORRUPT with the offset; an archive of
 * an earlier version IPS_E_VERSION. */
int slave_archive_map(const char *dir, int fd, uint64_t committed,
                      struct slave_archive_map *out,
                      struct ips_err *err) IPS_MUST_USE;
/* The same of its bytes [from, committed) alone; a block begins at `from`. Each
 * frame is shown to `seen` (NULL: nobody) as soon as it is unpacked, while it
 * is in the cache; a negative return ends it. */
typedef int slave_frame_seen(void *arg, const struct slave_frame *f,
                             struct ips_err *err);
int slave_archive_map_from(const char *dir, int fd, uint64_t from,
                           uint64_t committed, struct slave_archive_map *out,
                           slave_frame_seen *seen, void *arg,
                           struct ips_err *err) IPS_MUST_USE;
void slave_archive_unmap(struct slave_archive_map *m);

/* DIR/archive to read, -1: there is none. The caller closes it. */
int slave_archive_fd(const char *dir);

/* The frame at *at, NULL at the end; moves *at behind it. */
const struct slave_frame *slave_archive_next(const struct slave_archive_map *m,
                                             size_t *at);

#endif
