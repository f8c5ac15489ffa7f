/*
 * Compresses records into the payload of an archive block. Lossless: decoding
 * gives the encoded bytes back, whatever the records contain.
 *
 * A record is taken as 8-byte words. Each word is predicted from earlier words
 * of the block, in a way that depends on its role in its type of record, and
 * only the difference from the prediction is written, into one column for each
 * role. Stamps are predicted as the last stamp; CPU time as if the thread had
 * run (or not run) since its last known CPU time; channels and call sites as
 * what followed the same context before; other fields as in the last record of
 * the same type and channel. In the difference of a clock, the bits below the
 * highest one are noise: the number of bits goes into the clock's column, the
 * bits themselves go into a column of bits. zstd compresses the columns, each
 * with its own tables.
 *
 * Encoder and decoder are one function with a constant switch, so that they
 * cannot predict differently. Only for calls, the most frequent records, there
 * are hand-written versions: an encoder (pack_encode_calls_and_short_messages),
 * and decoders that are used while no column is near its end
 * (decode_call_unchecked, decode_short_unchecked).
 *
 * Invariants: no input makes the decoder write beyond `raw_bytes`, read beyond
 * what it was given, or allocate; every failure is IPS_E_CORRUPT.
 * Thread: one at a time for each slave_pack.
 */
#ifndef IPS_SLAVE_ARCHIVE_PACK_H
#define IPS_SLAVE_ARCHIVE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* maximum bytes of frames, with their headers, in one block before
 * compression */
#define SLAVE_PACK_RAW_MAX (1u << 20)
#define SLAVE_PACK_PLAIN_MAX (2u * SLAVE_PACK_RAW_MAX + (64u << 10))
#define SLAVE_PACK_OUT_MAX (SLAVE_PACK_PLAIN_MAX + (64u << 10))

/* Header of a frame. `bytes` bytes of records follow it: records of one stream,
 * complete and checked (ips_rec_check_and_get_length). */
struct slave_frame {
    uint32_t stream; /* number of the stream within the run */
    uint32_t bytes;  /* bytes of records, a multiple of 8 */
    uint32_t records;
    uint32_t reserved; /* always 0 */
};

/* Tables and buffers for packing and unpacking: about 40 MiB of address space,
 * of which only the part that the blocks need is touched. */
struct slave_pack;
struct slave_pack *slave_pack_new(void); /* NULL: out of memory */
void slave_pack_free(struct slave_pack *p);

struct slave_packed {
    /* from slave_pack_encode: points into the slave_pack, valid until its next
     * use */
    const uint8_t *data;
    uint32_t bytes;
    uint32_t plain_bytes; /* size before zstd, which the decoder needs */
    uint32_t raw_bytes;   /* size of the decoded frames with their headers */
};
/* Packs frames that follow each other, `len` bytes with their headers (at most
 * SLAVE_PACK_RAW_MAX). Decoding gives them in order of stream; frames of one
 * stream become one frame, in the given order. `mult_q32`: ns per tick of most
 * stamps, times 2^32 (ips_clock); any value is correct, the true one compresses
 * best. */
int slave_pack_encode(struct slave_pack *p, const void *frames, size_t len,
                      uint64_t mult_q32, struct slave_packed *out,
                      struct ips_err *err) IPS_MUST_USE;
/* Unpacks the payload `in`: writes exactly in->raw_bytes bytes of frames to
 * `out`. IPS_E_CORRUPT: the payload, or a record in it, is invalid. */
int slave_pack_decode(struct slave_pack *p, const struct slave_packed *in,
                      void *out, struct ips_err *err) IPS_MUST_USE;

#endif
