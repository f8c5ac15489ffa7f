/*
 * Fuzz target: whatever bytes a segment file has, the reader copies, grades
 * and ends. libFuzzer where it is linked; else main() replays the files named,
 * or with none, generates segments from a fixed seed: random bytes behind a
 * good header, and well-formed records with some bytes changed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Alignas(8) unsigned char copy[1u << 18];

/* Reads to the end as a slave does; a record given out must be whole. */
static void walk(const void *base, size_t size)
{
    static _Alignas(8) unsigned char rec[IPS_REC_MAX_BYTES];
    struct ips_cursor c;
    if (ips_cursor_init(&c, base, size, NULL) < 0)
        return;
    for (size_t steps = 0;; steps++) {
        size_t len = 0, before = c.at;
        enum ips_cursor_answer a = ips_cursor_next(&c, rec, &len);
        if (a == IPS_CURSOR_PENDING)
            a = ips_cursor_skip(&c);
        else if (a == IPS_CURSOR_MORE && ips_rec_check(rec, len) != len)
            abort();
        if (a != IPS_CURSOR_MORE)
            return;
        if (c.at <= before || c.at > size || steps > size)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size -= size % 8;
    if (size > sizeof(copy))
        return 0;
    memcpy(copy, data, size);
    walk(copy, size);
    ips_rec_check(data, size);
    if (size <= sizeof(struct ips_segment_header))
        return 0;
    /* The same by way of a file, and where its header says it is good. */
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    struct ips_segment_header *h = (void *)copy;
    h->magic = IPS_SEGMENT_MAGIC;
    h->version = IPS_POOL_VERSION;
    h->header_bytes = sizeof(*h);
    h->segment_bytes = (uint32_t)size;
    if (write(fd, copy, size) == (ssize_t)size &&
        ips_segment_read(fd, copy, size, sizeof(*h), NULL) == 0)
        walk(copy, size);
    close(fd);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

static void generate(unsigned seed)
{
    static _Alignas(8) unsigned char bytes[1u << 17];
    size_t size = 256 + (size_t)rand_r(&seed) % (sizeof(bytes) - 256);
    size -= size % 8;
    memset(bytes, 0, size);
    ((struct ips_segment_header *)(void *)bytes)->state = 1 + seed % 3;
    if (seed % 4 == 0) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)rand_r(&seed);
    } else {
        for (size_t at = 256; at + 8 <= size;) { /* the last one may not fit */
            uint32_t words = 2 + (uint32_t)rand_r(&seed) % 127;
            uint32_t word = (1 + (uint32_t)rand_r(&seed) % 24) | words << 8;
            memcpy(bytes + at, &word, sizeof(word));
            at += words * 8u;
        }
        for (int i = rand_r(&seed) % 4; i > 0; i--)
            bytes[(size_t)rand_r(&seed) % size] = (unsigned char)rand_r(&seed);
    }
    LLVMFuzzerTestOneInput(bytes, size);
}

int main(int argc, char **argv)
{
    int status = fuzz_replay(argc, argv);
    for (unsigned seed = 1; argc < 2 && seed <= 2000; seed++)
        generate(seed);
    return status;
}
#endif
