/* Packed blocks: exact for every record, small for real ones, and nothing but
 * an error for anything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/pool.h"
#include "slave/archive/pack.h"
#include "slave/archive/pack_model.h"
#include "tests/unit/slave/packed_block.h"

static struct slave_pack *pack;
static _Alignas(8) uint8_t frames[SLAVE_PACK_RAW_MAX];
static _Alignas(8) uint8_t decoded[SLAVE_PACK_RAW_MAX];
static size_t used;
static struct slave_frame *open_frame;
static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void frame(uint32_t stream)
{
    open_frame = (struct slave_frame *)(void *)(frames + used);
    *open_frame = (struct slave_frame){.stream = stream};
    used += sizeof(*open_frame);
}

/* Room for one record in the frame at hand, NULL: full. */
static uint8_t *record(uint32_t type, uint32_t flags, size_t bytes)
{
    if (used + bytes > sizeof(frames))
        return NULL;
    uint8_t *rec = frames + used;
    uint32_t word = type | (uint32_t)(bytes / 8) << 8 | flags << 16;
    memset(rec, 0, bytes);
    memcpy(rec, &word, sizeof(word));
    used += bytes;
    open_frame->bytes += (uint32_t)bytes;
    open_frame->records++;
    return rec;
}

/* Encodes what is there, decodes it and compares. Bytes of the block. */
static size_t there_and_back(uint64_t mult)
{
    struct slave_packed packed;
    struct ips_err err = {0};
    if (slave_pack_encode(pack, frames, used, mult, &packed, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(packed.raw_bytes, used);
    memset(decoded, 0xa5, used);
    size_t bytes = packed.bytes;
    if (slave_pack_decode(pack, &packed, decoded, &err) < 0)
        fail_msg("%s", err.msg);
    assert_memory_equal(decoded, frames, used);
    used = 0;
    return bytes;
}

static const struct {
    uint8_t type;
    uint16_t least;
} types[] = {
#define X(name, code, record, text) {code, sizeof(struct record)},
#include "agent/pool/events.def"
#undef X
    {200, 16}, /* unknown ones, too */
    {254, 24},
};
#define TYPES (sizeof(types) / sizeof(*types))

static uint64_t random_word(unsigned kind)
{
    uint64_t v = draw();
    if (kind == 1)
        v >>= draw() % 64;
    else if (kind == 2)
        v = draw() % 3 ? (draw() % 2 ? UINT64_MAX : 0) : INT64_MAX + v % 3;
    return v;
}

/* As long as they really are: these have a decoder of their own. */
static void random_call(unsigned kind)
{
    static const uint32_t calls[] = {IPS_REC_SEND,       IPS_REC_RECV,
                                     IPS_REC_RECVCALL,   IPS_REC_BLOCK,
                                     IPS_REC_SEND_SHORT, IPS_REC_RECV_SHORT};
    uint32_t type = calls[draw() % 6];
    size_t bytes = type == IPS_REC_SEND_SHORT || type == IPS_REC_RECV_SHORT
                       ? sizeof(struct ips_rec_io_short)
                       : sizeof(struct ips_rec_io);
    uint8_t *rec = record(type, (uint32_t)(draw() % 4), bytes);
    uint32_t a = (uint32_t)(kind == 0 ? draw() : draw() % 8);
    if (!rec)
        return;
    memcpy(rec + 4, &a, sizeof(a));
    for (size_t at = 8; at < bytes; at += 8) {
        uint64_t v = random_word(kind);
        memcpy(rec + at, &v, sizeof(v));
    }
}

/* What a hostile program may write: any word of any record. */
static void random_record(unsigned kind)
{
    if (draw() % 2) {
        random_call(kind);
        return;
    }
    size_t i = draw() % TYPES, least = (types[i].least + 7u) / 8 * 8;
    size_t bytes = least + 8 + draw() % 8 * 8;
    if (kind == 3)
        bytes = IPS_REC_MAX_BYTES;
    uint8_t *rec = record(types[i].type, (uint32_t)(draw() % 4), bytes);
    if (!rec)
        return;
    uint32_t a = (uint32_t)(draw() % 8);
    memcpy(rec + 4, &a, sizeof(a));
    for (size_t at = 8; at + 8 <= bytes; at += 8) {
        uint64_t v = random_word(kind);
        memcpy(rec + at, &v, sizeof(v));
    }
    memset(rec + bytes - 8, 0, 8); /* texts end */
    if (kind == 0) {
        a = (uint32_t)draw();
        if (types[i].type == IPS_REC_SAMPLE || types[i].type == IPS_REC_STACK)
            a %= (uint32_t)((bytes - least) / 8) + 1;
        memcpy(rec + 4, &a, sizeof(a));
    } else if (types[i].type == IPS_REC_SAMPLE ||
               types[i].type == IPS_REC_STACK) {
        memset(rec + 4, 0, 4);
    }
    assert_int_equal(ips_rec_check_and_get_length(rec, bytes), bytes);
}

/* Would catch: any field of any type that does not come back as it was - the
 * largest steps, clocks that run backwards, words beyond a type's size. */
static void test_pack__any_record_exactly(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        uint32_t stream = (uint32_t)draw();
        for (int f = 0; f < 4; f++) {
            frame(stream++);
            for (uint64_t n = draw() % 60; n > 0; n--)
                random_record(round % 4);
        }
        there_and_back(round % 3 ? 1ULL << 32 : draw());
    }
}

/* Would catch: buffers too small for the worst that fits one block. */
static void test_pack__full_blocks(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        frame(kind);
        while (used + IPS_REC_MAX_BYTES <= sizeof(frames))
            random_record(kind);
        there_and_back(draw());
        frame(kind); /* nothing but the least record, all different */
        for (uint8_t *rec; (rec = record(IPS_REC_QUEUE, 0, 16));) {
            uint64_t t = draw();
            uint32_t a = (uint32_t)draw();
            memcpy(rec + 4, &a, sizeof(a));
            memcpy(rec + 8, &t, sizeof(t));
        }
        there_and_back(draw());
    }
    frame(1);
    there_and_back(0);
}

/* Would catch: frames of one stream in the wrong order, or in another's. */
static void test_pack__frames_are_joined_in_order(void **state)
{
    (void)state;
    struct slave_packed packed;
    for (uint32_t i = 0; i < 100; i++) {
        frame(9 - i % 10);
        struct ips_rec_lost *rec =
            (void *)record(IPS_REC_LOST, 0, sizeof(*rec));
        rec->count = i;
    }
    assert_int_equal(slave_pack_encode(pack, frames, used, 0, &packed, NULL),
                     0);
    assert_int_equal(packed.raw_bytes, 10 * sizeof(struct slave_frame) +
                                           100 * sizeof(struct ips_rec_lost));
    assert_int_equal(slave_pack_decode(pack, &packed, decoded, NULL), 0);
    const uint8_t *p = decoded;
    for (uint32_t s = 0; s < 10; s++) {
        const struct slave_frame *f = (const void *)p;
        const struct ips_rec_lost *rec = (const void *)(f + 1);
        assert_int_equal(f->stream, s);
        assert_int_equal(f->records, 10);
        for (uint32_t k = 0; k < 10; k++)
            assert_int_equal(rec[k].count, 9 - s + k * 10);
        p += sizeof(*f) + f->bytes;
    }
    used = 0;
}

static const uint64_t ghz3 = (1ULL << 32) / 3; /* ns in a tick */

/* A server's plain loop - wait, receive, send on one of some channels, times as
 * noisy as real ones - up to `most` bytes of records. How many they are. */
static uint64_t server_records(size_t most)
{
    uint64_t t = 1ULL << 50, events = 0;
    frame(3);
    while (used + 3 * sizeof(struct ips_rec_io) <= most) {
        uint32_t channel = 1 + (uint32_t)(draw() % 50);
        for (int i = 0; i < 3; i++, events++) {
            static const uint32_t type[] = {IPS_REC_BLOCK, IPS_REC_RECV,
                                            IPS_REC_SEND};
            struct ips_rec_io *io = (void *)record(type[i], 0, sizeof(*io));
            uint64_t wait = i == 0 ? 30000 + draw() % 60000 : 0;
            t += 600 + draw() % 2000;
            uint64_t ran = 900 + draw() % 900;
            io->h.a = i == 0 ? 0 : channel;
            io->h.t = t;
            io->t_ret = t + ran + wait;
            io->cpu = (t - (events / 3) * 60000) / 3 + draw() % 64;
            io->cpu_ret = io->cpu + ran / 3 + draw() % 64;
            io->result = i == 0 ? 1 : i == 1 ? 44 : 5;
            io->site = 0x7f0000001000u + (uint64_t)i * 100;
            io->op = i == 0 ? IPS_OP_EPOLL : IPS_OP_DATA;
            io->ready = i == 0 ? channel : 0;
            t = io->t_ret;
        }
    }
    return events;
}

/* Would catch: a model that no longer foresees what a server does. */
static void test_pack__a_server_is_small(void **state)
{
    (void)state;
    uint64_t events = server_records(sizeof(frames));
    assert_true(there_and_back(ghz3) <= events * 8);
}

static void make_records_to_store(void)
{
    seed = 20261128;
    server_records(2000);
    frame(4);
    for (int i = 0; i < 150; i++)
        random_record(2);
}

/* packed_block.h has these records as they were packed on 2026-11-28. Would
 * catch: a change of the model while the magic number of blocks stays, so that
 * the slave reads the archives of the build before wrongly. Where the number
 * changes, this test prints the new file: test_pack print. */
static void test_pack__reads_blocks_of_the_build_before(void **state)
{
    (void)state;
    const struct slave_packed packed = {stored_block, sizeof(stored_block),
                                        STORED_PLAIN_BYTES, STORED_RAW_BYTES};
    make_records_to_store();
    assert_int_equal(used, STORED_RAW_BYTES);
    assert_int_equal(slave_pack_decode(pack, &packed, decoded, NULL), 0);
    assert_memory_equal(decoded, frames, used);
    used = 0;
}

static int print_block(void)
{
    struct slave_packed packed;
    make_records_to_store();
    if (slave_pack_encode(pack, frames, used, ghz3, &packed, NULL) < 0)
        return 1;
    printf("/* Made by `test_pack print`: see test_pack.c. */\n"
           "#define STORED_PLAIN_BYTES %uu\n#define STORED_RAW_BYTES %uu\n"
           "static const uint8_t stored_block[] = {",
           packed.plain_bytes, packed.raw_bytes);
    for (uint32_t i = 0; i < packed.bytes; i++)
        printf("%s%u,", i % 16 ? " " : "\n    ", packed.data[i]);
    printf("\n};\n");
    return 0;
}

/* Would catch: a decoder that crashes, hangs or writes too far; the frame of
 * the archive has a check in front, this is about what is behind it. */
static void test_pack__damage_is_an_error_or_whole_records(void **state)
{
    (void)state;
    static uint8_t copy[SLAVE_PACK_OUT_MAX];
    struct slave_packed packed;
    for (unsigned round = 0; round < 300; round++) {
        frame(1);
        for (int i = 0; i < 100; i++)
            random_record(1 + round % 2);
        assert_int_equal(
            slave_pack_encode(pack, frames, used, 7, &packed, NULL), 0);
        memcpy(copy, packed.data, packed.bytes);
        packed.data = copy;
        copy[draw() % packed.bytes] ^= (uint8_t)(1u << draw() % 8);
        if (round % 3 == 0)
            packed.bytes = (uint32_t)(draw() % packed.bytes);
        if (round % 5 == 0)
            packed.raw_bytes -= 8;
        memset(decoded + packed.raw_bytes, 0x5a, 64);
        if (slave_pack_decode(pack, &packed, decoded, NULL) == 0)
            assert_int_equal(packed.raw_bytes, used);
        for (int i = 0; i < 64; i++)
            assert_int_equal(decoded[packed.raw_bytes + (unsigned)i], 0x5a);
        used = 0;
    }
}

#define CUT_RECORDS 400u
#define CUT_BYTES 65536u

/* Plain sends of one thread in columns: those from the `from`-th on are of the
 * other kind, long or short, than the ones before. */
static void pack_sends(struct pack_coder *c, bool is_short, unsigned from,
                       uint8_t (*as_sent)[sizeof(struct ips_rec_io)])
{
    pack_reset_coder_for_block(c, 1ULL << 32);
    for (int i = 0; i < PACK_COLUMNS; i++)
        c->column[i].len = c->column[i].at = 0;
    for (unsigned n = 0; n < CUT_RECORDS; n++) {
        bool other = n >= from;
        size_t bytes = is_short != other ? sizeof(struct ips_rec_io_short)
                                         : sizeof(struct ips_rec_io);
        uint64_t word =
            (is_short != other ? IPS_REC_SEND_SHORT : IPS_REC_SEND) |
            bytes / 8 << 8 | 1ULL << 32;
        memset(as_sent[n], 0, sizeof(as_sent[n]));
        memcpy(as_sent[n], &word, sizeof(word));
        for (size_t at = 8; at < bytes; at += 8) {
            uint64_t v = draw() >> 20;
            memcpy(as_sent[n] + at, &v, sizeof(v));
        }
        pack_encode_record(c, as_sent[n], bytes);
    }
    pack_flush_bits(c);
}

/* Columns of which one is cut in half: decodes until the decoder refuses. */
static void unpack_cut(struct pack_coder *c, bool is_short, int cut)
{
    static uint8_t as_sent[CUT_RECORDS][sizeof(struct ips_rec_io)];
    _Alignas(8) uint8_t rec[sizeof(struct ips_rec_io)];
    unsigned n = 0;
    pack_sends(c, is_short, CUT_RECORDS * 3 / 4, as_sent);
    c->column[cut].len /= 2;
    pack_reset_coder_for_block(c, 1ULL << 32);
    for (size_t bytes; (bytes = pack_decode_record(c, rec, sizeof(rec))); n++) {
        assert_true(n < CUT_RECORDS);
        assert_memory_equal(rec, as_sent[n], bytes);
    }
    assert_true(c->bad);
    assert_in_range(n, CUT_RECORDS / 4, CUT_RECORDS - 1);
    for (int i = 0; i < PACK_COLUMNS; i++)
        assert_true(c->column[i].at <= c->column[i].len);
    assert_true(c->bit <= (uint64_t)c->column[PACK_BITS].len * 8);
}

/* Would catch: a decoder that goes on without looking where its columns end
 * once it has seen that some calls fit, or that counts the calls which it has
 * done without looking one too few. */
static void test_pack__no_column_is_read_beyond_its_end(void **state)
{
    static const int cut[] = {PACK_T,        PACK_T_RET,    PACK_CPU,
                              PACK_CPU_RET,  PACK_SITE,     PACK_BITS,
                              PACK_WORD + 2, PACK_WORD + 5, PACK_WORD + 7};
    static uint8_t columns[PACK_COLUMNS][CUT_BYTES];
    struct pack_coder *c = calloc(1, sizeof(*c));
    (void)state;
    assert_non_null(c);
    for (int i = 0; i < PACK_COLUMNS; i++)
        c->column[i].data = columns[i];
    for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
        unpack_cut(c, true, cut[i]);
        unpack_cut(c, false, cut[i]);
    }
    free(c);
}

int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__any_record_exactly),
        cmocka_unit_test(test_pack__full_blocks),
        cmocka_unit_test(test_pack__frames_are_joined_in_order),
        cmocka_unit_test(test_pack__a_server_is_small),
        cmocka_unit_test(test_pack__reads_blocks_of_the_build_before),
        cmocka_unit_test(test_pack__damage_is_an_error_or_whole_records),
        cmocka_unit_test(test_pack__no_column_is_read_beyond_its_end),
    };
    pack = slave_pack_new();
    int failed = !pack      ? 1
                 : argc > 1 ? print_block()
                            : cmocka_run_group_tests(tests, NULL, NULL);
    slave_pack_free(pack);
    return failed;
}
