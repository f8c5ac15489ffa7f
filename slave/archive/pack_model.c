/* Encodes and decodes one record; see pack.h. `enc`: true to encode, false to
 * decode. It is a constant in each of the two inlined copies that the compiler
 * makes of a function, so it costs nothing. */
#include "slave/archive/pack_model.h"

#include <string.h>

#include "agent/pool/format.h"
#include "common/types.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/*
 * Roles of the words after the head, in order; the last role repeats.
 *  T stamp   R stamp of the return   C CPU time at T   D CPU time at R
 *  P stamp of the preceding record
 *  S address of code   F address of code in a call stack   X text
 *  L predicted from the last record of the same type
 *  H like L, but the two halves of the word separately
 * A lower-case first letter: L and H predict from the last record of the same
 * type that also has the same `a` (channel).
 */
static const char call_roles[] = "tRCDLSH";
#define CALL_WORDS 8u /* words of a call record, with its head */
static const char short_roles[] = "tHS";
#define SHORT_WORDS 4u
static const char *const roles[256] = {
    [IPS_REC_START] = "TCLHLL",
    [IPS_REC_END] = "TCL",
    [IPS_REC_BLOCK] = call_roles,
    [IPS_REC_ENTER] = "TCS",
    [IPS_REC_EXIT] = "TCS",
    [IPS_REC_SEND] = call_roles,
    [IPS_REC_RECV] = call_roles,
    [IPS_REC_RECVCALL] = call_roles,
    [IPS_REC_FORK] = "TRCDLHS",
    [IPS_REC_JOIN] = "TRCDLLHS",
    [IPS_REC_EXEC] = "TCX",
    [IPS_REC_EXECFAIL] = "TCX",
    [IPS_REC_SAMPLE] = "TCLF",
    [IPS_REC_COUNT] = "TSL",
    [IPS_REC_MARK] = "TCX",
    [IPS_REC_CHAN] = "THL",
    [IPS_REC_CLOSE] = "TCHLLS",
    [IPS_REC_NAME] = "TCX",
    [IPS_REC_MODULE] = "TLLLLLLX",
    [IPS_REC_STACK] = "PF",
    [IPS_REC_ACQUIRE] = "tRCDLLLSHL",
    [IPS_REC_RELEASE] = "tRCDLLLSHL",
    [IPS_REC_KILL] = "TCHHLRS",
    [IPS_REC_SIGNAL] = "TCHHLR",
    [IPS_REC_UNSEEN] = "TCX",
    [IPS_REC_SEND_SHORT] = short_roles,
    [IPS_REC_RECV_SHORT] = short_roles,
    [IPS_REC_ACQUIRE_SHORT] = "TCL",
    [IPS_REC_RELEASE_SHORT] = "TCL",
};
static const char other_roles[] = "TL";

static uint64_t decode_zigzag(uint64_t v)
{
    return v >> 1 ^ (0 - (v & 1));
}

/* ---- columns ---- */

void pack_append_varint(struct pack_bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        b->data[b->len++] = (uint8_t)(v | 0x80);
    b->data[b->len++] = (uint8_t)v;
}

static uint8_t next_byte(struct pack_bytes *b, bool *bad)
{
    if (b->at < b->len)
        return b->data[b->at++];
    *bad = true;
    return 0;
}

uint64_t pack_read_varint(struct pack_bytes *b, bool *bad)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = next_byte(b, bad);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    *bad = true;
    return 0;
}

static void append_number(struct pack_coder *c, enum pack_column column,
                          uint64_t v)
{
    pack_append_varint(&c->column[column], v);
}

static uint64_t read_number_of_column(struct pack_coder *c,
                                      enum pack_column column)
{
    return pack_read_varint(&c->column[column], &c->bad);
}

static uint8_t get_byte(struct pack_coder *c, enum pack_column column)
{
    return next_byte(&c->column[column], &c->bad);
}

static void append_bits(struct pack_coder *c, uint64_t v, unsigned bits)
{
    struct pack_bytes *b = &c->column[PACK_BITS];
    if (bits > 32) {
        append_bits(c, v & UINT32_MAX, 32);
        v >>= 32;
        bits -= 32;
    }
    c->acc |= v << c->acc_bits; /* acc_bits is below 8 here */
    c->acc_bits += bits;
    memcpy(b->data + b->len, &c->acc, sizeof(c->acc));
    b->len += c->acc_bits / 8;
    c->acc >>= c->acc_bits & ~7u;
    c->acc_bits &= 7;
}

/* Returns the next `bits` bits of the column PACK_BITS, at most 56, without a
 * check for its end: 8 more bytes must be readable. */
ALWAYS_INLINE uint64_t get_bits_unchecked(struct pack_coder *c, unsigned bits)
{
    uint64_t word;
    memcpy(&word, c->column[PACK_BITS].data + (c->bit >> 3), sizeof(word));
    word >>= c->bit & 7;
    c->bit += bits;
    return word & ((1ULL << bits) - 1);
}

static uint64_t get_bits(struct pack_coder *c, unsigned bits)
{
    const struct pack_bytes *b = &c->column[PACK_BITS];
    uint64_t low = 0, word = 0;
    unsigned shift = 0;
    if (bits > 32) {
        low = get_bits(c, 32);
        shift = 32;
        bits -= 32;
    }
    size_t at = c->bit >> 3;
    if (c->bit + bits > (uint64_t)b->len * 8) {
        c->bad = true;
        return low;
    }
    memcpy(&word, b->data + at,
           b->len - at < sizeof(word) ? b->len - at : sizeof(word));
    word >>= c->bit & 7;
    c->bit += bits;
    return low | (word & ((1ULL << bits) - 1)) << shift;
}

/* Writes a number in two columns: a byte with its length in bits, and `flag` as
 * the highest bit, to `column`; the bits below its highest one to PACK_BITS. */
static void append_sized_number(struct pack_coder *c, enum pack_column column,
                                uint64_t v, unsigned flag)
{
    unsigned bits = v ? 64 - (unsigned)__builtin_clzll(v) : 0;
    struct pack_bytes *b = &c->column[column];
    b->data[b->len++] = (uint8_t)(bits | flag << 7);
    if (bits > 1)
        append_bits(c, v & ~(1ULL << (bits - 1)), bits - 1);
}

static uint64_t read_sized_number(struct pack_coder *c, enum pack_column column,
                                  unsigned *flag)
{
    uint8_t byte = get_byte(c, column);
    unsigned bits = byte & 0x7f;
    *flag = byte >> 7;
    if (bits > 64) {
        c->bad = true;
        return 0;
    }
    if (bits <= 1)
        return bits;
    return get_bits(c, bits - 1) | 1ULL << (bits - 1);
}

/* ---- words ---- */

ALWAYS_INLINE void encode_or_decode_stamp(struct pack_coder *c, bool enc,
                                          enum pack_column col, uint64_t from,
                                          uint64_t *w)
{
    unsigned flag = 0;
    if (enc)
        append_sized_number(c, col, pack_zigzag(*w - from), 0);
    else
        *w = from + decode_zigzag(read_sized_number(c, col, &flag));
}

/* Encodes or decodes CPU time. It is predicted either as if the thread had run
 * since its CPU time was last known, or as if it had not; the flag says
 * which. */
ALWAYS_INLINE void encode_or_decode_cpu(struct pack_coder *c, bool enc,
                                        enum pack_column col, uint64_t t,
                                        uint64_t *w)
{
    uint64_t ran = (uint64_t)((ips_u128)(t - c->cpu_t) * c->mult_q32 >> 32);
    unsigned flag = 0;
    if (enc) {
        uint64_t if_ran = pack_zigzag(*w - c->cpu - ran),
                 if_not = pack_zigzag(*w - c->cpu);
        flag = if_not < if_ran;
        append_sized_number(c, col, flag ? if_not : if_ran, flag);
    } else {
        uint64_t v = decode_zigzag(read_sized_number(c, col, &flag));
        *w = c->cpu + (flag ? 0 : ran) + v;
    }
    c->cpu = *w;
    c->cpu_t = t;
}

/* Encodes or decodes an address. The prediction is the address that was encoded
 * or decoded last with the same `key`, a hash of the context. */
ALWAYS_INLINE void encode_or_decode_address(struct pack_coder *c, bool enc,
                                            enum pack_column col, uint32_t key,
                                            uint64_t *w)
{
    uint64_t *after = &c->successor[key % PACK_SUCCESSORS];
    if (enc) {
        append_number(c, col, *w != *after);
        if (*w == *after)
            return;
        append_number(c, col, pack_zigzag(*w - c->near));
    } else {
        uint8_t other = get_byte(c, col);
        if (other == 0) {
            *w = *after;
            return;
        }
        *w = c->near + decode_zigzag(read_number_of_column(c, col));
    }
    c->near = *after = *w;
}

ALWAYS_INLINE void encode_or_decode_difference(struct pack_coder *c, bool enc,
                                               enum pack_column col,
                                               uint64_t from, uint64_t *w)
{
    if (enc)
        append_number(c, col, pack_zigzag(*w - from));
    else
        *w = from + decode_zigzag(read_number_of_column(c, col));
}

ALWAYS_INLINE void encode_or_decode_halves(struct pack_coder *c, bool enc,
                                           enum pack_column col, uint64_t from,
                                           uint64_t *w)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 32) {
        if (enc)
            append_number(c, col,
                          pack_low_half_difference(*w >> shift, from >> shift));
        else
            v |= (((uint32_t)decode_zigzag(read_number_of_column(c, col)) +
                   (from >> shift)) &
                  UINT32_MAX)
                 << shift;
    }
    if (!enc)
        *w = v;
}

ALWAYS_INLINE void encode_or_decode_text(struct pack_coder *c, bool enc,
                                         uint64_t *w)
{
    struct pack_bytes *b = &c->column[PACK_TEXT];
    if (enc) {
        memcpy(b->data + b->len, w, sizeof(*w));
        b->len += sizeof(*w);
    } else if (b->len - b->at < sizeof(*w)) {
        c->bad = true;
        *w = 0;
    } else {
        memcpy(w, b->data + b->at, sizeof(*w));
        b->at += sizeof(*w);
    }
}

/* ---- records ---- */

/* Does the same as encode_or_decode_words() for the most frequent records,
 * whose words always have the same roles (call time, return and so on;
 * "tRCDLSH" there): without the switch statement, which the CPU cannot predict.
 */
ALWAYS_INLINE void encode_or_decode_call_words(struct pack_coder *c, bool enc,
                                               uint64_t *w, uint32_t type,
                                               uint32_t a, uint64_t *last)
{
    encode_or_decode_stamp(c, enc, PACK_T, c->last_t, &w[1]);
    c->record_t = last[1] = w[1];
    encode_or_decode_stamp(c, enc, PACK_T_RET, w[1], &w[2]);
    c->last_t = last[2] = w[2];
    encode_or_decode_cpu(c, enc, PACK_CPU, w[1], &w[3]);
    last[3] = w[3];
    encode_or_decode_cpu(c, enc, PACK_CPU_RET, w[2], &w[4]);
    last[4] = w[4];
    encode_or_decode_difference(c, enc, (enum pack_column)(PACK_WORD + 5),
                                last[5], &w[5]);
    last[5] = w[5];
    encode_or_decode_address(c, enc, PACK_SITE,
                             pack_hash(type, a, c->site ^ 6ULL << 56), &w[6]);
    c->site = last[6] = w[6];
    encode_or_decode_halves(c, enc, (enum pack_column)(PACK_WORD + 7), last[7],
                            &w[7]);
    last[7] = w[7];
}

/* ---- decoding calls while the columns have enough bytes left ---- */

/* Upper bound of the bytes that one call takes from a column: at most two
 * numbers, which have at most 10 bytes each. */
#define CALL_LEFT 24u
#define CALL_BITS_LEFT (4 * sizeof(uint64_t))

/* Sets c->sure: for how many consecutive calls the columns have enough
 * bytes. */
static void count_calls_decodable_unchecked(struct pack_coder *c)
{
    static const uint8_t columns[] = {
        PACK_T,    PACK_T_RET,    PACK_CPU,      PACK_CPU_RET,
        PACK_SITE, PACK_WORD + 2, PACK_WORD + 5, PACK_WORD + 7};
    size_t bytes = c->column[PACK_BITS].len, at = (size_t)(c->bit >> 3);
    size_t sure = bytes < at + sizeof(uint64_t)
                      ? 0
                      : (bytes - at - sizeof(uint64_t)) / CALL_BITS_LEFT;
    for (size_t i = 0; i < sizeof(columns); i++) {
        const struct pack_bytes *b = &c->column[columns[i]];
        size_t fit = (b->len - b->at) / CALL_LEFT;
        sure = fit < sure ? fit : sure;
    }
    c->sure = (uint32_t)sure;
}

ALWAYS_INLINE uint64_t read_sized_number_unchecked(struct pack_coder *c,
                                                   enum pack_column column,
                                                   unsigned *flag, bool *bad)
{
    struct pack_bytes *b = &c->column[column];
    uint8_t byte = b->data[b->at++];
    unsigned bits = byte & 0x7f;
    *flag = byte >> 7;
    if (bits <= 1)
        return bits;
    if (bits > 57) { /* one 8-byte word may not contain so many bits */
        *bad |= bits > 64;
        return bits > 64 ? 0 : get_bits(c, bits - 1) | 1ULL << (bits - 1);
    }
    return get_bits_unchecked(c, bits - 1) | 1ULL << (bits - 1);
}

ALWAYS_INLINE uint64_t get_number_unchecked(struct pack_coder *c,
                                            enum pack_column column, bool *bad)
{
    struct pack_bytes *b = &c->column[column];
    uint8_t byte = b->data[b->at++];
    uint64_t v = byte & 0x7f;
    for (unsigned shift = 7; byte >= 0x80; shift += 7) {
        if (shift > 63) {
            *bad = true;
            return 0;
        }
        byte = b->data[b->at++];
        v |= (uint64_t)(byte & 0x7f) << shift;
    }
    return v;
}

ALWAYS_INLINE uint64_t decode_cpu_unchecked(struct pack_coder *c,
                                            enum pack_column column, uint64_t t,
                                            bool *bad)
{
    uint64_t ran = (uint64_t)((ips_u128)(t - c->cpu_t) * c->mult_q32 >> 32);
    unsigned flag;
    uint64_t v =
        decode_zigzag(read_sized_number_unchecked(c, column, &flag, bad));
    c->cpu_t = t;
    return c->cpu += (flag ? 0 : ran) + v;
}

static uint64_t decode_site_unchecked(struct pack_coder *c, uint32_t key,
                                      bool *bad)
{
    uint64_t *after = &c->successor[key % PACK_SUCCESSORS];
    struct pack_bytes *site = &c->column[PACK_SITE];
    if (site->data[site->at++])
        c->near = *after =
            c->near + decode_zigzag(get_number_unchecked(c, PACK_SITE, bad));
    return c->site = *after;
}

static uint64_t decode_halves_unchecked(struct pack_coder *c,
                                        enum pack_column col, uint64_t from,
                                        bool *bad)
{
    uint32_t low = (uint32_t)decode_zigzag(get_number_unchecked(c, col, bad)),
             high = (uint32_t)decode_zigzag(get_number_unchecked(c, col, bad));
    return (uint64_t)((uint32_t)(from >> 32) + high) << 32 |
           (uint32_t)((uint32_t)from + low);
}

/* Decodes a short send or receive like encode_or_decode_words(), without checks
 * for the columns' ends. */
static void decode_short_message_unchecked(struct pack_coder *c, uint64_t *w,
                                           uint32_t type, uint32_t a,
                                           uint64_t *last)
{
    unsigned flag;
    bool bad = false;
    uint64_t t =
        c->last_t +
        decode_zigzag(read_sized_number_unchecked(c, PACK_T, &flag, &bad));
    c->record_t = c->last_t = w[1] = last[1] = t;
    w[2] = last[2] = decode_halves_unchecked(
        c, (enum pack_column)(PACK_WORD + 2), last[2], &bad);
    w[3] = last[3] = decode_site_unchecked(
        c, pack_hash(type, a, c->site ^ 3ULL << 56), &bad);
    c->bad |= bad;
}

/* Decodes a call like encode_or_decode_call_words(), without checks for the
 * columns' ends.
 */
static void decode_call_unchecked(struct pack_coder *c, uint64_t *w,
                                  uint32_t type, uint32_t a, uint64_t *last)
{
    unsigned flag;
    bool bad = false;
    uint64_t t =
        c->last_t +
        decode_zigzag(read_sized_number_unchecked(c, PACK_T, &flag, &bad));
    uint64_t t_ret =
        t +
        decode_zigzag(read_sized_number_unchecked(c, PACK_T_RET, &flag, &bad));
    c->record_t = w[1] = last[1] = t;
    c->last_t = w[2] = last[2] = t_ret;
    w[3] = last[3] = decode_cpu_unchecked(c, PACK_CPU, t, &bad);
    w[4] = last[4] = decode_cpu_unchecked(c, PACK_CPU_RET, t_ret, &bad);
    enum pack_column five = (enum pack_column)(PACK_WORD + 5),
                     seven = (enum pack_column)(PACK_WORD + 7);
    w[5] = last[5] += decode_zigzag(get_number_unchecked(c, five, &bad));
    w[6] = last[6] = decode_site_unchecked(
        c, pack_hash(type, a, c->site ^ 6ULL << 56), &bad);
    w[7] = last[7] = decode_halves_unchecked(c, seven, last[7], &bad);
    c->bad |= bad;
}

ALWAYS_INLINE void encode_or_decode_words(struct pack_coder *c, bool enc,
                                          uint64_t *w, unsigned count)
{
    uint32_t type = (uint32_t)w[0] & 0xffu, a = (uint32_t)(w[0] >> 32);
    const char *role = roles[type] ? roles[type] : other_roles;
    bool by_a = *role == 't';
    uint64_t *last =
        c->context[pack_hash(type, by_a ? a : 0, 0) % PACK_CONTEXTS];
    if (role == call_roles && count == CALL_WORDS) {
        if (!enc && c->sure == 0)
            count_calls_decodable_unchecked(c);
        if (enc || c->sure == 0) {
            encode_or_decode_call_words(c, enc, w, type, a, last);
        } else {
            decode_call_unchecked(c, w, type, a, last);
            c->sure--;
        }
        return;
    }
    if (!enc && role == short_roles && count == SHORT_WORDS) {
        if (c->sure == 0)
            count_calls_decodable_unchecked(c);
        if (c->sure) {
            decode_short_message_unchecked(c, w, type, a, last);
            c->sure--;
            return;
        }
    }
    /* the records decoded below take bytes from the columns, too, so `sure`
     * must be counted again before the next unchecked call */
    c->sure = 0;
    for (unsigned i = 1; i < count; i++) {
        uint64_t *like = &last[i % 16];
        enum pack_column col = (enum pack_column)(PACK_WORD + i % 16);
        switch (*role) {
        case 't':
        case 'T':
            encode_or_decode_stamp(c, enc, PACK_T, c->last_t, &w[i]);
            c->last_t = c->record_t = w[i];
            break;
        case 'P':
            encode_or_decode_stamp(c, enc, PACK_T, c->record_t, &w[i]);
            break;
        case 'R':
            encode_or_decode_stamp(c, enc, PACK_T_RET, w[1], &w[i]);
            c->last_t = w[i];
            break;
        case 'C':
            encode_or_decode_cpu(c, enc, PACK_CPU, w[1], &w[i]);
            break;
        case 'D':
            encode_or_decode_cpu(c, enc, PACK_CPU_RET, w[2], &w[i]);
            break;
        case 'S':
            encode_or_decode_address(
                c, enc, PACK_SITE,
                pack_hash(type, by_a ? a : 0, c->site ^ (uint64_t)i << 56),
                &w[i]);
            c->site = w[i];
            break;
        case 'F':
            encode_or_decode_address(c, enc, PACK_STACK,
                                     pack_hash(type, 1, w[i - 1]), &w[i]);
            break;
        case 'X':
            encode_or_decode_text(c, enc, &w[i]);
            break;
        case 'H':
            encode_or_decode_halves(c, enc, col, *like, &w[i]);
            break;
        default: /* role L */
            encode_or_decode_difference(c, enc, col, *like, &w[i]);
            break;
        }
        *like = w[i];
        if (role[1])
            role++;
    }
}

ALWAYS_INLINE void encode_or_decode_head(struct pack_coder *c, bool enc,
                                         uint64_t *w)
{
    uint32_t word = (uint32_t)*w;
    struct pack_bytes *b = &c->column[PACK_KIND];
    if (enc) {
        uint8_t *hint = &c->hint[pack_hint_index_of_word(word)];
        uint32_t k = *hint;
        if (k >= c->kinds || c->kind[k] != word)
            for (k = 0; k < c->kinds && c->kind[k] != word;)
                k++;
        /* k == c->kinds: this head is new in the block */
        b->data[b->len++] = (uint8_t)k;
        if (k == c->kinds) {
            append_number(c, PACK_FRAMES, word);
            if (c->kinds < PACK_KINDS)
                c->kind[c->kinds++] = word;
        }
        *hint = (uint8_t)k;
    } else {
        uint32_t k = get_byte(c, PACK_KIND);
        if (k < c->kinds) {
            word = c->kind[k];
        } else {
            word = (uint32_t)read_number_of_column(c, PACK_FRAMES);
            c->bad |= k > c->kinds;
            if (c->kinds < PACK_KINDS)
                c->kind[c->kinds++] = word;
        }
    }
    uint32_t type = word & 0xffu, a = (uint32_t)(*w >> 32);
    uint64_t *after =
        &c->successor[pack_hash(type, c->type, c->link) % PACK_SUCCESSORS];
    uint32_t likely = *after ? (uint32_t)(*after - 1) : c->link;
    if (enc)
        append_number(
            c, PACK_A,
            (uint32_t)pack_zigzag((uint64_t)(int64_t)(int32_t)(a - likely)));
    else
        a = likely + (uint32_t)decode_zigzag(read_number_of_column(c, PACK_A));
    *after = (uint64_t)a + 1;
    *w = (uint64_t)a << 32 | word;
}

ALWAYS_INLINE void remember_type_and_likely_channel(struct pack_coder *c,
                                                    const uint64_t *w,
                                                    unsigned count)
{
    c->type = (uint32_t)w[0] & 0xffu;
    c->link = pack_likely_next_channel(w, count);
}

void pack_encode_record(struct pack_coder *c, const uint8_t *rec, size_t bytes)
{
    uint64_t w[IPS_REC_MAX_BYTES / 8];
    unsigned count = (unsigned)(bytes / 8);
    if (count == CALL_WORDS)
        /* memcpy of a constant size compiles to a few moves, without a function
         * call */
        memcpy(w, rec, CALL_WORDS * sizeof(*w));
    else
        memcpy(w, rec, bytes);
    encode_or_decode_head(c, true, w);
    encode_or_decode_words(c, true, w, count);
    remember_type_and_likely_channel(c, w, count);
}

size_t pack_decode_record(struct pack_coder *c, uint8_t *rec, size_t room)
{
    uint64_t w[256]; /* the 8-bit length of a record allows at most 255 words */
    w[0] = w[1] = w[2] = 0;
    encode_or_decode_head(c, false, w);
    unsigned count = (unsigned)w[0] >> 8 & 0xffu;
    if (c->bad || count < 2 || count * sizeof(*w) > room)
        return 0;
    encode_or_decode_words(c, false, w, count);
    remember_type_and_likely_channel(c, w, count);
    if (c->bad)
        return 0;
    if (count == CALL_WORDS)
        memcpy(rec, w, CALL_WORDS * sizeof(*w));
    else if (count == SHORT_WORDS)
        memcpy(rec, w, SHORT_WORDS * sizeof(*w));
    else
        memcpy(rec, w, count * sizeof(*w));
    return count * sizeof(*w);
}

void pack_reset_coder_for_block(struct pack_coder *c, uint64_t mult_q32)
{
    memset(&c->last_t, 0, sizeof(*c) - offsetof(struct pack_coder, last_t));
    c->acc = c->bit = 0;
    c->acc_bits = c->sure = 0;
    c->bad = false;
    c->mult_q32 = mult_q32;
}

void pack_flush_bits(struct pack_coder *c)
{
    struct pack_bytes *b = &c->column[PACK_BITS];
    if (c->acc_bits)
        b->data[b->len++] = (uint8_t)c->acc;
    c->acc = c->acc_bits = 0;
}
