/* Encodes consecutive call records and short messages, the most frequent
 * records, into columns (pack.h). Does the same as encode_or_decode_head() and
 * encode_or_decode_words() of pack_model.c, but faster. The state that changes
 * with each record is in local variables without pointers to them: else the
 * compiler would have to reload them after each byte written, because of
 * aliasing. */
#include "slave/archive/pack_model.h"

#include <string.h>

#include "common/types.h"

#define CALL_WORDS 8u /* words of a call record, with its head */
#define SHORT_WORDS 4u

/* A number, split into its length in bits (`byte`, with a flag in the highest
 * bit) and the bits below its highest one (`low`). */
struct split_number {
    uint64_t low;
    unsigned lows; /* number of bits in `low` */
    uint8_t byte;
};

static inline struct split_number split_number_into_size_and_bits(uint64_t v,
                                                                  unsigned flag)
{
    unsigned lows = 63 - (unsigned)__builtin_clzll(v | 1);
    return (struct split_number){
        .low = v & ((1ULL << lows) - 1),
        .lows = lows,
        .byte = (uint8_t)(lows + (v != 0) + (flag ? 0x80 : 0))};
}

static inline struct split_number split_cpu_prediction_error(uint64_t now,
                                                             uint64_t before,
                                                             uint64_t ticks,
                                                             uint64_t mult_q32)
{
    uint64_t ran = (uint64_t)((ips_u128)ticks * mult_q32 >> 32);
    uint64_t if_ran = pack_zigzag(now - before - ran),
             if_not = pack_zigzag(now - before);
    bool not = if_not < if_ran;
    return split_number_into_size_and_bits(not ? if_not : if_ran, not );
}

/* Coder state while consecutive calls are encoded. Only inlined functions take
 * its address, so the compiler can keep it in registers. */
struct run {
    uint8_t *kind, *a, *t, *t_ret, *cpu, *cpu_ret, *two, *five, *site, *seven,
        *bits;
    uint64_t last_t, record_t, cpu_now, cpu_t, at_site, near, acc;
    uint32_t type, link, acc_bits;
};

static inline __attribute__((always_inline)) struct run
load_encoder_state(const struct pack_coder *c)
{
#define END(col) (c->column[col].data + c->column[col].len)
    return (struct run){.kind = END(PACK_KIND),
                        .a = END(PACK_A),
                        .t = END(PACK_T),
                        .t_ret = END(PACK_T_RET),
                        .cpu = END(PACK_CPU),
                        .cpu_ret = END(PACK_CPU_RET),
                        .two = END(PACK_WORD + 2),
                        .five = END(PACK_WORD + 5),
                        .site = END(PACK_SITE),
                        .seven = END(PACK_WORD + 7),
                        .bits = END(PACK_BITS),
                        .last_t = c->last_t,
                        .record_t = c->record_t,
                        .cpu_now = c->cpu,
                        .cpu_t = c->cpu_t,
                        .at_site = c->site,
                        .near = c->near,
                        .acc = c->acc,
                        .type = c->type,
                        .link = c->link,
                        .acc_bits = c->acc_bits};
#undef END
}

static inline __attribute__((always_inline)) void
store_encoder_state(struct pack_coder *c, const struct run *r)
{
#define END(col, p) c->column[col].len = (size_t)((p)-c->column[col].data)
    END(PACK_KIND, r->kind);
    END(PACK_A, r->a);
    END(PACK_T, r->t);
    END(PACK_T_RET, r->t_ret);
    END(PACK_CPU, r->cpu);
    END(PACK_CPU_RET, r->cpu_ret);
    END(PACK_WORD + 2, r->two);
    END(PACK_WORD + 5, r->five);
    END(PACK_SITE, r->site);
    END(PACK_WORD + 7, r->seven);
    END(PACK_BITS, r->bits);
#undef END
    c->last_t = r->last_t;
    c->record_t = r->record_t;
    c->cpu = r->cpu_now;
    c->cpu_t = r->cpu_t;
    c->site = r->at_site;
    c->near = r->near;
    c->acc = r->acc;
    c->acc_bits = r->acc_bits;
    c->type = r->type;
    c->link = r->link;
}

static inline __attribute__((always_inline)) uint8_t *append_varint(uint8_t *p,
                                                                    uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

/* Appends the low `lows` bits of `low` to the column of bits; `lows` is at most
 * 64 - r->acc_bits. */
static inline __attribute__((always_inline)) void
append_low_bits(struct run *r, uint64_t low, unsigned lows)
{
    r->acc |= low << r->acc_bits; /* acc_bits is below 8 here */
    r->acc_bits += lows;
    memcpy(r->bits, &r->acc, sizeof(r->acc));
    r->bits += r->acc_bits / 8;
    r->acc >>= r->acc_bits & ~7u;
    r->acc_bits &= 7;
}

/* Appends the low bits of four numbers to the column of bits: in one step if
 * all of them fit into one word. */
static inline __attribute__((always_inline)) void append_low_bits_of_four(
    struct run *r, const struct split_number *x, const struct split_number *y,
    const struct split_number *z, const struct split_number *u)
{
    unsigned lows = x->lows + y->lows + z->lows + u->lows;
    if (lows + r->acc_bits <= 63) {
        uint64_t low = u->low << z->lows | z->low;
        low = low << y->lows | y->low;
        append_low_bits(r, low << x->lows | x->low, lows);
        return;
    }
    const struct split_number *all[] = {x, y, z, u};
    for (int i = 0; i < 4; i++) {
        unsigned first = all[i]->lows > 32 ? 32 : all[i]->lows;
        append_low_bits(r, all[i]->low & ((1ULL << first) - 1), first);
        append_low_bits(r, all[i]->low >> first, all[i]->lows - first);
    }
}

/* Encodes the head of a record; `k`: index of the head's low word in
 * c->kind. */
static inline __attribute__((always_inline)) void
encode_record_head(struct run *r, struct pack_coder *c, uint32_t type,
                   uint32_t a, uint32_t k)
{
    uint64_t *then =
        &c->successor[pack_hash(type, r->type, r->link) % PACK_SUCCESSORS];
    uint32_t likely = *then ? (uint32_t)(*then - 1) : r->link;
    *then = (uint64_t)a + 1;
    *r->kind++ = (uint8_t)k;
    r->a = append_varint(r->a, pack_low_half_difference(a, likely));
    r->type = type;
}

/* Encodes the call site (an address of code), which is word `i` of a record. */
static inline __attribute__((always_inline)) void
encode_call_site(struct run *r, struct pack_coder *c, uint32_t type, uint32_t a,
                 uint64_t i, uint64_t site)
{
    uint64_t *after = &c->successor[pack_hash(type, a, r->at_site ^ i << 56) %
                                    PACK_SUCCESSORS];
    bool other = site != *after;
    *r->site++ = other;
    if (other) {
        r->site = append_varint(r->site, pack_zigzag(site - r->near));
        r->near = *after = site;
    }
    r->at_site = site;
}

static inline __attribute__((always_inline)) void
encode_call_record(struct run *r, struct pack_coder *c, const uint64_t *w,
                   uint32_t k)
{
    uint32_t type = (uint32_t)w[0] & 0xffu, a = (uint32_t)(w[0] >> 32);
    uint64_t *last = c->context[pack_hash(type, a, 0) % PACK_CONTEXTS];
    encode_record_head(r, c, type, a, k);
    const struct split_number
        t = split_number_into_size_and_bits(pack_zigzag(w[1] - r->last_t), 0),
        t_ret = split_number_into_size_and_bits(pack_zigzag(w[2] - w[1]), 0),
        x = split_cpu_prediction_error(w[3], r->cpu_now, w[1] - r->cpu_t,
                                       c->mult_q32),
        y = split_cpu_prediction_error(w[4], w[3], w[2] - w[1], c->mult_q32);
    uint64_t five = pack_zigzag(w[5] - last[5]);
    uint32_t low = pack_low_half_difference(w[7], last[7]),
             high = pack_low_half_difference(w[7] >> 32, last[7] >> 32);
    memcpy(last + 1, w + 1, 7 * sizeof(*w));
    *r->t++ = t.byte;
    *r->t_ret++ = t_ret.byte;
    *r->cpu++ = x.byte;
    *r->cpu_ret++ = y.byte;
    append_low_bits_of_four(r, &t, &t_ret, &x, &y);
    r->five = append_varint(r->five, five);
    encode_call_site(r, c, type, a, 6, w[6]);
    r->seven = append_varint(r->seven, low);
    r->seven = append_varint(r->seven, high);
    r->record_t = w[1];
    r->last_t = r->cpu_t = w[2];
    r->cpu_now = w[4];
    r->link = pack_likely_next_channel(w, CALL_WORDS);
}

/* Encodes a record SEND_SHORT or RECV_SHORT. */
static inline __attribute__((always_inline)) void
encode_short_message(struct run *r, struct pack_coder *c, const uint64_t *w,
                     uint32_t k)
{
    uint32_t type = (uint32_t)w[0] & 0xffu, a = (uint32_t)(w[0] >> 32);
    uint64_t *last = c->context[pack_hash(type, a, 0) % PACK_CONTEXTS];
    encode_record_head(r, c, type, a, k);
    const struct split_number t =
        split_number_into_size_and_bits(pack_zigzag(w[1] - r->last_t), 0);
    uint32_t low = pack_low_half_difference(w[2], last[2]),
             high = pack_low_half_difference(w[2] >> 32, last[2] >> 32);
    memcpy(last + 1, w + 1, (SHORT_WORDS - 1) * sizeof(*w));
    *r->t++ = t.byte;
    unsigned first = t.lows > 32 ? 32 : t.lows;
    append_low_bits(r, t.low & ((1ULL << first) - 1), first);
    if (t.lows > 32)
        append_low_bits(r, t.low >> 32, t.lows - 32);
    r->two = append_varint(r->two, low);
    r->two = append_varint(r->two, high);
    encode_call_site(r, c, type, a, 3, w[3]);
    r->record_t = r->last_t = w[1];
    r->link = a;
}

size_t pack_encode_calls_and_short_messages(struct pack_coder *c,
                                            const uint8_t *rec, size_t bytes)
{
    size_t at = 0;
    struct run r = load_encoder_state(c);
    while (bytes - at >= SHORT_WORDS * sizeof(uint64_t)) {
        uint64_t w[CALL_WORDS];
        uint32_t word, k;
        memcpy(&word, rec + at, sizeof(word));
        k = c->hint[pack_hint_index_of_word(word)];
        if (k >= c->kinds || c->kind[k] != word)
            break;
        uint32_t type = word & 0xffu, count = word >> 8 & 0xffu;
        if (count == CALL_WORDS && pack_is_call(type) &&
            bytes - at >= sizeof(w)) {
            memcpy(w, rec + at, sizeof(w));
            encode_call_record(&r, c, w, k);
        } else if (count == SHORT_WORDS &&
                   (type == IPS_REC_SEND_SHORT || type == IPS_REC_RECV_SHORT)) {
            memcpy(w, rec + at, SHORT_WORDS * sizeof(*w));
            encode_short_message(&r, c, w, k);
        } else {
            break;
        }
        at += count * sizeof(*w);
    }
    if (at)
        store_encoder_state(c, &r);
    return at;
}
