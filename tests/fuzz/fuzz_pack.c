/*
 * Fuzz target: whatever a packed block of the archive holds behind its check,
 * decoding ends with an error or with whole, checked records, which encode and
 * decode to themselves. The first 8 bytes of an input are the sizes that the
 * block's header claims; with the lowest bit of the first set, the rest is
 * taken as what zstd would have given (a fuzzer does not find its way through
 * zstd). libFuzzer where it is linked; else main() replays the files named, or
 * with none, blocks of generated records with some bytes changed.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "agent/pool/pool.h"
#include "slave/archive/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slave_pack *pack;
static _Alignas(8) uint8_t raw[SLAVE_PACK_RAW_MAX];
static _Alignas(8) uint8_t again[SLAVE_PACK_RAW_MAX];
static uint8_t block[SLAVE_PACK_OUT_MAX];

static void round_trip(uint32_t bytes)
{
    struct slave_packed p;
    for (size_t at = 0; at < bytes;) {
        const struct slave_frame *f = (const void *)(raw + at);
        const uint8_t *rec = (const uint8_t *)(f + 1);
        for (size_t i = 0, n; i < f->bytes; i += n)
            if ((n = ips_rec_check_and_get_length(rec + i, f->bytes - i)) == 0)
                abort();
        at += sizeof(*f) + f->bytes;
    }
    if (slave_pack_encode(pack, raw, bytes, 1ULL << 31, &p, NULL) < 0)
        abort();
    memcpy(block, p.data, p.bytes);
    p.data = block;
    if (p.raw_bytes > bytes || slave_pack_decode(pack, &p, again, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slave_packed p = {0};
    if (!pack)
        pack = slave_pack_new();
    if (!pack || size < 8)
        return 0;
    memcpy(&p.plain_bytes, data, 4);
    memcpy(&p.raw_bytes, data + 4, 4);
    bool plain = p.plain_bytes & 1;
    p.plain_bytes = plain ? (uint32_t)size - 8 : p.plain_bytes / 2;
    p.data = data + 8;
    p.bytes = (uint32_t)size - 8;
    if (plain) {
        size_t n = ZSTD_compress(block, sizeof(block), data + 8, size - 8, -5);
        if (ZSTD_isError(n))
            return 0;
        p.data = block;
        p.bytes = (uint32_t)n;
    }
    p.raw_bytes &= ~7u;
    if (slave_pack_decode(pack, &p, raw, NULL) == 0)
        round_trip(p.raw_bytes);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

static uint8_t input[SLAVE_PACK_OUT_MAX + 8];

/* A block of records as programs write them, some of its bytes changed. */
static void generate(unsigned seed)
{
    size_t used = 0, max = 256 + (size_t)rand_r(&seed) % 8192;
    struct slave_frame *f = NULL;
    for (uint32_t stream = 0; used + 128 < max;) {
        if (!f || rand_r(&seed) % 30 == 0) {
            f = (void *)(raw + used);
            *f = (struct slave_frame){.stream = stream++};
            used += sizeof(*f);
        }
        uint32_t type = 1 + (uint32_t)rand_r(&seed) % 30, words = 9;
        uint64_t w[9] = {type | words << 8 |
                         (uint64_t)(rand_r(&seed) % 4) << 32};
        for (uint32_t i = 1; i < words - 1; i++)
            w[i] = (uint64_t)rand_r(&seed) >> rand_r(&seed) % 32;
        size_t n = ips_rec_check_and_get_length(w, sizeof(w));
        memcpy(raw + used, w, n);
        used += n;
        f->bytes += (uint32_t)n;
        f->records += n != 0;
    }
    struct slave_packed p;
    if (slave_pack_encode(pack, raw, used, 3, &p, NULL) < 0)
        abort();
    size_t n = p.bytes;
    uint32_t sizes[2] = {p.plain_bytes * 2, p.raw_bytes};
    memcpy(input + 8, p.data, n);
    if (seed % 3) { /* behind zstd */
        n = ZSTD_decompress(input + 8, sizeof(input) - 8, p.data, p.bytes);
        if (ZSTD_isError(n))
            abort();
        sizes[0] |= 1;
    }
    for (int i = rand_r(&seed) % 4; i > 0; i--)
        input[8 + (size_t)rand_r(&seed) % n] = (uint8_t)rand_r(&seed);
    if (seed % 7 == 0)
        sizes[1] = (uint32_t)rand_r(&seed) % (4u << 20);
    memcpy(input, sizes, sizeof(sizes));
    LLVMFuzzerTestOneInput(input, n + 8);
}

int main(int argc, char **argv)
{
    int status;
    pack = slave_pack_new();
    if (!pack)
        return 1;
    status = fuzz_replay(argc, argv);
    for (unsigned seed = 1; argc < 2 && seed <= 3000; seed++)
        generate(seed);
    slave_pack_free(pack);
    return status;
}
#endif
