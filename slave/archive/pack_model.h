/*
 * Private to pack.c, pack_model.c and pack_call.c: columns and the state for
 * predictions.
 */
#ifndef IPS_SLAVE_ARCHIVE_PACK_MODEL_H
#define IPS_SLAVE_ARCHIVE_PACK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"

enum pack_column {
    /* For each frame: stream number, length in words, number of records. Also
     * the low word of a record's head when it first appears in the block. */
    PACK_FRAMES,
    PACK_KIND,
    PACK_A,
    PACK_T,
    PACK_T_RET,
    PACK_CPU,
    PACK_CPU_RET,
    PACK_SITE,
    PACK_STACK,
    PACK_TEXT,
    PACK_BITS,
    /* this and the 15 columns after it: other fields, by position in the
     * record */
    PACK_WORD,
    PACK_COLUMNS = PACK_WORD + 16
};

struct pack_bytes {
    uint8_t *data; /* encoding: buffer of COLUMN_BYTES (pack.c) */
    /* encoding: bytes written so far; decoding: size of the column */
    size_t len;
    size_t at; /* decoding: bytes read so far */
};

#define PACK_KINDS 255u
#define PACK_CONTEXTS 1024u
#define PACK_SUCCESSORS 4096u

struct pack_coder {
    struct pack_bytes column[PACK_COLUMNS];
    uint64_t acc; /* encoding: bits not yet written to PACK_BITS */
    unsigned acc_bits;
    uint64_t bit; /* decoding: number of bits read of PACK_BITS */
    /* decoding: number of further call records that can be decoded without
     * checking for the ends of the columns */
    uint32_t sure;
    bool bad; /* decoding: the input is invalid */
    uint64_t mult_q32;
    /* All members from here on are zeroed at the start of a block. */
    uint64_t last_t, record_t; /* last stamp; stamp of the last record */
    uint64_t cpu, cpu_t;       /* last known CPU time, and its stamp */
    /* `site`: last call site; `near`: last address that was predicted wrongly,
     * and so was written as a difference */
    uint64_t site, near;
    /* `type`: type of the preceding record; `link`: channel that
     * pack_likely_next_channel() predicts from that record */
    uint32_t type, link;
    uint32_t kinds;
    uint32_t kind[PACK_KINDS];
    uint8_t hint[256];
    uint64_t context[PACK_CONTEXTS][16];
    uint64_t successor[PACK_SUCCESSORS];
};

/* pack_append_varint() appends a number with 7 bits in each byte, so that small
 * numbers take few bytes. pack_read_varint() reads the next one; it sets *bad
 * if the bytes end too early. */
void pack_append_varint(struct pack_bytes *b, uint64_t v);
uint64_t pack_read_varint(struct pack_bytes *b, bool *bad);

static inline uint32_t pack_hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15ULL) ^ (b * 0xc2b2ae3d27d4eb4fULL) ^
                 (c * 0x165667b19e3779f9ULL);
    return (uint32_t)((h ^ h >> 29) * 0xbf58476d1ce4e5b9ULL >> 40);
}

static inline uint64_t pack_zigzag(uint64_t v)
{
    return v << 1 ^ (0 - (v >> 63));
}

/* Returns the difference of the low halves of two words, as an unsigned number
 * that is small if the difference is small (zigzag). */
static inline uint32_t pack_low_half_difference(uint64_t now, uint64_t from)
{
    int32_t step = (int32_t)((uint32_t)now - (uint32_t)from);
    return (uint32_t)pack_zigzag((uint64_t)(int64_t)step);
}
static inline uint32_t pack_hint_index_of_word(uint32_t word)
{
    return (word ^ word >> 8 ^ word >> 16) & 0xff;
}
/* Returns the channel that the record after `w` probably uses. */
static inline uint32_t pack_likely_next_channel(const uint64_t *w,
                                                unsigned count)
{
    uint32_t a = (uint32_t)(w[0] >> 32);
    if (a || ((uint32_t)w[0] & 0xffu) != IPS_REC_BLOCK || count < 8)
        return a;
    return (uint32_t)(w[7] >> 32); /* BLOCK: the channel that became ready */
}

static inline bool pack_is_call(uint32_t type)
{
    return type == IPS_REC_SEND || type == IPS_REC_RECV ||
           type == IPS_REC_BLOCK || type == IPS_REC_RECVCALL;
}
/* pack_call.c: encodes the call records and short messages at the start of
 * `rec`, up to the first record of another type, or one whose first 4 bytes are
 * new in this block. Returns the number of bytes encoded. */
size_t pack_encode_calls_and_short_messages(struct pack_coder *c,
                                            const uint8_t *rec, size_t bytes);

void pack_reset_coder_for_block(struct pack_coder *c, uint64_t mult_q32);
/* Encodes one record of `bytes` bytes, a multiple of 8 and at least 16. */
void pack_encode_record(struct pack_coder *c, const uint8_t *rec, size_t bytes);
/* Decodes one record. Returns its size in bytes; 0: the input is invalid, or
 * the record has more than `room` bytes. */
size_t pack_decode_record(struct pack_coder *c, uint8_t *rec, size_t room);
/* encoding: writes the bits in `acc` to PACK_BITS */
void pack_flush_bits(struct pack_coder *c);

#endif
