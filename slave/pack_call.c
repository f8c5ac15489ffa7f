/* Calls to the columns (pack.h): what call_words() of pack_model.c does when it
 * encodes, for the records that there are most of. All that is to be written is
 * computed first: a byte written may be any variable's, and would have each of
 * them read again. */
#include "slave/pack_model.h"

#include <string.h>

#include "common/types.h"

/* A number as its length in bits, and the bits below the first. */
struct sized {
    uint64_t low;
    unsigned lows; /* bits in it */
    uint8_t byte;
};

static inline struct sized sized(uint64_t v, unsigned flag)
{
    unsigned lows = 63 - (unsigned)__builtin_clzll(v | 1);
    return (struct sized){.low = v & ((1ULL << lows) - 1),
                          .lows = lows,
                          .byte =
                              (uint8_t)(lows + (v != 0) + (flag ? 0x80 : 0))};
}

static inline struct sized cpu(uint64_t now, uint64_t before, uint64_t ticks,
                               uint64_t mult_q32)
{
    uint64_t ran = (uint64_t)((ips_u128)ticks * mult_q32 >> 32);
    uint64_t if_ran = pack_zigzag(now - before - ran),
             if_not = pack_zigzag(now - before);
    bool not = if_not < if_ran;
    return sized(not ? if_not : if_ran, not );
}

static inline void put_byte(struct pack_bytes *b, uint8_t byte)
{
    b->data[b->len++] = byte;
}

static inline void put(struct pack_bytes *b, uint64_t v)
{
    if (v < 0x80)
        put_byte(b, (uint8_t)v);
    else
        pack_put_number(b, v);
}

/* The bits of four numbers, one behind the other: as one, if it is not long. */
static inline void put_lows(struct pack_coder *c, const struct sized s[4])
{
    struct pack_bytes *b = &c->column[PACK_BITS];
    uint64_t low = s[3].low;
    unsigned lows = s[0].lows + s[1].lows + s[2].lows + s[3].lows;
    if (lows + c->acc_bits > 63) {
        for (int i = 0; i < 4; i++)
            pack_put_bits(c, s[i].low, s[i].lows);
        return;
    }
    low = low << s[2].lows | s[2].low;
    low = low << s[1].lows | s[1].low;
    low = low << s[0].lows | s[0].low;
    uint64_t acc = c->acc | low << c->acc_bits;
    lows += c->acc_bits;
    memcpy(b->data + b->len, &acc, sizeof(acc));
    b->len += lows / 8;
    c->acc = acc >> (lows & ~7u);
    c->acc_bits = lows & 7;
}

void pack_call(struct pack_coder *c, const uint64_t *w, uint64_t *last)
{
    const uint64_t mult = c->mult_q32;
    const uint64_t t = w[1], t_ret = w[2];
    uint32_t type = (uint32_t)w[0] & 0xffu, a = (uint32_t)(w[0] >> 32);
    const struct sized s[4] = {sized(pack_zigzag(t - c->last_t), 0),
                               sized(pack_zigzag(t_ret - t), 0),
                               cpu(w[3], c->cpu, t - c->cpu_t, mult),
                               cpu(w[4], w[3], t_ret - t, mult)};
    uint64_t five = pack_zigzag(w[5] - last[5]);
    uint32_t low = pack_half(w[7], last[7]),
             high = pack_half(w[7] >> 32, last[7] >> 32);
    uint64_t *after = &c->successor[pack_hash(type, a, c->site ^ 6ULL << 56) %
                                    PACK_SUCCESSORS];
    bool other = w[6] != *after;
    uint64_t step = pack_zigzag(w[6] - c->near);
    c->record_t = t;
    c->last_t = c->cpu_t = t_ret;
    c->cpu = w[4];
    c->site = w[6];
    if (other)
        c->near = *after = w[6];
    memcpy(last + 1, w + 1, 7 * sizeof(*w));
    put_byte(&c->column[PACK_T], s[0].byte);
    put_byte(&c->column[PACK_T_RET], s[1].byte);
    put_byte(&c->column[PACK_CPU], s[2].byte);
    put_byte(&c->column[PACK_CPU_RET], s[3].byte);
    put_lows(c, s);
    put(&c->column[PACK_WORD + 5], five);
    put_byte(&c->column[PACK_SITE], other);
    if (other)
        put(&c->column[PACK_SITE], step);
    put(&c->column[PACK_WORD + 7], low);
    put(&c->column[PACK_WORD + 7], high);
}
