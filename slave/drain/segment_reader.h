/*
 * Copies records from a segment into the frames of a turn.
 *
 * Bytes are read twice. The first pass finds how far records are published; the
 * second makes the copy that is kept, because the first pass may have read a
 * record's body before its writer stored it. The copy is private, so a check of
 * it stays valid whatever the writer does. For a thread that writes much both
 * passes use a mapping (drain/guarded_mapping.h), else pread.
 *
 * Thread: the drain's.
 */
#ifndef IPS_SLAVE_DRAIN_SEGMENT_READER_H
#define IPS_SLAVE_DRAIN_SEGMENT_READER_H

#include <string.h>
#include <sys/types.h>

#include "slave/drain/drain.h"

/* Kinds of bytes that may follow the published records of a segment. */
enum slave_segment_stop {
    SLAVE_STOP_ZERO, /* zeroes: no record was written after the published ones
                      */
    /* space that a writer has reserved for a record and not published yet */
    SLAVE_STOP_PENDING,
    /* the read limit was reached: more bytes follow, which may be records */
    SLAVE_STOP_MORE,
    SLAVE_STOP_WRONG /* bytes that are no valid record, or the file was
                        truncated */
};

#define SLAVE_LOOK_FIRST_BYTES 4096u
struct slave_segment_look {
    /* input: how many bytes to read at most. Results: `left` bytes of the
     * segment follow the cursor; published records fill the first `extent` of
     * them. */
    size_t most;
    size_t left, extent;
    enum slave_segment_stop stop_reason;
};

/* Finds the published records after the segment's cursor. Overwrites
 * d->peek. */
int slave_segment_reader_find_published_end(struct slave_drain *d,
                                            struct slave_segment *seg,
                                            struct slave_segment_look *look,
                                            struct ips_err *err) IPS_MUST_USE;

/* Copies `len` published bytes at the cursor into a frame and moves the cursor
 * past the valid records. Sets *wrong if not all of the bytes are valid
 * records. */
int slave_segment_reader_copy_published(struct slave_drain *d,
                                        struct slave_run *run,
                                        struct slave_segment *seg, size_t len,
                                        bool *wrong,
                                        struct ips_err *err) IPS_MUST_USE;

/* Stages the frames in d->frames for the archive of `run`, to which they
 * belong. d->frames is empty afterwards, also on failure. */
int slave_segment_reader_stage_frames_in_archive(
    struct slave_drain *d, struct slave_run *run,
    struct ips_err *err) IPS_MUST_USE;

/* Like slave_poolfs_read_header(), for an open segment: reads through the
 * segment's mapping if there is one. */
int slave_segment_reader_read_header(struct slave_segment *seg,
                                     struct ips_segment_header *out,
                                     struct ips_err *err) IPS_MUST_USE;

/* Like pread(), but tries again after EINTR. */
ssize_t slave_pread_without_eintr(int fd, void *out, size_t len, uint32_t at);

static inline uint32_t slave_read_record_head_word(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline size_t record_bytes_from_head_word(uint32_t word)
{
    return (size_t)(word >> 8 & 0xffu) * 8;
}

#endif
