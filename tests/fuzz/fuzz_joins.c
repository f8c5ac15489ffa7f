/*
 * Fuzz target: whatever a slave says its joins or moments are, the master
 * answers or refuses. libFuzzer where it is linked; else main() replays the
 * files named, or with none, damages the joins of random graphs.
 *
 * The first byte says what they are and how many parts; then each part: two
 * bytes of its length, and its bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/joins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTS 3u
#define ENDS 4u

static bool ignore(void *arg, uint32_t from, uint64_t sent, uint32_t to,
                   uint64_t received)
{
    (void)arg;
    return from <= PARTS && to <= PARTS && sent <= UINT64_MAX &&
           received <= UINT64_MAX;
}

static void solve(const struct ips_machine_joins *parts, uint32_t n, bool wall)
{
    struct ips_scenario lane = {.message_time = {7, 1ULL << 31, 1, 1},
                                .weighting =
                                    wall ? IPS_WEIGH_WALL : IPS_WEIGH_CPU};
    struct ips_joined j;
    struct ips_path_section *visit;
    uint64_t count;
    uint32_t blame;
    if (ips_joined_decode_and_solve(parts, n, &lane, &j, &blame, NULL) < 0) {
        if (blame > n)
            abort();
        return;
    }
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t k = 0; k < ips_joined_count_receives_of_machine(&j, p);
             k++)
            (void)ips_joined_get_value_of_receive(&j, p, k);
    }
    if (ips_joined_list_path_sections(&j, &visit, &count, NULL) == 0)
        free(visit);
    ips_joined_release(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ips_peer_end peer[PARTS][ENDS] = {
        {{1, 0}, {2, 0}, {1, 1}, {UINT32_MAX, 0}},
        {{0, 0}, {0, 2}, {2, 1}, {9, 9}},
        {{0, 1}, {1, 2}, {2, 3}, {2, 2}}};
    struct ips_machine_joins parts[PARTS] = {{0}};
    uint8_t *copy[PARTS] = {NULL};
    uint32_t n = 0;
    unsigned what = size ? data[0] : 0;
    uint32_t blame;
    for (size_t at = 1; n < PARTS && at + 2 <= size; n++) {
        size_t len = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        len = len < size - at ? len : size - at;
        copy[n] = calloc(len + IPS_JOINS_PAD, 1);
        if (!copy[n])
            abort();
        memcpy(copy[n], data + at, len);
        parts[n] =
            (struct ips_machine_joins){copy[n], len, 1000, peer[n], ENDS};
        at += len;
    }
    if (what % 3 == 2)
        (void)!ips_joins_pair_message_times(parts, n, ignore, NULL, &blame,
                                            NULL);
    else
        solve(parts, n, what % 3 == 1);
    for (uint32_t p = 0; p < n; p++)
        free(copy[p]);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

#include "tests/support/random_graph.h"

/* The parts of a random graph behind each other, as above. */
static size_t make(const struct rg *r, unsigned what, uint8_t *out, size_t cap)
{
    struct ips_scenario lane = {.message_time = {7, 1ULL << 31, 1, 1},
                                .weighting =
                                    what == 1 ? IPS_WEIGH_WALL : IPS_WEIGH_CPU};
    size_t n = 1;
    out[0] = (uint8_t)what;
    for (uint32_t m = 0; m < r->machines && m < PARTS; m++) {
        struct ips_joins j;
        int rc =
            what == 2
                ? ips_joins_encode_send_receive_times(&r->part[m], &j, NULL)
                : ips_joins_compute_and_encode(&r->part[m], &lane, &j, NULL);
        size_t len = rc == 0 ? j.head.len + j.arcs.len : 0;
        if (rc < 0 || n + len + 2 > cap)
            abort();
        out[n++] = (uint8_t)len;
        out[n++] = (uint8_t)(len >> 8);
        memcpy(out + n, j.head.data, j.head.len);
        if (j.arcs.len)
            memcpy(out + n + j.head.len, j.arcs.data, j.arcs.len);
        n += len;
        ips_joins_release(&j);
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t data[1 << 17];
    uint64_t s = 4711;
    int status = fuzz_replay(argc, argv);
    for (uint64_t seed = 1; argc == 1 && seed <= 300; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        opt.steps %= 200;
        rg_make(&opt, &r);
        rg_give_times(&r.whole, seed);
        for (uint32_t m = 0; m < r.machines; m++)
            rg_split_times(&r, m, 5);
        for (unsigned k = 0; k < 60; k++) {
            size_t n = make(&r, k % 3, data, sizeof(data));
            for (uint32_t d = rg_below(&s, 5); d > 0; d--)
                data[1 + rg_below(&s, (uint32_t)n - 1)] =
                    (uint8_t)rg_random(&s);
            LLVMFuzzerTestOneInput(data, n - rg_below(&s, (uint32_t)n / 8 + 1));
        }
        rg_release(&r);
    }
    return status;
}
#endif
