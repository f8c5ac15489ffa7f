/*
 * Fuzz target: whatever bytes a segment file has, the drain's reader copies,
 * grades and ends. libFuzzer where it is linked; else main() replays the files
 * named, or with none, generates segments from a fixed seed: random bytes
 * behind a good header, and well-formed records with some bytes changed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/pool/pool.h"
#include "tests/support/segment_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A good header, then the input. */
static _Alignas(8) struct {
    struct ips_segment_header head;
    uint8_t data[1u << 18];
} made;

/* Steps over a reservation, as if its writer were dead. */
static void skip(struct segment_reader *r)
{
    uint8_t head[4] = {0};
    if (slave_pread_without_eintr(r->seg.fd, head, sizeof(head),
                                  r->seg.row.at) != sizeof(head))
        abort();
    r->seg.row.at += (uint32_t)record_bytes_from_head_word(
        slave_read_record_head_word(head));
}

/* Reads to the end as the drain does, by pread or by a mapping; the records
 * given out must be whole. */
static void walk(int fd, size_t size, size_t most)
{
    static struct segment_reader r;
    enum slave_segment_stop stop = SLAVE_STOP_WRONG;
    if (segment_reader_open(&r, fd, most, NULL) == 0)
        stop = SLAVE_STOP_MORE;
    for (size_t steps = 0;
         stop == SLAVE_STOP_MORE || stop == SLAVE_STOP_PENDING; steps++) {
        uint32_t at = r.seg.row.at, records = 0;
        stop = segment_reader_next(&r);
        for (uint32_t i = 0; i < r.len; records++) {
            size_t n = ips_rec_check_and_get_length(r.data + i, r.len - i);
            if (n == 0)
                abort();
            i += (uint32_t)n;
        }
        if (records != r.records || r.seg.row.at != at + r.len)
            abort();
        if (stop == SLAVE_STOP_PENDING)
            skip(&r);
        if (r.seg.row.at > size || steps > size)
            abort();
    }
    slave_guarded_close(&r.seg.mapping); /* its buffers are used again */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size -= size % 8;
    if (size > sizeof(made.data))
        return 0;
    ips_rec_check_and_get_length(data, size);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size)
        walk(fd, size, SLAVE_LOOK_FIRST_BYTES);
    made.head.magic = IPS_SEGMENT_MAGIC;
    made.head.version = IPS_POOL_VERSION;
    made.head.header_bytes = sizeof(made.head);
    made.head.segment_bytes = (uint32_t)(sizeof(made.head) + size);
    memcpy(made.data, data, size);
    size += sizeof(made.head);
    if (pwrite(fd, &made, size, 0) == (ssize_t)size) {
        walk(fd, size, SLAVE_LOOK_FIRST_BYTES);
        walk(fd, size, SLAVE_READ_BYTES);
    }
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
    if (seed % 4 == 0) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (unsigned char)rand_r(&seed);
    } else {
        for (size_t at = 0; at + 8 <= size;) { /* the last one may not fit */
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
