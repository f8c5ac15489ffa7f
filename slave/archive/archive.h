/*
 * A run's archive: STATE/slave-MACHINE/runs/RUN/archive, one append-only file
 * of blocks. A frame holds records of one stream (one thread's events), in the
 * order they were written; a block holds frames packed together (pack.h). The
 * frames of one stream follow each other in the order of its records.
 *
 * Invariants:
 *  - the valid length of the file is the one committed to SQLite together with
 *    the cursors (store.h). Bytes after it are an incomplete append and are cut
 *    off at the next start. So records and cursors change together.
 *  - a block holds SLAVE_PACK_RAW_MAX bytes of frames at most.
 *  - frames given to readers hold complete, checked records
 * (ips_rec_check_and_get_length) at multiples of 8 bytes.
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

/* Header of a block, 24 bytes. `bytes` bytes of payload follow it; struct
 * slave_packed describes them. */
struct slave_block {
    uint32_t magic;
    uint32_t bytes;
    uint32_t plain_bytes;
    uint32_t raw_bytes;
    uint64_t check; /* hash of the members above and of the payload
                       (slave_hash_bytes) */
};

struct slave_archive {
    int fd;          /* descriptor of the file; -1: closed */
    uint64_t length; /* committed bytes */
    uint64_t staged; /* bytes in the file after `length`, not committed yet */
};

/* Opens or creates (0600) DIR/archive and cuts it to `committed` bytes. If the
 * file is shorter (the machine lost power), it is cut after its last whole
 * block. That is no failure: *missing is set to the number of missing bytes,
 * and the caller reports it. */
int slave_archive_open_and_cut_to_committed(struct slave_archive *a,
                                            const char *dir, uint64_t committed,
                                            uint64_t *missing,
                                            struct ips_err *err) IPS_MUST_USE;
void slave_archive_close(struct slave_archive *a);

/* Packs `frames` (`len` bytes; a frame with its header has at most
 * SLAVE_PACK_RAW_MAX) into blocks, and appends the blocks after those staged
 * before. `mult_q32`: ns per clock tick times 2^32, see slave_pack_encode(). On
 * failure nothing of this call is staged. */
int slave_archive_pack_and_stage_frames(struct slave_archive *a,
                                        struct slave_pack *pack,
                                        uint64_t mult_q32, const void *frames,
                                        size_t len,
                                        struct ips_err *err) IPS_MUST_USE;
/* slave_archive_accept_staged_bytes() makes the staged bytes valid; call it
 * after SQLite has committed `length + staged`.
 * slave_archive_drop_staged_bytes() drops the staged bytes; call it if that
 * commit failed. */
void slave_archive_accept_staged_bytes(struct slave_archive *a);
void slave_archive_drop_staged_bytes(struct slave_archive *a);
int slave_archive_sync(struct slave_archive *a,
                       struct ips_err *err) IPS_MUST_USE;

/* Reads the payload of the block at offset `at` into `to` (SLAVE_PACK_OUT_MAX
 * bytes), verifies the block's checksum, and describes the payload in *out.
 * `at` must be before the archive's end: that is not checked. */
int slave_archive_read_block(const struct slave_archive *a, uint64_t at,
                             uint8_t *to, struct slave_packed *out,
                             struct ips_err *err) IPS_MUST_USE;

/*
 * repack.c: a block holds the records that one turn of the drain read, so a
 * slow program's blocks are small and need many bytes for an event. When a run
 * is quiet, its archive is packed into full blocks in archive.new, step by
 * step. Then the new length is committed together with the closing of the run,
 * and the file is renamed. The new file is used only if it is smaller. So
 * archive.new has the committed length if and only if the commit was made; by
 * that slave_repack_recover knows what to do after a crash between commit and
 * rename.
 */
struct slave_repack;
struct slave_repack *slave_repack_new(const struct slave_archive *a,
                                      const char *dir, struct ips_err *err);
/* frees `r` and removes the file archive.new */
void slave_repack_free_and_remove_file(struct slave_repack *r);
/* Packs the records of the next blocks of `a` into archive.new: a few ms of
 * work. Returns 1: archive.new is complete and on disk; 0: call again;
 * negative: give up (IPS_E_BUSY: `a` has grown). */
int slave_repack_step(struct slave_repack *r, const struct slave_archive *a,
                      struct slave_pack *pack, uint64_t mult_q32,
                      struct ips_err *err) IPS_MUST_USE;
uint64_t slave_repack_new_archive_bytes(const struct slave_repack *r);
/* Call after the new length was committed. Renames archive.new to archive, and
 * makes `a` the new archive. If the rename fails, `a` does not change and
 * archive.new stays, for slave_repack_recover(). Frees `r` in any case. */
int slave_repack_replace_archive(struct slave_repack *r,
                                 struct slave_archive *a,
                                 struct ips_err *err) IPS_MUST_USE;
/* Renames archive.new if it has the committed length, else removes it. Call at
 * the start of the slave and before the archive is opened for writing. On an
 * error the rename failed, and archive.new must be kept. */
int slave_repack_recover(const char *dir, uint64_t committed,
                         struct ips_err *err) IPS_MUST_USE;

/* The committed frames of an archive, unpacked in memory (common/large.h). */
struct slave_unpacked_archive {
    const uint8_t *data; /* NULL: no frames */
    size_t length;
};
/* Reads, checks and unpacks the first `committed` bytes of an archive, from
 * `fd` or, if it is -1, from DIR/archive; about 20 ns a record. IPS_E_CORRUPT:
 * damaged (the message has the offset); IPS_E_VERSION: of an earlier
 * version. */
int slave_archive_unpack(const char *dir, int fd, uint64_t committed,
                         struct slave_unpacked_archive *out,
                         struct ips_err *err) IPS_MUST_USE;
/* Type of a callback: slave_archive_unpack_from_offset() calls it for each
 * frame just unpacked, while the frame is still in the CPU's cache. A negative
 * result ends the unpacking with that error. */
typedef int slave_frame_seen(void *arg, const struct slave_frame *f,
                             struct ips_err *err);
/* Unpacks like slave_archive_unpack(), but only the bytes [from, committed);
 * a block must begin at `from`. `seen` may be NULL. */
int slave_archive_unpack_from_offset(const char *dir, int fd, uint64_t from,
                                     uint64_t committed,
                                     struct slave_unpacked_archive *out,
                                     slave_frame_seen *seen, void *arg,
                                     struct ips_err *err) IPS_MUST_USE;
void slave_archive_free_unpacked(struct slave_unpacked_archive *m);

/* Opens DIR/archive for reading. Returns the descriptor, which the caller
 * closes; -1: the file cannot be opened. */
int slave_archive_open_for_reading(const char *dir);

/* Returns the frame at offset *at and moves *at past it; NULL: the end. */
const struct slave_frame *
slave_archive_next_frame(const struct slave_unpacked_archive *m, size_t *at);

#endif
