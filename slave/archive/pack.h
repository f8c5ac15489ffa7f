/*
 * How records are written small: the payload of an archive block. Exact: what
 * is decoded is what was encoded, byte for byte, whatever the records hold.
 *
 * A record is taken as 8-byte words. Each word is predicted from what went
 * before in the block (its role, by type of record, says how) and only what
 * the prediction missed is written, into one column for each role: stamps as
 * the step from the last stamp, CPU time as what the clock would give had the
 * thread run (or not run) since it was last known, channels and call sites by
 * what followed the same thing before, other fields by the last record of the
 * same type and channel. Steps of clocks are noise below their first bit: the
 * number of bits goes into the column, the bits themselves into a column of
 * bits. zstd takes the columns, each with tables of its own.
 *
 * Encoder and decoder are one function with a constant switch, so that they
 * cannot predict differently; but for calls, of which there are most, there is
 * a decoder by hand (near_call), while no column is near its end.
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

#define SLAVE_PACK_RAW_MAX (1u << 20) /* of one block */
#define SLAVE_PACK_PLAIN_MAX (2u * SLAVE_PACK_RAW_MAX + (64u << 10))
#define SLAVE_PACK_OUT_MAX (SLAVE_PACK_PLAIN_MAX + (64u << 10))

/* Records of one stream, in memory: whole, checked (ips_rec_check), `bytes` of
 * them right behind this. */
struct slave_frame {
    uint32_t stream; /* number within the run */
    uint32_t bytes;  /* a multiple of 8 */
    uint32_t records;
    uint32_t reserved; /* 0 */
};

struct slave_pack; /* tables, buffers: about 40 MiB of addresses, touched only
                      as far as blocks are large */
struct slave_pack *slave_pack_new(void); /* NULL: out of memory */
void slave_pack_free(struct slave_pack *p);

struct slave_packed {
    const uint8_t *data; /* in the pack, until its next use */
    uint32_t bytes;
    uint32_t plain_bytes; /* before zstd: the decoder wants to know */
    uint32_t raw_bytes;   /* frames with their headers, as decoded */
};
/* Frames, one behind the other, `len` bytes with their headers (at most
 * SLAVE_PACK_RAW_MAX). They come out in order of stream, those of one stream as
 * one frame, in the order given. `mult_q32`: ns in a tick of most stamps
 * (ips_clock); any value is right, the true one makes it small. */
int slave_pack_encode(struct slave_pack *p, const void *frames, size_t len,
                      uint64_t mult_q32, struct slave_packed *out,
                      struct ips_err *err) IPS_MUST_USE;
/* Writes exactly in->raw_bytes of frames to `out`; every record is checked. */
int slave_pack_decode(struct slave_pack *p, const struct slave_packed *in,
                      void *out, struct ips_err *err) IPS_MUST_USE;

#endif
