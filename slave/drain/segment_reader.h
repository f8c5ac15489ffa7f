/*
 * Records out of a segment into the frames of a turn.
 *
 * What is read twice: the first look tells how far records are published, the
 * second is the copy that is kept - at the first a record's body may have been
 * read before its writer stored it. The copy is private, so checking it is
 * final, whatever the writer does. Of a thread that writes much both are by a
 * mapping (drain/guarded_mapping.h), of others by pread.
 *
 * Thread: the drain's.
 */
#ifndef IPS_SLAVE_DRAIN_SEGMENT_READER_H
#define IPS_SLAVE_DRAIN_SEGMENT_READER_H

#include <string.h>
#include <sys/types.h>

#include "slave/drain/drain.h"

/* What stands behind the published records of a look. */
enum slave_segment_stop {
    SLAVE_STOP_ZERO,    /* nothing yet */
    SLAVE_STOP_PENDING, /* a reservation */
    SLAVE_STOP_MORE,    /* not looked at, or not whole in what was */
    SLAVE_STOP_WRONG    /* no record; or the file was cut */
};

#define SLAVE_LOOK_FIRST_BYTES 4096u
struct slave_segment_look {
    size_t most; /* bytes to look at; what follows is the answer */
    size_t left, extent;
    enum slave_segment_stop stop_reason;
};

/* From the segment's cursor on; d->peek is written to. */
int slave_segment_reader_look(struct slave_drain *d, struct slave_segment *seg,
                              struct slave_segment_look *look,
                              struct ips_err *err) IPS_MUST_USE;

/* Takes `len` published bytes at the cursor into a frame; *wrong: not all of
 * them are records. */
int slave_segment_reader_next(struct slave_drain *d, struct slave_run *run,
                              struct slave_segment *seg, size_t len,
                              bool *wrong, struct ips_err *err) IPS_MUST_USE;

/* Stages d->frames, which are `run`'s; none are left in either case. */
int slave_segment_reader_flush(struct slave_drain *d, struct slave_run *run,
                               struct ips_err *err) IPS_MUST_USE;

/* slave_poolfs_header() of an open segment, by its view where it has one. */
int slave_segment_reader_header(struct slave_segment *seg,
                                struct ips_segment_header *out,
                                struct ips_err *err) IPS_MUST_USE;

/* pread, again where a signal came. */
ssize_t slave_take_read(int fd, void *out, size_t len, uint32_t at);

static inline uint32_t slave_take_word(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline size_t slave_take_word_bytes(uint32_t word)
{
    return (size_t)(word >> 8 & 0xffu) * 8;
}

#endif
