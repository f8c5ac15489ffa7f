/* Reading segments. Every byte may be wrong or change while it is looked at:
 * a head word is loaded once, the record is copied, and only the copy is
 * checked and used. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/pool.h"
#include "common/types.h"

#define HEADER_BYTES sizeof(struct ips_segment_header)

/* One acquire load; partner: the writer's release store of the same word. */
static uint32_t load_u32(const unsigned char *at)
{
    return __atomic_load_n((const uint32_t *)(const void *)at,
                           __ATOMIC_ACQUIRE);
}

static uint64_t load_u64(const unsigned char *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at,
                           __ATOMIC_ACQUIRE);
}

#define FIELD32(base, field)                                                   \
    load_u32((base) + offsetof(struct ips_segment_header, field))

static size_t word_bytes(uint32_t word)
{
    return (size_t)(word >> 8 & 0xffu) * 8;
}

int ips_cursor_init(struct ips_cursor *c, const void *base, size_t size,
                    struct ips_err *err)
{
    const unsigned char *b = base;
    if ((uintptr_t)base % 8)
        return ips_err_set(err, IPS_E_USAGE, "segment memory not aligned");
    if (size < HEADER_BYTES + sizeof(struct ips_rec_head))
        return ips_err_set(err, IPS_E_CORRUPT,
                           "%zu bytes are too few for a segment", size);
    if (size > IPS_SEGMENT_MAX_BYTES)
        return ips_err_set(err, IPS_E_LIMIT,
                           "%zu bytes are more than a segment may have (%u)",
                           size, IPS_SEGMENT_MAX_BYTES);
    uint64_t magic = load_u64(b);
    if (magic == 0)
        return ips_err_set(err, IPS_E_BUSY, "header not written yet");
    if (magic != IPS_SEGMENT_MAGIC)
        return ips_err_set(err, IPS_E_CORRUPT, "not a segment (magic %#llx)",
                           (unsigned long long)magic);
    uint32_t version = FIELD32(b, version);
    if (version != IPS_POOL_VERSION)
        return ips_err_set(err, IPS_E_VERSION, "header version %u, expected %d",
                           version, IPS_POOL_VERSION);
    uint32_t header_bytes = FIELD32(b, header_bytes);
    if (header_bytes != HEADER_BYTES)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "header of %u bytes, expected %zu", header_bytes,
                           HEADER_BYTES);
    uint32_t bytes = FIELD32(b, segment_bytes);
    if (bytes > size || bytes < HEADER_BYTES || bytes % 8)
        return ips_err_set(err, IPS_E_CORRUPT,
                           "header says %u bytes, the file has %zu", bytes,
                           size);
    *c = (struct ips_cursor){.base = b, .size = bytes, .at = HEADER_BYTES};
    return 0;
}

/* Looks at the next head. MORE: `*word` is of a published record that fits. */
static enum ips_cursor_answer look(const struct ips_cursor *c, uint32_t *word)
{
    /* State before head: a head that is empty after the writer said CLOSED
     * stays empty. */
    bool closed = FIELD32(c->base, state) != IPS_SEGMENT_OPEN;
    size_t left = c->size - c->at;
    if (left < sizeof(struct ips_rec_head))
        return closed ? IPS_CURSOR_CLOSED : IPS_CURSOR_END;
    *word = load_u32(c->base + c->at);
    if (*word == 0)
        return closed ? IPS_CURSOR_CLOSED : IPS_CURSOR_END;
    size_t len = word_bytes(*word);
    if (len < sizeof(struct ips_rec_head) || len > IPS_REC_MAX_BYTES ||
        len > left || (*word & 0xffu) == 0)
        return IPS_CURSOR_CORRUPT;
    if ((*word & 0xffu) == IPS_REC_RESERVED)
        return IPS_CURSOR_PENDING;
    return IPS_CURSOR_MORE;
}

enum ips_cursor_answer ips_cursor_next(struct ips_cursor *c, void *out,
                                       size_t *len)
{
    uint32_t word = 0;
    enum ips_cursor_answer answer = look(c, &word);
    if (answer != IPS_CURSOR_MORE)
        return answer;
    size_t n = word_bytes(word);
    memcpy(out, c->base + c->at, n);
    memcpy(out, &word, sizeof(word)); /* the one that was checked */
    if (ips_rec_check(out, n) != n)
        return IPS_CURSOR_CORRUPT;
    c->at += n;
    *len = n;
    return IPS_CURSOR_MORE;
}

enum ips_cursor_answer ips_cursor_skip(struct ips_cursor *c)
{
    uint32_t word = 0;
    enum ips_cursor_answer answer = look(c, &word);
    if (answer == IPS_CURSOR_PENDING) {
        c->at += word_bytes(word);
        answer = IPS_CURSOR_MORE;
    }
    return answer;
}

/* Least size of each type's record; 0: a type of later versions. */
static const uint16_t least_bytes[256] = {
#define X(name, code, record, text) [code] = sizeof(struct record),
#include "agent/events.def"
#undef X
};

/* Of the types that hold a text, where it begins. */
static const uint8_t text_at[256] = {
    [IPS_REC_MODULE] = offsetof(struct ips_rec_module, path),
    [IPS_REC_MARK] = offsetof(struct ips_rec_text, text),
    [IPS_REC_NAME] = offsetof(struct ips_rec_text, text),
    [IPS_REC_EXEC] = offsetof(struct ips_rec_text, text),
    [IPS_REC_UNSEEN] = offsetof(struct ips_rec_text, text),
    [IPS_REC_EXECFAIL] = offsetof(struct ips_rec_exec, path),
};

size_t ips_rec_check(const void *rec, size_t avail)
{
    uint32_t word;
    if (avail < sizeof(struct ips_rec_head))
        return 0;
    memcpy(&word, rec, sizeof(word));
    uint32_t type = word & 0xffu;
    size_t len = word_bytes(word);
    if (type == 0 || type == IPS_REC_RESERVED || len > avail ||
        len < sizeof(struct ips_rec_head) || len > IPS_REC_MAX_BYTES ||
        len < least_bytes[type])
        return 0;
    if (type == IPS_REC_SAMPLE || type == IPS_REC_STACK) {
        uint32_t a;
        memcpy(&a, (const unsigned char *)rec + sizeof(word), sizeof(a));
        if (a > (len - least_bytes[type]) / sizeof(uint64_t))
            return 0;
    }
    size_t text = text_at[type];
    if (type == IPS_REC_EXECFAIL && len == sizeof(struct ips_rec_exec))
        text = 0; /* it need not have one */
    if (text && !memchr((const char *)rec + text, '\0', len - text))
        return 0;
    return len;
}

/* --- files --------------------------------------------------------- */

#define READ_STEP ((size_t)64 << 10)

static int read_range(int fd, unsigned char *buf, size_t from, size_t to,
                      struct ips_err *err)
{
    while (from < to) {
        ssize_t n = pread(fd, buf + from, to - from, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ips_err_errno(err, "read segment at %zu", from);
        if (n == 0)
            return ips_err_set(err, IPS_E_CORRUPT,
                               "segment cut off at %zu of %zu bytes", from, to);
        from += (size_t)n;
    }
    return 0;
}

/* Follows the heads in buf[at, to): where the first one is that is empty,
 * wrong or not whole. Trusts nothing; the cursor judges afterwards. */
static size_t follow(const unsigned char *buf, size_t at, size_t to)
{
    while (to - at >= sizeof(struct ips_rec_head)) {
        size_t len = word_bytes(load_u32(buf + at));
        if (len < sizeof(struct ips_rec_head) || len > to - at)
            break;
        at += len;
    }
    return at;
}

int ips_segment_read(int fd, void *buf, size_t size, size_t at,
                     struct ips_err *err)
{
    unsigned char *b = buf;
    if (size < HEADER_BYTES || size % 8 || at < HEADER_BYTES || at % 8 ||
        at > size)
        return ips_err_set(err, IPS_E_USAGE, "segment_read: at %zu of %zu", at,
                           size);
    /* The header first: CLOSED seen means all its records will be seen. */
    int rc = read_range(fd, b, 0, HEADER_BYTES, err);
    size_t from = at, end = at;
    while (rc == 0 && end < size) {
        size_t to = ips_min_u64(size, end + READ_STEP);
        rc = read_range(fd, b, end, to, err);
        if (rc < 0)
            return rc;
        size_t stop = follow(b, from, to);
        /* Again: in the first copy a body may be older than its head. */
        rc = read_range(fd, b, from, stop, err);
        from = stop;
        end = to;
        if (to - stop >= IPS_REC_MAX_BYTES)
            break; /* stopped at an empty place, not at the step's end */
    }
    if (rc == 0)
        memset(b + end, 0, size - end);
    return rc;
}

int ips_segment_set_drained(int fd, size_t zero_to, struct ips_err *err)
{
    static unsigned char zeros[65536]; /* never written, so no memory */
    off_t at = (off_t)(zero_to > HEADER_BYTES ? zero_to : HEADER_BYTES);
    /* Populated ranges only: writing into a hole would take space. */
    for (;;) {
        off_t from = lseek(fd, at, SEEK_DATA);
        if (from < 0 && errno == ENXIO)
            break;
        off_t to = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
        if (to < 0)
            return ips_err_errno(err, "seek in segment");
        while (from < to) {
            size_t n = ips_min_u64((uint64_t)(to - from), sizeof(zeros));
            ssize_t done = pwrite(fd, zeros, n, from);
            if (done <= 0)
                return ips_err_errno(err, "clear segment");
            from += done;
        }
        at = to;
    }
    uint32_t state = IPS_SEGMENT_DRAINED;
    if (pwrite(fd, &state, sizeof(state),
               offsetof(struct ips_segment_header, state)) != sizeof(state))
        return ips_err_errno(err, "mark segment drained");
    return 0;
}

uint64_t ips_clock_ns(const struct ips_clock *clock, uint64_t stamp)
{
    int64_t since = (int64_t)(stamp - clock->counter0);
    ips_i128 ns =
        (ips_i128)since * (ips_i128)clock->mult_q32 / ((ips_i128)1 << 32);
    return clock->raw0_ns + (uint64_t)(int64_t)ns;
}
