/* Functions for the slave: check records, return segments to their writers,
 * convert stamps. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "common/types.h"

#define HEADER_BYTES sizeof(struct ips_segment_header)

static size_t record_length_of_head_word(uint32_t word)
{
    return (size_t)(word >> 8 & 0xffu) * 8;
}

/* Least size of a record of each type; 0: a type of a later version. */
static const uint16_t least_bytes[256] = {
#define X(name, code, record, text) [code] = sizeof(struct record),
#include "agent/pool/events.def"
#undef X
};

/* Offset of the text in record types that have one, else 0. */
static const uint8_t text_at[256] = {
    [IPS_REC_MODULE] = offsetof(struct ips_rec_module, path),
    [IPS_REC_MARK] = offsetof(struct ips_rec_text, text),
    [IPS_REC_NAME] = offsetof(struct ips_rec_text, text),
    [IPS_REC_EXEC] = offsetof(struct ips_rec_text, text),
    [IPS_REC_UNSEEN] = offsetof(struct ips_rec_text, text),
    [IPS_REC_EXECFAIL] = offsetof(struct ips_rec_exec, path),
};

size_t ips_rec_check_and_get_length(const void *rec, size_t avail)
{
    uint32_t word;
    if (avail < sizeof(struct ips_rec_head))
        return 0;
    memcpy(&word, rec, sizeof(word));
    uint32_t type = word & 0xffu;
    size_t len = record_length_of_head_word(word);
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
        text = 0; /* an EXECFAIL need not have a text */
    if (text && !memchr((const char *)rec + text, '\0', len - text))
        return 0;
    return len;
}

int ips_segment_zero_and_set_drained(int fd, size_t zero_to,
                                     struct ips_err *err)
{
    static unsigned char zeros[65536]; /* never written: takes no memory */
    off_t at = (off_t)(zero_to > HEADER_BYTES ? zero_to : HEADER_BYTES);
    /* Writes zeroes into populated ranges only: a write into a hole would
     * allocate memory. */
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

uint64_t ips_clock_convert_stamp_to_ns(const struct ips_clock *clock,
                                       uint64_t stamp)
{
    int64_t since = (int64_t)(stamp - clock->counter0);
    ips_i128 ns =
        (ips_i128)since * (ips_i128)clock->mult_q32 / ((ips_i128)1 << 32);
    return clock->raw0_ns + (uint64_t)(int64_t)ns;
}
