/*
 * Fuzz target: whatever streams of records a pool holds, as long as each record
 * is one by ips_rec_check_and_get_length, building ends with an error or with a
 * graph that ips_graph_check_invariants accepts, before and after its peers are
 * settled, and so do the procedures. An input is streams, each 32 bytes (pid,
 * tid, image, records' bytes, dead, lost) and records. libFuzzer where it is
 * linked; else main() replays the files named, or with none, generated streams
 * whose numbers are small enough to meet.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/pool.h"
#include "slave/build/build.h"
#include "slave/symbols/procs.h"
#include "tests/support/check_waits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STREAMS 16u
#define ENDS 256u

struct stream_head {
    uint32_t pid, tid, image, bytes, dead, lost, stamp, reserved;
};

static void settle(struct ips_built *b)
{
    struct ips_peer_row rows[ENDS] = {{0}};
    struct ips_err err = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->end_count && n < ENDS; i++)
        if (b->ends[i].peer == IPS_PEER_UNKNOWN) {
            rows[n].end = i;
            rows[n].traced = i % 3 == 0;
            rows[n].peer_sent_bytes = i * 7;
            rows[n++].peer_closed = i % 2;
        }
    if (ips_built_set_peers_and_remake_arcs(b, rows, n, &err) == 0 &&
        ips_graph_check_invariants(&b->g, &err) < 0)
        abort();
}

static void build(struct ips_build_input *in)
{
    struct ips_wait_rows waits = {0};
    struct ips_built b;
    struct ips_procs procs;
    struct ips_err err = {0};
    in->waits = &waits;
    if (ips_build(in, &b, &err) < 0) {
        ips_wait_rows_release(&waits);
        return;
    }
    if (ips_graph_check_invariants(&b.g, &err) < 0 ||
        check_waits(&b, &waits, in->control->locks))
        abort();
    ips_wait_rows_release(&waits);
    if (ips_procs_make_profile_by_code_location(in, &b, &procs, &err) == 0)
        ips_procs_release(&procs);
    settle(&b);
    ips_built_release(&b);
}

/* Records are looked at as words: each stream in room of its own, so that a
 * read beyond it is seen. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ips_control control;
    struct ips_stream_in streams[STREAMS];
    struct ips_chunk chunks[STREAMS];
    void *room[STREAMS];
    uint32_t n = 0;
    control.clock.kind = IPS_CLOCK_RAW;
    control.locks = size % 2 ? IPS_LOCKS_ALL : IPS_LOCKS_CONTENDED;
    while (n < STREAMS && size >= sizeof(struct stream_head)) {
        struct stream_head h;
        memcpy(&h, data, sizeof(h));
        data += sizeof(h);
        size -= sizeof(h);
        size_t bytes = (h.bytes < size ? h.bytes : size) & ~(size_t)7, at = 0;
        uint8_t *copy = malloc(bytes + 8), *exact;
        if (!copy)
            break;
        memcpy(copy, data, bytes);
        for (size_t len;
             (len = ips_rec_check_and_get_length(copy + at, bytes - at));)
            at += len;
        if (!(exact = malloc(at + !at))) {
            free(copy);
            break;
        }
        memcpy(exact, copy, at);
        free(copy);
        room[n] = exact;
        chunks[n] = (struct ips_chunk){.data = room[n], .len = at};
        streams[n] = (struct ips_stream_in){.chunks = &chunks[n],
                                            .chunk_count = 1,
                                            .dead = h.dead & 1,
                                            .dead_status = h.dead >> 8,
                                            .dead_t_ns = h.dead};
        streams[n].lost[h.lost % IPS_LOST_COUNT] = h.lost >> 8;
        streams[n].head.pid = h.pid;
        streams[n].head.tid = h.tid;
        streams[n].head.image_stamp = h.image;
        streams[n].head.stream_stamp = h.stamp;
        streams[n].head.clock.kind = IPS_CLOCK_RAW;
        n++;
        data += bytes;
        size -= bytes;
    }
    struct ips_build_input in = {
        .control = &control, .streams = streams, .stream_count = n};
    build(&in);
    for (uint32_t i = 0; i < n; i++)
        free(room[i]);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

static _Alignas(8) uint8_t input[64u << 10];

/* Small numbers, so that pids, channels, times and sequences are the same. */
static uint64_t word(unsigned *seed)
{
    unsigned r = (unsigned)rand_r(seed);
    switch (r % 8) {
    case 0:
        return 0;
    case 1:
        return (uint64_t)rand_r(seed) << 33 | (unsigned)rand_r(seed);
    case 2:
        return UINT64_MAX - r % 5;
    case 3:
        return (uint64_t)(r / 8 % 4) << 32 | r / 64 % 4;
    case 4:
        return r / 8 % 100000;
    default:
        return r / 8 % 5;
    }
}

static size_t records(unsigned *seed, uint8_t *out, uint32_t stream)
{
    size_t used = 0, count = 1 + (unsigned)rand_r(seed) % 40;
    uint64_t t = (unsigned)rand_r(seed) % 5000;
    for (size_t i = 0; i < count; i++) {
        uint64_t w[20];
        uint32_t type =
            i == 0 ? IPS_REC_START : 1 + (uint32_t)rand_r(seed) % 31;
        t += (unsigned)rand_r(seed) % 3000;
        for (unsigned k = 0; k < 20; k++)
            w[k] = word(seed);
        w[1] = rand_r(seed) % 16 ? t : w[1];
        if (rand_r(seed) % 4) /* t_ret, cpu, cpu_ret of an interval */
            for (unsigned k = 2; k < 5; k++)
                w[k] = t + (unsigned)rand_r(seed) % 5000 * (k == 2);
        size_t len = 0;
        for (uint64_t words = 2; words <= 20 && !len; words++) {
            w[0] = type | words << 8 |
                   (uint64_t)((unsigned)rand_r(seed) % 6 + stream % 2) << 32;
            len = ips_rec_check_and_get_length(w, sizeof(w));
        }
        memcpy(out + used, w, len);
        used += len;
    }
    return used;
}

static void generate(unsigned seed)
{
    size_t used = 0;
    uint32_t streams = 1 + (uint32_t)rand_r(&seed) % 6;
    for (uint32_t i = 0; i < streams; i++) {
        struct stream_head h = {.pid = 1 + (uint32_t)rand_r(&seed) % 3,
                                .tid = 1 + (uint32_t)rand_r(&seed) % 4,
                                .image = (uint32_t)rand_r(&seed) % 2,
                                .dead = (uint32_t)word(&seed),
                                .lost = (uint32_t)word(&seed),
                                .stamp = (uint32_t)rand_r(&seed) % 5000};
        size_t at = used + sizeof(h);
        h.bytes = (uint32_t)records(&seed, input + at, i);
        memcpy(input + used, &h, sizeof(h));
        used = at + h.bytes;
    }
    LLVMFuzzerTestOneInput(input, used);
}

int main(int argc, char **argv)
{
    int rc = fuzz_replay(argc, argv);
    for (unsigned seed = 1; argc == 1 && seed <= 5000; seed++)
        generate(seed);
    return rc;
}
#endif
