/*
 * The records of a segment file, one after the other, for tests that look at
 * what an agent wrote. Shares nothing with the slave's reader but the check of
 * a record. Bytes may be wrong or change meanwhile: a head is read once, then
 * its record, and only that copy is checked and used. Header only.
 */
#ifndef IPS_TESTS_POOL_CURSOR_H
#define IPS_TESTS_POOL_CURSOR_H

#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/pool.h"

enum pool_cursor_answer {
    POOL_CURSOR_MORE = 1, /* a record was copied out */
    POOL_CURSOR_END,      /* nothing more yet */
    POOL_CURSOR_PENDING,  /* a reservation not published is in the way */
    POOL_CURSOR_CLOSED,   /* the writer closed the segment and all was read */
    POOL_CURSOR_CORRUPT,  /* impossible bytes; the rest cannot be read */
};

struct pool_cursor {
    int fd;
    size_t size;
    size_t at; /* offset of the next record */
};

static inline uint32_t pool_cursor_word(const struct pool_cursor *c, size_t at)
{
    uint32_t word = 0;
    return pread(c->fd, &word, sizeof(word), (off_t)at) == sizeof(word) ? word
                                                                        : 0;
}

/* `fd` is borrowed. IPS_E_BUSY: the writer has not filled the header. */
static inline int pool_cursor_open(struct pool_cursor *c, int fd,
                                   struct ips_segment_header *head,
                                   struct ips_err *err)
{
    struct stat st;
    *c = (struct pool_cursor){.fd = fd};
    if (fstat(fd, &st) < 0 ||
        pread(fd, head, sizeof(*head), 0) != sizeof(*head))
        return ips_err_set(err, IPS_E_CORRUPT, "no header");
    if (head->magic == 0)
        return ips_err_set(err, IPS_E_BUSY, "header not written yet");
    if (head->magic != IPS_SEGMENT_MAGIC || head->version != IPS_POOL_VERSION ||
        head->header_bytes != sizeof(*head) ||
        head->segment_bytes < sizeof(*head) || head->segment_bytes % 8 ||
        head->segment_bytes > st.st_size)
        return ips_err_set(err, IPS_E_CORRUPT, "not a segment's header");
    c->size = head->segment_bytes;
    c->at = sizeof(*head);
    return 0;
}

/* Copies the next record into `out` (IPS_REC_MAX_BYTES, 8-byte aligned). */
static inline enum pool_cursor_answer pool_cursor_next(struct pool_cursor *c,
                                                       void *out, size_t *len)
{
    size_t left = c->size - c->at;
    bool room = left >= sizeof(struct ips_rec_head);
    uint32_t word = room ? pool_cursor_word(c, c->at) : 0;
    if (word == 0) {
        if (pool_cursor_word(c, offsetof(struct ips_segment_header, state)) ==
            IPS_SEGMENT_OPEN)
            return POOL_CURSOR_END;
        /* Again: the writer may have gone on before it closed. */
        word = room ? pool_cursor_word(c, c->at) : 0;
    }
    if (word == 0)
        return POOL_CURSOR_CLOSED;
    size_t n = (size_t)(word >> 8 & 0xffu) * 8;
    if (n < sizeof(struct ips_rec_head) || n > IPS_REC_MAX_BYTES || n > left ||
        (word & 0xffu) == 0)
        return POOL_CURSOR_CORRUPT;
    if ((word & 0xffu) == IPS_REC_RESERVED)
        return POOL_CURSOR_PENDING;
    if (pread(c->fd, out, n, (off_t)c->at) != (ssize_t)n)
        return POOL_CURSOR_CORRUPT;
    memcpy(out, &word, sizeof(word)); /* the one that was checked */
    if (ips_rec_check_and_get_length(out, n) != n)
        return POOL_CURSOR_CORRUPT;
    c->at += n;
    *len = n;
    return POOL_CURSOR_MORE;
}

/* After PENDING: steps over the reservation, whose writer is dead. */
static inline void pool_cursor_skip(struct pool_cursor *c)
{
    uint32_t word = pool_cursor_word(c, c->at);
    if ((word & 0xffu) == IPS_REC_RESERVED)
        c->at += (size_t)(word >> 8 & 0xffu) * 8;
}

#endif
