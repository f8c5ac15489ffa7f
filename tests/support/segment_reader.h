/*
 * The drain's reader (slave/drain/segment_reader.h) on a segment file without a
 * pool: what of it would go into the archive. Header only.
 */
#ifndef IPS_TESTS_SEGMENT_READER_H
#define IPS_TESTS_SEGMENT_READER_H

#include <stdlib.h>

#include "slave/drain/poolfs.h"
#include "slave/drain/segment_reader.h"

struct segment_reader {
    struct slave_drain d;
    struct slave_run run;
    struct slave_image image;
    struct slave_stream stream;
    struct slave_segment seg; /* seg.row.at: of the next record */
    struct slave_segment_look look;
    const uint8_t *data; /* the records taken last */
    uint32_t len, records;
};

static inline void segment_reader_close(struct segment_reader *r)
{
    slave_guarded_close(&r->seg.mapping);
    free(r->d.frames);
    free(r->d.peek);
    r->d.frames = r->d.peek = NULL;
}

/* `fd` is borrowed; `most`: bytes of one look. `*r` is all zero, or was open
 * before. To be closed where it fails, too. */
static inline int segment_reader_open(struct segment_reader *r, int fd,
                                      size_t most, struct ips_err *err)
{
    struct ips_segment_header head;
    uint8_t *frames = r->d.frames, *peek = r->d.peek;
    slave_guarded_close(&r->seg.mapping);
    memset(r, 0, sizeof(*r));
    r->d.frames = frames ? frames : malloc(SLAVE_FRAMES_BYTES);
    r->d.peek = peek ? peek : malloc(SLAVE_READ_BYTES);
    r->stream.image = &r->image;
    r->seg.stream = &r->stream;
    r->seg.fd = fd;
    r->look.most = most;
    if (!r->d.frames || !r->d.peek)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    int rc = slave_poolfs_read_header(fd, &head, err);
    if (rc == 0) {
        r->seg.size = head.segment_bytes;
        r->seg.row.at = head.header_bytes;
    }
    return rc;
}

/* Takes what one look finds. Returns what is behind it; ZERO and PENDING stay
 * there. */
static inline enum slave_segment_stop
segment_reader_next(struct segment_reader *r)
{
    bool wrong = false;
    const struct slave_frame *frame = (void *)r->d.frames;
    r->d.frames_len = 0;
    r->len = r->records = 0;
    if (slave_segment_reader_find_published_end(&r->d, &r->seg, &r->look,
                                                NULL) < 0 ||
        (r->look.extent > 0 &&
         slave_segment_reader_copy_published(&r->d, &r->run, &r->seg,
                                             r->look.extent, &wrong, NULL) < 0))
        return SLAVE_STOP_WRONG;
    if (r->d.frames_len) {
        r->data = (const uint8_t *)(frame + 1);
        r->len = frame->bytes;
        r->records = frame->records;
    }
    return wrong ? SLAVE_STOP_WRONG : r->look.stop_reason;
}

#endif
