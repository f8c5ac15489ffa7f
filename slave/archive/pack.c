/* Packs blocks: frames to columns, columns through zstd, and back; see
 * pack.h. */
#include "slave/archive/pack.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "agent/pool/pool.h"
#include "slave/archive/pack_model.h"

#define LEVEL 1
/* A column shorter than this number of bytes shares zstd's tables with the next
 * column. */
#define OWN_TABLES_BYTES 1024u
#define FRAMES_MAX (SLAVE_PACK_RAW_MAX / 16)
/* If the column PACK_BITS has at least NOISE_OF_BYTES, the encoder tests
 * whether it can be compressed at all: it compresses a sample of
 * NOISE_BYTES. */
#define NOISE_OF_BYTES (16u << 10)
#define NOISE_BYTES 2048u
/* A word of 8 bytes takes at most 10 bytes in a column. */
#define COLUMN_BYTES (SLAVE_PACK_RAW_MAX / 8 * 10 + 64)

struct slave_pack {
    struct pack_coder coder;
    ZSTD_CCtx *cctx;
    ZSTD_DCtx *dctx;
    uint8_t *columns; /* PACK_COLUMNS buffers of COLUMN_BYTES */
    uint8_t *plain;   /* decoding: buffer of SLAVE_PACK_PLAIN_MAX bytes */
    uint8_t *out;     /* encoding: buffer of SLAVE_PACK_OUT_MAX bytes */
    const struct slave_frame **order;
};

void slave_pack_free(struct slave_pack *p)
{
    if (!p)
        return;
    ZSTD_freeCCtx(p->cctx);
    ZSTD_freeDCtx(p->dctx);
    free(p->columns);
    free(p->plain);
    free(p->out);
    free(p->order);
    free(p);
}

struct slave_pack *slave_pack_new(void)
{
    struct slave_pack *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->cctx = ZSTD_createCCtx();
    p->dctx = ZSTD_createDCtx();
    p->columns = malloc((size_t)PACK_COLUMNS * COLUMN_BYTES);
    p->plain = malloc(SLAVE_PACK_PLAIN_MAX);
    p->out = malloc(SLAVE_PACK_OUT_MAX);
    p->order = calloc(FRAMES_MAX, sizeof(*p->order));
    if (!p->cctx || !p->dctx || !p->columns || !p->plain || !p->out ||
        !p->order ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(p->cctx, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(p->cctx, ZSTD_c_contentSizeFlag, 0))) {
        slave_pack_free(p);
        return NULL;
    }
    return p;
}

/* ---- encoding ---- */

static int compare_frames_by_stream(const void *va, const void *vb)
{
    const struct slave_frame *const *a = va, *const *b = vb;
    if ((*a)->stream != (*b)->stream)
        return (*a)->stream < (*b)->stream ? -1 : 1;
    /* same stream: keep the order in the input */
    return *a < *b ? -1 : *a > *b;
}

static void encode_ordered_frames(struct slave_pack *p, uint32_t count,
                                  uint32_t *raw)
{
    struct pack_coder *c = &p->coder;
    *raw = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t stream = p->order[i]->stream, bytes = 0, records = 0;
        uint32_t first = i;
        for (; i < count && p->order[i]->stream == stream; i++) {
            bytes += p->order[i]->bytes;
            records += p->order[i]->records;
        }
        pack_append_varint(&c->column[PACK_FRAMES], stream);
        pack_append_varint(&c->column[PACK_FRAMES], bytes / 8);
        pack_append_varint(&c->column[PACK_FRAMES], records);
        *raw += (uint32_t)sizeof(struct slave_frame) + bytes;
        for (uint32_t k = first; k < i; k++) {
            const uint8_t *rec = (const uint8_t *)(p->order[k] + 1);
            for (uint32_t at = 0; at < p->order[k]->bytes;) {
                uint32_t word;
                at += (uint32_t)pack_encode_calls_and_short_messages(
                    c, rec + at, p->order[k]->bytes - at);
                if (at == p->order[k]->bytes)
                    break;
                memcpy(&word, rec + at, sizeof(word));
                pack_encode_record(c, rec + at, (word >> 8 & 0xff) * 8);
                at += (word >> 8 & 0xff) * 8;
            }
        }
    }
}

/* Compresses `data` into `out`. `how`: ZSTD_e_flush after a long column makes
 * the next column begin a new zstd block with its own tables; ZSTD_e_continue
 * does not; ZSTD_e_end ends the zstd frame. */
static size_t feed_zstd(struct slave_pack *p, ZSTD_outBuffer *out,
                        const void *data, size_t len, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = {data, len, 0};
    size_t rc;
    do
        rc = ZSTD_compressStream2(p->cctx, out, &in, how);
    while (!ZSTD_isError(rc) && out->pos < out->size &&
           (in.pos < in.size || (how != ZSTD_e_continue && rc != 0)));
    if (!ZSTD_isError(rc) && (in.pos < in.size || out->pos == out->size))
        /* no room left in `out`: any error code of zstd will do */
        return (size_t)-1;
    return rc;
}

/* bytes of each block that put_raw_zstd_frame() writes */
#define RAW_BLOCK_BYTES (128u << 10)
/* Writes `data` uncompressed in zstd's format: one frame with raw blocks.
 * Returns 0, or an error code of zstd if `out` has no room. */
static size_t put_raw_zstd_frame(ZSTD_outBuffer *out, const uint8_t *data,
                                 size_t len)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0};
    size_t blocks = (len + RAW_BLOCK_BYTES - 1) / RAW_BLOCK_BYTES;
    if (out->size - out->pos <= len + sizeof(head) + 4 + 3 * blocks)
        return (size_t)-1;
    uint8_t *to = (uint8_t *)out->dst + out->pos;
    memcpy(to, head, sizeof(head));
    to += sizeof(head);
    for (unsigned i = 0; i < 32; i += 8)
        *to++ = (uint8_t)(len >> i);
    for (size_t n; len; len -= n, data += n, to += n) {
        n = len < RAW_BLOCK_BYTES ? len : RAW_BLOCK_BYTES;
        uint32_t block = (uint32_t)n << 3 | (n == len); /* block type 0: raw */
        for (unsigned i = 0; i < 24; i += 8)
            *to++ = (uint8_t)(block >> i);
        memcpy(to, data, n);
    }
    out->pos = (size_t)(to - (uint8_t *)out->dst);
    return 0;
}

/* Returns true if zstd cannot make column `b` smaller, as is usual for the low
 * bits of clocks. Tests a sample from the middle of the column. */
static bool is_column_incompressible(struct slave_pack *p,
                                     const struct pack_bytes *b)
{
    uint8_t to[NOISE_BYTES + 256];
    if (b->len < NOISE_OF_BYTES)
        return false;
    size_t n = ZSTD_compress2(p->cctx, to, sizeof(to), b->data + b->len / 2,
                              NOISE_BYTES);
    return !ZSTD_isError(n) && n > NOISE_BYTES - NOISE_BYTES / 32;
}

static int compress_columns(struct slave_pack *p, struct slave_packed *out,
                            struct ips_err *err)
{
    struct pack_coder *c = &p->coder;
    ZSTD_outBuffer to = {p->out, SLAVE_PACK_OUT_MAX, 0};
    uint8_t sizes[(PACK_COLUMNS + 1) * 10];
    struct pack_bytes head = {.data = sizes};
    size_t plain = 0;
    pack_append_varint(&head, c->mult_q32);
    for (int i = 0; i < PACK_COLUMNS; i++) {
        pack_append_varint(&head, c->column[i].len);
        plain += c->column[i].len;
    }
    plain += head.len;
    bool noise = is_column_incompressible(p, &c->column[PACK_BITS]);
    ZSTD_CCtx_reset(p->cctx, ZSTD_reset_session_only);
    size_t rc = feed_zstd(p, &to, sizes, head.len, ZSTD_e_continue);
    for (int i = 0; i < PACK_COLUMNS && !ZSTD_isError(rc); i++) {
        size_t len = c->column[i].len;
        /* write incompressible bits uncompressed, as a zstd frame of their
         * own */
        if (noise && i == PACK_BITS) {
            rc = feed_zstd(p, &to, NULL, 0, ZSTD_e_end);
            if (!ZSTD_isError(rc))
                rc = put_raw_zstd_frame(&to, c->column[i].data, len);
        } else if (len)
            rc = feed_zstd(p, &to, c->column[i].data, len,
                           len < OWN_TABLES_BYTES ? ZSTD_e_continue
                                                  : ZSTD_e_flush);
    }
    if (!ZSTD_isError(rc))
        rc = feed_zstd(p, &to, NULL, 0, ZSTD_e_end);
    if (ZSTD_isError(rc) || plain > SLAVE_PACK_PLAIN_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "%zu bytes do not compress: %s",
                           plain, ZSTD_getErrorName(rc));
    out->data = p->out;
    out->bytes = (uint32_t)to.pos;
    out->plain_bytes = (uint32_t)plain;
    return 0;
}

int slave_pack_encode(struct slave_pack *p, const void *frames, size_t len,
                      uint64_t mult_q32, struct slave_packed *out,
                      struct ips_err *err)
{
    const uint8_t *from = frames;
    uint32_t count = 0;
    if (len > SLAVE_PACK_RAW_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "a block of %zu bytes", len);
    for (size_t at = 0; at < len;
         at += sizeof(**p->order) + p->order[count++]->bytes)
        p->order[count] = (const struct slave_frame *)(const void *)(from + at);
    qsort(p->order, count, sizeof(*p->order), compare_frames_by_stream);
    for (int i = 0; i < PACK_COLUMNS; i++)
        p->coder.column[i] =
            (struct pack_bytes){.data = p->columns + (size_t)i * COLUMN_BYTES};
    pack_reset_coder_for_block(&p->coder, mult_q32);
    encode_ordered_frames(p, count, &out->raw_bytes);
    pack_flush_bits(&p->coder);
    return compress_columns(p, out, err);
}

/* ---- decoding ---- */

/* Sets the columns to their parts of p->plain, which holds `plain` bytes.
 * Returns 0 or IPS_E_CORRUPT. */
static int locate_columns(struct slave_pack *p, size_t plain)
{
    struct pack_coder *c = &p->coder;
    struct pack_bytes head = {.data = p->plain, .len = plain};
    bool bad = false;
    size_t left = plain;
    pack_reset_coder_for_block(c, pack_read_varint(&head, &bad));
    for (int i = 0; i < PACK_COLUMNS; i++) {
        size_t len = pack_read_varint(&head, &bad);
        if (len > left)
            return IPS_E_CORRUPT;
        left -= len;
        c->column[i] = (struct pack_bytes){.len = len};
    }
    if (bad || head.at != left)
        return IPS_E_CORRUPT;
    uint8_t *at = p->plain + left;
    for (int i = 0; i < PACK_COLUMNS; i++) {
        c->column[i].data = at;
        at += c->column[i].len;
    }
    return 0;
}

static int decode_one_frame(struct pack_coder *c, uint8_t *out, size_t room,
                            size_t *used)
{
    struct slave_frame f = {0};
    struct pack_bytes *b = &c->column[PACK_FRAMES];
    uint64_t stream = pack_read_varint(b, &c->bad);
    uint64_t words = pack_read_varint(b, &c->bad);
    uint64_t records = pack_read_varint(b, &c->bad);
    if (c->bad || room < sizeof(f) || stream > UINT32_MAX ||
        words > (room - sizeof(f)) / 8 || records > words)
        return IPS_E_CORRUPT;
    f.stream = (uint32_t)stream;
    f.bytes = (uint32_t)words * 8;
    f.records = (uint32_t)records;
    memcpy(out, &f, sizeof(f));
    size_t at = sizeof(f), end = sizeof(f) + f.bytes;
    for (; records && at < end; records--) {
        size_t n = pack_decode_record(c, out + at, end - at);
        if (n == 0 || ips_rec_check_and_get_length(out + at, n) != n)
            return IPS_E_CORRUPT;
        at += n;
    }
    *used = at;
    return at == end && records == 0 ? 0 : IPS_E_CORRUPT;
}

int slave_pack_decode(struct slave_pack *p, const struct slave_packed *in,
                      void *out, struct ips_err *err)
{
    struct pack_coder *c = &p->coder;
    size_t n = in->plain_bytes > SLAVE_PACK_PLAIN_MAX ||
                       in->raw_bytes > SLAVE_PACK_RAW_MAX
                   ? 0
                   : ZSTD_decompressDCtx(p->dctx, p->plain, in->plain_bytes,
                                         in->data, in->bytes);
    int rc = n == 0 || ZSTD_isError(n) || n != in->plain_bytes
                 ? IPS_E_CORRUPT
                 : locate_columns(p, n);
    uint8_t *to = out;
    for (size_t left = in->raw_bytes, used = 0; rc == 0 && left;
         left -= used, to += used)
        rc = decode_one_frame(c, to, left, &used);
    c->column[PACK_BITS].at = (size_t)(c->bit + 7) / 8;
    for (int i = 0; rc == 0 && i < PACK_COLUMNS; i++)
        if (c->column[i].at != c->column[i].len)
            rc = IPS_E_CORRUPT;
    return rc == 0
               ? 0
               : ips_err_set(err, IPS_E_CORRUPT, "%u bytes do not decode to %u",
                             in->bytes, in->raw_bytes);
}
